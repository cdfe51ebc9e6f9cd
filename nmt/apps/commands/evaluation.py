"""One evaluation of `nmt eval`: translate, score and save; its JSON output."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmt.apps.commands.options import SearchFlags, find_models, load_translator
from nmt.apps.commands.progress import Progress
from nmt.apps.commands.streams import to_json
from nmt.apps.commands.test_sets import TestSet, read_hypotheses
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.hub import HUB_PREFIX
from nmt.artifacts.packed import is_packed
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import NmtError
from nmt.base.files import is_writable, write_text
from nmt.base.languages import bleu_tokenizer
from nmt.config import SearchOptions
from nmt.data.read.lines import MODULES, open_text
from nmt.evaluation import MetricScore
from nmt.evaluation.scores import SPBLEU_TOKENIZER, Interval, tokenization_fault

if TYPE_CHECKING:
    from nmt.evaluation.comet import Comet
    from nmt.evaluation.significance import ComparedSystem
    from nmt.evaluation.statistics import System
    from nmt.translation import Translator

log = logging.getLogger(__name__)

_SHORT_NAMES = {"beam_size": "beam", "length_penalty": "lp", "num_candidates": "candidates"}
_VARIANTS = {"chrf++": "chrf", "spbleu": "bleu"}  # metrics that sacreBLEU cannot compute along with their base metric


@dataclass(frozen=True)
class ScoreRecord:
    """A score as printed and saved."""

    value: float
    signature: str
    interval: Interval | None = None  # 95%


@dataclass(frozen=True)
class EvaluationRecord:
    """The scores of one evaluation, as `nmt eval` prints them in JSON and saves them beside the hypotheses.

    For a file of hypotheses, the fields about the model are empty.
    """

    models: list[str]
    checkpoints: list[str]  # of runs, in the order of `models`
    set: str
    sentences: int
    beam_size: int | None
    length_penalty: float | None
    precision: str | None
    scores: dict[str, ScoreRecord]  # by sacreBLEU's name
    hypotheses: str  # path of the file
    sacrebleu: str | None  # command that prints the same scores; None without files that sacreBLEU can read

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return asdict(self) | {"scores": scores_as_json(self.scores)}


@dataclass(frozen=True)
class MeanRecord:
    """The scores of an evaluation of several directions: their mean, and one record per direction."""

    models: list[str]
    checkpoints: list[str]
    set: str
    sentences: int
    scores: dict[str, ScoreRecord]
    directions: dict[str, EvaluationRecord]  # by name, such as de-en

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON values."""
        directions = {name: record.as_json() for name, record in self.directions.items()}
        return asdict(self) | {"scores": scores_as_json(self.scores), "directions": directions}


def scores_as_json(scores: dict[str, ScoreRecord]) -> dict[str, object]:
    """Return scores as JSON values, with the key `interval` for those that have one."""
    return {
        name: {"value": each.value, "signature": each.signature}
        | ({} if each.interval is None else {"interval": {k: round(v, 2) for k, v in each.interval._asdict().items()}})
        for name, each in scores.items()
    }


def as_records(scores: Sequence[MetricScore]) -> dict[str, ScoreRecord]:
    """Return scores rounded for output."""
    return {each.name: ScoreRecord(round(each.value, 2), each.signature, each.interval) for each in scores}


class Metrics(NamedTuple):
    """The metrics of an evaluation."""

    names: Sequence[str]  # of METRICS
    comet: Comet | None = None


class Model(NamedTuple):
    """A run, an export or an ensemble of runs."""

    paths: list[Path]
    checkpoints: list[str]
    folder: Path  # for results

    @classmethod
    def describe(cls, found: list[RunDir] | ExportDir, folder: Path | None = None) -> Model:
        """Return the paths and checkpoints of a model, and the folder for results: its own if `folder` is None."""
        if isinstance(found, ExportDir):
            return cls([found.path], [], folder or _writable(found.path / "eval"))
        checkpoints = [run.usable_checkpoint().stem for run in found]
        return cls([run.path for run in found], checkpoints, folder or _writable(found[0].results))

    def __str__(self) -> str:
        return " + ".join(map(str, self.paths))


def _writable(folder: Path) -> Path:
    """Return `folder` for results, or a folder in the current one, with a warning, if `folder` is not writable.

    NmtError if neither is.
    """
    if is_writable(folder):
        return folder
    here = Path(f"{folder.absolute().parent.name}-eval" if folder.name == "eval" else folder.name)
    if not is_writable(here):
        hint = "run the command in a folder in which you may write"
        raise NmtError("results cannot be saved here, nor in the current folder", path=folder, hint=hint)
    log.warning("cannot write to %s; saving results in %s", folder, here)
    return here


class Evaluation(NamedTuple):
    """A model and its options for an evaluation."""

    model: Model
    translator: Translator
    options: SearchOptions
    checkpoint: str | None
    computation: tuple[str, str]  # engine and precision, as given

    def run(self, test_set: TestSet, metrics: Metrics) -> tuple[EvaluationRecord | MeanRecord, System | None]:
        """Translate and score `test_set`, and save hypotheses and records. Also return the system if one direction."""
        from nmt.evaluation.significance import mean_with_interval

        if len(test_set.sets) == 1:
            return self._run_direction(test_set, metrics)
        records, measured = {}, []
        for each in test_set.sets:
            only = TestSet(f"{test_set.name}.{each.direction}", [each], [])
            records[str(each.direction)], system = self._run_direction(only, metrics)
            measured.append(system.measured)
        mean = MeanRecord(
            models=[str(path) for path in self.model.paths],
            checkpoints=self.model.checkpoints,
            set=test_set.name,
            sentences=sum(len(each.sources) for each in test_set.sets),
            scores=as_records([mean_with_interval(each) for each in zip(*measured, strict=True)]),
            directions=records,
        )
        self._save(self.model.folder / f"{test_set.name}{self.suffix()}.json", mean)
        return mean, None

    def _run_direction(self, test_set: TestSet, metrics: Metrics) -> tuple[EvaluationRecord, System]:
        """Translate and score one direction; save hypotheses and record."""
        model, options, (each,) = self.model, self.options, test_set.sets
        hypotheses = self.translate(each)
        path = write_lines(model.folder / f"{test_set.name}{self.suffix()}.hyp", hypotheses)
        references = self.reference_files(test_set)
        system = measure(str(model), hypotheses, test_set, metrics)
        record = EvaluationRecord(
            models=[str(path) for path in model.paths],
            checkpoints=model.checkpoints,
            set=test_set.name,
            sentences=len(each.sources),
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            precision=self.translator.engine.precision,
            scores=as_records(scores_of(system)),
            hypotheses=str(path),
            sacrebleu=sacrebleu_command([path], references, metrics.names, each.direction.tgt),
        )
        self._save(path.with_suffix(".json"), record)
        return record, system

    def _save(self, path: Path, record: EvaluationRecord | MeanRecord) -> None:
        write_text(path, to_json(record.as_json(), indent=2) + "\n")

    def reference_files(self, test_set: TestSet) -> list[Path]:
        """Return the reference files; references that are not in the run's data are written beside the hypotheses."""
        folder = self.model.folder
        if test_set.paths and all(path.parent == folder.parent / "data" for path in test_set.paths):
            return test_set.paths
        names = [f"{test_set.name}.ref{number or ''}" for number in range(len(test_set.references))]
        pairs = zip(names, test_set.references, strict=True)
        return [write_lines(folder / name, lines) for name, lines in pairs]

    def translate(self, each: DirectedPairs) -> list[str]:
        """Return one line per source; warn about sources that are too long."""
        src, tgt = each.direction
        translations = self.translator.translate(each.sources, self.options, to=tgt, from_=src)
        limit = self.translator.max_src_len
        for number, translation in enumerate(translations, 1):
            if translation.truncated:
                log.warning("source %d is longer than %d tokens; its end is not translated", number, limit)
        return [translation.text.replace("\n", " ") for translation in translations]

    def suffix(self) -> str:
        """Return a file-name suffix for the options that differ from the best checkpoint with default options."""
        before, after = self.translator.options.model_dump(), self.options.model_dump()
        parts = [_part(name, after[name]) for name in after if after[name] != before[name]]
        parts += [self.checkpoint] if self.checkpoint else []
        parts += [name for name in self.computation if name != "auto"]
        parts += [f"with-{path.resolve().name}-{_mark([str(path.resolve())])}" for path in self.model.paths[1:]]
        return "".join(f"-{part}" for part in parts)


class Computation(NamedTuple):
    """The command-line options that control how models translate."""

    search: SearchFlags
    engine: str
    device: str
    precision: str

    def load(
        self, found: list[RunDir] | ExportDir, checkpoint: str | None = None, folder: Path | None = None
    ) -> Evaluation:
        """Load a model; `checkpoint` is the one given, if any, and `folder` is for results instead of its own."""
        translator = load_translator(found, self.engine, self.device, self.precision)
        options = self.search.change(translator.options)
        return Evaluation(Model.describe(found, folder), translator, options, checkpoint, (self.engine, self.precision))


class Other(NamedTuple):
    """A system to compare with: a run or an export, or the translations of another system."""

    path: Path
    model: list[RunDir] | ExportDir | None
    hypotheses: list[str]

    @classmethod
    def find(cls, name: str, test_set: TestSet) -> Other:
        """Find the system called `name`. NmtError if there is none, or if it translates another test set."""
        path = Path(name)
        if name.startswith(HUB_PREFIX) or path.is_dir() or is_packed(path):
            return cls(path, find_models([name]), [])
        if not path.exists():
            raise NmtError("no such run, export or file of translations", path=path)
        return cls(path, None, read_hypotheses(path, test_set))

    def translate(self, test_set: TestSet, computation: Computation, folder: Path | None) -> tuple[list[str], Path]:
        """Return translations and their file.

        A model's translations are written into `folder`, or else into its own folder for results. A file that sacreBLEU
        cannot read is copied into `folder`, if given.
        """
        if self.model is None:
            if folder is None or sacrebleu_can_read(self.path, self.hypotheses):
                return self.hypotheses, self.path
            return self.hypotheses, write_lines(folder / self._file_name(test_set), self.hypotheses)
        evaluation = computation.load(self.model, folder=folder)
        with evaluation.translator:
            hypotheses = evaluation.translate(test_set.sets[0])
        path = evaluation.model.folder / self._file_name(test_set, evaluation.suffix())
        return hypotheses, write_lines(path, hypotheses)

    def _file_name(self, test_set: TestSet, suffix: str = "") -> str:
        """Return a name for the file of translations that no other system has."""
        name = "-".join(Path(os.path.abspath(self.path)).parts[-2:])
        # Two models may have the same last folders, and two pipes the same path: hash all of a model's path, and the
        # text of a file.
        identity = [str(self.path.resolve())] if self.model is not None else self.hypotheses
        return f"{test_set.name}-of-{name}-{_mark(identity)}{suffix}.hyp"


def _mark(identity: Sequence[str]) -> str:
    """Return a hash that keeps the names of files apart."""
    return hashlib.sha256("\n".join(identity).encode(errors="surrogateescape")).hexdigest()[:8]


def compared_as_json(compared: ComparedSystem) -> dict[str, object]:
    """Return a comparison as JSON values."""
    differences = {
        each.name: {
            "value": round(each.value, 2),
            "other": round(each.other, 2),
            "p_value": each.p_value,
            "sacrebleu_p_value": each.sacrebleu_p_value,
            "significant": each.is_significant,
            "verdict": each.verdict(),
            "signature": each.signature,
        }
        for each in compared.differences
    }
    return {"other": compared.system.name, "test": compared.test, "differences": differences}


def _part(name: str, value: object) -> str:
    """Return the file-name part for an option that differs from the run's: beam5, shortlist, no_shortlist."""
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    return f"{_SHORT_NAMES.get(name, name)}{value}"


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """Write one item per line, atomically; return the path."""
    write_text(path, "".join(line + "\n" for line in lines))
    return path


def sacrebleu_can_read(path: Path, lines: Sequence[str]) -> bool:
    """Return whether sacreBLEU reads `lines` from the file at `path`.

    It does not if the file is a pipe, which can be read only once, is compressed with xz or Zstandard, or begins with a
    byte order mark.
    """
    if not path.is_file() or path.suffix in MODULES:
        return False
    with open_text(path) as file:
        text = file.read().replace(b"\r\n", b"\n")
    return text.removesuffix(b"\n") == "\n".join(lines).encode()


def measure(name: str, hypotheses: Sequence[str], test_set: TestSet, metrics: Metrics) -> System:
    """Return the measured system `name`, whose translations of the first direction are `hypotheses`."""
    from nmt.evaluation.statistics import Scorer

    if fault := tokenization_fault(hypotheses, test_set.references[0]):
        log.warning("%s: %s", name, fault)
    system = Scorer(test_set.references, test_set.sets[0].direction.tgt, metrics.names).measure(name, hypotheses)
    if metrics.comet is None:
        return system
    metrics.comet.load()
    texts = test_set.sets[0].sources, hypotheses, test_set.references[0]
    with Progress(total=len(hypotheses), bar=sys.stderr.isatty(), log_lines=True, done="scored") as progress:
        return replace(system, measured=[*system.measured, metrics.comet.measure(*texts, progress.add)])


def scores_of(system: System) -> list[MetricScore]:
    """Return the corpus scores of a system, each with its confidence interval."""
    from nmt.evaluation.significance import with_interval

    return [with_interval(each) for each in system.measured]


def sacrebleu_command(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    metrics: Sequence[str],
    tgt_lang: str,
    test: Sequence[str] = ("--confidence",),
) -> str | None:
    """Return the shell command that computes the same with sacreBLEU; two commands if metrics cannot be combined.

    None if sacreBLEU computes none of them.
    """
    groups = [name for name in metrics if name not in _VARIANTS], [name for name in metrics if name in _VARIANTS]
    commands = []
    for names in filter(None, groups):
        # sacreBLEU refuses a file that is listed twice.
        command = ["sacrebleu", *map(str, references), "-i", *dict.fromkeys(map(str, hypotheses))]
        command += ["-m", *(_VARIANTS.get(name, name) for name in names), "-w", "2", *test]
        command += ["-tok", bleu_tokenizer(tgt_lang)] if "bleu" in names else []
        command += ["-tok", SPBLEU_TOKENIZER] if "spbleu" in names else []
        command += ["--chrf-word-order", "2"] if "chrf++" in names else []
        commands.append(shlex.join(command))
    return " && ".join(commands) or None
