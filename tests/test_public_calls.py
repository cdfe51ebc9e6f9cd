"""What a program gets that calls the public interface with a wrong name or a value of another kind."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nmt
from nmt.decoding.hypothesis import Hypothesis
from nmt.evaluation.plots import read_metrics
from nmt.model import ModelConfig
from tests.tiny import small_config, write_digits

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "tests" / "models" / "digits"


@pytest.fixture(scope="module")
def translator() -> Iterator[nmt.Translator]:
    with nmt.Translator.load(DIGITS) as loaded:
        yield loaded


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"engine": "natve"},
            "unknown engine 'natve'\n  did you mean 'native'? choose from auto, native, torch, phrase",
        ),
        ({"engine": ""}, "unknown engine ''\n  choose from auto, native, torch, phrase"),
        ({"precision": "int9"}, "unknown precision 'int9'\n  did you mean 'int8'? choose from auto, fp32, bf16, int8"),
        ({"precision": "fp64"}, "unknown precision 'fp64'\n  choose from auto, fp32, bf16, int8"),
        ({"device": "tpu"}, "unknown device 'tpu'\n  did you mean 'cpu'? choose from auto, cuda, mps, cpu"),
        ({"device": None}, "unknown device None\n  choose from auto, cuda, mps, cpu"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(names, message):
    with pytest.raises(nmt.NmtError) as error:
        nmt.Translator.load(DIGITS, **names)
    assert str(error.value) == message


def test_an_empty_list_of_models_is_refused():
    with pytest.raises(nmt.NmtError, match="an empty list names no model"):
        nmt.Translator.load([])


def test_a_list_of_paths_is_an_ensemble_and_a_run_may_be_named_by_a_str():
    with nmt.Translator.load([str(DIGITS), DIGITS]) as ensemble:
        assert ensemble.translate(["7319"])[0].text == "9137"
    assert nmt.RunDir(str(DIGITS)).config() == nmt.RunDir(DIGITS).config()


def test_a_text_in_place_of_a_list_is_not_scored_letter_by_letter(translator):
    with pytest.raises(nmt.NmtError, match="sources must be a list of str, not a single str"):
        translator.score("7319", "9137")
    with pytest.raises(nmt.NmtError, match="targets must be a list of str, not a single str"):
        translator.score(["7319"], "9137")
    with pytest.raises(nmt.NmtError, match="1 sources but 2 targets"):
        translator.score(["7319"], ["9137", "7319"])


def test_options_and_terms_may_be_mappings(translator):
    by_mapping = translator.translate(["7319"], {"beam_size": 3, "num_hypotheses": 2}, glossary={"7": "8"})
    options = translator.options.changed(beam_size=3, num_hypotheses=2)
    assert by_mapping == translator.translate(["7319"], options, glossary=nmt.Glossary({"7": "8"}))
    assert translator.translate(["7319"], {}) == translator.translate(["7319"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beem_size": 3}, "unknown option 'beem_size'\n  did you mean 'beam_size'?"),
        ({"beam_size": "wide"}, "SearchOptions: beam_size: "),
        ({"beam_size": 1, "num_hypotheses": 3}, "SearchOptions: 3 hypotheses need a beam of that size; it is 1"),
    ],
)
def test_options_that_cannot_be_used_are_refused_by_every_door(translator, options, message):
    for ask in (
        lambda: translator.translate(["7319"], options),
        lambda: nmt.translate("7319", DIGITS, **options),
        lambda: nmt.evaluate(DIGITS, **options),
    ):
        with pytest.raises(nmt.NmtError) as error:
            ask()
        assert str(error.value).startswith(message)


PAIRS = {"src_lang": "de", "tgt_lang": "en"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nmt.SearchOptions(beem_size=3),
            "unknown key of SearchOptions 'beem_size'\n  did you mean 'beam_size'?",
        ),
        (lambda: nmt.SearchOptions(beam_size=0), "SearchOptions: beam_size: Input should be greater"),
        (lambda: nmt.SearchOptions(num_hypotheses=3), "SearchOptions: 3 hypotheses need a beam"),
        (lambda: ModelConfig(d_model=63, num_heads=2), "ModelConfig: num_heads 2 does not divide d_model 63"),
        (lambda: nmt.Config(data=1), "Config: data: Input should be a valid dictionary"),
        (lambda: nmt.Config(data=PAIRS | {"train": {"tsv": 3}}), "Config: data.train.tsv: Input should be a valid str"),
        (lambda: nmt.Config(data=PAIRS | {"train": [{"tmx": 3}]}), "Config: data.train.0.tmx: Input should be a valid"),
    ],
)
def test_a_constructor_refuses_what_a_configuration_file_may_not_contain(make, message):
    with pytest.raises(nmt.NmtError) as error:
        make()
    assert str(error.value).startswith(message)


def test_a_configuration_made_in_python_takes_paths():
    corpora = [{"src": Path("a.de"), "tgt": Path("a.en")}, {"xlsx": Path("b.xlsx")}]
    data = PAIRS | {"train": corpora, "valid": {"tsv": Path("v.tsv")}, "store_dir": Path("store")}
    config = nmt.Config(data=data, training={"init_from": Path("runs/a")})
    assert [config.data.train[0].src, config.data.train[1].xlsx, config.data.valid.tsv] == ["a.de", "b.xlsx", "v.tsv"]
    assert [config.data.store_dir, config.training.init_from] == ["store", "runs/a"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nmt.translate(None, nmt.TINY_MODEL), "texts must be a list of str; it is None"),
        (lambda: nmt.translate({"7": "8"}, nmt.TINY_MODEL), "texts must be a list of str, not a single dict"),
        (lambda: nmt.translate("7", 5), "a model must be a path, a RunDir or a list of them; it is of type int"),
        (lambda: nmt.translate("7", nmt.TINY_MODEL, glossary=["7"]), "glossary must be a Glossary, or a dict of terms"),
        (lambda: nmt.translate("7", nmt.TINY_MODEL, glossary={"7": 8}), "each term must be a str; it is of type int"),
        (lambda: nmt.train({"data": {}}, "run"), "a configuration must be the path of a YAML file; it is of type dict"),
        (lambda: nmt.train("x.yaml", None), "run must be the path of a folder; it is None"),
        (lambda: nmt.load_config("x.yaml", "training.lr=1"), "overrides must be a list of str, not a single str"),
        (
            lambda: nmt.load_config("x.yaml", ["training.lr=1", 3]),
            "overrides must be a list of str; number 2 is of type",
        ),
        (lambda: nmt.check(None), "a configuration must be the path of a YAML file; it is None"),
        (lambda: nmt.adapt("old", None, "c.tsv"), "run must be the path of a folder; it is None"),
        (lambda: nmt.distill("x.yaml", 5), "run must be the path of a folder; it is of type int"),
        (lambda: nmt.synthesize(None, "pairs.tsv", nmt.TINY_MODEL), "input must be a path, or sentences; it is None"),
        (lambda: nmt.synthesize(["7"], None, nmt.TINY_MODEL), "output must be the path of a file; it is None"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_the_kind_that_is_expected(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text("data: {src_lang: de, tgt_lang: en, train: {tsv: c.tsv}}")
    with pytest.raises(nmt.NmtError) as error:
        call()
    assert str(error.value).startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


@pytest.mark.parametrize("options", ["beam_size", ["beam_size"], 5])
def test_options_that_are_no_mapping_are_refused(translator, options):
    with pytest.raises(nmt.NmtError, match="options must be SearchOptions, or a dict of their fields"):
        translator.translate(["7319"], options)


def test_what_is_no_text_or_segment_is_refused(translator):
    for text in (["7319"], None, b"7319"):
        with pytest.raises(nmt.NmtError, match="text must be a str, of one or several sentences; it is"):
            list(translator.stream(text))
    (translation,) = translator.translate(["7319"])
    for look in (translator.cross_attention, translator.attention_weights):
        for segment in (translation, "7319", None):
            with pytest.raises(nmt.NmtError, match=r"segment must be one of translation\.segments; it is"):
                look(segment)


def test_an_evaluation_takes_one_metric_by_name_and_refuses_unknown_sets_and_metrics(tmp_path):
    run = shutil.copytree(DIGITS, tmp_path / "digits")
    assert [score.name for score in nmt.evaluate(run, metrics="chrf").scores] == ["chrF2"]
    with pytest.raises(nmt.NmtError, match=r"unknown split 'dev'\n  choose from valid, test"):
        nmt.evaluate(run, split="dev")
    with pytest.raises(nmt.NmtError, match="unknown metric blue"):
        nmt.evaluate(run, metrics="blue")


@pytest.mark.parametrize("text", ["7319\n1538 42", " 7319\n\n1538\n", "7319", "", " \n ", "7319 https://x.y/z\n☃"])
def test_a_stream_yields_what_a_translation_of_the_whole_text_is_made_of(translator, text):
    for options in (None, {"split": "always", "beam_size": 2}):
        parts = list(translator.stream(text, options, glossary={"42": "7"}))
        (whole,) = translator.translate([text], options, glossary={"42": "7"})
        assert "".join(part.text for part in parts) == whole.text
        assert [segment for part in parts for segment in part.segments] == whole.segments
    assert len(list(translator.stream("7319\n1538\n42"))) == 3


def test_a_stream_that_is_left_translates_no_further(translator, monkeypatch):
    translated, search = [], translator.engine.search

    def counted(*args: Any, **named: Any) -> list[list[Hypothesis]]:
        translated.append(args)
        return search(*args, **named)

    monkeypatch.setattr(translator.engine, "search", counted)
    stream = translator.stream("7319\n1538\n42")
    assert translated == []
    assert next(stream).text == "9137\n"
    stream.close()
    assert len(translated) == 1
    with pytest.raises(nmt.NmtError, match="did you mean 'beam_size'"):
        next(translator.stream("7319", {"beem": 2}))


def test_a_translation_is_json_and_a_key(translator):
    one, other, third = translator.translate(["7319", "7319", "15"], {"num_hypotheses": 2, "beam_size": 2})
    assert {one: "a", third: "b"}[other] == "a"
    assert len({one, other, third}) == 2
    fields = json.loads(json.dumps(one.as_json(hypotheses=True)))
    assert (fields["text"], fields["finished"], len(fields["hypotheses"])) == ("9137", True, 2)
    full = one.as_json(translator.tokenizers)
    assert {name: full[name] for name in one.as_json()} == one.as_json()
    assert full.keys() - one.as_json().keys() == {"tokens", "src_tokens"}


def test_a_callback_stops_a_training_and_the_next_call_continues_it(tmp_path):
    data = write_digits(tmp_path / "data", num_train=240, num_held_out=10)
    config = small_config(data, training={"average_checkpoints": 0, "keep_checkpoints": 3})
    seen: list[nmt.TrainRecord | nmt.ValidRecord] = []

    def stop_at_validation(record: nmt.TrainRecord | nmt.ValidRecord) -> bool:
        seen.append(record)
        return isinstance(record, nmt.ValidRecord)

    result = nmt.train(config, tmp_path / "run", on_update=stop_at_validation)
    assert (result.finished, seen[-1].update, result.run.index().last) == (False, 4, "step-00000004")
    result = nmt.train(config, tmp_path / "run", on_update=lambda record: None)
    assert result.finished
    whole = nmt.train(config, tmp_path / "whole")
    last = result.run.index().last
    assert last is not None
    assert result.run.checkpoint(last).read_bytes() == whole.run.checkpoint(last).read_bytes()
    # What a program reads while it trains.
    records = read_metrics(result.run.metrics)
    assert [record["update"] for record in records if record["kind"] == "valid"] == [4, 8, 12]
    # An average, made when all updates are there.
    averaged = config.model_copy(update={"training": config.training.model_copy(update={"average_checkpoints": 2})})
    index = nmt.train(averaged, tmp_path / "run").run.index()
    assert index.last == last
    assert "average" in index.checkpoints


def test_the_tiny_model_of_the_package_reverses_numbers():
    draw = random.Random(2)
    numbers = ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(60)]
    assert nmt.TINY_MODEL.stat().st_size < 100_000
    for options in ({}, {"beam_size": 3}):
        assert [each.text for each in nmt.translate(numbers, nmt.TINY_MODEL, **options)] == [n[::-1] for n in numbers]
    with nmt.Translator.load(nmt.TINY_MODEL, engine="torch", device="cpu") as by_torch:
        assert [each.text for each in by_torch.translate(numbers)] == [n[::-1] for n in numbers]


def test_a_function_that_needs_pytorch_says_so_without_it():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import nmt\n"
        "for name in ('train', 'adapt', 'distill'):\n"
        "    try: getattr(nmt, name)\n"
        "    except nmt.NmtError as error: print(error)\n"
        "print(nmt.translate('7319', sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program, DIGITS], capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert lines[0] == "nmt.train needs PyTorch, which is not installed", done.stderr
    assert lines[-1] == "9137"
