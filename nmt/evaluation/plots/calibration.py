"""Draw the calibration of a model: the chrF that it expects of its translations beside their chrF."""

from __future__ import annotations

from io import StringIO

from nmt.evaluation.details import Grouping
from nmt.evaluation.plots.drawing import drawing

_EXPECTED, _TRUE = "#9db8d2", "#c8641e"


def draw_calibration(grouping: Grouping) -> str:
    """Return a grouping by expected chrF as SVG for a page: the means of each bin, and the diagonal."""
    from matplotlib.figure import Figure

    points = [(group.scores["expected"], group.scores["chrF"]) for group in grouping.groups]
    expected, chrf = zip(*points, strict=True)
    with drawing():
        figure = Figure(figsize=(4.5, 4), layout="constrained")
        axes = figure.add_subplot()
        ends = [max(0.0, min(expected + chrf) - 5), min(100.0, max(expected + chrf) + 5)]
        axes.plot(ends, ends, color=_EXPECTED, linewidth=1.2, label="as expected")
        axes.plot(expected, chrf, color=_TRUE, linewidth=1.6, marker="o", markersize=5, label="tenths of the sentences")
        axes.set(xlabel="expected chrF", ylabel="chrF", xlim=ends, ylim=ends, aspect="equal")
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=9)
        picture = StringIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue().partition("<svg")[2].join(("<svg", ""))
