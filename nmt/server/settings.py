"""The settings of a server; each option of `nmt serve` sets one."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ALTERNATIVES = 10
"""Alternatives that one request may ask for: the search keeps a beam of one more."""


MAX_TERMS = 1000
"""Terms of the glossary of one request."""


@dataclass(frozen=True)
class Settings:
    """Limits and addresses of one server."""

    host: str = "127.0.0.1"
    port: int = 5000
    memory_limit: int = 0  # bytes of weights, as on the disk, that are loaded at once; 0: no limit
    batch_tokens: int = 4096  # source tokens that are translated together
    batch_wait: float = 0.0  # seconds that an idle engine waits for more requests
    queue_tokens: int = 100_000  # source tokens that wait for a model; beyond, requests get 429
    char_limit: int = 20_000  # characters of one request
    batch_limit: int = 500  # texts of one request
    file_limit: int = 2_000_000  # bytes and characters of one document; 0: documents are not translated
    rate_limit: int = 0  # requests per minute and client; 0: no limit
    timeout: float = 60.0  # seconds to answer a request that is not streamed, and to read or write a body
    grace: float = 30.0  # seconds that running requests have to finish after SIGTERM
    connections: int = 20_000  # open connections; beyond, requests get 503
    allow_origin: str = ""  # the web pages of this origin may use the server; *: all pages

    @property
    def body_limit(self) -> int:
        """Bytes of one request: each character takes up to 12 bytes in JSON or in a form."""
        return 12 * self.char_limit + 64 * self.batch_limit + 16_384
