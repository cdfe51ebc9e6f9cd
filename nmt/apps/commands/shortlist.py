"""`nmt shortlist`: build and measure a lexical shortlist."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.options import Model
from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_run
from nmt.base.machine import request_exact_mkl

if TYPE_CHECKING:
    from nmt.apps.recipes.shortlist import Comparison, ShortlistSizes

log = logging.getLogger(__name__)


def shortlist(
    model: Model = None,
    best: Annotated[
        int, typer.Option("--best", min=1, max=10_000, metavar="N", help="Maximum candidates per source token.")
    ] = 50,
    frequent: Annotated[
        int,
        typer.Option(
            "--frequent",
            min=0,
            max=1_000_000,
            metavar="N",
            help="Most frequent target tokens to allow for every source.",
        ),
    ] = 100,
) -> None:
    """Build the lexical shortlist of a run, and measure its effect.

    The shortlist holds the target tokens that each source token may be translated with, learned from the run's training
    data. `nmt translate --shortlist` computes only these, which is faster. Prints BLEU and speed on the validation set
    with and without it.
    """
    request_exact_mkl()
    run = find_run(model)
    if model is None:
        log.info("model: %s", run.path)
    run.usable_checkpoint()  # fail early if the run cannot translate
    from nmt.apps.recipes.shortlist import compare_shortlist, make_shortlist

    sizes = make_shortlist(run, best, frequent)
    log.info("wrote %s; translating the validation set with it and without it", run.shortlist)
    print_text(_describe(sizes, compare_shortlist(run)))
    log.info(f"done: use it with\n  nmt translate --shortlist --model {shlex.quote(str(run.path))}")


def _describe(sizes: ShortlistSizes, found: Comparison) -> str:
    rows = (("all tokens", found.full), ("shortlist", found.shortlist))
    return "\n".join(
        (
            f"candidates per source token    {sizes.candidates:.1f}",
            f"outputs per sentence           {sizes.outputs:,.0f} of {sizes.vocab_size:,}",
            f"reference tokens among them    {100 * sizes.coverage:.2f}%",
            "",
            f"{'':<12}{'BLEU':>8}{'tokens/s':>12}",
            *(f"{name:<12}{values.bleu:8.2f}{values.tokens_per_second:12,.0f}" for name, values in rows),
            f"cost {found.loss:+.2f} BLEU, {found.speedup:.2f} times as fast "
            f"({found.sentences:,} sentences of the validation set, {found.precision}; {found.signature})",
        )
    )
