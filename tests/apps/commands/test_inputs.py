"""Texts to translate, from files and pipes in any condition."""

from __future__ import annotations

import gzip
from collections import deque

import pytest

from nmt.base.errors import DataError
from nmt.data.read.lines import count_lines, read_text_file


@pytest.fixture
def compressed(tmp_path):
    """A gzip file of 200,000 lines that is damaged in the middle."""
    content = bytearray(gzip.compress("".join(f"{i * i % 9973}\n" for i in range(200_000)).encode()))
    middle = len(content) // 2
    content[middle : middle + 400] = b"\xff" * 400
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    return path


def test_gzip_that_is_damaged_in_the_middle_is_refused_with_its_line(compressed):
    lines: list[str] = []
    with pytest.raises(DataError) as caught:
        deque(map(lines.append, read_text_file(compressed)), maxlen=0)
    assert (caught.value.path, caught.value.line) == (str(compressed), len(lines) + 1)
    assert len(lines) > 1000
    assert "copy or download the file again" in str(caught.value)


def test_gzip_that_is_cut_short_is_refused(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"1\n" * 10_000)[:-20])
    with pytest.raises(DataError, match="the gzip data is truncated"):
        list(read_text_file(path))


def test_broken_characters_are_replaced_and_named(tmp_path, messages):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\nt\xffo\n\n\xe2\x80\xa8x")
    assert list(read_text_file(tmp_path / "a")) == ["one", "t\ufffdo", "", "\u2028x"]
    assert messages == [f"warning: {tmp_path / 'a'}:2: not valid UTF-8; the broken bytes are replaced"]


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\n\nb", 3)])
def test_lines_are_counted_as_they_are_read(content, count, tmp_path):
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    for name in ("a", "a.gz"):
        assert count_lines(tmp_path / name) == len(list(read_text_file(tmp_path / name))) == count


def test_counting_a_damaged_file_is_no_error(compressed):
    assert 1000 < count_lines(compressed) < 200_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("eins\r\nzwei\r\n".encode("utf-16"), "this is UTF-16, not UTF-8"),
        (b"PK\x03\x04...", "this is a zip archive, a workbook or a Word document"),
        (b"\x7fELF\x02\0\0\xff\0", "this is binary data, not text"),
        (b"\x89PNG\r\n\x1a\n\0", "this is a picture"),
        (b"one\rtwo\rthree\r", "the lines end in CR without LF"),
    ],
)
def test_what_is_not_text_is_refused_instead_of_translated(content, message, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_text_file(tmp_path / "a.txt"))


def test_a_file_in_another_encoding_gives_a_few_warnings_and_a_count(tmp_path, messages):
    (tmp_path / "a").write_bytes(b"gr\xfcn\n" * 5000)
    assert len(list(read_text_file(tmp_path / "a"))) == 5000
    assert len(messages) == 11
    assert messages[-1] == f"warning: {tmp_path / 'a'}: 5,000 lines in all are not valid UTF-8; is the file in UTF-8?"
