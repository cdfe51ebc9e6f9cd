"""Searches that are plain: one sentence, no cache, the whole prefix again at every step, no early end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.config import ModelConfig, SearchOptions
from nmt.data.store.batching import collate_sources
from nmt.decoding.beam import beam_search
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis
from nmt.model.transformer import Transformer

BANNED = (UNK_ID, PAD_ID, BOS_ID)
NEVER = float("-inf")


def random_model(seed: int, usable: int = 6, **changes) -> Transformer:
    """A model with `usable` ids that may come (eos among them), and opinions strong enough to tell hypotheses apart."""
    sizes = {"d_model": 18, "num_heads": 3, "d_ff": 22, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
    torch.manual_seed(seed)
    model = Transformer(
        ModelConfig(**{**sizes, "max_src_len": 80, "max_tgt_len": 80, **changes}), usable + 3, usable + 3
    )
    with torch.no_grad():
        model.output_proj.weight.mul_(2.0)
    return model.eval()


def random_sources(seed: int, count: int, usable: int = 6, longest: int = 30) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=draw).tolist()
    return [torch.randint(4, usable + 3, (length,), generator=draw).tolist() for length in lengths]


def log_probs_after(models: Sequence[Transformer], src: Tensor, *prefixes: Sequence[int]) -> Tensor:
    """[N, V], of the token after each of the N prefixes, which are equally long."""
    tgt_in = torch.tensor([[BOS_ID, *ids] for ids in prefixes])
    with torch.no_grad():
        each = [model(src.expand(len(prefixes), -1), tgt_in)[:, -1].float().softmax(-1) for model in models]
    return torch.stack(each).mean(0).log()


def repeats(ids: list[int], size: int) -> bool:
    grams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    return len(set(grams)) < len(grams)


def allowed(scores: Tensor, ids: list[int], options: SearchOptions, prefix: Sequence[int]) -> Tensor:
    """Return the scores [V] of the tokens after `ids`, those of tokens that may not come as `NEVER`."""
    kept = scores.clone()
    kept[list(BANNED)] = NEVER
    if len(ids) < options.min_len:
        kept[EOS_ID] = NEVER
    if options.no_repeat_ngram:
        for token in range(len(kept)):
            if token != EOS_ID and repeats([*ids, token], options.no_repeat_ngram):
                kept[token] = NEVER
        if kept.max() == NEVER:
            kept[EOS_ID] = scores[EOS_ID]
    if len(ids) < len(prefix):
        kept[:] = NEVER
        kept[prefix[len(ids)]] = scores[prefix[len(ids)]]
    return kept


def naive_beam(
    models: Sequence[Transformer],
    source: list[int],
    limit: int,
    options: SearchOptions,
    prefix: Sequence[int] = (),
    free_tokens: int = 4,
) -> list[Hypothesis]:
    """The beam, and greedy search beside it."""
    src = collate_sources([source], 80)
    live, found, width = [([], 0.0)], [], options.beam_size
    greedy: list[tuple[list[int], float]] = [([], 0.0)]  # nothing, if it has ended
    for step in range(limit):
        prefixes = dict.fromkeys(tuple(ids) for ids, _ in [*live, *greedy])
        after = dict(zip(prefixes, log_probs_after(models, src, *prefixes), strict=True))
        candidates = []
        for ids, score in live:
            scores = allowed(after[tuple(ids)], ids, options, prefix).tolist()
            candidates += [([*ids, token], score + s) for token, s in enumerate(scores) if s > NEVER]
        candidates.sort(key=lambda candidate: -candidate[1])
        steps = [(ids, score, allowed(after[tuple(ids)], ids, options, prefix)) for ids, score in greedy]
        greedy = [([*ids, int(s.argmax())], score + float(s.max())) for ids, score, s in steps if s.max() > NEVER]
        for ids, score in [*candidates[:width], *(each for each in greedy if each not in candidates[:width])]:
            if ids[-1] == EOS_ID or step + 1 == limit:
                found.append(Hypothesis(ids[:-1] if ids[-1] == EOS_ID else ids, score, ids[-1] == EOS_ID))
        live = [(ids, score) for ids, score in candidates if ids[-1] != EOS_ID][:width]
        greedy = [(ids, score) for ids, score in greedy if ids[-1] != EOS_ID]
        best = max([score for _, score in [*live, *greedy]], default=NEVER)
        ranks = sorted((rank(each, options) for each in found), reverse=True)[: options.num_hypotheses]
        bound = options.normalized(best, min(step + 1 + free_tokens, limit))
        is_done = len(found) >= width if prefix else len(ranks) == options.num_hypotheses and bound <= ranks[-1]
        if best == NEVER or is_done:
            break
    found.sort(key=lambda h: -rank(h, options))
    return found[: options.num_hypotheses]


def rank(hypothesis: Hypothesis, options: SearchOptions) -> float:
    return options.normalized(hypothesis.score, len(hypothesis.ids) + hypothesis.finished)


def all_outputs(models, source: list[int], limit: int, options: SearchOptions, usable: int) -> list[Hypothesis]:
    """Every output there is, best first."""
    src = collate_sources([source], 80)
    tables = {}
    for length in range(limit):
        prefixes = [*itertools.product(range(4, usable + 3), repeat=length)]
        tables |= dict(zip(prefixes, log_probs_after(models, src, *prefixes), strict=True))

    def score(ids: tuple[int, ...]) -> float:
        return sum(float(tables[ids[:i]][token]) for i, token in enumerate(ids))

    found = [Hypothesis(list(ids), score((*ids, EOS_ID)), True) for ids in tables]
    cut = itertools.product(range(4, usable + 3), repeat=limit)
    found += [Hypothesis(list(ids), score(ids), False) for ids in cut]
    return sorted(found, key=lambda h: -rank(h, options))


def search(
    models: Sequence[Transformer],
    sources: list[list[int]],
    limits: list[int],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] = (),
    beam: bool = True,
    check_every: int = 1,
) -> list[list[Hypothesis]]:
    """What `nmt.decoding` finds, in one batch, of which the host sees every `check_every` steps what has finished."""
    rows_of_source = options.beam_size + beam
    decoder = Decoder(models, collate_sources(sources, 80), max(limits), rows_of_source)
    decoder.check_every = check_every
    rows = decoder.num_places * rows_of_source
    prefixes = [prefix for prefix in prefixes for _ in range(rows_of_source)]
    constraints = Constraints(options, BANNED, prefixes, rows, decoder.device)
    if beam:
        return beam_search(decoder, limits, constraints, options)
    return greedy_search(decoder, limits, constraints)
