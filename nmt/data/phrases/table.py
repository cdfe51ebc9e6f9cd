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
    "known_copy", "unknown_copy", "name_copy", "drop",
)  # fmt: skip
"""What the score of a translation is a weighted sum of: the language model, four scores of each phrase, the number of
tokens, of phrases, of copied words (of words with a translation, of others, and of those of them that look like names),
and of source tokens without a translation."""

FIRST_WEIGHTS = (0.25, 0.1, 0.13, 0.05, 0.18, 0.37, -0.15, -12.5, -8.5, -5.0, -4.5)

_WIDE, _NARROW, _REAL = ("src_keys", "lexicon_keys", "lm_keys"), ("starts", "phrases", "tgt_starts", "tgt_tokens"), (
    "scores", "estimates", "lexicon", "lm_log_probs", "lm_backoffs", "weights",
)  # fmt: skip
_SUFFIXES = "lm_suffixes"


class PhraseTable(NamedTuple):
    """All that the search needs. Node 0 of a trie is empty, node n + 1 the key number n; see `trie`."""

    src_keys: Ints  # [nodes], of a trie of source phrases
    starts: Ints  # [nodes + 2]: the first translation of each node
    phrases: Ints  # [translations]: the number of the target phrase
    scores: Floats  # [translations, 4]: log-probabilities, of phrases and by tokens, in both directions
    tgt_starts: Ints  # [target phrases + 1]: the first token of each
    tgt_tokens: Ints
    estimates: Floats  # [target phrases]: log-probability of its tokens, whatever precedes them
    lexicon_keys: Ints  # [entries], ascending: source token x target vocabulary + target token
    lexicon: Floats  # [entries]: probability of the target token given the source token
    lm: NgramModel
    weights: Floats  # [features]
    src_vocab_size: int

    @classmethod
    def learn(
        cls,
        src: Sequence[Sequence[int]],
        tgt: Sequence[Sequence[int]],
        links: Sequence[Links],
        sizes: tuple[int, int],
    ) -> PhraseTable:
        """Learn the table of aligned pairs of tokens; `sizes` are those of the vocabularies."""
        arrays, lm = extract(src, tgt, links, sizes), NgramModel.learn(tgt, sizes[1])
        starts, tokens = arrays["tgt_starts"], arrays["tgt_tokens"]
        estimates, _ = lm.follow(np.zeros(len(starts) - 1, np.int64), tokens, starts[:-1], np.diff(starts))
        made = cls(
            **arrays,
            estimates=estimates.astype(np.float32),
            lm=lm,
            weights=np.array(FIRST_WEIGHTS),
            src_vocab_size=sizes[0],
        )
        return made._replace(scores=made.scores.astype(np.float64), lexicon=made.lexicon.astype(np.float64))

    def translations_of_tokens(self, src: Ints, tgt: Ints) -> Floats:
        """Return the probability of each target token given each source token, two arrays of ids that broadcast."""
        keys = src * self.lm.vocab_size + tgt
        places = find_entries(self.lexicon_keys, keys)
        return np.where(places >= 0, self.lexicon[places], 0.0) if len(self.lexicon) else np.zeros(keys.shape)

    def save(self, path: Path, tokenizers: TokenizerPair) -> None:
        """Write the table into a run, atomically. Raises OSError."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name).astype(np.int64) for name in _WIDE[:2]}
        arrays |= {name: getattr(self, name).astype(np.int32) for name in _NARROW}
        arrays |= {name: getattr(self, name) for name in ("scores", "estimates", "lexicon", "weights")}
        arrays |= {f"lm_{name}": getattr(self.lm, name) for name in ("keys", "log_probs", "backoffs")}
        arrays = {name: each.astype(np.float32) if name in _REAL else each for name, each in arrays.items()}
        save_table(path, {**arrays, _SUFFIXES: self.lm.suffixes.astype(np.int32)}, tokenizers)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> PhraseTable:
        """Read what `save` wrote. RunError if it is damaged, or for other tokenizers."""
        sizes = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size

        def parse(entries: dict[str, Any]) -> PhraseTable:
            kinds = (("I64", np.int64, _WIDE), ("I32", np.int32, (*_NARROW, _SUFFIXES)), ("F32", np.float32, _REAL))
            read = {
                name: np.frombuffer(entry_data(entries, name, dtype), kind)
                for dtype, kind, names in kinds
                for name in names
            }
            arrays: dict[str, Any] = {
                name: each.astype(np.float64 if name in _REAL else np.int64) for name, each in read.items()
            }
            if not all(np.isfinite(arrays[name]).all() for name in _REAL):
                raise ValueError("it contains numbers that are not finite")
            lm = _lm_of(**{name: arrays.pop(f"lm_{name}") for name in NgramModel._fields[:4]}, vocab_size=sizes[1])
            scores = arrays.pop("scores").reshape(-1, 4)
            table = cls(**arrays, scores=scores, lm=lm, src_vocab_size=sizes[0])
            table.check()
            return table

        hint = "build it again: delete the file, and continue with `nmt train --resume`"
        return load_table(path, tokenizers, ("phrase table", hint), parse)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together, so that a search cannot fail or run on."""
        num_phrases, lengths = len(self.tgt_starts) - 1, np.diff(self.tgt_starts)
        sizes = (
            (len(self.starts), len(self.src_keys) + 2),
            (len(self.scores), len(self.phrases)),
            (len(self.estimates), num_phrases),
            (len(self.lexicon), len(self.lexicon_keys)),
            (len(self.weights), len(FEATURES)),
        )
        if any(one != other for one, other in sizes) or num_phrases < 0:
            raise ValueError("its parts do not fit together")
        offsets = ((self.starts, len(self.phrases)), (self.tgt_starts, len(self.tgt_tokens)))
        if any(part[0] != 0 or part[-1] != end or (np.diff(part) < 0).any() for part, end in offsets):
            raise ValueError("its parts run backward")
        if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= LONGEST:
            raise ValueError("it contains phrases of an invalid length")
        limits = (self.phrases, num_phrases), (self.tgt_tokens, self.lm.vocab_size)
        if any(len(part) and not 0 <= part.min() <= part.max() < limit for part, limit in limits):
            raise ValueError("it contains invalid tokens")
        _check_keys(self.src_keys, self.src_vocab_size)
        if (np.diff(self.lexicon_keys) <= 0).any() or (self.lexicon_keys[:1] < 0).any():
            raise ValueError("its keys are not in order")


def _lm_of(keys: Ints, log_probs: Floats, backoffs: Floats, suffixes: Ints, vocab_size: int) -> NgramModel:
    """Return a language model that was read from a file. Raises ValueError if it could fail or run on."""
    if not len(keys) + 1 == len(log_probs) == len(backoffs) == len(suffixes):
        raise ValueError("its parts do not fit together")
    if not ((suffixes >= 0) & (suffixes < np.maximum(np.arange(len(suffixes)), 1))).all():
        raise ValueError("its language model runs in a circle")
    _check_keys(keys, vocab_size)
    return NgramModel.from_arrays(keys, log_probs, backoffs, suffixes, vocab_size)


def _check_keys(keys: Ints, vocab_size: int) -> None:
    """Raise ValueError unless `keys` ascend, and begin with those of all tokens."""
    if not np.array_equal(keys[:vocab_size], np.arange(vocab_size)) or (np.diff(keys) <= 0).any():
        raise ValueError("its keys are not in order")
