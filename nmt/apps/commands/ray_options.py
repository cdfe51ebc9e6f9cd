"""Options of the commands that translate in this process or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from nmt.apps.commands.options import RARE_PANEL, load_translator
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import RunDir

if TYPE_CHECKING:
    from nmt.translation.blocks import BlockTranslator

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Translate on a Ray cluster (needs the extra ray): auto (this machine's cluster), local (start one here), "
        "HOST:PORT or ray://HOST:PORT. The model must be at the same path on every node.",
        rich_help_panel=RARE_PANEL,
    ),
]
RayWorkers = Annotated[
    int | None,
    typer.Option(
        "--ray-workers",
        min=1,
        max=10_000,
        metavar="N",
        help="Number of Ray workers; each loads the model. Default: one per free GPU, else one per free CPU.",
        rich_help_panel=RARE_PANEL,
    ),
]


class Computation(NamedTuple):
    """The engine, device and precision of a command, and the Ray cluster if it uses one."""

    engine: str
    device: str
    precision: str
    ray: str | None = None
    ray_workers: int | None = None

    def check(self) -> None:
        """Reject conflicting options."""
        if self.ray_workers is not None and self.ray is None:
            raise typer.BadParameter("--ray-workers needs --ray")


@contextmanager
def open_translator(
    models: list[RunDir] | ExportDir, computation: Computation, *, token_scores: bool
) -> Iterator[BlockTranslator]:
    """Yield a translator for what `find_models` found: in this process, or on a Ray cluster."""
    engine, device, precision, ray, ray_workers = computation
    if ray is None:
        from nmt.translation.blocks import LocalTranslator

        yield LocalTranslator(load_translator(models, engine, device, precision, token_scores=token_scores))
        return
    from nmt.apps.ray.ray_translator import ray_translator
    from nmt.apps.ray.ray_worker import ModelPaths

    paths = ModelPaths.of(models, (engine, device, precision), token_scores=token_scores)
    with ray_translator(models, paths, ray, ray_workers) as translator:
        yield translator
