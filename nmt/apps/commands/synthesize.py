"""`nmt synthesize`: make synthetic training pairs from monolingual text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands import options as shared
from nmt.apps.commands.documents import refuse_corpus
from nmt.apps.commands.inputs import read_standard_input
from nmt.apps.commands.options import SearchFlags, find_models, load_translator, rare_option
from nmt.apps.commands.streams import STANDARD_INPUT
from nmt.apps.recipes.defaults import NUM_EXAMPLES, NUM_REQUESTS
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.config import SearchOptions

_DASH = "-"  # --input -: standard input

Input = Annotated[
    str,
    typer.Option(
        "--input", "-i", help="Monolingual text, one sentence per line (.gz, .bz2, .xz, .zst too); -: standard input."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="File of pairs: .tsv with columns src and tgt, or .jsonl with score and line too; add .gz to compress.",
    ),
]
Forward = Annotated[
    bool,
    typer.Option(
        "--forward",
        help="Self-training and distillation: src is the given text, tgt the model's output. Default, "
        "back-translation: src is the model's output, tgt the given text.",
    ),
]
Keep = Annotated[
    float, typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Share of the valid pairs to keep, best scores first.")
]
TeacherUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Language model instead of a run: a server with OpenAI's API, such as http://localhost:8000/v1. --model "
        "is then its name there. The API key is read from the environment variable NMT_TEACHER_KEY.",
    ),
]
ModelToTrain = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="With --teacher: configuration of the model to train, for the languages and the examples in the prompt.",
    ),
]
Examples = Annotated[
    int, rare_option(min=0, max=100, metavar="N", help="With --teacher: number of training pairs in the prompt.")
]
Requests = Annotated[
    int, rare_option(min=1, max=256, metavar="N", help="With --teacher: number of requests at the same time.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="REASON", help="Keep pairs that would be dropped for this reason. May be repeated."),
]


def synthesize(
    input: Input,
    output: Output,
    models: shared.Models = None,
    teacher: TeacherUrl = None,
    config: ModelToTrain = None,
    forward: Forward = False,
    resume: shared.Resume = False,
    to: shared.To = None,
    from_: shared.From = None,
    beam: shared.Beam = None,
    n_best: shared.NBest = None,
    settings: shared.SearchSettings = [],  # noqa: B006 (typer reads it, nobody changes it)
    keep: Keep = 1.0,
    allow: Allow = None,
    examples: Examples = NUM_EXAMPLES,
    requests: Requests = NUM_REQUESTS,
    device: shared.Device = "auto",
) -> None:
    """Make synthetic sentence pairs from monolingual text.

    Back-translation is the default: a model from en to de reads English and writes pairs (src de, tgt en) for training
    from de to en. Outputs that look wrong are dropped and counted. --output writes FILE.partial and renames it to FILE
    when complete; --resume continues a stopped command after the last line.
    """
    from nmt.apps.recipes import synthesize as recipe
    from nmt.apps.recipes.language_model import Teacher

    search = SearchFlags(settings, beam_size=beam, num_hypotheses=n_best)
    scores = recipe.needs_scores(output, keep)
    model: Sequence[RunDir] | Teacher
    if teacher is not None and config is not None:
        model = Teacher(teacher, config, models[0] if models else None, examples, requests)
        translator = None
        options = search.change(SearchOptions())
    else:
        model = find_models(models)
        translator = load_translator(model, "auto", device, "auto", scores=scores)
        options = search.change(model[0].config().decoding)
    lines: Path | Iterator[str] = Path(input)
    if input == _DASH:
        refuse_replacing([output], [STANDARD_INPUT])
        lines = read_standard_input()
    else:
        refuse_corpus(Path(input))
    recipe.synthesize(
        lines,
        output,
        model,
        translator=translator,
        forward=forward,
        to=to,
        from_=from_,
        options=options,
        keep=keep,
        allow=allow or (),
        name="standard input",
        resume=resume,
    )
