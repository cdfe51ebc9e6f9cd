"""`nmt config`: make, show and check a configuration file."""

from __future__ import annotations

import logging
import os
import re
import shlex
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Overrides
from nmt.commands.streams import print_text
from nmt.config import Config, DataConfig, ParallelFiles, dump_config, load_config, suggest_config
from nmt.config.filters import SAFE_FILTERS
from nmt.config.presets import reason_for
from nmt.errors import ConfigError, DataError
from nmt.files import write_text

log = logging.getLogger(__name__)

MIN_PAIRS = 100
ROWS_LOOKED_AT = 100
_NOT_LANGUAGES = {"bpe", "csv", "dat", "gz", "lc", "low", "raw", "sgm", "src", "tgt", "tok", "trg", "tsv", "txt", "xml"}
_GUESSED = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_GIVEN = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")

app = typer.Typer(help="Make, show and check a configuration file.", no_args_is_help=True)

ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="The YAML file.")]


@app.command()
def new(
    src: Annotated[str | None, typer.Option(help="Source sentences, one per line (.gz too).")] = None,
    tgt: Annotated[str | None, typer.Option(help="Their translations, line by line.")] = None,
    tsv: Annotated[str | None, typer.Option(help="Both in one tab-separated file, instead of --src and --tgt.")] = None,
    columns: Annotated[str, typer.Option(help="Source and target column of the tsv, from 1.")] = "1,2",
    src_lang: Annotated[str | None, typer.Option(help="Source language; default: the ending of --src (a.de).")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Target language; default: the ending of --tgt.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: print it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a commented configuration that suits your data: nmt config new --src a.de --tgt a.en -o my.yaml"""
    if bool(tsv) == bool(src and tgt) or bool(src) != bool(tgt):
        hint = "nmt config new --src a.de --tgt a.en, or --tsv a.tsv --src-lang de --tgt-lang en"
        raise ConfigError(
            "name either --src and --tgt (two aligned files) or --tsv (one tab-separated file)", hint=hint
        )
    if output is not None and os.path.lexists(output) and not overwrite:
        raise ConfigError(
            "this file exists already", path=output, hint="replace it by --overwrite, or choose another name"
        )
    train = ParallelFiles(src=src or None, tgt=tgt or None, tsv=tsv or None, columns=parse_columns(columns))
    data = DataConfig(
        src_lang=find_language("--src-lang", src_lang, src),
        tgt_lang=find_language("--tgt-lang", tgt_lang, tgt),
        train=train,
        filters=SAFE_FILTERS,
    )
    text = _suggestion(data, str(output) if output else "THIS-FILE.yaml")
    if output is None:
        print_text(text.removesuffix("\n"))
    else:
        write_text(output, text)
        log.info(f"done: {output}\n  nmt train --config {shlex.quote(str(output))}")


def _suggestion(data: DataConfig, name: str) -> str:
    """Return the suggested configuration for `data` as commented YAML; its header calls it `name`."""
    num_pairs, num_blank = _count_pairs(data.train)
    if num_pairs < MIN_PAIRS:
        log.warning(f"only {num_pairs} sentence pairs: enough to try things out, not to learn a language")
    config = suggest_config(num_pairs, data)
    return dump_config(config, comments=True, header=_header(config, name, num_pairs, num_blank))


@app.command()
def show(config: ConfigPath, overrides: Overrides = []) -> None:  # noqa: B006 (typer reads it, nobody changes it)
    """Print every key of a configuration as it will be used, with its meaning."""
    print_text(dump_config(load_config(config, overrides), comments=True).removesuffix("\n"))


@app.command()
def check(config: ConfigPath, overrides: Overrides = []) -> None:  # noqa: B006
    """Check a configuration, and that the files it names are there and readable."""
    wanted = load_config(config, overrides)
    for key, folder in (("tokenizer.path", wanted.tokenizer.path), ("training.init_from", wanted.training.init_from)):
        if folder is not None and not Path(folder).is_dir():
            hint = f"paths are taken from {Path.cwd()}"
            raise ConfigError(f"{key}: no such folder: {folder}", path=config, hint=hint)
    from nmt.data.corpus import read_parallel

    for files in (wanted.data.train, wanted.data.valid, wanted.data.test):
        if files is not None:
            list(islice(read_parallel(files), ROWS_LOOKED_AT))
    print_text(f"{config}: ok\n  {_summary(wanted)}")


def parse_columns(text: str) -> tuple[int, int]:
    """Return the columns that `--columns` names. ConfigError if they are not two different numbers."""
    match = re.fullmatch(r"\s*([1-9][0-9]{0,5})\s*,\s*([1-9][0-9]{0,5})\s*", text)
    if match is None or match[1] == match[2]:
        raise ConfigError(f"--columns {text}: two different column numbers are needed, from 1", hint="such as 1,2")
    return int(match[1]), int(match[2])


def find_language(option: str, given: str | None, path: str | None) -> str:
    """Return the language that an option names, or else the ending of a file: `a.de`, `a.pt-BR.gz`."""
    if given is not None:
        if not _GIVEN.fullmatch(given):
            raise ConfigError(f"{option} {given}: not a language code", hint="such as de, zh or pt-BR")
        return given
    ending = "" if path is None else Path(path.removesuffix(".gz")).suffix.removeprefix(".")
    if not _GUESSED.fullmatch(ending) or ending.lower() in _NOT_LANGUAGES:
        unclear = "a tsv does not say its languages" if path is None else f"the name {path} does not say its language"
        raise ConfigError(f"{unclear}; {option} is missing", hint=f"such as {option} de")
    return ending


def _count_pairs(files: ParallelFiles) -> tuple[int, int]:
    """Count the pairs with text on both sides and the other rows. Raises `DataError` if no pair has both."""
    from nmt.data.corpus import read_parallel

    num_rows = num_pairs = 0
    for pair in read_parallel(files):
        num_rows += 1
        num_pairs += bool(pair.src and pair.tgt)
    if num_pairs == 0:
        raise DataError("no row has text on both sides", path=files.tsv or files.src)
    return num_pairs, num_rows - num_pairs


def _header(config: Config, name: str, num_pairs: int, num_blank: int) -> str:
    train, training = config.data.train, config.training
    blank = f" (rows with an empty side, not counted: {num_blank:,})" if num_blank else ""
    where = train.tsv or f"{train.src} and {train.tgt}"
    return "\n".join(
        (
            f"Train with: nmt train --config {shlex.quote(name)}",
            f"Found {num_pairs:,} sentence pairs{blank} in {where}.",
            f"Chosen for them: {_sizes(config)}, dropout {config.model.dropout},",
            f"{training.max_updates:,} updates, a validation every {training.validate_every:,}.",
            f"Why: {reason_for(num_pairs)}.",
            f"Filters: rules that hardly ever meet a good pair; see nmt data check --config {shlex.quote(name)}",
        )
    )


def _sizes(config: Config) -> str:
    model, tokenizer = config.model, config.tokenizer
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    tokens = f"{'one vocabulary' if tokenizer.joint else 'two vocabularies'} of {tokenizer.vocab_size:,} tokens"
    return f"d_model {model.d_model}, d_ff {model.d_ff}, {layers}, {model.num_heads} heads, {tokens}"


def _summary(config: Config) -> str:
    data = config.data
    held_out = [name for name, files in (("valid", data.valid), ("test", data.test)) if files is None]
    holdout = f"; {' and '.join(held_out)} held out of train" if held_out else ""
    return f"{data.src_lang} to {data.tgt_lang}, {_sizes(config)}, {config.training.max_updates:,} updates{holdout}"
