"""Access control of a server: API keys, and a limit of requests per minute."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request

from nmt.apps.server.metrics import Metrics
from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError
from nmt.base.files import read_at_most, to_json, write_all

log = logging.getLogger(__name__)

_MAX_CLIENTS = 100_000  # whose requests are counted; the least recent ones are dropped
_MAX_BYTES = 10_000_000
_MIN_KEY = 8
_SECONDS = 60.0
_ROUNDING = 1e-6  # of sums of these seconds
KEY_NAME = "nmt_key"  # of a request, in its scope
_SCHEMES = ("bearer", "deepl-auth-key")
_COMMENT = re.compile(r"(?:^|\s)#")
_MAKE_ONE = "make one: openssl rand -hex 16"


class Key(NamedTuple):
    """An API key: the file of its translation memory, if it has one, and its name in logs."""

    memory: str
    name: str


def read_keys(path: Path) -> dict[bytes, Key]:
    """Return the keys in a file, by their hashes.

    There is one key per line, and after a tab its memory; # at the start of a line or after a space is a comment, which
    names the key in logs.
    NmtError if the file cannot be read, or not again, such as a pipe; if it has no key, or has a key of fewer than 8
    characters.
    """
    if path.is_fifo():
        raise NmtError("a pipe, which SIGHUP could not read again", path=path, hint="write the keys into a file")
    try:
        lines = read_at_most(path, _MAX_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise NmtError(f"cannot be read ({error.strerror or error})", path=path) from None
    except ValueError as error:
        raise NmtError(f"not a list of keys ({error})", path=path) from None
    keys = {}
    for number, line in enumerate(lines, 1):
        text, *comment = _COMMENT.split(line, 1)
        key, _, memory = (part.strip() for part in text.partition("\t"))
        if key and len(key) < _MIN_KEY:
            raise NmtError("a key needs at least 8 characters", path=path, line=number, hint=_MAKE_ONE)
        if key:
            name = "".join(comment).strip(" \t#")
            keys[_hashed(key)] = Key(memory, name or _hashed(key).hex()[:8])
    if not keys:
        raise NmtError("contains no key", path=path, hint=f"write one key per line; {_MAKE_ONE}")
    return keys


def _hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Access:
    """Checks keys and limits the requests of each client, with a token bucket of one minute's requests."""

    def __init__(
        self, keys: Mapping[bytes, Key], rate_limit: int, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ):
        self.keys = keys
        self.needs_key = bool(keys)  # also when all of them are revoked
        self._rate_limit = rate_limit
        self._metrics = metrics
        self._clock = clock
        self._full: OrderedDict[bytes | str, float] = OrderedDict()  # when the bucket of each client is full again

    def check(self, request: Request, key: str = "") -> bytes:
        """Check a request by the key in its body or header. RequestError (403, 429) if it is not allowed.

        Return what tells its client from others: the hash of its key; empty if no key is needed.
        """
        key = key or key_beside_body(request)
        hashed = _hashed(key)
        known = self.keys.get(hashed)  # comparing hashes leaks nothing about the keys through timing
        if self.needs_key and known is None:
            self._metrics.refused.labels("key").inc()
            raise RequestError(403, "unknown API key" if key else "this server needs an API key")
        client = b""
        if known is not None:
            client = hashed
            request.scope[KEY_NAME] = known.name
        self.count(request, client)
        return client

    def count(self, request: Request, known: bytes = b"") -> None:
        """Count a request of a `known` client, or of its address. RequestError (429) if these are too many."""
        if not self._rate_limit:
            return
        client = known or (request.client.host if request.client else "")
        now = self._clock()
        full = max(now, self._full.pop(client, now)) + _SECONDS / self._rate_limit
        if (wait := full - now - _SECONDS) > _ROUNDING:
            self._full[client] = full - _SECONDS / self._rate_limit
            self._metrics.refused.labels("rate").inc()
            raise RequestError(429, f"more than {self._rate_limit} requests per minute", retry_after=wait)
        self._full[client] = full
        if len(self._full) > _MAX_CLIENTS:
            self._full.popitem(last=False)


def key_beside_body(request: Request) -> str:
    """Return the key in the header or the query string of a request; empty if there is none."""
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    return (sent.strip() if scheme.lower() in _SCHEMES else "") or request.query_params.get("api_key", "")


class AccessLog:
    """A file with one line of JSON per request: no texts, no keys, no addresses. It may be renamed at any time."""

    def __init__(self, path: Path):
        """Write into `path`, after what is there. NmtError if that fails."""
        self._path = path
        self._fails = False
        try:
            self._append(b"")
        except OSError as error:
            raise NmtError(f"cannot be written ({error.strerror or error})", path=path) from None

    def write(self, **facts: str | float) -> None:
        """Write a line; a full disk loses it, and stops nothing. Of lines lost in a row, the first is warned of."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts}
        try:
            self._append(f"{to_json(line)}\n".encode())
        except OSError as error:
            if not self._fails:
                log.warning("%s: cannot be written (%s)", self._path, error.strerror or error)
            self._fails = True
        else:
            self._fails = False

    def _append(self, content: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            write_all(file, content)
