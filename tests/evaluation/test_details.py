"""Which sentences are bad: groups, flags, the worst."""

from __future__ import annotations

import pytest

from nmt.base.languages import Direction
from nmt.data.text.text_statistics import TextStatistics
from nmt.evaluation.details import examine, find_flags
from nmt.evaluation.significance import Scorer

DE_EN = Direction("de", "en")


@pytest.mark.parametrize(
    ("source", "hypothesis", "references", "flags"),
    [
        ("Ein Hund bellt laut.", "A dog barks loudly.", ["A dog barks loud."], []),
        ("Ein Hund bellt laut.", " ", ["A dog barks."], ["empty"]),
        ("Ein Hund bellt.", "", [""], []),
        ("Ein Hund bellt laut.", "Ein Hund bellt laut.", ["A dog barks loudly."], ["copied"]),
        ("Anna Maria Berger", "Anna Maria Berger", ["Anna Maria Berger"], []),
        ("Er lacht laut.", "Он громко смеется.", ["He laughs out loud."], ["wrong language"]),
        ("Er sagt es.", "Он так говорит.", ["Он так говорит."], []),
        ("Er lacht.", "He ha ha ha ha ha laughs.", ["He laughs."], ["looped", "too long"]),
        ("Ha ha ha ha!", "Ha ha ha ha ha!", ["Ha ha ha ha!"], []),
        ("Ein Hund bellt laut im Garten.", "A dog.", ["A dog barks loudly in the garden."], ["too short"]),
        ("Ein Hund bellt laut im Garten.", "A dog.", ["A dog barks loudly in the garden.", "A dog."], []),
        ("Ja.", "Yes, he does.", ["Yes."], []),
        (None, "a b a b a b a b a b", ["a b c d e f g h i j"], ["looped"]),
    ],
)
def test_outputs_that_look_wrong_are_flagged_unless_a_reference_is_like_them(source, hypothesis, references, flags):
    assert find_flags(source, hypothesis, references, DE_EN) == flags


def test_a_language_copied_into_itself_is_no_fault():
    text = "A dog barks loudly."
    assert find_flags(text, text, ["Some dog is barking there."], Direction("en", "en")) == []


SOURCES = ["der Hund", "der Hund und der Igel", "ein Hund, der mit dem Igel und dem Dachs spielt", "12"]
OUTPUTS = ["the dog", "the dog", "a dog playing with the hedgehog and the badger", "12"]
REFERENCES = ["the dog", "the dog and the hedgehog", "a dog that plays with the hedgehog and the badger", "12"]


def test_sentences_are_grouped_by_length_by_unseen_and_by_rare_words():
    system = Scorer([REFERENCES], "en", ["chrf", "bleu"]).measure("it", OUTPUTS)
    words = ["", "spielt", "", "", "der hund und ein mit dem"]  # in 4 and more training sources, in 32 and more
    statistics = TextStatistics(pairs=100, src_sentences=[100], tgt_sentences=[100], words=words)
    details = examine(system, SOURCES, "de", statistics)
    groups = {each.property: [(g.label, g.sentences) for g in each.groups] for each in details.groupings}
    assert groups == {
        "number of words of the source": [("0", 1), ("1 to 5", 2), ("6 to 10", 1)],
        "number of words of the source that are in fewer than two training sources": [
            ("0", 2),
            ("1", 1),
            ("2 or more", 1),
        ],
        "number of training sources that have the rarest word of the source": [
            ("0 to 1", 2),
            ("16 to 127", 1),
        ],  # the last source has no word
    }
    (alone,) = Scorer([REFERENCES[2:3]], "en", ["chrf"]).measure("it", OUTPUTS[2:3]).measured
    assert details.groupings[0].groups[2].scores["chrF2"] == round(alone.score(), 2)


def test_without_sources_sentences_are_grouped_by_their_references_alone():
    details = examine(Scorer([REFERENCES], "en", ["chrf"]).measure("it", OUTPUTS), None, "de")
    assert [each.property for each in details.groupings] == ["number of words of the reference"]
    assert details.sentences[0].source is None


def test_the_worst_come_first_and_equal_ones_in_order():
    details = examine(Scorer([REFERENCES], "en", ["bleu"]).measure("it", OUTPUTS), SOURCES, "de")
    assert [sentence.number for sentence in details.worst()] == [2, 3, 1, 4]
    many = ["a b"] * 40
    worst = examine(Scorer([many], "en", ["chrf"]).measure("it", many), None, "de").worst()
    assert [sentence.number for sentence in worst] == list(range(1, 31))


def test_expected_and_true_chrf_stand_side_by_side_in_ten_groups():
    texts = [f"{'dog ' * n}cat" for n in range(1, 25)]
    system = Scorer([["dog " * 24 + "cat"] * len(texts)], "en", ["chrf"]).measure("it", texts)
    chrf = system.sentence_chrf()
    details = examine(system, None, "de", None, [*chrf[:-4], None, None, None, None])
    calibration = details.groupings[-1]
    assert calibration.property == "expected chrF (correlation with the chrF of a sentence: 1.00)"
    assert [group.sentences for group in calibration.groups] == [2] * 10
    assert all(group.scores["expected"] == group.scores["chrF"] for group in calibration.groups)
    assert details.sentences[0].expected_chrf == round(chrf[0], 2)
    assert len(examine(system, None, "de", None, chrf[:9] + [None] * 15).groupings) == 1
