"""Columns, header rows, faulty cells and columns of IDs, the same in every table."""

from __future__ import annotations

import pytest

from nmt.data.read.cells import cell_error, looks_like_column_name
from nmt.data.read.formats.tables import HEAD_ROWS
from tests.data.read.formats.reading import fault, read


@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_a_header_is_found_skipped_and_said_once(tmp_path, messages, form):
    path = tmp_path / f"a.{form}"
    content = "ID\tSource text\tGerman (DE)\n1\tone\teins\n"
    assert read(path, content, columns=(2, 3)) == read(path, columns=(2, 3)) == [("one", "eins", 2)]
    assert [line for line in messages if "first row" in line] == [
        f"{path}:1: skipped the first row, which looks like a header (Source text, German (DE)); header: false keeps it"
    ]
    assert read(path, columns=(2, 3), header=False)[0] == ("Source text", "German (DE)", 1)


def test_a_first_row_of_text_is_kept_unless_the_configuration_calls_it_a_header(tmp_path):
    path = tmp_path / "a.tsv"
    assert read(path, "Hello.\tGerman\none\teins\n")[0] == ("Hello.", "German", 1)
    assert read(path, "Guten Tag\tHello\none\teins\n", header=True) == [("one", "eins", 2)]
    assert read(path, "\n\nsource\ttarget\none\teins\n") == [("", "", 1), ("", "", 2), ("one", "eins", 4)]


def test_a_title_above_the_table_does_not_hide_its_header(tmp_path):
    table = "Export of May,,\n\nid,German,English\n1,eins,one\n2,zwei,\n"
    expected = [("", "", 1), ("", "", 2), ("eins", "one", 4), ("zwei", "", 5)]
    assert read(tmp_path / "a.csv", table, columns=(2, 3)) == expected
    assert read(tmp_path / "a.csv", columns=("German", "English")) == expected
    assert read(tmp_path / "b.csv", "eins,\n,\n,two\n") == [("eins", "", 1), ("", "", 2), ("", "two", 3)]


@pytest.mark.parametrize("num_blank", [HEAD_ROWS - 1, HEAD_ROWS, 2 * HEAD_ROWS + 1])
def test_rows_after_any_number_of_blank_ones_are_read(num_blank, tmp_path):
    blank = [("", "", line) for line in range(1, num_blank + 1)]
    assert read(tmp_path / "blank.tsv", "\t\n" * num_blank) == blank
    pairs = [("one", "eins", num_blank + 2), ("two", "zwei", num_blank + 3)]
    assert read(tmp_path / "a.tsv", "\t\n" * num_blank + "source\ttarget\none\teins\ntwo\tzwei\n") == blank + pairs


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "a.csv"
    content = "nr;Deutsch ;english\n1;eins;one\n"
    assert read(path, content, columns=("english", "Deutsch")) == [("one", "eins", 2)]
    assert read(path, columns=("ENGLISH", 2)) == [("one", "eins", 2)]
    assert fault(path, columns=("english", "french")) == (
        "a.csv:1: no column is called 'french'\n  the columns in the first row are 'nr', 'Deutsch', 'english'"
    )
    assert fault(path, columns=("english", 3)) == "a.csv:1: both columns are column 3\n  choose two different columns"
    assert "2 columns are called 'a'" in fault(path, "a;a;b\n1;2;3\n", columns=("a", "b"))


@pytest.mark.parametrize(
    "cell", ["source", "Target text", "text_en", "ID", "German (DE)", "English US", "zh-CN", "原文"]
)
def test_names_of_columns_look_like_headers(cell):
    assert looks_like_column_name(cell)


@pytest.mark.parametrize(
    "cell", ["", "Hello", "The English text.", "to be or not to be", "Text!", "12", "source " * 20]
)
def test_text_does_not_look_like_a_header(cell):
    assert not looks_like_column_name(cell)


@pytest.mark.parametrize(
    "cell",
    ["#VALUE!", "#REF!", "#NAME?", "#N/A", "#DIV/0!", "#WERT!", "=A1&B2", "=SUM(A1:A9)", "='My sheet'!$A$1", '="a"'],
)
def test_cells_that_a_spreadsheet_could_not_compute_are_faults(cell):
    assert cell_error(cell)


@pytest.mark.parametrize(
    "cell", ["", "#1", "# Title", "#hashtag", "= 5", "=) yes", "==", "#VALUE! is an error", "a=B1"]
)
def test_text_with_these_signs_is_text(cell):
    assert not cell_error(cell)


def test_rows_with_faulty_cells_are_left_out_counted_and_said(tmp_path, messages):
    rows = ["one\teins", "#VALUE!\tzwei", "three\t=A1&B2", "four\tvier", " #VALUE! \tfünf", "# six\tsechs"]
    pairs = read(tmp_path / "a.tsv", "\n".join(rows) + "\n")
    assert pairs == [("one", "eins", 1), ("four", "vier", 4), ("# six", "sechs", 6)]
    assert messages == [
        f"warning: {tmp_path / 'a.tsv'}: skipped 3 rows: 2 with #VALUE!, 1 with a formula; the first is on line 2"
    ]


def test_columns_that_are_not_read_are_said(tmp_path, messages):
    assert read(tmp_path / "a.tsv", "one\teins\tuno\n") == [("one", "eins", 1)]
    assert messages == [
        f"{tmp_path / 'a.tsv'}: reading columns 1 and 2 of 3; columns, or #1,3 behind the file, chooses others"
    ]
    assert read(tmp_path / "a.tsv", columns=(1, 3)) == [("one", "uno", 1)]
    assert len(messages) == 1


def test_a_fault_in_another_column_leaves_the_row_alone(tmp_path):
    assert read(tmp_path / "a.tsv", "one\teins\t#REF!\n") == [("one", "eins", 1)]


@pytest.mark.parametrize(
    "number",
    ["{}", "ID-{:04}", "{}.0", "TM_{}", "3f2a91{:02x}-aa01", "GEN 1:{}", "1 Samuel {}:2-3", "Song of Songs 1, {}"],
)
def test_a_column_of_ids_beside_text_is_refused_with_the_likely_columns(tmp_path, number):
    rows = [f"{number.format(n)}\tsentence {n}\tSatz {n}\n" for n in range(50)]
    message = fault(tmp_path / "a.tsv", "".join(rows))
    assert message.startswith(
        f"a.tsv:1: column 1, chosen as the source, has numbers or IDs such as {number.format(0)} in "
    )
    assert message.endswith(
        "100% of the first 50 rows; text is in columns 2 and 3\n"
        "  set columns to the source and target columns, such as [2, 3] (behind the file, after #)"
    )
    assert len(read(tmp_path / "a.tsv", columns=(2, 3))) == 50


def test_a_column_of_ids_is_named_as_in_the_header(tmp_path):
    rows = ["key,english,german\n", *(f"{n},sentence {n},Satz {n}\n" for n in range(30))]
    assert fault(tmp_path / "a.csv", "".join(rows), columns=("german", "key")).startswith(
        "a.csv:2: column 1 ('key'), chosen as the target, has numbers or IDs such as 0 in 100% of the first 30 rows; "
    )


LONG = "the sentence number {} is the one that everybody who reads this file would like to have translated"
SHORT_COLUMNS = {
    "names": (
        lambda n: f"{'ABCDEFGH'[n % 8]}{'aeiou'[n % 5]}nna M{'aeiou'[n // 8 % 5]}ller",
        "texts such as 'Aanna Maller', much",
    ),
    "labels": (
        lambda n: f"Chapter {n}",
        "texts such as 'Chapter 0', much shorter or less varied than those of other columns",
    ),
    "verses": (
        lambda n: f"Поглавље {n // 9}, стих {n % 9}, књига {n % 3}",
        "texts such as '",
    ),
    "documents": (lambda n: f"news, document {n // 10}, paragraph {n % 7}, sentence {n}", "texts such as 'news, doc"),
    "speakers": (lambda n: "Anna" if n % 2 else "Ben", "texts such as 'Ben', much shorter"),
    "codes": (lambda n: ("deu_Latn", "fra_Latn")[n % 2], "texts such as 'deu_Latn', much shorter"),
}


@pytest.mark.parametrize("kind", SHORT_COLUMNS)
def test_a_column_of_names_beside_text_is_refused_unless_it_was_chosen(tmp_path, kind):
    cell, said = SHORT_COLUMNS[kind]
    texts = [LONG.format("".join(chr(97 + int(digit)) for digit in str(n))) for n in range(50)]
    rows = "".join(f"{cell(n)}\t{text}\t{text[::-1]}\n" for n, text in enumerate(texts))
    message = fault(tmp_path / "a.tsv", rows)
    assert f"column 1, chosen as the source, has {said}" in message
    assert (
        "text is in columns 2 and 3\n  set columns to the source and target columns, such as [2, 3] "
        "(behind the file, after #); if it is" in message
    )
    assert len(read(tmp_path / "a.tsv", columns=(1, 3))) == 50
    assert len(read(tmp_path / "b.tsv", f"name\tde\ten\n{rows}", columns=("name", "de"))) == 50


def test_columns_that_are_as_they_should_be_are_read(tmp_path):
    terms = "".join(f"term {n}\tWort {n}\t{LONG.format(n)}\n" for n in range(50))  # with a definition
    assert len(read(tmp_path / "a.tsv", terms)) == 50
    repeated = "".join(f"How are you {n // 5}?\tWie geht es {n}?\tCC-BY {n}, by somebody\n" for n in range(50))
    assert len(read(tmp_path / "b.tsv", repeated)) == 50
    dense = "".join(f"我想翻译第{n}个句子。\t{LONG.format(n)[:60]}\t{LONG.format(n)[:59]}\n" for n in range(50))
    assert len(read(tmp_path / "c.tsv", dense)) == 50


def test_numbers_without_text_beside_them_are_a_corpus(tmp_path):
    rows = "".join(f"{n} {n}\t{n}\t{n}\n" for n in range(50))
    assert len(read(tmp_path / "a.tsv", rows)) == 50
    words = "".join(f"{n}\tnumber {n}\n" for n in range(50))  # to spell numbers: every column with text is chosen
    assert len(read(tmp_path / "a.tsv", words)) == 50


@pytest.mark.parametrize("names", ["Français\tMooré", "Mooré\tFrançais", "Kiswahili ya Congo\tFrench", "text\tEʋegbe"])
def test_a_row_in_which_one_cell_is_a_column_name_is_read_and_said(tmp_path, messages, names):
    pairs = read(tmp_path / "a.tsv", f"{names}\none\teins\n")
    assert pairs == [(*names.split("\t"), 1), ("one", "eins", 2)]
    assert "is read as a pair; header: true, or columns by name, skips it" in messages[0]
    assert len(read(tmp_path / "a.tsv", header=True)) == 1
    assert len(messages) == 1


@pytest.mark.parametrize("first", ["N°\t", "Numéro\t", "№\t"])
def test_a_header_is_known_by_the_names_of_other_columns(tmp_path, messages, first):
    text = f"{first}Français\tMooré\tRemarques\n1\tl'eau\tkoom\t\n"
    assert read(tmp_path / "a.tsv", text, columns=(2, 3)) == [("l'eau", "koom", 2)]
    assert "looks like a header (Français, Mooré)" in messages[0]
