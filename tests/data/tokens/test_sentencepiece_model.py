"""Tokens of a SentencePiece model can be replaced; what is left segments as before."""

from __future__ import annotations

import io
import random

import pytest
import sentencepiece

from nmt.base.errors import DataError
from nmt.base.special_tokens import UNK_ID
from nmt.data.tokens.sentencepiece_model import (
    CONTROL,
    NORMAL,
    SPECIAL_TOKENS,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    read_pieces,
    with_pieces,
    with_special_tokens,
)
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

WORDS = ("under", "over", "stand", "stood", "look", "ing", "ed")
SPECIALS = [Piece(token, 0.0, CONTROL if number else UNKNOWN) for number, token in enumerate(SPECIAL_TOKENS)]


def texts(count: int) -> list[str]:
    draw = random.Random(4)
    return [" ".join("".join(draw.choices(WORDS, k=2)) for _ in range(5)) for _ in range(count)]


@pytest.fixture(scope="module")
def foreign() -> bytes:
    """A model with ids of the special tokens that are not nmt's, and without byte fallback."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(100)), model_writer=model, vocab_size=50, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def changed(foreign: bytes, *more: Piece) -> Tokenizer:
    """The model in another order, with nmt's special tokens, and with `more` tokens."""
    normal = [piece for piece in read_pieces(foreign) if piece.type == NORMAL]
    return Tokenizer(with_pieces(foreign, [*SPECIALS, *more, *reversed(normal)]))


def test_a_model_in_another_order_segments_and_spells_as_before(foreign):
    before = sentencepiece.SentencePieceProcessor(model_proto=foreign)
    after = changed(foreign, Piece("▁underoverlook", 0.0, UNUSED))
    for text in [*texts(30), "  under  look ", "ｕnderstood underoverlook"]:
        assert after.tokens(after.encode(text)) == before.encode(text, out_type=str)
        assert after.decode(after.encode(text)) == before.decode(before.encode(text))


def test_a_model_of_another_program_gets_our_special_ids_and_segments_as_before(foreign):
    before = sentencepiece.SentencePieceProcessor(model_proto=foreign)
    converted = with_special_tokens(foreign)
    after = Tokenizer(converted)
    assert after.vocab_size == before.vocab_size() + 1  # it had no pad
    for text in [*texts(30), "  under  look ", "ｕnderstood"]:
        ids = before.encode(text)
        assert after.encode(text) == [i + 1 if i else UNK_ID for i in ids]
        assert after.decode(after.encode(text)) == before.decode(ids)
    assert with_special_tokens(converted) is converted


def test_an_unused_token_stands_for_unknown_characters_that_are_written_like_it(foreign):
    tokenizer = changed(foreign, Piece("é", 0.0, UNUSED), Piece("ßß", 0.0, UNUSED))
    assert tokenizer.encode("looké") == [*tokenizer.encode("look"), 4]
    assert tokenizer.encode("lookßß")[-1] == 5
    assert tokenizer.encode_batch(["looké", "lookß"]) == [tokenizer.encode("looké"), tokenizer.encode("lookß")]
    assert tokenizer.encode("lookß")[-1] == UNK_ID
    assert tokenizer.decode([4, 5]) == "éßß"
    assert not {4, 5} & set(tokenizer.never_generated)


def test_a_user_defined_token_that_begins_a_word_is_one_token(foreign):
    tokenizer = changed(foreign, Piece("▁<2fr>", 0.0, USER_DEFINED))
    assert tokenizer.encode("<2fr> look") == [4, *tokenizer.encode("look")]
    assert tokenizer.user_symbols == ("<2fr>",)


def test_one_vocabulary_with_two_segmentations_is_saved_and_read(foreign, tmp_path):
    src, tgt = changed(foreign, Piece("é", 0.0, UNUSED)), changed(foreign, Piece("é", -3.0, NORMAL))
    TokenizerPair(src, tgt, joint=True).save(tmp_path / "t")
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["joint-src.model", "joint-tgt.model"]
    found = TokenizerPair.load(tmp_path / "t")
    assert (found.joint, found.src.fingerprint, found.tgt.fingerprint) == (True, src.fingerprint, tgt.fingerprint)
    grown = found.with_symbols(["<2fr>"])
    assert grown.src.id_of("<2fr>") == grown.tgt.id_of("<2fr>") == src.vocab_size


@pytest.mark.parametrize("content", [b"", b"\x0a\xff\xff\xff\x7fx", b"no model"])
def test_what_is_no_model_is_refused(content):
    with pytest.raises(DataError, match="not a SentencePiece model"):
        read_pieces(content)
