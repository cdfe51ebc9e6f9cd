"""Parse YAML text into plain values, each with its line.

Numbers and words are read as in YAML 1.2's core schema: `3e-4` is a number, `no` and `2020-01-01` are text. Only
mappings, lists, text, numbers, true, false and null are allowed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import yaml

from nmt.base.errors import ConfigError
from nmt.config.faults import Fault, Loc, Location, Unusable, dotted, shortened

MAX_DEPTH = 32
MAX_NODES = 10_000
_CORE = "tag:yaml.org,2002:"
_MAX_INTEGER = 2**63
_TOO_DEEP = f"nested more than {MAX_DEPTH} deep"
_HINTS = {  # by words in PyYAML's message
    "'\\t'": "indent with spaces, not with tabs",
    "mapping values are not allowed": "one ': ' too many, or an indent that does not match; text that contains ': ' "
    "needs quotes",
    "could not find expected ':'": "write key: value; look at the line above too",
    "expected ',' or": "text that contains any of { } [ ] , needs quotes here",
    "escape": "in double quotes, \\ begins an escape; write the path in single quotes, or with / for each \\",
    "another document": "keep only one document in the file; --- begins another",
}


class Tree(NamedTuple):
    """A parsed YAML text: its values, the location of each key and item, and the errors found."""

    data: object
    places: dict[Loc, Location]
    faults: list[Fault]


class CoreLoader(yaml.SafeLoader):
    """PyYAML's safe loader, but reading plain words as YAML 1.2 does."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own name, filled below


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+(_[0-9]+)*", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    CoreLoader.add_implicit_resolver(_CORE + _tag, re.compile(rf"^(?:{_pattern})\Z"), _first)


def read_tree(text: str, source: str, *, at: Loc = (), numbered: bool = True) -> Tree:
    """Return the values in `text`, with the location of each key and item.

    `source` is the file's name, or the `--set` (then `numbered` is false and locations have no line); `at` is the key
    of the configuration that the text belongs to. Raises `ConfigError`, with the line, for text that is not YAML, nests
    too deeply or has too many values; lesser errors (a duplicate key, a number too large) are listed in the tree.
    """
    reading = _Reading(source, numbered)
    line: int | None = None
    hint = ""
    try:
        root = _compose(text)
        data = None if root is None else reading.value(root, at, 0)
    except yaml.MarkedYAMLError as error:
        problem = f"not readable as YAML: {error.problem or error.context}"
        hint = next((hint for words, hint in _HINTS.items() if words in problem), "")
        line = error.problem_mark.line + 1 if error.problem_mark else None
    except yaml.reader.ReaderError as error:
        problem = f"holds the control character {ord(text[error.position]):#04x}"
        line = text.count("\n", 0, error.position) + 1
    except RecursionError:  # in PyYAML, hundreds deep
        problem = f"not readable as YAML: {_TOO_DEEP}"
    except (ValueError, OverflowError):  # from chr(), to which PyYAML passes the number of an escape
        problem = "not readable as YAML: an escape names no character"
    else:
        return Tree(data, reading.places, reading.faults)
    raise ConfigError(problem, path=source, line=line if numbered else None, hint=hint)


@lru_cache(maxsize=8)
def _compose(text: str) -> yaml.Node | None:
    """Parse `text` into nodes, which `_Reading` leaves as they are: a command reads the same file several times."""
    return yaml.compose(text, CoreLoader)


class _Reading:
    """One walk over a graph of YAML nodes."""

    def __init__(self, source: str, numbered: bool):
        self._source = source
        self._numbered = numbered
        self._num_nodes = 0
        self.places: dict[Loc, Location] = {}
        self.faults: list[Fault] = []

    def value(self, node: yaml.Node, loc: Loc, depth: int) -> object:
        """Return the plain value of a node. An alias is followed, and counts each time."""
        self._num_nodes += 1
        if self._num_nodes > MAX_NODES or depth >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=_TOO_DEEP if depth >= MAX_DEPTH else f"more than {MAX_NODES} values, aliases counted each time",
                problem_mark=node.start_mark,
            )
        self.places.setdefault(loc, self._place(node))
        kind = node.tag.removeprefix(_CORE)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, loc, depth)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(item, (*loc, i), depth + 1) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in ("str", "int", "float", "bool", "null"):
            return self._scalar(node.value, kind, loc)
        tag = shortened(node.tag.replace(_CORE, "!!"))
        return self._unusable(loc, tag, f"{dotted(loc)}: the tag {tag} is not allowed".removeprefix(": "))

    def _mapping(self, node: yaml.MappingNode, loc: Loc, depth: int) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(loc, place, "a key must be a word, not a list or a mapping"))
                continue
            key = key_node.value
            inner = (*loc, key)
            if key in values:
                first = self.places[inner].line
                earlier = f"; it is already on line {first}" if first else ""
                self.faults.append(Fault(inner, place, f"{dotted(inner)} is given twice{earlier}", "keep one of them"))
                continue
            self.places[inner] = place
            values[key] = self.value(value_node, inner, depth + 1)
        return values

    def _scalar(self, text: str, kind: str, loc: Loc) -> object:
        if any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\t\n" for char in text):
            return self._unusable(loc, text, f"{dotted(loc)} holds a control character")
        if kind not in ("int", "float"):
            return {"str": text, "null": None, "bool": text.lower() == "true"}[kind]
        try:
            number = int(text) if kind == "int" else float(text)
        except ValueError:  # such as `!!int abc`, or thousands of digits
            number = math.nan
        if abs(number) < (_MAX_INTEGER if kind == "int" else math.inf):  # not nan
            return number
        return self._unusable(loc, text, f"{dotted(loc)}: {shortened(text)} is not a number, or too large a one")

    def _unusable(self, loc: Loc, text: str, message: str) -> Unusable:
        self.faults.append(Fault(loc, self.places[loc], message))
        return Unusable(text)

    def _place(self, node: yaml.Node) -> Location:
        return Location(self._source, node.start_mark.line + 1 if self._numbered else None)
