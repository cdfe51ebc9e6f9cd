"""The files in deploy/ fit each other and the project; the slow test builds and serves what the image holds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from nmt.apps.cli import all_commands
from nmt.apps.server.run import GRACE_SECONDS
from scripts.check_container import DOCKERFILE, ROOT, read_steps, requirements

STEPS = read_steps(DOCKERFILE.read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
UNIT = (ROOT / "deploy/nmt.service").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    in_unit = shlex.split(re.search(r"^ExecStart=((?:.*\\\n)*.*)$", UNIT, re.MULTILINE)[1])
    in_compose = [word for each in COMPOSE["services"]["nmt"]["command"] for word in each.split("=", 1)]
    return [STEPS.command, ["nmt", *in_compose], ["nmt", *in_unit[1:]]]


@pytest.mark.parametrize("command", commands(), ids=["Dockerfile", "compose", "systemd"])
def test_the_command_of_the_server_is_one_that_nmt_has(command):
    serve = dict(all_commands())["serve"]
    known = {name for parameter in serve.params for name in parameter.opts}
    assert command[:2] == ["nmt", "serve"]
    assert {word for word in command if word.startswith("--")} <= known
    assert command[command.index("--precision") + 1] == "int8"


def test_the_image_runs_as_a_user_and_holds_extras_of_the_project():
    assert STEPS.user > 0
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(STEPS.extras.split(",")) <= set(extras)
    assert not [each for each in requirements(STEPS.extras) if each.startswith("torch")]


def test_every_file_that_the_image_copies_exists_and_is_sent_to_the_builder():
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert names
    assert all((ROOT / name).exists() and f"!{name}" in sent for name in names)


def test_compose_and_systemd_wait_longer_than_the_grace_of_the_server():
    assert int(COMPOSE["services"]["nmt"]["stop_grace_period"].removesuffix("s")) > GRACE_SECONDS
    assert int(re.search("^TimeoutStopSec=([0-9]+)$", UNIT, re.MULTILINE)[1]) > GRACE_SECONDS


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the image is one of Linux")
def test_what_the_image_holds_is_small_and_serves(tmp_path):
    command = [sys.executable, str(Path(ROOT, "scripts/check_container.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stopped by SIGTERM with exit code 0" in done.stdout
