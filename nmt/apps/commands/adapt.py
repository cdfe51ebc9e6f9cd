"""`nmt adapt`: fine-tune a trained model on the text of a client or a domain."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, Src, Tgt
from nmt.apps.commands.options import NewRun, Overrides, ReplaceRun, refuse
from nmt.apps.commands.streams import print_text
from nmt.apps.commands.train import log_next_steps, prepare_to_train, train_run
from nmt.apps.recipes.corpora import CorpusNames
from nmt.artifacts.find_model import find_run
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import DirectedPairs, RunDir, replaceable_run
from nmt.base.errors import ConfigError, RunError
from nmt.base.files import flush, restore_replaced, write_text
from nmt.config import Config
from nmt.config.data import DataConfig
from nmt.config.dump import with_values

if TYPE_CHECKING:
    from nmt.apps.recipes.adaptation_corpus import Request
    from nmt.base.languages import Direction
    from nmt.config.corpora import ParallelFiles

log = logging.getLogger(__name__)

BaseRun = Annotated[Path | None, typer.Argument(help="Run or packed model to adapt.", show_default=False)]
Language = Annotated[str | None, typer.Option(help="Language of the new corpus, if the run has several.")]
Mix = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=0.95,
        metavar="SHARE",
        help="Share of the old corpus in training. Default: 0.5, or 0 with a warning if the old corpus cannot be read.",
    ),
]
Test = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Test set of the new domain: one file with both languages, or --test SRC --test TGT. Default: held out "
        "from the new corpus.",
    ),
]
OldTest = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Test set of the old domain, given as with --test. Default: the run's test set."),
]
MaxLoss = Annotated[
    float, typer.Option(min=0.0, max=100.0, metavar="BLEU", help="Maximum BLEU loss allowed on the old test set.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted adaptation, or repeat its final check.")]

DEFAULT_MAX_LOSS = 1.0
_SETTABLE = ("tokenizer.subword_regularization", "tokenizer.user_symbols")  # symbols are appended to the vocabulary


class Check(NamedTuple):
    """The final check of the adapted model."""

    old_test: list[str]  # files of the old test set; none: the run's own
    max_loss: float  # BLEU


def adapt(
    run: NewRun,
    base: BaseRun = None,
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: Language = None,
    tgt_lang: Language = None,
    mix: Mix = None,
    test: Test = None,
    old_test: OldTest = None,
    max_loss: MaxLoss = DEFAULT_MAX_LOSS,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    resume: Resume = False,
    overwrite: ReplaceRun = False,
) -> None:
    """Adapt a model to another domain.

    `nmt adapt runs/general --corpus client.tsv --run runs/client` continues training with settings that suit the new
    corpus, mixes in part of the old one to prevent forgetting, and prints BLEU and chrF before and after.
    """
    options = CorpusNames(src, tgt, corpus, src_lang, tgt_lang)
    given = [*options.given(), *["--mix"] * (mix is not None), *["--test"] * bool(test)]
    changed = [override.partition("=")[0].strip() for override in overrides]
    fixed = next((key for key in changed if key.startswith("tokenizer") and not key.startswith(_SETTABLE)), None)
    refuse(
        {
            "give the run to adapt (or an adaptation to resume: --resume --run FOLDER)": not (resume or base),
            "give the new corpus: --src and --tgt (two aligned files), or --corpus": not (resume or any(options[:3])),
            f"a resumed adaptation already has its corpus; omit {', '.join(given)}": resume and given,
            f"--set {fixed}: an adaptation keeps the tokenizer of the run; omit it": fixed,
        }
    )
    if run.is_symlink() or run.name in ("", ".."):
        run = Path(os.path.realpath(run))
    check = Check(old_test or [], max_loss)
    _refuse_existing(run, check, resume, overwrite)
    prepare_to_train()
    found = None if base is None else find_run(str(base))
    if resume:
        _resume(run, found, check, overrides)
    elif found is not None:
        request = _request(found.config().data, options, (test or [], check.old_test), mix, overrides)
        _start(found, run, request, check, overrides, overwrite=overwrite)
    _finish(run, found, check)


def _refuse_existing(run: Path, check: Check, resume: bool, overwrite: bool) -> None:
    """Raise RunError if `run` exists, unless `overwrite` is given."""
    if not run.name:
        raise RunError("a run cannot be here", path=run, hint="choose another folder with --run")
    if overwrite or not run.exists():
        return
    if resume and candidate_of(run).exists():
        raise RunError("the adaptation would replace this run", path=run, hint=f"allow it: {_command(run, check)}")
    if resume:
        hint = "to start over, give the model and the corpus, with --overwrite"
        raise RunError("this adaptation is finished", path=run, hint=hint)
    raise RunError("this run already exists", path=run, hint="replace it with --overwrite, or choose another --run")


def candidate_of(run: Path) -> Path:
    """Return the folder in which the model that may become `run` is trained; `./runs` does not list it as a model."""
    return run.with_name(f".{run.name}.candidate")


def _request(
    data: DataConfig,
    options: CorpusNames,
    tests: tuple[list[str], list[str]],
    mix: float | None,
    overrides: list[str],
) -> Request:
    """Return the corpus and the test sets (new, old) that the command line names, by default in the run's languages."""
    from nmt.apps.recipes.adaptation_corpus import Request

    corpora = options.corpora_of(data)
    direction = data.direction_of(corpora[0])
    if direction not in data.directions:
        listed = ", ".join(map(str, data.directions))
        hint = "give the languages with --src-lang and --tgt-lang"
        raise ConfigError(f"the run does not translate {direction}; it has {listed}", hint=hint)
    held_out = [override for override in overrides if override.startswith(("data.holdout_size=", "data.holdout_seed="))]
    named = with_values(Config(data=data), "configuration of the run", held_out).data
    new_test = options.for_files(tests[0]).corpora_of(data) if tests[0] else ()
    old_test = _old_test_files(tests[1], data, direction) if tests[1] else ()
    return Request(corpora, direction, new_test, old_test, mix, named.holdout_size, named.holdout_seed)


def _old_test_files(named: list[str], data: DataConfig, direction: Direction) -> tuple[ParallelFiles, ...]:
    return CorpusNames(src_lang=direction.src, tgt_lang=direction.tgt).for_files(named).corpora_of(data)


def _start(base: RunDir, run: Path, request: Request, check: Check, overrides: list[str], *, overwrite: bool) -> None:
    from nmt.apps.recipes.adaptation import adapted_config
    from nmt.apps.recipes.adaptation_corpus import collect
    from nmt.data.read.pairs import paths_of
    from nmt.training.corpus.prepare import find_store_root

    candidate = candidate_of(run)
    if candidate.exists() and not overwrite:
        hint = f"continue it with --resume ({_command(run, check)}), or start over with --overwrite"
        raise RunError("an interrupted or rejected adaptation already exists", path=candidate, hint=hint)
    refuse_replacing([run], paths_of([*request.corpora, *request.test, *request.old_test]), [base])
    corpus = collect(base, request)
    config = adapted_config(base, corpus, corpus.write(find_store_root(base.config(), run)), overrides)
    num_new, *old_sizes = (len(part.pairs) for part in corpus.train)
    num_old = sum(old_sizes)
    old = f"{num_old:,} old pairs as {corpus.mix:.0%} of the training data" if num_old else "no old pairs"
    sizes = f"{len(corpus.test[0].pairs):,} new pairs for testing, {len(corpus.valid[0].pairs):,} for validation"
    log.info(
        f"adapting {base.path} to {num_new:,} new pairs, with {old}; {sizes}\n"
        f"  {config.training.max_updates:,} updates, learning rate {config.training.lr:.2g}"
    )
    train_run(config, candidate, "start", _command(run, check), overwrite=overwrite)


def _resume(run: Path, base: RunDir | None, check: Check, overrides: list[str]) -> None:
    from nmt.apps.recipes.adaptation import base_of

    adapted = RunDir(candidate_of(run))
    restore_replaced(adapted.path)
    if not adapted.path.is_dir():
        raise RunError("there is no adaptation to resume", path=run, hint="start it without --resume")
    if check.old_test:
        _read_old_test(base or base_of(adapted), adapted, check.old_test)  # reports a faulty file before the training
    settings = with_values(adapted.config(), adapted.config_file, overrides) if overrides else None
    train_run(settings, adapted.path, "resume", _command(run, check))


def _command(run: Path, check: Check) -> str:
    """Return the command that resumes an adaptation; if the run exists, it is the one to be replaced."""
    arguments = ["--resume", "--run", str(run)] + ["--overwrite"] * run.exists()
    arguments += [argument for name in check.old_test for argument in ("--old-test", name)]
    arguments += ["--max-loss", f"{check.max_loss:g}"] * (check.max_loss != DEFAULT_MAX_LOSS)
    return f"nmt adapt {shlex.join(arguments)}"


def _finish(run: Path, base: RunDir | None, check: Check) -> None:
    """Score the candidate and its base, print both, and deliver it, or raise RunError if it lost too much."""
    from nmt.apps.recipes.adaptation import base_of, check_adaptation
    from nmt.evaluation.model_comparison import render_table

    candidate = candidate_of(run)
    adapted = RunDir(candidate)
    base = base or base_of(adapted)
    old_test = _read_old_test(base, adapted, check.old_test)
    comparisons, worst, is_acceptable = check_adaptation(base, adapted, check.max_loss, old_test)
    table = "\n".join(render_table(comparisons, "before", "after"))
    print_text(table)
    if worst is None:
        log.warning(
            "%s has no test set, so the loss on the old domain cannot be measured; give one with --old-test", base.path
        )
    elif not is_acceptable:
        loss, before, after = -worst.bleu.gain, worst.bleu.other, worst.bleu.value
        raise RunError(
            f"not delivered: the old test set ({worst.direction}) loses {loss:.2f} BLEU ({before:.2f} before, "
            f"{after:.2f} after), more than --max-loss {check.max_loss:g}",
            path=run,
            hint=f"the weights are kept in {candidate}; start over with --overwrite and more of the old corpus (such "
            "as --mix 0.7), fewer updates (--set training.max_updates=N) or a lower learning rate (--set "
            "training.lr=RATE); or deliver them anyway: "
            f"{_command(run, check._replace(max_loss=int(loss) + 1))}",
        )
    _complete_card(adapted, run, table)
    _deliver(candidate, run)
    log_next_steps(run)


def _read_old_test(base: RunDir, adapted: RunDir, named: list[str]) -> list[DirectedPairs]:
    """Return the old test set that the command line names, if any, in the direction of the adaptation."""
    if not named:
        return []
    from nmt.apps.recipes.adaptation_corpus import read_texts

    direction = adapted.config().data.directions[0]
    pairs = read_texts(_old_test_files(named, base.config().data, direction))
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
