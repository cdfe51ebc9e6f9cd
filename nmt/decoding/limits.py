"""The maximum length of an output. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.base.errors import NmtError
from nmt.config import SearchOptions


def output_limits(
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    max_src_len: int,
    max_tgt_len: int,
    num_tags: int = 0,
) -> list[int]:
    """Return the maximum output length for each source (tokens without eos), eos counted.

    A prefix may be longer than `options` allow. NmtError if it exceeds the model's `max_tgt_len`. The first `num_tags`
    tokens of a prefix are tags, which `options` do not count.
    """
    limits = []
    for source, prefix in zip(sources, prefixes, strict=True):
        if len(prefix) >= max_tgt_len:
            hint = f"the model's maximum output length is {max_tgt_len} tokens, end of sentence included"
            raise NmtError(f"a prefix of {len(prefix)} tokens is too long", hint=hint)
        wanted = options.max_len(min(len(source) + 1, max_src_len)) + min(num_tags, len(prefix))
        limits.append(min(max(wanted, len(prefix) + 1), max_tgt_len))
    return limits
