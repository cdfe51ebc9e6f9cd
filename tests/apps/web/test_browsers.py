"""An exported page in real browsers, which report to the server that gives them the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from nmt import Translator
from nmt.apps.web.export import export_web
from nmt.artifacts.rundir import RunDir
from tests.stored import MODELS

pytestmark = pytest.mark.slow

PROBE = Path(__file__).with_name("probe.js")
LINES = ["12 345", "See https://example.org/12 and 45", "1 2. 3 4.", "", "55 55 55\n\n12", *map(str, range(1000, 1200))]
SWITCHES = {
    "chromium": ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"],
    "firefox": ["--headless", "--no-remote"],
}
NAMES = {"chromium": ("chromium", "google-chrome", "chromium-browser"), "firefox": ("firefox",)}


class Site(ThreadingHTTPServer):
    """A folder on a plain server, below a path of its own; it is away while `is_away`, and collects what is sent."""

    daemon_threads = True

    def __init__(self, folder: Path):
        self.is_away = False
        self.reports: Queue[dict[str, Any]] = Queue()
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))


class _Handler(SimpleHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        if self.server.is_away:
            self.close_connection = True  # no answer at all
        else:
            super().do_GET()

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.is_away = sent.pop("leave", self.server.is_away)
        if sent:
            self.server.reports.put(sent)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    pytest.importorskip("ziglang", reason="needs the extra web, a compiler")
    folder = tmp_path_factory.mktemp("site")
    export_web(RunDir(MODELS / "digits"), folder / "page")
    shutil.copy(PROBE, folder / "page" / "probe.js")
    (folder / "page" / "lines.json").write_text(json.dumps(LINES), "utf-8")
    (folder / "page" / "probe.html").write_text('<script type="module" src="probe.js"></script>')
    with Site(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def browser(name: str, url: str, profile: Path) -> Iterator[None]:
    """Open `url` in a browser without a window; skip where there is none."""
    program = next(filter(None, map(shutil.which, NAMES[name])), None)
    if program is None:
        pytest.skip(f"{name} is not installed")
    profile.mkdir()
    place = [f"--user-data-dir={profile}"] if name == "chromium" else ["--profile", str(profile)]
    environment = {**os.environ, "HOME": str(profile)}
    process = subprocess.Popen(
        [program, *SWITCHES[name], *place, url], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_translates_as_the_command_does_also_without_a_connection(name, site, tmp_path):
    site.is_away = False
    with browser(name, f"http://127.0.0.1:{site.server_port}/page/probe.html", tmp_path / "profile"):
        try:
            found = site.reports.get(timeout=120)
        except Empty:
            pytest.fail(f"{name} did not report within two minutes")
    assert "error" not in found
    with Translator.load(MODELS / "digits", engine="native", precision="int8") as translator:
        expected = [each.text for each in translator.translate([*LINES, "7 8 9"])]
    assert found["texts"] == found["others"] == expected[:-1]  # of two at once
    assert found["typed"] == found["offline"] == expected[-1]
    assert found["away"], "the server answered although it was away"
    assert found["blocked"] == []
