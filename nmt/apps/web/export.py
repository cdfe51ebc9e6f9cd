"""Export a run as a web page: a folder of static files that translates in the reader's browser."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nmt.apps.interop.export_folder import refuse_existing
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError, require
from nmt.base.files import new_folder, to_json, write_text
from nmt.base.languages import english_name, spaces_between_sentences, written_without_spaces
from nmt.config import Config
from nmt.data.text.numbers import number_words
from nmt.data.text.spans import PLACEHOLDERS
from nmt.data.tokens.sentencepiece_model import UNUSED, protobuf_fields, read_pieces
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair
from nmt.decoding.engines.native_engine import arrays_in_order, config_numbers, read_arrays
from nmt.decoding.engines.selection import prefers_fp32, unsupported_by_c
from nmt.evaluation.model_card import license_of, share_card
from nmt.model.shapes import parameter_shapes
from nmt.translation import LanguagePair
from nmt.translation.texts import TextSegmenter
from nmt.translation.translation import FLAGS

log = logging.getLogger(__name__)

MODULES = {"wasm-dot": 3, "wasm-fours": 2, "wasm-pairs": 1}
"""The builds of the decoder, fastest first, with WASM_PATH of nmt/decoding/native/kernels_wasm.c."""

MAX_WEIGHT = 64  # LARGEST_WEIGHT of nmt/decoding/native/kernel.h
_STATIC = Path(__file__).parent / "static"
_SERVER = Path(__file__).parents[1] / "server" / "static"  # the page of `nmt serve`, but for its backend.js
_HEAD = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' \
'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; \
base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<link rel="manifest" href="app.webmanifest">
"""
_NATIVE = Path(__file__).parents[2] / "decoding" / "native"
_SOURCES = ("decoder.c", "model.c", "search.c", "shortlist.c", "kernels_wasm.c", "web.c")
_FLAGS = ("--target=wasm32-wasi", "-mexec-model=reactor", "-std=c11", "-O3", "-fno-unroll-loops", "-g0", "-s",
          "-ffp-contract=off", "-fno-math-errno", "-msimd128", "-mbulk-memory")  # fmt: skip
_FLOATS, _INTEGERS, _SAME_AS_FIRST = range(3)  # kinds of arrays in nmt/decoding/native/web.c


def refuse_existing_web(path: Path, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless it is a web page of nmt and `overwrite` is given."""
    refuse_existing(path, lambda path: (path / "manifest.json").is_file(), "a web page of nmt", overwrite=overwrite)


def export_web(run: RunDir, out: Path, *, overwrite: bool = False) -> None:
    """Write the best model of `run`, in int8, and a page that translates with it to the folder `out`.

    NmtError if there is no compiler; RunError if the browser's decoder does not support the model, or if `out` exists
    and may not be replaced.
    """
    config = run.config()
    tokenizers = TokenizerPair.load(run.tokenizer)
    segmenter = TextSegmenter(tokenizers, LanguagePair.from_config(config), config.model.max_src_len, run.statistics())
    _refuse(run, config, tokenizers)
    require("web", "ziglang", "this export")
    if prefers_fp32(run):
        log.warning("int8 costs this model quality, so `nmt translate` uses fp32; a page is always int8")
    with new_folder(out, replace=partial(refuse_existing_web, overwrite=overwrite)) as folder:
        for source in [*_SERVER.iterdir(), *_STATIC.iterdir(), *build_modules()]:
            shutil.copyfile(source, folder / source.name)
        html = (_SERVER / "index.html").read_text("utf-8")
        write_text(folder / "index.html", html.replace("<meta name=", _HEAD + "<meta name=", 1))
        (folder / "weights.bin").write_bytes(weights_of(run, config, tokenizers))
        names = ("src", "tgt") if tokenizers.tgt is not tokenizers.src else ("src",)
        for name in names:
            write_text(folder / f"{name}.json", to_json(vocabulary_of(getattr(tokenizers, name))))
        files = {path.name: _listed(path.read_bytes()) for path in sorted(folder.iterdir())}
        manifest = {"format": 1, **_facts(run, config, segmenter), "vocabularies": names, "files": files}
        write_text(folder / "manifest.json", to_json(manifest, indent=1) + "\n")


def _listed(content: bytes) -> dict[str, int | str]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _refuse(run: RunDir, config: Config, tokenizers: TokenizerPair) -> None:
    """Raise RunError for what the browser's decoder and tokenizer do not know."""
    for side in (tokenizers.src, tokenizers.tgt):
        normalizer = protobuf_fields(protobuf_fields(side.model_bytes).get(3, b""))
        has_unused = any(piece.type == UNUSED for piece in read_pieces(side.model_bytes))
        if side.type == "word" or has_unused or not normalizer.get(5, 1):
            raise RunError(
                "a browser does not know this kind of tokenizer",
                path=run.tokenizer,
                hint="train it with tokenizer.type unigram, bpe or char",
            )
    fault = unsupported_by_c(run)
    if config.decoding.sample or config.decoding.rerank != "none":
        fault = "decoding.sample and decoding.rerank"
    if config.model.language_tags == "both":
        fault = "model.language_tags: both"
    if fault:
        raise RunError(f"the browser's decoder does not support {fault}", path=run.config_file)


def _facts(run: RunDir, config: Config, segmenter: TextSegmenter) -> dict[str, Any]:
    """Return the part of manifest.json that tells the page how to translate."""
    options = config.decoding
    pair = segmenter.languages
    penalty = options.length_penalty
    longest = config.model.max_tgt_len
    statistics = segmenter.statistics
    tokenizers = segmenter.tokenizers
    habits = [segmenter.habits(direction) for direction in dict.fromkeys(config.data.directions)]
    return {
        "name": (name := run.path.resolve().name),
        "license": license_of(run.card),
        "card": share_card(run, config, name, name) if run.card.is_file() else "",
        "directions": [{"src": _language(src, tokenizers.src), "tgt": _language(tgt, tokenizers.tgt),
            "tag": pair.direct("x", tgt, src).tag,
            "left_out": sorted(of_direction.left_out)}
            for of_direction in habits for src, tgt in [of_direction.direction]],
        "flags": FLAGS,
        "max_src_len": config.model.max_src_len,
        "max_tgt_len": longest,
        "options": options.model_dump(include={"beam_size", "num_hypotheses", "no_repeat_ngram", "min_len",
            "max_len_factor", "max_len_offset", "split", "protect", "retry_loops"}),
        "divisors": [] if penalty == 1 else [max(length, 1) ** penalty for length in range(longest + 1)],
        "never_generated": list(segmenter.tokenizers.tgt.never_generated),
        "statistics": statistics
        and {
            **statistics.model_dump(include={"words", "once", "usual_octave", "chars_per_token", "confidence"}),
            "knows_capitals": statistics.knows_capitals,
        },
        "max_sentences": segmenter.max_sentences(options),
        "keeps_numbers": habits[0].keeps_numbers,
        "translates_numbers_alone": habits[0].translates_numbers_alone,
        "placeholders": list(PLACEHOLDERS) if segmenter.knows_placeholders else [],
        "characters": segmenter.languages.characters,
        "symbols": [*segmenter.languages.user_symbols],
    }  # fmt: skip


def _language(code: str, tokenizer: Tokenizer) -> dict[str, Any]:
    written = tokenizer.letters
    spaces = {
        "spaced": not written_without_spaces(code, written),
        "sentence_spaces": spaces_between_sentences(code, written),
    }
    return {"code": code, "name": english_name(code), **spaces, "words": number_words(code)}


def vocabulary_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what segmentation needs of a SentencePiece model."""
    fields = protobuf_fields(tokenizer.model_bytes)
    suffix = protobuf_fields(fields[2]).get(24, 0)
    normalizer = protobuf_fields(fields.get(3, b""))
    pieces = read_pieces(tokenizer.model_bytes)
    return {
        "type": tokenizer.type,
        "dummy": "none" if not normalizer.get(3, 1) else "suffix" if suffix else "prefix",
        "collapse": bool(normalizer.get(4, 1)),
        "charsmap": b64encode(normalizer.get(2, b"")).decode(),
        "texts": [piece.text for piece in pieces],
        "scores": [piece.score for piece in pieces],
        "types": [piece.type for piece in pieces],
    }


def weights_of(run: RunDir, config: Config, tokenizers: TokenizerPair) -> bytes:
    """Return the weights in the format of nmt/decoding/native/web.c; matrices are quantized as model.c does it."""
    path = run.usable_checkpoint()
    arrays = read_arrays(path)
    ordered = arrays_in_order(config.model, tokenizers, arrays, path)
    shapes = parameter_shapes(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    shape_of = {id(array.data): array.shape for name, array in arrays.items() if name in shapes}
    entries = []
    contents = []
    positions = (2, 3) if config.model.positions == "learned" else ()  # behind both embeddings
    for index, data in enumerate(ordered):
        values = np.frombuffer(data, np.float32)
        shape = shape_of.get(id(data), (len(values),))
        rows, columns = (1, *shape) if len(shape) == 1 else shape
        if not np.isfinite(values).all():
            raise RunError("these weights are not finite", path=path, hint="choose another checkpoint")
        if index and data is ordered[0]:
            entries.append((_SAME_AS_FIRST, rows, columns))
        elif index in positions or len(shape) == 1:
            entries.append((_FLOATS, rows, columns))
            contents.append(values.tobytes())
        else:
            entries.append((_INTEGERS, rows, columns))
            contents += _quantized(values.reshape(rows, columns))
    numbers = config_numbers(config.model, tokenizers, "int8")
    table = [n for entry in entries for n in entry]
    head = struct.pack(f"<8s{len(numbers) + 1 + len(table)}i", b"NMTWEB1\0", *numbers, len(entries), *table)
    return b"".join([head, *contents])


def _quantized(matrix: np.ndarray[Any, np.dtype[np.float32]]) -> Sequence[bytes]:
    """Return the scale of each row and its integers, as `quantize_weights` of model.c computes them, in fp32."""
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    inverse = np.divide(np.float32(MAX_WEIGHT), largest, out=np.zeros_like(largest), where=largest > np.float32(1e-30))
    integers = np.rint(matrix * inverse).astype(np.int8).tobytes()
    scale = largest / np.float32(MAX_WEIGHT)
    return [scale.astype("<f4").tobytes(), integers, bytes(-len(integers) % 4)]


def build_modules() -> list[Path]:
    """Return the paths of the compiled decoders, built once per version of their sources and of the compiler.

    They are kept in the folder nmt-web of the user's cache. NmtError if building fails.
    """
    names = sorted([*_SOURCES, *(path.name for path in _NATIVE.glob("*.h"))])
    sources = b"\0".join((_NATIVE / name).read_bytes() for name in names)
    key = hashlib.sha256(f"{version('ziglang')} {_FLAGS} ".encode() + sources).hexdigest()[:20]
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    folder = Path(home) / "nmt-web" / key
    if not folder.is_dir():
        log.info("compiling the decoder for browsers, once; this takes about half a minute …")
        with new_folder(folder) as made:
            for name, path in MODULES.items():
                _compile(path, made / f"{name}.wasm")
    return [folder / f"{name}.wasm" for name in MODULES]


def _compile(path: int, out: Path) -> None:
    relaxed = ["-mrelaxed-simd"] if path > 1 else []
    command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, *relaxed, f"-DWASM_PATH={path}", *_SOURCES]
    # The compiler gives its output the rights of a program, which files of a page do not need.
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / out.name
        done = subprocess.run([*command, "-o", str(built)], cwd=_NATIVE, capture_output=True, check=False)
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise NmtError(f"the compiler failed: {reason}", hint="install another version of ziglang")
        shutil.copyfile(built, out)
