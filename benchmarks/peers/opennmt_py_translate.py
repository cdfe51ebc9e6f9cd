"""Translate with OpenNMT-py's own command, timed by its own clock; prints one JSON line.

Its weights come from three training steps, so every output is forced to a fixed length.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from common import head, log_figure, read_job, report_forced, write_configuration
from opennmt_py_setup import configuration, write_vocabulary

STEPS = 3


def main() -> None:
    """Run the job."""
    job = read_job()
    folder = write_vocabulary(job)
    model = folder / f"model_step_{STEPS}.pt"
    if not model.exists():
        config = write_configuration(folder / "train.yaml", configuration(job, folder, STEPS))
        subprocess.run([sys.executable, "-m", "onmt.bin.train", "-config", str(config)], check=True, stdout=sys.stderr)
    src = head(Path(job["ids"]), job["num_sentences"], folder / "source")
    length, batch = str(job["length"]), "1" if job["mode"] == "single" else str(job["batch"])
    command = [sys.executable, "-m", "onmt.bin.translate", "-model", str(model), "-src", str(src)]
    command += ["-output", str(folder / "output"), "-beam_size", "1", "-batch_size", batch, "-batch_type", "sents"]
    command += ["-min_length", length, "-max_length", length, "-max_length_ratio", "0", "-report_time"]
    # The checkpoint contains more than tensors, but is safe: it was created three lines above.
    environment = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    seconds = log_figure(command, re.compile(r"Total translation time \(s\): *([0-9.]+)"), environment)
    report_forced(job, ["torch", "OpenNMT-py"], seconds)


if __name__ == "__main__":
    main()
