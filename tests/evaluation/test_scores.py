"""Scores and signatures are those of the `sacrebleu` command."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from nmt.base.errors import DataError, NmtError
from nmt.evaluation import MetricScore, score
from nmt.evaluation.scores import METRICS, describe_quality, tokenization_fault
from nmt.evaluation.significance import Scorer
from tests.sacrebleu_command import run_sacrebleu

ENGLISH = (
    ["Two young men are outside.", "A dog runs through the snow .", "", "The children play football, don't they?"],
    ["Two young, white males are outside.", "A dog is running in the snow.", "Nobody.", "The children play soccer."],
)
MANDARIN = (
    ["我们今天去公园。", "他喜欢喝茶。", "你叫什么名字？", "Tom 昨天买了3本书。"],
    ["我们今天要去公园。", "他爱喝茶。", "你叫什么名字？", "汤姆昨天买了三本书。"],
)


def sacrebleu_command(
    folder: Path, hypotheses: list[str], references: list[str], tokenizer: str
) -> dict[str, MetricScore]:
    hyp, ref = folder / "hyp.txt", folder / "ref.txt"
    for path, lines in ((hyp, hypotheses), (ref, references)):
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    arguments = [
        str(ref),
        "-i",
        str(hyp),
        "-m",
        "bleu",
        "chrf",
        "ter",
        "--tokenize",
        tokenizer,
        "-w",
        "10",
        "--format",
        "json",
    ]
    return {
        row["name"]: MetricScore(row["name"], row["score"], row["signature"])
        for row in json.loads(run_sacrebleu(arguments))
    }


@pytest.mark.parametrize(
    ("texts", "tgt_lang", "tokenizer"),
    [(ENGLISH, "en", "13a"), (MANDARIN, "zh", "zh"), (MANDARIN, "zh-TW", "zh"), (MANDARIN, "th", "char")],
)
def test_scores_and_signatures_are_those_of_the_sacrebleu_command(tmp_path, texts, tgt_lang, tokenizer):
    expected = sacrebleu_command(tmp_path, *texts, tokenizer)
    scores = score(*texts, tgt_lang, ["bleu", "chrf", "ter"])
    assert [s.name for s in scores] == ["BLEU", "chrF2", "TER"]
    for ours in scores:
        theirs = expected[ours.name]
        assert ours.signature == theirs.signature
        assert ours.value == pytest.approx(theirs.value, abs=1e-9)


def test_a_perfect_score_is_100_and_no_more():
    texts = ["We wait at the gate.", "The cat sits on the old red mat."]  # sacreBLEU says 100.00000000000004
    assert [metric.value for metric in score(texts, texts, "en")] == [100.0, 100.0]


def test_signature_names_the_tokenizer_and_the_version():
    import sacrebleu

    bleu, _ = score(*MANDARIN, "zh")
    assert bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:{sacrebleu.__version__}"


def test_real_text_scores_as_the_sacrebleu_command_does(tmp_path, shared_data):
    rows = (shared_data / "tatoeba-en-zh" / "test.tsv").read_text(encoding="utf-8").splitlines()[:200]
    references = [row.split("\t")[1] for row in rows]
    hypotheses = [text[: 1 + i % 9] + text[2 + i % 9 :] for i, text in enumerate(references)]  # one character lost
    expected = sacrebleu_command(tmp_path, hypotheses, references, "zh")["BLEU"]
    (ours,) = score(hypotheses, references, "zh", ["bleu"])
    assert (ours.signature, round(ours.value, 6)) == (expected.signature, round(expected.value, 6))


def test_metrics_come_in_the_order_asked_for():
    assert [s.name for s in score(*ENGLISH, "en", ["ter", "bleu"])] == ["TER", "BLEU"]


def test_unequal_lengths_are_refused():
    with pytest.raises(DataError, match="2 translations but 1 references"):
        score(["a", "b"], ["a"], "en")


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ("abc", "abd", "translations must be a list of str, not a single str"),
        (["abc"], "a", "references must be a list of str, not a single str"),
        (["abc"], [["abd"]], "references must be a list of str; number 1 is of type list"),
        ([None], ["abd"], "translations must be a list of str; number 1 is of type NoneType"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(hypotheses, references, message):
    with pytest.raises(NmtError, match=message):
        score(hypotheses, references, "en")
    if isinstance(references, list) and isinstance(references[0], str):
        with pytest.raises(NmtError, match=message):
            Scorer([references], "en", ["bleu"]).measure("ours", hypotheses)
    with pytest.raises(NmtError, match="must be a list of str, not a single str"):
        Scorer(["abc"], "en", ["bleu"]).measure("ours", ["abc"])


def test_nothing_to_score_is_refused():
    with pytest.raises(DataError, match="nothing to score"):
        score([], [], "en")


def test_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(NmtError, match=r"unknown metric comet\n.*bleu, chrf, chrf\+\+, ter"):
        score(["a"], ["a"], "en", ["comet"])


def test_raw_text_with_spaces_before_periods_is_scored_in_silence(caplog):
    lines = [f"Une phrase, n° {number} ." for number in range(120)]
    assert score(lines, lines, "fr", ["bleu"])[0].value == 100.0
    assert (caplog.records, tokenization_fault(lines, lines)) == ([], "")


def test_tokenized_translations_of_plain_references_are_called_so():
    plain = [f"Sentence {number}." for number in range(50)]
    fault = tokenization_fault([line.replace(".", " .") for line in plain], plain)
    assert fault.startswith('50 translations end in " .", but only 0 references: ')
    assert tokenization_fault([*plain[:-4], *["a ."] * 4], plain) == ""


@pytest.mark.parametrize(
    ("bleu", "chrf", "meaning"),
    [
        (0.1, 7.2, "nothing usable yet"),
        (8.0, 25.0, "words and phrases are right"),
        (8.0, 48.0, "enough to get the gist"),  # long words: BLEU is low where chrF is not
        (41.13, 62.0, "mostly right"),
        (30.0, 0.0, "mostly right"),
        (99.0, 98.5, "almost equal to the references"),
    ],
)
def test_the_meaning_of_scores_follows_the_better_of_bleu_and_chrf(bleu, chrf, meaning):
    assert describe_quality(bleu, chrf).startswith(meaning)


@pytest.mark.parametrize("code", ["dz", "shn", "nan", "mon", "cn", "xx", "kr"])
def test_good_text_without_spaces_scores_whatever_its_language_is_called(code):
    texts = {"dz": "ང་ཁྱི་དེབ་ཁྱོད་ཁྱིམ་ཁྱི།", "shn": "ႁပ်ႉႁွင်းတူၺ်းထိုင်တေႃႇ", "mon": "ဂကောံအလုံဂၠးကဝ်ဂမ္ၚဳ"}
    reference = texts.get(code, "他今天没有回家。他在学校里学习。")
    (bleu,) = score([reference[:-4] + reference[-3:]], [reference], code, ["bleu"])
    assert bleu.value > 50
    assert "tok:13a" not in bleu.signature


def test_canonically_equal_text_scores_as_equal_text():
    reference = "Zwei Mädchen überqueren die Straße."
    decomposed = unicodedata.normalize("NFD", reference)
    assert [each.value for each in score([decomposed], [reference], "de", METRICS[:4])] == [100, 100, 100, 0]
    assert score([reference], [decomposed], "de") == score([reference], [reference], "de")
