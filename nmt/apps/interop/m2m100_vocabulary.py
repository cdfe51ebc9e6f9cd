"""Convert vocabularies of M2M-100 and NLLB models to nmt's. Imports no torch.

A single SentencePiece model segments all languages. M2M-100 numbers its tokens by vocab.json; NLLB in the order of the
model, after fairseq's special tokens. Then follow the language tokens, `__fr__` or `fra_Latn`, and unused rows. In nmt,
the language tokens are the tags `<2fr>` and `<2fra_Latn>`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nmt.apps.interop.hf_folder import HfFolder, M2M100Config
from nmt.apps.interop.hf_vocabulary import SEGMENTED, HfVocabularies, Vocabulary, read_spm, refuse_twins
from nmt.base.errors import DataError, RunError
from nmt.base.files import read_at_most
from nmt.base.languages import language_tag
from nmt.base.special_tokens import BOS_ID
from nmt.data.tokens.sentencepiece_model import (
    CONTROL,
    SPECIAL_TOKENS,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    with_pieces,
)
from nmt.data.tokens.tokenizer import MAX_MODEL_BYTES, Tokenizer, TokenizerPair

_NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages of M2M-100, in the order of their ids, by `language_codes` of its tokenizer; no file lists them."""

_FAIRSEQ = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
"""Ids of the special tokens, which precede those of SentencePiece."""

_TOKENIZERS = ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast")


class _Ids(NamedTuple):
    """The ids of a folder."""

    texts: Mapping[str, int]  # ids of text tokens and special tokens
    languages: Mapping[str, int]  # ids of language tokens, by language code


def read_m2m100_vocabularies(folder: HfFolder, config: M2M100Config) -> HfVocabularies:
    """Read the tokens of a folder. RunError or DataError if a file is damaged, or the files do not match."""
    _refuse_other_layouts(folder)
    pieces = read_spm(folder.joint_spm)
    ids = _read_ids(folder, config, pieces)
    missing = [piece.text for piece in pieces if piece.type in SEGMENTED and piece.text not in ids.texts]
    vocabulary = _vocabulary(ids, config, missing, folder)
    tokenizer = _tokenizer(folder, pieces, vocabulary, {"▁" + language_tag(code) for code in ids.languages})
    _check_tags(tokenizer, ids, folder)
    pair = TokenizerPair(tokenizer, tokenizer, joint=True)
    return HfVocabularies(pair, vocabulary, vocabulary, sorted(ids.languages))


def _refuse_other_layouts(folder: HfFolder) -> None:
    """Raise RunError if the tokenizer's layout differs from that of M2M-100 and NLLB."""
    settings = folder.tokenizer_settings()
    if settings.tokenizer_class not in (None, *_TOKENIZERS):
        hint = f"nmt imports models with {', '.join(_TOKENIZERS)}"
        raise RunError(f"the tokenizer_class is {settings.tokenizer_class}", path=folder.tokenizer_file, hint=hint)
    if settings.legacy_behaviour:
        hint = "NLLB was trained with the language before the source: set it to false, unless this model was not"
        message = "legacy_behaviour is true: the language comes after the end of a source, which nmt does not support"
        raise RunError(message, path=folder.tokenizer_file, hint=hint)


def _read_ids(folder: HfFolder, config: M2M100Config, pieces: Sequence[Piece]) -> _Ids:
    if folder.vocab_file.exists():
        values = folder.read_json(folder.vocab_file)
        texts = folder.vocabulary(folder.vocab_file, len(values))
    else:  # SentencePiece has the ids 0 to 2 for unk, bos and eos
        texts = {**_FAIRSEQ, **{piece.text: number + 1 for number, piece in enumerate(pieces) if number > 2}}
        if [piece.text for piece in pieces[:3]] != ["<unk>", "<s>", "</s>"] or len(texts) != len(pieces) + 1:
            raise RunError("its first tokens are not <unk>, <s> and </s>, as in NLLB", path=folder.joint_spm)
    wrong = {name: number for name, number in _FAIRSEQ.items() if texts.get(name) != number}
    if wrong or (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id) != (1, 2, 2):
        fault = "the special tokens have other ids than M2M-100: <s> 0, <pad> 1, </s> 2 and <unk> 3"
        raise RunError(fault, path=folder.vocab_file if wrong else folder.config_file)
    if len(texts) > config.vocab_size:
        fault = f"{len(texts):,} tokens, but config.json has a vocab_size of {config.vocab_size:,}"
        raise RunError(fault, path=folder.vocab_file if folder.vocab_file.exists() else folder.joint_spm)
    return _Ids(texts, _languages(folder, config, len(texts)))


def _languages(folder: HfFolder, config: M2M100Config, first: int) -> dict[str, int]:
    """Return the id of each language, by its code. RunError if no file lists the languages, or an id is invalid."""
    if folder.vocab_file.exists():
        codes = _LANGUAGES.get(folder.tokenizer_settings().language_codes, "").split()
        found = {code: first + number for number, code in enumerate(codes)}
    else:
        added = _added_tokens(folder, first)
        found = {token: number for token, number in added.items() if _NLLB_CODE.fullmatch(token)}
    if not found:
        hint = "copy tokenizer_config.json and tokenizer.json from where the model was published"
        raise RunError("no file of this folder lists the language tokens", path=folder.path, hint=hint)
    uses = Counter(found.values())
    for code, number in found.items():
        if not first <= number < config.vocab_size or uses[number] > 1:
            raise RunError(
                f"the token of {code} has the id {number}, which is not that of a language", path=folder.path
            )
    return found


def _added_tokens(folder: HfFolder, first: int) -> dict[str, int]:
    """Return the ids of the tokens that SentencePiece lacks, from the first file that has them.

    special_tokens_map.json has no ids; its tokens have the ids from `first` on.
    """
    if folder.tokenizer_file.exists():
        decoder = folder.read_json(folder.tokenizer_file).get("added_tokens_decoder")
        if isinstance(decoder, dict) and len(decoder) > len(_FAIRSEQ) + 1:
            return _checked({_text_of(value): _number(key) for key, value in decoder.items()})
    if folder.fast_tokenizer_file.exists():
        listed = folder.read_json(folder.fast_tokenizer_file).get("added_tokens")
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return _checked({_text_of(entry): _number(entry.get("id")) for entry in entries})
    if folder.added_tokens_file.exists():
        return _checked({text: _number(n) for text, n in folder.read_json(folder.added_tokens_file).items()})
    if folder.special_tokens_file.exists():
        listed = folder.read_json(folder.special_tokens_file).get("additional_special_tokens")
        texts = [_text_of(entry) for entry in listed] if isinstance(listed, list) else []
        codes = [text for text in dict.fromkeys(texts) if text and _NLLB_CODE.fullmatch(text)]
        return {text: first + number for number, text in enumerate(codes)}
    return {}


def _checked(found: Mapping[str | None, int | None]) -> dict[str, int]:
    return {text: number for text, number in found.items() if text is not None and number is not None}


def _text_of(entry: Any) -> str | None:
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if type(value) is int else None


def _vocabulary(ids: _Ids, config: M2M100Config, missing: Sequence[str], folder: HfFolder) -> Vocabulary:
    """Return the tokens in nmt's order: special ones, the others by their ids, and `missing` ones (unknown tokens)."""
    specials = [_FAIRSEQ["<unk>"], _FAIRSEQ["<pad>"], config.decoder_start_token_id, _FAIRSEQ["</s>"]]
    texts = {number: token for token, number in ids.texts.items()}
    texts |= {number: "▁" + language_tag(code) for code, number in ids.languages.items()}
    others = [number for number in range(config.vocab_size) if number not in specials]
    names = (texts.get(number, f"<unused {number}>") for number in others)
    tokens = [*SPECIAL_TOKENS, *(f"{name}*" if name in SPECIAL_TOKENS else name for name in names), *missing]
    refuse_twins(tokens, folder.path)
    rows = [*specials, *others, *[_FAIRSEQ["<unk>"]] * len(missing)]
    return Vocabulary(tokens, rows, [BOS_ID, *range(len(rows) - len(missing), len(rows))])


def _tokenizer(folder: HfFolder, pieces: Sequence[Piece], vocabulary: Vocabulary, tags: set[str]) -> Tokenizer:
    """Return a tokenizer that segments like the folder's, with the ids of `vocabulary`; each of `tags` is one token.

    A token that the SentencePiece model lacks is never generated, because it would change the segmentation of BPE.
    """
    known = {piece.text: piece for piece in pieces if piece.type in (*SEGMENTED, UNUSED)}
    own = []
    for number, token in enumerate(vocabulary.tokens):
        if number < len(SPECIAL_TOKENS):
            own.append(Piece(token, 0.0, CONTROL if number else UNKNOWN))
        else:
            own.append(
                Piece(token, 0.0, USER_DEFINED) if token in tags else known.get(token, Piece(token, 0.0, CONTROL))
            )
    try:
        return Tokenizer(with_pieces(read_at_most(folder.joint_spm, MAX_MODEL_BYTES), own))
    except DataError as error:
        fault = f"its tokens and those of the folder make no model: {error.message}"
        raise DataError(fault, path=folder.joint_spm) from None


def _check_tags(tokenizer: Tokenizer, ids: _Ids, folder: HfFolder) -> None:
    """Raise DataError if a tag is not one token, or changes the tokens of the text after it."""
    plain = tokenizer.encode("a b")
    tagged = tokenizer.encode_batch(f"{language_tag(code)} a b" for code in ids.languages)
    if any(len(row) != len(plain) + 1 or row[1:] != plain for row in tagged):
        raise DataError("its normalization changes language tags, so nmt cannot use it", path=folder.joint_spm)
