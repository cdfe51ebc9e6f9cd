"""`nmt shortlist`, and `nmt translate` with the shortlist, called as from the shell."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.base.errors import DataError, NmtError, RunError
from nmt.base.files import sha256_of
from nmt.data.lexicon.shortlist import Shortlist
from nmt.data.tokens.tokenizer import TokenizerPair


def nmt(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_command_prints_cost_and_speed_and_translate_uses_the_list(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run")
    done = nmt("shortlist", run)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["test", "set", "sentences", "without", "with", "difference"]
    assert re.match(r"validation \(\w+-\w+\)  BLEU +40 +([0-9.]+) +\1 +[+-]0\.00 ", lines[1])
    assert re.match(r"decoding the validation set: without [0-9.]+ s \(", lines[-1])
    assert lines[-1].endswith(" times as fast (median of 3, in turns)")
    translated = [
        nmt("translate", "-m", run, "--set", f"decoding.shortlist={on}", "1234").stdout for on in ("true", "false")
    ]
    assert translated == ["4321\n"] * 2


def test_translating_without_the_list_says_how_to_make_it(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run")
    (run / "shortlist.safetensors").unlink(missing_ok=True)
    done = nmt("translate", "-m", run, "--set", "decoding.shortlist=true", "12")
    assert isinstance(done.exception, RunError)
    assert done.exception.message == "this run has no shortlist"
    assert done.stdout == ""


def test_an_output_is_not_continued_with_a_shortlist_that_was_made_anew(digits_run, tmp_path):
    run = Path(shutil.copytree(digits_run, tmp_path / "run"))
    tokenizers, path = TokenizerPair.load(run / "tokenizer"), run / "shortlist.safetensors"
    outputs, out, source = range(tokenizers.tgt.vocab_size), tmp_path / "out", tmp_path / "in"
    first, second = (
        Shortlist.from_lists([[]] * tokenizers.src.vocab_size, tokens) for tokens in (outputs, outputs[1:])
    )
    first.save(path, tokenizers)
    before = sha256_of(path)[:16]
    source.write_bytes(b"12\n" * 40 + b"9" * 1_000_001 + b"\n")  # the last line stops the command
    translate = ("translate", "-m", run, "--set", "decoding.shortlist=true", "-i", source, "-o", out)
    assert isinstance(nmt(*translate).exception, DataError)
    assert out.with_name("out.partial").read_text() == "21\n" * 16
    second.save(path, tokenizers)
    done = nmt(*translate, "--resume")
    assert isinstance(done.exception, NmtError)
    assert done.exception.message == f"was written with shortlist {before}, not {sha256_of(path)[:16]}"
    first.save(path, tokenizers)
    source.write_bytes(b"12\n" * 40)
    assert nmt(*translate, "--resume").exit_code == 0
    assert out.read_text() == "21\n" * 40
