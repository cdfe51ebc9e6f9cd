"""Run one `nmt eval` and print its scores, comparisons and details; write the report."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from nmt.apps.commands.evaluation import (
    Computation,
    Evaluation,
    EvaluationRecord,
    MeanRecord,
    Metrics,
    Other,
    ScoreRecord,
    as_records,
    compared_as_json,
    measure,
    sacrebleu_can_read,
    sacrebleu_command,
    scores_of,
)
from nmt.apps.commands.streams import print_text, to_json
from nmt.apps.commands.test_sets import TestSet, read_hypotheses
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import NmtError, counted
from nmt.base.files import write_text
from nmt.base.languages import Direction
from nmt.config.data import AugmentConfig
from nmt.data.text.augment import PairChanger, TextPair, change_all
from nmt.evaluation.scores import describe_quality

if TYPE_CHECKING:
    from nmt.evaluation.details import Details
    from nmt.evaluation.significance import ComparedSystem, Test
    from nmt.evaluation.statistics import System

log = logging.getLogger(__name__)


class Request(NamedTuple):
    """The options of one evaluation."""

    metrics: Metrics
    kinds: list[str]  # of changes of the set
    hyp: Path | None
    compare: list[str]
    significance: Test
    details: bool
    report: Path | None
    format: str


def run_evaluation(
    request: Request,
    test_set: TestSet,
    found: list[RunDir] | ExportDir | None,
    checkpoint: str | None,
    computation: Computation,
) -> None:
    """Evaluate the model `found` on `test_set` as requested, print the results, and write the report."""
    if len(test_set.sets) > 1 and (request.hyp or request.compare or request.details or request.report):
        raise typer.BadParameter("--hyp, --compare, --details and --report need one direction: choose it with --to")
    # First, so that a wrong name fails early.
    others = [Other.find(name, test_set) for name in request.compare]
    if request.hyp is not None:
        outcome = _score_file(request.hyp, test_set, request.metrics)
    else:
        assert found is not None
        outcome = _score_model(computation.load(found, checkpoint), test_set, request.metrics, request.kinds)
    compared = _compare(outcome, others, test_set, request, computation)
    details = _examine(outcome, test_set, found) if request.details or request.report else None
    _print(outcome, compared, details if request.details else None, request.format)
    if request.report is not None and details is not None:
        _write_report(request.report, outcome, compared, details, test_set)


class _Outcome(NamedTuple):
    """The scores of a test set and, by kind, of its changed versions; the system, if there is only one direction."""

    record: EvaluationRecord | MeanRecord
    changed: dict[str, EvaluationRecord | MeanRecord]
    system: System | None
    references: list[Path]  # files for sacreBLEU; none if it cannot read all files
    folder: Path | None  # for results

    def records(self) -> Iterator[EvaluationRecord]:
        """Yield the record of each direction, for the unchanged set and for each changed version."""
        for record in (self.record, *self.changed.values()):
            yield from record.directions.values() if isinstance(record, MeanRecord) else [record]


def _score_model(evaluation: Evaluation, test_set: TestSet, metrics: Metrics, kinds: list[str]) -> _Outcome:
    """Translate and score the set and its changed versions."""
    translator = evaluation.translator
    record, system = evaluation.run(test_set, metrics)
    # Keep the user symbols of the model unchanged.
    symbols = {*translator.tokenizers.src.user_symbols, *translator.tokenizers.tgt.user_symbols}
    changed = {kind: evaluation.run(_changed(test_set, kind, symbols), metrics)[0] for kind in kinds}
    references = evaluation.reference_files(test_set) if system is not None else []
    translator.close()
    return _Outcome(record, changed, system, references, evaluation.model.folder)


def _changed(test_set: TestSet, kind: str, symbols: Collection[str]) -> TestSet:
    """Return the set with every pair changed in one way."""
    sets = []
    for each in test_set.sets:
        changer = PairChanger(each.direction, symbols, AugmentConfig().word_rate)
        pairs = change_all(changer, kind, list(map(TextPair, each.sources, each.references)))
        sets.append(each._replace(sources=[pair.src for pair in pairs], references=[pair.tgt for pair in pairs]))
    return TestSet(f"{test_set.name}-{kind}", sets, [])


def _score_file(path: Path, test_set: TestSet, metrics: Metrics) -> _Outcome:
    """Score the translations in a file; save nothing."""
    hypotheses = read_hypotheses(path, test_set)
    system = measure(str(path), hypotheses, test_set, metrics)
    files = [*zip(test_set.paths, test_set.references, strict=False), (path, hypotheses)]  # paths may be missing
    if not test_set.paths:
        log.info("no sacreBLEU command: sacreBLEU needs a file with one reference per line (--ref)")
    references = test_set.paths if test_set.paths and _sacrebleu_can_read(files) else []
    command = sacrebleu_command([path], references, metrics.names, system.tgt_lang) if references else None
    record = EvaluationRecord(
        models=[],
        checkpoints=[],
        set=test_set.name,
        sentences=len(hypotheses),
        beam_size=None,
        length_penalty=None,
        precision=None,
        scores=as_records(scores_of(system)),
        hypotheses=str(path),
        sacrebleu=command,
    )
    return _Outcome(record, {}, system, references, None)


def _sacrebleu_can_read(files: Iterable[tuple[Path, Sequence[str]]]) -> bool:
    """Return whether sacreBLEU can read the lines of each file; if not, log which file it cannot read."""
    for path, lines in files:
        if not sacrebleu_can_read(path, lines):
            log.info("no sacreBLEU command: sacreBLEU cannot read %s (a pipe, .xz, .zst, or a byte order mark)", path)
            return False
    return True


class _Compared(NamedTuple):
    """Comparisons with other systems, and the equivalent sacreBLEU command."""

    systems: list[ComparedSystem]
    sacrebleu: str | None


def _compare(
    outcome: _Outcome, others: list[Other], test_set: TestSet, request: Request, computation: Computation
) -> _Compared:
    """Test the differences to other systems; save the translations of models beside those of the first."""
    from nmt.evaluation.significance import compare_systems

    if outcome.system is None or not others:
        return _Compared([], None)
    compared, files = [], [(Path(each.hypotheses), outcome.system.hypotheses) for each in outcome.records()][:1]
    for other in others:
        hypotheses, path = other.translate(test_set, computation, outcome.folder)
        system = measure(str(other.path), hypotheses, test_set, request.metrics)
        compared.append(compare_systems(outcome.system, system, request.significance))
        files.append((path, hypotheses))
    command = None
    if outcome.references and len(dict(files)) > 1 and _sacrebleu_can_read(files):  # it refuses a file listed twice
        test = ["--paired-bs" if request.significance == "bootstrap" else "--paired-ar", "-f", "text"]
        paths, names = [path for path, _ in files], request.metrics.names
        command = sacrebleu_command(paths, outcome.references, names, outcome.system.tgt_lang, test)
    return _Compared(compared, command)


def _examine(outcome: _Outcome, test_set: TestSet, found: list[RunDir] | ExportDir | None) -> Details | None:
    """Return details on the errors of the translations; with the run's training data, also by rare words."""
    from nmt.evaluation.details import examine

    if outcome.system is None:
        return None
    (each,) = test_set.sets
    if not test_set.has_sources:
        return examine(outcome.system, None, each.direction.src)
    frequencies = _count_training_words(found[0], each) if isinstance(found, list) else None
    return examine(outcome.system, each.sources, each.direction.src, frequencies)


def _count_training_words(run: RunDir, test_set: DirectedPairs) -> Mapping[str, int] | None:
    """Return how often the words of the test set's sources are in the sources that the run was trained on.

    Only the corpora of the same direction count, without the pairs that the filters drop. None if there is no such
    corpus, or if it cannot be read.
    """
    from nmt.evaluation.details import count_words

    direction = test_set.direction
    if direction not in run.config().data.directions:
        log.warning("no scores by rare words: %s has no training data from %s to %s", run.path, *direction)
        return None
    log.info("counting the words of the training data")
    try:
        return count_words(_training_sources(run, direction), test_set.sources)
    except NmtError as error:
        log.warning("no scores by rare words: the training data of %s cannot be read: %s", run.path, error)
        return None


def _training_sources(run: RunDir, direction: Direction) -> Iterator[str]:
    """Yield the sources of one direction that the run was trained on."""
    from nmt.training.corpus.corpus_files import whole
    from nmt.training.corpus.filtering import FilteredCorpus

    corpus = FilteredCorpus(run.config())
    return (pair.src for pair in whole(corpus.train_pairs()) if corpus.direction("train", pair) == direction)


def _print(outcome: _Outcome, compared: _Compared, details: Details | None, format: str) -> None:
    """Print the scores of a set and of its changed versions, the comparisons and the details."""
    if format == "json":
        print_text(to_json(_as_json(outcome, compared, details), indent=2))
    else:
        print_text("\n".join(_as_text(outcome, compared, details)))
    scores = {name: score.value for name, score in outcome.record.scores.items()}
    if "BLEU" in scores:
        log.info("BLEU %.2f: %s", scores["BLEU"], describe_quality(scores["BLEU"], scores.get("chrF2", 0.0)))
    if details is None:
        log.info("--details shows which sentences go wrong, and how")
    for each in outcome.records():
        log.info("%s; hypotheses in %s", _describe_translation(each), each.hypotheses)
        if each.sacrebleu is not None:
            log.info("the same with sacreBLEU: %s", each.sacrebleu)
    if compared.sacrebleu is not None:
        log.info("the comparison with sacreBLEU: %s", compared.sacrebleu)


def _describe_translation(record: EvaluationRecord) -> str:
    """Return what was scored, with the precision and the beam size."""
    if record.precision is None:
        return counted(record.sentences, "sentence")
    sentences, search = counted(record.sentences, "sentence"), f"beam size {record.beam_size}"
    text = f"{sentences}, translated in {record.precision} with {search}"
    if record.set.split(".")[0] == "valid" and record.precision != "fp32":
        text += " (nmt train, nmt plot and index.json have scores in fp32; for these, add --precision fp32)"
    return text


def _as_json(outcome: _Outcome, compared: _Compared, details: Details | None) -> dict[str, object]:
    values = outcome.record.as_json()
    if outcome.changed:
        values["augmented"] = {kind: each.as_json() for kind, each in outcome.changed.items()}
    if compared.systems:
        values["compared"] = [compared_as_json(each) for each in compared.systems]
        values["sacrebleu_compared"] = compared.sacrebleu
    if details is not None:
        worst = [asdict(sentence) for sentence in details.worst()]
        groupings = [asdict(grouping) for grouping in details.groupings]
        values["details"] = {"groupings": groupings, "flags": details.flags, "worst": worst}
    return values


def _as_text(outcome: _Outcome, compared: _Compared, details: Details | None) -> Iterator[str]:
    from nmt.evaluation.render_text import render_comparison, render_details

    yield from _lines(outcome.record)
    for kind, each in outcome.changed.items():
        yield from (f"{kind}  {line}" for line in _lines(each))
    for other in compared.systems:
        assert outcome.system is not None
        yield ""
        yield from render_comparison(outcome.system.name, other)
    if details is not None:
        yield from render_details(details)


def _lines(record: EvaluationRecord | MeanRecord) -> list[str]:
    from nmt.evaluation.render_text import MIN_NAME_WIDTH

    name_width = max(MIN_NAME_WIDTH, *map(len, record.scores))
    if isinstance(record, EvaluationRecord):
        return [f"{name:<{name_width}} {_value(score)}  {score.signature}" for name, score in record.scores.items()]
    lines = [f"{direction}  {line}" for direction, each in record.directions.items() for line in _lines(each)]
    width = max(map(len, record.directions))
    return lines + [f"{'mean':<{width}}  {name:<{name_width}} {_value(score)}" for name, score in record.scores.items()]


def _value(score: ScoreRecord) -> str:
    return f"{score.value:6.2f}" + (f" ± {score.interval.half_width:.2f}" if score.interval is not None else "")


def _write_report(path: Path, outcome: _Outcome, compared: _Compared, details: Details, test_set: TestSet) -> None:
    """Write the HTML page."""
    from nmt.evaluation.render_html import EvaluationReport, render_html

    assert outcome.system is not None
    title = f"{outcome.system.name} on {test_set.name}"
    scores = scores_of(outcome.system)
    report = EvaluationReport(title, scores, details, compared.systems)
    write_text(path, render_html(report))
    log.info("report: %s", path)
