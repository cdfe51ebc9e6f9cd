"""Tokenizers: what survives the round trip, what is never shown or generated, and every complaint of training."""

from __future__ import annotations

import io
import pickle

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.base.errors import DataError, RunError
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import _FEW_TEXTS, Tokenizer, TokenizerPair
from tests.quick import examples

GERMAN = [
    "Ein Hund läuft durch den Wald .",
    "Zwei Männer sitzen auf einer Bank und reden .",
    "Eine Frau liest ein Buch .",
] * 5
CHINESE = ["一只狗跑过树林。", "两个男人坐在长椅上聊天。", "一个女人在看书，还喝茶。"] * 5
LOOKALIKES = ["<pad>", "</s>", "<s>", "<unk>", "<0x41>", "<0x0A>", "⁇", " ⁇ ", "x</s>y", "<s> <pad>", "<2de", "\\n"]
SPECIAL_NAMES = ("⁇", "\ufffd", "<unk>", "<pad>", "<s>", "</s>", "<0x")


def trained(src=GERMAN, tgt=CHINESE, seed=1, **keys):
    config = TokenizerConfig(**{"vocab_size": 340, **keys})
    return train_tokenizers(config, lambda: iter(src), lambda: iter(tgt), seed=seed)


@pytest.fixture(scope="module")
def tokenizers():
    """One joint tokenizer of each type, with a user symbol."""
    sizes = {"unigram": 325, "bpe": 400, "char": 310, "word": 25}
    return {kind: trained(type=kind, vocab_size=size, user_symbols=("<2de>",)).src for kind, size in sizes.items()}


@pytest.fixture(scope="module", params=["unigram", "bpe", "char"])
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


def model_with(**options):
    model = io.BytesIO()
    options = {"vocab_size": 300, "hard_vocab_limit": False, "minloglevel": 2, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(GERMAN), model_writer=model, **options)
    return model.getvalue()


def broken_token(model):
    return model.replace("狗".encode(), b"\xe7\x8b\xff")


def text_without_exceptions():
    """Any text but the documented exceptions: U+2581 and lone surrogates."""
    ordinary = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"))
    fragments = st.sampled_from([*LOOKALIKES, " ", "  ", "\n", "\t", "\0", "\r", "▅", "Hund", "狗", "<2de>", "\ufeff"])
    return st.lists(ordinary | fragments).map("".join)


def test_texts_are_encoded_alike_one_by_one_and_as_a_list(tokenizer):
    texts = [*GERMAN, *CHINESE, *LOOKALIKES, "", " x  y "]
    assert len(texts) > _FEW_TEXTS
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


@settings(deadline=None, max_examples=examples(60, 300))
@given(text_without_exceptions())
def test_encoded_text_decodes_to_itself(tokenizers, text):
    for kind in ("unigram", "bpe", "char"):
        ids = tokenizers[kind].encode(text)
        assert tokenizers[kind].decode(ids) == text
        assert all(i > EOS_ID for i in ids)
        assert tokenizers[kind].encode_batch([text, "", "x"]) == [ids, [], tokenizers[kind].encode("x")]


@settings(deadline=None, max_examples=examples(60, 300))
@given(st.lists(st.integers(0, 10**6)))
def test_any_ids_decode_to_whole_characters_and_no_special_name(tokenizers, numbers):
    for kind, tokenizer in tokenizers.items():
        ids = [number % tokenizer.vocab_size for number in numbers]
        # A byte token can spell these names by chance; only what the tokenizer adds by itself is looked for.
        shown = tokenizer.decode([i for i in ids if not tokenizer.tokens([i])[0].startswith("<0x3")])
        assert shown == shown.encode().decode(), kind
        assert not any(name in shown for name in SPECIAL_NAMES), kind


@settings(deadline=None, max_examples=examples(60, 300))
@given(st.lists(st.binary(min_size=1, max_size=4) | st.sampled_from([s.encode() for s in ("é", "狗", "😀", "a")])))
def test_broken_bytes_are_dropped_and_whole_characters_between_them_kept(tokenizers, chunks):
    spelled = b"".join(chunks)
    byte_id = {token: i for i, token in enumerate(tokenizers["bpe"].tokens(range(300)))}
    decoded = tokenizers["bpe"].decode([byte_id[f"<0x{byte:02X}>"] for byte in spelled])
    assert decoded == spelled.decode("utf-8", errors="ignore")


@pytest.mark.parametrize(
    "text", [*LOOKALIKES, "", " ", "  a  b  ", " a", "a ", "a\u00a0b\u3000", "e\u0301", "\u00e9", "👩‍👩‍👧"]
)
def test_text_that_is_easily_lost_survives(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & {UNK_ID, PAD_ID, BOS_ID, EOS_ID}


def test_the_documented_exceptions_are_these(tokenizer, tokenizers):
    assert tokenizer.decode(tokenizer.encode("▁a▁b▁")) == " a b "
    assert tokenizer.decode(tokenizer.encode("a\ud800b\udfff")) == "a\ufffdb\ufffd"
    word = tokenizers["word"]
    assert UNK_ID in word.encode("Ein Elefant läuft")
    assert word.decode(word.encode("Ein Elefant läuft")) == "Ein läuft"


def test_special_ids_are_not_shown(tokenizer):
    ids = tokenizer.encode("Ein Hund")
    assert tokenizer.decode([BOS_ID, PAD_ID, *ids, UNK_ID, EOS_ID, PAD_ID]) == "Ein Hund"
    assert tokenizer.decode([EOS_ID]) == tokenizer.decode([]) == ""


def test_tokens_are_written_with_their_spaces_and_bytes(tokenizer):
    ids = tokenizer.encode("Hund ä☃")
    assert tokenizer.tokens(ids)[0].startswith("▁")
    assert tokenizer.tokens(ids)[-3:] == ["<0xE2>", "<0x98>", "<0x83>"]
    assert tokenizer.tokens([UNK_ID, PAD_ID, BOS_ID, EOS_ID]) == ["<unk>", "<pad>", "<s>", "</s>"]


def test_a_user_symbol_is_one_token(tokenizer, tokenizers):
    for text in ("<2de>", "<2de> Ein Hund", "ein<2de>Hund"):
        ids = tokenizer.encode(text)
        assert tokenizer.tokens(ids).count("<2de>") == 1
        assert tokenizer.decode(ids) == text
    assert tokenizers["word"].tokens(tokenizers["word"].encode("<2de> Ein")) == ["▁<2de>", "▁Ein"]


def test_the_type_is_read_from_the_model(tokenizers):
    assert {kind: tokenizer.type for kind, tokenizer in tokenizers.items()} == {kind: kind for kind in tokenizers}


def test_specials_line_ends_and_nul_are_never_generated(tokenizer):
    tokens = tokenizer.vocabulary
    never = {tokens[i] for i in tokenizer.never_generated}
    assert never == {"<unk>", "<pad>", "<s>", "<0x00>", "<0x0A>", "<0x0D>"}
    assert EOS_ID not in tokenizer.never_generated


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_tokens_learnt_with_line_ends_in_them_are_never_generated(kind):
    lines = ["a\rb a\rb", "c\nd c\nd"] * 20
    tokenizer = trained(src=lines, tgt=lines, type=kind).src
    allowed = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.never_generated]
    assert not any(set("\r\n\0") & set(tokenizer.decode([i, i])) for i in allowed)
    assert {p for i in tokenizer.never_generated for p in tokenizer.tokens([i])} & {"\r", "▁a\rb"}


def test_a_tokenizer_replaces_an_empty_folder_or_another_tokenizer_and_nothing_else(tmp_path):
    pair = trained(joint=False, vocab_size=310, character_coverage=0.98)
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    pair.save(folder)
    with pytest.raises(RunError, match="there is a tokenizer already\n  replace it with --overwrite"):
        pair.save(folder)
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="this folder contains other files, so it is not overwritten"):
        pair.save(folder, overwrite=True)
    (folder / "thesis.txt").rename(tmp_path / "thesis.txt")
    TokenizerPair(pair.src, pair.src, joint=True).save(folder, overwrite=True)
    assert [path.name for path in folder.iterdir()] == ["joint.model"]


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_pair_loads_as_it_was(tmp_path, joint):
    pair = trained(joint=joint, vocab_size=310, character_coverage=0.98)
    for form in (not joint, joint):  # the second save replaces the first
        saved = pair if form == joint else TokenizerPair(pair.src, pair.tgt, form)
        saved.save(tmp_path / "tokenizer", overwrite=True)
    names = {path.name for path in (tmp_path / "tokenizer").iterdir()}
    assert names == ({"joint.model"} if joint else {"src.model", "tgt.model"})
    loaded = TokenizerPair.load(tmp_path / "tokenizer")
    assert loaded.joint is joint
    assert (loaded.src is loaded.tgt) is joint
    assert (loaded.src.fingerprint, loaded.tgt.fingerprint) == (pair.src.fingerprint, pair.tgt.fingerprint)
    assert loaded.tgt.decode(loaded.tgt.encode("一只狗")) == "一只狗"
    assert (pair.src.fingerprint == pair.tgt.fingerprint) is joint


def test_a_tokenizer_can_be_sent_to_another_process(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode("Ein Hund") == tokenizer.encode("Ein Hund")


def test_a_tokenizer_whose_replacement_was_killed_is_found(tmp_path, tokenizers):
    tokenizer = tokenizers["bpe"]
    TokenizerPair(tokenizer, tokenizer, joint=True).save(tmp_path / ".vocab.0000000a.old")
    (tmp_path / ".vocab.0000000a.lock").touch()
    assert TokenizerPair.load(tmp_path / "vocab").src.model_bytes == tokenizer.model_bytes
    assert [path.name for path in tmp_path.iterdir()] == ["vocab"]


def test_a_folder_without_a_whole_tokenizer_is_refused(tmp_path, tokenizers):
    with pytest.raises(DataError, match="no such tokenizer folder"):
        TokenizerPair.load(tmp_path / "none")
    with pytest.raises(DataError, match="this one contains neither"):
        TokenizerPair.load(tmp_path)
    (tmp_path / "tgt.model").write_bytes(tokenizers["bpe"].model_bytes)
    with pytest.raises(DataError, match=r"this one contains tgt\.model"):
        TokenizerPair.load(tmp_path)
    (tmp_path / "joint.model").write_bytes(tokenizers["bpe"].model_bytes)
    with pytest.raises(DataError, match=r"this one contains joint\.model, tgt\.model"):
        TokenizerPair.load(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda m: b"", lambda m: b"no model", lambda m: m[: len(m) // 2], lambda m: m[20:], broken_token]
)
def test_a_damaged_model_is_refused_with_its_path(tmp_path, tokenizer, damage):
    path = tmp_path / "joint.model"
    path.write_bytes(damage(tokenizer.model_bytes))
    with pytest.raises(DataError, match="not a SentencePiece model, or it is damaged") as caught:
        Tokenizer.load(path)
    assert caught.value.path == path
    assert "nmt vocab" in caught.value.hint


def test_a_missing_model_and_a_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such tokenizer model"):
        Tokenizer.load(tmp_path / "joint.model")
    with pytest.raises(DataError, match="cannot be read"):
        Tokenizer.load(tmp_path)


def test_a_model_with_other_special_ids_is_refused():
    with pytest.raises(
        DataError, match=r"the ids of unk, pad, bos and eos are \(0, -1, 1, 2\); they must be \(0, 1, 2, 3\)"
    ):
        Tokenizer(model_with())


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_a_tokenizer_with_new_symbols_keeps_all_ids_and_knows_each_as_one_token(tokenizers, kind):
    old = tokenizers[kind]
    new = old.with_symbols(["<2fr>", "<2de>", "<" + "x" * 200 + ">"])  # <2de> it has already
    assert new.vocab_size == old.vocab_size + 2
    ids = list(range(old.vocab_size))
    assert new.tokens(ids) == old.tokens(ids)
    assert new.tokens([old.vocab_size])[0].removeprefix("▁") == "<2fr>"
    assert (new.type, new.never_generated) == (old.type, old.never_generated)
    for text in ("two cats, <2de> and a dog", "你好 wörld", "</s> <x", ""):
        assert new.encode(text) == old.encode(text)
        assert new.decode(new.encode(text)) == old.decode(old.encode(text))
    tagged = new.encode("<2fr> cat")
    assert old.vocab_size in tagged
    assert "<2fr>" in new.decode(tagged)
    assert new.with_symbols(["<2fr>"]) is new
    assert new.model_bytes == old.with_symbols(["<2fr>", "<" + "x" * 200 + ">"]).model_bytes


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_a_tokenizer_with_new_characters_keeps_all_ids_and_spells_them_in_no_bytes(tokenizers, kind):
    old = tokenizers[kind]
    characters = [character for character in "羊ẞ🐑" if old.lacks(character)]
    assert characters
    new = old.with_characters(characters)
    assert new.vocabulary == [*old.vocabulary, *characters]
    assert (new.type, new.never_generated, new.user_symbols) == (old.type, old.never_generated, old.user_symbols)
    for text in ("two cats, <2de> and a dog", "</s> <x", "unseen ☃ ж", ""):
        assert new.encode(text) == old.encode(text)
    text = "two " + "".join(characters) + " cats" + characters[0]
    ids = new.encode(text)
    assert new.decode(ids) == text
    assert not {*new.encode("".join(characters))} & {*new.byte_tokens}
    assert [new.tokens([i])[0] for i in ids if i >= old.vocab_size] == [*characters, characters[0]]
    assert not any(new.lacks(character) for character in characters)
    assert not any(old.lacks(character) for character in "\n\0 ▁\u00a0\u200b")
    assert new.with_characters([]) is new


def test_two_vocabularies_get_the_characters_of_their_sides_and_one_gets_all(tokenizers):
    src, tgt = tokenizers["unigram"], tokenizers["bpe"]
    two = TokenizerPair(src, tgt, joint=False).with_characters(["羊"], ["山", "🐑"])
    assert (two.src.vocab_size, two.tgt.vocab_size) == (src.vocab_size + 1, tgt.vocab_size + 2)
    one = TokenizerPair(src, src, joint=True).with_characters(["羊", "山"], ["山"])
    assert one.src is one.tgt
    assert one.src.tokens(range(src.vocab_size, one.src.vocab_size)) == ["羊", "山"]
