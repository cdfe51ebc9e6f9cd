"""The language model of a phrase table."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.base.special_tokens import EOS_ID
from nmt.data.phrases.ngrams import START, NgramModel
from nmt.data.phrases.trie import HashedKeys

VOCAB = 11


@pytest.fixture(scope="module")
def model() -> NgramModel:
    draw = random.Random(2)
    return NgramModel.learn([draw.choices(range(4, 9), k=draw.randint(0, 6)) for _ in range(50)], VOCAB)


def test_the_probabilities_of_all_tokens_after_each_context_sum_to_one(model):
    tokens = np.arange(VOCAB)
    for state in range(len(model.suffixes)):
        scores, _ = model.step(np.full(VOCAB, state), tokens)
        assert np.exp(scores).sum() == pytest.approx(1)


def test_a_state_is_the_longest_known_context(model):
    state = np.array([START])
    for token in (4, 5, 6, 7):
        _, state = model.step(state, np.array([token]))
    _, after_two = model.step(np.array([1 + 6]), np.array([7]))
    assert state == after_two  # of an order of 3, two tokens count


def test_known_sentences_are_more_probable_than_unknown_tokens(model):
    (known, unknown), _ = model.step(np.array([START, START]), np.array([4, 10]))
    assert known > unknown > -20


def test_following_a_phrase_is_one_step_after_the_other(model):
    tokens = np.array([4, 6, 8, EOS_ID])
    total, states = model.follow(np.array([START, 0]), tokens, np.array([0, 1]), np.array([4, 2]))
    state, scores = np.array([START]), 0.0
    for token in tokens:
        found, state = model.step(state, np.array([token]))
        scores += found[0]
    assert total[0] == scores
    assert states[0] == state


def test_sequences_with_one_hash_are_told_apart(model):
    crowded_keys = HashedKeys(model.keys, np.full(2, len(model.keys) - 1, np.int32), np.ones(2, bool))
    crowded = model._replace(hashed=crowded_keys)
    states, tokens = (each.ravel() for each in np.meshgrid(np.arange(len(model.suffixes)), np.arange(VOCAB)))
    for one, other in zip(crowded.step(states, tokens), model.step(states, tokens), strict=True):
        assert np.array_equal(one, other)


def test_a_hash_of_several_sequences_is_marked_and_finds_each_of_them():
    draw = random.Random(3)
    large = NgramModel.learn([draw.choices(range(4, 997), k=9) for _ in range(300)], 997)
    assert 0 < large.hashed.shared.sum() < len(large.hashed.slots) / 10
    nodes = np.arange(len(large.keys)) + 1
    prefixes, tokens = np.divmod(large.keys, 997)
    scores, _ = large.step(prefixes, tokens)
    assert np.array_equal(scores, large.log_probs[nodes])
