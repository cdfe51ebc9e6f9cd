"""`nmt vocab`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Overrides
from nmt.config import load_config
from nmt.errors import RunError

log = logging.getLogger(__name__)


def vocab(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML that names corpus and tokenizer.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: vocab/NAME-OF-CONFIG.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Train the tokenizer alone; use it later through the key tokenizer.path."""
    wanted = load_config(config, overrides)
    folder = output or Path("vocab") / config.stem
    if any(folder.glob("*.model")) and not overwrite:
        raise RunError(
            "there is a tokenizer already", path=folder, hint="replace it by --overwrite, or name another --output"
        )
    from nmt.data.prepare import train_on_corpus

    tokenizers = train_on_corpus(wanted, None)
    tokenizers.save(folder)
    sizes = {"joint": tokenizers.src} if tokenizers.joint else {"source": tokenizers.src, "target": tokenizers.tgt}
    for side, tokenizer in sizes.items():
        log.info(f"{side}: {tokenizer.vocab_size} tokens, {tokenizer.type}")
    joint = "" if tokenizers.joint else ", joint: false"
    log.info(f"done: {folder}; use it with  tokenizer: {{path: {folder}{joint}}}")
