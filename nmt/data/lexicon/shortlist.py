"""Lexical shortlists: for each source token, the target tokens that it may be translated with. Without numpy.

A search with a shortlist computes only the outputs listed for the tokens of its source, and those allowed for every
source (Jean et al. 2015, section 3.2).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from nmt.base.errors import NmtError, RunError
from nmt.base.special_tokens import EOS_ID
from nmt.data.lexicon.stored_table import entry_data, load_table, save_table
from nmt.data.tokens.tokenizer import TokenizerPair

_NAMES = ("starts", "candidates", "always")


class Shortlist(NamedTuple):
    """Target tokens by source token: token i has `candidates[starts[i] : starts[i + 1]]`."""

    starts: array[int]  # [source vocabulary + 1]
    candidates: array[int]
    always: array[int]  # allowed for every source

    @classmethod
    def from_lists(cls, candidates: Iterable[Iterable[int]], always: Iterable[int]) -> Self:
        """Join the candidates of each source token, in the order of the vocabulary."""
        starts = array("i", [0])
        joined = array("i")
        for tokens in candidates:
            joined.extend(tokens)
            starts.append(len(joined))
        return cls(starts, joined, array("i", always))

    def outputs(self, source: Sequence[int], prefix: Sequence[int] = ()) -> list[int]:
        """Return the target tokens for `source` (ids without special ones), sorted, with eos and those of `prefix`."""
        tokens = {EOS_ID, *self.always, *prefix}
        for token in source:
            tokens.update(self.candidates[self.starts[token] : self.starts[token + 1]])
        return sorted(tokens)

    def save(self, path: Path, tokenizers: TokenizerPair) -> None:
        """Write the shortlist with a checksum and a hash of its tokenizers, atomically. Raises OSError."""
        import numpy as np  # slow to import, and not needed to translate

        arrays = {name: np.array(part, dtype=np.int32) for name, part in zip(_NAMES, self, strict=True)}
        save_table(path, arrays, tokenizers)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> Shortlist:
        """Read what `save` wrote. RunError if it is missing, damaged, too large, or for other tokenizers."""
        if not path.exists():
            raise RunError(
                "this run has no shortlist",
                path=path,
                hint="build one with `nmt shortlist RUN`, or translate with decoding.shortlist false",
            )

        def parse(entries: dict[str, Any]) -> Shortlist:
            loaded = cls(*(array("i", entry_data(entries, name, "I32")) for name in _NAMES))
            starts = loaded.starts
            if len(starts) != tokenizers.src.vocab_size + 1 or starts[0] != 0 or starts[-1] != len(loaded.candidates):
                raise ValueError("its parts do not fit together")
            if any(first > last for first, last in pairwise(starts)):
                raise ValueError("its parts run backward")
            for part in (loaded.candidates, loaded.always):
                if part and not 0 <= min(part) <= max(part) < tokenizers.tgt.vocab_size:
                    raise ValueError("it contains invalid tokens")
            return loaded

        return load_table(path, tokenizers, ("shortlist", "rebuild it with `nmt shortlist RUN`"), parse)


def refuse_shortlist() -> Shortlist:
    """Raise NmtError, because the model does not come from a run."""
    raise NmtError("this model has no shortlist", hint="shortlists belong to runs: `nmt shortlist RUN`")
