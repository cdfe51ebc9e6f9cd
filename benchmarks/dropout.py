"""Measure dropout on a CPU: torch's, ours, and a matrix product for comparison. `python benchmarks/dropout.py`."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from nmt.model.kernels.dropout import Dropout

ROUNDS = 15


def milliseconds(work: Callable[[], object]) -> float:
    """Return the milliseconds of one run of `work`."""
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    """Time the three alternately; print the median of each in milliseconds."""
    torch.set_num_threads(2)
    states, hidden, weight = torch.randn(4096, 256), torch.randn(4096, 1024), torch.randn(1024, 256)
    ours = Dropout(0.1).train()
    works: dict[str, Callable[[], object]] = {
        "torch's dropout, 4096 x 1024": lambda: F.dropout(hidden, 0.1),
        "ours, 4096 x 1024": lambda: ours(hidden),
        "product 4096 x 256 x 1024": lambda: F.linear(states, weight),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS + 1):  # the first round is a warm-up
        for name, work in works.items():
            times[name].append(milliseconds(work))
    for name, values in times.items():
        sys.stdout.write(f"{name:<30} {statistics.median(values[1:]):6.1f} ms\n")


if __name__ == "__main__":
    main()
