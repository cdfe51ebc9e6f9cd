"""Train the models that tests translate with, and store them in tests/models.

    python scripts/make_test_models.py                # all models, in about 2 minutes on one core
    python scripts/make_test_models.py digits letters  # these models

What a short training learns differs between processors, so no test may depend on it. These models are trained until
the first token at each step is much more probable than the second (tests/test_stored.py measures the margins); other
processors' rounding does not change what they say. Train them anew when the format of a run changes, then run the
tests. A stored run holds one checkpoint, and neither the state of the training nor facts about the machine. Its
configuration names the files of the corpus in a folder `corpus`, which tests write and insert (tests/stored.py).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from nmt.artifacts.rundir import RunDir  # noqa: E402
from nmt.training.run import start_run  # noqa: E402
from tests.stored import CORPUS, MODELS, RECIPES  # noqa: E402


def make_model(name: str) -> None:
    """Train the model `name` and replace the stored one."""
    write, config, sections = RECIPES[name]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that the run names its files relative to it
        try:
            write(Path(CORPUS))
            run = RunDir(Path(name))
            if not start_run(config(Path(CORPUS), **sections), run.path):
                sys.exit("stopped: the model is not stored")
            shutil.rmtree(run.state.parent)
            facts: dict[str, Any] = {"commit": None, "command": [], "platform": "", "processor": ""}
            run.write_json(run.info_file, run.info().model_copy(update=facts))
            shutil.rmtree(MODELS / name, ignore_errors=True)
            shutil.copytree(run.path, MODELS / name)
        finally:
            os.chdir(before)


def main(names: list[str]) -> int:
    """Make the models named, or all, and return the exit code."""
    if unknown := [name for name in names if name not in RECIPES]:
        sys.stderr.write(f"no such model: {', '.join(unknown)}; there are {', '.join(RECIPES)}\n")
        return 2
    for name in names or RECIPES:
        started = time.perf_counter()
        make_model(name)
        size = sum(path.stat().st_size for path in (MODELS / name).rglob("*") if path.is_file())
        sys.stdout.write(f"{name}: {size / 1000:,.0f} kB, {time.perf_counter() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
