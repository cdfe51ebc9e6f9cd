"""Translate lines into a file that keeps what is finished, so that the same call continues it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator

from nmt.base.partial_file import PartialFile
from nmt.base.progress import Progress
from nmt.data.read.line_blocks import grow_blocks
from nmt.translation import Translation
from nmt.translation.translator import TranslatedBlock

log = logging.getLogger(__name__)


def translate_into(
    file: PartialFile,
    translate: Callable[..., Iterator[TranslatedBlock]],
    lines: Iterator[str],
    render: Callable[[Translation], str],
    name: str,
    total: int | None,
) -> None:
    """Append what `render` makes of the translation of each line that is not finished.

    `translate` is the `translate_blocks` of a translator, with its request. Shows a bar on a terminal, and log lines
    elsewhere. DataError if other lines of `name` were translated before.
    """
    file.skip_finished(lines, name)
    if file.num_texts:
        log.info("resuming after %s lines", f"{file.num_texts:,}")
    bar = sys.stderr.isatty()
    with Progress(total=total, start=file.num_texts, bar=bar, log_lines=not bar) as progress:
        for block, translations in translate(grow_blocks(lines, file.num_texts), first=file.num_texts + 1):
            file.write("".join(map(render, translations)), block)
            progress.add(len(block))
