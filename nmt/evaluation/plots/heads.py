"""Draw the attention of every layer and head as a grid of small heat maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base.errors import NmtError
from nmt.evaluation.plots.fonts import families_covering
from nmt.evaluation.plots.saving import drawing, picture_format, save_picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MAPS = 256  # layers x heads in one picture
_CELL = 0.19  # inches
_FONT_SIZE = 7.0  # points
_LABEL = 0.085  # inches per character at _FONT_SIZE, wide enough for most scripts
_GAP = 0.28  # inches between two maps
_TITLE_HEIGHT = 0.4  # inches


def draw_heads(
    weights: Any, src_tokens: list[str], tgt_tokens: list[str], path: Path | str, *, title: str = ""
) -> None:
    """Write a grid of heat maps to `path` (.svg or .png): one row per layer, one column per head.

    weights [L, H, T, S] (numpy array, CPU tensor or nested lists): shares of attention of L layers and H heads, with S
    source tokens along the top of each map and T target tokens down its side; for self-attention, both are the same
    tokens. All maps share one color scale, 0 to 1. NmtError if the weights do not match the tokens, are not all finite,
    or make more than 256 maps.
    """
    name = picture_format(path)
    grid = _checked(weights, len(tgt_tokens), len(src_tokens))
    src, tgt = [_printable(token) for token in src_tokens], [_printable(token) for token in tgt_tokens]
    with drawing():
        families = ["sans-serif"] if name == "svg" else families_covering([*src, *tgt, title])
        save_picture(_figure(grid, src, tgt, title, families), path)


def _checked(weights: Any, num_tgt: int, num_src: int) -> np.ndarray:
    import numpy as np

    grid = np.asarray(weights, dtype=float)
    if grid.ndim != 4 or grid.shape[2:] != (num_tgt, num_src) or grid.size == 0:
        raise NmtError(
            f"attention weights of shape {list(grid.shape)} for {num_tgt} target and {num_src} source tokens",
            hint="draw_heads takes weights [layers, heads, target tokens, source tokens]",
        )
    if grid.shape[0] * grid.shape[1] > MAX_MAPS:
        raise NmtError(
            f"{grid.shape[0]} layers with {grid.shape[1]} heads are too many for one plot",
            hint=f"draw at most {MAX_MAPS} heads at a time",
        )
    if not np.isfinite(grid).all():
        raise NmtError("the attention weights are not all finite (nan, inf)")
    return grid


def _printable(token: str) -> str:
    """Return `token` with unprintable characters as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in token)


def _figure(grid: np.ndarray, src: list[str], tgt: list[str], title: str, families: list[str]) -> Figure:
    from matplotlib.figure import Figure

    num_layers, num_heads = grid.shape[:2]
    left = 0.3 + _LABEL * max(map(len, tgt))
    top = 0.35 + _LABEL * max(map(len, src)) + (_TITLE_HEIGHT if title else 0.0)
    map_width, map_height = _CELL * len(src), _CELL * len(tgt)
    width = left + num_heads * (map_width + _GAP)
    height = top + num_layers * (map_height + _GAP)
    figure = Figure(figsize=(width, height))
    for layer in range(num_layers):
        for head in range(num_heads):
            x = left + head * (map_width + _GAP)
            y = height - top - layer * (map_height + _GAP) - map_height
            axes = figure.add_axes((x / width, y / height, map_width / width, map_height / height))
            mesh = axes.pcolormesh(
                grid[layer, head], cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="0.93", linewidth=0.3
            )
            mesh.set_rasterized(grid.size > 20_000)  # an SVG with every cell as a path would be megabytes
            _label(axes, src if layer == 0 else [], tgt if head == 0 else [], families)
            if head == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=_FONT_SIZE + 1, fontfamily=families, color="0.25")
            if layer == num_layers - 1:
                axes.set_xlabel(f"head {head}", fontsize=_FONT_SIZE + 1, fontfamily=families, color="0.25")
    if title:
        figure.text(0.1 / width, 1 - 0.12 / height, title, va="top", fontsize=10, fontfamily=families, parse_math=False)
    return figure


def _label(axes: Axes, src: list[str], tgt: list[str], families: list[str]) -> None:
    """Label the axes of a map with the tokens; an empty list leaves a side without labels."""
    text: dict[str, Any] = {"fontsize": _FONT_SIZE, "fontfamily": families, "parse_math": False}
    axes.xaxis.set_label_position("bottom")
    axes.xaxis.tick_top()
    axes.set_xticks([i + 0.5 for i in range(len(src))], src, rotation=90, **text)
    axes.set_yticks([i + 0.5 for i in range(len(tgt))], tgt, **text)
    axes.invert_yaxis()  # first target token on top
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_color("0.8")
