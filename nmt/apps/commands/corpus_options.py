"""The options that name a corpus, shared by `nmt config new`, `nmt data` and `nmt adapt`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.config.corpora import FORMATS

Src = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Source sentences, one per line. May be repeated.")]
Tgt = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Translations of --src, line by line. One per --src.")
]
CorpusFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help=f"File with both languages, in the format of its extension: .{', .'.join(FORMATS)}; text formats may be "
        "compressed (.gz, .bz2, .xz, .zst). FILE#2,3 or FILE#German,English names columns of a table, "
        "FILE.xlsx#SHEET:1,2 also its sheet, FILE.jsonl#de,en fields. May be repeated.",
    ),
]
SrcLang = Annotated[
    str | None,
    typer.Option(
        metavar="LANG",
        help="Source language of all corpora. Default: for each, the extension of --src (a.de), or the name of its "
        "column or field (#German,English; #translation.de,translation.en).",
    ),
]
TgtLang = Annotated[str | None, typer.Option(metavar="LANG", help="Target language, likewise.")]
