"""A bad corpus ends in one message and exit code 1, or is read, counted and reported. Nothing is left."""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.reliability.running import Said, assert_messages, nmt
from tests.tiny import tiny_values, write_digits

PAIRS = "".join(f"{n}\t{n + 7}\n" for n in range(10, 40)).encode()
ONE_SIDE = "".join(f"{n}\n" for n in range(10, 40)).encode()
ALIGNED = {"train": {"src": "a.src", "tgt": "a.tgt"}}
CSV = PAIRS.replace(b"\t", b",")
JSONL = b"".join(b'{"src": "%d", "tgt": "%d"}\n' % (n, n + 7) for n in range(10, 40))
TMX = b"<tmx version='1.4'><body>\n" + b"".join(
    b'<tu><tuv xml:lang="en"><seg>%d</seg></tuv><tuv xml:lang="de"><seg>%d</seg></tuv></tu>\n' % (n, n + 7)
    for n in range(10, 40)
) + b"</body></tmx>\n"  # fmt: skip
LAUGHS = b'<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
OUTSIDE = b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n'
PACKED = gzip.compress("".join(f"{n * n}\t{n}\n" for n in range(9000)).encode())
TRAINING = {"max_updates": 1, "warmup_updates": 0, "validate_every": 1, "average_checkpoints": 0}
DEFAULT_MODEL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}


class Case(NamedTuple):
    """What is in the training file (or files), how it is named, and how training on it ends."""

    files: dict[str, bytes]
    word: str  # a part of what is said
    code: int = 1
    data: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it)
    tokenizer: dict[str, Any] = {}  # noqa: RUF012
    model: dict[str, Any] = {}  # noqa: RUF012


def tsv(content: bytes, word: str, code: int = 1, **sections: dict[str, Any]) -> Case:
    return Case({"train.tsv": content}, word, code, **sections)


def of_form(name: str, content: bytes, form: str, word: str) -> Case:
    return Case({name: content}, word, data={"train": {form: name}})


CASES = {
    "a source line too many": Case({"a.src": ONE_SIDE + b"40\n", "a.tgt": ONE_SIDE}, "31 source lines", data=ALIGNED),
    "a target line too many": Case({"a.src": ONE_SIDE, "a.tgt": ONE_SIDE + b"40\n"}, "31 target lines", data=ALIGNED),
    "an empty side": tsv(PAIRS + b"41\t\n\t42\n", "dropped: 2 pairs with an empty side", 0),
    "nothing but empty sides": tsv(b"41\t\n\t42\n", "no source text"),
    "bytes that are not UTF-8": tsv(PAIRS + "ü\tu\n".encode("latin-1"), "not UTF-8: byte 0xFC"),
    "a lone surrogate": tsv(PAIRS + b"\xed\xa0\x80\tx\n", "not UTF-8: byte 0xED"),
    "UTF-16": tsv(PAIRS.decode().encode("utf-16"), "this is UTF-16"),
    "a NUL character": tsv(PAIRS + b"4\x001\t2\n", "NUL character at byte 2"),
    "a byte order mark": tsv(b"\xef\xbb\xbf" + PAIRS, "corpus: 30 training pairs", 0),
    "line ends LF and CR LF mixed": tsv(PAIRS + b"41\t48\r\n", "corpus: 31 training pairs", 0),
    "U+2028 and U+0085 inside a line": tsv(PAIRS + "4\u20281\t4\x858\n".encode(), "corpus: 31 training pairs", 0),
    "a tab missing": tsv(PAIRS + b"41 48\n", "1 tab-separated column, but column 2"),
    "a tab too many": tsv(PAIRS + b"4\t1\t48\n", "3 tab-separated columns, but the first row has 2"),
    "a folder": Case({"train.tsv/x": b""}, "this is a folder"),
    "a missing file": Case({}, "no such file"),
    "an empty file": tsv(b"", "the file is empty"),
    "gzip data cut short": Case({"t.gz": PACKED[:900]}, "is truncated", data={"train": {"tsv": "t.gz"}}),
    "plain text named .gz": Case({"t.gz": PAIRS}, "not readable as gzip", data={"train": {"tsv": "t.gz"}}),
    "gzip data not named .gz": tsv(PACKED, "does not end in .gz"),
    "xz data cut short": of_form("a.csv.xz", lzma.compress(CSV * 999)[:-40], "csv", "the xz data is truncated"),
    "a zip archive named .tsv": tsv(b"PK\x03\x04\x14\0", "a zip archive, a workbook or a Word document"),
    "a csv without a delimiter": of_form("a.csv", ONE_SIDE, "csv", "no delimiter found"),
    "a quotation mark that is never closed": of_form("a.csv", CSV + b'"41,48\n', "csv", "never closed"),
    "a column that the header lacks": Case(
        {"a.csv": b"id,de,en\n" + CSV},
        "no column is called 'fr'",
        data={"train": {"csv": "a.csv", "columns": ["de", "fr"]}},
    ),
    "a column of IDs chosen as the source": of_form(
        "a.csv", b"".join(b"%d,Satz %d,the sentence\n" % (n, n) for n in range(50)), "csv", "has numbers or IDs"
    ),
    "cells that a spreadsheet could not compute": tsv(PAIRS + b"#VALUE!\t41\n42\t=A1&B1\n", "skipped 2 rows", 0),
    "a workbook that is none": of_form("a.xlsx", PAIRS, "xlsx", "this is not a workbook"),
    "a JSON line that is cut": of_form("a.jsonl", JSONL + b'{"src": "4', "jsonl", "not JSON"),
    "a JSON field that is missing": of_form("a.jsonl", JSONL + b'{"src": "4"}\n', "jsonl", "no field 'tgt'"),
    "a JSON field that is a number": of_form("a.jsonl", JSONL + b'{"src": 4, "tgt": "5"}\n', "jsonl", "is a number"),
    "a broken TMX": of_form("a.tmx", TMX[:-20], "tmx", "not well-formed XML"),
    "a TMX in other languages": of_form("a.tmx", TMX.replace(b'"en"', b'"fr"'), "tmx", "no unit has both"),
    "a billion laughs": of_form("a.tmx", LAUGHS + TMX, "tmx", "file contains a DTD"),
    "an external entity": of_form("a.tmx", OUTSIDE + TMX.replace(b"10", b"&a;", 1), "tmx", "file contains a DTD"),
    "an entity of an external DTD": of_form(
        "a.tmx", b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n' + TMX.replace(b"10", b"&a;", 1), "tmx", "refers to an entity"
    ),
    "a second corpus that is missing": Case(
        {"train.tsv": PAIRS}, "no such file", data={"train": [{"tsv": "train.tsv"}, {"csv": "b.csv"}]}
    ),
    "a weight too small for a single pair": Case(
        {"train.tsv": PAIRS},
        "corpus 2 of data.train gets none of the",
        data={"train": [{"tsv": "train.tsv", "weight": 1e9}, {"tsv": "train.tsv", "weight": 1}]},
    ),
    "a line of 10 MB": tsv(PAIRS + b"4" * 10_000_000 + b"\t4\n", "this line is longer than 1 MB"),
    "nothing but lines over 16 KB": tsv((b"4 " * 9000 + b"\t4\n") * 30, "longer than 16,384 bytes"),
    "a Parquet file": of_form("a.parquet", b"PAR1\x15\x04", "jsonl", "a Parquet file"),
    "a path with a tab": Case({}, "YAML reads", data={"train": {"tsv": "C:\train.tsv"}}),
    "one language in both columns": tsv(
        PAIRS[:12] + b"".join(b"%d\t%d\n" % (n, n) for n in range(50)), "columns right", 0
    ),
    "training pairs with sources of the test set": tsv(
        PAIRS + b"5\t6\n", "the test set shares its sources with 1 training pair", 0
    ),
    "pairs over the limit, to be cut": tsv(PAIRS + b"1" * 99 + b"\t1\n", "truncated: 1 pair longer than 32 source", 0),
    "more held out than a tenth": tsv(
        PAIRS, "Holding out 3 source sentences for valid and test instead of 500", 0, data={"valid": None, "test": None}
    ),
    "too little to hold out of": tsv(PAIRS[:12], "too few to hold out", data={"valid": None, "test": None}),
    "a vocabulary larger than the data supports": tsv(PAIRS, "more than the source and target text supports", 0),
    "a vocabulary smaller than the data needs": tsv(PAIRS, "is too small", tokenizer={"vocab_size": 100}),
}
NO_PERMISSION = "error: train.tsv: no permission to read this file"
rows: dict[str, tuple[int, str]] = {}


def train_on(case: Case, folder: Path, uid: int | None = None) -> Said:
    """Train for one update on what the case writes; relative names, so that the messages are the same everywhere."""
    write_digits(folder, num_train=1, num_held_out=4)
    (folder / "test.tsv").write_text("5\t6\n77\t88\n")
    (folder / "train.tsv").unlink()
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    data = {split: {"tsv": f"{split}.tsv"} for split in ("train", "valid", "test")} | case.data
    sections = {"training": TRAINING, "tokenizer": case.tokenizer, "model": DEFAULT_MODEL | case.model}
    (folder / "x.yaml").write_text(yaml.safe_dump(tiny_values(folder, data=data, **sections)))
    return nmt("train", "--config", "x.yaml", "--run", "runs/x", cwd=folder, uid=uid)


@pytest.mark.parametrize("name", CASES)
def test_a_bad_corpus_ends_in_one_message_or_is_counted(name, tmp_path):
    case = CASES[name]
    done = train_on(case, tmp_path)
    assert "Traceback" not in done.text
    assert (done.code, case.word in done.text) == (case.code, True), done.text
    if case.code:
        rows[name] = case.code, done.error.replace(str(tmp_path), "/here")
        assert case.word in done.error
        assert done.text.count("error: ") == 1
        assert [path for path in tmp_path.glob("runs/*") if path.name != ".store"] == []
        assert list(tmp_path.glob("runs/.store/.*")) == []  # a store with its final name is whole
    else:
        rows[name] = 0, next(line for line in done.text.splitlines() if case.word in line)
        assert (tmp_path / "runs" / "x" / "checkpoints" / "index.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become another user")
def test_a_file_without_permission_ends_in_one_message():
    with tempfile.TemporaryDirectory() as name:  # only the superuser may enter pytest's folders
        folder = Path(name)
        folder.chmod(0o755)
        train_on(Case({"train.tsv": PAIRS}, ""), folder)
        (folder / "train.tsv").chmod(0o000)
        (folder / "mine").mkdir()
        (folder / "mine").chmod(0o777)
        done = nmt("train", "--config", "x.yaml", "--run", "mine/x", cwd=folder, uid=65534)
        assert done.error == NO_PERMISSION, done.text
        assert (done.code, [path for path in (folder / "mine").rglob("*") if path.name != ".store"]) == (1, [])


def test_the_messages_are_those_of_the_snapshot():
    if len(rows) < len(CASES):
        pytest.skip("not all of the cases ran")
    rows["a file without permission, read by another user"] = 1, NO_PERMISSION  # as tried above by the superuser
    assert_messages("bad-corpora", rows)
