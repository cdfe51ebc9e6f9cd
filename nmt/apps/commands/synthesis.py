"""The work of `nmt synthesize`: translate lines to candidates, which outlive the command, and select a corpus."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from nmt.apps.commands import streams
from nmt.apps.commands.documents import refuse_corpus
from nmt.apps.commands.inputs import read_standard_input, read_text_file
from nmt.apps.commands.outputs import Settings, refuse_replacing, tell_what_is_kept
from nmt.apps.commands.streams import exit_code_of, stop_on_sigterm
from nmt.apps.commands.synthetic_corpus import CandidateFile, CorpusWriter
from nmt.apps.recipes.candidates import candidates_of, fault_of_text
from nmt.apps.recipes.selection import Limits
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import RunDir
from nmt.base.progress import Progress
from nmt.config import SearchOptions
from nmt.data.read.lines import count_lines, open_text
from nmt.translation.blocks import BlockTranslator, Request
from nmt.translation.stream import grow_blocks

log = logging.getLogger(__name__)

STANDARD_INPUT = "-"


class Synthesis(NamedTuple):
    """The input, the output and the options of one command."""

    input: str  # a path, or STANDARD_INPUT
    corpus: CorpusWriter
    limits: Limits
    request: Request

    def run(self, translator: BlockTranslator, identity: Settings, *, resume: bool) -> None:
        """Translate, and write the corpus. If interrupted, say how to continue.

        `identity` identifies the model. NmtError if lines of an interrupted command would be lost, or continued with
        other options, another model or another input.
        """
        settings = {**self._settings(translator), **identity}
        try:
            with stop_on_sigterm(), CandidateFile(self.corpus.path, settings, resume=resume) as file:
                try:
                    self._translate(translator, file)
                    log.info("writing %s", self.corpus.path)
                    selection = self.corpus.write(file, self.limits)
                except BaseException as error:
                    tell_what_is_kept([file], error)
                    raise
        except KeyboardInterrupt as stop:
            raise typer.Exit(exit_code_of(stop)) from None
        log.info(selection.describe())
        if selection.num_kept:
            log.info("to train on it, with a tag before each source:\n%s", self.corpus.describe_training())

    def log_plan(self) -> None:
        """Log which side is the given text, and how the model translates."""
        src, tgt = self.corpus.languages
        name = "standard input" if self.input == STANDARD_INPUT else Path(self.input).name
        given, output = f"a line of {name}", "the model's output"
        kind, other = ("self-training", "") if self.corpus.forward else ("back-translation", "; --forward swaps them")
        sides = (given, output) if self.corpus.forward else (output, given)
        log.info("%s: src (%s) is %s, tgt (%s) is %s%s", kind, src, sides[0], tgt, sides[1], other)
        log.info("search: %s", describe_search(self.request.options))

    def _settings(self, translator: BlockTranslator) -> Settings:
        """Return the options that determine the corpus."""
        languages = {"to": self.request.to, "from": self.request.from_}
        return {
            **self.request.options.model_dump(),
            "precision": translator.precision,
            "forward": self.corpus.forward,
            **{name: value for name, value in self.limits._asdict().items() if name != "allowed"},
            "allow": sorted(self.limits.allowed),
            **{name: code for name, code in languages.items() if code is not None},
        }

    def _translate(self, translator: BlockTranslator, file: CandidateFile) -> None:
        """Add the candidates of the lines that are not finished."""
        lines = read_standard_input() if self.input == STANDARD_INPUT else read_text_file(Path(self.input))
        if file.num_texts:
            file.skip_finished(lines, "standard input" if self.input == STANDARD_INPUT else self.input)
            log.info("resuming after %s lines", f"{file.num_texts:,}")
        given = deque[str]()
        blocks = grow_blocks(_fit_to_translate(lines, given))
        with self._progress(file.num_texts) as progress:
            for _, translations in translator.translate_blocks(blocks, self.request, file.num_texts + 1):
                found = (candidates_of(given.popleft(), translation) for translation in translations)
                file.write("".join(candidates.to_line() for candidates in found))
                progress.add(len(translations))

    def _progress(self, num_done: int) -> Progress:
        """Return a bar on a terminal, log lines elsewhere."""
        on_terminal = sys.stderr.isatty()
        total = count_lines(Path(self.input)) if Path(self.input).is_file() else None
        return Progress(total=total, start=num_done, bar=on_terminal, log_lines=not on_terminal)


def check_files(name: str, output: Path, models: list[RunDir] | ExportDir) -> None:
    """Raise NmtError if the file `name` cannot be opened, or `output` would replace an input. Pipes are not opened."""
    if name != STANDARD_INPUT:
        refuse_corpus(Path(name))
    if name != STANDARD_INPUT and not Path(name).is_fifo():
        open_text(Path(name)).close()
    refuse_replacing([output], [streams.STANDARD_INPUT if name == STANDARD_INPUT else Path(name)], models)


def describe_search(options: SearchOptions) -> str:
    """Describe the search in words."""
    if options.rerank != "none":
        best = f", the {options.num_hypotheses} best" if options.num_hypotheses > 1 else ", the best"
        return f"{describe_search(options.of_candidates())}{best} by {options.rerank}"
    if options.sample:
        limits = [f"top {options.top_k:,}"] if options.top_k else []
        limits += [f"top p {options.top_p:g}"] if options.top_p < 1 else []
        found = ", ".join([f"sampling at temperature {options.temperature:g}", *limits, f"seed {options.seed}"])
    else:
        found = "greedy" if options.beam_size == 1 else f"beam {options.beam_size}"
    count = options.num_hypotheses
    return found + (f", {count} outputs per line" if count > 1 else "")


def _fit_to_translate(lines: Iterable[str], given: deque[str]) -> Iterator[str]:
    """Yield each line that becomes a pair, and "" for the others; append all lines to `given`."""
    for line in lines:
        given.append(line)
        yield "" if fault_of_text(line) else line
