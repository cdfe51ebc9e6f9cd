"""Every message about a configuration, with its line; most of them whole in a snapshot."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from nmt.base.errors import ConfigError
from nmt.config import load_config
from nmt.config.corpora import ANY_FORMAT, ParallelFiles
from nmt.config.data import DataConfig
from nmt.config.faults import every_section, foreign_names
from nmt.config.model import ModelConfig
from nmt.config.search import SearchOptions
from nmt.config.training import TrainingConfig
from tests.snapshots import assert_messages

DATA = "data:\n  src_lang: de\n  tgt_lang: en\n  train: {src: a.de, tgt: a.en}\n"  # 4 lines
MODEL_KEYS = ", ".join(ModelConfig.model_fields)
TRAINING_KEYS = ", ".join(TrainingConfig.model_fields)
CORPUS_KEYS = ", ".join(ParallelFiles.model_fields)
NAME_A_CORPUS = f"name src and tgt (two aligned files), or one file: {ANY_FORMAT}"
ONE_FORM = f"give either src and tgt (two aligned files) or one file: {ANY_FORMAT}"


HEADS = "model:\n  num_heads: 4\n"


def at(line: int | None) -> str:
    """Return how a message about this line of x.yaml begins; None for the whole file."""
    return "x.yaml: " if line is None else f"x.yaml:{line}: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture
def complaint(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What is said about a text (and `--set`s) in the file x.yaml."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NOT_SET", raising=False)
    return _complaint


@functools.cache  # each is looked at by a test of its own, and by that of the snapshot
def _complaint(text: str | bytes, *overrides: str) -> str:
    Path("x.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(Path("x.yaml"), overrides)
    return str(caught.value)


FILES = {
    "": None,
    "# only a comment\n": None,
    "\n- 1\n": 2,
    "word": 1,
    "a: b: c": 1,
    "a:\n\tb: 1": 2,
    "a:\nb\nc: 1": 3,
    "a: {b: ${C}}": 1,
    "a: 1\n---\nb: 1": 2,
    'a: "C:\\data\\x.de"': 1,
    'a: "C:\\users\\x.de"': 1,
    f"{DATA}x: &a {{d_model: 8}}\nmodel:\n  <<: *a\n": 5,
    "a: *b": 1,
    "a: &a [*a]": 1,
    "a:\n " + "[" * 99 + "]" * 99: 2,
    "a:\n " + "[" * 1000: None,
    "a: [" + "1," * 10_000 + "]": 1,
    "a: 1\nb: \x01": 2,
    'a: "\\UFFFFFFFF"': None,
    'a: "\\U00110000"': None,
    "!!python/object:os.system {}": 1,
    "a" * 1_000_001: None,
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: text[:20])
def test_a_file_that_is_not_a_configuration(complaint, text):
    assert complaint(text).startswith(at(FILES[text]))


def test_bytes_that_are_not_utf8(complaint):
    assert complaint(b"a: 1\nb: \xff") == "x.yaml:2: not UTF-8 text\n  save the file as UTF-8"


def test_aliases_that_grow_without_end(complaint):
    rows = [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcde", "bcdef", strict=True)]
    text = "\n".join(["a: &a [1, 1]", *rows])
    assert complaint(text) == "x.yaml:1: not readable as YAML: more than 10000 values, aliases counted each time"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "my.yaml")
    hint = "`nmt config new --src a.de --tgt a.en -o my.yaml` writes a first one"
    assert str(caught.value) == f"{tmp_path}/my.yaml: no such file\n  {hint}"


def test_a_folder_with_and_without_a_configuration_in_it(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert str(caught.value) == f"{tmp_path}: this is a folder; a YAML file is needed"
    (tmp_path / "config.yaml").write_text(DATA)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: this is a folder; a YAML file is needed\n  name the file in it: {tmp_path}/config.yaml"
    )


def test_a_name_that_no_file_can_have():
    with pytest.raises(ConfigError) as caught:
        load_config(Path("a\0b"))
    assert str(caught.value) == "a\\x00b: cannot be read: embedded null byte"


KEYS = {
    "model:\n  dropuot: 0.1": 6,
    "model:\n  qqq: 1": 6,
    "model:\n  label_smooting: 1": 6,
    "training:\n  lr: 1\n  d_model: 8": 7,
    "model:\n  batch_tokens: 8": 6,
    "  src: a": 5,
    "modle:\n  d_model: 8": 5,
    "lr: 1": 5,
    "train: {lr: 1}": 5,
    "on: 1": 5,
    "? [a]\n: 1": 5,
    "model:\n  norm: rms\n\n  norm: rms": 8,
    "data: {}": 5,
}


@pytest.mark.parametrize("text", KEYS)
def test_a_key_that_is_not_known_or_given_twice(complaint, text):
    assert complaint(DATA + text).startswith(at(KEYS[text]))


VALUES = [
    "model:\n  d_model: big",
    "model:\n  decoder_layers: 1001",
    "model:\n  max_src_len: 99999",
    "model:\n  d_ff: 1.5",
    "model:\n  d_ff:",
    "model:\n  d_ff: [1, 2]",
    "model:\n  d_ff: 0x1F",
    "model:\n  d_ff: 12:30",
    "model:\n  dropout: 1",
    "model:\n  dropout: false",
    "model:\n  norm: lyer",
    "model:\n  norm: 7",
    "model:\n  d_ff: !!binary a",
    "model:\n  d_ff: !!int a",
    "training:\n  lr: .inf",
    "training:\n  lr: nan",
    "training:\n  lr: 1e999",
    "training:\n  seed: 9" + "9" * 30,
    "training:\n  seed: -1",
    "training:\n  batch_tokens: true",
    "training:\n  batch_tokens: aut",
    "training:\n  batch_tokens: auto",
    "training:\n  tokens_per_update: 1e11",
    "training:\n  threads: 100000",
    "training:\n  threads: 2147483648",
    "tokenizer:\n  vocab_size: 2147483647",
    "model:\n  d_model: 65536",
    "model:\n  d_model: 16384\n  encoder_layers: 100",
    "decoding:\n  beam_size: 200000000",
    "decoding:\n  length_penalty: 1000",
    "decoding:\n  max_len_factor: 1e308",
    "training:\n  betas: [0.9]",
    "training:\n  betas: [0.9, 0.9, 0.9]",
    "training:\n  betas: [0.9, 2]",
    "training:\n  betas: [true, 0.9]",
    "training:\n  stages: [{max_updates: 1, weights: [-1]}]",
    "training:\n  init_from: 5",
    'training:\n  init_from: "a\\0"',
    "training:\n  init_from: ''",
    "training:\n  init_from: $NOT_SET",
    "training:\n  init_from: ${a",
    "tokenizer:\n  joint: 3",
    "tokenizer:\n  character_coverage: 0",
    "tokenizer:\n  user_symbols: <x>",
    "tokenizer:\n  user_symbols: [1]",
    "tokenizer:\n  user_symbols: [<s>]",
]


@pytest.mark.parametrize("text", VALUES)
def test_a_value_that_its_key_does_not_take(complaint, text):
    said = complaint(DATA + text)
    assert said.startswith(at(6))
    assert re.search(r"\n  (\w+)", text)[1] in said


DATA_FAULTS = {
    "model: {}": 1,
    "\ndata:\n  tgt_lang: en\n  train: {tsv: a}": 2,
    "data:\n  src_lang: de\n  tgt_lang: en": 1,
    "data:\n  scr_lang: de\n  tgt_lang: en\n  train: {tsv: a}": 2,
    "data:\n  src_lang: true\n  tgt_lang: en\n  train: {tsv: a}": 2,
    "data:\n  src_lang: d e\n  tgt_lang: en\n  train: {tsv: a}": 2,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: a.tsv": 4,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: {tsv: a}\n  valid: no": 5,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: []": 4,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - b": 6,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - tvs: b": 6,
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - tsv: b\n    columns: [0, 1]": 7,
}


@pytest.mark.parametrize("text", DATA_FAULTS)
def test_a_data_section_that_lacks_or_mistakes_something(complaint, text):
    assert complaint(text).startswith(at(DATA_FAULTS[text]))


CONTRADICTIONS = {
    "  augment:\n    upper: 0.7\n    typos: 0.6": 5,
    "model:\n  dropout: 0\n  num_heads: 3": 7,
    "model:\n  dropout: 0\n  d_model: 254": 7,
    "model:\n  attention: additive\n  positions: rotary": 7,
    "training:\n  keep_checkpoints: 2": 6,
    "training:\n  max_updates: 9": 6,
    "tokenizer:\n  joint: false": 6,
    "tokenizer:\n  path: v\ntraining:\n  init_from: r": 8,
    "  valid: {src: a}": 5,
    "  valid: {}": 5,
    "  valid: [{tsv: a}, {tsv: b, csv: c}]": 5,
    "  valid:\n  - tsv: a\n  - jsonl: b\n    fields: [de, de]": 8,
    "  valid: {tsv: a, delimiter: ;}": 5,
    "  valid: {tmx: a, sheet: 2}": 5,
    "  valid: {csv: a, columns: [de, en], header: false}": 5,
    "  valid: {tsv: a, weight: 2}": 5,
    "  valid: {tsv: a, tag: a b}": 5,
    "  valid:\n    tsv: a\n    columns: [2, 2]": 7,
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_values_that_do_not_go_together(complaint, text):
    assert complaint(DATA + text).startswith(at(CONTRADICTIONS[text]))


STAGES = {
    "training:\n  warmup_updates: 400\n  stages:\n  - max_updates: 500\n  - lr: 1\n    max_updates: 300": 10,
    "training:\n  warmup_updates: 4\n  stages:\n  - max_updates: 500\n    warmup_updates: 500": 9,
    "training:\n  stages:\n  - max_updates: 500\n  - max_updates: 500\n    weights: [1, 2]": 9,
    "training:\n  stages:\n  - max_updates: 500\n    augment: true": 8,
}


@pytest.mark.parametrize("text", STAGES)
def test_a_fault_of_a_stage_is_located_in_that_stage(complaint, text):
    assert complaint(DATA + text).startswith(at(STAGES[text]))


def test_a_fault_of_a_stage_that_a_set_brings_is_blamed_on_the_set(complaint):
    text = DATA + "training:\n  stages:\n  - max_updates: 500\n"
    assert complaint(text, "training.warmup_updates=600") == (
        "--set training.warmup_updates=600: training: stage 1: warmup_updates 600 must be less than max_updates 500"
    )


SETS = [
    "training.lrr=1",
    "lr=1",
    "training.lr",
    "=1",
    "training..lr=1",
    "training.lr=[",
    "training.lr=\x01",
    "training.lr=no",
    "training.lr.x=1",
    "data.src_lang.x=1",
    "model.num_heads=3",
    "model.d_model=250",
    "training=5",
    "training={lr: 1, lr: 2}",
]


@pytest.mark.parametrize("override", SETS)
def test_a_set_that_cannot_be_followed(complaint, override):
    shown = override.replace("\x01", "\\x01")
    assert complaint(DATA + HEADS, override).startswith(f"--set {shown}: ")


def test_the_messages_are_those_of_the_snapshot(complaint):
    tried = [("", text) for text in (*FILES, *DATA_FAULTS)]
    tried += [(DATA, text) for text in (*KEYS, *VALUES, *CONTRADICTIONS, *STAGES)]
    rows = {repr(text)[1:-1][:160]: complaint(before + text) for before, text in tried}
    rows |= {f"--set {override}": complaint(DATA + HEADS, override) for override in SETS}
    assert len(rows) == len(tried) + len(SETS)
    assert_messages("configurations", rows)


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(complaint):
    text = DATA + "training:\n  lr: fast\n  d_modle: 8\n  lr: 1\n  seed: 1e999\n  epss: 1\nmodel:\n  dropout: 2\n"
    assert complaint(text, "decoding.hurry=5") == "\n".join(
        [
            "x.yaml:6: training.lr must be a number (above 0), got 'fast'",
            "x.yaml:7: unknown key 'd_modle' in training",
            f"  allowed: {TRAINING_KEYS}",
            "x.yaml:8: training.lr is given twice; it is already on line 6",
            "  keep one of them",
            "x.yaml:9: training.seed: 1e999 is not a number, or too large a one",
            "x.yaml:10: unknown key 'epss' in training",
            "  did you mean 'eps'?",
            "x.yaml:12: model.dropout must be a number (at least 0 and below 1), got 2",
            "--set decoding.hurry=5: unknown key 'hurry' in decoding",
            "  allowed: " + ", ".join(SearchOptions.model_fields),
        ]
    )


def test_an_unknown_key_hides_its_own_echo_but_no_other_fault(complaint):
    text = "data:\n  scr_lang: de\n  train: {tvs: a}\nmodel: 5\n"
    assert complaint(text) == "\n".join(
        [
            "x.yaml:1: data lacks the key 'tgt_lang'",
            "  tgt_lang: code of the target language; it also chooses sacreBLEU's tokenizer",
            "x.yaml:2: unknown key 'scr_lang' in data",
            f"  did you mean 'src_lang'? allowed: {', '.join(DataConfig.model_fields)}",
            "x.yaml:3: unknown key 'tvs' in data.train",
            f"  did you mean 'tsv'? allowed: {', '.join(ParallelFiles.model_fields)}",
            "x.yaml:4: model must be a mapping of keys to values, got 5",
        ]
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("data:\n  <<: {src_lang: de, tgt_lang: en}\n  train: {tsv: a}\n", "data.<<"),
        ("data:\n  <<: 3\n", "data.<<"),
        ("<<: {data: {src_lang: de}}\n", "<<"),
    ],
)
def test_a_merge_key_hides_the_keys_that_it_should_have_brought(complaint, text, key):
    hint = "YAML 1.2 has no merge keys: write the keys here, or give a whole section an alias (key: *name)"
    line = 2 if key == "data.<<" else 1
    assert complaint(text) == f"x.yaml:{line}: {key}: keys cannot be merged\n  {hint}"


def test_a_long_list_of_faults_is_cut_and_says_what_is_allowed_once(complaint):
    lines = complaint(DATA + "model:\n" + "".join(f"  x{i}: 1\n" for i in range(31))).split("\n")
    assert lines[:3] == [
        "x.yaml:6: unknown key 'x0' in model",
        f"  allowed: {MODEL_KEYS}",
        "x.yaml:7: unknown key 'x1' in model",
    ]
    assert lines[-1] == "and 11 more"
    assert len(lines) == 22


def test_the_error_knows_its_place(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(DATA + "model:\n  norm: lyer\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert (caught.value.path, caught.value.line, caught.value.hint) == (str(path), 6, "did you mean 'layer'?")


def test_names_of_other_toolkits_lead_to_the_keys_of_nmt(complaint):
    text = "data:\n  source_lang: de\n  tgt_lang: en\n  train: {tsv: a}\nmodel:\n  ffn: 8\nbeam: 5\n"
    assert complaint(text, "training.update-freq=4") == "\n".join(
        [
            "x.yaml:2: unknown key 'source_lang' in data",
            "  in nmt: data.src_lang (code of the source language, such as de)",
            "x.yaml:6: unknown key 'ffn' in model",
            "  in nmt: model.d_ff (inner width of the feed-forward layers)",
            "x.yaml:7: unknown section 'beam'",
            "  in nmt: decoding.beam_size (beam size; 1 is greedy search)",
            "--set training.update-freq=4: unknown key 'update-freq' in training",
            "  in nmt: training.tokens_per_update (target tokens per update, padding not counted; gradients are "
            "accumulated until this is reached)",
        ]
    )


def test_every_foreign_name_leads_to_a_key_and_is_none_of_our_own():
    own = {key for _, section in every_section() for key in section.model_fields}
    assert own.isdisjoint(foreign_names())
    known = {".".join((*at, key)) for at, section in every_section() for key in section.model_fields}
    assert known.issuperset(foreign_names().values())
