"""Words, their alignment, and how sure the model is of them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.base.languages import Direction
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.alignment import most_attended
from nmt.translation.word_links import align_words, explain
from tests.words import WORDS


@pytest.fixture(scope="module")
def letters(letters_run):
    return Translator.load(letters_run, device="cpu", precision="fp32")


def details_of(translator, text):
    direction = Direction("de", "en")
    (translation,) = translator.translate([text])
    return explain(translator, text, direction, translation), translation


def test_words_joined_are_the_texts_and_links_follow_the_attention(letters):
    found, translation = details_of(letters, " 12 345  67 ")
    assert "".join(found.source) == " 12 345  67 "
    assert "".join(found.target) == translation.text
    assert [word.strip() for word in found.source] == ["12", "345", "67"]
    segment = translation.segments[0]
    pairs = most_attended(letters.cross_attention(segment, layer=-2), len(segment.tgt_ids))
    assert 0 < len(found.links) <= len(pairs)
    assert all(0 <= i < 3 and 0 <= j < len(found.target) for i, j in found.links)


def test_confidence_is_the_probability_of_the_least_probable_token_of_a_word(letters):
    found, translation = details_of(letters, "12 34")
    assert len(found.confidence) == len(found.target)
    assert all(0 <= share <= 1 for share in found.confidence)
    segment = translation.segments[0]
    (scores,) = letters.engine.score([segment.src_ids], [segment.tgt_ids])
    assert min(found.confidence) == pytest.approx(pytest.importorskip("math").exp(min(scores[:-1])), abs=1e-3)


def test_protected_spans_are_words_as_they_are_written(letters):
    found, translation = details_of(letters, "12 {name} 34")
    if translation.protected_translated_around:
        assert found is None
    else:
        assert "".join(found.source) == "12 {name} 34"
        assert "".join(found.target) == translation.text


def test_what_tokens_do_not_spell_has_no_details(letters):
    found, _ = details_of(letters, "\u20ac 5 \U0001f600")
    assert found is None or "".join(found.source) == "\u20ac 5 \U0001f600"


@pytest.fixture(scope="module")
def with_lexicon(words_run, tmp_path_factory):
    """A run whose lexicon knows the tokens of all words but the first two."""
    run = RunDir(tmp_path_factory.mktemp("lexicon") / "run")
    shutil.copytree(words_run, run.path)
    tokenizers = TokenizerPair.load(run.tokenizer)
    width, keys = tokenizers.tgt.vocab_size, set[int]()
    for word in WORDS[2:]:
        src, tgt = tokenizers.src.encode(word), tokenizers.tgt.encode(word[::-1])
        keys |= {i * width + j for i in src for j in tgt}
    ordered = np.array(sorted(keys))
    TermLexicon(ordered, np.ones(len(ordered), np.float32), width).save(run.lexicon, tokenizers)
    return run.path


def test_words_of_the_lexicon_are_linked_with_their_translations_and_the_others_by_attention(with_lexicon):
    text = f"{WORDS[5]} {WORDS[0]} ({WORDS[9]}), {WORDS[7]}.  {WORDS[6]}?"
    with Translator.load(with_lexicon, device="cpu", precision="fp32") as translator:
        (translation,) = translator.translate([text])
        segment = translation.segments[0]
        words, tokens = align_words(translator, text, translation)
        by_attention = sorted(most_attended(translator.cross_attention(segment, -2), len(segment.tgt_ids)))
        translator.lexicon = None
        assert translator.align(segment, Direction("de", "en")) == by_attention
    targets = [strip(word)[::-1] for word in translation.text.split()]
    known = [(i, targets.index(word)) for i, word in enumerate(map(strip, text.split()))
             if word in WORDS[2:] and targets.count(word) == 1]  # fmt: skip
    assert known
    for link in known:
        assert [each for each in words if each[0] == link[0] or each[1] == link[1]] == [link]
    assert tokens == sorted(set(tokens))
    points = {i for i, token in enumerate(translator.tokenizers.src.tokens(segment.src_ids)) if token == "."}
    assert {link for link in tokens if link[0] in points} <= set(by_attention)


def strip(word: str) -> str:
    return word.strip("().,?")


def test_links_do_not_depend_on_the_batch_or_the_process(with_lexicon):
    texts = [f"{WORDS[i]} {WORDS[59 - i]}, {WORDS[i + 1]}." for i in range(20)]

    def links(batches: list[list[str]]) -> list[object]:
        with Translator.load(with_lexicon, device="cpu", precision="fp32") as translator:
            return [
                align_words(translator, text, translation)
                for batch in batches
                for text, translation in zip(batch, translator.translate(batch), strict=True)
            ]

    assert links([texts]) == links([[text] for text in texts])


def test_words_are_counted_over_segments_and_texts_that_are_not_translated(with_lexicon):
    text = f"{WORDS[3]} {WORDS[4]}. 12 34. {WORDS[5]} {WORDS[6]}."
    with Translator.load(with_lexicon, device="cpu", precision="fp32") as translator:
        options = translator.options.changed(split="always")
        (translation,) = translator.translate([text], options)
        words, _ = align_words(translator, text, translation)
    targets = translation.text.split()
    for i, source in enumerate(text.split()):
        if strip(source)[::-1] in map(strip, targets) and source[0].isalpha():
            assert (i, [*map(strip, targets)].index(strip(source)[::-1])) in words


def test_a_damaged_lexicon_is_reported_when_alignments_are_asked_for(with_lexicon, tmp_path):
    run = RunDir(tmp_path / "run")
    shutil.copytree(with_lexicon, run.path)
    run.lexicon.write_bytes(run.lexicon.read_bytes()[:-9] + b"123456789")
    with Translator.load(run, device="cpu", precision="fp32") as translator:
        (translation,) = translator.translate([WORDS[3]])
        with pytest.raises(RunError, match="this is not a lexicon, or it is damaged") as caught:
            translator.align(translation.segments[0], Direction("de", "en"))
    assert caught.value.path == run.lexicon
