"""Corrections are kept in a TMX file that is complete at any time, and that training reads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from nmt.apps.server import corrections as module
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError
from nmt.base.files import try_lock
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.read.pairs import read_parallel
from nmt.data.read.table_names import corpus_named
from nmt.translation.request import Request


def pairs(path, src="en", tgt="de"):
    files = corpus_named(str(path)).model_copy(update={"src_lang": src, "tgt_lang": tgt})
    return [(pair.src, pair.tgt) for pair in read_parallel(files)]


def add(corrections, direction, *pairs):
    asyncio.run(corrections.add(Direction(*direction), pairs))


HOSTILE = "a & b <seg> ]]> \x00\x0b\ud800\ufffe \"'"


def test_corrections_are_kept_from_one_start_to_the_next(tmp_path):
    path = tmp_path / "corrections.tmx"
    first = Corrections(path)
    add(first, ("en", "de"), ("two\nlines", "zwei\nZeilen"))
    assert pairs(path) == [("two lines", "zwei Zeilen")]
    add(first, ('xx-"<', "de"), (HOSTILE, "x"))
    add(Corrections(path), ("en", "fr"), ("1", "2"))
    assert pairs(path, 'xx-"<') == [("a & b <seg> ]]>  \"'", "x")]
    assert pairs(path, tgt="fr") == [("1", "2")]
    assert pairs(path) == [("two lines", "zwei Zeilen")]


def test_a_correction_that_was_cut_off_is_removed_wherever_the_cut_was(tmp_path):
    path = tmp_path / "corrections.tmx"
    whole = Corrections(path)
    add(whole, ("en", "de"), ("1", "eins"), ("2", "zwei"))
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        add(Corrections(path), ("en", "de"), ("3", "drei"))
        found = pairs(path)
        assert found[-1] == ("3", "drei")
        assert found[:-1] == [("1", "eins"), ("2", "zwei")][: content[:size].count(b"</tu>\n")]


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.rstrip(b"\n"),
        lambda content: content.replace(b"</tu>\n", b"</tu>   \n").rstrip(b"\n"),
        lambda content: content.replace(b"</tu>\n", b"</tu>"),
        lambda content: b"\xef\xbb\xbf" + content + b"\n\n",
        lambda content: content.replace(b"<tu ", b"  <tu ").replace(b"</body>\n", b" </body> "),
        lambda content: content.replace(b"<header ", b"<header\n  "),
    ],
)
def test_a_file_that_an_editor_has_saved_keeps_its_corrections(tmp_path, edit):
    path = tmp_path / "corrections.tmx"
    corrections = Corrections(path)
    add(corrections, ("en", "de"), ("1", "eins"), ("2", "zwei"))
    path.write_bytes(edit(path.read_bytes()))
    add(corrections, ("en", "de"), ("3", "drei"))
    add(Corrections(path), ("en", "de"), ("4", "vier"))
    assert pairs(path) == [("1", "eins"), ("2", "zwei"), ("3", "drei"), ("4", "vier")]


@pytest.mark.parametrize(
    "content",
    [b"notes", b"<tmx></tmx>", b'<tmx><header creationtool="nmt"/><body/></tmx>\n', "\ufefftmx".encode("utf-16")],
)
def test_a_correction_is_refused_if_another_program_has_replaced_the_file(tmp_path, content):
    path = tmp_path / "corrections.tmx"
    corrections = Corrections(path)
    path.write_bytes(content)
    with pytest.raises(RequestError, match="another program made this file") as error:
        add(corrections, ("en", "de"), ("1", "eins"))
    assert error.value.status_code == 507
    assert path.read_bytes() == content


def test_two_servers_may_have_one_file_and_take_turns(tmp_path):
    path = tmp_path / "corrections.tmx"
    first, second = Corrections(path), Corrections(path)
    for number in range(3):
        add(first, ("en", "de"), (f"1{number}", "a"))
        add(second, ("en", "de"), (f"2{number}", "b"))
    assert [source for source, _ in pairs(path)] == ["10", "20", "11", "21", "12", "22"]
    with path.open("rb") as file:
        assert try_lock(file.fileno())
        with pytest.raises(RequestError, match="another server writes"):
            add(first, ("en", "de"), ("1", "a"))


def test_a_file_of_another_program_is_left_as_it_is_and_a_full_one_takes_no_more(tmp_path, monkeypatch):
    (tmp_path / "a.tmx").write_text("<tmx><body/></tmx>")
    with pytest.raises(NmtError, match="another program made this file"):
        Corrections(tmp_path / "a.tmx")
    assert (tmp_path / "a.tmx").read_text() == "<tmx><body/></tmx>"
    with pytest.raises(NmtError, match="corrections are kept as TMX"):
        Corrections(tmp_path / "a.xml")
    (tmp_path / "folder.tmx").mkdir()
    with pytest.raises(NmtError, match="not a regular file"):
        Corrections(tmp_path / "folder.tmx")
    monkeypatch.setattr(module, "MAX_BYTES", 600)
    small = Corrections(tmp_path / "b.tmx")
    add(small, ("en", "de"), ("1", "eins"))
    with pytest.raises(RequestError, match="full"):
        add(small, ("en", "de"), ("1" * 500, "eins"))
    assert pairs(tmp_path / "b.tmx") == [("1", "eins")]


def test_suggest_keeps_a_correction_if_the_server_was_started_with_a_file(running, configure, tmp_path):
    asked = {"q": "12", "s": "zwölf", "source": "en", "target": "de"}
    refused = running.client.post("/suggest", json=asked)
    assert (refused.status_code, refused.json()) == (403, {"error": "this server does not collect corrections"})
    assert running.client.get("/frontend/settings").json()["suggestions"] is False
    server = configure(corrections=tmp_path / "corrections.tmx")
    assert server.client.get("/frontend/settings").json()["suggestions"] is True
    assert server.client.post("/suggest", json=asked).json() == {"success": True}
    assert server.client.post("/suggest", data=asked).json() == {"success": True}
    assert pairs(tmp_path / "corrections.tmx") == [("12", "zwölf")] * 2
    for wrong in ({"s": ""}, {"q": ""}, {"target": "xx"}, {"source": "auto"}, {"s": "1" * 20_000}):
        assert server.client.post("/suggest", json=asked | wrong).status_code == 400
    assert len(pairs(tmp_path / "corrections.tmx")) == 2
    assert server.client.post("/suggest", json=asked | {"s": " \n"}).status_code == 400


def test_a_correction_that_the_disk_does_not_take_is_refused_and_those_before_it_stay(configure, tmp_path):
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    path = tmp_path / "corrections.tmx"
    server = configure(corrections=path)
    asked = {"source": "en", "target": "de"}
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    statuses = {}
    limit((1500, before[1]))
    try:
        for number in range(20):
            text = f"{number} {'1' * (1 + 7 * number)}"  # of several lengths, so that the disk is full at any byte
            answer = server.client.post("/suggest", json={"q": text, "s": f"eins {number}", **asked})
            statuses[text] = answer.status_code
    finally:
        limit(before)
    assert set(statuses.values()) == {200, 507}
    assert "could not be kept (File too large)" in answer.json()["error"]
    kept = [text for text, status in statuses.items() if status == 200]
    assert [source for source, _ in pairs(path)] == kept
    assert server.client.post("/suggest", json={"q": "5", "s": "fünf", **asked}).json() == {"success": True}
    assert pairs(path)[-1] == ("5", "fünf")


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), OSError(5, "Input/output error"), None])
def test_whichever_write_of_a_correction_fails_the_file_keeps_the_corrections_before_it(tmp_path, monkeypatch, fault):
    path = tmp_path / "corrections.tmx"
    corrections = Corrections(path)
    add(corrections, ("en", "de"), ("1", "eins"))
    write, num_failures = module.write_all, 0
    for failing in range(1, 10):
        num_writes = 0

        def fail_once(file, content, failing=failing):
            nonlocal num_writes, num_failures
            num_writes += 1
            if num_writes != failing:
                write(file, content)
                return
            num_failures += 1
            write(file, content[: len(content) // 2])
            raise fault or OSError(28, "fewer bytes written than asked")

        monkeypatch.setattr(module, "write_all", fail_once)
        with suppress(RequestError):
            add(corrections, ("en", "de"), ("2", "zwei"))
        if num_writes < failing:
            break
        assert pairs(path) == [("1", "eins")]
    assert num_failures == failing - 1 > 0
    assert pairs(path) == [("1", "eins"), ("2", "zwei")]


def test_a_correction_is_kept_by_line_and_by_sentence_where_they_agree(configure, tmp_path):
    assert module.pairs_in(
        Direction("en", "de"), "A dog runs. It barks.\n\nHi.", "Ein Hund rennt. Er bellt.\nHallo."
    ) == [
        ("A dog runs.", "Ein Hund rennt."),
        ("It barks.", "Er bellt."),
        ("A dog runs. It barks.", "Ein Hund rennt. Er bellt."),
        ("Hi.", "Hallo."),
    ]
    one = [("A dog runs. It barks.", "Ein Hund rennt und bellt.")]
    assert module.pairs_in(Direction("en", "de"), *one[0]) == one
    assert module.pairs_in(Direction("en", "de"), "1\n2", "eins") == [("1 2", "eins")]


@pytest.mark.parametrize("name", ["{name}", "%s", "<b>Tom</b>", "https://a.org/x"])
def test_a_sentence_that_begins_with_a_tag_or_placeholder_is_corrected_as_it_is_translated(running, name):
    source = f"12 is here. {name} has left."
    pairs = module.pairs_in(Direction("en", "de"), source, f"zwölf ist da. {name} ist weg.")
    assert pairs[:2] == [("12 is here.", "zwölf ist da."), (f"{name} has left.", f"{name} ist weg.")]
    translator = running.models.served[0].translator
    (text,) = translator.segmenter.segment([source], Request(SearchOptions(split="always"), to="de"))
    assert [part.text for part, _ in text.separate()] == [source for source, _ in pairs[:2]]


def test_a_correction_is_used_at_once_by_its_server_and_after_a_restart(configure, tmp_path):
    pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
    path = tmp_path / "corrections.tmx"
    direction = {"source": "en", "target": "de"}
    text, correct = "12 is 3. 45 is 6.\n789", "zwölf. fünf.\nsieben"
    for tm in ("", str(path)):
        server = configure(corrections=path, tm=tm)
        plain = server.translate(q=["99", "1 2"], **direction).json()["translatedText"]
        server.client.post("/suggest", json={"q": text, "s": correct, **direction})
        for again in (server, configure(corrections=path, tm=tm)):
            texts = [text, "12 is 3.", "789", "99\n789\n12 is 3. 45 is 6.\n1 2", "45 is 6.  12 is 3."]
            found = again.translate(q=texts, **direction, flags=True).json()
            expected = [correct, "zwölf.", "sieben", f"{plain[0]}\nsieben\nzwölf. fünf.\n{plain[1]}", "fünf.  zwölf."]
            assert found["translatedText"] == expected
            assert found["flags"][0] == {"from_memory": True}
        path.unlink()


def test_the_corrections_of_a_key_with_a_memory_of_its_own_are_seen_by_no_other(configure, tmp_path):
    pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
    own, path = Corrections(tmp_path / "own-memory.tmx"), tmp_path / "corrections.tmx"
    add(own, ("en", "de"), ("12 345", "of Ann"))
    (tmp_path / "keys").write_text(f"key-of-ann\t{tmp_path / 'own-memory.tmx'}\nkey-of-bob\n")
    asked = {"q": "77", "source": "en", "target": "de"}
    server = configure(keys=tmp_path / "keys", corrections=path)
    plain = server.translate(**asked, api_key="key-of-bob").json()["translatedText"]
    server.client.post("/suggest", json={**asked, "s": "secret", "api_key": "key-of-ann"})
    assert server.translate(**asked, api_key="key-of-ann").json()["translatedText"] == "secret"
    for again in (server, configure(keys=tmp_path / "keys", corrections=path)):
        assert again.translate(**asked, api_key="key-of-bob").json()["translatedText"] == plain
    assert pairs(tmp_path / "corrections.own.tmx") == [("77", "secret")]
