"""A new result beside a stored one: ratios over 1 are faster, and what is slower or not comparable is said."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "compare.py"
MACHINE = {"processor": "P", "cores_of_machine": 2, "threads": 2, "python": "3.11", "torch": "2.13.0"}


def row(system: str, median: float, **more: object) -> dict:
    return {"system": system, "precision": "fp32", "median": median, "min": median - 10, "max": median + 10, **more}


def result(factor: float = 1.0, **machine: object) -> dict:
    """A stored result whose program is `factor` times as fast."""
    return {
        "benchmark": "translate",
        "machine": {**MACHINE, **machine},
        "bulk": [row("nmt", 5000 * factor), row("hf-marian", 2500)],
        "forced": [row("nmt", 3000 * factor, length=16), row("nmt", 4000 * factor, length=64)],
        "cold": [row("nmt translate, run", 40 / factor)],
    }


def compare(tmp_path: Path, old: dict, new: dict, *options: str) -> subprocess.CompletedProcess[str]:
    for name, value in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    command = [str(word) for word in (PROGRAM, tmp_path / "new.json", tmp_path / "old.json", *options)]
    output, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(error):
        patch.syspath_prepend(PROGRAM.parent)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(PROGRAM), run_name="__main__")
    code = stop.value.code or 0
    if isinstance(code, str):  # as Python prints it
        error.write(f"{code}\n")
        code = 1
    return subprocess.CompletedProcess(command, code, output.getvalue(), error.getvalue())


def test_a_result_equals_itself(tmp_path):
    done = compare(tmp_path, result(), result(), "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[-3] for line in done.stdout.splitlines()[1:]] == ["1.00"] * 5
    assert "slower" not in done.stdout


def test_rates_and_times_that_are_worse_are_slower(tmp_path):
    done = compare(tmp_path, result(), result(0.8), "--strict")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "warning: bulk, nmt fp32: 20% slower than stored",
        "warning: forced, nmt fp32 16: 20% slower than stored",
        "warning: forced, nmt fp32 64: 20% slower than stored",
        "warning: cold, nmt translate, run fp32: 20% slower than stored",
    ]


@pytest.mark.parametrize(("factor", "warnings"), [(0.96, 0), (0.94, 4), (1.5, 0)])
def test_five_percent_are_no_warning(tmp_path, factor, warnings):
    done = compare(tmp_path, result(), result(factor))
    assert (done.returncode, len(done.stderr.splitlines())) == (0, warnings)


def test_another_machine_is_named(tmp_path):
    done = compare(tmp_path, result(), result(torch="2.12.0", threads=1))
    assert done.stderr.splitlines() == [
        "warning: threads: 2 stored, 1 new",
        "warning: torch: 2.13.0 stored, 2.12.0 new",
    ]


def test_results_without_a_common_figure_are_refused(tmp_path):
    done = compare(tmp_path, result(), {"rows": [row("nmt", 1.0)]})
    assert done.returncode == 2
    assert "have no figure in common" in done.stderr


def test_a_file_that_is_no_result_is_named(tmp_path):
    done = compare(tmp_path, result(), [])
    assert done.returncode == 1
    assert done.stderr.strip().endswith("new.json: not the result of a benchmark; write one with --json")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_result_names_its_command_and_machine(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["command"].startswith(f"python benchmarks/{stored['benchmark']}.py")
    assert (ROOT / "benchmarks" / f"{stored['benchmark']}.py").is_file()
    assert {"processor", "threads", "python", "torch", "date"} <= stored["machine"].keys()
    assert any(stored.get(name) for name in ("rows", "bulk", "single", "forced", "cold", "file"))
