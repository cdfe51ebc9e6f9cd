"""Every message about a configuration, word for word, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.base.errors import ConfigError
from nmt.config import load_config
from nmt.config.corpora import ANY_FORMAT, ONE_CORPUS_OR_MORE, ParallelFiles
from nmt.config.data import DataConfig
from nmt.config.faults import REMOVED, every_section, field_at, foreign_names
from nmt.config.model import ModelConfig
from nmt.config.search import SearchOptions
from nmt.config.training import TrainingConfig

DATA = "data:\n  src_lang: de\n  tgt_lang: en\n  train: {src: a.de, tgt: a.en}\n"  # 4 lines
MODEL_KEYS = ", ".join(ModelConfig.model_fields)
TRAINING_KEYS = ", ".join(TrainingConfig.model_fields)
CORPUS_KEYS = ", ".join(ParallelFiles.model_fields)
NAME_A_CORPUS = f"name src and tgt (two aligned files), or one file: {ANY_FORMAT}"
ONE_FORM = f"give either src and tgt (two aligned files) or one file: {ANY_FORMAT}"


@pytest.fixture
def complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is said about a text (and `--set`s) in the file x.yaml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)

    def read(text: str | bytes, *overrides: str) -> str:
        Path("x.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError) as caught:
            load_config(Path("x.yaml"), overrides)
        return str(caught.value)

    return read


FILES = {
    "": "x.yaml: the file is empty\n"
    "  write the sections data, tokenizer, model, training, decoding; only data is required",
    "# only a comment\n": "x.yaml: the file is empty\n"
    "  write the sections data, tokenizer, model, training, decoding; only data is required",
    "\n- 1\n": "x.yaml:2: expected a mapping (data, tokenizer, model, training, decoding), got a list of 1",
    "word": "x.yaml:1: expected a mapping (data, tokenizer, model, training, decoding), got 'word'",
    "a: b: c": "x.yaml:1: not readable as YAML: mapping values are not allowed here\n"
    "  one ': ' too many, or an indent that does not match; text that contains ': ' needs quotes",
    "a:\n\tb: 1": "x.yaml:2: not readable as YAML: found character '\\t' that cannot start any token\n"
    "  indent with spaces, not with tabs",
    "a:\nb\nc: 1": "x.yaml:3: not readable as YAML: could not find expected ':'\n"
    "  write key: value; look at the line above too",
    "a: {b: ${C}}": "x.yaml:1: not readable as YAML: expected ',' or '}', but got '{'\n"
    "  text that contains any of { } [ ] , needs quotes here",
    "a: 1\n---\nb: 1": "x.yaml:2: not readable as YAML: but found another document\n"
    "  keep only one document in the file; --- begins another",
    "a: *b": "x.yaml:1: not readable as YAML: found undefined alias 'b'",
    "a: &a [*a]": "x.yaml:1: not readable as YAML: nested more than 32 deep",
    "a:\n " + "[" * 99 + "]" * 99: "x.yaml:2: not readable as YAML: nested more than 32 deep",
    "a:\n " + "[" * 9999: "x.yaml: not readable as YAML: nested more than 32 deep",
    "a: [" + "1," * 10_000 + "]": "x.yaml:1: not readable as YAML: more than 10000 values, aliases counted each time",
    "a: 1\nb: \x01": "x.yaml:2: holds the control character 0x01",
    'a: "\\UFFFFFFFF"': "x.yaml: not readable as YAML: an escape names no character",
    'a: "\\U00110000"': "x.yaml: not readable as YAML: an escape names no character",
    "!!python/object:os.system {}": "x.yaml:1: the tag !!python/object:os.system is not allowed",
    "a" * 1_000_001: "x.yaml: cannot be read: over 1,000,000 bytes",
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: text[:20])
def test_a_file_that_is_not_a_configuration(complaint, text):
    assert complaint(text) == FILES[text]


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
    "model:\n  dropuot: 0.1": "x.yaml:6: unknown key 'dropuot' in model\n"
    f"  did you mean 'dropout'? allowed: {MODEL_KEYS}",
    "model:\n  qqq: 1": f"x.yaml:6: unknown key 'qqq' in model\n  allowed: {MODEL_KEYS}",
    "model:\n  label_smooting: 1": "x.yaml:6: unknown key 'label_smooting' in model\n"
    f"  did you mean 'label_smoothing' in training? allowed: {MODEL_KEYS}",
    "training:\n  lr: 1\n  d_model: 8": "x.yaml:7: training has no 'd_model'; it belongs in model",
    "model:\n  batch_tokens: 8": "x.yaml:6: model has no 'batch_tokens'; it belongs in training or decoding",
    "  src: a": "x.yaml:5: data has no 'src'; it belongs in data.train, data.valid or data.test",
    "modle:\n  d_model: 8": "x.yaml:5: unknown section 'modle'\n"
    "  did you mean 'model'? allowed: data, tokenizer, model, training, decoding",
    "lr: 1": "x.yaml:5: 'lr' is not a section; it belongs in training",
    "train: {lr: 1}": "x.yaml:5: 'train' is not a section; it belongs in data\n  or did you mean 'training'?",
    "on: 1": "x.yaml:5: unknown section 'on'\n  allowed: data, tokenizer, model, training, decoding",
    "? [a]\n: 1": "x.yaml:5: a key must be a word, not a list or a mapping",
    "model:\n  norm: rms\n\n  norm: rms": "x.yaml:8: model.norm is given twice; it is already on line 6\n"
    "  keep one of them",
    "data: {}": "x.yaml:5: data is given twice; it is already on line 1\n  keep one of them",
}


@pytest.mark.parametrize("text", KEYS)
def test_a_key_that_is_not_known_or_given_twice(complaint, text):
    assert complaint(DATA + text) == KEYS[text]


VALUES = {
    "model:\n  d_model: big": "model.d_model must be a whole number (at least 1 and at most 16384), got 'big'",
    "model:\n  decoder_layers: 1001": "model.decoder_layers must be a whole number (at least 1 and at most 1000), "
    "got 1001",
    "model:\n  max_src_len: 99999": "model.max_src_len must be a whole number (at least 2 and at most 32768), "
    "got 99999",
    "model:\n  d_ff: 1.5": "model.d_ff must be a whole number (at least 1 and at most 262144), got 1.5",
    "model:\n  d_ff:": "model.d_ff must be a whole number (at least 1 and at most 262144), got null",
    "model:\n  d_ff: [1, 2]": "model.d_ff must be a whole number (at least 1 and at most 262144), got a list of 2",
    "model:\n  d_ff: 0x1F": "model.d_ff must be a whole number (at least 1 and at most 262144), got '0x1F'",
    "model:\n  d_ff: 12:30": "model.d_ff must be a whole number (at least 1 and at most 262144), got '12:30'",
    "model:\n  dropout: 1": "model.dropout must be a number (at least 0 and below 1), got 1",
    "model:\n  dropout: false": "model.dropout must be a number (at least 0 and below 1), got false",
    "model:\n  norm: lyer": "model.norm must be one of layer, rms, got 'lyer'\n  did you mean 'layer'?",
    "model:\n  norm: 7": "model.norm must be one of layer, rms, got 7",
    "model:\n  d_ff: !!binary a": "model.d_ff: the tag !!binary is not allowed",
    "model:\n  d_ff: !!int a": "model.d_ff: a is not a number, or too large a one",
    "training:\n  lr: .inf": "training.lr must be a number (above 0), got '.inf'",
    "training:\n  lr: nan": "training.lr must be a number (above 0), got 'nan'",
    "training:\n  lr: 1e999": "training.lr: 1e999 is not a number, or too large a one",
    "training:\n  seed: 9"
    + "9" * 30: "training.seed: 9999999999999999999999999999999 is not a number, or too large a one",
    "training:\n  seed: -1": "training.seed must be a whole number (at least 0 and at most 2147483647), got -1",
    "training:\n  batch_tokens: true": "training.batch_tokens must be a whole number "
    "(at least 16 and at most 100000000) or auto, got true",
    "training:\n  batch_tokens: aut": "training.batch_tokens must be a whole number "
    "(at least 16 and at most 100000000) or auto, got 'aut'",
    "training:\n  batch_tokens: auto": "training: batch_tokens auto makes one batch of tokens_per_update; set it, "
    "such as to 25000",
    "training:\n  tokens_per_update: 1e11": "training.tokens_per_update must be a whole number "
    "(at least 0 and at most 100000000), got 100000000000.0",
    "training:\n  threads: 100000": "training.threads must be a whole number (at least 0 and at most 1024), got 100000",
    "training:\n  threads: 2147483648": "training.threads must be a whole number "
    "(at least 0 and at most 1024), got 2147483648",
    "tokenizer:\n  vocab_size: 2147483647": "tokenizer.vocab_size must be a whole number "
    "(at least 8 and at most 1000000), got 2147483647",
    "model:\n  d_model: 65536": "model.d_model must be a whole number (at least 1 and at most 16384), got 65536",
    "model:\n  d_model: 16384\n  encoder_layers: 100": "model: d_model 16384, d_ff 1024 and the numbers of layers make "
    "a model of 117 billion parameters; at most 20 are supported",
    "decoding:\n  beam_size: 200000000": "decoding.beam_size must be a whole number "
    "(at least 1 and at most 1000), got 200000000",
    "decoding:\n  length_penalty: 1000": "decoding.length_penalty must be a number "
    "(at least 0 and at most 5), got 1000",
    "decoding:\n  max_len_factor: 1e308": "decoding.max_len_factor must be a number "
    "(at least 0 and at most 1000), got 1e+308",
    "training:\n  betas: [0.9]": "training.betas must be a list of 2, each a number (at least 0 and below 1), "
    "got a list of 1",
    "training:\n  betas: [0.9, 0.9, 0.9]": "training.betas must be a list of 2, "
    "each a number (at least 0 and below 1), got a list of 3",
    "training:\n  betas: [0.9, 2]": "item 2 of training.betas must be a number (at least 0 and below 1), got 2",
    "training:\n  betas: [true, 0.9]": "item 1 of training.betas must be a number (at least 0 and below 1), got true",
    "training:\n  stages: [{max_updates: 1, weights: [-1]}]": "item 1 of weights of item 1 of training.stages must be "
    "a number (at least 0), got -1",
    "training:\n  init_from: 5": "training.init_from must be text or null, got 5\n  if text is meant, quote it: '5'",
    'training:\n  init_from: "a\\0"': "training.init_from holds a control character",
    "training:\n  init_from: ''": "training.init_from is an empty path\n  give a file, or omit the key",
    "training:\n  init_from: $NOT_SET": "training.init_from: the environment variable NOT_SET is not set\n"
    "  set it, or write ${NOT_SET:-default}",
    "training:\n  init_from: ${a": "training.init_from: '${' without a name and a '}' after it\n"
    "  write $$ for a plain $",
    "tokenizer:\n  joint: 3": "tokenizer.joint must be true or false, got 3",
    "tokenizer:\n  character_coverage: 0": "tokenizer.character_coverage must be a number "
    "(at least 0.98 and at most 1), got 0",
    "tokenizer:\n  user_symbols: <x>": "tokenizer.user_symbols must be a list, each text, got '<x>'",
    "tokenizer:\n  user_symbols: [1]": "item 1 of tokenizer.user_symbols must be text, got 1\n"
    "  if text is meant, quote it: '1'",
    "tokenizer:\n  user_symbols: [<s>]": "tokenizer.user_symbols: <s> is reserved; choose another name",
}


@pytest.mark.parametrize("text", VALUES)
def test_a_value_that_its_key_does_not_take(complaint, text):
    assert complaint(DATA + text) == f"x.yaml:6: {VALUES[text]}"


DATA_FAULTS = {
    "model: {}": "x.yaml:1: section 'data' is missing\n  it names the languages and the parallel text",
    "\ndata:\n  tgt_lang: en\n  train: {tsv: a}": "x.yaml:2: data lacks the key 'src_lang'\n"
    "  src_lang: code of the source language, such as de",
    "data:\n  src_lang: de\n  tgt_lang: en": f"x.yaml:1: data lacks the key 'train'\n  train: {ONE_CORPUS_OR_MORE}",
    "data:\n  scr_lang: de\n  tgt_lang: en\n  train: {tsv: a}": "x.yaml:2: unknown key 'scr_lang' in data\n  did you "
    f"mean 'src_lang'? allowed: {', '.join(DataConfig.model_fields)}",
    "data:\n  src_lang: true\n  tgt_lang: en\n  train: {tsv: a}": "x.yaml:2: data.src_lang must be text, got true\n"
    "  if text is meant, quote it: 'true'",
    "data:\n  src_lang: d e\n  tgt_lang: en\n  train: {tsv: a}": "x.yaml:2: data.src_lang must be a language code, "
    "such as de, zh or pt-BR, got 'd e'",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: a.tsv": "x.yaml:4: data.train must be a mapping, "
    f"or a list of mappings, got 'a.tsv'\n  {NAME_A_CORPUS}; or a list of such corpora",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: {tsv: a}\n  valid: no": "x.yaml:5: data.valid must be a "
    f"mapping, or a list of mappings or null, got 'no'\n  {NAME_A_CORPUS}; or a list of such corpora",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train: []": "x.yaml:4: data.train must be a mapping, or a list of "
    f"mappings, got a list of 0\n  {NAME_A_CORPUS}; or a list of such corpora",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - b": "x.yaml:6: item 2 of data.train must be a "
    f"mapping, or a list of mappings, got 'b'\n  {NAME_A_CORPUS}; or a list of such corpora",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - tvs: b": "x.yaml:6: unknown key 'tvs' in item 2 "
    f"of data.train\n  did you mean 'tsv'? allowed: {CORPUS_KEYS}",
    "data:\n  src_lang: de\n  tgt_lang: en\n  train:\n  - tsv: a\n  - tsv: b\n    columns: [0, 1]": "x.yaml:7: item 1 "
    "of columns of item 2 of data.train must be a whole number (at least 1 and at most 1000000000) or text, got 0",
}


@pytest.mark.parametrize("text", DATA_FAULTS)
def test_a_data_section_that_lacks_or_mistakes_something(complaint, text):
    assert complaint(text) == DATA_FAULTS[text]


CONTRADICTIONS = {
    "  augment:\n    upper: 0.7\n    typos: 0.6": "x.yaml:5: data.augment: the shares add up to 1.3, more than 1; "
    "a pair is changed in at most one way",
    "tokenizer:\n  type: char\n  subword_regularization: {per_epoch: true}": "x.yaml:6: tokenizer: type char has only "
    "one segmentation per text; subword_regularization.per_epoch must be false",
    "model:\n  dropout: 0\n  num_heads: 3": "x.yaml:7: model: num_heads 3 does not divide d_model 256; 2 or 4 would",
    "model:\n  dropout: 0\n  d_model: 254": "x.yaml:7: model: num_heads 4 does not divide d_model 254; 1 or 2 would",
    "model:\n  attention: additive\n  positions: rotary": "x.yaml:7: model: rotary positions need dot products; "
    "additive attention has none",
    "training:\n  keep_checkpoints: 2": "x.yaml:6: training: average_checkpoints 5 needs as many checkpoints, "
    "but keep_checkpoints is 2",
    "training:\n  max_updates: 9": "x.yaml:6: training: warmup_updates 400 must be less than max_updates 9",
    "tokenizer:\n  joint: false": "x.yaml:6: model.tied_embeddings all shares one embedding between the languages, so "
    "tokenizer.joint must be true; with separate vocabularies use target",
    "tokenizer:\n  path: v\ntraining:\n  init_from: r": "x.yaml:8: training.init_from uses its run's tokenizer; "
    "omit tokenizer.path",
    "  valid: {src: a}": f"x.yaml:5: data.valid: {ONE_FORM}",
    "  valid: {}": f"x.yaml:5: data.valid: {ONE_FORM}",
    "  valid: [{tsv: a}, {tsv: b, csv: c}]": f"x.yaml:5: item 2 of data.valid: {ONE_FORM}",
    "  valid:\n  - tsv: a\n  - jsonl: b\n    fields: [de, de]": "x.yaml:8: item 2 of data.valid: fields must name two "
    "different fields",
    "  valid: {tsv: a, delimiter: ;}": "x.yaml:5: data.valid: delimiter does not apply to tsv, only to csv",
    "  valid: {tmx: a, sheet: 2}": "x.yaml:5: data.valid: sheet does not apply to tmx, only to xlsx",
    "  valid: {csv: a, columns: [de, en], header: false}": "x.yaml:5: data.valid: columns are given by name, but "
    "header is false, so there are no column names",
    "  valid: {tsv: a, weight: 2}": "x.yaml:5: data: a corpus of valid has a weight; "
    "only corpora of train can have weights",
    "  valid: {tsv: a, tag: a b}": "x.yaml:5: data.valid.tag must be one token such as <web>, not reserved, without "
    "white space, commas or ▁, got 'a b'",
    "  valid:\n    tsv: a\n    columns: [2, 2]": "x.yaml:7: data.valid: columns must name two different columns",
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_values_that_do_not_go_together(complaint, text):
    assert complaint(DATA + text) == CONTRADICTIONS[text]


STAGES = {
    "training:\n  warmup_updates: 400\n  stages:\n  - max_updates: 500\n  - lr: 1\n    max_updates: 300": "x.yaml:10: "
    "training: stage 2: warmup_updates 400 must be less than max_updates 300",
    "training:\n  warmup_updates: 4\n  stages:\n  - max_updates: 500\n    warmup_updates: 500": "x.yaml:9: "
    "training: stage 1: warmup_updates 500 must be less than max_updates 500",
    "training:\n  stages:\n  - max_updates: 500\n  - max_updates: 500\n    weights: [1, 2]": "x.yaml:9: "
    "training.stages: stage 2 must have 1 weights, one per corpus of data.train, and not all 0",
    "training:\n  stages:\n  - max_updates: 500\n    augment: true": "x.yaml:8: training.stages: stage 1: augment true "
    "changes no pairs; set shares in data.augment, or omit augment",
    "training:\n  stages:\n  - max_updates: 500\n    draw_segmentations: true": "x.yaml:8: training.stages: stage 1: "
    "draw_segmentations true draws none; set tokenizer.subword_regularization.per_epoch to true, or omit "
    "draw_segmentations",
}


@pytest.mark.parametrize("text", STAGES)
def test_a_fault_of_a_stage_is_located_in_that_stage(complaint, text):
    assert complaint(DATA + text) == STAGES[text]


def test_settings_without_effect_do_not_keep_a_run_from_loading(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(DATA + "training:\n  stages:\n  - max_updates: 500\n    augment: true")
    assert load_config(path, stored=True).training.stages[0].augment
    with pytest.raises(ConfigError, match="augment true changes no pairs"):
        load_config(path)


def test_a_fault_of_a_stage_that_a_set_brings_is_blamed_on_the_set(complaint):
    text = DATA + "training:\n  stages:\n  - max_updates: 500\n"
    assert complaint(text, "training.warmup_updates=600") == (
        "--set training.warmup_updates=600: training: stage 1: warmup_updates 600 must be less than max_updates 500"
    )


SETS = {
    "training.lrr=1": "--set training.lrr=1: unknown key 'lrr' in training\n"
    f"  did you mean 'lr'? allowed: {TRAINING_KEYS}",
    "lr=1": "--set lr=1: 'lr' is not a section; it belongs in training",
    "training.lr": "--set training.lr: expected section.key=value\n  such as --set training.lr=1e-3",
    "=1": "--set =1: expected section.key=value\n  such as --set training.lr=1e-3",
    "training..lr=1": "--set training..lr=1: expected section.key=value\n  such as --set training.lr=1e-3",
    "training.lr=[": "--set training.lr=[: not readable as YAML: expected the node content, but found '<stream end>'",
    "training.lr=\x01": "--set training.lr=\\x01: holds the control character 0x01",
    "training.lr=no": "--set training.lr=no: training.lr must be a number (above 0), got 'no'",
    "training.lr.x=1": "--set training.lr.x=1: training.lr must be a number (above 0), got a mapping",
    "data.src_lang.x=1": "--set data.src_lang.x=1: data.src_lang is 'de' and has no keys",
    "model.num_heads=3": "--set model.num_heads=3: model: num_heads 3 does not divide d_model 256; 2 or 4 would",
    "model.d_model=250": "--set model.d_model=250: model: num_heads 4 does not divide d_model 250; 2 or 5 would",
    "training=5": "--set training=5: training must be a mapping of keys to values, got 5",
    "training={lr: 1, lr: 2}": "--set training={lr: 1, lr: 2}: training.lr is given twice\n  keep one of them",
}


@pytest.mark.parametrize("override", SETS)
def test_a_set_that_cannot_be_followed(complaint, override):
    assert complaint(DATA + "model:\n  num_heads: 4\n", override) == SETS[override]


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(complaint):
    text = DATA + "training:\n  lr: fast\n  d_modle: 8\n  lr: 1\n  seed: 1e999\n  epss: 1\nmodel:\n  dropout: 2\n"
    assert complaint(text, "decoding.hurry=5") == "\n".join(
        [
            "x.yaml:6: training.lr must be a number (above 0), got 'fast'",
            "x.yaml:7: unknown key 'd_modle' in training",
            f"  did you mean 'd_model' in model? allowed: {TRAINING_KEYS}",
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
    assert all(field_at(tuple(key.split("."))) is not None for key in foreign_names().values())


def test_a_run_may_hold_removed_keys_and_a_new_configuration_is_told_what_to_do(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        DATA + "training:\n  optimizer: muon\n  lr: 0.5\n  stages: [{max_updates: 500, guided_alignment: 0.1}]\n"
    )
    assert load_config(path, stored=True).training.lr == 0.5
    with pytest.raises(ConfigError) as error:
        load_config(path)
    optimizer, _, guided, hint = str(error.value).splitlines()
    assert optimizer == f"{path}:6: training.optimizer was removed"
    assert guided == f"{path}:8: guided_alignment of item 1 of training.stages was removed"
    assert hint == "  no gain was measured: delete the line"
    with pytest.raises(ConfigError, match=r"--set training\.simcut=3: training\.simcut was removed"):
        load_config(path, ["training.simcut=3"], stored=True)


def test_no_key_has_the_name_of_a_removed_one():
    assert REMOVED.keys().isdisjoint(key for _, section in every_section() for key in section.model_fields)
