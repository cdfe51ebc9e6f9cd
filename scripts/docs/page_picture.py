"""Take a picture of the web page of `nmt serve` in a headless Chromium, after it has translated a text.

    python scripts/docs/page_picture.py RUN OUT.png --chromium PATH [--text TEXT] [--dark] [--phone]

Speaks Chromium's DevTools protocol itself (websocket-client), so no driver is needed.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0",
            "--remote-allow-origins=*", "--no-first-run", "--disable-dev-shm-usage")  # fmt: skip
TYPE = """
const box = document.getElementById("text"); box.value = %s; box.dispatchEvent(new Event("input", {bubbles: true}))
"""
SHOWN = "document.getElementById('output').innerText.trim().length"


class Tab:
    """A tab of a browser, driven by DevTools commands."""

    def __init__(self, url: str):
        import websocket

        self._socket = websocket.create_connection(url, timeout=60)
        self._numbers = itertools.count(1)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command; return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv())
            if answer.get("id") == number:
                return dict(answer["result"])

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Wait until a JavaScript expression is true; SystemExit after 30 seconds."""
        deadline = time.monotonic() + 30
        while not self.evaluate(script):
            if time.monotonic() > deadline:
                raise SystemExit(f"the page never reached: {script}")
            time.sleep(0.1)


@contextmanager
def server(run: str) -> Iterator[str]:
    """Serve `run` on a free port; give the address of its page."""
    command = [sys.executable, "-m", "nmt", "serve", "--model", run, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        for line in process.stderr or ():
            if found := re.search(r"http://\S+:\d+", line):
                yield found[0]
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def tab(chromium: str) -> Iterator[Tab]:
    """Start a browser; give its first tab."""
    profile = Path(tempfile.mkdtemp())
    command = [chromium, *SWITCHES, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        ports = profile / "DevToolsActivePort"
        while not (ports.is_file() and ports.read_text(encoding="utf-8").strip()):
            if process.poll() is not None:
                raise SystemExit("the browser did not start")
            time.sleep(0.1)
        port = ports.read_text(encoding="utf-8").split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [page for page in json.load(answer) if page["type"] == "page"]
        yield Tab(pages[0]["webSocketDebuggerUrl"])
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def main() -> None:
    """Serve, open, type, wait, take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("out", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    parser.add_argument("--text", default="Ein Mann fährt Fahrrad. Zwei Hunde spielen im Schnee.")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=560)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--phone", action="store_true", help="390 x 844 pixels, as on a phone")
    given = parser.parse_args()
    width, height = (390, 844) if given.phone else (given.width, given.height)
    with ExitStack() as stack:
        url = stack.enter_context(server(given.run))
        page = stack.enter_context(tab(given.chromium))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if given.dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2,
                  mobile=given.phone)  # fmt: skip
        page.call("Page.navigate", url=url)
        page.wait_for("document.querySelector('#source option') !== null")
        page.evaluate(TYPE % json.dumps(given.text))
        page.wait_for(SHOWN)
        time.sleep(0.5)
        picture = page.call("Page.captureScreenshot", format="png")["data"]
    given.out.write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    main()
