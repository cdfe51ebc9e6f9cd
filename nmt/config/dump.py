"""Write a configuration as YAML that `load_config` reads back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from nmt.base.errors import printable
from nmt.config.base import Section
from nmt.config.corpora import ParallelFiles
from nmt.config.load import PATH_KEYS, load_text
from nmt.config.sections import Config
from nmt.config.training import Stage, TrainingConfig

_BARE = re.compile(r"(?:\.{0,2}/|~/|[$<](?!<)|[^\W\d])[\w./<>+~$-]*")  # text that needs no quotes, except these:
_READ_AS_OTHERS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # by readers of YAML 1.1 or 1.2
_WIDTH = 120  # a comment that would exceed this goes above its key


def dump_config(config: Config, comments: bool = False, header: str = "") -> str:
    """Return the configuration as YAML text with every field, in the order of the sections; a stage only has its own.

    `comments` adds the meaning and allowed values of each field. `header` goes at the top, as comment lines. `$` in a
    path is written as `$$`, so that it is not read as a variable.
    """
    lines = [f"# {printable(line)}".rstrip() for line in header.splitlines()]
    for name, field in Config.model_fields.items():
        section = getattr(config, name)
        lines += [""] if lines else []
        if comments:
            lines.append(f"# {(section.__doc__ or '').partition(chr(10))[0]}")
        lines += _entry(name, section, field, "", comments)
    return "\n".join(lines) + "\n"


def with_values(config: Config, source: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Return `config` with `overrides` (each `section.key=value`, as YAML), validated as if read from `source`."""
    return load_text(dump_config(config), Path(source), overrides)


def _section_lines(section: Section, indent: str, comments: bool) -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(section, ParallelFiles) and (value is None or not section.uses(name)):
            continue
        if isinstance(section, Stage) and value == field.default:
            continue
        if isinstance(section, TrainingConfig) and section.stages and name == "max_updates":  # their sum
            continue
        if name in PATH_KEYS and value is not None:
            value = value.replace("$", "$$")
        yield from _entry(name, value, field, indent, comments)


def _entry(name: str, value: object, field: FieldInfo, indent: str, comments: bool) -> Iterator[str]:
    """Yield the lines of one key: its value, or the keys below it."""
    sections = value if isinstance(value, tuple) else (value,)
    if sections and isinstance(sections[0], Section):
        write = _item_lines if isinstance(value, tuple) else _section_lines
        yield f"{indent}{name}:"
        for section in sections:
            yield from write(section, indent + "  ", comments)
        return
    line = f"{indent}{name}: {_value(value)}"
    choices = " | ".join(map(_value, get_args(field.annotation))) if get_origin(field.annotation) is Literal else ""
    comment = "; ".join(filter(None, (choices, field.description))) if comments else ""
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


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):  # a YAML 1.1 reader takes 1e-09 for text; every reader takes 1.0e-9 for a number
        mantissa, e, exponent = repr(value).partition("e")
        return mantissa + (f"{'' if '.' in mantissa else '.0'}e{int(exponent):+d}" if e else "")
    if not isinstance(value, str):
        return str(value)
    if _BARE.fullmatch(value) and value.lower() not in _READ_AS_OTHERS:
        return value
    quoted: str = yaml.dump(value, Dumper=yaml.SafeDumper, default_style='"', allow_unicode=True, width=10**9)
    return quoted.removesuffix("\n")
