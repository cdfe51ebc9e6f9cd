"""`nmt data`: find problems in parallel text, and clean it."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, Src, SrcLang, Tgt, TgtLang
from nmt.apps.commands.options import Overrides
from nmt.apps.commands.outputs import refuse_existing
from nmt.apps.commands.streams import print_text
from nmt.apps.recipes.corpora import CorpusNames
from nmt.base.errors import ConfigError
from nmt.base.files import to_json
from nmt.base.machine import bounded
from nmt.config import Config
from nmt.data.read.table_names import format_of

log = logging.getLogger(__name__)

app = typer.Typer(help="Find problems in parallel text, and clean it.", no_args_is_help=True)

ConfigPath = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration (YAML) whose training files and filters to use.")
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File for the kept pairs, tab-separated; `cut -f 1` and `cut -f 2` split it into its languages.",
    ),
]
Rejected = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File for the dropped pairs, tab-separated: rules, file:line, source, target."),
]


@app.command()
def check(
    config: ConfigPath = None,
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check parallel text, pair by pair: nmt data check --src a.de --tgt a.en

    Prints what each rule finds, examples with their line numbers, and what each filter would cost. Changes no corpus.
    --set data.filters.wrong_language=2 identifies the language of each side, --set training.threads=N limits processes.
    """
    from nmt.data.check.check import check as recipe

    wanted = _wanted(config, CorpusNames(src, tgt, corpus, src_lang, tgt_lang), overrides)
    report = recipe(wanted.data, workers=bounded(wanted.training.threads))
    from nmt.data.check.summary import render_report

    print_text(to_json(asdict(report), indent=2) if json else "\n".join(render_report(report)))


@app.command()
def clean(
    output: Output,
    rejected: Rejected = None,
    config: ConfigPath = None,
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")] = False,
) -> None:
    """Write the pairs that the filters keep: nmt data clean --src a.de --tgt a.en -o kept.tsv --rejected rejected.tsv

    Uses the filters of --config if it turns any on, otherwise those that `nmt config new` writes. Change them with
    --set data.filters.RULE=VALUE.
    """
    from nmt.artifacts.replacing import refuse_replacing
    from nmt.data.check.check import check_corpus
    from nmt.data.check.stream import write_pairs
    from nmt.data.read.pairs import all_paths

    wanted = _wanted(config, CorpusNames(src, tgt, corpus, src_lang, tgt_lang), overrides)
    paths = [output, rejected] if rejected else [output]
    refuse_replacing(paths, [*filter(None, [config]), *all_paths(wanted.data)])
    for path in paths:
        if format_of(path.name) not in ("tsv", None):
            raise ConfigError("this output is plain text", path=path, hint="choose a name that ends in .tsv or .txt")
        refuse_existing(path, overwrite=overwrite)
    _, chunks = check_corpus(wanted.data, workers=bounded(wanted.training.threads))
    log.info(write_pairs(chunks, wanted.data.corpora("train"), kept=output, rejected=rejected))


def _wanted(config: Path | None, files: CorpusNames, overrides: list[str]) -> Config:
    """Return the configuration whose data to check."""
    if config is None and not files.given():
        raise typer.BadParameter("give files with --src and --tgt, or with --corpus, or a configuration with --config")
    if config is None:
        given = Config(data=files.data_section())
        if not overrides:
            return given
        from nmt.config.dump import with_values  # only here, because of PyYAML

        return with_values(given, "the command line", overrides)
    from nmt.config.load import load_config
    from nmt.data.check.check import with_filters

    wanted = load_config(config, overrides)
    return wanted.model_copy(update={"data": with_filters(wanted.data)})
