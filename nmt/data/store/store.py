"""The corpus as memory-mapped token ids on disk: built once, as a stream, so it may be larger than memory.

A store is a folder with flat token arrays, the offset of each sentence, and `store.json`. It is built under a temporary
name and renamed when complete, so a folder with the final name is always complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from nmt.base.errors import RunError
from nmt.base.files import new_folder, read_at_most, write_text
from nmt.base.machine import num_cores
from nmt.base.special_tokens import UNK_ID
from nmt.config.base import Section, first_fault
from nmt.data.read.pairs import SentencePair
from nmt.data.store.positions import Ints, positions
from nmt.data.store.report import MAX_NAMED, CorpusCounts
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

FORMAT: Literal[2] = 2
_MAX_INFO_BYTES = 1_000_000
BLOCK_PAIRS = 20_000  # pairs in memory at once while building
_BLOCK_LENGTHS = 1 << 20


class StoreInfo(Section):
    """The contents of store.json."""

    format: Literal[2] = FORMAT
    num_pairs: int = Field(ge=0)
    dtype: Literal["uint16", "uint32"]
    src_vocab_size: int = Field(ge=1)
    tgt_vocab_size: int = Field(ge=1)
    counts: CorpusCounts
    corpora: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="number of pairs of each corpus, in order; empty: there is only one corpus"
    )


@dataclass
class Side:
    """One language of a store: the tokens of all sentences, concatenated, without special tokens."""

    tokens: NDArray[Any]  # [number of tokens], uint16 or uint32
    offsets: Ints  # [number of sentences + 1]
    vocab_size: int
    folder: Path

    def check(self, ids: NDArray[Any]) -> None:
        """Raise RunError if `ids`, read from `tokens`, contain invalid tokens: a disk may return wrong bytes."""
        if len(ids) and (largest := int(ids.max())) >= self.vocab_size:
            raise damaged(f"token {largest}, of a vocabulary of {self.vocab_size}", self.folder)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, indices: Ints) -> Ints:
        """Return the number of tokens of the sentences at `indices`."""
        return self.offsets[indices + 1] - self.offsets[indices]

    def concatenated(self, indices: Ints) -> Ints:
        """Return the tokens of the sentences at `indices`, concatenated. RunError if they contain invalid ones."""
        ids = self.tokens[positions(self.offsets[indices], self.lengths(indices))]
        self.check(ids)
        return ids.astype(np.int64)

    def length_blocks(self) -> Iterator[Ints]:
        """Yield the number of tokens of each sentence, in blocks, because the corpus may be larger than memory."""
        for first in range(0, len(self.offsets) - 1, _BLOCK_LENGTHS):
            yield np.diff(self.offsets[first : first + _BLOCK_LENGTHS + 1])

    def length_counts(self) -> Ints:
        """Return the number of sentences with 0, 1, 2, … tokens, up to the longest."""
        counts = np.zeros(1, dtype=np.int64)
        for lengths in self.length_blocks():
            block = np.bincount(lengths, minlength=len(counts))
            block[: len(counts)] += counts
            counts = block
        return counts


def damaged(what: str, folder: Path) -> RunError:
    """Return the error for a store that has changed since it was built."""
    return RunError(
        f"the tokenized corpus is damaged ({what})", path=folder, hint="delete the folder; nmt will rebuild it"
    )


class TokenStore:
    """Random access to the tokenized pairs of a finished store."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            content = read_at_most(folder / "store.json", _MAX_INFO_BYTES)
            self.info = StoreInfo.model_validate_json(content)
            if self.info.corpora and sum(self.info.corpora) != self.info.num_pairs:
                raise ValueError("store.json: corpora do not add up to num_pairs")
            self.src = self._open("src", self.info.src_vocab_size)
            self.tgt = self._open("tgt", self.info.tgt_vocab_size)
            self.counts = self.info.counts
        except ValidationError as error:
            raise damaged(f"store.json: {first_fault(error)}", folder) from None
        except (OSError, ValueError) as error:
            raise damaged(str(error), folder) from error

    def _open(self, name: str, vocab_size: int) -> Side:
        """Map the files of one side. Raises ValueError if they do not match or the offsets decrease."""
        tokens = np.memmap(self.folder / f"{name}.tokens", dtype=self.info.dtype, mode="r")
        offsets = np.memmap(self.folder / f"{name}.offsets", dtype=np.int64, mode="r")
        if len(offsets) != len(self) + 1 or len(tokens) != offsets[-1]:
            raise ValueError(f"{name}.tokens does not have the length given in store.json")
        for start in range(0, len(offsets), _BLOCK_LENGTHS):
            block = offsets[start : start + _BLOCK_LENGTHS + 1]
            if (block[1:] < block[:-1]).any():
                raise ValueError(f"{name}.offsets run backward")
        if offsets[0] != 0:
            raise ValueError(f"{name}.offsets do not begin at 0")
        return Side(tokens, offsets, vocab_size, self.folder)

    def __len__(self) -> int:
        return self.info.num_pairs

    def of_copies(self) -> Self:
        """Return the pairs of each target and itself. The vocabulary must be joint."""
        store = copy(self)
        store.src = self.tgt
        return store

    def sizes(self, num_corpora: int) -> tuple[int, ...]:
        """Return the number of pairs of each of `num_corpora` corpora, in store order."""
        sizes = self.info.corpora or (self.info.num_pairs,)
        return sizes + (0,) * (num_corpora - len(sizes))


class _SideWriter:
    """Appends sentences of one language to the files of an unfinished store, which `stack` closes."""

    def __init__(self, stack: ExitStack, folder: Path, side: str, tokenizer: Tokenizer, dtype: str):
        self.tokens: BinaryIO = stack.enter_context(open(folder / f"{side}.tokens", "wb"))  # noqa: SIM115
        self.offsets: BinaryIO = stack.enter_context(open(folder / f"{side}.offsets", "wb"))  # noqa: SIM115
        self.offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self.tokenizer = tokenizer
        self.dtype = dtype
        self.end = 0
        self.num_unknown = 0
        self.unknown: Counter[str] = Counter()

    def append(self, texts: list[str]) -> None:
        """Append the tokens of each of `texts`."""
        tokens = self.tokenizer.encode_batch(texts, threads=num_cores())
        ends = self.end + np.cumsum([len(ids) for ids in tokens], dtype=np.int64)
        joined = np.fromiter(chain.from_iterable(tokens), dtype=self.dtype)
        self.tokens.write(joined.tobytes())
        if num_unknown := int(np.count_nonzero(joined == UNK_ID)):
            self.num_unknown += num_unknown
            unknown = (self.tokenizer.unknown_in(text, ids) for text, ids in zip(texts, tokens, strict=True))
            self.unknown.update(chain.from_iterable(chain.from_iterable(unknown)))
        self.offsets.write(ends.tobytes())
        self.end = int(ends[-1])


def build_store(
    folder: Path, pairs: Iterator[SentencePair], tokenizers: TokenizerPair, counts: CorpusCounts
) -> TokenStore:
    """Tokenize `pairs`, corpus by corpus, into `folder`, which must not exist yet, and open it.

    Memory is bounded by a block of pairs, whatever the size of the corpus. `counts` are saved with the store; they are
    read after the last pair, so the iterator of pairs may update them.
    """
    src_vocab_size, tgt_vocab_size = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size
    dtype: Literal["uint16", "uint32"] = "uint16" if max(src_vocab_size, tgt_vocab_size) <= 1 << 16 else "uint32"
    sizes = [0]
    try:
        with new_folder(folder) as partial:
            with ExitStack() as stack:
                src = _SideWriter(stack, partial, "src", tokenizers.src, dtype)
                tgt = _SideWriter(stack, partial, "tgt", tokenizers.tgt, dtype)
                for block in _blocks_of_one_corpus(pairs):
                    src.append([pair.src for pair in block])
                    tgt.append([pair.tgt for pair in block])
                    assert block[0].corpus >= len(sizes) - 1, "pairs come corpus by corpus"
                    sizes += [0] * (block[0].corpus + 1 - len(sizes))  # a corpus may have no pairs
                    sizes[block[0].corpus] += len(block)
            counts.src_unknown, counts.tgt_unknown = src.num_unknown, tgt.num_unknown
            counts.src_unknown_characters = dict(src.unknown.most_common(MAX_NAMED))
            counts.tgt_unknown_characters = dict(tgt.unknown.most_common(MAX_NAMED))
            info = StoreInfo(
                num_pairs=sum(sizes),
                corpora=tuple(sizes) if len(sizes) > 1 else (),
                dtype=dtype,
                src_vocab_size=src_vocab_size,
                tgt_vocab_size=tgt_vocab_size,
                counts=counts,  # complete after the last pair
            )
            write_text(partial / "store.json", info.model_dump_json())
    except FileExistsError:
        if not folder.is_dir():  # another training run may have built the same store in the meantime
            raise
    return TokenStore(folder)


def _blocks_of_one_corpus(pairs: Iterator[SentencePair]) -> Iterator[list[SentencePair]]:
    """Yield `pairs` in blocks of a single corpus, so that the size of each corpus is known."""
    for _, corpus in groupby(pairs, key=attrgetter("corpus")):
        while block := list(islice(corpus, BLOCK_PAIRS)):
            yield block
