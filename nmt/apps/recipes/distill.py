"""Train a small, fast model on the translations of a larger one."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nmt.apps.recipes.defaults import BEAM_SIZE
from nmt.apps.recipes.distillation import (
    compare_with_teacher,
    num_sources,
    student_data,
    translations_of,
    write_distillation_text,
)
from nmt.apps.recipes.presets import suggest_config
from nmt.apps.recipes.side_by_side import Comparison
from nmt.apps.recipes.suggestion import count_pairs
from nmt.apps.recipes.translated_lines import translate_into
from nmt.artifacts.find_model import Models, find_runs
from nmt.artifacts.replacing import refuse_replacing_parts
from nmt.artifacts.rundir import RunDir, refuse_existing, run_path
from nmt.base.errors import ConfigError, NmtError, RunError, UsageError
from nmt.base.partial_file import PartialFile
from nmt.config import Config, DataConfig, SearchOptions, load_config
from nmt.config.dump import with_values
from nmt.config.nodes import read_tree
from nmt.data.read.lines import read_lines
from nmt.decoding.engines.interface import DeviceName, PrecisionName
from nmt.training.interrupt import Interrupt
from nmt.translation import LanguagePair, Translation, Translator
from nmt.translation.request import Request

log = logging.getLogger(__name__)

NAMES = ("teacher", "student")
_OF_STUDENT = ("augment", "protect", "placeholder_share", "store_dir")  # keys of data that are not the teacher's


class DistillResult(NamedTuple):
    """The result of `distill`."""

    run: RunDir  # the student
    finished: bool  # False: the training was interrupted; the state is saved, and `resume` continues
    comparison: Comparison | None = None  # teacher and student: their scores, and their time for the test set


def distill(
    teachers: Models,
    run: str | Path,
    config: Config | str | Path | None = None,
    *,
    beam_size: int = BEAM_SIZE,
    n_best: int = 1,
    mix_original: float = 0.0,
    overrides: Sequence[str] = (),
    device: DeviceName = "auto",
    precision: PrecisionName = "auto",
    resume: bool = False,
    overwrite: bool = False,
    interrupt: Interrupt | None = None,
) -> DistillResult:
    """Translate the training sources with `teachers`, train a student on the result at the path `run`, and compare.

    Sequence-level knowledge distillation (Kim and Rush 2016). Validation and test sets keep their own translations.

    Args:
        teachers: The run to learn from; several form an ensemble.
        run: The run to write.
        config: The student's configuration, or the path of its YAML file, which has the teacher's data if it names no
            `data.train`. None: a fast model that suits the teacher's data.
        beam_size: Beam size of the teacher's translations.
        n_best: Number of translations of each source to learn from, at most `beam_size`.
        mix_original: Share of the training pairs that keep their original translation, from 0 to 0.95.
        overrides: Changes of the student's configuration, such as `training.max_updates=5000`.
        device: auto, cuda, mps or cpu, for translating.
        precision: auto, fp32, bf16 or int8, for translating.
        resume: Continue an interrupted distillation, with the same arguments.
        overwrite: Replace a run that exists.
        interrupt: What stops the training early; None: Ctrl-C and SIGTERM.

    NmtError for errors that the user can mend. Progress goes to Python's logging.
    """
    path = run_path(run)
    if n_best > beam_size:
        raise UsageError(f"{n_best} translations need a beam of at least {n_best}")
    if not (resume or overwrite):
        refuse_existing(path)
    from nmt.training.corpus.prepare import find_store_root
    from nmt.training.run import start_or_resume_run, start_run

    found = find_runs(teachers)
    student = _student_config(found[0], config, overrides)
    named = config if isinstance(config, str | Path) else None
    _check_student(student, found[0], named, mixes=bool(mix_original))
    refuse_replacing_parts(path, student, found)
    options = found[0].config().decoding.greedy().changed(beam_size=beam_size, num_hypotheses=n_best)
    text = write_distillation_text(student, found, options, precision, find_store_root(student, path))
    training = student.model_copy(update={"data": student_data(text, mix_original, n_best)})
    checked = with_values(training, "configuration of the student")
    if resume:
        _refuse_other_text(checked, path)
    _translate_all(found, text, options, device, precision)
    trained = RunDir(path)
    with interrupt or Interrupt() as stop:
        if resume:
            finished = start_or_resume_run(checked, path, stop)
        else:
            finished = start_run(checked, path, overwrite=overwrite, interrupt=stop)
    if not finished:
        return DistillResult(trained, finished=False)
    log.info("comparing the student with its teacher")
    comparison = compare_with_teacher(found, trained, device, precision)
    trained.write_json(
        trained.distillation, {"teachers": [str(each.path) for each in found], **comparison.as_json(NAMES)}
    )
    return DistillResult(trained, finished=True, comparison=comparison)


def _check_student(student: Config, teacher: RunDir, path: str | Path | None, *, mixes: bool) -> None:
    """Raise ConfigError if the teacher does not translate a direction of the student, or the stages allow no mixing."""
    if mixes and any(stage.weights for stage in student.training.stages):
        raise UsageError(
            "--mix-original adds corpora that the student's stages leave out",
            hint="omit it, or weights in training.stages",
        )
    languages = LanguagePair.of(teacher.essentials())
    for src, tgt in student.data.directions:
        try:
            languages.direction(tgt, src)
        except NmtError as error:
            raise ConfigError(
                f"the teacher {teacher.path}: {error.message}",
                path=path,
                hint="set data.src_lang and data.tgt_lang to languages of the teacher",
            ) from None


def _refuse_other_text(config: Config, run: Path) -> None:
    """Raise RunError if the student at `run`, if any, was started on other text than `config` names."""
    if not RunDir(run).config_file.is_file():
        return
    now, before = (
        [(Path(str(files.tgt)).parts[-2:], files.weight) for files in each.data.corpora("train")]
        for each in (config, RunDir(run).config())
    )
    if now != before:
        options = "--config, --beam, --n-best and --mix-original"
        raise RunError(
            "this student was started on other text",
            path=run,
            hint=f"repeat the teachers, {options}, or start over with --overwrite",
        )


def _student_config(teacher: RunDir, config: Config | str | Path | None, overrides: Sequence[str]) -> Config:
    """Return the configuration of the student, with the teacher's data if it names none; without one, a suggestion."""
    data = teacher.config().data
    if isinstance(config, Config):
        return with_values(config, "configuration of the student", overrides)
    if config is None:
        if not teacher.data.is_dir():
            raise RunError(
                "this model was imported or packed, so it has no training data",
                path=teacher.path,
                hint="give a configuration with a corpus: --config",
            )
        suggested = suggest_config(count_pairs(data)[0], data, student=True)
        return with_values(suggested, "configuration of the student", overrides)
    path = Path(config)
    try:
        given = read_tree(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, ValueError):
        given = None  # load_config reports the error
    section = (given.get("data") or {}) if isinstance(given, dict) else None
    if not isinstance(section, dict) or "train" in section:
        return load_config(path, overrides)
    values = data.model_dump(mode="json", exclude_defaults=True, exclude={*section, *_OF_STUDENT})
    filled = [f"data.{key}={json.dumps(value, ensure_ascii=False)}".replace("$", "$$") for key, value in values.items()]
    return load_config(path, [*filled, *overrides])


def _translate_all(
    teachers: list[RunDir],
    text: DataConfig,
    options: SearchOptions,
    device: DeviceName,
    precision: PrecisionName,
) -> None:
    missing = [files for files in text.corpora("train") if not translations_of(files).exists()]
    if not missing:
        return
    num_pairs = sum(map(num_sources, missing))
    folder = translations_of(missing[0]).parent
    log.info("translating %s training sources (beam %d) into %s", f"{num_pairs:,}", options.beam_size, folder)
    with Translator.load(teachers, device=device, precision=precision, scores=False) as translator:
        settings = {**options.model_dump(), "precision": translator.precision}
        for files in missing:
            tag = f"{files.tag} " if files.tag and translator.tokenizers.know([files.tag]) else ""
            direction = text.direction_of(files)
            request = Request(options, to=direction.tgt, from_=direction.src)
            translate = partial(translator.translate_blocks, request=request)
            lines = (tag + line for line in read_lines(Path(str(files.src))))
            render = partial(_as_lines, options.num_hypotheses)
            with PartialFile(translations_of(files), settings, options.num_hypotheses, resume=True) as output:
                translate_into(output, translate, lines, render, str(files.src), num_sources(files))


def _as_lines(num_lines: int, best: Translation) -> str:
    """Return `num_lines` lines: the translations of a source, best first, and empty lines.

    The student never sees what repeats itself, and no other translation that is a duplicate or loses a protected span.
    """
    found = [best, *(each for each in best.alternatives if not each.protected_lost)]
    texts = [each.text.replace("\n", " ") for each in found if not each.loop_unresolved]
    distinct = list(dict.fromkeys(texts))
    return "".join(line + "\n" for line in distinct + [""] * (num_lines - len(distinct)))
