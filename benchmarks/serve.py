"""Measure `nmt serve` under load: 1 to 256 clients that request one sentence at a time, without pauses.

    .venv/bin/python benchmarks/serve.py --json OUT

Compares it with the same engine behind a plain handler that translates each request separately, and with the run
exported to CTranslate2 behind the same handler, or on request with LibreTranslate's own server. Prints requests per
second, latency and memory, and checks each answer against the bare engine; LibreTranslate changes some translations, so
its answers are checked against its first ones. --soak N sends N more requests to `nmt serve`, from 64 clients, and
prints its memory and the failed requests.

The clients share the machine with the server, so they take as little processor time as they can: one thread, bare
sockets, and answers that are parsed after the clock has stopped.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from environments import python_of
from harness import HERE, claim_machine, clean_environment, command_line, keep, make_parser, names, say, table
from translation import trained_run
from workload import prepare

from nmt import Translator
from nmt.artifacts.rundir import RunDir

SYSTEMS = ("nmt serve", "plain handler", "plain ctranslate2", "libretranslate")
CLIENTS = (1, 4, 16, 64, 256)
SOAK_CLIENTS = 64
ANSWER_SECONDS = 60.0  # without any answer, until the benchmark gives up
COLUMNS = {
    "system": "system", "clients": "clients", "per_second": "requests/s", "p50_ms": "p50 ms", "p95_ms": "p95 ms",
    "p99_ms": "p99 ms", "bare_ms": "bare ms", "to_bare": "p50 x bare", "memory_mb": "memory MB",
    "wrong": "wrong", "failed": "failed",
}  # fmt: skip

Row = dict[str, Any]


class Server:
    """A server process."""

    def __init__(self, command: Sequence[str | Path]):
        words = [str(word) for word in command]
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(words, env=clean_environment(), **pipes)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("serving at http://"):
                host, _, port = line.split()[2].removeprefix("http://").rstrip(";").rpartition(":")
                self.address = host, int(port)
                threading.Thread(target=self.process.stderr.read, daemon=True).start()  # a full pipe would stop it
                return
        raise SystemExit(f"{words}: ended before it served")

    def memory_mb(self) -> float:
        """Return the resident memory."""
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, text=True)
        return int(shown.stdout) / 1000

    def stop(self) -> None:
        """Stop it like a service manager."""
        self.process.terminate()
        self.process.wait(timeout=60)


@contextmanager
def serving(command: Sequence[str | Path]) -> Iterator[Server]:
    """Run a server for the block."""
    server = Server(command)
    try:
        yield server
    finally:
        server.stop()


class Client:
    """A connection that sends a request and receives the answer, again and again."""

    def __init__(self, address: tuple[str, int]):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 0  # of the request
        self.begun = 0.0
        self._received = b""

    def send(self, number: int, request: bytes) -> None:
        """Send request `number`."""
        self.number = number
        self.begun = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Return the body of the answer once it is complete, before that None. OSError if the connection is closed."""
        if not (data := self.socket.recv(65_536)):
            raise ConnectionError
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return None
        self._received = b""
        return body


class Load:
    """Clients that request one sentence at a time, each over its own connection, without pauses."""

    def __init__(self, server: Server, sentences: Sequence[str], expected: Sequence[str], languages: tuple[str, str]):
        self.address = server.address
        self.expected = dict(enumerate(expected))
        self.requests = [self._request(sentence, *languages) for sentence in sentences]
        self.latencies: list[float] = []
        self.num_wrong = self.num_failed = self.num_sent = 0

    def _request(self, sentence: str, source: str, target: str) -> bytes:
        body = json.dumps({"q": sentence, "source": source, "target": target}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        return head.encode() + b"\r\n\r\n" + body

    def run(self, num_clients: int, more: Callable[[], bool]) -> float:
        """Return the seconds that all clients took; each continues while `more` returns True."""
        started = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            for _ in range(num_clients):
                self._connect(selector, more)
            while selector.get_map():
                if not (ready := selector.select(ANSWER_SECONDS)):
                    raise SystemExit(f"no answer within {ANSWER_SECONDS:g} seconds")
                for key, _ in ready:
                    self._receive(key.data, selector, more)
        return time.perf_counter() - started

    def _connect(self, selector: selectors.BaseSelector, more: Callable[[], bool]) -> None:
        client = Client(self.address)
        selector.register(client.socket, selectors.EVENT_READ, client)
        self._send(client, selector, more)

    def _send(self, client: Client, selector: selectors.BaseSelector, more: Callable[[], bool]) -> None:
        """Send the next request, or end the client."""
        if more():
            number = self.num_sent % len(self.requests)
            self.num_sent += 1
            client.send(number, self.requests[number])
        else:
            selector.unregister(client.socket)
            client.socket.close()

    def _receive(self, client: Client, selector: selectors.BaseSelector, more: Callable[[], bool]) -> None:
        """Receive a part of an answer; send the next request after the whole answer. A lost one has failed."""
        try:
            if (body := client.receive()) is not None:
                self._count(client, body)
                self._send(client, selector, more)
        except OSError:
            self.num_failed += 1
            selector.unregister(client.socket)
            client.socket.close()
            self._connect(selector, more)

    def _count(self, client: Client, body: bytes) -> None:
        self.latencies.append(time.perf_counter() - client.begun)
        text = json.loads(body).get("translatedText")
        self.num_failed += text is None
        self.num_wrong += text is not None and text != self.expected.setdefault(client.number, text)


def main() -> None:
    """Measure, print the table, save the JSON."""
    options = read_options()
    threads, facts = claim_machine(options.threads)
    run = (
        RunDir(options.run.resolve())
        if options.run
        else trained_run(prepare(options.cache / "work", options.quick), options.train_updates)
    )
    sentences = [source for source in run.read_pairs("test")[0] if source.strip()][:1000]
    translator = Translator.load(run, device="cpu", scores=False)
    languages = translator.languages.src, translator.languages.tgt
    rows, soak = [], []
    for system in options.systems:
        command, expected = contender(system, run, options, sentences)
        for num_clients in options.clients:
            bare = bare_seconds(translator, sentences)  # each time, because a machine's speed changes
            with serving(command) as server:
                rows.append(
                    measure(system, Load(server, sentences, expected, languages), num_clients, options, bare, server)
                )
        if system == "nmt serve" and options.soak:
            with serving(command) as server:
                soak = soak_test(Load(server, sentences, expected, languages), options.soak, server)
    sys.stdout.write(table(rows, COLUMNS))
    if soak:
        sys.stdout.write(table(soak, {name: COLUMNS.get(name, name) for name in soak[0]}))
    asked = {
        "clients": options.clients,
        "seconds": options.seconds,
        "soak": options.soak,
        "model": run.config().model.model_dump(),
    }
    result = {
        "benchmark": "serve",
        "command": command_line(),
        "machine": facts,
        "threads": threads,
        "run": str(run.path),
    }
    keep(options.json, {**result, "config": asked, "rows": rows, "soak": soak})
    sys.exit(1 if any(row["failed"] or row["wrong"] for row in [*rows, *soak]) else 0)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = make_parser(__doc__, SYSTEMS)
    parser.add_argument("--run", type=Path, help="a trained run; default: train one and keep it in CACHE")
    parser.add_argument("--train-updates", type=int, help="updates of that training (600)")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in names(text)], help="1,4,16,64,256")
    parser.add_argument("--seconds", type=float, help="seconds of load for each number of clients (15)")
    parser.add_argument("--soak", type=int, default=0, help="additional requests, to see if memory grows")
    options = parser.parse_args()
    options.systems = options.systems or ["nmt serve", "plain handler"]
    options.clients = options.clients or ([1, 8] if options.quick else list(CLIENTS))
    options.envs = options.envs or options.cache / "envs"
    options.seconds = options.seconds or (1.0 if options.quick else 15.0)
    options.train_updates = options.train_updates or (20 if options.quick else 600)
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    return options


def bare_seconds(translator: Translator, sentences: Sequence[str]) -> float:
    """Return the median time of a sentence without a server."""
    translator.translate(sentences[:8])
    seconds = []
    for sentence in sentences:
        begun = time.perf_counter()
        translator.translate([sentence])
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def contender(
    system: str, run: RunDir, options: argparse.Namespace, sentences: Sequence[str]
) -> tuple[list[str | Path], list[str]]:
    """Return the command of a server, and its engine's translation of each sentence (of other engines: unknown)."""
    if system == "libretranslate":
        return libretranslate_server(run, options.cache, options.envs), []
    plain: list[str | Path] = [sys.executable, HERE / "peers" / "plain_server.py"]
    if system == "plain ctranslate2":
        from nmt.apps.interop.export import export_ctranslate2

        export = options.cache / "serve-export"
        export_ctranslate2(run, export, quantization="int8", overwrite=True)
        return [*plain, export], []
    command = [*plain, run.path]
    if system == "nmt serve":
        command = [sys.executable, "-m", "nmt", "serve", "--device", "cpu", "--port", "0", "--model", run.path]
    translator = Translator.load(run, device="cpu", scores=False)
    return command, [translation.text for translation in translator.translate(sentences)]


def libretranslate_server(run: RunDir, cache: Path, environments: Path) -> list[str | Path]:
    """Return the command that serves `run` as a package of Argos Translate."""
    from nmt.apps.interop.argos import export_argos

    package = cache.resolve() / "serve.argosmodel"
    package.unlink(missing_ok=True)
    export_argos(run, package)
    python = python_of("libretranslate", environments)
    return [python, HERE / "peers" / "libretranslate_server.py", package]


def measure(system: str, load: Load, num_clients: int, options: argparse.Namespace, bare: float, server: Server) -> Row:
    """Measure one system with a number of clients, after one second of warm-up."""
    warm = time.perf_counter() + min(1.0, options.seconds)
    load.run(num_clients, lambda: time.perf_counter() < warm)
    load.latencies.clear()
    end = time.perf_counter() + options.seconds
    seconds = load.run(num_clients, lambda: time.perf_counter() < end)
    ordered = sorted(load.latencies)
    shares = {
        name: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    row = {
        "system": system,
        "clients": num_clients,
        "per_second": round(len(ordered) / seconds, 1),
        **{f"{name}_ms": round(1000 * value, 2) for name, value in shares.items()},
        "bare_ms": round(1000 * bare, 2),
        "to_bare": round(shares["p50"] / bare, 2),
        "memory_mb": round(server.memory_mb()),
        "wrong": load.num_wrong,
        "failed": load.num_failed,
    }
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def soak_test(load: Load, num_requests: int, server: Server) -> list[Row]:
    """Return a row before, after each tenth of, and after all of `num_requests`: memory, and requests lost so far."""
    rows = []
    for tenth in range(11):
        limit = tenth * num_requests // 10
        if limit:
            load.run(SOAK_CLIENTS, lambda limit=limit: load.num_sent < limit)  # type: ignore[misc]
        load.latencies.clear()
        rows.append({
            "requests": load.num_sent, "failed": load.num_failed, "wrong": load.num_wrong,
            "memory_mb": round(server.memory_mb()),
        })  # fmt: skip
        say("  ".join(f"{name}={value}" for name, value in rows[-1].items()))
    return rows


if __name__ == "__main__":
    main()
