"""Write the command-line and the configuration reference, and patterns.js of the web page, from the program itself.

    python scripts/docs/reference.py

All are committed: docs/reference/cli.md and configuration.md, and nmt/apps/web/static/patterns.js. A test compares them
with what this writes.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

ROOT = Path(__file__).parents[2]


def pages() -> dict[Path, str]:
    """Return the text of each generated page by its path."""
    texts = {"cli.md": cli_reference(), "configuration.md": configuration_reference()}
    written = {ROOT / "docs" / "reference" / name: text + "\n" for name, text in texts.items()}
    return {**written, ROOT / "nmt" / "apps" / "web" / "static" / "patterns.js": page_patterns() + "\n"}


def write_pages() -> None:
    """Write each generated page where it belongs."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


# What Python's re means by these, and its marks of groups, as JavaScript writes them.
_CLASSES = {
    r"\w": r"\p{L}\p{N}_",
    r"\d": r"\p{Nd}",
    r"\s": r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}
_TOKEN = re.compile(r"\\U000[0-9a-f]{5}|\\.|\[\^?|\]|\(\?P<|\(\?P=\w+\)|.", re.DOTALL)


def page_patterns() -> str:
    """Return the patterns of spans, symbols and numbers, for the page of `nmt export web`."""
    from nmt.data.text import spans
    from nmt.data.text.characters import AROUND, DASHES, LIST_MARKER
    from nmt.data.text.numbers import AMOUNT, NUMBER, UNIT
    from nmt.data.text.words import (
        AFTER_TOKEN,
        ALPHABETIC_WORD,
        BEFORE_TOKEN,
        CODE_SIGN,
        NUMBER_ALONE,
        PRINTED_TOKEN,
    )
    from nmt.translation.protect import ODD_MARK, ODD_WORD, PROSE_MARK, QUOTE

    patterns = {
        "SPAN": "|".join(f"(?:{pattern})" for pattern in spans.PATTERNS.values()),
        "SIGN": f"{spans.SIGN}|{spans.SYMBOL_SIGN}|{spans.SYMBOL_SIGN_BEYOND}",
        "SYMBOL_RUN": spans.SYMBOL_RUN,
        "NUMBERED": spans.PATTERNS["number after a sign"],
        "OWNED_SIGN": spans.OWNED_SIGN,
        "ODD_MARK": ODD_MARK,
        "ODD_WORD": ODD_WORD,
        "ALPHABETIC_WORD": ALPHABETIC_WORD,
        "PRINTED_TOKEN": PRINTED_TOKEN,
        "CODE_SIGN": CODE_SIGN,
        "NUMBER_ALONE": NUMBER_ALONE,
        "PROSE_MARK": PROSE_MARK,
        "QUOTE": QUOTE,
        "AROUND": AROUND,
        "LIST_MARKER": LIST_MARKER,
        "NUMBER": NUMBER,
        "UNIT": UNIT,
        "AMOUNT": AMOUNT,
    }
    texts = {name: getattr(spans, name) for name in ("PAIRS", "CHINESE_PAIRS", "CHINESE_QUOTES")}
    texts |= {"DASHES": DASHES, "BEFORE_TOKEN": BEFORE_TOKEN, "AFTER_TOKEN": AFTER_TOKEN}
    written = {name: _as_javascript(pattern) for name, pattern in patterns.items()} | texts
    lines = [f"export const {name} = {json.dumps(text)};" for name, text in written.items()]
    return "\n".join(
        [
            "// Written by scripts/docs/reference.py, from spans.py, characters.py, numbers.py, words.py, protect.py.",
            *lines,
        ]
    )


def _as_javascript(pattern: str) -> str:
    """Return a pattern of Python's re as JavaScript writes it with the flag u."""
    written, is_in_class = list[str](), False
    letter = r"\p{L}\p{Nl}\p{No}"  # with what is a number, but no digit, as in Python
    letters = pattern.replace(r"[^\W\d_]", f"[{letter}]")
    letters = letters.replace(r"[^\W_]", r"[\p{L}\p{N}]")
    # Letters but those of some scripts: in JavaScript, \W is all but ASCII, and a class cannot leave out another.
    letters = re.sub(r"\[\^\\W\\d_([^\]]+)\]", lambda found: f"(?:(?![{found[1]}])[{letter}])", letters)
    for match in _TOKEN.finditer(letters):
        token = match[0]
        if token == r"\S":
            written.append(f"[^{_CLASSES[token.lower()]}]")
        elif token in _CLASSES:
            written.append(_CLASSES[token] if is_in_class else f"[{_CLASSES[token]}]")
        elif token == "(?P<":
            written.append("(?<")
        elif token.startswith(r"\U"):
            written.append(rf"\u{{{token[5:]}}}")
        elif token.startswith("(?P="):
            written.append(rf"\k<{token[4:-1]}>")
        else:
            is_in_class = token != "]" if is_in_class else token in ("[", "[^")
            is_needless = token[0] == "\\" and token[1] in "\"'#%&!@,;:=<>`~"
            written.append(token[1] if is_needless else token)
    return "".join(written)


def cli_reference() -> str:
    """Return the page on the command line: every command with its arguments, options, values and defaults."""
    from nmt.apps.cli import all_commands

    sections = [_command_lines(command.callback.__wrapped__, f"nmt {name}") for name, command in all_commands()]
    return "\n".join([
        "# Command line",
        "",
        "This page is generated from the code. `nmt COMMAND --help` prints the same.",
        "",
        "See also: [exit codes](exit-codes.md) and [the JSON output](jsonl.md).",
        "",
        *(line for lines in sections for line in lines),
    ]).rstrip("\n")  # fmt: skip


def _command_lines(function: Callable[..., Any], name: str) -> list[str]:
    """Return the section of one command, which typer runs by calling `function`."""
    hints = get_type_hints(function, include_extras=True)
    rows, usage = [], [name]
    for parameter in inspect.signature(function).parameters.values():
        annotation = parameter.annotation if not isinstance(parameter.annotation, str) else hints[parameter.name]
        kind, info = get_args(annotation)[:2]
        rows.append(_option_row(parameter, kind, info))
        if isinstance(info, ArgumentInfo):
            word = parameter.name.upper() + ("..." if "list" in str(kind) else "")
            usage.append(f"[{word}]" if parameter.default is None else word)
    lines = [f"## `{name}`", "", _plain(inspect.getdoc(function) or ""), ""]
    lines += ["```", " ".join([*usage, "[OPTIONS]"]), "```", ""]
    return [*lines, "| option | value | meaning |", "|---|---|---|", *rows, ""]


def _option_row(parameter: inspect.Parameter, kind: Any, info: OptionInfo | ArgumentInfo) -> str:
    """Return the table row of an option or an argument."""
    # In Annotated[...] typer keeps the first name of an option where a plain Option keeps its default.
    declared = [str(name) for name in (info.default, *(info.param_decls or ())) if str(name).startswith("-")]
    names = declared or [f"--{parameter.name.replace('_', '-')}"]
    if isinstance(info, ArgumentInfo):
        names = [parameter.name.upper()]
    default, meaning = parameter.default, _cell(_plain(info.help or ""))
    if kind is not bool and default not in (None, False, inspect.Parameter.empty) and default != []:
        meaning += f" Default: `{default}`."
    elif kind is bool and default is True:
        meaning += f" Default: `{names[0].split('/')[0]}`."
    elif default is inspect.Parameter.empty and not isinstance(info, ArgumentInfo):
        meaning += " Required."
    shown = ", ".join(f"`{name}`" for name in "/".join(names).split("/"))
    return f"| {shown} | {_value(kind, info)} | {meaning} |"


def _value(kind: Any, info: OptionInfo | ArgumentInfo) -> str:
    """Return the values that an option takes: choices, or a word with limits; nothing for a flag."""
    choices = [each for each in get_args(kind) if each is not type(None)] or [kind]
    if bool in choices:
        return ""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in choices)
    if info.metavar:
        return f"`{info.metavar}`"
    word = "path" if Path in choices else "integer" if int in choices else "number" if float in choices else "text"
    limits = [f"{sign} {limit}" for sign, limit in (("≥", info.min), ("≤", info.max)) if limit is not None]
    return " ".join([word, ", ".join(limits)]).strip()


_LINKS = {
    "ParallelFiles": "[files](#files-of-a-data-set)",
    "AugmentConfig": "[augmentation](#augmentation)",
    "Filters": "[filters](#filters)",
    "Stage": "[stages](#stages-of-a-training)",
}
"""The sections inside sections, by class."""


def configuration_reference() -> str:
    """Return the page on the configuration: every key with its type, default and meaning."""
    from nmt.config.corpora import ParallelFiles
    from nmt.config.data import AugmentConfig
    from nmt.config.filters import Filters
    from nmt.config.sections import Config
    from nmt.config.training import Stage

    lines = [
        "# Configuration",
        "",
        "This page is generated from the code. `nmt config show --config FILE` prints the same keys with your values.",
        "",
        "A configuration is one YAML file with five sections. Only `data` is required.",
        "`--set SECTION.KEY=VALUE` overrides one key on the command line.",
        "",
    ]
    for name, field in Config.model_fields.items():
        section: Any = field.annotation
        lines += _section_lines(f"`{name}`", section)
    lines += _section_lines("Files of a data set", ParallelFiles)
    lines += _section_lines("Filters", Filters)
    lines += _section_lines("Augmentation", AugmentConfig)
    return "\n".join([*lines, *_section_lines("Stages of a training", Stage)]).rstrip("\n")


def _section_lines(title: str, section: type[BaseModel]) -> list[str]:
    lines = [f"## {title}", "", _plain(section.__doc__ or ""), ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    return [*lines, *(_key_row(key, field) for key, field in section.model_fields.items()), ""]


def _key_row(key: str, field: FieldInfo) -> str:
    """Return the table row of one configuration key."""
    from pydantic_core import PydanticUndefined

    default = "required" if field.default is PydanticUndefined else f"`{_yaml(field.default)}`"
    return f"| `{key}` | {_cell(_type_name(field))} | {default} | {_cell(field.description or '')} |"


def _type_name(field: FieldInfo) -> str:
    """Return the type of a key in words, with its limits."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(field.rebuild_annotation()).json_schema()
    return _schema_name(schema, schema.get("$defs", {}))


def _schema_name(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in schema or schema.get("type") == "object":
        return _LINKS[schema.get("$ref", schema.get("title", "")).rpartition("/")[2]]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_schema_name(each, definitions) for each in choices)
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        if "$ref" in schema.get("items", {}):
            return f"list of {_schema_name(schema['items'], definitions)}"
        items = schema.get("prefixItems")
        return f"list of {len(items)} {_plural(items[0])}" if items else "list"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "`true`, `false`", "null": "`null`"}
    signs = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
    limits = [f"{sign} {schema[name]:,}" for name, sign in signs if name in schema]
    return " ".join([words.get(schema.get("type", ""), "value"), ", ".join(limits)]).strip()


def _plural(item: dict[str, Any]) -> str:
    """Return what the items of a list are."""
    kinds = {each["type"] for each in item.get("anyOf", [item])}
    names = {"integer": "numbers", "number": "numbers", "string": "texts"}
    return " or ".join(sorted({names[kind] for kind in kinds}))


def _yaml(value: Any) -> str:
    """Return a default as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return "[" + ", ".join(_yaml(each) for each in value) + "]"
    return "defaults of the section" if hasattr(type(value), "model_fields") else str(value)


def _plain(text: str) -> str:
    """Return a docstring or help text as one paragraph; reStructuredText and shell names stay unchanged."""
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Return `text` for a table cell of Markdown."""
    quoted = re.sub(r"(?<![`\w])(\{\w+\}|\$\w+|%\w|\*_\w+|<\w+>)", r"`\1`", text) if "`" not in text else text
    return quoted.replace("|", "\\|")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write_pages()
