"""`nmt.adapt`, called as by a program."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import nmt
from nmt.apps.recipes.adapt import candidate_of
from tests.resumption import stop_after

pytestmark = pytest.mark.usefixtures("few_samples")

FAST = ("training.max_updates=6", "training.validate_every=3", "training.average_checkpoints=0")


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Path:
    """A corpus that contradicts the old one: digits, not reversed."""
    draw, path = random.Random(3), tmp_path_factory.mktemp("client") / "client.tsv"
    rows = ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(200)]
    path.write_text("".join(f"{row}\t{row}\n" for row in rows))
    return path


@pytest.fixture
def base(digits_run, tmp_path, tmp_path_factory) -> Path:
    run = Path(shutil.copytree(digits_run, tmp_path / "base"))
    config, old = run / "config.yaml", nmt.RunDir(run).config().data.corpora("train")[0].tsv
    few = tmp_path_factory.mktemp("old") / "train.tsv"
    few.write_text("".join(Path(old).read_text().splitlines(keepends=True)[:400]))
    text = config.read_text().replace("tgt_lang: en", "tgt_lang: th")  # its BLEU counts characters
    config.write_text(text.replace(str(old), str(few)))
    return run


def test_an_adapted_model_is_delivered_with_its_scores_and_nothing_is_printed(base, client, tmp_path, capfd):
    result = nmt.adapt(base, tmp_path / "client", client, max_loss=100, overrides=FAST)
    assert (result.finished, result.delivered) == (True, True)
    assert result.run.path == tmp_path / "client"
    assert [(each.name, str(each.direction)) for each in result.sets] == [("new", "en-th"), ("old", "en-th")]
    assert result.worst == result.sets[1]
    assert nmt.translate("123", result.run).text
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_a_model_that_forgets_is_kept_beside_its_place(base, client, tmp_path):
    forgets = (*FAST, "training.max_updates=30", "training.validate_every=30", "training.lr=1e-2")
    result = nmt.adapt(str(base), tmp_path / "client", client, mix=0, overrides=forgets)
    assert (result.finished, result.delivered) == (True, False)
    assert result.run.path == candidate_of(tmp_path / "client")
    assert result.worst is not None
    assert result.worst.bleu.gain < -1
    assert not (tmp_path / "client").exists()
    again = nmt.adapt(None, tmp_path / "client", max_loss=100, resume=True)
    assert again.delivered
    assert (tmp_path / "client").is_dir()


def test_an_interrupted_adaptation_is_resumed(base, client, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        stopped = nmt.adapt(base, tmp_path / "client", client, max_loss=100, overrides=FAST)
    assert (stopped.finished, stopped.delivered, stopped.sets) == (False, False, ())
    assert nmt.adapt(base, tmp_path / "client", max_loss=100, resume=True).delivered


def test_aligned_files_and_test_sets_are_taken_by_name(base, client, tmp_path):
    sides = zip(*(line.split("\t") for line in client.read_text().splitlines()), strict=True)
    for name, lines in zip(("new.src", "new.tgt"), sides, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[:150]))
    (tmp_path / "test.tsv").write_text("8642\t8642\n")
    src, tgt, test = (tmp_path / name for name in ("new.src", "new.tgt", "test.tsv"))
    result = nmt.adapt(
        base, tmp_path / "client", src=src, tgt=tgt, test=test, old_test=[test], max_loss=100, overrides=FAST
    )
    assert [each.sentences for each in result.sets] == [1, 1]


def test_what_a_user_can_mend_is_an_error(base, client, tmp_path):
    wrong = {
        "give --src and --tgt": {},
        "keeps the tokenizer of the run": {"corpus": client, "overrides": ["tokenizer.vocab_size=99"]},
        "the run does not translate de-th; it has en-th": {"corpus": client, "src_lang": "de"},
        "no such file": {"corpus": tmp_path / "nowhere.tsv"},
    }
    for message, arguments in wrong.items():
        with pytest.raises(nmt.NmtError, match=message):
            nmt.adapt(base, tmp_path / "client", **arguments)
    with pytest.raises(nmt.NmtError, match="give the run to adapt"):
        nmt.adapt(None, tmp_path / "client", client)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base"]
