"""Train with OpenNMT-py's own command; its log gives the rate. Prints one JSON line."""

from __future__ import annotations

import re
import sys

from common import logged_rate, read_job, report, write_configuration
from opennmt_py_setup import configuration, write_vocabulary


def main() -> None:
    """Run the job."""
    job = read_job()
    folder = write_vocabulary(job)
    values = configuration(job, folder, updates=10_000_000)

    def read_tokens(line: str, seconds: float) -> float | None:
        """Return the target tokens since the previous report; the second number of `bsz` is their mean per step."""
        found = re.search(r"bsz: *[0-9]+/ *([0-9]+)/", line)
        return float(found[1]) * values["report_every"] if found else None

    config = write_configuration(folder / "train.yaml", values)
    command = [sys.executable, "-m", "onmt.bin.train", "-config", str(config)]
    report(["torch", "OpenNMT-py"], **logged_rate(command, read_tokens, job))


if __name__ == "__main__":
    main()
