"""Drawn segmentations: from the right distribution, and decided by the seed alone, in every process."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter

import pytest

from nmt.config import TokenizerConfig
from nmt.data.tokens.sentencepiece_model import UNKNOWN, Piece
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.subword_regularization import SubwordSampler
from nmt.data.tokens.tokenizer import Tokenizer

LINES = [
    f"the {animal} sees the {other} {when} ⟦1⟧ <tag> 羊が{n}匹、山羊が{n + 3}匹"
    for n, animal in enumerate(("sheep", "goat", "shepherd"))
    for other in ("dog", "hen", "shed")
    for when in ("now", "then")
]
TWO_PROCESSES = """
import sys
from nmt.data.tokens.tokenizer import Tokenizer
texts = sys.stdin.buffer.read().decode("utf-8").splitlines()
tokenizer = Tokenizer.load(__import__("pathlib").Path(sys.argv[1]))
for seed in range(3):
    print(tokenizer.sampler(0.3).draw(tokenizer.normalize_batch(texts), 7, seed))
"""


def trained(model_type: str, vocab_size: int = 340) -> Tokenizer:
    config = TokenizerConfig(type=model_type, vocab_size=vocab_size, user_symbols=("⟦1⟧", "<tag>"))
    return train_tokenizers(config, lambda: LINES, lambda: LINES).src


def segmentations(
    tokenizer: Tokenizer, texts: list[str], count: int, alpha: float, seed: int = 1
) -> list[list[list[int]]]:
    """Each draw as a list of the ids of each text."""
    sampler = tokenizer.sampler(alpha)
    return [sampler.draw(tokenizer.normalize_batch(texts), seed, number) for number in range(count)]


def sampler_of(tokens: dict[str, float], model_type: str, alpha: float) -> tuple[SubwordSampler, list[str]]:
    """A sampler over `tokens` with their scores, and the tokens by id."""
    pieces = [Piece("<unk>", type=UNKNOWN), *itertools.starmap(Piece, tokens.items())]
    return SubwordSampler(pieces, model_type, alpha), [piece.text for piece in pieces]


def shares(sampler: SubwordSampler, names: list[str], text: str, count: int = 20_000) -> dict[tuple[str, ...], float]:
    """How often each segmentation of `text` is drawn."""
    counts = Counter(tuple(names[i] for i in part) for part in sampler.draw([text] * count, 5))
    return {segmentation: n / count for segmentation, n in counts.items()}


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_every_draw_spells_its_text_and_leaves_user_symbols_whole(model_type):
    tokenizer = trained(model_type)
    texts = [*LINES, "unseen: ẞ 🐑 ▁", "", "the", "<tag>⟦1⟧", " " * 5, "x" * 2500]
    symbols = {tokenizer.id_of("⟦1⟧"), tokenizer.id_of("<tag>")}
    draws = segmentations(tokenizer, texts, 5, alpha=0.4)
    for draw in draws:
        assert [tokenizer.decode(ids) for ids in draw] == [tokenizer.decode(tokenizer.encode(text)) for text in texts]
        assert all(symbols <= set(ids) for ids in draw[: len(LINES)])
    assert all(first != second for first, second in itertools.pairwise(draws))


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_draws_are_the_same_in_every_process(model_type, tmp_path):
    """SentencePiece's own draws are not: its seed holds a number that differs from process to process."""
    (tmp_path / "t.model").write_bytes(trained(model_type).model_bytes)
    command = [sys.executable, "-c", TWO_PROCESSES, str(tmp_path / "t.model")]
    text = "\n".join(LINES).encode()
    one, two = (subprocess.run(command, input=text, capture_output=True, check=True).stdout for _ in range(2))
    assert one == two
    assert one.count(b"\n") == 3


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_unigram_draws_have_the_probabilities_of_kudo_2018(alpha):
    scores = {"a": -1.0, "b": -1.5, "c": -3.0, "ab": -2.0, "bc": -2.7, "abc": -4.0, "ba": -2.2}
    sampler, names = sampler_of(scores, "unigram", alpha)

    def all_of(text: str) -> list[tuple[str, ...]]:
        if not text:
            return [()]
        return [(token, *rest) for token in scores if text.startswith(token) for rest in all_of(text[len(token) :])]

    weights = {parts: math.exp(alpha * sum(scores[token] for token in parts)) for parts in all_of("abcab")}
    drawn = shares(sampler, names, "abcab")
    assert set(drawn) <= set(weights)
    assert len(weights) == 8
    for parts, weight in weights.items():
        assert drawn.get(parts, 0.0) == pytest.approx(weight / sum(weights.values()), abs=0.015)


def test_a_long_word_does_not_underflow():
    scores = {"a": -9.0, "b": -9.5, "ab": -17.0}
    sampler, names = sampler_of(scores, "unigram", 1.0)
    (ids,) = sampler.draw(["ab" * 450], 5)
    share = [names[i] for i in ids].count("ab") / 450
    assert share == pytest.approx(1 / (1 + math.exp(-1.5)), abs=0.08)


def test_bpe_draws_have_the_probabilities_of_provilkov_2020():
    """abc with the merges ab, then abc: each is possible once, and is left out with probability 0.3; bc comes last."""
    scores = {"a": 0.0, "b": 0.0, "c": 0.0, "ab": -1.0, "abc": -2.0, "bc": -3.0}
    sampler, names = sampler_of(scores, "bpe", 0.3)
    drawn = shares(sampler, names, "abc")
    expected = {
        ("abc",): 0.7 * 0.7 + 0.3 * 0.7 * 0.7,  # by ab; by bc, if ab was left out
        ("ab", "c"): 0.7 * 0.3,
        ("a", "bc"): 0.3 * 0.7 * 0.3,
        ("a", "b", "c"): 0.3 * 0.3,
    }
    assert set(drawn) == set(expected)
    assert all(drawn[parts] == pytest.approx(share, abs=0.015) for parts, share in expected.items())


def test_bpe_without_dropout_merges_as_sentencepiece_does():
    tokenizer = trained("bpe")
    drawn = segmentations(tokenizer, LINES, 1, alpha=1e-12)[0]
    assert drawn == [tokenizer.encode(line) for line in LINES]


def test_a_unigram_that_is_hardly_smoothed_gives_the_usual_segmentation_most_often():
    tokenizer = trained("unigram")
    draws = segmentations(tokenizer, LINES[:1], 400, alpha=1.0)
    most_common = Counter(tuple(draw[0]) for draw in draws).most_common(1)[0][0]
    assert list(most_common) == tokenizer.encode(LINES[0])


def test_types_with_one_segmentation_cannot_be_sampled():
    tokenizer = trained("char", 400)
    assert not tokenizer.can_sample
    with pytest.raises(ValueError, match="type char has only one segmentation"):
        tokenizer.sampler(0.2)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_seed_decides_the_draws_after_it_whatever_was_drawn_before(model_type):
    tokenizer = trained(model_type)
    texts = tokenizer.normalize_batch([*LINES, "unseen: ẞ 🐑"])
    fresh, used = tokenizer.sampler(0.3), tokenizer.sampler(0.3)
    for start in range(0, len(texts), 4):
        used.draw(texts[start : start + 4], 1)
    assert fresh.draw(texts, 3, 1, 4) == used.draw(texts, 3, 1, 4)
