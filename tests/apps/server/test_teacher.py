"""`nmt serve` as the teacher of `nmt synthesize`: the same pairs as with the model itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import nmt
from nmt import Translator
from nmt.apps.cli import app
from nmt.base.errors import NmtError
from tests.apps.server.conftest import Running


def test_a_served_model_teaches_as_the_model_itself(words_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load((words_run / "config.yaml").read_text())
    rows = Path(config["data"]["test"]["tsv"]).read_text().splitlines()
    Path("mono").write_text("".join(row.partition("\t")[0] + "\n" for row in rows[:12]))
    data = {"src_lang": "en", "tgt_lang": "de", "train": {"tsv": config["data"]["train"]["tsv"]}, "holdout_size": 5}
    Path("my.yaml").write_text(yaml.safe_dump({"data": data}))

    def synthesize(*options: str) -> str:
        command = ["synthesize", "-i", "mono", "-o", "out.tsv", *options]
        assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
        return Path("out.tsv").read_text()

    fp32 = Translator.load(words_run, precision="fp32", scores=False)
    nmt.synthesize("mono", "out.tsv", words_run, translator=fp32)
    expected = Path("out.tsv").read_text()
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef\n")
    server = Running([words_run], keys=keys)
    try:
        with pytest.raises(NmtError, match="put the server's key in the environment variable NMT_TEACHER_KEY"):
            synthesize("--teacher", server.url, "-c", "my.yaml", "--model", "de-en")
        monkeypatch.setenv("NMT_TEACHER_KEY", "0123456789abcdef")
        assert synthesize("--teacher", server.url, "-c", "my.yaml", "--model", "de-en") == expected
        assert expected.count("\n") > 1
        with pytest.raises(NmtError, match="there is no model nothing"):
            synthesize("--teacher", server.url, "-c", "my.yaml", "--model", "nothing")
    finally:
        server.stop()
