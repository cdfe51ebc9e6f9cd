"""A sentence alone gets the bits it has among others: with one row where kernels allow it, with sixteen elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.base.machine import processor

PROGRAM = """
import json, sys, torch
torch.set_num_threads(1)
from nmt import Translator
from nmt.base.machine import request_exact_mkl
if sys.argv[3] == "requested":
    request_exact_mkl()
translator = Translator.load(sys.argv[1], engine="torch", device="cpu")
texts = json.loads(sys.argv[2])
among = [done.token_scores for done in translator.translate(texts)]
alone = [translator.translate([text])[0].token_scores for text in texts[:8]]
print(json.dumps([translator.engine.min_rows, alone == among[:8]]))
"""


@pytest.mark.slow  # each imports torch anew; with the variable as it is, tests/decoding/test_beam.py tests the same
@pytest.mark.parametrize("asked", ["unset", "requested", "AUTO"])
def test_a_sentence_alone_has_the_bits_it_has_among_others(digits_run, asked):
    """In a process of its own: MKL reads its variable once."""
    texts = ["123", "98765", "4040", "777777", "31", "1234567", "55555", "908"] * 5
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    environment |= {"MKL_CBWR": asked} if asked == "AUTO" else {}
    command = [sys.executable, "-c", PROGRAM, str(digits_run), json.dumps(texts), asked]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    min_rows, equal = json.loads(done.stdout)
    assert equal
    steady = asked == "requested" and "Intel" in processor() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    assert min_rows in (1, 16)
    assert min_rows == 1 or not (steady and torch.backends.mkl.is_available())
