"""The faults that the script plants are where its key says, and the check finds them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_noisy_corpus", ROOT / "scripts" / "make_noisy_corpus.py")
assert SPEC is not None
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)

SRC = "der,die,und,ein,mann,frau,hund,straße,läuft,sieht,groß,klein,haus,kind,spielt,garten,mit,auf"
TGT = "the,these,and,a,man,woman,dog,street,runs,sees,big,small,house,child,plays,garden,with,on"


def corpus(num_pairs: int = 900) -> list[tuple[str, str]]:
    draw, src, tgt = random.Random(6), SRC.split(","), TGT.split(",")
    rows = ([draw.randrange(len(src)) for _ in range(draw.randint(6, 24))] for _ in range(num_pairs))
    return [(" ".join(src[n] for n in row) + ".", " ".join(tgt[n] for n in row) + ".") for row in rows]


def test_the_key_names_every_changed_row_and_a_seed_decides_all():
    pairs = corpus()
    noisy, key = script.plant(pairs, [], 5, seed=3)
    changed = {row for row, (before, after) in enumerate(zip(pairs, noisy, strict=True)) if before != after}
    assert changed <= set(key)
    assert len(set(key) - changed) <= 5  # a shifted row may get an equal target
    assert (noisy, key) == script.plant(pairs, [], 5, seed=3)
    assert key != script.plant(pairs, [], 5, seed=4)[1]


def test_the_check_finds_what_was_planted():
    rows = [line.split(" | ") for line in script.table(corpus(), [], ("de", "en"), 5, 1)][2:]
    found = {row[0].removeprefix("| "): (int(row[1]), int(row[2]), int(row[5])) for row in rows}
    assert set(found) == {*script.FAULTS, "other_side", "repeated_source", "overlap", "near_overlap", "shifted"}
    for name, (planted, hits, false) in found.items():
        assert hits >= 0.8 * planted, name
        assert false <= 0.1 * planted, name
