"""Translate with Joey NMT's own command, timed by its own clock; prints one JSON line.

Its weights come from three training steps, so every output is forced to a fixed length.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from common import head, log_figure, read_job, report_forced, write_configuration
from joeynmt_setup import configuration, write_data

STEPS = 3


def main() -> None:
    """Run the job."""
    job = read_job()
    folder = write_data(job)
    values = configuration(job, folder, STEPS)
    for side in ("src", "tgt"):
        head(folder / f"valid.{side}", 10, folder / f"valid.{side}")  # it is translated after training
    if not list((folder / "model").glob("*.ckpt")):
        config = write_configuration(folder / "train.yaml", values)
        command = [sys.executable, "-m", "joeynmt", "train", str(config), "--skip-test"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    head(Path(job["ids"]), job["num_sentences"], folder / "source.src")
    values["data"] |= {"test": str(folder / "source"), "dev": None}
    values["testing"] |= {
        "load_model": str(min((folder / "model").glob("*.ckpt"))),
        "batch_size": 1 if job["mode"] == "single" else job["batch"],
        "min_output_length": job["length"],
        "max_output_length": job["length"],
        "eval_metrics": [],
    }
    config = write_configuration(folder / "translate.yaml", values)
    command = [sys.executable, "-m", "joeynmt", "test", str(config), "-o", str(folder / "output")]
    seconds = log_figure(command, re.compile(r"Generation took ([0-9.]+)\[sec\]"), dict(os.environ))
    report_forced(job, ["torch", "joeynmt"], seconds)


if __name__ == "__main__":
    main()
