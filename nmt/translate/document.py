"""Texts of any length and structure: split, protected, translated, checked, and put together again.

It wraps a `Translator`, which translates what fits into the model. All texts of one call are translated together, and
so are those that need another try.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nmt.data.sentencepiece_training import without_surrogates
from nmt.data.spans import ANY_PLACEHOLDER, NUM_PLACEHOLDERS, PLACEHOLDERS, Span, find_spans
from nmt.decoding.options import SearchOptions
from nmt.errors import NmtError
from nmt.exportdir import ExportDir
from nmt.languages import spaces_between_sentences, written_without_spaces
from nmt.rundir import RunDir
from nmt.translate.guards import Loop, find_loop, is_copy
from nmt.translate.protect import Masked, missing
from nmt.translate.split import Part, split_text, whole
from nmt.translate.translator import Translation, Translator

RETRY_BEAM = 5
"""Hypotheses that are looked through for one that brings every protected span back."""


class TranslatedText(NamedTuple):
    """One text, translated, with what there is to know about it."""

    text: str
    score: float  # sum of natural-log probabilities of all tokens, eos of each part included
    src_ids: list[int]  # source tokens as translated, placeholders in place of protected spans
    tgt_ids: list[int]
    truncated: bool  # a part was longer than the model's limit and lost its end
    finished: bool  # every part's output ended of itself
    # Nobody writes into the lists below.
    token_scores: list[float] = []  # noqa: RUF012 (of all parts, one after another)
    parts: list[Translation] = []  # noqa: RUF012 (what was translated on its own)
    cut: bool = False  # a sentence, alone longer than the limit, was cut
    looped: bool = False  # an output was caught in a loop, and was decoded again
    looping: bool = False  # … and that did not help
    copied_source: bool = False  # the output is the source, over half of its words
    num_protected: int = 0
    protected_retried: bool = False  # the first output lost a span; another try was made
    protected_apart: list[str] = []  # noqa: RUF012 (spans that the model lost: the text round them was translated apart)
    protected_lost: list[str] = []  # noqa: RUF012 (spans that are not in the text as often as in the source)

    @property
    def length_ratio(self) -> float:
        """Target tokens per source token; 0 for a blank text."""
        return len(self.tgt_ids) / len(self.src_ids) if self.src_ids else 0.0

    @property
    def mean_log_prob(self) -> float:
        """Natural-log probability per token, the eos of each part counted; 0 for a blank text."""
        count = len(self.token_scores) or len(self.tgt_ids) + len(self.parts) * self.finished
        return self.score / count if count else 0.0


@dataclass
class _Segment:
    """One part of a text on its way."""

    masked: Masked
    part: Part
    prefix: str = ""  # what the translation must begin with
    found: list[Translation] = field(default_factory=list)  # best first
    looped: bool = False
    retried: bool = False
    apart: list[Translation] | None = None  # translations of what stands between the spans, where they were lost

    def lost(self, found: Translation) -> list[str]:
        return self.masked.restore(found.text).lost

    def loop(self) -> Loop | None:
        return find_loop(self.found[0].tgt_ids, self.found[0].src_ids)

    def loops(self, found: Translation) -> bool:
        return find_loop(found.tgt_ids, found.src_ids) is not None


class DocumentTranslator:
    """Translates texts of any length; each has the fate of its structure and its protected spans checked."""

    def __init__(
        self,
        translator: Translator,
        src_lang: str,
        tgt_lang: str,
        *,
        user_symbols: Collection[str] = (),
        split: bool = True,
        protect: bool = True,
    ):
        """`user_symbols` are never protected spans: the model knows them. Without `split`, long texts lose their end.

        Spans are protected where the model has placeholders: where it was trained with `data.protect`.
        """
        self.translator = translator
        self.src_lang = src_lang
        self.tgt_lang = tgt_lang
        self.user_symbols = frozenset(user_symbols)
        self.split = split
        self.protect = protect and translator.tokenizers.know(PLACEHOLDERS)

    @classmethod
    def of(
        cls, translator: Translator, model: RunDir | ExportDir, *, split: bool = True, protect: bool = True
    ) -> DocumentTranslator:
        """For the languages and symbols of a run or an export."""
        if isinstance(model, ExportDir):
            info = model.info()
            languages, symbols = (info.src_lang, info.tgt_lang), info.user_symbols
        else:
            config = model.config()
            languages, symbols = (config.data.src_lang, config.data.tgt_lang), config.tokenizer.user_symbols
        return cls(translator, *languages, user_symbols=symbols, split=split, protect=protect)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """One translation a text, in order; a blank text gives an empty one."""
        return [done.text for done in self.translate_fully(texts)]

    def translate_fully(self, texts: Sequence[str], prefixes: Sequence[str] | None = None) -> list[TranslatedText]:
        """As `translate`, with scores, tokens and flags."""
        return [ranked[0] for ranked in self.translate_nbest(texts, prefixes)]

    def translate_nbest(
        self, texts: Sequence[str], prefixes: Sequence[str] | None = None
    ) -> list[list[TranslatedText]]:
        """`num_hypotheses` translations a text (fewer where the search found fewer), best first.

        A text in several parts has in place n what is n-th of each part. The translation of text i begins with
        `prefixes[i]`, white space before the text apart.
        """
        texts = [without_surrogates(text) for text in texts]
        prepared = [self._prepare(text) for text in texts]
        for (_, own), prefix in zip(prepared, prefixes or [], strict=bool(prefixes)):
            if own:
                own[0].prefix = prefix
        segments = [segment for _, own in prepared for segment in own]
        self._translate(segments)
        return [self._ranked(text, lead, own) for text, (lead, own) in zip(texts, prepared, strict=True)]

    def _prepare(self, text: str) -> tuple[str, list[_Segment]]:
        """The white space before a text, and its parts."""
        spans = find_spans(text, self.user_symbols) if self.protect else []
        starts, ends = [span.start for span in spans], [span.end for span in spans]

        def inside(start: int, end: int) -> list[Span]:
            return spans[bisect_left(starts, start) : bisect_right(ends, end)]

        def mask(start: int, end: int) -> Masked:
            return Masked.of(text[start:end], [Span(a - start, b - start) for a, b in inside(start, end)])

        def size(start: int, end: int) -> int:
            if len(inside(start, end)) > NUM_PLACEHOLDERS:
                return 1 << 30  # more than can be told apart: to be split
            return len(self.translator.tokenizers.src.encode(mask(start, end).text))

        limit = self.translator.max_src_len - 1  # eos
        made = split_text(text, spans, self.src_lang, limit, size) if self.split else whole(text)
        return made.lead, [_Segment(mask(part.start, part.end), part) for part in made.parts]

    def _translate(self, segments: list[_Segment]) -> None:
        """Translate `segments`, and those again that loop or lose a span."""
        asked = [segment for segment in segments if not segment.masked.is_only_spans()]
        for segment, found in zip(asked, self._search(asked, self.translator.options), strict=True):
            segment.found = found
        self._forbid_loops([segment for segment in asked if segment.loops(segment.found[0])])
        self._bring_spans_back([segment for segment in asked if segment.lost(segment.found[0])])
        for segment in segments:
            if not segment.found:
                segment.found = [Translation(segment.masked.text, 0.0, [], [], False, True)]

    def _search(self, segments: list[_Segment], options: SearchOptions) -> list[list[Translation]]:
        if not segments:
            return []
        prefixes = [segment.prefix for segment in segments] if any(segment.prefix for segment in segments) else None
        return self._searcher(options).translate_nbest([segment.masked.text for segment in segments], prefixes)

    def _searcher(self, options: SearchOptions) -> Translator:
        old = self.translator
        return Translator(
            old.tokenizers, old.engine, max_src_len=old.max_src_len, batch_tokens=old.batch_tokens, options=options
        )

    def _forbid_loops(self, segments: list[_Segment]) -> None:
        """Decode looping segments again: what the loop is made of is forbidden, then any bigram that comes twice."""
        for segment in segments:
            segment.looped = True
        sizes = [found.forbidden_ngram if (found := segment.loop()) else 2 for segment in segments]
        for size in sorted(set(sizes)):
            self._forbid([segment for segment, own in zip(segments, sizes, strict=True) if own == size], size)
        self._forbid([segment for segment in segments if segment.loops(segment.found[0])], 2)

    def _forbid(self, segments: list[_Segment], ngram: int) -> None:
        for segment, found in zip(segments, self._retry(segments, no_repeat_ngram=ngram), strict=True):
            sound = [one for one in found if not segment.loops(one)]
            if sound:
                segment.found = sound

    def _retry(self, segments: list[_Segment], **changes: Any) -> list[list[Translation]]:
        """Search with other options; nothing for an engine that cannot."""
        try:
            return self._search(segments, replace(self.translator.options, **changes))
        except NmtError:
            return [[] for _ in segments]

    def _bring_spans_back(self, segments: list[_Segment]) -> None:
        """For segments that lost a span: another hypothesis that has all; else the text between the spans, alone."""
        for segment in segments:
            segment.retried = True
        beam = {"beam_size": RETRY_BEAM, "num_hypotheses": RETRY_BEAM}
        plain = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        for segment, found in zip(segments, self._retry(segments, **beam, **plain), strict=True):
            whole_ones = [one for one in [*segment.found, *found] if not segment.lost(one) and not segment.loops(one)]
            if whole_ones:
                segment.found = whole_ones[: self.translator.options.num_hypotheses]
        self._translate_apart([segment for segment in segments if segment.lost(segment.found[0])])

    def _translate_apart(self, segments: list[_Segment]) -> None:
        stretches = [stretch for segment in segments for stretch in segment.masked.between()]
        prefixes = [prefix for p in segments for prefix in [p.prefix, *("" for _ in p.masked.spans)]]
        options = replace(self.translator.options, num_hypotheses=1)
        forced = prefixes if any(prefixes) else None
        found = iter(self._searcher(options).translate_fully(stretches, forced) if stretches else [])
        for segment in segments:
            segment.apart = [next(found) for _ in segment.masked.between()]

    def _ranked(self, text: str, lead: str, segments: list[_Segment]) -> list[TranslatedText]:
        if not segments:
            return [TranslatedText("", 0.0, [], [], False, True)]
        ranks = max(len(segment.found) for segment in segments)
        return [self._assemble(text, lead, segments, rank) for rank in range(ranks)]

    def _assemble(self, text: str, lead: str, segments: list[_Segment], rank: int) -> TranslatedText:
        """Put the parts of one text together."""
        written, used = [lead], []
        apart: list[str] = []
        lost: list[str] = []
        for i, segment in enumerate(segments):
            if segment.apart:
                written.append(_around(segment.masked, segment.apart))
                used += [one for one in segment.apart if one.src_ids]
                apart += segment.masked.spans
                lost += missing(segment.masked.spans, written[-1])
            else:
                chosen = segment.found[min(rank, len(segment.found) - 1)]
                restored = segment.masked.restore(chosen.text) if self.protect else None
                written.append(restored.text if restored else chosen.text)
                lost += restored.lost if restored else []
                used += [chosen] if chosen.src_ids else []
            written.append(segment.part.space if i == len(segments) - 1 else self._space(segment.part))
        output = _clean("".join(written), text)
        lost += self._unmasked_lost(text, segments, output)
        return TranslatedText(
            output,
            sum(one.score for one in used),
            [i for one in used for i in one.src_ids],
            [i for one in used for i in one.tgt_ids],
            any(one.truncated for one in used),
            all(one.finished for one in used),
            [score for one in used for score in one.token_scores],
            parts=used,
            cut=any(segment.part.cut for segment in segments),
            looped=any(segment.looped for segment in segments),
            looping=any(find_loop(one.tgt_ids, one.src_ids) for one in used),
            copied_source=self.src_lang != self.tgt_lang and is_copy(*_words_to_compare(text, output, segments)),
            num_protected=sum(len(segment.masked.spans) for segment in segments),
            protected_retried=any(segment.retried for segment in segments),
            protected_apart=apart,
            protected_lost=lost,
        )

    def _space(self, part: Part) -> str:
        """What stands between the translation of `part` and that of the next."""
        src_spaced = spaces_between_sentences(self.src_lang)
        tgt_spaced = spaces_between_sentences(self.tgt_lang)
        if not part.space and written_without_spaces(self.src_lang) and not written_without_spaces(self.tgt_lang):
            return " "
        if src_spaced and not tgt_spaced and not part.space.strip(" "):
            return ""
        return part.space

    def _unmasked_lost(self, text: str, segments: list[_Segment], output: str) -> list[str]:
        """Spans for which there was no placeholder (only without splitting) and that are not in the output."""
        if not self.protect:
            return []
        all_spans = [text[span.start : span.end] for span in find_spans(text, self.user_symbols)]
        if len(all_spans) == sum(len(segment.masked.spans) for segment in segments):
            return []
        return [span for span in dict.fromkeys(all_spans) if output.count(span) != text.count(span)]


def _around(masked: Masked, between: list[Translation]) -> str:
    """The spans, in the order of the source, with the translations of what stands between them."""
    sources = masked.between()
    written = []
    for i, (source, translation) in enumerate(zip(sources, between, strict=True)):
        text = ANY_PLACEHOLDER.sub("", translation.text).strip()
        before, after = source[: len(source) - len(source.lstrip())], source[len(source.rstrip()) :]
        written += [before, text, after if source.strip() else "", masked.spans[i] if i < len(masked.spans) else ""]
    return "".join(written)


def _clean(output: str, source: str) -> str:
    """`output` without a replacement character that the source does not have."""
    return output if "\ufffd" in source else output.replace("\ufffd", "")


def _words_to_compare(text: str, output: str, segments: list[_Segment]) -> tuple[str, str]:
    """Source and output without the protected spans, which are rightly the same."""
    for span in {span for segment in segments for span in segment.masked.spans}:
        text, output = text.replace(span, " "), output.replace(span, " ")
    return text, output
