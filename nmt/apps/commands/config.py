"""`nmt config`: write, show and check a configuration file."""

from __future__ import annotations

import logging
import shlex
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, CorpusOptions, Src, SrcLang, Tgt, TgtLang
from nmt.apps.commands.options import ConfigPath, Overrides, ReplaceFile, not_dash
from nmt.apps.commands.outputs import refuse_existing, refuse_replacing
from nmt.apps.commands.streams import print_text
from nmt.artifacts.hub import HUB_PREFIX
from nmt.base.errors import ConfigError, DataError, counted, in_words
from nmt.base.files import restore_replaced, write_text
from nmt.config import Config, DataConfig, ModelConfig, TokenizerConfig, dump_config, load_config, suggest_config
from nmt.config.corpora import DATA_SETS, ParallelFiles
from nmt.config.presets import reason_for

log = logging.getLogger(__name__)

MIN_PAIRS = 100
ROWS_LOOKED_AT = 1000
app = typer.Typer(help="Write, show and check a configuration file.", no_args_is_help=True)


@app.command()
def new(
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
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
    data = CorpusOptions(src, tgt, corpus, src_lang, tgt_lang).data_section()
    if output is not None:
        from nmt.data.read.corpus import paths_of

        refuse_replacing([output], paths_of(data.corpora("train")))
        refuse_existing(output, overwrite=overwrite)
    text = suggestion(data, str(output) if output else "THIS-FILE.yaml", student=student, for_hf=runtime == "hf")
    if output is None:
        print_text(text.removesuffix("\n"))
    else:
        write_text(output, text)
        log.info(f"done: {output}\n  nmt train --config {shlex.quote(str(output))}")


def suggestion(data: DataConfig, name: str, *, student: bool = False, for_hf: bool = False) -> str:
    """Return the suggested configuration for `data` as commented YAML, with the file name `name` in its header.

    `for_hf`: the model becomes the nearest one that transformers has: of Pegasus or, with two embeddings, of Marian.
    """
    num_pairs, num_blank = count_pairs(data.corpora("train"))
    if num_pairs < MIN_PAIRS:
        log.warning(f"only {counted(num_pairs, 'sentence pair')}: enough to try things out, not to learn a language")
    config = usual = suggest_config(num_pairs, data, student=student)
    if for_hf:
        norms = "pre" if usual.model.tied_embeddings == "all" else "post"
        changes = {"positions": "sinusoidal", "qk_norm": False, "norm_position": norms}
        config = usual.model_copy(update={"model": usual.model.model_copy(update=changes)})
    header = _header(config, name, num_pairs, num_blank)
    if config.model != usual.model:
        lost = "no rotary positions, no norms of queries and keys: 0.8 BLEU less on Multi30k"
        header += f"\nFor nmt export hf: {lost if usual.model.qk_norm else 'post-norm'}."
    return dump_config(config, comments=True, header=header)


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
    from nmt.data.read.corpus import read_parallel

    for split in DATA_SETS:
        for files in wanted.data.corpora(split):
            list(islice(read_parallel(files), ROWS_LOOKED_AT))
    print_text(f"{config}: ok\n  {summary(wanted)}")


def count_pairs(corpora: tuple[ParallelFiles, ...]) -> tuple[int, int]:
    """Count the pairs with text on both sides, and the other rows. Raises `DataError` if no pair has both."""
    from nmt.data.read.corpus import paths_of, read_parallel

    num_rows = num_pairs = 0
    for pair in read_parallel(corpora):
        num_rows += 1
        num_pairs += bool(pair.src and pair.tgt)
    if num_pairs == 0:
        raise DataError("no row has text on both sides", path=paths_of(corpora)[0])
    return num_pairs, num_rows - num_pairs


def _header(config: Config, name: str, num_pairs: int, num_blank: int) -> str:
    from nmt.data.read.corpus import paths_of

    training, directions = config.training, config.data.directions
    files = [str(path) for path in paths_of(config.data.corpora("train"))]
    blank = f" (rows with an empty side, not counted: {num_blank:,})" if num_blank else ""
    several = f" for {in_words(list(map(str, directions)))}" if len(directions) > 1 else ""
    first = ""
    if training.stages:
        copies = training.stages[0].copy_targets
        how = "on copies of the targets" if copies else "in both directions: Ding et al. 2021"
        first = f" (the first {training.stages[0].max_updates:,} {how})"
    return "\n".join(
        (
            f"Train with: nmt train --config {shlex.quote(name)}",
            f"Found {num_pairs:,} sentence pairs{several}{blank} in {in_words(files)}.",
            f"Suggested: {_layers(config.model)},",
            f"{_vocabulary(config.tokenizer)}, dropout {config.model.dropout},",
            f"{training.max_updates:,} updates{first}, a validation every {training.validate_every:,}.",
            f"Why: {reason_for(config, num_pairs)}.",
            f"Filters: rules that hardly ever drop a good pair; see nmt data check --config {shlex.quote(name)}",
        )
    )


def _layers(model: ModelConfig) -> str:
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    positions = f", {model.positions} positions" if model.positions != "sinusoidal" else ""
    norms = ", norms of queries and keys" if model.qk_norm else ""
    return f"d_model {model.d_model}, d_ff {model.d_ff}, {layers}, {model.num_heads} heads{positions}{norms}"


def _vocabulary(tokenizer: TokenizerConfig) -> str:
    return f"{'one vocabulary' if tokenizer.joint else 'two vocabularies'} of {tokenizer.vocab_size:,} tokens"


def summary(config: Config) -> str:
    """Return the languages, sizes and updates of a configuration in one line."""
    data, sizes = config.data, f"{_layers(config.model)}, {_vocabulary(config.tokenizer)}"
    held_out = [name for name in DATA_SETS if not data.corpora(name)]
    holdout = f"; {' and '.join(held_out)} held out from train" if held_out else ""
    languages = ", ".join(f"{direction.src} to {direction.tgt}" for direction in data.directions)
    return f"{languages}, {sizes}, {config.training.max_updates:,} updates{holdout}"
