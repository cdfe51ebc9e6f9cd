"""`nmt distill`: train a small, fast model on the translations of a larger one."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.options import Device, NewRun, Overrides, Precision, ReplaceRun, load_translator, refuse
from nmt.apps.commands.streams import print_text
from nmt.apps.commands.train import log_next_steps, prepare_to_train, refuse_replacing_parts, train_run
from nmt.apps.recipes.presets import suggest_config
from nmt.apps.recipes.suggestion import count_pairs
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir, refuse_existing
from nmt.base.errors import ConfigError, NmtError, RunError
from nmt.base.partial_file import PartialFile
from nmt.base.progress import Progress
from nmt.config import Config, SearchOptions, load_config
from nmt.config.corpora import ParallelFiles
from nmt.config.dump import with_values
from nmt.config.nodes import read_tree
from nmt.config.search import MAX_BEAM_SIZE
from nmt.data.read.lines import read_lines

if TYPE_CHECKING:
    from nmt.apps.recipes.distillation import Comparison, Part
    from nmt.translation import Translator

log = logging.getLogger(__name__)

BLOCK_LINES = 256  # sources that are translated and written at once: the most that are lost if the process is killed
_FROM_TEACHER = ("src_lang", "tgt_lang", "train", "valid", "test", "holdout_size", "holdout_seed", "filters",
                 "temperature")  # fmt: skip

Teachers = Annotated[
    list[Path], typer.Argument(help="Run to learn from; several form an ensemble.", show_default=False)
]
StudentConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Configuration of the student (YAML). If it has no data.train, the teacher's data is used. Default: "
        "the fast model that nmt config new --student suggests for the teacher's data.",
    ),
]
Beam = Annotated[
    int, typer.Option("--beam", min=1, max=MAX_BEAM_SIZE, metavar="N", help="Beam size of the teacher's translations.")
]
NBest = Annotated[
    int,
    typer.Option(
        min=1,
        max=MAX_BEAM_SIZE,
        metavar="N",
        help="Number of translations of each source that the student learns from, at most --beam.",
    ),
]
Reverse = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN",
        help="Data diversification (Nguyen et al. 2020): run of the opposite direction. The student learns from the "
        "original pairs, the teacher's translations of their sources and this run's translations of their targets. "
        "Default of --config: the teacher's configuration. Repeat for an ensemble.",
    ),
]
MixOriginal = Annotated[
    float,
    typer.Option(
        min=0.0, max=0.95, metavar="SHARE", help="Share of training pairs that keep the original translation."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted distillation, with the same options.")]


def distill(
    teachers: Teachers,
    run: NewRun,
    config: StudentConfig = None,
    reverse: Reverse = None,
    beam: Beam = 5,
    n_best: NBest = 1,
    mix_original: MixOriginal = 0.0,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    device: Device = "auto",
    precision: Precision = "auto",
    resume: Resume = False,
    overwrite: ReplaceRun = False,
) -> None:
    """Train a student on the translations of a teacher.

    `nmt distill runs/teacher --run runs/student`: the teacher translates the training sources, and the student is
    trained on the result (Kim and Rush 2016). Validation and test set keep their original translations. It prints BLEU
    and decoding time of both at the end. With --reverse, the student also learns from the original pairs and from
    translated targets.
    """
    if resume and overwrite:
        raise typer.BadParameter("choose one of --resume and --overwrite")
    if n_best > beam:
        raise typer.BadParameter(f"{n_best} translations need a --beam of at least {n_best}")
    refuse({"--reverse cannot be used with --n-best and --mix-original": reverse and (n_best > 1 or mix_original)})
    if not (resume or overwrite):
        refuse_existing(run)
    prepare_to_train()
    from nmt.apps.recipes.distillation import compare_with_teacher, write_distillation_text
    from nmt.training.corpus.prepare import find_store_root

    found = [find_run(str(teacher)) for teacher in teachers]
    opposite = [find_run(str(each)) for each in reverse or ()]
    student = _student_config(found[0], config, overrides, as_teacher=bool(opposite))
    _check_student(student, found[0], config, mixes=bool(mix_original or opposite))
    if opposite:
        turned = [ParallelFiles.reversed(files) for files in student.data.corpora("train")]
        data = student.data.model_copy(update={"train": tuple(turned)})
        _check_student(student.model_copy(update={"data": data}), opposite[0], config, mixes=True)
    refuse_replacing_parts(run, student, [*found, *opposite])
    options = found[0].config().decoding.greedy().changed(beam_size=beam, num_hypotheses=n_best)
    text = write_distillation_text(student, found, opposite, options, precision, find_store_root(student, run))
    training = student.model_copy(update={"data": text.student_data(mix_original)})
    checked = with_values(training, "configuration of the student")
    if resume:
        _refuse_other_text(checked, run)
    for models, parts in ((found, text.parts), (opposite, text.reversed)):
        _translate_all(models, parts, text.folder, options, device, precision)
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--overwrite", "--resume")]
    how_to_resume = f"nmt {shlex.join([*arguments, '--resume'])}"
    train_run(checked, run, "either" if resume else "start", how_to_resume, overwrite=overwrite)
    log.info("comparing the student with its teacher")
    comparison, trained = compare_with_teacher(found, RunDir(run), device, precision), RunDir(run)
    trained.write_json(trained.distillation, {"teachers": [str(each.path) for each in found], **comparison.as_json()})
    print_text("\n".join(_describe(comparison)))
    log_next_steps(run)


def _check_student(student: Config, teacher: RunDir, path: Path | None, *, mixes: bool) -> None:
    """Raise ConfigError if the teacher does not translate a direction of the student, or the stages allow no mixing."""
    from nmt.translation import LanguagePair

    if mixes and any(stage.weights or stage.corpora for stage in student.training.stages):
        hint = "omit it, or weights and corpora in training.stages"
        raise ConfigError("--mix-original or --reverse adds corpora that the student's stages leave out", hint=hint)
    languages = LanguagePair.from_config(teacher.config())
    for src, tgt in student.data.directions:
        try:
            languages.direction(tgt, src)
        except NmtError as error:
            hint = "set data.src_lang and data.tgt_lang to languages of the teacher"
            raise ConfigError(f"the teacher {teacher.path}: {error.message}", path=path, hint=hint) from None


def _refuse_other_text(config: Config, run: Path) -> None:
    """Raise RunError if the student at `run`, if any, was started on other text than `config` names."""
    if not RunDir(run).config_file.is_file():
        return
    now, before = (
        [(Path(str(files.tgt)).parts[-2:], files.weight) for files in each.data.corpora("train")]
        for each in (config, RunDir(run).config())
    )
    if now != before:
        options = "--config, --beam, --n-best, --mix-original and --precision"
        hint = f"repeat the teachers, {options}, or start over with --overwrite"
        raise RunError("this student was started on other text", path=run, hint=hint)


def _student_config(teacher: RunDir, path: Path | None, overrides: list[str], *, as_teacher: bool) -> Config:
    """Return the configuration of the student, with the teacher's data if it names none; without one, a suggestion.

    `as_teacher`: without one, that of the teacher.
    """
    data = teacher.config().data
    if path is None:
        if not teacher.data.is_dir():
            message = "this model was imported or packed, so it has no training data"
            raise RunError(message, path=teacher.path, hint="give a configuration with a corpus: --config")
        suggested = teacher.config()
        if not as_teacher:
            suggested = suggest_config(count_pairs(data.corpora("train"))[0], data, student=True)
        return with_values(suggested, "configuration of the student", overrides)
    try:
        given = read_tree(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, ValueError):
        given = None  # load_config reports the error
    section = (given.get("data") or {}) if isinstance(given, dict) else None
    if not isinstance(section, dict) or "train" in section:
        return load_config(path, overrides)
    values = data.model_dump(mode="json", exclude_defaults=True, include={*_FROM_TEACHER} - {*section})
    filled = [f"data.{key}={json.dumps(value, ensure_ascii=False)}".replace("$", "$$") for key, value in values.items()]
    return load_config(path, [*filled, *overrides])


def _translate_all(
    teachers: list[RunDir], parts: list[Part], folder: Path, options: SearchOptions, device: str, precision: str
) -> None:
    missing = [part for part in parts if not part.hyp.exists()]
    if missing:
        num_pairs = sum(part.size for part in missing)
        log.info("translating %s training sources (beam %d) into %s", f"{num_pairs:,}", options.beam_size, folder)
        with load_translator(teachers, "auto", device, precision) as translator:
            for part in missing:
                _translate(part, translator, options)


def _translate(part: Part, translator: Translator, options: SearchOptions) -> None:
    tag = f"{part.files.tag} " if part.files.tag and translator.tokenizers.know([part.files.tag]) else ""
    settings = {**options.model_dump(), "precision": translator.engine.precision}
    with PartialFile(part.hyp, settings, options.num_hypotheses, resume=True) as output:
        num_done = output.num_texts
        if num_done:
            log.info("resuming after %s of %s sources", f"{num_done:,}", f"{part.size:,}")
        lines = islice(read_lines(part.src), num_done, None)
        bar = sys.stderr.isatty()
        with Progress(total=part.size, start=num_done, bar=bar, log_lines=not bar) as progress:
            while block := list(islice(lines, BLOCK_LINES)):
                output.write(_as_lines(translator, [tag + line for line in block], options, part))
                progress.add(len(block))


def _as_lines(translator: Translator, sources: list[str], options: SearchOptions, part: Part) -> str:
    """Return the lines of each source: its translations, best first, and empty lines up to `num_hypotheses`.

    The student never sees what repeats itself, and no other translation that is a duplicate or loses a protected span.
    """
    lines: list[str] = []
    for best in translator.translate(sources, options, to=part.direction.tgt, from_=part.direction.src):
        found = [best, *(each for each in best.alternatives if not each.protected_lost)]
        texts = [each.text.replace("\n", " ") for each in found if not each.loop_unresolved]
        distinct = list(dict.fromkeys(texts))
        lines += distinct + [""] * (options.num_hypotheses - len(distinct))
    return "".join(line + "\n" for line in lines)


def _describe(found: Comparison) -> list[str]:
    from nmt.apps.recipes.distillation import ROUNDS
    from nmt.evaluation.model_comparison import render_table

    faster = found.teacher_seconds / max(found.student_seconds, 1e-9)
    return [
        *render_table(found.sets, "teacher", "student"),
        f"decoding the test set: teacher {found.teacher_seconds:.2f} s ({found.precisions[0]}), student "
        f"{found.student_seconds:.2f} s ({found.precisions[1]}), {faster:.2f} times as fast "
        f"(median of {ROUNDS}, in turns)",
    ]
