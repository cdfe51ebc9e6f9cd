"""Names of tables as a command line gives them."""

from __future__ import annotations

import pytest

from nmt.base.errors import ConfigError, DataError
from nmt.config.corpora import FORMATS, ParallelFiles
from nmt.data.read.pairs import read_records
from nmt.data.read.table_names import corpus_named, format_of


def test_every_format_has_a_key_endings_and_a_reader():
    assert set(FORMATS) <= set(ParallelFiles.model_fields)
    for key in FORMATS:
        files = ParallelFiles.model_validate({key: "no.such.file", "src_lang": "de", "tgt_lang": "en"})
        with pytest.raises(DataError, match=r"no\.such\.file"):
            list(read_records(files))
    for key, form in FORMATS.items():
        for ending in form.endings:
            assert format_of(f"A.{ending}") == format_of(f"a.{ending.upper()}.gz") == key
    assert [format_of(name) for name in ("a.txt", "tsv", "a", "a.gz", "", ".tsv")] == [None] * 6


@pytest.mark.parametrize(
    ("name", "path", "keys"),
    [
        ("a.tsv", "a.tsv", {}),
        ("a.tsv#2,3", "a.tsv", {"columns": (2, 3)}),
        ("c#/a.tab.gz# German , English", "c#/a.tab.gz", {"columns": ("German", "English")}),
        ("a.csv#a#1,b", "a.csv", {"columns": ("a#1", "b")}),
        ("a.xlsx#2", "a.xlsx", {"sheet": 2}),
        ("a.xlsx#2,3", "a.xlsx", {"columns": (2, 3)}),
        ("a.xlsx#Sheet 1:2,3", "a.xlsx", {"sheet": "Sheet 1", "columns": (2, 3)}),
        ("a.xlsx#:de,en", "a.xlsx", {"columns": ("de", "en")}),
        ("a.xlsx#2:de,en", "a.xlsx", {"sheet": 2, "columns": ("de", "en")}),
        ("a.xlsm#May, 2024", "a.xlsm", {"sheet": "May, 2024"}),
        ("a.xlsx#Wow!", "a.xlsx", {"sheet": "Wow!"}),
        ("a.jsonl#src,translation.0", "a.jsonl", {"fields": ("src", "translation.0")}),
        ("a.json#1,2", "a.json", {"fields": ("1", "2")}),
    ],
)
def test_columns_sheets_and_fields_follow_the_path(tmp_path, monkeypatch, name, path, keys):
    monkeypatch.chdir(tmp_path)
    assert corpus_named(name).model_dump(exclude_defaults=True) == {format_of(path): path, **keys}


def test_a_file_of_that_very_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert corpus_named("a#2.tsv").tsv == "a#2.tsv"
    (tmp_path / "a.tsv#2,3.tsv").touch()
    assert corpus_named("a.tsv#2,3.tsv") == ParallelFiles(tsv="a.tsv#2,3.tsv")


def test_an_unknown_extension_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\teins\n")
    with pytest.raises(ConfigError, match=r"--corpus a\.txt#2,3: unknown file extension"):
        corpus_named("a.txt#2,3")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [("a.zip", b"PK\3\4", "a zip archive"), ("a.parquet", b"PAR1", "a Parquet file"), ("a.pdf", b"%PDF-1", "a PDF")],
)
def test_a_file_that_is_no_text_is_refused_for_what_it_is(tmp_path, name, content, kind):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"this is {kind}"):
        corpus_named(str(tmp_path / name))


def test_a_compression_may_be_in_capitals(tmp_path):
    assert corpus_named("A.TSV.GZ") == ParallelFiles(tsv="A.TSV.GZ")
    assert corpus_named("a.tmx.bz2") == ParallelFiles(tmx="a.tmx.bz2")


@pytest.mark.parametrize("name", ["a.tsv#", "a.tsv#1", "a.csv#1,1", "a.tsv#0,1", "a.tsv#1,a", "a.xlsx#", "a.xlsx#x:1"])
def test_other_choices_of_columns_are_rejected(name):
    with pytest.raises(ConfigError, match="two different columns are needed after #, numbered from 1 or by name"):
        corpus_named(name)


def test_choices_that_a_format_does_not_have_are_rejected():
    with pytest.raises(ConfigError, match=r"a\.jsonl#a: two different fields are needed after #\n"):
        corpus_named("a.jsonl#a")
    with pytest.raises(ConfigError, match=r"a\.tmx#1,2: a tmx file has no columns or fields to choose"):
        corpus_named("a.tmx#1,2")


@pytest.mark.parametrize("content", [b"ARROW1\0\0\1", b"\x04\x22\x4d\x18\x80", b"Gr\xfc\xdfe\tx\n"])
def test_a_file_of_another_extension_that_is_no_text_is_not_to_be_renamed(tmp_path, content):
    (tmp_path / "a.arrow").write_bytes(content)
    with pytest.raises(DataError, match=r"NUL character|not UTF-8"):
        corpus_named(str(tmp_path / "a.arrow"))


def test_a_folder_of_files_is_refused_as_one(tmp_path):
    with pytest.raises(DataError, match=r"this is a folder; a text file is needed"):
        corpus_named(str(tmp_path))
