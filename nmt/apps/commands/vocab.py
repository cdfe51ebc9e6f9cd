"""`nmt vocab`: train only the tokenizer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import Overrides
from nmt.apps.commands.outputs import refuse_replacing
from nmt.config import load_config

log = logging.getLogger(__name__)


def vocab(
    config: Annotated[Path, typer.Option("--config", "-c", help="Configuration file (YAML).")],
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
    from nmt.data.read.corpus import all_paths
    from nmt.data.tokens.tokenizer import refuse_existing_tokenizer
    from nmt.training.corpus.prepare import train_on_corpus

    refuse_replacing([folder], [config, *all_paths(settings.data)])
    refuse_existing_tokenizer(folder, overwrite=overwrite)  # fail before training, not only after it
    tokenizers = train_on_corpus(settings)
    tokenizers.save(folder, overwrite=overwrite)
    sides = {"joint": tokenizers.src} if tokenizers.joint else {"source": tokenizers.src, "target": tokenizers.tgt}
    for side, tokenizer in sides.items():
        log.info("%s: %d tokens, %s", side, tokenizer.vocab_size, tokenizer.type)
    joint = "" if tokenizers.joint else ", joint: false"
    log.info("done: %s; use it with  tokenizer: {path: %s%s}", folder, folder, joint)
