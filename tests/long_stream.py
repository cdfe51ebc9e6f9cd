"""A long stream through `nmt translate`: constant memory, order, and an early first output. Linux only (/proc)."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

LIMIT_MB = 50
FIRST_BEFORE = 1000


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024 / 1e6


class Feeder(threading.Thread):
    """Writes lines to a process and counts them; pauses before line 1,000 until the first output has come."""

    def __init__(self, stream: IO[bytes], texts: list[str], count: int):
        super().__init__(daemon=True)
        self.stream, self.texts, self.count = stream, texts, count
        self.given = 0
        self.answered = threading.Event()
        self.was_late = False

    def run(self) -> None:
        """Write all lines."""
        for i in range(self.count):
            if i == FIRST_BEFORE - 1:
                self.stream.flush()
                self.was_late = not self.answered.wait(120)
            self.stream.write(self.texts[i % len(self.texts)].encode() + b"\n")
            self.given += 1
            if i < FIRST_BEFORE:
                self.stream.flush()
        self.stream.close()


def check(run: str, num_lines: int, early: int) -> dict[str, Any]:
    """Feed `num_lines` lines; memory is compared between line `early` and the last."""
    texts = [" ".join(str((7 * i + j) % 10) for j in range(1 + i % 5)) for i in range(97)]
    command = [sys.executable, "-m", "nmt", "translate", "--model", run]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    feeder = Feeder(process.stdin, texts, num_lines)
    feeder.start()
    given_at_first = 0
    first_outputs: list[bytes] = []
    early_mb = late_mb = 0.0
    same = True
    number = 0
    for line in process.stdout:
        number += 1
        if number == 1:
            given_at_first = feeder.given
            feeder.answered.set()
        if number <= len(texts):
            first_outputs.append(line)
        else:  # the input repeats, so the output must repeat too; this reveals a lost or moved line
            same = same and line == first_outputs[(number - 1) % len(texts)]
        if number == early:
            early_mb = resident_mb(process.pid)
        if number == num_lines - 1:
            late_mb = resident_mb(process.pid)
    process.stdout.close()
    return {
        "lines": num_lines,
        "lines_out": number,
        "in_order": same,
        "given_when_first_output_came": given_at_first,
        "first_output_was_late": feeder.was_late,
        "resident_mb_early": round(early_mb, 1),
        "resident_mb_late": round(late_mb, 1),
        "grew_mb": round(late_mb - early_mb, 1),
        "exit_code": process.wait(),
    }


def holds(found: dict[str, Any]) -> bool:
    """Return whether every guarantee holds."""
    whole = found["lines_out"] == found["lines"] and found["in_order"] and found["exit_code"] == 0
    return whole and not found["first_output_was_late"] and found["grew_mb"] < LIMIT_MB
