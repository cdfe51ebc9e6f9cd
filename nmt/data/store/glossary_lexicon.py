"""Find the words of a training pair that translate each other, with a lexicon of the corpus's tokens.

The lexicon is learned once with IBM model 1, and saved beside the tokenized corpus.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nmt.base.files import write_atomically
from nmt.data.store.lexicon import learn_lexicon
from nmt.data.store.store import TokenStore, damaged

MIN_SIMILARITY = 0.05
"""Token pairs below it are dropped."""

_MIN_WORD_SIMILARITY = 0.1
_VERSION = 1

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Range = tuple[int, int]  # of the tokens of a word, or of words


class Link(NamedTuple):
    """Words that translate each other, as ranges of the words of their sides."""

    src: Range
    tgt: Range


class TermLexicon(NamedTuple):
    """The strength of the link of two tokens: the Dice coefficient of their links in IBM model 1."""

    keys: Ints  # [entries], ascending: source token x size of the target vocabulary + target token
    similarities: Floats  # [entries], from 0 to 1
    tgt_vocab_size: int

    @classmethod
    def learn(cls, store: TokenStore) -> Self:
        """Learn the lexicon of a tokenized corpus. RunError if that is damaged."""
        lexicon, width = learn_lexicon(store), store.tgt.vocab_size
        src_links = np.bincount(lexicon.src, lexicon.links, minlength=store.src.vocab_size)
        tgt_links = np.bincount(lexicon.tgt, lexicon.links, minlength=width)
        totals = src_links[lexicon.src] + tgt_links[lexicon.tgt]
        similarities = (2 * lexicon.links / np.maximum(totals, 1e-30)).astype(np.float32)
        kept = similarities >= MIN_SIMILARITY
        return cls((lexicon.src * width + lexicon.tgt)[kept], similarities[kept], width)

    @classmethod
    def of_store(cls, store: TokenStore, *, keep: bool = False) -> Self:
        """Return the lexicon saved beside `store`, or learn it; with `keep`, save it there.

        RunError if it is damaged.
        """
        path = store.folder.parent / f"{store.folder.name}.lexicon-{_VERSION}.npz"
        if path.is_file():
            return cls._read(path, store.tgt.vocab_size)
        lexicon = cls.learn(store)
        if keep:
            with write_atomically(path) as partial, open(partial, "wb") as file:
                np.savez(file, keys=lexicon.keys, similarities=lexicon.similarities)
        return lexicon

    @classmethod
    def _read(cls, path: Path, tgt_vocab_size: int) -> Self:
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                keys, similarities = arrays["keys"], arrays["similarities"]
            if keys.dtype != np.int64 or similarities.dtype != np.float32 or keys.shape != similarities.shape:
                raise ValueError("arrays of another kind")
        except Exception as error:  # zipfile and numpy raise many types of exceptions
            raise damaged(f"the lexicon: {error}", path) from None
        return cls(keys, similarities, tgt_vocab_size)

    def links(
        self, ids: tuple[Sequence[int], Sequence[int]], words: tuple[Sequence[Range], Sequence[Range]]
    ) -> list[Link]:
        """Return the words that translate each other: one or more adjacent words on either side.

        `ids` are the tokens of the two sides, and `words` the token ranges of their words. Two words are linked if each
        is the best translation of the other. Words next to one of them join it if the other one is also their best
        translation.
        """
        if not (words[0] and words[1] and len(self.keys)):
            return []
        scores = self._scores(ids, words)  # [source words, target words]
        best_tgt, best_src = scores.argmax(axis=1), scores.argmax(axis=0)
        best_tgt[scores.max(axis=1) < _MIN_WORD_SIMILARITY] = -1
        best_src[scores.max(axis=0) < _MIN_WORD_SIMILARITY] = -1
        linked = [(i, j) for i, j in enumerate(best_tgt.tolist()) if j >= 0 and best_src[j] == i]
        taken = [{pair[side] for pair in linked} for side in (0, 1)]
        return [
            Link(_grow(i, j, best_tgt.tolist(), taken[0]), _grow(j, i, best_src.tolist(), taken[1])) for i, j in linked
        ]

    def _scores(
        self, ids: tuple[Sequence[int], Sequence[int]], words: tuple[Sequence[Range], Sequence[Range]]
    ) -> Floats:
        """Return the similarities [source words, target words]: the mean over tokens of their best similarity."""
        rows, columns = (self._tokens_of(side, ranges) for side, ranges in zip(ids, words, strict=True))
        similarities = self._look_up(rows.ids[:, None] * self.tgt_vocab_size + columns.ids[None, :])
        by_word = np.maximum.reduceat(similarities, columns.starts, axis=1)  # [source tokens, target words]
        of_src = np.add.reduceat(by_word, rows.starts, axis=0) / rows.sizes[:, None]
        by_word = np.maximum.reduceat(similarities, rows.starts, axis=0)  # [source words, target tokens]
        of_tgt = np.add.reduceat(by_word, columns.starts, axis=1) / columns.sizes[None, :]
        return ((of_src + of_tgt) / 2).astype(np.float32)

    @staticmethod
    def _tokens_of(ids: Sequence[int], ranges: Sequence[Range]) -> _Tokens:
        sizes = np.array([end - start for start, end in ranges], dtype=np.int64)
        tokens = np.concatenate([np.asarray(ids[start:end], dtype=np.int64) for start, end in ranges])
        return _Tokens(tokens, sizes.cumsum() - sizes, sizes)

    def _look_up(self, keys: Ints) -> Floats:
        """Return the similarity of each of `keys`; 0 for keys without an entry."""
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.similarities[places], np.float32(0))


class _Tokens(NamedTuple):
    """The tokens of words, concatenated."""

    ids: Ints
    starts: Ints  # of each word
    sizes: Ints  # of each word


def _grow(word: int, other: int, best: Sequence[int], taken: Collection[int]) -> Range:
    """Return the range of words around `word` that are not in `taken`, and whose best translation is `other`."""
    start, end = word, word + 1
    while start > 0 and best[start - 1] == other and start - 1 not in taken:
        start -= 1
    while end < len(best) and best[end] == other and end not in taken:
        end += 1
    return start, end
