from collections.abc import Sequence
from typing import Any

def kernels() -> list[str]: ...
def load(kernel: str, config: Sequence[int], arrays: Sequence[Any], mapped: bool, /) -> object: ...
def shortlist(model: object, starts: Any, candidates: Any, always: Any, /) -> object: ...
def translate(
    model: object,
    /,
    *,
    sources: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: Any,
    max_rows: int,
    numbers: Any,
    divisors: Any,
    never_generated: Sequence[int],
    shortlist: object | None = None,
    drafts: Sequence[Sequence[int]] | None = None,
    terms: tuple[Sequence[Sequence[int]], bytes] | None = None,
    is_helped: bool = False,
    with_scores: bool = True,
    num_tags: int = 0,
    attention_layer: int = -1,
    attention_head: int = -1,
) -> object: ...
def run(job: object, /) -> bool: ...
def help(job: object, /) -> None: ...
def results(job: object, /) -> list[Any]: ...
