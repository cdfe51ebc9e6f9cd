"""Each reason to drop a synthetic pair is found, and candidates survive being written."""

from __future__ import annotations

import math

import pytest

from nmt.apps.recipes.candidates import Candidate, Candidates, candidates_of, filter_reason
from nmt.base.errors import NmtError
from nmt.base.languages import Direction
from nmt.translation import SegmentTranslation, Translation

DE_EN = Direction("de", "en")


def translation(text: str, score: float = -2.0, *, alternatives=(), source="ein Haus", **fields) -> Translation:
    flags = {name: fields.pop(name) for name in ("truncated", "finished") if name in fields}
    ids = fields.pop("ids", [11, 12, 13])
    segment = SegmentTranslation(text, score, [7, 8], ids, **{"truncated": False, "finished": True, **flags})
    fields = {"without_spans": (source, text), "direction": DE_EN, **fields}
    return Translation(text, score, [segment], alternatives=list(alternatives), **fields)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "blank"),
        (" \u3000", "blank"),
        ("a\0b", "unreadable"),
        ("a\ufffdb", "unreadable"),
        ("a\x85b", "unreadable"),
        ("a\tb\rc", None),
        ("a" * 1001, "too_long"),
        ("a" * 1000, None),
    ],
)
def test_lines_that_become_no_pair(text, fault):
    assert filter_reason(text) == fault
    if fault:
        assert candidates_of(text, Translation("")) == Candidates(text, [Candidate("", None, (fault,))])


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (translation("a house"), None),
        (translation(" "), "empty"),
        (translation("a\x1c house"), "unreadable"),
        (translation("a" * 1001), "too_long"),
        (translation("a house", truncated=True), "truncated"),
        (translation("a house", finished=False), "unfinished"),
        (translation("a house", loop_unresolved=True), "looped"),
        (translation("Tom, Eva, Max", source="Tom, Eva, Max, Ida"), "copied"),
        (translation("a house", source="один дом"), "unusual"),
        (translation("это большой дом у реки"), "wrong_language"),
        (translation("a house", protected_lost=["{name}"]), "protected_lost"),
    ],
)
def test_outputs_that_look_wrong(found, fault):
    (candidate,) = candidates_of("ein Haus", found).outputs
    assert candidate.faults == (() if fault is None else (fault,))
    assert candidate.score == -0.5 or not found.finished


def test_an_output_has_all_its_faults_in_the_order_of_the_tests():
    source = "this is a {n}"
    looping = translation("this is a", source=source, finished=False, loop_unresolved=True)
    lossy = translation("this is a", source=source, finished=False, protected_lost=["{n}"], alternatives=[looping])
    assert [candidate.faults for candidate in candidates_of(source, lossy).outputs] == [
        ("unfinished", "copied", "protected_lost"),
        ("unfinished", "looped", "copied", "duplicate"),
    ]


def test_an_n_best_list_gives_a_candidate_each_and_repeated_texts_are_duplicates():
    found = translation("a house", alternatives=[translation("a\thouse "), translation("one house", -6.0)])
    assert candidates_of("ein Haus", found).outputs == [
        ("a house", -0.5, ()),
        ("a house", -0.5, ("duplicate",)),
        ("one house", -1.5, ()),
    ]


def test_scores_may_be_missing_but_not_infinite():
    assert candidates_of("ein Haus", translation("a house", math.nan)).outputs[0].score is None
    with pytest.raises(NmtError, match="not a finite number"):
        candidates_of("ein Haus", translation("a house", -math.inf)).to_line()


def test_candidates_are_read_as_they_were_written():
    outputs = [Candidate("汉字", -1.25), Candidate("a", -2.0, ("looped", "copied")), Candidate("", None, ("empty",))]
    candidates = Candidates('tab\t"quote" \u2028', outputs)
    assert candidates.to_line().count("\n") == 1
    assert Candidates.from_line(candidates.to_line().encode()) == candidates


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[", b"[]", b'["a"]', b'["a", []]', b"7", b'["a", ["b"]]', b'["a", [[1, null, []]]]',
        b'["a", [["b", null, null]]]', b'["a", [["b", null, "looped"]]]', b'["a", [["b", null, [[]]]]]', b"[" * 9999,
        b"\xff",
    ],
)  # fmt: skip
def test_damaged_candidates_are_a_value_error(line):
    with pytest.raises(ValueError):  # noqa: PT011 (the message is that of pydantic)
        Candidates.from_line(line)
