"""An output replaces nothing that is read, and no file of a model."""

from __future__ import annotations

import pytest

from nmt.artifacts.replacing import refuse_replacing
from nmt.base.errors import NmtError


@pytest.mark.parametrize("name", ["out", "out.partial", "out.partial.json"])
def test_an_output_with_the_name_of_another_unfinished_one_or_its_input_is_refused(name, tmp_path):
    out, other = tmp_path / "out", tmp_path / name
    for outputs, inputs in (([out, other], []), ([other, out], []), ([out], [other])):
        with pytest.raises(NmtError, match="choose another name"):
            refuse_replacing(outputs, inputs)
    refuse_replacing([out, tmp_path / "pairs"], [tmp_path / "in"])


def test_an_output_is_not_in_or_around_an_input_by_any_of_its_names(tmp_path):
    model = tmp_path / "model"
    (model / "eval").mkdir(parents=True)
    for name in ("weights", "curves.svg", "eval/test.hyp"):
        (model / name).touch()
    (tmp_path / "link").symlink_to(model)
    new = ("model/new", "link/new.hyp", "model/a/b.svg")
    for name in (*new, "model", "link/weights", "model/eval/test.hyp"):
        with pytest.raises(NmtError, match=r"is the input|into which no output may be written"):
            refuse_replacing([tmp_path / name], [model])
    with pytest.raises(NmtError, match="this folder contains the input"):
        refuse_replacing([tmp_path], [model])
    for name in ("page.svg", "page.html", "eval/page.html", "eval/new.hyp"):
        refuse_replacing([model / name], [model])


def test_the_curves_of_a_model_are_replaced_by_its_curves_alone(tmp_path):
    refuse_replacing([tmp_path / "curves.svg"], [tmp_path], draws_curves=True)
    with pytest.raises(NmtError, match="into which no output may be written"):
        refuse_replacing([tmp_path / "curves.svg"], [tmp_path])


def test_an_output_is_not_in_a_model_that_the_command_does_not_read(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    for name in ("run/checkpoints/index.json", "run/config.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(NmtError, match="is a model or another input, into which no output may be written"):
        refuse_replacing([tmp_path / "run" / "config.yaml"], [])


def test_an_output_is_not_what_an_open_file_descriptor_reads(tmp_path):
    with open(tmp_path / "in", "w") as file, pytest.raises(NmtError, match="this file is the input"):
        refuse_replacing([tmp_path / "in"], [file.fileno()])
