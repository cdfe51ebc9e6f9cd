"""A run records what its training text looks like, and whether the model has learned to copy placeholders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.corpus import measure_text
from nmt.training.corpus.corpus import Corpus
from nmt.training.corpus.measure_text import count_texts, record_statistics
from nmt.training.run import start_run
from nmt.translation import Translator
from tests.tiny import tiny_config

ROWS = [
    ("One sentence here.", "Ein Satz."),
    ("Two of them. Both are short.", "Zwei davon. Beide sind kurz."),
    ("Two again. But one on the other side.", "Wieder zwei, aber hier nur einer."),
    ("EVERYTHING IN CAPITALS", "ALLES GROSS"),
    ("42", "42"),
    ("There are 1,000 men.", "Es sind 1.000 Männer."),
    ("In 12 days.", "In zwölf Tagen."),
    ("", "Nichts."),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDir:
    """A run after two updates, which copies no placeholder."""
    folder = tmp_path_factory.mktemp("texts")
    for split in ("train", "valid", "test"):
        lines = [f"{src}\t{tgt}\n" for src, tgt in ROWS * (20 if split == "train" else 1)]
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    config = tiny_config(
        folder,
        data={"src_lang": "en", "tgt_lang": "de", "protect": True},
        training={"max_updates": 2, "warmup_updates": 1, "validate_every": 2},
    )
    assert start_run(config, folder / "run")
    return RunDir(folder / "run")


def test_a_run_counts_the_pairs_that_it_trains_on(run):
    found = run.statistics()
    assert found is not None
    assert found.pairs == 7 * 20
    assert (found.src_sentences, found.tgt_sentences) == ([5 * 20, 2 * 20], [6 * 20, 20])
    assert (found.without_letters, found.in_capitals) == (20, 20)
    assert (found.with_numbers, found.numbers_kept) == (3 * 20, 2 * 20)
    assert found.max_sentences == 2
    assert 0.5 < found.chars_per_token <= 1.0  # the tokens are characters


def test_a_large_corpus_is_counted_at_even_distances(run, monkeypatch):
    assert measure_text.MAX_PAIRS == 100_000  # as documented: counting a whole corpus of millions takes minutes
    monkeypatch.setattr("nmt.training.corpus.measure_text.MAX_PAIRS", 20)
    corpus = Corpus(run.config(), run.path.parent / ".store")
    found = count_texts(corpus, 140, Translator.load(run, device="cpu").tokenizers.src)
    assert found.pairs == 20
    assert found.src_sentences == [20]  # every seventh pair is the first of seven


def test_a_model_that_loses_placeholders_gets_the_spans_themselves(run):
    found = run.statistics()
    assert found is not None
    assert found.placeholders_copied is not None
    assert found.placeholders_copied < 0.5
    translator = Translator.load(run, device="cpu")
    assert not translator.segmenter.knows_placeholders
    (done,) = translator.translate(["Two {name} of http://a.org/x."])
    assert done.protected_lost == []
    assert "{name}" in done.text


def test_a_model_that_copies_placeholders_goes_on_using_them(letters_run):
    found = RunDir(letters_run).statistics()
    assert found is not None
    assert found.placeholders_copied is not None
    assert found.placeholders_copied > 0.5
    assert Translator.load(letters_run, device="cpu").segmenter.knows_placeholders


def test_an_old_run_tells_by_its_validation_set_whether_it_translates_numbers_alone(run, tmp_path: Path):
    shutil.copytree(run.path, tmp_path / "old")
    (tmp_path / "old" / "statistics.json").unlink()
    translator = Translator.load(tmp_path / "old", device="cpu")
    assert translator.statistics is not None
    assert translator.statistics.translates_numbers_alone
    assert translator.segmenter.knows_placeholders  # as before
    assert translator.translate(["Two of them. Both are short."])[0].num_segments == 2
    shutil.rmtree(tmp_path / "old" / "data")  # as in an imported model
    imported = Translator.load(tmp_path / "old", device="cpu")
    assert imported.statistics is None
    assert imported.translate(["Two of them. Both are short. 42"])[0].num_segments == 2


def test_statistics_that_are_kept_for_other_runs_are_counted_anew_if_they_cannot_be_read(run, tmp_path: Path):
    expected, tokenizer = run.statistics(), TokenizerPair.load(run.tokenizer).src
    assert expected is not None
    corpus = Corpus(run.config(), run.path.parent / ".store")
    for number, kept in enumerate(("", "{", "[]", '{"pairs": 0}', "[" * 100_000)):
        other, known = RunDir(tmp_path / str(number)), tmp_path / f"known-{number}.json"
        other.path.mkdir()
        known.write_text(kept)
        record_statistics(other, corpus, 140, tokenizer, known)
        assert other.statistics() == expected.model_copy(update={"placeholders_copied": None})
