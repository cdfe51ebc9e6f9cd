"""`nmt train` without a configuration: from a corpus to a model card with test scores."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from nmt.config import load_config
from tests.command_line import nmt

TINY = {
    "tokenizer.type": "char",
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "training.stages": "[]",
    "training.max_updates": 2,
    "training.warmup_updates": 1,
    "training.threads": 1,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
FILES = ("--src", "a.de", "--tgt", "a.en")
NUMBERS = list(product(range(10), range(13)))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "a.de").write_text("".join(f"Satz {tens} und {ones}\n" for tens, ones in NUMBERS))
    (tmp_path / "a.en").write_text("".join(f"sentence {tens} and {ones}\n" for tens, ones in NUMBERS))
    return tmp_path


def test_one_command_writes_a_configuration_trains_scores_the_test_set_and_fills_the_card(here):
    done = nmt("train", *FILES, *SETTINGS, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("de-en.yaml: de to en, 2+2 layers, d_model 128, ")
    suggested = nmt("config", "new", *FILES, "-o", "de-en.yaml", "--overwrite", cwd=here)
    assert suggested.returncode == 0
    assert nmt("train", *FILES, cwd=here).stderr.endswith(
        "error: runs/de-en: this run already exists\n"
        "  continue it with --resume, replace it with --overwrite, or choose another folder with --run\n"
    )  # and not that de-en.yaml differs from what `nmt config new` writes
    record = json.loads((here / "runs/de-en/eval/test.json").read_text())
    shown = f"{record['scores']['BLEU']['value']:.2f} ± {record['scores']['BLEU']['interval']['half_width']:.2f}"
    assert f"{shown}  nrefs:1|bs:1000" in done.stderr
    card = (here / "runs/de-en/README.md").read_text()
    sentences = f"On {record['sentences']} sentences, with 95% confidence intervals"
    assert f"## Test scores\n\n{sentences}:\n\n- BLEU {shown}" in card
    assert "The test set was scored 1 time." in card


def test_another_evaluation_is_counted_and_changes_only_the_scores_in_the_card(here):
    assert nmt("train", *FILES, *SETTINGS, cwd=here).returncode == 0
    card = here / "runs/de-en/README.md"
    before = card.read_text() + "My own words.\n"
    card.write_text(before)
    assert nmt("eval", cwd=here).returncode == 0
    assert nmt("eval", "--beam", 2, cwd=here).returncode == 0
    assert card.read_text() == before.replace("scored 1 time.", "scored 3 times.")
    assert json.loads((here / "runs/de-en/eval/counts.json").read_text()) == {"test": 3}


def test_a_resumed_training_scores_the_test_set_only_if_its_weights_are_new(here):
    assert nmt("train", *FILES, *SETTINGS, cwd=here).returncode == 0
    (here / "runs/de-en/README.md").unlink()  # as if it had been killed before its last step
    done = nmt("train", "--resume", "--run", "runs/de-en", cwd=here)
    assert (done.returncode, "scoring the test set" in done.stderr) == (0, False)
    assert "## Test scores" in (here / "runs/de-en/README.md").read_text()
    longer = ("--set", "training.max_updates=5", "--set", "training.average_checkpoints=0")
    done = nmt("train", *FILES, "--resume", *SETTINGS, *longer, cwd=here)
    assert done.returncode == 0, done.stderr
    index = json.loads((here / "runs/de-en/checkpoints/index.json").read_text())
    record = json.loads((here / "runs/de-en/eval/test.json").read_text())
    assert record["checkpoints"] == [index["best"]]


def test_the_opposite_direction_is_trained_with_the_same_files(here):
    done = nmt("train", *FILES, "--reverse", *SETTINGS, cwd=here)
    assert done.returncode == 0, done.stderr
    data = load_config(here / "en-de.yaml").data
    assert (data.src_lang, data.tgt_lang, data.train.src, data.train.tgt) == ("en", "de", "a.en", "a.de")
    assert "sentence" in (here / "runs/en-de/data/test.src").read_text()
    assert nmt("train", "--config", "en-de.yaml", "--reverse", *SETTINGS, cwd=here).returncode == 0
    data = load_config(here / "runs/en-de-reverse/config.yaml").data
    assert (data.src_lang, data.tgt_lang, data.train.src, data.train.tgt) == ("de", "en", "a.de", "a.en")
    done = nmt("train", "--config", "en-de.yaml", "--reverse", "--set", "data.mono_tgt=a.de", "--overwrite", cwd=here)
    assert (done.returncode, "data.mono_tgt would be in the source language" in done.stderr) == (2, True)


def test_the_configuration_is_named_like_the_run_and_never_replaces_another(here):
    (here / "mine.yaml").write_text("# my notes\n")
    done = nmt("train", *FILES, "--run", "runs/mine", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: mine.yaml: this file already exists, with other contents\n"
        "  train with it: nmt train --config mine.yaml; or choose the name of a new one with --run runs/NAME\n"
    )
    assert (here / "mine.yaml").read_text() == "# my notes\n"
    assert not (here / "runs").exists()


def test_a_table_with_a_header_and_a_dozen_pairs_is_enough_to_try_it_out(here):
    rows = "".join(f"Satz {n}\tsentence {n}\n" for n in range(12))
    (here / "few.tsv").write_text(f"German\tEnglish\n{rows}")
    languages = ("--src-lang", "de", "--tgt-lang", "en")
    done = nmt("train", "--corpus", "few.tsv", *languages, "--run", "runs/few", *SETTINGS, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "warning: only 12 sentence pairs: enough to try things out" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--src", "no.de", "--tgt", "a.en"], 1, "error: no.de: no such file"),
        (["--corpus", "a.tsv"], 1, "error: tsv files do not show their languages; --src-lang is missing"),
        (
            ["--config", "my.yaml", *FILES],
            2,
            "--config cannot be used with --src, --tgt: these files",
        ),
        (["--reverse"], 2, "give a corpus with --src and --tgt, or with --corpus, or a configuration with --config"),
        (["--reverse", "--resume", "--run", "runs/a"], 2, "give a corpus with --src and --tgt"),
        (["--resume", "--run", "runs/a", "--mono-tgt", "a.en"], 2, "--mono-tgt needs a configuration or a corpus"),
        (["--resume", "--run", "runs/a", "--engine", "phrase"], 2, "--engine phrase needs a configuration or a corpus"),
    ],
)
def test_wrong_options_are_explained_and_leave_nothing_behind(here, arguments, code, message):
    done = nmt("train", *arguments, cwd=here)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["a.de", "a.en"]


def test_a_phrase_table_of_two_directions_is_refused(here):
    done = nmt("train", *FILES, "--src", "a.en", "--tgt", "a.de", "--engine", "phrase", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: --engine phrase: phrase tables are for models with one direction" in done.stderr
    assert not (here / "runs").exists()


def test_test_sentences_with_near_twins_are_counted_in_log_card_and_evaluation_and_left_out_on_request(here):
    twins = [f"Der Hund Nummer {n} springt über den Zaun im Garten" for n in ("eins", "zwei", "drei", "vier")]
    others = ["Blaue Vögel singen laut", "Niemand kennt ihren Namen", "Wir fahren morgen nach Köln"]
    for name, lines in (
        ("train", twins[:2] + others),
        ("test", [twins[2], "Alles ist gut"]),
        ("valid", ["Das Haus ist sehr alt"]),
    ):
        (here / f"{name}.tsv").write_text(
            "".join(f"{line}\t{line.lower()}\n" for line in lines * (3 if name == "train" else 1))
        )
    sets = {name: {"tsv": f"{name}.tsv"} for name in ("train", "valid", "test")}
    (here / "my.yaml").write_text(json.dumps({"data": {"src_lang": "de", "tgt_lang": "en", **sets}}))
    train = ("train", "--config", "my.yaml", *SETTINGS, "--set", "training.score_test=true", "--run")
    done = nmt(*train, "runs/all", cwd=here)
    assert "1 of 2 test sources have a near-twin in the training data; data.filters.near_twin drops" in done.stderr
    line = "1 of 2 test sentences have a near-twin in the training data; without them: BLEU "
    assert line in done.stderr
    assert line in (here / "runs/all/README.md").read_text()
    assert (here / "runs/all/data/test.twins").read_text() == f"{twins[2]}\n"
    assert line in nmt("eval", "--model", "runs/all", cwd=here).stdout
    record = json.loads(nmt("eval", "--model", "runs/all", "--format", "json", cwd=here).stdout)
    alone = ("--src", "alone.de", "--ref", "alone.en")
    (here / "alone.de").write_text("Alles ist gut\n")
    (here / "alone.en").write_text("alles ist gut\n")
    scores = json.loads(nmt("eval", "--model", "runs/all", *alone, "--format", "json", cwd=here).stdout)["scores"]
    without = {name: score["value"] for name, score in scores.items()}
    assert record["near_twins"] == {"sentences": 1, "scores_without": without}
    again = nmt(*train, "runs/again", cwd=here)  # finds them beside the stored corpus
    assert "1 of 2 test sources have a near-twin" in again.stderr
    done = nmt(*train, "runs/none", "--set", "data.filters.near_twin=true", cwd=here)
    assert "dropped by data.filters: 6 pairs (6 near_twin)" in done.stderr
    assert "have a near-twin" not in done.stderr
    report = nmt("data", "check", "--config", "my.yaml", cwd=here).stdout
    assert ["near_twin", "6"] in [line.split()[:2] for line in report.splitlines()]
