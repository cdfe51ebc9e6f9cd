"""Read gettext catalogs: untranslated entries get a translation marked fuzzy; all else stays as it is.

The format flags of an entry (`c-format`, …) define the placeholders of its message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from gettext import c2py

from nmt.apps.documents.blocks import Form, Template
from nmt.base.errors import DataError

_TEXT = r'(?:[ \t]*"(?:[^"\\\n]|\\.)*+"[ \t]*(?:\r?\n|$))+'
_ENTRY = re.compile(
    rf"(?=^#|^msg)(?P<comments>(?:^#[^\n]*\n)*+)"
    rf"(?:(?P<ids>(?:^msgctxt{_TEXT})?^msgid(?P<id>{_TEXT})(?:^msgid_plural(?P<plural>{_TEXT}))?)"
    rf"(?P<translated>(?:^msgstr(?:\[\d\])?{_TEXT})*))?",
    re.MULTILINE,
)
_FORM = re.compile(rf"^msgstr(\[\d\])?({_TEXT})", re.MULTILINE)
_FLAGS = re.compile(r"^#,([^\r\n]*)", re.MULTILINE)
_FLAG = re.compile(r"^#,|(?=^#[|~])|\Z", re.MULTILINE)  # where a flag is written, before the former message
_LINE_BREAKS = re.compile(r"([\n\t]+)")
# Of characters above these, such as bytes of UTF-8, the escapes are text.
_ESCAPE = re.compile(r"\\(?:[abfnrtv\"\\]|[01]?[0-7]{1,2}(?![0-7])|x[0-7][\da-fA-F](?![\da-fA-F]))")
_LETTERS = dict(zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True))
_CHARSET = re.compile(r"(Content-Type:[^\n]{0,99}?charset=)([\w.:-]+)")
_PLURALS = re.compile(r"Plural-Forms:[ ]*nplurals[ ]*=[ ]*(\d{1,2})[ ]*;[ ]*plural[ ]*=[ ]*([^;\"\\\n]{1,999})")
_NO_PLURALS = re.compile(r'^"Plural-Forms: nplurals=INTEGER;[^\n]*\n', re.MULTILINE)  # of xgettext: to be filled in
_CONTINUED = re.compile(r'"[ \t]*\r?\n[ \t]*"')
_COUNTED = re.compile(r"%|\{")  # the beginning of a placeholder, for the number
# The header up to the line of its language, or its end, with the end of its lines.
_HEADER = re.compile(
    r'^(msgid ""[ \t]*(\r?\n)\s*msgstr(?:[ \t]*"(?!Language:)[^\n]*\n)*+[ \t]*)'
    r'(?:"Language:[ ]*([^\\"]*?)[ ]*\\n"[ \t]*\r?\n)?',
    re.MULTILINE,
)
# `%%` and doubled braces stand for a character; a bare % or brace is an error at run time, so it counts.
_PRINTF = (
    r"%%|%(?:\d{1,3}\$|\([^()\n]{0,200}\))?[-+ #0',]{0,6}(?:\d{1,9}|\*(?:\d{1,3}\$)?)?(?:\.(?:\d{1,9}|\*)?)?"
    r"(?:hh?|ll?|[qjztL])?(?:[A-Za-z@]|<PRI\w{1,12}>)|%"
)
_BRACES = r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[{}]"
_FORMATS = {
    "c objc python java-printf ruby awk lua perl php tcl object-pascal javascript": _PRINTF,
    "python-brace java csharp perl-brace rust": _BRACES,
    "qt qt-plural kde": r"%L?\d{1,2}|%n",
    "sh": r"\$\{\w+\}|\$\w+",
}
_PATTERNS = {name: re.compile(pattern) for names, pattern in _FORMATS.items() for name in names.split()}
_NEXT = re.compile(r"%[^($]*[A-Za-z@>]|\{(?:[:!].*)?\}")  # takes the next value, without its number or name
_ESCAPES = ("%%", "{{", "}}")


def read_po(text: str, template: Template) -> None:
    """Read a catalog; each line of a message is a block. DataError if it is none.

    An entry gets as many plural forms as the header says. What has a translation, even a fuzzy one, stays.
    """
    singular = _singular_forms(text)

    def translated(entry: re.Match[str]) -> str:
        if not entry["ids"]:  # comments
            return entry[0]
        template.go_to(text, entry.start())
        return _translated(entry, singular, template)

    template.text = _CHARSET.sub(r"\g<1>UTF-8", _ENTRY.sub(translated, text), count=1)
    if template.blocks:
        template.text = _NO_PLURALS.sub("", template.text)
    if template.line is None:
        raise DataError("not a gettext catalog: no msgid")


def encoding_of(content: bytes) -> str:
    """Return the encoding that the header of a catalog names; it is written in UTF-8."""
    header = _CHARSET.search(content[:10_000].decode("latin-1"))
    return "" if header is None or header[2] == "CHARSET" else header[2]


def _singular_forms(text: str) -> list[str]:
    """Return, for each plural form, the kinds of numbers that it is for: `1`, `1+` or empty for those without 1.

    Without a rule, there are no forms.
    """
    whole = _CONTINUED.sub("", text[:10_000])  # long rules go over several lines
    count, rule = next(iter(_PLURALS.findall(whole)), ("", ""))
    try:
        form_of = c2py(rule)
        forms = [set[int]() for _ in range(int(count))]
        for number in range(200):  # most rules look at the last two digits
            forms[form_of(number)].add(number)
    except (ArithmeticError, IndexError, RecursionError, ValueError):
        return []
    return ["" if 1 not in numbers else "1" if numbers <= {0, 1} else "1+" for numbers in forms]


def _translated(entry: re.Match[str], singular: Sequence[str], template: Template) -> str:
    """Return an entry and its comments with holes for translations and the flag fuzzy; as it is, if it has them."""
    comments = entry["comments"]
    flags = [flag.strip() for found in _FLAGS.findall(comments) for flag in found.split(",")]
    source = _read(entry["id"])
    plural = _read(entry["plural"] or "")
    forms = dict(_FORM.findall(entry["translated"]))
    wanted = [f"[{number}]" for number in range(len(singular) or 1)] if plural else [""]
    if not source or all(_read(forms.get(form, "")) for form in wanted):
        return entry[0]
    if plural and not singular:
        raise DataError(
            "a text with plural forms, but no rule for them in the header",
            line=template.line,
            hint='such as "Plural-Forms: nplurals=2; plural=n != 1;\\n"; '
            "msginit --locale=CODE writes it for a language",
        )
    line_end = "\r\n" if "\r\n" in entry["ids"] else "\n"
    if "fuzzy" not in flags:
        comments = _FLAG.sub(lambda mark: "#, fuzzy" + ("," if mark[0] else line_end), comments, count=1)
    written = comments + entry["ids"].rstrip("\r\n") + line_end
    for form, kind in zip(wanted, singular if plural else "1", strict=True):
        if _read(forms.get(form, "")):
            written += f"msgstr{form}{forms[form]}"
            continue
        # Without its number, `one file` is wrong for 21 files.
        message = source if kind == "1" or (kind and _COUNTED.search(source)) else plural
        written_as = Form(_written, formats=flags)
        holes = [template.hole_of(part, written_as) for part in _LINE_BREAKS.split(message)]
        lines = [f'"{part}{end}"' for part, end in zip(holes[::2], [*holes[1::2], ""], strict=True) if part or end]
        lines[:0] = ['""'] * (len(lines) > 1)
        written += f"msgstr{form} {line_end.join(lines)}{line_end}"
    return written


def _read(text: str) -> str:
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    return _ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), "".join(parts))


def _written(text: str) -> str:
    return re.sub(r'["\\\0-\x1f]', lambda found: "\\" + _LETTERS.get(found[0], f"{ord(found[0]):03o}"), text)


def name_language(template: Template, code: str) -> str | None:
    """Name the language of the translations in the header, if there is one; if it names a language, return that."""
    header = _HEADER.search(template.text)
    if header and not header[3]:
        template.text = _HEADER.sub(rf'\g<1>"Language: {code}\\n"\g<2>', template.text, count=1)
    return header[3] if header else None


def changed_placeholders(source: str, output: str, flags: Collection[str]) -> list[str]:
    """Return the placeholders that `output` lost or invented, in the formats that `flags` name.

    Also those without a number or a name whose order is another: `%s` and `%d` take their values in this order.
    """
    changed = []
    for name, pattern in _PATTERNS.items():
        if f"{name}-format" in flags:
            placeholders = [
                [each for each in pattern.findall(text) if each not in _ESCAPES] for text in (source, output)
            ]
            in_source, in_output = map(Counter, placeholders)
            wrong = [*(in_source - in_output), *(in_output - in_source)]
            in_order = [[each for each in of_text if _NEXT.fullmatch(each)] for of_text in placeholders]
            changed += wrong or [each for each, other in zip(*in_order, strict=True) if each != other]
    return list(dict.fromkeys(changed))


def is_excluded(span: str, flags: Collection[str]) -> bool:
    """Return whether `flags`, such as `no-c-format`, say that `span` is not a placeholder."""
    return any(f"no-{name}-format" in flags and pattern.fullmatch(span) for name, pattern in _PATTERNS.items())
