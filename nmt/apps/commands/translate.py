"""`nmt translate`: translate texts, standard input or a file, to standard output or a file."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from nmt.apps.cli import RARE_PANEL
from nmt.apps.commands.documents import (
    document_in,
    refuse_corpus,
    translate_document,
    warn_of_lines,
)
from nmt.apps.commands.inputs import (
    Checksum,
    ResumePoint,
    decode_argument,
    is_typing,
    read_standard_input,
    read_text_file,
    skip_translated,
)
from nmt.apps.commands.options import (
    Checkpoint,
    Computation,
    Device,
    Engine,
    From,
    Models,
    Precision,
    Ray,
    RayWorkers,
    SearchFlags,
    To,
    find_models,
    identity_of,
    not_dash,
    open_translator,
    search_flags,
)
from nmt.apps.commands.outputs import (
    Output,
    PartialFile,
    Settings,
    check_line_counts,
    open_output,
    refuse_compressed,
    refuse_replacing,
    report_partial_files,
)
from nmt.apps.commands.streams import STANDARD_INPUT, exit_code_of, stop_on_sigterm
from nmt.base.errors import NmtError
from nmt.base.files import to_json
from nmt.base.progress import Progress
from nmt.data.read.lines import count_lines
from nmt.data.text.glossary import read_glossary

if TYPE_CHECKING:
    from nmt.translation import SegmentTranslation, Translation
    from nmt.translation.blocks import BlockTranslator, Request

log = logging.getLogger(__name__)

Texts = Annotated[
    list[str] | None,
    typer.Argument(help="Texts to translate, or one document. Without them, nmt reads standard input."),
]


InputFile = Annotated[
    Path | None,
    typer.Option(
        "--input", "-i", callback=not_dash, help="File to translate, line by line; may be compressed (.gz, .xz, .zst)."
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", callback=not_dash, help="File to write. Default, and -: standard output."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the --output of an interrupted run after its last line.")
]
Format = Annotated[
    Literal["text", "jsonl"], typer.Option(help="jsonl: one JSON object per line with text, scores, tokens and flags.")
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="Text that every translation must begin with.", rich_help_panel=RARE_PANEL),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        help="Draw a heat map of the cross-attention for one text (.svg or .png).", rich_help_panel=RARE_PANEL
    ),
]
Alignments = Annotated[
    Path | None,
    typer.Option(
        help="Write word alignments (source-target token pairs, i-j) to this file, one line per input.",
        rich_help_panel=RARE_PANEL,
    ),
]

GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        help="File of terms: one per line, a tab, its translation. Models trained with data.glossary follow them.",
    ),
]


@search_flags()
def translate(
    texts: Texts = None,
    models: Models = None,
    checkpoint: Checkpoint = None,
    to: To = None,
    from_: From = None,
    input: InputFile = None,
    output: OutputFile = None,
    resume: Resume = False,
    format: Format = "text",
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    prefix: Prefix = None,
    glossary: GlossaryFile = None,
    attention: Picture = None,
    alignments: Alignments = None,
    engine: Engine = "auto",
    device: Device = "auto",
    precision: Precision = "auto",
    ray: Ray = None,
    ray_workers: RayWorkers = None,
) -> None:
    """Translate text, files, documents or standard input.

    Each line of input gives one line of output (--n-best N: N lines). --output writes FILE.partial and renames it to
    FILE when complete; --resume continues a stopped command after the last line.
    """
    files = _Files(texts or [], input, output, alignments, attention, glossary, resume)
    computation = Computation(engine, device, precision, ray, ray_workers)
    _check_usage(files, prefix, computation)
    only_for_texts = {
        "--resume": resume,
        "--prefix": prefix,
        "--alignments": alignments,
        "--attention": attention,
        "--format jsonl": format == "jsonl",
        "--n-best": search.given.get("num_hypotheses"),
    }
    document = document_in(files.texts, output, only_for_texts)
    if input is not None:
        refuse_corpus(input)
    warn_of_lines(input)
    found = find_models(models, checkpoint)
    named = filter(None, (document and document.source, input, glossary))
    standard_input = [] if files.texts or input else [STANDARD_INPUT]
    refuse_replacing(filter(None, (output, alignments, attention)), [*named, *standard_input], found)
    terms = None if glossary is None else read_glossary(glossary)
    with open_translator(found, computation, scores=format == "jsonl") as translator:
        from nmt.apps.ray.ray_worker import checksums_of_weights
        from nmt.translation.blocks import Request

        options = search.change(translator.options)
        if to is not None or from_ is not None:
            translator.languages.direction(to, from_)  # rejects languages that the model does not know
        if document is not None and translator.local is not None:
            translate_document(translator.local, document, options, to, from_, terms)
            return
        identity = identity_of(found, options, glossary)
        if output is not None:
            identity["weights"] = [*checksums_of_weights(found)]
        _Job(files, translator, Request(options, prefix, to, from_, glossary=terms), format).run(identity)


class _Files(NamedTuple):
    """Input and outputs of one command."""

    texts: list[str]  # arguments; empty: `input`, or standard input
    input: Path | None
    output: Path | None
    alignments: Path | None
    attention: Path | None
    glossary: Path | None
    resume: bool


def _check_usage(files: _Files, prefix: str | None, computation: Computation) -> None:
    """Reject conflicting options before computing anything."""
    computation.check()
    if computation.ray is not None and (files.input is None or files.alignments is not None):
        raise typer.BadParameter("--ray needs a file given with --input, and cannot be used with --alignments")
    if files.texts and files.input:
        raise typer.BadParameter("give texts or --input, not both")
    if files.attention is not None and len(files.texts) != 1:
        raise typer.BadParameter("--attention draws one text; give it as an argument")
    if files.resume and (files.output is None or files.texts):
        raise typer.BadParameter("--resume continues a file: it needs --output, and --input or standard input")
    if prefix is not None and ("\n" in prefix or "\r" in prefix):
        raise typer.BadParameter("--prefix is one line: it must not contain line breaks")
    for option, path in (("--output", files.output), ("--alignments", files.alignments)):
        if path is not None:
            refuse_compressed(path, option)
    if files.attention is not None:
        from nmt.evaluation.plots.drawing import picture_format

        picture_format(files.attention)  # rejects an unknown extension


class _Job(NamedTuple):
    """The inputs, outputs and options of one command."""

    files: _Files
    translator: BlockTranslator
    request: Request
    format: str

    def run(self, identity: dict[str, object]) -> None:
        """Translate block by block; `identity` identifies the model. If interrupted, say how to continue."""
        languages = {"to": self.request.to, "from": self.request.from_}
        settings: Settings = {
            **self.request.options.model_dump(),
            **identity,
            "precision": self.translator.precision,
            "format": self.format,
            "prefix": self.request.prefix,
            **{name: code for name, code in languages.items() if code is not None},
        }
        try:
            with stop_on_sigterm(), self._outputs(settings) as (output, alignments):
                partial_files = [file for file in (output, alignments) if isinstance(file, PartialFile)]
                try:
                    self._translate(output, alignments)
                except BaseException as error:
                    report_partial_files(partial_files, error, can_resume=not self.files.texts)
                    raise
        except KeyboardInterrupt as stop:
            raise typer.Exit(exit_code_of(stop)) from None

    @contextmanager
    def _outputs(self, settings: Settings) -> Iterator[tuple[Output, Output | None]]:
        """Yield the files for translations and, if requested, for alignments."""
        lines_per_text = self.request.options.num_hypotheses if self.format == "text" else 1
        files = self.files
        with ExitStack() as stack:
            alignments = None
            if files.alignments is not None:
                settings = {**settings, "alignments": os.path.realpath(files.alignments)}
                # The file that is opened last gets its final name first. If a kill separates them, nothing is lost.
                opened = open_output(files.alignments, settings, 1, resume=files.resume)
                alignments = stack.enter_context(opened)
            output = stack.enter_context(open_output(files.output, settings, lines_per_text, resume=files.resume))
            yield output, alignments
            for file in (output, alignments):
                if isinstance(file, PartialFile):
                    file.sync()  # which may take long, before both get their final names

    def _translate(self, output: Output, alignments: Output | None) -> None:
        num_done = self._continue_after(output, alignments)
        sources = Checksum()
        before = output.sources if isinstance(output, PartialFile) else None
        blocks = _blocks(self.files.texts, self.files.input, ResumePoint(num_done, before, sources))
        with self._progress(num_done) as progress:
            for block, translations in self.translator.translate_blocks(blocks, self.request, num_done + 1):
                for number, translation in enumerate(translations, progress.count + 1):
                    _warn(translation, number, self.translator.max_src_len)
                if alignments is not None:
                    alignments.write("".join(_alignment(self.translator, t) + "\n" for t in translations))
                output.write("".join(self._render(translation) + "\n" for translation in translations))
                if isinstance(output, PartialFile):
                    sources.add(block)
                    output.sources = sources.as_json()
                progress.add(len(block))
        if self.files.attention is not None:
            _draw_attention(self.translator, translations[0], self.files.attention)

    def _continue_after(self, output: Output, alignments: Output | None) -> int:
        """Truncate both outputs to the finished texts, and return their number."""
        if not self.files.resume:
            return 0
        outputs = [file for file in (output, alignments) if file is not None]
        if not all(isinstance(file, PartialFile) for file in outputs):
            raise typer.BadParameter("--resume continues regular files, not pipes or devices")
        partial_files = [file for file in outputs if isinstance(file, PartialFile)]
        num_done = min(file.num_texts for file in partial_files)
        check_line_counts(partial_files)
        for file in partial_files:
            file.truncate(num_done)
        log.info("resuming after %s lines", f"{num_done:,}")
        return num_done

    def _progress(self, num_done: int) -> Progress:
        """Return a bar if the terminal shows only progress, log lines if standard error is a file."""
        files = self.files
        is_typed = not files.texts and files.input is None and is_typing()
        on_terminal = sys.stderr.isatty()
        bar = on_terminal and not is_typed and not (files.output is None and sys.stdout.isatty())
        log_lines = not on_terminal and files.input is not None
        total = len(files.texts) or None
        if (bar or log_lines) and files.input is not None and files.input.is_file():
            total = count_lines(files.input)
        return Progress(total=total, start=num_done, bar=bar, log_lines=log_lines)

    def _render(self, best: Translation) -> str:
        """Return one line per hypothesis, or one JSON object, which lists all hypotheses if there are several."""
        ranked = [best, *best.alternatives]
        num_hypotheses = self.request.options.num_hypotheses
        if self.format == "text":
            # A line break, from an argument or from the model, would shift all following lines.
            texts = [translation.text.replace("\n", " ") for translation in ranked]
            return "\n".join(texts + [""] * (num_hypotheses - len(texts)))
        fields = {
            **_fields(best, self.translator),
            "src_tokens": self.translator.tokenizers.src.tokens(best.src_ids),
            "truncated": best.truncated,
            "sentence_split": best.sentence_split,
            "loop_retried": best.loop_retried,
            "loop_unresolved": best.loop_unresolved,
            "length_ratio": round(best.length_ratio, 4),
            "copied_source": best.copied_source,
            "wrong_language": best.wrong_language,
            "mean_log_prob": round(best.mean_log_prob, 6),
            "num_segments": best.num_segments,
            "num_protected": best.num_protected,
            "protected_translated_around": best.protected_translated_around,
            "protected_lost": best.protected_lost,
            "numbers_missed": best.numbers_missed,
            "unusual_source": best.unusual_source,
        }
        if self.request.glossary is not None:
            fields |= {"num_terms": best.num_terms, "terms_missed": best.terms_missed}
        if num_hypotheses > 1:
            fields["hypotheses"] = [_fields(translation, self.translator) for translation in ranked]
        return to_json(fields)


def _blocks(texts: list[str], path: Path | None, done: ResumePoint) -> Iterator[list[str]]:
    """Yield the lines that are not done in blocks, without long waits for lines from a slow pipe."""
    from nmt.translation.stream import grow_blocks, read_blocks

    if texts:
        return grow_blocks([decode_argument(text) for text in texts])
    if path is None:
        return read_blocks(skip_translated(done, read_standard_input(), "standard input"))
    return grow_blocks(skip_translated(done, read_text_file(path), path))


def _warn(translation: Translation, number: int, limit: int) -> None:
    if translation.truncated:
        log.warning("line %d is longer than %d tokens; its end is not translated", number, limit)
    if translation.protected_lost:
        lost = " ".join(translation.protected_lost)
        log.warning("line %d: protected text missing or changed in the translation: %s", number, lost)
    if translation.terms_missed:
        missed = ", ".join(map(str, translation.terms_missed))
        log.warning("line %d: glossary terms missing in the translation: %s", number, missed)
    if translation.numbers_missed:
        numbers = " ".join(translation.numbers_missed)
        log.warning("line %d: numbers missing or added in the translation: %s", number, numbers)
    if translation.loop_unresolved:
        log.warning("line %d: the translation repeats itself", number)


def _fields(translation: Translation, translator: BlockTranslator) -> dict[str, object]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": translator.tokenizers.tgt.tokens(translation.tgt_ids),
        "token_scores": [round(score, 6) for score in translation.token_scores],
        "finished": translation.finished,
    }


def _attention(translator: BlockTranslator, segment: SegmentTranslation) -> list[list[float]]:
    """Return the attention of the last decoder layer, averaged over its heads. It needs the model in this process."""
    assert translator.local is not None
    return translator.local.cross_attention(segment)


def _alignment(translator: BlockTranslator, translation: Translation) -> str:
    """Return `i-j` for each aligned pair of a source and a target token; empty for a blank text.

    If the text was split, token numbers continue across segments.
    """
    from nmt.translation.segments import alignment

    pairs = []
    num_src = num_tgt = 0
    for segment in translation.segments:
        if segment.tgt_ids:
            found = alignment(_attention(translator, segment), len(segment.tgt_ids))
            pairs += [(source + num_src, target + num_tgt) for source, target in found]
        num_src, num_tgt = num_src + len(segment.src_ids), num_tgt + len(segment.tgt_ids)
    return " ".join(f"{source}-{target}" for source, target in pairs)


def _draw_attention(translator: BlockTranslator, translation: Translation, path: Path) -> None:
    """Draw a heat map of the first segment at `path`."""
    from nmt.evaluation.plots import draw_attention

    if not translation.segments:
        raise NmtError("nothing to draw: the text has no tokens")
    if len(translation.segments) > 1:
        log.warning("the text was translated in %d segments; only the first is drawn", len(translation.segments))
    segment, tokenizers = translation.segments[0], translator.tokenizers
    weights = _attention(translator, segment)
    src_tokens = [*tokenizers.src.tokens(segment.src_ids), "</s>"]
    tgt_tokens = [*tokenizers.tgt.tokens(segment.tgt_ids), "</s>"][: len(weights)]
    for warning in draw_attention(weights, src_tokens, tgt_tokens, path):
        log.warning(warning)
    log.info("attention: %s", path)
