"""Shared by all plots: their format, matplotlib's own settings, fonts for every script, atomic saving."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import NmtError
from nmt.base.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 150  # dots per inch of images in a plot, such as a color bar
# The viewer uses the first font it has, and falls back to others for missing characters.
FAMILIES = ["DejaVu Sans", "Arial", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"]


def require_svg(path: Path | str) -> None:
    """Raise NmtError unless `path` ends in .svg, which keeps text as text, for the fonts of the reader."""
    if Path(path).suffix.lower() != ".svg":
        raise NmtError("plots are written as .svg", path=path, hint="use a name ending in .svg")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw and save inside this context: matplotlib's defaults, text kept as text, no warnings about fonts.

    The reader may have fonts that are not installed here. Settings, warnings and logging are restored afterwards.
    """
    import matplotlib.style

    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    settings = {"svg.fonttype": "none", "svg.hashsalt": "nmt", "font.sans-serif": FAMILIES}
    with warnings.catch_warnings(), matplotlib.style.context(["default", settings]):
        warnings.filterwarnings("ignore", message=r"Glyph .* missing", category=UserWarning)
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def save_picture(figure: Figure, path: Path | str, margin: float | None = None) -> None:
    """Write `figure` to `path`, atomically and reproducibly.

    With `margin` (inches), the picture is what was drawn, with this margin around it, instead of the figure's area.
    """
    area = None if margin is None else "tight"
    with write_atomically(Path(path)) as partial:
        figure.savefig(partial, format="svg", dpi=_DPI, metadata={"Date": None}, bbox_inches=area, pad_inches=margin)
