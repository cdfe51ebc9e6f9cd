"""Show the progress of a command: a bar on a terminal, otherwise a log line every 30 seconds."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger(__name__)

LOG_SECONDS = 30.0


@dataclass(kw_only=True)
class Progress:
    """Count texts, called `unit`, from `start`, up to `total` if known.

    `bar` is for a terminal, `log_lines` for a file; without either it shows nothing.
    """

    total: int | None = None
    start: int = 0
    bar: bool = False
    log_lines: bool = False
    unit: str = "lines"

    def __post_init__(self) -> None:
        self.count = self.start
        self._began = self._logged = time.monotonic()
        self._bar: tqdm[NoReturn] | None = None
        if self.bar:
            from tqdm import tqdm

            unit = f" {self.unit}"
            self._bar = tqdm(total=self.total, initial=self.start, unit=unit, file=sys.stderr, mininterval=0.5)

    def add(self, count: int) -> None:
        """Count `count` more texts."""
        self.count += count
        if self._bar is not None:
            self._bar.update(count)
        now = time.monotonic()
        if self.log_lines and now - self._logged >= LOG_SECONDS:
            self._logged = now
            rate = (self.count - self.start) / (now - self._began)
            total = "" if self.total is None else f" of {self.total:,}"
            log.info(f"{self.count:,}{total} {self.unit} translated, {rate:,.1f} {self.unit}/s")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
