"""Excel workbooks: sheets, cells of every type, and archives that strangers made to do harm."""

from __future__ import annotations

import datetime
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from nmt.data.read.formats import xlsx
from tests.data.read.formats.reading import fault, read

ROWS = [["id", "English", "German"], [1, "one\ntwo", "eins"], [2, None, "zwei"], [3, "#REF!", "drei"], [4, "four"]]


def workbook(path: Path, **sheets: list[list[object]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra xlsx")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


def rewritten(path: Path, **changes) -> Path:
    """The same archive with parts changed or added: each a function of what the part held."""
    copy = path.with_name("copy.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new:
        for name in dict.fromkeys([*old.namelist(), *changes]):
            content = old.read(name) if name in old.namelist() else b""
            new.writestr(name, changes.get(name, lambda same: same)(content))
    return copy


def test_a_sheet_is_read_by_columns_and_its_faulty_rows_are_left_out(tmp_path, messages):
    path = workbook(tmp_path / "a.xlsx", one=ROWS, two=[["a", "b"]])
    assert read(path, columns=(2, 3)) == [("one two", "eins", 2), ("", "zwei", 3), ("four", "", 5)]
    assert messages[-1].startswith("warning: ")
    assert "skipped 1 row: 1 with #REF!; the first is on line 4" in messages[-1]
    assert read(path, columns=("German", "english")) == [("eins", "one two", 2), ("zwei", "", 3), ("", "four", 5)]
    assert read(path, sheet="two") == read(path, sheet=2) == [("a", "b", 1)]
    assert fault(path, columns=(1, 20_000)) == (
        "a.xlsx: column 20000 is requested, but the widest row has 3 cells\n"
        "  `columns` gives the source and target columns, by number from 1 or by name"
    )
    hint = "the sheets are 'one', 'two'; columns by name follow a colon: #SHEET:German,English"
    assert fault(path, sheet="German,English") == f"a.xlsx: no sheet 'German,English'\n  {hint}"
    assert fault(path, sheet=3) == f"a.xlsx: no sheet 3\n  {hint}"


def test_a_stray_cell_in_the_last_column_does_not_make_every_cell_before_it_be_read(tmp_path, monkeypatch):
    last = 16_384
    rows = [[f"a {number} b", f"c {number} d", *[None] * (last - 3), "x"] for number in range(3)]
    path = workbook(tmp_path / "a.xlsx", one=rows)
    cells, on_one_line = [], xlsx.on_one_line
    monkeypatch.setattr(xlsx, "on_one_line", lambda cell, *place: cells.append(cell) or on_one_line(cell, *place))
    assert read(path) == [(src, tgt, line) for line, (src, tgt, *_) in enumerate(rows, 1)]
    assert len(cells) == 6
    assert read(path, columns=(1, last)) == [(src, "x", line) for line, (src, *_) in enumerate(rows, 1)]


def test_the_sheets_are_named_if_there_are_several_and_none_is_chosen(tmp_path, messages):
    path = workbook(tmp_path / "a.xlsx", pairs=[["one", "eins"]] * 20, others=[["two", "zwei"]] * 99)
    assert read(path)[0] == ("one", "eins", 1)
    assert messages == [
        f"{path}: reading the first of the sheets 'pairs', 'others'; sheet, or #SHEET behind the file, chooses another"
    ]
    assert read(path, sheet="others")[0] == ("two", "zwei", 1)
    assert len(messages) == 1


def test_a_sheet_of_explanations_before_the_table_is_passed_over(tmp_path, messages):
    readme = [["Glossary of the museum"], [None], ["version", 2], ["edited by", "the archive"], ["a note"]]
    path = workbook(tmp_path / "a.xlsx", readme=readme, empty=[], pairs=[["one", "eins"]] * 9)
    assert read(path) == [("one", "eins", line) for line in range(1, 10)]
    assert messages == [
        f"{path}: reading 'pairs', the first with two columns, of the sheets 'readme', 'empty', 'pairs'; "
        "sheet, or #SHEET behind the file, chooses another"
    ]
    assert read(path, sheet=1)[2] == ("version", "2", 3)


def test_numbers_dates_and_formulas_are_cells_too(tmp_path):
    rows = [[1.0, 2.5], [True, datetime.date(2020, 1, 2)], ["=A1&B2", "x"], ["a", "b"]]
    pairs = read(workbook(tmp_path / "a.xlsx", one=rows))
    assert pairs == [("1", "2.5", 1), ("TRUE", "2020-01-02", 2), ("", "x", 3), ("a", "b", 4)]


@pytest.mark.parametrize(
    ("value", "number_format", "shown"),
    [
        (datetime.timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        (datetime.timedelta(days=4), '[hh]:mm:ss "Std"', "96:00:00 Std"),
        (datetime.timedelta(seconds=95), "[mm]:ss", "01:35"),
        (datetime.timedelta(minutes=2), "[s]", "120"),
        (-datetime.timedelta(hours=2.5), "[h]:mm", "-2:30"),
        (12345.678, "0.0E+00", "1.2E+04"),
        (0.00012, "0.00E+00", "1.20E-04"),
        (7, "000", "007"),
        (0.075, "0%", "8%"),
        (0.075, "0.0%", "7.5%"),
        (-1234.5, '#,##0.00 "EUR"', "-1,234.50 EUR"),
        (-1234.5, "#,##0.00\\ [$€-407];[Red](#,##0.0)", "(1,234.5)"),
        (12_345_678, '0.0,,"M"', "12.3M"),
        (0, '0;-0;"none"', "none"),
        (1.0, "0.0#", "1.0"),
        (1.5, "# ?/?", "1 1/2"),
        (-0.25, "# ??/??", "-1/4"),
        (3, "# ?/?", "3"),
        (1.375, "?/8", "11/8"),
        (0.5, '# ?/10 "cups"', "5/10 cups"),
        (5, '[>=10]"many";"few"', "5"),
        (5_550_100, "[<=9999999]###-####;(###) ###-####", "5550100"),
        (4_930_123, "000-0000", "4930123"),
        (datetime.date(2024, 3, 1), "dd.mm.yyyy", "01.03.2024"),
        (datetime.datetime(2024, 3, 1, 14, 5), "mm-dd-yy", "2024-03-01"),
        (datetime.datetime(2024, 3, 1, 14, 5), "m/d/yy h:mm", "2024-03-01 14:05"),
        (datetime.date(2024, 3, 1), "[$-407]d. mmmm yyyy", "2024-03-01"),
        (datetime.date(2024, 3, 1), "[$-F800]dddd, mmmm dd, yyyy", "2024-03-01"),
        (datetime.date(2024, 3, 1), "[$-404]e/m/d", "2024-03-01"),
        (datetime.date(2024, 3, 1), "[$-409]d mmm yyyy", "1 Mar 2024"),
        (0, "dd.mm.yyyy", "00.01.1900"),
        (1, "mm-dd-yy", "1900-01-01"),
        (61, "d/m/yyyy", "1/3/1900"),
        (datetime.datetime(2024, 3, 1, 14, 5), "yyyy-mm-dd h:mm", "2024-03-01 14:05"),
        (datetime.datetime(2024, 3, 1, 14, 5, 9), "mm:ss", "05:09"),
        (datetime.datetime(2024, 3, 1, 14, 5), "d. MMM yy, h:mm AM/PM", "1. Mar 24, 2:05 PM"),
        (datetime.datetime(2024, 3, 1), 'yyyy"年"m"月"d"日"', "2024年3月1日"),
        (datetime.time(9, 5), "h:mm", "9:05"),
    ],
)
def test_numbers_and_dates_are_read_as_they_are_shown(tmp_path, value, number_format, shown):
    path = workbook(tmp_path / "a.xlsx", one=[["a", value], ["b", "c"]])
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra xlsx")
    book = openpyxl.load_workbook(path)
    book.active["B1"].number_format = number_format
    book.save(path)
    assert read(path) == [("a", shown, 1), ("b", "c", 2)]


def test_a_day_that_excel_has_and_no_calendar_is_said(tmp_path, messages):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra xlsx")
    book = openpyxl.Workbook()
    for day in (59, 60, 61):
        book.active.append(["a", day])
        book.active.cell(day - 58, 2).number_format = "dd.mm.yyyy"
    book.save(tmp_path / "a.xlsx")
    assert [shown for _, shown, _ in read(tmp_path / "a.xlsx")] == ["28.02.1900", "28.02.1900", "01.03.1900"]
    said = "28 February 1900 may be the 29th that Excel has, which openpyxl reads alike"
    assert messages == [f"{tmp_path / 'a.xlsx'}:{line}: {said}" for line in (1, 2)]


def test_characters_that_a_workbook_escapes_are_read_as_characters(tmp_path):
    path = workbook(tmp_path / "a.xlsx", one=[["one_x000D_\ntwo", "_x0041_B_x005F_x0041_"]])
    copy = rewritten(path, **{SHEET: lambda xml: xml, STRINGS: lambda xml: xml.replace(b"_x005F_x", b"_x")})
    assert read(copy) == [("one two", "AB_x0041_", 1)]


def test_a_column_of_ids_is_refused_as_in_text(tmp_path):
    rows = [[n, f"sentence {n}", f"der Satz {n}"] for n in range(30)]
    assert "column 1, chosen as the source, has numbers or IDs" in fault(workbook(tmp_path / "a.xlsx", one=rows))


def test_files_that_are_no_workbooks_are_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    assert (
        fault(path, b"one,eins\n")
        == "a.xlsx: this is not a workbook\n  save it as .xlsx again, or export the sheet as csv"
    )
    assert "this is not a workbook" in fault(path, b"")
    assert "an old workbook (.xls), or one with a password" in fault(path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    assert "no such file" in fault(tmp_path / "none.xlsx")
    pytest.importorskip("openpyxl", reason="needs the extra xlsx")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    assert "not readable as a workbook: " in fault(path)


def test_a_damaged_workbook_is_refused(tmp_path):
    path = workbook(tmp_path / "a.xlsx", one=[["a", "b"]] * 2000)
    content = path.read_bytes()
    assert "not readable as a workbook" in fault(tmp_path / "cut.xlsx", content[: len(content) // 2])
    copy = rewritten(path, **{SHEET: lambda xml: xml[:-300]})
    assert "not readable as a workbook" in fault(copy)


def test_a_dtd_in_a_workbook_is_refused(tmp_path):
    path = workbook(tmp_path / "a.xlsx", one=[["a", "b"]])
    copy = rewritten(path, **{SHEET: lambda xml: b'<!DOCTYPE x [<!ENTITY a "ha">]>' + xml})
    assert "xl/worksheets/sheet1.xml declares a DTD" in fault(copy)


def test_texts_that_cells_share_are_read(tmp_path):
    """As Excel writes them, with runs of formatted text."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    override = f'<Override PartName="/{STRINGS}" ContentType="{kind}"/></Types>'
    namespace = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    strings = f"<sst {namespace}><si><t>one</t></si><si><r><t>ei</t></r><r><t>ns</t></r></si></sst>"
    path = workbook(tmp_path / "a.xlsx", one=[["x", "y"]])
    cells = '<c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>'
    changes = {
        SHEET: lambda xml: re.sub(rb"(<row[^>]*>).*</row>", rb"\1" + cells.encode() + b"</row>", xml),
        STRINGS: lambda _: strings.encode(),
        "[Content_Types].xml": lambda xml: xml.replace(b"</Types>", override.encode()),
    }
    assert read(rewritten(path, **changes)) == [("one", "eins", 1)]


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", one=[["a", "b"]])
    bomb = rewritten(path, **{SHEET: lambda xml: xml + b" " * 3_000_000})
    monkeypatch.setattr(xlsx, "MAX_UNPACKED_BYTES", 2_000_000)
    assert "unpacked, this workbook has over 1 MB or 10,000 files" in fault(bomb)


def test_a_forged_row_number_is_not_followed_for_ever(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", one=[["a", "b"], ["c", "d"]])
    monkeypatch.setattr(xlsx, "MAX_ROWS", 5000)
    forged = rewritten(path, **{SHEET: lambda xml: xml.replace(b'r="2"', b'r="999999999"')})
    assert "a sheet with more than 5,000 rows" in fault(forged)


def test_the_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    assert fault(tmp_path / "a.xlsx") == (
        "a.xlsx: reading .xlsx needs the package openpyxl, which is not installed\n"
        '  in the checkout of nmt: pip install ".[xlsx]", or export the sheet as csv'
    )


def test_a_workbook_under_the_name_of_another_form_is_recognized(tmp_path):
    path = workbook(tmp_path / "a.xlsx", one=[["a", "b"]])
    shutil.copy(path, tmp_path / "a.csv")
    assert fault(tmp_path / "a.csv") == (
        "a.csv:1: this is a zip archive, a workbook or a Word document, but its name does not end in .xlsx\n"
        "  unpack an archive; use the key xlsx for a workbook; to translate a Word document, leave out --input"
    )
