"""The commands as a person types them: what they print where, and how they end."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt import __version__
from nmt.apps import cli
from nmt.apps.cli import COMMANDS, ConsoleHandler, app, main
from tests.command_line import nmt
from tests.reliability import running
from tests.tiny import MODEL, SMALL, tiny_values


@pytest.fixture(scope="module")
def work(digits, tmp_path_factory) -> Path:
    """A folder with a configuration, and runs/digits trained from it by the command line."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "digits.yaml").write_text(yaml.safe_dump(tiny_values(digits, model=MODEL | SMALL)))
    done = nmt("train", "--config", "digits.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "corpus: 240 training pairs" in done.stderr
    assert "update 12/12" in done.stderr
    assert "nmt translate --model runs/digits" in done.stderr
    return folder


@pytest.mark.parametrize(
    "command", [("translate", "--lines"), ("translate", "--engine"), ("eval", "--split"), ("config", "new", "--for")]
)
def test_a_choice_that_does_not_exist_is_told_with_those_that_do(command):
    refused = nmt(*command, "other")
    assert refused.returncode == 2
    assert "Value error" not in refused.stderr


def test_the_commands_for_a_finished_run_can_be_pasted_into_a_shell(work):
    run = "runs/M\u00fcller & S\u00f6hne"
    done = nmt("train", "--config", "digits.yaml", "--run", run, "--set", "training.max_updates=4", cwd=work)
    os.utime(work / "runs/digits/checkpoints/index.json")
    assert f"  nmt translate --model '{run}' 'text'\n  nmt eval --model '{run}' --details\n" in done.stderr
    assert re.search(r"\nvalidation BLEU \d+\.\d\d \(fp32\): \w.* rule of thumb", done.stderr)
    assert f"nmt translate --model '{run}' \"text\"" in (work / run / "README.md").read_text(encoding="utf-8")


def test_every_command_prints_its_help_without_torch():
    check = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; from typer.testing import CliRunner\n"
        "from nmt.apps.cli import all_commands, app\n"
        "for command in ['', 'config', *(name for name, _ in all_commands())]:\n"
        "    for flag in ('-h', '--help'):\n"
        "        done = CliRunner().invoke(app, [*command.split(), flag])\n"
        "        assert not done.exit_code and 'Usage: ' in done.output, (command, done.output)\n"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_version_is_printed():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"nmt {__version__}\n")


def test_the_list_of_commands_cuts_no_sentence():
    lines = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    rows = lines[lines.index("Commands:") + 1 :]
    assert len(rows) == len(COMMANDS)
    assert all(row.endswith(".") and not row.endswith("...") for row in rows), rows


def test_a_shell_can_complete_commands():
    done = nmt("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert "_NMT_COMPLETE" in done.stdout or "complete" in done.stdout


def test_only_training_cares_how_processes_are_launched(digits_run):
    done = nmt("translate", "-m", digits_run, "12", WORLD_SIZE="abc", RANK="x", LOCAL_RANK="-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "21\n", "")


def test_a_name_that_is_not_utf8_and_a_control_character_are_logged_as_escapes(capsys):
    handler = ConsoleHandler()
    handler.emit(logging.LogRecord("nmt", logging.WARNING, "", 0, "\udcff/\x1b[2J: 你好\n\tnext", None, None))
    assert capsys.readouterr().err == "warning: \\udcff/\\x1b[2J: 你好\n\tnext\n"


def test_training_again_is_refused_and_says_what_to_do(work):
    done = nmt("train", "--config", "digits.yaml", cwd=work)
    assert done.returncode == 1
    assert done.stderr == (
        "error: runs/digits: this run already exists\n"
        "  continue it with --resume, replace it with --overwrite, or choose another folder with --run\n"
    )


def test_a_missing_config_is_a_usage_error(work):
    done = nmt("train", cwd=work)
    assert (done.returncode, done.stdout) == (2, "")


def test_text_arguments_are_translated_one_a_line_by_the_newest_run(work):
    done = nmt("translate", "123", "", "45", cwd=work)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 3
    assert done.stdout.split("\n")[1] == ""
    assert done.stderr == "model: runs/digits\n"


def test_json_lines_on_standard_input_are_refused_with_what_reads_them(digits_run):
    done = nmt("translate", "--model", digits_run, stdin=b'{"id": 1, "src": "12"}\n')
    assert (done.returncode, done.stdout) == (1, "")
    assert "standard input:1: this is JSON, not text" in done.stderr
    assert "--input FILE.jsonl" in done.stderr
    assert nmt("translate", "--model", digits_run, stdin=b"{12}\n").returncode == 0


def test_standard_input_gives_as_many_lines_out_and_names_broken_ones(digits_run):
    text = b"\xef\xbb\xbf12\r\n\n\xff3\n" + b"1" * 50 + b"\n4"
    done = nmt("translate", "--set", "decoding.split=never", "--model", digits_run, stdin=text)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 5
    assert done.stdout.splitlines()[:2] == ["21", ""]
    assert "warning: standard input:3: not valid UTF-8; the broken bytes are replaced" in done.stderr
    assert "warning: line 4: longer than the model's limit: its end is not translated" in done.stderr


def test_the_model_is_named_by_the_environment_too(digits_run):
    done = nmt("translate", "123", NMT_MODEL=str(digits_run))
    assert done.stdout == "321\n"


def test_a_file_is_translated_into_a_file(digits_run, tmp_path):
    (tmp_path / "in.txt").write_text("12\n\n34\n")
    done = nmt("translate", "-m", digits_run, "--input", "in.txt", "--output", "out.txt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out.txt").read_text() == "21\n\n43\n"


def test_jsonl_gives_text_score_and_tokens(digits_run):
    row = json.loads(nmt("translate", "-m", digits_run, "--format", "jsonl", "123").stdout)
    assert row["text"] == "321"
    assert row["score"] < 0
    assert [token for token in row["tokens"] if token != "▁"] == ["3", "2", "1"]
    assert not row["truncated"]


def test_attention_is_drawn_with_the_tokens_on_its_axes(digits_run, tmp_path):
    done = nmt("translate", "-m", digits_run, "--attention", tmp_path / "a.svg", "123")
    assert done.stdout == "321\n"
    assert f"attention: {tmp_path / 'a.svg'}" in done.stderr
    assert "</s>" in (tmp_path / "a.svg").read_text().replace("&lt;", "<").replace("&gt;", ">")


def test_learning_curves_are_drawn(work):
    done = nmt("plot", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "BLEU" in (work / "runs/digits/curves.svg").read_text()


def test_a_vocabulary_is_trained_alone_and_used(work):
    assert nmt("vocab", "--config", "digits.yaml", "--output", "v", cwd=work).returncode == 0
    extra = ["--set", "tokenizer.path=v", "--set", "training.max_updates=4", "--run", "runs/other"]
    assert nmt("train", "--config", "digits.yaml", *extra, cwd=work).returncode == 0
    assert (work / "v/joint.model").read_bytes() == (work / "runs/other/tokenizer/joint.model").read_bytes()
    os.utime(work / "runs/digits/checkpoints/index.json")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs the command in a forked process")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_save_say_how_to_go_on_and_resume_goes_on(work, number, code):
    run = f"runs/stopped{code}"
    endless = ["--config", "digits.yaml", "--run", run, "--set", "training.max_updates=100000"]

    class Stop(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("update 2/"):
                os.kill(os.getpid(), number)

    done = running.nmt("train", *endless, cwd=work, before=lambda: logging.getLogger("nmt").addHandler(Stop()))
    assert done.code == code
    assert done.text.endswith(f"stopped; the state is saved. Resume with: nmt train --resume --run {run}\n")
    resumed = nmt("train", "--resume", "--run", run, "--set", "training.max_updates=12", cwd=work)
    assert resumed.returncode == 0, resumed.stderr
    assert f"resuming {run} after update" in resumed.stderr
    os.utime(work / "runs/digits/checkpoints/index.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["translate", "x", "--model", "nowhere"],
            "error: nowhere: no such run\n  give a run folder from `nmt train`, or a file from `nmt pack`\n",
        ),
        (
            ["translate", "x"],
            "error: no trained run under ./runs\n  train one (`nmt train --config configs/demo-en-zh.yaml`), "
            "or choose one with --model or $NMT_MODEL\n",
        ),
        (["train", "--config", "no.yaml"], "no.yaml"),
        (
            ["train", "--resume", "--run", "nowhere", "--set", "training.max_updates=12"],
            "error: nowhere: there is no run to resume\n  start it without --resume\n",
        ),
    ],
)
def test_a_wrong_name_gives_one_message_and_exit_code_1(arguments, message, tmp_path):
    done = nmt(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_ends_quietly(digits_run):
    command = f"set -o pipefail; {sys.executable} -m nmt translate -m {digits_run} 12 34 | head -n 0"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_pipe_is_written_to_not_replaced(digits_run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    assert nmt("translate", "-m", digits_run, "--output", pipe, "12").returncode == 0
    assert reader.communicate()[0] == "21\n"
    assert pipe.is_fifo()


def test_a_picture_of_another_kind_is_refused_before_anything_is_computed(digits_run):
    done = nmt("translate", "-m", digits_run, "--attention", "a.pdf", "12")
    assert (done.returncode, done.stdout) == (1, "")
    assert "plots are written as .svg" in done.stderr


def test_a_place_that_cannot_be_written_to_is_one_message(digits_run, tmp_path):
    (tmp_path / "file").write_text("")
    done = nmt("translate", "-m", digits_run, "--output", tmp_path / "file" / "out.txt", "12")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path / 'file'}")
    assert "Traceback" not in done.stderr


STOPPED_IN_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Finder())
from nmt.__main__ import main
main()
"""
STOPPED_IN_TYPER = """
import os, typer.main
from nmt.__main__ import main

typer.main.get_command = lambda *_: os.kill(os.getpid(), {number})
main()
"""
STOPPED_WITH_PROCESSES = """
import os
from concurrent.futures import ProcessPoolExecutor
from nmt.__main__ import main
from nmt.data.check import stream

submit = ProcessPoolExecutor.submit

def stopping(*arguments):
    future = submit(*arguments)
    os.kill({process}, {number})
    return future

if __name__ == "__main__":
    stream._CHUNKS_ALONE = 0  # without them, ten times as many lines would be read before there are processes
    ProcessPoolExecutor.submit = stopping
    main()
"""


def stopped(script: str, *arguments: str, cwd: Path) -> tuple[int, str]:
    """The exit code and what is printed to standard error by a command, in a session of its own, that stops itself."""
    (cwd / "stops.py").write_text(script)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "stops.py", *arguments]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, start_new_session=True)
    return done.returncode, done.stderr


UNIX = pytest.mark.skipif(os.name == "nt", reason="sends signals")


@UNIX
@pytest.mark.parametrize(
    ("module", "number", "code"),
    [
        ("typer", int(signal.SIGTERM), 143),
        ("pydantic", int(signal.SIGTERM), 143),
        ("nmt.apps.commands.info", int(signal.SIGINT), 130),
        ("nmt.apps.interop.describe", int(signal.SIGTERM), 143),
        ("torch", int(signal.SIGINT), 130),
    ],
)
def test_a_signal_while_modules_are_imported_ends_in_one_line(digits_run, tmp_path, module, number, code):
    arguments = ["export", "hf", str(digits_run), "out"] if module == "torch" else ["info", str(digits_run)]
    script = STOPPED_IN_IMPORT.format(module=module, number=number)
    assert stopped(script, *arguments, cwd=tmp_path) == (code, "stopped\n")


@UNIX
def test_a_signal_before_the_command_is_known_ends_in_one_line(tmp_path):
    script = STOPPED_IN_TYPER.format(number=int(signal.SIGINT))
    assert stopped(script, "info", cwd=tmp_path) == (130, "stopped\n")


@UNIX
@pytest.mark.parametrize(
    ("command", "process", "number", "code"),
    [
        ("check", "-os.getpgrp()", int(signal.SIGINT), 130),
        pytest.param("clean", "os.getpid()", int(signal.SIGTERM), 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_a_corpus_is_checked_by_processes_ends_in_one_line(tmp_path, command, process, number, code):
    (tmp_path / "a.tsv").write_text("".join(f"{n} a b c\t{n} d e f\n" for n in range(10_000)))
    output = ["-o", "kept.tsv"] if command == "clean" else []
    languages = ["--src-lang", "en", "--tgt-lang", "de"]
    arguments = ["data", command, "--corpus", "a.tsv", *languages, "--set", "training.threads=2", *output]
    script = STOPPED_WITH_PROCESSES.format(process=process, number=number)
    assert stopped(script, *arguments, cwd=tmp_path) == (code, "stopped\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "stops.py"]


def test_a_lack_of_memory_while_modules_are_imported_is_one_message(tmp_path):
    script = STOPPED_IN_IMPORT.replace("os.kill(os.getpid(), {number})", "raise MemoryError")
    expected = (1, "error: there is not enough memory\n")
    assert stopped(script.format(module="typer"), "info", cwd=tmp_path) == expected


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("can't start new thread"),
        SystemError("error return without exception set"),
    ],
)
def test_a_lack_of_memory_is_one_message(error, monkeypatch, capsys):
    def fail() -> None:
        raise error

    monkeypatch.setattr("nmt.apps.cli.app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: there is not enough memory\n  close other programs, or raise")


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_a_command_in_a_limit_of_memory_ends_in_one_message(work):
    command = f"ulimit -v 300000; exec {sys.executable} -m nmt train -c digits.yaml --run small"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(["bash", "-c", command], cwd=work, env=env, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.count("error: there is not enough memory\n") == 1


@pytest.mark.parametrize(
    ("modules", "later"),
    [
        ("nmt.apps.commands.evaluate, nmt.evaluation.evaluation", {"numpy", "sacrebleu"}),
        ("nmt.apps.commands.data, nmt.data.check.profile", {"numpy", "multiprocessing"}),
    ],
)
def test_commands_import_what_they_need_last_only_after_their_first_work(modules, later):
    code = f"import sys, nmt.apps.cli, {modules}; print({later!r} & set(sys.modules) or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_copy_that_fails_names_the_file_that_is_written(monkeypatch):
    def copy():
        raise OSError(errno.EFBIG, "File too large", "read", None, "written")

    monkeypatch.setattr(cli, "app", copy)
    assert nmt("export").stderr == (
        "error: written: File too large\n"
        "  choose a path on another disk, or raise the limit (`ulimit -f` shows the one of the shell)\n"
    )
