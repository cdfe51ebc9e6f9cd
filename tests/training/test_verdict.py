"""The verdict at the end of training: scores beside those that need no training, with intervals and a control."""

from __future__ import annotations

import shutil

import pytest

from nmt.apps.commands.train import log_next_steps
from nmt.apps.interop.describe import describe_model
from nmt.artifacts.run_records import COPIES, WORDS, JudgedQuality, TrainingVerdict
from nmt.artifacts.rundir import RunDir
from nmt.training.run import resume_run, start_run
from nmt.training.verdict import MIN_SENTENCES
from tests.phrases import phrases_config


@pytest.fixture(scope="module")
def run(phrases_run) -> RunDir:
    return phrases_run


def judged(chrf: float, control: float = 10.0) -> JudgedQuality:
    return JudgedQuality(bleu=1.0, chrf=chrf, bleu_interval=0.2, chrf_interval=1.0, control=control)


def verdict(ours: JudgedQuality, copies: float = 20.0, words: float = 22.0) -> TrainingVerdict:
    systems = {"copied sources": judged(copies), "word by word": judged(words), "network": ours}
    return TrainingVerdict(checkpoint="average", delivered="network", directions={"de-en": systems})


def test_each_system_has_its_scores_their_intervals_and_a_control(run):
    found = run.index().verdict
    assert found is not None
    (systems,) = found.directions.values()
    assert [*systems] == [COPIES, WORDS, "phrase table"]  # a network of one update is not scored
    assert found.delivered == "phrase table"
    ours, copies = systems["phrase table"], systems["copied sources"]
    assert ours.chrf > copies.chrf + 40
    assert 0 < copies.chrf_interval < 10
    assert ours.control < ours.chrf / 2
    assert systems["word by word"].chrf > copies.chrf
    assert ours.bleu == pytest.approx(run.index().phrases.table.bleu)


def test_the_card_and_the_description_of_a_run_show_the_verdict(run):
    lines = run.index().verdict.describe()
    card = run.card.read_text(encoding="utf-8")
    assert all(f"- {line}" in card for line in lines)
    assert describe_model(str(run.path)).verdict == lines
    assert lines[-1] == "nmt translates with: phrase table"


def test_a_search_that_is_not_greedy_is_judged_beside_the_greedy_ones(tmp_path):
    config = phrases_config(tmp_path / "corpus")
    decoding = config.decoding.model_copy(update={"num_hypotheses": 2, "beam_size": 2})
    start_run(config.model_copy(update={"decoding": decoding}), tmp_path / "run")
    found = RunDir(tmp_path / "run").index().verdict
    assert found is not None
    assert found.delivered == "phrase table by the default search"
    assert [*found.directions["de-en"]][-2:] == ["phrase table", found.delivered]


def test_a_lost_lexicon_leaves_out_the_words_alone(run, tmp_path):
    shutil.copytree(run.path.parent, tmp_path / "copy")
    copy = RunDir(tmp_path / "copy" / "run")
    copy.lexicon.write_bytes(b"damaged")
    copy.card.unlink()  # as if it had been stopped before the end
    assert resume_run(None, copy.path)
    found = copy.index().verdict
    assert found is not None
    (systems,) = found.directions.values()
    assert "word by word" not in systems
    assert "copied sources" in systems


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (verdict(judged(30.0)), ""),
        (verdict(judged(30.0), words=40.0), ""),  # words one by one may be usable, too
        (verdict(judged(21.5)), "no better than copied sources"),  # within both intervals
        (verdict(judged(30.0), copies=29.0), "no better than copied sources"),
        (verdict(judged(30.0, control=29.5)), "no better than with the references of other sentences"),
    ],
)
def test_nothing_is_usable_that_does_not_surpass_what_needs_no_training(found, text):
    assert bool(found.unsurpassed()) == bool(text)
    assert text in found.unsurpassed()


def test_one_direction_that_surpasses_nothing_is_named():
    good, bad = verdict(judged(30.0)).directions["de-en"], verdict(judged(21.0)).directions["de-en"]
    both = TrainingVerdict(checkpoint="average", delivered="network", directions={"de-en": good, "de-fr": bad})
    assert both.unsurpassed() == "no better than copied sources (de-fr)"
    assert both.describe()[0].startswith("de-en, copied sources: BLEU 1.00 ± 0.20, chrF 20.00 ± 1.00, control 10.00")


def test_the_last_lines_of_a_training_judge_beside_the_baselines(run, tmp_path, caplog):
    caplog.set_level("INFO")
    copy = RunDir(shutil.copytree(run.path, tmp_path / "run"))
    log_next_steps(copy.path)
    assert "nothing usable yet: no better than" not in caplog.text
    index = copy.index()
    systems = index.verdict.directions[next(iter(index.verdict.directions))]
    systems["copied sources"] = systems["phrase table"]
    copy.write_json(copy.index_file, index)
    log_next_steps(copy.path)
    assert "nothing usable yet: no better than copied sources" in caplog.text


def test_sets_of_few_sentences_are_not_judged(tmp_path):
    config = phrases_config(tmp_path / "corpus")
    path = tmp_path / "corpus" / "valid.tsv"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[: MIN_SENTENCES - 1]))
    start_run(config, tmp_path / "run")
    assert RunDir(tmp_path / "run").index().verdict is None
