"""A server with OpenAI's chat completions on this machine. Its model writes words backwards, and may misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.words import WORDS

KEY = "secret-key-of-the-teacher"


def backwards(text: str) -> str:
    return " ".join(word[::-1] for word in text.removesuffix(".").split()) + "."


class Chat(ThreadingHTTPServer):
    """The server, with what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = ["backwards"]
        self.key = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked: Counter[str] = Counter()  # texts
        self.faults: dict[str, list[str]] = {}  # of the next replies to a text, by name; the last one stays if it is *
        self.unknown_parameters: set[str] = set()
        self.location = ""  # to redirect to

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, text: str) -> str:
        faults = self.faults.get(text, [])
        if not faults:
            return ""
        return faults[0].removesuffix("*") if faults[0].endswith("*") else faults.pop(0)


@contextmanager
def running_chat() -> Iterator[Chat]:
    with Chat() as chat:
        thread = threading.Thread(target=chat.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield chat
        finally:
            chat.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Chat

    def do_GET(self) -> None:
        if self._may("/v1/models"):
            self._reply(200, {"data": [{"id": name} for name in self.server.models]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._may("/v1/chat/completions"):
            return
        if body["model"] not in self.server.models:
            self._error(404, f"The model {body['model']} does not exist.")
            return
        if unknown := self.server.unknown_parameters.intersection(body):
            self._error(400, "Unsupported parameter", min(unknown))
            return
        text = body["messages"][-1]["content"]
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        self.server.asked[text] += 1
        self._answer(text, self.server.fault(text), body)

    def _may(self, path: str) -> bool:
        if self.server.location:
            self.send_response(302)
            self.send_header("Location", self.server.location)
            self.end_headers()
        elif self.path != path:
            self._error(404, "Not Found")
        elif self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self._error(401, f"Incorrect key provided: {self.headers['Authorization']}")
        else:
            return True
        return False

    def _answer(self, text: str, fault: str, body: dict[str, Any]) -> None:
        if fault.isdigit():
            self._error(int(fault), "overloaded")
        elif fault == "cut":
            self.close_connection = True
            self.connection.close()
        elif fault == "hang":
            number, end = self.server.asked[text], time.monotonic() + 60
            while self.server.asked[text] == number and time.monotonic() < end:  # until it is asked for again
                time.sleep(0.005)
        elif fault in ("json", "html", "form"):
            content = {"json": b'{"choices": [{"mess', "html": b"<html>", "form": b'{"choices": [{"text": "a"}]}'}
            self._send(200, content[fault])
        else:
            answer = {
                "refuse": "I'm sorry, but I can't assist with that request.",
                "copy": text,
                "explain": f"Here is the translation:\n\n{backwards(text)}",
                "preamble": f"Translation: {backwards(text)}",
                "empty": "",
                "script": "Это совсем другой язык, а не перевод.",
                "quote": f'"{backwards(text)}"',
                "think": f"<think>Hm,\nbackwards.</think>\n\n{backwards(text)}",
                "loop": "la " * 30,
                "long": f"{backwards(text)} {' '.join(WORDS)}",
            }.get(fault, backwards(text))
            message = {"role": "assistant", "content": None if fault == "null" else answer}
            reason = {"filter": "content_filter", "length": "length"}.get(fault, "stop")
            choice = {"message": message, "finish_reason": reason}
            self._reply(200, {"choices": [choice] * body.get("n", 1)})

    def _reply(self, status: int, content: object) -> None:
        self._send(status, json.dumps(content).encode())

    def _error(self, status: int, message: str, parameter: str | None = None) -> None:
        self._reply(status, {"error": {"message": message, "type": "error", "param": parameter}})

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status != 200:
            self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
