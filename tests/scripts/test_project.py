"""What stands in more than one file agrees: the version, Python versions, the targets of make, the machines of CI."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import nmt

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_the_version_has_one_home():
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == nmt.__version__
    headings = re.findall(r"^## \[.*$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert nmt.__version__ in headings[0]


def test_ci_runs_every_python_that_the_metadata_names():
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.fullmatch(r".*Python :: 3\.\d+", name)]
    assert yaml.safe_load(WORKFLOWS["ci"])["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    lowest, highest = named[0], named[-1]
    after = f"3.{int(highest.split('.')[1]) + 1}"
    assert PROJECT["requires-python"] == f">={lowest},<{after}"


def test_the_nightly_tests_run_on_every_machine_of_the_script():
    spec = importlib.util.spec_from_file_location("machines", ROOT / "scripts" / "machines.py")
    machines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(machines)
    matrix = yaml.safe_load(WORKFLOWS["nightly"])["jobs"]["emulated-machines"]["strategy"]["matrix"]
    assert matrix["machine"] == list(machines.MACHINES)


def test_every_make_target_that_a_page_or_ci_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/workflows/*.yml")]
    named = {
        name
        for file in files
        for name in re.findall(
            r"(?:`|run: |\$ |^(?=make [a-z-]+ +#))make ([a-z-]+)", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert {"check", "test", "docs"} <= named <= targets


def test_the_constraints_pin_every_package_that_is_asked_for():
    normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()  # noqa: E731
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line}
    extras = {
        k: v for k, v in PROJECT["optional-dependencies"].items() if k not in ("cjk-eval", "web")
    }  # `make setup` leaves them out
    asked = [*PROJECT["dependencies"], *(name for group in extras.values() for name in group)]
    assert {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in asked} <= pinned


def test_every_package_that_nmt_imports_is_asked_for():
    with_another = {
        "yaml": "pyyaml",
        "markdown_it": "markdown-it-py",
        "annotated_types": "pydantic",
        "pydantic_core": "pydantic",
        "typing_extensions": "pydantic",
        "prometheus_client": "prometheus-client",
        "huggingface_hub": "huggingface-hub",
        "language_data": "langcodes",  # langcodes[data]
    }  # import: distribution
    imported = set()
    for path in (ROOT / "nmt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
                imported |= {each.value.partition(".")[0] for each in node.args[1:2] if isinstance(each, ast.Constant)}
    elsewhere = {"triton"}  # with torch
    names = imported - set(sys.stdlib_module_names) - {"nmt"} - elsewhere
    foreign = {with_another.get(name, name) for name in names}
    extras = (
        "ctranslate2",
        "documents",
        "hub",
        "langid",
        "mbr",
        "serve",
        "teacher",
        "tm",
        "train",
        "web",
        "xlsx",
    )
    asked = [*PROJECT["dependencies"], *(r for extra in extras for r in EXTRAS[extra])]
    through_others = {"httptools", "python-multipart", "uvloop"}  # uvicorn and starlette use them
    assert foreign == {re.match(r"[\w-]+", requirement)[0] for requirement in asked} - through_others


@pytest.mark.skipif(not ((ROOT / ".git").exists() and shutil.which("git")), reason="needs a checkout")
def test_the_package_has_only_files_that_were_written_for_it():
    """Such as no scores: `nmt eval` saves those of a packed model beside it."""
    listed = subprocess.run(["git", "ls-files", "nmt"], cwd=ROOT, capture_output=True, text=True, check=True)
    sources = {".c", ".css", ".h", ".html", ".js", ".py", ".pyi", ".svg", ".toml", ".ts", ".txt", ".webmanifest"}
    others = {name for name in listed.stdout.split() if Path(name).suffix not in sources}
    assert others == {"nmt/artifacts/digits.nmt", "nmt/py.typed"}
