"""The configurations that are shipped load, and say what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config import load_config

SHIPPED = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_configuration_loads_and_opens_with_its_facts(path):
    load_config(path)
    comment = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert f"nmt train --config configs/{path.name}" in "\n".join(comment)
    for fact in ("data", "hardware", "minutes", "score"):
        assert any(line.startswith(f"# {fact} ") for line in comment), fact


def test_the_seven_are_there():
    assert [path.stem for path in SHIPPED] == [
        "demo-en-zh",
        "multi30k-de-en-stages",
        "multi30k-de-en-student",
        "multi30k-de-en",
        "tatoeba-en-zh-stages",
        "tatoeba-en-zh",
        "transformer-base",
    ]


def test_a_student_differs_from_its_teacher_in_layers_and_vocabulary_alone():
    teacher, student = (load_config(SHIPPED[0].with_name(f"multi30k-de-en{name}.yaml")) for name in ("", "-student"))
    assert (student.model.encoder_layers, student.model.decoder_layers, student.tokenizer.vocab_size) == (5, 1, 2000)
    layers = {"encoder_layers": 3, "decoder_layers": 3}
    tokenizer = student.tokenizer.model_copy(update={"vocab_size": 5000})
    model = student.model.model_copy(update=layers)
    assert student.model_copy(update={"tokenizer": tokenizer, "model": model}) == teacher
