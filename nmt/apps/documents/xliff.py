"""Read XLIFF 1.2 and 2.0: units without a target get one, with their segments and inline codes in place."""

from __future__ import annotations

import re
from dataclasses import replace

from nmt.apps.documents.blocks import Item, Template
from nmt.apps.documents.markup import Reader, dialect
from nmt.apps.documents.strings import split_choices

_PREFIX = r"((?:[\w.-]+:)?)"
_LEVEL = re.compile(rf"<(/?){_PREFIX}(xliff|file|body|group|unit|trans-unit|segment)\b([^>]*)>")
# The texts of a unit; only a target may be an empty element.
_CHILD = re.compile(
    rf"(<{_PREFIX}(target|(?:seg-)?source(?=\s[^>]*(?<!/)>|>))\b[^>]*?)(?:/>|>(.*?)</\2\3\s*>)", re.DOTALL
)
_ALTERNATIVES = re.compile(rf"<{_PREFIX}(?:alt-trans|note|notes|matches)\b")
_ATTRIBUTE = re.compile(r"""\s([\w:.-]+)\s*=\s*["']([^"']*)["']""")
_STATE = re.compile(r"""\sstate(?:-qualifier)?\s*=\s*["'][^"']*["']""")
_UNTRANSLATED = ("new", "needs-translation", "initial")  # states of targets that may be copies of their sources
# What may be before the notes of a unit, and their opening tag.
_NOTES = re.compile(
    rf"(?:<{_PREFIX}matches\b.{{0,20000}}?</\1matches\s*>|(?!</?{_PREFIX}(?:notes|originalData|segment|ignorable|unit)\b).)*+"
    rf"(<{_PREFIX}notes\b[^>]*(?<!/)>)?",
    re.DOTALL,
)
_IS_NEW = re.compile(r"""<(?:[\w.-]+:)?xliff\b[^>]*\sversion\s*=\s*["']2""")
_LANGUAGE = re.compile(rf"""(<{_PREFIX}(?:xliff|file)\b[^>]*?)\s(?:target-language|trgLang)\s*=\s*["']([^"']*)["']""")
# A segment, with its opening tag, its name, what is in it, and its closing tag; others of these elements may be in it.
_MRK = r"(?:[\w.-]+:)?mrk"
_SEGMENT = re.compile(
    rf"""(<{_MRK}\b(?=[^>]*\smtype\s*=\s*["']seg["'])(?=[^>]*\smid\s*=\s*["']([^"']*))[^>]*(?<!/)>)"""
    rf"""((?:(?!</?{_MRK}\b).|<{_MRK}\b[^>]*>(?:(?!</?{_MRK}\b).)*</{_MRK}\s*>)*+)(</{_MRK}\s*>)""",
    re.DOTALL,
)
# Translators of strings write a line break as \n, and editors break a line without indenting it.
_WRITTEN_BREAKS = r"(?:\\r)?\\n(?![a-z])|(?<=[.!?:;,])\\n|\n(?!\s)"
_BREAKS = rf"((?:{_WRITTEN_BREAKS})+)"
_PRESERVED_BREAKS = rf"((?:{_WRITTEN_BREAKS}|\r?\n[ \t]*|\t)+)"


_OPENING, _CLOSING = ("bpt", "bx", "sc"), ("ept", "ex", "ec")  # codes


def read_xliff(text: str, template: Template) -> None:
    """Read a file; each source without a translation is a block, but for those with `translate="no"`.

    So are sources whose targets are copies of them, in the state of a text that is not translated.
    """
    # Elements that are being read: the opening tag, and its attributes and those of the elements around it.
    levels: list[tuple[re.Match[str] | None, dict[str, str]]] = [(None, {})]
    written: list[str] = []
    at = 0
    for found in _LEVEL.finditer(text):
        start, given = levels[-1]
        if not found[1] and not found[0].endswith("/>"):
            levels.append((found, {**given, **_attributes(found[0])}))  # the innermost one decides
            if found[3] == "unit" and (place := _NOTES.match(text, found.end())):
                note = f'<{found[2]}note appliesTo="target" category="nmt">{{}}</{found[2]}note>'
                note = note if place[3] else f"<{found[2]}notes>{note}</{found[2]}notes>"
                written += [text[at : place.end()], template.note(note)]
                at = place.end()
        elif found[1] and start:
            levels.pop()
            is_unit = found[3] in ("trans-unit", "segment") and given.get("translate") != "no"
            if is_unit and start.start() >= at:
                template.go_to(text, start.start())
                unit = _translated(start, text[start.end() : found.start()], template, given)
                written += [text[at : start.start()], unit]
                at = found.start()
    template.text = "".join(written) + text[at:]


def _attributes(tag: str) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(tag))


def _translated(start: re.Match[str], unit: str, template: Template, given: dict[str, str]) -> str:
    """Return the tag and the content of a unit or a segment, with holes for what has no translation.

    `given` are its attributes and those of the elements around it.
    """
    tag = start[0]
    is_segment = start[3] == "segment"
    others = _ALTERNATIVES.search(unit)
    children = {child[3]: child for child in _CHILD.finditer(unit, 0, others.start() if others else len(unit))}
    source = children.get("seg-source", children.get("source"))
    target = children.get("target")
    if source is None:
        return tag + unit
    is_preserved = (given | _attributes(source[1])).get("xml:space") == "preserve"
    content = source[4]
    held = (target[4] or "") if target else ""
    state = _attributes(target[1] if target and not is_segment else tag).get("state")
    filled = {segment[2]: segment[3] for segment in _SEGMENT.finditer(held)}

    def is_done(written: str, original: str) -> bool:
        plain = _plain(written)
        return bool(plain) and not (state in _UNTRANSLATED and plain == _plain(original))

    def read(segment: re.Match[str]) -> str:
        done = filled.get(segment[2], "")
        new = done if is_done(done, segment[3]) else _read(segment[3], template, is_preserved)
        return segment[1] + new + segment[4]

    if is_done(held, content) and not filled:
        return tag + unit
    prefix = (target or source)[2]
    # Those of a segment are in its unit.
    note = "" if is_segment else template.note(f'<{prefix}note from="nmt" annotates="target">{{}}</{prefix}note>')
    num_before = len(template.blocks)
    new, num_segments = _SEGMENT.subn(read, content)
    if not num_segments:
        new = _read(content, template, is_preserved)
    elif len(template.blocks) == num_before:
        return tag + unit
    opening = target[1] if target else f"<{prefix}target"
    if is_segment:
        tag = f'{_STATE.sub("", tag)[:-1]} state="translated">'
    else:
        opening = _STATE.sub("", opening) + ' state="needs-review-translation" state-qualifier="mt-suggestion"'
    start_at, end_at = target.span() if target else (source.end(), source.end())
    return f"{tag}{unit[:start_at]}{opening}>{new}</{prefix}target>{note}{unit[end_at:]}"


def _plain(content: str) -> str:
    return re.sub("<[^>]*>", "", content).strip()


class _UnitReader(Reader):
    """Reads the content of a source; two codes that belong together are tags around the text between them."""

    def standalone(self, name: str, whole: str, start: str) -> None:
        given = _attributes(start)
        partner = given.get("rid") or given.get("startRef") or given.get("id", "")
        is_end = name in _CLOSING or partner.startswith("CLOSE_")  # so Angular names what belongs together
        if partner and self.frame.is_block and (is_end or name in _OPENING or partner.startswith("START_")):
            name = re.sub("^(START|CLOSE)_", "", partner)
            self.add(whole, Item(whole, f"{'/' * is_end}code:{name}"))
        else:
            super().standalone(name, whole, start)


def _read(content: str, template: Template, is_preserved: bool, depth: int = 0) -> str:
    """Return the content of a source with holes; a choice in a message of ICU is a hole with holes for its branches."""
    written = ""
    for plain, parts in split_choices(content, depth):
        inner = (_read(part, template, is_preserved, depth + 1) if n % 2 else part for n, part in enumerate(parts))
        written += plain + (template.split("".join(parts), "".join(inner)) if parts else "")
    breaks = _PRESERVED_BREAKS if is_preserved else _BREAKS
    _UnitReader(written, replace(dialect("xliff"), divider=breaks), template)
    return template.text


def name_language(template: Template, code: str) -> str | None:
    """Name the target language of the file; if it names one, such as de-DE, return that instead."""
    if named := next((found[3] for found in _LANGUAGE.finditer(template.text) if found[3]), None):
        return named
    element, attribute = ("xliff", "trgLang") if _IS_NEW.search(template.text) else ("file", "target-language")
    without = _LANGUAGE.sub(r"\1", template.text)
    template.text = re.sub(rf"(<{_PREFIX}{element}\b[^>]*?)(?=/?>)", rf'\1 {attribute}="{code}"', without)
    return None
