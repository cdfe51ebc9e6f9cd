"""Draw cross-attention as a heat map: the source tokens that the decoder attended to at each target token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import numpy as np

from nmt.base.errors import printable
from nmt.evaluation.plots.drawing import drawing, require_svg, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

# Lengths in inches, font sizes in points.
_CELL = 0.34  # side of a cell
_FONT_SIZE = 10.0
_ANGLE = 55  # degrees, of source tokens
_MARGIN = 0.12
_BAR_GAP = 0.2
_BAR_WIDTH = 0.14
_MIN_BAR_HEIGHT = 1.2  # of the color bar, if the map is lower
_WIDENED = 0.065  # how much wider a Chinese character at _FONT_SIZE is than the box that stands for it here


def draw_attention(weights: ArrayLike, src_tokens: list[str], tgt_tokens: list[str], path: Path | str) -> None:
    """Write the heat map of `weights` [T, S] to `path`: source tokens along the top, target tokens down the side.

    `weights` are shares of attention (numpy array or nested lists; rows are target tokens). The darkest color is the
    largest weight in the plot. Text stays text, for the reader's fonts. NmtError for a suffix other than .svg.
    """
    require_svg(path)
    matrix = np.asarray(weights, dtype=float)
    src, tgt = [printable(token) for token in src_tokens], [printable(token) for token in tgt_tokens]
    with drawing():
        figure = _draw_map(matrix)
        axes = figure.axes[0]
        text: dict[str, Any] = {
            "fontsize": _FONT_SIZE,
            "fontfamily": ["sans-serif"],
            "parse_math": False,  # `$` stays a dollar sign
        }
        slanted: dict[str, Any] = {"rotation": _ANGLE, "rotation_mode": "anchor", "ha": "left", "va": "center"}
        axes.set_xticks(np.arange(len(src)) + 0.5, src, **text, **slanted)
        axes.set_yticks(np.arange(len(tgt)) + 0.5, tgt, **text)
        # The reader may have a font with wide characters, where the fonts here have narrow boxes.
        num_wide = max(sum(east_asian_width(char) in "WF" for char in token) for token in (*src, *tgt))
        save_picture(figure, path, margin=_MARGIN + _WIDENED * num_wide)


def _draw_map(matrix: np.ndarray) -> Figure:
    """Return a figure that the map fills, with its color bar, which is outside of it on the right."""
    from matplotlib.figure import Figure

    height, width = _CELL * matrix.shape[0], _CELL * matrix.shape[1]
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    mesh = axes.pcolormesh(matrix, cmap="Blues", vmin=0.0, vmax=matrix.max() or 1.0, edgecolors="white", linewidth=0.6)
    axes.invert_yaxis()  # first target token on top
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4)
    axes.spines[:].set_visible(False)
    bar_height = max(1.0, _MIN_BAR_HEIGHT / height)
    bar = figure.add_axes((1 + _BAR_GAP / width, 1 - bar_height, _BAR_WIDTH / width, bar_height))
    figure.colorbar(mesh, cax=bar, label="attention weight").outline.set_visible(False)
    bar.tick_params(labelsize=8, labelfontfamily="sans-serif")
    return figure
