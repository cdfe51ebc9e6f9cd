"""Choose an engine and its precision for the models of runs. Imports torch only if the engine torch is chosen."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from nmt.artifacts.run_records import Int8Scores
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, missing_torch, require_one_of
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.interface import DeviceName, Engine, EngineName, PrecisionName
from nmt.decoding.engines.native_engine import NativeEngine, NativePrecision

log = logging.getLogger(__name__)

MAX_INT8_LOSS = 0.2  # the BLEU that int8 may cost on the validation set; if it costs more, nmt translates in fp32
NOT_BUILT = "the native decoder was not built when nmt was installed (it needs a C compiler)"


def load_engine(
    runs: Sequence[RunDir],
    tokenizers: TokenizerPair,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
    precision: PrecisionName = "auto",
    *,
    scores: bool = True,
) -> Engine:
    """Load the best models of `runs` into the engine `engine`: native, torch, phrase, or auto.

    The engine auto is phrase if the phrase table of the run was better than its network on the validation set, unless a
    precision, or a device other than the CPU, is asked for. Otherwise it is native on a CPU if it supports the models,
    else torch. If the native decoder was not built, a warning says so, and torch computes in fp32. The precision auto
    is int8 in the native engine, unless the measurement at the end of training found that int8 costs this run too much
    quality; in torch it is bf16 on a GPU that is faster with it, else fp32. Without `scores`, scores are computed only
    if the search needs them. NmtError if there is no such engine, device or precision, or the engine does not support
    this device, precision or model.
    """
    require_one_of("engine", engine, get_args(EngineName))
    require_one_of("device", device, get_args(DeviceName))
    require_one_of("precision", precision, get_args(PrecisionName))
    if engine == "phrase" or (engine == "auto" and prefers_phrases(runs, device, precision)):
        return _load_phrases(runs, tokenizers, device, precision)
    obstacle = obstacle_to_native(runs, device, precision)
    if engine == "native" and obstacle:
        raise NmtError(
            obstacle if obstacle == NOT_BUILT else f"the native engine does not support {obstacle}",
            hint="use the engine torch, or auto",
        )
    uses_gpu = device == "auto" and has_gpu()
    if engine == "auto" and obstacle == NOT_BUILT and not uses_gpu:
        loaded = _load_torch(runs, tokenizers, device, "fp32", obstacle, scores)
        log.warning("translating with PyTorch in fp32, slower and not exactly as in int8: %s", NOT_BUILT)
        return loaded
    if engine == "torch" or obstacle or uses_gpu:
        return _load_torch(runs, tokenizers, device, precision, obstacle, scores)
    if precision == "auto" and prefers_fp32(runs[0]):
        log.info("translating in fp32: int8 costs this run %.2f BLEU on the validation set", _int8_loss(runs[0]))
        precision = "fp32"
    native_precision: NativePrecision = "fp32" if precision == "fp32" else "int8"
    return NativeEngine.load(runs[0], tokenizers, native_precision, scores=scores)


def prefers_phrases(runs: Sequence[RunDir], device: str = "auto", precision: str = "auto") -> bool:
    """Return whether nmt translates with the phrase table of a run, by the scores at the end of its training.

    RunError if index.json or all weights are damaged.
    """
    if len(runs) > 1 or device not in ("auto", "cpu") or precision != "auto":
        return False
    scores = runs[0].index().phrases
    if scores is None or scores.checkpoint != runs[0].usable_checkpoint().stem or not scores.table_is_better:
        return False
    if not runs[0].phrases.is_file():
        log.warning(
            "%s is missing, so the network translates, which is worse; copy the file from where the run was trained, "
            "or build it again with `nmt train --resume`",
            runs[0].phrases,
        )
        return False
    return True


def _load_phrases(runs: Sequence[RunDir], tokenizers: TokenizerPair, device: str, precision: str) -> Engine:
    from nmt.decoding.engines.phrase_engine import PhraseEngine  # it imports numpy, which is slow

    unsupported = (
        "ensembles" if len(runs) > 1
        else f"the device {device}" if device not in ("auto", "cpu")
        else f"the precision {precision}" if precision != "auto" else ""
    )  # fmt: skip
    if unsupported:
        raise NmtError(f"the phrase engine does not support {unsupported}", hint="use the engine auto, native or torch")
    return PhraseEngine.load(runs[0], tokenizers)


def prefers_fp32(run: RunDir) -> bool:
    """Return whether int8 costs `run` more than MAX_INT8_LOSS, as measured at the end of its training.

    RunError if index.json or all weights are damaged.
    """
    return _int8_loss(run) > MAX_INT8_LOSS


def _int8_loss(run: RunDir) -> float:
    """Return the BLEU that int8 costs with the weights that nmt translates with; 0 if not measured with these."""
    scores = _measured(run)
    return scores.loss if scores is not None else 0.0


def _measured(run: RunDir) -> Int8Scores | None:
    scores = run.index().int8
    return scores if scores is not None and scores.checkpoint == run.usable_checkpoint().stem else None


def obstacle_to_native(runs: Sequence[RunDir], device: str, precision: str) -> str:
    """Describe what prevents the native engine from translating with `runs`; an empty string if nothing does."""
    if len(runs) > 1:
        return "ensembles"
    if device not in ("auto", "cpu"):
        return f"the device {device}"
    if precision not in ("auto", "int8", "fp32"):
        return f"the precision {precision}"
    return unsupported_by_c(runs[0]) or ("" if native_engine.is_available() else NOT_BUILT)


def unsupported_by_c(run: RunDir) -> str:
    """Describe what of `run` the C decoder does not support, whether it is built here or not; empty if it can all."""
    return edited_formulas(run) or native_engine.unsupported(run.essentials().model)


def edited_formulas(run: RunDir) -> str:
    """Describe how far the C decoder, which has formulas of its own, is from PyTorch; empty if both have the same."""
    scores = _measured(run)
    if scores is None or not scores.differs:
        return ""
    return (
        f"formulas other than those it was compiled with: it and PyTorch differ by up to {scores.difference:.2f} "
        "in the log-probability of a token"
    )


def has_gpu() -> bool:
    """Return whether torch finds a CUDA device. Without a driver, do not import torch, which is slow, to find out."""
    drivers = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in drivers):
        return False
    if sys.platform == "darwin":
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _load_torch(
    runs: Sequence[RunDir], tokenizers: TokenizerPair, device: str, precision: str, obstacle: str, scores: bool
) -> Engine:
    """Load the engine torch; `obstacle` describes why the native engine is not used."""
    try:
        from nmt.decoding.engines.torch_engine import TorchEngine
    except ModuleNotFoundError as error:
        reason = obstacle if obstacle in ("", NOT_BUILT) else f"the native engine does not support {obstacle}"
        raise missing_torch(error, f"{reason}; the engine torch needs PyTorch".removeprefix("; ")) from None
    return TorchEngine.load(runs, tokenizers, device, precision, scores=scores)
