"""Feed the decoder of exported web pages damaged weights and requests: it must answer or refuse.

    python scripts/fuzz_web.py LIBRARY MODEL --seconds 30 [--seed 7] [--verbose]

LIBRARY is nmt/decoding/native/web.c with the decoder, as scripts/sanitize.py builds it; MODEL is the folder of a run.
Each case takes the weights that the export writes, changes some of their bytes, cuts or extends them, and sends sound
and changed requests. Memory errors and undefined behavior show up under the sanitizers.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any

from nmt.apps.web.export import weights_of
from nmt.artifacts.rundir import RunDir
from nmt.data.tokens.tokenizer import TokenizerPair

EXTREMES = (-(2**31), -1, 0, 1, 2, 63, 64, 65, 127, 4096, 1 << 20, 1 << 28, 2**31 - 1)
NUMBERS_FIRST = 64
"""The numbers at the beginning of the weights that are changed most often: sizes, then kinds and shapes of arrays."""


def load(path: Path) -> Any:
    """Return the library, with the types of its functions."""
    library = ctypes.CDLL(str(path))
    library.web_load.argtypes, library.web_load.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
    library.web_translate.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    library.web_translate.restype = library.web_error.restype = ctypes.c_void_p
    library.web_free.argtypes = library.free_model.argtypes = [ctypes.c_void_p]
    return library


def damaged(content: bytes, draw: random.Random, first: int) -> bytes:
    """Return `content` with a few numbers of 32 bits changed, most of them among the `first`, or another length."""
    changed = bytearray(content)
    for _ in range(draw.choice((0, 1, 1, 2, 8))):
        at = 4 * draw.randrange(min(first, len(changed) // 4) if draw.random() < 0.7 else len(changed) // 4)
        changed[at : at + 4] = struct.pack("<i", draw.choice((*EXTREMES, draw.getrandbits(31))))
    if draw.random() < 0.1:
        del changed[4 * draw.randrange(len(changed) // 4) :]
    if draw.random() < 0.05:
        changed += bytes(4 * draw.randint(1, 64))
    return bytes(changed)


def request(draw: random.Random, num_words: int) -> bytes:
    """Return a sound request: a few sources of a few tokens, in the format of web.c."""
    beam = draw.randint(1, 5)
    lengths = [draw.randint(0, 12) for _ in range(draw.randint(1, 6))]
    sources = [[*(draw.randrange(4, num_words) for _ in range(length)), 3] for length in lengths]
    options = [beam, draw.randint(1, beam), draw.randint(0, 3), draw.choice((0, 0, 2, 3))]  # and lengths, n-grams
    numbers = [len(sources), *options, 0, draw.randint(0, 1), draw.randint(1, 16), 2, 0, 0, 1]
    for ids in sources:
        numbers += [len(ids), 0, draw.randint(1, 20), *ids]
    return struct.pack(f"<{len(numbers)}i", *numbers)


def main() -> int:
    """Run cases until the time is over; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--verbose", action="store_true", help="name each case before it runs")
    given = parser.parse_args()
    run, library = RunDir(given.model), load(given.library)
    tokenizers, end = TokenizerPair.load(run.tokenizer), time.monotonic() + given.seconds
    weights, case, loaded, translated = weights_of(run, run.config(), tokenizers), 0, 0, 0
    while time.monotonic() < end:
        if given.verbose:
            sys.stdout.write(f"case {case} of seed {given.seed}\n")
            sys.stdout.flush()
        draw = random.Random(f"{given.seed} {case}")
        case += 1
        content = damaged(weights, draw, NUMBERS_FIRST)
        if not (model := library.web_load(content, len(content))):
            continue
        loaded += 1
        for _ in range(4):
            asked = damaged(request(draw, tokenizers.src.vocab_size), draw, 16)
            if response := library.web_translate(model, asked, len(asked) // 4):
                translated += 1
                library.web_free(response)
        library.free_model(model)
    sys.stdout.write(f"seed {given.seed}: {case} cases, {loaded} models loaded, {translated} requests answered\n")
    return 0 if translated else 1


if __name__ == "__main__":
    sys.exit(main())
