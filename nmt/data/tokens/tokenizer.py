"""Convert text to token ids and back with SentencePiece.

`decode(encode(x)) == x` for every text, including spaces and line ends, except for:

- "▁" (U+2581), which SentencePiece uses for the space, and decodes as a space;
- a lone surrogate, which is not a character, and is decoded as U+FFFD;
- a `normalization` other than identity, which decodes to the normalized text;
- type `word`, which has no byte fallback, so unknown words are lost.

Text that looks like a special token, such as "</s>" or "<0x41>", is spelled in ordinary tokens.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Self

import sentencepiece

from nmt.base.errors import DataError, RunError
from nmt.base.files import new_folder, read_at_most, restore_replaced
from nmt.base.languages import LANGUAGE_TAG
from nmt.base.patterns import any_of
from nmt.base.special_tokens import EOS_ID, UNK_ID
from nmt.data.read.lines import without_surrogates
from nmt.data.tokens.sentencepiece_model import (
    ADDED_SCORE,
    NORMAL,
    SPECIAL_IDS,
    USER_DEFINED,
    Piece,
    model_type,
    read_pieces,
    special_ids,
    with_more,
    with_special_tokens,
)

MAX_MODEL_BYTES = 100_000_000  # 256,000 tokens take 5 million bytes; larger files are not tokenizers, and are not read
_FORBIDDEN_CHARACTERS = set("\n\r\0")  # one line in, one line out
_NUM_SPECIALS = 4
_FEW_TEXTS = 16  # are encoded one by one: SentencePiece starts a thread for a list, in the time of 15 sentences
_FORMS = ("joint", "src", "tgt", "joint-src", "joint-tgt")
_FILES = {f"{name}.model" for name in _FORMS}
_RETRAIN = "train it again with `nmt vocab`"

log = logging.getLogger(__name__)


class Tokenizer:
    """A SentencePiece model whose special tokens have the ids 0 to 3: unk, pad, bos, eos."""

    def __init__(self, model_bytes: bytes):
        """Load a serialized SentencePiece model. Raises DataError if it is damaged or has other special ids."""
        self.model_bytes = model_bytes
        try:
            if not model_bytes:  # would give a processor without a model, which fails only on first use
                raise RuntimeError
            spm = self._processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
            # The written form of each token: "▁" is a space, "<0xE4>" a byte.
            self.vocabulary = [spm.id_to_piece(i) for i in range(spm.vocab_size())]
            self.type = model_type(model_bytes)
        except (RuntimeError, UnicodeDecodeError, IndexError, TypeError):
            raise DataError("this is not a SentencePiece model, or it is damaged", hint=_RETRAIN) from None
        if (ids := special_ids(spm)) != SPECIAL_IDS:
            raise DataError(f"the ids of unk, pad, bos and eos are {ids}; they must be {SPECIAL_IDS}", hint=_RETRAIN)
        self.vocab_size = len(self.vocabulary)
        self.fingerprint = hashlib.sha256(model_bytes).hexdigest()
        self._unused = {token: i for i, token in enumerate(self.vocabulary) if spm.is_unused(i)}
        spelled = [(i, token) for i, token in enumerate(self.vocabulary) if token.startswith("<0x")]
        self._byte_values = {i: int(token[3:5], 16) for i, token in spelled if spm.is_byte(i)}
        self._byte_ids = {value: i for i, value in self._byte_values.items()}
        self.never_generated = self._find_never_generated()

    @cached_property
    def letters(self) -> str:
        """The tokens of text, one behind the other: they tell in what script their language is written."""
        return "".join(token for token in self.vocabulary if "<" not in token)

    @classmethod
    def load(cls, path: Path, *, foreign: bool = False) -> Self:
        """Read a `.model` file. Raises DataError if it is missing, damaged, or has other special ids.

        A `foreign` model may have other special ids, and gets ours.
        """
        try:
            content = read_at_most(path, MAX_MODEL_BYTES)
            return cls(with_special_tokens(content) if foreign else content)
        except FileNotFoundError:
            raise DataError("no such tokenizer model", path=path, hint="`nmt vocab` trains one") from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None
        except ValueError as error:
            raise DataError(f"this is not a SentencePiece model: it is {error}", path=path, hint=_RETRAIN) from None
        except DataError as error:
            raise DataError(error.message, path=path, hint=error.hint or _RETRAIN) from None

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without bos and eos; empty for empty text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str], threads: int = 1) -> list[list[int]]:
        """Return the token ids of each text, in order."""
        cleaned = [without_surrogates(text) for text in texts]
        if len(cleaned) <= _FEW_TEXTS:
            rows = [self._processor.encode(text, out_type=int) for text in cleaned]
        else:
            rows = self._processor.encode(cleaned, out_type=int, num_threads=threads)
        for row, text in enumerate(cleaned) if self._unused else ():
            if UNK_ID in rows[row]:  # perhaps the text of an unused token
                pieces = zip(self._processor.encode(text, out_type=str), rows[row], strict=True)
                rows[row] = [self._unused.get(piece, UNK_ID) if i == UNK_ID else i for piece, i in pieces]
        for row, text in enumerate(cleaned) if self._added else ():
            if len(parts := self._added_pattern.split(text)) > 1:
                rows[row] = self._encode_parts(parts)
        return rows

    def _encode_parts(self, parts: Sequence[str]) -> list[int]:
        """Return the token ids of a text, of which every second part is a token that transformers added."""
        ids: list[int] = []
        for text, encoded, token in zip(parts[::2], self.encode_batch(parts[::2]), [*parts[1::2], ""], strict=True):
            piece = self._added.get(token, "")
            is_tag = LANGUAGE_TAG.fullmatch(text.strip())
            has_space = piece == token != "" and text.endswith(" ") and not is_tag
            ids += [*encoded, *(self._processor.piece_to_id(each) for each in ("▁" * has_space, piece) if each)]
        return ids

    @cached_property
    def _added(self) -> dict[str, str]:
        """The tokens that transformers added to this model, by their text."""
        score = self._processor.get_score
        found = [token for i, token in enumerate(self.vocabulary) if score(i) == ADDED_SCORE]
        return {token.removeprefix("▁"): token for token in found}

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        """The pattern that finds the longest of the added tokens, in one group."""
        return re.compile(f"({any_of(self._added)})")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of any ids in the vocabulary.

        The special ids 0 to 3 are skipped, and so are byte tokens that do not form valid UTF-8.
        """
        kept = [int(i) for i in ids if i >= _NUM_SPECIALS]
        if not self._byte_values.keys().isdisjoint(kept):
            runs = groupby(kept, key=self._byte_values.__contains__)
            kept = []
            for are_bytes, run in runs:
                if are_bytes:
                    valid = bytes(self._byte_values[i] for i in run).decode("utf-8", "ignore").encode()
                    kept += [self._byte_ids[value] for value in valid]
                else:
                    kept += run
        return self._processor.decode(kept) if kept else ""

    @cached_property
    def user_symbols(self) -> tuple[str, ...]:
        """The symbols that are always one token, whatever is around them: placeholders, tags."""
        pieces = read_pieces(self.model_bytes)
        return tuple(piece.text.removeprefix("▁") for piece in pieces if piece.type == USER_DEFINED)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the written form of each token, for plots and logs: "▁" is a space, "<0xE4>" a byte."""
        return [self.vocabulary[i] for i in ids]

    @property
    def byte_tokens(self) -> tuple[int, ...]:
        """The ids of the byte tokens."""
        return tuple(self._byte_values)

    def id_of(self, symbol: str) -> int | None:
        """Return the id of the token that spells `symbol`; None if it takes several tokens or is unknown."""
        ids = [i for i in self.encode(symbol) if self.vocabulary[i] != "▁"]
        return ids[0] if len(ids) == 1 and self.vocabulary[ids[0]].removeprefix("▁") == symbol else None

    def with_symbols(self, symbols: Iterable[str]) -> Tokenizer:
        """Return a tokenizer that also has `symbols`, as one token each that is never split.

        The new tokens follow all others, which keep their ids; texts without the symbols keep their tokens.
        """
        missing = [symbol for symbol in symbols if self.id_of(symbol) is None]
        if not missing:
            return self
        prefix = "▁" if self.type == "word" else ""
        pieces = [Piece(prefix + symbol, type=USER_DEFINED) for symbol in missing]
        return Tokenizer(with_more(self.model_bytes, pieces))

    def lacks(self, character: str) -> bool:
        """Return whether a visible character is spelled in bytes or unknown, and normalization keeps it."""
        visible = unicodedata.category(character)[0] not in "CZ" or character in "\u200c\u200d"  # joiners of scripts
        if not visible or character == "▁" or self.type == "word":
            return False
        is_known = {UNK_ID, *self._byte_values}.isdisjoint(self.encode(character))
        return not is_known and self._processor.normalize(without_surrogates(character)).endswith(character)

    def unknown_in(self, text: str, ids: Sequence[int]) -> list[str]:
        """Return the parts of `text` that are unknown tokens in `ids`, its encoding; of words, nothing."""
        if UNK_ID not in ids or self.type == "word":
            return []
        pieces = self._processor.encode(without_surrogates(text), out_type=str)
        return [piece.removeprefix("▁") for piece, i in zip(pieces, ids, strict=True) if i == UNK_ID]

    def with_characters(self, characters: Sequence[str]) -> Tokenizer:
        """Return a tokenizer that also has `characters` that it lacks, as the last tokens; other text keeps its ids.

        They get the lowest score of all tokens, so that the penalty of unknown characters, which depends on it, stays.
        """
        if not characters:
            return self
        score = min((piece.score for piece in read_pieces(self.model_bytes) if piece.type == NORMAL), default=0.0)
        return Tokenizer(with_more(self.model_bytes, [Piece(character, score) for character in characters]))

    def _find_never_generated(self) -> tuple[int, ...]:
        """Return ids that a search must not choose: tokens without text (except eos) or with a line end or NUL."""
        spm = self._processor  # an unused token has text, although `encode` never yields it
        without_text = (i for i in range(self.vocab_size) if i != EOS_ID and spm.is_control(i))
        line_ends = (i for i, token in enumerate(self.vocabulary) if not _FORBIDDEN_CHARACTERS.isdisjoint(token))
        line_end_bytes = (i for i, value in self._byte_values.items() if chr(value) in _FORBIDDEN_CHARACTERS)
        return tuple(sorted({UNK_ID, *without_text, *line_ends, *line_end_bytes}))


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides; `joint` if both use one vocabulary, even if they segment a text differently."""

    src: Tokenizer
    tgt: Tokenizer
    joint: bool

    def vocabularies(self) -> dict[str, Tokenizer]:
        """Return a tokenizer for each vocabulary, by the name of its side: source and target, or joint."""
        return {"joint": self.src} if self.joint else {"source": self.src, "target": self.tgt}

    def know(self, symbols: Iterable[str]) -> bool:
        """Return whether each of `symbols` is one token, on both sides."""
        return None not in [side.id_of(symbol) for symbol in symbols for side in (self.src, self.tgt)]

    def with_symbols(self, symbols: Sequence[str]) -> TokenizerPair:
        """Return a pair in which each of `symbols` is one token on both sides; see `Tokenizer.with_symbols`."""
        src = self.src.with_symbols(symbols)
        return TokenizerPair(src, src if self.tgt is self.src else self.tgt.with_symbols(symbols), self.joint)

    def with_characters(self, src: Sequence[str], tgt: Sequence[str]) -> TokenizerPair:
        """Return a pair with characters that the sides lack, those of both if `joint`; see `Tokenizer`."""
        if self.joint:
            src = tgt = list(dict.fromkeys([*src, *tgt]))
        new = self.src.with_characters(src)
        return TokenizerPair(new, new if self.tgt is self.src else self.tgt.with_characters(tgt), self.joint)

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write `joint.model`, or one model per side, into `folder`, which appears only when complete.

        The models of two sides are `src.model` and `tgt.model`, or `joint-src.model` and `joint-tgt.model` if both use
        one vocabulary.

        RunError if `folder` exists, unless it is empty, or `overwrite` is given and it contains only a tokenizer.
        """
        prefix = "joint-" if self.joint else ""
        models = {f"{prefix}src": self.src, f"{prefix}tgt": self.tgt}
        if self.joint and self.src.model_bytes == self.tgt.model_bytes:
            models = {"joint": self.src}
        with new_folder(folder, replace=partial(refuse_existing_tokenizer, overwrite=overwrite)) as made:
            for name, tokenizer in models.items():
                (made / f"{name}.model").write_bytes(tokenizer.model_bytes)

    @classmethod
    def load(cls, folder: Path, *, foreign: bool = False) -> Self:
        """Read what `save` wrote. Raises DataError if models are missing or damaged, or if both variants exist.

        `foreign` models may have been trained by other programs. One file is then a joint tokenizer.
        """
        restore_replaced(folder)
        if foreign and folder.is_file():
            found = {"joint"}
            names = [folder]
        else:
            found = {name for name in _FORMS if (folder / f"{name}.model").exists()}
            names = [folder / f"{name}.model" for name in sorted(found)]
        if found in ({"joint"}, {"src", "tgt"}, {"joint-src", "joint-tgt"}):
            tokenizers = [Tokenizer.load(name, foreign=foreign) for name in names]
            return cls(tokenizers[0], tokenizers[-1], joint=found != {"src", "tgt"})
        if not folder.is_dir():
            raise DataError("no such tokenizer folder", path=folder, hint="`nmt vocab` trains a tokenizer")
        listed = ", ".join(f"{name}.model" for name in sorted(found)) or "neither"
        raise DataError(
            f"a tokenizer folder must contain joint.model, or src.model and tgt.model; this one contains {listed}",
            path=folder,
            hint=f"{_RETRAIN}, or rename your SentencePiece models so (in tokenizer.path, also name one .model file)",
        )


def refuse_existing_tokenizer(folder: Path, *, overwrite: bool) -> None:
    """Raise RunError if `folder` exists, unless it is empty, or only has a tokenizer that may be overwritten."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""} if os.path.lexists(folder) else set()
    if names - _FILES:
        raise RunError(
            "this folder contains other files, so it is not overwritten",
            path=folder,
            hint="a tokenizer needs its own folder; choose another --output",
        )
    if names and not overwrite:
        raise RunError(
            "there is a tokenizer already", path=folder, hint="replace it with --overwrite, or choose another --output"
        )
