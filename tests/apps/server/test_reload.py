"""SIGHUP: keys, models and memories are loaded anew, if they can be used, and no request is lost. The access log."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt.apps.server.access import read_keys
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.models import Models
from tests.apps.server.test_corrections import add, pairs

ASKED = {"q": "12", "source": "en", "target": "de"}


def reload(server, models, keys=None):
    """As on SIGHUP."""

    def read():
        return read_keys(keys) if keys else {}

    def load():
        return Models([str(path) for path in models], server.settings, server.metrics)

    asyncio.run_coroutine_threadsafe(server.app.state.reload(read, load), server.loop).result()


def test_keys_and_models_are_loaded_anew_and_requests_that_run_are_answered(
    two_run, letters_run, start, tmp_path, monkeypatch
):
    keys = tmp_path / "keys"
    keys.write_text("first-key\n")
    server = start([two_run], keys=keys)
    old = weakref.ref(server.models)
    batcher = server.models.served[0].batcher
    translate, begun, go = batcher.translate, threading.Event(), threading.Event()

    def wait(segments):
        begun.set()
        assert go.wait(60)
        return translate(segments)

    batcher.translate = wait
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(server.translate, **ASKED, api_key="first-key")
        assert begun.wait(60)
        keys.write_text("second-key\n")
        reload(server, [letters_run], keys)
        assert server.translate(**ASKED, api_key="first-key").json() == {"error": "unknown API key"}
        assert (
            server.translate(**ASKED, api_key="second-key")
            .json()["error"]
            .startswith("target or target_lang: German (de) is not")
        )
        assert server.translate(q="12", source="de", target="en", api_key="second-key").status_code == 200
        assert [each["code"] for each in server.client.get("/languages").json()] == ["de", "en"]
        names = server.client.get("/v1/models", headers={"Authorization": "Bearer second-key"}).json()["data"]
        assert [each["id"] for each in names] == [letters_run.name, "de-en"]
        go.set()
        assert running.result().status_code == 200
    server.models = batcher = translate = None
    gc.collect()
    assert old() is None  # its memory is free


def lines_of(path, count: int) -> list[str]:
    """Return the lines of a log, once there are `count`: a request may be answered before its line is written."""
    deadline = time.monotonic() + 120
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text().splitlines()


@pytest.mark.parametrize("broken", ["keys", "model", "memory"])
def test_what_cannot_be_used_changes_nothing(two_run, start, tmp_path, broken, caplog):
    keys, run = tmp_path / "keys", tmp_path / "run"
    memory = Corrections(tmp_path / "memory.tmx")
    add(memory, ("en", "de"), ("777", "known"))
    keys.write_text(f"first-key\t{tmp_path / 'memory.tmx'}\n")
    shutil.copytree(two_run, run)
    server = start([run], keys=keys)
    before = server.translate(q=["12", "777"], source="en", target="de", api_key="first-key").json()
    if broken == "keys":
        keys.write_text("short\n")
    elif broken == "model":
        (run / "config.yaml").write_text("broken: [")
    else:
        (tmp_path / "memory.tmx").write_text("<tmx><body>")
    with caplog.at_level("ERROR"):
        reload(server, [run], keys)
    assert "not reloaded, and what was not revoked stays as it was" in caplog.text
    assert server.translate(q=["12", "777"], source="en", target="de", api_key="first-key").json() == before


@pytest.mark.parametrize("broken", ["model", "memory"])
def test_a_revoked_key_is_refused_though_something_else_cannot_be_used(two_run, start, tmp_path, broken, caplog):
    keys, run = tmp_path / "keys", tmp_path / "run"
    keys.write_text("first-key\nsecond-key # Ann\n")
    shutil.copytree(two_run, run)
    server = start([run], keys=keys)
    if broken == "model":
        (run / "config.yaml").write_text("broken: [")
    keys.write_text("first-key\nthird-key\n" + (f"other-key\t{tmp_path / 'none.tmx'}\n" if broken == "memory" else ""))
    with caplog.at_level("INFO"):
        reload(server, [run], keys)
    assert "revoked: Ann" in caplog.text
    assert "not reloaded" in caplog.text
    assert "second-key" not in caplog.text
    statuses = [
        server.translate(**ASKED, api_key=f"{name}-key").status_code for name in ("first", "second", "third", "other")
    ]
    assert statuses == [200, 403, 403, 403]


def test_a_key_that_is_revoked_while_models_are_loaded_is_refused_at_once_and_stays_so(two_run, start, tmp_path):
    keys, go = tmp_path / "keys", threading.Event()
    keys.write_text("first-key # 1\nsecond-key # 2\n")
    server = start([two_run], keys=keys)
    keys.write_text("first-key # 1\nsecond-key # 2\nthird-key # 3\n")
    every = read_keys(keys)

    def load():
        assert go.wait(60)
        return Models([str(two_run)], server.settings, server.metrics)

    def begin(names):
        found = {hashed: key for hashed, key in every.items() if key.name in names}
        return asyncio.run_coroutine_threadsafe(server.app.state.reload(lambda: found, load), server.loop)

    def statuses():
        answers = [server.translate(**ASKED, api_key=f"{name}-key") for name in ("first", "second", "third")]
        return [answer.status_code for answer in answers]

    slow, waiting = begin("123"), begin("13")
    deadline = time.monotonic() + 60
    while statuses() != [200, 403, 403]:
        assert time.monotonic() < deadline
    go.set()
    slow.result()
    assert statuses() == [200, 403, 200]
    waiting.result()
    assert statuses() == [200, 403, 200]


def test_corrections_that_were_moved_away_are_forgotten_and_new_ones_are_kept(two_run, start, tmp_path):
    pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
    path = tmp_path / "corrections.tmx"
    server = start([two_run], corrections=path)
    plain = server.translate(**ASKED).json()
    server.client.post("/suggest", json=ASKED | {"s": "zwölf"})
    path.rename(tmp_path / "learned.tmx")
    reload(server, [two_run])
    assert server.translate(**ASKED).json() == plain
    server.client.post("/suggest", json=ASKED | {"s": "ein Dutzend"})
    assert server.translate(**ASKED).json()["translatedText"] == "ein Dutzend"
    assert pairs(path) == [("12", "ein Dutzend")]


def test_a_server_whose_keys_are_all_revoked_is_open_to_nobody(two_run, start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first-key\n")
    server = start([two_run], keys=keys)
    keys.write_text("second-key\n")
    reload(server, [tmp_path / "none"], keys)
    answers = [server.translate(**ASKED, **key) for key in ({}, {"api_key": "first-key"}, {"api_key": "second-key"})]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    reload(server, [two_run], keys)
    assert server.translate(**ASKED, api_key="second-key").status_code == 200


def test_the_access_log_has_sizes_and_names_but_no_texts_and_no_keys(two_run, start, tmp_path):
    keys, path = tmp_path / "keys", tmp_path / "access.json"
    keys.write_text("secret-key-1 # Ann\nsecret-key-2\n")
    server = start([two_run], keys=keys, access_log=path)
    for key in ("secret-key-1", "secret-key-2", "wrong-key"):
        server.client.post("/translate", params={**ASKED, "q": "4711", "api_key": key})
    body = {"q": "4711", "source": "en", "target": "de", "api_key": "secret-key-1"}
    sent = server.client.post("/translate", json=body)
    server.client.get("/none/4711?q=4711")
    server.client.post("/v2/document/4711", json={"document_key": "4711"})
    first, second, third, fourth, fifth, sixth = map(json.loads, lines_of(path, 6))
    path.rename(tmp_path / "old.json")  # as logrotate does
    server.client.get("/health")
    assert (first["key"], first["route"], first["status"]) == ("Ann", "/translate", 200)
    assert (len(second["key"]), second["status"], third["key"], third["status"]) == (8, 200, "", 403)
    assert (fourth["request_bytes"], fourth["response_bytes"]) == (len(sent.request.content), len(sent.content))
    assert (fifth["route"], fifth["status"]) == ("other", 404)
    assert sixth["route"] == "/v2/document/{id}"
    assert set(first) == {"time", "key", "route", "status", "request_bytes", "response_bytes", "ms"}
    assert not [part for part in ("4711", "secret") if part in (tmp_path / "old.json").read_text()]
    assert json.loads(*lines_of(path, 1))["route"] == "/health"
