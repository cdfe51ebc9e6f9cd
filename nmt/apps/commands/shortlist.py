"""`nmt shortlist`: build and measure a lexical shortlist."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING

from nmt.apps.commands.options import NewestRun
from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_run
from nmt.base.machine import request_exact_mkl

if TYPE_CHECKING:
    from nmt.apps.recipes.shortlist import Comparison

log = logging.getLogger(__name__)

BEST = 50  # candidates per source token, at most
FREQUENT = 100  # target tokens that every source may be translated with


def shortlist(model: NewestRun = None) -> None:
    """Build the lexical shortlist of a run, and measure its effect.

    The shortlist holds the target tokens that each source token may be translated with, learned from the run's training
    data. `nmt translate --set decoding.shortlist=true` computes only these, which is faster. Prints BLEU and speed on
    the validation set with and without it.
    """
    request_exact_mkl()
    run = find_run(model)
    if model is None:
        log.info("model: %s", run.path)
    run.usable_checkpoint()  # fail early if the run cannot translate
    from nmt.apps.recipes.shortlist import compare_shortlist, make_shortlist

    make_shortlist(run, BEST, FREQUENT)
    log.info("wrote %s; translating the validation set with it and without it", run.shortlist)
    print_text(_describe(compare_shortlist(run)))
    log.info(f"done: use it with\n  nmt translate --set decoding.shortlist=true --model {shlex.quote(str(run.path))}")


def _describe(found: Comparison) -> str:
    rows = zip(("all tokens", "shortlist"), found.bleu, found.tokens_per_second, strict=True)
    (full, short), (slow, fast) = found.bleu, found.tokens_per_second
    return "\n".join(
        (
            f"{'':<12}{'BLEU':>8}{'tokens/s':>12}",
            *(f"{name:<12}{bleu:8.2f}{rate:12,.0f}" for name, bleu, rate in rows),
            f"cost {full - short:+.2f} BLEU, {fast / slow:.2f} times as fast "
            f"({found.sentences:,} sentences of the validation set, {found.precision}; {found.signature})",
        )
    )
