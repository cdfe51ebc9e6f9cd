"""`nmt adapt`, called as from the shell: delivered or not, resumed, refused."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.recipes import adapt as adapt_module
from nmt.apps.recipes.adapt import candidate_of
from nmt.apps.recipes.adaptation import adapted_config
from nmt.apps.recipes.adaptation_corpus import AdaptationCorpus, Portion, collect, weighted
from nmt.apps.recipes.corpora import CorpusNames
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import ConfigError, NmtError, RunError
from nmt.base.languages import Direction
from nmt.config import Config
from nmt.config.corpora import ParallelFiles
from nmt.config.data import AugmentConfig, DataConfig
from nmt.data.read.pairs import read_parallel
from nmt.data.store.mixing import corpus_weights, quotas
from tests.resumption import stop_after

pytestmark = pytest.mark.usefixtures("few_samples")

FAST = ("training.max_updates=6", "training.validate_every=3", "training.average_checkpoints=0")


def nmt(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def adapt(*arguments: object, settings: tuple[str, ...] = FAST):
    return nmt("adapt", *arguments, *(part for setting in settings for part in ("--set", setting)))


@pytest.fixture(scope="module")
def base(digits_run, tmp_path_factory) -> Path:
    """A run that reverses digits, with a target language whose BLEU counts characters."""
    run = Path(shutil.copytree(digits_run, tmp_path_factory.mktemp("base") / "base"))
    config, old = run / "config.yaml", Path(RunDir(run).config().data.corpora("train")[0].tsv)
    few = run.parent / "train.tsv"
    few.write_text("".join(old.read_text().splitlines(keepends=True)[:400]))
    config.write_text(config.read_text().replace("tgt_lang: en", "tgt_lang: th").replace(str(old), str(few)))
    return run


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Path:
    """A corpus that contradicts the old one: the same digits, not reversed."""
    draw, path = random.Random(3), tmp_path_factory.mktemp("client") / "client.tsv"
    rows = ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(160)]
    path.write_text("".join(f"{row}\t{row}\n" for row in rows))
    return path


def test_the_old_pairs_are_a_sample_as_large_as_the_training_needs(base, client, tmp_path):
    few = tmp_path / "few.tsv"
    few.write_text("".join(client.read_text().splitlines(keepends=True)[:20]))
    found = [collect(RunDir(base), new_data(base, few, "en", "th"), mix) for mix in (0.25, 0.25, 0.5)]
    samples = [corpus.train[1].pairs for corpus in found]
    num_new = len(found[0].train[0].pairs)
    assert [len(sample) for sample in samples] == [round(20 * num_new / 3), round(20 * num_new / 3), 20 * num_new]
    assert samples[0] == samples[1]
    assert {*samples[0]} < {*samples[2]}


def new_data(run: Path, corpus: Path, src_lang: str, tgt_lang: str) -> DataConfig:
    """The data section of the text in `corpus` for an adaptation of `run`."""
    files = ParallelFiles(tsv=str(corpus), src_lang=src_lang, tgt_lang=tgt_lang)
    changes = {"train": (files,), "valid": None, "test": None, "temperature": 1.0, "holdout_size": 500}
    return RunDir(run).config().data.model_copy(update=changes)


@pytest.fixture
def runs(tmp_path, base) -> Path:
    shutil.copytree(base, tmp_path / "base")
    return tmp_path


def test_a_model_that_forgets_is_not_delivered_and_its_weights_are_kept(runs, client, monkeypatch):
    run = runs / "client"
    settings = (*FAST, "training.max_updates=30", "training.validate_every=30", "training.lr=1e-2")
    done = adapt(runs / "base", "--corpus", client, "--run", run, "--mix", "0", settings=settings)
    assert isinstance(done.exception, RunError)
    kept = candidate_of(run)
    assert str(done.exception).startswith(f"{run}: not delivered: the old test set (en-th) loses ")
    assert f"the weights are kept in {kept}; start over with --overwrite and more of the old corpus" in str(
        done.exception
    )
    assert "old (en-th)" in done.stdout
    assert not run.exists()
    best = RunDir(kept).best_checkpoint()
    weights = best.read_bytes()
    assert not json.loads((kept / "adaptation.json").read_text())["accepted"]
    assert isinstance(adapt(runs / "base", "--corpus", client, "--run", run).exception, RunError)
    with monkeypatch.context() as patch:
        patch.setattr(adapt_module, "old_sets", lambda _: {"test": []})
        unmeasured = nmt("adapt", "--resume", "--run", run)
    assert "an earlier check, which had an old test set, found too great a loss" in str(unmeasured.exception)
    assert kept.exists()
    done = nmt("adapt", "--resume", "--run", run, "--max-loss", 100)
    assert done.exit_code == 0, done.output
    assert not kept.exists()
    assert (run / "checkpoints" / best.name).read_bytes() == weights
    assert json.loads((run / "adaptation.json").read_text())["accepted"]
    card = (run / "README.md").read_text()
    assert str(kept) not in card
    assert card.startswith("# client: en to th")
    assert "## Adaptation" in card
    assert nmt("translate", "--model", run, "123").exit_code == 0


def test_a_model_that_got_worse_on_the_new_test_set_is_not_delivered_or_warned_of(runs, client, tmp_path, messages):
    """The text has copies of digits, its test set the reversed ones that the model has learned."""
    test, run = tmp_path / "test.tsv", runs / "client"
    rows = [line.split("\t")[0] for line in client.read_text().splitlines()[:40]]
    test.write_text("".join(f"{row}1\t1{row[::-1]}\n" for row in rows))
    settings = (*FAST, "training.max_updates=30", "training.validate_every=30", "training.lr=1e-2")
    command = (runs / "base", "--corpus", client, "--run", run, "--mix", "0", "--test", test, "--old-test", test)
    done = adapt(*command, settings=settings)
    assert str(done.exception).startswith(f"{run}: not delivered: the new test set (en-th) loses ")
    assert "keep the old model" in str(done.exception)
    done = nmt("adapt", "--resume", "--run", run, "--max-loss", 100, "--old-test", test)
    assert done.exit_code == 0, done.output
    (warning,) = (message for message in messages if "got worse" in message)
    assert warning.endswith(f": keep the old model, {runs / 'base'}")


def test_half_of_the_training_is_old_and_no_held_out_sentence_is_trained_on(runs, client):
    done = adapt(runs / "base", "--corpus", client, "--run", runs / "client", "--max-loss", 100)
    assert done.exit_code == 0, done.output
    run, old = RunDir(runs / "client"), RunDir(runs / "base")
    new_part, old_part = run.config().data.corpora("train")
    assert (new_part.weight, old_part.weight) == (0.5, 0.5)
    sources = {name: Path(part.src).read_text().split() for name, part in (("new", new_part), ("old-1", old_part))}
    held_out = [*run.read_pairs("valid")[0], *run.read_pairs("test")[0], *old.read_pairs("valid")[0]]
    held_out += old.read_pairs("test")[0]
    assert not {*sources["new"], *sources["old-1"]} & {*held_out}
    assert len(sources["new"]) >= 120
    corpus = [line.split("\t")[0] for line in Path(old.config().data.corpora("train")[0].tsv).read_text().splitlines()]
    allowed = [source for source in corpus if source not in held_out]
    assert sources["old-1"] == allowed  # twenty passes over the new pairs need more old ones than there are
    valid = run.read_pairs("valid")[0]
    assert len({*valid} & {*old.read_pairs("valid")[0]}) == len(valid) // 2
    record = json.loads(run.adaptation.read_text())
    sizes = [("new", len(run.read_pairs("test")[0])), ("old", 40)]
    assert [(each["name"], each["sentences"]) for each in record["sets"]] == sizes
    names = sorted(path.name for path in run.evaluations.iterdir())
    assert names[:2] == ["adaptation-1-new.en-th.after.hyp", "adaptation-1-new.en-th.before.hyp"]


def test_an_adaptation_that_was_stopped_ends_as_one_that_was_not(runs, client, monkeypatch):
    command = (runs / "base", "--corpus", client, "--max-loss", 100, "--run")
    assert adapt(*command, runs / "whole").exit_code == 0
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        assert adapt(*command, runs / "stopped").exit_code == 130
    assert not (runs / "stopped").exists()
    done = nmt("adapt", "--resume", "--run", runs / "stopped", "--max-loss", 100)
    assert done.exit_code == 0, done.output
    whole, stopped = RunDir(runs / "whole"), RunDir(runs / "stopped")
    assert whole.index() == stopped.index()
    for name in whole.index().checkpoints:
        assert whole.checkpoint(name).read_bytes() == stopped.checkpoint(name).read_bytes()
    assert whole.adaptation.read_text() == stopped.adaptation.read_text()


def test_an_old_corpus_that_is_gone_is_warned_of_or_refused(runs, client, messages):
    config = runs / "base" / "config.yaml"
    config.write_text(config.read_text().replace("train.tsv", "gone.tsv"))
    command = (runs / "base", "--corpus", client, "--run", runs / "client", "--max-loss", 100)
    done = adapt(*command, "--mix", "0.5")
    assert isinstance(done.exception, RunError)
    assert "its old corpus cannot be read: no such file" in str(done.exception)
    assert not candidate_of(runs / "client").exists()
    done = adapt(*command)
    assert done.exit_code == 0, done.output
    warnings = [line for line in messages if "the model may lose quality on text unlike" in line]
    assert len(warnings) == 1
    assert RunDir(runs / "client").config().data.corpora("train")[0].weight is None


def test_a_model_of_several_directions_keeps_all_of_them(two_run, two_corpora, tmp_path):
    rows = [line.split("\t")[0] for line in (two_corpora / "train.tsv").read_text().splitlines()[:100]]
    (tmp_path / "new.tsv").write_text("".join(f"{row}\tx{row}\n" for row in rows))
    command = (two_run, "--corpus", tmp_path / "new.tsv", "--run", tmp_path / "run", "--max-loss", 100)
    assert "it has en-de, en-fr" in str(adapt(*command, "--tgt-lang", "es").exception)
    assert "forgets those it is not trained on" in str(adapt(*command, "--tgt-lang", "fr", "--mix", "0").exception)
    done = adapt(*command, "--tgt-lang", "fr")
    assert done.exit_code == 0, done.output
    sets = json.loads(RunDir(tmp_path / "run").adaptation.read_text())["sets"]
    assert [(each["name"], each["direction"]) for each in sets] == [
        ("new", "en-fr"),
        ("old", "en-de"),
        ("old", "en-fr"),
    ]
    assert nmt("translate", "--model", tmp_path / "run", "--to", "de", "12").exit_code == 0


def test_a_translation_memory_is_read_as_tmx_whatever_its_name(base, client):
    rows = [line.split("\t") for line in client.read_text().splitlines()]
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{src}</seg></tuv><tuv xml:lang="th"><seg>{tgt}</seg></tuv></tu>'
        for src, tgt in rows
    )
    memory = client.with_name("memory.tmx")
    memory.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    options = CorpusNames(corpus=[str(memory)])
    (corpus,) = options.corpora_of(RunDir(base).config().data)
    assert corpus.form == "tmx"
    assert [(pair.src, pair.tgt) for pair in read_parallel((corpus,))] == [tuple(row) for row in rows]


def test_a_test_set_of_the_user_is_not_trained_on(runs, client, messages):
    lines = client.read_text().splitlines(keepends=True)
    (runs / "test.tsv").write_text("".join(lines[:20]))
    for name, column in (("old.src", 0), ("old.tgt", 1)):
        (runs / name).write_text("".join(line.strip().split("\t")[column] + "\n" for line in lines[:15]))
    command = (runs / "base", "--corpus", client, "--run", runs / "client", "--max-loss", 100)
    tests = ("--test", runs / "test.tsv", "--old-test", runs / "old.src", "--old-test", runs / "old.tgt")
    done = adapt(*command, *tests)
    assert done.exit_code == 0, done.output
    sets = json.loads((runs / "client" / "adaptation.json").read_text())["sets"]
    assert [(each["name"], each["sentences"]) for each in sets] == [("new", 20), ("old", 15)]
    train = Path(RunDir(runs / "client").config().data.corpora("train")[0].src).read_text().split()
    assert not {*train} & {line.split("\t")[0] for line in lines[:20]}
    assert any("new pairs are left out of training" in line for line in messages)


def test_no_sentence_of_the_old_test_set_that_the_user_names_is_trained_on(base, client, tmp_path):
    old_rows = Path(RunDir(base).config().data.corpora("train")[0].tsv).read_text().splitlines(keepends=True)
    rows = client.read_text().splitlines(keepends=True)[40:60] + old_rows[:20]
    (tmp_path / "old.tsv").write_text("".join(rows))
    sides = [list(side) for side in zip(*(row.split() for row in rows), strict=True)]
    old_test = [DirectedPairs(Direction("en", "th"), *sides)]
    corpus = collect(RunDir(base), new_data(base, client, "en", "th"), old_test=old_test)
    trained_on = {src for part in corpus.train for src, _ in part.pairs}
    assert not {row.split("\t")[0] for row in rows} & trained_on


def test_a_new_pair_with_a_held_out_sentence_as_its_target_is_not_trained_on(two_run, two_corpora, tmp_path):
    held_out = RunDir(two_run).read_sets("test", Direction("en", "de"))[0].sources[0]
    rows = [line.split("\t")[0] for line in (two_corpora / "train.tsv").read_text().splitlines()[:100]]
    (tmp_path / "new.tsv").write_text("".join(f"9{row}\tx{row}\n" for row in rows) + f"999\t{held_out}\n")
    corpus = collect(RunDir(two_run), new_data(two_run, tmp_path / "new.tsv", "en", "fr"))
    assert "999" not in {src for src, _ in corpus.train[0].pairs}


@pytest.mark.parametrize(
    ("mix", "num_new", "sizes"), [(0.1, 1000, (2218, 4)), (0.25, 1000, (6666, 1)), (0.5, 1000, (19_990, 4, 3, 2, 1))]
)
def test_every_old_corpus_gets_a_pair_of_each_epoch_however_small_it_is(base, tmp_path, mix, num_new, sizes):
    old = [Portion(f"old-{number}", [("1", "2")] * size, {}) for number, size in enumerate(sizes)]
    new = Portion("new", [("3", "4")] * num_new, {})
    train = weighted([new, *old], mix)
    written = AdaptationCorpus(RunDir(base).config().data, train, [new], [new], mix).write(tmp_path)
    counts = [num_new, *sizes]
    per_epoch = quotas(counts, corpus_weights(written, counts))
    assert min(per_epoch) >= 1
    assert per_epoch[0] == pytest.approx((1 - mix) * sum(counts), rel=0.01)


def test_an_adaptation_has_the_settings_of_the_last_stage(base, client, tmp_path):
    run = RunDir(shutil.copytree(base, tmp_path / "run"))
    config = run.config()
    last = {"max_updates": 5, "lr": 1e-3, "label_smoothing": 0.0, "dropout": 0.25, "augment": False}
    stages = [{"max_updates": 5}, last | {"warmup_updates": 0}]
    values = config.model_dump()
    values["training"] |= {"stages": stages, "max_updates": 10, "warmup_updates": 1, "lr": 5e-4}
    values["data"]["augment"]["upper"] = 0.1
    run.write_config(Config.model_validate(values))
    corpus = collect(run, new_data(run.path, client, "en", "th"))
    found = adapted_config(run, corpus, corpus.write(tmp_path))
    assert (found.training.lr, found.training.label_smoothing, found.model.dropout) == (3e-4, 0.0, 0.25)
    assert not found.training.stages
    assert found.data.augment == AugmentConfig()


def test_an_adaptation_that_replaces_a_run_is_resumed_by_the_command_that_it_prints(
    runs, client, messages, monkeypatch
):
    shutil.copytree(runs / "base", runs / "client")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        command = (runs / "base", "--corpus", client, "--run", runs / "client", "--overwrite", "--max-loss", 100)
        assert adapt(*command).exit_code == 130
    resume = next(line for line in messages if "nmt adapt --resume" in line).partition("nmt adapt ")[2]
    assert resume.endswith("client --overwrite --max-loss 100")
    resume = shlex.split(resume)[:-2]
    assert not RunDir(runs / "client").adaptation.exists()
    refused = nmt("adapt", "--resume", "--run", runs / "client")
    assert str(refused.exception).endswith(f"replace this run\n  allow it: nmt adapt {shlex.join(resume)}")
    assert nmt("adapt", *resume, "--max-loss", 100).exit_code == 0
    assert RunDir(runs / "client").adaptation.exists()


@pytest.mark.slow
def test_a_link_keeps_leading_to_the_run_that_was_replaced(runs, client):
    shutil.copytree(runs / "base", runs / "disk" / "client")
    (runs / "client").symlink_to(runs / "disk" / "client")
    for _ in range(2):
        done = adapt(
            runs / "base", "--corpus", client, "--run", runs / "client", "--overwrite", "--max-loss", 100, "--mix", "0"
        )
        assert done.exit_code == 0, done.output
        assert (runs / "client").is_symlink()
        assert [path.name for path in (runs / "disk").iterdir() if not path.name.startswith(".store")] == ["client"]
    assert RunDir(runs / "disk" / "client").adaptation.exists()


FAULTS = {
    "no run": (("--corpus", "a"), "Missing option '--run'"),
    "mix": (("{base}", "--corpus", "a", "--run", "r", "--mix", "1"), "Input should be less than or equal to 0.95"),
    "corpus": (
        ("--resume", "--run", "r", "--corpus", "a"),
        "an adaptation that has begun has its corpus",
    ),
    "other": (
        ("--resume", "--run", "r", "--mix", "0.9", "--src-lang", "de"),
        "--resume cannot be used with --src-lang, --mix",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_usage_errors_exit_with_2(base, arguments, message):
    done = nmt("adapt", *(part.format(base=base) for part in arguments))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_faults_leave_nothing_behind(runs, client):
    before = sorted(path.name for path in runs.iterdir())
    run = ("--run", runs / "client")
    (runs / "few.tsv").write_text("1\t1\n" * 30)
    for arguments, kind in (
        ((runs / "base", "--corpus", runs / "gone.tsv", *run), NmtError),
        ((runs / "base", "--corpus", runs / "few.tsv", *run), NmtError),
        ((runs / "base", *run), ConfigError),
        (("--corpus", client, *run), ConfigError),
        ((runs / "base", "--corpus", client, "--run", runs / "base"), RunError),
        ((runs / "base", "--corpus", client, "--run", runs / "base", "--overwrite"), NmtError),
        (("--resume", *run), RunError),
        ((runs / "base", "--corpus", client, *run, "--old-test", runs / "gone.tsv"), NmtError),
    ):
        assert isinstance(nmt("adapt", *arguments).exception, kind), arguments
    (runs / "few.tsv").unlink()
    assert sorted(path.name for path in runs.iterdir()) == before


def test_a_packed_model_is_adapted_and_a_finished_adaptation_says_so(runs, client):
    packed = runs / "base.zip"
    assert nmt("pack", runs / "base", "-o", packed).exit_code == 0
    done = adapt(packed, "--corpus", client, "--run", runs / "client", "--max-loss", 100)
    assert done.exit_code == 0, done.output
    again = nmt("adapt", "--resume", "--run", runs / "client").exception
    assert isinstance(again, RunError)
    assert again.message == "this adaptation is finished"
