"""How a server stops: what was sent is answered, and what takes too long is told so."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

BODY = json.dumps({"q": "12345", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    BODY
)


def connect(server) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=120)


def answer_on(connection: socket.socket) -> tuple[int, dict]:
    """Return the status and the body of the last answer on a connection that the server closes."""
    content = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = content.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
    return int(head[:3]), json.loads(body)


def test_requests_that_were_sent_before_the_server_stops_are_answered(two_run, start):
    server = start([two_run])
    kept = [connect(server) for _ in range(20)]
    for connection in kept:  # each has had an answer, and is idle
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += connection.recv(4096)
    is_blocked, go = threading.Event(), threading.Event()

    def block() -> None:
        is_blocked.set()
        go.wait(60)

    server.loop.call_soon_threadsafe(block)
    assert is_blocked.wait(60)  # so the server has neither accepted nor read what follows
    new = [connect(server) for _ in range(20)]
    for connection in (*kept, *new):
        connection.sendall(HEAD + BODY)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    time.sleep(0.15)  # so that the server stops in its first turn
    go.set()
    answers = [answer_on(connection) for connection in (*kept, *new)]
    stopping.join()
    for connection in (*kept, *new):
        connection.close()
    assert [status for status, _ in answers] == [200] * 40
    assert len({answer["translatedText"] for _, answer in answers}) == 1


def test_at_the_end_of_the_grace_period_requests_get_503_in_the_format_of_their_interface(two_run, start, caplog):
    server = start([two_run], grace_seconds=0.2)
    batcher = server.models.served[0].batcher
    begun, go, translate = threading.Event(), threading.Event(), batcher.translate

    def wait(segments):
        begun.set()
        assert go.wait(60)
        return translate(segments)

    batcher.translate = wait
    chat = {"model": "en-de", "messages": [{"role": "user", "content": "12"}]}
    paths = {"/translate": {"q": "12", "source": "en", "target": "de"}, "/v1/chat/completions": chat}
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(httpx.post, server.url + path, json=body, timeout=120) for path, body in paths.items()]
        assert begun.wait(60)
        deadline = time.monotonic() + 60
        while server.num_running < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        own, openai = (answer.result() for answer in asked)
    go.set()
    stopping.join()
    assert (own.status_code, own.json()) == (503, {"error": "the server is stopping"})
    assert (openai.status_code, openai.json()["error"]["message"]) == (503, "the server is stopping")
    assert not [record for record in caplog.records if record.exc_info]
