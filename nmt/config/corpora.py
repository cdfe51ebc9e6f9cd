"""The corpora of the section `data`: their files, format, languages, weight, tag and filters."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from nmt.base.errors import in_words
from nmt.config.base import Count, Section
from nmt.config.filters import Filters

DATA_SETS: tuple[Literal["train", "valid", "test"], ...] = ("train", "valid", "test")  # the keys with corpora


class Format(NamedTuple):
    """A format of files with both languages: the endings of their names, and the keys that only some formats have."""

    endings: tuple[str, ...]
    keys: tuple[str, ...] = ()


FORMATS = {
    "tsv": Format(("tsv", "tab"), ("columns", "header", "quoting")),
    "csv": Format(("csv",), ("columns", "header", "delimiter")),
    "xlsx": Format(("xlsx", "xlsm"), ("columns", "header", "sheet")),
    "jsonl": Format(("jsonl", "json", "ndjson"), ("fields",)),
    "tmx": Format(("tmx",)),
}
"""The formats by key. A new one also needs a field in `ParallelFiles` and a reader in `nmt.data.read.pairs`."""

FORMAT_OF_ENDING = {ending: key for key, each in FORMATS.items() for ending in each.endings}

ANY_FORMAT = in_words([*FORMATS], "or")  # the keys of all formats, for messages
FORMS = ("src", *FORMATS)  # the keys that name a corpus, one per format; `src` comes with `tgt`
ONE_CORPUS_OR_MORE = f"src and tgt (two aligned files), or one file: {ANY_FORMAT}; or a list of such corpora"

_FORMS_WITH_KEY = {
    key: [form for form, each in FORMATS.items() if key in each.keys]
    for key in dict.fromkeys(key for each in FORMATS.values() for key in each.keys)
}


def _check_language_code(value: str) -> str:
    if not value.replace("-", "").replace("_", "").isalnum():
        raise ValueError("a language code, such as de, zh or pt-BR")
    return value


LanguageCode = Annotated[str, AfterValidator(_check_language_code)]
Column = Count | Annotated[str, Field(min_length=1)]


class ParallelFiles(Section):
    """One corpus: two aligned files (`src`, `tgt`), or one file that holds both languages.

    Paths are relative to the current directory; `$NAME`, `${NAME}` and `${NAME:-default}` are read from the
    environment. Files that end in `.gz`, `.bz2`, `.xz` or `.zst` are decompressed.
    """

    src: str | None = Field(default=None, description="file of source sentences, one per line")
    tgt: str | None = Field(default=None, description="file of their translations: line n translates line n of src")
    tsv: str | None = Field(default=None, description="tab-separated file with both languages, instead of src and tgt")
    csv: str | None = Field(
        default=None, description="comma-separated file with quoted cells, as spreadsheets export it"
    )
    xlsx: str | None = Field(default=None, description="Excel workbook (needs the extra xlsx)")
    jsonl: str | None = Field(default=None, description="file with one JSON object per line")
    tmx: str | None = Field(default=None, description="translation memory (TMX 1.1 to 1.4)")
    columns: tuple[Column, Column] = Field(
        default=(1, 2),
        description="tsv, csv, xlsx: source and target columns, counted from 1, or their names in the header",
    )
    header: Literal["auto"] | bool = Field(
        default="auto",
        description="tsv, csv, xlsx: whether the first row holds column names; auto: true if it looks like it",
    )
    quoting: Literal["auto"] | bool = Field(
        default="auto",
        description="tsv: whether cells may be quoted, with quotation marks inside doubled; false: they are text; "
        "auto: true if every cell with a quotation mark is written that way",
    )
    delimiter: Literal["auto", ",", ";", "|", "tab"] = Field(
        default="auto", description="csv: cell separator; auto: the one that gives all rows the same number of cells"
    )
    sheet: Column | None = Field(
        default=None, description="xlsx: name of the sheet, or its number from 1; null: the first"
    )
    fields: tuple[str, str] = Field(
        default=("src", "tgt"),
        description="jsonl: source and target fields; a dot enters a nested object: translation.de",
    )
    src_lang: LanguageCode | None = Field(
        default=None, description="source language of this corpus; null: data.src_lang"
    )
    tgt_lang: LanguageCode | None = Field(
        default=None, description="target language of this corpus; null: data.tgt_lang"
    )
    weight: float | None = Field(
        default=None, gt=0.0, description="share of this corpus in training, relative to the others"
    )
    tag: str | None = Field(default=None, description="token to put before each source of this corpus")
    filters: Filters | None = Field(
        default=None, description="filters for this corpus, instead of data.filters; {}: none"
    )

    @property
    def form(self) -> str:
        """Return the key that names the corpus: one of `FORMS`."""
        return next(form for form in FORMS if getattr(self, form) is not None)

    def uses(self, key: str) -> bool:
        """Return whether `key` applies to a corpus of this format."""
        return self.form in _FORMS_WITH_KEY.get(key, FORMS)

    def reversed(self) -> Self:
        """Return the same corpus in the other direction."""
        turned: dict[str, object] = {key: getattr(self, key)[::-1] for key in ("columns", "fields") if self.uses(key)}
        sides = {"src": self.tgt, "tgt": self.src, "src_lang": self.tgt_lang, "tgt_lang": self.src_lang}
        return self.model_copy(update=turned | sides)

    @field_validator("tag")
    @classmethod
    def _one_token(cls, value: str | None) -> str | None:
        if value is not None and symbol_error(value):
            raise ValueError("one token such as <web>, not reserved, without white space, commas or ▁")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        named = [form for form in FORMS if getattr(self, form) is not None]
        if len(named) != 1 or (self.src is None) != (self.tgt is None):
            raise ValueError(f"give either src and tgt (two aligned files) or one file: {ANY_FORMAT}")
        for key, forms in _FORMS_WITH_KEY.items():
            if self.form not in forms and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} does not apply to {self.form}, only to {' or '.join(forms)}")
        for key in ("columns", "fields"):
            if getattr(self, key)[0] == getattr(self, key)[1]:
                raise ValueError(f"{key} must name two different {key}")
        if self.header is False and any(isinstance(column, str) for column in self.columns):
            raise ValueError("columns are given by name, but header is false, so there are no column names")
        return self


def symbol_error(symbol: str) -> str:
    """Return why a symbol cannot be a token of its own; empty if it can."""
    byte_token = len(symbol) == 6 and symbol.startswith("<0x") and symbol.endswith(">")
    if symbol in {"<unk>", "<pad>", "<s>", "</s>"} or byte_token:
        return f"{symbol} is reserved; choose another name"
    if not symbol or any(c.isspace() or c in "▁," for c in symbol):
        return f"{symbol!r}: a symbol must not be empty or contain white space, commas or ▁"
    return ""


Corpora = Annotated[
    Annotated[ParallelFiles, Tag("one")]
    | Annotated[tuple[ParallelFiles, ...], Field(min_length=1, max_length=1000), Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list | tuple) else "one"),
]
