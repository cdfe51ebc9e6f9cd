"""Greedy search with a cache is greedy search without one; neighbors do not matter."""

from __future__ import annotations

import pytest
import torch

from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.config import SearchOptions
from nmt.data.store.batching import collate_sources
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis


@pytest.fixture(scope="module")
def tokenizers(digits_run):
    return TokenizerPair.load(RunDir(digits_run).tokenizer)


@pytest.fixture(scope="module")
def model(digits_run, tokenizers):
    return load_model(RunDir(digits_run), tokenizers, torch.device("cpu"))


@pytest.fixture(scope="module")
def sources(digits_run, tokenizers):
    return [tokenizers.src.encode(text) for text in RunDir(digits_run).read_pairs("test")[0]]


def search(model, sources, max_len=20, banned=(PAD_ID, BOS_ID, 0)) -> list[Hypothesis]:
    return search_to([max_len] * len(sources), model, sources, banned)


def search_to(limits, model, sources, banned=(PAD_ID, BOS_ID, 0)) -> list[Hypothesis]:
    decoder = Decoder([model], collate_sources(sources, 32), max(limits))
    constraints = Constraints(SearchOptions(), banned, (), decoder.num_places, decoder.device)
    return [found for (found,) in greedy_search(decoder, limits, constraints)]


@torch.no_grad()
def greedy_without_cache(model, source, max_len, banned) -> tuple[list[int], float]:
    """The whole prefix again at every step."""
    src, ids, score = collate_sources([source], 32), [BOS_ID], 0.0
    while len(ids) <= max_len:
        log_probs = model(src, torch.tensor([ids]))[0, -1].log_softmax(-1)
        log_probs[list(banned)] = float("-inf")
        best = int(log_probs.argmax())
        score += float(log_probs[best])
        if best == EOS_ID:
            break
        ids.append(best)
    return ids[1:], score


def test_greedy_search_equals_full_decoding_at_every_step(model, sources):
    for source, hypothesis in zip(sources[:10], search(model, sources[:10]), strict=True):
        ids, score = greedy_without_cache(model, source, 20, (PAD_ID, BOS_ID, 0))
        assert hypothesis.ids == ids
        assert hypothesis.score == pytest.approx(score, abs=1e-4)


def test_a_batch_of_one_equals_a_batch_of_many_in_any_order(model, sources):
    many = search(model, sources)
    alone = [search(model, [source])[0] for source in sources]
    backwards = search(model, sources[::-1])[::-1]
    for others in (alone, backwards):
        assert [h.ids for h in others] == [h.ids for h in many]
        assert [h.score for h in others] == pytest.approx([h.score for h in many], abs=1e-4)


def test_outputs_stop_at_their_own_longest_length(model, sources):
    limits = [1 + i % 5 for i in range(len(sources))]
    found = search_to(limits, model, sources)
    free = search(model, sources)
    for hypothesis, whole, limit in zip(found, free, limits, strict=True):
        assert hypothesis.ids == whole.ids[:limit]
        assert hypothesis.finished == (len(whole.ids) < limit)


def test_banned_tokens_never_come_out(model, sources):
    common = max(set(ids := [i for h in search(model, sources) for i in h.ids]), key=ids.count)
    found = search(model, sources, banned=(PAD_ID, BOS_ID, 0, common))
    assert all(common not in h.ids for h in found)


def test_the_model_has_learnt_to_reverse(model, sources, tokenizers, digits_run):
    references = RunDir(digits_run).read_pairs("test")[1]
    right = [tokenizers.tgt.decode(h.ids) == ref for h, ref in zip(search(model, sources), references, strict=True)]
    assert sum(right) > 0.8 * len(right)  # 35 of 40 where sums are rounded as without vector instructions
