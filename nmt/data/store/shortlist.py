"""Lexical shortlists: for each source token, the target tokens that it may be translated with. Without numpy.

A search with a shortlist computes only the outputs listed for the tokens of its source, and those allowed for every
source (Jean et al. 2015, section 3.2).
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from safetensors import SafetensorError, deserialize

from nmt.base.checksum import NO_CHECKSUM, find_corruption, write_checksum
from nmt.base.errors import NmtError, RunError
from nmt.base.files import read_at_most, write_atomically
from nmt.base.special_tokens import EOS_ID
from nmt.data.tokens.tokenizer import TokenizerPair

MAX_BYTES = 400_000_000
_NAMES = ("starts", "candidates", "always")


class Shortlist(NamedTuple):
    """Target tokens by source token: token i has `candidates[starts[i] : starts[i + 1]]`."""

    starts: array[int]  # [source vocabulary + 1]
    candidates: array[int]
    always: array[int]  # allowed for every source

    @classmethod
    def from_lists(cls, candidates: Iterable[Iterable[int]], always: Iterable[int]) -> Self:
        """Join the candidates of each source token, in the order of the vocabulary."""
        starts, joined = array("i", [0]), array("i")
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
        from safetensors.numpy import save

        tensors = {name: np.array(part, dtype=np.int32) for name, part in zip(_NAMES, self, strict=True)}
        tensors["tokenizers"] = np.frombuffer(_mark(tokenizers), dtype=np.uint8)
        with write_atomically(path) as partial:
            partial.write_bytes(save(tensors, NO_CHECKSUM))
            write_checksum(partial)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> Self:
        """Read what `save` wrote. RunError if it is missing, damaged, too large, or for other tokenizers."""
        if not path.exists():
            hint = "build one with `nmt shortlist RUN`, or translate without --shortlist"
            raise RunError("this run has no shortlist", path=path, hint=hint)
        hint = "rebuild it with `nmt shortlist RUN`"
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"over {MAX_BYTES:,} bytes")
            if fault := find_corruption(path):
                raise ValueError(fault)
            entries = dict(deserialize(read_at_most(path, MAX_BYTES)))
            loaded = cls(*(_ints(entries, name) for name in _NAMES))
            starts = loaded.starts
            if len(starts) != tokenizers.src.vocab_size + 1 or starts[0] != 0 or starts[-1] != len(loaded.candidates):
                raise ValueError("its parts do not fit together")
            if any(first > last for first, last in pairwise(starts)):
                raise ValueError("its parts run backward")
            for part in (loaded.candidates, loaded.always):
                if part and not 0 <= min(part) <= max(part) < tokenizers.tgt.vocab_size:
                    raise ValueError("it contains invalid tokens")
        except (OSError, SafetensorError, ValueError) as error:
            raise RunError(f"this is not a shortlist, or it is damaged ({error})", path=path, hint=hint) from None
        if bytes(entries.get("tokenizers", {}).get("data", b"")) != _mark(tokenizers):
            raise RunError("this shortlist was built for other tokenizers", path=path, hint=hint)
        return loaded


def refuse_shortlist() -> Shortlist:
    """Raise NmtError, because the model does not come from a run."""
    raise NmtError("this model has no shortlist", hint="shortlists belong to runs: `nmt shortlist RUN`")


def _ints(entries: dict[str, Any], name: str) -> array[int]:
    """Return an array of a file. Raises ValueError if it is missing or does not contain 32-bit integers."""
    entry = entries.get(name)
    if entry is None or entry["dtype"] != "I32":
        raise ValueError(f"{name} is missing")
    found = array("i")
    found.frombytes(entry["data"])
    return found


def _mark(tokenizers: TokenizerPair) -> bytes:
    """Return a hash of both tokenizers, to detect the shortlist of another run."""
    return hashlib.sha256(f"{tokenizers.src.fingerprint} {tokenizers.tgt.fingerprint}".encode()).digest()
