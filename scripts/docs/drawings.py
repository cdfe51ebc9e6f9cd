"""Draw pictures that only the documentation needs: the attention of every head, and a table of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nmt.base.errors import printable
from nmt.evaluation.plots.drawing import drawing, save_picture

_CELL = 0.19  # inches
_FONT_SIZE = 7.0  # points
_LABEL = 0.085  # inches per character at _FONT_SIZE, wide enough for most scripts
_GAP = 0.28  # inches between two maps


def draw_heads(weights: Tensor, src_tokens: list[str], tgt_tokens: list[str], path: Path) -> None:
    """Write a grid of heat maps to `path`, an SVG: one row per layer, one column per head.

    weights [L, H, T, S]: shares of attention of L layers and H heads, with S source tokens along the top of each map
    and T target tokens down its side. All maps share one color scale, 0 to 1.
    """
    grid = weights.numpy()
    src, tgt = [printable(token) for token in src_tokens], [printable(token) for token in tgt_tokens]
    num_layers, num_heads = grid.shape[:2]
    left, top = 0.3 + _LABEL * max(map(len, tgt)), 0.35 + _LABEL * max(map(len, src))
    map_width, map_height = _CELL * len(src), _CELL * len(tgt)
    width, height = left + num_heads * (map_width + _GAP), top + num_layers * (map_height + _GAP)
    with drawing():
        figure = Figure(figsize=(width, height))
        for layer, head in np.ndindex(num_layers, num_heads):
            x = left + head * (map_width + _GAP)
            y = height - top - layer * (map_height + _GAP) - map_height
            axes = figure.add_axes((x / width, y / height, map_width / width, map_height / height))
            axes.pcolormesh(grid[layer, head], cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="0.93", linewidth=0.3)
            _label(axes, src if layer == 0 else [], tgt if head == 0 else [])
            if head == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=_FONT_SIZE + 1, color="0.25")
            if layer == num_layers - 1:
                axes.set_xlabel(f"head {head}", fontsize=_FONT_SIZE + 1, color="0.25")
        save_picture(figure, path)


def _label(axes: Axes, src: list[str], tgt: list[str]) -> None:
    """Label the axes of a map with the tokens; an empty list leaves a side without labels."""
    axes.xaxis.set_label_position("bottom")
    axes.xaxis.tick_top()
    axes.set_xticks([i + 0.5 for i in range(len(src))], src, rotation=90, fontsize=_FONT_SIZE, parse_math=False)
    axes.set_yticks([i + 0.5 for i in range(len(tgt))], tgt, fontsize=_FONT_SIZE, parse_math=False)
    axes.invert_yaxis()  # first target token on top
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_color("0.8")


def draw_positions(table: Tensor, path: Path) -> None:
    """Draw the position encodings `table` [N, D] in three panels, and write the picture to `path`.

    Left: the table as a heat map. Middle: four of its columns. Right: for several positions, the dot product with other
    positions over their distance; for sinusoidal positions, all these curves are the same (Vaswani et al. 2017, section
    3.5).
    """
    values = table.double().numpy()
    num_positions, limit = len(values), abs(values).max()
    with drawing():
        figure = Figure(figsize=(12, 3.6), layout="constrained")
        heat, curves, products = figure.subplots(1, 3)
        mesh = heat.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        figure.colorbar(mesh, ax=heat, shrink=0.9)
        heat.set(title="values", xlabel="dimension", ylabel="position")
        for column in (6, 7, 8, 9):
            curves.plot(values[:, column], linewidth=1.3, label=f"dimension {column}")
        curves.set(title="some dimensions", xlabel="position", ylabel="value")
        curves.set_ylim(-1.5 * limit, 1.1 * limit)  # room for the legend
        curves.legend(frameon=False, fontsize=8, loc="lower center", ncols=2)
        for number, position in enumerate((num_positions // 5, num_positions // 2, 4 * num_positions // 5)):
            distance = [other - position for other in range(num_positions)]
            width = 4.5 - 1.2 * number  # so that identical curves stay visible under each other
            label = f"position {position}"
            products.plot(distance, values @ values[position], linewidth=width, label=label, alpha=0.85)
        products.set(title="dot product with other positions", xlabel="distance", ylabel="dot product")
        products.legend(frameon=False, fontsize=8)
        for axes in (curves, products):
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
        save_picture(figure, path)


def draw_growth(rows: Mapping[str, Sequence[tuple[int, float, float]]], path: Path) -> None:
    """Draw how cost grows: `rows` are (pairs or lines, seconds, peak memory in MB) for each kind of work.

    Left: seconds; right: memory. Size and seconds are on logarithmic scales, so that equal steps are equal factors.
    """
    with drawing():
        figure = Figure(figsize=(10, 3.6), layout="constrained")
        time, memory = figure.subplots(1, 2)
        for name, figures in rows.items():
            sizes, seconds, megabytes = zip(*sorted(figures), strict=True)
            time.plot(sizes, seconds, marker="o", markersize=4, label=name)
            memory.plot(sizes, megabytes, marker="o", markersize=4, label=name)
        time.set(title="seconds", xlabel="pairs or lines", xscale="log", yscale="log")
        memory.set(title="peak memory, MB", xlabel="pairs or lines", xscale="log")
        memory.set_ylim(bottom=0)
        time.legend(frameon=False, fontsize=8)
        for axes in (time, memory):
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
        save_picture(figure, path)
