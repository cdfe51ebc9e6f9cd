"""Fine-tune a trained model on the text of a client or a domain, and deliver it if it keeps what it knew."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from nmt.apps.recipes.adaptation import adapted_config
from nmt.apps.recipes.adaptation_corpus import NEW, OLD, collect, old_sets
from nmt.apps.recipes.corpora import CorpusNames, Names, names
from nmt.apps.recipes.defaults import MAX_LOSS
from nmt.artifacts.find_model import find_run
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import DirectedPairs, RunDir, refuse_other_folder, run_path
from nmt.base.errors import ConfigError, DataError, RunError, UsageError
from nmt.base.files import move_folder, restore_replaced, write_text
from nmt.base.languages import Direction
from nmt.config import Config, DataConfig
from nmt.config.corpora import ParallelFiles
from nmt.config.dump import with_values
from nmt.data.read.pairs import paths_of, read_parallel
from nmt.evaluation.evaluation import write_lines
from nmt.evaluation.model_comparison import SetComparison, as_json, compare_on, render_table
from nmt.evaluation.test_sets import on_lines, translate_set
from nmt.training.corpus.corpus import with_both_sides
from nmt.training.interrupt import Interrupt
from nmt.translation import Translator

log = logging.getLogger(__name__)

_SETTABLE = "tokenizer.user_symbols"  # which are appended to the vocabulary


class AdaptResult(NamedTuple):
    """The result of `adapt`."""

    run: RunDir  # the adapted model; unless it was delivered, the folder beside its place that keeps it
    finished: bool  # False: the training was interrupted; the state is saved, and `resume` continues
    delivered: bool  # False: not finished, or a test set lost more than `max_loss`
    sets: Sequence[SetComparison] = ()  # the scores on the new and the old test sets, first before, second after
    worst: SetComparison | None = None  # of `sets`, the one with the greatest loss


def adapt(
    base: RunDir | str | Path | None,
    run: str | Path,
    corpus: Names | None = None,
    *,
    src: Names | None = None,
    tgt: Names | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    mix: float | None = None,
    test: Names | None = None,
    old_test: Names | None = None,
    max_loss: float = MAX_LOSS,
    overrides: Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
    interrupt: Interrupt | None = None,
) -> AdaptResult:
    """Continue the training of the model `base` on another domain, measure it, and deliver it at the path `run`.

    The settings suit the size of the new text; part of the old one is mixed in against forgetting. Both models are
    scored on the new and the old test set. The new one is delivered if it loses at most `max_loss` BLEU on each.

    Args:
        base: The run or packed model to adapt; None: with `resume`, the one that the adaptation started from.
        run: The run to write.
        corpus: Files with both languages, such as `client.tsv` or `client.jsonl#de,en`.
        src: Files with one source sentence per line.
        tgt: Their translations, a file for each of `src`.
        src_lang: The source language of the new text, if the model has several; default: the model's.
        tgt_lang: The target language, likewise.
        mix: The share of the old text in training, from 0 to 0.95; None: a half, or 0 if the old text cannot be read.
        test: Test set of the new domain: a file with both languages, or two; None: held out of the new text.
        old_test: Test set of the old domain, likewise; None: the model's own.
        max_loss: The greatest loss allowed on the old test set, and on the new one, in BLEU.
        overrides: Changes of the configuration, such as `training.max_updates=500`.
        resume: Continue an interrupted adaptation, or repeat its final check.
        overwrite: Replace a run that exists, and an adaptation that was begun.
        interrupt: What stops the training early; None: Ctrl-C and SIGTERM.

    NmtError for errors that the user can mend: files, languages, a run that exists. Progress goes to Python's logging.
    """
    path = real_path(run)
    old_names = names(old_test)
    adapted = RunDir(candidate_of(path))
    how_to_resume = resume_command(path, old_names, max_loss)
    _refuse_existing(path, how_to_resume, resume=resume, overwrite=overwrite)
    fixed = [each for each in overrides if each.startswith("tokenizer") and not each.startswith(_SETTABLE)]
    if fixed:
        raise UsageError(f"{fixed[0]}: an adaptation keeps the tokenizer of the run", hint="omit it")
    found = base if base is None or isinstance(base, RunDir) else find_run(str(base))
    if resume:
        restore_replaced(adapted.path)
        if not adapted.path.is_dir():
            raise RunError("there is no adaptation to resume", path=path, hint="start it without --resume")
        found = found or _base_of(adapted)
        data = adapted.config().data
    elif found is None:
        raise UsageError("give the run to adapt, or resume an adaptation (--resume --run FOLDER)")
    else:
        files = CorpusNames(names(src), names(tgt), names(corpus), src_lang, tgt_lang)
        data = _new_data(found.config().data, files, names(test), overrides)
    old_files, old_pairs = _read_old_test(found, old_names, data.directions[0])
    with interrupt or Interrupt() as stop:
        from nmt.training.run import resume_run, start_run

        if resume:
            settings = with_values(adapted.config(), adapted.config_file, overrides) if overrides else None
            finished = resume_run(settings, adapted.path, stop)
        else:
            refuse_replacing([path], paths_of([*data.corpora("train"), *data.corpora("test"), *old_files]), [found])
            config = _collected(found, path, data, mix, old_pairs, overrides)
            finished = start_run(config, adapted.path, overwrite=overwrite, interrupt=stop)
    if not finished:
        return AdaptResult(adapted, finished=False, delivered=False)
    return _check_and_deliver(adapted, path, found, old_pairs, max_loss)


def _read_old_test(
    base: RunDir, names: list[str], direction: Direction
) -> tuple[tuple[ParallelFiles, ...], list[DirectedPairs]]:
    """Return the files of the old test set that the user names, and their pairs; none: the run's set counts.

    They are read in the direction of the adaptation. DataError if they have no pair.
    """
    if not names:
        return (), []
    data = base.config().data
    files = CorpusNames(src_lang=direction.src, tgt_lang=direction.tgt).for_files(names).corpora_of(data)
    pairs = list(with_both_sides(read_parallel(files, data.characters)))
    if not pairs:
        raise DataError("no pair with text on both sides", path=paths_of(files)[0])
    return files, [DirectedPairs(direction, [pair.src for pair in pairs], [pair.tgt for pair in pairs])]


def real_path(run: str | Path) -> Path:
    """Return where a run is: the path itself, or what a link leads to, which stays."""
    path = run_path(run)
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ("", "..") else path


def candidate_of(run: Path) -> Path:
    """Return the folder in which the model that may become `run` is trained; `./runs` does not list it as a model."""
    return run.with_name(f".{run.name}.candidate")


def resume_command(run: Path, old_test: Sequence[str], max_loss: float) -> str:
    """Return the command that resumes an adaptation; if the run exists, it is the one to be replaced."""
    arguments = ["--resume", "--run", str(run)] + ["--overwrite"] * run.exists()
    arguments += [argument for name in old_test for argument in ("--old-test", name)]
    arguments += ["--max-loss", f"{max_loss:g}"] * (max_loss != MAX_LOSS)
    return f"nmt adapt {shlex.join(arguments)}"


def _refuse_existing(run: Path, how_to_resume: str, *, resume: bool, overwrite: bool) -> None:
    """Raise RunError if the run exists, or an adaptation that was begun, unless `overwrite` is given."""
    candidate = candidate_of(run)
    if not run.name:
        raise RunError("a run cannot be here", path=run, hint="choose another folder with --run")
    if overwrite:
        return
    if run.exists() and not resume:
        raise RunError("this run already exists", path=run, hint="replace it with --overwrite, or choose another --run")
    if run.exists() and candidate.exists():
        raise RunError("the adaptation would replace this run", path=run, hint=f"allow it: {how_to_resume}")
    if run.exists():
        raise RunError(
            "this adaptation is finished",
            path=run,
            hint="to start over, give the model and the corpus, with --overwrite",
        )
    if candidate.exists() and not resume:
        raise RunError(
            "an interrupted or rejected adaptation already exists",
            path=candidate,
            hint=f"continue it with --resume ({how_to_resume}), or start over with --overwrite",
        )


def _new_data(data: DataConfig, files: CorpusNames, test: list[str], overrides: Sequence[str]) -> DataConfig:
    """Return the data section of the new text, by default in the languages of the run, which has `data`."""
    corpora = files.corpora_of(data)
    direction = data.direction_of(corpora[0])
    if direction not in data.directions:
        listed = ", ".join(map(str, data.directions))
        raise ConfigError(
            f"the run does not translate {direction}; it has {listed}",
            hint="give the languages with --src-lang and --tgt-lang",
        )
    held_out = [override for override in overrides if override.startswith("data.holdout_size=")]
    named = with_values(Config(data=data), "configuration of the run", held_out).data
    new_test = files.for_files(test).corpora_of(data) if test else None
    return named.model_copy(update={"train": corpora, "valid": None, "test": new_test, "temperature": 1.0})


def _collected(
    base: RunDir,
    run: Path,
    new: DataConfig,
    mix: float | None,
    old_test: Sequence[DirectedPairs],
    overrides: Sequence[str],
) -> Config:
    """Write the text of the adaptation beside `run`, and return its configuration."""
    from nmt.training.corpus.prepare import find_store_root

    corpus = collect(base, new, mix, old_test)
    config = adapted_config(base, corpus, corpus.write(find_store_root(base.config(), run)), overrides)
    num_new, *old_sizes = (len(part.pairs) for part in corpus.train)
    num_old = sum(old_sizes)
    old = f"{num_old:,} old pairs as {corpus.mix:.0%} of the training data" if num_old else "no old pairs"
    sizes = f"{len(corpus.test[0].pairs):,} new pairs for testing, {len(corpus.valid[0].pairs):,} for validation"
    log.info(
        f"adapting {base.path} to {num_new:,} new pairs, with {old}; {sizes}\n"
        f"  {config.training.max_updates:,} updates, learning rate {config.training.lr:.2g}"
    )
    return config


def _check_and_deliver(
    adapted: RunDir, run: Path, base: RunDir, old_test: Sequence[DirectedPairs], max_loss: float
) -> AdaptResult:
    """Score the candidate and its base, and deliver the candidate unless it lost too much."""
    comparisons = _compare(base, adapted, old_test or old_sets(base)["test"])
    if comparisons[-1].name == NEW:
        log.warning(
            "%s has no test set, so the loss on the old domain cannot be measured; give one with --old-test", base.path
        )
    worst = min(comparisons, key=lambda each: each.bleu.gain)
    is_acceptable = -worst.bleu.gain <= max_loss
    of_new = comparisons[0].differences
    if is_acceptable and all(difference.gain < 0 for difference in of_new):
        scores = ", ".join(f"{each.name} {each.other:.2f} before, {each.value:.2f} after" for each in of_new)
        log.warning("the new test set got worse (%s): keep the old model, %s", scores, base.path)
    record = {"base": str(base.path), "max_loss": max_loss, "accepted": is_acceptable}
    adapted.write_json(adapted.adaptation, record | {"sets": [as_json(comparison) for comparison in comparisons]})
    if is_acceptable:
        _complete_card(adapted, run, "\n".join(render_table(comparisons, "before", "after")))
        deliver(adapted.path, run)
    delivered = RunDir(run) if is_acceptable else adapted
    return AdaptResult(delivered, finished=True, delivered=is_acceptable, sets=comparisons, worst=worst)


def _compare(base: RunDir, adapted: RunDir, old_test: Sequence[DirectedPairs]) -> list[SetComparison]:
    """Score both models on the new and the old test set, in fp32; write the translations into `adapted`.

    RunError if an earlier check failed on an old test set, and there is none now.
    """
    earlier: dict[str, Any] = adapted.read_json(adapted.adaptation) if adapted.adaptation.exists() else {}
    has_failed = not earlier.get("accepted", True)
    if has_failed and not old_test and any(each["name"] == OLD for each in earlier["sets"]):
        raise RunError(
            "not delivered: an earlier check, which had an old test set, found too great a loss",
            path=adapted.path,
            hint="give that set again: --old-test FILE",
        )
    new = adapted.read_sets("test", adapted.config().data.directions[0])
    sets = [(NEW, pairs) for pairs in new] + [(OLD, pairs) for pairs in old_test]
    translations = []
    for model in (base, adapted):
        with Translator.load(model, precision="fp32", scores=False) as translator:
            translations.append([on_lines(translate_set(translator, pairs)) for _, pairs in sets])
    comparisons = []
    for number, ((name, pairs), *both) in enumerate(zip(sets, *translations, strict=True), 1):
        comparisons.append(compare_on(name, pairs, *both))
        for when, lines in zip(("before", "after"), both, strict=True):
            write_lines(adapted.evaluations / f"adaptation-{number}-{name}.{pairs.direction}.{when}.hyp", lines)
    return comparisons


def _base_of(run: RunDir) -> RunDir:
    """Return the run that an adapted run started from. RunError if there is none, or it is missing."""
    path = run.config().training.init_from
    if path is None:
        raise RunError("this run was not adapted from another", path=run.path)
    if not Path(path).is_dir():
        raise RunError(
            f"the run that it was adapted from is not at {path}",
            path=run.path,
            hint="give the folder that it is in now: nmt adapt RUN --resume --run ...",
        )
    return RunDir(Path(path))


def _complete_card(adapted: RunDir, run: Path, table: str) -> None:
    """Put the name of the final folder into the model card, and add the scores before and after."""
    card = adapted.card.read_text(encoding="utf-8").partition("\n\n## Adaptation\n")[0]
    card = card.replace(str(adapted.path), str(run)).replace(f"# {adapted.path.name}:", f"# {run.name}:")
    indented = "\n".join(f"    {line}".rstrip() for line in table.splitlines())
    write_text(adapted.card, f"{card.rstrip()}\n\n## Adaptation\n\nBefore and after the adaptation:\n\n{indented}\n")


def deliver(candidate: Path, run: Path) -> None:
    """Rename the candidate to its final name, and remove the run that it replaces.

    RunError if that is no run, or is being trained.
    """

    def refuse(existing: Path) -> AbstractContextManager[None]:
        refuse_other_folder(existing)
        return RunDir(existing).locked()

    move_folder(candidate, run, replace=refuse)
