"""Write the files of a cleaned corpus: the kept pairs, and the rejected pairs with their rules."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from nmt.base.errors import counted
from nmt.config.data import DataConfig
from nmt.data.check.rules import RULES, rules_in
from nmt.data.check.stream import CheckedPairs
from nmt.data.read.corpus import SentencePair, path_of
from nmt.data.read.lines import as_cell, open_new_text


class Outputs:
    """The output files, which appear when the stack that opened them closes without an error.

    Both are tab-separated; a tab inside a sentence becomes a space. Files that end in `.gz`, `.xz` or `.zst` are
    compressed.
    """

    def __init__(self, stack: ExitStack, data: DataConfig, *, kept: Path, rejected: Path | None):
        self.num_kept = self.num_rejected = 0
        self.by_rule = dict.fromkeys(RULES, 0)
        self._corpora = data.corpora("train")
        self._kept = open_new_text(stack, kept)
        self._rejected = None if rejected is None else open_new_text(stack, rejected)

    def write(self, chunk: CheckedPairs) -> None:
        """Write the pairs of a chunk to the files where they belong."""
        for pair, flags in zip(chunk.pairs, (chunk.flags & chunk.bits_on).tolist(), strict=True):
            if flags:
                self._reject(pair, flags)
            else:
                self.num_kept += 1
                self._kept.write(f"{as_cell(pair.src)}\t{as_cell(pair.tgt)}\n")

    def _reject(self, pair: SentencePair, flags: int) -> None:
        self.num_rejected += 1
        rules = list(rules_in(flags))
        for rule in rules:
            self.by_rule[rule] += 1
        if self._rejected is not None:
            names = ",".join(rule.name for rule in rules)
            place = f"{as_cell(str(path_of(self._corpora, pair)))}:{pair.line}"
            self._rejected.write(f"{names}\t{place}\t{as_cell(pair.src)}\t{as_cell(pair.tgt)}\n")


def describe_counts(outputs: Outputs) -> str:
    """Describe how many pairs were kept, and how many each rule rejected."""
    total = outputs.num_kept + outputs.num_rejected
    rules = ", ".join(f"{count:,} {rule.name}" for rule, count in outputs.by_rule.items() if count)
    return f"kept {outputs.num_kept:,} of {counted(total, 'pair')}" + (f"; rejected: {rules}" if rules else "")
