"""`nmt config`: write, show and check a configuration file."""

from __future__ import annotations

import logging
import shlex
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, Src, SrcLang, Tgt, TgtLang
from nmt.apps.commands.options import ConfigPath, Overrides, ReplaceFile, not_dash
from nmt.apps.commands.outputs import refuse_existing
from nmt.apps.commands.streams import print_text
from nmt.apps.recipes.corpora import CorpusNames
from nmt.apps.recipes.suggestion import minutes, suggestion, summary
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import HUB_PREFIX
from nmt.base.errors import ConfigError, counted
from nmt.base.files import restore_replaced, write_text
from nmt.base.machine import BUSY, busy_share
from nmt.config import dump_config, load_config
from nmt.config.corpora import DATA_SETS
from nmt.data.read.pairs import all_paths, read_parallel

log = logging.getLogger(__name__)

ROWS_LOOKED_AT = 1000
app = typer.Typer(help="Write, show and check a configuration file.", no_args_is_help=True)


@app.command()
def new(
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Validation set: a file with both languages, or --valid twice. Default: held out."
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Test set, likewise."),
    ] = None,
    student: Annotated[
        bool,
        typer.Option(
            "--student", help="Suggest a model that translates fast: deep encoder, shallow decoder, small vocabulary."
        ),
    ] = False,
    runtime: Annotated[
        Literal["hf"] | None,
        typer.Option(
            "--for", help="hf: suggest the nearest model that transformers has, so that nmt export hf writes it."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=not_dash, help="File to write. Default, and -: standard output."),
    ] = None,
    overwrite: ReplaceFile = False,
) -> None:
    """Write a commented configuration that suits your data: nmt config new --src a.de --tgt a.en -o my.yaml

    Corpora in several languages become one model, with a tag for each target language.
    """
    files = CorpusNames(src, tgt, corpus, src_lang, tgt_lang)
    named = {"valid": valid, "test": test}
    sets = {key: files.for_files(names).corpora()[0] for key, names in named.items() if names}
    data = files.data_section().model_copy(update=sets)
    if output is not None:
        refuse_replacing([output], all_paths(data))
        refuse_existing(output, overwrite=overwrite)
    text = suggestion(data, str(output) if output else "THIS-FILE.yaml", student=student, for_hf=runtime == "hf")
    if output is None:
        print_text(text.removesuffix("\n"))
    else:
        write_text(output, text)
        share = busy_share()
        about = counted(max(1, round(minutes(load_config(output)))), "minute")
        now = f", {share:.0%} of which programs used in the last minute" if share >= BUSY else ""
        log.info(
            f"done: {output}; training takes about {about} on this processor{now}\n"
            f"  nmt train --config {shlex.quote(str(output))}"
        )


@app.command()
def show(config: ConfigPath, overrides: Overrides = []) -> None:  # noqa: B006 (typer reads it, nobody changes it)
    """Print all keys of a configuration with their values and meanings, defaults included."""
    print_text(dump_config(load_config(config, overrides), comments=True).removesuffix("\n"))


@app.command()
def check(config: ConfigPath, overrides: Overrides = []) -> None:  # noqa: B006
    """Check a configuration, and that its files exist and can be read."""
    wanted = load_config(config, overrides)
    hint = f"paths are relative to {Path.cwd()}"
    if (folder := wanted.tokenizer.path) is not None:
        from nmt.training.corpus.prepare import load_base_tokenizers

        restore_replaced(Path(folder))
        if not Path(folder).exists():
            raise ConfigError(f"tokenizer.path: no such folder: {folder}", path=config, hint=hint)
        load_base_tokenizers(wanted)
    base = wanted.training.init_from
    if base is not None and not Path(base).exists() and not base.startswith(HUB_PREFIX):
        raise ConfigError(f"training.init_from: no such folder: {base}", path=config, hint=hint)
    for split in DATA_SETS:
        for files in wanted.data.corpora(split):
            list(islice(read_parallel(files), ROWS_LOOKED_AT))
    print_text(f"{config}: ok\n  {summary(wanted)}")
