"""Write a configuration as YAML that `load_config` reads back unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from nmt.config.base import Section
from nmt.config.corpora import ParallelFiles
from nmt.config.load import PATH_KEYS
from nmt.config.nodes import CoreLoader
from nmt.config.sections import Config
from nmt.config.training import Stage, TrainingConfig

_WIDTH = 120  # a comment that would exceed this goes above its key


def dump_config(config: Config, comments: bool = False, header: str = "") -> str:
    """Return the configuration as YAML text with every field, in the order of the sections; a stage only has its own.

    `comments` adds the meaning and allowed values of each field. `header` goes at the top, as comment lines. `$` in a
    path is written as `$$`, so that it is not read as a variable.
    """
    lines = [f"# {_printable(line)}".rstrip() for line in header.splitlines()]
    for name, field in Config.model_fields.items():
        section = getattr(config, name)
        lines += [""] if lines else []
        if comments:
            lines.append(f"# {_first_sentence(type(section))}")
        lines += _entry(name, section, field, "", comments)
    return "\n".join(lines) + "\n"


def _section_lines(section: Section, indent: str, comments: bool) -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(section, ParallelFiles) and (value is None or not section.uses(name)):
            continue
        if isinstance(section, Stage) and value == field.default:
            continue
        if isinstance(section, TrainingConfig) and section.stages and name == "max_updates":  # their sum
            continue
        if name in PATH_KEYS.get(type(section), ()) and value is not None:
            value = value.replace("$", "$$")
        yield from _entry(name, value, field, indent, comments)


def _entry(name: str, value: object, field: FieldInfo, indent: str, comments: bool) -> Iterator[str]:
    """Yield the lines of one key: its value, or the keys below it."""
    if isinstance(value, Section):
        yield f"{indent}{name}:"
        yield from _section_lines(value, indent + "  ", comments)
        return
    if isinstance(value, tuple) and value and isinstance(value[0], Section):
        yield f"{indent}{name}:"
        for section in value:
            yield from _item_lines(section, indent + "  ", comments)
        return
    line = f"{indent}{name}: {_value(value)}"
    comment = _comment(field) if comments else ""
    if comment and len(line) + len(comment) + 4 > _WIDTH:
        yield from (f"{indent}# {part}" for part in wrap(comment, _WIDTH - len(indent) - 2))
    elif comment:
        line += f"  # {comment}"
    yield line


def _item_lines(section: Section, indent: str, comments: bool) -> Iterator[str]:
    """Yield the lines of a section in a list, with a dash before its first key."""
    lines = list(_section_lines(section, indent + "  ", comments))
    first = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
    yield from (line if i != first else f"{indent}- {line.lstrip()}" for i, line in enumerate(lines))


def _comment(field: FieldInfo) -> str:
    choices = " | ".join(map(_value, get_args(field.annotation))) if get_origin(field.annotation) is Literal else ""
    return "; ".join(part for part in (choices, field.description) if part)


def _first_sentence(section: type[Section]) -> str:
    return (section.__doc__ or "").split("\n")[0]


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float(value)
    return _text(value) if isinstance(value, str) else str(value)


def _float(value: float) -> str:
    # A YAML 1.1 reader takes 1e-09 for text; every reader takes 1.0e-9 for a number.
    mantissa, e, exponent = repr(value).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"


def _text(value: str) -> str:
    """Return `value` unquoted if every YAML reader takes it for a string, in lists too; else in double quotes."""
    if value and all(char.isalnum() or char in "./_<>+-~$" for char in value) and value.isprintable():
        places = (f"[{value}]", f"- {value}")  # a dash alone is a word in the first, a list in the second
        readings = {_plain_tag(loader, place, value) for loader in (CoreLoader, yaml.SafeLoader) for place in places}
        if readings == {"tag:yaml.org,2002:str"}:
            return value
    quoted: str = yaml.dump(value, Dumper=yaml.SafeDumper, default_style='"', allow_unicode=True, width=10**9)
    return quoted.removesuffix("\n")


def _plain_tag(loader: type[yaml.SafeLoader], place: str, text: str) -> str:
    """Return the tag that a reader gives to the bare word in the list `place`; empty if it does not read one word."""
    try:
        node = yaml.compose(place, loader)
    except yaml.YAMLError:
        return ""
    words = node.value if isinstance(node, yaml.SequenceNode) else []
    one_word = len(words) == 1 and isinstance(words[0], yaml.ScalarNode) and words[0].value == text
    return str(words[0].tag) if one_word else ""


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in line)
