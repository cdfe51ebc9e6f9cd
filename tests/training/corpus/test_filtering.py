"""Filters drop training pairs before the tokenizer and the store see them, and say how many."""

from __future__ import annotations

import random
from pathlib import Path
from string import ascii_lowercase

import pytest
from pydantic import ValidationError

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import DataError
from nmt.config import Config, dump_config, load_config
from nmt.training.corpus.prepare import Prepared, prepare
from tests.reports import report_of
from tests.tiny import tiny_config

PAIRS = [(f"{n} eins {'a' * (n % 7)}", f"{n} one {'b' * (n % 7)}") for n in range(100, 200)]
BAD = [PAIRS[3], ("schÃ¶n 7", "nice 7"), ("", "leer"), ("200 test", "200 training")]


def write_corpus(folder: Path) -> Path:
    for name, pairs in (("train", [*PAIRS, *BAD]), ("valid", [("300 x", "300 y")]), ("test", [("200 test", "200 t")])):
        (folder / f"{name}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return folder


def prepared(folder: Path, run: str, **filters: object):
    config = tiny_config(folder, data={"filters": filters, "src_lang": "de"})
    return prepare(config, RunDir(folder / run), folder / "store")


def test_filters_drop_pairs_and_count_them_by_rule(tmp_path, messages):
    result = prepared(write_corpus(tmp_path), "run", duplicate=True, mojibake=True, overlap=True)
    assert len(result.store) == 100
    counts = report_of(tmp_path / "run").counts
    assert counts.filtered == 3
    assert counts.dropped_by_rule == {"duplicate": 1, "mojibake": 1, "overlap": 1}
    assert counts.empty_dropped == 1
    assert counts.sources_in_test == 0
    assert "  dropped by data.filters: 3 pairs (1 duplicate, 1 mojibake, 1 overlap)" in messages
    assert not any("scores will be too high" in line for line in messages)


def test_without_filters_nothing_is_dropped_but_the_log_says_what_is_wrong(tmp_path, messages):
    result = prepared(write_corpus(tmp_path), "run")
    assert len(result.store) == 103
    (line,) = [line for line in messages if line.startswith("check of 104 training pairs: ")]
    assert "1 duplicate" in line
    assert "1 mojibake" in line
    assert "1 overlap" in line


def test_the_tokenizer_sees_no_dropped_pair(tmp_path):
    with_filters = prepared(write_corpus(tmp_path), "one", mojibake=True)
    without = prepared(tmp_path, "two")
    vocabularies = [set(run.tokenizers.src.vocabulary) for run in (with_filters, without)]
    assert ["¶" in vocabulary for vocabulary in vocabularies] == [False, True]
    assert with_filters.tokenizers.src.fingerprint != without.tokenizers.src.fingerprint


def test_the_fingerprint_of_the_store_covers_the_filters(tmp_path):
    write_corpus(tmp_path)
    fingerprints = [
        prepared(tmp_path, "one").fingerprint,
        prepared(tmp_path, "one").fingerprint,
        prepared(tmp_path, "one", duplicate=True).fingerprint,
        prepared(tmp_path, "one", too_long=500).fingerprint,
        prepared(tmp_path, "one", too_long=600).fingerprint,
    ]
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 4


def listed_twice(folder: Path, **data: object):
    clean = {"duplicate": True, "mojibake": True, "overlap": True}
    everything, cleaned = {"tsv": str(folder / "train.tsv")}, {"tsv": str(folder / "train.tsv"), "filters": clean}
    return tiny_config(folder, data={"src_lang": "de", "train": [everything, cleaned], **data})


def test_a_file_listed_twice_is_there_unfiltered_and_filtered(tmp_path, messages):
    config = listed_twice(write_corpus(tmp_path))
    result = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    assert result.store.sizes(2) == (103, 100)
    report = report_of(tmp_path / "run")
    assert report.counts.dropped_by_rule == {"duplicate": 1, "mojibake": 1, "overlap": 1}
    assert [(part.pairs, part.filtered) for part in report.corpora] == [(103, 0), (100, 3)]
    assert f"  {tmp_path / 'train.tsv'} (de-en): 100 pairs, 3 dropped by its filters" in messages
    alone = prepared(tmp_path, "alone", duplicate=True, mojibake=True, overlap=True)
    assert sources(result)[103:] == sources(alone)


def sources(prepared: Prepared) -> list[str]:
    side = prepared.store.src
    return [prepared.tokenizers.src.decode(side[index].tolist()) for index in range(len(prepared.store))]


def test_filters_of_a_corpus_are_written_and_read_back(tmp_path):
    config, path = listed_twice(tmp_path), tmp_path / "config.yaml"
    for comments in (False, True):
        path.write_text(dump_config(config, comments=comments))
        assert load_config(path) == config


@pytest.mark.parametrize("key", ["valid", "test"])
def test_only_training_corpora_are_filtered(tmp_path, key):
    with pytest.raises(ValidationError, match=f"a corpus of {key} has filters; only corpora of train can have filters"):
        listed_twice(tmp_path, **{key: {"tsv": "a.tsv", "filters": {"duplicate": True}}})


def test_a_file_listed_twice_is_held_out_once(tmp_path):
    config = listed_twice(write_corpus(tmp_path), valid=None, test=None, holdout_size=5)
    result = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    sources = [text for name in ("valid", "test") for text in RunDir(tmp_path / "run").read_pairs(name)[0]]
    assert len(sources) == len(set(sources)) == 10
    assert sum(result.store.sizes(2)) == 2 * 93 - 2  # less the duplicate and the wrong encoding in the clean one


def test_duplicates_are_looked_for_among_corpora_with_the_same_filters(tmp_path):
    write_corpus(tmp_path)
    own = {"duplicate": True, "too_long": 900}
    train = [{"tsv": str(tmp_path / "train.tsv")}] * 2 + [{"tsv": str(tmp_path / "train.tsv"), "filters": own}]
    config = tiny_config(tmp_path, data={"src_lang": "de", "filters": {"duplicate": True}, "train": train})
    result = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    assert result.store.sizes(3) == (102, 0, 102)
    assert report_of(tmp_path / "run").counts.filtered_by_corpus == [1, 103, 1]


def test_filters_that_drop_every_pair_are_refused(tmp_path):
    write_corpus(tmp_path)
    with pytest.raises(DataError, match=r"data\.filters drops every training pair \(too_long\)") as caught:
        prepared(tmp_path, "run", too_long=1)
    assert "nmt data check" in caught.value.hint


def test_each_direction_is_checked_by_its_own_languages(tmp_path):
    write_corpus(tmp_path)
    greek = [(f"{n} eins {'a' * (n % 7)}", f"{n} ένα {'β' * (n % 7)} δύο") for n in range(100, 200)]
    rows = [*greek, ("300 eins", "300 one two three"), greek[5]]
    (tmp_path / "greek.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), encoding="utf-8")
    corpora = [{"tsv": str(tmp_path / "train.tsv")}, {"tsv": str(tmp_path / "greek.tsv"), "tgt_lang": "el"}]
    filters = {"wrong_script": True, "duplicate": True}
    config = tiny_config(tmp_path, data={"filters": filters, "src_lang": "de", "train": corpora})
    prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    counts = report_of(tmp_path / "run").counts
    assert counts.dropped_by_rule == {"duplicate": 2, "wrong_script": 1}


def words(number: int, side: str) -> str:
    """Words of a side, and letters that no other number has."""
    return f"{side} {side} {side} {''.join(random.Random(f'{number} {side}').choices(ascii_lowercase, k=16))}"


def held_out_corpus(folder: Path) -> Path:
    """200 pairs, of which every twentieth has its sides swapped."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(words(n, "ab"), words(n, "xyz")) for n in range(200)]
    rows = [pair[::-1] if n % 20 == 0 else pair for n, pair in enumerate(pairs)]
    (folder / "train.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows))
    return folder


def config_of_held_out(folder: Path, **filters: object) -> Config:
    languages = {"src_lang": "de", "tgt_lang": "en"}
    data = {"filters": filters, **languages, "valid": None, "test": None, "holdout_size": 15}
    return tiny_config(folder, data=data)


def prepared_with_held_out(folder: Path, run: str, **filters: object):
    config = config_of_held_out(folder, **filters)
    return prepare(config, RunDir(folder / run), folder / "store"), RunDir(folder / run)


def test_sentences_are_held_out_of_the_pairs_that_the_filters_keep(tmp_path):
    corpus = held_out_corpus(tmp_path)
    result, run = prepared_with_held_out(corpus, "run", sides_swapped=True, duplicate=True)
    held_out = [run.read_pairs(split) for split in ("valid", "test")]
    assert all(src.startswith("ab") for sources, _ in held_out for src in sources)
    assert [len(sources) for sources, _ in held_out] == [15, 15]
    assert len(result.store) == 190 - 30
    counts = report_of(run.path).counts
    assert (counts.filtered, counts.dropped_by_rule) == (10, {"sides_swapped": 10})


def test_swapped_pairs_are_swapped_back_on_request(tmp_path, messages):
    result, run = prepared_with_held_out(held_out_corpus(tmp_path), "run", sides_swapped="swap")
    held_out = [run.read_pairs(split) for split in ("valid", "test")]
    assert all(src.startswith("ab") for sources, _ in held_out for src in sources)
    assert all(tgt.startswith("xyz") for _, targets in held_out for tgt in targets)
    assert len(result.store) == 200 - 30
    assert report_of(run.path).counts.swapped_back == 10
    assert "  swapped back: 10 pairs whose sides were swapped" in messages


def test_near_twins_of_sets_that_are_held_out_are_dropped(tmp_path):
    folder = held_out_corpus(tmp_path)
    rows = [f"{words(n, 'ab')} {end}\t{words(n, 'xyz')} {end}\n" for n in range(100) for end in ("one", "two")]
    (folder / "train.tsv").write_text("".join(rows))
    without, _ = prepared_with_held_out(folder, "without", duplicate=True)
    result, run = prepared_with_held_out(folder, "run", duplicate=True, near_twin=True)
    counts = report_of(run.path).counts
    assert counts.dropped_by_rule["near_twin"] == len(without.store) - len(result.store) > 20
    assert run.sources_with_twins() == set()
