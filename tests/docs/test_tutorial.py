"""The code blocks of the tutorial run, in the order of its pages, and print what the pages say."""

from __future__ import annotations

import code
import contextlib
import functools
import importlib
import io
import re
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch

from scripts.structure import keys

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "docs" / "tutorials" / "transformer"
PAGES = sorted(CHAPTER.glob("[0-9]*.md"))
BLOCK = re.compile(r"^```(python|text)( [^\n]*)?\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return (language, title, text) of each Python block and each block of printed text."""
    return [(m[1], (m[2] or "").strip(), m[3]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]


@pytest.fixture
def prompt(tmp_path, monkeypatch):
    """A folder with a trained run under the name that the tutorial uses, and the reader's random state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "displayhook", lambda value: None)  # the pages leave out values of expressions
    run = max(path for path in (ROOT / "tests" / "frozen").iterdir() if path.is_dir())
    shutil.copytree(run, tmp_path / "runs" / "demo-en-zh")
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


def test_the_chapter_has_its_pages():
    assert [page.name[0] for page in PAGES] == list("123456")
    assert all(any(language == "python" for language, _, _ in blocks(page)) for page in PAGES)


def named(dotted: str) -> object:
    """Return what a name such as `nmt.model.Transformer.encode` stands for."""
    for dots in range(dotted.count("."), -1, -1):
        module, *attributes = [".".join(dotted.split(".")[: dots + 1]), *dotted.split(".")[dots + 1 :]]
        with contextlib.suppress(ModuleNotFoundError):
            return functools.reduce(getattr, attributes, importlib.import_module(module))
    raise AssertionError(dotted)


def test_every_name_of_ours_in_the_table_of_course_names_exists():
    page = (CHAPTER / "index.md").read_text(encoding="utf-8").partition("## In your course / here")[2]
    rows = [line.split("|")[1:-1] for line in page.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    ours = [name for _, _, here, _ in rows for name in re.findall(r"`([^`]+)`", here)]
    assert len(rows) >= 19
    assert all(re.search(r"`[^`]+`", here) for _, _, here, _ in rows)
    assert all(callable(named(name)) for name in ours if name.startswith("nmt."))
    assert {name for name in ours if not name.startswith("nmt.")} <= set(keys())


class Prompt(code.InteractiveConsole):
    """Python's prompt until 3.12, which compiles a statement as soon as a line ends it; errors are raised."""

    def showsyntaxerror(self, *arguments, **options):
        raise

    def showtraceback(self):
        raise

    def paste(self, text: str) -> None:
        """Paste a block, and press Enter if a body is still open."""
        for line in text.splitlines():
            is_open = self.push(line)
        if is_open:
            assert not self.push("")


@pytest.mark.slow
def test_every_code_block_can_be_pasted_at_the_prompt_and_prints_what_the_page_says(prompt):
    session = Prompt()
    for page in PAGES:
        printed = ""
        for number, (language, title, text) in enumerate(blocks(page), start=1):
            place = f"{page.name}, block {number}"
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as output, warnings.catch_warnings():
                    if title:  # the stand-in for the demo's run reads shorter texts, and says so
                        warnings.simplefilter("ignore")
                    try:
                        session.paste(text)
                    except SyntaxError as error:
                        pytest.fail(f"{place}: {error}: {error.text}")
                printed = output.getvalue()
            elif not title:  # a block with a title is a diagram
                assert printed.rstrip() == text.rstrip(), place
