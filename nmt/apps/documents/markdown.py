"""Read Markdown: CommonMark and GFM, and the marks that sites, books and editors add to them.

markdown-it finds the blocks, with their lines, and the inline markup. The places in a line, and all that is not
translated, are found and kept here, to the byte. Marks that CommonMark does not know are shown to it as its own of the
same effect: a note as an item of a list, a formula as a comment.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from html import unescape
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from nmt.apps.documents.blocks import Block, Form, Item, Template, split_lines
from nmt.apps.documents.markup import Reader, dialect
from nmt.apps.documents.plain import opening_of, wrapping
from nmt.apps.documents.strings import read_message

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_MAX_NESTING = 60  # of lists, quotes and inline markup; what is deeper stays as it is
_FRONT_MATTER = re.compile(
    r"\A\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n(?=(?:(?!\1).*\n)*?[^\n]*[:=])(?:.*\r?\n)*?(?:\1|\.\.\.)"
    r"|\{\r?\n(?:.*\r?\n)*?\})[ \t]*(?:\r?\n|\Z)"
)
_PREFIX = r"^(?P<prefix>(?:[ \t]|>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))*)"
_LINES = r"(?:(?!\n[ \t>]*\n).){0,3000}?"  # without a blank one
_EXPRESSION = r"\{(?:[^{}]|\{[^{}]{0,500}\}){1,999}+\}"
# Code, formulas, and what fills templates, in lines of their own; of limited length, so that the time is.
_REGION = re.compile(
    rf"{_PREFIX}"
    r"(?:\{%-?[ \t]*(?P<liquid>raw|highlight|code\w*|mermaid|comment)\b.{0,20000}?"
    r"\{%-?[ \t]*end(?P=liquid)[ \t]*-?%\}"
    r"|\{\{[<%][ \t]*(?P<hugo>highlight|mermaid|code\w*|katex|math\w*)\b.{0,20000}?"
    r"\{\{[<%][ \t]*/[ \t]*(?P=hugo)[ \t]*[%>]\}\}"
    rf"|\\begin\{{(?P<environment>\w+\*?)\}}{_LINES}\\end\{{(?P=environment)\}}"
    rf"|\$\${_LINES}\$\$|\\\[[ \t]*\n{_LINES}\\\]|%%[ \t]*\n{_LINES}%%"
    rf"|\{{\{{[<%]{_LINES}[%>]\}}\}}|\{{%{_LINES}%\}}|\{{#{_LINES}#\}}|\{{/\*{_LINES}\*/\}}"
    r"|\{:[^{}\n]*\}|\\[a-z]+(?:[\[{][^\[\]{}\n]*[\]}])*"
    # Of MDX: imports, expressions, components with expressions as attributes, ends of components.
    r"|(?P<code>(?:import|export)[ \t][^\n`]*(?:[{(\[][ \t]*\n.{0,5000}?\n[})\]][^\n]*"
    r"|[ \t]from[ \t]+['\"][^'\"\n]*['\"]|(?<=[ \t])=[ \t][^\n]*)"
    rf"|{_EXPRESSION}|</[A-Z][\w.]*>|<[A-Za-z][\w.]*\s(?=[^<>{{}}]*\{{)(?:[^<>{{}}]|{_EXPRESSION}){{1,999}}+>)"
    # Containers of text in Markdown; labels, and names of files to include.
    r"|<[a-z][\w-]*(?=\s[^<>]*\bmarkdown\b)[^<>]*>|<[A-Z][\w.]*(?:\s[^<>{}]*)?>(?=[ \t]*\n {0,3}[^\s<])"
    r"|\([\w:-]+\)=|:(?:class|name|open|icon|color|margin|align|width|height)(?:-[\w-]+)?:[^\n]*"
    r"|-+8<-+(?:[ \t]*\"[^\"\n]*\")?"
    r"|:{3,}[ \t]*[\w-]*(?:[ \t]*\{[^{}\n]*\})?|\[TOC\]|\[\[_?TOC_?\]\])[ \t;]*$",
    re.DOTALL | re.MULTILINE,
)
# Notes of MyST: text in fences, with options before it.
_DIRECTIVE = re.compile(
    r"^([ \t>]*)(`{3,}|~{3,})(\{(?:note|tip|hint|important|warning|caution|danger|error|attention|seealso|todo"
    r"|admonition|topic|sidebar|dropdown|versionadded|versionchanged|deprecated)\}(?:(?!^\1\2).)*?)^\1\2[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_COMMENT = "<!-- -->"
_FILLER = "\x7f"  # of a comment of several lines; in no text
# Marks that open a line, with the marks of CommonMark that have the same effect on this line and those below.
_OPENINGS = (
    (re.compile(_PREFIX + r"(?<=[ \t])\[[ xX]\][ \t]+(?P<rest>```.*|~~~.*)"), ""),  # - [ ] ```
    (re.compile(_PREFIX + r"(?<=>)[ \t]?\[!\w+\][-+]?[ \t]*(?P<rest>.*)"), "# "),  # > [!NOTE]
    (re.compile(_PREFIX + r"(?:!!!|\?\?\?\+?)[ \t]+[^\"]*(?:\"(?P<rest>.*)\")?[ \t]*$"), "-   # "),  # !!! note "Title"
    (re.compile(_PREFIX + r"===[!+]*[ \t]+\"(?P<rest>.*)\"[ \t]*$"), "-   # "),  # === "Tab"
    (
        re.compile(
            _PREFIX + r":{3,}[ \t]*(?:[\w-]+|\{[\w-]+\})(?:\[(?=.*\]))?[ \t]*(?P<rest>.*?)\]?[ \t]*(?:\{[^{}\n]*\})?$"
        ),
        "# ",
    ),
    # Footnotes, abbreviations, definitions, and verses: `| a` is a line that stays one.
    (
        re.compile(
            _PREFIX + r"(?:\[\^[^\]\s]+\]:[ \t]*|\*\[[^\]\n]+\]:[ \t]+|:[ \t]+|\|[ \t]+(?=[^|\n]*$))(?P<rest>.*)"
        ),
        "-   ",
    ),
)
# Inline markup that CommonMark does not know; of limited length, so that the time for unclosed marks is.
_KEPT = re.compile(
    r"\$\$.{1,1000}?\$\$|\$(?=\S)(?!\$)(?P<math>[^$]{1,500}?)(?<=[^\s\\])\$(?!\w)|\\\((?P<paren>[^\n]{1,500}?)"
    r"\\\)|\\\[(?=[^\n]{0,500}?(?:[\^=]|\\[a-zA-Z]))[^\n]{1,500}?\\\]|\\begin\{(\w+\*?)\}.{1,2000}?\\end\{\3\}"
    r"|\{\{.{1,500}?\}\}|\{%.{1,500}?%\}|\{#[^{}\n]*?#\}|\[\^[^\]\s]{1,200}\](?!\()|\[-?@[^\[\]]{1,200}\](?![(\[])"
    # Names of fields, of roles and tags.
    r"|\{[A-Za-z_$][\w$]*(?:[.(\[]|\s*(?:[?&|<>=!+*-]{1,3})\s)[^{}\n]{1,200}\}|\{[\w:+-]{1,40}\}(?=`)"
    r"|(?<![^\s(])#(?=[\w/-]{0,99}[^\W\d_])\w[\w/-]+"
    r"|(?<![\w:]):[a-z][\w+-]*:(?![\w:])|\+\+[\w+-]+\+\+|(?<![\w./=&])@[\w-]+(?:(?:[/:.]|\\(?=_))[\w-]+)*"
    r"|<(code|kbd|math|pre|samp|script|style|svg|textarea|template|var)\b[^>]{0,500}>.{0,2000}?</\4[ \t]*>"
    r"|<[A-Za-z][\w+.-]{1,31}:[^\s<>]*>|<[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+>|!?\[\[[^\[\]|\n*_`<\\]+\]\](?![(\[])"
    # Marks of what an editor added, deleted, replaced, remarked.
    r"|\{(?:\+\+|--|==|~~|>>[^{}]{0,1000}<<\})|(?:\+\+|--|==|~~)\}|~>"
    rf"|(?P<tag><[A-Za-z][\w.]*\s(?=[^<>{{}}]*=\{{)(?:[^<>{{}}]|{_EXPRESSION}){{1,999}}+>)"
    # Links of wikis, highlighted text, notes in the line, links whose labels other files define: marks around a text.
    r"|(?P<around>!?\[\[[^\[\]|\n]+\\?\|(?=[^\[\]\n]+\]\])|==(?=[^\s=][^=\n]*(?<=\S)==)|(?P<note>\^\[)(?=[^\[\]\n]+\])"
    r"|\[(?=[^\[\]\n*_`<\\]+(?:\]\[[\w:/.-]*[:/.-]|\]\(\{[{%])))"
    r"(?P<text>[^\[\]=\n*_`<\\]+)(?P<close>\]\]|==|\]\[[\w:/.-]+\]"
    r"|\]\(\{(?:\{[^{}\n]{1,200}\}|%[^{}\n]{1,200}%)\}[^\s()]*\)|(?(note)\]|(?!)))"
    r"|(?P<hidden>\A\[[ xX]\][ \t]+(?=\S)|<!--(?:-?>|.{0,1000}?-->)|\{/\*.{0,500}?\*/\}|%%[^%]{1,500}%%"
    r"|(?<=\s)\^[\w-]+(?=[ \t]*(?:\n|\Z))|\{:?[ \t]*(?:[#.][\w:-]+|-|[\w-]+=(?:\"[^\"]*\"|[^\s{}\"]+))"
    r"(?:[ \t]+(?:[#.][\w:-]+|[\w-]+=(?:\"[^\"]*\"|[^\s{}\"]+)))*[ \t]*\})",
    re.DOTALL,
)
# Two words, or an amount; formulas without commands have none.
_PROSE = re.compile(r"[^\W\d_]{3,}[ \t\n]+[^\W\d_]{3,}|\A\d[\d.,]*\s")
_FORMULA = re.compile(r"[\\_^={}]")
# Ends of links, definitions of links, each around a title.
_TITLE = r"((?<=\")(?:[^\"\\]|\\.){1,999}(?=\")|(?<=')(?:[^'\\]|\\.){1,999}(?=')|(?<=\()(?:[^()\\]|\\.){1,999}(?=\)))"
_CLOSE_LINK = re.compile(rf"(.*[ \t\n>][\"'(]){_TITLE}(.\s*\))", re.DOTALL)
_DEFINITION = re.compile(
    r"^([ \t>]*\[(?:[^\[\]\\]|\\.){1,999}\]:\s*(?!#\s)(?:<[^<>\n]*>|[^\s<]\S*)"
    r"[ \t]*(?:\r?\n[ \t>]*)?(?<=[ \t\n])[\"'(])"
    rf"{_TITLE}(.)(?=[ \t]*\r?$)",
    re.MULTILINE | re.DOTALL,
)
# What people read in the front matter of a page, in the options of a cell of code, in attributes and shortcodes.
_VALUE = r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s#&*!\[{].*?(?:\r?\n[ \t]+\S.*?)*)(?=(?:[ \t]+#.*|[ \t\r]*)$)"
_FIELD = re.compile(
    rf"^((?:(?:sub|link)?[Tt]itle|sidebar_label|description|summary|abstract|excerpt)[ \t]*[:=]\s*){_VALUE}",
    re.MULTILINE,
)
_CAPTIONS = r"(?:fig|tbl|lst)[.-](?:cap|alt)"
_OPTION = re.compile(rf"^([ \t>]*(?:#|//|%%|--)\|[ \t]*{_CAPTIONS}:[ \t]*){_VALUE}", re.MULTILINE)
_BRACES = re.compile(r"\{[^{}\n]*\}")
_CAPTION = re.compile(
    rf"\b((?:{_CAPTIONS}|caption|alt|(?:sub)?title|description|summary|head(?:er|ing)|tooltip|text)=\"){_TITLE}(\")"
)
_PLACED = re.compile(
    rf"""(\s\")(?=[^\W\d_](?:[^\"=<>{{}}]*[^\W_])?[,;:]?\s[^\W\d_]){_TITLE}(\")"""
)  # a text of a shortcode by its place
_ANCHOR = re.compile(r"""((?:\]\(|\]:[ \t]+|\shref=["'])#)([^\s()"'<>]+)""")
_NOT_OF_HEADING = re.compile(r"\]\([^()]*\)|\]\[[^\]]*\]|</?[A-Za-z][^<>]*>|\{[^{}]*\}")  # addresses, tags, attributes
_RAW = re.compile(r"[ ]*<(?:script|pre|style|textarea|[!?])", re.IGNORECASE)
_HARD_BREAK = re.compile(r"(?:[ \t]*\\|[ \t]+)\n[ \t]*\Z")
_STARTS = r"#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|=+\s*$|-+\s*$|~~~|```|[|:]"
_OPENS_BLOCK = re.compile(rf"{_STARTS}|\d{{1,9}}[.)](?=\s|$)|<[A-Za-z/!?]|!!!|\[[^\]]*\]:|\$\$|\{{[%{{:]|[*_-]{{3,}}")
_START = re.compile(rf"\A(?:(?={_STARTS})|(\d{{1,9}})(?=[.)](?:\s|$)))")
_SPECIAL = (
    r"(?P<kept>https?://[^\s<>]+|\s\*+(?=\s))|\\(?=[!-/:-@\[-`{-~]|\Z)|`|\*|(?<![^\W_])_|_(?![^\W_])|~(?=~)|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w{1,31};)|\](?=[(\[:])|\[(?=\^)|!\Z"
)
_BRACKETS = rf"{_SPECIAL}|[\[\]]"
_OPEN, _CLOSE = "\x01", "\x02"  # before the marks of emphasis, while a block is written
_MARKED = re.compile(rf"([{_OPEN}{_CLOSE}])(\*\*|__|~~|\*|_)")
_ELEMENTS = {"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del"}
_EMPHASIS = ("em", "strong", "s")


def read_markdown(text: str, template: Template) -> None:
    """Read Markdown; code, formulas, addresses and the front matter stay."""
    _Markdown(text, template).read()
    if _ANCHOR.search(text):
        template.finish = partial(_with_anchors, text)


def _with_anchors(source: str, written: str) -> str:
    """Return a translated text whose links to its own headings lead to the translated ones."""
    before, after = _anchors(source), _anchors(written)
    names = zip(before, after, strict=True) if len(before) == len(after) else ()
    renamed = {old: new for old, new in names if old != new}
    return _ANCHOR.sub(lambda link: link[1] + renamed.get(unquote(link[2]).lower(), link[2]), written)


def _anchors(text: str) -> list[str]:
    """Return the name of each heading in links, made of its text as GitHub and many others do."""
    anchors: list[str] = []
    seen: Counter[str] = Counter()
    for opening, heading in pairwise(_parser().parse(_as_commonmark(text))):
        if opening.type == "heading_open":
            words = _NOT_OF_HEADING.sub("", heading.content.lower()).strip().replace(" ", "-")
            anchor = "".join(each for each in words if each in "-_" or unicodedata.category(each)[0] in "LMN")
            anchors.append(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
            seen[anchor] += 1
    return anchors


class _Markdown:
    """A text in Markdown that is being read into a template."""

    def __init__(self, text: str, template: Template):
        self._text, self._template = text, template
        self._lines = split_lines(text)
        self._env: dict[str, Any] = {}
        self._at = 0  # of `text`: what is before it is written
        self._written: list[str] = []
        self._starts = [0, *accumulate(map(len, self._lines))]  # of the lines, in `text`

    def read(self) -> None:
        """Find the blocks and set the text of the template."""
        tokens = _parser().parse(_as_commonmark(self._text), self._env)
        before = ""  # the kind of the last token
        if front := _FRONT_MATTER.match(self._text):
            self._write(0, front.end(), _FIELD.sub(self._with_field, front[0]))
        tokens.reverse()
        while tokens:
            token = tokens.pop()  # a large file has many
            first, last = token.map or (0, 0)
            if token.type == "html_block":
                self._read_html(token.content, first, last)
            elif token.type in ("fence", "code_block"):
                start, end = self._starts[first], self._starts[last]
                info, line_end, code = self._text[start:end].partition("\n")
                self._write(start, end, self._with_captions(info) + line_end + _OPTION.sub(self._with_field, code))
            elif token.type == "inline" and before in ("td_open", "th_open"):
                self._read_cell(token.content, first)
            elif token.type == "inline":
                self._read_lines(token.content, first)
            before = token.type
        self._write(len(self._text), len(self._text), "")
        self._template.text = "".join(self._written)

    def _write(self, start: int, end: int, written: str) -> None:
        """Write instead of the text from `start` to `end`."""
        between = _DEFINITION.sub(self._with_title, self._text[self._at : start])
        self._written += [self._with_captions(between), written]
        self._at = end

    def _place(self, number: int, content: str, find: Callable[..., int] = str.rfind) -> tuple[int, int]:
        """Return where in the text a line is, without its marks; -1 if it is not in the line of this number."""
        content = content.strip(" \t")
        start = find(self._text, content, max(self._at, self._starts[number]), self._starts[number + 1])
        return start, start + len(content)

    def _read_html(self, content: str, first: int, last: int) -> None:
        """Read HTML; in a quote, line by line."""
        starts = [self._starts[number] + len(opening_of(self._lines[number])) for number in range(first, last)]
        ends = self._starts[first + 1 : last + 1]
        is_quoted = ">" in self._text[self._starts[first] : starts[0]]
        if self._text[starts[0]] != "<" or (is_quoted and _RAW.match(content)):
            return  # a formula, for example
        for start, end in zip(starts, ends, strict=True) if is_quoted else [(starts[0], ends[-1])]:
            Reader(self._text[start:end], dialect("html"), self._template)
            self._write(start, end, self._template.text)

    def _read_cell(self, content: str, number: int) -> None:
        place = self._place(number, content.replace("|", r"\|"), str.find)
        if place[0] >= 0:
            self._add(content, self._inline(content), place, number, lambda text: text.replace("|", r"\|"))

    def _read_lines(self, content: str, number: int) -> None:
        """Read a paragraph or a heading; a hard line break outside of markup divides it.

        A line that was shown to the parser as another one within a paragraph is text.
        """
        shown = enumerate(content.split("\n"), number)
        lines = [line if self._place(at, line)[0] >= 0 else self._lines[at].strip("> \t\r\n") for at, line in shown]
        content = "\n".join(lines)
        tokens = self._inline(content)
        breaks = [token.meta["end"] for token in tokens if token.type == "hardbreak" and not token.level]
        for start, end in pairwise([0, *breaks, len(content)]):
            part = _HARD_BREAK.sub("", content[start:end])
            places = [self._place(line, text) for line, text in enumerate(part.split("\n"), number)]
            if min(places)[0] >= 0:
                lines = self._lines[number : number + len(places)]
                openings = [self._text[self._starts[line] : place[0]] for line, place in enumerate(places, number)]
                wrap = wrapping(lines, openings, _OPENS_BLOCK)
                line_break = "\\\n" + "".join(openings[1:2])
                of_part = self._inline(part) if breaks else tokens
                self._add(part, of_part, (places[0][0], places[-1][1]), number, wrap, line_break)
            number += content.count("\n", start, end)

    def _add(
        self,
        content: str,
        tokens: Sequence[Token],
        place: tuple[int, int],
        number: int,
        finish: Callable[[str], str],
        line_break: str = "\\\n",
    ) -> None:
        form = Form(self._escape(content), lambda written: finish(self._finished(written, content)))
        raw = self._text[slice(*place)]
        self._template.line = number + 1
        items = [item._replace(text=self._with_titles(item)) for item in _items(tokens, line_break)]
        self._write(*place, self._template.split(raw, self._template.hole(Block(items, form=form))))
        self._template.line = None

    def _with_titles(self, item: Item) -> str:
        """Return text or markup with holes for attributes that people read."""
        if item.tag.endswith("["):
            return _CLOSE_LINK.sub(self._with_title, item.text)
        if item.tag and item.text.startswith("<"):
            Reader(item.text, dialect("html"), self._template)
            return self._template.text
        return self._with_captions(item.text) if item.tag else item.text

    def _with_title(self, link: re.Match[str]) -> str:
        """Return the end of a link, the definition of one, or an attribute, with a hole for its title."""
        before, raw, after = link.groups()
        text = unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw))
        marks = re.escape(before[-1] + after[0])
        form = Form(lambda text: re.sub(rf"[\\{marks}]", r"\\\g<0>", " ".join(text.split())))
        return before + self._template.hole_of(text, form, raw) + after

    def _with_field(self, field: re.Match[str]) -> str:
        """Return a field of YAML or TOML with a hole for its text, if it has one."""
        import yaml

        name, raw = field.groups()
        value = None
        with suppress(yaml.YAMLError):
            value = yaml.safe_load(f"{raw}\n")
        if not isinstance(value, str):
            return field[0]
        return name + self._template.split(raw, f'"{read_message(value, self._template)}"')

    def _with_captions(self, text: str) -> str:
        """Return text that is not translated, with holes for the captions within it."""

        def filled(braces: re.Match[str]) -> str:
            written = _CAPTION.sub(self._with_title, braces[0])
            return _PLACED.sub(self._with_title, written) if braces[0][1] in "<%" else written

        return _BRACES.sub(filled, text)

    def _escape(self, source: str) -> Callable[[str], str]:
        """Return a function that writes a text of a block so that none of it is read as a mark."""
        escaped = map(re.escape, set(re.findall(r"\\([$#@:=|>+~{}\[\]])", source)))  # marks where this is shown
        special = re.compile("|".join([_BRACKETS if "references" in self._env else _SPECIAL, *escaped]))
        return lambda text: special.sub(lambda found: found[0] if found["kept"] else "\\" + found[0], text)

    def _finished(self, written: str, source: str) -> str:
        """Return a block as it is written, with elements of HTML where marks of emphasis would not be read as such.

        So it is between letters of languages without spaces: a mark after punctuation does not end what it began.
        """
        written = re.sub(r"(?<=\s)(#+)$", r"\\\1", written.strip(" \t"))
        written = re.sub(r"(?<!\\)((?:\\\\)*)\\!(?!\[)", r"\1!", written)
        if not _START.match(source):
            written = _START.sub(r"\1\\", written)
        marks = _MARKED.findall(written)
        if not marks:
            return written
        plain = _MARKED.sub(r"\2", written)
        if _MARKED.findall("".join(item.text for item in _items(self._inline(plain)) if item.tag)) == marks:
            return plain
        return _MARKED.sub(lambda mark: f"<{'/' * (mark[1] == _CLOSE)}{_ELEMENTS[mark[2]]}>", written)

    def _inline(self, content: str) -> list[Token]:
        parser = _parser()
        return parser.inline.parse(content, parser, self._env, [])


def _as_commonmark(text: str) -> str:
    """Return a text of as many lines, with marks of CommonMark of the same effect instead of those it does not know."""

    def as_comment(found: re.Match[str]) -> str:
        num_fences = len(_FENCE.findall(found[0]))
        if num_fences % 2 or (num_fences and found["code"]):  # it ends in another fence than it began in
            return found[0]
        prefix = found["prefix"]
        lines = found[0].count("\n")
        middle = re.sub(r"[^> \t]", " ", prefix)
        return prefix + (f"<!--{f'{chr(10)}{middle}{_FILLER}' * (lines - 1)}\n{middle}-->" if lines else _COMMENT)

    text = _FRONT_MATTER.sub(lambda front: "\n" * front[0].count("\n"), text)
    text = re.sub(r"\r\n?", "\n", text)
    text = _REGION.sub(as_comment, _DIRECTIVE.sub(r"\1:::\3\1:::", text))
    written = []
    for line in text.split("\n"):
        for opening, mark in _OPENINGS:
            if found := opening.match(line):
                rest = found["rest"]
                line = found["prefix"] + (f"{mark}{rest}" if rest else f"{mark.rstrip('# ')}   {_COMMENT}")
                break
        written.append(line)
    return "\n".join(written)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt, rules_inline

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.inline.ruler.before("newline", "kept", _keep)
    for rule in (rules_inline.newline, rules_inline.escape, rules_inline.link, rules_inline.image):
        parser.inline.ruler.at(rule.__name__, _with_end(rule.__name__, rule))
    return parser


def _with_end(name: str, rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return a rule that also tells where what it read ends, and how the end of a link or an image is written."""

    def with_end(state: StateInline, silent: bool) -> bool:
        start = state.pos
        is_found = rule(state, silent)
        if is_found and not silent:
            close = ""
            if name in ("link", "image"):
                opened = start + (name == "image")  # which has a mark before
                end = state.md.helpers.parseLinkLabel(state, opened, name == "link")
                close = state.src[end : state.pos]
                if close in ("]", "][]"):  # the text is the name of the link, too
                    close = f"][{state.src[opened + 1 : end]}]"
            state.tokens[-1].meta = {"end": state.pos, "close": close}
        return is_found

    return with_end


def _keep(state: StateInline, silent: bool) -> bool:
    """Read inline markup that CommonMark does not know."""
    found = _KEPT.match(state.src, state.pos, state.posMax)
    formula = found and (found["math"] or found["paren"])
    if not found or (formula and not _FORMULA.search(formula) and _PROSE.search(formula)):
        return False
    if not silent:

        def push(nesting: Literal[-1, 0, 1], written: str) -> None:
            token = state.push("html_inline" if found["tag"] else "kept", "", nesting)
            token.content = written
            token.hidden = found["hidden"] is not None

        if found["around"]:
            push(1, found["around"])
            end = state.posMax
            state.posMax = found.end("text")
            state.pos = found.start("text")
            state.md.inline.tokenize(state)
            state.posMax = end
            push(-1, found["close"])
        else:
            push(0, found[0])
    state.pos = found.end()
    return True


def _items(tokens: Sequence[Token], line_break: str = "\\\n") -> list[Item]:
    """Return the text and the inline markup that tokens stand for."""
    items: list[Item] = []
    for token in tokens:
        is_open = token.nesting > 0
        if token.type in ("text", "text_special"):
            items.append(Item(token.content))
        elif token.type == "softbreak":
            items.append(Item("\n"))
        elif token.type == "hardbreak":
            items.append(Item(line_break, "!"))
        elif token.type == "image":
            items += [Item("![", "!["), *_items(token.children or []), Item(token.meta["close"], "/![")]
        elif token.tag in _EMPHASIS:
            items.append(Item((_OPEN if is_open else _CLOSE) + token.markup, ("" if is_open else "/") + token.markup))
        elif token.tag == "a":
            items.append(Item("[", "[") if is_open else Item(token.meta["close"].replace("\n", " "), "/["))
        else:
            items.append(_markup(token))
    return items


def _markup(token: Token) -> Item:
    written = token.content.replace("\n", " ")
    if token.type == "code_inline":
        pad = " " if re.match(r"(?! *$)(?:[ `]|.*[ `]$)", written) else ""
        return Item(f"{token.markup}{pad}{written}{pad}{token.markup}", "!")
    tag = re.match(r"<(/?)([A-Za-z][\w-]*)", written) if token.type == "html_inline" else None
    if tag is None:
        return Item(written, ("!", "mark", "/mark")[token.nesting], is_hidden=token.hidden)
    name = tag[2].lower()
    is_alone = written.endswith("/>") or name in dialect("html").void
    return Item(written, "!" if is_alone else tag[1] + name)
