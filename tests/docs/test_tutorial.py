"""The code blocks of the tutorial run, in the order of its pages, and print what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import warnings
from pathlib import Path

import pytest
import torch

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
    run = max(path for path in (ROOT / "tests" / "frozen").iterdir() if path.is_dir())
    shutil.copytree(run, tmp_path / "runs" / "demo-en-zh")
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


def test_the_chapter_has_its_pages():
    assert [page.name[0] for page in PAGES] == list("123456")
    assert all(any(language == "python" for language, _, _ in blocks(page)) for page in PAGES)


def test_every_code_block_runs_and_prints_what_the_page_says(prompt):
    session: dict[str, object] = {}
    for page in PAGES:
        printed = ""
        for number, (language, title, text) in enumerate(blocks(page), start=1):
            place = f"{page.name}, block {number}"
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as output, warnings.catch_warnings():
                    if title:  # the stand-in for the demo's run reads shorter texts, and says so
                        warnings.simplefilter("ignore")
                    exec(compile(text, place, "exec"), session)
                printed = output.getvalue()
            elif not title:  # a block with a title is a diagram
                assert printed.rstrip() == text.rstrip(), place
