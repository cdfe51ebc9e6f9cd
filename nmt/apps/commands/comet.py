"""Prepare COMET for `nmt eval`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nmt.apps.commands.evaluation import Metrics
from nmt.apps.commands.test_sets import TestSet
from nmt.base.errors import DataError
from nmt.evaluation import METRICS


@contextmanager
def prepared_metrics(names: Sequence[str], test_set: TestSet, model: str, device: str) -> Iterator[Metrics]:
    """Yield the metrics `names`; if comet is among them, the COMET model `model` is ready until the block ends.

    DataError if comet is asked for and the set has no sources. NmtError if COMET cannot load the model.
    """
    others = [name for name in names if name in METRICS]
    if len(others) == len(names):
        yield Metrics(others)
        return
    if not test_set.has_sources:
        hint = "give the sources with --src, or a file of pairs with --tsv"
        raise DataError("COMET needs the source sentences, and there are none", hint=hint)
    from nmt.evaluation.comet import Comet

    with Comet(model, device) as comet:
        comet.load()  # errors come before the translation
        yield Metrics(others, comet)
