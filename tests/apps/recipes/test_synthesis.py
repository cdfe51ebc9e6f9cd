"""The corpus that `nmt synthesize` writes is one for the training that its lines of configuration describe."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nmt.apps.recipes.candidates import Candidate, Candidates
from nmt.apps.recipes.selection import Limits
from nmt.apps.recipes.synthesis import CandidateFile, CorpusWriter, form_of
from nmt.base.errors import NmtError
from nmt.base.languages import Direction


def written(path: Path, texts: list[tuple[str, str]], *, forward: bool):
    """Write a corpus of given texts and outputs; return its rows and its writer."""
    writer = CorpusWriter(path, form_of(path), Direction("en", "zh"), forward)
    with CandidateFile(path, {}, resume=False) as file:
        file.write("".join(Candidates(given, [Candidate(output, -0.5)]).to_line() for given, output in texts))
        writer.write(file, Limits())
    return [row.split("\t") for row in path.read_text().splitlines()[1:]], writer


@pytest.mark.parametrize(("forward", "languages"), [(False, "zh-en"), (True, "en-zh")])
def test_the_languages_are_those_of_the_training(forward, languages, tmp_path):
    _, writer = written(tmp_path / "out.tsv", [("a b", "甲乙")], forward=forward)
    data = yaml.safe_load(writer.describe_training().replace("{…, ", "{tsv: x, "))["data"]
    assert f"{data['src_lang']}-{data['tgt_lang']}" == languages
    assert data["train"][1]["tag"] == ("<st>" if forward else "<bt>")


def test_names_with_quotes_and_colons_are_valid_yaml(tmp_path):
    path = tmp_path / 'a: "b" #{c}.jsonl.gz'
    writer = CorpusWriter(path, form_of(path), Direction("en", "de"), False)
    printed = yaml.safe_load(writer.describe_training().replace("{…, ", "{tsv: x, "))
    assert printed["data"]["train"][1] == {"jsonl": str(path), "tag": "<bt>", "weight": 1}


def test_a_folder_in_the_place_of_the_output_is_refused_before_the_work(tmp_path):
    (tmp_path / "out.tsv").mkdir()
    with pytest.raises(NmtError, match="cannot be written: it is not a regular file"):
        CandidateFile(tmp_path / "out.tsv", {}, resume=False)
    assert list(tmp_path.iterdir()) == [tmp_path / "out.tsv"]
