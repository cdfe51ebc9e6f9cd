"""The files of a run are read with care: pointers, records, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nmt.artifacts.run_records import Essentials
from nmt.artifacts.rundir import RunDir, new_run, refuse_existing
from nmt.base.errors import ConfigError, RunError
from nmt.config import Config
from nmt.data.read.pairs import SentencePair


def make_run(path, **index):
    run = RunDir(path)
    run.checkpoints.mkdir(parents=True)
    run.write_json(run.index_file, index)
    return run


@pytest.mark.parametrize("best", ["../../etc/passwd", "/etc/passwd", "..", ".x", ""])
def test_a_pointer_out_of_the_run_is_not_followed(tmp_path, best):
    run = make_run(tmp_path / "run", best=best)
    with pytest.raises(RunError, match="is not the name of a checkpoint"):
        run.best_checkpoint()


def start_in(path, meanwhile=lambda: None):
    with new_run(path, overwrite=False) as run:
        run.config_file.write_text("new")
        meanwhile()


def test_a_new_run_takes_the_place_of_an_empty_folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    refuse_existing(path)
    with pytest.raises(ZeroDivisionError):
        start_in(path, lambda: 1 // 0)
    assert list(tmp_path.rglob("*")) == [path]
    start_in(path, lambda: refuse_existing(path))  # it is not a run before it is complete
    assert [file.name for file in path.iterdir()] == ["config.yaml"]
    with pytest.raises(RunError, match="this run already exists"):
        refuse_existing(path)
    assert [found.name for found in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(("name", "message"), [("config.yaml", "this run already exists"), ("a", "is not a run")])
def test_what_appears_in_an_empty_folder_meanwhile_is_not_replaced(tmp_path, name, message):
    path = tmp_path / "run"
    path.mkdir()
    with pytest.raises(RunError, match=message):
        start_in(path, lambda: (path / name).write_text("theirs"))
    assert [(file.name, file.read_text()) for file in path.iterdir()] == [(name, "theirs")]


def test_what_is_not_a_run_is_named_so(tmp_path):
    (tmp_path / "a").write_text("")
    for path, kind in ((tmp_path, "folder"), (tmp_path / "a", "file")):
        with pytest.raises(RunError) as caught:
            refuse_existing(path)
        assert str(caught.value) == f"{path}: this {kind} is not a run\n  choose another --run"


INDEX: dict[str, Any] = {
    "last": "step-00000002",
    "early_stopping_metric": "bleu",
    "checkpoints": {"step-00000001": {"loss": 2.5, "bleu": 7.25}, "step-00000002": {"loss": float("inf"), "bleu": 0.0}},
    "best": "step-00000001",
    "validations_since_best": 1,
    "signatures": {"bleu": "nrefs:1"},
    "int8": {"checkpoint": "step-00000001", "int8_bleu": 7.0, "fp32_bleu": 7.25, "difference": 0.00001},
    "phrases": {
        "checkpoint": "step-00000001",
        **{name: {"bleu": 1.5, "chrf": 20.0} for name in ("table", "network")},
    },
    "verdict": None,
}


def test_the_index_is_read_as_a_record(tmp_path):
    run = make_run(tmp_path / "run", **INDEX)
    assert run.index().model_dump() == INDEX
    run.write_json(run.index_file, INDEX | {"key_of_another_version": 1})
    assert run.index().model_dump() == INDEX
    run.write_json(run.index_file, {key: value for key, value in INDEX.items() if key != "int8"})
    assert run.index().int8 is None
    run.index_file.unlink()
    assert (run.index().best, run.index().checkpoints) == (None, {})


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("best", 3, "best"),
        ("best", ["a"], "best"),
        ("checkpoints", [], "checkpoints"),
        ("checkpoints", {"a": {"bleu": "7"}}, r"checkpoints\.a\.bleu"),
        ("int8", 39.4, "int8"),
        ("int8", INDEX["int8"] | {"int8_bleu": "7"}, r"int8\.int8_bleu"),
        ("int8", INDEX["int8"] | {"int8_bleu": float("nan")}, r"int8\.int8_bleu"),
        ("int8", INDEX["int8"] | {"fp32_bleu": 101.0}, r"int8\.fp32_bleu"),
        ("int8", {"checkpoint": "step-00000001", "int8_bleu": 7.0}, r"int8\.fp32_bleu"),
    ],
)
def test_an_index_with_an_odd_value_is_one_error(tmp_path, key, value, place):
    run = make_run(tmp_path / "run", **INDEX | {key: value})
    with pytest.raises(RunError, match=rf"index\.json: {place}: .*\n  copy the file again"):
        run.best_checkpoint()


def test_a_damaged_index_is_named(tmp_path):
    run = make_run(tmp_path / "run")
    run.index_file.write_text("{")
    with pytest.raises(RunError, match=r"index\.json: cannot read this file of the run"):
        run.index()


INFO = {
    "nmt": "0.1.0",
    "commit": None,
    "python": "3.11.7",
    "torch": "2.13.0",
    "packages": {"numpy": "2.4.6"},
    "platform": "Linux",
    "processor": "8086",
    "instruction_set": "AVX2",
    "device": "cpu",
    "gpu": None,
    "threads": 2,
    "world_size": 1,
    "format": 1,
    "command": ["train"],
    "seed": 1,
    "precision": "fp32",
    "data_fingerprint": "0a1b",
    "packed": False,
    "packed_reason": "attention has no kernel for packed rows on cpu",
    "resumed": [],
}


def test_run_json_is_read_as_a_record(tmp_path):
    run = make_run(tmp_path / "run")
    run.write_json(run.info_file, INFO)
    assert (run.info().precision, run.info().data_fingerprint) == ("fp32", "0a1b")
    assert run.info().model_dump() == INFO


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in ("format", "precision", "data_fingerprint") for value in (None, 7, [], {}, "../../x")],
)
def test_a_run_json_with_an_odd_value_is_one_error(tmp_path, key, value):
    run = make_run(tmp_path / "run")
    run.write_json(run.info_file, INFO | {key: value})
    with pytest.raises(RunError, match=rf"run\.json: {key}: .*\n  copy the file again"):
        run.info()


def test_the_configuration_of_a_run_is_read_once(digits_run, monkeypatch):
    run = RunDir(digits_run)
    config = run.config()
    monkeypatch.setattr("nmt.config.load.load_config", None)
    assert run.config() is config


def test_a_data_set_that_lost_a_line_is_named(tmp_path):
    run = RunDir(tmp_path)
    run.write_pairs("valid", [SentencePair(f"{n}", f"{n}", n) for n in range(3)])
    (tmp_path / "data" / "valid.tgt").write_text("0\n1\n")
    with pytest.raises(RunError) as caught:
        run.read_pairs("valid")
    assert str(caught.value) == (
        f"{tmp_path / 'data' / 'valid.tgt'}: 2 lines, but valid.src has 3\n"
        "  copy both files again from where the run was trained"
    )


EVALUATION = {"checkpoints": ["step-00000002"], "scores": {"BLEU": {"value": 31.5}}}


def test_the_scores_of_the_test_set_are_those_of_one_checkpoint(tmp_path):
    run = RunDir(tmp_path)
    assert run.evaluation("step-00000002") is None
    run.write_json(run.evaluation_file, EVALUATION | {"hypotheses": "eval/test.hyp"})
    evaluation = run.evaluation("step-00000002")
    assert evaluation is not None
    assert evaluation.model_dump(exclude_unset=True) == EVALUATION
    assert run.evaluation("step-00000001") is None


@pytest.mark.parametrize("scores", [None, {}, {"BLEU": 3}, {"BLEU": {"value": "31"}}, {"BLEU": {"value": None}}])
def test_scores_of_the_test_set_with_an_odd_value_are_one_error(tmp_path, scores):
    run = RunDir(tmp_path)
    run.write_json(run.evaluation_file, EVALUATION | {"scores": scores})
    with pytest.raises(RunError, match=r"test\.json: scores"):
        run.evaluation("step-00000002")


@pytest.fixture
def configured(tmp_path):
    """A run that was only configured."""
    run = RunDir(tmp_path)
    run.write_config(two_directions())
    return run


def two_directions():
    corpus = {"train": [{"tsv": "a.tsv"}, {"tsv": "b.tsv", "tgt_lang": "fr", "tag": "<web>"}]}
    return Config.model_validate({"data": {"src_lang": "en", "tgt_lang": "de", **corpus}, "decoding": {"beam_size": 3}})


def test_the_essentials_of_a_run_are_those_of_its_configuration(configured):
    stored = json.loads(configured.essentials_file.read_text())
    assert stored["config_sha256"]
    known, config = RunDir(configured.path).essentials(), configured.config()
    assert known.model_copy(update={"config_sha256": ""}) == Essentials.of(config)
    assert (known.model, known.decoding) == (config.model, config.decoding)
    assert known.directions == config.data.directions == (("en", "de"), ("en", "fr"))
    assert known.directions[1].tgt == "fr"
    assert known.user_symbols == ("<2de>", "<2fr>", "<web>")


def changed(**values):
    return lambda text: json.dumps(json.loads(text) | values)


DAMAGES = {
    "missing": None,
    "empty": lambda text: "",
    "no JSON": lambda text: text[:-20],
    "a list": lambda text: "[]",
    "of no configuration": lambda text: "{}",
    "of another configuration": changed(config_sha256="0123456789abcdef"),
    "of another version of nmt": changed(other=1),
    "of another type": changed(model=[]),
    "no directions": changed(directions=[]),
    "no numbers": changed(decoding={"beam_size": "many"}),
    "too large": lambda text: text + " " * 10_000_001,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_essentials_that_are_damaged_or_of_another_configuration_are_read_from_the_configuration(configured, damage):
    file = configured.essentials_file
    expected = Essentials.of(configured.config())
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage(file.read_text()))
    assert RunDir(configured.path).essentials() == expected


def test_an_option_that_was_changed_in_the_configuration_by_hand_has_effect(configured):
    text = configured.config_file.read_text()
    assert "beam_size: 3" in text
    configured.config_file.write_text(text.replace("beam_size: 3", "beam_size: 4"))
    assert RunDir(configured.path).essentials().decoding.beam_size == 4


def test_essentials_do_not_hide_that_the_configuration_is_gone(configured):
    configured.config_file.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        RunDir(configured.path).essentials()
