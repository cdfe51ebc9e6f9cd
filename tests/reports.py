"""What a preparation has reported on its corpus."""

from __future__ import annotations

from pathlib import Path

from nmt.artifacts.rundir import RunDir
from nmt.data.store.report import CorpusReport


def report_of(path: Path) -> CorpusReport:
    """Read the report of the run at `path`."""
    run = RunDir(path)
    return CorpusReport.from_json(run.read_json(run.report_file))
