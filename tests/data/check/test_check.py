"""`nmt.check`, called as by a program."""

from __future__ import annotations

from pathlib import Path

import pytest

import nmt
from nmt.data.check.summary import render_report

PAIRS = [(f"Das ist der {i}. Satz in diesem Text.", f"This is sentence {i} of this text.") for i in range(40)]


@pytest.fixture
def corpus(tmp_path) -> Path:
    rows = [*PAIRS, PAIRS[3], ("Das ist schÃ¶n hier.", "This is nice here."), ("", "Nobody said so.")]
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows))
    return path


def found(report: nmt.CheckReport) -> dict[str, int]:
    return {rule.name: rule.found for rule in report.rules if rule.found}


def test_the_report_names_what_each_rule_finds_and_nothing_is_printed(corpus, tmp_path, capfd):
    values = {"data": {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": str(corpus)}}}
    config = nmt.Config.model_validate(values)
    report = nmt.check(config)
    assert found(report).items() >= {"duplicate": 1, "mojibake": 1, "empty": 1}.items()
    (example,) = next(rule.examples for rule in report.rules if rule.name == "mojibake")
    assert (example.line, example.src) == (42, "Das ist schÃ¶n hier.")
    assert capfd.readouterr().out == ""
    (tmp_path / "my.yaml").write_text(f"data: {{src_lang: de, tgt_lang: en, train: {{tsv: {corpus}}}}}\n")
    assert nmt.check(tmp_path / "my.yaml", workers=1) == report


def test_a_configuration_without_filters_gets_the_safe_ones_and_a_section_keeps_its_own(corpus):
    config = nmt.Config.model_validate({"data": {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": str(corpus)}}})
    with_safe, as_it_is = nmt.check(config), nmt.check(config.data)
    assert found(with_safe) == found(as_it_is)
    assert with_safe != as_it_is


@pytest.mark.parametrize("characters", ["normalized", "as_written"])
def test_the_report_says_which_characters_are_rewritten_as_the_files_have_them(characters, tmp_path):
    (tmp_path / "a.de").write_text("Ein Ma\u0308dchen läuft.\nEin\u00ad Hund läuft.\nEin Hund schläft.\n", "utf-8")
    (tmp_path / "a.en").write_text("A girl runs.\nA\u00a0dog runs.\nA dog sleeps.\n", "utf-8")
    corpus = {"src": str(tmp_path / "a.de"), "tgt": str(tmp_path / "a.en")}
    data = {"src_lang": "de", "tgt_lang": "en", "train": corpus, "characters": characters}
    report = nmt.check(nmt.Config.model_validate({"data": data}))
    assert [remark.split(" (")[0] for remark in report.remarks] == [
        "de: 1 text with letters and accents not in NFC",
        "de: 1 text with soft hyphens",
        "en: 1 text with unusual spaces",
    ]


def test_a_file_that_is_missing_is_an_error(tmp_path):
    config = nmt.Config.model_validate({"data": {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": "nowhere.tsv"}}})
    with pytest.raises(nmt.NmtError, match=r"nowhere\.tsv: no such file"):
        nmt.check(config)


def test_aligned_files_of_verses_and_text_are_not_kept(tmp_path):
    (tmp_path / "a.de").write_text("".join(f"GEN {n // 9 + 1}:{n}\n" for n in range(60)))
    (tmp_path / "a.en").write_text(
        "".join(f"{n} is the number of the sentence {'that follows ' * 8}\n" for n in range(60))
    )
    train = {"src": str(tmp_path / "a.de"), "tgt": str(tmp_path / "a.en")}
    report = nmt.check(nmt.Config.model_validate({"data": {"src_lang": "de", "tgt_lang": "en", "train": train}}))
    assert (report.pairs, report.dropped) == (60, 60)
    assert "en characters per de character: is one side IDs or names?" in "\n".join(render_report(report))
