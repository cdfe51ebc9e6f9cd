"""Read glossary files: a term, a tab and its translation per line."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from nmt.base.errors import DataError
from nmt.data.read.lines import read_lines
from nmt.data.text.glossary import Glossary

log = logging.getLogger(__name__)

_FORM = "write a term, a tab and its translation on each line"


def read_glossary(path: Path) -> Glossary:
    """Read the terms of `path`. DataError as `parse_glossary`."""
    return parse_glossary(read_lines(path), path)


def parse_glossary(text: Iterable[str], path: Path | None = None) -> Glossary:
    """Return the terms in the lines of a text, which comes from the file `path`, if given.

    Lines that start with # are comments, and cells after the second are notes. DataError, with file and line, if a line
    is not a term, or a term has two translations. Terms repeated with the same translation are logged as a warning.
    """
    glossary, lines, repeated = Glossary(), dict[str, int](), list[int]()
    for number, line in enumerate(text, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        source, tab, rest = line.partition("\t")
        source, target = " ".join(source.split()), rest.partition("\t")[0]
        if not tab:
            raise DataError("this line has no tab", path=path, line=number, hint=_FORM)
        try:
            glossary.add(source, target)
        except DataError as error:
            first = lines.get(source)
            hint = f"delete one of the two; the first is on line {first}" if first else _FORM
            raise DataError(error.message, path=path, line=number, hint=hint) from None
        if lines.setdefault(source, number) != number:
            repeated.append(number)
    if not len(glossary):
        raise DataError("this glossary has no terms", path=path, hint=_FORM)
    if repeated and path is not None:
        log.warning("%s:%d: this term is a repetition (%d such lines in total)", path, repeated[0], len(repeated))
    return glossary
