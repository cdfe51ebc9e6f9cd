"""The phrase table of a run: phrases with their translations, a language model, a lexicon, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.stored_table import entry_data, load_table, save_table
from nmt.data.phrases.extraction import LONGEST, Links, extract
from nmt.data.phrases.ngrams import NgramModel
from nmt.data.phrases.trie import Ints, find_entries
from nmt.data.tokens.tokenizer import TokenizerPair

Floats = NDArray[np.float64]

FEATURES = (
    "lm", "to_tgt", "to_src", "lexical_to_tgt", "lexical_to_src", "tokens", "phrases",
    "known_copy", "unknown_copy", "name_copy", "drop", "kin", "swap", "length",
)  # fmt: skip
"""The features that the score of a translation is a weighted sum of: the language model, four scores of each phrase,
the number of tokens, of phrases, of copied words (of words with a translation, of others, and of those of them that
look like names), and of source tokens without a translation; the share of letters in which unknown words differ from
those by which they are translated, the number of neighboring phrases that change places, and the number of tokens times
the logarithm of the source's, since short sentences have more target tokens per source token than long ones."""

NEVER = -100.0
"""The weight of a feature that no translation shall have."""

FIRST_WEIGHTS = (0.25, 0.1, 0.13, 0.05, 0.18, 0.37, -0.15, -12.5, -8.5, -5.0, -4.5, -8.0, -1.0, -0.1)

_WHOLE = ("src_starts", "src_tokens", "starts", "phrases", "tgt_starts", "tgt_tokens", "lm_suffixes")
_WIDE = ("lexicon_keys", "lm_keys")
_REAL = ("scores", "lexicon", "weights", "lm_log_probs", "lm_backoffs")
_KINDS = (("I64", np.int64, _WIDE), ("I32", np.int32, _WHOLE), ("F32", np.float32, _REAL))  # as they are stored


class PhraseTable(NamedTuple):
    """All that the search needs. The start of a part ends the part before."""

    src_starts: Ints  # [source phrases + 1]: the first token of each
    src_tokens: Ints
    starts: Ints  # [source phrases + 1]: the first translation of each
    phrases: Ints  # [translations]: the number of the target phrase
    scores: Floats  # [translations, 4]: log-probabilities, of phrases and by tokens, in both directions
    tgt_starts: Ints  # [target phrases + 1]: the first token of each
    tgt_tokens: Ints
    lexicon_keys: Ints  # [entries], ascending: source token x target vocabulary + target token
    lexicon: Floats  # [entries]: probability of the target token given the source token
    weights: Floats  # [features]
    lm: NgramModel

    @classmethod
    def learn(
        cls,
        src: Sequence[Sequence[int]],
        tgt: Sequence[Sequence[int]],
        alignments: Sequence[Sequence[Links]],
        tgt_vocab_size: int,
        more_tgt: Sequence[Sequence[int]] = (),
    ) -> PhraseTable:
        """Learn the table of pairs of tokens that are aligned in one or several ways.

        `more_tgt`: more sentences for the language model.
        """
        lm = NgramModel.learn([*tgt, *more_tgt], tgt_vocab_size)
        weights = np.array(FIRST_WEIGHTS)
        return cls(**extract(src, tgt, alignments, tgt_vocab_size), weights=weights, lm=lm)

    def translations_of_tokens(self, src: Ints, tgt: Ints) -> Floats:
        """Return the probability of each target token given each source token, two arrays of ids that broadcast."""
        places = find_entries(self.lexicon_keys, src * self.lm.vocab_size + tgt)
        return np.append(self.lexicon, 0.0)[places]  # place -1: no entry

    def save(self, path: Path, tokenizers: TokenizerPair) -> None:
        """Write the table into a run, atomically. Raises OSError."""
        arrays = {**self._asdict(), **{f"lm_{name}": each for name, each in self.lm._asdict().items()}}
        stored = {name: arrays[name].astype(kind) for _, kind, names in _KINDS for name in names}
        save_table(path, stored, tokenizers)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> PhraseTable:
        """Read what `save` wrote. RunError if it is damaged, or for other tokenizers."""

        def parse(entries: dict[str, Any]) -> PhraseTable:
            arrays: dict[str, Any] = {
                name: np.frombuffer(entry_data(entries, name, dtype), kind).astype(
                    np.float64 if kind is np.float32 else np.int64
                )
                for dtype, kind, names in _KINDS
                for name in names
            }
            of_lm = {name[3:]: arrays.pop(name) for name in [*arrays] if name.startswith("lm_")}
            scores = arrays.pop("scores").reshape(-1, 4)
            lm = NgramModel.from_arrays(**of_lm, vocab_size=len(tgt))
            table = cls(**arrays, scores=scores, lm=lm)
            table.check()
            return table

        tgt = tokenizers.tgt.vocabulary
        hint = "build it again: delete the file, and continue with `nmt train --resume`"
        return load_table(path, tokenizers, ("phrase table", hint), parse)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together, so that a search cannot fail or run on."""
        parts = (
            (self.src_starts, self.src_tokens, len(self.starts)),
            (self.starts, self.phrases, len(self.src_starts)),
            (self.tgt_starts, self.tgt_tokens, len(self.tgt_starts)),
        )
        if any(
            len(starts) != size or size < 1 or starts[0] != 0 or starts[-1] != len(items) or (np.diff(starts) < 0).any()
            for starts, items, size in parts
        ):
            raise ValueError("its parts do not fit together")
        sizes = (self.scores, self.phrases), (self.lexicon, self.lexicon_keys), (self.weights, FEATURES)
        if any(len(values) != len(items) for values, items in sizes):
            raise ValueError("its parts do not fit together")
        if not all(np.isfinite(values).all() for values in (self.scores, self.lexicon, self.weights)):
            raise ValueError("it contains numbers that are not finite")
        lengths = np.diff(self.tgt_starts)
        if not 1 <= lengths.min(initial=1) <= lengths.max(initial=1) <= LONGEST:
            raise ValueError("it contains phrases of an invalid length")
        limits = (self.phrases, len(lengths)), (self.tgt_tokens, self.lm.vocab_size)
        if any(len(part) and not 0 <= part.min() <= part.max() < limit for part, limit in limits):
            raise ValueError("it contains invalid tokens")
        if (np.diff(self.lexicon_keys) <= 0).any() or (self.lexicon_keys[:1] < 0).any():
            raise ValueError("its keys are not in order")
