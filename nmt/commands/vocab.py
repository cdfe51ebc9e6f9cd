"""`nmt vocab`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Overrides
from nmt.config import load_config

log = logging.getLogger(__name__)


def vocab(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML that names corpus and tokenizer.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: vocab/NAME-OF-CONFIG.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Train only the tokenizer.

    To train with it, name its folder in the key tokenizer.path.
    """
    wanted = load_config(config, overrides)
    folder = output or Path("vocab") / config.stem
    from nmt.data.prepare import train_on_corpus
    from nmt.data.tokenizer import refuse_existing_tokenizer

    refuse_existing_tokenizer(folder, overwrite=overwrite)  # here too, so that it is told before the training
    tokenizers = train_on_corpus(wanted, None)
    tokenizers.save(folder, overwrite=overwrite)
    sizes = {"joint": tokenizers.src} if tokenizers.joint else {"source": tokenizers.src, "target": tokenizers.tgt}
    for side, tokenizer in sizes.items():
        log.info(f"{side}: {tokenizer.vocab_size} tokens, {tokenizer.type}")
    joint = "" if tokenizers.joint else ", joint: false"
    log.info(f"done: {folder}; use it with  tokenizer: {{path: {folder}{joint}}}")
