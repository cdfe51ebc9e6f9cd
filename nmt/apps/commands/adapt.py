"""`nmt adapt`: fine-tune a trained model on the text of a client or a domain."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.corpus_options import CorpusFiles, Src, Tgt
from nmt.apps.commands.options import NewRun, Overrides, ReplaceRun
from nmt.apps.commands.streams import print_text
from nmt.apps.commands.train import exit_unfinished, log_next_steps, prepare_to_train, stopping
from nmt.apps.recipes.defaults import MAX_LOSS
from nmt.base.errors import RunError

BaseRun = Annotated[Path | None, typer.Argument(help="Run or packed model to adapt.", show_default=False)]
Language = Annotated[str | None, typer.Option(help="Language of the new corpus, if the run has several.")]
Mix = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=0.95,
        metavar="SHARE",
        help="Share of the old corpus in training. Default: 0.5, or 0 with a warning if the old corpus cannot be read.",
    ),
]
Test = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Test set of the new domain: one file with both languages, or --test SRC --test TGT. Default: held out "
        "from the new corpus.",
    ),
]
OldTest = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Test set of the old domain, given as with --test. Default: the run's test set."),
]
MaxLoss = Annotated[
    float, typer.Option(min=0.0, max=100.0, metavar="BLEU", help="Maximum BLEU loss allowed on a test set, old or new.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted adaptation, or repeat its final check.")]


def adapt(
    run: NewRun,
    base: BaseRun = None,
    src: Src = None,
    tgt: Tgt = None,
    corpus: CorpusFiles = None,
    src_lang: Language = None,
    tgt_lang: Language = None,
    mix: Mix = None,
    test: Test = None,
    old_test: OldTest = None,
    max_loss: MaxLoss = MAX_LOSS,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    resume: Resume = False,
    overwrite: ReplaceRun = False,
) -> None:
    """Adapt a model to another domain.

    `nmt adapt runs/general --corpus client.tsv --run runs/client` continues training with settings that suit the new
    corpus, mixes in part of the old one to prevent forgetting, and prints BLEU and chrF before and after.
    """
    from nmt.apps.recipes import adapt as recipe
    from nmt.evaluation.model_comparison import render_table

    prepare_to_train()
    run = recipe.real_path(run)
    how_to_resume = partial(recipe.resume_command, run, old_test or [])
    with stopping(recipe.candidate_of(run), how_to_resume(max_loss), overwrite=overwrite) as interrupt:
        result = recipe.adapt(
            base,
            run,
            corpus,
            src=src,
            tgt=tgt,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            mix=mix,
            test=test,
            old_test=old_test,
            max_loss=max_loss,
            overrides=overrides,
            resume=resume,
            overwrite=overwrite,
            interrupt=interrupt,
        )
    if not result.finished:
        exit_unfinished(interrupt, how_to_resume(max_loss))
    print_text("\n".join(render_table(result.sets, "before", "after")))
    if result.worst is not None and not result.delivered:
        loss = -result.worst.bleu.gain
        before = result.worst.bleu.other
        after = result.worst.bleu.value
        raise RunError(
            f"not delivered: the {result.worst.name} test set ({result.worst.direction}) loses {loss:.2f} BLEU "
            f"({before:.2f} before, {after:.2f} after), more than --max-loss {max_loss:g}: keep the old model",
            path=run,
            hint=f"the weights are kept in {result.run.path}; start over with --overwrite and more of the old corpus "
            "(such as --mix 0.7), fewer updates (--set training.max_updates=N) or a lower learning rate (--set "
            f"training.lr=RATE); or deliver them anyway: {how_to_resume(int(loss) + 1)}",
        )
    log_next_steps(result.run.path)
