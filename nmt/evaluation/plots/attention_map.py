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
_CELL = 0.34  # height of a row
_MAX_CELL_WIDTH = 0.8  # cells widen up to this width so that source tokens can be horizontal
_MAX_SIDE = 40.0  # of the map; in larger maps, cells and labels shrink
_FONT_SIZE = 10.0
_READABLE = 5.0
_NARROW, _WIDE = 0.08, 0.145  # a Latin letter and a Chinese character at _FONT_SIZE
_ANGLE = 55  # degrees; for source tokens that cannot be horizontal
_MARGIN, _PAD, _BAR_GAP, _BAR_WIDTH = 0.12, 0.09, 0.2, 0.14
_BAR_HEIGHT = 2.4  # maximum height of the color bar
_MIN_HEIGHT = 1.2  # minimum height of the color bar, if the map is lower
_MAX_DRAWN = 16_384  # maximum number of cells drawn one by one; larger maps are images, to save tens of MB


def draw_attention(weights: ArrayLike, src_tokens: list[str], tgt_tokens: list[str], path: Path | str) -> list[str]:
    """Write the heat map of `weights` [T, S] to `path`: source tokens along the top, target tokens down the side.

    `weights` are shares of attention (numpy array or nested lists; rows are target tokens). The darkest color is the
    largest weight in the plot. Text stays text, for the reader's fonts. NmtError for a suffix other than .svg.
    Returns warnings for the user, such as about labels too small to read.
    """
    require_svg(path)
    matrix = np.asarray(weights, dtype=float)
    src, tgt = [printable(token) for token in src_tokens], [printable(token) for token in tgt_tokens]
    label_width = max(map(_text_width, src)) + 2 * _PAD
    cell_width = label_width if _CELL <= label_width <= _MAX_CELL_WIDTH else _CELL
    scale = min(1.0, _MAX_SIDE / max(cell_width * len(src), _CELL * len(tgt)))
    size = cell_width * len(src) * scale, _CELL * len(tgt) * scale
    font_size = _FONT_SIZE * scale
    with drawing():
        text: dict[str, Any] = {
            "fontsize": font_size,
            "fontfamily": ["sans-serif"],
            "parse_math": False,  # `$` stays a dollar sign
        }
        figure = _figure(matrix, size, text["fontfamily"])
        axes = figure.axes[0]
        slanted: dict[str, Any] = {"rotation": _ANGLE, "rotation_mode": "anchor", "ha": "left", "va": "center"}
        placed = {"ha": "center", "va": "baseline"} if label_width <= _MAX_CELL_WIDTH else slanted
        axes.set_xticks([i + 0.5 for i in range(len(src))], src, **text, **placed)
        axes.set_yticks([i + 0.5 for i in range(len(tgt))], tgt, **text)
        # The reader may have a font with wide characters, where the fonts here have narrow boxes.
        num_wide = max(sum(map(_is_wide, token)) for token in (*src, *tgt))
        save_picture(figure, path, margin=_MARGIN + (_WIDE - _NARROW) * scale * num_wide)
    if font_size >= _READABLE:
        return []
    longest = max(len(src), len(tgt))
    return [f"{longest} tokens on a side leave labels of {font_size:.1f} points; zoom in, or plot a shorter sentence"]


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"


def _text_width(text: str) -> float:
    """Estimate the width of `text` in inches at _FONT_SIZE; the reader's fonts are unknown."""
    return sum(_WIDE if _is_wide(character) else _NARROW for character in text)


def _figure(matrix: np.ndarray, size: tuple[float, float], families: list[str]) -> Figure:
    """Return the map, which fills a figure of `size`, and its color bar, which is outside of it on the right."""
    from matplotlib.figure import Figure

    figure, (width, height) = Figure(figsize=size), size
    axes = figure.add_axes((0, 0, 1, 1))
    mesh = axes.pcolormesh(matrix, cmap="Blues", vmin=0.0, vmax=matrix.max() or 1.0, edgecolors="white", linewidth=0.6)
    mesh.set_rasterized(matrix.size > _MAX_DRAWN)
    axes.set_ylim(len(matrix), 0)  # first target token on top
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4)
    axes.spines[:].set_visible(False)
    bar_height = min(max(height, _MIN_HEIGHT), _BAR_HEIGHT) / height
    bar = figure.add_axes((1 + _BAR_GAP / width, 1 - bar_height, _BAR_WIDTH / width, bar_height))
    figure.colorbar(mesh, cax=bar)
    bar.tick_params(labelsize=8, width=0.6, length=3, labelfontfamily=families, color="0.4", labelcolor="0.25")
    bar.set_ylabel("attention weight", fontsize=8, fontfamily=families, color="0.25")
    bar.spines["outline"].set_visible(False)
    return figure
