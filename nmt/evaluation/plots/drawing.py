"""Shared by all plots: formats, fonts that have every character, matplotlib's own settings, atomic saving."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import NmtError
from nmt.base.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
_PNG_DPI = 150  # dots per inch
# For SVG: the viewer uses the first font it has, and falls back to others for missing characters.
SVG_FAMILIES = ["DejaVu Sans", "Arial", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"]

PREFERRED_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "Heiti SC", "SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans CJK JP"),
    *("Hiragino Sans", "Yu Gothic", "Malgun Gothic", "Apple SD Gothic Neo", "Arial Unicode MS", "Noto Sans"),
)
# Fonts that claim to have a character but draw something else: boxes, formula parts, color bitmaps.
_UNFIT = ("Last Resort", "LastResort", "cm", "STIX", ".")
_MAX_NAMED = 12  # characters in an error message


def picture_format(path: Path | str) -> str:
    """Return `svg` or `png` according to the suffix of `path`. NmtError for any other suffix."""
    name = Path(path).suffix.lower().removeprefix(".")
    if name not in FORMATS:
        raise NmtError("plots are written as .svg or .png", path=path, hint="use a name ending in .svg or .png")
    return name


@contextmanager
def drawing() -> Iterator[None]:
    """Draw and save inside this context: matplotlib's defaults, text kept as text in SVG, no warnings about fonts.

    The reader of an SVG may have fonts that are not installed here. For PNG, `families_covering` checks the
    fonts beforehand. Settings, warnings and logging are restored afterwards.
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


def save_picture(figure: Figure, path: Path | str, margin: float | None = None) -> None:
    """Write `figure` to `path` in the format of its suffix, atomically and reproducibly.

    With `margin` (inches), the picture is what was drawn, with this margin around it, instead of the figure's area.
    """
    name = picture_format(path)
    area = None if margin is None else "tight"
    metadata = {"Date": None} if name == "svg" else None
    with write_atomically(Path(path)) as partial:
        figure.savefig(partial, format=name, dpi=_PNG_DPI, metadata=metadata, bbox_inches=area, pad_inches=margin)


def installed_families() -> list[str]:
    """Return the names of the font families that matplotlib can use here, best-looking first."""
    from matplotlib.font_manager import fontManager

    names = {entry.name for entry in fontManager.ttflist}
    fit = {name for name in names if not name.startswith(_UNFIT) and "Emoji" not in name}
    return [name for name in PREFERRED_FONTS if name in fit] + sorted(fit.difference(PREFERRED_FONTS))


def characters_of(family: str) -> set[str]:
    """Return the characters of the upright font of `family`; empty if its file cannot be read."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        font = get_font(findfont(FontProperties(family=[family]), fallback_to_default=False))
    except (OSError, RuntimeError, ValueError):
        return set()
    return {chr(code) for code in font.get_charmap()} if font.scalable else set()


def families_covering(texts: Iterable[str]) -> list[str]:
    """Return installed families that together have every character of `texts`, the main one first.

    NmtError lists the characters that no installed font has.
    """
    missing = {character for text in texts for character in text if not character.isspace()}
    chosen: list[str] = []
    for attempt in range(2):
        if attempt:  # matplotlib caches its list forever, and would not see newly installed fonts
            _find_new_fonts()
        for family in installed_families():
            if not chosen or missing & characters_of(family):
                chosen.append(family)
                missing -= characters_of(family)
        if not missing:
            return chosen
    named = " ".join(sorted(missing)[:_MAX_NAMED]) + (" …" if len(missing) > _MAX_NAMED else "")
    hint = "write to a file ending in .svg, or install a font with these characters, such as Noto Sans CJK"
    raise NmtError(f"no installed font has these characters: {named}", hint=hint)


def _find_new_fonts() -> None:
    """Register font files installed after matplotlib cached its list."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in set(findSystemFonts()) - known:
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError, ValueError):
            continue  # not a font matplotlib can use
