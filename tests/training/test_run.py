"""Starting runs: what they need, what is refused, fine-tuning, and the function for Python."""

from __future__ import annotations

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
import torch

from nmt.artifacts import rundir
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.run_records import FORMAT
from nmt.artifacts.rundir import RunDir, new_run
from nmt.base.errors import ConfigError, DataError, NmtError, RunError
from nmt.config import dump_config
from nmt.evaluation.plots import read_metrics
from nmt.training.metrics import TrainRecord, ValidRecord
from nmt.training.run import resume_run, start_or_resume_run, start_run, train
from tests.full_disk import no_room_for
from tests.resumption import assert_equal_runs, stop_after
from tests.tiny import small_config, tiny_config, write_digits


def test_fp16_is_refused_on_a_cpu_before_the_data_is_prepared(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.training.run.prepare", lambda *_: pytest.fail("the data is prepared"))
    with pytest.raises(ConfigError) as caught:
        start_run(small_config(digits, training={"precision": "fp16"}), tmp_path / "run")
    assert str(caught.value) == (
        "precision fp16 is only for training on CUDA devices; this device is cpu\n"
        "  set training.precision to auto, which picks bf16 if it is clearly faster on this device, else fp32"
    )
    assert not (tmp_path / "run").exists()


def test_fine_tuning_starts_from_the_weights_and_the_tokenizer_of_another_run(digits, digits_run, tmp_path):
    training = {"init_from": str(digits_run), "lr": 1e-12, "max_updates": 4}
    start_run(tiny_config(digits, training=training), tmp_path / "tuned")
    base, tuned = RunDir(digits_run), RunDir(tmp_path / "tuned")
    assert (base.tokenizer / "joint.model").read_bytes() == (tuned.tokenizer / "joint.model").read_bytes()
    before, after = read_weights(base.best_checkpoint()), read_weights(tuned.checkpoint("step-00000004"))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_fine_tuning_with_another_model_is_refused_and_leaves_no_run(digits, digits_run, tmp_path):
    config = tiny_config(digits, training={"init_from": str(digits_run)}, model={"d_ff": 32})
    with pytest.raises(RunError, match=r"model\.d_ff is 32 here and 96 in the run to continue from"):
        start_run(config, tmp_path / "tuned")
    assert list(tmp_path.glob("tuned*")) == list(tmp_path.glob(".tuned*")) == []


def test_fine_tuning_and_resuming_name_all_keys_that_differ(digits, digits_run, tmp_path):
    config = tiny_config(digits, training={"init_from": str(digits_run)}, model={"d_ff": 32, "num_heads": 4})
    with pytest.raises(RunError) as caught:
        start_run(config, tmp_path / "tuned")
    assert caught.value.message == (
        "model.num_heads is 4 here and 3 in the run to continue from; "
        "model.d_ff is 32 here and 96 in the run to continue from"
    )
    other = RunDir(digits_run).config().model_copy(update={"model": config.model})
    with pytest.raises(RunError) as caught:
        resume_run(other, digits_run)
    assert caught.value.message == (
        "model.num_heads was 3 when the run was started and is 4 now; "
        "model.d_ff was 96 when the run was started and is 32 now"
    )


def test_the_function_for_python_starts_a_run_and_continues_it_and_tells_each_record(digits, trained, tmp_path):
    config, path, records = small_config(digits), tmp_path / "run", []
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)
        stopped = train(config, path, on_update=records.append)
    assert not stopped.finished
    assert stopped.scores == RunDir(path).index().checkpoints["step-00000004"]
    config_file = tmp_path / "my.yaml"
    config_file.write_text(dump_config(config), encoding="utf-8")
    result = train(config_file, str(path), on_update=records.append)
    assert result.finished
    assert result.run.path == path
    assert result.scores == result.run.index().checkpoints[result.run.index().best]
    assert [asdict(record) for record in records] == read_metrics(path / "logs" / "metrics.jsonl")
    assert isinstance(records[0], TrainRecord)
    assert isinstance(records[-1], ValidRecord)
    assert_equal_runs(result.run, RunDir(trained / "run"))


def test_the_function_for_python_raises_what_its_callback_raises_and_errors_of_users(digits, tmp_path):
    def fail(record):
        raise KeyError(record.update)

    with pytest.raises(KeyError, match="2"):
        train(small_config(digits), tmp_path / "run", on_update=fail)
    assert train(small_config(digits), tmp_path / "run").finished
    with pytest.raises(NmtError, match="no such file"):
        train(tmp_path / "missing.yaml", tmp_path / "run")


def test_runs_are_trained_in_any_thread(digits, tmp_path):
    config = small_config(digits, training={"max_updates": 4, "average_checkpoints": 0})
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, config, tmp_path / "run").result().finished


def test_a_run_that_exists_is_refused_unless_it_is_resumed_or_overwritten(digits, run):
    with pytest.raises(RunError, match="--resume, replace it with --overwrite"):
        start_run(small_config(digits), run.path)
    assert start_run(small_config(digits, training={"seed": 2}), run.path, overwrite=True)
    assert run.config().training.seed == 2


def test_a_folder_that_is_no_run_is_never_overwritten(digits, tmp_path):
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("words")
    with pytest.raises(RunError, match="not a run"):
        start_run(small_config(digits), precious, overwrite=True)
    assert (precious / "chapter.txt").read_text() == "words"


def test_a_folder_that_is_no_run_is_named_as_such_and_not_as_one_to_resume(digits, tmp_path):
    other, config = tmp_path / "thesis", small_config(digits)
    other.mkdir()
    (other / "chapter.txt").write_text("words")
    for begin in (start_run, resume_run, start_or_resume_run):
        with pytest.raises(RunError) as caught:
            begin(config, other)
        assert str(caught.value) == f"{other}: this folder is not a run\n  choose another --run"
    assert [path.name for path in other.iterdir()] == ["chapter.txt"]


def test_a_run_may_begin_in_an_empty_folder(digits, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match="there is no run to resume"):
        resume_run(None, tmp_path / "run")
    assert start_run(small_config(digits, training={"max_updates": 4, "average_checkpoints": 0}), tmp_path / "run")
    assert RunDir(tmp_path / "run").card.exists()


def test_a_fault_in_the_data_leaves_no_run(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=30)
    (folder / "train.tsv").write_bytes(b"1 2\t2 1\n\xff\t1\n")
    with pytest.raises(DataError):
        start_run(small_config(folder), tmp_path / "runs" / "run")
    assert [path.name for path in (tmp_path / "runs").iterdir()] in ([], [".store"])


def test_the_run_says_how_it_was_made(digits_run):
    info = json.loads((digits_run / "run.json").read_text())
    assert info["format"] == FORMAT
    assert info["device"] == "cpu"
    assert info["precision"] == "fp32"
    assert "nrefs:1|case:mixed" in (digits_run / "README.md").read_text()


def test_a_full_disk_is_told_from_other_errors_and_the_file_is_named(digits, tmp_path, monkeypatch):
    run = RunDir(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not start_run(small_config(digits), run.path)
    resume = f"everything saved before is kept; {{}}continue with: nmt train --resume --run {run.path}"
    with no_room_for(9000), pytest.raises(RunError) as caught:
        resume_run(None, run.path)
    weights = str(run.checkpoint("step-00000004"))
    assert (caught.value.message, caught.value.path) == ("cannot be written: File too large", weights)
    assert caught.value.hint == resume.format("after freeing space, ")
    run.metrics.unlink()
    run.metrics.mkdir()
    with pytest.raises(RunError) as caught:
        resume_run(None, run.path)
    assert (caught.value.message, caught.value.path) == ("cannot be read or written: Is a directory", str(run.metrics))
    assert caught.value.hint == resume.format("")


def test_two_processes_do_not_train_one_run(run):
    with run.locked(), pytest.raises(RunError, match="another process is training this run"):
        resume_run(None, run.path)


def test_a_run_on_a_file_system_without_locks_is_trained_with_a_warning(run, monkeypatch, messages):
    def refuse(descriptor: int) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(rundir, "try_lock", refuse)
    with run.locked():
        pass
    assert any("cannot be locked here (Function not implemented)" in line for line in messages)


def test_a_run_that_appears_meanwhile_is_not_replaced(tmp_path):
    def make(*, overwrite: bool) -> None:
        with new_run(tmp_path / "run", overwrite=overwrite) as run:
            run.config_file.write_text("new")
            (tmp_path / "run").mkdir(exist_ok=True)
            (tmp_path / "run" / "config.yaml").write_text("theirs")

    with pytest.raises(RunError, match="already exists"):
        make(overwrite=False)
    assert (tmp_path / "run" / "config.yaml").read_text() == "theirs"
    make(overwrite=True)
    assert (tmp_path / "run" / "config.yaml").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_is_not_overwritten_by_one_that_continues_from_it(digits, run):
    config = small_config(digits, training={"init_from": str(run.path)})
    with pytest.raises(RunError, match="cannot be overwritten by one that continues from it"):
        start_run(config, run.path, overwrite=True)


def test_a_tokenizer_with_two_vocabularies_is_refused_where_one_is_asked_for(digits, tmp_path):
    from nmt.training.corpus.prepare import train_on_corpus

    separate = {"joint": False, "type": "char", "vocab_size": 300}
    config = small_config(digits, tokenizer=separate, model={"tied_embeddings": "target"})
    train_on_corpus(config, None).save(tmp_path / "vocab")
    with pytest.raises(ConfigError, match=r"tokenizer\.joint is true, but this tokenizer has two vocabularies"):
        start_run(small_config(digits, tokenizer={"path": str(tmp_path / "vocab")}), tmp_path / "run")


def test_a_run_in_training_is_not_overwritten(digits, run):
    with run.locked(), pytest.raises(RunError, match="another process is training this run"):
        start_run(small_config(digits), run.path, overwrite=True)


def test_threads_are_limited_to_the_cores_of_the_machine(digits, tmp_path, monkeypatch, messages):
    monkeypatch.setattr("nmt.base.machine.os.cpu_count", lambda: 1)
    start_run(
        small_config(digits, training={"max_updates": 4, "threads": 1000, "average_checkpoints": 0}), tmp_path / "run"
    )
    assert RunDir(tmp_path / "run").info().threads == 1
    warning = "warning: training.threads is 1000, but this machine has 1 core; using as many"
    assert messages.count(warning) == 1
