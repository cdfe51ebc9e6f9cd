"""Language and corpus tags: tokens before each source and before each target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from nmt.base.languages import LANGUAGE_TAG, Direction, language_tag
from nmt.config.model import LanguageTags
from nmt.data.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.config import Config, DataConfig


class OutputTags(NamedTuple):
    """The tags that outputs start with in a model with `model.language_tags: both`; empty for other models."""

    ids: Mapping[str, list[int]] = {}  # by language

    @property
    def length(self) -> int:
        """The number of tokens of each tag."""
        return max(map(len, self.ids.values()), default=0)

    @property
    def never_generated(self) -> list[int]:
        """The tokens that occur nowhere else in an output."""
        return [ids[-1] for ids in self.ids.values()]


def output_tags(tokenizer: Tokenizer, language_tags: LanguageTags) -> OutputTags:
    """Return the tags that outputs of a model start with; `tokenizer` is its target tokenizer."""
    if language_tags == "source":
        return OutputTags()
    written = tokenizer.vocabulary
    codes = [match[1] for token in written if token.endswith(">") and (match := LANGUAGE_TAG.fullmatch(token))]
    return OutputTags(dict(zip(codes, tokenizer.encode_batch(map(language_tag, codes)), strict=True)))


def language_tags(config: Config) -> tuple[str, ...]:
    """Return the language tags: of the target languages if there are several, or of all if both sides have tags."""
    sources, targets = (dict.fromkeys(codes) for codes in zip(*config.data.directions, strict=True))
    if config.model.language_tags == "both":
        return tuple(map(language_tag, {**sources, **targets}))
    return tuple(map(language_tag, targets)) if len(targets) > 1 else ()


def corpus_tags(data: DataConfig) -> tuple[str, ...]:
    """Return the tags of the corpora."""
    from nmt.config.corpora import DATA_SETS  # only here: a text is translated without the configuration of corpora

    corpora = (files for name in DATA_SETS for files in data.corpora(name))
    return tuple(dict.fromkeys(files.tag for files in corpora if files.tag is not None))


def user_symbols(config: Config) -> tuple[str, ...]:
    """Return all symbols that the tokenizer of a configuration never splits, without placeholders."""
    tags = (*language_tags(config), *corpus_tags(config.data))
    return tuple(dict.fromkeys((*config.tokenizer.user_symbols, *tags)))


def tags_before_sources(config: Config) -> list[str]:
    """Return the prefix of the sources of each training corpus: `<2fr> <web> `, each tag followed by a space.

    The language tag comes first, if any, then the corpus tag.
    """
    return [
        language_prefix(config, config.data.direction_of(files)) + (f"{files.tag} " if files.tag is not None else "")
        for files in config.data.corpora("train")
    ]


def tags_before_targets(config: Config) -> list[str]:
    """Return the prefix of the targets of each training corpus: their language tag, if any, and a space."""
    return [target_prefix(config, config.data.direction_of(files)) for files in config.data.corpora("train")]


def language_prefix(config: Config, direction: Direction) -> str:
    """Return the tag before a source for `direction`, with a space; empty if the model has no such tags."""
    if not language_tags(config):
        return ""
    return f"{language_tag(direction.src if config.model.language_tags == 'both' else direction.tgt)} "


def target_prefix(config: Config, direction: Direction) -> str:
    """Return the tag before a target of `direction`, with a space; empty if the model has no such tags."""
    return f"{language_tag(direction.tgt)} " if config.model.language_tags == "both" else ""
