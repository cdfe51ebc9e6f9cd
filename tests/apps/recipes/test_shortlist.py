"""A run's shortlist holds translations, copies and spellings, and comes from the data that the run was trained on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.apps.recipes.shortlist import choose_candidates, compare_shortlist, make_shortlist
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import SearchOptions, TokenizerConfig
from nmt.data.lexicon.model1 import Lexicon
from nmt.data.lexicon.shortlist import Shortlist
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.training.validation import Validator
from nmt.translation import Translator


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    config = TokenizerConfig(type="char", vocab_size=290, joint=False)
    return train_tokenizers(config, lambda: ["abc xy"] * 9, lambda: ["uvw xy 12"] * 9)


def choose(
    tokenizers: TokenizerPair, links: dict[tuple[str, str], float], best: int = 2, frequent: int = 0
) -> Shortlist:
    ids = sorted((tokenizers.src.encode(s)[-1], tokenizers.tgt.encode(t)[-1], n) for (s, t), n in links.items())
    src, tgt, weights = zip(*ids, strict=True)
    counts = np.zeros(tokenizers.tgt.vocab_size, np.int64)
    counts[[0, 1, *tokenizers.tgt.encode("u")[-1:]]] = 9, 8, 7
    return choose_candidates(
        Lexicon(np.array(src), np.array(tgt), np.array(weights)), counts, tokenizers, best, frequent
    )


def candidates(shortlist: Shortlist, tokenizers: TokenizerPair, letter: str) -> list[str]:
    token = tokenizers.src.encode(letter)[-1]
    return tokenizers.tgt.tokens(shortlist.candidates[shortlist.starts[token] : shortlist.starts[token + 1]])


def test_a_token_has_its_best_translations_and_its_copy(tokenizers):
    links = {("a", "u"): 3.0, ("a", "v"): 9.0, ("a", "w"): 5.0, ("x", "u"): 1.0, ("b", "u"): 1e-3}
    shortlist = choose(tokenizers, links)
    assert sorted(candidates(shortlist, tokenizers, "a")) == ["v", "w"]
    assert sorted(candidates(shortlist, tokenizers, "x")) == ["u", "x"]
    assert candidates(shortlist, tokenizers, "b") == []  # too little evidence; and the target has no b


def test_every_source_has_the_frequent_tokens_and_the_digits_and_they_take_no_place_of_others(tokenizers):
    links = {("a", "u"): 9.0, ("a", "v"): 5.0, ("a", "w"): 3.0}
    shortlist = choose(tokenizers, links, frequent=1)
    assert sorted(tokenizers.tgt.tokens(shortlist.always)) == ["1", "2", "u"]
    assert sorted(candidates(shortlist, tokenizers, "a")) == ["v", "w"]


def test_a_character_that_the_vocabulary_lacks_has_all_bytes_that_may_be_generated(tokenizers):
    shortlist = choose(tokenizers, {("a", "u"): 9.0})
    outputs = shortlist.outputs(tokenizers.src.encode("é"))
    banned = {*tokenizers.tgt.never_generated}
    assert {*tokenizers.tgt.byte_tokens} - banned <= {*outputs}
    assert not banned & {*outputs}


def test_a_run_gets_its_shortlist_and_loses_nothing_by_it(digits_run):
    run = RunDir(digits_run)
    make_shortlist(run, best=20, frequent=5)
    tokenizers = TokenizerPair.load(run.tokenizer)
    outputs = Shortlist.load(run.shortlist, tokenizers).outputs(tokenizers.src.encode("12"))
    assert {*tokenizers.tgt.encode("21")} <= {*outputs}
    assert len(outputs) < tokenizers.tgt.vocab_size / 4
    found = compare_shortlist(RunDir(digits_run))
    assert [each.sentences for each in found.sets] == [40]
    assert found.sets[0].bleu.gain == 0
    assert min(found.seconds) > 0


def test_the_shortlist_is_the_same_each_time(digits_run):
    run = RunDir(digits_run)
    make_shortlist(run, best=3, frequent=5)
    first = run.shortlist.read_bytes()
    make_shortlist(run, best=3, frequent=5)
    assert run.shortlist.read_bytes() == first


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_a_translator_uses_the_shortlist_of_its_run(digits_run, tmp_path, engine):
    run = RunDir(shutil.copytree(digits_run, tmp_path / "run"))
    tokenizers = TokenizerPair.load(run.tokenizer)
    letters = [tokenizers.tgt.encode(digit)[-1] for digit in "12"]
    Shortlist.from_lists([[] for _ in range(tokenizers.src.vocab_size)], letters).save(run.shortlist, tokenizers)
    with Translator.load(run, engine=engine) as translator:
        found = translator.translate(["12345"], SearchOptions(shortlist=True, retry_loops=False))
    assert found[0].text
    assert {*found[0].text} <= {*"12"}


def test_validation_during_training_needs_no_shortlist(digits_run):
    run = RunDir(digits_run)
    config = run.config().model_copy(update={"decoding": SearchOptions(shortlist=True)})
    tokenizers = TokenizerPair.load(run.tokenizer)
    validator = Validator(run.read_sets("valid", config.data.directions[0]), tokenizers, config)
    model = load_model(run, tokenizers, torch.device("cpu"))
    assert validator.translate(TorchEngine([model], tokenizers))[0][0] >= 0.0


def test_a_corpus_that_has_changed_is_refused(digits_run, tmp_path):
    run = RunDir(shutil.copytree(digits_run, tmp_path / "runs" / "run"))
    (train,) = run.config().data.corpora("train")
    corpus = Path(train.tsv).parent
    shutil.copytree(corpus, tmp_path / "data")
    text = run.config_file.read_text(encoding="utf-8")
    run.config_file.write_text(text.replace(str(corpus), str(tmp_path / "data")), encoding="utf-8")
    with open(tmp_path / "data" / "train.tsv", "a", encoding="utf-8") as file:
        file.write("1\t1\n")
    with pytest.raises(RunError, match="the corpus has changed since this run was started"):
        make_shortlist(RunDir(run.path), best=3, frequent=5)
