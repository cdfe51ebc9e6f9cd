"""Fine-tune a trained model on the text of a client or a domain, and deliver it if it keeps what it knew."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.apps.recipes.adaptation import adapted_config, base_of, check_adaptation
from nmt.apps.recipes.adaptation_corpus import Request, collect, read_texts
from nmt.apps.recipes.corpora import CorpusNames, Names, names
from nmt.apps.recipes.defaults import MAX_LOSS
from nmt.artifacts.find_model import find_run
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import DirectedPairs, RunDir, replaceable_run
from nmt.base.errors import ConfigError, RunError, require_type
from nmt.base.files import flush, restore_replaced, write_text
from nmt.base.languages import Direction
from nmt.config import Config, DataConfig
from nmt.config.corpora import ParallelFiles
from nmt.config.dump import with_values
from nmt.data.read.pairs import paths_of
from nmt.evaluation.model_comparison import SetComparison, render_table
from nmt.training.interrupt import Interrupt

log = logging.getLogger(__name__)

_SETTABLE = ("tokenizer.subword_regularization", "tokenizer.user_symbols")  # symbols are appended to the vocabulary


class AdaptResult(NamedTuple):
    """The result of `adapt`."""

    run: RunDir  # the adapted model; unless it was delivered, the folder beside its place that keeps it
    finished: bool  # False: the training was interrupted; the state is saved, and `resume` continues
    delivered: bool  # False: not finished, or the old test set lost more than `max_loss`
    sets: Sequence[SetComparison] = ()  # the scores on the new and the old test sets, first before, second after
    worst: SetComparison | None = None  # of the old test sets, the one with the greatest loss


class _Task(NamedTuple):
    """The place of the adapted model, and the sets that it is measured by."""

    run: Path
    candidate: Path  # where it is trained
    old_test: list[str]  # files; none: those of the run
    max_loss: float
    how_to_resume: str


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
    scored on the new and the old test set. The new one is delivered if it loses at most `max_loss` BLEU on the old one.

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
        max_loss: The greatest loss allowed on the old test set, in BLEU.
        overrides: Changes of the configuration, such as `training.max_updates=500`.
        resume: Continue an interrupted adaptation, or repeat its final check.
        overwrite: Replace a run that exists, and an adaptation that was begun.
        interrupt: What stops the training early; None: Ctrl-C and SIGTERM.

    NmtError for errors that the user can mend: files, languages, a run that exists. Progress goes to Python's logging.
    """
    path, old = real_path(run), names(old_test)
    task = _Task(path, candidate_of(path), old, max_loss, resume_command(path, old, max_loss))
    _refuse_existing(task, resume=resume, overwrite=overwrite)
    if fixed := fixed_key(overrides):
        raise ConfigError(f"{fixed} cannot be set: an adaptation keeps the tokenizer of the run")
    found = base if base is None or isinstance(base, RunDir) else find_run(str(base))
    with interrupt or Interrupt() as stop:
        if resume:
            finished = _resume(task, found, overrides, stop)
        elif found is None:
            raise ConfigError("give the run to adapt, or resume an adaptation")
        else:
            files = CorpusNames(names(src), names(tgt), names(corpus), src_lang, tgt_lang)
            request = _request(found.config().data, files, names(test), task.old_test, mix, overrides)
            finished = _start(found, task, request, overrides, stop, overwrite=overwrite)
    if not finished:
        return AdaptResult(RunDir(task.candidate), finished=False, delivered=False)
    return _check_and_deliver(task, found)


def fixed_key(overrides: Sequence[str]) -> str | None:
    """Return the first of the changed keys that an adaptation cannot change, if any: those of the tokenizer."""
    keys = (override.partition("=")[0].strip() for override in overrides)
    return next((key for key in keys if key.startswith("tokenizer") and not key.startswith(_SETTABLE)), None)


def real_path(run: str | Path) -> Path:
    """Return where a run is: the path itself, or what a link leads to, which stays."""
    require_type("run", run, (str, Path), "the path of a folder")
    path = Path(run)
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


def _refuse_existing(task: _Task, *, resume: bool, overwrite: bool) -> None:
    """Raise RunError if the run exists, unless `overwrite` is given."""
    run = task.run
    if not run.name:
        raise RunError("a run cannot be here", path=run, hint="choose another folder with --run")
    if overwrite or not run.exists():
        return
    if resume and task.candidate.exists():
        raise RunError("the adaptation would replace this run", path=run, hint=f"allow it: {task.how_to_resume}")
    if resume:
        hint = "to start over, give the model and the corpus, with --overwrite"
        raise RunError("this adaptation is finished", path=run, hint=hint)
    raise RunError("this run already exists", path=run, hint="replace it with --overwrite, or choose another --run")


def _request(
    data: DataConfig,
    files: CorpusNames,
    test: list[str],
    old_test: list[str],
    mix: float | None,
    overrides: Sequence[str],
) -> Request:
    """Return the corpus and the test sets that are named, by default in the languages of the run, which has `data`."""
    corpora = files.corpora_of(data)
    direction = data.direction_of(corpora[0])
    if direction not in data.directions:
        listed = ", ".join(map(str, data.directions))
        hint = "give the languages with --src-lang and --tgt-lang"
        raise ConfigError(f"the run does not translate {direction}; it has {listed}", hint=hint)
    held_out = [override for override in overrides if override.startswith("data.holdout_size=")]
    named = with_values(Config(data=data), "configuration of the run", held_out).data
    new_test = files.for_files(test).corpora_of(data) if test else ()
    old = _old_test_files(old_test, data, direction) if old_test else ()
    return Request(corpora, direction, new_test, old, mix, named.holdout_size)


def _old_test_files(old_test: list[str], data: DataConfig, direction: Direction) -> tuple[ParallelFiles, ...]:
    return CorpusNames(src_lang=direction.src, tgt_lang=direction.tgt).for_files(old_test).corpora_of(data)


def _start(
    base: RunDir, task: _Task, request: Request, overrides: Sequence[str], interrupt: Interrupt, *, overwrite: bool
) -> bool:
    """Collect the text and train the candidate; return whether the training ended."""
    from nmt.training.corpus.prepare import find_store_root
    from nmt.training.run import start_run

    if task.candidate.exists() and not overwrite:
        hint = f"continue it with --resume ({task.how_to_resume}), or start over with --overwrite"
        raise RunError("an interrupted or rejected adaptation already exists", path=task.candidate, hint=hint)
    refuse_replacing([task.run], paths_of([*request.corpora, *request.test, *request.old_test]), [base])
    corpus = collect(base, request)
    data = corpus.write(find_store_root(base.config(), task.run))
    config = adapted_config(base, corpus, data, overrides)
    num_new, *old_sizes = (len(part.pairs) for part in corpus.train)
    num_old = sum(old_sizes)
    old = f"{num_old:,} old pairs as {corpus.mix:.0%} of the training data" if num_old else "no old pairs"
    sizes = f"{len(corpus.test[0].pairs):,} new pairs for testing, {len(corpus.valid[0].pairs):,} for validation"
    log.info(
        f"adapting {base.path} to {num_new:,} new pairs, with {old}; {sizes}\n"
        f"  {config.training.max_updates:,} updates, learning rate {config.training.lr:.2g}"
    )
    return start_run(config, task.candidate, overwrite=overwrite, interrupt=interrupt)


def _resume(task: _Task, base: RunDir | None, overrides: Sequence[str], interrupt: Interrupt) -> bool:
    from nmt.training.run import resume_run

    adapted = RunDir(task.candidate)
    restore_replaced(adapted.path)
    if not adapted.path.is_dir():
        raise RunError("there is no adaptation to resume", path=task.run, hint="start it without --resume")
    if task.old_test:
        _read_old_test(base or base_of(adapted), adapted, task.old_test)  # reports a faulty file before the training
    settings = with_values(adapted.config(), adapted.config_file, overrides) if overrides else None
    return resume_run(settings, adapted.path, interrupt)


def _check_and_deliver(task: _Task, base: RunDir | None) -> AdaptResult:
    """Score the candidate and its base, and deliver the candidate unless it lost too much."""
    adapted = RunDir(task.candidate)
    base = base or base_of(adapted)
    old_test = _read_old_test(base, adapted, task.old_test)
    comparisons, worst, is_acceptable = check_adaptation(base, adapted, task.max_loss, old_test)
    if worst is None:
        log.warning(
            "%s has no test set, so the loss on the old domain cannot be measured; give one with --old-test", base.path
        )
    result = AdaptResult(adapted, finished=True, delivered=is_acceptable, sets=comparisons, worst=worst)
    if not is_acceptable:
        return result
    _complete_card(adapted, task.run, "\n".join(render_table(comparisons, "before", "after")))
    _deliver(task.candidate, task.run)
    return result._replace(run=RunDir(task.run))


def _read_old_test(base: RunDir, adapted: RunDir, old_test: list[str]) -> list[DirectedPairs]:
    """Return the old test set that the user names, if any, in the direction of the adaptation."""
    if not old_test:
        return []
    direction = adapted.config().data.directions[0]
    data = base.config().data
    pairs = read_texts(_old_test_files(old_test, data, direction), data.characters)
    return [DirectedPairs(direction, [src for src, _ in pairs], [tgt for _, tgt in pairs])]


def _complete_card(adapted: RunDir, run: Path, table: str) -> None:
    """Put the name of the final folder into the model card, and add the scores before and after."""
    card = adapted.card.read_text(encoding="utf-8").partition("\n\n## Adaptation\n")[0]
    card = card.replace(str(adapted.path), str(run)).replace(f"# {adapted.path.name}:", f"# {run.name}:")
    indented = "\n".join(f"    {line}".rstrip() for line in table.splitlines())
    write_text(adapted.card, f"{card.rstrip()}\n\n## Adaptation\n\nBefore and after the adaptation:\n\n{indented}\n")


def _deliver(candidate: Path, run: Path) -> None:
    """Rename the candidate to its final name, then remove the run that it replaces."""
    replaced = run.with_name(f".{run.name}.replaced")
    if run.exists():
        with replaceable_run(run):
            pass
        shutil.rmtree(replaced, ignore_errors=True)
        os.replace(run, replaced)
    os.replace(candidate, run)
    flush(run.parent)
    shutil.rmtree(replaced, ignore_errors=True)
