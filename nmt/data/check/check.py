"""Check parallel text, pair by pair, and report what each rule finds."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.machine import num_cores
from nmt.base.progress import Progress
from nmt.config import Config, DataConfig
from nmt.config.corpora import DATA_SETS
from nmt.config.filters import SAFE_FILTERS, Filters
from nmt.data.check.profile import Expectations, expect
from nmt.data.read.pairs import read_parallel
from nmt.data.text.characters import AS_READ, AS_WRITTEN

if TYPE_CHECKING:
    from nmt.data.check.stream import CheckedPairs
    from nmt.data.check.summary import CheckReport

log = logging.getLogger(__name__)


def check(data: Config | DataConfig | str | Path, *, langid: bool = False, workers: int = 0) -> CheckReport:
    """Check the training text of `data`, and report what each rule finds and what each filter would cost.

    Args:
        data: A configuration or the path of its YAML file; if it turns no filter on, those that `nmt config new` writes
            count as turned on. Or a section `data`, whose filters are taken as they are.
        langid: Identify the language of each side; slower, and needs the extra `langid`.
        workers: Number of processes for a large corpus; 0: one per core. They import the main module of the program,
            so a script must guard its code with `if __name__ == "__main__"`.

    Returns the report, with examples by file and line. DataError if a file cannot be read. Changes no file.
    """
    if not isinstance(data, Config | DataConfig):
        from nmt.config.load import load_config  # only here, because of PyYAML

        data = load_config(data)
    section = data if isinstance(data, DataConfig) else with_filters(data.data)
    expected, chunks = check_corpus(section, langid=langid, workers=workers)
    from nmt.data.check.checker import texts_of
    from nmt.data.check.remarks import SideText  # with numpy, after the corpus is found to be there
    from nmt.data.check.summary import summarize

    languages = zip(*((each.src_lang, each.tgt_lang) for each in expected), strict=True)
    src, tgt = (SideText("/".join(dict.fromkeys(codes))) for codes in languages)
    for name in DATA_SETS[1:]:
        held_out = read_parallel(section.corpora(name), section.characters)
        if pairs := [pair for pair in held_out if pair.src and pair.tgt]:
            for side, texts in zip((src, tgt), texts_of(pairs), strict=True):
                side.add_held_out(name, texts)
    for pair in read_parallel(section.corpora("train")):  # as it is written
        src.add_as_written(pair.src, AS_READ)
        tgt.add_as_written(pair.tgt, AS_WRITTEN)
    return summarize(chunks, expected, section.corpora("train"), (src, tgt))


def with_filters(data: DataConfig) -> DataConfig:
    """Return `data`, with the safe filters if it turns none on."""
    if any(data.filters_of(files) != Filters() for files in data.corpora("train")):
        return data
    log.info("the configuration turns on no filter; using those that `nmt config new` writes")
    return data.model_copy(update={"filters": SAFE_FILTERS})


def check_corpus(
    data: DataConfig, *, langid: bool = False, workers: int
) -> tuple[Sequence[Expectations], Iterator[CheckedPairs]]:
    """Learn in one pass over the training files what is usual; return it, and the checked pairs of the next pass."""
    corpora = data.corpora("train")
    read = partial(read_parallel, characters=data.characters)
    held_out = chain.from_iterable(read(data.corpora(name)) for name in DATA_SETS[1:])
    expected = expect(data, lambda: read(corpora), held_out, identify_languages=True if langid else None)

    def chunks() -> Iterator[CheckedPairs]:
        from nmt.data.check.stream import check_pairs

        num_rows = sum({id(each.profile): each.profile.num_rows for each in expected}.values())
        with Progress(total=num_rows, bar=sys.stderr.isatty()) as progress:
            for chunk in check_pairs(read(corpora), expected, workers=workers or num_cores()):
                yield chunk
                progress.add(len(chunk.pairs))

    return expected, chunks()
