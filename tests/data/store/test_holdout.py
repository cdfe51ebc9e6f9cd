"""Held-out sentences: chosen by their text alone, whatever the order, the repeats or the other set."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from nmt.base.errors import DataError
from nmt.data.store.holdout import choose_groups, choose_sentences, hash_of

SENTENCES = [f"sentence number {i}" for i in range(997)]
COUNTS = {"valid": 31, "test": 17}


def hashes_of(sentences):
    return np.array(list(map(hash_of, sentences)), dtype=np.uint64)


def chosen_of(sources, counts):
    return choose_sentences(hashes_of(sources), counts)


def sets_of(sources, counts):
    """The sentences of each set."""
    chosen = chosen_of(sources, counts)
    return {
        name: {src for src in SENTENCES if chosen.get(hash_of(src), "train") == name}
        for name in ("train", "valid", "test")
    }


def test_as_many_sentences_are_held_out_as_asked_for():
    sets = sets_of(SENTENCES, COUNTS)
    assert {name: len(members) for name, members in sets.items()} == {"train": 997 - 48, "valid": 31, "test": 17}
    assert Counter(chosen_of(SENTENCES, COUNTS).values()) == {"test": 17, "valid": 31}


def test_neither_order_nor_repeats_change_the_choice():
    shuffled = SENTENCES * 3
    random.Random(5).shuffle(shuffled)
    assert sets_of(shuffled, COUNTS) == sets_of(SENTENCES, COUNTS)


def test_the_test_set_does_not_depend_on_the_validation_set():
    assert sets_of(SENTENCES, {"test": 17})["test"] == sets_of(SENTENCES, COUNTS)["test"]
    assert sets_of(SENTENCES, {"test": 17})["valid"] == set()
    assert sets_of(SENTENCES, dict(reversed(COUNTS.items()))) == sets_of(SENTENCES, COUNTS)


@pytest.mark.parametrize(("num_distinct", "held_out"), [(10, 1), (19, 1), (20, 2), (499, 49), (997, 99)])
def test_each_set_is_capped_to_a_tenth_of_the_distinct_sentences(num_distinct, held_out):
    sources = SENTENCES[:num_distinct] * 7
    chosen = chosen_of(sources, {"valid": 500, "test": 500})
    assert Counter(chosen.values()) == {"test": held_out, "valid": held_out}


@pytest.mark.parametrize("sources", [[], ["one", "two"] * 50, SENTENCES[:9]])
def test_too_few_sentences_are_refused(sources):
    with pytest.raises(DataError, match="distinct source sentences are too few to hold out valid and test") as caught:
        chosen_of(sources, {"valid": 1, "test": 1})
    assert "data.valid and data.test" in caught.value.hint


def test_every_sentence_is_as_likely_to_be_held_out():
    chosen: Counter[int] = Counter()
    for corpus in range(400):
        few = [f"corpus {corpus}, sentence {i}" for i in range(20)]
        test_set = chosen_of(few, {"test": 2})
        chosen.update(i for i, src in enumerate(few) if hash_of(src) in test_set)
    assert sum(chosen.values()) == 800
    assert len(chosen) == 20
    assert 15 < min(chosen.values()) <= max(chosen.values()) < 75


def test_a_lone_surrogate_is_no_obstacle():
    assert len(chosen_of([*SENTENCES, "\ud800"], COUNTS)) == 48


def groups_of(pairs, counts):
    """The pairs of each set."""
    chosen = choose_groups(hashes_of(chain.from_iterable(pairs)), counts)
    return {
        name: {pair for pair in pairs if chosen.get(hash_of(pair[0]), "train") == name}
        for name in ("train", "valid", "test")
    }


def random_pairs(num_texts: int) -> list[tuple[str, str]]:
    """Pairs in chains: many share a source or a target with others."""
    draw = random.Random(3)
    return [(f"Satz {draw.randrange(num_texts)}", f"sentence {draw.randrange(num_texts)}") for _ in range(1009)]


def test_groups_share_neither_sources_nor_targets_with_the_other_sets():
    sets = groups_of(random_pairs(1500), COUNTS)
    for side in (0, 1):
        texts = [{pair[side] for pair in members} for members in sets.values()]
        assert sum(map(len, texts)) == len(set.union(*texts))
    assert len({pair[0] for pair in sets["test"]}) == 17
    assert len({pair[0] for pair in sets["valid"]}) == 31
    assert any(len(members) != len({src for src, _ in members}) for members in sets.values())


def test_the_opposite_direction_holds_out_the_same_pairs_in_any_order():
    pairs = random_pairs(1500)
    turned = [(tgt, src) for src, tgt in reversed(pairs)]
    back = {name: {(src, tgt) for tgt, src in members} for name, members in groups_of(turned, COUNTS).items()}
    assert back == groups_of(pairs, COUNTS)


def test_the_test_set_of_groups_does_not_depend_on_the_validation_set():
    pairs = random_pairs(1500)
    assert groups_of(pairs, {"test": 17})["test"] == groups_of(pairs, COUNTS)["test"]


def test_a_phrase_with_many_translations_stays_in_training():
    pairs = [(f"Satz {number}", f"sentence {number}") for number in range(499)]
    pairs += [(f"Danke {number}", "thanks") for number in range(499)]
    sets = groups_of(pairs, {"valid": 40, "test": 40})
    assert all(tgt != "thanks" for name in ("valid", "test") for _, tgt in sets[name])
    assert (len(sets["valid"]), len(sets["test"])) == (40, 40)


def test_pairs_that_all_hang_together_are_an_error_that_says_what_to_do():
    linked = [(f"Satz {number // 2}", f"sentence {(number + 1) // 2}") for number in range(400)]
    with pytest.raises(DataError, match="the sentences repeat too often to hold out test in groups") as raised:
        groups_of(linked, {"test": 5})
    assert "data.holdout_groups to false" in str(raised.value)
    with pytest.raises(DataError, match="too few to hold out test"):
        groups_of(linked[:9], {"test": 5})


def test_too_few_groups_for_two_sets_are_the_same_error():
    pairs = [("Satz", "sentence"), *((f"Danke {number}", "thanks") for number in range(100))]
    pairs += [("Bitte", f"please {number}") for number in range(100)]
    with pytest.raises(DataError, match="the sentences repeat too often to hold out valid and test in groups"):
        groups_of(pairs, {"valid": 5, "test": 5})
