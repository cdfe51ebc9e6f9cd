"""`nmt synthesize --teacher`: a language model behind HTTP writes the pairs, and may fail in many ways."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.recipes import language_model
from nmt.base.errors import NmtError
from tests.chat_stand_in import KEY, backwards, running_chat
from tests.words import WORDS, write_words

ROOT = Path(__file__).parents[3]


def sentences(count: int, seed: int = 11) -> list[str]:
    draw = random.Random(seed)
    return list(dict.fromkeys(" ".join(draw.choices(WORDS, k=5)) + "." for _ in range(count)))


LINES = sentences(40)


@pytest.fixture
def chat(tmp_path, monkeypatch):
    monkeypatch.delenv(language_model.KEY_VARIABLE, raising=False)
    # A folder without certificates: reading those of all authorities takes each client 70 ms, and nobody uses TLS.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)  # which would come first
    with running_chat() as server:
        yield server


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder: the file mono, and a configuration of a model of languages that langid does not know."""
    monkeypatch.chdir(tmp_path)
    write_words(tmp_path, num_train=30)
    data = {"src_lang": "bam", "tgt_lang": "ewe", "train": {"tsv": "train.tsv"}, "holdout_size": 5}
    Path("my.yaml").write_text(yaml.safe_dump({"data": data}))
    Path("mono").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path


def synthesize(chat, *arguments: str, code: int = 0) -> str:
    options = ("--teacher", chat if isinstance(chat, str) else chat.url, "-c", "my.yaml", "-i", "mono")
    done = CliRunner().invoke(app, ["synthesize", *options, *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def write_few_lines() -> None:
    """For tests in which the number of requests proves nothing."""
    Path("mono").write_text("".join(f"{line}\n" for line in LINES[:6]))


def pairs(name: str) -> list[list[str]]:
    return [line.split("\t") for line in Path(name).read_text().splitlines()[1:]]


def test_a_language_model_writes_sources_or_targets_for_the_model_to_train(folder, chat, messages):
    write_few_lines()
    synthesize(chat, "-o", "back.tsv", "--examples", "2")
    synthesize(chat, "-o", "forward.tsv", "--forward", "--examples", "0", "--model", "backwards")
    assert pairs("back.tsv") == [[backwards(line), line] for line in LINES[:6]]
    assert pairs("forward.tsv") == [[line, backwards(line)] for line in LINES[:6]]
    with_examples, without = chat.bodies[0]["messages"], chat.bodies[-1]["messages"]
    assert [turn["role"] for turn in with_examples] == ["user", "assistant", "user", "assistant", "user"]
    told = "Translate from Ewe into Bambara. Answer with the translation alone, on one line.\n\n"
    assert with_examples[0]["content"].startswith(told)
    corpus = [line.split("\t") for line in Path("train.tsv").read_text().splitlines()]
    first = [with_examples[0]["content"].removeprefix(told), with_examples[1]["content"]]
    assert first[::-1] in corpus  # the other way round: from ewe into bam
    assert without[0] == {
        "role": "system",
        "content": told.replace("Ewe into Bambara", "Bambara into Ewe").strip(),
    }
    assert "kept 6 of 6 pairs from 6 lines" in messages
    assert any("tag: <bt>" in line for line in messages)
    assert any("tag: <st>" in line for line in messages)


def test_requests_are_sent_at_the_same_time_and_answers_keep_the_order(folder, chat):
    chat.faults = {line: ["500"] * draw for line, draw in zip(LINES, [3, 0, 1, 2] * 10, strict=True)}
    barrier = threading.Barrier(5)
    fault = chat.fault

    def together(text: str) -> str:
        if text in LINES[:5] and chat.asked[text] == 1:
            barrier.wait(60)
        return fault(text)

    chat.fault = together
    synthesize(chat, "-o", "out.tsv", "--requests", "5")
    assert pairs("out.tsv") == [[backwards(line), line] for line in LINES]


def test_a_request_that_fails_is_sent_again(folder, chat):
    kinds = ["429", "500", "503", "cut", "json", "html", "form"]
    chat.faults = {line: [kind] for line, kind in zip(LINES, kinds, strict=False)} | {LINES[20]: ["500"] * 6}
    synthesize(chat, "-o", "out.tsv", "--requests", "4")
    assert pairs("out.tsv") == [[backwards(line), line] for line in LINES]
    assert [chat.asked[line] for line in LINES[: len(kinds)]] == [2] * len(kinds)
    assert chat.asked[LINES[20]] == 7


def test_a_request_without_a_reply_is_sent_again(folder, chat, monkeypatch):
    monkeypatch.setattr(language_model, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(language_model, "MAX_RETRIES", 100)  # on a busy machine, others may also take longer
    chat.faults = {LINES[3]: ["hang"]}
    write_few_lines()
    synthesize(chat, "-o", "out.tsv")
    assert pairs("out.tsv") == [[backwards(line), line] for line in LINES[:6]]
    assert chat.asked[LINES[3]] >= 2


def test_answers_that_are_no_translation_are_counted_and_left_out(folder, chat, messages):
    kinds = [
        "refuse",
        "filter",
        "400",
        "copy",
        "explain",
        "preamble",
        "empty",
        "null",
        "script",
        "loop",
        "length",
        "long",
    ]
    chat.faults = {line: [f"{kind}*"] for line, kind in zip(LINES, kinds, strict=False)}
    chat.faults |= {LINES[30]: ["quote"], LINES[31]: ["think"]}
    synthesize(chat, "-o", "out.tsv")
    assert pairs("out.tsv") == [[backwards(line), line] for line in LINES[len(kinds) :]]
    counts = "3 refused, 3 explained, 2 empty, 1 unfinished, 1 looped, 1 copied, 1 wrong_language"
    assert f"kept 28 of 40 pairs from 40 lines; dropped: {counts}" in messages
    synthesize(chat, "-o", "all.tsv", "--allow", "explained", "--allow", "copied", "--allow", "length_ratio")
    assert len(pairs("all.tsv")) == 32


def test_the_address_and_the_key_of_openais_own_variables_are_not_used(folder, chat, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"http://127.0.0.1:1/{KEY}")
    write_few_lines()
    synthesize(chat, "-o", "out.tsv")
    assert len(pairs("out.tsv")) == 6
    assert not any(KEY in str(headers) for headers in chat.headers)


def test_a_line_that_always_fails_is_counted_if_others_are_answered(folder, chat, messages):
    Path("mono").write_text("".join(f"{line}\n" for line in LINES[:3]))
    chat.faults = {LINES[0]: ["500*"]}
    fault, attempts = chat.fault, language_model.ROUNDS * (1 + language_model.MAX_RETRIES)

    def in_turns(text: str) -> str:
        waits = {LINES[0]: LINES[2], LINES[1]: LINES[0]}  # the third is sent when the second has been answered
        if text == LINES[1] or (text == LINES[0] and chat.asked[text] == attempts):
            enough = attempts if text == LINES[1] else 1
            while chat.asked[waits[text]] < enough:
                time.sleep(0.001)
        return fault(text)

    chat.fault = in_turns
    synthesize(chat, "-o", "out.tsv", "--requests", "2", "--allow", "length_ratio")
    assert pairs("out.tsv") == [[backwards(line), line] for line in LINES[1:3]]
    assert "kept 2 of 3 pairs from 3 lines; dropped: 1 failed" in messages


def test_a_server_that_stops_answering_ends_the_command_which_is_resumed(folder, chat):
    synthesize(chat, "-o", "whole.jsonl")
    chat.asked.clear()
    chat.faults = {line: ["502*"] for line in LINES[25:]}
    with pytest.raises(NmtError, match="line 26: HTTP 502: overloaded"):
        synthesize(chat, "-o", "out.jsonl", "--requests", "1")
    assert len(Path("out.jsonl.partial").read_text().splitlines()) == 25
    chat.faults = {}
    chat.models.append("forwards")
    with pytest.raises(NmtError, match="was written with teacher backwards, not forwards"):
        synthesize(chat, "-o", "out.jsonl", "--resume", "--model", "forwards")
    with pytest.raises(NmtError, match="was written with prompt"):
        synthesize(chat, "-o", "out.jsonl", "--resume", "--examples", "3", "--model", "backwards")
    synthesize(chat, "-o", "out.jsonl", "--resume", "--requests", "3", "--model", "backwards")
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    assert all(chat.asked[line] == 1 for line in LINES[:25])
    records = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert records[3] == {"src": backwards(LINES[3]), "tgt": LINES[3], "score": None, "line": 4}


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.slow
def test_a_killed_command_is_resumed_without_a_lost_or_doubled_line(folder, chat):
    synthesize(chat, "-o", "whole.tsv")
    chat.asked.clear()
    command = [sys.executable, "-m", "nmt", "synthesize", "--teacher", chat.url, "-c", "my.yaml", "-i", "mono"]
    partial = folder / "killed.tsv.partial"
    for number, least in enumerate((1, 12)):
        arguments = ["-o", "killed.tsv", "--requests", "2", *(["--resume"] if number else [])]
        hold = LINES[least + 3]
        chat.faults = {hold: ["hang"]}  # until it is asked for again, after the kill
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen([*command, *arguments], env=environment, stderr=subprocess.DEVNULL) as process:
            while not (partial.exists() and partial.read_bytes().count(b"\n") >= least):
                assert process.poll() is None
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            assert process.wait(60) == -signal.SIGKILL
    chat.faults = {}
    synthesize(chat, "-o", "killed.tsv", "--resume")
    assert Path("killed.tsv").read_bytes() == Path("whole.tsv").read_bytes()
    assert chat.asked[LINES[0]] == 1  # what was written is not asked for again


@pytest.mark.parametrize("parameter", ["max_tokens", "temperature"])
def test_a_parameter_that_the_model_does_not_take_is_left_out(folder, chat, parameter):
    chat.unknown_parameters = {parameter}
    write_few_lines()
    synthesize(chat, "-o", "out.tsv")
    assert len(pairs("out.tsv")) == 6
    assert {"max_tokens", "temperature"} - chat.bodies[0].keys() == {parameter}


def test_sampling_asks_for_several_answers_with_a_seed_for_each_line(folder, chat):
    settings = ("--set", "decoding.temperature=0.7", "--set", "decoding.top_p=0.9", "--set", "decoding.seed=5")
    options = ("--set", "decoding.sample=true", "--n-best", "2", *settings)
    write_few_lines()
    synthesize(chat, "-o", "out.tsv", *options)
    wanted = {"n": 2, "temperature": 0.7, "top_p": 0.9}
    assert all(wanted.items() <= body.items() for body in chat.bodies)
    assert sorted(body["seed"] for body in chat.bodies[1:]) == list(range(6, 12))
    assert len(pairs("out.tsv")) == 6  # the second answer is a duplicate


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(folder, chat, monkeypatch, messages):
    chat.key = KEY
    hint = "put the server's key in the environment variable NMT_TEACHER_KEY"
    with pytest.raises(NmtError, match=hint):
        synthesize(chat, "-o", "out.tsv")
    monkeypatch.setenv("NMT_TEACHER_KEY", "wrong-key-of-somebody")
    with pytest.raises(NmtError, match="check the server's key") as caught:
        synthesize(chat, "-o", "out.tsv", "--model", "backwards")
    assert "wrong-key" not in str(caught.value)
    monkeypatch.setenv("NMT_TEACHER_KEY", KEY)
    chat.faults = {LINES[9]: ["500*"]}
    with pytest.raises(NmtError):
        synthesize(chat, "-o", "out.tsv", "--requests", "1")
    kept = [path.read_text() for path in folder.iterdir() if path.is_file()]
    assert not any(KEY in text for text in (*kept, *messages))
    chat.faults = {}
    synthesize(chat, "-o", "out.tsv", "--resume")
    assert len(pairs("out.tsv")) == 40


def test_a_wrong_address_or_model_is_one_message_and_nothing_is_written(folder, chat):
    chat.models.append("other")
    wrong = {
        ("http://127.0.0.1:1",): r"http://127\.0\.0\.1:1/v1: cannot be reached \(Connection refused\)",
        (f"{chat.url}/v2",): "/v2: HTTP 404: Not Found",
        ("ftp://a.b/v1",): "--teacher is not the URL of a server",
        ("http://[::1",): "--teacher is not the URL of a server",
        ("http://localhost:99999",): "--teacher is not the URL of a server",
        ("https://user:pass@localhost",): "--teacher is not the URL of a server",
        (chat.url,): "the server has backwards and other\n  choose one with --model",
        (chat.url, "--model", "gpt"): "HTTP 404: The model gpt does not exist.\n  check --teacher and --model gpt",
    }
    for (url, *options), message in wrong.items():
        with pytest.raises(NmtError, match=message):
            synthesize(url, "-o", "out.tsv", *options)
    assert not list(folder.glob("out*"))


def test_the_key_is_not_sent_to_where_the_server_redirects(folder, chat, monkeypatch):
    monkeypatch.setenv("NMT_TEACHER_KEY", KEY)
    with running_chat() as other:
        chat.location, other.key = f"{other.url}/v1/models", KEY
        with pytest.raises(NmtError, match="HTTP 401: Incorrect key provided: None"):
            synthesize(chat, "-o", "out.tsv", "--model", "backwards")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "3"], "--teacher cannot be used with --beam"),
        (["--set", "decoding.min_len=2"], "--teacher cannot be used with --set"),
        (["--keep", "0.5"], "--teacher cannot be used with --keep"),
        (["--device", "cpu"], "--teacher cannot be used with --device"),
    ],
)
def test_options_of_our_own_models_are_refused(folder, chat, options, message):
    assert message in " ".join(synthesize(chat, "-o", "out.tsv", *options, code=2).split())


def test_a_teacher_needs_the_configuration_of_the_model_to_train(folder, chat):
    done = CliRunner().invoke(app, ["synthesize", "--teacher", chat.url, "-i", "mono", "-o", "out.tsv"])
    assert done.exit_code == 2
    assert "--teacher needs --config: the model to train has the languages" in " ".join(done.output.split())


def test_a_model_of_several_directions_needs_a_language(folder, chat):
    config = yaml.safe_load(Path("my.yaml").read_text())
    reverse = {"tsv": "train.tsv", "columns": [2, 1], "src_lang": "ewe", "tgt_lang": "bam"}
    config["data"]["train"] = [{"tsv": "train.tsv"}, reverse]
    write_few_lines()
    Path("my.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(NmtError, match="translates into bam and ewe; choose one"):
        synthesize(chat, "-o", "out.tsv")
    synthesize(chat, "-o", "out.tsv", "--to", "bam")
    assert chat.bodies[-1]["messages"][0]["content"].startswith("Translate from Ewe into Bambara.")
