"""Write the curves and samples of a training for TensorBoard: an event file in the run's `logs/tensorboard`.

This does not need TensorBoard itself: tensorboardX provides the messages and the checksum. The records have
TensorFlow's TFRecord format (length, its checksum, data, its checksum). A resumed training can therefore drop the
events after its state, so that no point appears twice.
"""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.artifacts.rundir import MADE_AT_END
from nmt.base.errors import NmtError, how_to_install
from nmt.base.files import write_atomically
from nmt.training.metrics import TrainRecord, ValidRecord

NUM_SAMPLES = 5
"""Sentences of each validation set that are shown as text."""

MAX_EVENT_BYTES = 10_000_000
_HINT = f"{how_to_install('tensorboard')}, or set training.tensorboard to false"
_TRAIN = ("loss", "lr", "tokens_per_second", "grad_norm")
_VALID = ("loss", "perplexity", "bleu", "chrf")


class Sample(NamedTuple):
    """A sentence of a validation set and its translation."""

    source: str
    reference: str
    translation: str


def require_tensorboard() -> None:
    """Raise NmtError unless tensorboardX is installed."""
    try:
        import tensorboardX.crc32c
        import tensorboardX.proto.event_pb2
        import tensorboardX.summary  # noqa: F401
    except ImportError:
        raise NmtError("training.tensorboard needs the package tensorboardX", hint=_HINT) from None


class TensorBoardLog:
    """The event file of a run."""

    def __init__(self, folder: Path):
        """Write to a file in `folder`, which is created with the first event."""
        self.path = folder / "events.out.tfevents.nmt"  # TensorBoard looks for names with `tfevents`

    def train(self, record: TrainRecord) -> None:
        """Add the numbers of a log line."""
        self._append(record.update, {f"train/{name}": getattr(record, name) for name in _TRAIN})

    def valid(self, record: ValidRecord) -> None:
        """Add the scores of a checkpoint; those computed at the end of training get separate tags."""
        group = _group(record.checkpoint)
        values = {f"{group}/{name}": getattr(record, name) for name in _VALID}
        for direction, scores in record.directions.items():
            values |= {f"{group}-{direction}/{name}": value for name, value in scores.items()}
        self._append(record.update, values)

    def samples(self, update: int, checkpoint: str, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Add the translations of a few validation sentences, by direction."""
        from tensorboardX import summary

        events = []
        for direction, sentences in samples.items():
            rows = "\n\n".join(f"    {line}" for sample in sentences for line in _lines(sample))
            events.append(self._event(update, summary.text(f"{_group(checkpoint)}-{direction}/samples", rows)))
        self._write(events)

    def forget_after(self, update: int) -> None:
        """Drop the events that a resumed training rewrites: those after `update`, and those of the end of training."""
        if self.path.exists():
            kept = [data for data, event in self._read() if _is_kept(event, update)]
            with write_atomically(self.path) as partial:
                partial.write_bytes(b"".join(map(_framed, kept)))

    def events(self) -> list[Any]:
        """Return all complete events of the file, in order."""
        return [event for _, event in self._read()]

    def _append(self, update: int, values: Mapping[str, float | None]) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        numbers = {tag: value for tag, value in values.items() if value is not None and math.isfinite(value)}
        listed = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        self._write([self._event(update, Summary(value=listed))])

    def _event(self, update: int, summary: Any) -> bytes:
        from tensorboardX.proto.event_pb2 import Event

        return bytes(Event(wall_time=time.time(), step=update, summary=summary).SerializeToString())

    def _write(self, events: Sequence[bytes]) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            if not file.tell():
                version = Event(wall_time=time.time(), file_version="brain.Event:2")
                file.write(_framed(version.SerializeToString()))
            file.write(b"".join(map(_framed, events)))
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> Iterator[tuple[bytes, Any]]:
        """Yield the records with their events, up to the first record that a crash truncated."""
        from google.protobuf.message import DecodeError
        from tensorboardX.proto.event_pb2 import Event

        with open(self.path, "rb") as file:
            while len(header := file.read(12)) == 12:
                (length,) = struct.unpack("<Q", header[:8])
                if length > MAX_EVENT_BYTES:
                    return
                data, checksum = file.read(length), file.read(4)
                if len(checksum) < 4 or _framed(data) != header + data + checksum:
                    return
                try:
                    yield data, Event.FromString(data)
                except DecodeError:
                    return


def _lines(sample: Sample) -> list[str]:
    return [f"source       {sample.source}", f"translation  {sample.translation}", f"reference    {sample.reference}"]


def _group(checkpoint: str) -> str:
    """Return the tag group of a checkpoint."""
    return checkpoint if checkpoint in MADE_AT_END else "valid"


def _is_kept(event: Any, update: int) -> bool:
    return event.step <= update and not any(value.tag.startswith(MADE_AT_END) for value in event.summary.value)


def _framed(data: bytes) -> bytes:
    """Return `data` as a record of an event file."""
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", _masked_checksum(header)) + data + struct.pack("<I", _masked_checksum(data))


def _masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of TensorFlow's record format."""
    from tensorboardX.crc32c import crc32c

    value = int(crc32c(data)) & 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF
