"""Reading a configuration: numbers and words as people mean them, `--set`, and variables in paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nmt.base.errors import ConfigError
from nmt.config import Config, SearchOptions, load_config

DATA = "data:\n  src_lang: de\n  tgt_lang: en\n  train: {src: a.de, tgt: a.en}\n"


@pytest.fixture
def load(tmp_path: Path):
    """Write the text to a file and read it as a configuration."""

    def written_and_read(text: str | bytes, *overrides: str) -> Config:
        path = tmp_path / "x.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, overrides)

    return written_and_read


def test_data_alone_is_enough_and_the_rest_are_defaults(load):
    assert load(DATA) == Config.model_validate(
        {"data": {"src_lang": "de", "tgt_lang": "en", "train": {"src": "a.de", "tgt": "a.en"}}}
    )


@pytest.mark.parametrize(
    ("written", "number"),
    [("3e-4", 3e-4), ("1E-3", 1e-3), ("1e5", 1e5), (".5", 0.5), ("5.", 5.0), ("+1.5e+2", 150.0), ("2", 2.0)],
)
def test_a_number_with_an_exponent_is_a_number(load, written, number):
    assert load(DATA + f"training:\n  lr: {written}\n").training.lr == number


@pytest.mark.parametrize(
    ("written", "number"), [("8_000", 8000), ("1e4", 10_000), ("512.0", 512), ("0100", 100), ("+64", 64)]
)
def test_a_whole_number_may_be_written_in_any_usual_way(load, written, number):
    config = load(DATA + f"training:\n  batch_tokens: {written}\n")
    assert config.training.batch_tokens == number
    assert type(config.training.batch_tokens) is int


def test_a_batch_may_be_as_large_as_an_update(load):
    training = load(DATA + "training:\n  batch_tokens: auto\n  tokens_per_update: 25_000\n").training
    assert (training.batch_tokens, training.tokens_per_update) == ("auto", 25_000)


@pytest.mark.parametrize("code", ["no", "on", "y", "NO", "null_", "2020-01-01", "pt-BR"])
def test_a_word_stays_a_word(load, code):
    assert load(DATA.replace("src_lang: de", f"src_lang: {code}")).data.src_lang == code


@pytest.mark.parametrize("written", ["12:30", "12:30:45", "2020-01-01", "2020-01-01 10:00:00", "0x1F.gz", "=", "<<"])
def test_times_and_dates_are_text(load, written):
    assert load(DATA + f"training:\n  init_from: {written}\n").training.init_from == written


@pytest.mark.parametrize(
    ("written", "value"),
    [("true", True), ("True", True), ("TRUE", True), ("false", False), ("no", False), ("yes", True), ("off", False)],
)
def test_a_switch_takes_true_false_yes_and_no(load, written, value):
    config = load(DATA + f"tokenizer:\n  joint: {written}\nmodel:\n  tied_embeddings: target\n")
    assert config.tokenizer.joint is value


@pytest.mark.parametrize("word", ["null", "~", "Null", ""])
def test_null_is_nothing(load, word):
    assert load(DATA + f"tokenizer:\n  path: {word}\n").tokenizer.path is None


def test_a_section_whose_keys_are_all_commented_out_is_its_defaults(load):
    assert load(DATA + "model:\n  # d_model: 8\ntraining:\n") == load(DATA)


def test_a_list_whose_items_are_all_commented_out_is_empty(load):
    text = DATA + "training:\n  stages:\n  # - max_updates: 5\n"
    assert load(text) == load(DATA)
    assert load(DATA + "training: {stages: [{max_updates: 500}]}", "training.stages=null").training.stages == ()


def test_set_may_replace_the_stages_or_take_them_away(load):
    text = DATA + "training:\n  stages:\n  - {max_updates: 700, lr: 1.0}\n  - {max_updates: 1_000}\n"
    assert load(text).training.max_updates == 1700
    assert load(text, "training.stages=[]", "training.max_updates=900").training.max_updates == 900
    assert load(text, "training.stages=[{max_updates: 800}]").training.max_updates == 800
    assert load(DATA, "training.stages=[]").training.max_updates == 10_000


def test_a_byte_order_mark_and_windows_line_ends_are_read(load):
    assert load(b"\xef\xbb\xbf" + DATA.replace("\n", "\r\n").encode()) == load(DATA)


def test_an_anchor_may_be_used_again(load):
    config = load(DATA.replace("{src", "&files {src") + "  valid: *files\n")
    assert config.data.valid == config.data.train


def test_set_changes_keys_and_makes_sections(load):
    config = load(
        DATA + "training:\n  seed: 3\n",
        "training.lr=1e-3",
        "training.seed=5",
        "training.seed = 7",
        "model.d_model=64",
        "tokenizer.user_symbols=[<2de>,<2fr>]",
        "data.valid={tsv: v.tsv, columns: [3, 1]}",
    )
    assert (config.training.lr, config.training.seed, config.model.d_model) == (1e-3, 7, 64)
    assert config.tokenizer.user_symbols == ("<2de>", "<2fr>")
    assert config.data.valid is not None
    assert config.data.valid.columns == (3, 1)


def test_set_can_take_a_key_away_and_a_whole_section(load):
    text = DATA + "  valid: {src: v.de, tgt: v.en}\nmodel:\n  d_model: 64\n"
    assert load(text, "data.valid=null", "model=null") == load(DATA)
    assert load(text, "data.valid=", "model={}") == load(DATA)


def test_set_mends_a_fault_of_the_file(load):
    text = DATA + "training:\n  lr: 1e999\n  seed: x\n"
    assert load(text, "training.lr=1", "training.seed=1").training.lr == 1.0


def test_variables_and_the_home_folder_are_read_in_paths_only(load, monkeypatch):
    monkeypatch.setenv("CORPUS", "/c")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.delenv("NOT_SET", raising=False)
    config = load(
        DATA.replace("a.de", "$CORPUS/a.de").replace("a.en", '"${CORPUS}/a.en"')
        + "  store_dir: ${NOT_SET:-~/store}\n"
        + "tokenizer:\n  path: ~/vocab/$$5/$6\n  user_symbols: [$CORPUS]\n",
        "data.valid.tsv=${EMPTY:-v}.tsv",
    )
    assert (config.data.train.src, config.data.train.tgt) == ("/c/a.de", "/c/a.en")
    assert config.data.store_dir == "/h/store"
    assert config.tokenizer.path == "/h/vocab/$5/$6"
    assert config.tokenizer.user_symbols == ("$CORPUS",)
    assert config.data.valid is not None
    assert config.data.valid.tsv == "v.tsv"


def test_a_variable_that_set_brings_is_blamed_on_the_set(load, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(ConfigError) as caught:
        load(DATA, "training.init_from=$NOT_SET/run")
    assert str(caught.value) == (
        "--set training.init_from=$NOT_SET/run: training.init_from: the environment variable NOT_SET is not set\n"
        "  set it, or write ${NOT_SET:-default}"
    )


def test_paths_in_a_list_of_corpora_have_their_variables_read(load, monkeypatch):
    monkeypatch.setenv("CORPORA", "/c")
    monkeypatch.setenv("NONE", "/n")
    train = "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - csv: $CORPORA/a.csv\n  - {src: $NONE/a, tgt: b}\n"
    first, second = load(train).data.train
    assert (first.csv, second.src, second.tgt) == ("/c/a.csv", "/n/a", "b")
    monkeypatch.delenv("NONE")
    with pytest.raises(ConfigError, match=r"6: src of item 2 of data.train: the environment variable NONE is not set"):
        load(train)


def test_a_list_of_corpora_may_be_given_by_set(load):
    data = load(DATA, "data.train=[{tsv: b}, {csv: c, header: true}]").data
    assert [(files.form, files.header) for files in data.corpora("train")] == [("tsv", "auto"), ("csv", True)]
    assert data.corpora("valid") == ()


def test_a_corpus_has_the_languages_of_the_data_unless_it_names_its_own(load):
    data = load(DATA, "data.valid=[{tmx: b, src_lang: de-AT}, {tmx: c}]").data
    assert [(files.src_lang, files.tgt_lang) for files in data.corpora("valid")] == [("de-AT", "en"), ("de", "en")]


def test_all_corpora_of_train_are_weighted_or_none(load):
    assert load(DATA, "data.train=[{tsv: b, weight: 0.5}, {csv: c, weight: 2}]").data.train[0].weight == 0.5
    with pytest.raises(ConfigError, match="data: 1 of the 2 corpora of train have a weight; give one to all of them"):
        load(DATA, "data.train=[{tsv: b}, {csv: c, weight: 1}]")
    for weight in ("0", "-1", ".inf", "true"):
        with pytest.raises(ConfigError, match=r"weight of item 1 of data\.train"):
            load(DATA, f"data.train=[{{tsv: b, weight: {weight}}}]")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("beam_size", True),
        ("length_penalty", False),
        ("min_len", True),
        ("sample", 1),
        ("protect", 0),
        ("shortlist", 1.0),
    ],
)
def test_true_is_no_number_and_1_is_not_true(load, key, value):
    with pytest.raises(ConfigError, match=f"{key}: Input should be"):
        SearchOptions(**{key: value})
    with pytest.raises(ConfigError, match=key):
        load(f"{DATA}decoding: {{{key}: {str(value).lower()}}}\n")


def test_numbers_of_numpy_are_numbers():
    options = SearchOptions(beam_size=np.int64(4), length_penalty=np.float32(1), protect=np.bool_(False))
    assert (options.beam_size, options.length_penalty, options.protect) == (4, 1.0, False)
