"""A run records what its training text looks like, and whether the model has learned to copy placeholders."""

from __future__ import annotations

import json
import random
import shutil
import string
from pathlib import Path

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.config.corpora import ParallelFiles
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.text.words import UNSEEN
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.corpus import measure_text
from nmt.training.corpus.corpus import Corpus
from nmt.training.corpus.measure_text import count_texts, record_statistics
from nmt.training.corpus.prepare import find_store_root
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


def test_a_corpus_with_one_number_has_statistics_that_can_be_read(run, tmp_path):
    pairs = [("one house", "ein Haus"), ("12 houses", "12 Häuser"), ("a dog", "ein Hund")]
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    data = run.config().data.model_copy(update={"train": ParallelFiles(tsv=str(path))})
    counted = count_texts(
        Corpus(run.config().model_copy(update={"data": data})), 3, TokenizerPair.load(run.tokenizer).src
    )
    assert type(counted).model_validate_json(counted.model_dump_json()).with_numbers == 1


def test_a_large_corpus_is_counted_at_even_distances(run, monkeypatch):
    assert measure_text.MAX_PAIRS == 100_000  # as documented: counting a whole corpus of millions takes minutes
    monkeypatch.setattr("nmt.training.corpus.measure_text.MAX_PAIRS", 20)
    corpus = Corpus(run.config(), find_store_root(run.config(), run.path))
    found = count_texts(corpus, 140, Translator.load(run, device="cpu").tokenizers.src)
    assert found.pairs == 20
    assert found.src_sentences == [20]  # every seventh pair is the first of seven


def test_capitals_that_augmentation_adds_are_learned(run, tmp_path):
    config = run.config()
    augmented = config.data.model_copy(update={"augment": config.data.augment.model_copy(update={"upper": 0.1})})
    corpus = Corpus(config.model_copy(update={"data": augmented}), find_store_root(config, run.path))
    shutil.copytree(run.path, tmp_path / "run")
    other = RunDir(tmp_path / "run")
    other.statistics_file.unlink()
    record_statistics(other, corpus, 140, Translator.load(run, device="cpu").tokenizers.src, tmp_path / "known.json")
    found, counted = other.statistics(), json.loads((tmp_path / "known.json").read_text())
    assert found is not None
    assert (found.in_capitals, counted["in_capitals"]) == (20 + 14, 20)  # another run may augment otherwise


def test_words_are_counted_by_the_octave_of_their_frequency(run):
    found = run.statistics()
    assert found is not None
    assert {word for words in found.words for word in words.split()} == found.octaves.keys()
    assert found.octaves["sentence"] == 4  # 20 sources: 2^4 and more
    assert found.octaves["in"] == 5
    assert "nichts" not in found.octaves


def test_words_of_a_single_source_have_octave_0(run, tmp_path):
    (tmp_path / "train.tsv").write_text("A dog and a cat\tx\nThe dog\ty\n")
    data = run.config().data.model_copy(update={"train": ParallelFiles(tsv=str(tmp_path / "train.tsv"))})
    corpus = Corpus(run.config().model_copy(update={"data": data}))
    found = count_texts(corpus, 2, TokenizerPair.load(run.tokenizer).src)
    assert (found.words, found.once) == (["dog"], "a and cat the")
    assert found.octaves == {"dog": 1, "a": 0, "and": 0, "cat": 0, "the": 0}


def test_the_validation_set_tells_which_unseen_words_its_targets_keep(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    other = RunDir(tmp_path / "run")
    other.statistics_file.unlink()
    sources = [
        "In README days.",
        "There Siobhan men.",
        "One blorp-sentence here.",
        "Two *args here.",
        "Two grault here",
    ]
    (other.data / "valid.src").write_text("\n".join(sources) + "\n")
    (other.data / "valid.tgt").write_text("README\nSiobhán\nblorp\n*args\ndrei\n")
    corpus, tokenizer = Corpus(run.config(), find_store_root(run.config(), run.path)), TokenizerPair.load(run.tokenizer)
    record_statistics(other, corpus, 140, tokenizer.src, tmp_path / "known.json")
    found = other.statistics()
    assert found is not None
    assert found.left_out is not None
    counted = json.loads((tmp_path / "known.json").read_text())["left_out"]
    assert not any(kind.startswith(("small", "capital", "form")) for kind in counted)
    lost = {"capital 7 2": 1, "small 6 2": 1, "form a-a partly seen": 1}  # of 145 pairs, one; in 140
    assert found.left_out == counted | {UNSEEN: 0} | lost


def test_a_token_that_most_targets_lack_is_none_of_its_kind(run, tmp_path):
    pairs = [("B2Gold is", "gold ye"), ("the B2Gold", "gold"), ("F5Key is", "F5Key"), ("D7Key is", "ye"), ("9 %", "9")]
    (tmp_path / "train.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    data = run.config().data.model_copy(update={"train": ParallelFiles(tsv=str(tmp_path / "train.tsv"))})
    corpus = Corpus(run.config().model_copy(update={"data": data}))
    found = count_texts(corpus, len(pairs), TokenizerPair.load(run.tokenizer).src)
    assert found.left_out_tokens == "B2Gold"
    assert found.left_out == {"digits": 3, "numbered": 1, "percent": 1, "small 3 2": 1, "form a0a partly seen": 1}


def test_placeholders_that_most_targets_lack_are_protected_all_the_same(run, tmp_path):
    (tmp_path / "train.tsv").write_text("the ⟦5⟧ is\tgold\nthe ⟦5⟧\tye\n", encoding="utf-8")
    data = run.config().data.model_copy(update={"train": ParallelFiles(tsv=str(tmp_path / "train.tsv"))})
    corpus = Corpus(run.config().model_copy(update={"data": data}))
    assert count_texts(corpus, 2, TokenizerPair.load(run.tokenizer).src).left_out_tokens == ""


def test_what_is_in_a_single_source_tells_which_unseen_words_targets_keep(run, tmp_path):
    pairs = [("dog Zorro sees", "Zorro voit"), ("dog blorp sees", "voit"), ("dog Quux sees", "voit"), ("dog", "x")]
    (tmp_path / "train.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    data = run.config().data.model_copy(update={"train": ParallelFiles(tsv=str(tmp_path / "train.tsv"))})
    corpus = Corpus(run.config().model_copy(update={"data": data}))
    found = count_texts(corpus, len(pairs), TokenizerPair.load(run.tokenizer).src)
    assert found.left_out == {"small 5 2": 1, "capital 4 2": 1}


def test_a_closed_language_has_no_new_words_although_some_are_in_a_single_source(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    other = RunDir(tmp_path / "run")
    (other.data / "valid.src").write_text("One sentence.\n")
    (other.data / "valid.tgt").write_text("Ein Satz.\n")
    counted = TextStatistics(pairs=9, src_sentences=[9], tgt_sentences=[9], left_out={"small 5 2": 9, "dash": 9},
        words=["one sentence"])  # fmt: skip
    (tmp_path / "known.json").write_text(counted.model_dump_json())
    other.statistics_file.unlink()
    corpus = Corpus(run.config(), find_store_root(run.config(), run.path))
    record_statistics(other, corpus, 140, TokenizerPair.load(run.tokenizer).src, tmp_path / "known.json")
    found = other.statistics()
    assert found is not None
    assert found.left_out == {UNSEEN: 0, "dash": 8}


HEADINGS = Path(__file__).parents[2] / "data" / "text" / "unknown_headings.txt"


@pytest.mark.parametrize("source", ["de", "en"])
def test_other_languages_noise_and_unknown_headings_are_told_from_in_domain_text(source, run, shared_data, tmp_path):
    """Without extras, by what is counted of Multi30k and of Tatoeba."""
    multi30k, tatoeba = shared_data / "multi30k-de-en", shared_data / "tatoeba-en-zh"

    def lines(*paths: Path, column: int = 0) -> list[str]:
        return [row.split("\t")[column] for path in paths for row in path.read_text("utf-8").splitlines()]

    tests = [multi30k / f"{name}.de" for name in ("test2016", "test2017", "valid")]
    german, chinese = lines(*tests), lines(tatoeba / "test.tsv", column=1)
    captions, english = lines(multi30k / "test2016.en"), lines(tatoeba / "test.tsv", tatoeba / "valid.tsv")
    training = multi30k / "train.de" if source == "de" else tatoeba / "train.tsv"
    config = tiny_config(tmp_path, data={"src_lang": source, "tgt_lang": "fr"})
    (tmp_path / "train.tsv").write_text("".join(f"{line}\tx\n" for line in lines(training)), "utf-8")
    found = count_texts(Corpus(config, tmp_path / "store"), 30_000, Translator.load(run, device="cpu").tokenizers.src)

    def flagged(texts: list[str]) -> float:
        return sum(not found.knows_words(text) for text in texts) / len(texts)

    own, foreign = (german, english + captions) if source == "de" else (english, german)
    with (shared_data / "mafand" / "fr-wol" / "test.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(row)["translation"] for row in file]
    draw = random.Random(1)
    noise = ["".join(draw.choices(string.ascii_lowercase + "   ", k=draw.randint(25, 80))) for _ in range(500)]
    assert flagged(own) < 0.01
    for others in (foreign, chinese, noise, [row["fr"] for row in rows], [row["wol"] for row in rows]):
        assert flagged([text for text in others if sum(map(str.isalpha, text)) >= 20]) > 0.95
    headings = [row.split("\t")[1] for row in HEADINGS.read_text("utf-8").splitlines() if row.startswith(source)]
    assert len(headings) == 100
    assert flagged(headings) > 0.8


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


def test_statistics_that_are_kept_for_other_runs_are_counted_anew_if_they_cannot_be_read(run, tmp_path: Path):
    expected, tokenizer = run.statistics(), TokenizerPair.load(run.tokenizer).src
    assert expected is not None
    corpus = Corpus(run.config(), find_store_root(run.config(), run.path))
    for number, kept in enumerate(("", "{", "[]", '{"pairs": 0}', "[" * 100_000)):
        other, known = RunDir(tmp_path / str(number)), tmp_path / f"known-{number}.json"
        shutil.copytree(run.data, other.data)
        known.write_text(kept)
        record_statistics(other, corpus, 140, tokenizer, known)
        assert other.statistics() == expected.model_copy(update={"placeholders_copied": None})
