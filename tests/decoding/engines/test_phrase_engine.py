"""Translation with a phrase table."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.phrases.table import FEATURES, NEVER, PhraseTable
from nmt.data.phrases.words import FoldedSource, SourceFolder, Word
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.phrase_engine import PhraseEngine
from nmt.decoding.engines.phrase_search import PhraseSearch
from nmt.decoding.engines.selection import load_engine


@pytest.fixture(scope="module")
def run(phrases_run) -> RunDir:
    return phrases_run


@pytest.fixture(scope="module")
def tokenizers(run) -> TokenizerPair:
    return TokenizerPair.load(run.tokenizer)


@pytest.fixture(scope="module")
def engine(run, tokenizers) -> PhraseEngine:
    return PhraseEngine.load(run, tokenizers)


@pytest.fixture(scope="module")
def sources(run, tokenizers) -> list[list[int]]:
    return tokenizers.src.encode_batch(run.read_pairs("test")[0])


def test_it_translates_a_language_that_is_learned_word_by_word(run):
    sources, references = run.read_pairs("test")
    with Translator.load(run, engine="phrase") as translator:
        texts = [each.text for each in translator.translate(sources)]
    right = sum(ours == theirs for ours, theirs in zip(texts, references, strict=True))
    assert right > 0.8 * len(references)


def test_a_source_longer_than_the_limit_of_the_network_is_translated_whole(run):
    limit = run.config().model.max_src_len
    with Translator.load(run, engine="phrase") as translator:
        (word,) = translator.translate([run.read_pairs("test")[0][0].split()[0]])
        (long,) = translator.translate([" ".join([run.read_pairs("test")[0][0].split()[0]] * (limit + 40))])
    assert not long.truncated
    assert len(long.text.split()) >= limit * len(word.text.split())


def test_a_source_alone_gives_the_same_as_in_a_batch(engine, sources):
    options = SearchOptions(beam_size=4, num_hypotheses=4)
    together = engine.search([*sources, []], options)
    assert [engine.search([source], options)[0] for source in [*sources, []]] == together
    assert engine.search(sources[::-1], options) == together[-2::-1]


def test_an_n_best_list_has_different_outputs_and_their_scores(engine, sources):
    for source, hypotheses in zip(
        sources, engine.search(sources, SearchOptions(beam_size=5, num_hypotheses=5)), strict=True
    ):
        outputs = [tuple(hypothesis.ids) for hypothesis in hypotheses]
        assert len({*outputs}) == len(outputs) > 1
        scores = engine.score([source] * len(outputs), outputs)
        assert scores == [hypothesis.token_scores for hypothesis in hypotheses]
        assert all(math.isclose(sum(row), each.score) for row, each in zip(scores, hypotheses, strict=True))
    one, *_ = engine.search(sources[:1], SearchOptions())
    several, *_ = engine.search(sources[:1], SearchOptions(beam_size=5, num_hypotheses=5))
    assert one == several[:1]


def test_the_probabilities_of_the_next_token_sum_to_at_most_one(engine, sources, tokenizers):
    tokens = range(tokenizers.tgt.vocab_size)
    scores = engine.score([sources[0]] * len(tokens), [[token] for token in tokens])
    assert 0.9 < sum(math.exp(row[0]) for row in scores) <= 1.001


def test_outputs_begin_with_their_prefix(engine, sources):
    whole = [each[0].ids for each in engine.search(sources, SearchOptions())]
    prefixes = [ids[: len(ids) // 2] for ids in whole]
    found = [each[0].ids for each in engine.search(sources, SearchOptions(), prefixes)]
    assert all(ids[: len(prefix)] == prefix for ids, prefix in zip(found, prefixes, strict=True))
    assert sum(ours == theirs for ours, theirs in zip(found, whole, strict=True)) > len(whole) / 2


def test_a_word_that_training_never_saw_is_copied_whole(run):
    with Translator.load(run, engine="phrase") as translator:
        assert "Zzuqqyx" in translator.translate(["bufa Zzuqqyx."])[0].text


def test_symbols_are_copied_wherever_they_stand(engine, sources, tokenizers):
    symbols = [tokenizers.src.id_of(symbol) for symbol in tokenizers.src.user_symbols]
    assert symbols
    source = [symbols[0], *sources[0], symbols[-1], symbols[0]]
    for hypothesis in engine.search([source], SearchOptions(beam_size=4, num_hypotheses=4))[0]:
        kept = [token for token in hypothesis.ids if token in symbols]
        assert kept == [symbols[0], symbols[-1], symbols[0]]


def test_outputs_end_at_the_limit(engine, sources):
    options = SearchOptions(max_len_factor=0, max_len_offset=3)
    for hypotheses in engine.search(sources, options):
        assert len(hypotheses[0].ids) == len(hypotheses[0].token_scores) == 3
        assert not hypotheses[0].finished


def test_repeats_and_short_outputs_are_avoided_if_there_is_another(engine, sources):
    found = engine.search(sources, SearchOptions(no_repeat_ngram=1))
    plain = engine.search(sources, SearchOptions())

    def repeats(results):
        return sum(len({*each[0].ids}) < len(each[0].ids) for each in results)

    assert repeats(found) <= repeats(plain)


def test_attention_is_on_the_words_that_translate_each_other(engine, sources):
    target = [*engine.search(sources[:1], SearchOptions())[0][0].ids, EOS_ID]
    weights = np.array(engine.cross_attention(sources[0], target))
    assert weights.shape == (len(target), len(sources[0]) + 1)
    assert np.allclose(weights.sum(1), 1)


def test_words_are_linked_to_their_translations_without_the_lexicon_of_the_run(run):
    sources, _ = run.read_pairs("test")
    with Translator.load(run, engine="phrase") as translator:
        translator.lexicon = None
        segment = translator.translate(sources[:1])[0].segments[0]
        assert translator.align(segment, run.config().data.directions[0])


def test_samples_depend_on_the_seed_and_the_draw_only(engine, sources):
    options = SearchOptions(sample=True, num_hypotheses=8)
    found = engine.search([sources[0], *sources[:2]], options, draws=[0, 0, 7])
    assert found[0] == found[1] == engine.search(sources[:1], options)[0]
    assert len(found[0]) == 8
    assert engine.search(sources[:1], options.changed(top_k=1))[0] == [found[0][0]] * 8
    assert engine.search(sources[:1], options.changed(seed=2))[0] != found[0]


def test_terms_and_attention_weights_are_refused(engine, sources):
    with pytest.raises(NmtError, match="does not support terms"):
        engine.search(sources[:1], SearchOptions(), terms=([[]], b""))
    with pytest.raises(NmtError, match="the phrase engine has no attention"):
        engine.attention_weights(sources[0], [EOS_ID])
    with pytest.raises(NmtError, match="no decoder layer 7"):
        engine.cross_attention(sources[0], [EOS_ID], layer=7)


def test_auto_is_the_phrase_engine_where_it_is_better(run, tokenizers):
    assert isinstance(load_engine([run], tokenizers, device="cpu"), PhraseEngine)
    for choice in ({"precision": "fp32"}, {"engine": "torch"}):
        assert not isinstance(load_engine([run], tokenizers, device="cpu", **choice), PhraseEngine)


@pytest.mark.parametrize(
    ("choice", "what"), [({"precision": "int8"}, "the precision int8"), ({"device": "cuda"}, "the device cuda")]
)
def test_devices_and_precisions_are_refused(run, tokenizers, choice, what):
    with pytest.raises(NmtError, match=f"the phrase engine does not support {what}"):
        load_engine([run], tokenizers, "phrase", **choice)
    with pytest.raises(NmtError, match="does not support ensembles"):
        load_engine([run, run], tokenizers, "phrase")


def test_a_run_without_a_table_says_so(digits_run):
    with pytest.raises(NmtError, match="this run has no phrase table"):
        Translator.load(digits_run, engine="phrase")


def test_a_run_that_lost_its_table_translates_with_the_network_and_says_so(run, tokenizers, tmp_path, caplog):
    lost = RunDir(tmp_path / "run")
    shutil.copytree(run.path, lost.path)
    lost.phrases.unlink()
    assert not isinstance(load_engine([lost], tokenizers, device="cpu"), PhraseEngine)
    assert "phrases.safetensors is missing, so the network translates" in caplog.text


def test_a_damaged_table_is_refused_with_its_path(run, tokenizers, tmp_path):
    table, path = PhraseTable.load(run.phrases, tokenizers), tmp_path / "phrases.safetensors"
    content = run.phrases.read_bytes()
    for damaged in (b"", content[:1000], content[:-1], content[:-5] + b"\0" * 5):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match="not a phrase table, or it is damaged"):
            PhraseTable.load(path, tokenizers)
    for change in (
        {"phrases": table.phrases + len(table.tgt_starts)},
        {"phrases": table.phrases[1:]},
        {"starts": table.starts[::-1]},
        {"src_starts": table.src_starts[::-1]},
        {"src_starts": table.src_starts[1:]},
        {"src_tokens": table.src_tokens[1:]},
        {"tgt_tokens": table.tgt_tokens + 10_000},
        {"tgt_starts": np.zeros_like(table.tgt_starts)},
        {"scores": table.scores * math.nan},
        {"weights": table.weights[2:]},
        {"weights": table.weights[4:]},
        {"lexicon_keys": table.lexicon_keys[::-1]},
        {"lm": table.lm._replace(suffixes=np.arange(len(table.lm.suffixes)))},
        {"lm": table.lm._replace(keys=table.lm.keys[1:])},
        {"lm": table.lm._replace(backoffs=table.lm.backoffs[1:])},
    ):
        table._replace(**change).save(path, tokenizers)
        with pytest.raises(RunError, match="not a phrase table, or it is damaged"):
            PhraseTable.load(path, tokenizers)


def test_a_saved_table_is_the_same_when_it_is_saved_again(run, tokenizers, tmp_path):
    PhraseTable.load(run.phrases, tokenizers).save(tmp_path / "again", tokenizers)
    assert (tmp_path / "again").read_bytes() == run.phrases.read_bytes()


def learn_swapped(tokenizers) -> tuple[PhraseTable, list[int], list[int]]:
    """Return a table of pairs of words whose translations change places, an unseen such pair, and its translation."""
    firsts, seconds, shift = range(10, 20), range(20, 30), 30
    pairs = [([a, b], [b + shift, a + shift]) for a in firsts for b in seconds if a - 10 != b - 20]
    src, tgt = ([*side] for side in zip(*pairs, strict=True))
    # Each word is learned alone: what links whole pairs would be known as one phrase.
    singles = [([a], [a + shift]) for a in (*firsts, *seconds)]
    src, tgt = [*src, *(one for one, _ in singles)], [*tgt, *(one for _, one in singles)]
    links = [[(0, 1), (1, 0)]] * len(pairs) + [[(0, 0)]] * len(singles)
    table = PhraseTable.learn(src, tgt, [links], tokenizers.tgt.vocab_size)
    return table, [12, 22], [52, 42]


def test_neighboring_phrases_change_places_where_the_language_model_wants_it(tokenizers):
    table, source, expected = learn_swapped(tokenizers)
    search, sources = PhraseSearch(table, tokenizers), [FoldedSource(source, [])]
    search.weights = np.where(np.array(FEATURES) == "swap", -0.1, table.weights)
    swapped, plain = search.search(sources, count=4)[0]
    assert swapped.tokens == expected == plain.tokens[::-1]
    assert swapped.features[FEATURES.index("swap")] == 1
    assert plain.features[FEATURES.index("swap")] == 0
    search.weights = np.where(np.array(FEATURES) == "swap", NEVER, table.weights)
    assert [output.tokens for output in search.search(sources, count=4)[0]] == [expected[::-1]]


@pytest.mark.parametrize("feature", ["kin", "length"])
def test_a_table_from_before_a_feature_says_that_it_must_be_built_again(run, tokenizers, tmp_path, feature):
    table = PhraseTable.load(run.phrases, tokenizers)
    old = tmp_path / "phrases.safetensors"
    table._replace(weights=table.weights[: FEATURES.index(feature)]).save(old, tokenizers)
    with pytest.raises(RunError, match="not a phrase table, or it is damaged") as caught:
        PhraseTable.load(old, tokenizers)
    assert caught.value.hint.startswith("build it again")


def test_a_token_weighs_more_in_short_sources_and_less_in_long_ones_as_the_weight_of_lengths_says(run, tokenizers):
    table = PhraseTable.load(run.phrases, tokenizers)
    search, folder = PhraseSearch(table, tokenizers), SourceFolder(tokenizers)
    for text in ("bufa geko.", "bufa geko bufa geko " * 20):
        source = folder.fold(tokenizers.src.encode(text))
        for output in search.search([source], count=4)[0]:
            size = output.features[FEATURES.index("tokens")]
            expected = size * np.log((len(source.tokens) + 1) / 30)
            assert output.features[FEATURES.index("length")] == pytest.approx(expected)


def test_a_table_from_before_words_of_kin_copies_an_unknown_word():
    """Its weight alone would not keep out a word of which one letter in twenty differs."""
    words = ["gesellschaftsformen", "gesellschaftsformel"]
    config = TokenizerConfig(type="bpe", vocab_size=300)
    tokenizers = train_tokenizers(config, lambda: iter(words * 20), lambda: iter(words * 20))
    known, unknown = map(tokenizers.src.encode, words)
    table = PhraseTable.learn([known], [[EOS_ID + 1]], [[[(at, 0) for at in range(len(known))]]], 300)
    copied = tuple(tokenizers.tgt.encode(words[1]))
    sources = [FoldedSource(unknown, [Word(0, len(unknown), copied, is_name=False, is_symbol=False)])]
    search = PhraseSearch(table, tokenizers)
    assert search.search(sources)[0][0].tokens == [EOS_ID + 1]
    search.weights = np.where(np.isin(FEATURES, ("kin", "swap")), NEVER, table.weights)
    assert search.search(sources)[0][0].tokens == [*copied]


def test_phrases_of_two_sources_do_not_change_places(tokenizers):
    table, (first, second), _ = learn_swapped(tokenizers)
    search = PhraseSearch(table, tokenizers)
    search.weights = np.where(np.array(FEATURES) == "swap", 50.0, table.weights)
    alone = [search.search([FoldedSource([token], [])])[0][0].tokens for token in (first, second)]
    together = search.search([FoldedSource([token], []) for token in (first, second)])
    assert [outputs[0].tokens for outputs in together] == alone


@pytest.mark.parametrize(
    ("before", "copied", "is_copied", "expected"),
    [
        ("le", "nord", False, "le nord"),  # l'Alliance, whose article is translated
        ("le", "北", False, "le 北"),
        ("(", "nord", False, "(nord"),
        ("le", "nord", True, "lenord"),  # parts of one name, such as d'Ivoire
        ("北", "nord", False, "北nord"),  # of languages without spaces
    ],
)
def test_a_word_that_is_copied_without_what_precedes_it_begins_anew(before, copied, is_copied, expected):
    letters = [*"le (nord北"] * 20
    config = TokenizerConfig(type="char", vocab_size=300)
    tokenizers = train_tokenizers(config, lambda: iter(letters), lambda: iter(letters))
    first, copy = tokenizers.tgt.encode(before), tokenizers.tgt.encode(copied)[1:]
    words = [Word(1, 2, tuple(copy), is_name=False, is_symbol=True)]  # symbols are never dropped
    if is_copied:
        words.insert(0, Word(0, 1, tuple(first), is_name=False, is_symbol=True))
    known = 12 if is_copied else 10
    table = PhraseTable.learn([[known]], [first], [[[(0, at) for at in range(len(first))]]], tokenizers.tgt.vocab_size)
    (best,) = PhraseSearch(table, tokenizers).search([FoldedSource([10, 11], words)])[0]
    assert tokenizers.tgt.decode(best.tokens) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ([10, 11, 12], "▁le▁nord"),  # 11 is translated by a space alone, as a mark that is dropped leaves it
        ([11, 10], "▁le"),
        ([10, 11], "▁le"),
        ([10, 11, 11, 12], "▁le▁nord"),
        ([10, 11, 13], "▁le▁(nord"),
    ],
)
def test_a_space_before_what_was_dropped_is_left_out(source, expected):
    letters = [*"le (nord"] * 20
    config = TokenizerConfig(type="char", vocab_size=300)
    tokenizers = train_tokenizers(config, lambda: iter(letters), lambda: iter(letters))
    le, nord = map(tokenizers.tgt.encode, ("le", "nord"))
    parts = [le, le[:1], nord, tokenizers.tgt.encode("(nord")[1:]]
    links = [[(0, at) for at in range(len(part))] for part in parts]
    table = PhraseTable.learn([[10], [11], [12], [13]], parts, [links], tokenizers.tgt.vocab_size)
    (best,) = PhraseSearch(table, tokenizers).search([FoldedSource(source, [])])[0]
    assert "".join(tokenizers.tgt.tokens(best.tokens)) == expected
