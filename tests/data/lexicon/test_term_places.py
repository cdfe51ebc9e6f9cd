"""In languages without spaces, the word for a term is found by what its tokens have in common."""

from __future__ import annotations

import random

import pytest

from nmt.config import TokenizerConfig
from nmt.data.lexicon.model1 import Lexicon
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.lexicon.term_places import TermPlaces
from nmt.data.read.pairs import SentencePair
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import build_store
from nmt.data.text.spans import Span
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair

# Nouns and sentences of English and of three languages without spaces.
NOUNS = {
    "zh": {"teacher": "老师", "doctor": "医生", "brother": "哥哥", "friend": "朋友", "cook": "厨师", "student": "学生",
        "girl": "女孩", "boy": "男孩"},
    "ja": {"teacher": "先生", "doctor": "医者", "brother": "兄", "friend": "友達", "cook": "料理人", "student": "学生",
        "girl": "少女", "boy": "少年"},
    "th": {"teacher": "ครู", "doctor": "หมอ", "brother": "พี่ชาย", "friend": "เพื่อน", "cook": "พ่อครัว", "student": "นักเรียน",
        "girl": "เด็กหญิง", "boy": "เด็กชาย"},
}  # fmt: skip
FRAMES = {
    "zh": {"my {} drinks tea .": "我{}喝茶。", "our {} is here .": "我们{}在这里。", "the {} sees a {} .": "{}看见{}。",
        "he is a {} .": "他是{}。", "a {} sleeps at home .": "{}在家睡觉。"},
    "ja": {"my {} drinks tea .": "私の{}はお茶を飲みます。", "our {} is here .": "私たちの{}はここにいます。",
        "the {} sees a {} .": "その{}は{}を見ます。", "he is a {} .": "彼は{}です。",
        "a {} sleeps at home .": "{}は家で寝ます。"},
    "th": {"my {} drinks tea .": "{}ของฉันดื่มชา", "our {} is here .": "{}ของเราอยู่ที่นี่", "the {} sees a {} .": "{}เห็น{}",
        "he is a {} .": "เขาเป็น{}", "a {} sleeps at home .": "{}นอนที่บ้าน"},
}  # fmt: skip


def corpus(language: str, count: int) -> list[tuple[list[str], SentencePair]]:
    """Return pairs of generated sentences, each with its nouns."""
    draw, made = random.Random(7), []
    for line in range(1, count + 1):
        frame = draw.choice([*FRAMES[language]])
        nouns = draw.sample([*NOUNS[language]], frame.count("{}"))
        target = FRAMES[language][frame].format(*(NOUNS[language][noun] for noun in nouns))
        made.append((nouns, SentencePair(frame.format(*nouns), target, line)))
    return made


@pytest.mark.parametrize("language", [*NOUNS])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_word_for_a_source_word_is_found_in_its_translation(language, swapped, tmp_path):
    made = corpus(language, 600)
    pairs = [pair for _, pair in made]
    config = TokenizerConfig(type="bpe", vocab_size=360, joint=False)
    tokenizers = train_tokenizers(config, lambda: [pair.src for pair in pairs], lambda: [pair.tgt for pair in pairs])
    src, tgt = tokenizers.src, tokenizers.tgt
    turned = TokenizerPair(tgt, src, joint=False) if swapped else tokenizers
    stored = [SentencePair(pair.tgt, pair.src, pair.line) if swapped else pair for pair in pairs]
    store = build_store(tmp_path / "store", iter(stored), turned, CorpusCounts())
    sample = [pair.tgt for pair in pairs[:100]]
    places = TermPlaces(TermLexicon.learn(store), tgt.vocabulary, sample, swapped=swapped)
    num_found = num_nouns = 0
    for nouns, pair in made[:200]:
        ids, taken = src.encode(pair.src), list[Span]()
        words = pair.src.split()
        starts = [n for n, token in enumerate(src.tokens(ids)) if token.startswith("▁")]
        for noun in nouns:
            at = words.index(noun)
            end = starts[at + 1] if at + 1 < len(starts) else len(ids)
            span = places.find(ids, {*range(starts[at], end)}, pair.tgt, taken)
            num_nouns += 1
            if span is not None:
                taken.append(span)
                num_found += pair.tgt[span.start : span.end] == NOUNS[language][noun]
    assert num_found >= 0.98 * num_nouns, (num_found, num_nouns)


def test_a_word_without_links_or_whose_place_is_taken_is_not_found():
    import numpy as np

    links = Lexicon(np.array([0]), np.array([1]), np.array([2.0]))
    lexicon = TermLexicon(links.src * 2 + links.tgt, np.ones(1, np.float32), 2)
    places = TermPlaces(lexicon, ["甲", "乙"], [], swapped=False)
    assert places.find([0], {0}, "甲乙。", []) == Span(1, 2)
    assert places.find([0], {0}, "甲乙。", [Span(1, 2)]) is None
    assert places.find([1], {0}, "甲乙。", []) is None
    assert places.find([0], {0}, "", []) is None


@pytest.mark.parametrize(
    ("sample", "text", "word"),
    [
        (["那顶帽子好", "桌子", "椅子", "一顶帽子", "帽子", "帽子呢", "帽子"], "那顶帽子好", "帽子"),
        (["帽子", "帽子", "帽子", "帽子", "帽子", "新帽"], "那顶帽子好", "帽"),  # it is also alone
        ([*["帽。"] * 9, *["桌。"] * 9], "新帽。", "帽"),
    ],
)
def test_a_word_has_the_character_that_is_always_behind_it(sample, text, word):
    import numpy as np

    places = TermPlaces(
        TermLexicon(np.array([0]), np.ones(1, np.float32), 1), ["帽"], [*sample, *["桌子"] * 9], swapped=False
    )
    span = places.find([0], {0}, text, [])
    assert span is not None
    assert text[span.start : span.end] == word
