"""Load a checked `Config` from YAML and `--set`; report each error with file, line and the closest valid key."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.base.errors import ConfigError, require_type
from nmt.base.files import read_at_most
from nmt.config.base import Section
from nmt.config.corpora import FORMS
from nmt.config.faults import (
    REMOVED,
    Fault,
    Loc,
    Location,
    Unusable,
    as_error,
    dotted,
    field_at,
    invalid,
    section_in,
    shortened,
    shown,
    unknown_key,
    without_alternatives,
)
from nmt.config.nodes import Tree, read_tree
from nmt.config.search import SearchOptions
from nmt.config.sections import STORED, Config

MAX_BYTES = 1_000_000

PATH_KEYS = frozenset({*FORMS, "tgt", "store_dir", "path", "init_from"})
"""Keys that hold a path, in which `~` and environment variables are expanded, in every section that has them."""

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\{))",
    re.ASCII,
)


def load_config(path: Path | str, overrides: Sequence[str] = (), *, stored: bool = False) -> Config:
    """Load the configuration in the YAML file `path`, changed by `overrides` (each `section.key=value`, as YAML).

    In keys that hold a path, a leading `~`, `$NAME`, `${NAME}` and `${NAME:-default}` are expanded, and `$$` is `$`.
    The configuration of a run is `stored`: it may have settings without effect. Raises `ConfigError` that lists all
    errors, each with file and line, or with its `--set`.
    """
    require_type("a configuration", path, (str, Path), "the path of a YAML file")
    path = Path(path)
    return load_text(_read_text(path), path, overrides, stored=stored)


def load_text(text: str, path: Path, overrides: Sequence[str] = (), *, stored: bool = False) -> Config:
    """Load the configuration in the YAML `text`, as `load_config` does; `path` is its name in messages."""
    tree = read_tree(text, str(path))
    given = _mapping_in(tree, path)
    if stored:
        _drop_removed(given)
        if isinstance(data := given.get("data"), dict):
            data.setdefault("characters", "as_written")  # of a run from before there was a rule
    for override in overrides:
        _apply(tree, given, override)
    config = _validate(_section_values(Config, given, (), tree), tree, stored=stored)
    if tree.faults or config is None:
        raise as_error(tree.faults)
    return config


def load_search(overrides: Sequence[str]) -> dict[str, object]:
    """Return the keys of the section `decoding` that `overrides` set, each `decoding.key=value` with a YAML value.

    Raises `ConfigError` as `load_config` does, but for values that conflict: with what, the caller knows.
    """
    tree = Tree({}, {}, [])
    given: dict[str, object] = {}
    for override in overrides:
        _apply(tree, given, override)
    for section in Config.model_fields.keys() & given.keys() - {"decoding"}:
        fault = f"{section} has no effect here"
        tree.faults.append(Fault((section,), tree.places[section,], fault, "only keys of decoding change a search"))
    values = _section_values(Config, given, (), tree).get("decoding", {})
    try:
        SearchOptions.model_validate(values)
    except ValidationError as error:
        wrong = [detail for detail in error.errors(include_url=False) if detail["type"] != "value_error"]
        tree.faults.extend(invalid({**detail, "loc": ("decoding", *detail["loc"])}, tree.places) for detail in wrong)
    if tree.faults:
        raise as_error(tree.faults)
    assert isinstance(values, dict)
    return values


def _drop_removed(values: object) -> None:
    """Take out the keys that runs of earlier versions have."""
    if isinstance(values, dict):
        for key in REMOVED.keys() & values.keys():
            del values[key]
    if isinstance(values, dict | list):
        for inner in values.values() if isinstance(values, dict) else values:
            _drop_removed(inner)


def _read_text(path: Path) -> str:
    try:
        return read_at_most(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        hint = f"`nmt config new --src a.de --tgt a.en -o {path.name}` writes a first one"
        raise ConfigError("no such file", path=path, hint=hint) from None
    except IsADirectoryError:
        inside = path / "config.yaml"
        hint = f"name the file in it: {inside}" if inside.is_file() else ""
        raise ConfigError("this is a folder; a YAML file is needed", path=path, hint=hint) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text", path=path, line=line, hint="save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None


def _mapping_in(tree: Tree, path: Path) -> dict[str, object]:
    """Return the sections of the file. Raises `ConfigError` if it is empty or holds something else."""
    if isinstance(tree.data, dict):
        return tree.data
    sections = ", ".join(Config.model_fields)
    if tree.faults:
        raise as_error(tree.faults)
    if tree.data is None:
        raise ConfigError("the file is empty", path=path, hint=f"write the sections {sections}; only data is required")
    line = tree.places[()].line
    raise ConfigError(f"expected a mapping ({sections}), got {shown(tree.data)}", path=path, line=line)


def _apply(tree: Tree, given: dict[str, object], override: str) -> None:
    """Put one `a.b=value` into the sections, with the `--set` as its place. Raises `ConfigError` if it is malformed."""
    place = Location(f"--set {shortened(override)}", None)
    name, equals, text = override.partition("=")
    loc = tuple(part.strip() for part in name.split("."))
    if not equals or not all(loc):
        raise ConfigError("expected section.key=value", path=place.source, hint="such as --set training.lr=1e-3")
    value = read_tree(text, place.source, at=loc, numbered=False)
    here = given
    for depth, part in enumerate(loc[:-1], start=1):
        if here.get(part) is None:
            here[part] = {}
            tree.places[loc[:depth]] = place
        inner = here[part]
        if not isinstance(inner, dict):
            raise ConfigError(f"{dotted(loc[:depth])} is {shown(inner)} and has no keys", path=place.source)
        here = inner
    here[loc[-1]] = value.data
    # The old value is overridden, so its errors do not count.
    for old in [known for known in tree.places if known[: len(loc)] == loc]:
        del tree.places[old]
    tree.faults[:] = [fault for fault in tree.faults if fault.loc[: len(loc)] != loc] + value.faults
    tree.places.update(value.places)
    tree.places[loc] = place


def _section_values(section: type[Section], given: dict[str, object], loc: Loc, tree: Tree) -> dict[str, object]:
    """Return the known keys of one section, ready for validation, with paths expanded. Add errors to the tree."""
    values: dict[str, object] = {}
    for key, value in given.items():
        here = (*loc, key)
        field = section.model_fields.get(key)
        if field is None:
            tree.faults.append(unknown_key(section, loc, key, tree.places[here]))
            continue
        inner = section_in(field.annotation)
        if inner is not None and value is None and NoneType not in get_args(field.annotation):
            # A section whose keys, or a list whose items, are all commented out.
            value = () if get_origin(field.annotation) is tuple else {}
        if inner is not None and isinstance(value, dict):
            values[key] = _section_values(inner, value, here, tree)
        elif inner is not None and isinstance(value, list):
            values[key] = [
                _section_values(inner, item, (*here, i), tree) if isinstance(item, dict) else _without_booleans(item)
                for i, item in enumerate(value)
            ]
        elif key in PATH_KEYS and isinstance(value, str):
            values[key] = _expand(value, here, tree)
        else:
            takes_booleans = field.annotation is bool or bool in get_args(field.annotation)
            values[key] = value if takes_booleans else _without_booleans(value)
    return values


def _without_booleans(value: object) -> object:
    # Pydantic accepts True as 1, but nobody who writes `batch_tokens: true` means 1.
    if isinstance(value, list):
        return [_without_booleans(item) for item in value]
    return Unusable(shown(value)) if isinstance(value, bool) else value


def _expand(value: str, loc: Loc, tree: Tree) -> str:
    """Return a path with `~` and environment variables expanded; a variable that is not set is an error."""
    faults: list[tuple[str, str]] = []

    def replaced(match: re.Match[str]) -> str:
        name, default = match["bare"] or match["name"], match["default"]
        if match["broken"]:
            faults.append((": '${' without a name and a '}' after it", "write $$ for a plain $"))
        elif name and default is None and name not in os.environ:
            hint = f"set it, or write ${{{name}:-default}}"
            faults.append((f": the environment variable {name} is not set", hint))
        return "$" if match["dollar"] else os.environ.get(name or "") or default or ""

    path = os.path.expanduser(_VARIABLE.sub(replaced, value))
    if not path and not faults:
        faults.append((" is an empty path", "give a file, or omit the key"))
    tree.faults.extend(Fault(loc, tree.places[loc], dotted(loc) + message, hint) for message, hint in faults)
    return path


def _validate(values: dict[str, object], tree: Tree, *, stored: bool) -> Config | None:
    """Return the configuration, or None after adding the errors to the tree."""
    try:
        return Config.model_validate(values, context={STORED: stored})
    except ValidationError as error:
        details = error.errors(include_url=False)
    known = {fault.loc for fault in tree.faults}
    # A value that is unusable as YAML was already reported when it was read.
    unread = [d for d in details if not (isinstance(d["input"], Unusable) and without_alternatives(d["loc"]) in known)]
    unknown_keys = [fault for fault in tree.faults if fault.loc and field_at(fault.loc) is None]
    for detail in unread:
        if not (unknown_keys and _follows_from(unknown_keys, detail)):
            fault = invalid(detail, tree.places)
            if fault not in tree.faults:  # once, for all the types that a field may have
                tree.faults.append(fault)
    return None


def _follows_from(unknown_keys: Sequence[Fault], detail: ErrorDetails) -> bool:
    """Return whether unknown keys may have caused an error: `scr_lang` for `src_lang` leaves `src_lang` missing."""
    loc = detail["loc"]
    if detail["type"] == "missing":
        return any(
            (unknown.loc[:-1] == loc[:-1] and f"did you mean '{loc[-1]}'?" in unknown.hint)
            or unknown.hint.startswith(f"in nmt: {dotted(loc)}")
            for unknown in unknown_keys
        )
    field = field_at(loc)
    # Conflicting values may stop conflicting once the unknown keys are fixed.
    return detail["type"] == "value_error" and (field is None or section_in(field.annotation) is not None)
