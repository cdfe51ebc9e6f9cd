"""`nmt eval`."""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from nmt.commands.options import (
    Checkpoint,
    Device,
    Engine,
    Models,
    Precision,
    SearchFlags,
    find_models,
    load_translator,
    search_flags,
)
from nmt.commands.streams import print_text, to_json
from nmt.config import ParallelFiles, SearchOptions
from nmt.data.corpus import read_parallel
from nmt.data.lines import read_lines
from nmt.errors import DataError, RunError
from nmt.evaluate import METRICS, MetricScore, score
from nmt.exportdir import ExportDir
from nmt.files import write_text
from nmt.languages import bleu_tokenizer
from nmt.rundir import RunDir

if TYPE_CHECKING:
    from nmt.translate import Translator

log = logging.getLogger(__name__)

_SHORT_NAMES = {"beam_size": "beam", "length_penalty": "lp"}

Source = Annotated[Path | None, typer.Option(help="Source sentences to translate. Default: the run's test set.")]
Reference = Annotated[Path | None, typer.Option(help="Reference translations for --src.")]
Table = Annotated[Path | None, typer.Option(help="Tab-separated file: source, reference; instead of --src and --ref.")]
Split = Annotated[Literal["test", "valid"], typer.Option(help="Which of the run's data sets to use.")]
Metrics = Annotated[str, typer.Option(help="Comma-separated metrics: bleu, chrf, ter.")]
Format = Annotated[Literal["text", "json"], typer.Option(help="Output format.")]


class TestSet(NamedTuple):
    """Sentences to translate, and their references."""

    name: str
    sources: list[str]
    references: list[str]
    path: Path | None  # of the references in the run, None for those that were given


@dataclass(frozen=True)
class ScoreRecord:
    """A score as printed and saved."""

    value: float
    signature: str


@dataclass(frozen=True)
class EvaluationRecord:
    """The scores of one evaluation, as `nmt eval` prints them as JSON and saves them beside the hypotheses."""

    models: list[str]
    checkpoints: list[str]  # of runs, in the order of `models`
    set: str
    sentences: int
    beam_size: int
    length_penalty: float
    precision: str
    scores: dict[str, ScoreRecord]  # by sacreBLEU's name
    hypotheses: str  # path of the file
    sacrebleu: str  # command that prints the same scores


@search_flags("beam_size", "length_penalty")
def evaluate(
    models: Models = None,
    checkpoint: Checkpoint = None,
    src: Source = None,
    ref: Reference = None,
    tsv: Table = None,
    split: Split = "test",
    metrics: Metrics = "bleu,chrf",
    format: Format = "text",
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    engine: Engine = "auto",
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compute BLEU, chrF and TER.

    On the run's test set, or on your files. Hypotheses and scores are saved in the folder `eval` of the run or export.
    """
    if (src is None) != (ref is None):
        raise typer.BadParameter("--src and --ref go together")
    if tsv is not None and src is not None:
        raise typer.BadParameter("give --src and --ref, or --tsv, not both")
    names = _metric_names(metrics)
    found = find_models(models, checkpoint)
    test_set = _read_files(src, ref, tsv) or _read_split(found, split)
    translator = load_translator(found, engine, device, precision)
    evaluation = _Evaluation(
        _describe(found), translator, search.change(translator.options), checkpoint, (engine, precision)
    )
    scores, record = evaluation.run(test_set, names)
    _print(scores, record, format)


class _Model(NamedTuple):
    """A run, an export or an ensemble of runs."""

    paths: list[Path]
    checkpoints: list[str]
    tgt_lang: str
    folder: Path  # for results


def _describe(found: list[RunDir] | ExportDir) -> _Model:
    if isinstance(found, ExportDir):
        return _Model([found.path], [], found.info().tgt_lang, found.path / "eval")
    checkpoints = [run.usable_checkpoint().stem for run in found]
    return _Model([run.path for run in found], checkpoints, found[0].config().data.tgt_lang, found[0].evaluations)


class _Evaluation(NamedTuple):
    """A model and the options that it is evaluated with."""

    model: _Model
    translator: Translator
    options: SearchOptions
    checkpoint: str | None
    computation: tuple[str, str]  # engine and precision, as given

    def run(self, test_set: TestSet, metrics: Sequence[str]) -> tuple[list[MetricScore], EvaluationRecord]:
        """Translate and score `test_set`; save the hypotheses and the record of the scores."""
        model, options = self.model, self.options
        hypotheses = self._translate(test_set.sources)
        scores = score(hypotheses, test_set.references, model.tgt_lang, metrics)
        hypothesis_file = model.folder / f"{test_set.name}{self._suffix()}.hyp"
        reference_file = _save(hypothesis_file, hypotheses, test_set)
        record = EvaluationRecord(
            models=[str(path) for path in model.paths],
            checkpoints=model.checkpoints,
            set=test_set.name,
            sentences=len(test_set.sources),
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            precision=self.translator.engine.precision,
            scores={s.name: ScoreRecord(round(s.value, 2), s.signature) for s in scores},
            hypotheses=str(hypothesis_file),
            sacrebleu=sacrebleu_command(hypothesis_file, reference_file, metrics, model.tgt_lang),
        )
        write_text(hypothesis_file.with_suffix(".json"), to_json(asdict(record), indent=2) + "\n")
        return scores, record

    def _translate(self, sources: list[str]) -> list[str]:
        """Return one line per source; warn of sources that are too long."""
        translations = self.translator.translate(sources, self.options)
        limit = self.translator.max_src_len
        for number, translation in enumerate(translations, 1):
            if translation.truncated:
                log.warning("source %d is longer than %d tokens; its end is not translated", number, limit)
        return [translation.text.replace("\n", " ") for translation in translations]

    def _suffix(self) -> str:
        """Return what tells this evaluation from that of the best checkpoint with default options, if it differs."""
        before, after = self.translator.options.model_dump(), self.options.model_dump()
        parts = [f"{_SHORT_NAMES.get(name, name)}{after[name]}" for name in after if after[name] != before[name]]
        parts += [self.checkpoint] if self.checkpoint else []
        parts += [name for name in self.computation if name != "auto"]
        parts += [f"with-{path.resolve().name}" for path in self.model.paths[1:]]
        return "".join(f"-{part}" for part in parts)


def _metric_names(metrics: str) -> list[str]:
    names = [name.strip().lower() for name in metrics.split(",")]
    if unknown := [name for name in names if name not in METRICS]:
        raise typer.BadParameter(f"unknown metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    return list(dict.fromkeys(names))


def _read_split(found: list[RunDir] | ExportDir, split: str) -> TestSet:
    """Return a data set of the (first) run."""
    if isinstance(found, ExportDir):
        hint = "name a test set with --src and --ref, or with --tsv"
        raise RunError("an export holds no test set", path=found.path, hint=hint)
    pairs = found[0].read_pairs(split)
    for other in found[1:]:
        if other.read_pairs(split) != pairs:
            log.warning(
                "%s has another %s set than %s; it may have been trained on sentences of this one, and scores may be "
                "too high",
                other.path,
                split,
                found[0].path,
            )
    return TestSet(split, *pairs, found[0].data / f"{split}.tgt")


def _read_files(src: Path | None, ref: Path | None, tsv: Path | None) -> TestSet | None:
    """Return the sentences of the given files. Reads each file once, because it may be a pipe."""
    if tsv is not None:
        pairs = list(read_parallel(ParallelFiles(tsv=str(tsv))))
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        stem = tsv.stem
    elif src is not None and ref is not None:
        sources, references = list(read_lines(src)), list(read_lines(ref))
        stem = src.stem
    else:
        return None
    if len(sources) != len(references):
        hint = "line n of the references must translate line n of the sources"
        raise DataError(f"{len(sources)} sources but {len(references)} references", path=ref, hint=hint)
    # The name has a mark of the sentences, so that another file of this name, or the run's test set, keeps its result.
    content = "\n".join([*sources, *references]).encode()
    return TestSet(f"{stem}-{hashlib.sha256(content).hexdigest()[:8]}", sources, references, None)


def _save(path: Path, hypotheses: list[str], test_set: TestSet) -> Path:
    """Write the hypotheses to `path`, and the references beside them unless the run holds them; return their path."""
    write_text(path, "".join(line + "\n" for line in hypotheses))
    if test_set.path is not None:
        return test_set.path
    reference_file = path.with_name(f"{test_set.name}.ref")
    write_text(reference_file, "".join(line + "\n" for line in test_set.references))
    return reference_file


def sacrebleu_command(hypotheses: Path, references: Path, metrics: Sequence[str], tgt_lang: str) -> str:
    """Return the command that computes the scores of these files with sacreBLEU itself."""
    command = ["sacrebleu", str(references), "-i", str(hypotheses), "-m", *metrics, "-w", "2"]
    return shlex.join(command + (["-tok", bleu_tokenizer(tgt_lang)] if "bleu" in metrics else []))


def _print(scores: list[MetricScore], record: EvaluationRecord, format: str) -> None:
    if format == "json":
        print_text(to_json(asdict(record), indent=2))
    else:
        print_text("\n".join(f"{s.name:<5} {s.value:6.2f}  {s.signature}" for s in scores))
    log.info("%s sentences; hypotheses in %s", f"{record.sentences:,}", record.hypotheses)
    log.info("the same with sacreBLEU: %s", record.sacrebleu)
