"""Spans of text that a translation must keep verbatim, and the placeholders that replace them.

A placeholder is a user-defined symbol of the tokenizer, `⟦1⟧` to `⟦8⟧`: one token that is never split, whatever the
type of the tokenizer. Placeholders are numbered from 1 in source order.

A span is what is not made of words, numbers and the punctuation of prose: what the brackets of programs enclose, a name
after or between signs, tags, code, formulas, paths, codes, symbols. The rules say what prose does not do, because no
list of formats would be complete. The page of `nmt export web` has the same (nmt/apps/web/static/text.js), with these
patterns.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from nmt.base.patterns import lazy_pattern
from nmt.data.text.numbers import CURRENCIES, has_letters

NUM_PLACEHOLDERS = 8
PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, NUM_PLACEHOLDERS + 1))
ANY_PLACEHOLDER = re.compile("|".join(PLACEHOLDERS))

# Characters of names: not \w, because in Chinese a name and the words around it are not separated by spaces. Every
# repetition is bounded, or of characters that cannot start what follows it, so matching takes linear time.
_L = r"A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
_W = _L + "0-9"
_NAME = rf"[{_L}][{_W}]{{0,63}}"
_AFTER_NUMBER = r"(?<!\d)(?<!\d[ \u00a0\u202f])"  # 50 %der Leute, 20 $US
_BEGINS = r"(?<![^\s(\[{\"'“„«‹>,;¿¡\u2e80-\u9fff\uac00-\ud7af\u0e00-\u0e7f])"
_OPERAND = rf"(?:\d(?:[\d.,]{{0,20}}\d)?|\d{{0,9}}(?<![A-Za-z])[A-Za-z]{{1,2}})[²³⁰-₉]{{0,9}}(?![{_L}])"
_OPERATOR = r"\s?[-+*/×÷·−]\s?"
_ATTRIBUTE = rf"""\s{{1,8}}[{_W}:@.-]{{1,64}}\s?=\s?(?:"[^"<\n]{{0,500}}"|'[^'<\n]{{0,500}}'|[^\s"'<>=]{{1,500}})"""
_PART = rf"[{_W}@%+~-]"

# Blocks of symbols, and single ones. In the first block, what is a letter or digit belongs to words.
_WITHIN_16_BITS = (
    "¦©®\u058d\u058e\u0fd5-\u0fd8†‡※⁂\u2190-\u2bff\u2e50\u2e51\u2ff0-\u2ffb〄〒〓"
    "\u3020\u3036\u3037\u303e\u303f\u31c0-\u31e3\u4dc0-\u4dff\uffe2\uffe4\uffe8-\uffee\ufffc"
)
_BEYOND_16_BITS = "\U00010137-\U000101fc\U0001cf50-\U0001d37f𝛁𝛛𝛻𝜕𝜵𝝏𝝯𝞉𝞩𝟃\U0001f000-\U0001fbff"
SYMBOL = rf"[{_WITHIN_16_BITS}{_BEYOND_16_BITS}]|[\u2100-\u218f](?<![\w℃℉№])"
_EMOJI_OF_TWO = "[‼⁉ℹ〰〽㊗㊙]\ufe0f|[0-9#*]\ufe0f?\u20e3"  # in one character, they are words or punctuation
SYMBOL_RUN = (
    rf"(?:(?:{SYMBOL}|{_EMOJI_OF_TWO})"
    r"(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d\S)*)+"
)
# What a word, a number or a single letter beside it owns: currencies; degrees, operators, accents, units.
_OWNED = "§°¬±×÷¨¯´¸˂-˅˒-˟˥-˫˭˯-˿⁄⁒⁺-⁼₊-₌؆؇℃℉№\u3200-\u33ff﹢﹤-﹦＋＜-＞｜～"
PAIRS = "⁅⁆⌈⌉⌊⌋❨❩❪❫❬❭❰❱❲❳❴❵⟅⟆⟦⟧⟨⟩⟪⟫⟬⟭⟮⟯⦃⦄⦅⦆⦇⦈⦉⦊⦋⦌⦍⦎⦏⦐⦑⦒⦓⦔⦕⦖⦗⦘⧘⧙⧚⧛⧼⧽⸢⸣⸤⸥⸦⸧⸨⸩⹕⹖⹗⹘⹙⹚⹛⹜"
CHINESE_PAIRS = "【】〔〕〖〗〘〙〚〛［］｛｝｟｠"
CHINESE_QUOTES = "〈〉《》「」『』｢｣"  # and of titles
BRACKETS = PAIRS + CHINESE_PAIRS  # each opening one before its closing one, other than those of ASCII

PATTERNS = {
    "url": r"(?:(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,15}://|(?<![A-Za-z0-9])www\.(?=[A-Za-z0-9]))"
    r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%{}]+",
    "e-mail": r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,63}",
    "formula in dollars": r"\$\$[^$\n]{1,500}\$\$|"
    r"(?<![A-Za-z0-9$])\$(?![\s$])[^$\n]{0,200}?[\\^_={}][^$\n]{0,200}(?<!\s)\$(?![A-Za-z0-9$])",
    "bracket": r"(?P<open>(?:@:|[$#%@&!])?\{|\$\w{0,32}\(|\[|\(\(|<%(?!\w+>)|<\?|<!--|\\[(\[])",
    "tag": rf"(?<!<)<(?:/?\d{{1,9}}\s?/?|/?[{_L}][{_W}:.-]*\s?/?|[{_L}][{_W}:.-]*(?:{_ATTRIBUTE}){{1,16}}\s?/?"
    rf"|[{_L}][^<>\n]*[^\s<>]|[@#!$&%][^<>\s]+)>|</>|<<[{_W}]+>>",
    "entity": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    "code": r"(?P<ticks>`{2,3})(?!`)[^\n]{1,500}?(?<!\s)(?P=ticks)(?!`)|`(?![`\s])[^`\n]{1,500}(?<!\s)`(?!`)",
    "name between signs": rf"(?<![{_W}$%#@~^|:])(?P<sign>[$%#@~^|:]{{1,2}}|__)[{_L}][{_W}.-]{{0,63}}(?P=sign)"
    rf"(?![{_W}%])|\*\|[^|*\n]{{1,64}}\|\*",
    "conversion": rf"%%|(?<![\d%])%(?:[1-9]|L\d{{1,2}})(?![%${_W}]|[.,]\d)"
    rf"|(?<!%){_AFTER_NUMBER}%(?:\d{{1,2}}\$|\(\w{{1,64}}\)|<\w{{1,64}}>)?[-+#0]{{0,4}}(?:\d{{0,4}}|\*)"
    r"(?:\.(?:\d{1,3}|\*))?"
    rf"(?:(?:hh?|ll?|[LzZjt])[diouxX]|[A-Za-z@])(?![A-Za-z]{{2}})"
    rf"|(?<=\d[ \u00a0\u202f])%(?:\d\$)?(?:\.\d)?(?:ll?|z)?[diufgxs](?![{_W}’'])",  # 12 %d, but not 12 %ige
    "name after a sign": rf"(?<![{_W}$%#@&/]){_AFTER_NUMBER}(?:[$%#]|@(?:\.?[{_W}]{{0,32}}:)?)"
    rf"{_NAME}(?:[.-]{_NAME}){{0,8}}"
    rf"|{_BEGINS}(?:[:!]|--)[a-z_][{_W}]{{1,63}}(?:[.-]{_NAME}){{0,8}}(?![{_W}!:])",
    "path": rf"(?<![{_W}])(?:[A-Za-z]:[\\/]|\\\\\w){_PART}*(?:[.\\/]{{1,3}}{_PART}+)*[\\/]?"
    rf"|(?<![{_W}/.<])(?:~|\.{{1,2}})?/\.?{_PART}+(?:[./]{{1,3}}{_PART}+)*/?"
    rf"|(?<![{_W}/.@-])(?:(?:{_PART}{{1,64}}/){{1,20}}|[{_W}-])[{_W}-]{{1,64}}(?:\.[{_W}-]{{1,64}}){{0,3}}"
    rf"\.[a-z][a-z0-9]{{1,3}}(?![{_W}(-]|\.[{_W}])",
    "escape": r"\\(?:[A-Za-z]{1,32}\*?(?:\[[^\[\]\n]{0,200}\]|\{[^{}\n]{0,200}\}){1,4}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}"
    r"|[nrt]|[A-Za-z]{1,32}(?!/)|\d{1,3}|[^\w\s])",
    "name of a program": rf"(?<![{_W}])(?:[A-Za-z0-9]{{2,64}}_[{_W}]+|[A-Za-z0-9]_[{_W}]{{2,64}}|_{{3,}}"
    rf"|[A-Za-z_][A-Za-z0-9_.]{{0,63}}(?:\(\)|(?:::|->){_NAME}(?:\(\))?|=[{_W}\"'.²³/+*^-]{{0,200}}[{_W}\"'²³]))",
    "formula": rf"(?<![{_W}.])(?:{_OPERAND}{_OPERATOR}){{0,8}}{_OPERAND}\s?[=≤≥≈]\s?{_OPERAND}"
    rf"(?:(?:{_OPERATOR}|\s?=\s?){_OPERAND}){{0,8}}",
    "code word": rf"(?<![{_W}-])[A-Z]{{1,4}}-?\d[A-Z0-9]*(?:-[A-Z0-9]+)*(?![{_W}])"
    rf"|(?<![{_W}])#[0-9A-Fa-f]{{6}}(?![{_W}])",
    "bracket or quote": rf"(?P<mark>[{BRACKETS}{CHINESE_QUOTES}])",
    "symbol": rf"{SYMBOL_RUN}(?:(?<=[\u2190-\u23ff])(?:\s?\+\s?)?(?:[A-Z0-9]|F\d{{1,2}})(?!\w))?",  # ⌘ + S
    "symbol without a word": r"(?<!\w)(?<!\d\s)(?<!^[^\W\d_]\s)(?<![^\w][^\W\d_]\s)"
    rf"(?:(?P<currency>[{CURRENCIES}])|[{_OWNED}]|(?<!\S)(?:[+=|~<>]|[=!<>]=|<?[-=]{{1,2}}>|<[-=]{{1,2}})(?![^\s.,;!?]))"
    r"(?!\w|\s\d|\s[^\W\d_](?!\w))",
}
"""The beginnings of spans, by their names, in the order of trial; the names are for readers only."""

_SPAN = lazy_pattern("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()))
_SYMBOL_NAMES = "bracket or quote", "symbol", "symbol without a word"
_SYMBOL_SPAN = lazy_pattern("|".join(f"(?:{PATTERNS[name]})" for name in _SYMBOL_NAMES) + "|(?P<open>(?!))")
SIGN = (  # begins with one set of characters, which is faster to find than one of several patterns
    r"[@<&{%⟦\[`$\\#_~^|=≤≥≈:/!.(\d+>-](?:(?<=[@<&{%⟦\[`$\\#_~^|=≤≥≈])|(?<=[:/!])[\w.~]|(?<=\.)[a-z/]|(?<=-)(?:-\w|>)"
    r"|(?<=\()[()]|(?<=[A-Z]\d)|(?<=[A-Z]-\d)|(?<=[+>])(?!\S))"
)
# Every span contains one of these; finding them is fast, in classes within 16 bits and beyond.
_SIGN = re.compile(SIGN)
SYMBOL_SIGN = rf"[\ufe0f\u20e3{_WITHIN_16_BITS}{BRACKETS}{CHINESE_QUOTES}{_OWNED}{CURRENCIES[1:]}\u2100-\u218f]"
SYMBOL_SIGN_BEYOND = f"[{_BEYOND_16_BITS}]"
_SYMBOL_SIGN, _SYMBOL_SIGN_BEYOND = lazy_pattern(SYMBOL_SIGN), lazy_pattern(SYMBOL_SIGN_BEYOND)
_BRACKETS = lazy_pattern(rf'"[{{}}]"|[{{}}()\[\]{BRACKETS}]')  # those in quotes are none
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_ALL_CLOSING = {**_CLOSING, **dict(zip(BRACKETS[::2], BRACKETS[1::2], strict=True))}
_ONLY_SYMBOLS = lazy_pattern(SYMBOL_RUN)
_CHINESE = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # and Japanese, Korean
_IDENTIFIER = lazy_pattern("[A-Za-z_][A-Za-z0-9_.-]*")
_MOST_INSIDE = 200  # characters of what is no sentence, between brackets that programs do not use
_NUMBER_BEFORE = lazy_pattern(r"\d\s?[^\W\d]{1,9}\.?\s\Z")  # 5 Mio. €
_ENDS = {"<%": "%>", "<?": "?>", "<!--": "-->", "\\(": "\\)", "\\[": "\\]"}
_REACH = 4000  # characters after which the end of what is opened is not looked for
_SENTENCE_PUNCTUATION = ".,;:!?'"


class Span(NamedTuple):
    """A stretch [start, end) of a text, in characters."""

    start: int
    end: int

    def shifted(self, by: int) -> Span:
        """Return the same stretch of a text with `by` characters more before it."""
        return Span(self.start + by, self.end + by)


Stretch = TypeVar("Stretch")
"""A span, or something else with a start and an end, such as the match of a term."""


def within(stretches: Sequence[Stretch], start: int, end: int) -> Sequence[Stretch]:
    """Return those of `stretches`, which ascend, that are in [start, end) of their text."""
    first = bisect_left(stretches, start, key=attrgetter("start"))
    return stretches[first : bisect_right(stretches, end, key=attrgetter("end"))]


def find_spans(text: str, not_these: Collection[str] = ()) -> list[Span]:
    """Find what a translation of `text` must keep, in order: see the top of this module.

    A URL or a path does not include the punctuation that ends a sentence, nor a closing bracket that was opened before
    it. `not_these` are symbols of the model (user-defined ones, such as <de>), which are not spans.
    """
    has_signs = _SIGN.search(text)
    if not (has_signs or _has_symbols(text)):
        return []
    pattern = _SPAN if has_signs else _SYMBOL_SPAN  # the same spans in a third of the time
    spans, at = list[Span](), 0
    is_chinese = _CHINESE.search(text) is not None
    ends: dict[int, int] | None = None
    while match := pattern.search(text, at):
        start, end = match.span()
        found = match[0]
        if match["currency"] and _NUMBER_BEFORE.search(text[max(0, start - 16) : start]):
            end = start
        elif match["mark"]:
            ends = _ends_of_brackets(text) if ends is None else ends
            end = _end_of_mark(text, start, ends.get(start, start + 1), is_chinese=is_chinese)
        elif match["open"] is None:
            if found[0] == "<" and _is_prose_in_angles(found):
                end = start
            elif "/" in found[:17] or found.startswith("www."):
                end = start + len(_without_tail(found))
        elif found in _ENDS:
            closed = text.find(_ENDS[found], end, end + _REACH)
            end = closed + len(_ENDS[found]) if closed >= 0 else end if found[0] == "\\" else start
        else:
            ends = _ends_of_brackets(text) if ends is None else ends
            end = _end_of_bracket(text, start, end, ends)
        at = max(end, start + 1)
        if end > start and text[start:end] not in not_these:
            spans.append(Span(start, end))
    return spans


def _ends_of_brackets(text: str) -> dict[int, int]:
    """Return where each bracket of `text` that is closed ends, by where it opens."""
    ends: dict[int, int] = {}
    waiting: dict[str, list[int]] = {closing: [] for closing in _ALL_CLOSING.values()}
    for match in _BRACKETS.finditer(text):
        if match[0] in _ALL_CLOSING:
            waiting[_ALL_CLOSING[match[0]]].append(match.start())
        elif waiting.get(match[0]):
            ends[waiting[match[0]].pop()] = match.end()
    return ends


def _end_of_bracket(text: str, start: int, opened: int, ends: dict[int, int]) -> int:
    """Return the end of the span whose bracket opens at [start, opened) of `text`; `start` if it is prose."""
    opening = text[start:opened]
    if opening == "((":
        end = ends.get(start, start)
        return end if text[end - 2 : end] == "))" else start
    end = ends.get(opened - 1, start)
    if opening != "[" or end == start:
        return end
    inside = text[opened : end - 1]
    if inside[:1] == "[" and inside[-1:] == "]":
        return end
    word = inside.strip()
    before, after = text[max(0, start - 8) : start].rstrip(), text[end : end + 8].lstrip()
    is_link = text[end : end + 1] == "("  # in Markdown
    if is_link or (" " in word and "=" not in word):
        is_prose = True
    elif not word.replace("-", "").isalpha():
        is_prose = word[:-1].isalpha() and word[-1] in ".!?…"
    elif word.lower() == word.upper():  # in a script without case, and mostly without spaces
        is_prose = True
    elif text.find(f"[/{word}]", end, end + _REACH) >= 0:
        is_prose = False
    elif re.search("[A-Za-z0-9]", text[start - 1 : start] + text[end : end + 1]):  # [t]he dog[s]
        is_prose = True
    elif before[-1:].isalnum() or before[-1:] == ",":  # within a clause, it stands for a word
        is_prose = False
    else:  # a remark stands before or after a sentence: [Applause] Thank you!
        is_prose = not (after[:1].islower() or after[:1] == ",")
    return start if is_prose else end


def _has_symbols(text: str) -> bool:
    return not text.isascii() and bool(_SYMBOL_SIGN.search(text) or _SYMBOL_SIGN_BEYOND.search(text))


def _end_of_mark(text: str, start: int, end: int, *, is_chinese: bool) -> int:
    """Return the end of the span at a bracket that programs do not use, and that ends at `end`; `start` if it is prose.

    Around a sentence, and around all of a line that has spaces, only the bracket is a span.
    """
    mark, inside = text[start], text[start + 1 : min(end - 1, start + _MOST_INSIDE)]
    if mark in CHINESE_QUOTES:
        return start if is_chinese else start + 1
    if is_chinese and mark in CHINESE_PAIRS:
        return end if _IDENTIFIER.fullmatch(inside) else start
    is_line = not (text[start - 1 : start] + text[end : end + 1]).strip("\n")
    is_sentence = inside.count(" ") > (0 if is_line else 2) or inside.endswith((".", "!", "?", "…"))
    is_foreign = has_letters(inside) and inside.lower() == inside.upper()  # no placeholder is in a script without case
    return start + 1 if is_sentence or is_foreign or end - start > _MOST_INSIDE else end


def _is_prose_in_angles(found: str) -> bool:
    """Return whether <…> quotes prose: more than three words, or a sentence; a tag with attributes is none."""
    inside = found[1:-1]
    return " " in inside and "=" not in inside and (inside.count(" ") > 2 or inside[-1] in ".!?…")


def _without_tail(url: str) -> str:
    """Return `url` without the punctuation of the sentence around it."""
    end = len(url)
    surplus = {closing: url.count(closing) - url.count(opening) for opening, closing in _CLOSING.items()}
    while end > 0:
        last = url[end - 1]
        if last in surplus and surplus[last] > 0:
            surplus[last] -= 1
        elif last not in _SENTENCE_PUNCTUATION:
            break
        end -= 1
    return url[:end]


def is_symbol(span: str) -> bool:
    """Return whether a span consists of symbols, such as ♪ and emoji."""
    return _ONLY_SYMBOLS.fullmatch(span) is not None


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return `text` with each of `spans`, in ascending order, replaced by its replacement."""
    parts, end = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[end : span.start], replacement]
        end = span.end
    return "".join([*parts, text[end:]])
