"""The options that name a corpus, shared by `nmt config new`, `nmt data` and `nmt adapt`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from nmt.apps.commands.documents import SUFFIXES
from nmt.base.errors import ConfigError, DataError
from nmt.config import DataConfig, ParallelFiles
from nmt.config.corpora import FORMAT_OF_ENDING, FORMATS
from nmt.config.filters import SAFE_FILTERS
from nmt.data.read.lines import COMPRESSIONS
from nmt.data.read.table_names import format_of

_NOT_LANGUAGES = {"bpe", "csv", "dat", "gz", "lc", "low", "raw", "sgm", "src", "tgt", "tok", "trg", "tsv", "txt", "xml"}
_GUESSED = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_GIVEN = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")

Src = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Source sentences, one per line. May be repeated.")]
Tgt = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Translations of --src, line by line. One per --src.")
]
Tsv = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Tab-separated file with both languages. May be repeated.")
]
CorpusFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help=f"File with both languages, in the format of its extension: .{', .'.join(FORMATS)}; text formats may be "
        "compressed (.gz, .xz, .zst). May be repeated.",
    ),
]
Columns = Annotated[
    str, typer.Option(metavar="SRC,TGT", help="Source and target columns of tables: numbers from 1, or names.")
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="SHEET", help="Sheet of .xlsx files: its name, or its number from 1. Default: the first."),
]
Fields = Annotated[str, typer.Option(metavar="SRC,TGT", help="Source and target fields of .jsonl files.")]
SrcLang = Annotated[
    str | None, typer.Option(metavar="LANG", help="Source language. Default: the extension of --src (a.de).")
]
TgtLang = Annotated[str | None, typer.Option(metavar="LANG", help="Target language. Default: the extension of --tgt.")]


class CorpusOptions(NamedTuple):
    """The options of one command line that name corpora."""

    src: list[str]
    tgt: list[str]
    tsv: list[str]
    corpus: list[str]
    columns: str
    fields: str
    src_lang: str | None
    tgt_lang: str | None
    sheet: str | None = None
    tmx: Sequence[str] = ()

    @property
    def name_a_file(self) -> bool:
        """Return whether any option names a file."""
        return bool(self.src or self.tgt or self.tsv or self.tmx or self.corpus)

    def given(self) -> list[str]:
        """Return the names of the options that differ from their defaults."""
        names = (name for name in self._fields if getattr(self, name) != getattr(NO_FILES, name))
        return [f"--{name.replace('_', '-')}" for name in names]

    def corpora(self) -> list[ParallelFiles]:
        """Return the corpora: pairs of aligned files, then files with both languages. ConfigError if invalid."""
        others = [(name, form) for form, names in (("tsv", self.tsv), ("tmx", self.tmx)) for name in names]
        others += map(_recognized, self.corpus)
        return _corpora(self.src, self.tgt, others)

    def for_files(self, names: list[str]) -> CorpusOptions:
        """Return options that name other files: two aligned ones, or one with both languages. ConfigError if more."""
        if len(names) > 2:
            hint = "one with both languages, or two: sources and their translations"
            raise ConfigError(f"{len(names)} files for one test set", hint=hint)
        src, tgt = (names[:1], names[1:]) if len(names) == 2 else ([], [])
        return self._replace(src=src, tgt=tgt, tsv=[], tmx=(), corpus=[] if src else names)

    def corpora_of(self, data: DataConfig) -> tuple[ParallelFiles, ...]:
        """Return the corpora, with the languages of `data` unless an option names them. ConfigError if invalid."""
        given = (("--src-lang", self.src_lang, data.src_lang), ("--tgt-lang", self.tgt_lang, data.tgt_lang))
        languages = [default if code is None else _language(name, code, [], []) for name, code, default in given]
        corpora = self._with_tables(self.corpora())
        named = {"src_lang": languages[0], "tgt_lang": languages[1]}
        return tuple(files.model_copy(update=named) for files in corpora)

    def data_section(self, corpora: list[ParallelFiles]) -> DataConfig:
        """Return the data section for `corpora`, with the safe filters. ConfigError for bad columns or languages."""
        corpora = self._with_tables(corpora)
        return DataConfig(
            src_lang=_language("--src-lang", self.src_lang, self.src, corpora),
            tgt_lang=_language("--tgt-lang", self.tgt_lang, self.tgt, corpora),
            train=corpora[0] if len(corpora) == 1 else tuple(corpora),
            filters=SAFE_FILTERS,
        )

    def _with_tables(self, corpora: list[ParallelFiles]) -> list[ParallelFiles]:
        """Return the corpora with the columns, the sheet and the fields that the options name. ConfigError if bad."""
        sheet = int(self.sheet) if self.sheet and re.fullmatch(r"[1-9][0-9]{0,5}", self.sheet) else self.sheet
        return _with_options(corpora, columns=_columns(self.columns), sheet=sheet, fields=_fields(self.fields))


NO_FILES = CorpusOptions([], [], [], [], "1,2", "src,tgt", None, None)
"""The options of a command line that names no corpus."""


def _corpora(sources: list[str], targets: list[str], others: list[tuple[str, str]]) -> list[ParallelFiles]:
    """Return the corpora: pairs of aligned files, then files with both languages, each given with its format."""
    named = [*sources, *targets, *(name for name, _ in others)]
    if not named or not all(named) or len(sources) != len(targets):
        hint = "such as --src a.de --tgt a.en, or --tsv a.tsv --src-lang de --tgt-lang en"
        raise ConfigError("give --src and --tgt (two aligned files), --tsv or --corpus (one file with both)", hint=hint)
    aligned = [ParallelFiles(src=src, tgt=tgt) for src, tgt in zip(sources, targets, strict=True)]
    return aligned + [ParallelFiles.model_validate({form: name}) for name, form in others]


def _recognized(name: str) -> tuple[str, str]:
    """Return the name of a file, and the format that its extension stands for."""
    form = format_of(name)
    if form is None:
        hint = f"the name must end in .{', .'.join(FORMAT_OF_ENDING)}; for other names use --tsv, or edit the YAML"
        raise ConfigError(f"--corpus {name}: unknown file extension", hint=hint)
    return name, form


def refuse_corpus(path: Path) -> None:
    """Raise DataError if the extension of a text file says that it has other columns, fields or markup than the text.

    Documents are exempt; `nmt translate` warns of them.
    """
    form = format_of(path.name)
    if form is None or path.suffix.lower() in SUFFIXES:
        return
    name = shlex.quote(str(path))
    commands = {".tsv": f", such as: cut -f 1 {name} > NAME.txt", ".jsonl": f", such as: jq -r .src {name} > NAME.txt"}
    hint = f"write the texts to translate into a file with one per line{commands.get(path.suffix.lower(), '')}"
    raise DataError(f"a {form} file is not plain text with one sentence per line", path=path, hint=hint)


def _uncompressed(name: str) -> str:
    return name[: -len(suffix)] if (suffix := Path(name).suffix) in COMPRESSIONS else name


def _with_options(corpora: list[ParallelFiles], **options: object) -> list[ParallelFiles]:
    """Return the corpora with the given columns or fields, if their format has them."""
    return [
        files.model_copy(update={key: value for key, value in options.items() if files.uses(key)}) for files in corpora
    ]


def _columns(text: str) -> tuple[int, int] | tuple[str, str]:
    """Return two column numbers, or two names."""
    first, _, second = (part.strip() for part in text.partition(","))
    numbers = re.fullmatch(r"[1-9][0-9]{0,5}", first) and re.fullmatch(r"[1-9][0-9]{0,5}", second)
    looks_numeric = first.isdecimal() or second.isdecimal()
    if not first or not second or first == second or (looks_numeric and not numbers):
        hint = "such as 1,2, or two names from the header"
        raise ConfigError(f"--columns {text}: two different columns are needed, numbered from 1", hint=hint)
    return (int(first), int(second)) if numbers else (first, second)


def _fields(text: str) -> tuple[str, str]:
    first, _, second = (part.strip() for part in text.partition(","))
    if not first or not second or first == second:
        raise ConfigError(f"--fields {text}: two different fields are needed", hint="such as src,tgt")
    return first, second


def _language(option: str, given: str | None, paths: list[str], corpora: list[ParallelFiles]) -> str:
    """Return the language given by an option, or else by the extension of an aligned file: `a.de`, `a.pt-BR.gz`."""
    if given is not None:
        if not _GIVEN.fullmatch(given):
            raise ConfigError(f"{option} {given}: not a language code", hint="such as de, zh or pt-BR")
        return given
    ending = Path(_uncompressed(paths[0])).suffix.removeprefix(".") if paths else ""
    if not _GUESSED.fullmatch(ending) or ending.lower() in _NOT_LANGUAGES:
        form = corpora[0].form
        says = (
            "can contain several languages"
            if form in FORMATS and FORMATS[form].names_languages
            else "do not name their languages"
        )
        unclear = f"the name {paths[0]} does not show its language" if paths else f"{form} files {says}"
        raise ConfigError(f"{unclear}; {option} is missing", hint=f"such as {option} de")
    return ending
