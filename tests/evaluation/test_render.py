"""An evaluation as text."""

from __future__ import annotations

from nmt.evaluation.details import examine
from nmt.evaluation.render import render_comparison, render_details
from nmt.evaluation.significance import Scorer, compare_systems

TWO_SOURCES = ["Ja.", "Ein Hund bellt laut im Garten."]
SCORER = Scorer([["Yes.", "A dog barks loudly in the garden."]], "en", ["chrf", "chrf++"])
SYSTEM = SCORER.measure("ours", ["Yes\x1b.", ""])


def test_groups_flags_and_the_worst_are_listed():
    assert list(render_details(examine(SYSTEM, TWO_SOURCES, "de"))) == [
        "",
        "by number of words of the source",
        "         sentences  chrF2  chrF2++",
        f"1 to 5           1  {SYSTEM.measured[0].score([0]):5.2f}  {SYSTEM.measured[1].score([0]):7.2f}",
        "6 to 10          1   0.00     0.00",
        "",
        "outputs that look wrong: 1 empty",
        "",
        "the 2 worst by chrF",
        "line 2: chrF 0.00  (empty)",
        "  source     Ein Hund bellt laut im Garten.",
        "  output",
        "  reference  A dog barks loudly in the garden.",
        f"line 1: chrF {SYSTEM.sentence_chrf()[0]:.2f}",
        "  source     Ja.",
        "  output     Yes\\x1b.",
        "  reference  Yes.",
    ]


def test_a_comparison_has_both_scores_and_a_verdict():
    other = SCORER.measure("other", ["Yes.", ""])
    head, first, second = render_comparison("ours", compare_systems(SYSTEM, other))
    assert head == "ours compared with other (paired bootstrap resampling, 1,000 samples; significant: p < 0.05)"
    ours, theirs = SYSTEM.measured[0].score(), other.measured[0].score()
    assert first.startswith(f"chrF2   {ours:6.2f} {theirs:6.2f}  {ours - theirs:+6.2f}  p = ")
    assert first.endswith("worse, but it may be chance: few sentences differ (1)")
    assert second.startswith("chrF2++ ")
