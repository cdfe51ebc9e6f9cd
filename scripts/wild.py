"""Translate real documents of installed packages by the identity and into capitals, and compare them by other parsers.

    python scripts/wild.py [FOLDER ...] [--most 150]

A file differs if the identity changes a byte, or if another parser does not find in the translation what it finds in
the source, in capitals: the same tree, each text once, code and addresses as they were. Prints how many files of each
format differ, and their names. Nothing of the files is kept.

Other parsers: Markdown: marko, with GFM, if installed, else markdown-it. HTML and EPUB: html.parser. PO: polib.
XLIFF, ODT, Android: ElementTree. DOCX: python-docx. SRT: srt. JSON: json.
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
FOLDERS = (sysconfig.get_paths()["purelib"], "/usr/share", "/usr/lib/node_modules", "/usr/lib/python3")
KEPT = {"code", "kbd", "math", "pre", "rp", "rt", "samp", "script", "style", "svg", "template", "textarea", "var"}
READ = {"alt", "title", "aria-label", "aria-description", "placeholder", "label"}
NAMES = {"METADATA": ".md", "strings.xml": ".xml"}
ADDRESS = re.compile(r"((?:https?://|www\.)[^\s<>]+|[\w.+-]+@[\w-]+[\w.-]*|(?<![\w:]):[a-z][\w+-]*:(?![\w:])|\$Id\$)")
Parts = list[tuple[str, Any]]  # ("text", what is translated) or (another kind, what stays)


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
    found = Page()
    found.feed(content.decode("utf-8", "replace"))
    found.close()
    return found.parts


def markdown(content: bytes) -> Parts:
    """Return the parts of what Markdown is rendered as, without the front matter."""
    text = re.sub(r"\A---\n.*?\n---\n", "", content.decode().replace("\r\n", "\n"), flags=re.DOTALL)
    try:
        rendered = import_module("marko.ext.gfm").gfm.convert(text)
    except ImportError:
        from markdown_it import MarkdownIt

        rendered = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    return page(rendered.encode())


def catalog(content: bytes) -> Parts:
    """Return the messages of a catalog, with their translations, or what they should become."""
    return [
        (kind, value)
        for entry in import_module("polib").pofile(content.decode())
        for kind, value in (
            ("id", (entry.msgctxt, entry.msgid, entry.msgid_plural)),
            ("text", entry.msgstr or ("" if entry.msgid_plural else entry.msgid)),
        )
    ]


def elements(content: bytes) -> Parts:
    """Return the elements and the texts of XML."""
    return [
        part
        for element in ElementTree.fromstring(content.decode().encode()).iter()
        if element.tag.rpartition("}")[2] not in ("target", "note")
        for part in (("tag", element.tag), ("any", element.text or ""), ("any", element.tail or ""))
    ]


def archive(content: bytes) -> Parts:
    """Return the texts of an OpenDocument file, or the pages of a book."""
    with zipfile.ZipFile(BytesIO(content)) as opened:
        names = [name for name in opened.namelist() if re.search(r"^content\.xml$|\.x?html?$", name)]
        return [part for name in names for part in (elements if name == "content.xml" else page)(opened.read(name))]


def word(content: bytes) -> Parts:
    """Return the paragraphs of a Word document."""
    return [("text", paragraph.text) for paragraph in import_module("docx").Document(BytesIO(content)).paragraphs]


def subtitles(content: bytes) -> Parts:
    """Return the times and texts of subtitles."""
    found = import_module("srt").parse(content.decode("utf-8-sig"))
    return [part for each in found for part in (("time", (each.start, each.end)), ("text", each.content))]


def tree(content: bytes) -> Parts:
    """Return the keys and values of JSON."""

    def walk(value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield "key", key
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)
        else:
            yield ("any" if isinstance(value, str) else "value"), value

    return list(walk(json.loads(content)))


PARSERS: dict[str, Callable[[bytes], Parts]] = {
    ".md": markdown, ".html": page, ".htm": page, ".po": catalog, ".pot": catalog, ".xlf": elements,
    ".xliff": elements, ".xml": elements, ".odt": archive, ".odp": archive, ".epub": archive, ".docx": word,
    ".srt": subtitles, ".arb": tree, ".json": tree,
}  # fmt: skip


def flat(parts: Parts, *, is_source: bool) -> Parts:
    """Return the parts with joined texts: those of a source in capitals, those of any kind in small letters."""
    joined: Parts = []
    for kind, value in parts:
        written = " ".join(value.split()) if isinstance(value, str) and kind in ("text", "any") else value
        written = capitals(written) if kind == "text" and is_source else written
        written = written.casefold() if kind == "any" else written
        if joined and joined[-1][0] == kind == "text":
            joined[-1] = (kind, f"{joined[-1][1]} {written}")
        elif written:
            joined.append((kind, written))
    return [(kind, "".join(value.split()) if kind in ("text", "any") else value) for kind, value in joined]


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
    same = document.save([block.from_marks(block.with_marks()) or block.from_texts(block.texts()) for block in blocks])
    if suffix not in (".po", ".pot", ".xlf", ".xliff", ".odt", ".odp", ".epub", ".docx") and same != content:
        return "the identity changes it"
    document = read_document(content, name)
    written = document.save([in_capitals(block) for block in document.blocks])
    parse = PARSERS[suffix]
    before, after = flat(parse(content), is_source=True), flat(parse(written), is_source=False)
    if suffix in (".po", ".pot"):  # what was translated stays as it was
        before, after = ([(kind, str(value).upper()) for kind, value in parts] for parts in (before, after))
    for number, (first, second) in enumerate(zip(before, after, strict=False)):
        if first != second:
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
                is_wanted = suffix in PARSERS and (suffix not in (".xml", ".json") or name in NAMES)
                if is_wanted and path.is_file() and not path.is_symlink() and path.stat().st_size < MAX_BYTES:
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
        faults, refused = dict[Path, str](), dict[Path, str]()
        for path in paths:
            try:
                content = path.read_bytes()
                content = content.partition(b"\n\n")[2] if path.name == "METADATA" else content  # after its fields
                if fault := fault_of(content, f"a{suffix}"):
                    faults[path] = fault
            except DataError as error:
                refused[path] = str(error)
            except Exception as error:  # of the other parser, or ours: both are to be looked at
                faults[path] = f"{type(error).__name__}: {str(error)[:100]}"
        say(f"{suffix}: {len(paths)} files, {len(refused)} refused, {len(faults)} differ")
        for path, fault in {**refused, **faults}.items():
            say(f"  {path}: {fault}")
        total, num_differing = total + len(paths), num_differing + len(faults)
    say(f"{total} files, {num_differing} differ")


if __name__ == "__main__":
    main()
