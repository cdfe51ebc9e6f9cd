"""Train with Joey NMT's own command; its log gives the rate. Prints one JSON line."""

from __future__ import annotations

import re
import sys

from common import logged_rate, read_job, report, write_configuration
from joeynmt_setup import configuration, write_data


def read_tokens(line: str, seconds: float) -> float | None:
    """Return the target tokens since the previous report; Joey NMT reports them per second."""
    found = re.search(r"Tokens per Sec: *([0-9]+)", line)
    return float(found[1]) * seconds if found else None


def main() -> None:
    """Run the job."""
    job = read_job()
    folder = write_data(job)
    config = write_configuration(folder / "train.yaml", configuration(job, folder, updates=10_000_000))
    command = [sys.executable, "-m", "joeynmt", "train", str(config), "--skip-test"]
    report(["torch", "joeynmt"], **logged_rate(command, read_tokens, job))


if __name__ == "__main__":
    main()
