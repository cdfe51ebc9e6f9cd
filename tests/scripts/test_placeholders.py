"""The counts of placeholders: what is kept, lost with a flag, or lost in silence; and flags of references."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.translation import Translation

SCRIPT = Path(__file__).parents[2] / "scripts" / "placeholders.py"
spec = importlib.util.spec_from_file_location("placeholders", SCRIPT)
assert spec is not None
assert spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


class Run:
    path = "runs/fake"

    def read_pairs(self, split):
        return ["Two men walk the dog here.", "See {n} of the men here now.", "Nobody is at home today"], ["", "", ""]


def test_each_placeholder_stands_once_in_each_of_three_places():
    cases = script.make_cases(Run())
    placeholders = [each for some in script.FAMILIES.values() for each in some]
    assert len(cases) == 3 * len(placeholders) == 3 * len(set(placeholders))
    assert all(case.text.count(case.placeholder) >= 1 for case in cases)
    at_start, within, at_end = (cases[number::3] for number in range(3))
    assert all(case.text.startswith(f"{case.placeholder} ") for case in at_start)
    assert all(case.text.rstrip(".!? ").endswith(case.placeholder.rstrip(".!? ")) for case in at_end)
    assert {case.text[case.text.index(case.placeholder) - 1] for case in within} >= {" ", '"', "("}


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (Translation("x F5 y"), "kept"),
        (Translation("x y", protected_lost=["F5"]), "named"),
        (Translation("x y", numbers_missed=["5"]), "named"),
        (Translation("x y", loop_unresolved=True), "flagged"),
        (Translation("x y"), "silent"),
    ],
)
def test_a_result_is_what_the_flags_say(found, result):
    assert script.result_of(script.Case("key", "F5", "Press F5 now"), found) == result


def test_references_are_counted_by_what_they_lack(letters_run, capsys):
    with Translator.load(letters_run, device="cpu", precision="fp32") as translator:
        corpus = ["see %s now", "a dog", "the R&D dog"], ["see now", "a dog", "the dog"]
        script.count_references(translator, RunDir(letters_run), corpus, details=True)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[1:3] == ["  marks, words and tokens: 1, 33.33%", "  these and spans: 2, 66.67%"]
    assert lines[-2:] == ["span\t%s\tsee %s now\tsee now", "acronyms\tR&D\tthe R&D dog\tthe dog"]
