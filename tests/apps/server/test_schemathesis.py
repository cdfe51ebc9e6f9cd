"""Requests that schemathesis generates from the specification: none of them ends in an error of the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow


def test_no_generated_request_is_an_error_of_the_server(running, tmp_path):
    """$NMT_SCHEMATHESIS names the program; $NMT_SCHEMATHESIS_EXAMPLES the requests of each operation (50)."""
    program = os.environ.get("NMT_SCHEMATHESIS") or shutil.which("st")
    if program is None:
        pytest.skip("needs schemathesis: pip install schemathesis")
    examples = os.environ.get("NMT_SCHEMATHESIS_EXAMPLES", "50")
    command = [program, "run", f"{running.url}/spec", "-n", examples, "--seed", "1", "--no-shrink"]
    command += ["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert re.search(r"[1-9][0-9]* generated", done.stdout)
    assert running.metric("nmt_requests_total", path="/translate", status="200") > 0
    assert running.translate(q="12", source="en", target="de").status_code == 200
