"""Learn from the links of IBM model 1 in a corpus how strongly tokens and words translate each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.model1 import MAX_PAIRS, learn_lexicon
from nmt.data.lexicon.stored_table import entry_data, load_table, save_table
from nmt.data.store.positions import Ints
from nmt.data.store.store import TokenStore
from nmt.data.tokens.tokenizer import TokenizerPair

MIN_SIMILARITY = 0.05  # token pairs below it are dropped

Floats = NDArray[np.float32]


class TermLexicon(NamedTuple):
    """The strength of the link of two tokens: the Dice coefficient of their links in IBM model 1."""

    keys: Ints  # [entries], ascending: source token x size of the target vocabulary + target token
    similarities: Floats  # [entries], from 0 to 1
    tgt_vocab_size: int

    @classmethod
    def learn(cls, store: TokenStore, tension: float = 0.0, max_pairs: int = MAX_PAIRS) -> Self:
        """Learn the lexicon of a tokenized corpus by `learn_lexicon`. RunError if the corpus is damaged."""
        lexicon = learn_lexicon(store, tension, max_pairs)
        width = store.tgt.vocab_size
        src_links = np.bincount(lexicon.src, lexicon.links, minlength=store.src.vocab_size)
        tgt_links = np.bincount(lexicon.tgt, lexicon.links, minlength=width)
        totals = src_links[lexicon.src] + tgt_links[lexicon.tgt]
        similarities = (2 * lexicon.links / np.maximum(totals, 1e-30)).astype(np.float32)
        kept = similarities >= MIN_SIMILARITY
        return cls((lexicon.src * width + lexicon.tgt)[kept], similarities[kept], width)

    def save(self, path: Path, tokenizers: TokenizerPair) -> None:
        """Write the lexicon into a run, with similarities in half precision, atomically. Raises OSError."""
        save_table(path, {"keys": self.keys, "similarities": self.similarities.astype(np.float16)}, tokenizers)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> TermLexicon:
        """Read what `save` wrote. RunError if it is damaged, or for other tokenizers."""
        sizes = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size

        def parse(entries: dict[str, Any]) -> TermLexicon:
            keys = np.frombuffer(entry_data(entries, "keys", "I64"), np.int64)
            similarities = np.frombuffer(entry_data(entries, "similarities", "F16"), np.float16).astype(np.float32)
            if len(keys) != len(similarities) or not ((similarities >= 0) & (similarities <= 1)).all():
                raise ValueError("its parts do not fit together")
            if len(keys) and not (keys[0] >= 0 and keys[-1] < sizes[0] * sizes[1] and (keys[1:] > keys[:-1]).all()):
                raise ValueError("it contains invalid tokens")
            return cls(keys, similarities, sizes[1])

        return load_table(path, tokenizers, ("lexicon", "copy it again from where the run was trained"), parse)

    def of_tokens(self, src: Ints, tgt: Ints) -> Floats:
        """Return the similarity of each source token and target token, two arrays of ids that broadcast."""
        keys = src * self.tgt_vocab_size + tgt
        if not len(self.keys):
            return np.zeros(keys.shape, np.float32)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.similarities[places], np.float32(0))
