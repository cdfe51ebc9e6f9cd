"""Read and write SentencePiece models: the fields of ModelProto in sentencepiece_model.proto, without its schema."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sentencepiece

from nmt.base.errors import DataError
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of a token. An unused one never results from a segmentation, but has a text."""

ADDED_SCORE = 1.0
"""The score of user-defined tokens that transformers added to a model; no other score is positive.

The texts around such a token are segmented apart from each other, as transformers does it.
"""

SPECIAL_TOKENS = ("<unk>", "<pad>", "<s>", "</s>")  # the written forms of the ids 0 to 3
SPECIAL_IDS = (UNK_ID, PAD_ID, BOS_ID, EOS_ID)

_BPE = 2
_MODEL_TYPES = {1: "unigram", _BPE: "bpe", 3: "word", 4: "char"}
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

    def serialized(self) -> bytes:
        """Return the token as an entry of `pieces`; its score is field 2, of four bytes."""
        score = b"\x15" + struct.pack("<f", self.score)
        return protobuf_field(_PIECES, protobuf_field(1, self.text.encode()) + score + protobuf_field(3, self.type))


def read_pieces(model_bytes: bytes) -> list[Piece]:
    """Return the tokens of a serialized model, by id. Raises DataError if it is not a model, or is damaged."""
    try:
        if not model_bytes:
            raise ValueError
        spm = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
        fields = (protobuf_fields(value) for number, value in protobuf_items(model_bytes) if number == _PIECES)
        return [Piece(spm.id_to_piece(i), spm.get_score(i), each.get(3, NORMAL)) for i, each in enumerate(fields)]
    except (RuntimeError, ValueError, IndexError, TypeError):
        raise DataError("this is not a SentencePiece model, or it is damaged") from None


def special_ids(processor: sentencepiece.SentencePieceProcessor) -> tuple[int, int, int, int]:
    """Return the ids of unk, pad, bos and eos."""
    return processor.unk_id(), processor.pad_id(), processor.bos_id(), processor.eos_id()


def model_type(model_bytes: bytes) -> str:
    """Return the type of a model: `model_type` (3) of its `trainer_spec`. IndexError if it is damaged."""
    spec = protobuf_fields(protobuf_fields(model_bytes).get(_TRAINER_SPEC, b""))
    return _MODEL_TYPES.get(spec.get(3, 1), "unknown")


def with_more(model_bytes: bytes, pieces: Iterable[Piece]) -> bytes:
    """Return a serialized model with `pieces` after its other tokens."""
    # A repeated field of a protocol buffer can be appended.
    return model_bytes + b"".join(piece.serialized() for piece in pieces)


def with_pieces(model_bytes: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return a serialized model with other tokens, of which the first four are the special ones.

    It normalizes and segments like the model `model_bytes`, which must be valid.
    """
    kept = (_TRAINER_SPEC, *_NORMALIZERS)
    items = [(number, value) for number, value in protobuf_items(model_bytes) if number in kept]
    specials: dict[int, Any] = {_VOCAB_SIZE: len(pieces), **_IDS, **_NAMES}
    overrides = b"".join(protobuf_field(number, value) for number, value in specials.items())
    if _TRAINER_SPEC not in dict(items):
        items.append((_TRAINER_SPEC, b""))
    # If a field has two values, the last one counts.
    others = [protobuf_field(n, v + overrides if n == _TRAINER_SPEC else v) for n, v in items]
    return b"".join([*(piece.serialized() for piece in pieces), *others])


def bpe_model(pieces: Iterable[Piece], charsmap: bytes) -> bytes:
    """Return a serialized model of BPE that normalizes by `charsmap`, its `precompiled_charsmap`."""
    trainer_spec = protobuf_field(_TRAINER_SPEC, protobuf_field(3, _BPE))
    return with_more(trainer_spec + protobuf_field(_NORMALIZERS[0], protobuf_field(2, charsmap)), pieces)


def with_special_tokens(model_bytes: bytes) -> bytes:
    """Return a model of any origin with the special tokens as ids 0 to 3, and its other tokens after them, in order.

    A model that has them there is returned as it is. Raises DataError if it is not a model, or is damaged.
    """
    pieces = read_pieces(model_bytes)
    if special_ids(sentencepiece.SentencePieceProcessor(model_proto=model_bytes)) == SPECIAL_IDS:
        return model_bytes
    specials = [Piece(text, type=CONTROL if number else UNKNOWN) for number, text in enumerate(SPECIAL_TOKENS)]
    others = [p for p in pieces if p.type not in (UNKNOWN, CONTROL) and p.text not in SPECIAL_TOKENS]
    return with_pieces(model_bytes, [*specials, *others])


def protobuf_field(number: int, value: int | bytes) -> bytes:
    """Return field `number` with `value`: a varint, or length-prefixed bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Return a non-negative number as a varint."""
    low = [value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(byte | 0x80 for byte in low[:-1]), low[-1]])


def protobuf_fields(message: bytes) -> dict[int, Any]:
    """Return the fields of a valid serialized protocol buffer, by number; the last value of a repeated field."""
    return dict(protobuf_items(message))


def protobuf_items(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value, an int or bytes, of each field of a valid serialized protocol buffer."""
    at = 0

    def read_varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(message):
        key = read_varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, read_varint()
            continue
        size = read_varint() if kind == 2 else 8 if kind == 1 else 4
        yield key >> 3, message[at : at + size]
        at += size
