"""Train tokenizers from streamed sentences with SentencePiece, with readable errors instead of the C++ ones."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from tempfile import TemporaryFile
from typing import Any

import sentencepiece

from nmt.base.errors import DataError, NmtError, in_words
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.config.tokenizer import MIN_COVERAGE, TokenizerConfig
from nmt.data.read.lines import without_surrogates
from nmt.data.tokens import sentencepiece_worker
from nmt.data.tokens.sentencepiece_worker import REFUSED, SentencePieceError, learn
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

log = logging.getLogger(__name__)

NUM_THREADS = 4  # fixed, not the number of cores: the last digits and so the order of unigram scores depend on it
MAX_SENTENCE_BYTES = 16_384  # longer lines are skipped here: they are not sentences, and cost much memory
MAX_TOKEN_LENGTH = 16  # maximum characters in a learned token: SentencePiece's default
MAX_CHARACTERS_HERE = 2_000_000  # a longer text is learned in a separate process: it takes over 20 bytes per character
_NUM_BYTE_TOKENS = 256

Sentences = Callable[[], Iterable[str]]  # each call starts a new pass over the sentences of one side


def train_tokenizers(config: TokenizerConfig, src: Sentences, tgt: Sentences, seed: int = 1) -> TokenizerPair:
    """Train one joint tokenizer, or one per side, according to `config`.

    Each call of `src` and `tgt` starts a new pass over the sentences of their side (two passes each). The same
    sentences and seed give the same bytes. A vocabulary smaller than requested is logged as a warning.
    Raises DataError if a side has no text or the requested vocabulary is too small; the message gives the minimum.
    """
    if config.joint:
        joint = Tokenizer(train_model(config, {"source": src, "target": tgt}, seed))
        return TokenizerPair(joint, joint, joint=True)
    src_model = train_model(config, {"source": src}, seed)
    tgt_model = train_model(config, {"target": tgt}, seed)
    return TokenizerPair(Tokenizer(src_model), Tokenizer(tgt_model), joint=False)


def train_model(config: TokenizerConfig, sides: dict[str, Sentences], seed: int) -> bytes:
    """Train one SentencePiece model on all `sides` ({"source": sentences, ...}); return it serialized.

    At most `config.max_sentences` of each side are used, sampled uniformly with `seed`; each side is read twice, as a
    stream. If the text does not support the vocabulary size, the vocabulary is smaller, with a warning. DataError
    if a side has no text or the vocabulary is too small.
    """
    name = in_words(list(sides))
    if config.vocab_size <= _num_reserved(config) and config.type in ("char", "word"):
        raise _too_small(config, name, _num_reserved(config) + 1)  # SentencePiece would learn nothing and say nothing
    samples = [_sample(side, sentences, config.max_sentences, seed) for side, sentences in sides.items()]
    num_sentences = in_words([f"{size:,} {side}" for side, (_, size, _) in zip(sides, samples, strict=True)])
    log.info("training a tokenizer of type %s on %s sentences", config.type, num_sentences)
    num_characters = sum(characters for *_, characters in samples)
    options = _options(config, _num_reserved(config) + MAX_TOKEN_LENGTH * num_characters)
    text = chain.from_iterable(sentences for sentences, *_ in samples)
    try:
        is_short = num_characters <= MAX_CHARACTERS_HERE
        # As a list, because SentencePiece replaces exceptions of its input with its own.
        model = learn([*text], options) if is_short else learn_in_process(text, options)
    except SentencePieceError as error:
        if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
            raise _too_small(config, name, int(needed[1])) from None
        raise DataError(f"SentencePiece cannot learn a tokenizer from the {name} text: {error}") from None
    size = sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size()
    if size < config.vocab_size:
        log.warning(
            "tokenizer.vocab_size %d is more than the %s text supports (type %s); the vocabulary has %d tokens",
            config.vocab_size,
            name,
            config.type,
            size,
        )
    return model


def _options(config: TokenizerConfig, max_vocab_size: int) -> dict[str, Any]:
    """Return SentencePiece's options, with a limit on the vocabulary, because it allocates memory for any size."""
    is_word = config.type == "word"
    return {
        "model_type": config.type,
        "num_threads": NUM_THREADS,
        "vocab_size": min(config.vocab_size, max_vocab_size),
        "hard_vocab_limit": False,
        "byte_fallback": not is_word,
        "character_coverage": config.character_coverage,
        "normalization_rule_name": config.normalization,
        "remove_extra_whitespaces": False,
        # A word token starts with the space before it, so a symbol that should match a word must too.
        "user_defined_symbols": [f"▁{symbol}" if is_word else symbol for symbol in config.user_symbols],
        "max_sentence_length": MAX_SENTENCE_BYTES,
        "unk_id": UNK_ID,
        "pad_id": PAD_ID,
        "bos_id": BOS_ID,
        "eos_id": EOS_ID,
        "minloglevel": 2,  # only errors, which are also raised as exceptions
    }


def _sample(side: str, sentences: Sentences, limit: int, seed: int) -> tuple[Iterator[str], int, int]:
    """Sample up to `limit` usable sentences uniformly, keeping their order (Knuth 1997, vol. 2, 3.4.2, algorithm S).

    Returns them, their number, and the number of characters of the whole text.
    """
    total = too_long = num_characters = 0
    for text in sentences():
        usable = bool(text) and not _is_too_long(text)
        total += usable
        too_long += bool(text) and not usable
        num_characters += len(text)
    lines = f"{too_long:,} {side} lines longer than {MAX_SENTENCE_BYTES:,} bytes"
    if total == 0:
        raise DataError(
            f"no {side} text to train a tokenizer on",
            hint=f"it has {lines}; write one sentence per line" if too_long else f"the {side} side is empty or blank",
        )
    if too_long:
        log.warning("tokenizer training skipped %s", lines)
    return _draw(sentences, total, limit, seed), min(total, limit), num_characters


def _draw(sentences: Sentences, total: int, limit: int, seed: int) -> Iterator[str]:
    generator = random.Random(seed)
    wanted = min(total, limit)
    for text in sentences():
        if not text or _is_too_long(text):
            continue
        if wanted == total or generator.random() * total < wanted:
            wanted -= 1
            yield without_surrogates(text)
        total -= 1


def _is_too_long(text: str) -> bool:
    return len(text) * 4 > MAX_SENTENCE_BYTES and len(text.encode("utf-8", "replace")) > MAX_SENTENCE_BYTES


def _num_reserved(config: TokenizerConfig) -> int:
    """Count the tokens that do not depend on the text: special, user-defined and byte tokens."""
    return 4 + len(config.user_symbols) + (0 if config.type == "word" else _NUM_BYTE_TOKENS)


def _too_small(config: TokenizerConfig, name: str, smallest: int) -> DataError:
    reserved = _num_reserved(config)
    learned = "words" if config.type == "word" else "characters"
    hint = f"set tokenizer.vocab_size to {smallest} or more"
    if config.type in ("unigram", "bpe") and config.character_coverage > MIN_COVERAGE:
        hint += f", or lower tokenizer.character_coverage from {config.character_coverage:g} "
        hint += f"(to at least {MIN_COVERAGE}), which spells rare characters as bytes"
    needs = f"{smallest}, {reserved} for reserved tokens and {smallest - reserved} for {learned}"
    return DataError(
        f"a vocabulary of {config.vocab_size} is too small for the {name} text: it needs at least {needs}", hint=hint
    )


def learn_in_process(sentences: Iterable[str], options: dict[str, Any]) -> bytes:
    """Return what `learn` does. SentencePieceError if no model can be learned; NmtError if the process fails."""
    # Not with multiprocessing, which imports the main module again, so a user's script would need a guard.
    command = [sys.executable, "-P", sentencepiece_worker.__file__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with TemporaryFile() as file:
        file.writelines(json.dumps(value).encode("ascii") + b"\n" for value in chain([options], sentences))
        file.seek(0)
        done = subprocess.run(
            command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=False
        )
    if done.returncode == REFUSED:
        raise SentencePieceError(done.stdout.decode())
    if done.returncode != 0:
        raise NmtError(
            f"the process that trains the tokenizer failed with exit code {done.returncode}",
            hint="it may have run out of memory; lower tokenizer.max_sentences",
        )
    return done.stdout
