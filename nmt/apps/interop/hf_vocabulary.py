"""Convert vocabularies of Marian models (vocab.json, source.spm, target.spm) to and from nmt's. Imports no torch.

nmt's special tokens have the ids 0 to 3, and the other tokens follow in the order of vocab.json. An embedding row may
serve two ids: nmt's decoder starts with bos, for which Marian uses pad, and tokens of source.spm that vocab.json lacks
use the row of the unknown token. Ids added this way are muted: their logits are far below all others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.apps.interop.fast_tokenizer import read_fast_tokenizer
from nmt.apps.interop.hf_folder import HfConfig, HfFolder
from nmt.base.errors import DataError, RunError
from nmt.base.files import read_at_most
from nmt.base.languages import LANGUAGE_TAG, language_tag
from nmt.base.special_tokens import BOS_ID
from nmt.config.corpora import symbol_error
from nmt.data.tokens.sentencepiece_model import (
    ADDED_SCORE,
    BYTE,
    CONTROL,
    NORMAL,
    SPECIAL_TOKENS,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    read_pieces,
    with_pieces,
)
from nmt.data.tokens.tokenizer import MAX_MODEL_BYTES, Tokenizer, TokenizerPair

_TAG = re.compile(r">>([A-Za-z0-9][A-Za-z0-9_-]{0,99})<<")
_MASK = "<mask>"  # of NLLB's pretraining, in no text
_UNUSED_ROW = "<unused "  # begins the names of rows without a token

SEGMENTED = (NORMAL, USER_DEFINED, BYTE)


class Vocabulary(NamedTuple):
    """The tokens of one side, indexed by nmt's ids."""

    tokens: list[str]
    rows: list[int]  # the id in vocab.json whose weights each token has
    muted: list[int]  # ids that share the row of another id, and are never generated


class HfVocabularies(NamedTuple):
    """The tokenizers of a folder in nmt's form."""

    tokenizers: TokenizerPair
    src: Vocabulary
    tgt: Vocabulary
    languages: list[str]  # of the tags >>xx<<, or of nmt's tags, in order; empty if there are fewer than two


class Specials(NamedTuple):
    """Ids in the folder, in the order of nmt's special tokens."""

    unk: int
    pad: int
    start: int  # of the decoder
    eos: int


def read_vocabularies(folder: HfFolder, config: HfConfig) -> HfVocabularies:
    """Read both sides. RunError or DataError if a file is damaged, or the files do not match."""
    separate = folder.tokenizer_settings().separate_vocabs
    src_vocab, tgt_vocab, added = _read_vocabs(folder, config, separate)
    src_specials, tgt_specials = _specials(folder, config, src_vocab, tgt_vocab)
    src_pieces, tgt_pieces = (read_spm(path) for path in (folder.source_spm, folder.target_spm))

    missing = [p.text for p in src_pieces if p.type in SEGMENTED and p.text not in src_vocab]
    missing_bytes = [p.text for p in tgt_pieces if p.type == BYTE and p.text not in tgt_vocab]
    tags = _tags_of(src_vocab)
    src_names = ["▁" + language_tag(tags[token]) if token in tags else token for token in by_id(src_vocab)]
    if separate:
        src = in_order(src_names, src_specials, missing)
        tgt = in_order(by_id(tgt_vocab), tgt_specials, missing_bytes)
    else:
        src = tgt = in_order(src_names, tgt_specials, [*dict.fromkeys(missing + missing_bytes)])

    known_src = {piece.text: piece for piece in (*src_pieces, *added) if piece.type in SEGMENTED}
    src_tokenizer = make_tokenizer(folder.source_spm, src, known_src, UNUSED)
    own_tokens = src.tokens[len(SPECIAL_TOKENS) :]
    has_others = any(token not in known_src and not LANGUAGE_TAG.fullmatch(token) for token in own_tokens)
    if src_tokenizer.type == "bpe" and has_others:
        raise DataError(
            "a BPE model whose tokens differ from vocab.json",
            path=folder.source_spm,
            hint="nmt imports models with unigram tokenizers, or with one tokenizer for both sides",
        )

    muted = {tgt.tokens[number] for number in tgt.muted}
    known_tgt = {
        p.text: p for p in (*tgt_pieces, *added) if p.type == BYTE or (p.type in SEGMENTED and p.text not in muted)
    }
    tgt_tokenizer = make_tokenizer(folder.target_spm, tgt, known_tgt, UNUSED)

    own_tags = [match[1] for p in src_pieces if p.type == USER_DEFINED and (match := LANGUAGE_TAG.fullmatch(p.text))]
    languages = list(tags.values()) or (own_tags if len(own_tags) > 1 else [])
    return HfVocabularies(TokenizerPair(src_tokenizer, tgt_tokenizer, joint=not separate), src, tgt, languages)


def _read_vocabs(
    folder: HfFolder, config: HfConfig, separate: bool
) -> tuple[dict[str, int], dict[str, int], list[Piece]]:
    """Return the ids of source and target tokens, one vocabulary for both unless `separate`, and the added tokens."""
    src_ids = folder.vocabulary(folder.vocab_file)
    tgt_ids = folder.vocabulary(folder.tgt_vocab_file) if separate else src_ids
    if len(src_ids) > config.vocab_size or len(tgt_ids) > config.tgt_vocab_size:
        raise RunError("there are more tokens than config.json has in its vocabulary", path=folder.vocab_file)
    symbols = added_symbols(folder, range(max(len(src_ids), len(tgt_ids))), config.vocab_size, "▁")
    src_vocab = with_all_rows(src_ids, symbols, config.vocab_size)
    tgt_vocab = with_all_rows(tgt_ids, symbols, config.tgt_vocab_size) if separate else src_vocab
    for name in ("<unk>", "<pad>", "</s>"):
        if name not in src_vocab or name not in tgt_vocab:
            raise RunError(f"the vocabulary has no {name}", path=folder.vocab_file)
    return src_vocab, tgt_vocab, list(symbols.values())


def with_all_rows(ids: Mapping[str, int], symbols: Mapping[int, Piece], size: int) -> dict[str, int]:
    """Return a vocabulary with the added `symbols`, and a name for each row of the weights that has no token."""
    named = {**ids, **{piece.text: number for number, piece in symbols.items()}}
    unused = sorted({*range(size)}.difference(named.values()))
    return named | {f"{_UNUSED_ROW}{number}>": number for number in unused}


def added_symbols(folder: HfFolder, known: Collection[int], size: int, space: str) -> dict[int, Piece]:
    """Return the tokens of text that somebody added to the model, by id, with `space` before each.

    `known` ids have other tokens. RunError for a token that nmt cannot segment, or that has none of the `size` rows.
    """
    found = {}
    for number, token in folder.added_tokens().items():
        name = f"the added token {token.content!r:.100}"
        if space and number in known and not token.special:
            hint = "save the folder with a tokenizer to which it was not added"
            raise RunError(f"{name} is in the vocabulary, too, so texts are cut around it", path=folder.path, hint=hint)
        if number in known or token.content == _MASK:
            continue
        if number >= size:
            raise RunError(
                f"{name} has the id {number}, but no row of the weights",
                path=folder.path,
                hint="call model.resize_token_embeddings(len(tokenizer)) before you train and save the model",
            )
        if token.single_word or token.lstrip or token.rstrip or symbol_error(token.content):
            raise RunError(
                f"{name} is segmented by rules that nmt does not have",
                path=folder.path,
                hint="it has those of tokens without spaces, single_word, lstrip and rstrip",
            )
        found[number] = Piece(space + token.content, ADDED_SCORE, USER_DEFINED)
    return found


def _specials(
    folder: HfFolder, config: HfConfig, src_vocab: Mapping[str, int], tgt_vocab: Mapping[str, int]
) -> tuple[Specials, Specials]:
    """Return the special tokens of both sides. RunError if config.json and a vocabulary of both sides disagree."""
    pad = src_vocab["<pad>"]
    eos = src_vocab["</s>"]
    tgt = Specials(tgt_vocab["<unk>"], config.pad_token_id, config.decoder_start_token_id, config.eos_token_id)
    if src_vocab is not tgt_vocab:
        return Specials(src_vocab["<unk>"], pad, pad, eos), tgt
    if (pad, eos) != (tgt.pad, tgt.eos):
        raise RunError(
            "config.json and vocab.json do not match",
            path=folder.config_file,
            hint="pad_token_id and eos_token_id must be the ids of <pad> and </s> in vocab.json",
        )
    return tgt, tgt


def by_id(vocabulary: Mapping[str, int]) -> list[str]:
    """Return the tokens of a vocabulary in the order of their ids."""
    return sorted(vocabulary, key=vocabulary.__getitem__)


def read_spm(path: Path) -> list[Piece]:
    """Return the tokens of a SentencePiece model. DataError if it cannot be read, or is damaged."""
    try:
        return read_pieces(_spm_bytes(path))
    except DataError as error:
        raise DataError(error.message, path=path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None


def _spm_bytes(path: Path) -> bytes:
    return read_fast_tokenizer(path) if path.suffix == ".json" else read_at_most(path, MAX_MODEL_BYTES)


def _tags_of(vocabulary: Mapping[str, int]) -> dict[str, str]:
    """Return the language of each tag `>>xx<<`, in the order of ids; empty if there is at most one language."""
    found = {token: match[1] for token in by_id(vocabulary) if (match := _TAG.fullmatch(token))}
    return found if len(found) > 1 else {}


def in_order(names: Sequence[str], specials: Specials, extra: Sequence[str]) -> Vocabulary:
    """Return the tokens in nmt's order: special ones, the others of `names`, and `extra` ones, which are unknown.

    `names` are nmt's names for the folder's tokens, by id.
    """
    others = [number for number in range(len(names)) if number not in specials]
    own = (f"{names[number]}*" if names[number] in SPECIAL_TOKENS else names[number] for number in others)
    tokens = [*SPECIAL_TOKENS, *own, *extra]
    rows = [*specials, *others, *[specials.unk] * len(extra)]
    muted = [BOS_ID] if specials.start in (specials.unk, specials.pad, specials.eos) else []
    return Vocabulary(tokens, rows, [*muted, *range(len(rows) - len(extra), len(rows))])


def make_tokenizer(path: Path, vocabulary: Vocabulary, known: Mapping[str, Piece], missing: int) -> Tokenizer:
    """Return a tokenizer that segments like the model at `path`, with the ids of `vocabulary`.

    A language tag is one token. Other tokens that are not among the `known` ones get the type `missing`.
    """
    own = [Piece(token, 0.0, CONTROL if number else UNKNOWN) for number, token in enumerate(SPECIAL_TOKENS)]
    for token in vocabulary.tokens[len(SPECIAL_TOKENS) :]:
        is_tag = token.startswith("▁") and LANGUAGE_TAG.fullmatch(token)
        other = USER_DEFINED if is_tag else CONTROL if token.startswith(_UNUSED_ROW) else missing
        own.append(known.get(token, Piece(token, 0.0, other)))
    try:
        return Tokenizer(with_pieces(_spm_bytes(path), own))
    except DataError as error:
        raise DataError(f"its tokens and those of the folder make no model: {error.message}", path=path) from None


def hf_tokens(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens of vocab.json for `tokenizer`, by id; nmt's tags become Marian's `>>xx<<`."""
    tokens = tokenizer.vocabulary
    own = {token: match[1] for token in tokens if token.startswith("▁") and (match := LANGUAGE_TAG.fullmatch(token))}
    return [f">>{own[token]}<<" if token in own and not symbol_error(token[1:]) else token for token in tokens]
