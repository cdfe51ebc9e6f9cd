"""A run that continues from another one with a language in other characters: they become tokens of their own."""

from __future__ import annotations

import pytest
import torch

from nmt.apps.interop.agreement import compare
from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.apps.interop.export import export_ctranslate2
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.config import Config
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import NativeEngine
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.training.run import start_run
from nmt.translation import Translator
from tests.resumption import assert_equal_runs, stop_and_resume
from tests.two_directions import two_values

CHINESE = dict(zip(map(ord, "0123456789"), "零一二三四五六七八九", strict=True))


def values(corpora, base, **training) -> dict:
    """The configuration of `base`, its directions into de and fr, and a new one into Chinese; one rare character."""
    rows = [line.split("\t")[0] for line in (corpora / "train.tsv").read_text().splitlines()]
    lines = [f"{row}\t{row.translate(CHINESE)}。\n" for row in rows[:200]] + ["12\t罕\n", "é1\té\n"] * 4
    (corpora / "zh.tsv").write_text("".join(lines), encoding="utf-8")
    changed = two_values(corpora, model=RunDir(base).config().model.model_dump())
    changed["data"]["train"].append({"tsv": str(corpora / "zh.tsv"), "tgt_lang": "zh"})
    short = {"init_from": str(base), "max_updates": 6, "warmup_updates": 1, "validate_every": 3}
    changed["training"] |= short | training
    return changed


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    from tests.two_directions import write_two_directions

    return write_two_directions(tmp_path_factory.mktemp("corpora"), num_train=300)


@pytest.fixture(scope="module")
def grown(corpora, two_run, tmp_path_factory) -> RunDir:
    path = tmp_path_factory.mktemp("grown") / "run"
    start_run(Config.model_validate(values(corpora, two_run)), path)
    return RunDir(path)


def test_frequent_characters_become_the_last_tokens_and_rare_ones_stay_bytes(grown, two_run):
    old, new = (TokenizerPair.load(RunDir(run).tokenizer).tgt for run in (two_run, grown.path))
    size = old.vocab_size
    assert new.tokens(range(size)) == old.tokens(range(size))
    added = new.tokens(range(size, new.vocab_size))
    assert added[0] == "<2zh>"
    assert sorted(added[1:]) == sorted([*CHINESE.values(), "。"])
    text = "一二三四。"
    assert not {*new.encode(text)} & {*new.byte_tokens}
    assert len(new.encode(text)) <= len(text) + 1
    assert {*new.encode("罕")} & {*new.byte_tokens}
    assert new.decode(new.encode(f"{text} 罕 123 é")) == f"{text} 罕 123 é"
    assert [new.encode(text) for text in ("1234 é", "abc x")] == [old.encode(text) for text in ("1234 é", "abc x")]


def test_old_directions_are_translated_as_before_the_first_update(corpora, two_run, tmp_path):
    changed = values(corpora, two_run, max_updates=1, warmup_updates=0, lr=1e-12)
    start_run(Config.model_validate(changed), tmp_path / "run")
    old, new = (Translator.load(run, device="cpu", engine="torch") for run in (two_run, tmp_path / "run"))
    sources = RunDir(two_run).read_pairs("test")[0]
    for to in ("de", "fr"):
        assert [t.text for t in new.translate(sources, to=to)] == [t.text for t in old.translate(sources, to=to)]
    before, after = (read_weights(RunDir(run).best_checkpoint()) for run in (two_run, tmp_path / "run"))
    tokenizer = new.tokenizers.tgt
    ids = [tokenizer.id_of(digit) for digit in "一二三"]
    (name,) = (name for name, tensor in before.items() if len(tensor) == old.tokenizers.tgt.vocab_size)
    mean = before[name].mean(dim=0)
    found = [torch.cosine_similarity(after[name][i], mean, dim=0) for i in ids]
    others = torch.cosine_similarity(after[name][tokenizer.id_of("<2zh>")], mean, dim=0)
    assert min(found) > others
    assert not after[name][ids[0]].equal(after[name][ids[1]])


@pytest.mark.slow
def test_a_resumed_training_equals_an_uninterrupted_one(corpora, two_run, grown, tmp_path):
    resumed = stop_and_resume(Config.model_validate(values(corpora, two_run)), tmp_path / "run", 4)
    assert_equal_runs(grown, resumed)


def test_both_engines_and_an_export_compute_the_same(grown, tmp_path):
    pair = TokenizerPair.load(grown.tokenizer)
    texts = ["<2zh> 1234", "<2de> 567", "<2fr> 98", "<2zh> 一二"]
    sources = pair.src.encode_batch(texts)
    ours = TorchEngine.load([grown], pair, "cpu")
    assert compare(ours, NativeEngine.load(grown, pair, "fp32"), sources).different == 0
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    export_ctranslate2(grown, tmp_path / "ct2")  # which compares the outputs of the test set
    engine = CTranslate2Engine(tmp_path / "ct2", ours.models[0], pair)
    assert compare(ours, engine, sources).different == 0


def test_a_new_corpus_of_known_languages_changes_no_vocabulary(corpora, two_run, tmp_path):
    changed = values(corpora, two_run)
    changed["data"]["train"][2]["tgt_lang"] = "fr"
    start_run(Config.model_validate(changed), tmp_path / "run")
    old, new = (TokenizerPair.load(RunDir(run).tokenizer).tgt for run in (two_run, tmp_path / "run"))
    assert new.model_bytes == old.model_bytes
