"""The only entry point to translation, shared by `nmt translate`, `nmt eval`, validation, exports and Python."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, overload

from nmt.artifacts.find_model import find_runs
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, require_texts, require_type
from nmt.base.languages import Direction
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.data.text.characters import AS_WRITTEN
from nmt.data.text.glossary import Glossary
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import DeviceName, Engine, EngineName, PrecisionName, Weights
from nmt.translation.alignment import Links, RunLexicon, most_attended
from nmt.translation.languages import LanguagePair
from nmt.translation.request import Request, changed_options
from nmt.translation.retries import Retries
from nmt.translation.segments import (
    ForcedScore,
    SegmentTranslation,
    score_segments,
    search_candidates,
    translate_segments,
    untranslated,
)
from nmt.translation.texts import SegmentedText, TextSegmenter
from nmt.translation.translation import Translation, put_together
from nmt.translation.verdicts import judge

if TYPE_CHECKING:
    from nmt.model.recording import AttentionWeights

log = logging.getLogger(__name__)

Model = str | Path | RunDir | Sequence[RunDir]
Options = SearchOptions | Mapping[str, object] | None
"""Search options, changes of those of the model, or None: those of the model."""

Blocks = Iterable[list[str]]  # of texts
TranslatedBlock = tuple[list[str], list[Translation]]  # texts, and their translations


class Translator:
    """Translates texts of any length with one model or an ensemble. Several threads may use it at once.

    >>> from nmt import Translator
    >>> [t.text for t in Translator.load("runs/demo-en-zh").translate(["I am from China"])]  # doctest: +SKIP
    ['我来自中国。']
    """

    def __init__(
        self,
        tokenizers: TokenizerPair,
        engine: Engine,
        languages: LanguagePair,
        options: SearchOptions | None = None,
        statistics: TextStatistics | None = None,
    ):
        """Join tokenizers and an engine; `options` are the defaults of `translate`.

        `statistics` tell what the model was trained on (None: unknown), which decides how texts are split.
        """
        self.tokenizers = tokenizers
        self.engine = engine
        self.languages = languages
        self.options = options or SearchOptions()
        self.statistics = statistics
        self.precision = engine.precision  # of the computation, such as fp32
        self.max_src_len = engine.max_src_len  # in tokens, eos included
        self.segmenter = TextSegmenter(tokenizers, languages, engine.max_src_len, statistics)
        self._has_warned = False
        self.lexicon: RunLexicon | None = None

    @classmethod
    def load(
        cls,
        model: Model | None = None,
        *,
        engine: EngineName = "auto",
        device: DeviceName = "auto",
        precision: PrecisionName = "auto",
        scores: bool = True,
    ) -> Translator:
        """Load the best model of a run, a packed model or a model on the hub.

        Default: the model in $NMT_MODEL, or the most recently trained run in ./runs. Several runs form an ensemble with
        the options of the first run; NmtError if their tokenizers differ. Without `scores`, the native engine computes
        no scores for single outputs; their score is nan.

        `engine` is native (C, on a CPU), torch, phrase (the phrase table of a run of a small corpus), or auto: phrase
        if that was better on the validation set, else native if it supports the model, else torch. `precision` is fp32,
        bf16 (torch), int8 (on a CPU), or auto. In the native engine, auto is int8, unless the measurement at the end of
        training found that int8 costs too much quality. In torch, auto is bf16 on GPUs that are faster with it, else
        fp32.

        For the engine torch on Intel processors with AVX-512, set MKL_CBWR=AVX512,STRICT before the process computes
        anything. It makes small batches faster and does not change results.
        """
        runs = find_runs(model)
        if not runs:
            raise NmtError("an empty list names no model", hint="leave it out for the most recently trained run")
        from nmt.decoding.engines.selection import load_engine

        tokenizers = shared_tokenizers(runs)
        essentials = runs[0].essentials()
        loaded = load_engine(runs, tokenizers, engine, device, precision, scores=scores)
        statistics = runs[0].statistics(confidence=len(runs) == 1)  # that of one model does not fit an ensemble
        translator = cls(tokenizers, loaded, LanguagePair.of(essentials), essentials.decoding, statistics)
        translator.lexicon = RunLexicon(runs[0], tokenizers)
        return translator

    def translate(
        self,
        texts: Sequence[str],
        options: Options = None,
        prefixes: Sequence[str] | None = None,
        *,
        to: str | None = None,
        from_: str | None = None,
        glossary: Glossary | Mapping[str, str] | None = None,
    ) -> list[Translation]:
        """Translate `texts`, in order; the translation of a blank text is empty.

        `to` is the code of the target language. A model with several target languages requires it, unless every text
        begins with the tag of one, such as `<2fr>`. `from_` matters only if the model translates into `to` from
        languages that write sentences differently, such as Chinese and English: texts of several sentences are split
        and joined accordingly. NmtError if the model does not know one of these languages.

        Texts with more sentences than the model was trained on are split, sentences without letters and protected spans
        are kept, and outputs that repeat themselves or have other numbers than their source are decoded again, all
        according to `options`: the decoding section of the run, changed by a mapping such as `{"beam_size": 5}`, or
        other `SearchOptions`. If `num_hypotheses` exceeds 1, the rest of the n-best list is in
        `Translation.alternatives`. The translation of text i begins with `prefixes[i]`.
        In sampling, equal texts get equal samples. The native engine follows `glossary`, also given as a mapping from
        terms to their translations; other engines choose the output of a beam that has most of them.
        `Translation.terms_missed` has the rest.
        NmtError for a text that is no str, a prefix with a line break, or an option that does not exist.
        """
        prefix = "" if prefixes is None else require_texts("prefixes", prefixes)
        request = self._request(options, glossary)
        return self.translate_block(texts, replace(request, to=to, from_=from_, prefix=prefix))

    def stream(
        self,
        text: str,
        options: Options = None,
        *,
        to: str | None = None,
        from_: str | None = None,
        glossary: Glossary | Mapping[str, str] | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each segment of `text`, most often a sentence, as soon as it is there.

        Concatenated, their texts are that of `translate`, which takes the same arguments. To cancel, stop iterating: a
        segment is translated when it is asked for.
        """
        require_type("text", text, str, "a str, of one or several sentences")
        request = replace(self._request(options, glossary), to=to, from_=from_)
        (segmented,) = self.segment([text], request)
        before = segmented.lead
        for part, space in segmented.separate():
            (translation,) = self.translate_segmented([part], request)
            yield replace(translation, text=before + translation.text + space)
            before = ""

    def _request(self, options: Options, glossary: Glossary | Mapping[str, str] | None) -> Request:
        """Return a request with options and terms in one of the forms that `translate` takes."""
        if not isinstance(options, SearchOptions):
            options = self.options if options is None else changed_options(self.options, options)
        require_type("glossary", glossary, (Glossary, Mapping, NoneType), "a Glossary, or a dict of terms")
        return Request(options, glossary=Glossary(glossary) if isinstance(glossary, Mapping) else glossary)

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations; take the next block only after the previous one is consumed.

        `first` is the line number of the first text. To resume a stream after n texts, pass the remaining blocks and
        `first` = n + 1. Their translations are the same as in the whole stream.
        """
        for block in blocks:
            yield block, self.translate_block(block, request, first)
            first += len(block)

    def translate_block(self, texts: Sequence[str], request: Request, first: int = 1) -> list[Translation]:
        """Translate `texts`, the lines from number `first` on."""
        return self.translate_segmented(self.segment(texts, request, first), request)

    def segment(self, texts: Sequence[str], request: Request, first: int = 1) -> list[SegmentedText]:
        """Split `texts`, the lines from number `first` on, into segments, the units of search. Raises as `translate`.

        `SegmentedText.separate` returns the segments of a long text one by one, to translate them in several calls.
        """
        if request.glossary is not None and not (self.engine.takes_terms or self._has_warned):
            self._has_warned = True
            log.warning("only the native engine can require terms; this one chooses among the outputs of a beam")
        segmented = self.segmenter.segment(require_texts("texts", texts), request)
        if request.draw_by_line:
            for line, text in enumerate(segmented, first):
                for segment in text.segments:
                    segment.draw = line
        return segmented

    def translate_segmented(self, texts: Sequence[SegmentedText], request: Request) -> list[Translation]:
        """Translate `texts`, which `segment` of this translator returned, in order; of `request`, the options count.

        Segments that loop, or lost a span, a term or a number, are searched again.
        """
        # From segments and options to translations: searched by the engine, then reranked if the options ask for it.
        search = partial(search_candidates, partial(translate_segments, self.engine, self.tokenizers))
        segments = [segment for text in texts for segment in text.segments]
        for segment in segments:
            segment.reset()
        searched = [segment for segment in segments if not segment.is_verbatim and segment.known is None]
        for segment, translations in zip(searched, search(searched, request.options), strict=True):
            segment.candidates = [judge(segment, translation) for translation in translations]
        if faulty := [segment for segment in searched if not segment.best.verdict.is_clean]:
            Retries(search, self.tokenizers, request.options, self.engine.takes_terms, self.lexicon).run(faulty)
        for segment in segments:  # those that are known or verbatim
            segment.candidates = segment.candidates or [judge(segment, untranslated(segment.protected.source))]
        return [put_together(text) for text in texts]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, to: str | None = None, from_: str | None = None
    ) -> list[ForcedScore]:
        """Score each of `targets`, in the language `to`, as the translation of the source with the same index.

        A model with several target languages requires `to`, and one that reads tags of the source language requires
        `from_`, as in `translate`. NmtError unless there are as many targets as sources.
        """
        sources, targets = require_texts("sources", sources), require_texts("targets", targets)
        if len(sources) != len(targets):
            raise NmtError(f"{len(sources)} sources but {len(targets)} targets")
        directed = [self.languages.direct(text, to, from_) for text in sources]
        tagged = [text.tag + self.segmenter.characters(text.text) for text in directed]
        tgt_tags = [self.segmenter.tgt_tag(text.direction) for text in directed]
        written = [AS_WRITTEN(text) for text in targets]
        return score_segments(self.engine, self.tokenizers, tagged, written, tgt_tags, self.options.batch_tokens)

    def cross_attention(self, segment: SegmentTranslation, layer: int = -1, head: int | None = None) -> Weights:
        """Return attention weights [T][S] of each target token of `segment`, and of eos if it ended, over its source.

        S counts the source's eos. `layer` is the decoder layer (negative: from the last), `head` one of its heads
        (None: average over heads); NmtError if there is no such layer or head.
        """
        look = partial(self.engine.cross_attention, target=_target_of(segment), layer=layer, head=head)
        return self.engine.map(look, [segment.src_ids])[0][len(segment.tgt_tag) :]

    def align(self, segment: SegmentTranslation, direction: Direction) -> Links:
        """Return the links (source token, target token) of `segment`, a translation by this translator; from 0, sorted.

        The lexicon of the run links the tokens of words that translate each other. The cross-attention of the
        second-to-last layer links the others. Without a lexicon, as in imported models and old runs, it links all.
        RunError if the lexicon is damaged.
        """
        links = self.lexicon.links(segment, direction) if self.lexicon is not None else []
        src, tgt = {i for i, _ in links}, {j for _, j in links}
        if len(src) == len(segment.src_ids) or len(tgt) == len(segment.tgt_ids):
            return sorted(links)
        try:
            weights = self.cross_attention(segment, -2)
        except NmtError:  # the engine, or the model, has only the last layer
            weights = self.cross_attention(segment)
        by_attention = most_attended(weights, len(segment.tgt_ids))
        return sorted([*links, *((i, j) for i, j in by_attention if i not in src and j not in tgt)])

    def attention_weights(self, segment: SegmentTranslation) -> AttentionWeights:
        """Return the attention of every layer and head while the model writes `segment`, as tensors.

        `encoder` [L, 1, H, S, S], `decoder` [L, 1, H, T, T] and `cross` [L, 1, H, T, S]; S counts the source's eos. Not
        to be called while other threads translate. NmtError unless the engine is torch.
        """
        target = _target_of(segment)
        return self.engine.attention_weights(segment.src_ids, target)

    def close(self) -> None:
        """Stop the engine's threads. Garbage collection of a translator also stops them."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@overload
def translate(texts: str, model: Model | None = None, **options: Any) -> Translation: ...
@overload
def translate(texts: Sequence[str], model: Model | None = None, **options: Any) -> list[Translation]: ...
def translate(
    texts: str | Sequence[str],
    model: Model | None = None,
    *,
    to: str | None = None,
    from_: str | None = None,
    device: DeviceName = "auto",
    glossary: Glossary | Mapping[str, str] | None = None,
    **options: Any,
) -> Translation | list[Translation]:
    """Translate one text, or several, with `model`: loaded as in `Translator.load`, and closed at the end.

    `options` are search options, such as `beam_size=5` or `num_hypotheses=3`; the defaults are those of the model. To
    translate several times, load a `Translator` once. NmtError for an unknown option, and as `Translator` raises it.

    >>> from nmt.translation import translate
    >>> print(translate("I am from China", "runs/demo-en-zh"))  # doctest: +SKIP
    我来自中国。
    >>> [t.text for t in translate(["Hello.", "Good night."], "runs/demo-en-zh", beam_size=5)]  # doctest: +SKIP
    ['你好。', '晚安。']
    """
    with Translator.load(model, device=device) as translator:
        several = [texts] if isinstance(texts, str) else texts
        translations = translator.translate(several, options, to=to, from_=from_, glossary=glossary)
    return translations[0] if isinstance(texts, str) else translations


def _target_of(segment: SegmentTranslation) -> list[int]:
    require_type("segment", segment, SegmentTranslation, "one of translation.segments")
    return [*segment.tgt_tag, *segment.tgt_ids, *[EOS_ID] * segment.finished]


def shared_tokenizers(runs: Sequence[RunDir]) -> TokenizerPair:
    """Return the shared tokenizers of `runs`. NmtError if they differ."""
    first, *others = [TokenizerPair.load(run.tokenizer) for run in runs]
    for run, other in zip(runs[1:], others, strict=True):
        if (other.src.fingerprint, other.tgt.fingerprint) != (first.src.fingerprint, first.tgt.fingerprint):
            raise NmtError(
                f"this run and {runs[0].path} have different tokenizers, so they cannot translate together",
                path=run.path,
                hint="train all runs of an ensemble with the same tokenizer: set tokenizer.path",
            )
    return first
