"""`nmt translate`: texts, standard input or a file in; translations to standard output or a file."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmt.commands.options import Device, Model, say
from nmt.errors import DataError
from nmt.exportdir import find_model
from nmt.files import write_atomically
from nmt.plots.saving import picture_format

if TYPE_CHECKING:
    from nmt.translate import Translation, Translator

BLOCK_LINES = 1000  # translated together, sorted by length


def translate(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate; none: read standard input.")] = None,
    model: Model = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", help="A file to translate, line by line.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; default: standard output.")
    ] = None,
    format: Annotated[
        Literal["text", "jsonl"], typer.Option(help="jsonl: text, score and pieces of each line.")
    ] = "text",
    attention: Annotated[Path | None, typer.Option(help="Draw the attention of one text: a .svg or .png file.")] = None,
    device: Device = "auto",
) -> None:
    """Translate text arguments, standard input, or a file; one line out for each line in."""
    if texts and input:
        raise typer.BadParameter("give texts or --input, not both")
    if attention is not None and len(texts or []) != 1:
        raise typer.BadParameter("--attention draws one text; give it as an argument")
    if attention is not None:
        picture_format(attention)  # refuses a name it cannot draw, before anything is computed
    run = find_model(model)
    if model is None:
        say(f"model: {run.path}")
    lines = iter(texts) if texts else _read(input)
    from nmt.translate import Translator

    translator = Translator.load(run, device)
    # A person at a terminal sees each line answered; a file is translated in blocks, which is faster.
    typing = not texts and input is None and sys.stdin.isatty()
    number = 0
    with _writer(output) as write:
        while block := list(islice(lines, 1 if typing else BLOCK_LINES)):
            for translation in translator.translate_fully(block):
                number += 1
                if translation.truncated:
                    limit = translator.max_src_len
                    say(f"warning: line {number} is longer than {limit} pieces; its end is not translated")
                write(_render(translation, translator, format))
    if attention is not None:
        _draw(translation, translator, attention)


def _read(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input."""
    if path is None:
        if sys.stdin.isatty():
            say("type a line to translate, Ctrl-D to end")
        yield from _decoded_lines(sys.stdin.buffer, "standard input")
        return
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            yield from _decoded_lines(file, str(path))
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read this file ({getattr(error, 'strerror', None) or error})", path=path) from error


def _decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines as text; what is not UTF-8 becomes U+FFFD, with a warning that names the line."""
    for number, raw in enumerate(stream, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            say(f"warning: {name}:{number}: not valid UTF-8; the broken bytes are replaced")
            yield line.decode("utf-8", errors="replace")


def _render(translation: Translation, translator: Translator, format: str) -> str:
    if format == "text":
        return translation.text
    tokenizers = translator.tokenizers
    return json.dumps(
        {
            "text": translation.text,
            "score": round(translation.score, 6),
            "pieces": tokenizers.tgt.pieces(translation.tgt_ids),
            "src_pieces": tokenizers.src.pieces(translation.src_ids),
            "truncated": translation.truncated,
            "finished": translation.finished,
        },
        ensure_ascii=False,
    )


@contextmanager
def _writer(path: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes a line to standard output, or to a file that appears when it is whole."""
    if path is None:
        try:
            yield typer.echo
        except BrokenPipeError:
            # Whoever read has enough. Standard output goes elsewhere, so that the flush at exit does not complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
    elif path.exists() and not path.is_file():  # a pipe or a device: it cannot be replaced by a whole file
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield lambda line: file.write(line + "\n")
    else:
        with write_atomically(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
            yield lambda line: file.write(line + "\n")
            file.flush()


def _draw(translation: Translation, translator: Translator, path: Path) -> None:
    from nmt.data.tokenizer import EOS_ID
    from nmt.plots import draw_attention

    tokenizers = translator.tokenizers
    # The source ends in eos; the output does where it ended of itself.
    target = [*translation.tgt_ids, EOS_ID] if translation.finished else translation.tgt_ids
    weights = translator.engine.cross_attention(translation.src_ids, target)
    src_pieces = [*tokenizers.src.pieces(translation.src_ids), "</s>"]
    tgt_pieces = [*tokenizers.tgt.pieces(translation.tgt_ids), "</s>"][: len(target)]
    for warning in draw_attention(weights, src_pieces, tgt_pieces, path):
        say(f"warning: {warning}")
    say(f"attention: {path}")
