"""The phrase table of a run: when it is built, how it is chosen, and that it is reproducible."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nmt import Translator, evaluate, synthesize
from nmt.apps.commands.export import app
from nmt.apps.interop.describe import describe_model
from nmt.apps.interop.sharing import pack, write_shareable
from nmt.artifacts.run_records import PhraseScores, Quality
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, DataError, RunError
from nmt.data.phrases.table import PhraseTable
from nmt.data.store.store import TokenStore
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.selection import prefers_phrases
from nmt.evaluation.runs import compare_runs
from nmt.training.phrases import MAX_PAIRS, MIN_PAIRS, learn_phrases, read_more_tgt, why_no_table
from nmt.training.run import resume_run, start_run
from tests.phrases import make_phrases_run, phrases_config
from tests.resumption import assert_equal_runs, stop_and_resume
from tests.tiny import tiny_config, write_digits


@pytest.fixture(scope="module")
def run(phrases_run) -> RunDir:
    return phrases_run


def translate(model) -> list[str]:
    texts = ["bufa geko.", "Nini bufa, geko!"]
    with Translator.load(model, device="cpu") as translator:
        return [each.text for each in translator.translate(texts)]


def test_the_scores_are_recorded_and_the_table_is_chosen(run):
    scores = run.index().phrases
    assert scores is not None
    assert scores.table.chrf > 80 > scores.network.chrf
    assert prefers_phrases([run])
    assert "phrase table: BLEU" in run.card.read_text(encoding="utf-8")


def test_scores_by_the_table_say_so(run, tmp_path):
    copy = RunDir(shutil.copytree(run.path, tmp_path / "run"))
    assert evaluate(copy, "valid").engine == "phrase"
    (copy.path / "phrases.safetensors").unlink()
    assert evaluate(copy, "valid").engine in ("native", "torch")


def test_what_is_shown_of_a_run_are_the_scores_of_what_translates(run, tmp_path, caplog):
    phrases = run.index().phrases
    assert phrases is not None
    table = phrases.table.model_dump()
    assert describe_model(str(run.path)).scores["valid chrF2"] == table["chrf"]
    assert compare_runs([run]).runs[0].scores["valid chrF2"] == round(table["chrf"], 2)
    (tmp_path / "more.de").write_text("bufa geko.\n", encoding="utf-8")
    synthesize(tmp_path / "more.de", tmp_path / "pairs.tsv", run.path, forward=True)
    assert "nothing usable yet" not in caplog.text
    other = run.index().model_copy(update={"best": "step-00000009", "checkpoints": {"step-00000009": {"chrf": 3.0}}})
    assert other.scores_of(other.best) == {"chrf": 3.0}  # the table was compared with other weights
    assert other.scores_of(None) == {}


@pytest.mark.slow  # by day, a run with text of the target side and one that was stopped have the same table
def test_two_runs_have_the_same_table(run, tmp_path):
    again = make_phrases_run(tmp_path)
    assert again.phrases.read_bytes() == run.phrases.read_bytes()


def test_a_resumed_run_has_the_same_table(run, tmp_path):
    shutil.copytree(run.path.parent, tmp_path, dirs_exist_ok=True)
    again, content = RunDir(tmp_path / run.path.name), run.phrases.read_bytes()
    again.phrases.unlink()
    again.card.unlink()  # as if it had been stopped before the end
    assert resume_run(None, again.path)
    assert again.phrases.read_bytes() == content


def test_no_weights_are_tuned_where_the_best_of_the_lists_would_lose(run):
    tokenizers, (valid,) = TokenizerPair.load(run.tokenizer), run.read_sets("valid", run.config().data.directions[0])
    (folder,) = (path for path in (run.path.parent / ".store").iterdir() if path.is_dir())
    store = TokenStore(folder)
    backward = valid._replace(references=[text[::-1] for text in valid.references])  # which no table can write
    assert learn_phrases(store, tokenizers, backward, backward.references) is None
    assert learn_phrases(store, tokenizers, valid, [""] * len(valid.sources)) is not None


def test_an_export_says_that_it_leaves_the_table_out(run, tmp_path, caplog):
    CliRunner().invoke(app, ["web", str(run.path), str(tmp_path / "page")])  # it may lack packages
    assert "exporting the network only" in caplog.text


def test_a_packed_model_translates_as_the_run(run, tmp_path):
    pack(run, tmp_path / "model.zip")
    assert translate(tmp_path / "model.zip") == translate(run)


def test_the_better_one_is_chosen_by_the_sum_of_both_scores():
    good, bad = Quality(bleu=5.0, chrf=40.0), Quality(bleu=6.0, chrf=38.0)
    scores = PhraseScores(checkpoint="average", table=good, network=bad)
    assert scores.table_is_better
    assert not scores.model_copy(update={"network": good}).table_is_better


def test_scores_of_other_weights_do_not_count(run, tmp_path):
    index = run.index()
    assert index.phrases is not None
    other = RunDir(shutil.copytree(run.path, tmp_path / "run"))
    changed = index.phrases.model_copy(update={"checkpoint": "average"})
    other.write_json(other.index_file, index.model_copy(update={"phrases": changed}))
    assert not prefers_phrases([RunDir(other.path)])


def test_it_is_told_why_there_is_no_table(run, tmp_path):
    config, tokenizers = run.config(), TokenizerPair.load(run.tokenizer)
    assert why_no_table(config, tokenizers, MIN_PAIRS, 100) == ""
    assert "500 to 16,000 pairs, not 16,001" in why_no_table(config, tokenizers, MAX_PAIRS + 1, 100)
    assert "not 499" in why_no_table(config, tokenizers, MIN_PAIRS - 1, 100)
    assert "validation pairs" in why_no_table(config, tokenizers, 1000, 3)
    tagged = config.model_copy(update={"model": config.model.model_copy(update={"language_tags": "both"})})
    assert "one direction and without tags" in why_no_table(tagged, tokenizers, 1000, 100)


def test_characters_have_no_table(tmp_path):
    start_run(
        tiny_config(write_digits(tmp_path / "corpus", num_train=600), training={"max_updates": 4}), tmp_path / "run"
    )
    assert not RunDir(tmp_path / "run").phrases.exists()
    assert RunDir(tmp_path / "run").index().phrases is None


def test_a_corpus_that_is_too_small_has_no_table(tmp_path):
    start_run(phrases_config(tmp_path / "corpus", 200), tmp_path / "run")
    assert RunDir(tmp_path / "run").index().phrases is None


@pytest.fixture(scope="module")
def more_text(run, tmp_path_factory):
    """Target sentences for the language model: one of each held-out set, which are left out, and new ones."""
    held_out = [run.read_pairs(split)[1][0] for split in ("valid", "test")]
    path = tmp_path_factory.mktemp("mono") / "more.en"
    path.write_text(
        "\n".join([*held_out, "ofub okeg okeg ofub.", "", "ofub okeg okeg ofub.", "inin."]), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def run_with_text(more_text, tmp_path_factory) -> RunDir:
    return make_phrases_run(tmp_path_factory.mktemp("with_text"), mono_tgt=str(more_text))


def test_text_of_the_target_side_is_read_once_per_sentence_and_without_held_out_ones(run_with_text):
    assert read_more_tgt(run_with_text.config(), run_with_text) == ["ofub okeg okeg ofub.", "inin."]


def test_text_of_the_target_side_changes_only_the_language_model(run, run_with_text):
    tokenizers = TokenizerPair.load(run.tokenizer)
    without, table = (PhraseTable.load(each.phrases, tokenizers) for each in (run, run_with_text))
    assert len(table.lm.keys) > len(without.lm.keys)
    for name in ("src_tokens", "phrases", "tgt_tokens", "scores", "lexicon"):
        assert np.array_equal(getattr(table, name), getattr(without, name))


@pytest.mark.slow  # by day, a run stopped midway has that of another, and a resumed one without text its own
def test_with_text_of_the_target_side_another_run_and_a_resumed_one_have_the_same_table(
    run_with_text, more_text, tmp_path
):
    again = make_phrases_run(tmp_path, mono_tgt=str(more_text))
    content = run_with_text.phrases.read_bytes()
    assert again.phrases.read_bytes() == content
    again.phrases.unlink()
    again.card.unlink()  # as if it had been stopped before the end
    assert resume_run(None, again.path)
    assert again.phrases.read_bytes() == content


def test_with_text_of_the_target_side_a_training_stopped_midway_ends_as_an_uninterrupted_one(more_text, tmp_path):
    training = {"max_updates": 6, "validate_every": 2, "log_every": 1}
    config, whole = phrases_config(tmp_path / "corpus", 600, str(more_text), training), RunDir(tmp_path / "whole")
    assert start_run(config, whole.path)
    stopped = stop_and_resume(config, tmp_path / "stopped", 3)
    assert_equal_runs(whole, stopped)
    assert whole.index().phrases is not None
    for name in ("phrases.safetensors", "lexicon.safetensors", "statistics.json"):
        assert (whole.path / name).read_bytes() == (stopped.path / name).read_bytes(), name
    assert translate(whole) == translate(stopped)


def test_a_packed_model_with_text_of_the_target_side_translates_as_the_run(run_with_text, tmp_path):
    pack(run_with_text, tmp_path / "model.zip")
    assert translate(tmp_path / "model.zip") == translate(run_with_text)


def test_what_is_shared_of_a_run_with_text_of_the_target_side_names_no_folder(run_with_text, more_text, tmp_path):
    write_shareable(run_with_text, tmp_path, ("words", "hf:someone/words"))
    assert "mono_tgt: more.en" in (tmp_path / "config.yaml").read_text(encoding="utf-8")
    folders = [str(path).encode() for path in (more_text.parent, run_with_text.path.parent)]
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert not any(folder in path.read_bytes() for folder in folders), path


def test_a_run_is_not_resumed_with_other_text_of_the_target_side(run_with_text, more_text, tmp_path):
    text = tmp_path / "more.en"
    shutil.copy2(more_text, text)
    copy = RunDir(shutil.copytree(run_with_text.path, tmp_path / "run"))
    config = copy.config_file.read_text(encoding="utf-8")
    copy.config_file.write_text(config.replace(str(more_text), str(text)), encoding="utf-8")
    assert resume_run(None, copy.path)
    text.write_text("okeg ofub.\n", encoding="utf-8")
    with pytest.raises(RunError, match="the corpus has changed since this run was started"):
        resume_run(None, copy.path)


def test_text_of_the_target_side_is_refused_where_there_will_be_no_table(more_text, tmp_path):
    few = phrases_config(tmp_path / "corpus", 200, mono_tgt=str(more_text))
    with pytest.raises(ConfigError, match="this run will have none: phrase tables are for 500 to 16,000 pairs"):
        start_run(few, tmp_path / "run")
    characters = tiny_config(write_digits(tmp_path / "digits", num_train=600), data={"mono_tgt": str(more_text)})
    with pytest.raises(ConfigError, match="phrases of a few characters are no translations"):
        start_run(characters, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_text_of_the_target_side_that_cannot_be_read_is_reported_before_the_training(tmp_path):
    wide = tmp_path / "wide.en"
    wide.write_bytes("ofub okeg.\n".encode("utf-16"))
    for path, message in ((tmp_path / "none.en", r"none\.en: no such file"), (wide, r"wide\.en:1: this is UTF-16")):
        config = phrases_config(tmp_path / "corpus", mono_tgt=str(path))
        with pytest.raises(DataError, match=message):
            start_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
