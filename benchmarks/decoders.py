"""Decode a batch of random sources to outputs of a fixed length, with nmt and the installed peers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from nmt.apps.interop.ctranslate2 import write_ctranslate2
from nmt.base.special_tokens import BOS_ID
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.cuda_graphs import StepRecordings
from nmt.decoding.decoder import Decoder
from nmt.model.transformer import Transformer

Decode = Callable[[Tensor], object]  # src [B, S], on the device

_SPECIALS = ("<unk>", "<pad>", "<s>", "</s>")


def decoders_of(
    model: Transformer, job: dict[str, Any], dtype: torch.dtype, device: torch.device, length: int
) -> dict[str, Decode]:
    """Return each system's greedy decoding to `length` tokens, by name.

    `model` is nmt's, in fp32 and on the host. CTranslate2 gets its weights, in float16 on a GPU. Marian has the same
    sizes, from `job`, but its own weights.
    """
    found: dict[str, Decode] = {}
    if find_spec("ctranslate2"):
        found["ctranslate2"] = _ctranslate2(model, device, length)
    if find_spec("transformers"):
        found["hf-marian"] = _marian(job, dtype, device, length)
    ours = model.to(device, dtype).eval()
    recordings = StepRecordings([ours]) if device.type == "cuda" else None
    found["nmt"] = lambda src: _decode(ours, src, length, recordings)
    if device.type == "cuda":
        found["nmt, not recorded"] = lambda src: _decode(ours, src, length, None)
    return dict(sorted(found.items(), reverse=True))


def _decode(model: Transformer, src: Tensor, length: int, recordings: StepRecordings | None) -> None:
    decoder = Decoder([model], src, length, recordings=recordings)
    last = torch.full((decoder.num_places,), BOS_ID, device=src.device)
    for _ in range(length):
        last = decoder.step(last).argmax(1)


def _marian(job: dict[str, Any], dtype: torch.dtype, device: torch.device, length: int) -> Decode:
    from hf_marian import make_marian

    model = make_marian(job, "sdpa").to(device, dtype).eval()
    settings = {"num_beams": 1, "do_sample": False, "min_new_tokens": length, "max_new_tokens": length}
    return lambda src: model.generate(input_ids=src, attention_mask=torch.ones_like(src), **settings)


class _Numbered(NamedTuple):
    """A stand-in for a tokenizer, with numbers as tokens."""

    vocab_size: int

    @property
    def vocabulary(self) -> list[str]:
        """The tokens of all ids."""
        return self.tokens(range(self.vocab_size))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [_SPECIALS[i] if i < len(_SPECIALS) else str(i) for i in ids]


def _ctranslate2(model: Transformer, device: torch.device, length: int) -> Decode:
    translate = ctranslate2_of(model, device)
    return lambda src: translate(src, 1, length)


def ctranslate2_of(model: Transformer, device: torch.device) -> Callable[[Tensor, int, int], object]:
    """Return a function of CTranslate2 with the weights of `model`: (src [B, S], beam size, length of the outputs)."""
    import ctranslate2

    numbered = _Numbered(model.output_proj.weight.size(0))
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(model, cast("TokenizerPair", _Pair(numbered, numbered)), Path(folder))
        kind = "float16" if device.type == "cuda" else "default"
        translator = ctranslate2.Translator(folder, device=device.type, compute_type=kind)

    def translate(src: Tensor, beam_size: int, length: int) -> object:
        rows = [numbered.tokens(row[:-1]) for row in src.tolist()]  # CTranslate2 adds the end
        limits = {"min_decoding_length": length, "max_decoding_length": length}
        return translator.translate_batch(rows, beam_size=beam_size, max_batch_size=0, **limits)

    return translate


class _Pair(NamedTuple):
    src: _Numbered
    tgt: _Numbered
