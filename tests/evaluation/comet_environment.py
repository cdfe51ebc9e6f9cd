"""A real virtual environment with a package in COMET's place, whose model scores by words in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import os, sys

class Prediction:
    def __init__(self, scores):
        self.scores = scores

class Model:
    def eval(self):
        print("a library writes to standard output")

    def predict(self, samples, batch_size, gpus):
        scores = []
        for sample in samples:
            if sample["mt"] == "fail":
                raise ValueError("this sample fails\\nwith details")
            if sample["mt"] == "die":
                print("last words", file=sys.stderr, flush=True)
                os._exit(9)
            words = set(sample["mt"].split())
            known = [words & set(sample[key].split()) for key in ("src", "ref")]
            scores.append(sum(map(len, known)) / (2 * len(words) or 1))
        return Prediction(scores)

def load_from_checkpoint(path):
    if open(path).read() == "no encoder":
        raise OSError("cannot find the encoder")
    if open(path).read() != "weights":
        raise Exception("Invalid weights")
    return Model()
"""


def make_comet_environment(folder: Path) -> Path:
    """Make the environment in `folder`; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    packages = Path(found.stdout.strip())
    (packages / "comet.py").write_text(CODE)
    info = packages / "unbabel_comet-2.2.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 2.2.7\n")
    return python


def write_model(folder: Path) -> Path:
    """Write a model in COMET's form, whose encoder lies beside it; return its checkpoint."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "encoder").mkdir()
    (folder / "hparams.yaml").write_text(f"pretrained_model: {folder / 'encoder'}\n")
    checkpoint = folder / "checkpoints" / "model.ckpt"
    checkpoint.write_text("weights")
    return checkpoint
