"""What several commands share: options, and how they speak to the person."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="The run; default: $NMT_MODEL, else the newest in ./runs.")
]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one key, such as training.lr=1e-3.")
]
Device = Annotated[Literal["auto", "cuda", "mps", "cpu"], typer.Option("--device", help="Where to compute.")]


def say(line: str) -> None:
    """A line for the person, on standard error: standard output is for translations, scores and configurations."""
    typer.echo(line, err=True)
