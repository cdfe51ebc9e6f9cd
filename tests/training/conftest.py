"""Runs that the tests of training share."""

from __future__ import annotations

import shutil

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.training.run import start_run
from tests.tiny import small_config


@pytest.fixture(autouse=True)
def _few_samples(few_samples):
    """Draw few samples for intervals in all tests of training."""


@pytest.fixture(scope="session")
def trained(digits, tmp_path_factory):
    """The folder of a run of twelve updates and of its store."""
    folder = tmp_path_factory.mktemp("trained")
    assert start_run(small_config(digits), folder / "run")
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of that run, which a test may change."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return RunDir(tmp_path / "run")
