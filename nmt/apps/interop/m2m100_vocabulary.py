"""Convert vocabularies of M2M-100 and NLLB models to nmt's. Imports no torch.

A single SentencePiece model segments all languages. M2M-100 numbers its tokens by vocab.json; NLLB in the order of the
model, after fairseq's special tokens. Then follow the language tokens, `__fr__` or `fra_Latn`, and unused rows. In nmt,
the language tokens are the tags `<2fr>` and `<2fra_Latn>`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from nmt.apps.interop.hf_folder import HfFolder, M2M100Config
from nmt.apps.interop.hf_vocabulary import (
    SEGMENTED,
    HfVocabularies,
    Specials,
    added_symbols,
    by_id,
    in_order,
    make_tokenizer,
    read_spm,
    with_all_rows,
)
from nmt.base.errors import DataError, RunError
from nmt.base.languages import language_tag
from nmt.data.tokens.sentencepiece_model import CONTROL, UNUSED, Piece
from nmt.data.tokens.tokenizer import TokenizerPair

_NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
# Of a language that somebody added: tyv, __tyv__, <tyv>, <2tyv>, >>tyv<<, gcf-Latn.
_ANY_CODE = re.compile(r"(?:__|<2?|>>)?([A-Za-z]{2,3}(?:[_-][A-Za-z0-9]{1,8})*)(?:__|>|<<)?")
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


def read_m2m100_vocabularies(folder: HfFolder, config: M2M100Config) -> HfVocabularies:
    """Read the tokens of a folder. RunError or DataError if a file is damaged, or the files do not match."""
    _refuse_other_layouts(folder)
    pieces = read_spm(folder.joint_model)
    ids = _read_ids(folder, config, pieces)
    languages = _languages(folder, config, len(ids))
    missing = [piece.text for piece in pieces if piece.type in SEGMENTED and piece.text not in ids]
    # The tokenizer of M2M-100 ignores spaces before added tokens, that of NLLB makes tokens of these.
    space = "▁" if folder.vocab_file.exists() else ""
    known_ids = {*(ids if space else _FAIRSEQ).values(), *languages.values()}
    symbols = added_symbols(folder, known_ids, config.vocab_size, space)
    tags = {"▁" + language_tag(code): number for code, number in languages.items()}
    names = by_id(with_all_rows(ids | tags, symbols, config.vocab_size))
    specials = Specials(_FAIRSEQ["<unk>"], config.pad_token_id, config.decoder_start_token_id, config.eos_token_id)
    vocabulary = in_order(names, specials, missing)
    known = {p.text: p for p in (*pieces, *symbols.values()) if p.type in (*SEGMENTED, UNUSED)}
    # A token that the SentencePiece model lacks is never generated, because it would change the segmentation of BPE.
    tokenizer = make_tokenizer(folder.joint_model, vocabulary, known, CONTROL)
    plain = tokenizer.encode("a b")
    tagged = tokenizer.encode_batch(f"{language_tag(code)} a b" for code in languages)
    if any(len(row) != len(plain) + 1 or row[1:] != plain for row in tagged):
        raise DataError("its normalization or an added token changes language tags", path=folder.joint_model)
    return HfVocabularies(TokenizerPair(tokenizer, tokenizer, joint=True), vocabulary, vocabulary, sorted(languages))


def _refuse_other_layouts(folder: HfFolder) -> None:
    """Raise RunError if the tokenizer's layout differs from that of M2M-100 and NLLB."""
    settings = folder.tokenizer_settings()
    if settings.tokenizer_class not in (None, *_TOKENIZERS):
        raise RunError(
            f"the tokenizer_class is {settings.tokenizer_class}",
            path=folder.tokenizer_file,
            hint=f"nmt imports models with {', '.join(_TOKENIZERS)}",
        )
    if settings.legacy_behaviour:
        raise RunError(
            "legacy_behaviour is true: the language comes after the end of a source, which nmt does not support",
            path=folder.tokenizer_file,
            hint="NLLB was trained with the language before the source: set it to false, unless this model was not",
        )


def _read_ids(folder: HfFolder, config: M2M100Config, pieces: Sequence[Piece]) -> dict[str, int]:
    """Return the ids of text tokens and special tokens."""
    path = folder.vocab_file
    if path.exists():
        ids = folder.vocabulary(path)
    else:  # SentencePiece has the ids 0 to 2 for unk, bos and eos
        path = folder.joint_model
        ids = {**_FAIRSEQ, **{piece.text: number + 1 for number, piece in enumerate(pieces) if number > 2}}
        if [piece.text for piece in pieces[:3]] != ["<unk>", "<s>", "</s>"] or len(ids) != len(pieces) + 1:
            raise RunError("its first tokens are not <unk>, <s> and </s>, as in NLLB", path=path)
    wrong = any(ids.get(name) != number for name, number in _FAIRSEQ.items())
    if wrong or (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id) != (1, 2, 2):
        raise RunError(
            "the special tokens have other ids than M2M-100: <s> 0, <pad> 1, </s> 2 and <unk> 3",
            path=path if wrong else folder.config_file,
        )
    if len(ids) > config.vocab_size:
        raise RunError(f"{len(ids):,} tokens, but config.json has a vocab_size of {config.vocab_size:,}", path=path)
    return ids


def _languages(folder: HfFolder, config: M2M100Config, first: int) -> dict[str, int]:
    """Return the id of each language, by its code. RunError if no file lists the languages, or an id is invalid."""
    found = {}
    added = {number: token for number, token in folder.added_tokens().items() if number >= first}
    if folder.vocab_file.exists():
        codes = _LANGUAGES.get(folder.tokenizer_settings().language_codes, "").split()
        # transformers gives tokens that were added to M2M-100 the ids of its languages.
        found = {code: number for number, code in enumerate(codes, first) if number not in added}
    for number, token in added.items():
        match = (_ANY_CODE if token.special else _NLLB_CODE).fullmatch(token.content)
        if match is not None:
            found[match[match.lastindex or 0]] = number
    if not found:
        raise RunError(
            "no file of this folder lists the language tokens",
            path=folder.path,
            hint="copy tokenizer_config.json and tokenizer.json from where the model was published",
        )
    uses = Counter(found.values())
    for code, number in found.items():
        if not first <= number < config.vocab_size or uses[number] > 1:
            raise RunError(
                f"the token of {code} has the id {number}, which is not that of a language", path=folder.path
            )
    return found
