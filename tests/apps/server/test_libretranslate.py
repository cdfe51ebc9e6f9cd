"""LibreTranslate's interface: what its clients send, what they get."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt import Translator
from nmt.apps.server import batcher, routes, run, service
from nmt.decoding.engines import native_engine
from nmt.translation import Translation
from nmt.translation.request import Request
from tests.translation.test_confidence import calibrate

LINES = "12345\n\n  67 \n" + "4321 " * 20 + "\n9"


@pytest.fixture(scope="module")
def two(two_run):
    return Translator.load(two_run, device="cpu", precision="fp32")


def lines_of(answer) -> list[dict]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_libretranslatepy_translates_detects_and_lists_languages(running, two):
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="needs libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(running.url)
    assert client.translate("12345", "en", "de") == two.translate(["12345"], to="de")[0].text
    assert client.detect("12345")[0]["language"] in ("en", "de")
    assert {language["code"]: language["targets"] for language in client.languages()} == {
        "en": ["de", "fr"],
        "de": ["en", "fr"],  # through English
        "fr": [],
    }


TEXTS = [
    "123", LINES, " \n ", "\u3000 7 \r\n 8", "<2fr> 12", "😀 5", " 12\n\n 34 \r\n56 ", "7" * 100, "1 {x} 2\n3 {y}",
    "12345. 6789! 24680? 13579. 86420! 97531.", "{a}{b}{c}{d}{e}{f}{g}{h}{i} 12", "http://a.org/x\n45",
    "12 \ufffd 3\n4", "1. " * 60,
]  # fmt: skip


@pytest.mark.parametrize(("run", "src", "tgt"), [("two_run", "en", "de"), ("letters_run", "de", "en")])
def test_texts_get_the_translations_that_the_translator_gives_them(running, request, run, src, tgt):
    translator = Translator.load(request.getfixturevalue(run), device="cpu", precision="fp32")
    whole = [translation.text for translation in translator.translate(TEXTS, to=tgt)]
    assert running.translate(q=TEXTS, source=src, target=tgt).json()["translatedText"] == whole
    alone = [running.translate(q=text, source=src, target=tgt).json()["translatedText"] for text in TEXTS]
    assert alone == whole
    options = translator.options.changed(beam_size=3, num_hypotheses=3)
    n_best = translator.translate(TEXTS, options, to=tgt)
    answer = running.translate(q=TEXTS, source=src, target=tgt, alternatives=2).json()
    assert answer["translatedText"] == [best.text for best in n_best]
    assert answer["alternatives"] == [[other.text for other in best.alternatives] for best in n_best]


def test_many_clients_at_once_get_what_the_translator_gives_each_alone(running, two):
    texts = [f"{n}{n * 7919}"[:7] for n in range(1, 65)]
    alone = [two.translate([text], to="fr")[0].text for text in texts]
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda text: running.translate(q=text, source="en", target="fr"), texts))
    assert [answer.json()["translatedText"] for answer in answers] == alone
    assert running.translate(q=texts, source="en", target="fr").json()["translatedText"] == alone


def test_one_client_after_another_gets_what_the_translator_gives(running, two):
    name = running.models.served[0].name
    num_batches = running.metric("nmt_batch_segments_count", model=name)
    texts = [f"{number} {number * 7}" for number in range(32)]
    answers = [running.translate(q=text, source="en", target="de") for text in texts]
    found = [answer.json()["translatedText"] for answer in answers]
    assert found == [translation.text for translation in two.translate(texts, to="de")]
    assert running.metric("nmt_batch_segments_count", model=name) == num_batches + len(texts)


def test_alternatives_are_the_rest_of_the_n_best_list(running, two):
    options = two.options.changed(beam_size=3, num_hypotheses=3)
    (best,) = two.translate([LINES], options, to="de")
    answer = running.translate(q=LINES, source="en", target="de", alternatives=2).json()
    assert answer == {"translatedText": best.text, "alternatives": [other.text for other in best.alternatives]}
    batch = running.translate(q=["12", "34"], source="en", target="de", alternatives=1).json()
    assert [len(others) for others in batch["alternatives"]] == [1, 1]


def test_a_batch_with_detected_languages_is_answered_in_order(running):
    texts = ["12345", "this is english and nothing else, as anyone can read here", "345"]
    answer = running.translate(q=texts, source="auto", target="fr").json()
    assert len(answer["translatedText"]) == 3
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en"] * 3


def test_a_stream_joined_is_the_whole_translation(running, two):
    answer = running.translate(q=LINES, source="auto", target="fr", stream=True, details=True)
    first, *segments, last = lines_of(answer)
    assert first["detectedLanguage"]["language"] == "en"
    assert last == {"done": True}
    assert len(segments) > 3
    joined = "".join(segment["before"] + segment["text"] + segment["after"] for segment in segments)
    assert joined == two.translate([LINES], to="fr")[0].text


def test_regional_codes_find_the_model_of_their_language(running):
    plain = running.translate(q="123", source="en", target="de").json()
    assert running.translate(q="123", source="en-US", target="de_AT").json() == plain


def test_languages_that_no_model_joins_directly_are_joined_through_a_third_one(running, two):
    texts = ["12345", LINES, "", "12. 34."]
    english = running.translate(q=texts, source="de", target="en").json()["translatedText"]
    french = [translation.text for translation in two.translate(english, to="fr", from_="en")]
    answer = running.translate(q=[*texts, "7"], source="de", target="fr").json()
    assert answer["translatedText"][:-1] == french
    assert [flags.get("pivot") for flags in answer["flags"]] == [["en"], ["en"], None, ["en"], ["en"]]
    *segments, _ = lines_of(running.translate(q=LINES, source="de", target="fr", stream=True, details=True))
    assert "".join(each["before"] + each["text"] + each["after"] for each in segments) == french[1]
    assert not any("details" in segment for segment in segments)
    others = running.translate(q="12345", source="de", target="fr", alternatives=2).json()
    assert len(others["alternatives"]) == 2
    page = running.translate(q="<p>12 <b>34</b></p>", source="de", target="fr", format="html").json()
    assert page["translatedText"].count("<b>") == page["translatedText"].count("</b>") == 1


def test_a_glossary_holds_through_a_third_language(running):
    asked = {"q": ["12 34. 12", "5"], "source": "de", "target": "fr"}
    for form in ("text", "html"):
        answer = running.translate(**asked, glossary={"12": "xyz", "absent": "y"}, format=form).json()
        assert answer["translatedText"][0].lower().count("xyz") == 2
        assert answer["terms_missed"] == [[], []]
    too_long = "x" * 60  # more tokens than a translation has
    answer = running.translate(**asked, glossary={"12": too_long}).json()
    assert answer["terms_missed"] == [[["12", too_long]], []]


def test_the_expected_quality_of_the_second_model_is_not_that_of_both(start, two_run, letters_run, tmp_path):
    server = start([letters_run, calibrate(two_run, tmp_path / "run").path])
    for source, is_known in (("en", True), ("de", False)):
        answer = server.translate(q="12 34", source=source, target="fr", flags=True).json()
        assert ("expected_chrf" in answer) is is_known


def test_html_keeps_its_tags_and_escapes_its_text(running):
    page = '<!doctype html><p class="a">12 <b>34</b> 56 &lt;</p><script>1 < 2</script><ul><li>7<li><code>8</code></ul>'
    written = running.translate(q=page, source="de", target="en", format="html").json()["translatedText"]
    assert written.startswith('<!doctype html><p class="a">')
    assert "<script>1 < 2</script><ul><li>" in written
    assert written.endswith("<li><code>8</code></ul>")
    assert written.count("<b>") == written.count("</b>") == 1


INTO = (
    "target or target_lang: xx is not supported; this server translates into German (de), French (fr) and English (en)"
)
FROM = "source or source_lang: French (fr) is not supported; this server translates from English (en) and German (de)"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({"q": "1", "source": "en"}, "Invalid request: missing target parameter"),
        ({"q": ["1", None], "source": "en", "target": "de"}, "Invalid request: q.1: Input should be a valid string"),
        ({"q": "1", "source": "en", "target": "xx"}, INTO),
        ({"q": "1", "source": "fr", "target": "de"}, FROM),
        (
            {"q": "1", "source": "en", "target": "de", "format": "pdf"},
            "Invalid request: format: Input should be 'text' or 'html'",
        ),
        (
            {"q": "1", "source": "en", "target": "de", "alternatives": 99},
            "Invalid request: alternatives: Input should be less than or equal to 10",
        ),
        ({"q": "1", "source": "en", "target": "de", "model": "none"}, "there is no model none"),
        ({"q": "1" * 20_001, "source": "en", "target": "de"}, "20,001 characters in one request; the limit is 20,000"),
        ({"q": ["1"] * 501, "source": "en", "target": "de"}, "501 texts in one request; the limit is 500"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(running, body, message):
    answer = running.translate(**body)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


FORM = (
    b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % field
        for field in ((b"source", b"en"), (b"target", b"de"), (b"q", b"%b"))
    )
    + b"--x--\r\n"
)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"q":"\\ud800","source":"en","target":"de"}', "application/json", 200),
        (b'{"q":"1","source":"en","target":"de","alternatives":1e400}', "application/json", 400),
        (b"q=%ff&source=en&target=de", "application/x-www-form-urlencoded", 400),
        (b"&" * 5000, "application/x-www-form-urlencoded", 400),
        (b"q=1&source=en&target=de&alternatives=2", "application/x-www-form-urlencoded", 200),
        (b"q", "multipart/form-data; boundary=x", 400),
        (b"q", "multipart/form-data", 400),
        (FORM % "1 ä".encode("latin-1"), "multipart/form-data; boundary=x", 400),
        (FORM % "1 ä".encode("utf-16"), "multipart/form-data; boundary=x", 400),
        (FORM % "1 ä".encode(), "multipart/form-data; boundary=x", 200),
        (b'{"q":"1","source":"en","target":"de"}', "application/x-www-form-urlencoded", 200),  # of curl -d
        (b'\r\n {"q":"1","source":"en","target":"de"}', "application/x-www-form-urlencoded", 200),
        (b'{"q":"1","source":"en"', "application/x-www-form-urlencoded", 400),
        (b"--x--", "multipart/form-data; boundary=x", 400),
        (b"q", "text/plain", 415),
        (b" " * 400_000, "application/json", 413),
    ],
)
def test_hostile_bodies_are_refused_and_the_server_goes_on(running, content, kind, status):
    answer = running.client.post("/translate", content=content, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert running.client.get("/health").json() == {"status": "ok"}


def test_what_is_no_http_is_refused_and_the_server_goes_on(running):
    host, port = running.url.removeprefix("http://").split(":")
    for content in (
        b"\x16\x03\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert running.client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_compressed_body_is_refused_by_its_name(running, encoding):
    content = gzip.compress(b'{"q":"12","source":"en","target":"de"}')
    headers = {"content-type": "application/json", "content-encoding": encoding}
    for path in ("/translate", "/v2/translate", "/v1/completions"):
        answer = running.client.post(path, content=content, headers=headers)
        assert (answer.status_code, f"without Content-Encoding: {encoding}" in answer.text) == (415, True)
    headers["content-encoding"] = "identity"
    assert running.client.post("/translate", content=gzip.decompress(content), headers=headers).status_code == 200


@pytest.mark.parametrize("upgrade", ["Upgrade: h2c", "upgrade: websocket", "UPGRADE:TLS/1.0"])
@pytest.mark.parametrize("num_pieces", [1, 2])
def test_a_request_for_another_protocol_is_answered_in_this_one(running, upgrade, num_pieces):
    host, port = running.url.removeprefix("http://").split(":")
    body = b'{"q":"12\\nupgrade: 34","source":"en","target":"de"}'
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n{upgrade}\r\n"
    head += f"HTTP2-Settings: AAM\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    pieces = [head.encode() + body] if num_pieces == 1 else [head.encode(), body]
    plain = running.client.post("/translate", content=body, headers={"content-type": "application/json"})
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        for _ in range(2):  # as a client asks again on a connection that stays open
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.02)  # so that they mostly come apart
            received = b""
            while not received.endswith(plain.content):
                received += connection.recv(65_536)
            assert received.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [70_000, 2_000_000])
def test_a_url_that_is_too_long_gets_431_even_while_it_is_sent(running, size):
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(b"POST /translate?q=" + b"a" * size + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 431 ")


def test_the_settings_name_the_directions_whose_model_or_engine_obeys_a_glossary(two_run, words_run, start):
    settings = start([two_run, words_run]).client.get("/frontend/settings").json()
    by_engine = [["en", "de"], ["en", "fr"]] if native_engine.is_available() else []
    assert sorted(settings["glossaryDirections"]) == [["de", "en"], *by_engine]


def test_the_settings_name_limits_and_languages(running):
    settings = running.client.get("/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert settings["keyRequired"] is False
    assert len(settings["glossaryDirections"]) == 3 * native_engine.is_available()
    assert settings["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }


class Held:
    """Holds back the translations of a running model until it is let go."""

    def __init__(self, server, monkeypatch):
        self.go, self.begun = threading.Event(), threading.Event()
        batcher = server.models.served[0].batcher
        translate = batcher.translate

        def wait(segments):
            self.begun.set()
            assert self.go.wait(30)
            return translate(segments)

        monkeypatch.setattr(batcher, "translate", wait)


def test_a_full_queue_answers_429_and_says_when_to_come_back(two_run, two, start, monkeypatch):
    monkeypatch.setattr(batcher, "num_cores", lambda: 2)
    six_requests = 6 * two.segment(["12345"], Request(two.options, to="de"))[0].num_tokens
    monkeypatch.setattr(batcher, "QUEUE_TOKENS", six_requests)
    server = start([two_run])
    held = Held(server, monkeypatch)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(server.translate, q="12345", source="en", target="de") for _ in range(8)]
        deadline = time.monotonic() + 120
        while server.metric("nmt_queue_tokens", model=server.models.served[0].name) < six_requests:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        refused = server.translate(q="12345", source="en", target="de")
        held.go.set()
        answers = [answer.result() for answer in asked]
    assert (refused.status_code, refused.json()) == (429, {"error": "the server is busy: its queue is full"})
    assert int(refused.headers["retry-after"]) >= 1
    assert server.metric("nmt_refused_total", limit="queue") >= 1
    assert 200 in {answer.status_code for answer in answers} <= {200, 429}


def test_a_client_that_goes_away_frees_its_place(running, monkeypatch):
    server, gone = running, {"path": "/translate", "status": "499"}
    num_gone = server.metric("nmt_requests_total", **gone)
    held = Held(server, monkeypatch)
    name = server.models.served[0].name
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"q": "12345\n" * 2000, "source": "en", "target": "de"})
    head = (
        f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall((head + body).encode())
        assert held.begun.wait(120)
        waiting = server.metric("nmt_queue_tokens", model=name)
    deadline = time.monotonic() + 120
    while server.metric("nmt_requests_total", **gone) == num_gone:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert waiting > 0
    assert server.metric("nmt_queue_tokens", model=name) == 0
    held.go.set()
    assert server.translate(q="12", source="en", target="de").status_code == 200


def test_a_request_that_takes_longer_than_the_limit_gets_503(two_run, start, monkeypatch):
    server = start([two_run], timeout=0.2)  # a server of its own: its event loop has to outlive the request
    held = Held(server, monkeypatch)
    answer = server.translate(q="12", source="en", target="de")
    held.go.set()
    assert answer.status_code == 503
    assert answer.json()["error"] == "this took longer than 0.2 seconds; send shorter texts, or ask for a stream"
    assert answer.headers["retry-after"]


def test_keys_are_asked_for_where_they_are_set(configure, tmp_path):
    (tmp_path / "keys").write_text("# of the team\nsecret-key-1\nsecret-key-2  # of Ann\n")
    server = configure(keys=tmp_path / "keys")
    asked = {"q": "12", "source": "en", "target": "de"}
    assert server.translate(**asked).json() == {"error": "this server needs an API key"}
    assert server.translate(**asked, api_key="secret-key").json() == {"error": "unknown API key"}
    assert server.translate(**asked, api_key="secret-key-2").status_code == 200
    bearer = {"Authorization": "Bearer secret-key-1"}
    assert server.client.post("/translate", json=asked, headers=bearer).status_code == 200
    assert server.client.get("/metrics").status_code == 403
    assert server.client.get("/metrics", headers=bearer).status_code == 200
    assert server.client.get("/v1/models").status_code == 401
    assert server.client.get("/frontend/settings").json()["keyRequired"] is True
    assert [server.client.get(path).status_code for path in ("/", "/health", "/languages", "/spec")] == [200] * 4


@pytest.mark.parametrize("content", [b'{"q":"12"', b"{}", b" " * 400_000])
def test_a_wrong_key_beside_the_body_is_refused_before_the_body_is(configure, tmp_path, content):
    (tmp_path / "keys").write_text("secret-key-1\n")
    server = configure(keys=tmp_path / "keys")

    def status(key: str, query: str = "") -> int:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        return server.client.post(f"/translate{query}", content=content, headers=headers).status_code

    assert (status("secret-key"), status("", "?api_key=secret-key")) == (403, 403)
    assert {status("secret-key-1"), status("")} <= {400, 413}  # without one, it may have been in the body


def test_more_requests_than_the_rate_get_429(configure):
    server = configure(rate_limit=3)
    answers = [server.translate(q="12", source="en", target="de") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json() == {"error": "more than 3 requests per minute"}
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20


@pytest.mark.parametrize(
    ("content", "media"), [(b"{", "application/json"), (b"[]", "application/json"), (b"", "text/x")]
)
def test_requests_whose_bodies_cannot_be_read_count_for_the_rate(configure, content, media):
    server = configure(rate_limit=3)
    answers = [server.client.post("/translate", content=content, headers={"Content-Type": media}) for _ in range(4)]
    assert [answer.status_code == 429 for answer in answers] == [False, False, False, True]


def test_headers_that_do_not_end_or_do_not_come_close_the_connection(running, monkeypatch):
    monkeypatch.setattr(run, "HEADER_SECONDS", 0.2)
    host, port = running.url.removeprefix("http://").split(":")
    for content in (b"", b"POST /translate HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000):
        connection = socket.create_connection((host, int(port)), timeout=120)
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(content)
            while connection.recv(4096):
                pass
    assert running.translate(q="1" * 20_000, source="en", target="de").status_code == 200


@pytest.mark.parametrize("content", [b"\r\n", b"G", b"GET / HTTP/1.1\r\nX: "])
def test_headers_of_a_later_request_that_do_not_end_close_the_connection(running, monkeypatch, content):
    monkeypatch.setattr(run, "HEADER_SECONDS", 0.6)
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(content)
        assert connection.recv(4096) == b""


def test_a_request_may_take_longer_than_its_headers(running, monkeypatch):
    monkeypatch.setattr(run, "HEADER_SECONDS", 0.5)
    held = Held(running, monkeypatch)
    threading.Timer(1.0, held.go.set).start()
    for _ in range(2):
        assert running.translate(q="12", source="en", target="de").status_code == 200


def test_many_idle_connections_leave_the_server_answering(running):
    host, port = running.url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert running.translate(q="12", source="en", target="de").status_code == 200


def test_a_model_without_placeholders_translates_whole_sentences_of_html(running, two):
    written = running.translate(q="<p>123 <b>456</b> 78</p>", source="en", target="fr", format="html").json()
    text = written["translatedText"]
    assert text.startswith("<p>")
    assert text.count("<b>") == text.count("</b>") == 1
    plain = text.replace("<b>", "").replace("</b>", "").removeprefix("<p>").removesuffix("</p>")
    apart = [two.translate([part], to="fr")[0].text for part in ("123", "456", "78")]
    assert plain in (two.translate(["123 456 78"], to="fr")[0].text, " ".join(apart))


def test_a_glossary_of_a_request_is_checked_term_by_term(running):
    too_long = "x" * 60  # for an output of this model
    body = {"source": "de", "target": "en", "glossary": {"34": too_long}}
    answer = running.translate(q="12 34", **body).json()
    assert answer["terms_missed"] == [["34", too_long]]
    batch = running.translate(q=["12", "34 34"], **body).json()
    assert batch["terms_missed"] == [[], [["34", too_long]] * 2]
    page = running.translate(q="<p>12 <b>34</b></p>", format="html", **body).json()
    assert page["terms_missed"] == [["34", too_long]]
    stream = lines_of(running.translate(q="34", stream=True, **body))
    assert stream[0]["terms_missed"] == [["34", too_long]]
    assert "terms_missed" not in running.translate(q="12", source="de", target="en").json()


def test_a_term_of_a_request_that_its_translation_has_is_not_missed(running):
    output = running.translate(q="12345", source="de", target="en").json()["translatedText"]
    answer = running.translate(q="12345", source="de", target="en", glossary={"12345": output}).json()
    assert answer == {"translatedText": output, "terms_missed": []}


@pytest.mark.parametrize(
    ("glossary", "message"),
    [
        ({"": "x"}, "Invalid request: glossary: the source of a term is empty"),
        ({"a b": "x", "a  b": "y"}, 'Invalid request: glossary: "a b" has two translations: "x" and "y"'),
        (["a"], "Invalid request: glossary: Input should be a valid dictionary"),
        ({str(n): "x" for n in range(1001)}, "Invalid request: glossary: Dictionary should have at most 1000 items"),
        ({"a": "x" * 20_000}, "20,003 characters in one request; the limit is 20,000"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_refused(running, glossary, message):
    answer = running.translate(q="12", source="de", target="en", glossary=glossary)
    assert (answer.status_code, answer.json()["error"][: len(message)]) == (400, message)


@pytest.mark.parametrize("keys", [None, "secret-key"])
def test_a_post_without_a_body_is_read_from_its_query_string(configure, tmp_path, keys):
    (tmp_path / "keys").write_text("secret-key\n")
    server = configure(keys=tmp_path / "keys" if keys else None)
    fields = {"q": "1 & 2 é", "source": "en", "target": "de", "format": "text", "api_key": keys or ""}
    answer = server.client.post("/translate", params=fields)
    assert answer.json() == server.translate(**fields).json()
    detected = server.client.post("/detect", params={"q": "12", "api_key": keys or ""})
    assert detected.json()[0]["language"] == "en"
    refused = server.client.post("/translate", params={"source": "en", "target": "de"})
    assert refused.json() == {"error": "Invalid request: missing q parameter"}


@pytest.mark.parametrize(
    ("code", "codes", "closest"),
    [
        ("pt-BR", ["pt"], "pt"),
        ("pt", ["pt_BR"], "pt_BR"),
        ("zh-Hant", ["zh-Hans"], None),
        ("zh-TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("de", ["eng_Latn", "deu_Latn"], "deu_Latn"),
        ("zho", ["en", "zh"], "zh"),
        ("cmn_Hant", ["zh-Hans"], None),
        ("iw", ["heb_Hebr"], "heb_Hebr"),
        ("yue", ["zh"], None),
        ("zh-CN", ["zh-TW"], None),
        ("zh-Hant", ["zh"], "zh"),
        ("sr-Latn", ["sr-Cyrl"], None),
        ("sr", ["sr-Cyrl"], "sr-Cyrl"),
    ],
)
def test_a_language_in_another_script_is_no_model_for_it(code, codes, closest):
    assert routes._closest(code, codes) == closest


@pytest.mark.parametrize(("form", "flags"), [("traditional", {"wrong_language": True}), ("simplified", {}), (None, {})])
def test_the_wrong_form_of_chinese_is_flagged_if_the_request_names_one(form, flags):
    text = routes.Routed("", (), form=form, flags=True)
    assert service.flags_of(Translation("这个国家的经济发展得很快"), text) == flags


def test_null_is_an_absent_field_and_numbers_may_be_text(running):
    plain = running.translate(q="123", source="en", target="de", alternatives=2).json()
    nulls = {"format": None, "api_key": None, "model": None, "stream": None, "glossary": None}
    assert running.translate(q="123", source="en", target="de", alternatives="2", **nulls).json() == plain
    assert running.translate(q=None, source="en", target="de").json()["error"].endswith("missing q parameter")


def test_a_multipart_form_is_read_as_a_form(running):
    fields = {"q": "1 & 2\r\n3", "source": "en", "target": "de", "alternatives": "1"}
    files = {name: (None, value) for name, value in fields.items()}  # what a browser sends for FormData
    answer = running.client.post("/translate", files=files)
    assert answer.json() == running.client.post("/translate", data=fields).json()
    assert running.client.post("/detect", files={"q": (None, "12")}).status_code == 200
    lacking = running.client.post("/translate", files={"source": (None, "en"), "file": ("a.txt", b"x")})
    assert (lacking.status_code, lacking.json()["error"]) == (400, "Invalid request: missing q parameter")


def test_texts_that_are_in_the_target_language_or_in_no_language_of_the_server_stay_as_they_are(running, two):
    own, other = "Ich habe nicht das Buch, das ist in dem Haus.", "Я не знаю, что это такое"
    texts = [own, "She has the book in the house.", other, "123", " \n", ""]
    translated = [each.text for each in two.translate([texts[1], *texts[3:]], to="de")]
    expected = [own, translated[0], other, *translated[1:]]
    answer = running.translate(q=texts, source="auto", target="de").json()
    assert answer["translatedText"] == expected
    assert [each["language"] for each in answer["detectedLanguage"][:2]] == ["de", "en"]
    assert answer["detectedLanguage"][2]["confidence"] == 0
    lines = lines_of(running.translate(q=texts[:3], source="auto", target="de", stream=True))[1:-1]
    written = [
        "".join(line["text"] + line["after"] for line in lines if line["index"] == number) for number in range(3)
    ]
    assert written == expected[:3]
    pages = running.translate(q=[f"<p>{text}</p>" for text in texts[:3]], source="auto", target="de", format="html")
    assert pages.json()["translatedText"] == [f"<p>{text}</p>" for text in expected[:3]]
    for source, target in (("en", "en"), ("de", "de"), ("en-GB", "en-US")):
        assert running.translate(q=own, source=source, target=target).json() == {"translatedText": own}
    sent = running.client.post(
        "/translate_file", data={"source": "auto", "target": "de"}, files={"file": ("a.txt", own.encode())}
    )
    assert running.client.get(sent.json()["translatedFileUrl"]).text == own


GERMAN, ENGLISH = "Ich habe nicht das Buch, das ist in dem Haus.", "She has the book in the house."
ENGLISH_WORDS = "this-is-the-best-of-all with and that from the "


@pytest.mark.parametrize(
    "around",
    [
        "<p class='" + ENGLISH_WORDS * 3 + "'>{}</p>",
        "<!-- " + ENGLISH_WORDS * 60 + "--><p>{}</p>",
        "<head><STYLE>" + ENGLISH_WORDS * 60 + "</STYLE></head><p>{}</p>",
        "<p>{}</p><script>if (a < b) {{" + ENGLISH_WORDS * 60 + "}}</script >",
        "<a href='https://x.org/" + ENGLISH_WORDS.replace(" ", "-") * 5 + "'>{}</a>",
    ],
)
def test_the_language_of_a_page_is_that_of_its_words(running, around):
    own, other = around.format(GERMAN), around.format(ENGLISH)
    answer = running.translate(q=[own, other], source="auto", target="de", format="html").json()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["de", "en"]
    assert answer["translatedText"][0] == own
    named = running.translate(q=other, source="en", target="de", format="html").json()["translatedText"]
    assert answer["translatedText"][1] == named
    body = {"text": [own, other], "target_lang": "DE", "tag_handling": "html"}
    found = running.client.post("/v2/translate", json=body).json()["translations"]
    assert [(each["detected_source_language"], each["text"]) for each in found] == [("DE", own), ("EN", named)]


@pytest.mark.parametrize("field", ["source", "target", "format", "alternatives"])
def test_a_field_that_can_have_one_value_is_refused_with_two(running, field):
    body = {"q": "12", "source": "en", "target": "de", "format": "text", "alternatives": "1"}
    for values in ([body[field]] * 2, [body[field], "fr"]):
        answer = running.client.post("/translate", data={**body, field: values})
        assert (answer.status_code, answer.json()["error"][:30]) == (400, f"Invalid request: {field}: Input"[:30])


def test_a_server_of_one_model_knows_that_a_text_is_none_of_its_languages(start, letters_run):
    server = start([letters_run])  # de to en
    for text, best in {
        "Das ist der Hund, den ich nicht sehe": "de",
        "This is the dog that I do not see": "en",
        "C'est le chien que je ne vois pas dans la maison": "",
        "Это собака": "",
    }.items():
        found = server.client.post("/detect", json={"q": text}).json()
        assert (found[0]["language"] == best and found[0]["confidence"] > 80) if best else found[0]["confidence"] < 5
        assert sum(each["confidence"] for each in found) <= 100.1


@pytest.mark.parametrize("asked", ["authorization,content-type", "x-stainless-os,x-stainless-retry-count"])
def test_pages_of_an_origin_that_is_allowed_may_send_what_clients_for_browsers_send(configure, asked):
    origin = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    server = configure(allow_origin="https://example.org")
    headers = {**origin, "Access-Control-Request-Headers": asked}
    answer = server.client.options("/v1/chat/completions", headers=headers)
    allowed = [answer.headers[f"access-control-allow-{name}"] for name in ("origin", "headers")]
    assert (answer.status_code, allowed) == (200, ["https://example.org", asked])
    other = server.client.options("/translate", headers={**headers, "Origin": "https://example.com"})
    assert other.status_code == 400
