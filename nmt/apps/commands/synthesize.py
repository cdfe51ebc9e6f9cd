"""`nmt synthesize`: make synthetic training pairs from monolingual text."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt.apps.commands import options as shared
from nmt.apps.commands.documents import refuse_corpus
from nmt.apps.commands.inputs import read_standard_input
from nmt.apps.commands.options import SearchFlags, find_models, open_translator, rare_option, refuse, search_flags
from nmt.apps.commands.streams import STANDARD_INPUT
from nmt.apps.recipes.candidates import FAULTS, candidates_of, filter_reason
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.base.languages import Direction
from nmt.base.progress import Progress
from nmt.config import Config, SearchOptions, load_config
from nmt.config.filters import THRESHOLDS
from nmt.data.read.line_blocks import grow_blocks
from nmt.data.read.lines import count_lines, open_text, read_text_file
from nmt.translation.languages import LanguagePair
from nmt.translation.request import Request

if TYPE_CHECKING:
    from nmt.apps.commands.options import BlockTranslator
    from nmt.apps.recipes.selection import Limits
    from nmt.apps.recipes.synthesis import CandidateFile, CorpusWriter

log = logging.getLogger(__name__)

_DASH = "-"  # --input -: standard input
_OF_SERVERS = ("num_hypotheses", "sample", "temperature", "top_p", "seed")

Input = Annotated[
    str,
    typer.Option(
        "--input", "-i", help="Monolingual text, one sentence per line (.gz, .xz, .zst too); -: standard input."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="File of pairs: .tsv with columns src and tgt, or .jsonl with score and line too; add .gz to compress.",
    ),
]
Forward = Annotated[
    bool,
    typer.Option(
        "--forward",
        help="Self-training and distillation: src is the given text, tgt the model's output. Default, "
        "back-translation: src is the model's output, tgt the given text.",
    ),
]
MinScore = Annotated[
    float | None,
    typer.Option(
        max=0.0,
        metavar="X",
        help="Drop outputs whose mean log-probability per token, in nats, is below X, such as -1.5.",
    ),
]
Keep = Annotated[
    float, typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Share of the valid pairs to keep, best scores first.")
]
LengthRatio = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1000.0,
        metavar="N",
        help="Drop pairs whose lengths differ from the usual ratio by more than N standard deviations (Gale and Church "
        "1993); 0: no limit.",
    ),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Language model instead of a run: a server with OpenAI's API, such as http://localhost:8000/v1. --model "
        "is then its name there. The API key is read from the environment variable NMT_TEACHER_KEY.",
    ),
]
ModelToTrain = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="With --teacher: configuration of the model to train, for the languages and the examples in the prompt.",
    ),
]
Examples = Annotated[
    int, rare_option(min=0, max=100, metavar="N", help="With --teacher: number of training pairs in the prompt.")
]
Requests = Annotated[
    int, rare_option(min=1, max=256, metavar="N", help="With --teacher: number of requests at the same time.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="REASON", help="Keep pairs that would be dropped for this reason. May be repeated."),
]


@search_flags("beam_size", "num_hypotheses", "sample")
def synthesize(
    input: Input,
    output: Output,
    models: shared.Models = None,
    teacher: Teacher = None,
    config: ModelToTrain = None,
    checkpoint: shared.Checkpoint = None,
    forward: Forward = False,
    resume: shared.Resume = False,
    to: shared.To = None,
    from_: shared.From = None,
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    min_score: MinScore = None,
    keep: Keep = 1.0,
    length_ratio: LengthRatio = THRESHOLDS["length_ratio"],
    allow: Allow = None,
    examples: Examples = 8,
    requests: Requests = 8,
    ray: shared.Ray = None,
    ray_workers: shared.RayWorkers = None,
    engine: shared.Engine = "auto",
    device: shared.Device = "auto",
    precision: shared.Precision = "auto",
) -> None:
    """Make synthetic sentence pairs from monolingual text.

    Back-translation is the default: a model from en to de reads English and writes pairs (src de, tgt en) for training
    from de to en. Outputs that look wrong are dropped and counted. --output writes FILE.partial and renames it to FILE
    when complete; --resume continues a stopped command after the last line.
    """
    from nmt.apps.recipes.language_model import LanguageModel, Prompt
    from nmt.apps.recipes.synthesis import CandidateFile, CorpusWriter, form_of

    form = form_of(output)
    limits = _limits(min_score, keep, length_ratio, allow or [])
    one_lacks = (teacher is None) != (config is None)
    refuse(
        {
            "--ray-workers needs --ray": ray_workers is not None and ray is None,
            "--teacher needs --config, the configuration of the model to train; without --teacher, omit it": one_lacks,
        }
    )
    others = {"--checkpoint": checkpoint, "--ray": ray, "--min-score": min_score, "--keep": keep < 1}
    others["--engine, --device or --precision"] = {engine, device, precision} != {"auto"}
    others |= {shared.SEARCH_FLAGS.get(name, "--set"): name not in _OF_SERVERS for name in search.given}
    refuse({f"{name} cannot be used with --teacher": teacher and given for name, given in others.items()})
    found = [] if teacher else find_models(models, checkpoint)
    _check_files(input, output, found)
    scores = min_score is not None or keep < 1 or form == "jsonl"
    if teacher is not None and config is not None:
        wanted = load_config(config)
        prompt = Prompt.from_config(wanted, _direction_of_teacher(wanted, to, from_, forward=forward), examples)
        options = search.change(SearchOptions())
        opened: Any = LanguageModel(teacher, models[0] if models else None, prompt, options, requests)
    else:
        opened = open_translator(found, engine, device, precision, ray, ray_workers, scores=scores)
    with opened as translator:
        options = search.change(translator.options)
        corpus = CorpusWriter(output, form, translator.languages.direction(to, from_), forward)
        _log_plan(input, corpus)
        request = Request(options, to=to, from_=from_, draw_by_line=True)
        settings = translator.settings() if teacher else shared.settings_of(found, translator, request)
        settings |= limits._asdict() | {"forward": forward}
        settings["allowed"] = sorted(limits.allowed)
        with CandidateFile(output, settings, resume=resume) as file:
            _translate(translator, request, input, file)
            log.info("writing %s", output)
            selection = corpus.write(file, limits)
    log.info(selection.describe())
    if selection.num_kept:
        log.info("to train on it, with a tag before each source:\n%s", corpus.describe_training())


def _direction_of_teacher(config: Config, to: str | None, from_: str | None, *, forward: bool) -> Direction:
    """Return the direction to translate in for a model with `config`: the same with --forward, else the opposite."""
    languages = LanguagePair.from_config(config)
    if not forward:
        opposite = tuple(Direction(tgt, src) for src, tgt in languages.directions)
        languages = languages._replace(src=languages.tgt, tgt=languages.src, directions=opposite)
    return languages._replace(language_tags="source").direction(to, from_)


def _check_files(name: str, output: Path, models: Sequence[RunDir]) -> None:
    """Raise NmtError if the file `name` cannot be opened, or `output` would replace an input. Pipes are not opened."""
    if name != _DASH:
        refuse_corpus(Path(name))
        if not Path(name).is_fifo():
            open_text(Path(name)).close()
    refuse_replacing([output], [STANDARD_INPUT if name == _DASH else Path(name)], models)


def _log_plan(name: str, corpus: CorpusWriter) -> None:
    """Log which side of the pairs is the given text."""
    src, tgt = corpus.languages
    given, output = f"a line of {'standard input' if name == _DASH else Path(name).name}", "the model's output"
    kind, other = ("self-training", "") if corpus.forward else ("back-translation", "; --forward swaps them")
    sides = (given, output) if corpus.forward else (output, given)
    log.info("%s: src (%s) is %s, tgt (%s) is %s%s", kind, src, sides[0], tgt, sides[1], other)


def _translate(translator: BlockTranslator, request: Request, name: str, file: CandidateFile) -> None:
    """Add the candidates of the lines that are not finished, with a bar on a terminal, and log lines elsewhere."""
    lines = read_standard_input() if name == _DASH else read_text_file(Path(name))
    if file.num_texts:
        file.skip_finished(lines, "standard input" if name == _DASH else name)
        log.info("resuming after %s lines", f"{file.num_texts:,}")
    given, read = tee(lines)
    blocks = grow_blocks("" if filter_reason(line) else line for line in read)  # only what may become a pair
    total = count_lines(Path(name)) if Path(name).is_file() else None
    bar = sys.stderr.isatty()
    with Progress(total=total, start=file.num_texts, bar=bar, log_lines=not bar) as progress:
        for _, translations in translator.translate_blocks(blocks, request, file.num_texts + 1):
            file.write("".join(candidates_of(next(given), each).to_line() for each in translations))
            progress.add(len(translations))


def _limits(min_score: float | None, keep: float, length_ratio: float, allowed: list[str]) -> Limits:
    from nmt.apps.recipes.selection import Limits

    for reason in allowed:
        if reason not in FAULTS:
            raise typer.BadParameter(f"--allow {reason}: the reasons are {', '.join(FAULTS)}")
    return Limits(length_ratio or None, min_score, keep, frozenset(allowed))
