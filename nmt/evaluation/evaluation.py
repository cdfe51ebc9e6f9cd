"""Evaluate a model, or translations in a file, on a test set: scores, comparisons, and the files of results."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import is_normalized

from nmt.artifacts.find_model import find_run, is_in_one_file
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, require_one_of
from nmt.base.files import is_writable, to_json, write_text
from nmt.base.languages import UNKNOWN_LANGUAGE, Direction
from nmt.config import SearchOptions
from nmt.data.read.lines import open_text
from nmt.evaluation.scores import MetricScore, mean_score, tokenization_fault, tokenizer_for
from nmt.evaluation.scorings import count_scoring
from nmt.evaluation.test_sets import TestSet, hash_of, on_lines, read_hypotheses, read_split, translate_set
from nmt.translation import LanguagePair, Translator
from nmt.translation.request import changed_options

if TYPE_CHECKING:  # numpy and sacreBLEU are imported to score, after the translation
    from nmt.evaluation.details import Details
    from nmt.evaluation.significance import ComparedSystem, System

log = logging.getLogger(__name__)

_SHORT_NAMES = {"beam_size": "beam", "length_penalty": "lp", "num_candidates": "candidates"}
_VARIANT = "chrf++"  # which sacreBLEU cannot compute along with chrF


@dataclass(frozen=True)
class Evaluation:
    """The scores of one system on a test set, from which text, JSON and HTML are rendered.

    If the set has several directions, the scores are means over `directions`, and what follows has no value.
    """

    set: str
    sentences: int
    scores: list[MetricScore]
    models: Sequence[str] = ()  # empty for translations in a file
    checkpoints: Sequence[str] = ()  # of runs, in the order of `models`
    directions: dict[str, Evaluation] = field(default_factory=dict)  # by name, such as de-en, if there are several
    system: System | None = None
    expected_chrf: Sequence[float | None] = ()  # of each sentence; empty for translations in a file
    options: SearchOptions | None = None  # None for translations in a file
    engine: str | None = None
    precision: str | None = None
    hypotheses: Path | None = None
    sacrebleu: str | None = None  # command that prints the same scores; None without files that sacreBLEU can read
    changed: dict[str, Evaluation] | None = None  # by the kind of change of the test set
    compared: Sequence[ComparedSystem] = ()
    details: Details | None = None
    near_twins: int = 0  # sentences with a near-twin in the training data
    without_twins: dict[str, float] = field(default_factory=dict)  # scores of the other sentences

    def parts(self) -> list[Evaluation]:
        """Return the evaluation of each direction, for the unchanged set and for each changed version."""
        return [part for each in (self, *(self.changed or {}).values()) for part in each.directions.values() or [each]]

    def as_json(self) -> dict[str, object]:
        """Return the evaluation as JSON values."""
        values: dict[str, object] = {
            "models": list(self.models),
            "checkpoints": list(self.checkpoints),
            "set": self.set,
            "sentences": self.sentences,
        }
        scores = {each.name: _score_as_json(each) for each in self.scores}
        if self.directions:
            directions = {name: each.as_json() for name, each in self.directions.items()}
            values |= {"scores": scores, "directions": directions}
        else:
            values |= {
                "beam_size": self.options and self.options.beam_size,
                "length_penalty": self.options and self.options.length_penalty,
                "engine": self.engine,
                "precision": self.precision,
                "scores": scores,
                "hypotheses": str(self.hypotheses),
                "sacrebleu": self.sacrebleu,
            }
            if self.near_twins:
                values["near_twins"] = {"sentences": self.near_twins, "scores_without": self.without_twins}
        if self.changed:
            values["augmented"] = {kind: each.as_json() for kind, each in self.changed.items()}
        if self.compared:
            values["compared"] = [_comparison_as_json(each) for each in self.compared]
        if self.details is not None:
            worst = [asdict(sentence) for sentence in self.details.worst()]
            for each in worst:
                if each["expected_chrf"] is None:
                    del each["expected_chrf"]
            groupings = [asdict(grouping) for grouping in self.details.groupings]
            values["details"] = {"groupings": groupings, "flags": self.details.flags, "worst": worst}
        return values


def _score_as_json(score: MetricScore) -> dict[str, object]:
    values: dict[str, object] = {"value": round(score.value, 2), "signature": score.signature}
    if score.interval is not None:
        values["interval"] = {name: round(value, 2) for name, value in score.interval._asdict().items()}
    return values


def _comparison_as_json(compared: ComparedSystem) -> dict[str, object]:
    differences = {each.name: each.as_json() for each in compared.differences}
    return {"other": compared.system.name, "differences": differences}


def evaluate(
    run: RunDir | str | Path, split: str = "test", metrics: str | Sequence[str] = ("bleu", "chrf"), **options: Any
) -> Evaluation:
    """Translate and score the valid or test set of `run`; save the results in its folder `eval`, as `nmt eval` does.

    `options` are search options, such as `beam_size=5`; the defaults are those of the run. NmtError if there is no such
    set, metric or option.
    """
    require_one_of("split", split, ("valid", "test"))
    metrics = [metrics] if isinstance(metrics, str) else metrics
    run = run if isinstance(run, RunDir) else find_run(str(run))
    with Translator.load([run]) as translator:
        languages = translator.languages
        chosen = changed_options(translator.options, options)
        test_set = read_split([run], split, Direction(languages.src, languages.tgt))
        return Evaluator([run], translator, chosen).evaluate(test_set, metrics)


class Evaluator:
    """A model whose translations of test sets are scored, and saved with the scores in a folder."""

    def __init__(
        self,
        model: Sequence[RunDir],
        translator: Translator,
        options: SearchOptions,
        marks: Sequence[str] = (),
        folder: Path | None = None,
    ):
        """Set the folder for results: the one in the model, or else one in the current folder, by default.

        `marks` are added to the names of files, such as a checkpoint. NmtError if no folder is writable.
        """
        self.translator = translator
        self.options = options
        self._marks = marks
        self.paths = [run.source for run in model]
        self._names = list(map(str, self.paths))
        self._checkpoints = [run.usable_checkpoint().stem for run in model]
        self.folder = folder or _writable(model[0].results)
        self._run = model[0]

    def evaluate(self, test_set: TestSet, metrics: Sequence[str]) -> Evaluation:
        """Translate and score `test_set`; save hypotheses and scores."""
        evaluate = self._evaluate_direction if len(test_set.sets) == 1 else self._evaluate_directions
        evaluation = evaluate(test_set, metrics)
        count_scoring(self.folder, test_set.name)
        path = self.folder / f"{test_set.name}{self.suffix()}.json"
        write_text(path, to_json(evaluation.as_json(), indent=2) + "\n")
        if test_set.name == "test" and self.folder == self._run.evaluations:
            from nmt.evaluation.model_card import update_card  # with YAML, after the translation

            update_card(self._run)
        return evaluation

    def _evaluate_directions(self, test_set: TestSet, metrics: Sequence[str]) -> Evaluation:
        sets = [TestSet(f"{test_set.name}.{each.direction}", [each]) for each in test_set.sets]
        directions = {str(each.sets[0].direction): self.evaluate(each, metrics) for each in sets}
        scores = [each.scores for each in directions.values()]
        return Evaluation(
            models=self._names,
            checkpoints=self._checkpoints,
            set=test_set.name,
            sentences=sum(len(each.sources) for each in test_set.sets),
            scores=[mean_score(of_metric) for of_metric in zip(*scores, strict=True)],
            directions=directions,
        )

    def _evaluate_direction(self, test_set: TestSet, metrics: Sequence[str]) -> Evaluation:
        translations = translate_set(self.translator, test_set.sets[0], self.options)
        hypotheses = on_lines(translations)
        path = write_lines(self.folder / f"{test_set.name}{self.suffix()}.hyp", hypotheses)
        references = self._reference_files(test_set)
        twins = self._run.sources_with_twins()
        others = [number for number, source in enumerate(test_set.sets[0].sources) if source not in twins]
        system = measure(" + ".join(self._names), hypotheses, test_set, metrics)
        return Evaluation(
            models=self._names,
            checkpoints=self._checkpoints,
            set=test_set.name,
            sentences=len(hypotheses),
            scores=system.scores(),
            system=system,
            expected_chrf=[translation.expected_chrf for translation in translations],
            options=self.options,
            engine=self.translator.engine.name,
            precision=self.translator.engine.precision,
            hypotheses=path,
            sacrebleu=sacrebleu_command(path, references, metrics, _tokenizer_of(system)),
            near_twins=len(hypotheses) - len(others),
            without_twins={each.name: round(each.score(others), 2) for each in system.measured if others},
        )

    def _reference_files(self, test_set: TestSet) -> list[Path]:
        """Return the reference files; references that are not in the run's data are written beside the hypotheses."""
        if test_set.paths and all(path.parent == self.folder.parent / "data" for path in test_set.paths):
            return test_set.paths
        names = [f"{test_set.name}.ref{number or ''}" for number in range(len(test_set.references))]
        pairs = zip(names, test_set.references, strict=True)
        return [write_lines(self.folder / name, lines) for name, lines in pairs]

    def suffix(self) -> str:
        """Return a file-name suffix for the options that differ from the best checkpoint with default options."""
        before = self.translator.options.model_dump()
        after = self.options.model_dump()
        parts = []
        for name, value in after.items():
            if value != before[name]:  # beam5, shortlist, no_shortlist
                is_flag = isinstance(value, bool)
                parts.append(f"{'' if value else 'no_'}{name}" if is_flag else f"{_SHORT_NAMES.get(name, name)}{value}")
        others = [path.resolve() for path in self.paths[1:]]
        parts += [*self._marks, *(f"with-{path.name}-{hash_of([str(path)])}" for path in others)]
        return "".join(f"-{part}" for part in parts)


def _writable(folder: Path) -> Path:
    """Return `folder` for results, or a folder in the current one, with a warning, if `folder` is not writable.

    NmtError if neither is.
    """
    if is_writable(folder):
        return folder
    here = Path(f"{folder.absolute().parent.name}-eval" if folder.name == "eval" else folder.name)
    if not is_writable(here):
        raise NmtError(
            "results cannot be saved here, nor in the current folder",
            path=folder,
            hint="run the command in a folder in which you may write",
        )
    log.warning("cannot write to %s; saving results in %s", folder, here)
    return here


def evaluate_file(path: Path, test_set: TestSet, metrics: Sequence[str]) -> Evaluation:
    """Score the translations in a file; save nothing."""
    hypotheses = read_hypotheses(path, test_set)
    system = measure(str(path), hypotheses, test_set, metrics)
    files = [*zip(test_set.paths, test_set.references, strict=False), (path, hypotheses)]  # paths may be missing
    if not test_set.paths:
        log.info("no sacreBLEU command: sacreBLEU needs a file with one reference per line (--ref)")
    can_read = bool(test_set.paths) and all(_sacrebleu_can_read(*file) for file in files)
    return Evaluation(
        set=test_set.name,
        sentences=len(hypotheses),
        scores=system.scores(),
        system=system,
        hypotheses=path,
        sacrebleu=sacrebleu_command(path, test_set.paths, metrics, _tokenizer_of(system)) if can_read else None,
    )


class OtherSystem(NamedTuple):
    """A system to compare with: a run, or the translations of another system."""

    path: Path
    model: RunDir | None
    hypotheses: list[str]

    @classmethod
    def find(cls, name: str, test_set: TestSet) -> OtherSystem:
        """Find the system called `name`. NmtError if there is none, or if it cannot, or did not, translate the set."""
        path = Path(name)
        if path.is_dir() or is_in_one_file(path):
            model = find_run(name)
            src, tgt = test_set.sets[0].direction
            if not test_set.has_sources or src == UNKNOWN_LANGUAGE:
                hint = "give --src and --from, or compare with a file of translations"
                raise NmtError(
                    "a run translates the sources, which are missing, or their language", path=path, hint=hint
                )
            LanguagePair.of(model.essentials()).direction(tgt, src)
            return cls(path, model, [])
        if not path.exists():
            raise NmtError("no such run or file of translations", path=path)
        return cls(path, None, read_hypotheses(path, test_set))


Load = Callable[[Sequence[RunDir], Path | None], Evaluator]  # with a folder for the results; None: the model's own


def compare_with(
    evaluation: Evaluation, others: Sequence[OtherSystem], test_set: TestSet, metrics: Sequence[str], load: Load
) -> Evaluation:
    """Return `evaluation` with the differences to `others`, tested for significance.

    Translations of models are saved beside those of the evaluated one, or else in the model's own folder.
    """
    from nmt.evaluation.significance import compare_systems

    assert evaluation.system is not None  # as for every set of one direction
    assert evaluation.hypotheses is not None
    folder = evaluation.hypotheses.parent if evaluation.options is not None else None
    compared = []
    for path, model, hypotheses in others:
        if model is not None:
            evaluator = load([model], folder)
            with evaluator.translator:
                hypotheses = on_lines(translate_set(evaluator.translator, test_set.sets[0], evaluator.options))
            # Two models may have the same last folders.
            name = f"{'-'.join(Path(os.path.abspath(path)).parts[-2:])}-{hash_of([str(path.resolve())])}"
            write_lines(evaluator.folder / f"{test_set.name}-of-{name}{evaluator.suffix()}.hyp", hypotheses)
        compared.append(compare_systems(evaluation.system, measure(str(path), hypotheses, test_set, metrics)))
    return replace(evaluation, compared=compared)


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """Write one item per line, atomically; return the path."""
    write_text(path, "".join(line + "\n" for line in lines))
    return path


def _sacrebleu_can_read(path: Path, lines: Sequence[str]) -> bool:
    """Return whether sacreBLEU reads `lines` from the file at `path`; if not, log it.

    It does not if the file is a pipe, which can be read only once, is compressed with xz or Zstandard, begins with a
    byte order mark, or is not in NFC, in which nmt scores.
    """
    if path.is_file() and path.suffix not in (".xz", ".zst"):
        with open_text(path) as file:
            text = file.read().replace(b"\r\n", b"\n")
        joined = "\n".join(lines)
        if text.removesuffix(b"\n") == joined.encode() and is_normalized("NFC", joined):
            return True
    reasons = "a pipe, .xz, .zst, a byte order mark, or text that is not in NFC"
    log.info("no sacreBLEU command: sacreBLEU cannot read %s (%s)", path, reasons)
    return False


def measure(name: str, hypotheses: Sequence[str], test_set: TestSet, metrics: Sequence[str]) -> System:
    """Return the measured system `name`, whose translations of the first direction are `hypotheses`."""
    from nmt.evaluation.significance import Scorer

    if fault := tokenization_fault(hypotheses, test_set.references[0]):
        log.warning("%s: %s", name, fault)
    return Scorer(test_set.references, test_set.sets[0].direction.tgt, metrics).measure(name, hypotheses)


def _tokenizer_of(system: System) -> str:
    return tokenizer_for(system.tgt_lang, system.references[0])


def sacrebleu_command(hypotheses: Path, references: Sequence[Path], metrics: Sequence[str], tokenizer: str) -> str:
    """Return the shell command that prints the same scores with sacreBLEU; two if metrics cannot be combined.

    `tokenizer` is that of BLEU.
    """
    groups = [name for name in metrics if name != _VARIANT], [name for name in metrics if name == _VARIANT]
    commands = []
    for names in filter(None, groups):
        command = ["sacrebleu", *map(str, references), "-i", str(hypotheses)]
        command += ["-m", *(name.removesuffix("++") for name in names), "-w", "2", "--confidence"]
        command += ["-tok", tokenizer] if "bleu" in names else []
        command += ["--chrf-word-order", "2"] if _VARIANT in names else []
        commands.append(shlex.join(command))
    return " && ".join(commands)
