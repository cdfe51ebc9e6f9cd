"""`nmt config`: make, show and check a configuration file."""

from __future__ import annotations

import logging
import os
import re
import shlex
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.commands.options import Overrides
from nmt.commands.streams import print_text
from nmt.config import Config, DataConfig, ParallelFiles, dump_config, load_config, suggest_config
from nmt.config.presets import reason_for
from nmt.config.sections import FORMS
from nmt.data.lines import COMPRESSIONS
from nmt.errors import ConfigError, DataError
from nmt.files import write_text

log = logging.getLogger(__name__)

MIN_PAIRS = 100
ROWS_LOOKED_AT = 1000
SETS: tuple[Literal["train", "valid", "test"], ...] = ("train", "valid", "test")
_FORM_OF_ENDING = {
    **{form: form for form in FORMS if form != "src"},
    "tab": "tsv", "xlsm": "xlsx", "json": "jsonl", "ndjson": "jsonl", "xlf": "xliff", "sdlxliff": "xliff",
    "mxliff": "xliff", "mqxliff": "xliff",
}  # fmt: skip
_NOT_LANGUAGES = {"bpe", "csv", "dat", "gz", "lc", "low", "raw", "sgm", "src", "tgt", "tok", "trg", "tsv", "txt", "xml"}
_GUESSED = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_GIVEN = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")

app = typer.Typer(help="Make, show and check a configuration file.", no_args_is_help=True)

ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="The YAML file.")]
CorpusFiles = Annotated[
    list[str] | None,
    typer.Option(
        help="Both in one file whose name says its form: .tsv, .csv, .xlsx, .jsonl, .tmx, .xliff or .xlf; text also "
        "with .gz, .xz or .zst after it. May be repeated."
    ),
]


@app.command()
def new(
    src: Annotated[list[str] | None, typer.Option(help="Source sentences, one per line. May be repeated.")] = None,
    tgt: Annotated[list[str] | None, typer.Option(help="Their translations, line by line. Once per --src.")] = None,
    tsv: Annotated[list[str] | None, typer.Option(help="Both in one tab-separated file. May be repeated.")] = None,
    corpus: CorpusFiles = None,
    columns: Annotated[str, typer.Option(help="Source and target column of tables, from 1, or two names.")] = "1,2",
    fields: Annotated[str, typer.Option(help="Source and target field of .jsonl files.")] = "src,tgt",
    src_lang: Annotated[str | None, typer.Option(help="Source language; default: the ending of --src (a.de).")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Target language; default: the ending of --tgt.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: print it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a commented configuration that suits your data: nmt config new --src a.de --tgt a.en -o my.yaml"""
    sources, targets = src or [], tgt or []
    train = _corpora(sources, targets, [(name, "tsv") for name in tsv or []] + list(map(_recognized, corpus or [])))
    if output is not None and os.path.lexists(output) and not overwrite:
        raise ConfigError(
            "this file exists already", path=output, hint="replace it by --overwrite, or choose another name"
        )
    train = _with_options(train, columns=_columns(columns), fields=_fields(fields))
    data = DataConfig(
        src_lang=_language("--src-lang", src_lang, sources, train),
        tgt_lang=_language("--tgt-lang", tgt_lang, targets, train),
        train=train[0] if len(train) == 1 else tuple(train),
    )
    text = _suggestion(data, str(output) if output else "THIS-FILE.yaml")
    if output is None:
        print_text(text.removesuffix("\n"))
    else:
        write_text(output, text)
        log.info(f"done: {output}\n  nmt train --config {shlex.quote(str(output))}")


def _suggestion(data: DataConfig, name: str) -> str:
    """Return the suggested configuration for `data` as commented YAML; its header calls it `name`."""
    num_pairs, num_blank = _count_pairs(data.corpora("train"))
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

    for split in SETS:
        for files in wanted.data.corpora(split):
            list(islice(read_parallel(files), ROWS_LOOKED_AT))
    print_text(f"{config}: ok\n  {_summary(wanted)}")


def _corpora(sources: list[str], targets: list[str], others: list[tuple[str, str]]) -> list[ParallelFiles]:
    """Return the named corpora: pairs of aligned files, then files with both languages, each given with its form."""
    named = [*sources, *targets, *(name for name, _ in others)]
    if not named or not all(named) or len(sources) != len(targets):
        hint = "nmt config new --src a.de --tgt a.en, or --tsv a.tsv --src-lang de --tgt-lang en"
        raise ConfigError("name --src and --tgt (two aligned files), --tsv or --corpus (one file with both)", hint=hint)
    aligned = [ParallelFiles(src=src, tgt=tgt) for src, tgt in zip(sources, targets, strict=True)]
    return aligned + [ParallelFiles.model_validate({form: name}) for name, form in others]


def _recognized(name: str) -> tuple[str, str]:
    """Return the name of a file, and the form that its ending says."""
    ending = Path(_uncompressed(name)).suffix.lower().removeprefix(".")
    if ending not in _FORM_OF_ENDING:
        hint = f"name a file that ends in .{', .'.join(_FORM_OF_ENDING)}; use --tsv for another name, or edit the YAML"
        raise ConfigError(f"--corpus {name}: the name does not say the form of the file", hint=hint)
    return name, _FORM_OF_ENDING[ending]


def _uncompressed(name: str) -> str:
    return name[: -len(suffix)] if (suffix := Path(name).suffix) in COMPRESSIONS else name


def _with_options(corpora: list[ParallelFiles], **options: object) -> list[ParallelFiles]:
    """Return the corpora with the columns or fields that were asked for, if they have such."""
    return [
        files.model_copy(update={key: value for key, value in options.items() if files.uses(key)}) for files in corpora
    ]


def _columns(text: str) -> tuple[int, int] | tuple[str, str]:
    """Return two column numbers, or two names."""
    first, _, second = (part.strip() for part in text.partition(","))
    numbers = re.fullmatch(r"[1-9][0-9]{0,5}", first) and re.fullmatch(r"[1-9][0-9]{0,5}", second)
    looks_numeric = first.isdecimal() or second.isdecimal()
    if not first or not second or first == second or (looks_numeric and not numbers):
        hint = "such as 1,2, or two names from the header"
        raise ConfigError(f"--columns {text}: two different columns are needed, numbered from 1", hint=hint)
    return (int(first), int(second)) if numbers else (first, second)


def _fields(text: str) -> tuple[str, str]:
    first, _, second = (part.strip() for part in text.partition(","))
    if not first or not second or first == second:
        raise ConfigError(f"--fields {text}: two different fields are needed", hint="such as src,tgt")
    return first, second


def _language(option: str, given: str | None, paths: list[str], corpora: list[ParallelFiles]) -> str:
    """Return the language that an option names, or else the ending of an aligned file: `a.de`, `a.pt-BR.gz`."""
    if given is not None:
        if not _GIVEN.fullmatch(given):
            raise ConfigError(f"{option} {given}: not a language code", hint="such as de, zh or pt-BR")
        return given
    ending = Path(_uncompressed(paths[0])).suffix.removeprefix(".") if paths else ""
    if not _GUESSED.fullmatch(ending) or ending.lower() in _NOT_LANGUAGES:
        form = corpora[0].form
        says = "may have several languages" if form in ("tmx", "xliff") else "does not say its languages"
        unclear = f"the name {paths[0]} does not say its language" if paths else f"a {form} {says}"
        raise ConfigError(f"{unclear}; {option} is missing", hint=f"such as {option} de")
    return ending


def _count_pairs(corpora: tuple[ParallelFiles, ...]) -> tuple[int, int]:
    """Count the pairs with text on both sides and the other rows. Raises `DataError` if no pair has both."""
    from nmt.data.corpus import paths_of, read_parallel

    num_rows = num_pairs = 0
    for pair in read_parallel(corpora):
        num_rows += 1
        num_pairs += bool(pair.src and pair.tgt)
    if num_pairs == 0:
        raise DataError("no row has text on both sides", path=paths_of(corpora)[0])
    return num_pairs, num_rows - num_pairs


def _header(config: Config, name: str, num_pairs: int, num_blank: int) -> str:
    from nmt.data.corpus import paths_of

    training, files = config.training, [str(path) for path in paths_of(config.data.corpora("train"))]
    blank = f" (rows with an empty side, not counted: {num_blank:,})" if num_blank else ""
    named = " and ".join(files) if len(files) < 3 else f"{', '.join(files[:-1])} and {files[-1]}"
    return "\n".join(
        (
            f"Train with: nmt train --config {shlex.quote(name)}",
            f"Found {num_pairs:,} sentence pairs{blank} in {named}.",
            f"Chosen for them: {_sizes(config)}, dropout {config.model.dropout},",
            f"{training.max_updates:,} updates, a validation every {training.validate_every:,}.",
            f"Why: {reason_for(num_pairs)}.",
        )
    )


def _sizes(config: Config) -> str:
    model, tokenizer = config.model, config.tokenizer
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    tokens = f"{'one vocabulary' if tokenizer.joint else 'two vocabularies'} of {tokenizer.vocab_size:,} tokens"
    return f"d_model {model.d_model}, d_ff {model.d_ff}, {layers}, {model.num_heads} heads, {tokens}"


def _summary(config: Config) -> str:

    data = config.data
    held_out = [name for name in SETS if not data.corpora(name)]
    holdout = f"; {' and '.join(held_out)} held out of train" if held_out else ""
    languages = ", ".join(f"{direction.src} to {direction.tgt}" for direction in data.directions)
    return f"{languages}, {_sizes(config)}, {config.training.max_updates:,} updates{holdout}"
