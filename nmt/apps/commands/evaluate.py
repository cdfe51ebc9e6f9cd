"""`nmt eval`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmt.apps.commands import options as shared
from nmt.apps.commands.options import SearchFlags, find_models, load_translator
from nmt.apps.commands.outputs import refuse_unwritable
from nmt.apps.commands.streams import print_text
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, counted
from nmt.base.files import to_json, write_text
from nmt.base.languages import UNKNOWN_LANGUAGE, Direction
from nmt.evaluation.scores import METRICS, describe_quality

if TYPE_CHECKING:
    from nmt.evaluation.details import Details
    from nmt.evaluation.evaluation import Evaluation, Evaluator
    from nmt.evaluation.test_sets import TestSet

log = logging.getLogger(__name__)

_ELSEWHERE = {  # metrics that the commands of others compute
    "COMET": "its own commands, comet-score and comet-compare, read the files that nmt eval writes",
    "spBLEU": "sacreBLEU's own command, with -tok flores200, reads the files that nmt eval writes",
}

Source = Annotated[Path | None, typer.Option(help="Source sentences to translate. Default: the run's test set.")]
Reference = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Reference translations for --src. Repeat for several references."),
]
Table = Annotated[
    Path | None,
    typer.Option(
        help="Table: source, reference; instead of --src and --ref. FILE#1,2,3: columns, with a second reference."
    ),
]
Split = Annotated[Literal["test", "valid"], typer.Option(help="Data set of the run to evaluate on.")]
Hypotheses = Annotated[
    Path | None,
    typer.Option(
        "--hyp",
        help="File of translations to score, one per line, instead of translating. With --ref or --tsv it needs no "
        "model: give the target language with --to.",
    ),
]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OTHER",
        help="Run or file of translations of the same sentences to compare with. Tests whether the difference "
        "is significant, by paired bootstrap resampling. May be repeated.",
    ),
]
MetricNames = Annotated[str, typer.Option(help="Comma-separated metrics: bleu, chrf, chrf++, ter.")]
Augment = Annotated[
    str,
    typer.Option(
        help="Comma-separated kinds of changes, as in data.augment: upper, title, typos, noise. "
        "After the unchanged set, score it once per kind with every pair changed in that way. typos and "
        "noise change only the source, the others also the reference. Scores are case-sensitive."
    ),
]
ShowDetails = Annotated[
    bool,
    typer.Option(
        "--details",
        help="Also print scores by sentence length, by rare words and by words that the training text hardly has; the "
        "number of outputs that are empty, copied, in the wrong language, looped, too short or too long; and the 30 "
        "worst sentences.",
    ),
]
Report = Annotated[
    Path | None, typer.Option(help="Write scores and details, with every sentence, as a self-contained HTML page.")
]
Format = Annotated[Literal["text", "json"], typer.Option(help="Output format.")]


def evaluate(
    models: shared.Models = None,
    checkpoint: shared.Checkpoint = None,
    to: shared.To = None,
    from_: shared.From = None,
    src: Source = None,
    ref: Reference = None,
    tsv: Table = None,
    split: Split = "test",
    hyp: Hypotheses = None,
    compare: Compare = None,
    metrics: MetricNames = "bleu,chrf",
    augment: Augment = "",
    details: ShowDetails = False,
    report: Report = None,
    format: Format = "text",
    beam: shared.Beam = None,
    settings: shared.SearchSettings = [],  # noqa: B006 (typer reads it, nobody changes it)
    engine: shared.Engine = "auto",
    device: shared.Device = "auto",
    precision: shared.Precision = "auto",
) -> None:
    """Compute BLEU, chrF and TER, with confidence intervals.

    Evaluates on the run's test set or on your own files. Saves hypotheses and scores in the folder `eval` of the run.
    """
    search = SearchFlags(settings, beam_size=beam)
    refs = ref or []
    compared = compare or []
    in_files = bool(refs or tsv)
    kinds = []
    if augment:
        from nmt.config.data import AUGMENT_KINDS

        kinds = _names(augment, AUGMENT_KINDS, "kind of change")
    names = _names(metrics, METRICS, "metric")
    found = find_models(models, checkpoint) if hyp is None or models or not in_files else None
    if report is not None:
        refuse_unwritable(report)
        inputs = [Path(name) for name in (hyp, src, tsv, *refs, *compared) if name]
        refuse_replacing([report], inputs, found or ())
    from nmt.evaluation.evaluation import Evaluator, OtherSystem, compare_with, evaluate_file

    test_set = _read_test_set(found, (src, refs, tsv), split, to, from_)
    if len(test_set.sets) > 1 and (hyp or compared or details or report):
        raise typer.BadParameter("--hyp, --compare, --details and --report need one direction: choose it with --to")

    def load(model: Sequence[RunDir], folder: Path | None, checkpoint: str | None = None) -> Evaluator:
        translator = load_translator(model, engine, device, precision, scores=details or report is not None)
        marks = [mark for mark in (checkpoint, engine, precision) if mark not in (None, "auto")]
        return Evaluator(model, translator, search.change(translator.options), marks, folder)

    others = [OtherSystem.find(name, test_set) for name in compared]  # first, so that a wrong name fails early
    if hyp is not None:
        evaluation = evaluate_file(hyp, test_set, names)
    else:
        assert found is not None
        evaluation = _evaluate(load(found, None, checkpoint), test_set, names, kinds)
    if others:
        evaluation = compare_with(evaluation, others, test_set, names, load)
        _name_other_seeds([*(found or []), *(other.model for other in others if other.model is not None)])
    examined = _examine(evaluation, test_set, found) if details or report else None
    _print(replace(evaluation, details=examined if details else None), format)
    if report is not None and examined is not None:
        _write_report(report, evaluation, examined)


def _name_other_seeds(models: Sequence[RunDir]) -> None:
    """Warn if runs beside the compared ones have other seeds: one seed says little about a configuration."""
    from nmt.evaluation.runs import other_seeds

    if siblings := [name for model in models for name in other_seeds(model)]:
        log.warning(
            "%s differ from a compared run only in their seeds; `nmt compare` tests groups of seeds",
            ", ".join(dict.fromkeys(siblings)),
        )


def _names(given: str, known: Sequence[str], what: str) -> list[str]:
    names = [name.strip().lower() for name in given.split(",")]
    for name, elsewhere in _ELSEWHERE.items():
        if name.lower() in names:
            raise typer.BadParameter(f"nmt does not compute {name}; {elsewhere}")
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"unknown {what} {unknown[0]!r}; choose from {', '.join(known)}")
    return list(dict.fromkeys(names))


def _read_test_set(
    found: Sequence[RunDir] | None,
    files: tuple[Path | None, list[Path], Path | None],
    split: str,
    to: str | None,
    from_: str | None,
) -> TestSet:
    """Return the test set in `files` (--src, --ref, --tsv), or else a data set of the (first) run.

    Warn of empty references. NmtError if neither a model nor --to names the target language of the files.
    """
    from nmt.evaluation.test_sets import read_files, read_split
    from nmt.translation import LanguagePair

    languages = None if found is None else LanguagePair.of(found[0].essentials())
    if found is not None and languages is not None and not any(files):
        test_set = read_split(found, split, Direction(languages.src, languages.tgt), to, from_)
    elif languages is not None:
        test_set = read_files(*files, languages.direction(to, from_))
    elif to is not None:
        test_set = read_files(*files, Direction(from_ or UNKNOWN_LANGUAGE, to))
    else:
        raise NmtError(
            "BLEU's tokenizer depends on the target language, which is unknown",
            hint="give the language of the translations with --to, or their model with --model",
        )
    columns = [*(each.references for each in test_set.sets), *test_set.more_references]
    if num_empty := sum(not text.strip() for lines in columns for text in lines):
        log.warning("references without text: %d; scores against them mean nothing, so remove these rows", num_empty)
    return test_set


def _evaluate(evaluator: Evaluator, test_set: TestSet, metrics: Sequence[str], kinds: list[str]) -> Evaluation:
    """Translate and score the set and its changed versions, in which the user symbols of the model stay unchanged."""
    with evaluator.translator as translator:
        evaluation = evaluator.evaluate(test_set, metrics)
        symbols = {*translator.tokenizers.src.user_symbols, *translator.tokenizers.tgt.user_symbols}
        changed = {kind: evaluator.evaluate(test_set.changed(kind, symbols), metrics) for kind in kinds}
    return replace(evaluation, changed=changed)


def _examine(evaluation: Evaluation, test_set: TestSet, found: Sequence[RunDir] | None) -> Details:
    """Return details on the errors of the translations; with the statistics of the (first) run, also by rare words."""
    from nmt.evaluation.details import examine

    (each,) = test_set.sets
    assert evaluation.system is not None
    sources = each.sources if test_set.has_sources else None
    statistics = None if found is None else found[0].statistics()
    return examine(evaluation.system, sources, each.direction.src, statistics, evaluation.expected_chrf)


def _write_report(path: Path, evaluation: Evaluation, details: Details) -> None:
    from nmt.evaluation.render import render_html

    assert evaluation.system is not None
    title = f"{evaluation.system.name} on {evaluation.set}"
    write_text(path, render_html(title, evaluation.scores, details, evaluation.compared))
    log.info("report: %s", path)


def _print(evaluation: Evaluation, format: str) -> None:
    """Print the scores of a set and of its changed versions, the comparisons and the details."""
    from nmt.evaluation.render import render_evaluation

    if format == "json":
        print_text(to_json(evaluation.as_json(), indent=2))
    else:
        print_text("\n".join(render_evaluation(evaluation)))
    scores = {score.name: score.value for score in evaluation.scores}
    if "BLEU" in scores:
        log.info("BLEU %.2f: %s", scores["BLEU"], describe_quality(scores["BLEU"], scores.get("chrF2", 0.0)))
    if evaluation.details is None:
        log.info("--details shows which sentences go wrong, and how")
    for each in evaluation.parts():
        how = ""
        if each.options is not None:
            how = f", translated in {each.precision} with beam size {each.options.beam_size}"
            if each.engine == "phrase":
                how = ", translated with the phrase table"
            elif each.set.split(".")[0] == "valid" and each.precision != "fp32":
                how += " (nmt train, nmt plot and index.json have scores in fp32; for these, add --precision fp32)"
        log.info("%s%s; hypotheses in %s", counted(each.sentences, "sentence"), how, each.hypotheses)
        if each.sacrebleu is not None:
            log.info("the same with sacreBLEU: %s", each.sacrebleu)
