"""`nmt translate`: texts, standard input or a file in; translations to standard output or a file."""

from __future__ import annotations

import gzip
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import typer

from nmt.commands.options import Device, Models, Precision, SearchFlags, find_models, load_translator, search_flags
from nmt.config import SearchOptions
from nmt.data.corpus import MAX_LINE_BYTES
from nmt.errors import DataError, NmtError
from nmt.files import write_atomically
from nmt.plots.saving import picture_format

if TYPE_CHECKING:
    from tqdm import tqdm

    from nmt.translate import SegmentTranslation, Translation, Translator

log = logging.getLogger(__name__)


@search_flags()
def translate(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate; none: read standard input.")] = None,
    models: Models = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", help="A file to translate, line by line.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; default: standard output.")
    ] = None,
    format: Annotated[
        Literal["text", "jsonl"], typer.Option(help="jsonl: text, scores, tokens and flags of each line.")
    ] = "text",
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    prefix: Annotated[str | None, typer.Option("--prefix", help="Text that every translation must begin with.")] = None,
    attention: Annotated[Path | None, typer.Option(help="Draw the attention of one text: a .svg or .png file.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Write which source token each target token attends to: i-j pairs, a line each.")
    ] = None,
    attention_layer: Annotated[int, typer.Option(help="Decoder layer of --attention, --alignments; -1: last.")] = -1,
    attention_head: Annotated[int | None, typer.Option(help="Its head; default: the mean over heads.")] = None,
    device: Device = "auto",
    precision: Precision = "fp32",
) -> None:
    """Translate text arguments, standard input, or a file; one line out for each line in (--n-best N: N lines)."""
    if texts and input:
        raise typer.BadParameter("give texts or --input, not both")
    if attention is not None and len(texts or []) != 1:
        raise typer.BadParameter("--attention draws one text; give it as an argument")
    if attention is not None:
        picture_format(attention)  # refuses a name it cannot draw, before anything is computed
    found = find_models(models)
    translator = load_translator(found, device, precision=precision, token_scores=format == "jsonl")
    options = search.change(translator.options)
    looked_at = _Attention(translator, attention_layer, attention_head)
    typing = not texts and input is None and sys.stdin.isatty()
    with _writer(output) as file, _alignments_writer(alignments) as pairs, _progress(typing, output) as bar:
        job = _Job(translator, options, prefix)
        for translation in _translate(job, _blocks(texts, input), [f for f in (file, pairs) if f], bar):
            file.write(_render(translation, job, format) + "\n")
            if pairs:
                pairs.write(looked_at.alignment(translation) + "\n")
    if attention is not None:
        looked_at.draw(translation, attention)


class _Job(NamedTuple):
    """How to translate each text."""

    translator: Translator
    options: SearchOptions
    prefix: str | None


def _blocks(texts: list[str] | None, path: Path | None) -> Iterator[list[str]]:
    """What to translate, in blocks: what a pipe or a person has given so far is not kept waiting."""
    from nmt.translate.stream import grow_blocks, read_blocks

    if texts:
        return grow_blocks(texts)
    return read_blocks(_standard_input()) if path is None else grow_blocks(_read(path))


def _translate(job: _Job, blocks: Iterator[list[str]], files: list[IO[str]], bar: tqdm | None) -> Iterator[Translation]:
    """Yield the translation of each line, with its warnings; `files` are flushed after each block."""
    number = 0
    for block in blocks:
        prefixes = [job.prefix] * len(block) if job.prefix else None
        for translation in job.translator.translate(block, job.options, prefixes):
            number += 1
            _warn(translation, number, job.translator.max_src_len)
            yield translation
        for file in files:
            file.flush()
        if bar is not None:
            bar.update(len(block))


def _warn(translation: Translation, number: int, limit: int) -> None:
    if translation.truncated:
        log.warning(f"line {number} is longer than {limit} tokens; its end is not translated")
    if translation.protected_lost:
        log.warning(f"line {number}: not kept exactly: {' '.join(translation.protected_lost)}")
    if translation.loop_unresolved:
        log.warning(f"line {number}: the translation repeats itself")


@contextmanager
def _progress(typing: bool, output: Path | None) -> Iterator[tqdm | None]:
    """A count of lines on standard error, where a person looks at it and at nothing else."""
    if typing or not sys.stderr.isatty() or (output is None and sys.stdout.isatty()):
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit=" lines", file=sys.stderr, mininterval=0.5) as bar:
        yield bar


def _standard_input() -> Iterator[str]:
    """The lines of standard input; a person at a terminal is prompted."""
    typing = sys.stdin.isatty()
    if typing:
        log.info("type a line to translate, Ctrl-D to end")
    # A buffer of its own: a thread that waits for a line must not hold the one that Python closes at its end.
    with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
        yield from _decoded_lines(stream, "standard input")


def _read(path: Path) -> Iterator[str]:
    """The lines of a file."""
    try:
        with cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else open(path, "rb") as file:
            yield from _decoded_lines(file, str(path))
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read this file ({getattr(error, 'strerror', None) or error})", path=path) from error


def _decoded_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """Lines as text; what is not UTF-8 becomes U+FFFD, with a warning that names the line."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            hint = "each line is one text; is this a text file, with LF line ends?"
            raise DataError(f"a line of over {MAX_LINE_BYTES:,} bytes", path=name, line=number, hint=hint)
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            log.warning(f"{name}:{number}: not valid UTF-8; the broken bytes are replaced")
            yield line.decode("utf-8", errors="replace")


def _render(best: Translation, job: _Job, format: str) -> str:
    """Return a line per hypothesis, or one JSON object: the best one, and for n-best output all of them."""
    wanted = job.options.num_hypotheses
    ranked = [best, *best.alternatives]
    if format == "text":
        texts = [translation.text for translation in ranked]
        return "\n".join(texts + [""] * (wanted - len(texts)))  # line n of the output always belongs to line n / wanted
    fields = {
        **_fields(best, job.translator),
        "src_tokens": job.translator.tokenizers.src.tokens(best.src_ids),
        "truncated": best.truncated,
        "sentence_split": best.sentence_split,
        "loop_retried": best.loop_retried,
        "loop_unresolved": best.loop_unresolved,
        "length_ratio": round(best.length_ratio, 4),
        "copied_source": best.copied_source,
        "mean_log_prob": round(best.mean_log_prob, 6),
        "num_segments": best.num_segments,
        "num_protected": best.num_protected,
        "protected_translated_around": best.protected_translated_around,
        "protected_lost": best.protected_lost,
    }
    if wanted > 1:
        fields["hypotheses"] = [_fields(translation, job.translator) for translation in ranked]
    return json.dumps(fields, ensure_ascii=False)


def _fields(translation: Translation, translator: Translator) -> dict[str, object]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": translator.tokenizers.tgt.tokens(translation.tgt_ids),
        "token_scores": [round(score, 6) for score in translation.token_scores],
        "finished": translation.finished,
    }


@contextmanager
def _writer(path: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that appears when it is whole."""
    if path is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read has enough. Standard output goes elsewhere, so that the flush at exit does not complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
    elif path.exists() and not path.is_file():  # a pipe or a device: it cannot be replaced by a whole file
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
    else:
        with write_atomically(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()


def _alignments_writer(path: Path | None) -> AbstractContextManager[IO[str] | None]:
    return nullcontext() if path is None else _writer(path)


class _Attention:
    """What one layer looked at, all of its heads or one."""

    def __init__(self, translator: Translator, layer: int, head: int | None):
        self.translator = translator
        self.layer = layer
        self.head = head

    def _weights(self, segment: SegmentTranslation) -> list[list[float]]:
        return self.translator.cross_attention(segment, self.layer, self.head)

    def alignment(self, translation: Translation) -> str:
        """`i-j` for each pair of a source and a target token that go together; empty for a blank text.

        Tokens count on from segment to segment of a text that was split.
        """
        from nmt.translate.alignment import alignment

        pairs = []
        num_src = num_tgt = 0
        for segment in translation.segments:
            if segment.tgt_ids:
                found = alignment(self._weights(segment), len(segment.tgt_ids))
                pairs += [(source + num_src, target + num_tgt) for source, target in found]
            num_src, num_tgt = num_src + len(segment.src_ids), num_tgt + len(segment.tgt_ids)
        return " ".join(f"{source}-{target}" for source, target in pairs)

    def draw(self, translation: Translation, path: Path) -> None:
        """A heat map at `path`."""
        from nmt.plots import draw_attention

        if not translation.segments:
            raise NmtError("there is nothing to draw: no token was translated")
        if len(translation.segments) > 1:
            log.warning(f"the text was translated in {len(translation.segments)} segments; the first is drawn")
        segment = translation.segments[0]
        weights, tokenizers = self._weights(segment), self.translator.tokenizers
        src_tokens = [*tokenizers.src.tokens(segment.src_ids), "</s>"]
        tgt_tokens = [*tokenizers.tgt.tokens(segment.tgt_ids), "</s>"][: len(weights)]
        for warning in draw_attention(weights, src_tokens, tgt_tokens, path):
            log.warning(warning)
        log.info(f"attention: {path}")
