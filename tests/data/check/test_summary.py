"""The report on a check: what it counts, and how it is shown."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from nmt.config.corpora import ParallelFiles
from nmt.config.filters import Filters
from nmt.data.check import stream
from nmt.data.check.profile import Expectations
from nmt.data.check.remarks import SideText
from nmt.data.check.stream import check_pairs
from nmt.data.check.summary import CheckReport, render_report, summarize
from nmt.data.read.pairs import SentencePair

EVIL = "<script>alert('Hund')</script> & \x1b[31mrot"
FILTERS = Filters(duplicate=True, mojibake=True)


def report_on(pairs: list[tuple[str, str]]) -> CheckReport:
    expected = Expectations("de", "en", filters=FILTERS)
    corpora = [ParallelFiles(tsv="first.tsv"), ParallelFiles(src="a<b>.de", tgt="a.en")]
    rows = [SentencePair(*pair, line, 1) for line, pair in enumerate(pairs, start=1)]
    sides = SideText("de"), SideText("en")
    return summarize(check_pairs(rows, [expected] * 2), [expected] * 2, corpora, sides)


PAIRS = [("Ein Hund", "A dog"), ("Ein Hund", "A dog"), ("SchÃ¶n", "nice"), ("SchÃ¶n", "nice"), (EVIL, "a"), ("", "b")]


def test_it_counts_what_a_rule_finds_and_what_it_alone_decides():
    rules = {rule.name: rule for rule in report_on(PAIRS).rules}
    assert (rules["duplicate"].found, rules["duplicate"].only) == (2, 1)
    assert (rules["mojibake"].found, rules["mojibake"].only) == (2, 1)
    assert (rules["markup"].found, rules["markup"].only, rules["markup"].is_on) == (1, 1, False)
    assert (rules["empty"].found, rules["empty"].is_on) == (1, True)
    assert (rules["overlap"].was_checked, rules["wrong_language"].was_checked) == (False, False)
    assert report_on(PAIRS).dropped == 4


def test_the_report_does_not_depend_on_the_size_of_chunks(monkeypatch):
    pairs = [(f"Satz {n % 50}", f"sentence {n % 40}") for n in range(300)]
    whole = report_on(pairs)
    monkeypatch.setattr(stream, "CHUNK_PAIRS", 31)
    assert report_on(pairs) == whole


def test_the_text_shows_no_control_characters_of_the_corpus():
    text = "\n".join(render_report(report_on(PAIRS)))
    assert "\x1b" not in text
    assert "a<b>.de:5" in text
    assert re.search(r"duplicate \* +2 +33.33% +1\n", text)


def test_the_json_holds_all_of_the_report():
    report = report_on(PAIRS)
    assert json.loads(json.dumps(asdict(report)))["rules"][1]["name"] == "too_long"
    assert json.loads(json.dumps(asdict(report)))["pairs"] == 6


def test_a_corpus_without_a_pair_has_a_report():
    assert "0 pairs" in "\n".join(render_report(report_on([])))
