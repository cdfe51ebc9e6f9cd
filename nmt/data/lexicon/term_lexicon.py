"""Learn from the links of IBM model 1 in a corpus how strongly tokens and words translate each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.model1 import MAX_PAIRS, learn_lexicon
from nmt.data.lexicon.stored_table import entry_data, load_table, save_table
from nmt.data.store.store import Ints, TokenStore
from nmt.data.tokens.tokenizer import TokenizerPair

MIN_SIMILARITY = 0.05  # token pairs below it are dropped
_MIN_WORD_SIMILARITY = 0.1
_VERSION = 1

Floats = NDArray[np.float32]
Range = tuple[int, int]  # of the tokens of a word, or of words
SideIds = tuple[Sequence[int], Sequence[int]]  # of source and target
SideWords = tuple[Sequence[Range], Sequence[Range]]


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
    def learn(cls, store: TokenStore, tension: float = 0.0, max_pairs: int = MAX_PAIRS) -> Self:
        """Learn the lexicon of a tokenized corpus by `learn_lexicon`. RunError if the corpus is damaged."""
        lexicon, width = learn_lexicon(store, tension, max_pairs), store.tgt.vocab_size
        src_links = np.bincount(lexicon.src, lexicon.links, minlength=store.src.vocab_size)
        tgt_links = np.bincount(lexicon.tgt, lexicon.links, minlength=width)
        totals = src_links[lexicon.src] + tgt_links[lexicon.tgt]
        similarities = (2 * lexicon.links / np.maximum(totals, 1e-30)).astype(np.float32)
        kept = similarities >= MIN_SIMILARITY
        return cls((lexicon.src * width + lexicon.tgt)[kept], similarities[kept], width)

    @classmethod
    def of_store(cls, store: TokenStore, tokenizers: TokenizerPair, *, keep: bool = False) -> TermLexicon:
        """Return the lexicon saved beside `store`, or learn it by `learn_lexicon`; with `keep`, save it there.

        RunError if it is damaged.
        """
        path = store.folder.parent / f"{store.folder.name}.lexicon-{_VERSION}.safetensors"
        if path.is_file():
            return cls._read(path, tokenizers, "F32", hint="delete it; nmt will learn it from the corpus")
        lexicon = cls.learn(store)
        if keep:
            save_table(path, {"keys": lexicon.keys, "similarities": lexicon.similarities}, tokenizers)
        return lexicon

    def save(self, path: Path, tokenizers: TokenizerPair) -> None:
        """Write the lexicon into a run, with similarities in half precision, atomically. Raises OSError."""
        save_table(path, {"keys": self.keys, "similarities": self.similarities.astype(np.float16)}, tokenizers)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> TermLexicon:
        """Read what `save` wrote. RunError if it is damaged, or for other tokenizers."""
        return cls._read(path, tokenizers, "F16", hint="copy it again from where the run was trained")

    @classmethod
    def _read(cls, path: Path, tokenizers: TokenizerPair, precision: Literal["F16", "F32"], hint: str) -> TermLexicon:
        sizes = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size

        def parse(entries: dict[str, Any]) -> TermLexicon:
            keys = np.frombuffer(entry_data(entries, "keys", "I64"), np.int64)
            stored = np.frombuffer(entry_data(entries, "similarities", precision), precision.replace("F", "float"))
            similarities = stored.astype(np.float32)
            if len(keys) != len(similarities) or not ((similarities >= 0) & (similarities <= 1)).all():
                raise ValueError("its parts do not fit together")
            if len(keys) and not (keys[0] >= 0 and keys[-1] < sizes[0] * sizes[1] and (keys[1:] > keys[:-1]).all()):
                raise ValueError("it contains invalid tokens")
            return cls(keys, similarities, sizes[1])

        return load_table(path, tokenizers, ("lexicon", hint), parse)

    def links(self, ids: SideIds, words: SideWords) -> list[Link]:
        """Return the words that translate each other: one or more adjacent words on either side.

        `ids` are the tokens of the two sides, and `words` the token ranges of their words. Two words are linked if each
        is the best translation of the other. Words next to one of them join it if the other one is also their best
        translation.
        """
        if not (words[0] and words[1] and len(self.keys)):
            return []
        scores = self._scores(ids, words)  # [source words, target words]
        best_tgt, best_src = _best(scores), _best(scores.T)
        mutual = {src: tgt for src, tgt in enumerate(best_tgt) if tgt >= 0 and best_src[tgt] == src}
        linked_tgt = set(mutual.values())
        return [
            Link(_grow(src, tgt, best_tgt, mutual), _grow(tgt, src, best_src, linked_tgt))
            for src, tgt in mutual.items()
        ]

    def of_tokens(self, src: Ints, tgt: Ints) -> Floats:
        """Return the similarity of each source token and target token, two arrays of ids that broadcast."""
        keys = src * self.tgt_vocab_size + tgt
        if not len(self.keys):
            return np.zeros(keys.shape, np.float32)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.similarities[places], np.float32(0))

    def _scores(self, ids: SideIds, words: SideWords) -> Floats:
        """Return the similarities [source words, target words]: the mean over tokens of their best similarity."""
        (rows, row_starts, row_sizes), (columns, column_starts, column_sizes) = map(_tokens_of, ids, words)
        similarities = self.of_tokens(rows[:, None], columns[None, :])
        by_word = np.maximum.reduceat(similarities, column_starts, axis=1)  # [source tokens, target words]
        of_src = np.add.reduceat(by_word, row_starts, axis=0) / row_sizes[:, None]
        by_word = np.maximum.reduceat(similarities, row_starts, axis=0)  # [source words, target tokens]
        of_tgt = np.add.reduceat(by_word, column_starts, axis=1) / column_sizes[None, :]
        return ((of_src + of_tgt) / 2).astype(np.float32)


def _best(scores: Floats) -> list[int]:
    """Return the best column of each row of scores [N, M]; -1 where none is good enough."""
    best = scores.argmax(axis=1)
    best[scores.max(axis=1) < _MIN_WORD_SIMILARITY] = -1
    return best.tolist()


def _tokens_of(ids: Sequence[int], words: Sequence[Range]) -> tuple[Ints, Ints, Ints]:
    """Return the tokens of `words`, concatenated, and the start and the size of each word in them."""
    sizes = np.array([end - start for start, end in words], dtype=np.int64)
    tokens = np.concatenate([np.asarray(ids[start:end], dtype=np.int64) for start, end in words])
    return tokens, sizes.cumsum() - sizes, sizes


def _grow(word: int, other: int, best: Sequence[int], taken: Collection[int]) -> Range:
    """Return the range of words around `word` that are not in `taken`, and whose best translation is `other`."""
    start, end = word, word + 1
    while start > 0 and best[start - 1] == other and start - 1 not in taken:
        start -= 1
    while end < len(best) and best[end] == other and end not in taken:
        end += 1
    return start, end
