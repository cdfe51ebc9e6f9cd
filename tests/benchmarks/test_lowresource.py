"""The benchmark of small corpora: its control, and a training that is started once and then only read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import MODEL

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks"


@pytest.fixture
def lowresource(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import lowresource

    return lowresource


def test_the_control_falls_to_the_score_of_other_sentences_only_if_outputs_depend_on_their_sources(lowresource):
    references = ["red green blue", "one two three", "north south east", "spring summer autumn"]
    faithful = lowresource.control(references, references, "en")
    assert faithful["dev_chrf"] == 100
    assert faithful["permuted"] < 20
    deaf = lowresource.control(["one two"] * 4, references, "en")
    assert deaf["dev_chrf"] == deaf["permuted"]
    assert (faithful["length"], deaf["length"]) == (1.0, 0.67)


@pytest.mark.slow
def test_a_row_is_made_by_one_training_with_what_config_new_suggests(digits, tmp_path):
    folder = tmp_path / "de-en"
    folder.mkdir()
    for name, split in (("train", "train"), ("dev", "valid"), ("test", "test")):
        rows = (line.split("\t") for line in (digits / f"{split}.tsv").read_text().splitlines())
        lines = (json.dumps({"translation": {"de": src, "en": tgt}}) + "\n" for src, tgt in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    command = [sys.executable, BENCH / "lowresource.py", folder, "--folder", tmp_path / "runs", "--threads", "1"]
    command += ["--json", tmp_path / "rows.json", "--minutes", "0.1", "--set", "tokenizer.vocab_size=300"]
    command += [part for key, value in MODEL.items() for part in ("--set", f"model.{key}={value}")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for is_new in (True, False):
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert ("training a tokenizer" in done.stderr) == is_new
        assert done.stdout.startswith("languages")
        (row,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
        assert row["languages"] == "de-en"
        assert row["minutes"] > 0
        assert "tok:13a" in row["signatures"][0]
