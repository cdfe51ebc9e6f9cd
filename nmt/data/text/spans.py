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
from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from nmt.base.patterns import lazy_pattern
from nmt.data.text.numbers import CURRENCIES, has_letters

NUM_PLACEHOLDERS = 8
PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, NUM_PLACEHOLDERS + 1))
ANY_PLACEHOLDER = re.compile("|".join(PLACEHOLDERS))

# In the patterns, \i stands for the characters that begin a name, \c for those of a name, as in XML Schema: not \w,
# because in Chinese a name and the words around it are not separated by spaces. Every repetition is bounded, or of
# characters that cannot start what follows it, so matching takes linear time. «name» stands for the part of that name.
_BEGIN_NAMES = r"A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
_PARTS = {
    "name": r"[\i][\c]{0,63}",
    "not after a number": r"(?<!\d)(?<!\d[ \u00a0\u202f])",  # 50 %der Leute, 20 $US
    "begins": r"(?<![^\s(\[{\"'“„«‹>,;¿¡\u2e80-\u9fff\uac00-\ud7af\u0e00-\u0e7f])",
    "operand": r"(?:\d(?:[\d.,]{0,20}\d)?|\d{0,9}(?<![A-Za-z])[A-Za-z]{1,2})[²³⁰-₉]{0,9}(?![\i])",
    "operator": r"\s?[-+*/×÷·−]\s?",
    "attribute": r"""\s{1,8}[\c:@.-]{1,64}\s?=\s?(?:"[^"<\n]{0,500}"|'[^'<\n]{0,500}'|[^\s"'<>=]{1,500})""",
    "arguments": r"(?:\((?:[^()\s]{0,64}|[^()\n]{0,100}[$'\"][^()\n]{0,100}|[^()\s]{0,64}\(\)[^()\n]{0,64})\))?"
    r"(?:(?:->)?(?:\[[^\[\]\n]{1,64}\]|\{[^{}\n]{1,64}\})){0,4}",
    "part": r"[\c@%+~-]",
}

# Blocks of symbols and of icons, and single ones. In the first block, what is a letter or digit belongs to words.
_WITHIN_16_BITS = (
    "¦©®¹²³⁰⁴-⁹₀-₉\u058d\u058e\u0fd5-\u0fd8†‡※⁂\u2190-\u2bff\u2e50\u2e51\u2ff0-\u2ffb〄〒〓"
    "\u3020\u3036\u3037\u303e\u303f\u31c0-\u31e3\u4dc0-\u4dff\uffe2\uffe4\uffe8-\uffee\ufffc\ufffd\ue000-\uf8ff"
)
_BEYOND_16_BITS = (
    "\U00010137-\U000101fc\U0001cf50-\U0001d172\U0001d17b-\U0001d37f𝛁𝛛𝛻𝜕𝜵𝝏𝝯𝞉𝞩𝟃\U0001f000-\U0001fbff"
    "\U000f0000-\U0010fffd"
)
SYMBOL = rf"[{_WITHIN_16_BITS}{_BEYOND_16_BITS}]|[\u2100-\u218f](?<![\w℃℉№])"
_EMOJI_OF_TWO = "[‼⁉ℹ〰〽㊗㊙]\ufe0f|[0-9#*]\ufe0f?\u20e3"  # in one character, they are words or punctuation
SYMBOL_RUN = (
    rf"(?:(?:{SYMBOL}|{_EMOJI_OF_TWO})"
    r"(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d\S)*)+"
)
# What a word, a number or a single letter beside it owns: currencies; degrees, operators, accents, units.
_OWNED = "§°¬±×÷¨¯´¸˂-˅˒-˟˥-˫˭˯-˿⁄⁒⁺-⁼₊-₌؆؇℃℉№\u3200-\u33ff﹢﹤-﹦＋＜-＞｜～"
# A sign that a vocabulary may lack, with its number, but not one of another cell or line, or as in °C. In small
# classes, which are compiled at once.
OWNED_SIGN = (
    r"(?:(?<!\w)\d(?:[\d.,]{0,20}\d)?[ \u00a0\u202f]?)?"
    r"(?P<sign>[$¢-¥§°±×÷]|[\u20a0-\u20cf]|[\u2100-\u218f]|[֏؋৲৳૱௹฿៛﷼])"
    r"(?:(?:[ \u00a0\u202f]?\d(?:[\d.,]{0,20}\d)?|[A-Z])(?!\w))?"
)
PAIRS = "⁅⁆⌈⌉⌊⌋❨❩❪❫❬❭❰❱❲❳❴❵⟅⟆⟦⟧⟨⟩⟪⟫⟬⟭⟮⟯⦃⦄⦅⦆⦇⦈⦉⦊⦋⦌⦍⦎⦏⦐⦑⦒⦓⦔⦕⦖⦗⦘⧘⧙⧚⧛⧼⧽⸢⸣⸤⸥⸦⸧⸨⸩⹕⹖⹗⹘⹙⹚⹛⹜"
CHINESE_PAIRS = "【】〔〕〖〗〘〙〚〛［］｛｝｟｠"
CHINESE_QUOTES = "〈〉《》「」『』｢｣"  # and of titles
BRACKETS = PAIRS + CHINESE_PAIRS  # each opening one before its closing one, other than those of ASCII

_PATTERNS = {
    "attribute": r"(?<![\c\"'=<])[\i@#*(\[:][\c:@.()\[\]-]{0,63}=(?:\"[^\"<>\n]{0,200}\"|'[^'<>\n]{0,200}')",
    "url": r"(?:(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,15}:(?://|(?=\?\w{1,16}=))|(?<![A-Za-z0-9])www\.(?=[\c]))"
    r"[\c\-.~:/?#\[\]@!$&'()*+,;=%{}]+",
    "e-mail": r"(?<![\c.%+@-])(?:(?:mailto|sips?|xmpp):|@)?(?:[\c.%+-][\c.%+'-]{0,63}|\"[^\"\s][^\"\n]{0,62}\")@"
    r"(?:(?:[\c-]{1,63}\.){1,8}[\i]{2,63}|(?:\d{1,3}\.){3}\d{1,3})(?![\c])",
    "host": r"(?<![\c.@/-])[A-Za-z](?:[A-Za-z0-9-]{0,62}\.(?=[A-Za-z0-9])){1,5}(?:[a-z]{2,12}|[A-Z]{2,12})(?::\d{1,5})?"
    r"/[\c%?=&#./~+@-]+",
    "formula in dollars": r"\$\$[^$\n]{1,500}\$\$|"
    r"(?<![A-Za-z0-9$])\$(?![\s$])[^$\n]{0,200}?[\\^_={}][^$\n]{0,200}(?<!\s)\$(?![A-Za-z0-9$])",
    "interpolation": r"\\\((?:[^()\\\n]|\([^()\\\n]{0,200}\)){1,200}\)",
    "regular expression": r"\[\^?[^\[\]\s]{0,64}\w-\w[^\[\]\s]{0,64}\](?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})"
    r"|\^\S{1,200}\$(?!\w)|\[\^[^\[\]\s]{1,64}\](?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})"
    r"|(?<![\c/])[sy]/[^/\s]{1,64}/[^/\s]{0,64}/[gimsx]{0,4}(?![\c/])|\(\?(?:[:=!>]|<[=!]|P?<\w{1,64}>)[^()\n]{0,200}\)[*+?]?|\[\w{1,64}\](?:\.\[\w{1,64}\]){1,8}",
    "bracket": r"(?P<open>(?:@:|\$!|[$#%@&!*])?\{|[$@]\w{0,32}\(|[$&@#]\[|\[|\(\(|<%(?!\w+>)|<\?|<!--|\\[(\[])",
    # In <…>, more than three words, or a sentence, are prose, unless they are attributes.
    "tag": r"<(?P<empty>[\c.:-]{1,64})></(?P=empty)>"
    r"|(?<!<)<(?:/?\d{1,9}\s?/?|/?[\i][\c:.-]*\s?/?|[\i][\c:.-]*(?:«attribute»){1,16}\s?/?"
    r"|[\i](?:(?=[^<>\n]*[=$])[^<>\n]*[^\s<>]|[^\s<>]*(?:(?:[ \u00a0][^\s<>]+){1,2}(?<![.!?…]))?)"
    r"|/?[@#!$&%:][^<>\n]{0,200}[^<>\s])>|</>|&lt;/?[\i][^&<>\n]{0,200}&gt;|<<(?:[\c]+|[^<>\n]{1,200}[$=][^<>\n]{0,200}|[^\s<>]{1,200}:[^\s<>]{0,200})>>",
    "entity": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    "code": r"(?<![\c:])(?::[a-z][a-z+-]{0,31}){1,3}:`[^`\n]{1,200}`"
    r"|(?P<ticks>`{2,3})(?!`)[^\n]{1,500}?(?<!\s)(?P=ticks)(?!`)|`(?![`\s])[^`\n]{1,500}(?<!\s)`(?!`)",
    "name between signs": r"(?<![\c$%#@~^|:])(?P<sign>[$%#@~^|:&£€§]{1,2}|__|==|\+\+|--|!)"
    r"[\i][\c.-]{0,63}(?P=sign)(?![\c%])|\*\|[^|*\n]{1,64}\|\*|%%=[^%\n]{1,200}=%%|'{3,}"
    r"|(?<=\})\|[a-z]{2,16}\([^()\n]{0,200}\)",
    "conversion": r"%%(?:\d(?!\d)|[A-Za-z](?!\w))?|(?<![\d%])(?:%s\d(?!\w)|(?:%[1-9]){2,9}(?![%$\c]))"
    r"|(?<![\d%])%(?:[1-9]|L(?:\d{1,2}|n))(?![%$\c]|[.,]\d)|(?<!%)«not after a number»%"
    r"(?:(?:\d\$)?#@\w{1,64}@|~\w{1,9}|\"\s?\w{1,32}\s?\")"
    r"|(?<!%)«not after a number»%(?:(?:\d{1,2}|m)\$|\(\w{1,64}\)|<\w{1,64}>)?[-+#0']{0,4}(?:\[\d\])?"
    r"(?:\d{0,4}|\*(?:\d\$)?)(?:\.(?:\d{1,3}|\*))?(?:\[\d\])?"
    r"(?:(?:hh?|ll?|[LzZjt])[diouxX]|l[cs]|t[A-Za-z]|[A-Za-z@])(?![A-Za-z]{2})"
    r"|(?<=\d[ \u00a0\u202f])%(?:\d\$)?(?:\.\d)?(?:ll?|z)?[diufgxs](?![\c’'])",  # 12 %d, but not 12 %ige
    "number after a sign": r"(?<![\w$])\$[1-9](?![\w%]|[.,]\d)",
    "name after a sign": r"(?<![\c$])\$[A-Z_]{2,32}(?:/[\c.-]{1,64})+|[$@]<[\i][\c.-]{0,63}>"
    r"|#[A-Z]{1,5}(?:/[A-Z0]!?|[!?])(?!\w)|(?<![\c$%#@&/])«not after a number»"
    r"(?:@@?(?:[a-z]{2,16}:)?[a-z]{2,16}/|\$[.!]?|&&|%|#[$@]?|@@?(?:\.?[\c]{0,32}:)?)"
    r"«name»(?:(?:[.-]|->|::|:(?=[A-Z]))(?:\$?«name»)|\$(?=[A-Z])«name»|(?<=[A-Z])\$\d{1,7}){0,8}«arguments»(?:->«name»«arguments»){0,4}"
    r"|«begins»(?:(?:[:!]{1,2}|--)[a-z_][\c]{1,63}(?:[.:/-]«name»){0,8}(?![\c!:])"
    r"(?:(?<=[\c])=[^\s,;]{0,200}[^\s.,;:!?])?|«not after a number»\$[@*#?$](?!\w)|\?[a-z]{2,16}/«name»"
    r"|[?^&]\d(?![\c]|[.,]\d)|-[A-Za-z](?![\c'’/-])|\|(?:[a-z]|c[0-9A-Fa-f]{8})(?![\c])"
    r"|~(?:[A-Za-z](?![\c])|%(?![a-z](?!\w)))(?:~(?:[A-Za-z](?![\c])|%)){0,8})",
    "path": r"(?<=\]\()(?=[^\s()]{0,500}[./#_])[^\s()]{1,500}(?=\))"  # of a link
    r"|(?<![\c])[A-Z][A-Z0-9_]{1,31}(?:\\[A-Z][\c-]{0,64}){1,8}"
    r"|(?<![\c])[A-Za-z]:\\(?:«part»+(?: «part»+){1,3}\\)+«part»*"
    r"|(?<![\c])(?:[A-Za-z]:[\\/]|\\\\\w)«part»*(?:[.\\/]{1,3}«part»+)*[\\/]?"
    r"|(?<![\c/.<])(?:~|\.{1,2})?/\.?«part»+(?:[./]{1,3}«part»+)*/?"
    r"|(?<![\c/.@-])(?:(?:«part»{1,64}/){1,20}|[\c-])[\c-]{1,64}(?:\.[\c-]{1,64}){0,3}"
    r"\.[a-z][a-z0-9]{1,3}(?![\c(-]|\.[\c])|(?<![\c*])\*\.[a-z][a-z0-9]{1,4}(?![\c])"
    r"|(?<![\c/.@-])[A-Za-z]{2}[\c-]{0,32}\d[\c-]{0,32}\.[A-Z][A-Z0-9]{2,3}(?![\c(-])"
    r"|(?<![\c/.@*-])[\c-]{1,64}/\*{1,2}/[\c*./-]+"
    r"|(?<![\c:])(?=[0-9a-fA-F]{0,4}:[0-9a-fA-F]{0,4}:)(?=[0-9:]*(?:[a-fA-F]|::))"
    r"(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?:%\w{1,16})?(?![\c:])"
    r"|(?<![\c.:/])[a-z][a-z0-9]{1,15}:(?=\S{0,64}\d)(?:[A-Za-z0-9_]{0,64}[:/.+-]){1,20}[\c-]{0,64}[\c]"
    r"|(?<![\w.])(?=\d{1,3}\.\d{1,3}\.\d)(?!\d{1,3}(?:\.\d{3})+(?!\.?\d))\d{1,3}(?:\.\d{1,3}){3}(?:[/:]\d{1,5})?(?![\w.]\w)"
    r"|(?<![\c/])[ru]/[\i][\c]{1,32}(?![\c/])"
    r"|(?<![\c.@/])[a-z][a-z0-9._-]{1,31}@[a-z][a-z0-9-]{1,31}(?![\c@])",
    "escape": r"(?:\x1b|\\(?:033|x1b|e))\[[\d;]{0,32}[A-Za-z]"
    r"|~?\\(?:[A-Za-z]{1,32}\*?(?:\[[^\[\]\n]{0,200}\]|\{[^{}\n]{0,200}\}){1,4}|u[0-9A-Fa-f]{4}"
    r"|x[0-9A-Fa-f]{2}|[dDsSwW][*+?]|(?<=\w\\)[nrt]|[nrt](?![a-z])|[A-Za-z]{1,32}(?!/)|\d{1,3}|[^\w\s])|~{3,5}(?!\w)",
    "macro": r"(?<![\c])[a-z]{2,16}::?[^\s\[\]]{0,64}\[[^\[\]\n]{0,200}\]|(?<!\S)\.\. \w{1,32}::(?!\S)",
    "name of a program": r"(?<![\c])[A-Z][\c]{0,63}<(?:[EKRSTV]|[A-Z][a-z][\c]{0,63})(?:,\s?[A-Z][\c]{0,63}){0,3}>"
    r"|(?<![\c])[a-z_][\c]{0,63}\((?:[:@$][\c.]{1,64}|'[^'\n]{0,64}'|\"[^\"\n]{0,64}\")\)|(?<![\c])[A-Za-z_][\c]{0,63}\[\]"
    r"|(?<![\c])(?:[a-z0-9]{2,16}-){1,3}[A-Za-z0-9]{2,64}_[\c]+|(?<![\c])(?:(?:[A-Za-z0-9]{2,64}_[\c]+|[A-Za-z0-9]_[\c]{2,64})(?:\(\))?|_{3,}"
    r"|(?:(?<![^\s\"'(])--?)?[A-Za-z_][A-Za-z0-9_.]{0,63}(?:\(\)|(?:::|->)«name»(?:<[^<>\n]{1,64}>)?(?:\(\))?|=[\c\"'.²³/+*^-]{0,200}[\c\"'²³]))",
    "formula": r"(?<![\c.])(?:«operand»«operator»){0,8}«operand»\s?[=≤≥≈]\s?«operand»"
    r"(?:(?:«operator»|\s?=\s?)«operand»){0,8}",
    "code word": r"(?<![\c])(?:'[^'\n]{1,31}'|[A-Z][\c]{0,31})!\$?[A-Z]{1,3}\$?\d{1,7}"
    r"(?::\$?[A-Z]{1,3}\$?\d{1,7})?(?![\c])"
    r"|(?<![\c-])[A-Z]{1,4}-?\d[A-Z0-9]*(?:-[A-Z0-9]+)*(?![\c])"
    r"|(?<![\c])(?:#[0-9A-Fa-f]{6}|0x[0-9A-Fa-f]{1,16}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|v?\d{1,4}(?:\.\d{1,4}){1,3}-[a-z]{1,8}\.?\d{0,4}|v\d{1,4}(?:\.\d{1,4}){1,3})(?![\c])"
    r"|(?<![\c-])(?:(?:[A-Za-z]{1,9}\d{1,9}){2,9}[A-Za-z]{0,9}|(?:\d{1,9}[A-Za-z]{1,9}){2,9}\d{1,9})(?![\c])",
    "bracket or quote": rf"(?P<mark>[{BRACKETS}{CHINESE_QUOTES}])",
    "symbol": r"(?<![\c])[A-Za-zͰ-Ͽ]{0,2}(?:[\u2190-\u22ff¬][A-Za-zͰ-Ͽ]{1,2}(?![\c]))+"  # x∈A
    r"|(?<![\i])(?:[A-Za-zµ]{1,3}[²³]|[A-Z][A-Za-z()]{0,32}[₀-₉][\c₀-₉()]{0,32}[⁺⁻]?)(?![\i])"  # m², H₂O
    rf"|{SYMBOL_RUN}(?:(?<=[\u2190-\u23ff])(?:\s?\+\s?)?(?:[A-Z0-9]|F\d{{1,2}})(?!\w))?",  # ⌘ + S
    "symbol without a word": r"(?<!\w)(?<!\d\s)(?<!^[^\W\d_]\s)(?<![^\w][^\W\d_]\s)"
    rf"(?:§[A-Za-z!](?![a-z\d_])|\d?>&\d(?!\w)|(?:(?P<currency>[{CURRENCIES}])|[{_OWNED}]|(?<!\S)(?:[+=|~<>^]|[=!<>]=|<>|[|&]{{2}}"
    r"|\|>|<?[-=]{1,2}>|<[-=]{1,2})(?![^\s.,;!?]))(?!\w|\s\d|\s[^\W\d_](?!\w)))",
}
PATTERNS = {
    name: re.sub("«(.*?)»", lambda match: _PARTS[match[1]], pattern)
    .replace(r"\c", r"\i0-9")
    .replace(r"\i", _BEGIN_NAMES)
    for name, pattern in _PATTERNS.items()
}
"""The beginnings of spans, by their names, in the order of trial; the names are for readers only."""

_NUMBERED = lazy_pattern(PATTERNS["number after a sign"])
_SPAN = lazy_pattern("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()))
SIGN = (  # begins with one set of characters, which is faster to find than one of several patterns
    r"[@<&{%⟦\[`$\\#_~^|=≤≥≈:/!?.(\d+>'-](?:(?<=[@<&{%⟦\[`$\\_~^|=≤≥≈])|(?<=#)\S|(?<=[:/!])[\w.~+-]|(?<=:):|(?<=\.)[a-z/]"
    r"|(?<=-)(?:-\w|>|[A-Za-z](?![\w'’/-]))|(?<=\()[()]|(?<=[A-Zv]\d)|(?<=[A-Z]-\d)|(?<=[+>])(?!\S)|(?<=\+)\+"
    r"|(?<=')''|(?<=\?)[a-z\d]|(?<=\d)(?:[A-Za-z]{1,9}|\.\d{1,4}\.)\d|(?<=\()\?|(?<=0)x[0-9A-Fa-f])"
)
# Every span contains one of these; finding them is fast, in classes within 16 bits and beyond.
_SIGN = lazy_pattern(SIGN)
SYMBOL_SIGN = rf"[\ufe0f\u20e3{_WITHIN_16_BITS}{BRACKETS}{CHINESE_QUOTES}{_OWNED}{CURRENCIES[1:]}\u2100-\u218f]"
SYMBOL_SIGN_BEYOND = f"[{_BEYOND_16_BITS}]"
_SYMBOL_SIGN = lazy_pattern(SYMBOL_SIGN)
_SYMBOL_SIGN_BEYOND = lazy_pattern(SYMBOL_SIGN_BEYOND)
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
_APART = "<&" + BRACKETS + CHINESE_QUOTES
_SENTENCE_PUNCTUATION = ".,;:!?'"


class Span(NamedTuple):
    """A stretch [start, end) of a text, in characters."""

    start: int
    end: int

    def shifted(self, by: int) -> Span:
        """Return the same stretch of a text with `by` characters more before it."""
        return Span(self.start + by, self.end + by)

    def overlaps(self, other: Span) -> bool:
        """Return whether both have a character in common, or one is within the other."""
        return self.start < other.end and other.start < self.end


Stretch = TypeVar("Stretch")
"""A span, or something else with a start and an end, such as the match of a term."""


def within(stretches: Sequence[Stretch], start: int, end: int) -> Sequence[Stretch]:
    """Return those of `stretches`, which ascend, that are in [start, end) of their text."""
    first = bisect_left(stretches, start, key=attrgetter("start"))
    return stretches[first : bisect_right(stretches, end, key=attrgetter("end"))]


def matches_outside(pattern: str | re.Pattern[str], text: str, spans: Collection[Span]) -> list[re.Match[str]]:
    """Return the matches of `pattern` in `text` that overlap none of `spans`."""
    matches = [*re.finditer(pattern, text)]
    covered = {at for span in spans for at in range(*span)} if matches else set()
    return [match for match in matches if covered.isdisjoint(range(*match.span()))]


def find_spans(text: str, not_these: Collection[str] = ()) -> list[Span]:
    """Find what a translation of `text` must keep, in order: see the top of this module.

    A URL or a path does not include the punctuation that ends a sentence, nor a closing bracket that was opened before
    it. `not_these` are symbols of the model (user-defined ones, such as <de>), which are not spans.
    """
    has_symbols = not text.isascii() and (_SYMBOL_SIGN.search(text) or _SYMBOL_SIGN_BEYOND.search(text))
    if not (has_symbols or _SIGN.search(text)):
        return []
    spans: list[Span] = []
    at = 0
    is_chinese = max(text) > "\u303f" and _CHINESE.search(text) is not None  # which takes long to compile
    numbered = {*_NUMBERED.findall(text)}  # placeholders, if they count from 1
    prices = () if "$1$2$3$4$5$6$7$8$9".startswith("".join(sorted(numbered))) else numbered
    ends = _ends_of_brackets(text)
    while match := _SPAN.search(text, at):
        start, end = match.span()
        found = match[0]
        if found in prices or (match["currency"] and _NUMBER_BEFORE.search(text[max(0, start - 16) : start])):
            end = start
        elif match["mark"]:
            end = _end_of_mark(text, start, ends.get(start, start + 1), is_chinese=is_chinese)
        elif match["open"] is None:
            if ("/" in found[:17] and found[0] not in "&#") or found.startswith("www."):
                end = start + len(_without_tail(found))
        elif found in _ENDS:
            closed = text.find(_ENDS[found], end, end + _REACH)
            end = closed + len(_ENDS[found]) if closed >= 0 else end if found[0] == "\\" else start
        else:
            end = _end_of_bracket(text, start, end, ends)
        at = max(end, start + 1)
        if end > start and text[start:end] not in not_these:
            is_joined = bool(spans) and spans[-1].end == start and _joins(text[slice(*spans[-1])], text[start:end])
            spans.append(Span(spans.pop().start if is_joined else start, end))
    return spans


def _joins(*parts: str) -> bool:
    """Return whether spans without anything between them are one, as in %s%d; tags, entities and symbols are not."""
    return not any(part[0] in _APART or is_symbol(part) for part in parts)


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
    is_prose = opening == "[" and end > start and _is_remark(text, start, end)
    return start if is_prose else end


def _is_remark(text: str, start: int, end: int) -> bool:
    """Return whether the square brackets around [start, end) of `text` are those of prose."""
    inside = text[start + 1 : end - 1]
    word = inside.strip()
    if inside.startswith("[") and inside.endswith("]"):
        return False
    if text.startswith("(", end) or (" " in word and "=" not in word):  # a link in Markdown, or several words
        return True
    if not word.replace("-", "").isalpha():
        return word[:-1].isalpha() and word[-1] in ".!?…"
    if word.lower() == word.upper():  # in a script without case, and mostly without spaces
        return True
    if text.find(f"[/{word}]", end, end + _REACH) >= 0:
        return False
    if re.search("[A-Za-z0-9]", text[start - 1 : start] + text[end : end + 1]):  # [t]he dog[s]
        return True
    before = text[max(0, start - 8) : start].rstrip()[-1:]
    after = text[end : end + 8].lstrip()[:1]
    # Within a clause, it stands for a word; a remark stands before or after a sentence: [Applause] Thank you!
    return not (before.isalnum() or after.islower() or "," in (before, after))


def _end_of_mark(text: str, start: int, end: int, *, is_chinese: bool) -> int:
    """Return the end of the span at a bracket that programs do not use, and that ends at `end`; `start` if it is prose.

    Around a sentence, and around all of a line that has spaces, only the bracket is a span.
    """
    mark = text[start]
    inside = text[start + 1 : min(end - 1, start + _MOST_INSIDE)]
    if mark in CHINESE_QUOTES:
        return start if is_chinese else start + 1
    if is_chinese and mark in CHINESE_PAIRS:
        return end if _IDENTIFIER.fullmatch(inside) else start
    is_line = not (text[start - 1 : start] + text[end : end + 1]).strip("\n")
    is_sentence = inside.count(" ") > (0 if is_line else 2) or inside.endswith((".", "!", "?", "…"))
    is_foreign = has_letters(inside) and inside.lower() == inside.upper()  # no placeholder is in a script without case
    return start + 1 if is_sentence or is_foreign or end - start > _MOST_INSIDE else end


def _without_tail(url: str) -> str:
    """Return `url` without the punctuation of the sentence around it."""
    surplus = Counter({closing: url.count(closing) - url.count(opening) for opening, closing in _CLOSING.items()})
    end = len(url)
    while end > 0 and (surplus[url[end - 1]] > 0 or url[end - 1] in _SENTENCE_PUNCTUATION):
        end -= 1
        surplus[url[end]] -= 1
    return url[:end]


def is_symbol(span: str) -> bool:
    """Return whether a span consists of symbols, such as ♪ and emoji."""
    return _ONLY_SYMBOLS.fullmatch(span) is not None


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return `text` with each of `spans`, in ascending order, replaced by its replacement."""
    parts = []
    end = 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[end : span.start], replacement]
        end = span.end
    return "".join([*parts, text[end:]])
