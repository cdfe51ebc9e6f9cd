"""Training tokenizers: clamped and refused vocabularies, odd text, determinism, and every complaint in plain words."""

from __future__ import annotations

import pytest

from nmt.base.errors import DataError
from nmt.base.special_tokens import EOS_ID
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers

GERMAN = [
    "Ein Hund läuft durch den Wald .",
    "Zwei Männer sitzen auf einer Bank und reden .",
    "Eine Frau liest ein Buch .",
] * 5
CHINESE = ["一只狗跑过树林。", "两个男人坐在长椅上聊天。", "一个女人在看书，还喝茶。"] * 5
LOOKALIKES = ["<pad>", "</s>", "<s>", "<unk>", "<0x41>", "<0x0A>", "⁇", " ⁇ ", "x</s>y", "<s> <pad>", "<2de", "\\n"]
KINDS = ["unigram", "bpe", "char", "word"]


def trained(src=GERMAN, tgt=CHINESE, seed=1, **keys):
    config = TokenizerConfig(**{"vocab_size": 340, **keys})
    return train_tokenizers(config, lambda: iter(src), lambda: iter(tgt), seed=seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_a_vocabulary_larger_than_the_text_supports_is_clamped_with_one_warning_each(kind, joint, messages):
    pair = trained(type=kind, joint=joint, vocab_size=9000)
    sides = [("source and target", pair.src)] if joint else [("source", pair.src), ("target", pair.tgt)]
    warnings = [line for line in messages if line.startswith("warning: ")]
    assert warnings == [
        f"warning: tokenizer.vocab_size 9000 is more than the {name} text supports (type {kind}); "
        f"the vocabulary has {tokenizer.vocab_size} tokens"
        for name, tokenizer in sides
    ]
    assert all(4 < tokenizer.vocab_size < 1000 for _, tokenizer in sides)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_is_refused_and_the_smallest_that_works_is_named(kind):
    with pytest.raises(DataError, match="a vocabulary of 8 is too small") as caught:
        trained(type=kind, vocab_size=8, user_symbols=("<2de>", "<2zh>", "<2en>", "<2fr>"))
    smallest = int(caught.value.hint.split()[3])
    assert caught.value.hint.startswith(f"set tokenizer.vocab_size to {smallest} or more")
    assert ("character_coverage" in caught.value.hint) == (kind in ("unigram", "bpe"))
    symbols = ("<2de>", "<2zh>", "<2en>", "<2fr>")
    assert trained(type=kind, vocab_size=smallest, user_symbols=symbols).src.vocab_size == smallest
    with pytest.raises(DataError, match=f"a vocabulary of {smallest - 1} is too small"):
        trained(type=kind, vocab_size=smallest - 1, user_symbols=symbols)


def test_separate_vocabularies_name_the_side_that_does_not_fit():
    with pytest.raises(DataError, match="too small for the target text"):
        trained(src=["a b c"] * 9, joint=False, vocab_size=264)


@pytest.mark.parametrize("empty", [[], ["", ""]])
@pytest.mark.parametrize("joint", [True, False])
def test_a_side_without_text_is_refused(empty, joint):
    with pytest.raises(DataError, match="no target text to train a tokenizer on"):
        trained(tgt=empty, joint=joint, vocab_size=300)
    with pytest.raises(DataError, match="no source text to train a tokenizer on"):
        trained(src=empty, joint=joint)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", ["a\tb", "a\0b", "▁▁", "▅ a", "a\ud800b", " ", "\u2028", *LOOKALIKES])
def test_odd_training_text_neither_fails_nor_makes_special_tokens(kind, odd):
    tokenizer = trained(src=[*GERMAN, *[odd] * 5], type=kind).src
    tokens = tokenizer.vocabulary
    assert len(set(tokens)) == len(tokens)
    if kind != "word" and not set(odd) & set("▁\ud800"):
        assert tokenizer.decode(tokenizer.encode(odd)) == odd
        assert min(tokenizer.encode(odd)) > EOS_ID


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_texts_train_a_tokenizer(kind):
    for text in ("a", " ", "猫"):
        tokenizer = trained(src=[text], tgt=[text], type=kind).src
        assert tokenizer.decode(tokenizer.encode(text)) in ({"", text} if kind == "word" else {text})


def test_training_writes_nothing_to_the_terminal(capfd):
    trained(vocab_size=9000)
    with pytest.raises(DataError):
        trained(vocab_size=8)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_and_seed_give_the_same_bytes(kind):
    first, second = (trained(type=kind).src.model_bytes for _ in range(2))
    assert first == second


def test_no_more_than_max_sentences_are_used_and_the_seed_draws_them():
    many = [chr(0x4E00 + i) for i in range(3000)]
    characters = []
    for seed in (1, 1, 2):
        tokenizer = trained(many, many, type="char", vocab_size=4000, max_sentences=97, seed=seed, joint=False).src
        characters.append({p for p in tokenizer.vocabulary if p in set(many)})
    assert [len(drawn) for drawn in characters] == [97, 97, 97]
    assert characters[0] == characters[1] != characters[2]
    assert min(characters[0]) < chr(0x4E00 + 500)
    assert max(characters[0]) > chr(0x4E00 + 2500)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_of_a_million_tokens_is_no_more_than_the_text_supports(kind):
    huge, large = (trained(type=kind, vocab_size=size).src for size in (1_000_000, 100_000))
    assert huge.vocab_size == large.vocab_size < 10_000


def test_the_number_of_sentences_is_told_before_training(messages):
    trained(max_sentences=5)
    assert messages[0] == "training a tokenizer of type unigram on 5 source and 5 target sentences"


def test_overlong_lines_are_left_out_with_a_warning(messages):
    tokenizer = trained(src=[*GERMAN, "x y " * 5000, "狗" * 6000], vocab_size=318).src
    warnings = [line for line in messages if line.startswith("warning: ")]
    assert warnings == ["warning: tokenizer training skipped 2 source lines longer than 16,384 bytes"]
    assert "x" not in tokenizer.vocabulary


@pytest.mark.parametrize("fault", [DataError("not UTF-8", line=3), KeyboardInterrupt()])
@pytest.mark.parametrize("fails_on_pass", [1, 2])
def test_a_fault_in_the_text_comes_through_as_it_is(fault, fails_on_pass):
    passes = []

    def failing():
        passes.append(1)
        yield from GERMAN
        if len(passes) == fails_on_pass:
            raise fault

    with pytest.raises(type(fault)) as caught:
        train_tokenizers(TokenizerConfig(), failing, lambda: iter(CHINESE))
    assert caught.value is fault


def test_normalization_is_the_one_asked_for():
    kept = trained().src
    folded = trained(normalization="nmt_nfkc").src
    assert kept.decode(kept.encode("一只狗，Ａ")) == "一只狗，Ａ"
    assert folded.decode(folded.encode("一只狗，Ａ")) == "一只狗,A"
