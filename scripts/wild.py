"""Translate real documents of installed packages by the identity and into capitals, and compare them by other parsers.

    python scripts/wild.py [FOLDER ...] [--most 150]

A file differs if the identity changes a byte, or if another parser does not find in the translation what it finds in
the source, in capitals: the same tree, each text once, code and addresses as they were. Prints how many files of each
format differ, and their names; fails if more than a hundredth do. Nothing of the files is kept.

Other parsers: Markdown: marko, with GFM, if installed, else markdown-it. HTML and EPUB: html.parser. PO: polib.
XLIFF, OpenDocument, Android: ElementTree. DOCX: python-docx. PPTX: python-pptx. SRT: srt. VTT: webvtt-py. JSON: json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import sysconfig
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError

MAX_BYTES = 100_000
MAX_SHARE = 0.01  # of the files may differ: fields and references stay, and other parsers have faults of their own
ARCHIVES = (".odt", ".odp", ".epub", ".docx", ".pptx")
FOLDERS = (sysconfig.get_paths()["purelib"], "/usr/share", "/usr/lib/node_modules", "/usr/lib/python3")
KEPT = {
    "code", "kbd", "math", "metadata", "pre", "rp", "rt", "samp", "script", "style", "template", "textarea", "var",
    "xmp",
}  # fmt: skip
READ = {
    "alt", "title", "aria-label", "aria-description", "aria-placeholder", "aria-roledescription", "aria-valuetext",
    "placeholder", "label", "abbr", "summary",
}  # fmt: skip
NAMES = {"METADATA": ".md", "strings.xml": ".xml"}
ADDRESS = re.compile(
    r"((?:https?://|www\.)[^\s<>]+|[\w.+-]+@[\w-]+[\w.-]*|(?<![\w:]):[a-z][\w+-]*:(?![\w:])|\$Id\$"
    r"|(?<![\w.])@[\w-]+(?:[/:.][\w-]+)*|\{\{[^{}]*\}\}|\{\w+\.[\w.]+\}|\[\^[^\]\s]+\]|\[\[[^\[\]\n]+\]\]"
    r"|(?<![^\s(])#[\w/-]*[a-z][\w/-]+|:(?:align|width|height|class|name): \S+)"
)  # and what fills templates, names, options
PROSE = re.compile(r"[a-z]{2,}[ \n]+[a-z]{2,}")
# ("text", what is translated), ("kept", a text that stays, where others are translated),
# ("any", what becomes capitals in parts), or (another kind, what stays).
# Marks that other renderers do not know, or give texts of their own; with what has the same effect on what follows.
UNKNOWN = (
    (re.compile(r"^([ >]*> ?)\[!(\w+)\][ \t]*$", re.MULTILINE), r"\1:\2:"),
    (re.compile(r"^([ >]*)(?::{3,}|\?\?\?\+?|!!!)[^\n]*", re.MULTILINE), r"\1"),
    (re.compile(r"^([ ]*):([ ]{1,3})(?=\S)", re.MULTILINE), r"\1-\2"),
    (re.compile(r"<([a-z][\w+.-]{1,31}):(?!//)([^\s<>]+)>"), r"<https://\1/\2>"),
    (re.compile(r"\{[^{}\n]*=[^{}\n]*\}"), ""),
    (re.compile(r"\$(?:[^$\n]*\\[^$\n]*|\w)\$(?!\w)"), "1"),
    (
        re.compile(
            r"^([ ]*)(`{3,})\{(?:note|tip|hint|important|warning|seealso)\}\n(.*?)^\1\2[ ]*$", re.MULTILINE | re.DOTALL
        ),
        r"\3",
    ),
)
# Marks that stay where they stand alone, and are a part of a text elsewhere: their case does not matter.
EITHER = re.compile(r"\{[^{}\s]+\}|\([\w:-]+\)=|:[A-Za-z]+:|\.\.[A-Za-z]+::")
Parts = list[tuple[str, Any]]


class UnreadError(Exception):
    """The other parser does not read a file."""


class Page(HTMLParser):
    """Lists the tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: Parts = []
        self.kept: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add a tag, and the texts of its attributes."""
        stays = [(name, value) for name, value in attrs if name not in READ and name not in ("content", "value")]
        if tag in KEPT:
            self.kept.append(tag)
        kind = "code" if self.kept else "text"
        self.parts += [("tag", (tag, stays)), *((kind, value or "") for name, value in attrs if name in READ)]

    def handle_endtag(self, tag: str) -> None:
        """Add the end of an element."""
        self.parts.append(("end", tag))
        if self.kept[-1:] == [tag]:
            self.kept.pop()

    def handle_data(self, data: str) -> None:
        """Add a text."""
        self.parts.append(("code" if self.kept else "text", data))


def page(content: bytes) -> Parts:
    """Return the parts of a page."""
    found, declared = Page(), re.search(rb"charset=[\"']?(?:iso-8859-1|windows-1252)\b", content[:1024], re.IGNORECASE)
    found.feed(content.decode("cp1252" if declared else "utf-8", "replace"))  # which browsers read for ISO-8859-1
    found.close()
    return found.parts


def markdown(content: bytes) -> Parts:
    """Return the parts of what Markdown is rendered as, without the front matter."""
    text = re.sub(r"\A---\n.*?\n---\n", "", content.decode().replace("\r\n", "\n"), flags=re.DOTALL)
    try:
        for pattern, same in UNKNOWN:
            text = pattern.sub(same, text)
        rendered = import_module("marko.ext.gfm").gfm.convert(text)
    except ImportError:
        from markdown_it import MarkdownIt

        rendered = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    return page(rendered.encode())


def catalog(content: bytes) -> Parts:
    """Return the messages of a catalog, with their translations, or what they should become."""
    polib = import_module("polib")
    declared = re.search(rb"charset=([\w-]+)", content[:10_000])
    encoding = "utf-8" if declared is None or declared[1] == b"CHARSET" else declared[1].decode()
    parts: Parts = []
    for entry in polib.pofile(content.decode(encoding).removeprefix("\ufeff")):
        parts.append(("id", (entry.msgctxt, entry.msgid, entry.msgid_plural)))
        if entry.msgid_plural:
            parts.append(("plural", ""))
        elif entry.msgid:
            parts.append(("kept", entry.msgstr) if entry.msgstr.strip('"') else ("text", entry.msgid))
    return parts


def local(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def units(content: bytes) -> Parts:
    """Return the units of XLIFF: their translations, or what they should become."""
    parts: Parts = []

    def walk(element: ElementTree.Element, is_wanted: bool) -> None:
        name = local(element)
        is_wanted = element.get("translate", "yes" if is_wanted else "no") == "yes"
        if name not in ("trans-unit", "segment"):
            for child in element:
                walk(child, is_wanted)
            return
        found = {local(child): child for child in element}
        texts = {name: "".join(found[name].itertext()) for name in ("source", "seg-source", "target") if name in found}
        source, target = texts.get("seg-source") or texts.get("source", ""), texts.get("target", "")
        state = element.get("state") or (found["target"].get("state") if "target" in found else "")
        is_copy = target.strip() == source.strip() and state in ("new", "needs-translation", "initial")
        is_new = is_wanted and (not target.strip() or is_copy)
        parts.extend([("source", texts.get("source", "")), ("any" if is_new else "kept", source if is_new else target)])

    walk(ElementTree.fromstring(content.decode().encode()), True)
    return parts


def elements(content: bytes) -> Parts:
    """Return the elements and the texts of XML."""
    parts: Parts = []
    kept = (
        "tracked-changes", "ruby-text", "math", "creator", "date", "script", "scripts", "initial-creator",
        "integer-array",
    )  # fmt: skip
    texts = ("p", "h", "title", "desc", "string", "item", "header-decl", "footer-decl", "index-title-template")

    def walk(element: ElementTree.Element, is_text: bool, stays: bool) -> None:
        name = local(element)
        stays = (
            stays
            or name in kept
            or element.get("translatable") == "false"
            or element.tag.endswith("xliff:document:1.2}g")
        )
        is_text = is_text or name in texts
        kind = "any" if is_text and not stays else "value"
        written = [
            re.sub(r"\\u0020|[\\\"]", "", text or "") for text in (element.text, *(child.tail for child in element))
        ]
        parts.extend([("tag", element.tag), (kind, written[0])])
        for child, after in zip(element, written[1:], strict=True):
            if local(child) in ("s", "soft-page-break"):  # a space, and what shows nothing
                parts.append((kind, " "))
            elif isinstance(child.tag, str):
                walk(child, is_text, stays)
            parts.append((kind, after))

    walk(ElementTree.fromstring(content.decode().encode()), False, False)
    return parts


def archive(content: bytes) -> Parts:
    """Return the texts of an OpenDocument file, or the pages of a book."""
    with zipfile.ZipFile(BytesIO(content)) as opened:
        names = [name for name in opened.namelist() if re.search(r"^content\.xml$|\.x?html?$", name)]
        return [part for name in names for part in (elements if name == "content.xml" else page)(opened.read(name))]


def word(content: bytes) -> Parts:
    """Return the paragraphs of a Word document."""
    paragraphs = (
        import_module("docx")
        .Document(BytesIO(content))
        .element.body.iter("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}p")
    )
    return [part for paragraph in paragraphs for part in (("tag", "p"), ("any", paragraph.text.replace("\u2011", "-")))]


def slides(content: bytes) -> Parts:
    """Return the paragraphs of slides and their notes."""
    main = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
    parts: Parts = []
    for slide in import_module("pptx").Presentation(BytesIO(content)).slides:
        for each in [slide, *([slide.notes_slide] if slide.has_notes_slide else [])]:
            for paragraph in each.element.iter(f"{main}p"):
                texts = [
                    text.text or "" for run in paragraph.iter(f"{main}r", f"{main}br") for text in run.iter(f"{main}t")
                ]
                parts.extend([("tag", "p"), ("any", "".join(texts))])
    return parts


def subtitles(content: bytes) -> Parts:
    """Return the times and texts of subtitles."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    found = import_module("srt").parse(content.decode(encoding))
    return [
        part
        for each in found
        for part in (("time", (each.start, each.end)), ("text", unescape(re.sub(r"<[^<>]*>|\\N", "", each.content))))
    ]


def captions(content: bytes) -> Parts:
    """Return the times and texts of WebVTT."""
    found = import_module("webvtt").from_buffer(BytesIO(content), format="vtt")
    return [
        part for each in found.captions for part in (("time", (each.start, each.end)), ("text", unescape(each.text)))
    ]


def tree(content: bytes) -> Parts:
    """Return the keys and values of JSON."""

    def walk(value: Any, stays: bool) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield "key", key
                yield from walk(inner, stays or key[:1] in ("@", "$"))
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner, stays)
        else:
            yield ("any" if isinstance(value, str) and not stays else "value"), value

    return list(walk(json.loads(content), False))


PARSERS: dict[str, Callable[[bytes], Parts]] = {
    ".md": markdown, ".html": page, ".htm": page, ".po": catalog, ".pot": catalog, ".xlf": units,
    ".xliff": units, ".xml": elements, ".svg": page, ".odt": archive, ".odp": archive, ".epub": archive, ".docx": word,
    ".pptx": slides, ".srt": subtitles, ".vtt": captions, ".arb": tree, ".json": tree,
}  # fmt: skip


def flat(parts: Parts, *, is_source: bool) -> Parts:
    """Return the parts with joined texts: those of a source in capitals."""
    joined: Parts = []
    for kind, value in parts:
        written = " ".join(value.split()) if isinstance(value, str) and kind in ("text", "kept", "any") else value
        written = capitals(written) if kind == "text" and is_source else written
        kind = "text" if kind == "kept" else kind
        if joined and joined[-1][0] == kind and kind in ("text", "any"):
            joined[-1] = (kind, f"{joined[-1][1]} {written}")
        elif written:
            joined.append((kind, written))
    return [(kind, without_spaces(value) if kind == "text" else value) for kind, value in joined]


def without_spaces(text: str) -> str:
    """Return a text without spaces, and with the marks of `EITHER` in capitals."""
    return EITHER.sub(lambda mark: mark[0].upper(), "".join(text.split()))


def is_translated(first: tuple[str, Any], second: tuple[str, Any]) -> bool:
    """Return whether the second part is what should become of the first."""
    if first[0] != "any":
        return first == (first[0], second[1]) if second[0] in ("any", "text") else first == second
    before, after = ("".join(str(value).split()).upper().casefold() for value in (first[1], second[1]))
    return before == after and not (first[1] == second[1] and PROSE.search(ADDRESS.sub("", first[1])))


def capitals(text: str) -> str:
    """Return a text in capitals, but for addresses, which models keep, too."""
    parts = ADDRESS.split(text)
    return "".join(part if number % 2 else part.upper() for number, part in enumerate(parts))


def in_capitals(block: Block) -> str:
    """Return a block in capitals, with its tags where they are."""
    parts = re.split(r"(\{h\d+\})", block.with_marks())
    written = block.from_marks("".join(part if n % 2 else capitals(part) for n, part in enumerate(parts)))
    return block.from_texts([capitals(text) for text in block.texts()]) if written is None else written


def fault_of(content: bytes, name: str) -> str:
    """Return how a file differs; empty if it does not."""
    suffix = Path(name).suffix.lower()
    document = read_document(content, name)
    blocks = document.blocks
    same = document.content_with(
        [block.from_marks(block.with_marks()) or block.from_texts(block.texts()) for block in blocks]
    )
    if suffix not in (".po", ".pot", ".xlf", ".xliff", *ARCHIVES) and same != content:
        return "the identity changes it"
    document = read_document(content, name)
    written = document.content_with([in_capitals(block) for block in document.blocks])
    try:
        before = flat(PARSERS[suffix](content), is_source=True)
    except Exception as error:  # of any type
        raise UnreadError(f"{type(error).__name__}: {str(error)[:100]}") from None
    after = flat(PARSERS[suffix](written), is_source=False)
    for number, (first, second) in enumerate(zip(before, after, strict=False)):
        if not is_translated(first, second):
            return f"part {number}: {str(first)[:60]} -> {str(second)[:60]}"
    return "" if len(before) == len(after) else f"{len(before)} parts -> {len(after)}"


def collect(folders: list[str], most: int) -> dict[str, list[Path]]:
    """Return up to `most` files per format, spread over the folders."""
    found = defaultdict(list)
    for folder in folders:
        for root, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if name[0] != ".")
            for name in sorted(files):
                path = Path(root, name)
                suffix = NAMES.get(name, path.suffix.lower())
                most_bytes = MAX_BYTES * (10 if suffix in ARCHIVES else 1)
                is_wanted = suffix in PARSERS and (suffix not in (".xml", ".json") or name in NAMES)
                if is_wanted and path.is_file() and not path.is_symlink() and path.stat().st_size < most_bytes:
                    found[suffix].append(path)
    return {suffix: paths[:: max(1, len(paths) // most)][:most] for suffix, paths in sorted(found.items())}


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Compare the files and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--most", type=int, default=150, help="files per format")
    values = parser.parse_args()
    total = num_differing = 0
    for suffix, paths in collect([*values.folders], values.most).items():
        faults, refused, unread = dict[Path, str](), dict[Path, str](), dict[Path, str]()
        for path in paths:
            try:
                content = path.read_bytes()
                content = content.partition(b"\n\n")[2] if path.name == "METADATA" else content  # after its fields
                if fault := fault_of(content, f"a{suffix}"):
                    faults[path] = fault
            except DataError as error:
                refused[path] = str(error)
            except UnreadError as error:
                unread[path] = str(error)
            except Exception as error:  # of the other parser for our file, or of ours: both are to be looked at
                faults[path] = f"{type(error).__name__}: {str(error)[:100]}"
        counts = f"{len(refused)} refused, {len(unread)} the other parser cannot read, {len(faults)} differ"
        say(f"{suffix}: {len(paths)} files, {counts}")
        for path, fault in {**refused, **unread, **faults}.items():
            say(f"  {path}: {fault}")
        total, num_differing = total + len(paths), num_differing + len(faults)
    say(f"{total} files, {num_differing} differ")
    if num_differing > total * MAX_SHARE:
        sys.exit(f"more than {MAX_SHARE:.0%} of the files differ")


if __name__ == "__main__":
    main()
