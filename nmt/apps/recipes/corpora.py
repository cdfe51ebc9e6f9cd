"""Corpora by the names of their files, and the languages that these names show."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.base.errors import ConfigError, UsageError
from nmt.base.languages import code_named, english_name, language_of_country
from nmt.config import DataConfig, ParallelFiles
from nmt.config.filters import SAFE_FILTERS
from nmt.data.read.lines import without_compression
from nmt.data.read.table_names import corpus_named

log = logging.getLogger(__name__)

TEMPERATURE = 5.0  # `data.temperature` for several directions (Arivazhagan et al. 2019)
_NOT_LANGUAGES = {"bpe", "csv", "dat", "gz", "lc", "low", "raw", "sgm", "src", "tgt", "tok", "trg", "tsv", "txt", "xml"}
_GUESSED = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_GIVEN = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")


Names = str | Path | Sequence[str | Path]  # of one file, or of several


def names(files: Names | None) -> list[str]:
    """Return names as a list, empty for None."""
    if files is None:
        return []
    return [str(files)] if isinstance(files, str | Path) else list(map(str, files))


class CorpusNames(NamedTuple):
    """Names of corpora, in pairs of aligned files or files with both languages, and their languages."""

    src: list[str] | None = None
    tgt: list[str] | None = None
    corpus: list[str] | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None

    def given(self) -> list[str]:
        """Return the names of the options that are given."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]

    def corpora(self) -> list[ParallelFiles]:
        """Return the corpora: pairs of aligned files, then files with both languages. ConfigError if invalid."""
        sources, targets, others = self.src or [], self.tgt or [], self.corpus or []
        named = [*sources, *targets, *others]
        if not named or not all(named) or len(sources) != len(targets):
            raise UsageError(
                "give --src and --tgt (two aligned files), or --corpus (one file with both)",
                hint="such as --src a.de --tgt a.en, or --corpus a.tsv --src-lang de --tgt-lang en",
            )
        aligned = [ParallelFiles(src=src, tgt=tgt) for src, tgt in zip(sources, targets, strict=True)]
        return aligned + list(map(corpus_named, others))

    def for_files(self, names: list[str]) -> CorpusNames:
        """Return options that name other files: two aligned ones, or one with both languages. ConfigError if more."""
        if len(names) > 2:
            raise ConfigError(
                f"{len(names)} files for one test set",
                hint="one with both languages, or two: sources and their translations",
            )
        is_aligned = len(names) == 2
        return self._replace(src=names[:1] * is_aligned, tgt=names[1:], corpus=[] if is_aligned else names)

    def languages(self) -> dict[str, str | None]:
        """Return the languages that are given, by the key of a corpus. ConfigError if one is no code."""
        given = {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}
        for key, code in given.items():
            if code is not None and not _GIVEN.fullmatch(code):
                raise ConfigError(f"{_option(key)} {code}: not a language code", hint="such as de, zh or pt-BR")
        return given

    def corpora_of(self, data: DataConfig) -> tuple[ParallelFiles, ...]:
        """Return the corpora, with the languages of `data` unless an option names them. ConfigError if invalid."""
        named = {key: code or getattr(data, key) for key, code in self.languages().items()}
        return tuple(files.model_copy(update=named) for files in self.corpora())

    def data_section(self) -> DataConfig:
        """Return the data section for the corpora, with the safe filters. ConfigError if invalid."""
        corpora = self.corpora()
        given = self.languages()
        first = {key: code or _shown_language(corpora[0], key) for key, code in given.items()}
        for code in first.values():
            if (meant := language_of_country(code)) is not None:
                log.warning("%s is no code of a language; nmt takes it for %s (%s)", code, meant, english_name(meant))
        train = []
        for files in corpora:
            own = {key: language_of(files, key) for key, code in given.items() if code is None}
            others = {key: code for key, code in own.items() if code not in (None, first[key])}
            train.append(files.model_copy(update=others))
        data = DataConfig(**first, train=tuple(train) if len(train) > 1 else train[0], filters=SAFE_FILTERS)
        return data.model_copy(update={"temperature": TEMPERATURE}) if len(data.directions) > 1 else data


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _shown_language(files: ParallelFiles, key: str) -> str:
    """Return the language of a side that a corpus shows. ConfigError if it shows none."""
    if (found := language_of(files, key)) is None:
        path = getattr(files, key.removesuffix("_lang"))
        unclear = (
            f"the name {path} does not show its language" if path else f"{files.form} files do not show their languages"
        )
        raise ConfigError(f"{unclear}; {_option(key)} is missing", hint=f"such as {_option(key)} de")
    return found


def language_of(files: ParallelFiles, key: str) -> str | None:
    """Return the language of a side that a corpus shows: the extension of a file, or the name of a column or field.

    `key`: src_lang or tgt_lang. A field is `de`, `translation.de` or `German`.
    """
    side = 0 if key == "src_lang" else 1
    if files.src is not None:
        return language_in(str((files.src, files.tgt)[side]))
    name = str((files.fields if files.uses("fields") else files.columns)[side]).rpartition(".")[2]
    return code_named(name) or language_in(f"x.{name}")


def language_in(name: str) -> str | None:
    """Return the language that the extension of a file's name shows, as in a.de and a.pt-BR.gz; None if it does not."""
    ending = without_compression(Path(name)).suffix.removeprefix(".")
    return ending if _GUESSED.fullmatch(ending) and ending.lower() not in _NOT_LANGUAGES else None
