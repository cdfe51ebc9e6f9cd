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
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any, Self

from sacrebleu.metrics.base import Score, Signature

from nmt.base.errors import NmtError
from nmt.evaluation import comet_worker
from nmt.evaluation.scores import COMET, DEFAULT_COMET_MODEL
from nmt.evaluation.significance import SentenceStatistics

SCALE = 100
"""Factor that brings COMET's scores to the scale of the other metrics."""

_HINT = (
    "create one (`python -m venv comet; comet/bin/pip install unbabel-comet==2.2.7 'setuptools<81'`), and set "
    "$NMT_COMET_PYTHON to comet/bin/python"
)
_LAST_BYTES = 10_000


def comet_python() -> str:
    """Return the path of the Python that $NMT_COMET_PYTHON names. NmtError if there is none."""
    name = os.environ.get("NMT_COMET_PYTHON", "")
    if not name:
        raise NmtError("COMET needs a Python environment of its own, with the package unbabel-comet", hint=_HINT)
    python = shutil.which(os.path.expanduser(name))
    if python is None:
        raise NmtError(f"$NMT_COMET_PYTHON names no program: {name}", hint=_HINT)
    return python


class Comet:
    """A COMET model. Its worker process starts with the first `load` or `score`, and ends with the context."""

    def __init__(self, model: str = DEFAULT_COMET_MODEL, device: str = "auto"):
        """Set the model, as in `comet_worker`. Raises as `comet_python`."""
        self.model, self._device = model, device
        self._python = comet_python()
        self._worker: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None
        self.signature = dict[str, str]()  # set when the model is loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.communicate()
        if self._errors is not None:
            self._errors.close()
        self._worker = self._errors = None

    def load(self) -> None:
        """Start the worker, unless it is running, and wait until it has loaded the model. Raises as `score`."""
        if self._worker is None:
            self._start()
            header = self._read("comet")
            self.signature = {"model": str(header.get("model")), "version": str(header["comet"])}

    def score(
        self,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
        report: Callable[[int], None] = lambda count: None,
    ) -> list[float]:
        """Return COMET's score of each sentence [N], about 0 to 1; call `report` as scores arrive.

        NmtError if there is no such model, if it cannot be read, or if the worker ends early.
        """
        self.load()
        assert self._worker is not None
        assert self._worker.stdin is not None
        try:
            for src, hypothesis, ref in zip(sources, hypotheses, references, strict=True):
                self._worker.stdin.write(json.dumps({"src": src, "mt": hypothesis, "ref": ref}) + "\n")
            self._worker.stdin.write("\n")
            self._worker.stdin.flush()
        except OSError:  # the worker ended; its last line tells why
            pass
        scores = list[float]()
        for _ in sources:
            scores.append(float(self._read("score")["score"]))
            report(1)
        return scores

    def measure(
        self,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
        report: Callable[[int], None] = lambda count: None,
    ) -> SentenceStatistics:
        """Return sentence scores in the form of a metric's counts. Raises as `score`."""
        scores = self.score(sources, hypotheses, references, report)
        return SentenceStatistics(COMET, CometMetric(self), [[SCALE * each, 1.0] for each in scores])

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._worker = subprocess.Popen(
            [self._python, "-I", comet_worker.__file__, "score", self.model, self._device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            text=True,
            encoding="ascii",
        )

    def _read(self, key: str) -> dict[str, Any]:
        """Return the worker's next record, which must have `key`. NmtError if it lacks it, or the worker has ended."""
        assert self._worker is not None
        assert self._worker.stdout is not None
        assert self._errors is not None
        line = self._worker.stdout.readline()
        if line:
            return self._parse(line, key)
        code = self._worker.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_BYTES))
        said = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        hint = "the system kills a process that runs out of memory" if code in (-9, 137) else ""
        raise NmtError(f"COMET ended with code {code}" + (f": {said[:500]}" if said else ""), hint=hint)

    def _parse(self, line: str, key: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise NmtError(f"cannot read a response of the COMET worker: {line[:200]!r}")
        if key not in record:
            raise NmtError(f"COMET cannot score with {self.model}: {record.get('error', line)}")
        return record


class CometMetric:
    """The mean of COMET's sentence scores, as a sacreBLEU metric over the counts [score x 100, 1]."""

    def __init__(self, comet: Comet):
        """Keep the signature of `comet`, which must be loaded."""
        self._signature = {"scale": SCALE, "type": "fp32", **comet.signature}

    def get_signature(self) -> Signature:
        """Return the signature: the model, its data type, and COMET's version."""
        signature = Signature({"num_refs": 1})
        signature.info = {"nrefs": 1, "bs": None, "ar": None, "seed": None, **self._signature}
        return signature

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score(COMET, float(stats[0] / stats[1]))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])
