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

from nmt.commands.options import (
    Beam,
    Device,
    Exact,
    LengthPenalty,
    MaxLength,
    MinLength,
    Models,
    NBest,
    NoRepeatNgram,
    Prefix,
    Sample,
    Seed,
    Temperature,
    TopK,
    TopP,
    changed_options,
    find_runs,
    say,
)
from nmt.errors import DataError
from nmt.files import write_atomically
from nmt.plots.saving import picture_format

if TYPE_CHECKING:
    from nmt.translate import Translation, Translator

BLOCK_LINES = 1000  # translated together, sorted by length


def translate(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate; none: read standard input.")] = None,
    models: Models = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", help="A file to translate, line by line.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; default: standard output.")
    ] = None,
    format: Annotated[
        Literal["text", "jsonl"], typer.Option(help="jsonl: text, scores and pieces of each line.")
    ] = "text",
    beam: Beam = None,
    n_best: NBest = None,
    length_penalty: LengthPenalty = None,
    no_repeat_ngram: NoRepeatNgram = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    exact: Exact = None,
    prefix: Prefix = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    attention: Annotated[Path | None, typer.Option(help="Draw the attention of one text: a .svg or .png file.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Write which source piece each target piece attends to: i-j pairs, a line each.")
    ] = None,
    attention_layer: Annotated[int, typer.Option(help="Decoder layer of --attention, --alignments; -1: last.")] = -1,
    attention_head: Annotated[int | None, typer.Option(help="Its head; default: the mean over heads.")] = None,
    device: Device = "auto",
) -> None:
    """Translate text arguments, standard input, or a file; one line out for each line in (--n-best N: N lines)."""
    if texts and input:
        raise typer.BadParameter("give texts or --input, not both")
    if attention is not None and len(texts or []) != 1:
        raise typer.BadParameter("--attention draws one text; give it as an argument")
    if attention is not None:
        picture_format(attention)  # refuses a name it cannot draw, before anything is computed
    runs = find_runs(models)
    from nmt.translate import Translator

    translator = Translator.load(runs, device)
    translator.options = changed_options(
        translator.options, beam_size=beam, num_hypotheses=n_best, length_penalty=length_penalty, exact=exact,
        no_repeat_ngram=no_repeat_ngram, min_len=min_length, max_length=max_length, sample=sample,
        temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
    )  # fmt: skip
    # A person at a terminal sees each line answered; a file is translated in blocks, which is faster.
    typing = not texts and input is None and sys.stdin.isatty()
    lines = iter(texts) if texts else _read(input)
    looked_at = _Attention(translator, attention_layer, attention_head)
    with _writer(output) as write, _alignments_writer(alignments) as write_alignment:
        for translations in _translate(translator, lines, prefix, 1 if typing else BLOCK_LINES):
            write(_render(translations, translator, format))
            if write_alignment:
                write_alignment(looked_at.alignment(translations[0]))
    if attention is not None:
        looked_at.draw(translations[0], attention)


def _translate(
    translator: Translator, lines: Iterator[str], prefix: str | None, block_lines: int
) -> Iterator[list[Translation]]:
    """The translations of each line, best first; of a line that is cut, with a warning."""
    number = 0
    while block := list(islice(lines, block_lines)):
        for translations in translator.translate_nbest(block, [prefix] * len(block) if prefix else None):
            number += 1
            if translations[0].truncated:
                limit = translator.max_src_len
                say(f"warning: line {number} is longer than {limit} pieces; its end is not translated")
            yield translations


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


def _render(translations: list[Translation], translator: Translator, format: str) -> str:
    """A line a hypothesis, or one JSON object: the best one, and where several were asked for, all of them."""
    wanted = translator.options.num_hypotheses
    if format == "text":
        texts = [translation.text for translation in translations]
        return "\n".join(texts + [""] * (wanted - len(texts)))  # line n of the output always belongs to line n / wanted
    best = translations[0]
    fields = {
        **_fields(best, translator),
        "src_pieces": translator.tokenizers.src.pieces(best.src_ids),
        "truncated": best.truncated,
    }
    if wanted > 1:
        fields["hypotheses"] = [_fields(translation, translator) for translation in translations]
    return json.dumps(fields, ensure_ascii=False)


def _fields(translation: Translation, translator: Translator) -> dict[str, object]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "pieces": translator.tokenizers.tgt.pieces(translation.tgt_ids),
        "token_scores": [round(score, 6) for score in translation.token_scores],
        "finished": translation.finished,
    }


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


@contextmanager
def _alignments_writer(path: Path | None) -> Iterator[Callable[[str], object] | None]:
    if path is None:
        yield None
    else:
        with _writer(path) as write:
            yield write


class _Attention:
    """What one layer looked at, all of its heads or one."""

    def __init__(self, translator: Translator, layer: int, head: int | None):
        self.translator = translator
        self.layer = layer
        self.head = head

    def _weights(self, translation: Translation) -> list[list[float]]:
        from nmt.data.tokenizer import EOS_ID

        # The source ends in eos; the output does where it ended of itself.
        target = [*translation.tgt_ids, EOS_ID] if translation.finished else translation.tgt_ids
        return self.translator.engine.cross_attention(translation.src_ids, target, self.layer, self.head)

    def alignment(self, translation: Translation) -> str:
        """`i-j` for each pair of a source and a target piece that go together; empty for a blank text."""
        from nmt.translate.alignment import alignment

        if not translation.tgt_ids:
            return ""
        pairs = alignment(self._weights(translation), len(translation.tgt_ids))
        return " ".join(f"{source}-{target}" for source, target in pairs)

    def draw(self, translation: Translation, path: Path) -> None:
        """A heat map at `path`."""
        from nmt.plots import draw_attention

        weights, tokenizers = self._weights(translation), self.translator.tokenizers
        src_pieces = [*tokenizers.src.pieces(translation.src_ids), "</s>"]
        tgt_pieces = [*tokenizers.tgt.pieces(translation.tgt_ids), "</s>"][: len(weights)]
        for warning in draw_attention(weights, src_pieces, tgt_pieces, path):
            say(f"warning: {warning}")
        say(f"attention: {path}")
