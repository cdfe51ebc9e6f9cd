"""Before training: sets held out, tokenizer and store made or found, and an honest report."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, DataError, RunError
from nmt.config.data import DataConfig
from nmt.data.lexicon.aligner import TENSION
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.text.spans import PLACEHOLDERS
from nmt.training.corpus import corpus as corpus_module
from nmt.training.corpus.corpus import Corpus
from nmt.training.corpus.prepare import prepare, train_on_corpus
from nmt.training.run import start_run
from tests.reports import report_of
from tests.tiny import tiny_config, write_digits


def test_sets_that_are_named_are_written_into_the_run(digits, tmp_path):
    run = RunDir(tmp_path / "run")
    prepared = prepare(tiny_config(digits), run, tmp_path / "store")
    rows = [row.split("\t") for row in (digits / "test.tsv").read_text().splitlines()]
    assert run.read_pairs("test") == ([row[0] for row in rows], [row[1] for row in rows])
    assert len(prepared.store) == len((digits / "train.tsv").read_text().splitlines())


def test_the_run_gets_a_lexicon_that_translates_digits(digits, tmp_path):
    run = RunDir(tmp_path / "run")
    prepared = prepare(tiny_config(digits), run, tmp_path / "store")
    lexicon = TermLexicon.load(run.lexicon, prepared.tokenizers)
    assert len(lexicon.keys) > 0
    learned = TermLexicon.learn(prepared.store, TENSION)
    assert (lexicon.keys == learned.keys).all()
    assert abs(lexicon.similarities - learned.similarities).max() < 0.001
    written = run.lexicon.read_bytes()
    prepare(tiny_config(digits), RunDir(tmp_path / "again"), tmp_path / "store")
    assert (tmp_path / "again" / run.lexicon.name).read_bytes() == written


def test_sets_that_are_not_named_are_held_out_with_all_translations_of_a_source(tmp_path):
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"{n} a\t{n} {version}\n" for n in range(100) for version in "xyz"))
    data = {"train": {"tsv": str(source)}, "valid": None, "test": None, "holdout_size": 7}
    run = RunDir(tmp_path / "run")
    prepared = prepare(tiny_config(tmp_path, data=data), run, tmp_path / "store")
    valid, test = set(run.read_pairs("valid")[0]), set(run.read_pairs("test")[0])
    assert (len(valid), len(test), len(valid & test)) == (7, 7, 0)
    assert len(run.read_pairs("valid")[0]) == 21
    assert len(prepared.store) == 300 - 42
    assert report_of(run.path).counts.sources_in_test == 0


def test_no_pair_with_an_empty_side_is_held_out(tmp_path):
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"{n} a\t{n}\nlone {n}\t\n\t{n} alone\n" for n in range(100)))
    data = {"train": {"tsv": str(source)}, "valid": None, "test": None, "holdout_size": 7}
    corpus = Corpus(tiny_config(tmp_path, data=data))
    held_out = [pair for split in ("valid", "test") for pair in corpus.pairs(split)]
    assert len(held_out) == 14
    assert all(pair.src and pair.tgt for pair in held_out)


def held_out_of(tmp_path: Path, **sections: dict[str, object]):
    """A configuration whose validation and test sets are held out of 100 pairs."""
    source = tmp_path / "pairs.tsv"
    if not source.exists():
        source.write_text("".join(f"{n} a\t{n} b\n" for n in range(100)))
    data = {"train": {"tsv": str(source)}, "valid": None, "test": None, "holdout_size": 7, **sections.pop("data", {})}
    return tiny_config(tmp_path, data=data, **sections)


def test_the_seed_of_the_training_leaves_the_held_out_sets_alone(tmp_path):
    runs = [RunDir(tmp_path / name) for name in ("one", "other seed")]
    configs = [
        held_out_of(tmp_path),
        held_out_of(tmp_path, training={"seed": 2}),
    ]
    for run, config in zip(runs, configs, strict=True):
        prepare(config, run, tmp_path / "store")
    first, same = ([run.read_pairs(split) for split in ("valid", "test")] for run in runs)
    assert first == same


def test_sets_held_out_in_groups_share_no_target_with_the_training_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{n} a\t{n * n % 97} b\n" for n in range(100)))
    prepared, targets = [], []
    for groups in (False, True):
        config, run = held_out_of(tmp_path, data={"holdout_groups": groups}), RunDir(tmp_path / str(groups))
        prepared.append(prepare(config, run, tmp_path / "store").fingerprint)
        pairs = {pair.tgt for pair in Corpus(config).train_pairs()}
        targets.append(len(pairs.intersection(run.read_pairs("valid")[1] + run.read_pairs("test")[1])))
    assert prepared[0] != prepared[1]
    assert (targets[0] > 0, targets[1]) == (True, 0)


def test_what_is_prepared_already_is_found_without_a_pass_over_the_training_pairs(tmp_path, monkeypatch):
    config, run = held_out_of(tmp_path), RunDir(tmp_path / "run")
    first = prepare(config, run, tmp_path / "store").fingerprint, report_of(run.path)
    passes = []
    monkeypatch.setattr(corpus_module, "read_parallel", lambda files: passes.append(files) or iter(()))
    again = prepare(config, run, tmp_path / "store").fingerprint, report_of(run.path)  # as a resumed run does
    assert again == first
    ready = held_out_of(tmp_path, tokenizer={"path": str(run.tokenizer)})
    second = RunDir(tmp_path / "second")
    assert prepare(ready, second, tmp_path / "store").fingerprint == first[0]
    assert [second.read_pairs(split) for split in ("valid", "test")] == [
        run.read_pairs(split) for split in ("valid", "test")
    ]
    assert passes == []


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"valid": 3}', b"\xff", b"[" * 200_000])
def test_held_out_sets_that_cannot_be_read_are_chosen_as_before(tmp_path, damage):
    first, second = RunDir(tmp_path / "one"), RunDir(tmp_path / "two")
    prepare(held_out_of(tmp_path), first, tmp_path / "store")
    (kept,) = (tmp_path / "store").glob("held-out-*.json")
    kept.write_bytes(damage)
    prepare(held_out_of(tmp_path), second, tmp_path / "store")
    assert [first.read_pairs(split) for split in ("valid", "test")] == [
        second.read_pairs(split) for split in ("valid", "test")
    ]


def test_a_store_that_was_deleted_is_built_with_the_same_bytes(tmp_path):
    config, run = held_out_of(tmp_path), RunDir(tmp_path / "run")
    names = ("src.tokens", "src.offsets", "tgt.tokens", "tgt.offsets", "store.json")
    stores = [prepare(config, run, tmp_path / store).store.folder for store in ("one", "two")]
    first, second = ([(folder / name).read_bytes() for name in names] for folder in stores)
    assert first == second


def test_a_run_that_is_resumed_in_another_folder_says_where_its_files_were_looked_for(tmp_path, monkeypatch):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir(), elsewhere.mkdir()
    monkeypatch.chdir(here)
    Path("pairs.tsv").write_text("".join(f"{n} a\t{n} b\n" for n in range(100)))
    data = {"train": {"tsv": "pairs.tsv"}, "valid": None, "test": None, "holdout_size": 7}
    config, run, store = tiny_config(here, data=data), RunDir(tmp_path / "run"), tmp_path / "store"
    fingerprint = prepare(config, run, store).fingerprint
    monkeypatch.chdir(elsewhere)
    with pytest.raises(DataError, match="no such file") as caught:
        prepare(config, run, store, fingerprint)
    assert (str(caught.value.path), caught.value.hint) == ("pairs.tsv", f"paths are relative to {elsewhere}")
    Path("pairs.tsv").write_text("1\t1\n" * 100)
    with pytest.raises(RunError, match="the corpus has changed") as changed:
        prepare(config, run, store, fingerprint)
    assert f"are resolved against {elsewhere}, so resume in the folder where the run was started" in changed.value.hint


@pytest.mark.parametrize("store", ["new", "new/store"])
def test_a_store_in_the_run_is_refused_and_leaves_no_folder(digits, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"^new: data.store_dir is {store}, which is in the run"):
        start_run(tiny_config(digits, data={"store_dir": store}), Path("new"))
    assert not Path("new").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_pipe_is_refused_because_a_corpus_is_read_several_times(digits, tmp_path, split):
    os.mkfifo(tmp_path / "pipe")
    config = tiny_config(digits, data={split: {"tsv": str(tmp_path / "pipe")}})
    with pytest.raises(DataError, match="this is a pipe") as caught:
        prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    assert "a pipe can be read only once" in caught.value.hint
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_resumed_run_does_not_read_a_device_for_ever(digits, tmp_path, monkeypatch):
    run, store = RunDir(tmp_path / "run"), tmp_path / "store"
    fingerprint = prepare(tiny_config(digits), run, store).fingerprint
    monkeypatch.setattr("nmt.base.files.sha256_of", lambda path: pytest.fail(f"{path} is read"))
    with pytest.raises(DataError, match="this is a pipe or a device; a file is needed"):
        prepare(tiny_config(digits, data={"train": {"tsv": "/dev/zero"}}), run, store, fingerprint)


def test_a_corpus_edited_in_place_is_noticed_although_its_time_of_modification_is_set_back(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=50)
    path, config = folder / "train.tsv", tiny_config(folder)
    first = prepare(config, RunDir(tmp_path / "one"), tmp_path / "store").fingerprint
    status, text = path.stat(), path.read_text()
    with open(path, "r+") as file:
        file.write(str((int(text[0]) + 1) % 10))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    tokenizer = {"path": str(tmp_path / "one" / "tokenizer")}
    edited = prepare(tiny_config(folder, tokenizer=tokenizer), RunDir(tmp_path / "two"), tmp_path / "store").fingerprint
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert edited != first


def test_a_sentencepiece_model_of_another_program_is_used_with_the_symbols_that_it_lacks(digits, tmp_path, messages):
    prefix = tmp_path / "spm"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(str(number) for number in range(1000, 3000)),
        model_prefix=str(prefix),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    config = tiny_config(digits, tokenizer={"path": f"{prefix}.model"}, data={"protect": True})
    tokenizers = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store").tokenizers
    assert tokenizers.joint
    assert tokenizers.know(PLACEHOLDERS)
    theirs = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    assert tokenizers.src.tokens(tokenizers.src.encode("1234 2999")) == theirs.encode("1234 2999", out_type=str)
    expected = f"the tokenizer of {prefix}.model gets {len(PLACEHOLDERS)} new tokens for tags, placeholders or terms"
    assert expected in messages


@pytest.mark.parametrize(("letters", "warns"), [("ꞌŋ", False), ("ꞌŋɓɗ" * 4, True)])
def test_unknown_tokens_are_counted_and_their_characters_named(letters, warns, digits, tmp_path, messages):
    prefix = tmp_path / "spm"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(str(number) for number in range(1000, 3000)),
        model_prefix=str(prefix),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    end = 1200 if warns else 1040
    rows = [
        f"{number} {number + 1}\t{number} {letters[number % len(letters)] if number < end else 1}\n"
        for number in range(1000, 3000, 2 if warns else 8)
    ]
    (tmp_path / "train.tsv").write_text("".join(rows), encoding="utf-8")
    data = {"train": {"tsv": str(tmp_path / "train.tsv")}}
    config = tiny_config(digits, tokenizer={"path": f"{prefix}.model"}, data=data)
    prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    report = report_of(tmp_path / "run")
    num_unknown = 100 if warns else 5
    assert (report.counts.src_unknown, report.counts.tgt_unknown) == (0, num_unknown)
    assert report.counts.src_unknown_characters == {}
    assert sum(report.counts.tgt_unknown_characters.values()) == num_unknown
    assert set(report.counts.tgt_unknown_characters) <= set(letters)
    (line,) = [line for line in messages if line.startswith("  ") and "unknown token" in line]
    assert f"{num_unknown} unknown tokens (" in line
    assert "ꞌ (" in line
    assert any("unknown tokens" in line for line in messages if line.startswith("warning: ")) == warns


def test_a_named_tokenizer_is_checked_before_the_corpus_is_read(digits, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    data = {"train": {"tsv": str(tmp_path / "none.tsv")}}
    for name, message in (
        ("tokenizer.json", "not a SentencePiece model, .*\n  train it again with `nmt vocab`"),
        ("v", "no such tokenizer folder"),
    ):
        config = tiny_config(digits, tokenizer={"path": str(tmp_path / name)}, data=data)
        with pytest.raises(DataError, match=message):
            prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_an_unchanged_corpus_is_found_again_and_an_edited_one_is_built_anew(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=50)
    config = tiny_config(folder)
    prints = []
    for name in ("one", "two", "three"):
        if name == "three":
            text = (folder / "train.tsv").read_text()
            (folder / "train.tsv").write_text("9 9\t9 9\n" + text)
        prints.append(prepare(config, RunDir(tmp_path / name), tmp_path / "store").fingerprint)
    assert prints[0] == prints[1] != prints[2]
    assert len(list((tmp_path / "store").glob("*/store.json"))) == 2


def test_the_report_counts_what_was_cut_dropped_and_shared(tmp_path):
    folder = write_digits(tmp_path, num_train=20)
    shared = (folder / "test.tsv").read_text().splitlines()[0]
    long_row = " ".join("1" * 40)
    text = (folder / "train.tsv").read_text() + f"{shared}\n1 2\t\n{long_row}\t{long_row}\n"
    (folder / "train.tsv").write_text(text)
    prepare(tiny_config(folder), RunDir(tmp_path / "run"), tmp_path / "store")
    report = report_of(tmp_path / "run")
    assert report.pairs == 22
    assert report.too_long == 1
    assert (report.counts.empty_dropped, report.counts.sources_in_test) == (1, 1)
    assert report.src.length_longest > 40
    lines = "\n".join([*report.describe(), *report.warnings()])
    assert "truncated: 1 pair longer than 32 source or 32 target tokens" in lines
    assert "dropped: 1 pair with an empty side" in lines
    assert "the test set shares its sources with 1 training pair; test scores will be too high" in lines


def test_one_language_in_both_columns_is_warned_of(tmp_path):
    folder = write_digits(tmp_path, num_train=20)
    (folder / "train.tsv").write_text("".join(f"{n} {n}\t{n} {n}\n" for n in range(30)))
    prepare(tiny_config(folder), RunDir(tmp_path / "run"), tmp_path / "store")
    report = report_of(tmp_path / "run")
    assert any("the same text on both sides; are the columns right?" in line for line in report.warnings())


def test_a_corpus_without_a_whole_pair_is_refused(tmp_path):
    folder = write_digits(tmp_path, num_train=60)
    (folder / "train.tsv").write_text("1 2\t\n\t3 4\n")
    with pytest.raises(DataError):
        prepare(tiny_config(folder), RunDir(tmp_path / "run"), tmp_path / "store")


def test_a_store_is_built_once(digits, tmp_path, messages):
    prepare(tiny_config(digits), RunDir(tmp_path / "run"), tmp_path / "store")
    assert any(line.startswith("tokenizing into") for line in messages)
    messages.clear()
    prepare(tiny_config(digits), RunDir(tmp_path / "run"), tmp_path / "store")
    assert not any(line.startswith("tokenizing into") for line in messages)


def split_into_corpora(folder: Path, **keys: object) -> dict[str, object]:
    """The training set of `write_digits` in two files of two forms, its validation set in one of another."""
    rows = [row.split("\t") for row in (folder / "train.tsv").read_text().splitlines()]
    (folder / "a.csv").write_text("".join(f'"{src}","{tgt}"\n' for src, tgt in rows[:20]))
    objects = (json.dumps({"src": src, "tgt": tgt}) for src, tgt in rows[20:])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(objects).encode()))
    return {"train": [{"csv": str(folder / "a.csv")}, {"jsonl": str(folder / "b.jsonl.gz"), **keys}]}


def test_corpora_of_several_forms_make_the_same_store_as_one_file_with_their_pairs(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=50)
    configs = [tiny_config(folder), tiny_config(folder, data=split_into_corpora(folder))]
    one, several = (prepare(config, RunDir(tmp_path / str(i)), tmp_path / "store") for i, config in enumerate(configs))
    assert one.fingerprint != several.fingerprint
    assert [part.pairs for part in report_of(tmp_path / "1").corpora] == [20, 30]
    assert report_of(tmp_path / "0") == replace(report_of(tmp_path / "1"), corpora=())
    for name in ("src.tokens", "src.offsets", "tgt.tokens", "tgt.offsets"):
        assert (one.store.folder / name).read_bytes() == (several.store.folder / name).read_bytes()


def test_sentences_are_held_out_of_all_corpora(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    data = {"valid": None, "test": None, "holdout_size": 5}
    configs = [tiny_config(folder, data=data), tiny_config(folder, data=data | split_into_corpora(folder))]
    runs = [RunDir(tmp_path / name) for name in ("one", "several", "again")]
    for run, config in zip(runs, [*configs, configs[1]], strict=True):
        prepare(config, run, tmp_path / "store")
    first, second, again = ([run.read_pairs(split) for split in ("valid", "test")] for run in runs)
    assert first == second == again


def test_the_fingerprint_covers_every_file_and_key_of_every_corpus(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=50)
    (folder / "c.csv").write_bytes((folder / "train.tsv").read_bytes())
    train = [{"csv": str(folder / "c.csv")}, {"tsv": str(folder / "train.tsv")}]
    variants = [
        train,
        train[::-1],
        [train[0] | {"header": False}, train[1]],
        [train[0] | {"delimiter": "tab"}, train[1]],
        [train[0], train[1] | {"columns": [2, 1]}],
        [train[0], train[1], train[1]],
        [train[0], {"csv": train[1]["tsv"]}],
    ]
    prints = [Corpus(tiny_config(folder, data={"train": train})).identity() for train in variants]
    assert len({json.dumps(each) for each in prints}) == len(variants)
    (folder / "train.tsv").write_text("1\t1\n")
    assert Corpus(tiny_config(folder, data={"train": train})).identity() != prints[0]


def test_a_corpus_is_read_in_one_spelling_unless_it_is_to_be_read_as_written(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=50)
    with (folder / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("\ufeffMa\u0308d\u00adchen\u00a0１２\tｆｕｌｌ\u00a0ﬁ!\n")
    last = {}
    for characters in ("normalized", "as_written"):
        *_, last[characters] = Corpus(tiny_config(folder, data={"characters": characters})).train_pairs()
    assert last["normalized"][:2] == ("Mädchen 12", "ｆｕｌｌ fi!")
    assert last["as_written"][:2] == ("\ufeffMa\u0308d\u00adchen\u00a0１２", "ｆｕｌｌ\u00a0ﬁ!")


def test_a_messy_spreadsheet_is_cleaned_before_training(tmp_path, messages):
    """Headers, IDs, quotes, line breaks, empty cells, errors and formulas, as an export has them."""
    rows = [f'{n},"the ""{n}""\nsheep",die {n} Schafe\r\n' for n in range(200)]
    for n in range(0, 200, 10):
        rows[n] = f"{n},Good morning.,#VALUE!\r\n"
        rows[n + 1] = f"{n},=B1&B2,Guten Morgen.\r\n"
        rows[n + 2] = f"{n},,leer\r\n"
    path = write_digits(tmp_path / "corpus", num_train=1) / "a.csv"
    path.write_text("\ufeffID,English,German\r\n" + "".join(rows), encoding="utf-8", newline="")
    config = tiny_config(path.parent, data={"train": {"csv": str(path), "columns": ["English", "German"]}})
    prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    report = report_of(tmp_path / "run")
    assert (report.pairs, report.counts.empty_dropped) == (140, 20)
    left_out = [line for line in messages if "skipped" in line]
    assert left_out == [f"warning: {path}: skipped 40 rows: 20 with #VALUE!, 20 with a formula; the first is on line 2"]
    with pytest.raises(DataError, match=r"column 1 \('ID'\), chosen as the source, has numbers"):
        prepare(
            tiny_config(path.parent, data={"train": {"csv": str(path)}}), RunDir(tmp_path / "run2"), tmp_path / "store"
        )


def test_a_tokenizer_is_trained_on_changed_pairs_too(tmp_path):
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"hello {word}\tgood day {word}\n" for word in ("one", "two", "three") * 40))
    sections = {"tokenizer": {"type": "bpe", "vocab_size": 450}}
    plain, augmented = (
        train_on_corpus(tiny_config(tmp_path, data={"train": {"tsv": str(source)}, **augment}, **sections)).src
        for augment in ({}, {"augment": {"upper": 0.3}})
    )
    assert len(plain.encode("HELLO")) > len(augmented.encode("HELLO"))
    assert augmented.encode("hello one") != []


def test_a_configuration_is_not_read_again_for_each_pair(digits, tmp_path, monkeypatch):
    reads, corpora = [], DataConfig.corpora
    monkeypatch.setattr(DataConfig, "corpora", lambda data, name: reads.append(name) or corpora(data, name))
    prepared = prepare(tiny_config(digits, data={"protect": True}), RunDir(tmp_path / "run"), tmp_path / "store")
    assert len(prepared.store) >= 240
    assert len(reads) < 120


def test_a_long_pass_over_the_corpus_says_every_thirty_seconds_how_far_it_is(tmp_path, monkeypatch, messages):
    monkeypatch.setattr(corpus_module, "PAIRS_BETWEEN_LOOKS", 50)
    prepare(held_out_of(tmp_path), RunDir(tmp_path / "quick"), tmp_path / "quick store")
    assert not any("pairs read" in line for line in messages)
    monkeypatch.setattr(corpus_module, "LOG_SECONDS", 0.0)
    prepare(held_out_of(tmp_path), RunDir(tmp_path / "run"), tmp_path / "store")
    for work in ("choosing held-out sentences", "reading text for the tokenizer", "tokenizing"):
        assert f"{work}: 50 pairs read" in messages
