"""Divide HTML and XML into markup and blocks of text, as the description of the format in `dialects.toml` says.

A reader of tags, which changes nothing, instead of a parser that builds a tree: what is not translated stays to the
byte. `check_xml` has the parser of the standard library look at a file first.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any
from xml.parsers import expat

from nmt.apps.documents.blocks import Block, Form, Item, Template, escape_text
from nmt.base.errors import DataError
from nmt.base.languages import script_of

_MAX_DEPTH = 200  # of elements in elements that have texts of their own
# Possessive, and the last branch takes all the rest: the time grows with the size of the text, whatever is in it.
_TAG = r"<!--.*?-->|{}<[!?][^>]*>|<(/?)({}[^\s/>]*)({})>{}"
_XML_ATTRIBUTES = r"""(?:[^>"']|"[^"]*+"|'[^']*+')*+"""
_XML = re.compile(
    _TAG.format(
        r"<!\[CDATA\[.*?\]\]>|<\?.*?\?>|&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z_][\w.-]*;|\0s\d+\0|",
        r"[^\s/>!?]",
        _XML_ATTRIBUTES,
        "",
    ),
    re.DOTALL,
)
_FILLED = r"[@$#]?\{\{\{?[^{}]{1,999}+\}\}\}?|\{%(?:[^%{]|%(?!\})|\{(?!%)){1,999}+%\}"  # of templates
_HTML_ATTRIBUTES = rf"""(?:{_FILLED}|[^>=]|=\s*+(?:"[^"]*+"|'[^']*+'|\{{(?:[^{{}}]|\{{[^{{}}]*+\}})*+\}})?+)*+"""
_HTML = re.compile(
    _TAG.format(
        rf"<!--.*|<%(?:[^%<]|%(?!>)|<(?!%))*+%>|{_FILLED}|</?(?=\{{[{{%]){_HTML_ATTRIBUTES}>|"
        r"""\[(?:/[a-z][\w-]*|[a-z][\w-]*(?:\s+[\w-]+=(?:"[^"]*"|'[^']*'))++)\s*/?\]|""",  # of WordPress
        "[A-Za-z_]",
        _HTML_ATTRIBUTES,
        "|</?[A-Za-z].*",
    ),
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s=<>"'/]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>{][^\s"'>]*)""")
_HUGE_NUMBER = re.compile(r"&#\d{1000,};?")  # a character reference that int() refuses; it stands for no character
_UNTRANSLATED = re.compile(
    r"""\s(?:translate\s*=\s*["']?no\b|mtype\s*=\s*["']protected\b|translatable\s*=\s*["']false\b|office:value-type="(?!string")|table:formula=|class\s*=\s*(?:["'][^"']*(?<![\w-]))?notranslate(?![\w-]))|\A<(?:style|code|kbd|samp|var|pre)\s|\A<text:[\w-]+\s(?=[^>]*\soffice:string-value)""",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"""<meta\s[^>]*(?:name|property)=["']?(?:og:|twitter:)?(?:title|description|keywords|image:alt)\b""", re.IGNORECASE
)
_HAS_MARKUP = re.compile(r"</?[A-Za-z]|<!--|&#?\w+;")
_BUTTON = re.compile(r"""<input\s[^>]*type=["']?(?:submit|button|reset)\b""", re.IGNORECASE)
_FRAGMENT = re.compile(r"\A((?:\s*<\?xml\s[^<>]*\?>)?(?:\s*<!DOCTYPE[^\[<>]*>)?)(.*)", re.DOTALL | re.IGNORECASE)
_META = re.compile(rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_AS_BROWSERS = dict.fromkeys(("iso-8859-1", "latin1", "us-ascii", "ascii"), "windows-1252") | {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "iso-8859-9": "windows-1254",
}
_RIGHT_TO_LEFT = ("Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg")  # scripts
_PLACED = re.compile(r"<\w*(?<=tspan)\s[^>]*?\b(?:x|y|dy)\s*=")  # a line of its own in a picture
_PAGE = re.compile(r"<(?:html|body|svg|ncx|(?:\w+:)?package)\b[^>]*>", re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """The meaning of the elements of a format."""

    like: str = ""  # the name of one that has all other elements
    texts: Collection[str] = ()
    inline: Collection[str] = ()
    kept: Collection[str] = ()
    hidden: Collection[str] = ()
    breaks: Collection[str] = ()
    attributes: Collection[str] = ()
    void: Collection[str] = ()
    raw: Collection[str] = ()
    run_text: str = ""
    apart: Collection[str] = ()
    is_html: bool = False
    is_text: bool = False
    divides: bool = False
    is_fragment: bool = False
    divider: str = "(?!)"  # a regular expression; that of most matches nothing
    characters: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str], str] = unescape
    write: Callable[[str], str] = escape_text


@cache
def descriptions() -> dict[str, dict[str, Any]]:
    """Return what `dialects.toml` says."""
    return tomllib.loads(Path(__file__).with_name("dialects.toml").read_text(encoding="utf-8"))


@cache
def dialect(name: str) -> Dialect:
    """Return the dialect of this name."""
    given = descriptions()[name]
    return Dialect(**{**descriptions().get(given.get("like", ""), {}), **given})


def check_xml(text: str) -> str:
    """Return the name of the root element. DataError if a text is not well-formed XML, or declares entities."""
    tags = (tag[2] for tag in _XML.finditer(text) if tag[2])
    root = next(tags, "").rpartition(":")[2]
    parser = expat.ParserCreate("utf-8")  # whatever its declaration says

    def refuse(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        # An app may name a text in its file, and a picture an address; the names stay.
        if root not in ("resources", "svg") or is_parameter or value is None or "&" in value:
            raise DataError("it declares entities, which are not expanded", line=parser.CurrentLineNumber)

    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise DataError(f"not well-formed XML: {expat.ErrorString(error.code)}", line=error.lineno) from None
    return root


@dataclass
class Frame:
    """An element that is being read."""

    name: str
    start: str
    is_block: bool = False
    is_kept: bool = False
    depth: int = 1
    raw: list[str] = field(default_factory=list)  # its content as it is in the file, since the last block that ended
    items: list[Item] = field(default_factory=list)  # of the block
    parts: list[str] = field(default_factory=list)  # holes and markup before


class Reader:
    """Reads a text into a template, leniently. DataError if elements with texts are nested too deeply."""

    def __init__(self, text: str, dialect: Dialect, template: Template):
        self.dialect = dialect
        self.template = template
        self.frames = [Frame("", "", is_block=dialect.is_text)]
        self._read(_HUGE_NUMBER.sub("\ufffd", text))
        template.text = self.content(self.frame)

    @property
    def frame(self) -> Frame:
        """The innermost element that is being read by itself."""
        return self.frames[-1]

    def _read(self, text: str) -> None:
        dialect = self.dialect
        at = 0
        end = max(map(text.rfind, ">\0}]")) + 1
        pattern = _HTML if dialect.is_html else _XML
        while match := pattern.search(text, at, end):
            self.text(text[at : match.start()])
            written = match[0]
            name = match[2]
            at = match.end()
            if name is None:
                sign = written.lstrip("</")[:1]
                is_entity = sign in "&\0{[%"  # or a hole, or what fills a template
                if written.startswith("<![CDATA[") and not dialect.is_html and self.frame.is_block:
                    self._read_characters(written)
                elif is_entity or sign in "!?":  # of the file; a comment, declaration or processing instruction
                    self.add(written, Item(written, "!", is_hidden=not (is_entity or dialect.is_fragment)))
                else:  # markup that does not end
                    self.text(written)
                continue
            if not dialect.is_fragment:
                name = name.lower() if dialect.is_html else name.rpartition(":")[2]
            if match[1]:
                self.end(name, written)
            elif written.endswith("/>") or name in dialect.void:
                tag = self.with_attributes(written)
                self.standalone(name, tag, tag)
            else:
                self.start(name, self.with_attributes(written))
                if name in dialect.raw:
                    close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, at)
                    close_at = close.start() if close else len(text)
                    self.frame.raw.append(text[at:close_at])
                    at = close_at
        self.text(text[at:])
        while len(self.frames) > 1:  # not closed
            self.close("")

    def _read_characters(self, written: str) -> None:
        """Read a section of characters, which may be HTML."""
        dialect_ = self.dialect
        is_markup = _HAS_MARKUP.search(written, 9)

        def write(text: str) -> str:
            return dialect_.write(text) if is_markup else unescape(dialect_.write(text)).replace("]]>", "]] >")

        within = replace(dialect("html"), read=dialect_.read, write=write, divider=dialect_.divider)
        Reader(written[9:-3], within, self.template)
        self.divide(f"<![CDATA[{self.template.text}]]>")

    def text(self, data: str) -> None:
        """Read text."""
        for number, part in enumerate(re.split(self.dialect.divider, data) if self.frame.is_block else [data]):
            if number % 2:
                self.divide(part)
            elif part:
                self.add(part, Item(self.dialect.read(part)))

    def start(self, name: str, written: str) -> None:
        """Read an opening tag."""
        dialect = self.dialect
        frame = self.frame
        is_untranslated = not dialect.is_fragment and _UNTRANSLATED.search(written)
        if not frame.is_kept and (name in dialect.kept or is_untranslated):
            self.open(Frame(name, written, is_kept=True))
        elif frame.is_block and name in dialect.inline and not _PLACED.search(written):
            self.add(written, Item(written, name))
        elif frame.is_block and dialect.divides and name not in dialect.apart:
            self.divide(written)
        elif not frame.is_kept and (frame.is_block or name in dialect.texts):
            self.open(Frame(name, written, is_block=name in dialect.texts))
        else:
            frame.depth += name == frame.name
            frame.raw.append(written)

    def open(self, frame: Frame) -> None:
        """Begin an element that is read by itself."""
        self.frames.append(frame)
        if len(self.frames) > _MAX_DEPTH:
            raise DataError("elements nested too deeply")

    def standalone(self, name: str, whole: str, start: str) -> None:
        """Read an element as a whole; `start` is its opening tag."""
        dialect = self.dialect
        frame = self.frame
        if not frame.is_block:
            frame.raw.append(whole)
        elif name in dialect.characters:
            self.add(whole, Item(dialect.characters[name]))
        elif name in dialect.breaks or (
            dialect.divides and name not in (*dialect.inline, *dialect.kept, *dialect.apart)
        ):
            self.divide(whole)
        else:
            is_hidden = name in dialect.hidden and not _UNTRANSLATED.search(start)
            self.add(whole, Item(whole, "!", is_hidden))

    def end(self, name: str, written: str) -> None:
        """Read a closing tag."""
        frame = self.frame
        frame.depth -= name == frame.name
        if not frame.depth:
            self.close(written)
        elif frame.is_block and name in self.dialect.inline:
            last = frame.items[-1] if frame.items else Item("")
            if last.tag == name:  # an empty element, such as an icon
                frame.raw.append(written)
                frame.items[-1] = Item(last.text + written, "!", is_hidden=True)
            else:
                self.add(written, Item(written, "/" + name))
        elif frame.is_block and self.dialect.divides:
            self.divide(written)
        else:
            frame.raw.append(written)

    def close(self, written: str) -> None:
        """End the element that is being read by itself."""
        frame = self.frames.pop()
        self.standalone(frame.name, frame.start + self.content(frame) + written, frame.start)

    def add(self, raw: str, item: Item) -> None:
        """Add a text or markup to the block that is being read; `raw` is how it is written."""
        frame = self.frame
        frame.raw.append(raw)
        if frame.is_block:
            frame.items.append(item)

    def divide(self, markup: str, frame: Frame | None = None) -> None:
        """End a block at markup that is not part of it."""
        frame = frame or self.frame
        if frame.raw:
            block = Block(frame.items, "".join(frame.raw), Form(self.dialect.write))
            frame.parts.append(self.template.hole(block))
            frame.raw = []
            frame.items = []
        frame.parts.append(markup)

    def content(self, frame: Frame) -> str:
        """Return what is in an element, with holes."""
        if frame.is_block:
            self.divide("", frame)
        return "".join(frame.parts or frame.raw)

    def with_attributes(self, written: str) -> str:
        """Return a tag with holes for its attributes that people read."""
        if self.frame.is_kept or _UNTRANSLATED.search(written):
            return written
        readable = "content" if _SUMMARY.match(written) else "value" if _BUTTON.match(written) else ""

        def with_hole(match: re.Match[str]) -> str:
            name, between, value = match.groups()
            local = name if self.dialect.is_html else name.rpartition(":")[2]  # `:title` of Vue is code
            is_read = local.lower() in self.dialect.attributes
            if not (is_read or name.lower() == readable):
                return match[0]
            quote = value[0] if value[0] in "\"'" else '"'
            text = value.strip(quote)
            hole = self.template.hole_of(unescape(text), Form(escape), text)
            return f"{name}{between}{self.template.split(value, quote + hole + quote)}"

        return _ATTRIBUTE.sub(with_hole, written)


class HtmlText(Template):
    """An HTML page or fragment."""

    def __init__(self, source: str):
        """Read HTML leniently, as a browser does, without errors."""
        super().__init__()
        Reader(source.replace("\0", "\ufffd"), dialect("html"), self)


class XmlText(Template):
    """An XML fragment, such as the segment of a translation tool: all its tags are inline, and stay verbatim."""

    def __init__(self, source: str, splitting: Collection[str] = (), ignored: Collection[str] = ()):
        """Read a fragment. Elements in `splitting` separate blocks, and those in `ignored` are not translated.

        DataError if it is not well-formed, or its document type has declarations; it has no entities but those of XML.
        """
        super().__init__()
        head, content = _FRAGMENT.findall(source)[0]
        check_xml(f"<x>{content}</x>")  # within an element is no document type
        names = {tag[2] for tag in _XML.finditer(content)}
        form = Dialect(inline=names.difference(splitting), kept=ignored, is_text=True, divides=True, is_fragment=True)
        Reader(content, form, self)
        self.text = head + self.text


def encoding_of_page(content: bytes) -> str:
    """Return the encoding that an HTML page declares, as browsers take it; empty if it declares none."""
    found = _META.search(content[:1024])
    name = found[1].decode().lower() if found else ""
    return _AS_BROWSERS.get(name, name)


def name_page_language(template: Template, code: str) -> None:
    """Change language and direction in `<html lang="de" dir="ltr">` and the like to the translations'; add none."""

    def renamed(attribute: re.Match[str]) -> str:
        way = "rtl" if script_of(code) in _RIGHT_TO_LEFT else "ltr"
        value = {"lang": code, "xml:lang": code, "dir": way}.get(attribute[1].lower())
        return f'{attribute[1]}{attribute[2]}"{escape(value)}"' if value else attribute[0]

    template.text = _PAGE.sub(lambda start: _ATTRIBUTE.sub(renamed, start[0]), template.text, count=2)
