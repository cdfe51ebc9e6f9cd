"""Output files that keep finished lines if the command is stopped, so that `--resume` can continue after them.

While FILE is being written, it is called FILE.partial, and FILE.partial.json beside it holds the settings. FILE itself
appears, or is replaced, when it is complete.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self, cast

from nmt.base.errors import DataError, NmtError
from nmt.base.files import flush, read_json_object, remove_leftovers, try_lock, write_all, write_text

log = logging.getLogger(__name__)

PARTIAL, PARTIAL_SETTINGS = ".partial", ".partial.json"  # added to the name of a file
_CHUNK_BYTES = 1 << 20
_MAX_SETTINGS_BYTES = 1_000_000
_SOURCES = "sources"  # key of the settings file

Settings = Mapping[str, object]  # what, together with the input, determines the contents of a file; as JSON values


class PartialFile:
    """An unfinished file, named with the suffix `.partial` and locked while it is being written."""

    def __init__(self, path: Path, settings: Settings, lines_per_text: int, *, resume: bool):
        """Start writing `path`, or continue it if `resume` is given. Links are followed.

        NmtError if another process is writing it, if finished lines of an interrupted command would be lost, or if they
        were written with other settings.
        """
        self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.partial = self.path.with_name(self.path.name + PARTIAL)
        self.settings_file = self.path.with_name(self.path.name + PARTIAL_SETTINGS)
        self._settings = json.loads(json.dumps(dict(settings)))
        self._num_sources = 0
        self._sources = sha256()
        self.sources: object = None  # a checksum of the source lines whose texts are written, as JSON
        self._lines_per_text = lines_per_text
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.partial) and not (self.partial.is_file() and not self.partial.is_symlink()):
            raise NmtError("not a regular file", path=self.partial, hint="delete it, or choose another output file")
        self._file = cast(BinaryIO, open(self.partial, "a+b", buffering=0))  # noqa: SIM115
        try:
            self._lock()
            num_lines = self._count_lines()
            self.num_texts = num_lines // lines_per_text
            if num_lines and resume:
                self._check_settings()
            elif num_lines:
                raise NmtError(
                    f"holds {num_lines:,} lines of an interrupted run",
                    path=self.partial,
                    hint="continue that run with --resume, or delete the file to start over",
                )
            self.truncate(self.num_texts)
            if not num_lines:
                try:
                    self._write_settings()
                except OSError:  # such as a full disk
                    self.interrupt()
                    raise
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        is_ours = True
        with suppress(OSError):  # a file system without locks, or the file got its final name in the meantime
            is_ours = try_lock(self._file.fileno())
        with suppress(FileNotFoundError):
            if is_ours and os.path.samestat(os.fstat(self._file.fileno()), self.partial.stat()):
                return
        raise NmtError("another process is writing this file", path=self.partial, hint="wait until it ends")

    def _check_settings(self) -> None:
        """Raise NmtError if finished lines would be continued with other settings."""
        try:
            before = read_json_object(self.settings_file, _MAX_SETTINGS_BYTES)
        except NmtError:
            raise NmtError(
                "the settings of the finished lines cannot be read",
                path=self.settings_file,
                hint=f"delete {self.partial.name} to start over",
            ) from None
        self.sources = before.pop(_SOURCES, None)
        for name in sorted({*before, *self._settings}):
            if before.get(name) != self._settings.get(name):
                raise NmtError(
                    f"was written with {name} {before.get(name)}, not {self._settings.get(name)}",
                    path=self.partial,
                    hint="resume with the same input, model and options, or delete the file to start over",
                )

    def _write_settings(self) -> None:
        sources = {} if self.sources is None else {_SOURCES: self.sources}
        text = json.dumps({**self._settings, **sources}, indent=2, ensure_ascii=False) + "\n"
        write_text(self.settings_file, text)

    def _checksum(self) -> dict[str, object]:
        return {"lines": self._num_sources, "sha256": self._sources.hexdigest()}

    def _count_lines(self) -> int:
        self._file.seek(0)
        return sum(chunk.count(b"\n") for chunk in iter(lambda: self._file.read(_CHUNK_BYTES), b""))

    def truncate(self, num_texts: int) -> None:
        """Keep the lines of the first `num_texts` texts."""
        self._file.seek(0)
        reader = io.BufferedReader(cast(io.RawIOBase, self._file))
        end = sum(map(len, islice(reader, num_texts * self._lines_per_text)))
        reader.detach()
        self._file.seek(end)
        self._file.truncate()
        self.num_texts = num_texts

    def skip_finished(self, lines: Iterator[str], name: str) -> None:
        """Skip the source lines whose texts are written. DataError if there are fewer, or others."""
        hint = "resume with the same input, or delete the .partial file to start over"
        num_checked = self.sources.get("lines") if isinstance(self.sources, dict) else None
        for line in islice(lines, self.num_texts):
            self._add_sources([line])
            if self._num_sources == num_checked and self._checksum() != self.sources:
                raise DataError(
                    f"its first {num_checked:,} lines are not those that were translated", path=name, hint=hint
                )
        if self._num_sources < self.num_texts:
            raise DataError(
                f"only {self._num_sources:,} lines, but {self.num_texts:,} are translated already", path=name, hint=hint
            )

    def _add_sources(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._sources.update(line.encode("utf-8", errors="surrogatepass") + b"\n")
            self._num_sources += 1

    def write(self, lines: str, sources: Sequence[str] = ()) -> None:
        """Append whole lines, the texts of the lines `sources`. NmtError if the disk is full or broken."""
        try:
            write_all(self._file, lines.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            raise NmtError(
                f"cannot be written ({error.strerror or error})",
                path=self.partial,
                hint="the lines written so far are kept; free some space, then continue with --resume",
            ) from None
        self.num_texts += lines.count("\n") // self._lines_per_text
        if sources:
            self._add_sources(sources)
            self.sources = self._checksum()

    def finish(self) -> None:
        """Rename the finished file to its final name."""
        self._file.close()
        flush(self.partial)
        os.replace(self.partial, self.path)
        self.settings_file.unlink(missing_ok=True)
        remove_leftovers(self.path.parent, self.settings_file.name)  # of a process that ended while it wrote them
        flush(self.path.parent)

    def interrupt(self) -> None:
        """Close the file, and store `sources` with its settings; remove a file without texts."""
        self._file.close()
        if not self.num_texts:
            self.partial.unlink(missing_ok=True)
            self.settings_file.unlink(missing_ok=True)
        elif self.sources is not None:
            with suppress(OSError):  # a full disk: the input is then not compared
                self._write_settings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self.finish()
            return
        self.interrupt()
        # An error in the data would stop the same command again.
        if self.num_texts and not issubclass(kind, DataError):
            log.info(f"{self.num_texts:,} lines are kept in {self.partial}\n  Continue with: {_how_to_resume()}")


def _how_to_resume() -> str:
    """Return the command that resumes what this process does; of another program, only the argument is known."""
    program, *arguments = sys.argv
    if Path(program).stem != "nmt" and Path(program).parts[-2:] != ("nmt", "__main__.py"):
        return "the same call and resume=True"
    is_told = not {"--resume", "--overwrite"}.isdisjoint(arguments)
    return f"nmt {shlex.join(arguments if is_told else [*arguments, '--resume'])}"
