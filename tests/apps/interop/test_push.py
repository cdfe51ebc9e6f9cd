"""`nmt push` and `hf:user/name`, against a stand-in of the hub's HTTP interface."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.interop.sharing import push
from nmt.artifacts.find_model import find_run
from nmt.artifacts.hub import HubModel, fetch
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from tests.full_disk import no_room_for
from tests.hub_stand_in import TOKEN, Hub, Repository, running_hub

pytest.importorskip("huggingface_hub", reason="needs the extra hub")
# Version 1 of huggingface_hub posts text in a way that httpx advises against.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"
NAME = HubModel("me", "digits")


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A hub, a token for it, a run in the current folder, and a cache of this test's own."""
    shutil.copytree(FROZEN, tmp_path / "run")
    Path(tmp_path, "run", "README.md").write_text("---\nlicense: mit\n---\n\n# Digits\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        # What a program reads from HF_ENDPOINT when it starts:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # the stand-in has Git LFS alone
        for module in ("constants", "file_download"):  # which of them counts depends on the version
            monkeypatch.setattr(f"huggingface_hub.{module}.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        yield hub


def call(*arguments: str):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, NmtError | SystemExit), done.exception
    return done


def files_of(hub: Hub) -> dict[str, bytes]:
    found = hub.repositories["me/digits"].files("main")
    assert found is not None
    return found[1]


def test_a_run_is_pushed_and_translates_from_the_hub(hub, messages):
    assert call("push", "run", "me/digits").exit_code == 0, hub.requests
    commit = list(hub.repositories["me/digits"].commits)[-1]
    assert messages[-1] == f"done: hf:me/digits\n  nmt translate --model hf:me/digits@{commit} 'text'"
    assert call("translate", "-m", "hf:me/digits", "12").stdout == "21\n"
    done = call("eval", "-m", "hf:me/digits", "--src", "run/data/test.src", "--ref", "run/data/test.tgt")
    assert done.exit_code == 0
    assert list(Path("digits-eval").glob("*.hyp"))


def test_the_upload_is_the_packed_form_with_a_card_for_the_hub(hub):
    Path("run/notes.txt").write_text("mine")
    push(RunDir(Path("run")), NAME)
    assert sorted(files_of(hub)) == [
        ".gitattributes",
        "README.md",
        "checkpoints/index.json",
        "checkpoints/step-00001000.safetensors",
        "config.yaml",
        "packed.json",
        "statistics.json",
        "tokenizer/joint.model",
    ]
    front = yaml.safe_load(files_of(hub)["README.md"].decode().split("---")[1])
    assert (front["license"], front["language"], front["library_name"]) == ("mit", ["en"], "nmt")
    assert not any(TOKEN.encode() in content for content in files_of(hub).values())


def test_the_weights_come_back_as_they_were_and_are_downloaded_once(hub):
    run = RunDir(Path("run"))
    push(run, NAME)
    found = find_run("hf:me/digits")
    assert found.best_checkpoint().read_bytes() == run.best_checkpoint().read_bytes()
    assert sorted(path.name for path in found.path.iterdir()) == [
        "README.md", "checkpoints", "config.yaml", "packed.json", "statistics.json", "tokenizer"
    ]  # fmt: skip
    hub.requests.clear()
    find_run("hf:me/digits")
    assert len(hub.requests) == 1  # which commit is the newest


def test_a_second_push_replaces_the_files_and_a_revision_stays_what_it_was(hub):
    run = RunDir(Path("run"))
    first = push(run, NAME)
    run.use_checkpoint("average")
    second = push(run, NAME)
    assert [name for name in files_of(hub) if name.endswith(".safetensors")] == ["checkpoints/average.safetensors"]
    assert find_run(f"hf:me/digits@{first}").best_checkpoint().stem == "step-00001000"
    assert find_run(f"hf:me/digits@{second}").best_checkpoint().stem == "average"
    assert find_run("hf:me/digits").best_checkpoint().stem == "average"


def test_a_model_in_the_cache_needs_no_network(hub, monkeypatch):
    commit = push(RunDir(Path("run")), NAME)
    find_run("hf:me/digits")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in (f"hf:me/digits@{commit}", "hf:me/digits"):
        assert find_run(name).best_checkpoint().stem == "step-00001000"
    with pytest.raises(NmtError, match="cannot reach the hub"):
        find_run("hf:me/digits@v2")


def test_a_full_disk_is_not_taken_for_a_network_failure(hub):
    push(RunDir(Path("run")), NAME)
    with no_room_for(3000), pytest.raises(OSError, match="File too large"):
        find_run("hf:me/digits")


def test_a_private_model_needs_the_token(hub, monkeypatch):
    push(RunDir(Path("run")), NAME, private=True)
    assert hub.repositories["me/digits"].private
    find_run("hf:me/digits")
    shutil.rmtree("cache")
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with pytest.raises(NmtError, match=r"no such model, or your token has no access to it \(401\)") as caught:
        find_run("hf:me/digits")
    assert "$HF_TOKEN" in caught.value.hint
    assert "hf_another" not in str(caught.value)


def test_a_private_upload_does_not_go_to_a_public_model(hub):
    push(RunDir(Path("run")), NAME)
    before = len(hub.repositories["me/digits"].commits)
    with pytest.raises(NmtError, match="me/digits is public"):
        push(RunDir(Path("run")), NAME, private=True)
    assert len(hub.repositories["me/digits"].commits) == before


@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "the hub rejected the token"), (403, "permission denied"), (500, "returned HTTP status 500")],
)
def test_an_upload_that_the_hub_refuses_is_one_message(hub, status, word):
    hub.failing = status
    with pytest.raises(NmtError, match=word) as caught:
        push(RunDir(Path("run")), NAME)
    assert TOKEN not in str(caught.value)


def test_weights_that_the_hub_refuses_are_one_message_and_no_commit(hub):
    hub.refuses_weights = True
    with pytest.raises(NmtError, match="cannot upload hf:me/digits: permission denied"):
        push(RunDir(Path("run")), NAME)
    assert list(files_of(hub)) == [".gitattributes"]


def test_without_a_token_nothing_is_sent(hub, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(NmtError, match="uploading to the hub needs a token"):
        push(RunDir(Path("run")), NAME)
    assert hub.requests == []


def test_without_huggingface_hub_there_is_one_message(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(NmtError, match="which is not installed") as caught:
        fetch("hf:me/digits")
    assert caught.value.hint == 'in the checkout of nmt: pip install ".[hub]"'


@pytest.mark.parametrize("name", ["hf:digits", "hf:me/../x", "hf:me/x/y", "hf:/etc/passwd", "hf:me/x@../y", "hf:"])
def test_what_is_no_name_is_refused_before_the_hub_is_asked(name):
    with pytest.raises(NmtError, match="is not a valid model name on the hub"):
        fetch(name)


def upload(hub: Hub, change: dict[str, bytes]) -> None:
    """A model from a stranger: that of the run, with other files."""
    push(RunDir(Path("run")), NAME)
    hub.repositories["me/digits"].commit({**files_of(hub), **change})


def test_other_files_of_a_model_are_not_downloaded(hub):
    upload(hub, {"boom.py": b"boom", "checkpoints/best.pt": b"boom", "state/training.safetensors": b"x"})
    found = find_run("hf:me/digits")
    assert not [path for path in Path("cache").rglob("*") if b"boom" in path.name.encode()]
    assert not (found.path / "state").exists()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"packed.json": b'{"format": 9}'}, "cannot read its packed.json"),
        ({"checkpoints/index.json": b'{"best": "../../x"}'}, "not the name of a checkpoint"),
        ({f"checkpoints/c{n}.safetensors": b"" for n in range(20)}, "at most 16 files"),
    ],
)
def test_a_hostile_model_on_the_hub_is_refused(hub, change, word):
    upload(hub, change)
    with pytest.raises(RunError, match=word):
        find_run("hf:me/digits").config()


def test_a_model_of_another_toolkit_is_refused_with_the_way_to_import_it(hub):
    hub.repositories["opus/x"] = Repository()
    hub.repositories["opus/x"].commit({"config.json": b"{}", "source.spm": b"", "README.md": b""})
    with pytest.raises(RunError, match=r"it has no packed\.json") as caught:
        find_run("hf:opus/x")
    assert "nmt import hf" in caught.value.hint


def test_a_revision_that_is_not_there_is_one_message(hub):
    push(RunDir(Path("run")), NAME)
    with pytest.raises(NmtError, match="cannot download hf:me/digits@v2: this model has no such revision"):
        find_run("hf:me/digits@v2")
