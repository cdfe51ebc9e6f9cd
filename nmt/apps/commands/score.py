"""`nmt score`: compute the probability that a model assigns to translations."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.options import Device, From, Models, To, find_models, load_translator
from nmt.apps.commands.streams import print_text
from nmt.base.files import to_json
from nmt.config.corpora import ParallelFiles
from nmt.data.read.pairs import read_named, read_parallel

if TYPE_CHECKING:
    from nmt.translation import ForcedScore, Translator

log = logging.getLogger(__name__)

BLOCK_LINES = 1000  # scored together, sorted by length


def score(
    models: Models = None,
    to: To = None,
    from_: From = None,
    src: Annotated[Path | None, typer.Option(help="Source sentences, one per line.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Translations of --src, line by line.")] = None,
    tsv: Annotated[Path | None, typer.Option(help="Table: source, translation; FILE#2,3 names other columns.")] = None,
    per_token: Annotated[
        bool,
        typer.Option("--per-token", help="Print one JSON object per line, with the log-probability of every token."),
    ] = False,
    device: Device = "auto",
) -> None:
    """Compute the log-probability of given translations.

    Prints one natural logarithm per line.
    """
    if tsv is None and src is None:
        raise typer.BadParameter("give --src and --tgt, or --tsv")
    translator = load_translator(find_models(models), "auto", device, "auto")
    if tsv is not None:
        pairs = read_named(str(tsv), translator.languages.direction(to, from_))
    else:
        pairs = read_parallel(ParallelFiles(src=str(src), tgt=str(tgt)))
    while block := list(islice(pairs, BLOCK_LINES)):
        scores = translator.score([pair.src for pair in block], [pair.tgt for pair in block], to=to, from_=from_)
        for pair, scored in zip(block, scores, strict=True):
            if scored.truncated:
                log.warning("line %d is longer than the model's limit; its end is not scored", pair.line)
            print_text(_render(scored, translator, per_token))


def _render(scored: ForcedScore, translator: Translator, per_token: bool) -> str:
    if not per_token:
        return f"{scored.score:.6f}"
    tokens = [*translator.tokenizers.tgt.tokens(scored.tgt_ids), "</s>"][: len(scored.token_scores)]
    return to_json(
        {
            "score": round(scored.score, 6),
            "tokens": tokens,
            "token_scores": [round(value, 6) for value in scored.token_scores],
            "truncated": scored.truncated,
        },
    )
