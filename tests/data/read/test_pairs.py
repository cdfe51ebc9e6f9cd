"""Reading parallel text: what counts as a line, and every complaint with its place."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.base.errors import DataError
from nmt.base.languages import Direction
from nmt.config.corpora import FORMATS, ParallelFiles
from nmt.data.read.lines import MAX_LINE_BYTES, read_lines
from nmt.data.read.pairs import SentencePair, path_of, paths_of, read_named, read_parallel
from tests.quick import examples


@pytest.fixture
def write(tmp_path):
    """Write bytes to a new file of this name and return its path."""

    def write_bytes(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


def fault_of(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert caught.value.path == path
    return caught.value


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\n", ["one"]),
        (b"one", ["one"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\r\r\n", ["one\r"]),
        (b"\n\none\n\n", ["", "", "one", ""]),
        (b"\xef\xbb\xbfone\ntwo\n", ["one", "two"]),
        (b"\xef\xbb\xbf\none\n", ["", "one"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"]),
        ("  嗨 \t\n".encode(), ["  嗨 \t"]),
    ],
)
def test_only_line_feeds_end_lines(write, content, lines):
    assert list(read_lines(write("a.txt", content))) == lines
    assert list(read_lines(write("a.txt.gz", gzip.compress(content)))) == lines


def test_two_gzip_members_are_one_text(write):
    assert list(read_lines(write("a.gz", gzip.compress(b"one\n") + gzip.compress(b"two\n")))) == ["one", "two"]


def test_a_line_of_the_largest_size_is_read_and_a_longer_one_refused(write):
    longest = b"x" * (MAX_LINE_BYTES - 1) + b"\n"
    assert len(next(read_lines(write("a", longest)))) == MAX_LINE_BYTES - 1
    fault = fault_of(write("b", b"short\n" + b"x" + longest))
    assert fault.line == 2
    assert "this line is longer than 1 MB" in str(fault)


def test_lines_before_a_fault_are_yielded(write):
    lines = read_lines(write("a", b"one\n\xff\n"))
    assert next(lines) == "one"
    with pytest.raises(DataError):
        next(lines)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(write, content):
    assert "the file is empty" in str(fault_of(write("a", content)))
    assert "the file is empty" in str(fault_of(write("a.gz", gzip.compress(content))))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    fault = fault_of(tmp_path / "none.txt")
    assert "no such file" in str(fault)
    assert str(Path.cwd()) in fault.hint
    assert "this is a folder" in str(fault_of(tmp_path))
    assert "no such file" in str(fault_of(tmp_path / "none.gz"))


def test_a_file_without_permission_is_named(write, monkeypatch):
    path = write("a", b"one\n")

    def refuse(*_):  # a superuser may read everything, whatever the file's mode
        raise PermissionError

    monkeypatch.setattr("nmt.data.read.lines.open", refuse, raising=False)
    assert "no permission" in str(fault_of(path))


def test_other_faults_of_opening_keep_their_reason(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "cannot be opened" in str(fault_of(loop))


def test_bytes_that_are_not_utf8_are_named_with_their_place(write):
    fault = fault_of(write("a", "eins\nschön\n".encode("latin-1")))
    assert fault.line == 2
    assert "not UTF-8: byte 0xF6 at byte 4 of the line" in str(fault)
    assert "iconv" in fault.hint


@pytest.mark.parametrize("cut", [b"\xe5\x97", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"])
def test_cut_surrogate_and_overlong_sequences_are_refused(write, cut):
    assert fault_of(write("a", b"one\ntwo\n" + cut + b"\n")).line == 3


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognized(write, encoding):
    fault = fault_of(write("a", "\ufeffone\ntwo\n".encode(encoding)))
    assert "this is UTF-16" in str(fault)
    assert "iconv -f UTF-16" in fault.hint
    assert "NUL character" in str(fault_of(write("a", "one\ntwo\n".encode(encoding))))


def test_a_nul_character_is_refused_with_its_place(write):
    fault = fault_of(write("a", b"one\ntw\0o\n"))
    assert fault.line == 2
    assert "NUL character at byte 3 of the line" in str(fault)


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("a.gz", bz2.compress(b"one\n"), "rename this file of bzip2 data"),
        ("a.bz2", lzma.compress(b"one\n"), "rename this file of xz data"),
        ("a.xz", gzip.compress(b"one\n", mtime=0), "rename this file of gzip data"),
        ("a.gz", b"one\n", "rename a plain text file"),
        ("a.de", "schön\n".encode("utf-16-le"), "iconv -f UTF-16LE"),
        ("a.sgm", b'<srcset setid="x" srclang="any">\n<seg id="1">one</seg>\n', "the text of each <seg> as one line"),
        ("a.en", b'<refset setid="x" trglang="en">\n<seg id="1">one</seg>\n', "the text of each <seg> as one line"),
    ],
)
def test_another_kind_of_file_is_refused_with_its_kind(write, name, content, advice):
    assert advice in fault_of(write(name, content)).hint


def test_gzip_that_is_none_is_damaged_or_cut_short_is_named(write):
    packed = gzip.compress("\n".join(str(i * i) for i in range(5000)).encode())
    assert "not readable as gzip" in str(fault_of(write("plain.gz", b"one\ntwo\n")))
    assert "is truncated" in str(fault_of(write("cut.gz", packed[: len(packed) // 2])))
    assert "is truncated" in str(fault_of(write("head.gz", packed[:5])))
    damaged = packed[:200] + bytes(255 - byte for byte in packed[200:260]) + packed[260:]
    assert fault_of(write("damaged.gz", damaged)).line is not None
    checksum = packed[:-8] + bytes(8)
    assert "not readable as gzip" in str(fault_of(write("checksum.gz", checksum)))


def test_gzip_data_under_a_plain_name_is_recognized(write):
    assert "does not end in .gz" in str(fault_of(write("a.txt", gzip.compress(b"one\n"))))


def test_aligned_files_are_read_in_step_and_stripped(write):
    src = write("a.de", "  eins\nzwei\u3000\r\n\n".encode())
    tgt = write("a.en.gz", gzip.compress(b"one\t\ntwo\nthree"))
    files = ParallelFiles(src=str(src), tgt=str(tgt))
    assert paths_of(files) == [src, tgt]
    assert list(read_parallel(files)) == [
        SentencePair("eins", "one", 1),
        SentencePair("zwei", "two", 2),
        SentencePair("", "three", 3),
    ]


@pytest.mark.parametrize(("num_src", "num_tgt"), [(5, 3), (2, 7), (1, 2)])
def test_files_of_unequal_length_are_counted_to_the_end(write, num_src, num_tgt):
    src, tgt = write("a.de", b"x\n" * num_src), write("a.en", b"y\n" * num_tgt)
    with pytest.raises(DataError, match=f"{num_src} source lines .* but {num_tgt} target lines") as caught:
        list(read_parallel(ParallelFiles(src=str(src), tgt=str(tgt))))
    assert (caught.value.path, caught.value.line) == (tgt, min(num_src, num_tgt) + 1)
    assert "check from this line on" in caught.value.hint


def test_a_tsv_is_read_by_its_columns(write):
    path = write("a.tsv", b'1\tone \t"eins"\textra\r\n2\ttwo\t zwei\n')
    files = ParallelFiles(tsv=str(path), columns=(3, 2))
    assert paths_of(files) == [path]
    assert list(read_parallel(files)) == [SentencePair('"eins"', "one", 1), SentencePair("zwei", "two", 2)]


def test_blank_rows_and_empty_fields_of_a_tsv_are_pairs_with_empty_sides(write):
    path = write("a.tsv", b"one\teins\n\n \t\ntwo\t\n\tdrei\n")
    assert list(read_parallel(ParallelFiles(tsv=str(path)))) == [
        SentencePair("one", "eins", 1),
        SentencePair("", "", 2),
        SentencePair("", "", 3),
        SentencePair("two", "", 4),
        SentencePair("", "drei", 5),
    ]


def test_a_row_with_too_few_columns_is_named(write):
    path = write("a.tsv", b"one\teins\ntwo zwei\n")
    with pytest.raises(DataError, match="1 tab-separated column, but column 2 is requested") as caught:
        list(read_parallel(ParallelFiles(tsv=str(path))))
    assert (caught.value.path, caught.value.line) == (path, 2)
    with pytest.raises(DataError, match="2 tab-separated columns, but column 5 is requested"):
        list(read_parallel(ParallelFiles(tsv=str(path), columns=(5, 1))))


def test_a_row_with_more_columns_than_the_first_is_named(write):
    path = write("a.tsv", b"one\teins\ntwo\tand a half\tzweieinhalb\n")
    with pytest.raises(DataError, match="3 tab-separated columns, but the first row has 2") as caught:
        list(read_parallel(ParallelFiles(tsv=str(path))))
    assert (caught.value.path, caught.value.line) == (path, 2)


def test_a_table_that_a_command_names_is_read_as_a_corpus_is(write):
    direction = Direction("de", "en")
    content = 'source\ttarget\n"a ""b"""\tone\n\n=A1\tx\n'
    expected = [("", "", 3), ('a "b"', "one", 2)]
    for name in ("a.tsv", "a.txt", "a.TSV.GZ"):
        path = write(name, gzip.compress(content.encode()) if name.endswith("GZ") else content.encode())
        assert sorted(pair[:3] for pair in read_named(str(path), direction)) == expected
        corpus = ParallelFiles(tsv=str(path))
        assert [*read_named(str(path), direction)] == [*read_parallel(corpus)]
    named = f"{write('b.csv', b'1,eins,one')}#3,2"
    assert [pair[:2] for pair in read_named(named, direction)] == [("one", "eins")]
    decomposed = str(write("c.tsv", "u\u0308ber\u00adall\tevery\u200bwhere\n".encode()))
    assert [pair[:2] for pair in read_named(decomposed, direction)] == [("\u00fcberall", "everywhere")]
    unit = b'<tmx><body><tu><tuv lang="en"><seg>one</seg></tuv><tuv lang="de"><seg>eins</seg></tuv></tu></body></tmx>'
    memory = str(write("d.tmx", unit))
    assert [pair[:2] for pair in read_named(memory, direction)] == [("eins", "one")]
    assert [pair[:2] for pair in read_named(memory, Direction("en", "de"))] == [("one", "eins")]


def test_several_corpora_are_read_in_turn_and_each_pair_says_its_corpus_and_line(write):
    write("a.de", b"eins\nzwei\n")
    write("a.en", b"one\ntwo\n")
    path = write("b.jsonl", b'{"src": "drei", "tgt": "three"}\n')
    corpora = [
        ParallelFiles(src=str(path.with_name("a.de")), tgt=str(path.with_name("a.en"))),
        ParallelFiles(jsonl=str(path)),
        ParallelFiles(tsv=str(write("c.tsv", b"four\tvier\n")), columns=(2, 1)),
    ]
    pairs = list(read_parallel(corpora))
    assert pairs == [
        SentencePair("eins", "one", 1, 0),
        SentencePair("zwei", "two", 2, 0),
        SentencePair("drei", "three", 1, 1),
        SentencePair("vier", "four", 1, 2),
    ]
    assert [path_of(corpora, pair).name for pair in pairs] == ["a.de", "a.de", "b.jsonl", "c.tsv"]
    assert [path.name for path in paths_of(corpora)] == ["a.de", "a.en", "b.jsonl", "c.tsv"]
    assert path_of(corpora[1:], SentencePair("", "", 1)) == path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_corpora_are_checked_for_pipes_before_the_first_is_read(write, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="this is a pipe"):
        read_parallel(
            [ParallelFiles(tsv=str(write("a.tsv", b"a\tb\n"))), ParallelFiles(csv=str(tmp_path / "pipe.csv"))]
        )


PIECES = ["a", "1", '"', '""', "\t", ",", ";", "\n", "\r\n", " ", "#REF!", "=A1", "{", "}", "[", ":"]
PIECES += ['{"src": "a", "tgt": "b"}', "<tmx>", "<tu>", '<tuv xml:lang="en">', "<seg>", "<ph>", "</ph>", "</seg>"]
PIECES += ["</tuv>", "</tu>", "</tmx>", "<!DOCTYPE a [", "]>", "&a;", "&#0;", "\0", "\x85", "\ufeff", "PK\x03\x04"]


@settings(max_examples=examples(25, 80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=80)
    | st.lists(st.sampled_from(PIECES), max_size=25).map(lambda parts: "".join(parts).encode()),
    form=st.sampled_from(sorted(FORMATS)),
    ending=st.sampled_from(["", ".gz", ".xz"]),
)
def test_any_bytes_are_pairs_on_one_line_each_or_an_error(tmp_path, content, form, ending):
    path = tmp_path / f"a.{form}{ending}"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        for pair in read_parallel(ParallelFiles.model_validate({form: str(path), "src_lang": "en", "tgt_lang": "de"})):
            assert "\n" not in pair.src + pair.tgt
            assert (pair.src.strip(), pair.tgt.strip()) == pair[:2]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at open files in /proc")
@pytest.mark.parametrize(
    ("name", "good", "fault", "keys"),
    [
        ("a.tsv", "a\tb\n", "c\n", {}),
        ("b.tsv", "a\tb\n", '"c" d\te\n', {"quoting": True}),
        ("c.csv", "a,b\n", '"c" d,e\n', {"delimiter": ","}),
        ("d.jsonl", '{"src": "a", "tgt": "b"}\n', "[]\n", {}),
        ("e.tmx", "", "<tmx><body><tu></body></tmx>", {"src_lang": "en", "tgt_lang": "de"}),
        ("f.xlsx", "", "no workbook", {}),
        ("g.txt", "a\n", "\0\n", {}),
    ],
)
def test_a_file_with_a_fault_is_closed_while_its_error_is_kept(write, name, good, fault, keys):
    path = write(name, (good * 2000 + fault + good * 2000).encode())
    form = path.suffix.removeprefix(".")
    named = {"src": path, "tgt": write("other.txt", b"a\n" * 5000)} if form == "txt" else {form: path}
    files = ParallelFiles.model_validate({key: str(value) for key, value in named.items()} | keys)
    with pytest.raises(DataError) as kept:
        list(read_parallel(files))
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.exists(link)]
    assert kept.value.path
    assert not [target for target in opened if target.startswith(str(path.parent))]
