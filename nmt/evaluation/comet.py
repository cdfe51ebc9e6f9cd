"""COMET (Rei et al. 2020, 2022), a neural metric, computed by its own package in a Python that the user names.

The package unbabel-comet needs versions of numpy and protobuf that conflict with nmt's. `comet_worker.py` runs in that
Python as a separate program, with which this module exchanges JSON lines.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

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
_LAST_BYTES = 10_000


@contextmanager
def load_comet(model: str = DEFAULT_COMET_MODEL, device: str = "auto") -> Iterator[Comet]:
    """Yield the COMET model `model`, as in `comet_worker`, which a worker process has loaded; end the process.

    NmtError if $NMT_COMET_PYTHON names no Python, if there is no such model, or if it cannot be read.
    """
    name = os.environ.get("NMT_COMET_PYTHON", "")
    if not name:
        raise NmtError("COMET needs a Python environment of its own, with the package unbabel-comet", hint=_HINT)
    python = shutil.which(os.path.expanduser(name))
    if python is None:
        raise NmtError(f"$NMT_COMET_PYTHON names no program: {name}", hint=_HINT)
    with tempfile.TemporaryFile() as errors:
        worker = subprocess.Popen(
            [python, "-I", comet_worker.__file__, model, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            text=True,
            encoding="ascii",
        )
        try:
            yield Comet(model, worker, errors)
        finally:
            worker.kill()
            worker.communicate()


class Comet:
    """A COMET model in a worker process."""

    def __init__(self, model: str, worker: subprocess.Popen[str], errors: IO[bytes]):
        """Wait until `worker`, which writes to the file `errors`, has loaded `model`. Raises as `measure`."""
        self._model, self._worker, self._errors = model, worker, errors
        header = self._read("comet")
        self.signature = {"model": str(header.get("model")), "version": str(header["comet"])}

    def measure(
        self,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
        report: Callable[[int], None] = lambda count: None,
    ) -> SentenceStatistics:
        """Return sentence scores in the form of a metric's counts; call `report` as scores arrive.

        NmtError if COMET cannot score them, or if the worker ends early.
        """
        texts = zip(sources, hypotheses, references, strict=True)
        samples = [{"src": src, "mt": hypothesis, "ref": ref} for src, hypothesis, ref in texts]
        assert self._worker.stdin is not None
        with suppress(OSError):  # the worker ended; its last line tells why
            self._worker.stdin.write(json.dumps(samples) + "\n")
            self._worker.stdin.flush()
        rows = list[list[float]]()
        while len(rows) < len(samples):
            scores = self._read("scores")["scores"]
            rows += [[SCALE * score, 1.0] for score in scores]
            report(len(scores))
        return SentenceStatistics(COMET, CometMetric(self.signature), rows)

    def _read(self, key: str) -> dict[str, Any]:
        """Return the worker's next record, which must have `key`. NmtError if it lacks it, or the worker has ended."""
        assert self._worker.stdout is not None
        line = self._worker.stdout.readline()
        if not line:
            code = self._worker.wait()
            self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_BYTES))
            said = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            hint = "the system kills a process that runs out of memory" if code in (-9, 137) else ""
            raise NmtError(f"COMET ended with code {code}" + (f": {said[:500]}" if said else ""), hint=hint)
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:
            raise NmtError(f"cannot read a response of the COMET worker: {line[:200]!r}") from None
        if key not in record:
            raise NmtError(f"COMET cannot score with {self._model}: {record.get('error', line)}")
        return record


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
