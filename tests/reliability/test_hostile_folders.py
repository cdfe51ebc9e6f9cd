"""A model folder from a stranger: no code is run, nothing outside it is read or written, memory stays bounded."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from safetensors.torch import save_file

from nmt.artifacts.checkpoint import read_tensors, write_tensors
from nmt.artifacts.run_records import FORMAT
from nmt.artifacts.rundir import RunDir
from tests.reliability.running import Said, assert_messages, nmt
from tests.tiny import tiny_values, write_digits

MODEL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
TRAINING = {"max_updates": 4, "warmup_updates": 0, "validate_every": 2, "average_checkpoints": 0}
COMMANDS = {
    "translate": ["translate", "--model", "run", "12"],
    "translate --engine torch": ["translate", "--model", "run", "--engine", "torch", "12"],
    "eval": ["eval", "--model", "run"],
    "plot": ["plot", "run"],
    "resume": ["train", "--resume", "--run", "run"],
}
MEMORY = 1 << 30  # more than the process has when the command begins
HUGE = 10_000_000_000  # bytes that a file claims to have


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a corpus, and a run trained on it by relative names."""
    folder = write_digits(tmp_path_factory.mktemp("made"), num_train=60, num_held_out=4)
    data = {split: {"tsv": f"{split}.tsv"} for split in ("train", "valid", "test")}
    (folder / "x.yaml").write_text(yaml.safe_dump(tiny_values(folder, data=data, model=MODEL, training=TRAINING)))
    done = nmt("train", "--config", "x.yaml", "--run", "run", cwd=folder)
    assert done.code == 0, done.text
    return folder


@pytest.fixture
def here(made, tmp_path) -> Path:
    """A copy of that folder, with a file beside the run that is none of its business."""
    shutil.copytree(made, tmp_path / "here")
    (tmp_path / "here" / "precious.txt").write_text("precious")
    return tmp_path / "here"


class Bomb:
    """Makes the file `boom` when it is unpickled."""

    def __reduce__(self) -> Any:
        return (open, ("boom", "w"))


def ask(here: Path, command: str) -> Said:
    done = nmt(*COMMANDS[command], cwd=here, memory=MEMORY)
    assert not (here / "boom").exists()
    assert (here / "precious.txt").read_text() == "precious"
    assert "Traceback" not in done.text, done.text
    assert done.code in (0, 1), done.text
    assert done.text.count("error: ") == done.code
    return done


rows: dict[str, tuple[int, str]] = {}


def warnings_in(done: Said) -> list[str]:
    return [line for line in done.text.splitlines() if line.startswith(("warning: run", "continuing"))]


def note(tried: str, here: Path, done: Said) -> None:
    """Into the table, by a name of the folder that is the same everywhere."""
    said = done.error if done.code else "\n".join(warnings_in(done)) or "as ever"
    said = re.sub(r"should have [0-9,]+", "should have N", said)  # the clock is in it, and so its size differs
    rows[tried] = done.code, said.replace(os.path.realpath(here), "/here").replace(str(here), "/here")


# --- a pickle under each name a run may have ---------------------------------------------------------------------


UNREAD = {
    *("README.md", "report.json", "state/lock", "state/previous.safetensors", "checkpoints/best.pt"),
    *("data/test.twins", "essentials.json", "lexicon.safetensors"),
}
ONLY_RESUMED = {  # what no other command reads
    *("checkpoints/step-00000002.safetensors", "data/valid.src", "data/valid.tgt", "state/training.safetensors")
}


def test_a_pickle_under_any_name_is_never_loaded(here):
    run = here / "run"
    shutil.copytree(run, here / "whole")
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert {"config.yaml", "run.json", "checkpoints/index.json", "state/training.safetensors"} <= names
    assert names >= ONLY_RESUMED
    reads = ("translate", "eval", "plot")
    tried = [({name}, (*reads, "resume")) for name in sorted(names - UNREAD - ONLY_RESUMED)]
    tried += [({name}, ("resume",)) for name in sorted(ONLY_RESUMED)]
    for pickled, commands in [*tried, (UNREAD, (*reads, "resume")), (ONLY_RESUMED, reads)]:
        for name in pickled:
            (run / name).write_bytes(pickle.dumps(Bomb()))
        for command in commands:
            done = ask(here, command)
            if is_told := bool(done.code or warnings_in(done)):
                break
        note(f"a pickle as {', '.join(sorted(pickled))}: {command if is_told else ', '.join(commands)}", here, done)
        shutil.rmtree(run)
        shutil.copytree(here / "whole", run)


def test_a_pickle_as_both_training_states_is_never_loaded(here):
    run = RunDir(here / "run")
    for path in (run.state, run.previous_state):
        torch.save(Bomb(), path)
    done = ask(here, "resume")
    assert done.code == 1
    note("a torch pickle as both training states: resume", here, done)


# --- one thing wrong each ------------------------------------------------------------------------------------------


def edit_yaml(section: str, **values: Any) -> Callable[[RunDir], None]:
    def edit(run: RunDir) -> None:
        config = yaml.safe_load(run.config_file.read_text())
        config[section] |= values
        run.config_file.write_text(yaml.safe_dump(config))

    return edit


def edit_index(**values: Any) -> Callable[[RunDir], None]:
    return lambda run: run.write_json(run.index_file, run.index().model_dump() | values)


def edit_state(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[RunDir], None]:
    """Change the tensors of both states: an attacker would."""

    def edit(run: RunDir) -> None:
        tensors = read_tensors(run.state)
        change(tensors)
        write_tensors(run.state, tensors)
        write_tensors(run.previous_state, tensors)

    return edit


def edit_counters(change: Callable[[dict[str, Any]], Any]) -> Callable[[RunDir], None]:
    """Change what is no tensor in both states."""

    def edit_tensors(tensors: dict[str, torch.Tensor]) -> None:
        counters = json.loads(tensors["counters"].numpy().tobytes())
        change(counters)
        tensors["counters"] = torch.tensor(list(json.dumps(counters).encode()), dtype=torch.uint8)

    return edit_state(edit_tensors)


def put(name: str, content: bytes) -> Callable[[RunDir], object]:
    return lambda run: (run.path / name).write_bytes(content)


def link(name: str, to: str) -> Callable[[RunDir], None]:
    def edit(run: RunDir) -> None:
        path = run.path / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    return edit


def claim(name: str, size: int = HUGE) -> Callable[[RunDir], None]:
    """A file that has `size` bytes of zeros, and takes no room."""
    return lambda run: os.truncate(run.path / name, size)


def best(run: RunDir) -> str:
    return str(run.best_checkpoint().relative_to(run.path))


def other_tokenizer(run: RunDir) -> None:
    config = run.path.parent / "y.yaml"
    folder = write_digits(run.path.parent / "more", num_train=9)
    (folder / "train.tsv").write_text("".join(f"{chr(n)}\t{chr(n)}\n" for n in range(97, 123)))
    config.write_text(yaml.safe_dump(tiny_values(folder)))
    assert nmt("vocab", "--config", config, "--output", "v", cwd=run.path.parent).code == 0
    shutil.copy(run.path.parent / "v" / "joint.model", run.tokenizer)


def fifo(name: str) -> Callable[[RunDir], None]:
    def edit(run: RunDir) -> None:
        (run.path / name).unlink()
        os.mkfifo(run.path / name)

    return edit


def all_weights(content: bytes) -> Callable[[RunDir], None]:
    def edit(run: RunDir) -> None:
        for path in run.checkpoints.glob("*.safetensors"):
            path.write_bytes(content)

    return edit


def other_weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[RunDir], None]:
    """Weights that an attacker made: they have a checksum that fits."""

    def edit(run: RunDir) -> None:
        from nmt.artifacts.checkpoint import read_weights, save_weights

        for path in run.checkpoints.glob("*.safetensors"):
            weights = read_weights(path)
            change(weights)
            save_weights(path, weights)

    return edit


DEEP = b"[" * 200_000
ENDLESS = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1e400]}}'


class Case(NamedTuple):
    edit: Callable[[RunDir], object]
    command: str
    word: str  # a part of the message


CASES = {
    "!!python/object/apply in config.yaml": Case(
        put("config.yaml", b"data: !!python/object/apply:os.system [touch boom]\n"), "translate", "is not allowed"
    ),
    "config.yaml: d_model 16384": Case(edit_yaml("model", d_model=16_384), "translate", "belong to another model"),
    "config.yaml: d_model 16384, torch": Case(
        edit_yaml("model", d_model=16_384), "translate --engine torch", "belong to another model"
    ),
    "config.yaml: d_model 65536": Case(edit_yaml("model", d_model=65_536), "translate", "at most 16384"),
    "config.yaml: d_ff 262144": Case(edit_yaml("model", d_ff=262_144), "translate", "belong to another model"),
    "config.yaml: a beam of 200,000,000": Case(
        edit_yaml("decoding", beam_size=200_000_000), "translate", "at most 1000"
    ),
    "config.yaml: 1000 layers": Case(edit_yaml("model", encoder_layers=1000), "translate", "1,001 layers, but"),
    "config.yaml: 10^9 layers": Case(edit_yaml("model", encoder_layers=10**9), "translate", "at most 1000"),
    "config.yaml: max_src_len 10^12": Case(edit_yaml("model", max_src_len=10**12), "translate", "at most 32768"),
    "config.yaml of 10 GB": Case(claim("config.yaml"), "translate", "over 1,000,000 bytes"),
    "run.json of 10 GB": Case(claim("run.json"), "translate", "over 10,000,000 bytes"),
    "run.json nested 200,000 deep": Case(put("run.json", DEEP), "translate", "nested too deeply"),
    "run.json of a newer format": Case(
        lambda run: run.write_json(run.info_file, {"format": FORMAT + 1}), "translate", f"has format {FORMAT + 1}"
    ),
    "run.json of the format 'x'": Case(
        lambda run: run.write_json(run.info_file, {"format": "x"}), "translate", "has format 'x'"
    ),
    "run.json is a pipe": Case(fifo("run.json"), "translate", "neither a file nor a folder"),
    "index.json: best is ../../x": Case(edit_index(best="../../x"), "translate", "not the name of a checkpoint"),
    "index.json: best is /etc/passwd": Case(
        edit_index(best="/etc/passwd"), "translate", "not the name of a checkpoint"
    ),
    "index.json: best is a list": Case(edit_index(best=["x"]), "translate", "best: Input should be a valid string"),
    "index.json: scores are a list": Case(edit_index(checkpoints=[1]), "translate", "checkpoints: Input should be a"),
    "index.json: the scores of int8 are text": Case(
        edit_index(int8={"checkpoint": "step-00000004", "int8_bleu": "x", "fp32_bleu": "x"}),
        "translate",
        "int8.int8_bleu: Input should be a valid number",
    ),
    "index.json of 10 GB": Case(claim("checkpoints/index.json"), "translate", "over 10,000,000 bytes"),
    "index.json nested 200,000 deep": Case(put("checkpoints/index.json", DEEP), "translate", "nested too deeply"),
    "metrics.jsonl of 10 GB": Case(claim("logs/metrics.jsonl"), "plot", "over 200,000,000 bytes"),
    "metrics.jsonl nested 200,000 deep": Case(put("logs/metrics.jsonl", DEEP + b"\n"), "plot", "not a line of JSON"),
    "tokenizer of 10 GB": Case(claim("tokenizer/joint.model"), "translate", "over 100,000,000 bytes"),
    "tokenizer of another size": Case(other_tokenizer, "translate", "tokens, and these weights were trained with"),
    "tokenizer cut short": Case(claim("tokenizer/joint.model", 900), "translate", "SentencePiece"),
    "weights whose header claims 2^60 bytes": Case(
        all_weights((2**60).to_bytes(8, "little") + b"{}"), "translate", "claims 1,152,921,504,606,846,976 bytes"
    ),
    "weights whose header is nested 200,000 deep": Case(
        all_weights(len(DEEP).to_bytes(8, "little") + DEEP), "translate", "header is not readable"
    ),
    "weights of 10 GB of zeros": Case(
        lambda run: [os.truncate(path, HUGE) for path in run.checkpoints.glob("*.safetensors")], "translate", "damaged"
    ),
    "weights without a checksum": Case(
        lambda run: [save_file({}, path) for path in run.checkpoints.glob("*.safetensors")],
        "translate",
        "there is no checksum",
    ),
    "weights whose header holds 1e400": Case(
        all_weights(len(ENDLESS).to_bytes(8, "little") + ENDLESS),
        "translate",
        "header is not readable",
    ),
    "weights with a tensor of another shape": Case(
        other_weights(lambda weights: weights.update({"decoder_norm.weight": torch.ones(17)})),
        "translate",
        "belong to another model: decoder_norm.weight",
    ),
    "weights with a tensor less": Case(
        other_weights(lambda weights: weights.pop("decoder_norm.weight")), "translate", "decoder_norm.weight"
    ),
    "config.yaml is a link out of the run": Case(link("config.yaml", "../x.yaml"), "translate", "a link that points"),
    "the tokenizer is a link out of the run": Case(
        link("tokenizer/joint.model", "../../precious.txt"), "translate", "a link that points"
    ),
    "the checkpoints are a link out of the run": Case(link("checkpoints", ".."), "translate", "a link that points"),
    "the metrics are a link out of the run": Case(
        link("logs/metrics.jsonl", "../../precious.txt"), "resume", "a link that points"
    ),
    "the lock is a link out of the run": Case(link("state/lock", "../../precious.txt"), "resume", "a link that points"),
    "the results of eval are a link out of the run": Case(link("eval", "../.."), "eval", "a link that points"),
    "curves.svg is a link out of the run": Case(link("curves.svg", "../precious.txt"), "plot", "a link that points"),
    "training state: weights of another shape": Case(
        edit_state(lambda state: state.update({"weights.decoder_norm.weight": torch.ones(17)})),
        "resume",
        "weights.decoder_norm.weight: not torch.float32 of shape (16,)",
    ),
    "training state: weights of another type": Case(
        edit_state(lambda state: state.update({"weights.decoder_norm.weight": torch.ones(16).double()})),
        "resume",
        "weights.decoder_norm.weight: not torch.float32 of shape (16,)",
    ),
    "training state: a moment of another shape": Case(
        edit_state(lambda state: state.update({"adam.decoder_norm.weight.exp_avg": torch.ones(3)})),
        "resume",
        "adam.decoder_norm.weight.exp_avg: not torch.float32 of shape (16,)",
    ),
    "training state: a random state of 3 bytes": Case(
        edit_state(lambda state: state.update({"random.0.cpu": torch.zeros(3, dtype=torch.uint8)})),
        "resume",
        "does not fit this run",
    ),
    "training state: the place in the data is text": Case(
        edit_counters(lambda state: state["position"].update({"batch": "x"})), "resume", "position.batch: Input should"
    ),
    "training state: a score that is text": Case(
        edit_counters(lambda state: next(iter(state["history"]["checkpoints"].values())).update({"bleu": "x"})),
        "resume",
        "bleu: Input should be a valid number",
    ),
    "training state: no history": Case(
        edit_counters(lambda state: state.pop("history")), "resume", "history: Field required"
    ),
    "training state: a checkpoint named ../../precious": Case(
        edit_counters(
            lambda state: state["history"]["checkpoints"].update(
                {"../../precious": state["history"]["checkpoints"]["step-00000004"]}
            )
        ),
        "resume",
        "not the name of a checkpoint",
    ),
    "training state of 10 GB": Case(
        lambda run: [os.truncate(path, HUGE) for path in (run.state, run.previous_state)], "resume", "damaged"
    ),
}


def test_a_place_after_the_end_of_the_data_is_its_end(here):
    edit_counters(lambda state: state["position"].update({"pool": 10**6, "batch": 10**6}))(RunDir(here / "run"))
    done = nmt("train", "--resume", "--run", "run", "--config", "x.yaml", "--set", "training.max_updates=6", cwd=here)
    assert done.code == 0, done.text


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_folder_ends_in_one_message(name, here):
    case = CASES[name]
    case.edit(RunDir(here / "run"))
    done = ask(here, case.command)
    assert done.code == 1, done.text
    assert case.word in done.error
    note(f"{name}: {case.command}", here, done)


def test_the_messages_are_those_of_the_snapshot():
    if len(rows) < len(CASES) + 2:
        pytest.skip("not all of the cases ran")
    assert_messages("hostile-folders", rows)
