"""Draw cross-attention as a heat map: the source tokens that the decoder attended to at each target token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import east_asian_width

from nmt.base.errors import NmtError, printable
from nmt.evaluation.plots.drawing import drawing, families_covering, picture_format, save_picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lengths in inches, font sizes in points.
_CELL = 0.34  # height of a row
_MAX_CELL_WIDTH = 0.8  # cells widen up to this width so that source tokens can be horizontal
_MAX_SIDE = 40.0  # of the map; in larger maps, cells and labels shrink
_FONT_SIZE = 10.0
_READABLE = 5.0
_NARROW, _WIDE = 0.08, 0.145  # a Latin letter and a Chinese character at _FONT_SIZE
_ANGLE = 55  # degrees; for source tokens that cannot be horizontal
_MARGIN, _PAD, _BAR_GAP, _BAR_WIDTH, _BAR_LABELS = 0.12, 0.09, 0.2, 0.14, 0.65
_BAR_HEIGHT = 2.4  # maximum height of the color bar
_MAX_DRAWN = 16_384  # maximum number of cells drawn one by one in an SVG; larger maps are images, to save tens of MB
_MIN_HEIGHT = 1.2  # minimum height of the color bar, if the map is lower


class _Sizes(NamedTuple):
    """The layout of the figure, in inches from the left and the bottom."""

    width: float
    height: float
    left: float  # of the map
    bottom: float
    map_width: float
    map_height: float
    font_size: float  # points
    angle: int  # of the source tokens, degrees


def draw_attention(
    weights: Any, src_tokens: list[str], tgt_tokens: list[str], path: Path | str, *, title: str = ""
) -> list[str]:
    """Write the heat map of `weights` [T, S] to `path`: source tokens along the top, target tokens down the side.

    `weights` are shares of attention (numpy array or nested lists; rows are target tokens). The darkest color is the
    largest weight in the plot. `.svg` keeps text as text, for the reader's fonts. `.png` needs installed fonts with
    every character, else NmtError lists the missing ones. NmtError also for other suffixes, weights that do not match
    the tokens, and weights that are not finite. Returns warnings for the user, such as about labels too small to read.
    """
    name = picture_format(path)
    matrix = _checked(weights, len(tgt_tokens), len(src_tokens))
    src, tgt = [printable(token) for token in src_tokens], [printable(token) for token in tgt_tokens]
    title = printable(title)
    with drawing():
        families = ["sans-serif"] if name == "svg" else families_covering([*src, *tgt, title])
        sizes = _layout(src, tgt, title)
        save_picture(_figure(matrix, src, tgt, title, sizes, families), path)
    if sizes.font_size >= _READABLE:
        return []
    longest = max(len(src), len(tgt))
    return [
        f"{longest} tokens on a side leave labels of {sizes.font_size:.1f} points; zoom in, or plot a shorter sentence"
    ]


def _checked(weights: Any, num_tgt: int, num_src: int) -> np.ndarray:
    import numpy as np

    matrix = np.asarray(weights, dtype=float)
    if matrix.shape != (num_tgt, num_src):
        raise NmtError(
            f"attention weights of shape {list(matrix.shape)} for {num_tgt} target and {num_src} source tokens"
        )
    if matrix.size == 0:
        raise NmtError("no attention to draw: a side has no tokens")
    if not np.isfinite(matrix).all():
        raise NmtError("the attention weights are not all finite (nan, inf)")
    return matrix


def _text_width(text: str) -> float:
    """Estimate the width of `text` in inches at _FONT_SIZE; the reader's fonts for an SVG are unknown."""
    return sum(_WIDE if east_asian_width(c) in "WF" else _NARROW for c in text)


def _layout(src: list[str], tgt: list[str], title: str) -> _Sizes:
    longest_src, longest_tgt = max(map(_text_width, src)), max(map(_text_width, tgt))
    flat = longest_src + 2 * _PAD <= _MAX_CELL_WIDTH
    cell_width = max(_CELL, longest_src + 2 * _PAD) if flat else _CELL
    scale = min(1.0, _MAX_SIDE / max(cell_width * len(src), _CELL * len(tgt)))
    map_width, map_height = cell_width * len(src) * scale, _CELL * len(tgt) * scale
    angle = 0 if flat else _ANGLE
    labels_height = scale * (longest_src * math.sin(math.radians(angle)) + 0.16)
    lean = math.cos(math.radians(angle))
    # How far the last slanted labels extend past the right edge of the map.
    reach = 0.0 if flat else max(
        _text_width(label) * lean - _CELL * (len(src) - i - 0.5) for i, label in enumerate(src)
    )  # fmt: skip
    left = _MARGIN + longest_tgt * scale + _PAD
    right = max(_BAR_GAP + _BAR_WIDTH + _BAR_LABELS, reach * scale + _MARGIN)
    top = _MARGIN + labels_height + _PAD + (0.32 if title else 0.0)
    return _Sizes(
        width=max(left + map_width + right, 1.15 * _text_width(title) + 2 * _MARGIN),
        height=top + max(map_height, _MIN_HEIGHT) + _MARGIN,
        left=left,
        bottom=_MARGIN + max(_MIN_HEIGHT - map_height, 0.0),
        map_width=map_width,
        map_height=map_height,
        font_size=_FONT_SIZE * scale,
        angle=angle,
    )


def _figure(
    matrix: np.ndarray, src: list[str], tgt: list[str], title: str, sizes: _Sizes, families: list[str]
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(sizes.width, sizes.height))

    def place(left: float, bottom: float, width: float, height: float) -> Axes:
        w, h = sizes.width, sizes.height
        return figure.add_axes((left / w, bottom / h, width / w, height / h))

    axes = place(sizes.left, sizes.bottom, sizes.map_width, sizes.map_height)
    mesh = axes.pcolormesh(matrix, cmap="Blues", vmin=0.0, vmax=matrix.max() or 1.0, edgecolors="white", linewidth=0.6)
    mesh.set_rasterized(matrix.size > _MAX_DRAWN)
    _label(axes, src, tgt, sizes, families)
    bar_height = min(max(sizes.map_height, _MIN_HEIGHT), _BAR_HEIGHT)
    bar_left = sizes.left + sizes.map_width + _BAR_GAP
    bar = place(bar_left, sizes.bottom + sizes.map_height - bar_height, _BAR_WIDTH, bar_height)
    figure.colorbar(mesh, cax=bar)
    bar.tick_params(labelsize=8, width=0.6, length=3, labelfontfamily=families, color="0.4", labelcolor="0.25")
    bar.set_ylabel("attention weight", fontsize=8, fontfamily=families, color="0.25")
    bar.spines["outline"].set_visible(False)
    if title:
        top = 1 - _MARGIN / sizes.height
        figure.text(
            _MARGIN / sizes.width, top, title, ha="left", va="top", fontsize=11, fontfamily=families, parse_math=False
        )
    return figure


def _label(axes: Axes, src: list[str], tgt: list[str], sizes: _Sizes, families: list[str]) -> None:
    """Label both axes with the tokens. `$` stays a dollar sign, and a slanted label starts at its column."""
    text: dict[str, Any] = {"fontsize": sizes.font_size, "fontfamily": families, "parse_math": False}
    axes.xaxis.tick_top()
    flat: dict[str, Any] = {"ha": "center", "va": "baseline"}
    slanted: dict[str, Any] = {"rotation": sizes.angle, "rotation_mode": "anchor", "ha": "left", "va": "center"}
    axes.set_xticks([i + 0.5 for i in range(len(src))], src, **text, **(slanted if sizes.angle else flat))
    axes.set_yticks([i + 0.5 for i in range(len(tgt))], tgt, **text)
    axes.set_ylim(len(tgt), 0)  # first target token on top
    axes.tick_params(length=0, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)
