"""`nmt shortlist`: build and measure a lexical shortlist."""

from __future__ import annotations

import logging
import shlex

from nmt.apps.commands.options import NewestRun
from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_run
from nmt.base.machine import request_exact_mkl

log = logging.getLogger(__name__)

BEST = 50  # candidates per source token, at most
FREQUENT = 100  # target tokens that every source may be translated with


def shortlist(model: NewestRun = None) -> None:
    """Build the lexical shortlist of a run, and measure its effect.

    The shortlist holds the target tokens that each source token may be translated with, learned from the run's training
    data. `nmt translate --set decoding.shortlist=true` computes only these, which is faster. Prints scores and time of
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
    print_text(compare_shortlist(run).render(("without", "with")))
    log.info(f"done: use it with\n  nmt translate --set decoding.shortlist=true --model {shlex.quote(str(run.path))}")
