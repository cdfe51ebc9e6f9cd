"""Protected spans of a source text: replace them by placeholders, restore them, and find lost ones."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from nmt.base.languages import UNSPACED
from nmt.base.patterns import lazy_pattern
from nmt.data.text.numbers import CURRENCIES, UNIT_LETTERS, has_words
from nmt.data.text.spans import ANY_PLACEHOLDER, PLACEHOLDERS, Span, find_spans, is_symbol, replace_spans
from nmt.data.text.words import LETTER, WORD_IN_ALPHABET

_DOUBLE_SPACE = re.compile(r" {2,}")
# What is filled in order (%s), and what opens and closes: the name of a tag.
_IN_ORDER = re.compile(r"(%)[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lzjt])?[A-Za-z@]|[<\[]/?([\w:.-]+)[^<\[]*[>\]]")
_BEGIN_TAGS = "<[\\"
_NEIGHBORS = re.compile(r"(?<=(.))(⟦[1-8]⟧)(?=(.))", re.DOTALL)
_SPACED = rf"[^\W{UNSPACED}]"  # a letter or digit of a script that separates words by spaces
_IS_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_END_MARKS = " .,;:!?…،؛؟۔।。，、；：！？"
_FINAL = frozenset(".!?…")
_PAIR = {"opening", "closing"}  # of `PROSE_MARK`
_MARKS = rf"\s{_END_MARKS}\"'“”„‚‘’«»‹›()\[\]{{}}<>/|+=*—–\-（）「」『』"
_PIECE = lazy_pattern(rf"(?s)\A([{_MARKS}]*)((?:.*[^{_MARKS}])?)([{_MARKS}]*)\Z")

# Marks that stand where prose has none: beside a word, alone, doubled. A sign of a sum, a price, a percentage or of
# "and/or" is none, nor are the marks around and within sentences. One character, and then what makes it odd:
ODD_MARK = (
    r"(?!&amp;)['.:;!?*/&@+_#=^\\`{}\[\]|<>~%$\u2013-](?:"
    r"(?<=')'"  # doubled: ''bold''
    r"|(?<=[#=^\\`{}\[\]|])"  # anywhere
    r"|(?<=[<>~])(?<!<<)(?<!>>)(?![<>]|\s?\d|=|\s)|(?<=[^\W\d_]~)"  # not before a number (<5, ~ 10), nor <=
    r"|(?<=ª[/+:;\u2013-])(?=ª)"  # between two spans
    r"|(?<=[^\W\d_]\+)(?=[^\W\d_])|(?<=[^\W\d_]&)(?=[a-z])"  # of keys: Ctrl+C, E&xit
    r"|(?<=%)(?<!\d%)(?<!\d\s%)"  # not behind a number
    r"|(?<=\$)(?<!\d\$)(?<!\d\s\$)(?<![A-Z]\$)(?!\s?\d|[A-Z])"  # not beside an amount, nor US$ or $A
    # Not between two letters or digits (and/or), nor between spaces (a & b); a plus not before a number.
    r"|(?<=[*/&@+_])(?:(?<![^\W_].)|(?![^\W_]))(?:(?<!\s[&+/@])|(?!\s))(?:(?<=[*/&@_])|(?!\s?\d))"
    # tea/coffee, Mann/eine Frau, but not and/or, Lehrer/innen
    r"|(?<=[^\W\d_]{4}/)(?=[^\W\d_])(?!in(?:nen)?(?![^\W\d_]))"
    r"|(?<=[^\W\d_]{3}/)(?=[^\W\d_]{5})(?!innen(?![^\W\d_]))"
    # At the beginning of a word: .name, -name-, :-), !name, and a colon before a span.
    r"|(?<![^\s(\"'].)(?:(?<=\.)[^\W\d_][\w.]*|(?<=[\u2013-])[^\W_]+[\u2013-](?![^\W_])"
    r"|(?<=[:;])[^\w\s\"“„«]+|(?<=[!?;])(?![A-ZÀ-Þ][a-zß-ÿ])\w|(?<=:)ª))"
)
# Words that a translation keeps as they are. One character, and then what makes its word odd:
_LOWER, _UPPER = "a-zß-öø-ÿ", "A-ZÀ-ÖØ-Þ"
ODD_WORD = (
    # A capital within, as in camelCase and NaCl, but not in the German StudentInnen.
    rf"(?P<camel>(?<!{LETTER})(?<!\d){LETTER}*[{_LOWER}][{_UPPER}](?!n(?:nen)?(?!{LETTER})){LETTER}*\d{{0,9}})"
    r"|(?P<acronyms>(?<![\w&/-])[A-Z]{1,5}(?:[&/-][A-Z]{1,5})+(?![\w&/-]))"  # R&D, TCP/IP, A-Z
    r"|(?P<key>(?<![\w-])(?:[A-Z][a-z]{0,3}-[A-Z]|[A-Z]-[a-z]|[a-z]-[xyz]|(?<!\S)-[b-df-hj-np-tv-z]{2})"
    r"(?![\w'’-]))"  # Ctrl-C, a-z, -rf
    r"|(?P<dotted>(?<![\w.])(?:[a-z]{2,}\.[a-z]|[a-z]\.[a-z]{2,}|[A-Z]{3,}\.[A-Z]{2,}|[a-z]\??\.[a-z]\.?[a-z])(?![\w.]))"
    r"|(?P<form>(?<!\w)(?=\S{0,16}(?:YY|yy|[DdHhMm]{2}|ss))[DdHhMmSsYy]{1,4}(?:[-/.:][DdHhMmSsYy]{1,4})+(?!\w))"
    r"|(?P<face>(?<![^\W_])[^\W\d_]_[^\W_](?![^\W_])|(?<!\S)[:;=][DPpO3](?!\w)|•)"  # o_O, :D
    r"|(?P<numbered>(?<![\w{-])[A-Za-z]+\d[A-Za-z\d]*(?!\w))"  # x64, Python3
    r"|(?P<roman>(?<![\w.])(?:X{1,3}(?:IX|IV|VI{0,3}|I{1,3})|X{2,3}|I[IVX]|III|VI{1,3})(?![\w'’]))"  # XIV
    # A span and what is glued to it, but no word beside a symbol.
    r"|(?P<glued>ª+[^\w\s]ª+|(?<![A-Za-z0-9_ªº])[A-Za-z0-9_]+ª+|ª+[A-Za-z0-9_]+|(?<!\w)[A-Za-z]{1,2}º+|º[A-Za-z]{1,2}(?!\w)"
    r"|(?<!\w)[A-Za-z]{1,2}(?:\"ª+\"|'ª+'))"  # f"{x}"
    r"|(?P<option>(?<=[\s\"'(])-[A-Z][a-z]+(?![\w-]))"  # -Wall
)
_ODD_WORD = lazy_pattern(ODD_WORD)
# One of its characters, which is faster to find.
_MAY_BE_ODD_WORD = lazy_pattern(
    rf"[{_UPPER}\d&/_.ªº•:;=-](?:(?<=[{_LOWER}][{_UPPER}])|(?<=[A-Za-z]\d)|(?<=[IVX]{{2}})|(?<=[&/_.:;=-])(?=\w)|(?<=[ªº•]))"
)
_FEW_WORDS = r"[^\W\d_]+(?:[ -][^\W\d_]+){0,3}"
QUOTED_WORD = rf"[\"“”„«»‹›]\s?{_FEW_WORDS}\s?[\"“”«»‹›]|(?<!\w)'{_FEW_WORDS}'(?!\w)"
QUOTE = r"[\"“”„«»‹›「」『』《》‘‚]|(?<![^\W\d_])['’]|['’](?![^\W\d_])"  # not that of "it's"


# Marks and signs of prose that change what a sentence says, by kind. A bracket that ends an item, a), is none.
PROSE_MARK = (
    r"(?P<opening>[(（\[［【〔])|(?P<closing>(?<![:;=8-])(?<!^\w)(?<!^\d\d)(?<!\s\w)(?<!\s\d\d)[)）\]］】〕])"
    r"|(?P<dash>—{1,2}|(?<![\w-])(?<!\d\s)(?:[–-]|-{2,})(?![\w-]))|(?P<semicolon>[;；؛])"
    r"|(?P<exclamation>[!！]+)|(?P<question>[?？؟]+)|(?P<ellipsis>[…⋯]+|\.{2,}|。{2,})"
    rf"|(?P<percent>[%٪％‰])|(?P<currency>[{CURRENCIES}])|(?P<degree>[°℃℉])|(?P<comparison>[<>≤≥±](?=\s?\d))"
    rf"|(?P<quotation>{QUOTED_WORD}|<<|>>)|(?P<unit>(?:(?<=\d)|(?<=\d\s)){UNIT_LETTERS}(?![^\W\d_]|\.(?!\s*$)))"
    r"|(?P<colon>：|:(?!\S))|(?P<letter>(?<![A-Za-zÀ-ɏ\d_.'’&/+°-])[B-HJ-NP-TV-Z]"
    r"(?![A-Za-zÀ-ɏ\d_'’&/+-]|\.(?!\s*$)))"  # Vitamin C
)
_PROSE_MARK = lazy_pattern(PROSE_MARK)
_QUOTE = lazy_pattern(QUOTE)
# One of its characters, which is faster to find.
_MAY_BE_MARK = lazy_pattern(
    rf"[;!?()\[\]؛؟…⋯–—。（；！？［【〔%٪％‰°℃℉<>≤≥±\"'“”„«»‹›{CURRENCIES}\d：]|-(?!\w)|\.\.|:(?!\S)"
    r"|[B-Z](?<!\w.)(?!\w)"
)


def marks_left_out(source: str, output: str) -> dict[str, re.Match[str]]:
    """Return a mark of each kind of `PROSE_MARK` that `source` has more often than `output`, by kind.

    A few words in quotation marks are left out if the output has none, of any form.
    """
    if not _MAY_BE_MARK.search(source):
        return {}
    read, written = ([*_PROSE_MARK.finditer(text)] for text in (source, output))
    lost = Counter(mark.lastgroup for mark in read) - Counter(mark.lastgroup for mark in written)
    if "quotation" in lost and _QUOTE.search(output):
        del lost["quotation"]
    return {kind: mark for mark in read if (kind := mark.lastgroup) in lost and kind is not None}


def lost_marks(
    source: str,
    output: str,
    spans: Sequence[str] = (),
    left_out: Collection[str] = (),
    unknown: Sequence[str] = (),
) -> list[str]:
    """Return what `output` lacks of `source`: words beside marks that prose does not have, odd words, marks of prose.

    `spans` count as words, but tags as spaces. Words, and words and marks of kinds, that are `left_out` may be lost,
    but of a pair of brackets both. `unknown` words, those that the model cannot read (`words_lacking`), are odd, too.
    """
    read = source
    written = output
    for span in sorted(spans, key=len, reverse=True):  # one may begin with another
        filler = (" " if span[0] in _BEGIN_TAGS else "º" if is_symbol(span) or span[0] == "&" else "ª") * len(span)
        read = read.replace(span, filler)
        written = written.replace(span, filler)
    prose = marks_left_out(read, written)
    of_prose = [mark for kind, mark in prose.items() if kind not in left_out or _PAIR.intersection(prose) == {kind}]
    words = [
        source[slice(*word.span())].rstrip(".,!?") for kind, word in odd_left_out(read, written) if kind not in left_out
    ]
    words += [word for word, count in Counter(unknown).items() if output.count(word) < count]
    words += [source[slice(*mark.span())] for mark in of_prose]
    return [word for word in words if word not in left_out]


def without_parts(lost: Sequence[str], source: str) -> list[str]:
    """Return each of `lost` once, without those that `source` has only within longer ones of them."""
    rest = source
    whole: set[str] = set()
    items = dict.fromkeys(lost)
    for item in sorted(items, key=len, reverse=True):
        if item in rest or item not in source:
            whole.add(item)
            rest = rest.replace(item, "\0")
    return [item for item in items if item in whole]


def odd_left_out(source: str, output: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the words of `source` with odd marks that `output` lacks, and the odd words that it lacks; by kind."""
    if odd := re.findall(ODD_MARK, source):  # most texts have none
        lost = Counter(odd) - Counter(re.findall(ODD_MARK, output))
        for word in re.finditer(r"\S+", source):
            if sign := next((mark[0] for mark in lost if mark in word[0]), ""):
                yield f"mark {sign}", word
    if _MAY_BE_ODD_WORD.search(source):
        for word in _ODD_WORD.finditer(source):
            if word[0] not in output:
                yield word.lastgroup or "", word


def words_lacking(text: str, lacks: Callable[[str], bool]) -> list[str]:
    """Return the words of `text`, in alphabets, with a letter that a vocabulary `lacks`.

    If they are half of the words or more, the text is unlike the training text as a whole, and none is returned.
    """
    unknown = {*filter(lacks, {*text})}
    words = WORD_IN_ALPHABET.findall(text) if unknown else []
    lacking = [word for word in words if not unknown.isdisjoint(word)]
    return lacking if 2 * len(lacking) < len(words) else []


def lost_spans(spans: Sequence[str], text: str) -> list[str]:
    """Return the spans that `text` does not contain exactly as often as `spans` does, as a whole.

    Of conversions without numbers (%s, %d), and of tags with one name, those whose order has changed are lost, too.
    """
    if not spans:
        return []
    counts = Counter(spans)
    others = find_spans(text)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for start, end in others:
        places[text[start:end]].append(start)
    rarer = [span for span, count in counts.items() if len(places[span]) < count]
    places |= {span: starts[: counts[span]] for span, starts in _places_outside(rarer, text, others).items()}
    if lost := [span for span in counts if len(places[span]) != counts[span]]:
        return lost
    written = [span for _, span in sorted((start, span) for span in counts for start in places[span])]
    by_kind = (sorted(filter(_kind, side), key=_kind) for side in (spans, written))  # stable
    return list(dict.fromkeys(span for span, other in zip(*by_kind, strict=True) if span != other))


def _places_outside(spans: Collection[str], text: str, others: Sequence[Span]) -> dict[str, list[int]]:
    """Return where each of `spans` stands in `text`, but not within a longer one of its spans `others`."""
    places: dict[str, list[int]] = {span: [] for span in spans}
    for length in {*map(len, spans)}:  # one search for all of a length, because there may be thousands
        longer = [each for each in others if each.end - each.start > length]
        free = replace_spans(text, longer, ["\0" * (each.end - each.start) for each in longer])
        for at in range(len(free) - length + 1):
            starts = places.get(free[at : at + length])
            if starts is not None and at >= (starts or [-length])[-1] + length:
                starts.append(at)
    return places


def _kind(span: str) -> str:
    """Return the kind of a span whose order among others of its kind matters; else an empty string."""
    match = _IN_ORDER.fullmatch(span)
    return match[1] or match[2] if match else ""


class Piece(NamedTuple):
    """A piece of text beside spans: what is translated, and the spaces and marks between it and the spans."""

    lead: str
    core: str
    tail: str


class Protected(NamedTuple):
    """A source text, cut at its protected spans."""

    between: list[str]  # the text before, between and after the spans: one more than there are spans
    spans: list[str]
    is_masked: bool = False  # the model reads placeholders 1, 2, … in place of the spans

    @classmethod
    def from_spans(
        cls, text: str, spans: Sequence[Span], start: int = 0, end: int | None = None, *, masks: bool = True
    ) -> Protected:
        """Cut text[start:end] at `spans` of it; if it `masks` them, those beyond the number of placeholders stay."""
        kept = spans[: len(PLACEHOLDERS)] if masks else spans
        parts = [text[begin:stop] for begin, stop in pairwise([start, *chain.from_iterable(kept), end])]
        return cls(parts[::2], parts[1::2], masks and bool(spans))

    @property
    def source(self) -> str:
        """The text that the model reads."""
        read = PLACEHOLDERS if self.is_masked else self.spans
        return "".join(chain.from_iterable(zip_longest(self.between, read[: len(self.spans)], fillvalue="")))

    def has_words(self) -> bool:
        """Return True if there are words outside of the spans."""
        return has_words(self.outside_spans())

    def is_only_spans(self) -> bool:
        """Return True if the text consists only of spans, so that there is nothing to translate."""
        return bool(self.spans) and not self.outside_spans().strip()

    def outside_spans(self) -> str:
        """Return the source without its spans."""
        return " ".join(self.between)

    def without_spans(self, text: str) -> str:
        """Return `text`, the translation or its source, without the spans and placeholders."""
        for span in sorted(self.spans, key=len, reverse=True):  # one may begin with another
            text = text.replace(span, " ")
        return ANY_PLACEHOLDER.sub(" ", text) if self.spans else text

    def begins_with_span(self) -> bool:
        """Return True if there is nothing to translate before the first span."""
        return bool(self.spans) and not self.between[0].strip()

    def restore(self, translation: str) -> tuple[str, list[str]]:
        """Restore the spans; return the text, and the spans that it does not contain exactly once, in source order.

        Placeholders that the source does not have, or not as often, are dropped. Spaces separate a span from its
        neighbor if the two would merge, such as a URL and the word after it.
        """
        if not self.spans and not ANY_PLACEHOLDER.search(translation):
            return translation, []
        left = Counter(ANY_PLACEHOLDER.findall(self.source))
        found = Counter(ANY_PLACEHOLDER.findall(translation))

        def kept(match: re.Match[str]) -> str:
            left[match[0]] -= 1
            return match[0] if left[match[0]] >= 0 else ""

        without = ANY_PLACEHOLDER.sub(kept, translation)
        if without != translation:
            translation = _DOUBLE_SPACE.sub(" ", without).strip()
        if not self.is_masked:
            return translation, lost_spans(self.spans, translation)
        known = dict(zip(PLACEHOLDERS, self.spans, strict=False))  # another one may be a symbol of the user's
        translation = self._with_spaces(translation)
        text = ANY_PLACEHOLDER.sub(lambda match: known.get(match[0], match[0]), translation)
        unplaced = [span for symbol, span in known.items() if found[symbol] != 1]
        lost = unplaced or lost_spans(self.spans, text)
        if unplaced or not lost:
            return text, lost
        apart = ANY_PLACEHOLDER.sub(lambda match: f" {known.get(match[0], match[0])} ", translation)
        apart = _DOUBLE_SPACE.sub(" ", apart).strip()
        return (text, lost) if lost_spans(self.spans, apart) else (apart, [])

    def _with_spaces(self, translation: str) -> str:
        """Separate the placeholders of `translation` from words where spaces separate them in the source.

        Where words are written without spaces, all but tags are separated.
        """
        known = dict(zip(PLACEHOLDERS, self.spans, strict=False))
        for before, symbol, after in _NEIGHBORS.findall(f" {self.source} "):
            is_tag = known.get(symbol, symbol)[0] in _BEGIN_TAGS
            for side, glued in ((before, f"(?<={_SPACED})(?={symbol})"), (after, f"(?<={symbol})(?={_SPACED})")):
                if side.isspace() or (not is_tag and _IS_UNSPACED.match(side)):
                    translation = re.sub(glued, " ", translation)
        return translation

    def pieces(self) -> list[Piece]:
        """Return the text before, between and after the spans: n + 1 pieces for n spans.

        The marks at both ends of the whole are translated, because they end a sentence; those beside spans are not. One
        that ends the whole behind a span is translated with the piece before the span.
        """
        pieces = [Piece(*_PIECE.findall(part)[0]) for part in self.between]
        lead, core, tail = pieces[0]
        if core:
            pieces[0] = Piece("", lead.lstrip() + core, tail)
        lead, core, tail = pieces[-1]
        if core and self.spans:
            pieces[-1] = Piece(lead, core + tail.rstrip(), "")
        elif lead in _FINAL and self.spans and pieces[-2].core:
            pieces[-2] = pieces[-2]._replace(core=pieces[-2].core + lead)
        return pieces

    def join(self, translations: Sequence[str]) -> str:
        """Join the spans, in source order, with translations of the `pieces` between them.

        Spaces separate a span from its neighbors if it would merge with them.
        """
        written: list[str] = []
        apart: list[str] = []
        pieces = self.pieces()
        for number, (piece, translation, span) in enumerate(zip(pieces, translations, [*self.spans, ""], strict=True)):
            text = ANY_PLACEHOLDER.sub("", translation).strip()
            if piece.core and number < len(pieces) - 1:  # a model ends what it reads as a sentence
                bare = text.rstrip(_END_MARKS) or text
                if number == len(pieces) - 2 and pieces[-1].lead in _FINAL:
                    pieces[-1] = Piece(text[len(bare) :] or pieces[-1].lead, "", "")
                text = bare
            written += [piece.lead, text, piece.tail, span]
            apart += [text, span]
        output = "".join(written)
        return " ".join(filter(None, apart)) if lost_spans(self.spans, output) else output
