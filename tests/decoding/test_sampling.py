"""Samples follow the model's probabilities, and depend on the seed and the source alone."""

from __future__ import annotations

import torch

from nmt.config import SearchOptions
from nmt.data.store.batching import collate_sources
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.greedy import greedy_search
from nmt.decoding.sampling import Sampler
from tests.decoding.naive import BANNED, log_probs_after, random_model, random_sources

FIRST = torch.tensor(0)  # position


def sample(model, sources, **fields):
    options = SearchOptions(sample=True, **fields)
    limits = [2 * len(source) for source in sources]
    decoder = Decoder([model], collate_sources(sources, 80), max(limits), options.num_hypotheses)
    rows = decoder.num_places * options.num_hypotheses
    constraints = Constraints(options, BANNED, (), rows, decoder.device)
    found = greedy_search(decoder, limits, constraints, Sampler(options, sources, limits, rows, decoder.device))
    return [sample for samples in found for sample in samples]


def test_a_line_is_sampled_alike_alone_and_among_others():
    model, sources = random_model(1, 40, d_model=64, num_heads=2), random_sources(2, 24, 40)
    among = sample(model, sources, num_hypotheses=3, temperature=1.3)
    assert sample(model, sources[::-1], num_hypotheses=3, temperature=1.3)[-3:] == among[:3]
    for i in (0, 7, 23):
        assert sample(model, [sources[i]], num_hypotheses=3, temperature=1.3) == among[3 * i : 3 * i + 3]


def test_the_seed_changes_the_samples_and_samples_of_a_line_differ():
    model, sources = random_model(1, 40), random_sources(2, 8, 40)
    first, again, other = (sample(model, sources, num_hypotheses=2, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0::2] != first[1::2]


def test_tokens_come_as_often_as_their_probability_says():
    model = random_model(5, 8)
    options = SearchOptions(sample=True, num_hypotheses=4000)
    (log_probs,) = log_probs_after([model], collate_sources([[4, 5]], 80), [])
    log_probs[list(BANNED)] = float("-inf")
    sampler = Sampler(options, [[4, 5]], [1], 4000, log_probs.device)
    scores, ids = sampler.draw(log_probs.expand(4000, -1), FIRST.expand(4000))
    assert torch.equal(scores, log_probs[ids])
    frequencies = ids.bincount(minlength=11) / 4000
    assert torch.allclose(frequencies, log_probs.softmax(-1), atol=0.03)


def test_an_apple_gpu_which_lacks_fp64_has_its_tokens_drawn_on_the_host():
    options = SearchOptions(sample=True)
    assert Sampler(options, [[4]], [3], 1, torch.device("mps")).numbers.device.type == "cpu"


def test_top_k_and_top_p_leave_the_most_probable_tokens():
    log_probs = torch.tensor([[0.05, 0.4, 0.15, 0.3, 0.1]]).log().expand(500, -1)

    def drawn(**fields):
        options = SearchOptions(sample=True, num_hypotheses=500, **fields)
        sampler = Sampler(options, [[4]], [1], 500, log_probs.device)
        return set(sampler.draw(log_probs, FIRST.expand(500))[1].tolist())

    assert drawn() == {0, 1, 2, 3, 4}
    assert drawn(top_k=2) == {1, 3}
    assert drawn(top_p=0.5) == {1, 3}
    assert drawn(top_p=0.01) == {1}
    assert drawn(top_k=4, top_p=0.8) == {1, 2, 3}
    assert drawn(temperature=0.01) == {1}
