"""Corrections are kept in a TMX file that is complete at any time, and that training reads."""

from __future__ import annotations

import pytest

from nmt.apps.server import corrections as module
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError
from nmt.base.files import try_lock
from nmt.data.read.pairs import read_parallel
from nmt.data.read.table_names import corpus_named


def pairs(path, src="en", tgt="de"):
    files = corpus_named(str(path)).model_copy(update={"src_lang": src, "tgt_lang": tgt})
    return [(pair.src, pair.tgt) for pair in read_parallel(files)]


HOSTILE = "a & b <seg> ]]> \x00\x0b\ud800\ufffe \"'"


def test_corrections_are_kept_from_one_start_to_the_next(tmp_path):
    path = tmp_path / "corrections.tmx"
    first = Corrections(path)
    first.add(("en", "de"), ("two\nlines", "zwei\nZeilen"))
    assert pairs(path) == [("two lines", "zwei Zeilen")]
    first.add(('xx-"<', "de"), (HOSTILE, "x"))
    Corrections(path).add(("en", "fr"), ("1", "2"))
    assert pairs(path, 'xx-"<') == [("a & b <seg> ]]>  \"'", "x")]
    assert pairs(path, tgt="fr") == [("1", "2")]
    assert pairs(path) == [("two lines", "zwei Zeilen")]


def test_a_correction_that_was_cut_off_is_removed_wherever_the_cut_was(tmp_path):
    path = tmp_path / "corrections.tmx"
    whole = Corrections(path)
    whole.add(("en", "de"), ("1", "eins"))
    whole.add(("en", "de"), ("2", "zwei"))
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        Corrections(path).add(("en", "de"), ("3", "drei"))
        found = pairs(path)
        assert found[-1] == ("3", "drei")
        assert found[:-1] == [("1", "eins"), ("2", "zwei")][: content[:size].count(b"</tu>\n")]


def test_two_servers_may_have_one_file_and_take_turns(tmp_path):
    path = tmp_path / "corrections.tmx"
    first, second = Corrections(path), Corrections(path)
    for number in range(3):
        first.add(("en", "de"), (f"1{number}", "a"))
        second.add(("en", "de"), (f"2{number}", "b"))
    assert [source for source, _ in pairs(path)] == ["10", "20", "11", "21", "12", "22"]
    with path.open("rb") as file:
        assert try_lock(file.fileno())
        with pytest.raises(RequestError, match="another server writes"):
            first.add(("en", "de"), ("1", "a"))


def test_a_file_of_another_program_is_left_as_it_is_and_a_full_one_takes_no_more(tmp_path, monkeypatch):
    (tmp_path / "a.tmx").write_text("<tmx><body/></tmx>")
    with pytest.raises(NmtError, match="another program made this file"):
        Corrections(tmp_path / "a.tmx")
    assert (tmp_path / "a.tmx").read_text() == "<tmx><body/></tmx>"
    with pytest.raises(NmtError, match="cannot be written"):
        Corrections(tmp_path)
    monkeypatch.setattr(module, "MAX_BYTES", 600)
    small = Corrections(tmp_path / "b.tmx")
    small.add(("en", "de"), ("1", "eins"))
    with pytest.raises(RequestError, match="full"):
        small.add(("en", "de"), ("1" * 500, "eins"))
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
