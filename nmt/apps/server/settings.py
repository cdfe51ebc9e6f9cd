"""The settings of a server, set by the options of `nmt serve`, and its fixed limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.decoding.engines.interface import DeviceName, PrecisionName

MAX_ALTERNATIVES = 10  # maximum number of alternatives per request. The beam has one more hypothesis

MAX_TERMS = 1000  # maximum number of glossary terms per request

MAX_CODE = 35  # maximum number of characters of a language code


@dataclass(frozen=True)
class Settings:
    """Addresses and limits of one server, and where it computes."""

    host: str = "127.0.0.1"
    port: int = 5000
    char_limit: int = 20_000  # maximum characters per request
    batch_limit: int = 500  # maximum texts per request
    file_limit: int = 2_000_000  # maximum bytes and characters per document; 0: documents are not accepted
    rate_limit: int = 0  # maximum requests per minute per client; 0: no limit
    timeout: float = 60.0  # seconds to answer a request that is not streamed, and to read or write a body
    allow_origin: str = ""  # the web pages of this origin may use the server; *: all pages
    corrections: Path | None = None  # TMX file that collects corrections; None: they are not accepted
    access_log: Path | None = None  # file with one line of JSON per request
    tm: str = ""  # TMX file, the translation memory of all clients that have none of their own
    device: DeviceName = "auto"
    precision: PrecisionName = "auto"
