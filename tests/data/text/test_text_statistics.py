"""What a model is trusted with follows from the text that it was trained on."""

from __future__ import annotations

import json
import re

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.base.languages import Direction
from nmt.data.text.text_statistics import Confidence, TextStatistics
from nmt.data.text.words import UNSEEN
from nmt.translation.protect import PROSE_MARK


def statistics(**values):
    return TextStatistics(**{"pairs": 1000, "src_sentences": [1000], "tgt_sentences": [1000], **values})


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ([1000], [1000], 1),
        ([951, 49], [900, 100], 1),
        ([950, 50], [900, 100], 2),
        ([950, 50], [990, 10], 1),  # the targets are single sentences
        ([800, 100, 60, 40], [800, 100, 60, 40], 3),
        ([0, 1000], [0, 1000], 2),
        ([100, *[100] * 9], [100, *[100] * 9], 10),
    ],
)
def test_as_many_sentences_are_translated_at_once_as_5_percent_of_the_pairs_have(src, tgt, expected):
    assert statistics(src_sentences=src, tgt_sentences=tgt).max_sentences == expected


def test_words_are_known_from_two_sources_on_and_longer_texts_by_how_frequent_theirs_are():
    found = statistics(words=["rare seldom", "", "usual often very"], usual_octave=1.0)
    assert found.knows_words("Rare?")
    assert found.knows_words("rare unknown")
    assert not found.knows_words("rare a b")  # most are unknown
    assert not found.knows_words("unknown")
    assert not found.knows_words("Unknown words.")
    assert found.knows_words("usual often unknown, often unknown")  # a mean of (3 + 3 + 3 - 2 - 2) / 5
    assert not found.knows_words("rare unknown, unknown, unknown")
    assert found.knows_words("12 %")
    assert found.knows_words("")
    assert statistics().knows_words("Unknown words.")  # nothing was counted


@pytest.mark.parametrize(("count", "expected"), [(9, False), (10, True)])
def test_a_kind_of_text_is_known_from_1_percent_of_the_sources_on(count, expected):
    assert statistics(without_letters=count).translates_numbers_alone is expected
    assert statistics(in_capitals=count).knows_capitals is expected


def test_a_model_keeps_numbers_unless_most_pairs_change_them():
    assert statistics().keeps_numbers
    assert statistics(with_numbers=19, numbers_kept=0).keeps_numbers  # too few to tell
    assert statistics(with_numbers=100, numbers_kept=50).keeps_numbers
    assert not statistics(with_numbers=100, numbers_kept=49).keeps_numbers


def test_the_most_frequent_kinds_may_be_missing_until_1_of_80_of_the_pairs_lack_the_others():
    counts = {UNSEEN: 0, "digits": 86, "amounts": 30, "question": 500, "dash": 9}
    counted = statistics(pairs=10_000, left_out=counts)
    assert counted.kinds_left_out(Direction("de", "en")) == {"question"}
    counted = statistics(pairs=10_000, left_out=counts | {"digits": 87})
    assert counted.kinds_left_out(Direction("de", "en")) == {"digits", "question"}
    forms = {"form a:a seen": 40, "form a(a) seen": 10, "form a-a seen": 51}  # apart from the others
    assert statistics(pairs=10_000, left_out=counts | forms).kinds_left_out(Direction("de", "en")) == {
        "question",
        "form a-a seen",
    }


def test_unseen_words_may_be_missing_where_no_version_has_counted_them():
    assert statistics(left_out={"digits": 1}).kinds_left_out(Direction("de", "en")) == {UNSEEN}


SIGNS = {"currency", "degree", "comparison"}  # change what a text says in every language
ELSEWHERE = {"question", "exclamation", "ellipsis", "quotation"}
OTHERS = {*re.compile(PROSE_MARK).groupindex} - SIGNS - ELSEWHERE  # which translators leave out and write otherwise


@pytest.mark.parametrize(
    ("direction", "left_out"),
    [
        (("de", "en"), OTHERS),
        (("en", "zho_Hans"), OTHERS),
        (("en", "ja"), OTHERS | ELSEWHERE),  # か。 asks
        (("ell_Grek", "en"), OTHERS | ELSEWHERE),  # ; asks
        # Of unlisted languages nmt knows no words for numbers, nor whether they have marks.
        (("fr", "wo"), {"digits"} | OTHERS | ELSEWHERE),
        (("bam_Latn", "fr"), OTHERS | ELSEWHERE),
        (("qaa", "nqo"), {"digits"} | OTHERS | ELSEWHERE),
    ],
)
def test_what_may_be_missing_follows_from_the_languages_if_it_was_not_counted(direction, left_out):
    assert statistics().kinds_left_out(Direction(*direction)) == {*left_out, UNSEEN}


def test_placeholders_are_used_unless_a_measurement_shows_that_most_are_lost():
    assert statistics().copies_placeholders
    assert statistics(placeholders_copied=0.5).copies_placeholders
    assert not statistics(placeholders_copied=0.49).copies_placeholders


WEIGHTS = {"usual_ratio": 0.0, "intercept": 10.0, "probability": 80.0, "short": -20.0, "long": -5.0, "repetition": -9.0}


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ((0.5, 0.0, 0.0, 0.0), 50),
        ((0.5, -1.0, 0.0, 0.0), 30),  # too short
        ((0.5, 1.0, 0.0, 0.0), 45),  # too long
        ((0.5, 0.0, 1.0, 0.5), 40),
        ((1.0, 99.0, 1.0, 1.0), 0),
        ((99.0, 0.0, 0.0, 0.0), 100),
    ],
)
def test_the_expected_chrf_is_linear_in_the_features_and_between_0_and_100(features, expected):
    assert Confidence(**WEIGHTS, copied=-2.0).expected_chrf(features) == expected


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e9", '"8"', "null", "[]"])
def test_a_weight_that_no_training_writes_is_refused(tmp_path, value):
    run = RunDir(tmp_path)
    run.write_json(run.statistics_file, statistics(confidence=Confidence(**WEIGHTS, copied=-2.0)))
    assert run.statistics().confidence.copied == -2.0
    run.statistics_file.write_text(run.statistics_file.read_text().replace("-2.0", value))
    with pytest.raises(RunError, match=r"confidence\.copied: "):
        run.statistics()


def test_statistics_of_older_versions_have_no_confidence(tmp_path):
    run = RunDir(tmp_path)
    values = statistics().model_dump()
    del values["confidence"]
    run.statistics_file.write_text(json.dumps(values))
    assert run.statistics().confidence is None
