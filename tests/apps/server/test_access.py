"""API keys in a file, and requests per minute."""

from __future__ import annotations

import os

import pytest
from starlette.requests import Request

from nmt.apps.server.access import Access, AccessLog, read_keys
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError


def request(address: str = "1.2.3.4", key: str = "") -> Request:
    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    return Request({"type": "http", "client": (address, 1), "headers": headers, "query_string": b""})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no key"),
        (b"# none\n\n", "contains no key"),
        (b"good-key-1\nshort\n", ":2: a key needs at least 8 characters"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", "not a list of keys"),
    ],
)
def test_a_file_without_good_keys_is_refused(tmp_path, content, message):
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(NmtError, match=message):
        read_keys(tmp_path / "keys")
    with pytest.raises(NmtError, match="cannot be read"):
        read_keys(tmp_path / "none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_the_keys_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "keys")
    with pytest.raises(NmtError, match="a pipe"):
        read_keys(tmp_path / "keys")


def test_keys_may_follow_a_byte_order_mark_and_contain_a_number_sign(tmp_path):
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbffirst-key\nlong#enough # of Ann\n  # none\nother-key\t# x\n")
    access = Access(read_keys(tmp_path / "keys"), 0, Metrics())
    for key in ("first-key", "long#enough", "other-key"):
        access.check(request(key=key))
    with pytest.raises(RequestError, match="unknown API key"):
        access.check(request(key="long"))


def test_a_key_may_have_a_translation_memory(tmp_path):
    (tmp_path / "keys").write_text("first-key\tmemory of Ann.tmx # Ann\nother-key\n\tnone.tmx\n")
    assert [key.memory for key in read_keys(tmp_path / "keys").values()] == ["memory of Ann.tmx", ""]


def test_requests_are_counted_for_each_client_and_come_back_with_time():
    now = 0.0
    access = Access({}, 2, Metrics(), clock=lambda: now)
    access.check(request())
    access.check(request())
    with pytest.raises(RequestError, match="more than 2 requests per minute") as refused:
        access.check(request())
    assert refused.value.headers == {"Retry-After": "30"}
    access.check(request("5.6.7.8"))
    now = 30.0
    access.check(request())
    with pytest.raises(RequestError, match="more than 2"):
        access.check(request())


def test_where_keys_are_needed_requests_are_counted_for_each_key(tmp_path):
    (tmp_path / "keys").write_text("secret-one\nsecret-two\n")
    access = Access(read_keys(tmp_path / "keys"), 1, Metrics())
    access.check(request(key="secret-one"))
    access.check(request(key="secret-two"))
    with pytest.raises(RequestError, match="more than 1"):
        access.check(request("9.9.9.9", key="secret-one"))
    with pytest.raises(RequestError, match="unknown API key"):
        access.check(request(key="secret-three"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a disk that is always full")
def test_an_access_log_on_a_full_disk_warns_once_until_it_can_be_written_again(tmp_path, caplog):
    path = tmp_path / "access.jsonl"
    log = AccessLog(path)
    for _ in range(2):
        log.write(status=200)
        path.unlink()
        path.symlink_to("/dev/full")
        for _ in range(3):
            log.write(status=200)
        path.unlink()
    assert [record.message for record in caplog.records] == [f"{path}: cannot be written (No space left on device)"] * 2
