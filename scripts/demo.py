"""`make demo`: train on the shipped corpus, score, translate, draw the attention, and print what to try next."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

RUN = Path("runs/demo-en-zh")
# A text of two sentences of the training set, and a sentence of the test set, which the model has not seen.
SENTENCES = [
    "I am from China. You and me are best friends.",
    "If it is cold tomorrow, my friend will read books at home.",
]


def nmt(*arguments: str) -> None:
    """Run an `nmt` command, and print it as a user would type it."""
    shown = " ".join(f'"{a}"' if " " in a else a for a in arguments)
    sys.stdout.write(f"\n$ nmt {shown}\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "nmt", *arguments], check=True)


def main() -> None:
    """Walk the whole path from a parallel corpus to a scored model."""
    started = time.perf_counter()
    attention = RUN / "attention.svg"
    nmt("train", "--config", "configs/demo-en-zh.yaml", "--overwrite")
    nmt("eval", "--model", str(RUN))
    nmt("translate", "--model", str(RUN), *SENTENCES)
    nmt("translate", "--model", str(RUN), "--attention", str(attention), "I am from China")
    sys.stdout.write(f"""
Done in {time.perf_counter() - started:.0f} seconds. The model is the folder {RUN}.
The attention heat map is {attention}; open it in a browser.
The model knows only the words in data/demo-en-zh. Next:

  source .venv/bin/activate                     then `nmt` is a command
  nmt translate "I am from China"               or without a text: reads standard input
  nmt plot                                      plots the learning curves
  nmt config new --src a.de --tgt a.en -o my.yaml   writes a configuration for your own corpus; then
  nmt train --config my.yaml
""")


if __name__ == "__main__":
    main()
