"""`nmt translate`: translate texts, standard input or a file, to standard output or a file."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from nmt.apps.commands import options as shared
from nmt.apps.commands.documents import (
    MAX_LISTED,
    document_in,
    read_paragraphs,
    refuse_corpus,
    review_file,
    translate_document,
)
from nmt.apps.commands.inputs import decode_argument, is_json, read_json_lines, read_standard_input, writes_json
from nmt.apps.commands.options import SearchFlags, find_models, load_chain, rare_option
from nmt.apps.commands.outputs import open_output
from nmt.apps.commands.streams import STANDARD_INPUT
from nmt.artifacts.replacing import refuse_replacing
from nmt.base.errors import NmtError
from nmt.base.files import to_json
from nmt.base.partial_file import PartialFile, Settings
from nmt.base.progress import Progress
from nmt.data.read.lines import compression_of, count_lines, read_text_file
from nmt.data.read.table_names import split_choice
from nmt.data.text.glossary import read_glossary

if TYPE_CHECKING:
    from nmt.apps.documents.plain import Lines
    from nmt.translation import Translation
    from nmt.translation.chain import Chain
    from nmt.translation.request import Request

log = logging.getLogger(__name__)

# Flags that name a fault of one line. The others are guesses, or name the origin of a translation.
_WARNED_OF = ("truncated", "loop_unresolved", "protected_lost", "terms_misplaced", "numbers_missed")
_GUESSES = ("empty", "copied_source")  # of which nmt warns only if the texts are arguments


def _text_file(path: Path | None) -> Path | None:
    if path is not None and compression_of(path):
        plain = path.with_suffix("")
        raise typer.BadParameter(f"--output {path}: this command writes plain text; write {plain}, then compress it")
    return shared.not_dash(path)


def _picture(path: Path | None) -> Path | None:
    if path is not None:
        from nmt.evaluation.plots.drawing import require_svg

        require_svg(path)
    return path


Texts = Annotated[
    list[str] | None,
    typer.Argument(
        help="Texts to translate, one document, or a column of a table (a.xlsx#2). Default: standard input."
    ),
]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        callback=shared.not_dash,
        help="File to translate, line by line (.gz, .bz2, .xz, .zst too). "
        "For .jsonl: the field src, or the one after #.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", callback=_text_file, help="File to write. Default, and -: standard output."),
]
Format = Annotated[
    Literal["text", "jsonl"] | None,
    typer.Option(
        help="jsonl: one JSON object per line with text, scores, tokens, flags. "
        "Default: jsonl for .jsonl input, else text."
    ),
]
Prefix = Annotated[str | None, rare_option(help="Text that every translation must begin with.")]
Picture = Annotated[
    Path | None,
    rare_option(callback=_picture, help="Draw a heat map of the cross-attention for one text (.svg)."),
]
Alignments = Annotated[
    bool,
    rare_option(
        "--alignments", help="With --format jsonl: add alignments (i-j: source-target, of words and of tokens)."
    ),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        help="Terms and their translations: one per line with a tab between them, or .csv, .xlsx, .tbx or .tmx.",
    ),
]

ReviewFile = Annotated[
    Path | None,
    typer.Option(
        callback=review_file,
        help="List the translations of a document, those that most need a review first (.xlsx, .html, .tmx, .xlf).",
    ),
]
ReviewedFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        callback=review_file,
        help="Write a document with the translations of a list from --review that a person has corrected.",
    ),
]
LineChoice = Annotated[
    Literal["keep", "join"] | None,
    rare_option(
        help="Keep each line of a .txt or .pdf document, or join those of a paragraph, however they look.",
        show_default=False,
    ),
]
MemoryFile = Annotated[
    str | None,
    rare_option(
        metavar="FILE",
        help="Translation memory (.tmx, or another file with both languages). Exact matches are not translated; "
        "--format jsonl shows the best fuzzy match.",
    ),
]
Then = Annotated[
    str | None,
    rare_option(metavar="MODEL", help="Pivot: translate the output of --model with this second model."),
]


def translate(
    texts: Texts = None,
    models: shared.Models = None,
    then: Then = None,
    checkpoint: shared.Checkpoint = None,
    to: shared.To = None,
    from_: shared.From = None,
    input: InputFile = None,
    output: OutputFile = None,
    resume: shared.Resume = False,
    format: Format = None,
    beam: shared.Beam = None,
    n_best: shared.NBest = None,
    settings: shared.SearchSettings = [],  # noqa: B006 (typer reads it, nobody changes it)
    prefix: Prefix = None,
    glossary: GlossaryFile = None,
    tm: MemoryFile = None,
    review: ReviewFile = None,
    reviewed: ReviewedFile = None,
    lines: LineChoice = None,
    attention: Picture = None,
    alignments: Alignments = False,
    engine: shared.Engine = "auto",
    device: shared.Device = "auto",
    precision: shared.Precision = "auto",
) -> None:
    """Translate text, files, documents or standard input.

    Each line of input gives one line of output (--n-best N: N lines). --output writes FILE.partial, renamed to FILE
    when complete; --resume continues it.
    """
    search = SearchFlags(settings, beam_size=beam, num_hypotheses=n_best)
    texts = texts or []
    if input is not None and not is_json(input):
        refuse_corpus(input)
    as_json = writes_json(format, input)
    source = _Source(texts, input, *document_in(texts, output, as_json=as_json), lines)
    first = find_models(models, checkpoint)
    last = find_models([then]) if then is not None else ()
    runs = [*first, *last]
    read = [*source.files, *filter(None, (glossary, reviewed))]
    refuse_replacing(filter(None, (output, attention, review)), read, runs)
    scores = as_json or review is not None
    translator = load_chain(first, engine, device, precision, scores=scores, last=last)
    from nmt.translation.settings import settings_of

    request = _request(translator, search, to, from_, prefix, glossary)
    if tm is not None:
        from nmt.translation.memory import TranslationMemory  # only if it is needed

        translator.memory = TranslationMemory.read(tm, translator.languages.direction(to, from_))
    if source.document is not None and output is not None and not as_json:
        translate_document(translator, source.document, source.column, lines, output, request, review, reviewed)
        return
    recorded = {
        **({} if output is None else settings_of(runs, translator, request, glossary, translator.memory)),
        "format": "jsonl" if as_json else "text",
        "prefix": prefix,
        "alignments": alignments,
    }
    translations = _translate_lines(
        translator, request, source, output, recorded, as_json=as_json, alignments=alignments, resume=resume
    )
    if attention is not None:  # with the output in place: there is nothing to resume
        _draw_attention(translator, translations[0], attention)


class _Source(NamedTuple):
    """The source of the lines: texts of the command line, a file, or a document; without any, standard input."""

    texts: list[str]  # the name of the document, if there is one
    file: Path | None
    document: Path | None
    column: str  # of the document, if it is a table
    lines: Lines | None  # what those of the document are, if it is plain text

    @property
    def files(self) -> list[Path | int]:
        """The file that is read, or the descriptor of standard input; none if texts are translated."""
        if self.document is not None:
            return [self.document]
        if self.file is not None:
            return [Path(split_choice(str(self.file))[0])]
        return [] if self.texts else [STANDARD_INPUT]

    def read(self, records: deque[dict[str, object]]) -> tuple[Iterator[str], str]:
        """Return the lines to translate, and their name for messages; append what is known of each to `records`."""
        if self.document is not None:
            return read_paragraphs(self.document, self.column, self.lines, records), str(self.document)
        if self.texts:
            return map(decode_argument, self.texts), "arguments"
        if self.file is None:
            return read_standard_input(), "standard input"
        lines = read_json_lines(self.file, records) if is_json(self.file) else read_text_file(self.file)
        return lines, str(self.file)


def _request(
    translator: Chain,
    search: SearchFlags,
    to: str | None,
    from_: str | None,
    prefix: str | None,
    glossary: Path | None,
) -> Request:
    """Return the request for all lines. NmtError if the model does not know one of the languages."""
    from nmt.translation.request import Request

    direction = partial(translator.languages.direction, to, from_)
    options = search.change(translator.options)
    if to is not None or from_ is not None:
        direction()  # rejects languages that the model does not know
    terms = None if glossary is None else read_glossary(glossary, direction)
    return Request(options, to=to, from_=from_, glossary=terms, prefix=prefix or "")


def _translate_lines(
    translator: Chain,
    request: Request,
    source: _Source,
    output: Path | None,
    settings: Settings,
    *,
    as_json: bool,
    alignments: bool,
    resume: bool,
) -> Sequence[Translation]:
    """Write the translations of the lines, with `resume` after those that are written; return those of the last block.

    `settings` determine the contents of the output, so an output with others is not continued.
    """
    from nmt.data.read.line_blocks import grow_blocks, read_blocks, whole_blocks

    translations: Sequence[Translation] = ()
    # The objects that the fields of the output are added to, if the lines come from JSON or from a document.
    records: deque[dict[str, object]] = deque()
    num_lines = 1
    render = partial(_as_json, translator, request, alignments, records)
    if not as_json:
        num_lines = request.options.num_hypotheses
        render = partial(_as_text, num_lines)
    with open_output(output, settings, num_lines, resume=resume) as file:
        lines, name = source.read(records)
        is_stream = STANDARD_INPUT in source.files  # a pipe may be slow
        if isinstance(file, PartialFile):
            if not is_stream and file.sources is None:  # killed, perhaps within a block
                file.truncate(whole_blocks(file.num_texts))
            file.skip_finished(lines, name)
            records.clear()
        if resume:
            log.info("resuming after %s lines", f"{file.num_texts:,}")
        blocks = read_blocks(lines) if is_stream else grow_blocks(lines, file.num_texts)
        with _progress(source, output, file.num_texts) as progress:
            for block, translations in translator.translate_blocks(blocks, request, progress.count + 1):
                _warn(translations, progress.count + 1, guess=bool(source.texts))
                file.write("".join(render(*pair) + "\n" for pair in zip(block, translations, strict=True)), block)
                progress.add(len(block))
    return translations


def _progress(source: _Source, output: Path | None, num_done: int) -> Progress:
    """Return a bar if the terminal shows only progress, log lines if standard error is a file."""
    path = source.file
    is_typed = STANDARD_INPUT in source.files and sys.stdin.isatty()
    shows_only_progress = sys.stderr.isatty() and not is_typed and (output is not None or not sys.stdout.isatty())
    log_lines = not sys.stderr.isatty() and path is not None
    total = len(source.texts) or None
    if (shows_only_progress or log_lines) and path is not None and path.is_file():
        total = count_lines(path)
    return Progress(total=total, start=num_done, bar=shows_only_progress, log_lines=log_lines)


def _as_text(num_lines: int, _source: str, best: Translation) -> str:
    """Return `num_lines` lines, one per hypothesis."""
    # A line break, from an argument or from the model, would shift all following lines.
    texts = [translation.text.replace("\n", " ") for translation in (best, *best.alternatives)]
    return "\n".join(texts + [""] * (num_lines - len(texts)))


def _as_json(
    translator: Chain,
    request: Request,
    alignments: bool,
    records: deque[dict[str, object]],
    source: str,
    best: Translation,
) -> str:
    """Return one JSON object, which lists all hypotheses if there are several, with the fields of its record first."""
    links: dict[str, str] = {}
    if alignments:
        from nmt.translation.word_links import align_words

        pairs = align_words(translator.translators[0], source, best)
        texts = (" ".join(f"{src}-{tgt}" for src, tgt in each) for each in pairs)
        links = dict(zip(("alignment", "token_alignment"), texts, strict=True))
    fields = best.as_json(
        translator.tokenizers,
        memory=translator.memory is not None,
        terms=request.glossary is not None,
        hypotheses=request.options.num_hypotheses > 1,
        alignments=links,
    )
    return to_json({**(records.popleft() if records else {}), **fields})


def _warn(translations: Sequence[Translation], first: int, *, guess: bool) -> None:
    """Warn of the flags of lines, from line number `first` on; with `guess`, also of those that are guesses."""
    from nmt.translation.translation import FLAGS

    for number, each in enumerate(translations, first):
        names = (*_WARNED_OF, *_GUESSES) if guess else _WARNED_OF
        found: dict[str, Any] = {FLAGS[name]: getattr(each, name) for name in names}
        if guess:
            found[FLAGS["unusual_source"]] = each.find_unusual(identify=False)  # half a second would be too long
        for meaning, value in {**found, "glossary terms are missing": each.terms_missed}.items():
            if value:
                what = "" if value is True else f": {', '.join(map(str, value[:MAX_LISTED]))}"
                log.warning("line %d: %s%s", number, meaning, what)


def _draw_attention(translator: Chain, translation: Translation, path: Path) -> None:
    """Draw a heat map of the first segment: the attention of the last decoder layer, averaged over its heads.

    With two models, it is that of the second.
    """
    from nmt.evaluation.plots import draw_attention

    if not translation.segments:
        raise NmtError("nothing to draw: no model translated the text")
    if len(translation.segments) > 1:
        log.warning("the text was translated in %d segments; only the first is drawn", len(translation.segments))
    segment = translation.segments[0]
    weights = translator.translators[-1].cross_attention(segment)
    src_tokens = [*translator.tokenizers.src.tokens(segment.src_ids), "</s>"]
    tgt_tokens = [*translator.tokenizers.tgt.tokens(segment.tgt_ids), "</s>"][: len(weights)]
    draw_attention(weights, src_tokens, tgt_tokens, path)
    log.info("attention: %s", path)
