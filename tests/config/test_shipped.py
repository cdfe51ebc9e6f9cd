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


def test_the_six_are_there():
    assert [path.stem for path in SHIPPED] == [
        "demo-en-zh",
        "multi30k-de-en-stages",
        "multi30k-de-en-student",
        "multi30k-de-en",
        "tatoeba-en-zh",
        "transformer-base",
    ]


def test_a_student_has_the_data_and_the_stages_of_its_teacher_and_a_smaller_model():
    teacher, student = (
        load_config(SHIPPED[0].with_name(f"multi30k-de-en-{name}.yaml")) for name in ("stages", "student")
    )
    assert student.data == teacher.data
    assert [s.both_directions for s in student.training.stages] == [s.both_directions for s in teacher.training.stages]
    assert student.model.decoder_layers < teacher.model.decoder_layers
    for size in ("d_model", "d_ff"):
        assert getattr(student.model, size) < getattr(teacher.model, size)
    assert student.tokenizer.vocab_size < teacher.tokenizer.vocab_size
