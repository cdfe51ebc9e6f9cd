"""Spans of text that a translation must keep verbatim, and the placeholders that replace them.

A placeholder is a user-defined symbol of the tokenizer, `⟦1⟧` to `⟦8⟧`: one token that is never split, whatever the
type of the tokenizer. Placeholders are numbered from 1 in source order.

A span is what is not made of words, numbers and the punctuation of prose: what the brackets of programs enclose, a name
after or between signs, tags, code, formulas, paths, codes. The rules say what prose does not do, because no list of
formats would be complete. The page of `nmt export web` has the same (nmt/apps/web/static/text.js), with these patterns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from nmt.base.patterns import lazy_pattern

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
    "placeholder": r"⟦\d{1,3}⟧",
}
"""What begins a span, by what it is called, in the order of trial; the names are for readers only."""

_SPAN = lazy_pattern("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()))
SIGN = (  # begins with one set of characters, which is faster to find than one of several patterns
    r"[@<&{%⟦\[`$\\#_~^|=≤≥≈:/!.(\d-](?:(?<=[@<&{%⟦\[`$\\#_~^|=≤≥≈])|(?<=[:/!])[\w.~]|(?<=\.)[a-z/]|(?<=-)(?:-\w|>)"
    r"|(?<=\()[()]|(?<=[A-Z]\d)|(?<=[A-Z]-\d))"
)
_SIGN = re.compile(SIGN)  # every span contains one; finding them is fast
_BRACKETS = re.compile(r'"[{}]"|[{}()\[\]]')  # those in quotes are none
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_ENDS = {"<%": "%>", "<?": "?>", "<!--": "-->", "\\(": "\\)", "\\[": "\\]"}
_REACH = 4000  # characters after which the end of what is opened is not looked for
_SENTENCE_PUNCTUATION = ".,;:!?'"


class Span(NamedTuple):
    """A stretch [start, end) of a text, in characters."""

    start: int
    end: int


def find_spans(text: str, not_these: Collection[str] = ()) -> list[Span]:
    """Find what a translation of `text` must keep, in order: see the top of this module.

    A URL or a path does not include the punctuation that ends a sentence, nor a closing bracket that was opened before
    it. `not_these` are symbols of the model (user-defined ones, such as <de>), which are not spans.
    """
    if not _SIGN.search(text):
        return []
    spans, at = list[Span](), 0
    ends: dict[int, int] | None = None
    while match := _SPAN.search(text, at):
        start, end = match.span()
        found = match[0]
        if match["open"] is None:
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
    waiting: dict[str, list[int]] = {closing: [] for closing in _CLOSING.values()}
    for match in _BRACKETS.finditer(text):
        if match[0] in _CLOSING:
            waiting[_CLOSING[match[0]]].append(match.start())
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


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return `text` with each of `spans`, in ascending order, replaced by its replacement."""
    parts, end = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[end : span.start], replacement]
        end = span.end
    return "".join([*parts, text[end:]])


def has_letters(text: str) -> bool:
    """Return whether `text` has a letter of any script. Digits, marks, symbols and emoji are no letters."""
    return any(map(str.isalpha, text))
