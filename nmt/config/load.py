"""Load a checked `Config` from YAML and `--set`; report each error with file, line and the closest valid key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from nmt.base.errors import ConfigError, require_texts, require_type
from nmt.base.files import read_at_most
from nmt.config.base import Section
from nmt.config.corpora import FORMS
from nmt.config.faults import (
    Fault,
    Loc,
    Location,
    Unusable,
    as_error,
    dotted,
    invalid,
    section_in,
    shortened,
    shown,
    unknown_key,
)
from nmt.config.nodes import Tree, read_tree
from nmt.config.search import SearchOptions
from nmt.config.sections import Config

MAX_BYTES = 1_000_000

PATH_KEYS = frozenset({*FORMS, "tgt", "mono_tgt", "store_dir", "path", "init_from"})
"""Keys that hold a path, in which `~` and environment variables are expanded, in every section that has them."""

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\{))",
    re.ASCII,
)


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Load the configuration in the YAML file `path`, changed by `overrides` (each `section.key=value`, as YAML).

    In keys that hold a path, a leading `~`, `$NAME`, `${NAME}` and `${NAME:-default}` are expanded, and `$$` is `$`.
    Raises `ConfigError` that lists all errors, each with file and line, or with its `--set`.
    """
    require_type("a configuration", path, (str, Path), "the path of a YAML file")
    path = Path(path)
    return load_text(_read_text(path), path, require_texts("overrides", overrides))


def load_text(text: str, path: Path, overrides: Sequence[str] = ()) -> Config:
    """Load the configuration in the YAML `text`, as `load_config` does; `path` is its name in messages."""
    tree = read_tree(text, str(path))
    given = _mapping_in(tree, path)
    for override in overrides:
        _apply(tree, given, override)
    config = _read_section(Config, given, (), tree)
    if tree.faults:
        raise as_error(tree.faults)
    assert isinstance(config, Config)
    return config


def load_search(overrides: Sequence[str]) -> dict[str, object]:
    """Return the keys of the section `decoding` that `overrides` set, each `decoding.key=value` with a YAML value.

    Raises `ConfigError` as `load_config` does, but for values that conflict: with what, the caller knows.
    """
    tree = Tree({}, {}, [])
    given: dict[str, object] = {}
    for override in overrides:
        _apply(tree, given, override)
    for name in given.keys() - {"decoding"}:
        place = tree.places[name,]
        no_effect = Fault((name,), place, f"{name} has no effect here", "only keys of decoding change a search")
        tree.faults.append(no_effect if name in Config.model_fields else unknown_key(Config, (), name, place))
    values = given.get("decoding") or {}
    if isinstance(values, dict):
        _read_section(SearchOptions, values, ("decoding",), tree, may_conflict=True)
    else:
        fault = f"decoding must be a mapping of keys to values, got {shown(values)}"
        tree.faults.append(Fault(("decoding",), tree.places["decoding",], fault))
    if tree.faults:
        raise as_error(tree.faults)
    assert isinstance(values, dict)
    return values


def _read_text(path: Path) -> str:
    try:
        return read_at_most(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            "no such file", path=path, hint=f"`nmt config new --src a.de --tgt a.en -o {path.name}` writes a first one"
        ) from None
    except IsADirectoryError:
        inside = path / "config.yaml"
        raise ConfigError(
            "this is a folder; a YAML file is needed",
            path=path,
            hint=f"name the file in it: {inside}" if inside.is_file() else "",
        ) from None
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


def _read_section(
    section: type[Section],
    given: Mapping[str, object],
    loc: Loc,
    tree: Tree,
    *,
    may_conflict: bool = False,
) -> Section | Unusable:
    """Return the section with the values `given` and paths expanded. If it has errors, add them to the tree."""
    values: dict[str, object] = {}
    num_faults = len(tree.faults)
    for key, value in given.items():
        here = (*loc, key)
        if field := section.model_fields.get(key):
            values[key] = _read_value(key, field, value, here, tree)
        else:
            tree.faults.append(unknown_key(section, loc, key, tree.places[here]))
    try:
        return section.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
    unknown = tree.faults[num_faults:]
    for detail in details:
        is_conflict = not detail["loc"]
        if is_conflict and (may_conflict or len(tree.faults) > num_faults):
            continue  # conflicting values may stop conflicting once the other errors are fixed
        if detail["type"] == "missing" and "<<" in given:
            continue  # a merge key, which is an error itself, should have brought it
        fault = invalid(section, given, loc, detail, tree.places)
        is_unusable = isinstance(detail["input"], Unusable)  # most often, this was found when the value was read
        is_known = is_unusable and any(known.loc[: len(fault.loc)] == fault.loc for known in tree.faults)
        if is_conflict or not (is_known or fault in tree.faults or _is_misnamed(fault.loc, unknown)):
            tree.faults.append(fault)  # once, for all the types that a field may have
    return Unusable("")


def _is_misnamed(loc: Loc, unknown: Sequence[Fault]) -> bool:
    """Return whether a key may be missing because it has an unknown name: `scr_lang` for `src_lang`."""
    guesses = f"did you mean '{loc[-1]}'?", f"in nmt: {dotted(loc)}"
    return any(fault.loc[:-1] == loc[:-1] and fault.hint.startswith(guesses) for fault in unknown)


def _read_value(key: str, field: FieldInfo, value: object, loc: Loc, tree: Tree) -> object:
    """Return the value of a key for validation, with its sections read."""
    section = section_in(field.annotation)
    if section is None:
        if key in PATH_KEYS and isinstance(value, str):
            return _expand(value, loc, tree)
        return value
    if value is None and NoneType not in get_args(field.annotation):
        # A section whose keys, or a list whose items, are all commented out.
        value = () if get_origin(field.annotation) is tuple else {}
    if isinstance(value, dict):
        return _read_section(section, value, loc, tree)
    if isinstance(value, list):
        items = enumerate(value)
        return [_read_section(section, item, (*loc, i), tree) if isinstance(item, dict) else item for i, item in items]
    return value


def _expand(value: str, loc: Loc, tree: Tree) -> str:
    """Return a path with `~` and environment variables expanded; a variable that is not set is an error."""
    faults: list[tuple[str, str]] = []

    def replaced(match: re.Match[str]) -> str:
        name = match["bare"] or match["name"]
        default = match["default"]
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
