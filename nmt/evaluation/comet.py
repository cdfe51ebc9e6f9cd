"""COMET (Rei et al. 2020, 2022), a neural metric, computed by its own package in a Python that the user names.

The package unbabel-comet needs versions of numpy and protobuf that conflict with nmt's. `comet_worker.py` runs in that
Python as a separate program, once for each set of translations.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.base import Score, Signature

from nmt.base.errors import NmtError
from nmt.evaluation import comet_worker
from nmt.evaluation.scores import COMET, DEFAULT_COMET_MODEL
from nmt.evaluation.significance import SentenceStatistics

SCALE = 100  # factor that brings COMET's scores to the scale of the other metrics
_HINT = (
    "create one (`python -m venv comet; comet/bin/pip install unbabel-comet==2.2.7 'setuptools<81'`), and set "
    "$NMT_COMET_PYTHON to comet/bin/python"
)


class Comet:
    """A COMET model, as named in `comet_worker`."""

    def __init__(self, model: str = DEFAULT_COMET_MODEL, device: str = "auto"):
        """Load the model once, so that its faults are known before there are translations.

        NmtError if $NMT_COMET_PYTHON names no Python, if there is no such model, or if it cannot be read.
        """
        name = os.environ.get("NMT_COMET_PYTHON", "")
        if not name:
            raise NmtError("COMET needs a Python environment of its own, with the package unbabel-comet", hint=_HINT)
        python = shutil.which(os.path.expanduser(name))
        if python is None:
            raise NmtError(f"$NMT_COMET_PYTHON names no program: {name}", hint=_HINT)
        self._model = model
        self._command = [python, "-I", comet_worker.__file__, model, device]
        self._run([])

    def measure(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> SentenceStatistics:
        """Return sentence scores in the form of a metric's counts. NmtError if COMET cannot score them."""
        texts = zip(sources, hypotheses, references, strict=True)
        answer = self._run([{"src": src, "mt": hypothesis, "ref": ref} for src, hypothesis, ref in texts])
        rows = [[SCALE * score, 1.0] for score in answer["scores"]]
        return SentenceStatistics(COMET, CometMetric({"model": answer["model"], "version": answer["comet"]}), rows)

    def _run(self, samples: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Return the worker's answer for `samples`; what it reports meanwhile goes to the terminal."""
        variables = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        given = json.dumps(samples).encode()
        done = subprocess.run(self._command, input=given, stdout=subprocess.PIPE, env=variables, check=False)
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            hint = "the system kills a process that runs out of memory" if done.returncode in (-9, 137) else ""
            raise NmtError(f"COMET ended with code {done.returncode}, without scores", hint=hint) from None
        if "error" in answer:
            raise NmtError(f"COMET cannot score with {self._model}: {answer['error']}")
        return answer


class CometMetric:
    """The mean of COMET's sentence scores, as a sacreBLEU metric over the counts [score x 100, 1]."""

    def __init__(self, signature: dict[str, str]):
        """Keep the `signature` of a model."""
        self._signature = {"scale": SCALE, "type": "fp32", **signature}

    def get_signature(self) -> Signature:
        """Return the signature: the model, its data type, and COMET's version."""
        signature = Signature({"num_refs": 1})
        signature.info = {"nrefs": 1, "bs": None, "ar": None, "seed": None, **self._signature}
        return signature

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score(COMET, float(stats[0] / stats[1]))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])
