"""The tokens that stand before each source: the tag of its target language, the tag of its corpus."""

from __future__ import annotations

from typing import Literal

from nmt.config.data import DataConfig
from nmt.config.sections import Config
from nmt.languages import Direction, language_tag


def language_tags(data: DataConfig) -> tuple[str, ...]:
    """Return the tags of the target languages; none if there is only one target language."""
    targets = dict.fromkeys(direction.tgt for direction in data.directions)
    return tuple(map(language_tag, targets)) if len(targets) > 1 else ()


def corpus_tags(data: DataConfig) -> tuple[str, ...]:
    """Return the tags that corpora have of their own."""
    corpora = (files for name in ("train", "valid", "test") for files in data.corpora(name))
    return tuple(dict.fromkeys(files.tag for files in corpora if files.tag is not None))


def user_symbols(config: Config) -> tuple[str, ...]:
    """Return all symbols that the tokenizer of a configuration never splits, without placeholders."""
    tags = (*language_tags(config.data), *corpus_tags(config.data))
    return tuple(dict.fromkeys((*config.tokenizer.user_symbols, *tags)))


def tags_before_sources(data: DataConfig, name: Literal["train", "valid", "test"] = "train") -> list[str]:
    """Return what is put before the sources of each corpus of a set: `<2fr> <web> `, each followed by a space.

    The tag of the target language comes first, if there are several; then the tag of the corpus. A source of a
    validation or test set gets no tag of its language here: it gets that when it is translated.
    """
    tagged = language_tags(data) if name == "train" else ()
    before = []
    for files in data.corpora(name):
        tags = [language_tag(data.direction_of(files).tgt)] if tagged else []
        tags += [files.tag] if files.tag is not None else []
        before.append("".join(f"{tag} " for tag in tags))
    return before


def language_prefix(data: DataConfig, direction: Direction) -> str:
    """Return the tag before a source that is translated in `direction`, with a space; empty without such tags."""
    return f"{language_tag(direction.tgt)} " if language_tags(data) else ""
