"""Read and write fields of serialized protocol buffers, such as SentencePiece models, without their schema."""

from __future__ import annotations

from collections.abc import Iterator


def protobuf_field(number: int, value: int | bytes) -> bytes:
    """Return field `number` with `value`: a varint, or length-prefixed bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Return a non-negative number as a varint."""
    low = [value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(byte | 0x80 for byte in low[:-1]), low[-1]])


def protobuf_fields(message: bytes) -> dict[int, int | bytes]:
    """Return the fields of a valid serialized protocol buffer, by number; the last value of a repeated field."""
    return dict(protobuf_items(message))


def protobuf_items(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field of a valid serialized protocol buffer."""
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
