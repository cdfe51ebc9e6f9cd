"""TSV and CSV: delimiters, quoted cells, and when a quotation mark is text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile

import pytest

from nmt.data.read.lines import COMPRESSIONS
from tests.data.read.formats.reading import fault, read

QUOTED = 'one\teins\n"He said ""hi""."\t"Er sagte ""hallo""."\ntwo\tzwei\n'
PAIRS = [("one", "eins", 1), ("two", "zwei", 2)]


@pytest.mark.parametrize(
    "content",
    [
        b"one,eins\ntwo,zwei\n",
        b"one;eins\r\ntwo;zwei\r\n",
        b"one\teins\ntwo\tzwei",
        b"one|eins\ntwo|zwei\n",
        b'\xef\xbb\xbf"one","eins"\n"two","zwei"\n',
    ],
)
def test_a_csv_may_have_any_delimiter_and_line_end(tmp_path, content, messages):
    assert read(tmp_path / "a.csv", content) == PAIRS
    assert len([line for line in messages if "the cells are separated by" in line]) == 1


def test_the_delimiter_is_the_one_that_divides_rows_evenly(tmp_path):
    content = "".join(f"Well, {n}, yes{', and' * (n % 3)};Nun, {n} ja\n" for n in range(9))
    assert read(tmp_path / "a.csv", content)[2] == ("Well, 2, yes, and, and", "Nun, 2 ja", 3)


def test_the_separator_line_of_excel_and_the_key_decide_the_delimiter(tmp_path):
    assert read(tmp_path / "a.csv", "sep=;\na,b;c,d\n") == [("a,b", "c,d", 2)]
    assert read(tmp_path / "b.csv", "a,b;c,d\n", delimiter=",", columns=(1, 2)) == [("a", "b;c", 1)]
    assert read(tmp_path / "c.csv", "a,b\tc,d\n", delimiter="tab") == [("a,b", "c,d", 1)]


def test_a_csv_without_a_delimiter_is_refused(tmp_path):
    assert fault(tmp_path / "a.csv", "one\ntwo\n") == (
        "a.csv:1: no delimiter found: no row has two cells separated by , ; | or tab\n"
        "  set delimiter, or use the key of another format"
    )


def test_quoted_cells_may_hold_delimiters_doubled_quotes_and_line_breaks(tmp_path):
    content = 'a,b\n"one, ""two""\r\n  and three\n\n","eins\nzwei"\nlast,letzte\n'
    assert read(tmp_path / "a.csv", content) == [
        ("a", "b", 1),
        ('one, "two" and three', "eins zwei", 2),
        ("last", "letzte", 7),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n"one,eins\ntwo,zwei\n', "a.csv:2: this quoted cell is never closed"),
        ('a,b\n"one" two,eins\n', "a.csv:2: there is text after the closing quotation mark of a cell"),
        ('a,b\n\n"' + "x" * 131_080 + '",c\n', "a.csv:3: a cell of over 131,072 characters"),
        ("a,b\n" + '"x\n",' * 600_000, "a.csv:2: a text longer than 1,000,000 characters"),
        ("a,b\nc\rd,e\n", "a.csv:2: not readable as csv: new-line character"),
        ("a,b\nc\n", "a.csv:2: 1 column, but column 2 is requested"),
        ("a,b\nc,d,e\n", "a.csv:2: 3 columns, but the first row has 2"),
        (b"a,b\n\xff,c\n", "a.csv:2: not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said_with_its_line(tmp_path, content, message):
    assert fault(tmp_path / "a.csv", content, delimiter=",").startswith(message)


def test_quotation_marks_in_a_tsv_are_text(tmp_path):
    rows = ['"Hello."\t"Hallo."', 'He said "hi".\tEr sagte ""hallo"".', '"Yes" he said\t"', '5" disk\t"x']
    assert [pair[:2] for pair in read(tmp_path / "a.tsv", "\n".join(rows))] == [tuple(row.split("\t")) for row in rows]
    # Marks around whole cells alone do not say that they are quoting, nor do cells that would make rows uneven.
    assert read(tmp_path / "b.tsv", '"Hello."\t"Hallo."\n') == [('"Hello."', '"Hallo."', 1)]
    assert read(tmp_path / "c.tsv", 'a\tb\n"one\teins"\n') == [("a", "b", 1), ('"one', 'eins"', 2)]


def test_a_tsv_that_a_spreadsheet_quoted_is_read_so_and_that_is_said(tmp_path, messages):
    assert read(tmp_path / "a.tsv", QUOTED)[1] == ('He said "hi".', 'Er sagte "hallo".', 2)
    assert messages == [
        f"{tmp_path / 'a.tsv'}: reading cells as quoted by a spreadsheet; set quoting: false if the marks are text"
    ]
    assert read(tmp_path / "a.tsv", quoting=False)[1] == ('"He said ""hi""."', '"Er sagte ""hallo""."', 2)
    assert read(tmp_path / "b.tsv", 'a\tb\n"one\n\ttwo"\teins\n') == [("a", "b", 1), ("one two", "eins", 2)]


def test_a_tsv_is_quoted_if_the_configuration_says_so(tmp_path):
    content = '"Hello."\t"Hallo."\nplain\teinfach\n'
    assert read(tmp_path / "a.tsv", content, quoting=True) == [("Hello.", "Hallo.", 1), ("plain", "einfach", 2)]


def test_a_quoted_tsv_longer_than_its_head_is_read_to_the_end(tmp_path):
    rows = [f'"a ""{n}""\nb"\tc{n}\n' for n in range(1500)]
    pairs = read(tmp_path / "a.tsv", "".join(rows))
    assert (len(pairs), pairs[-1]) == (1500, ('a "1499" b', "c1499", 2999))


def test_text_of_every_form_may_be_compressed(tmp_path):
    content = b"one,eins\ntwo,zwei\n"
    assert read(tmp_path / "a.csv.gz", gzip.compress(content), "csv") == PAIRS
    assert read(tmp_path / "a.CSV.GZ", gzip.compress(content), "csv") == PAIRS
    assert read(tmp_path / "a.csv.bz2", bz2.compress(content), "csv") == PAIRS
    assert read(tmp_path / "a.csv.xz", lzma.compress(content), "csv") == PAIRS
    tsv = content.replace(b",", b"\t")
    assert read(tmp_path / "a.tsv.xz", lzma.compress(tsv[:9]) + lzma.compress(tsv[9:]), "tsv") == PAIRS


def test_zstandard_is_read_and_its_damage_named(tmp_path):
    zstd = pytest.importorskip(COMPRESSIONS[".zst"][1], reason="needs the extra zst")
    content = b"one,eins\ntwo,zwei\n"
    packed = zstd.compress(content)
    assert read(tmp_path / "a.csv.zst", packed + zstd.compress(b"three,drei\n"), "csv") == [
        *PAIRS,
        ("three", "drei", 3),
    ]
    assert "the Zstandard data is truncated" in fault(tmp_path / "b.zst", packed[:-5], "csv")
    assert fault(tmp_path / "c.zst", content, "csv").startswith("c.zst:1: not readable as Zstandard (")
    assert "rename a plain text file" in fault(tmp_path / "c.zst", content, "csv")


def test_wrong_compression_is_named(tmp_path):
    packed = lzma.compress(b"".join(b"%d,%d\n" % (n * n, n) for n in range(9000)))
    assert "a .xz file must be xz data" in fault(tmp_path / "a.xz", b"one,eins\n", "csv")
    assert "the xz data is truncated" in fault(tmp_path / "b.xz", packed[:900], "csv")
    damaged = packed[:900] + bytes(255 - byte for byte in packed[900:950]) + packed[950:]
    assert "not readable as xz" in fault(tmp_path / "c.xz", damaged, "csv")
    assert fault(tmp_path / "a.csv", packed) == (
        "a.csv:1: this is xz data, but its name does not end in .xz\n  rename it"
    )
    assert "this is xz data, not text" in fault(tmp_path / "d.xz", lzma.compress(packed), "csv")
    assert "this is a zip archive, a workbook or a Word document" in fault(tmp_path / "a.tsv", b"PK\x03\x04abc\n")
    assert "a .bz2 file must be bzip2 data" in fault(tmp_path / "a.bz2", b"one,eins\n", "csv")
    assert "the bzip2 data is truncated" in fault(tmp_path / "b.bz2", bz2.compress(packed)[:900], "csv")


def test_archives_and_parquet_are_named_with_what_makes_text_of_them(tmp_path):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.tsv"))
    for name, content in (("a.tar", archive.getvalue()), ("a.tar.gz", gzip.compress(archive.getvalue()))):
        assert fault(tmp_path / name, content, "tsv") == (
            f"{name}:1: this is a tar archive, not text\n  unpack it with tar -xf"
        )
    assert fault(tmp_path / "a.parquet", b"PAR1\x15\x04", "jsonl") == (
        "a.parquet:1: this is a Parquet file, not text\n"
        "  write its rows as JSON Lines: pandas.read_parquet(FILE).to_json(NEW, orient='records', lines=True)"
    )


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    module = COMPRESSIONS[".zst"][1]
    monkeypatch.setitem(sys.modules, module, None)
    assert fault(tmp_path / "a.zst", b"x", "csv") == (
        f"a.zst: .zst files need the module {module}\n"
        '  in the checkout of nmt: pip install ".[zst]", or unpack the file with unzstd'
    )
