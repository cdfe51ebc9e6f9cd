"""The settings of a server, set by the options of `nmt serve`."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ALTERNATIVES = 10
"""Maximum number of alternatives per request. The beam has one more hypothesis."""


MAX_TERMS = 1000
"""Maximum number of glossary terms per request."""


@dataclass(frozen=True)
class Settings:
    """Limits and addresses of one server."""

    host: str = "127.0.0.1"
    port: int = 5000
    memory_limit: int = 0  # maximum bytes of loaded weights, as on disk; 0: no limit
    batch_tokens: int = 4096  # maximum source tokens per batch
    batch_wait: float = 0.0  # seconds that an idle engine waits for more requests
    queue_tokens: int = 100_000  # maximum source tokens queued per model; beyond it, requests get 429
    char_limit: int = 20_000  # maximum characters per request
    batch_limit: int = 500  # maximum texts per request
    file_limit: int = 2_000_000  # maximum bytes and characters per document; 0: documents are not accepted
    rate_limit: int = 0  # maximum requests per minute per client; 0: no limit
    timeout: float = 60.0  # seconds to answer a request that is not streamed, and to read or write a body
    grace: float = 30.0  # seconds for running requests to finish after SIGTERM
    connections: int = 20_000  # maximum open connections; beyond it, requests get 503
    allow_origin: str = ""  # the web pages of this origin may use the server; *: all pages

    @property
    def body_limit(self) -> int:
        """The maximum bytes per request: each character takes up to 12 bytes in JSON or in a form."""
        return 12 * self.char_limit + 64 * self.batch_limit + 16_384
