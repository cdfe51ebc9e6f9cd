"""Generate the English-Mandarin demo corpus: `python scripts/make_demo_corpus.py [--out DIR]`.

Sentences come from the templates and word tables in `scripts/demo_corpus/`, and from the handwritten sentences there.
The result is byte-identical on every machine, because all choices depend only on the SHA-256 of the sentence.
"""

import argparse
import hashlib
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from demo_corpus.grammar import Tables, Template, fillings, read_tables, read_templates

GRAMMAR_DIR = Path(__file__).resolve().parent / "demo_corpus"
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "data" / "demo-en-zh"

FREE = "free"  # the template name of handwritten sentences
TEST_PERCENT = 7  # of each template's rows
VALID_PERCENT = 5
PERCENT_WITHOUT_STOP = 18  # of the sources that end in a full stop: about 15 of 100 sentences
MIN_WORD_COUNT = 2  # minimum occurrences in train of each word of a held-out sentence


class Row(NamedTuple):
    """A sentence pair and the name of the template it comes from."""

    template: str
    src: str
    tgt: str


def source_key(src: str) -> str:
    """Return the words that make two sources the same sentence, without case and final punctuation."""
    return src.rstrip(".?!").casefold()


def _hash(purpose: str, text: str) -> int:
    """Return a number that depends only on the two strings."""
    return int.from_bytes(hashlib.sha256(f"{purpose}\t{text}".encode()).digest()[:8], "big")


def _template_rows(template: Template, tables: Tables) -> list[Row]:
    """Return the template's share of rows, some of them without the source's final full stop."""
    pairs = sorted(fillings(template, tables), key=lambda pair: _hash("take", pair[0]))[: template.take]
    rows = []
    for src, tgt in pairs:
        bare = src.removesuffix(".")
        if template.with_and_without_stop:
            rows += [Row(template.name, src, tgt), Row(template.name, bare, tgt)]
        elif _hash("stop", src) % 100 < PERCENT_WITHOUT_STOP:
            rows.append(Row(template.name, bare, tgt))
        else:
            rows.append(Row(template.name, src, tgt))
    return rows


def free_rows() -> list[Row]:
    """Return the handwritten sentences."""
    lines = (GRAMMAR_DIR / "free_sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [Row(FREE, *line.split("\t")) for line in lines]


def corpus_rows() -> list[Row]:
    """Return all rows of the corpus, each source once; ValueError if a source has two translations."""
    tables = read_tables(GRAMMAR_DIR / "words.txt")
    rows = free_rows()
    for template in read_templates(GRAMMAR_DIR / "templates.txt"):
        rows += _template_rows(template, tables)
    seen: dict[str, Row] = {}
    unique = []
    for row in rows:
        first = seen.setdefault(source_key(row.src), row)
        if first.tgt != row.tgt:
            raise ValueError(f"two translations of one source: {first} and {row}")
        if first is row or first.template == row.template:
            unique.append(row)
    return unique


def words(row: Row) -> set[str]:
    """Return the English words and the Mandarin characters of a row."""
    return set(re.findall(r"[A-Za-z']+", row.src)) | {char for char in row.tgt if char.isalpha()}


def _spread(rows: list[Row], purpose: str) -> list[Row]:
    """Return the rows in a fixed random order."""
    return sorted(rows, key=lambda row: _hash(purpose, row.src))


def _draw(rows: list[Row]) -> dict[str, list[Row]]:
    """Split the rows into train, valid and test, with the same share of every template."""
    train_only = {t.name for t in read_templates(GRAMMAR_DIR / "templates.txt") if t.train_only} | {FREE}
    by_template: dict[str, list[Row]] = {}
    for row in _spread(rows, "split"):
        by_template.setdefault(row.template, []).append(row)
    parts: dict[str, list[Row]] = {"train": [], "valid": [], "test": []}
    for name, drawn in by_template.items():
        num_test = 0 if name in train_only else round(len(drawn) * TEST_PERCENT / 100)
        num_valid = 0 if name in train_only else round(len(drawn) * VALID_PERCENT / 100)
        parts["test"] += drawn[:num_test]
        parts["valid"] += drawn[num_test : num_test + num_valid]
        parts["train"] += drawn[num_test + num_valid :]
    return parts


def split(rows: list[Row]) -> dict[str, list[Row]]:
    """Split the rows into train, valid and test, each in a fixed random order.

    Handwritten sentences and templates marked `train` stay in train. So does a row drawn for valid or test if train
    contains one of its words less than twice.
    """
    parts = _draw(rows)
    counts = Counter(word for row in parts["train"] for word in words(row))
    for name in ("valid", "test"):
        rare = [row for row in parts[name] if any(counts[word] < MIN_WORD_COUNT for word in words(row))]
        parts["train"] += rare
        parts[name] = [row for row in parts[name] if row not in rare]
    return {name: _spread(part, "order") for name, part in parts.items()}


def write_corpus(out_dir: Path) -> dict[str, int]:
    """Write train.tsv, valid.tsv and test.tsv into a folder; return the number of rows of each."""
    out_dir.mkdir(parents=True, exist_ok=True)
    parts = split(corpus_rows())
    for name, rows in parts.items():
        text = "".join(f"{row.src}\t{row.tgt}\n" for row in rows)
        (out_dir / f"{name}.tsv").write_bytes(text.encode("utf-8"))
    return {name: len(rows) for name, rows in parts.items()}


def main() -> None:
    """Read the command line, write the corpus, and print the number of rows in each file."""
    parser = argparse.ArgumentParser(description="Generate the English-Mandarin demo corpus.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="folder to write (%(default)s)")
    out_dir = parser.parse_args().out
    for name, num_rows in write_corpus(out_dir).items():
        sys.stderr.write(f"{out_dir / name}.tsv: {num_rows} rows\n")


if __name__ == "__main__":
    main()
