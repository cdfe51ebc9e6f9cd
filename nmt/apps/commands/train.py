"""`nmt train` and `nmt vocab`: train a model or only its tokenizer, or resume a run."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, Src, SrcLang, Tgt, TgtLang
from nmt.apps.commands.options import ConfigPath, Overrides, ReplaceRun
from nmt.apps.recipes.corpora import CorpusNames
from nmt.artifacts.replacing import refuse_replacing, refuse_replacing_parts
from nmt.artifacts.rundir import RunDir, refuse_existing
from nmt.base.errors import ConfigError, UsageError, require_torch
from nmt.base.files import write_text
from nmt.base.machine import environment_count, request_exact_mkl
from nmt.config import Config, load_config
from nmt.config.dump import with_values
from nmt.evaluation.scores import describe_quality

if TYPE_CHECKING:
    from nmt.training.interrupt import Interrupt

log = logging.getLogger(__name__)


def train(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file (YAML).")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Run directory to write. Default: runs/NAME-OF-CONFIG.")
    ] = None,
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Train the opposite direction.")] = False,
    mono_tgt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Target sentences, one per line, for the language model of a phrase table (500 to 16,000 pairs).",
        ),
    ] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run; with --config, start it if there is none.")
    ] = False,
    overwrite: ReplaceRun = False,
    num_processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of training processes on this machine, usually one per GPU.")
    ] = 1,
    engine: Annotated[
        Literal["auto", "phrase"],
        typer.Option(
            help="phrase: train only a phrase table, in one or two minutes; the network gets a single update."
        ),
    ] = "auto",
) -> None:
    """Train a model on a parallel corpus.

    For a corpus without --config, such as `nmt train --src a.de --tgt a.en`, writes the configuration that `nmt config
    new` suggests, and trains with it.
    """
    files = CorpusNames(src, tgt, corpus, src_lang, tgt_lang)
    if config is None and not files.given() and (reverse or not (resume and run)):
        others = "a configuration with --config (or a run to resume: --resume --run FOLDER)"
        raise typer.BadParameter(f"give a corpus with --src and --tgt, or with --corpus, or {others}")
    run = run or (config and Path("runs") / f"{config.stem}{'-reverse' * reverse}")
    if files.given():
        config = _suggested_file(files, run, reverse=reverse)
        run = run or Path("runs") / config.stem
    settings = load_config(config, overrides) if config else _changed(run, overrides)
    if reverse and settings is not None and not files.given():
        assert config is not None
        settings = _reversed(settings, config)
    assert run is not None
    # torchrun restarts the processes after one of them has died.
    resume |= environment_count("TORCHELASTIC_RESTART_COUNT", 0) > 0
    if engine == "phrase":
        settings = _only_phrases(settings)
    settings = _with_target_text(settings, mono_tgt)
    if not (resume or overwrite):
        refuse_existing(run)  # before torch is imported
    if settings is not None and not resume:
        refuse_replacing_parts(run, settings)
    if num_processes > 1 and "WORLD_SIZE" not in os.environ:
        from nmt.training.processes import launch

        raise typer.Exit(launch(sys.argv[1:], num_processes))
    how_to_resume = f"nmt train --resume --run {shlex.quote(str(run))}"
    with stopping(run, how_to_resume, overwrite=overwrite) as interrupt, interrupt:
        from nmt.training.run import resume_run, start_or_resume_run, start_run

        if settings is None or (resume and config is None):
            finished = resume_run(settings, run, interrupt)
        elif resume:
            finished = start_or_resume_run(settings, run, interrupt)
        else:
            finished = start_run(settings, run, overwrite=overwrite, interrupt=interrupt)
    if not finished:
        exit_unfinished(interrupt, how_to_resume)
    log_next_steps(run)


def _reversed(config: Config, path: Path) -> Config:
    """Return `config`, read from `path`, in the opposite direction. UsageError if it has text of its target side."""
    if config.data.mono_tgt:
        raise UsageError(
            "--reverse: the text of data.mono_tgt would be in the source language",
            hint="leave it out with --set data.mono_tgt=null",
        )
    return with_values(config.model_copy(update={"data": config.data.reversed()}), path)


def _with_target_text(config: Config | None, path: Path | None) -> Config | None:
    """Return `config` with the text at `path`, if any. UsageError if there is no configuration."""
    if path is None:
        return config
    if config is None:
        raise UsageError("--mono-tgt needs a configuration or a corpus: a run keeps its settings")
    data = config.data.model_copy(update={"mono_tgt": str(path)})
    return config.model_copy(update={"data": data})


def _only_phrases(config: Config | None) -> Config:
    """Return `config` with a single update of the network. NmtError if there would be no phrase table."""
    if config is None:
        raise UsageError("--engine phrase needs a configuration or a corpus: a run keeps its settings")
    if len(config.data.directions) > 1:
        raise ConfigError("--engine phrase: phrase tables are for models with one direction")
    changes = {"max_updates": 1, "max_minutes": 0, "stages": (), "warmup_updates": 0, "average_checkpoints": 0}
    changes["lexical_start"] = False  # in vain for a single update
    training = type(config.training).model_validate({**config.training.model_dump(), **changes})
    return config.model_copy(update={"training": training})


def _suggested_file(files: CorpusNames, run: Path | None, *, reverse: bool) -> Path:
    """Write the configuration that `nmt config new` suggests for a corpus, named like the run, into this folder.

    ConfigError if there is a file of that name with other contents.
    """
    from nmt.apps.recipes.suggestion import suggestion, summary

    data = files.data_section()
    data = data.reversed() if reverse else data
    path = Path(f"{run.name if run else f'{data.src_lang}-{data.tgt_lang}'}.yaml")
    text = suggestion(data, str(path))
    if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == text.encode()):
        named = shlex.quote(str(path))
        raise ConfigError(
            "this file already exists, with other contents",
            path=path,
            hint=f"train with it: nmt train --config {named}; or choose the name of a new one with --run runs/NAME",
        )
    write_text(path, text)
    log.info(f"{path}: {summary(load_config(path))}")
    return path


def vocab(
    config: ConfigPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write. Default: vocab/NAME-OF-CONFIG.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the tokenizer if it exists.")] = False,
) -> None:
    """Train only the tokenizer.

    To use it in training, set tokenizer.path to its folder.
    """
    settings = load_config(config, overrides)
    folder = output or Path("vocab") / config.stem
    from nmt.data.read.pairs import all_paths
    from nmt.data.tokens.tokenizer import refuse_existing_tokenizer
    from nmt.training.corpus.prepare import train_on_corpus

    refuse_replacing([folder], [config, *all_paths(settings.data)])
    refuse_existing_tokenizer(folder, overwrite=overwrite)  # fail before training, not only after it
    tokenizers = train_on_corpus(settings)
    tokenizers.save(folder, overwrite=overwrite)
    for side, tokenizer in tokenizers.vocabularies().items():
        log.info("%s: %d tokens, %s", side, tokenizer.vocab_size, tokenizer.type)
    joint = "" if tokenizers.joint else ", joint: false"
    log.info("done: %s; use it with  tokenizer: {path: %s%s}", folder, folder, joint)


def _changed(run: Path | None, overrides: list[str]) -> Config | None:
    """Return the configuration of the run to resume, changed by `overrides`; None without any."""
    if run is None or not overrides or not RunDir(run).config_file.exists():
        return None
    RunDir(run).check()
    return load_config(RunDir(run).config_file, overrides)


def log_next_steps(run: Path) -> None:
    """Log the commands for using the finished run."""
    data = RunDir(run).config().data
    to = f" --to {data.directions[0].tgt}" if len({direction.tgt for direction in data.directions}) > 1 else ""
    name = shlex.quote(str(run))
    index = RunDir(run).index()
    if index.best is not None:
        scores = index.scores_of(index.best)
        of_network = index.checkpoints[index.best]
        by = "fp32" if scores is of_network else "phrase table"
        rival = index.verdict.unsurpassed() if index.verdict is not None else ""
        meaning = f"nothing usable yet: {rival}" if rival else describe_quality(scores["bleu"], scores["chrf"])
        log.info(f"validation BLEU {scores['bleu']:.2f} ({by}): {meaning}")
    log.info(f"done: {run}\n  nmt translate --model {name}{to} 'text'\n  nmt eval --model {name} --details")


def prepare_to_train() -> None:
    """Fail if torch is missing, and set its libraries up for this machine, before other work starts.

    For commands that translate first and train later.
    """
    require_torch()
    request_exact_mkl()


@contextmanager
def stopping(run: Path, how_to_resume: str, *, overwrite: bool) -> Iterator[Interrupt]:
    """Yield what stops a training of `run`. If it stops at once: typer.Exit, after logging the command to resume it."""
    from nmt.training.interrupt import Interrupt

    interrupt = Interrupt()
    try:
        yield interrupt
    except KeyboardInterrupt:
        if interrupt.requested is None:  # before or after the training
            raise
        resume = f"the last saved state is kept. Resume with: {how_to_resume}"
        has_begun = interrupt.deferred or (not overwrite and RunDir(run).config_file.is_file())
        log.info(f"stopped at once; {resume if has_begun else 'training had not begun'}")
        raise typer.Exit(interrupt.exit_code) from None


def exit_unfinished(interrupt: Interrupt, how_to_resume: str) -> NoReturn:
    """Log how to resume a training that was stopped after an update, and exit."""
    log.info(f"stopped; the state is saved. Resume with: {how_to_resume}")
    raise typer.Exit(interrupt.exit_code)
