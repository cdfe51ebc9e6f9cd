from collections.abc import Sequence
from typing import Any

def kernels() -> list[str]: ...
def load(kernel: str, config: Sequence[int], arrays: Sequence[Any], mapped: bool, /) -> object: ...
def shortlist(model: object, starts: Any, candidates: Any, always: Any, /) -> object: ...
def translate(
    model: object,
    sources: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: tuple[Any, ...],
    max_rows: int,
    numbers: Any,
    divisors: Any,
    never_generated: Sequence[int],
    shortlist: object | None,
    drafts: Sequence[Sequence[int]] | None,
    is_helped: bool,
    terms: tuple[Sequence[Sequence[int]], bytes] | None = None,
    /,
) -> object: ...
def run(job: object, /) -> bool: ...
def help(job: object, /) -> None: ...
def results(job: object, /) -> list[Any]: ...
