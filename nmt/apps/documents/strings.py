"""Read the texts of programs: JSON and ARB files, and the strings of Android."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

from nmt.apps.documents.blocks import Block, Form, Item, Template, escape_text
from nmt.apps.documents.markup import Reader, dialect
from nmt.base.errors import DataError

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*:\s*)?')  # a text, or a key
_CHOICE = re.compile(r"<[A-Za-z/][^<>]*>|\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset:\d+)?")
_BRACE = re.compile(r"[{}]")
_WORDS = re.compile(r"[A-ZÀ-ÞΑ-ΫЀ-Я][^\W\d_]*(?:[-/][^\W\d_]+)+")  # `E-Mail-Adresse`, `Ja/Nein`; not `btn-ok`, `en-US`
# Addresses, paths, names, regular expressions. A name with slashes or colons, and one without, are apart, so that each
# text is read in one way: `a-a-a- b` would take time that doubles with each hyphen.
_CODE = re.compile(
    r"https?://\S+|[#.@$/\\]\S*|[\w.-]+(?:[/:][\w-]+(?:\.[\w-]+)*)+|(?=[\w.-]*[\w-]\Z)[\w.-]+[._-][\w-]+"
    r"|[a-z]+[A-Z]\w*|\^.*\$|[A-Za-z]:\\\S*|[\w+/]{8,}={1,2}"
)
_ANDROID = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(.))|(\A"\s+|\s+"\Z)|\"""", re.DOTALL)
_KEPT_SPACE = "\x1f"  # at the edge of a text in quotes
_REFERENCE = re.compile(r"\s*[@?](?:[\w.]+:)?\w+/[\w.]+\s*")
_MAX_DEPTH = 50


def read_json(text: str, template: Template) -> None:
    """Read the strings in JSON; keys stay, and so does what belongs to a key that starts with `@` or `$`.

    Of a message of ICU (`{count, plural, one {…} other {…}}`), the branches are blocks of their own.
    DataError if the text is not JSON.
    """
    try:
        json.loads(text)
    except (RecursionError, ValueError) as error:
        raise DataError(f"not JSON ({str(error)[:80]})", line=getattr(error, "lineno", None)) from None
    written: list[str] = []
    decoder = json.JSONDecoder()
    at = 0
    end = 0
    while token := _STRING.search(text, end):
        raw = token[1]
        end = token.end()
        if token[2]:  # a key
            if raw[:1] in ("@", "$"):
                end = decoder.raw_decode(text, end)[1]
            continue
        value = json.loads(f'"{raw}"')
        is_code = _CODE.fullmatch(value) and not _WORDS.fullmatch(value)
        if not is_code and any(map(str.isalpha, value)):
            written += [text[at : token.start(1)], template.split(raw, read_message(value, template))]
            at = token.end(1)
    template.text = "".join(written) + text[at:]


def split_choices(text: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the text before each choice between branches, and its parts, of which each second one is a branch.

    The last text has no choice behind it. A choice in an attribute is none, nor is one in too many others.
    """
    at = 0
    for choice in _CHOICE.finditer(text) if depth < _MAX_DEPTH else ():
        if choice[0].startswith("{") and choice.start() >= at:
            parts = _parts(choice)
            yield text[at : choice.start()], parts
            at = choice.start() + sum(map(len, parts))
    yield text[at:], []


def _parts(choice: re.Match[str]) -> list[str]:
    parts: list[str] = []
    text = choice.string
    at = choice.start()
    depth = 0
    for brace in _BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return [*parts, text[at : brace.end()]]
        if len(parts) % 2 == (depth == 1):  # a branch begins, or ends
            end = brace.end() if depth > 1 else brace.start()
            parts.append(text[at:end])
            at = end
    return [*parts, text[at:]]


def read_message(text: str, template: Template, depth: int = 0) -> str:
    """Return a message with a hole for each of its lines.

    Each choice between branches is one item of a line, which has holes for the branches.
    """
    lines: list[list[Item]] = [[]]
    for plain, parts in split_choices(text, depth):
        for part in re.split(r"([\n\t]+|#)" if depth else r"([\n\t]+)", plain):
            if part[:1] in ("\n", "\t"):
                lines.extend([[Item(part)], []])
            else:
                lines[-1].append(Item(part, "!" * (part == "#"), part == "#"))  # the number, in a branch
        if parts:
            inner = (
                read_message(each, template, depth + 1) if n % 2 else _quoted(each) for n, each in enumerate(parts)
            )
            lines[-1].append(Item("".join(inner), "!"))
    return "".join(template.hole(Block(items, form=Form(_quoted))) for items in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def read_android(text: str, template: Template) -> None:
    """Read the `strings.xml` of an app; references to other strings stay."""
    Reader(text, replace(dialect("android"), read=_from_android, write=_to_android), template)


def _from_android(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else match[2] or _KEPT_SPACE * len((match[3] or "").strip('"'))

    return "" if _REFERENCE.fullmatch(text) else _ANDROID.sub(character, unescape(text))


def _to_android(text: str) -> str:
    written = re.sub(r"([\"'\\])", r"\\\1", escape_text(text)).replace(_KEPT_SPACE, r"\u0020")
    return "\\" + written if written[:1] in ("@", "?") else written
