"""Time the translation of any system: one process, a warm-up, one measured pass."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import report

# Maps texts, and the length to force on each output (None: until eos), to translations and the number of generated
# tokens of each, counting eos if the model generated it.
Translate = Callable[[Sequence[str], Sequence[int] | None], tuple[list[str], list[int]]]

WARM_UP_SENTENCES = 128
WARM_UP_LENGTH = 64  # of forced outputs, which may take minutes


def measure_translation(job: dict[str, Any], translate: Translate, packages: Sequence[str]) -> None:
    """Measure `translate` as the job says and print one JSON line.

    The job's `mode`: `bulk`, all texts at once; `single`, one at a time; `forced`, all outputs of `length` tokens;
    `program`, all texts without warm-up, for the time of the whole program.
    """
    texts = Path(job["src"]).read_text(encoding="utf-8").split("\n")[: job["num_sentences"]]
    lengths = [job["length"]] * len(texts) if job["mode"] == "forced" else job.get("lengths", [])[: len(texts)] or None
    if job["mode"] == "program":
        sys.stdout.write("".join(text + "\n" for text in translate(texts, lengths)[0]))
        return
    measure = _one_at_a_time if job["mode"] == "single" else _all_at_once
    warm_up = texts[:1] if job["mode"] == "single" else texts[:WARM_UP_SENTENCES]
    translate(warm_up, [min(length, WARM_UP_LENGTH) for length in lengths[: len(warm_up)]] if lengths else None)
    report(packages, **measure(texts, lengths, translate, job))


def _all_at_once(
    texts: list[str], lengths: list[int] | None, translate: Translate, job: dict[str, Any]
) -> dict[str, Any]:
    began = time.perf_counter()
    outputs, counts = translate(texts, lengths)
    seconds = time.perf_counter() - began
    if job.get("output"):
        Path(job["output"]).write_text("".join(text + "\n" for text in outputs), encoding="utf-8")
    return {"tokens_per_s": sum(counts) / seconds, "seconds": seconds, "lengths": counts}


def _one_at_a_time(
    texts: list[str], lengths: list[int] | None, translate: Translate, job: dict[str, Any]
) -> dict[str, Any]:
    milliseconds = []
    for i, text in enumerate(texts):
        began = time.perf_counter()
        translate([text], None if lengths is None else [lengths[i]])
        milliseconds.append(1000 * (time.perf_counter() - began))
    return percentiles(milliseconds)


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the mean."""
    ordered = sorted(milliseconds)
    middle, high = ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))]
    return {"p50_ms": middle, "p95_ms": high, "mean_ms": sum(ordered) / len(ordered)}
