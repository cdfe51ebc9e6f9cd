"""`nmt eval`."""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from nmt.commands.options import (
    Checkpoint,
    Device,
    Engine,
    From,
    Models,
    Precision,
    SearchFlags,
    To,
    find_models,
    load_translator,
    search_flags,
)
from nmt.commands.streams import print_text, to_json
from nmt.config import SearchOptions
from nmt.config.augment import KINDS, AugmentConfig
from nmt.data.augment import PairChanger, TextPair, change_all
from nmt.data.corpus import read_rows
from nmt.data.lines import read_lines
from nmt.errors import DataError, RunError
from nmt.evaluate import METRICS, MetricScore, score, score_sets
from nmt.exportdir import ExportDir
from nmt.files import write_text
from nmt.languages import Direction, bleu_tokenizer
from nmt.rundir import DirectedPairs, RunDir

if TYPE_CHECKING:
    from nmt.translate import LanguagePair, Translator

log = logging.getLogger(__name__)

_SHORT_NAMES = {"beam_size": "beam", "length_penalty": "lp"}

Source = Annotated[Path | None, typer.Option(help="Source sentences to translate. Default: the run's test set.")]
Reference = Annotated[Path | None, typer.Option(help="Reference translations for --src.")]
Table = Annotated[Path | None, typer.Option(help="Tab-separated file: source, reference; instead of --src and --ref.")]
Split = Annotated[Literal["test", "valid"], typer.Option(help="Which of the run's data sets to use.")]
Metrics = Annotated[str, typer.Option(help="Comma-separated metrics: bleu, chrf, ter.")]
Augment = Annotated[
    str,
    typer.Option(
        help="Comma-separated kinds of changes, as in data.augment: upper, title, typos, no_final_punctuation, noise, "
        "merge, emoji. After the set as it is, score it once per kind with every pair changed in that way. typos and "
        "noise change the source only, the others the reference too; scores regard case."
    ),
]
Format = Annotated[Literal["text", "json"], typer.Option(help="Output format.")]


class TestSet(NamedTuple):
    """Sentences to translate, and their references, by direction."""

    name: str
    sets: list[DirectedPairs]
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


@dataclass(frozen=True)
class MeanRecord:
    """The scores of an evaluation of several directions: their mean, and a record for each direction."""

    models: list[str]
    checkpoints: list[str]
    set: str
    sentences: int
    scores: dict[str, ScoreRecord]
    directions: dict[str, EvaluationRecord]  # by name, such as de-en


@search_flags("beam_size", "length_penalty")
def evaluate(
    models: Models = None,
    checkpoint: Checkpoint = None,
    to: To = None,
    from_: From = None,
    src: Source = None,
    ref: Reference = None,
    tsv: Table = None,
    split: Split = "test",
    metrics: Metrics = "bleu,chrf",
    augment: Augment = "",
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
    names, kinds = _names(metrics, METRICS, "metric"), _names(augment, KINDS, "kind of change") if augment else []
    found = find_models(models, checkpoint)
    languages = _languages(found)
    files = _read_files(src, ref, tsv)
    if files is None:
        test_set = _read_split(found, split, languages, to, from_)
    else:
        test_set = TestSet(files[0], [DirectedPairs(languages.direction(to, from_), *files[1:])], None)
    translator = load_translator(found, engine, device, precision)
    model = _describe(found)
    evaluation = _Evaluation(model, translator, search.change(translator.options), checkpoint, (engine, precision))
    record = evaluation.run(test_set, names)
    changed = {kind: evaluation.run(_changed(test_set, kind, translator), names) for kind in kinds}
    _print(record, changed, format)


def _changed(test_set: TestSet, kind: str, translator: Translator) -> TestSet:
    """Return the set with every pair changed in one way; user symbols of the model stay."""
    symbols = {*translator.tokenizers.src.user_symbols, *translator.tokenizers.tgt.user_symbols}
    sets = []
    for each in test_set.sets:
        changer = PairChanger(each.direction, symbols, AugmentConfig().word_rate)
        pairs = change_all(changer, kind, list(map(TextPair, each.sources, each.references)))
        sets.append(each._replace(sources=[pair.src for pair in pairs], references=[pair.tgt for pair in pairs]))
    return TestSet(f"{test_set.name}-{kind}", sets, None)


def _languages(found: list[RunDir] | ExportDir) -> LanguagePair:
    from nmt.translate import LanguagePair

    return LanguagePair.of_export(found.info()) if isinstance(found, ExportDir) else LanguagePair.of(found[0].config())


class _Model(NamedTuple):
    """A run, an export or an ensemble of runs."""

    paths: list[Path]
    checkpoints: list[str]
    folder: Path  # for results


def _describe(found: list[RunDir] | ExportDir) -> _Model:
    if isinstance(found, ExportDir):
        return _Model([found.path], [], found.path / "eval")
    checkpoints = [run.usable_checkpoint().stem for run in found]
    return _Model([run.path for run in found], checkpoints, found[0].evaluations)


class _Evaluation(NamedTuple):
    """A model and the options that it is evaluated with."""

    model: _Model
    translator: Translator
    options: SearchOptions
    checkpoint: str | None
    computation: tuple[str, str]  # engine and precision, as given

    def run(self, test_set: TestSet, metrics: Sequence[str]) -> EvaluationRecord | MeanRecord:
        """Translate and score `test_set`; save the hypotheses and the records of the scores."""
        if len(test_set.sets) == 1:
            return self._run_direction(test_set.name, test_set.sets[0], test_set.path, metrics)[1]
        records: dict[str, EvaluationRecord] = {}

        def translate(each: DirectedPairs) -> list[str]:
            name = f"{test_set.name}.{each.direction}"
            hypotheses, records[str(each.direction)] = self._run_direction(name, each, None, metrics)
            return hypotheses

        scores = score_sets(test_set.sets, translate, metrics).mean
        record = MeanRecord(
            models=[str(path) for path in self.model.paths],
            checkpoints=self.model.checkpoints,
            set=test_set.name,
            sentences=sum(len(each.sources) for each in test_set.sets),
            scores=_as_records(scores),
            directions=records,
        )
        path = self.model.folder / f"{test_set.name}{self._suffix()}.json"
        write_text(path, to_json(asdict(record), indent=2) + "\n")
        return record

    def _run_direction(
        self, name: str, each: DirectedPairs, references: Path | None, metrics: Sequence[str]
    ) -> tuple[list[str], EvaluationRecord]:
        """Translate and score one direction; save and return the hypotheses and the record of the scores."""
        model, options, tgt_lang = self.model, self.options, each.direction.tgt
        hypotheses = self._translate(each)
        hypothesis_file = model.folder / f"{name}{self._suffix()}.hyp"
        write_text(hypothesis_file, "".join(line + "\n" for line in hypotheses))
        reference_file = references or _save_references(hypothesis_file.with_name(f"{name}.ref"), each.references)
        record = EvaluationRecord(
            models=[str(path) for path in model.paths],
            checkpoints=model.checkpoints,
            set=name,
            sentences=len(each.sources),
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            precision=self.translator.engine.precision,
            scores=_as_records(score(hypotheses, each.references, tgt_lang, metrics)),
            hypotheses=str(hypothesis_file),
            sacrebleu=sacrebleu_command(hypothesis_file, reference_file, metrics, tgt_lang),
        )
        write_text(hypothesis_file.with_suffix(".json"), to_json(asdict(record), indent=2) + "\n")
        return hypotheses, record

    def _translate(self, each: DirectedPairs) -> list[str]:
        """Return one line per source; warn of sources that are too long."""
        src, tgt = each.direction
        translations = self.translator.translate(each.sources, self.options, to=tgt, from_=src)
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


def _names(given: str, known: Sequence[str], what: str) -> list[str]:
    names = [name.strip().lower() for name in given.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"unknown {what} {unknown[0]!r}; there are {', '.join(known)}")
    return list(dict.fromkeys(names))


def _read_split(
    found: list[RunDir] | ExportDir, split: str, languages: LanguagePair, to: str | None, from_: str | None
) -> TestSet:
    """Return a data set of the (first) run: all of its directions, or those from `from_` and to `to`."""
    if isinstance(found, ExportDir):
        hint = "name a test set with --src and --ref, or with --tsv"
        raise RunError("an export holds no test set", path=found.path, hint=hint)
    only = Direction(languages.src, languages.tgt)
    sets = found[0].read_sets(split, only)
    for other in found[1:]:
        if other.read_sets(split, only) != sets:
            log.warning(
                "%s has another %s set than %s; it may have been trained on sentences of this one, and scores may be "
                "too high",
                other.path,
                split,
                found[0].path,
            )
    wanted = [each for each in sets if to in (None, each.direction.tgt) and from_ in (None, each.direction.src)]
    if not wanted:
        listed = ", ".join(str(each.direction) for each in sets)
        raise RunError(f"the {split} set has no such direction; it has {listed}", path=found[0].path)
    if len(sets) == 1:
        return TestSet(split, sets, found[0].data / f"{split}.tgt")
    name = f"{split}.{wanted[0].direction}" if len(wanted) == 1 else split
    return TestSet(name, wanted, None)


def _read_files(src: Path | None, ref: Path | None, tsv: Path | None) -> tuple[str, list[str], list[str]] | None:
    """Return name, sources and references of the given files. Reads each file once, because it may be a pipe."""
    if tsv is not None:
        pairs = list(read_rows(tsv))
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
    return f"{stem}-{hashlib.sha256(content).hexdigest()[:8]}", sources, references


def _save_references(path: Path, references: list[str]) -> Path:
    """Write references that no run holds as a file to `path`; return it."""
    write_text(path, "".join(line + "\n" for line in references))
    return path


def _as_records(scores: Sequence[MetricScore]) -> dict[str, ScoreRecord]:
    return {each.name: ScoreRecord(round(each.value, 2), each.signature) for each in scores}


def sacrebleu_command(hypotheses: Path, references: Path, metrics: Sequence[str], tgt_lang: str) -> str:
    """Return the command that computes the scores of these files with sacreBLEU itself."""
    command = ["sacrebleu", str(references), "-i", str(hypotheses), "-m", *metrics, "-w", "2"]
    return shlex.join(command + (["-tok", bleu_tokenizer(tgt_lang)] if "bleu" in metrics else []))


def _print(
    record: EvaluationRecord | MeanRecord, changed: Mapping[str, EvaluationRecord | MeanRecord], format: str
) -> None:
    """Print the scores of a set, and those of the set as it was changed, by kind."""
    if format == "json":
        augmented = {"augmented": {kind: asdict(each) for kind, each in changed.items()}} if changed else {}
        print_text(to_json(asdict(record) | augmented, indent=2))
    else:
        print_text("\n".join(_lines(record)))
        for kind, each in changed.items():
            print_text("\n".join(f"{kind}  {line}" for line in _lines(each)))
    for shown in (record, *changed.values()):
        for each in shown.directions.values() if isinstance(shown, MeanRecord) else [shown]:
            log.info("%s sentences; hypotheses in %s", f"{each.sentences:,}", each.hypotheses)
            log.info("the same with sacreBLEU: %s", each.sacrebleu)


def _lines(record: EvaluationRecord | MeanRecord) -> list[str]:
    if isinstance(record, EvaluationRecord):
        return [f"{name:<5} {each.value:6.2f}  {each.signature}" for name, each in record.scores.items()]
    lines = [f"{direction}  {line}" for direction, each in record.directions.items() for line in _lines(each)]
    width = max(map(len, record.directions))
    return lines + [f"{'mean':<{width}}  {name:<5} {s.value:6.2f}" for name, s in record.scores.items()]
