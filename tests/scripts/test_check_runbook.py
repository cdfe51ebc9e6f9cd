"""The commands of the page on running a server, as far as they can be read without running them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from scripts.check_runbook import PAGE, ROOT, commands

TEXT = PAGE.read_text(encoding="utf-8")
UNIT = ROOT / "deploy" / "nmt.service"
unix = pytest.mark.skipif(sys.platform == "win32", reason="a page for Linux")


def test_every_command_of_the_page_is_found_with_what_it_prints():
    found = commands(TEXT)
    assert len(found) == len(re.findall(r"^\$ ", TEXT, re.MULTILINE)) > 20
    assert [command.printed for command in found if "/health" in command.text] == [['{"status":"ok"}']] * 7
    assert commands("```console\n$ a \\\n    b\nc\n```\n\n```\n$ d\n```\n") == [("a     b", ["c"])]


@unix
@pytest.mark.parametrize("command", [command.text for command in commands(TEXT)])
def test_a_command_of_the_page_is_one_that_bash_can_read(command):
    subprocess.run(["bash", "-n", "-c", command], check=True)


@unix
def test_the_second_instance_has_all_options_of_the_first_above_all_its_keys():
    (edit,) = [command.text.partition(" | ")[0] for command in commands(TEXT) if command.text.startswith("sed ")]
    *words, _ = shlex.split(edit)
    second = subprocess.run([*words, UNIT], check=True, capture_output=True, text=True).stdout
    of_first = UNIT.read_text(encoding="utf-8").replace(
        "/opt/nmt/bin/nmt serve", "/opt/nmt-2/bin/nmt serve --port 5001"
    )
    assert second == of_first
    assert "--api-keys" in second


def test_the_page_installs_the_same_extras_each_time():
    installed = re.findall(r"pip install \"\.\[(.*)\]\"", TEXT)
    assert len(installed) == 2
    assert len(set(installed)) == 1


def test_the_metrics_to_watch_are_those_of_a_server():
    from prometheus_client import generate_latest

    from nmt.apps.server.metrics import Metrics

    watched = re.findall(r"`((?:nmt|process)_\w+)`", TEXT.partition("**What to watch**")[2])
    known = generate_latest(Metrics().registry).decode()
    missing = [name for name in watched if not re.search(rf"^# TYPE {name} ", known, re.MULTILINE)]
    assert len(watched) == 5
    assert [name for name in missing if not (name.startswith("process_") and sys.platform != "linux")] == []
