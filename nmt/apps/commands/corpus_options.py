"""The options that name a corpus, shared by `nmt config new`, `nmt data` and `nmt adapt`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from nmt.base.errors import ConfigError
from nmt.config import DataConfig, ParallelFiles
from nmt.config.corpora import FORMATS
from nmt.config.filters import SAFE_FILTERS
from nmt.data.read.lines import COMPRESSIONS
from nmt.data.read.table_names import corpus_named

_NOT_LANGUAGES = {"bpe", "csv", "dat", "gz", "lc", "low", "raw", "sgm", "src", "tgt", "tok", "trg", "tsv", "txt", "xml"}
_GUESSED = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_GIVEN = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")

Src = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Source sentences, one per line. May be repeated.")]
Tgt = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Translations of --src, line by line. One per --src.")
]
CorpusFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help=f"File with both languages, in the format of its extension: .{', .'.join(FORMATS)}; text formats may be "
        "compressed (.gz, .xz, .zst). FILE#2,3 or FILE#German,English names columns of a table, FILE.xlsx#SHEET:1,2 "
        "also its sheet, FILE.jsonl#de,en fields. May be repeated.",
    ),
]
SrcLang = Annotated[
    str | None, typer.Option(metavar="LANG", help="Source language. Default: the extension of --src (a.de).")
]
TgtLang = Annotated[str | None, typer.Option(metavar="LANG", help="Target language. Default: the extension of --tgt.")]


class CorpusOptions(NamedTuple):
    """The options of one command line that name corpora."""

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
            hint = "such as --src a.de --tgt a.en, or --corpus a.tsv --src-lang de --tgt-lang en"
            raise ConfigError("give --src and --tgt (two aligned files), or --corpus (one file with both)", hint=hint)
        aligned = [ParallelFiles(src=src, tgt=tgt) for src, tgt in zip(sources, targets, strict=True)]
        return aligned + list(map(corpus_named, others))

    def for_files(self, names: list[str]) -> CorpusOptions:
        """Return options that name other files: two aligned ones, or one with both languages. ConfigError if more."""
        if len(names) > 2:
            hint = "one with both languages, or two: sources and their translations"
            raise ConfigError(f"{len(names)} files for one test set", hint=hint)
        is_aligned = len(names) == 2
        return self._replace(src=names[:1] * is_aligned, tgt=names[1:], corpus=[] if is_aligned else names)

    def corpora_of(self, data: DataConfig) -> tuple[ParallelFiles, ...]:
        """Return the corpora, with the languages of `data` unless an option names them. ConfigError if invalid."""
        given = (("--src-lang", self.src_lang, data.src_lang), ("--tgt-lang", self.tgt_lang, data.tgt_lang))
        languages = [default if code is None else _checked(name, code) for name, code, default in given]
        named = {"src_lang": languages[0], "tgt_lang": languages[1]}
        return tuple(files.model_copy(update=named) for files in self.corpora())

    def data_section(self) -> DataConfig:
        """Return the data section for the corpora, with the safe filters. ConfigError if invalid."""
        corpora = self.corpora()
        return DataConfig(
            src_lang=_language("--src-lang", self.src_lang, self.src, corpora),
            tgt_lang=_language("--tgt-lang", self.tgt_lang, self.tgt, corpora),
            train=corpora[0] if len(corpora) == 1 else tuple(corpora),
            filters=SAFE_FILTERS,
        )


def _language(option: str, given: str | None, paths: list[str] | None, corpora: list[ParallelFiles]) -> str:
    """Return the language given by an option, or else by the extension of an aligned file: `a.de`, `a.pt-BR.gz`."""
    if given is not None:
        return _checked(option, given)
    if (found := language_in(paths[0] if paths else "")) is None:
        form = corpora[0].form
        names_languages = form in FORMATS and FORMATS[form].names_languages
        says = "can contain several languages" if names_languages else "do not name their languages"
        unclear = f"the name {paths[0]} does not show its language" if paths else f"{form} files {says}"
        raise ConfigError(f"{unclear}; {option} is missing", hint=f"such as {option} de")
    return found


def language_in(name: str) -> str | None:
    """Return the language that the extension of a file's name shows, as in a.de and a.pt-BR.gz; None if it does not."""
    path = Path(name)
    ending = (path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix.removeprefix(".")
    return ending if _GUESSED.fullmatch(ending) and ending.lower() not in _NOT_LANGUAGES else None


def _checked(option: str, code: str) -> str:
    if not _GIVEN.fullmatch(code):
        raise ConfigError(f"{option} {code}: not a language code", hint="such as de, zh or pt-BR")
    return code
