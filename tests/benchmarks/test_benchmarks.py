"""The benchmarks run from end to end, and count what they say they count. No test looks at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def _bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.syspath_prepend(str(BENCH / "peers"))


def run_quickly(script: str, cache: Path, *more: str) -> tuple[str, dict]:
    """Standard output and the JSON of a benchmark in its quick mode."""
    kept = cache / "result.json"
    command = [sys.executable, BENCH / script, "--quick", "--threads", "1", "--cache", cache, "--json", kept, *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(kept.read_text())


@pytest.mark.slow
def test_the_training_benchmark_prints_rates_and_their_ratio_to_the_best_peer(tmp_path):
    printed, result = run_quickly("train.py", tmp_path)
    assert {(row["system"], row["precision"].split()[0]) for row in result["rows"]} == {
        ("nmt", "auto"),
        ("nmt", "fp32"),
        ("nn-transformer", "fp32"),
    }
    for row in result["rows"]:
        assert row["tokens_per_s"] == row["median"] > 0
        assert len(row["repeats"]) == result["config"]["repeats"]
        assert row["versions"]["torch"]
    assert [row["to_best_peer"] for row in result["rows"] if row["system"] == "nn-transformer"] == [1.0]
    assert result["faults"] == {}
    assert "x best peer" in printed.splitlines()[0]


@pytest.mark.slow
def test_the_translation_benchmark_measures_all_five_ways(tmp_path):
    printed, result = run_quickly("translate.py", tmp_path)
    assert [row["precision"] for row in result["bulk"]] == ["auto", "fp32"]
    assert all(row["median"] > 0 for row in result["bulk"])
    assert result["bulk"][0]["bleu_signature"]
    assert result["single"][0]["p95_ms"] >= result["single"][0]["p50_ms"] > 0
    assert [row["length"] for row in result["forced"]] == [8, 8]
    assert {row["system"] for row in result["cold"]} == {"import torch", "nmt translate, run"}
    assert [row["system"] for row in result["file"]] == ["nmt translate, run"] * 2
    assert result["faults"] == {}
    assert printed.count("tokens/s") >= 3


@pytest.mark.slow
def test_marians_loop_is_scored_on_the_test_set_with_both_searches(tmp_path):
    printed, result = run_quickly("marian.py", tmp_path)
    assert [row["beam"] for row in result["rows"]] == [1, 5]
    assert all(0 <= row["bleu"] <= 100 and row["steps"] > 0 for row in result["rows"])
    assert printed.splitlines()[0].split() == ["beam", "BLEU", "chrF", "minutes", "updates", "loss"]


@pytest.mark.slow
def test_the_gpu_script_measures_what_it_can_on_a_tiny_model(tmp_path):
    kept = tmp_path / "result.json"
    done = subprocess.run([sys.executable, BENCH / "gpu.py", "--quick", "--json", kept], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(kept.read_text())
    assert {"nmt", "nn-transformer"} <= {row["system"] for row in result["training"]}
    assert all(row["tokens_per_s"] > 0 for row in (*result["training"], *result["decoding"]))


@pytest.mark.slow
def test_a_dry_run_of_the_plan_for_a_gpu_does_every_item_and_no_operation_depends_on_the_batch(tmp_path):
    kept = tmp_path / "plan.json"
    command = [sys.executable, BENCH / "gpu.py", "--plan", "--dry-run", "--json", kept]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(kept.read_text())
    assert result["contract"]["differ"] == [0, 0, 0]
    assert result["replays"]["bf16"]["plain = plain again"]["weights equal"]
    assert result["replays"]["fp16"]["plain = recorded"]["weights equal"]
    assert result["resuming"]["fp32"]["weights equal"]
    assert result["training a"]["recorded"]["tokens_per_s"] > 0
    for beam in ("greedy", "beam 5"):
        rows = result[f"decoding {beam}"]["rows computed"]
        assert rows["tokens"] < rows["filled again"] < rows["batches"]
    assert "operations differ (same batch, other rate, other batch)" in done.stderr.splitlines()[-1]
    begun = subprocess.run(command, capture_output=True, text=True)
    assert "==" not in begun.stderr  # every item has a result


def test_a_plan_that_was_cut_goes_on_with_the_items_that_have_no_result(tmp_path, capsys):
    from gpu_plan import run_plan

    kept = tmp_path / "plan.json"

    def run(*items: str) -> list[str]:
        assert run_plan(kept, dry=True, only=[*items]) == 0
        return capsys.readouterr().err.splitlines()

    first, contract = run("contract"), json.loads(kept.read_text())["contract"]
    assert contract["differ"] == [0, 0, 0]
    second = run("contract", "tests")
    assert [line.split()[1] for line in (*first, *second) if line.startswith("==")] == ["contract", "tests"]
    assert json.loads(kept.read_text())["contract"] == contract
    assert first[-1] == second[-1]
    assert "0, 0, 0 of" in second[-1]


@pytest.mark.slow
def test_the_gpu_script_runs_only_the_parts_that_are_asked_for(tmp_path):
    kept = tmp_path / "result.json"
    command = [sys.executable, BENCH / "gpu.py", "--quick", "--json", kept, "--only"]
    done = subprocess.run([*command, "decoding"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "decoding" in json.loads(kept.read_text())
    assert "training" not in json.loads(kept.read_text())
    refused = subprocess.run([*command, "decoding,nothing"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "unknown part 'nothing'; there are tests, training, decoding, multi30k" in refused.stderr


def test_the_first_seconds_of_a_run_are_left_out_of_its_rate(tmp_path):
    from train import steady_rate

    metrics = tmp_path / "metrics.jsonl"
    records = [(100.0, 4.0), (200.0, 6.0), (300.0, 8.0), (600.0, 9.0)]  # tokens a second of a span, its end
    lines = [
        json.dumps({"kind": "train", "tokens_per_second": rate, "train_seconds": end}) + "\n" for rate, end in records
    ]
    metrics.write_text("".join(lines) + '{"kind": "tra')  # the last line is in writing
    rate = steady_rate(metrics, skip_seconds=5.0)
    assert rate["tokens"] == 300 * 2 + 600 * 1
    assert rate["seconds"] == 3.0
    assert rate["tokens_per_s"] == 400.0


def test_a_run_without_a_log_has_no_rate_yet(tmp_path):
    from train import steady_rate

    assert steady_rate(tmp_path / "metrics.jsonl", 5.0)["seconds"] == 0.0


def test_systems_take_turns_and_one_that_fails_drops_out():
    from harness import Contender, WorkerError, take_turns

    order: list[str] = []

    def measure(name: str) -> dict:
        order.append(name)
        if name == "b":
            raise WorkerError("no")
        return {"tokens_per_s": 1.0}

    contenders = [Contender(name, "fp32", lambda name=name: measure(name)) for name in "abc"]
    take_turns(contenders, repeats=3)
    assert "".join(order) == "abcacac"
    assert [len(contender.results) for contender in contenders] == [3, 0, 3]
    assert contenders[1].fault == "no"


def test_rows_give_the_ratio_to_the_best_peer_in_fp32_and_in_any_precision():
    from harness import Contender
    from train import make_rows

    def contender(system: str, precision: str, rates: list[float]) -> Contender:
        results = [{"tokens_per_s": rate, "precision": "bf16", "versions": {}} for rate in rates]
        return Contender(system, precision, dict, results=results)

    ours = contender("nmt", "auto", [300.0, 900.0, 600.0])
    rows = make_rows([ours, contender("a", "fp32", [200.0]), contender("b", "bf16", [400.0])])
    assert [(row["to_best_fp32_peer"], row["to_best_peer"]) for row in rows] == [(3.0, 1.5), (1.0, 0.5), (2.0, 1.0)]
    assert rows[0]["precision"] == "auto (bf16)"
    assert (rows[0]["min"], rows[0]["max"]) == (300.0, 900.0)


def test_a_worker_that_fails_says_why():
    from harness import WorkerError, clean_environment, run_worker

    with pytest.raises(WorkerError, match="out of luck"):
        run_worker([sys.executable, "-c", "raise SystemExit('out of luck')"], clean_environment(1), timeout=60)


def test_a_worker_that_takes_too_long_is_ended():
    from harness import WorkerError, clean_environment, run_worker

    with pytest.raises(WorkerError, match="no result after 1 s"):
        run_worker([sys.executable, "-c", "import time; time.sleep(600)"], clean_environment(1), timeout=1)


def test_batches_of_the_peers_hold_every_pair_once_an_epoch_within_the_budget():
    from common import batches

    pairs = [([5] * (1 + i % 7), [6] * (1 + i % 5)) for i in range(53)]
    stream = batches(pairs, batch_tokens=40)
    seen, longest_batch = 0, 0
    while seen < len(pairs):
        batch = next(stream)
        seen += len(batch)
        longest_batch = max(longest_batch, len(batch) * max(len(side) + 1 for pair in batch for side in pair))
    assert seen == len(pairs)
    assert longest_batch <= 40


def test_the_rate_of_a_trainer_with_a_command_of_its_own_comes_from_its_log():
    from common import logged_rate

    program = "import time\nfor i in range(600):\n    print('tokens', 7, flush=True)\n    time.sleep(0.02)"
    rate = logged_rate(
        [sys.executable, "-c", program],
        lambda line, seconds: float(line.split()[1]) if line.startswith("tokens") else None,
        {"skip_seconds": 0.05, "seconds": 0.1},
    )
    assert rate["tokens"] == 7 * rate["reports"]
    assert rate["seconds"] >= 0.1


def test_every_peer_has_its_programs_and_its_pinned_packages():
    from train import PRECISIONS as TRAINED
    from translation import OURS
    from translation import PRECISIONS as TRANSLATING

    peers = BENCH / "peers"
    for kind, systems in (("train", TRAINED), ("translate", TRANSLATING)):
        for system in systems:
            if (kind, system) != ("train", "nmt"):  # `nmt train` itself
                assert (peers / f"{system.removesuffix('-torch').replace('-', '_')}_{kind}.py").is_file()
            if system not in OURS:
                lines = (peers / "requirements" / f"{system}.txt").read_text().splitlines()
                assert all("==" in line for line in lines)


@pytest.mark.slow
def test_the_corpus_benchmark_measures_what_it_says_it_does(tmp_path):
    command = [sys.executable, BENCH / "corpus.py", "--pairs", "3000", "--folder", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built, loaded = map(json.loads, done.stdout.splitlines())
    assert built["pairs"] == loaded["pairs"] == 3000
    assert built["store_s"] >= 0 < built["pairs_per_s"]
    assert loaded["store_s"] is None


def test_a_result_names_the_command_as_it_is_typed_in_the_checkout(monkeypatch):
    from harness import command_line

    monkeypatch.setattr(sys, "argv", [str(BENCH / "train.py"), "--systems", "nmt,joeynmt", "--json", "a b.json"])
    assert command_line() == "python benchmarks/train.py --systems nmt,joeynmt --json 'a b.json'"


@pytest.mark.slow
def test_the_serving_benchmark_counts_requests_and_finds_no_wrong_answer(tmp_path):
    printed, result = run_quickly("serve.py", tmp_path, "--soak", "100")
    assert {(row["system"], row["clients"]) for row in result["rows"]} == {
        (system, clients) for system in ("nmt serve", "plain handler") for clients in (1, 8)
    }
    for row in result["rows"]:
        assert row["per_second"] > 0
        assert (row["wrong"], row["failed"]) == (0, 0)
    assert "requests/s" in printed.splitlines()[0]
    assert [row["requests"] for row in result["soak"]] == list(range(0, 101, 10))
    assert all((row["failed"], row["wrong"]) == (0, 0) and row["memory_mb"] > 0 for row in result["soak"])
