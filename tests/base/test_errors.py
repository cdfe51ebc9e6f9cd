"""An error is one text, and the terminal obeys nothing in it."""

from __future__ import annotations

import json
import os
import sys

import pytest

from nmt.base.errors import NmtError, counted, in_words, printable, require
from tests.command_line import nmt


def test_an_error_says_place_fault_and_hint():
    assert str(NmtError("bad", path="a.yaml", line=3, hint="do this")) == "a.yaml:3: bad\n  do this"
    assert str(NmtError("bad", path="a.yaml")) == "a.yaml: bad"
    assert str(NmtError("bad\nworse")) == "bad\nworse"


def test_control_characters_are_shown_as_escapes_and_letters_as_they_are():
    assert str(NmtError("key '\x1b[2J'", path="a\x1b]0;x\x07\n.yaml", hint="\u202etxt")) == (
        "a\\x1b]0;x\\x07\\n.yaml: key '\\x1b[2J'\n  \\u202etxt"
    )
    assert printable("a\udcff\u2028") == "a\\udcff\\u2028"
    assert printable("你好，\u3000世界 é\xa0→") == "你好，\u3000世界 é\xa0→"


@pytest.mark.parametrize("name", [b"\x1b[31mred", b"\xff\xfe"])
@pytest.mark.parametrize("command", [["config", "show", "--config"], ["translate", "hello", "--model"]])
def test_no_escape_sequence_and_no_traceback_from_the_name_of_a_file(name, command, tmp_path):
    if os.name == "nt":
        pytest.skip("such names are none there")
    done = nmt(*command, os.fsdecode(name), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: " + ("\\x1b[31mred" if b"red" in name else "\\udcff\\udcfe"))
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("name", ["data", "x\x1b[31m"])
def test_no_escape_sequence_from_a_key(name, tmp_path):
    (tmp_path / "a.yaml").write_text(f'"{name!s}": 3\n'.replace("\x1b", "\\e"))
    done = nmt("config", "show", "-c", "a.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("names", "words"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_listed_as_in_a_sentence(names, words):
    assert in_words(names) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 pairs"), (1, "1 pair"), (2_000, "2,000 pairs")])
def test_counts_have_the_number_of_the_noun(number, words):
    assert counted(number, "pair") == words


def test_a_missing_package_is_named_with_its_extra_and_what_to_do_without_it(monkeypatch):
    assert require("zst", "json", "a file") is json
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(NmtError) as caught:
        require("xlsx", "openpyxl", "reading .xlsx", otherwise="export the sheet as csv", path="a.xlsx")
    assert str(caught.value) == (
        "a.xlsx: reading .xlsx needs the package openpyxl, which is not installed\n"
        '  in the checkout of nmt: pip install ".[xlsx]", or export the sheet as csv'
    )


def test_a_package_that_is_there_but_broken_is_named_with_the_reason(monkeypatch, tmp_path):
    (tmp_path / "openpyxl.py").write_text("raise ImportError('libodd.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openpyxl", raising=False)
    with pytest.raises(NmtError, match=r"which is not installed \(libodd.so: cannot open shared object file\)"):
        require("xlsx", "openpyxl", "reading .xlsx")
