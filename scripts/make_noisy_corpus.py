"""Plant known faults in a clean parallel corpus, and measure how many of them `nmt data check` finds.

    python scripts/make_noisy_corpus.py --src train.de --tgt train.en --other train.fr --output noisy [--each 100]
    python scripts/make_noisy_corpus.py --src train.de --tgt train.en --other train.fr --measure [--each 100]
    python scripts/make_noisy_corpus.py --tsv train.tsv --languages en-zh --measure

The first command writes noisy.src, noisy.tgt, noisy.key.tsv (line, fault), which lists the planted faults, and
noisy.held-out.tsv, pairs taken out of the corpus to serve as a test set. The other commands plant the same faults,
check the noisy and the clean corpus, and print a table: planted, found (recall), found by any rule of `nmt config new`,
and false: rows without a fault that the rule finds in the noisy corpus but not in the clean one (so that real faults of
the corpus do not count). The seed determines everything. `--other`: sentences in a third language, for the language
rule, which needs the extra langid. `--shuffle`: put the rows in random order, as in an unsorted corpus.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nmt.base.files import write_text
from nmt.base.languages import script_of
from nmt.config.corpora import ParallelFiles
from nmt.config.data import DataConfig
from nmt.config.filters import SAFE_FILTERS, Filters
from nmt.data.check.features import Side, is_question
from nmt.data.check.profile import expect
from nmt.data.check.rules import RULES, rules_that_drop
from nmt.data.check.stream import check_pairs
from nmt.data.read.lines import read_lines
from nmt.data.read.pairs import SentencePair, read_parallel

Pair = tuple[str, str]
Fault = Callable[[Pair, random.Random], Pair]

_SHIFTED_RUN = 60  # rows
_ALIKE = str.maketrans("aeopcxAEOPCTHKMB", "аеорсхАЕОРСТНКМВ")  # Latin to the Cyrillic letters that look the same
_CELLS = ("#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "=SUM(A1:A9)", "=B12+C12", "#WERT!", "#N/A")
_CONTROLS = "\x07\x08\x0b\x1b\x7f\x85\ufeff\ue000"
_HEADERS = (("source", "target"), ("src", "tgt"), ("Source text", "Target text"), ("text1", "text2"))
_GREEK = "αβγδεζηθικλμνξοπρστυφχψω"


def _at_word(text: str, insert: str, draw: random.Random) -> str:
    words = text.split(" ")
    words.insert(draw.randrange(len(words) + 1), insert)
    return " ".join(words)


def _misread(text: str) -> str:
    return text.encode("utf-8").decode("cp1252", errors="ignore")


def _on_one_side(change: Callable[[str, random.Random], str]) -> Fault:
    def fault(pair: Pair, draw: random.Random) -> Pair:
        src, tgt = pair
        return (change(src, draw), tgt) if draw.random() < 0.5 else (src, change(tgt, draw))

    return fault


def _mojibake(text: str, draw: random.Random) -> str:
    return _misread(_at_word(text, draw.choice(("größer", "“schön”", "don’t", "café", "naïve", "—", "Übung")), draw))


def _homoglyph(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    fit = [i for i, word in enumerate(words) if len(word) > 3 and word[1:].translate(_ALIKE) != word[1:]]
    place = draw.choice(fit) if fit else 0
    word = words[place] if fit else words[place] + "word"
    at = draw.choice([i for i in range(1, len(word)) if word[i].translate(_ALIKE) != word[i]])
    words[place] = word[:at] + word[at].translate(_ALIKE) + word[at + 1 :]
    return " ".join(words)


def _number(pair: Pair, draw: random.Random) -> Pair:
    first, second = draw.sample(range(101, 9999), 2)
    return _at_word(pair[0], str(first), draw), _at_word(pair[1], str(second), draw)


def _near_copy(pair: Pair, draw: random.Random) -> Pair:
    changes: list[Callable[[str], str]] = [str.upper, str.lower, lambda text: text.rstrip(".") + " !", str.title]
    change = draw.choice(changes)
    src, tgt = change(pair[0]), change(pair[1])
    return (src, tgt) if (src, tgt) != pair else (pair[0] + " !", pair[1])


def _turn_question(text: str, draw: random.Random) -> str:
    """Turn a statement into a question, and a question into a statement."""
    return text.rstrip(' .?!"。？！”') + ("." if is_question(text) else "?")


def _cut(pair: Pair, draw: random.Random) -> Pair:
    """Cut a side to a tenth of its characters, at least one."""
    side = draw.randrange(2)
    short = pair[side][: max(1, len(pair[side]) // 10)]
    return (short, pair[1]) if side == 0 else (pair[0], short)


FAULTS: dict[str, Fault] = {
    "empty": _on_one_side(lambda text, draw: ""),
    "too_long": _on_one_side(lambda text, draw: " ".join([text] * (1000 // len(text) + 1))),
    "too_short": _on_one_side(lambda text, draw: draw.choice(("...", "-", "?!", "—", "***"))),
    "length_ratio": _cut,
    "duplicate": lambda pair, draw: pair,
    "near_duplicate": _near_copy,
    "untranslated": lambda pair, draw: draw.choice([(pair[0], pair[0]), (pair[1], pair[1])]),
    "sides_swapped": lambda pair, draw: (pair[1], pair[0]),
    "wrong_script": _on_one_side(lambda text, draw: "".join(draw.choice(_GREEK) if c.isalpha() else c for c in text)),
    "mixed_scripts": _on_one_side(_homoglyph),
    "mojibake": _on_one_side(_mojibake),
    "control_characters": _on_one_side(lambda text, draw: _at_word(text, f"a{draw.choice(_CONTROLS)}b", draw)),
    "markup": lambda pair, draw: (f"<p>{pair[0]}</p>", f"<p>{pair[1]}</p>"),
    "markup_mismatch": _on_one_side(
        lambda text, draw: draw.choice((f"<b>{text}</b>", f"{text}&nbsp;", f"{text}<br/>"))
    ),
    "number_mismatch": _number,
    "span_mismatch": _on_one_side(
        lambda text, draw: _at_word(
            text, draw.choice(("https://example.org/a", "{name}", "%s", "a.b@example.com")), draw
        )
    ),
    "punctuation_mismatch": _on_one_side(_turn_question),
    "spreadsheet": _on_one_side(lambda text, draw: draw.choice(_CELLS)),
    "header_row": lambda pair, draw: draw.choice(_HEADERS),
}
"""Faults of single rows, by the rule that should find them; other faults need neighboring rows or another text."""

_OF_EARLIER_ROWS = ("duplicate", "near_duplicate", "repeated_source")
_OF_HELD_OUT = ("overlap", "near_overlap")
_NEEDS_OTHER_TEXT = ("other_side", "wrong_language", "repeated_source", *_OF_HELD_OUT)


def hold_out(pairs: Sequence[Pair], each: int) -> tuple[list[Pair], list[Pair]]:
    """Split off an evenly spread test set of at most `each` sources; return the other pairs and the test set.

    None of the other pairs has a source of the test set, or nearly one.
    """
    held_out = list(pairs[:: max(2, len(pairs) // each)])[:each]
    sources = {Side(src).folded for src, _ in held_out}
    return [pair for pair in pairs if Side(pair[0]).folded not in sources], held_out


def _names(languages: Pair, other: Sequence[str], held_out: Sequence[Pair]) -> list[str]:
    """Return the faults to plant; with two scripts, a sentence of the other side serves as one in a wrong script."""
    same_script = script_of(languages[0]) == script_of(languages[1])
    names = [*FAULTS, *(["other_side"] if same_script else []), "repeated_source"]
    return names + (["wrong_language"] if other else []) + (list(_OF_HELD_OUT) if held_out else [])


def plant(
    pairs: Sequence[Pair],
    other: Sequence[str],
    each: int,
    seed: int,
    held_out: Sequence[Pair] = (),
    languages: Pair = ("de", "en"),
) -> tuple[list[Pair], dict[int, str]]:
    """Return the pairs with `each` rows of every fault, and the fault by row (from 0).

    Rows with a fault are drawn at random without repetition; a duplicate replaces a row after its original. Shifted
    rows are runs of 60 whose targets move one to three rows down. The overlap is with `held_out`.
    """
    draw = random.Random(seed)
    noisy, key = list(pairs), dict[int, str]()
    for _ in range(-(-each // _SHIFTED_RUN)):
        _shift(noisy, key, draw)
    names = _names(languages, other, held_out)
    free = [row for row in range(1, len(noisy)) if row not in key and noisy[row] == pairs[row]]
    for row, name in zip(draw.sample(free, each * len(names)), names * each, strict=True):
        key[row] = name
    for row, name in key.items():
        if name == "other_side":
            side, stranger = draw.randrange(2), draw.choice(pairs)
            noisy[row] = (stranger[1], pairs[row][1]) if side == 0 else (pairs[row][0], stranger[0])
        elif name == "wrong_language":
            third, (src, tgt) = draw.choice(other), pairs[row]
            noisy[row] = (src, third) if script_of(languages[1]) == "Latn" else (third, tgt)
        elif name in _OF_EARLIER_ROWS:
            original = draw.randrange(row)
            while original in key:
                original = (original + 1) % row
            noisy[row] = _again(name, pairs[original], pairs[row], draw)
        elif name in _OF_HELD_OUT:
            noisy[row] = _again(name, draw.choice(held_out), pairs[row], draw)
        elif name != "shifted":
            noisy[row] = FAULTS[name](pairs[row], draw)
    return noisy, key


def _again(name: str, original: Pair, pair: Pair, draw: random.Random) -> Pair:
    """Return a pair that repeats `original`, in full or in part, to replace `pair`."""
    if name == "repeated_source":
        return original[0], pair[1] if pair[1] != original[1] else f"{pair[1]} …"
    if name == "overlap":
        return original
    if name == "near_overlap":
        src, tgt = _near_copy(original, draw)
        return (src if src != original[0] else f"{src} !"), tgt
    return FAULTS[name](original, draw)


def _shift(noisy: list[Pair], key: dict[int, str], draw: random.Random) -> None:
    """Rotate the targets of a run one to three rows down."""
    start, offset = draw.randrange(len(noisy) - _SHIFTED_RUN), draw.randint(1, 3)
    rows = range(start, start + _SHIFTED_RUN)
    targets = [noisy[row][1] for row in rows]
    for row, target in zip(rows, targets[-offset:] + targets[:-offset], strict=True):
        noisy[row] = (noisy[row][0], target)
        key[row] = "shifted"


def findings(
    pairs: Sequence[Pair], languages: Pair, langid: bool, held_out: Sequence[Pair] = ()
) -> dict[str, set[int]]:
    """Return the rows (from 0) that each rule finds with default thresholds."""
    rows = [SentencePair(src, tgt, number) for number, (src, tgt) in enumerate(pairs, start=1)]
    data = DataConfig(src_lang=languages[0], tgt_lang=languages[1], train=ParallelFiles(tsv="-"), filters=Filters())
    test_set = [SentencePair(src, tgt, 1) for src, tgt in held_out]
    expected = expect(data, lambda: rows, test_set, identify_languages=langid)
    found: dict[str, set[int]] = {name: set() for name in RULES}
    for chunk in check_pairs(rows, expected):
        for pair, broken in zip(chunk.pairs, chunk.result.rules, strict=True):
            for name in broken:
                found[name].add(pair.line - 1)
    return found


def table(pairs: Sequence[Pair], other: Sequence[str], languages: Pair, each: int, seed: int) -> Iterator[str]:
    """Yield the rows of the table: rule, planted, found, recall, false, precision."""
    pairs, held_out = hold_out(pairs, each)
    noisy, key = plant(pairs, other, each, seed, held_out, languages)
    clean, found = (findings(text, languages, bool(other), held_out) for text in (pairs, noisy))
    safe = set().union(*(found[name] for name in rules_that_drop(SAFE_FILTERS)))
    yield "| rule | planted | found | recall | by any safe rule | false | precision |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name in [*FAULTS, *_NEEDS_OTHER_TEXT, "shifted"]:
        planted = {row for row, fault in key.items() if fault == name}
        if not planted:
            continue
        hits = len(planted & found[name])
        false = len({row for row in found[name] - clean[name] if row not in key})
        precision = hits / max(1, hits + false)
        recall, by_any = hits / len(planted), len(planted & safe)
        yield f"| {name} | {len(planted)} | {hits} | {recall:.1%} | {by_any} | {false} | {precision:.1%} |"


def main() -> None:
    """Parse the command line, then write the noisy corpus or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path)
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--tsv", type=Path, help="one file with both languages in its first two columns")
    parser.add_argument("--languages", help="language codes, such as en-zh; default: the endings of --src and --tgt")
    parser.add_argument("--other", type=Path)
    parser.add_argument("--each", type=int, default=100, help="rows of each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write OUTPUT.src, OUTPUT.tgt and OUTPUT.key.tsv")
    parser.add_argument("--shuffle", action="store_true", help="shuffle the rows first")
    parser.add_argument("--measure", action="store_true", help="print the table instead")
    arguments = parser.parse_args()
    names = {key: value for key in ("src", "tgt", "tsv") if (value := getattr(arguments, key))}
    files = ParallelFiles(**{key: str(path) for key, path in names.items()})
    pairs = [(pair.src, pair.tgt) for pair in read_parallel(files)]
    if arguments.shuffle:
        random.Random(arguments.seed).shuffle(pairs)
    other = list(read_lines(arguments.other)) if arguments.other else []
    first, _, second = (arguments.languages or "-".join(path.suffix[1:] for path in names.values())).partition("-")
    languages = first, second
    if arguments.measure:
        print("\n".join(table(pairs, other, languages, arguments.each, arguments.seed)))  # noqa: T201
        return
    if not arguments.output:
        parser.error("give --output or --measure")
    pairs, held_out = hold_out(pairs, arguments.each)
    noisy, key = plant(pairs, other, arguments.each, arguments.seed, held_out, languages)
    write_text(arguments.output.with_suffix(".held-out.tsv"), "".join(f"{src}\t{tgt}\n" for src, tgt in held_out))
    write_text(arguments.output.with_suffix(".src"), "".join(f"{src}\n" for src, _ in noisy))
    write_text(arguments.output.with_suffix(".tgt"), "".join(f"{tgt}\n" for _, tgt in noisy))
    rows = "".join(f"{row + 1}\t{key[row]}\n" for row in sorted(key))
    write_text(arguments.output.with_suffix(".key.tsv"), rows)


if __name__ == "__main__":
    main()
