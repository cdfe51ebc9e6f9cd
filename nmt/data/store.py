"""The corpus as token ids on disk, memory-mapped: built once, streaming, so a corpus larger than memory is fine.

A store is a folder: flat token arrays, offsets that say where each sentence starts, and `store.json`. It is built under
a temporary name and renamed when whole; a folder with the final name is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from nmt.config.sections import Section
from nmt.data.corpus import SentencePair
from nmt.data.tokenizer import Tokenizer, TokenizerPair
from nmt.errors import RunError
from nmt.files import new_folder, read_at_most, write_text
from nmt.machine import num_cores

FORMAT: Literal[1] = 1
_MAX_INFO_BYTES = 1_000_000
_BLOCK_PAIRS = 20_000  # pairs in memory at once while building
_BLOCK_LENGTHS = 1 << 20


@dataclass
class StoreNotes:
    """What was counted while the pairs of a store went by."""

    src_words: int = 0  # characters, in a language that is written without spaces
    tgt_words: int = 0
    empty: int = 0  # pairs with an empty side, which are left out
    same_on_both_sides: int = 0
    in_valid: int = 0  # pairs whose source is one of the validation set
    in_test: int = 0
    masked: int = 0  # pairs in which placeholders stand for spans
    copies: int = 0  # copies of pairs, with placeholders put in


class StoreInfo(Section):
    """What store.json says."""

    format: Literal[1] = FORMAT
    num_pairs: int = Field(ge=0)
    dtype: Literal["uint16", "uint32"]
    src_vocab_size: int = Field(ge=1)
    tgt_vocab_size: int = Field(ge=1)
    notes: StoreNotes


@dataclass
class Side:
    """One language of a store: all sentences' tokens one after another, without specials."""

    tokens: NDArray[Any]  # [number of tokens], uint16 or uint32
    offsets: NDArray[np.int64]  # [number of sentences + 1]
    vocab_size: int
    folder: Path

    def check(self, ids: NDArray[Any]) -> None:
        """RunError if `ids`, read from `tokens`, hold what is no token: a disk may give back other bytes."""
        if len(ids) and (largest := int(ids.max())) >= self.vocab_size:
            raise damaged(f"token {largest}, of a vocabulary of {self.vocab_size}", self.folder)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of the sentences at `indices`."""
        return self.offsets[indices + 1] - self.offsets[indices]

    def length_blocks(self) -> Iterator[NDArray[np.int64]]:
        """Tokens of every sentence, in blocks: the corpus may be larger than memory."""
        for start in range(0, len(self.offsets) - 1, _BLOCK_LENGTHS):
            yield np.diff(self.offsets[start : start + _BLOCK_LENGTHS + 1])

    def length_counts(self) -> NDArray[np.int64]:
        """How many sentences have 0, 1, 2, … tokens, up to the longest."""
        counts = np.zeros(1, dtype=np.int64)
        for lengths in self.length_blocks():
            block = np.bincount(lengths, minlength=len(counts))
            block[: len(counts)] += counts
            counts = block
        return counts


def damaged(what: str, folder: Path) -> RunError:
    """The error for a store that is not as it was built."""
    hint = "delete the folder; it will be built again"
    return RunError(f"the tokenized corpus is damaged ({what})", path=folder, hint=hint)


class TokenStore:
    """Random access to the tokenized pairs of a finished store."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            content = read_at_most(folder / "store.json", _MAX_INFO_BYTES)
            self.info = StoreInfo.model_validate(json.loads(content))
            self.src = self._open("src", self.info.src_vocab_size)
            self.tgt = self._open("tgt", self.info.tgt_vocab_size)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "store.json"
            raise damaged(f"store.json: {name}: {first['msg']}", folder) from None
        except RecursionError:
            raise damaged("store.json is nested too deeply", folder) from None
        except (OSError, ValueError) as error:
            raise damaged(str(error), folder) from error

    def _open(self, name: str, vocab_size: int) -> Side:
        """Map the files of one side. Raises ValueError if they do not fit together or the offsets run backward."""
        tokens = np.memmap(self.folder / f"{name}.tokens", dtype=self.info.dtype, mode="r")
        offsets = np.memmap(self.folder / f"{name}.offsets", dtype=np.int64, mode="r")
        if len(offsets) != len(self) + 1 or len(tokens) != offsets[-1]:
            raise ValueError(f"{name}.tokens does not have the length that store.json says")
        for start in range(0, len(offsets), _BLOCK_LENGTHS):
            block = offsets[start : start + _BLOCK_LENGTHS + 1]
            if (block[1:] < block[:-1]).any():
                raise ValueError(f"{name}.offsets run backward")
        if offsets[0] != 0:
            raise ValueError(f"{name}.offsets do not begin at 0")
        return Side(tokens, offsets, vocab_size, self.folder)

    def __len__(self) -> int:
        return self.info.num_pairs


class Sampling(NamedTuple):
    """How often each pair is stored: once in its usual segmentation, and in `samples` - 1 that are drawn."""

    samples: int = 1
    alpha: float = 0.2
    seed: int = 1


USUAL = Sampling()


class _SideWriter:
    """Appends sentences of one language to the files of a store in the making; `with` closes them."""

    def __init__(self, folder: Path, side: str, tokenizer: Tokenizer, dtype: str, sampling: Sampling):
        self.tokens: BinaryIO = open(folder / f"{side}.tokens", "wb")  # noqa: SIM115 (closed by __exit__)
        self.offsets: BinaryIO = open(folder / f"{side}.offsets", "wb")  # noqa: SIM115
        self.offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self.tokenizer = tokenizer
        self.dtype = dtype
        self.end = 0
        self.sampling = sampling
        self.seeds = np.random.default_rng((sampling.seed, side == "tgt"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tokens.close()
        self.offsets.close()

    def append(self, texts: list[str]) -> None:
        """Append every segmentation of `texts`: the usual one of each, then the drawn ones."""
        self._append(self.tokenizer.encode_batch(texts, threads=num_cores()))
        for _ in range(1, self.sampling.samples):
            seed = int(self.seeds.integers(1 << 32))
            self._append(self.tokenizer.sample_batch(texts, self.sampling.alpha, seed))

    def _append(self, tokens: list[list[int]]) -> None:
        ends = self.end + np.cumsum([len(ids) for ids in tokens], dtype=np.int64)
        self.tokens.write(np.fromiter(chain.from_iterable(tokens), dtype=self.dtype).tobytes())
        self.offsets.write(ends.tobytes())
        self.end = int(ends[-1])


def build_store(
    folder: Path,
    pairs: Iterator[SentencePair],
    tokenizers: TokenizerPair,
    notes: StoreNotes,
    sampling: Sampling = USUAL,
) -> TokenStore:
    """Tokenize `pairs` into `folder`, which must not exist yet, and open it.

    Memory is bounded by a block of pairs, whatever the size of the corpus. `notes` is kept in `store.json`; it is read
    after the last pair, so whoever yields the pairs may count into it. The store holds each pair `sampling.samples`
    times: an epoch over it is that many passes over the corpus.
    """
    try:
        with new_folder(folder) as partial:
            _write_store(partial, pairs, tokenizers, notes, sampling)
    except FileExistsError:
        if not folder.is_dir():  # another training may have built the same store meanwhile
            raise
    return TokenStore(folder)


def _write_store(
    folder: Path, pairs: Iterator[SentencePair], tokenizers: TokenizerPair, notes: StoreNotes, sampling: Sampling
) -> None:
    """Write the files of a store into `folder`, which is there and empty."""
    largest = max(tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    dtype: Literal["uint16", "uint32"] = "uint16" if largest <= 1 << 16 else "uint32"
    num_pairs = 0
    with (
        _SideWriter(folder, "src", tokenizers.src, dtype, sampling) as src,
        _SideWriter(folder, "tgt", tokenizers.tgt, dtype, sampling) as tgt,
    ):
        while block := list(islice(pairs, _BLOCK_PAIRS)):
            src.append([pair.src for pair in block])
            tgt.append([pair.tgt for pair in block])
            num_pairs += len(block) * sampling.samples
    info = StoreInfo(
        num_pairs=num_pairs,
        dtype=dtype,
        src_vocab_size=tokenizers.src.vocab_size,
        tgt_vocab_size=tokenizers.tgt.vocab_size,
        notes=notes,
    )
    write_text(folder / "store.json", info.model_dump_json())
