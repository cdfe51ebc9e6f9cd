"""Whatever is in a file or in a `--set`, reading it gives a configuration or a `ConfigError`, nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.base.errors import ConfigError
from nmt.config import Config, dump_config, load_config
from nmt.config.faults import every_section
from tests.quick import examples

KEYS = sorted({key for _, section in every_section() for key in section.model_fields})
SAFE = settings(max_examples=examples(12, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "de", "$A", "~"]),
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))
configs = st.fixed_dictionaries(
    {"data": st.fixed_dictionaries({"src_lang": st.just("de"), "tgt_lang": st.just("en"), "train": trees})},
    optional={
        name: st.dictionaries(keys, trees, max_size=5) for name in ("tokenizer", "model", "training", "decoding")
    },
)
YAML_PARTS = ["data", "model", ":", ": ", "\n", "  ", "- ", "[", "]", "{", "}", "&a ", "*a", "!!int ", "!x ", "'", '"']
YAML_PARTS += ["|", ">", "?", "#", "%YAML 1.1\n", "---", "...", "\t", "\\x", "<<", ",", "1", "\u2028", "\ufeff", "\0"]
yaml_like = st.lists(st.sampled_from(YAML_PARTS), max_size=30).map("".join)


def read(path: Path, raw: bytes, *overrides: str) -> Config | None:
    path.write_bytes(raw)
    try:
        return load_config(path, overrides)
    except ConfigError:
        return None


@SAFE
@given(raw=st.binary(max_size=60) | yaml_like.map(lambda text: text.encode()))
def test_any_bytes_are_a_configuration_or_an_error(tmp_path, raw):
    read(tmp_path / "x.yaml", raw)


@SAFE
@given(tree=trees | configs)
def test_any_structure_is_a_configuration_or_an_error(tmp_path, tree):
    read(tmp_path / "x.yaml", json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@SAFE
@given(key=keys, inner=keys, value=yaml_like | st.text(max_size=10))
def test_any_set_is_followed_or_refused(tmp_path, key, inner, value):
    data = b"data: {src_lang: de, tgt_lang: en, train: {tsv: a.tsv}}"
    read(tmp_path / "x.yaml", data, f"training.{key}={value}", f"data.train.{inner}={value}")


names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(lambda s: s[0] != "~")
symbols = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="▁,"), min_size=1, max_size=6)
rates = st.floats(0, 1, exclude_max=True)


@SAFE
@given(
    paths=st.tuples(names, names, st.none() | names),
    user_symbols=st.lists(symbols, unique=True, max_size=4),
    numbers=st.tuples(rates, rates, st.floats(0, 1e9, exclude_min=True)),
    comments=st.booleans(),
    header=st.text(max_size=20),
)
def test_what_is_written_is_read_back_the_same(tmp_path, paths, user_symbols, numbers, comments, header):
    src, tgt, store_dir = paths
    first, second, positive = numbers
    config = Config.model_validate(
        {
            "data": {"src_lang": "no", "tgt_lang": "y", "train": {"src": src, "tgt": tgt}, "store_dir": store_dir},
            "tokenizer": {"user_symbols": [s for s in user_symbols if s not in {"<unk>", "<pad>", "<s>", "</s>"}]},
            "model": {"dropout": first},
            "training": {"betas": [first, second], "eps": positive, "lr": positive},
        }
    )
    path = tmp_path / "x.yaml"
    path.write_bytes(dump_config(config, comments=comments, header=header).encode())
    assert load_config(path) == config


def test_the_property_tests_reach_good_configurations(tmp_path):
    good = {"data": {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": "a"}}, "training": {"eps": 1e-9}}
    config = read(tmp_path / "x.yaml", json.dumps(good).encode())
    assert config is not None
    assert config.training.eps == pytest.approx(1e-9)
