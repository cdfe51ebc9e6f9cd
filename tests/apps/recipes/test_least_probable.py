"""Wrong translations are the least probable ones, whatever their length."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.recipes.least_probable import find_least_probable
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.corpus import SentencePair, read_parallel
from nmt.translation import Translator

WRONG = (17, 80, 81, 133)
FILES = [ParallelFiles(tsv="digits.tsv")]


def pairs() -> list[SentencePair]:
    """Digits and their reverse, but for the lines in `WRONG`, whose targets are other digits of that number."""
    draw = random.Random(4)
    rows = []
    for line in range(1, 151):
        digits = [str(draw.randrange(10)) for _ in range(draw.randint(4, 7))]
        target = [str((int(digit) + 5) % 10) for digit in digits] if line in WRONG else digits[::-1]
        rows.append(SentencePair("".join(digits), "".join(target), line))
    return rows


def test_wrong_translations_come_first(digits_run):
    with Translator.load(RunDir(digits_run), device="cpu", scores=False) as translator:
        report = find_least_probable(translator, [*pairs(), SentencePair("", "1", 151)], FILES, "digits", count=4)
        assert sorted(pair.line for pair in report.pairs) == list(WRONG)
        assert report.deviations == sorted(report.deviations)
        assert (report.scored, report.unspellable) == (150, 0)
        assert find_least_probable(translator, [], FILES, "digits").pairs == []


def test_each_corpus_is_scored_in_its_own_language(two_run, two_corpora):
    corpora = [
        ParallelFiles(tsv=str(two_corpora / "test.tsv"), tgt_lang="de-AT"),
        ParallelFiles(tsv=str(two_corpora / "test-fr.tsv"), tgt_lang="fr"),
    ]
    with Translator.load(RunDir(two_run), device="cpu", scores=False) as translator:
        report = find_least_probable(translator, read_parallel(corpora), corpora, "two", count=20)
        assert report.scored == 20
        right = sum(report.per_token)
        swapped = [corpora[1], corpora[0]]
        wrong = find_least_probable(translator, read_parallel(corpora), swapped, "two", count=20)
        assert sum(wrong.per_token) < right - 20
        with pytest.raises(NmtError, match="into de and fr, not into it"):
            find_least_probable(translator, pairs(), [ParallelFiles(tsv="a.tsv", tgt_lang="it")], "two")


@pytest.mark.parametrize("arguments", [("--json",), ()])
def test_a_check_lists_them(digits_run, tmp_path, arguments):
    Path(tmp_path / "a.tsv").write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs()))
    files = ("--corpus", str(tmp_path / "a.tsv"), "--src-lang", "de", "--tgt-lang", "en", "--model", str(digits_run))
    result = CliRunner().invoke(app, ["data", "check", *files, *arguments])
    assert result.exit_code == 0, result.output
    if arguments:
        assert {pair["line"] for pair in json.loads(result.stdout)["model"]["pairs"][:4]} == set(WRONG)
    else:
        assert "of 150 pairs scored:\n" in result.stdout
