"""Make synthetic training pairs from monolingual text."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import NamedTuple, Protocol

from nmt.apps.recipes.candidates import candidates_of, filter_reason
from nmt.apps.recipes.language_model import LanguageModel, Prompt, Teacher
from nmt.apps.recipes.selection import Limits, refuse_unknown
from nmt.apps.recipes.synthesis import CandidateFile, CorpusWriter, form_of
from nmt.apps.recipes.translated_lines import translate_into
from nmt.artifacts.find_model import find_runs
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import require_type
from nmt.base.languages import Direction
from nmt.config import Config, SearchOptions, load_config
from nmt.config.filters import THRESHOLDS
from nmt.data.read.line_blocks import whole_blocks
from nmt.data.read.lines import count_lines, open_text, read_text_file
from nmt.translation import LanguagePair, Translator
from nmt.translation.request import Request
from nmt.translation.settings import settings_of
from nmt.translation.translation import USABLE_CHRF
from nmt.translation.translator import Blocks, Model, TranslatedBlock

log = logging.getLogger(__name__)


class BlockTranslator(Protocol):
    """A translator of blocks of texts: a Chain, or a language model."""

    options: SearchOptions
    languages: LanguagePair
    precision: str

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, in order."""


class SynthesizeResult(NamedTuple):
    """The result of `synthesize`."""

    path: Path
    direction: Direction  # of the model to train on the pairs
    num_lines: int  # of the given text
    num_kept: int  # pairs
    dropped: Mapping[str, int]  # pairs by reason


def synthesize(
    input: str | Path | Iterable[str],
    output: str | Path,
    model: Model | Teacher | None = None,
    *,
    translator: AbstractContextManager[BlockTranslator] | None = None,
    forward: bool = False,
    to: str | None = None,
    from_: str | None = None,
    options: SearchOptions | None = None,
    keep: float = 1.0,
    length_ratio: float | None = THRESHOLDS["length_ratio"],
    allow: Collection[str] = (),
    name: str = "the input",
    resume: bool = False,
) -> SynthesizeResult:
    """Translate monolingual text, and write the pairs that look sound into the file `output`.

    Back-translation is the default: a model from en to de reads English and makes pairs (src de, tgt en) to train a
    model from de to en on. What is written is kept if the process ends early.

    Args:
        input: The file with one sentence per line, plain or compressed, or the sentences.
        output: The file of pairs: .tsv, or .jsonl with score and line too, either with .gz.
        model: The model, as for `nmt.translate`, or a language model on a server.
        translator: What translates, in place of loading `model`; it is entered and left here.
        forward: Write the given text as source and the model's output as target: self-training.
        to: The target language, if the model has several.
        from_: The source language, if it matters.
        options: How to search; None: as the model does.
        keep: The share of the sound pairs to keep, best scores first.
        length_ratio: The greatest deviation from the usual ratio of lengths, in standard deviations; None: any.
        allow: Reasons for which no pair is dropped.
        name: What messages call sentences that are not in a file.
        resume: Continue after the last finished line of a call with the same arguments.

    NmtError for errors that the user can mend. Progress goes to Python's logging.
    """
    require_type("input", input, (Iterable, Path), "a path, or sentences")
    require_type("output", output, (str, Path), "the path of a file")
    path = Path(output)
    form = form_of(path)
    refuse_unknown(allow)
    limits = Limits(length_ratio or None, keep, frozenset(allow))
    source = Path(input) if isinstance(input, str | Path) else None
    name = name if source is None else str(input)
    runs = [] if isinstance(model, Teacher) else find_runs(model)
    if source is not None and not source.is_fifo():  # a pipe stays closed
        open_text(source).close()  # fail before the model is loaded
    for run in runs:
        _warn_of_weak(run)
    refuse_replacing([path], [] if source is None else [source], runs)
    opening = translator or _open(model, runs, options, to, from_, forward=forward, scores=needs_scores(path, keep))
    with opening as opened:
        corpus = CorpusWriter(path, form, opened.languages.direction(to, from_), forward)
        _log_plan(name, corpus)
        request = Request(options or opened.options, to=to, from_=from_, draw_by_line=True)
        settings = opened.settings() if isinstance(opened, LanguageModel) else settings_of(runs, opened, request)
        settings |= limits._asdict() | {"forward": forward, "allowed": sorted(limits.allowed)}
        with CandidateFile(path, settings, resume=resume) as file:
            if runs and file.sources is None:  # killed, perhaps within a block; a teacher's answers are paid for
                file.truncate(whole_blocks(file.num_texts))
            _translate(opened, request, input if source is None else source, name, file)
            log.info("writing %s", path)
            selection = corpus.write(file, limits)
    log.info(selection.describe())
    if selection.num_kept:
        log.info("to train on it, with a tag before each source:\n%s", corpus.describe_training())
    return SynthesizeResult(path, corpus.languages, selection.num_lines, selection.num_kept, selection.dropped)


def _warn_of_weak(run: RunDir) -> None:
    """Warn of a model whose translations of its validation set were not usable."""
    index = run.index()
    scores = index.scores_of(index.best)
    if "chrf" in scores and scores["chrf"] < USABLE_CHRF:
        log.warning(
            "%s reached %.1f chrF on its validation set: nothing usable yet, and neither are pairs made with it",
            run.path, scores["chrf"],
        )  # fmt: skip


def needs_scores(output: Path, keep: float) -> bool:
    """Return whether pairs are chosen by their scores, or written with them."""
    return form_of(output) == "jsonl" or keep < 1


def _open(
    model: Model | Teacher | None,
    runs: list[RunDir],
    options: SearchOptions | None,
    to: str | None,
    from_: str | None,
    *,
    forward: bool,
    scores: bool,
) -> AbstractContextManager[BlockTranslator]:
    if not isinstance(model, Teacher):
        return Translator.load(runs, scores=scores)
    config = model.config if isinstance(model.config, Config) else load_config(Path(model.config))
    prompt = Prompt.from_config(config, _direction_of_teacher(config, to, from_, forward=forward), model.num_examples)
    return LanguageModel(model.url, model.name, prompt, options or SearchOptions(), model.num_requests)


def _direction_of_teacher(config: Config, to: str | None, from_: str | None, *, forward: bool) -> Direction:
    """Return the direction to translate in for a model with `config`: the same with --forward, else the opposite."""
    data = config.data if forward else config.data.reversed()
    languages = LanguagePair.from_config(config.model_copy(update={"data": data}))
    return languages._replace(language_tags="source").direction(to, from_)


def _log_plan(name: str, corpus: CorpusWriter) -> None:
    """Log which side of the pairs is the given text, called `name`."""
    src, tgt = corpus.languages
    given = f"a line of {Path(name).name}"
    if corpus.forward:
        log.info(f"self-training: src ({src}) is {given}, tgt ({tgt}) is the model's output")
    else:
        log.info(f"back-translation: src ({src}) is the model's output, tgt ({tgt}) is {given}; --forward swaps them")


def _translate(
    translator: BlockTranslator,
    request: Request,
    input: Path | Iterable[str],
    name: str,
    file: CandidateFile,
) -> None:
    """Add the candidates of the lines that are not finished."""
    total = None
    if isinstance(input, Path):
        total = count_lines(input) if input.is_file() else None
        input = read_text_file(input)
    given, read = tee(input)
    unfinished = islice(given, file.num_texts, None)
    lines = ("" if filter_reason(line) else line for line in read)  # only what may become a pair
    translate = partial(translator.translate_blocks, request=request)
    translate_into(file, translate, lines, lambda each: candidates_of(next(unfinished), each).to_line(), name, total)
