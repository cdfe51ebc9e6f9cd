"""The quality by which the weights of a phrase table are tuned."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import BLEU, CHRF

from nmt.artifacts.rundir import DirectedPairs
from nmt.base.languages import Direction
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.training.phrase_tuning import _Quality

REFERENCES = ["The cat sat on the mat, quietly.", "Nobody paid 1,500 francs!", "It rains.", "Où est-il allé ?", "Yes."]
OUTPUTS = ["the cat is sitting on a mat quietly.", "Nobody paid 1,500 francs!", "", "Où est il allé ?", "No, it rains."]


def count_words(texts) -> int:
    return sum(len(text.split()) for text in texts)


@pytest.fixture(scope="module")
def tokenizers():
    return train_tokenizers(TokenizerConfig(vocab_size=300), lambda: iter(REFERENCES), lambda: iter(REFERENCES))


def qualities(tokenizers, tgt, references, outputs, length) -> float:
    quality = _Quality(DirectedPairs(Direction("fr", tgt), outputs, references), tokenizers, length)
    return quality.of([quality.measure(row, text) for row, text in enumerate(outputs)])


@pytest.mark.parametrize(
    ("tgt", "tokenize", "references", "outputs"),
    [("bam", "13a", REFERENCES, OUTPUTS), ("zh", "zh", ["他在家。", "我们走吧！"], ["他在家里。", "我们走。"])],
)
def test_sums_of_the_statistics_of_sentences_give_the_scores_of_sacrebleu(
    tokenizers, tgt, tokenize, references, outputs
):
    count = count_words if tgt == "bam" else lambda texts: sum(map(len, texts))
    length = count(outputs) / count(references)  # so that no other length costs points
    bleu = BLEU(tokenize=tokenize).corpus_score(outputs, [references]).score
    chrf = CHRF().corpus_score(outputs, [references]).score
    assert qualities(tokenizers, tgt, references, outputs, length) == pytest.approx(bleu + chrf, abs=1e-9)


def test_few_words_too_many_or_too_few_cost_nothing_and_more_cost_points(tokenizers):
    length = count_words(OUTPUTS) / count_words(REFERENCES)
    right, below, above, far_below, far_above = (
        qualities(tokenizers, "bam", REFERENCES, OUTPUTS, length + by) for by in (0, 0.009, -0.039, 0.06, -0.09)
    )
    assert right == below == above
    assert right - far_below == right - far_above == pytest.approx(60 * 0.05)
