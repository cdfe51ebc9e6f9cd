"""Ray workers translate as this process does, in order, even if one of them is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.apps.ray.ray_translator import connected, share_out
from nmt.apps.ray.ray_worker import ModelPaths, Worker
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.machine import limit_cores
from nmt.data.read.line_blocks import grow_blocks
from nmt.translation.request import Request

ROOT = Path(__file__).parents[3]
TEXTS = [str(1000 + 37 * number) for number in range(200)]


def paths_of(run: Path, **changes) -> list[ModelPaths]:
    paths = ModelPaths.from_runs([RunDir(run)], device="cpu", precision="fp32")
    return [paths._replace(**changes)]


class TestWithoutRay:
    """What needs no cluster: the code of a worker, and addresses that lead nowhere."""

    @pytest.fixture(autouse=True)
    def _all_cores_afterwards(self):
        yield
        limit_cores(None)

    def test_a_worker_translates_as_this_process_does(self, digits_run):
        from nmt import Translator, __version__

        worker = Worker(paths_of(digits_run), 1, __version__)
        assert worker.load() == ("fp32", 32)
        result = worker.translate(TEXTS, Request(RunDir(digits_run).config().decoding), 1)
        assert not isinstance(result, NmtError)
        here = Translator.load(digits_run, precision="fp32", device="cpu").translate(TEXTS)
        assert [t.text for t in result] == [t.text for t in here]

    @pytest.mark.parametrize(
        ("changes", "version", "message"),
        [
            ({"folders": ("/nowhere",)}, None, "finds no such model"),
            ({"checksums": ("0",)}, None, "differ from those of the requested model"),
            ({}, "0.0.0", "has nmt .*, not 0.0.0"),
        ],
    )
    def test_a_worker_that_cannot_serve_returns_the_error(self, changes, version, message, digits_run):
        from nmt import __version__

        worker = Worker(paths_of(digits_run, **changes), 1, version or __version__)
        for result in (worker.load(), worker.translate(["1"], Request(RunDir(digits_run).config().decoding), 1)):
            assert isinstance(result, NmtError)
            with pytest.raises(NmtError, match=message):
                raise result

    @pytest.mark.parametrize("address", ["host", "a:b", "http://a:1", "a:99999", "", ":1"])
    def test_what_is_not_an_address_is_refused(self, address):
        with pytest.raises(NmtError, match="not an address of a Ray cluster"), connected(address, None):
            pass

    def test_an_address_where_nothing_listens_is_said_at_once(self):
        with pytest.raises(NmtError, match="no Ray cluster answers"), connected("127.0.0.1:1", None):
            pass


def with_nodes(*nodes: tuple[int, int], free: tuple[int, int] | None = None) -> SimpleNamespace:
    """Return a stand-in for ray in a cluster of nodes with these CPUs and GPUs; by default, all of them are free."""

    def resources(cpus: int, gpus: int) -> dict[str, float]:
        return {name: float(count) for name, count in (("CPU", cpus), ("GPU", gpus)) if count}

    found = [{"Alive": True, "Resources": resources(*node)} for node in nodes]
    found.append({"Alive": False, "Resources": resources(64, 8)})
    num_cpus, num_gpus = free or (sum(cpus for cpus, _ in nodes), sum(gpus for _, gpus in nodes))
    return SimpleNamespace(nodes=lambda: found, available_resources=lambda: resources(num_cpus, num_gpus))


@pytest.mark.parametrize(
    ("ray", "num_workers", "device", "shares"),
    [
        (with_nodes((8, 0)), None, "auto", (8, 1, 0)),
        (with_nodes((8, 0)), 3, "auto", (3, 2, 0)),
        (with_nodes((8, 0), (2, 0)), 2, "auto", (2, 4, 0)),  # 5 CPUs each would fit on the first node alone
        (with_nodes((8, 2)), None, "auto", (2, 4, 1)),
        (with_nodes((8, 2), (64, 0)), None, "auto", (2, 4, 1)),  # the GPUs' node has 4 CPUs for each of them
        (with_nodes((4, 8)), None, "auto", (4, 1, 1)),
        (with_nodes((8, 2)), 3, "cpu", (3, 2, 0)),
        (with_nodes((8, 2), free=(8, 0)), 4, "auto", (4, 2, 0)),
    ],
)
def test_workers_share_the_resources_so_that_all_fit_on_the_nodes(ray, num_workers, device, shares):
    assert share_out(ray, num_workers, device) == shares


@pytest.mark.parametrize(
    ("ray", "shares"),
    [(with_nodes((4, 0), free=(0, 0)), (4, 1, 0)), (with_nodes((8, 4), free=(1, 1)), (4, 1, 1))],
)
def test_workers_wait_for_resources_that_others_use(ray, shares):
    assert share_out(ray, 4, "auto") == shares


@pytest.mark.parametrize(
    ("ray", "num_workers", "message", "hint"),
    [
        (with_nodes((4, 0)), 8, "room for 4 workers, not 8: each takes a whole CPU", "use --ray-workers 4"),
        (with_nodes((3, 0), (2, 0), free=(1, 0)), 6, "room for 5 workers, not 6", "use --ray-workers 5"),
        (
            with_nodes((16, 1), (16, 0)), 2, "room for 1 worker, not 2: each takes a whole CPU and a whole GPU",
            "use --ray-workers 1, or --device cpu to translate on CPUs only",
        ),
        (with_nodes((0, 0)), None, "room for 0 workers, not 1", "add nodes with CPUs to the cluster"),
    ],
)  # fmt: skip
def test_workers_that_would_wait_forever_are_refused(ray, num_workers, message, hint):
    with pytest.raises(NmtError, match=message) as caught:
        share_out(ray, num_workers, "auto")
    assert caught.value.hint == hint


@pytest.fixture(scope="module")
def cluster():
    """A cluster of this machine with a CPU for each worker that lives at one time: two, and one of a single test."""
    pytest.importorskip("ray", reason="needs the extra ray")
    with connected("local", 3) as ray:
        yield ray


class NoWaiting(logging.Handler):
    """Fails a test whose workers wait for a CPU: those that have it may never give it back."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("waiting for free CPUs"):
            pytest.fail(record.getMessage())


@pytest.fixture
def no_waiting():
    logger, handler = logging.getLogger("nmt.apps.ray.ray_translator"), NoWaiting()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("no_waiting")
class TestWithRay:
    """Two workers on this machine."""

    @pytest.fixture(scope="class")
    def translator(self, cluster, digits_run):
        from nmt.apps.ray.ray_translator import RayTranslator

        return RayTranslator(cluster, [[RunDir(digits_run)]], paths_of(digits_run), (2, 1, 0))

    @pytest.fixture(scope="class")
    def local(self, digits_run):
        from nmt import Translator

        return Translator.load(digits_run, precision="fp32", device="cpu")

    @pytest.mark.parametrize("sample", [False, True])
    def test_workers_translate_as_this_process_does_in_order(self, sample, translator, local):
        assert (translator.precision, translator.max_src_len) == (local.precision, local.max_src_len)
        request = Request(local.options.changed(sample=sample), draw_by_line=True)
        blocks = list(grow_blocks(TEXTS * 5))
        found, expected = (list(each.translate_blocks(blocks, request)) for each in (translator, local))
        assert [block for block, _ in found] == blocks
        assert [[t.text for t in block] for _, block in found] == [[t.text for t in block] for _, block in expected]

    def test_workers_look_up_a_memory_and_translate_through_a_third_language(self, cluster, letters_run, two_run):
        pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
        from nmt import Glossary, Translator
        from nmt.apps.ray.ray_translator import RayTranslator
        from nmt.translation.chain import Chain
        from nmt.translation.memory import TranslationMemory

        options = {"precision": "fp32", "device": "cpu"}
        runs = [[RunDir(run)] for run in (letters_run, two_run)]
        paths = [ModelPaths.from_runs(each, **options) for each in runs]
        translator = RayTranslator(cluster, runs, paths, (1, 1, 0))
        row = [Translator.load(run, **options) for run in (letters_run, two_run)]
        local = Chain(row, TranslationMemory([("12", "connu")]))
        assert (translator.languages, translator.precision) == (local.languages, local.precision)
        translator.memory = local.memory
        request = Request(local.options, to="fr", glossary=Glossary({"34": "xyz"}))
        blocks = [["12", "34 5"], ["12 34. 5", ""]]
        found, expected = (
            [[each.text for each in some] for _, some in one.translate_blocks(blocks, request)]
            for one in (translator, local)
        )
        assert found == expected
        assert found[0][0] == "connu"

    def test_workers_are_not_given_the_whole_stream(self, translator):
        read = []
        blocks = (read.append(number) or [str(number)] for number in range(1000))
        found = translator.translate_blocks(blocks, Request(translator.options))
        assert [next(found)[0] for _ in range(3)] == [["0"], ["1"], ["2"]]
        assert len(read) <= 3 + 8
        found.close()

    def test_a_killed_worker_loses_nothing(self, cluster, translator, local):
        request = Request(local.options.changed(beam_size=4))
        found = translator.translate_blocks(([text] * 20 for text in TEXTS), request)
        pids = cluster.get([worker.__ray_call__.remote(lambda _: os.getpid()) for worker in translator._workers])
        outputs = []
        for number, (_, translations) in enumerate(found):
            outputs += [translation.text for translation in translations]
            if number in (5, 60):
                os.kill(pids.pop(), signal.SIGKILL)
        expected = local.translate_blocks([[text] * 20 for text in TEXTS], request)
        assert outputs == [translation.text for _, translations in expected for translation in translations]

    def test_a_block_that_kills_every_worker_is_an_error(self, cluster, digits_run, monkeypatch):
        from nmt.apps.ray import ray_translator

        class Deadly(Worker):
            def translate(self, texts, request, first, memory=None):
                os._exit(1)

        monkeypatch.setattr(ray_translator, "Worker", Deadly)
        monkeypatch.setattr(ray_translator, "MAX_RETRIES", 1)
        translator = ray_translator.RayTranslator(cluster, [[RunDir(digits_run)]], paths_of(digits_run), (1, 0, 0))
        with pytest.raises(NmtError, match="a Ray worker failed while it translated the lines 1 to 16"):
            list(translator.translate_blocks(grow_blocks(TEXTS), Request(translator.options)))

    def test_a_model_that_workers_do_not_find_is_an_error(self, cluster, digits_run):
        from nmt.apps.ray.ray_translator import RayTranslator

        with pytest.raises(NmtError, match="finds no such model"):
            RayTranslator(cluster, [[RunDir(digits_run)]], paths_of(digits_run, folders=("/nowhere",)), (1, 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["translate", "synthesize"])
def test_commands_write_the_same_bytes_with_ray(command, digits_run, tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "nmt", command, "-m", str(digits_run), "-i", "in", "--beam", "2", "-o"]
    for output, more in (("here.tsv", []), ("there.tsv", ["--ray", "local", "--ray-workers", "2"])):
        done = subprocess.run(
            [*arguments, output, *more], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    assert (tmp_path / "here.tsv").read_bytes() == (tmp_path / "there.tsv").read_bytes()
