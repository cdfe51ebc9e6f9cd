"""Read tokenizer.json, the only file in which transformers 5 saves a tokenizer of NLLB. Imports no torch.

BPE of SentencePiece first merges what gives the token with the highest score, that of tokenizer.json the earliest pair
in its list. transformers makes this list of a SentencePiece model, with every pair of tokens that is a token, in the
order of the scores, which is that of the ids. So the ids can serve as scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Base64Bytes, BaseModel

from nmt.apps.interop.hf_folder import COPY_SPM, MAX_JSON_BYTES, FastTokenizer, validated
from nmt.base.errors import RunError
from nmt.base.files import read_json_object
from nmt.data.tokens.sentencepiece_model import UNKNOWN, Piece, bpe_model

_FIRST_ID = 4  # of a token that is no special one; added tokens and languages are not in the vocabulary
_SPECIALS = Piece("<unk>", type=UNKNOWN), Piece("<s>"), Piece("</s>")


class _Bpe(BaseModel):
    type: Literal["BPE"]
    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    byte_fallback: Literal[False] = False


class _CharacterMap(BaseModel):
    precompiled_charsmap: Base64Bytes = b""


class _Step(_CharacterMap):
    type: Literal["Precompiled", "Replace", "Strip"]  # the last two are about spaces


class _Normalizer(_CharacterMap):
    type: Literal["Sequence", "Precompiled"]
    normalizers: list[_Step] = []


class _Metaspace(BaseModel):
    type: Literal["Metaspace"]


class NllbTokenizer(FastTokenizer):
    """The parts of tokenizer.json that decide how NLLB's tokenizer segments."""

    model: _Bpe
    normalizer: _Normalizer
    pre_tokenizer: _Metaspace


def read_fast_tokenizer(path: Path) -> bytes:
    """Return a SentencePiece model that segments like tokenizer.json. RunError if that was not made of one."""
    fast = validated(NllbTokenizer, read_json_object(path, MAX_JSON_BYTES), path, COPY_SPM)
    ids = {text: number for text, number in fast.model.vocab.items() if number >= _FIRST_ID}
    by_id = sorted(ids, key=ids.__getitem__)
    splits = [text for text in by_id for at in range(1, len(text)) if ids.keys() >= {text[:at], text[at:]}]
    has_gaps = [ids[text] for text in by_id] != [*range(_FIRST_ID, _FIRST_ID + len(ids))]
    if has_gaps or splits != ["".join(pair) for pair in fast.model.merges]:
        raise RunError("its tokens and merges are not those of a SentencePiece model", path=path, hint=COPY_SPM)
    pieces = [*_SPECIALS, *(Piece(text, -float(ids[text])) for text in by_id)]
    charsmaps = (each.precompiled_charsmap for each in (fast.normalizer, *fast.normalizer.normalizers))
    return bpe_model(pieces, b"".join(charsmaps))
