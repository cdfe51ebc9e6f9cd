"""Synthetic pairs: their candidates, kept if the command is stopped, and the corpus made from them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NamedTuple, cast

from nmt.apps.recipes.candidates import Candidates
from nmt.apps.recipes.selection import Kept, Limits, Selection
from nmt.base.errors import DataError, NmtError, UsageError
from nmt.base.files import flush, to_json
from nmt.base.languages import Direction
from nmt.base.partial_file import PartialFile, Settings
from nmt.data.read.lines import MAX_LINE_BYTES, as_cell, open_new_text

_MAX_CANDIDATES_BYTES = 64 * MAX_LINE_BYTES  # one given line with its outputs, most characters written as escapes

Form = Literal["tsv", "jsonl"]
FORMS: tuple[Form, ...] = ("tsv", "jsonl")


def form_of(path: Path) -> Form:
    """Return the format given by the extension of the corpus. NmtError if it is unknown."""
    name = path.name.removesuffix(".gz")
    for form in FORMS:
        if name.endswith(f".{form}"):
            return form
    raise UsageError(f"--output {path}: the name must end in .tsv, .jsonl, .tsv.gz or .jsonl.gz")


class CandidateFile(PartialFile):
    """FILE.partial, with one line of candidates per given line, until FILE is made from them."""

    def __init__(self, path: Path, settings: Settings, *, resume: bool):
        """Start `path`, or continue it if `resume` is given. NmtError as in `PartialFile`, or if it is a folder."""
        if path.exists() and not path.is_file():
            raise NmtError("cannot be written: it is not a regular file", path=path, hint="name another file")
        super().__init__(path, settings, 1, resume=resume)

    def read(self) -> Iterator[Candidates]:
        """Yield the candidates of each line so far. NmtError if a line is damaged. Only one reader at a time."""
        # Read through the open file: on Windows, its lock blocks any other reader, even in this process.
        reader = io.BufferedReader(cast(io.RawIOBase, self._file))
        try:
            reader.seek(0)
            for number in range(1, self.num_texts + 1):
                try:
                    yield Candidates.from_line(reader.readline(_MAX_CANDIDATES_BYTES))
                except ValueError:
                    raise DataError(
                        "this line is damaged", path=self.partial, line=number, hint="delete it to start over"
                    ) from None
        finally:
            reader.detach()
            self._file.seek(0, io.SEEK_END)

    def finish(self) -> None:
        """Remove the candidates, because FILE is complete."""
        self._file.close()
        self.partial.unlink()
        self.settings_file.unlink(missing_ok=True)
        flush(self.path.parent)


class CorpusWriter(NamedTuple):
    """Writes pairs as tab-separated text with the header `src`, `tgt`, or as JSON Lines."""

    path: Path
    form: Form
    direction: Direction  # of the model
    forward: bool  # the given text is the source of a pair, not its target

    @property
    def languages(self) -> Direction:
        """The direction of the model to be trained on the pairs."""
        return self.direction if self.forward else Direction(self.direction.tgt, self.direction.src)

    def write(self, file: CandidateFile, limits: Limits) -> Selection:
        """Write the pairs of `file` that meet `limits`; return the selection, with its counts."""
        selection = Selection(file.read, limits)
        with ExitStack() as stack:
            text = open_new_text(stack, self.path)
            if self.form == "tsv":
                text.write("src\ttgt\n")
            text.writelines(map(self._render, selection.pairs()))
        return selection

    def _render(self, pair: Kept) -> str:
        given = pair.text.strip()
        output = pair.candidate.output
        src, tgt = (given, output) if self.forward else (output, given)
        if self.form == "tsv":
            return "\t".join(as_cell(text).replace("\r", " ") for text in (src, tgt)) + "\n"
        return to_json({"src": src, "tgt": tgt, "score": pair.candidate.score, "line": pair.line}) + "\n"

    def describe_training(self) -> str:
        """Return the configuration lines for training on the corpus."""
        src, tgt = self.languages
        columns = "columns: [src, tgt], quoting: false, " if self.form == "tsv" else ""
        tag = "<st>" if self.forward else "<bt>"
        lines = [
            "data:",
            f"  src_lang: {src}",
            f"  tgt_lang: {tgt}",
            "  train:",
            "    - {…, weight: 1}  # your parallel corpus",
            f"    - {{{self.form}: {to_json(str(self.path))}, {columns}tag: {tag}, weight: 1}}",
        ]
        return "\n".join(f"  {line}" for line in lines)
