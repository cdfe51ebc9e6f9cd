"""Translations of monolingual text as candidates for training pairs, with their faults."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter

from nmt.base.files import to_json
from nmt.config.filters import THRESHOLDS
from nmt.translation.translation import Translation

MAX_CHARACTERS = int(THRESHOLDS["too_long"])  # the maximum length of a text in a pair; sentences are rarely this long
FAULTS = (
    "blank", "unreadable", "too_long", "failed", "refused", "explained", "empty", "truncated", "unfinished", "looped",
    "copied", "wrong_language", "unusual", "protected_lost", "duplicate", "repeated",
    "length_ratio", "not_best",
)  # fmt: skip
"""The reasons to drop a pair, in the order in which they are tested; docs/how-to/monolingual.md explains each."""

_UNREADABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ufffd]")
_UNLIKE = {"language", "noise", "vocabulary"}  # reasons of `find_unusual` why the model cannot translate a given line
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\t", " "))


@dataclass(frozen=True)
class Answer(Translation):
    """A translation by a language model."""

    faults: tuple[str, ...] = ()  # in the order of `FAULTS`


class Candidate(NamedTuple):
    """One output for a given line."""

    output: str
    score: float | None  # mean natural-log probability per token, eos included; None if it was not computed
    faults: tuple[str, ...] = ()  # in the order of `FAULTS`


class Candidates(NamedTuple):
    """A given line with its outputs, best first. There is at least one, empty if the line was not translated."""

    text: str
    outputs: Annotated[list[Candidate], Field(min_length=1)]

    def to_line(self) -> str:
        """Return a line of JSON. NmtError if a score is infinite."""
        return to_json(self) + "\n"

    @classmethod
    def from_line(cls, line: str | bytes) -> Candidates:
        """Read what `to_line` wrote. ValueError if it is damaged."""
        return _STORED.validate_json(line)


_STORED = TypeAdapter(Candidates)


def filter_reason(text: str) -> str | None:
    """Return the reason to leave a given line out, one of `FAULTS`, if any."""
    if not text.strip():
        return "blank"
    if _UNREADABLE.search(text):
        return "unreadable"
    return "too_long" if len(text) > MAX_CHARACTERS else None


def candidates_of(text: str, translation: Translation) -> Candidates:
    """Return the outputs for `text` in the n-best list of `translation`, each with all its faults."""
    if fault := filter_reason(text):
        return Candidates(text, [Candidate("", None, (fault,))])
    seen: set[str] = set()
    outputs = []
    for each in (translation, *translation.alternatives):
        output = each.text.translate(_LINE_BREAKS).strip()
        score = None if math.isnan(each.score) else round(each.mean_log_prob, 6)
        outputs.append(Candidate(output, score, _faults(each, output, is_duplicate=output in seen)))
        seen.add(output)
    return Candidates(text, outputs)


def _faults(translation: Translation, output: str, *, is_duplicate: bool) -> tuple[str, ...]:
    """Return the faults of a translation, whose text on one line is `output`."""
    found = set(translation.faults) if isinstance(translation, Answer) else set()
    faults = {
        "unreadable": _UNREADABLE.search(output) is not None,
        "too_long": len(output) > MAX_CHARACTERS,
        "empty": not output,
        "truncated": translation.truncated,
        "unfinished": not translation.finished,
        "looped": translation.loop_unresolved,
        "copied": translation.copied_source,
        "wrong_language": translation.wrong_language,
        "unusual": not _UNLIKE.isdisjoint(translation.unusual_source),
        "protected_lost": bool(translation.protected_lost),
        "duplicate": is_duplicate,
    }
    return tuple(fault for fault in FAULTS if fault in found or faults.get(fault))
