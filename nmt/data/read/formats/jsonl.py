"""Read JSON Lines: one object per line, with the source and the target in two of its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from nmt.base.errors import DataError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import Record, on_one_line
from nmt.data.read.lines import read_lines

_KINDS = {dict: "an object", list: "an array", str: "text", bool: "true or false", int: "a number", float: "a number"}
_SHOWN_KEYS = 20
_OBJECTS = "each line must be one JSON object; for one large array: jq -c '.[]'"


def read_jsonl(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the two `fields` of each line's object. null and blank lines give an empty side.

    Raises DataError as `read_lines` does, and for a line that is not a JSON object, lacks a field, or has a field that
    is not text.
    """
    src_field, tgt_field = files.fields
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, start=1):
            if not line or line.isspace():
                yield "", "", number
                continue
            values = _object(line, path, number)
            yield _text(values, src_field, path, number), _text(values, tgt_field, path, number), number


def _object(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON at character {error.pos + 1} of the line: {error.msg}", path=path, line=number, hint=_OBJECTS
        ) from None
    except (ValueError, RecursionError):
        raise DataError(
            "not readable as JSON: nested too deep, or a number with too many digits", path=path, line=number
        ) from None
    if not isinstance(values, dict):
        raise DataError(f"{_kind(values)} instead of an object", path=path, line=number, hint=_OBJECTS)
    return values


def _text(values: dict[str, object], field: str, path: Path, line: int) -> str:
    """Return the text of a field; its name may be a key, or a path into objects and arrays (`a.b`, `a.0`)."""
    value: object = values
    keys = [field] if field in values else field.split(".")
    for depth, key in enumerate(keys):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            parent = ".".join(keys[:depth])
            hint = f"'{parent}' is {_kind(value)}"
            if isinstance(value, dict):
                paths = [name[:60] for name in islice(_paths(value), _SHOWN_KEYS)]
                hint = f"it has {', '.join(paths)}{', …' * (len(value) > _SHOWN_KEYS)}" if paths else "it has no fields"
            hint += "; set fields, or name two of them after the file: FILE#SOURCE,TARGET"
            within = f" in '{parent}'" if parent else ""
            raise DataError(f"no field '{key}'{within}", path=path, line=line, hint=hint)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(
            f"the field '{field}' is {_kind(value)}, not text",
            path=path,
            line=line,
            hint="a field must be text; use a dot to enter a nested object, such as translation.de",
        )
    return on_one_line(value, path, line)


def _paths(values: dict[str, object]) -> Iterator[str]:
    """Yield the names of fields, and of those in an object: `translation.de` in the form of a dataset with both."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "null")
