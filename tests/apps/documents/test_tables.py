"""A table gets one column more; everything else in it stays."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError
from tests.apps.documents.written import upper


@pytest.mark.parametrize(
    ("name", "column", "content", "written"),
    [
        ("a.csv", "2", 'id;x\r\n1;"a;""b"\r\n\r\n2;c\r\n', 'id;x;"[x]"\r\n1;"a;""b";"[a;""b]"\r\n\r\n2;c;"[c]"\r\n'),
        ("a.csv", "text", "id,text\n1,a\n2\n3,", 'id,text,"en"\n1,a,"[a]"\n2,,""\n3,,""'),
        ("a.csv", "text", 'sep=,\nid,text\n1,"a\nb"\n', 'sep=,\nid,text,"en"\n1,"a\nb","[a]\n[b]"\n'),
        ("a.csv", "1", '"a;""b""\tc\nd";e\n', '"a;""b""\tc\nd";e;"[a;""b""]\t[c]\n[d]"\n'),
        ("a.csv", "2", "1,a\n2,=SUM(A1)\n3,#N/A\n", '1,a,"[a]"\n2,=SUM(A1),""\n3,#N/A,""\n'),
        ("a.csv", "1", 'x\na\n"b, c"\n', 'x,"[x]"\na,"[a]"\n"b, c","[b, c]"\n'),
        ("a.csv", "1", "text\r\na\r\n", 'text,"en"\r\na,"[a]"\r\n'),
        ("a.tsv", "1", 'The "b.\t1\n\tc\n', 'The "b.\t1\t[The "b.]\n\tc\t\n'),
        ("a.tsv", "2", "1\tsource\n2\tb\n", "1\tsource\ten\n2\tb\t[b]\n"),
    ],
)
def test_a_column_of_text_gets_its_translations(name, column, content, written):
    document = read_document(content.encode(), name, column=column)
    document.name_language("en")
    texts = [[f"[{text}]" for text in block.texts()] for block in document.blocks]
    translations = [block.from_texts(each) for block, each in zip(document.blocks, texts, strict=True)]
    assert document.content_with(translations).decode() == written


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.csv", b"a,b\n", "3", "a.csv: no column '3'\n  the columns are 1 to 2, or by name: 'a', 'b'"),
        ("a.csv", b"", "1", "no column '1'"),
        ("a.csv", b'a,b\n"c,d\n', "1", "a.csv:2: not readable as a table"),
        ("a.tsv", b"\xff", "1", "neither UTF-8 nor UTF-16"),
        ("a.xlsx", b"PK", "1", "not readable as a workbook"),
        ("a.xlsx", b"\xd0\xcf\x11\xe0", "1", "an old workbook"),
    ],
)
def test_what_is_no_table_or_lacks_the_column_is_told(name, content, column, message):
    with pytest.raises(DataError) as error:
        read_document(content, name, column=column)
    assert message in str(error.value)


def workbook(tmp_path: Path) -> bytes:
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    book = openpyxl.Workbook()
    for row in (["id", "source"], [1, "a & b"], [2, None], [None, 3.5], [4, "=A1"], [5, "c_x000D_\n_x0064_"]):
        book.active.append(row)
    book.create_sheet("Other <2>")["B7"] = "d"
    book.save(tmp_path / "a.xlsx")
    return (tmp_path / "a.xlsx").read_bytes()


def test_a_workbook_gets_a_column_and_every_other_file_in_it_stays(tmp_path):
    content = workbook(tmp_path)
    document = read_document(content, "a.xlsx", column="source")
    document.name_language("en")
    assert [(block.line, block.plain()) for block in document.blocks] == [(2, "a & b"), (6, "c"), (6, "d")]
    written = document.content_with([block.from_texts(["<x>"]) for block in document.blocks])
    (tmp_path / "b.xlsx").write_bytes(written)
    book = pytest.importorskip("openpyxl").load_workbook(tmp_path / "b.xlsx")
    rows = [[cell.value for cell in row] for row in book.active.rows]
    assert [row[2] for row in rows] == ["en", "<x>", None, None, None, "<x>\n<x>"]
    assert [row[:2] for row in rows[1:]] == [[1, "a & b"], [2, None], [None, 3.5], [4, "=A1"], [5, "c_x000D_\n_x0064_"]]
    before, after = (zipfile.ZipFile(BytesIO(each)) for each in (content, written))
    assert {n: before.read(n) for n in before.namelist() if "sheet1" not in n} == {
        n: after.read(n) for n in after.namelist() if "sheet1" not in n
    }


@pytest.mark.parametrize("column", ["Other <2>:2", "2:B"])
def test_a_sheet_is_chosen_by_name_or_number(tmp_path, column):
    content = workbook(tmp_path)
    if column == "2:B":
        with pytest.raises(DataError, match="no column 'B'"):
            read_document(content, "a.xlsx", column=column)
        return
    (tmp_path / "b.xlsx").write_bytes(upper(content, "a.xlsx", column))
    sheet = pytest.importorskip("openpyxl").load_workbook(tmp_path / "b.xlsx")["Other <2>"]
    assert (sheet["B7"].value, sheet["C7"].value) == ("d", "[d]")
