"""Plot a table of position encodings: its values, some of its columns, and the similarities of positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base.errors import NmtError
from nmt.evaluation.plots.saving import drawing, picture_format, save_picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

_MAX_CELLS = 4_000_000


def draw_positions(table: Any, path: Path | str, *, columns: tuple[int, ...] = (6, 7, 8, 9)) -> None:
    """Draw the position encodings `table` [N, D] in three panels and write the picture to `path` (.svg or .png).

    Left: the table as a heat map. Middle: some of its `columns` as curves. Right: for several positions, the dot
    product with other positions over their distance; for sinusoidal positions, all these curves are the same (Vaswani
    et al. 2017, section 3.5). NmtError if the table is not [N, D] with finite values.
    """
    import numpy as np

    picture_format(path)
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or min(values.shape) < 2 or values.size > _MAX_CELLS or not np.isfinite(values).all():
        raise NmtError(
            f"cannot draw a table of positions of shape {list(values.shape)}",
            hint="draw_positions takes finite values [positions, d_model], at least two of each",
        )
    with drawing():
        save_picture(_figure(values, [column for column in columns if column < values.shape[1]]), path)


def _figure(values: np.ndarray, columns: list[int]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    heat, curves, products = figure.subplots(1, 3)
    limit = abs(values).max() or 1.0
    mesh = heat.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    figure.colorbar(mesh, ax=heat, shrink=0.9)
    heat.set(title="values", xlabel="dimension", ylabel="position")
    for column in columns:
        curves.plot(values[:, column], linewidth=1.3, label=f"dimension {column}")
    curves.set(title="some dimensions", xlabel="position", ylabel="value")
    if columns:
        curves.set_ylim(-1.5 * limit, 1.1 * limit)  # room for the legend
        curves.legend(frameon=False, fontsize=8, loc="lower center", ncols=2)
    num_positions = len(values)
    for number, position in enumerate(_spread(num_positions)):
        distance = [other - position for other in range(num_positions)]
        width = 4.5 - 1.2 * number  # so that identical curves stay visible under each other
        products.plot(distance, values @ values[position], linewidth=width, label=f"position {position}", alpha=0.85)
    products.set(title="dot product with other positions", xlabel="distance", ylabel="dot product")
    products.legend(frameon=False, fontsize=8)
    for axes in (curves, products):
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _spread(num_positions: int) -> list[int]:
    """Return up to three positions spread over the table."""
    return sorted({num_positions // 5, num_positions // 2, 4 * num_positions // 5})
