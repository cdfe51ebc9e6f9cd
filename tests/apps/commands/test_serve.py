"""`nmt serve` as a process: its start, its errors, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.commands import serve
from nmt.apps.server.run import bind, listen
from nmt.apps.server.settings import Settings
from nmt.base.errors import NmtError
from tests.command_line import nmt

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
ROOT = Path(__file__).parents[3]


class Server:
    """`nmt serve` in a process of its own."""

    def __init__(self, *arguments: object, port: int = 0, hangs_up: bool = False):
        """Start it, and wait until it serves; if it `hangs_up`, send SIGHUP before, and wait until that was obeyed."""
        command = [sys.executable, "-m", "nmt", "serve", "--port", port, "--device", "cpu", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if hangs_up and line.startswith("model: "):  # it does not serve yet
                self.process.send_signal(signal.SIGHUP)
            if line.startswith("serving at "):
                self.url = line.removeprefix("serving at ").partition(";")[0]
            if line.startswith("reloaded: " if hangs_up else "serving at "):
                break

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _, rest = self.process.communicate(timeout=600)
        return self.process.returncode, rest


def test_sighup_while_the_server_starts_ends_nothing_and_is_obeyed_once_it_runs(hung_up):
    lines = [line.partition(":")[0].partition(" at ")[0] for line in hung_up.lines]
    assert lines == ["model", "serving", "reloaded"]


@pytest.fixture(scope="module")
def hung_up(two_run) -> Iterator[Server]:
    """A server that SIGHUP reached while it started; one test stops it."""
    server = Server("--model", two_run, hangs_up=True)
    yield server
    if server.process.poll() is None:
        server.stop()
    if server.process.stderr is not None:
        server.process.stderr.close()


def accepts_connections(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionError:
        return False
    return True


def test_sigterm_finishes_the_request_that_runs_and_then_stops(hung_up):
    server = hung_up
    assert server.lines[0].startswith("model: two")
    assert server.url.startswith("http://127.0.0.1:")
    host, port = server.url.removeprefix("http://").split(":")
    body = b'{"q":"' + b"12345\\n" * 200 + b'","source":"en","target":"de"}'
    head = (
        "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100")  # the server waits for the body
        connection.sendall(body[:-9])
        server.process.send_signal(signal.SIGTERM)
        while accepts_connections(host, int(port)):
            time.sleep(0.01)
        connection.sendall(body[-9:])
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"\\n") == 200
    assert server.wait() == (0, "stopped\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds an address twice before one of them listens")
def test_of_two_servers_started_at_once_one_says_that_the_port_is_taken():
    with bind(Settings(port=0)) as first:
        settings = Settings(port=first.getsockname()[1])
        with bind(settings) as second:
            listen(first, settings)
            with pytest.raises(NmtError, match=rf"cannot listen at 127.0.0.1 port {settings.port} \(Address already"):
                listen(second, settings)


def test_what_keeps_the_server_from_starting_is_one_message(two_run, tmp_path, monkeypatch):
    def nmt(*arguments: object) -> BaseException | None:
        return CliRunner().invoke(app, ["serve", "--model", str(two_run), *map(str, arguments)]).exception

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(nmt("--port", port)).startswith(f"cannot listen at 127.0.0.1 port {port} (Address already in use)")
    assert "no such run" in str(nmt("--port", 0, "--model", tmp_path / "none"))
    assert "cannot be read" in str(nmt("--api-keys", tmp_path / "none"))
    (tmp_path / "keys").write_text("a-key-of-ann\tnone.tmx\n")
    for arguments in (["--tm", "none.tmx"], ["--api-keys", tmp_path / "keys"]):
        assert "none.tmx: no such file" in str(nmt("--port", 0, *arguments))
    monkeypatch.setitem(sys.modules, "httptools", None)
    assert str(nmt()) == (
        "nmt serve needs the package httptools, which is not installed\n"
        '  in the checkout of nmt: pip install ".[serve]"'
    )


def test_a_check_says_whether_all_can_be_served_and_sighup_loads_it_anew(two_run, tmp_path):
    keys, access = tmp_path / "keys", tmp_path / "access.json"
    keys.write_text("first-key # Ann\n")
    options = ["--api-keys", keys, "--access-log", access]
    command = ["serve", "--model", two_run, "--check", *options]
    done = nmt(*command)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "all of this can be served, with 1 key")
    server = Server("--model", two_run, *options)
    with httpx.Client(base_url=server.url) as client:

        def status_of(key: str) -> int:
            body = {"q": "12", "source": "en", "target": "de", "api_key": key}
            return client.post("/translate", json=body).status_code

        def hang_up(content: str, *messages: str) -> None:
            keys.write_text(content)
            server.process.send_signal(signal.SIGHUP)
            assert server.process.stderr is not None
            for message in messages:
                assert message in server.process.stderr.readline()

        assert (status_of("first-key"), status_of("second-key")) == (200, 403)
        hang_up("second-key\n", "revoked: Ann", "reloaded: two")
        assert (status_of("first-key"), status_of("second-key")) == (403, 200)
        hang_up("short\n", "not reloaded, and what was not revoked stays as it was: ")
        assert (status_of("first-key"), status_of("second-key")) == (403, 200)
    assert server.stop()[0] == 0
    assert len(access.read_text().splitlines()) == 6
    keys.write_text("short\n")
    done = nmt(*command)
    assert (done.returncode, "a key needs at least 8 characters" in done.stderr) == (1, True)


@pytest.mark.parametrize("origin", ["a\r\nX: y", "https://a.org\r\nX: y", "https://a.org/", "a.org", "https://a b"])
def test_an_origin_that_no_browser_sends_is_refused(origin):
    done = CliRunner().invoke(app, ["serve", "--model", "none", "--allow-origin", origin])
    assert done.exit_code == 2
    assert "is not an origin, such as https://example.org" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("origin", ["", "*", "null", "https://example.org", "http://[::1]:8080", "moz-extension://1-2"])
def test_an_origin_may_be_of_any_scheme(origin):
    assert serve._origin(origin) == origin


@pytest.mark.slow
def test_clients_that_retry_lose_nothing_when_the_server_is_killed_and_started_again(two_run):
    import threading

    from nmt import Translator

    texts = [f"{n * 7919 % 100_000}" for n in range(1, 400)]
    alone = [t.text for t in Translator.load(two_run, device="cpu").translate(texts, to="de")]
    server = Server("--model", two_run)
    port = server.port
    found: dict[int, str] = {}
    todo = list(range(len(texts)))
    num_failures = 0

    def ask() -> None:
        nonlocal num_failures
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            while todo:
                try:
                    i = todo.pop()
                except IndexError:
                    return
                while True:
                    try:
                        answer = client.post("/translate", json={"q": texts[i], "source": "en", "target": "de"})
                        answer.raise_for_status()
                        found[i] = answer.json()["translatedText"]
                        break
                    except httpx.HTTPError:
                        num_failures += 1
                        time.sleep(0.05)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for share in (3, 2):
        while len(found) < len(texts) // share:
            time.sleep(0.01)
        server.stop(signal.SIGKILL)
        server = Server("--model", two_run, port=port)
    for thread in threads:
        thread.join()
    assert num_failures > 0
    assert [found[i] for i in range(len(texts))] == alone
    assert server.stop()[0] == 0
