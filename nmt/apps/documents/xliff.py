"""Read XLIFF 1.2 and 2.0: units without a target get one, with their inline codes in place."""

from __future__ import annotations

import re

from nmt.apps.documents.blocks import Template
from nmt.apps.documents.markup import Reader, dialect

_PREFIX = r"((?:[\w.-]+:)?)"
_LEVEL = re.compile(rf"<(/?){_PREFIX}(xliff|file|body|group|unit|trans-unit|segment)\b([^>]*)>")
_SOURCE = re.compile(rf"<{_PREFIX}source\b[^>]*(?<!/)>(.*?)</\1source>", re.DOTALL)
_SEGMENTED = re.compile(rf"</{_PREFIX}seg-source>")
_TARGET = re.compile(rf"(<{_PREFIX}target\b[^>]*?)(?:/>|>(.*?)</\2target>)", re.DOTALL)
_ALTERNATIVES = re.compile(rf"<{_PREFIX}(?:alt-trans|note|notes|matches)\b")
_TRANSLATE = re.compile(r"""\stranslate\s*=\s*["'](yes|no)""")
_LANGUAGE = re.compile(r"""\s(?:target-language|trgLang)\s*=\s*["']([^"']*)["']""")


def read_xliff(text: str, template: Template) -> None:
    """Read a file; each source without a target is a block, but for those with `translate="no"`."""
    wanted, written, at = [True], list[str](), 0
    start = 0  # of the content of a unit
    for level in _LEVEL.finditer(text):
        if not level[1] and not level[0].endswith("/>"):
            mark = _TRANSLATE.search(level[0])
            wanted.append(mark[1] == "yes" if mark else wanted[-1])  # the innermost one decides
            start = level.end()
        elif level[1] and wanted.pop() and level[3] in ("trans-unit", "segment") and start >= at:
            written += [text[at:start], _with_target(text[start : level.start()], template)]
            at = level.start()
    template.text = "".join(written) + text[at:]


def _with_target(unit: str, template: Template) -> str:
    """Return the content of a unit with a hole for its target."""
    others = _ALTERNATIVES.search(unit)
    end = others.start() if others else len(unit)
    source, target, segmented = (pattern.search(unit, 0, end) for pattern in (_SOURCE, _TARGET, _SEGMENTED))
    if source is None or (target and re.sub("<[^>]*>", "", target[3] or "").strip()):
        return unit
    Reader(source[2], dialect("xliff"), template)
    if target:
        return f"{unit[: target.start()]}{target[1]}>{template.text}</{target[2]}target>{unit[target.end() :]}"
    place = (segmented or source).end()
    return f"{unit[:place]}<{source[1]}target>{template.text}</{source[1]}target>{unit[place:]}"


def name_language(template: Template, code: str) -> str | None:
    """Name the target language of the file; if it names one, such as de-DE, return that instead."""
    heads = [level for level in _LEVEL.finditer(template.text) if level[3] in ("xliff", "file") and not level[1]]
    for head in heads:
        if (language := _LANGUAGE.search(head[0])) and language[1]:
            return language[1]
    is_new = any(re.search(r"""\sversion\s*=\s*["']2""", head[0]) for head in heads)
    element, attribute = ("xliff", "trgLang") if is_new else ("file", "target-language")

    def named(level: re.Match[str]) -> str:
        if level[1] or level[3] != element:
            return level[0]
        return re.sub(r"(/?>)$", rf' {attribute}="{code}"\1', _LANGUAGE.sub("", level[0]))

    template.text = _LEVEL.sub(named, template.text)
    return None
