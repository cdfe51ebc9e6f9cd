"""Shared by all plots: formats, drawing without the user's matplotlib settings, atomic saving."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import NmtError
from nmt.base.files import write_atomically
from nmt.evaluation.plots.fonts import SVG_FAMILIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
_PNG_DPI = 150  # dots per inch


def picture_format(path: Path | str) -> str:
    """Return `svg` or `png` according to the suffix of `path`. NmtError for any other suffix."""
    name = Path(path).suffix.lower().removeprefix(".")
    if name not in FORMATS:
        raise NmtError("plots are written as .svg or .png", path=path, hint="use a name ending in .svg or .png")
    return name


@contextmanager
def drawing() -> Iterator[None]:
    """Draw and save inside this context: matplotlib's defaults, text kept as text in SVG, no warnings about fonts.

    The reader of an SVG may have fonts that are not installed here. For PNG, the module `fonts` checks the fonts
    beforehand. Settings, warnings and logging are restored afterwards.
    """
    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    with warnings.catch_warnings(), matplotlib.rc_context():
        # Not rcdefaults(), which would also choose a backend for the importing program.
        for key, value in matplotlib.rcParamsDefault.items():
            if not key.startswith(("backend", "interactive", "toolbar", "webagg", "date.", "animation")):
                matplotlib.rcParams[key] = value
        matplotlib.rcParams["svg.fonttype"] = "none"
        matplotlib.rcParams["svg.hashsalt"] = "nmt"
        matplotlib.rcParams["font.sans-serif"] = SVG_FAMILIES
        warnings.filterwarnings("ignore", message=r"Glyph .* missing", category=UserWarning)
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def save_picture(figure: Figure, path: Path | str) -> None:
    """Write `figure` to `path` in the format of its suffix, atomically and reproducibly."""
    name = picture_format(path)
    metadata = {"Date": None} if name == "svg" else None
    with write_atomically(Path(path)) as partial:
        figure.savefig(partial, format=name, dpi=_PNG_DPI, metadata=metadata)
