"""Read and replace the tokens of a SentencePiece model: fields of ModelProto in sentencepiece_model.proto."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import sentencepiece

from nmt.base.errors import DataError
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.data.tokens.protobuf import protobuf_field, protobuf_fields, protobuf_items

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of a token. An unused one never results from a segmentation, but has a text."""

SPECIAL_TOKENS = ("<unk>", "<pad>", "<s>", "</s>")
"""The written forms of the ids 0 to 3."""

_PIECES, _TRAINER_SPEC = 1, 2  # fields of ModelProto, as the next
_NORMALIZERS = (3, 5)
_VOCAB_SIZE = 4  # a field of TrainerSpec, as the next two
_IDS = {40: UNK_ID, 41: BOS_ID, 42: EOS_ID, 43: PAD_ID}
_NAMES = {number + 5: SPECIAL_TOKENS[special].encode() for number, special in _IDS.items()}


class Piece(NamedTuple):
    """One token of a SentencePiece model."""

    text: str
    score: float = 0.0
    type: int = NORMAL


def read_pieces(model_bytes: bytes) -> list[Piece]:
    """Return the tokens of a serialized model, by id. Raises DataError if it is not a model, or is damaged."""
    try:
        if not model_bytes:
            raise ValueError
        sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
        fields = [value for number, value in protobuf_items(model_bytes) if number == _PIECES]
        return [_read_piece(protobuf_fields(field)) for field in fields if isinstance(field, bytes)]
    except (RuntimeError, ValueError, IndexError, struct.error):
        raise DataError("this is not a SentencePiece model, or it is damaged") from None


def _read_piece(fields: dict[int, int | bytes]) -> Piece:
    text, score, kind = fields.get(1, b""), fields.get(2, bytes(4)), fields.get(3, NORMAL)
    if not (isinstance(text, bytes) and isinstance(score, bytes) and isinstance(kind, int)):
        raise ValueError
    return Piece(text.decode(), struct.unpack("<f", score)[0], kind)


def with_pieces(model_bytes: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return a serialized model with other tokens, of which the first four are the special ones.

    It normalizes and segments like the model `model_bytes`, which must be valid.
    """
    kept = (_TRAINER_SPEC, *_NORMALIZERS)
    items = [(number, value) for number, value in protobuf_items(model_bytes) if number in kept]
    specials: dict[int, int | bytes] = {_VOCAB_SIZE: len(pieces), **_IDS, **_NAMES}
    overrides = b"".join(protobuf_field(number, value) for number, value in specials.items())
    if _TRAINER_SPEC not in dict(items):
        items.append((_TRAINER_SPEC, b""))
    # If a field has two values, the last one counts.
    others = [protobuf_field(n, v + overrides if n == _TRAINER_SPEC and isinstance(v, bytes) else v) for n, v in items]
    return b"".join([*(protobuf_field(_PIECES, _piece_fields(piece)) for piece in pieces), *others])


def with_special_tokens(model_bytes: bytes) -> bytes:
    """Return a model of any origin with the special tokens as ids 0 to 3, and its other tokens after them, in order.

    A model that has them there is returned as it is. Raises DataError if it is not a model, or is damaged.
    """
    pieces = read_pieces(model_bytes)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
    ids = (processor.unk_id(), processor.pad_id(), processor.bos_id(), processor.eos_id())
    if ids == (UNK_ID, PAD_ID, BOS_ID, EOS_ID):
        return model_bytes
    specials = [Piece(text, type=CONTROL if number else UNKNOWN) for number, text in enumerate(SPECIAL_TOKENS)]
    others = [p for p in pieces if p.type not in (UNKNOWN, CONTROL) and p.text not in SPECIAL_TOKENS]
    return with_pieces(model_bytes, [*specials, *others])


def _piece_fields(piece: Piece) -> bytes:
    score = b"\x15" + struct.pack("<f", piece.score)  # field 2, of four bytes
    return protobuf_field(1, piece.text.encode()) + score + protobuf_field(3, piece.type)
