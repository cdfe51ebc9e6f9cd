"""Errors of a configuration in plain words, each with file, line and the closest valid name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nmt.base.errors import ConfigError, in_words, nearest
from nmt.config.base import Section
from nmt.config.corpora import ONE_CORPUS_OR_MORE, ParallelFiles
from nmt.config.sections import Config

# The path to a key, as pydantic names it: ("training", "stages", 0, "lr"). A `Location` is its place in a file.
Loc = tuple[str | int, ...]

MAX_LISTED = 20
_ALLOWED = "allowed: "
_MAX_SHOWN = 60  # characters of a value in a message
_NUMBERS = {int: "a whole number", float: "a number"}
_PLAIN = {bool: "true or false", str: "text", NoneType: "null"}
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


class Location(NamedTuple):
    """The location of a key: a file and its line (from 1), or a `--set` and no line."""

    source: str
    line: int | None


class Fault(NamedTuple):
    """One error: its key, its location, the message and a hint how to fix it."""

    loc: Loc
    place: Location
    message: str
    hint: str = ""


class Unusable:
    """A placeholder that no field accepts, so that validation rejects it; `text` is the value as written."""

    def __init__(self, text: str):
        self.text = text


def as_error(faults: Sequence[Fault]) -> ConfigError:
    """Return one error for all faults, in the order of their lines; those of `--set` come last."""
    ordered = sorted(faults, key=lambda fault: (fault.place.line is None, fault.place.line or 0))
    first = ordered[0]
    rest = ordered[1:]
    if not rest:
        return ConfigError(first.message, path=first.place.source, line=first.place.line, hint=first.hint)
    lines = [first.message + (f"\n  {first.hint}" if first.hint else "")]
    said = {first.hint.partition(_ALLOWED)[2]} | {first.hint}
    for fault in rest[: MAX_LISTED - 1]:
        guess, sign, listed = fault.hint.partition(_ALLOWED)
        hint = "" if fault.hint in said else guess.rstrip() if sign and listed in said else fault.hint
        said |= {listed, fault.hint}  # list the allowed keys, for example, only once
        lines.append(str(ConfigError(fault.message, path=fault.place.source, line=fault.place.line, hint=hint)))
    if len(ordered) > MAX_LISTED:
        lines.append(f"and {len(ordered) - MAX_LISTED} more")
    return ConfigError("\n".join(lines), path=first.place.source, line=first.place.line)


def dotted(loc: Loc) -> str:
    """Return a key's full name, such as `training.lr`, `item 2 of training.betas` or `tsv of item 2 of data.train`."""
    names = [""]
    for part in loc:
        if isinstance(part, int):
            names += [f"item {part + 1}", ""]
        else:
            names[-1] += f".{shortened(part)}"
    return " of ".join(name.removeprefix(".") for name in reversed(names) if name)


def shortened(text: str) -> str:
    """Return `text`, cut if it is too long for a message."""
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, Unusable):
        return shortened(value.text)
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return repr(shortened(value)) if isinstance(value, str) else shortened(str(value))


def section_in(annotation: object) -> type[Section] | None:
    """Return the section class in a field's annotation, also inside a list or union, such as `Corpora | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        return next(filter(None, map(section_in, get_args(annotation))), None)
    return None


def every_section(section: type[Section] = Config, loc: Loc = ()) -> Iterator[tuple[Loc, type[Section]]]:
    """Yield `section` and all sections below it, each with its place in the tree."""
    yield loc, section
    for key, field in section.model_fields.items():
        inner = section_in(field.annotation)
        if inner is not None:
            yield from every_section(inner, (*loc, key))


def unknown_key(section: type[Section], loc: Loc, key: str, place: Location) -> Fault:
    """Return the error for a key that `section` (at `loc`) does not have, with the section or name probably meant."""
    name = shortened(key)
    here = (*loc, key)
    if key == "<<":
        hint = "YAML 1.2 has no merge keys: write the keys here, or give a whole section an alias (key: *name)"
        return Fault(here, place, f"{dotted(here)}: keys cannot be merged", hint)
    places = [at for at, other in every_section() if at and key in other.model_fields]
    homes = [dotted(at) for at in places if at[:-1] not in places]
    match = nearest(key, list(section.model_fields))
    near = f"'{match}'" if match else ""
    if homes:
        fault = f"{dotted(loc)} has no '{name}'" if loc else f"'{name}' is not a section"
        hint = f"or did you mean {near}?" if near and not loc else ""
        return Fault(here, place, f"{fault}; it belongs in {in_words(homes, 'or')}", hint)
    message = f"unknown key '{name}' in {dotted(loc)}" if loc else f"unknown section '{name}'"
    if ours := foreign_names().get(key.lower().replace("-", "_")):
        *at, name = ours.split(".")
        description = dict(every_section())[tuple(at)].model_fields[name].description
        return Fault(here, place, message, f"in nmt: {ours}" + (f" ({description})" if description else ""))
    hint = (f"did you mean {near}? " if near else "") + f"{_ALLOWED}{', '.join(section.model_fields)}"
    return Fault(here, place, message, hint)


def allowed(annotation: object, metadata: Sequence[object] = ()) -> str:
    """Describe the values that a field of this type accepts."""
    origin = get_origin(annotation)
    kinds = get_args(annotation)
    section = section_in(annotation)
    if section is ParallelFiles:
        return "a mapping, or a list of mappings" + (" or null" if NoneType in kinds else "")
    if origin is Annotated:
        return allowed(kinds[0], kinds[1:])
    if origin is Literal:
        return f"one of {', '.join(map(str, kinds))}" if len(kinds) > 1 else str(kinds[0])
    if origin in (Union, UnionType):
        return " or ".join(allowed(kind, metadata) for kind in kinds)
    if origin is tuple:
        return f"a list{'' if kinds[-1] is Ellipsis else f' of {len(kinds)}'}, each {allowed(kinds[0])}"
    if section is not None:
        return "a mapping of keys to values"
    if isinstance(annotation, type) and annotation in _NUMBERS:
        limits = " and ".join(_limits(metadata))
        return _NUMBERS[annotation] + (f" ({limits})" if limits else "")
    return _PLAIN[annotation] if isinstance(annotation, type) and annotation in _PLAIN else str(annotation)


def _limits(metadata: Sequence[object]) -> Iterator[str]:
    for limit in metadata:
        if isinstance(limit, FieldInfo):
            yield from _limits(limit.metadata)
        for name, words in _LIMITS.items():
            if (bound := getattr(limit, name, None)) is not None:
                yield f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}"


def invalid(
    section: type[Section], given: Mapping[str, object], loc: Loc, error: ErrorDetails, places: Mapping[Loc, Location]
) -> Fault:
    """Turn one pydantic error of `section`, which is at `loc` and has the values `given`, into a fault."""
    kind = error["type"]
    if not error["loc"]:
        return _contradiction(loc, str(error["ctx"]["error"]), places)
    key = str(error["loc"][0])
    if key not in given:
        if not loc:
            hint = "it names the languages and the parallel text"
            return Fault((key,), places[loc], f"section '{key}' is missing", hint)
        hint = f"{key}: {section.model_fields[key].description}"
        return Fault((*loc, key), places[loc], f"{dotted(loc)} lacks the key '{key}'", hint)
    field = section.model_fields[key]
    value = given[key]
    annotation: object = field.annotation
    # Between the numbers of items, pydantic names the alternative types of a field.
    items = [part for part in error["loc"][1:] if isinstance(part, int)]
    if kind in ("missing", "too_long"):  # a list of the wrong length, not one of its items
        items = []
    for item in items:
        assert isinstance(value, list)
        value = value[item]
        kinds = get_args(annotation)
        annotation = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple), kinds[0])
    at = (*loc, key, *items)
    if kind == "value_error":
        complaint = str(error["ctx"]["error"])
        # For a text, the validator's message says what is allowed; for a list, it says what is wrong.
        message = f" must be {complaint}, got {shown(value)}" if isinstance(value, str) else f": {complaint}"
        return Fault(at, places[at], dotted(at) + message)
    message = f"{dotted(at)} must be {allowed(annotation, field.metadata)}, got {shown(value)}"
    return Fault(at, places[at], message, _hint(annotation, value))


def _hint(annotation: object, value: object) -> str:
    if get_origin(annotation) is Literal and isinstance(value, str):
        near = nearest(value, [str(choice) for choice in get_args(annotation)])
        return f"did you mean '{near}'?" if near else ""
    if section_in(annotation) is ParallelFiles:
        return f"name {ONE_CORPUS_OR_MORE}"
    takes_text = annotation is str or str in get_args(annotation)
    if takes_text and isinstance(value, int | float | Unusable):
        return f"if text is meant, quote it: '{shown(value)}'"
    return ""


def _contradiction(loc: Loc, message: str, places: Mapping[Loc, Location]) -> Fault:
    """Return the error for conflicting values, located at a key that the message names, preferably one from `--set`.

    If the message names a stage, a key of that stage comes first, then the stage itself.
    """
    words = [tuple(word.split(".")) for word in re.findall(r"[a-z_]+(?:\.[a-z_]+)*", message)]
    keys = [loc + word for word in words]
    if stage := re.search(r"\bstage (\d+)", message):
        at = ("training", "stages", int(stage[1]) - 1)
        keys = [*((*at, word[-1]) for word in words), at, *keys]
    named = [places[key] for key in keys if key in places]
    named.sort(key=lambda place: place.line is not None)
    place = named[0] if named else places[loc]
    return Fault(loc, place, f"{dotted(loc)}: {message}" if loc else message)


@cache
def foreign_names() -> dict[str, str]:
    """Return the key of nmt, such as `training.lr`, by the name that another toolkit gives it."""
    import tomllib  # here, because only a faulty configuration needs it

    keys = tomllib.loads(Path(__file__).with_name("foreign_names.toml").read_text(encoding="utf-8"))
    return {name: key for key, names in keys.items() for name in names.split()}
