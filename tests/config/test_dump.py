"""Writing a configuration: readable, and read back to the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nmt.config import Config, DataConfig, ParallelFiles, dump_config, load_config
from nmt.config.faults import every_section, section_in

DATA = DataConfig(src_lang="no", tgt_lang="en", train=ParallelFiles(src="a.no", tgt="b c.en"))
CONFIG = Config.model_validate(
    {
        "data": {
            "src_lang": "no",
            "tgt_lang": "pt-BR",
            "train": {"tsv": "$5/a.tsv", "columns": [3, 1]},
            "valid": {"src": "v: #1.no", "tgt": "2020-01-01"},
        },
        "tokenizer": {
            "user_symbols": ["<2de>", "yes", "[a]", "'", '"', "#", "12:30", "1e5", "~", "<<", "-", "=", "中"]
        },
        "training": {"eps": 1e-9, "lr": 3e-4, "warmup_updates": 399, "betas": [0.9, 0.98]},
    }
)


@pytest.mark.parametrize("comments", [False, True])
def test_what_is_written_is_read_back_the_same(tmp_path: Path, comments: bool):
    path = tmp_path / "x.yaml"
    path.write_text(dump_config(CONFIG, comments=comments, header="one\ntwo: [\x07\r\u2028x"), encoding="utf-8")
    assert load_config(path) == CONFIG


def test_every_yaml_reader_sees_the_same_numbers_and_words():
    read = yaml.safe_load(dump_config(CONFIG))
    assert read["data"]["src_lang"] == "no"
    assert read["data"]["valid"]["tgt"] == "2020-01-01"
    assert tuple(read["tokenizer"]["user_symbols"]) == CONFIG.tokenizer.user_symbols
    assert [read["training"][key] for key in ("eps", "lr", "warmup_updates")] == [1e-9, 3e-4, 399]


def test_the_text_of_a_section_without_comments():
    text = dump_config(Config(data=DATA))
    assert text.startswith(
        "data:\n"
        '  src_lang: "no"\n'
        "  tgt_lang: en\n"
        "  train:\n"
        "    src: a.no\n"
        '    tgt: "b c.en"\n'
        "  valid: null\n"
        "  test: null\n"
        "  mono_tgt: null\n"
        "  holdout_size: 500\n"
    )
    assert "\n\ndecoding:\n  batch_tokens: 4096\n  max_len_factor: 2.0\n  max_len_offset: 10\n" in text
    assert "  betas: [0.9, 0.98]\n  eps: 1.0e-9\n" in text
    assert "  user_symbols: []\n" in text
    assert "#" not in text


def test_comments_say_what_a_key_means_and_takes():
    text = dump_config(Config(data=DATA), comments=True, header="A header\n\nof three lines")
    assert text.startswith(
        "# A header\n#\n# of three lines\n\n# The parallel text, and which pairs of it are kept.\ndata:\n"
    )
    assert (
        "  holdout_size: 500  # number of source sentences held out for each of valid and test that is null\n" in text
    )
    assert "  norm: layer  # layer | rms; LayerNorm or RMSNorm\n" in text
    assert "  early_stopping_metric: bleu  # bleu | chrf | loss; metric that chooses the best checkpoint\n" in text
    assert max(map(len, text.split("\n"))) <= 120


@pytest.mark.parametrize(("loc", "section"), list(every_section()), ids=str)
def test_every_key_has_a_description(loc, section):
    missing = [
        key for key, field in section.model_fields.items() if not field.description and not section_in(field.annotation)
    ]
    assert missing == []


def test_every_field_is_written():
    read = yaml.safe_load(dump_config(CONFIG))
    for name in Config.model_fields:
        assert list(read[name]) == list(type(getattr(CONFIG, name)).model_fields)


CORPORA = """\
  train:
    - src: a.no
      tgt: b.en
      weight: 2.0
    - tsv: $$5/a.tsv
      columns: [2, 1]
      header: false
      quoting: auto
      weight: 1.0
    - xlsx: c.xlsx
      columns: [Norsk, English text]
      header: auto
      sheet: 2
      weight: 1.0
      tag: <web>
    - jsonl: d.jsonl.zst
      fields: [t.no, t.en]
      weight: 0.5
    - tmx: e.tmx
      src_lang: nb
      tgt_lang: en-GB
      weight: 1.0
  valid:
    csv: v.csv
    columns: [1, 2]
    header: auto
    delimiter: ";"
"""


@pytest.mark.parametrize("comments", [False, True])
def test_a_list_of_corpora_is_written_and_read_back(tmp_path, comments):
    path = tmp_path / "x.yaml"
    path.write_text("data:\n  src_lang: de\n  tgt_lang: en\n" + CORPORA.replace("English text", "'English text'"))
    config = load_config(path)
    text = dump_config(config, comments=comments)
    path.write_text(text)
    assert load_config(path) == config
    if not comments:
        assert CORPORA.replace("English text", '"English text"') in text


@pytest.mark.parametrize("word", ["-", "--", "-a", "<<", ".", "_"])
def test_a_path_of_signs_is_read_back(tmp_path, word):
    config = DataConfig(src_lang="de", tgt_lang="en", train=ParallelFiles(src="a", tgt=word), store_dir=word)
    path = tmp_path / "x.yaml"
    path.write_text(dump_config(Config(data=config)))
    assert load_config(path).data == config


def test_a_dollar_in_a_path_is_not_read_as_a_variable():
    assert "tsv: $$5/a.tsv\n    columns: [3, 1]\n" in dump_config(CONFIG)
