"""`nmt.synthesize`, called as by a program."""

from __future__ import annotations

import random

import pytest

import nmt
from nmt.apps.recipes.language_model import KEY_VARIABLE
from tests.chat_stand_in import backwards, running_chat

DRAW = random.Random(5)
TEXTS = ["".join(DRAW.choices("0123456789", k=DRAW.randint(3, 7))) for _ in range(60)]


def test_pairs_are_written_and_counted_and_nothing_is_printed(digits_run, tmp_path, capfd):
    (tmp_path / "mono").write_text("".join(f"{text}\n" for text in [*TEXTS, ""]))
    result = nmt.synthesize(tmp_path / "mono", tmp_path / "out.tsv", digits_run, allow=["copied"], length_ratio=None)
    header, *rows = result.path.read_text().splitlines()
    assert header == "src\ttgt"
    assert [row.split("\t")[1] for row in rows] == TEXTS
    assert (result.num_lines, result.num_kept, result.dropped["blank"]) == (61, 60, 1)
    assert str(result.direction) == "en-en"
    assert capfd.readouterr().out == ""


def test_texts_in_memory_become_targets_or_sources(digits_run, tmp_path):
    sampled = nmt.SearchOptions(sample=True, seed=3)
    for name, forward in (("back.jsonl", False), ("forward.jsonl", True)):
        result = nmt.synthesize(
            iter(TEXTS), str(tmp_path / name), nmt.RunDir(digits_run), options=sampled, forward=forward, keep=0.5
        )
        assert result.num_kept + result.dropped["not_best"] + sum(
            count for reason, count in result.dropped.items() if reason != "not_best"
        ) == len(TEXTS)
        assert result.dropped["not_best"] > 10
    assert (tmp_path / "back.jsonl").read_text() != (tmp_path / "forward.jsonl").read_text()


def test_a_language_model_translates_in_place_of_a_run(tmp_path, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    (tmp_path / "train.tsv").write_text("".join(f"{i} a\t{i} b\n" for i in range(20)))
    data = {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": str(tmp_path / "train.tsv")}, "holdout_size": 2}
    config = nmt.Config.model_validate({"data": data})
    texts = ["an old house in a small wood", "it was never seen before that day"]
    with running_chat() as chat:
        teacher = nmt.Teacher(chat.url, config, num_examples=1)
        result = nmt.synthesize(texts, tmp_path / "out.tsv", teacher, allow=["wrong_language"])
    rows = [line.split("\t") for line in result.path.read_text().splitlines()[1:]]
    assert rows == [[backwards(text), text] for text in texts]
    assert str(result.direction) == "de-en"
    assert chat.bodies[0]["messages"][0]["content"].startswith("Translate from English into German.")


def test_what_a_user_can_mend_is_an_error_before_anything_is_written(digits_run, tmp_path):
    wrong = {
        "the name must end in .tsv": (TEXTS, "out.txt", {}),
        "the reasons are blank": (TEXTS, "out.tsv", {"allow": ["ugly"]}),
        "no such file": (tmp_path / "nowhere", "out.tsv", {}),
    }
    for message, (texts, name, arguments) in wrong.items():
        with pytest.raises(nmt.NmtError, match=message):
            nmt.synthesize(texts, tmp_path / name, digits_run, **arguments)
    assert list(tmp_path.iterdir()) == []
