"""Files of terms: what is read, and what each fault is called."""

from __future__ import annotations

import logging

import pytest

from nmt.base.errors import DataError
from nmt.data.text.glossary import Term
from nmt.data.text.glossary_file import read_glossary


def test_terms_are_read_with_comments_notes_and_blank_lines(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeff# animals\ncat\tKatze\tnoun\r\n\n New  York \t New York\n".encode())
    assert read_glossary(path).terms == [Term("cat", "Katze"), Term("New York", "New York")]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("cat = Katze\n", 1, "this line has no tab", "write a term, a tab and its translation on each line"),
        ("cat\t\n", 1, "the target of a term is empty", "write a term, a tab and its translation on each line"),
        ("\tKatze\n", 1, "the source of a term is empty", "write a term, a tab and its translation on each line"),
        (
            "cat\tKatze\n#\ncat \tKater\n",
            3,
            '"cat" has two translations: "Katze" and "Kater"',
            "delete one of the two; the first is on line 1",
        ),
        ("# none\n", None, "this glossary has no terms", "write a term, a tab and its translation on each line"),
        ("", None, "the file is empty", "write one sentence per line, each line ending in LF"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path, text, line, message, hint):
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as refused:
        read_glossary(path)
    assert (refused.value.line, refused.value.message, refused.value.hint) == (line, message, hint)


def test_a_term_that_is_repeated_is_a_warning(tmp_path, caplog):
    path = tmp_path / "terms.tsv"
    path.write_text("cat\tKatze\ndog\tHund\ncat\tKatze\ncat\tKatze\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert len(read_glossary(path)) == 2
    assert caplog.messages == [f"{path}:3: this term is a repetition (2 such lines in total)"]
