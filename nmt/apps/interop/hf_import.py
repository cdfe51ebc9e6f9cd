"""Import a Hugging Face folder with a Marian (OPUS-MT), Pegasus or M2M-100 (NLLB) model as a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from nmt import __version__
from nmt.apps.interop.hf_folder import HfConfig, HfFolder, M2M100Config, model_values
from nmt.apps.interop.hf_vocabulary import HfVocabularies, read_vocabularies
from nmt.apps.interop.hf_weights import from_hf
from nmt.apps.interop.m2m100_vocabulary import read_m2m100_vocabularies
from nmt.artifacts.checkpoint import save_weights
from nmt.artifacts.run_records import CheckpointIndex
from nmt.artifacts.rundir import RunDir, new_run
from nmt.base.errors import RunError
from nmt.base.files import write_text
from nmt.config import Config
from nmt.config.base import first_fault
from nmt.evaluation.model_card import direction_names, facts_table, front_matter, license_of, size_of

CHECKPOINT = "imported"
NO_CORPUS = "not-in-this-run"  # the file name that stands for the unknown training corpus


class Languages(NamedTuple):
    """The languages given by the user; none: those in tokenizer_config.json. M2M-100 models allow several."""

    src: tuple[str, ...] = ()
    tgt: tuple[str, ...] = ()


AS_IN_THE_FOLDER = Languages()


def import_hf(path: Path, out: Path, languages: Languages = AS_IN_THE_FOLDER, *, overwrite: bool = False) -> RunDir:
    """Create a run at `out` from the model in the folder `path`, atomically.

    RunError or DataError if the folder is damaged, contains a model that nmt does not support, or if `out` exists and
    may not be replaced.
    """
    folder = HfFolder(path)
    hf = folder.check()
    if isinstance(hf, M2M100Config):
        vocabularies = read_m2m100_vocabularies(folder, hf)
        data = _m2m100_data(folder, vocabularies.languages, languages)
    else:
        vocabularies = read_vocabularies(folder, hf)
        data = _marian_data(folder, vocabularies.languages, languages)
    config = _run_config(folder, hf, vocabularies, data)
    with new_run(out, overwrite=overwrite) as run:
        weights = from_hf(folder, hf, config.model, vocabularies.src, vocabularies.tgt)
        vocabularies.tokenizers.save(run.tokenizer)
        run.checkpoints.mkdir()
        save_weights(run.checkpoint(CHECKPOINT), weights)
        run.write_json(run.index_file, CheckpointIndex(last=CHECKPOINT, best=CHECKPOINT, checkpoints={CHECKPOINT: {}}))
        run.write_config(config)
        size = sum(tensor.numel() for tensor in weights.values())
        write_text(run.card, _card(out.name, folder, config, size))
    return RunDir(out)


def _run_config(folder: HfFolder, hf: HfConfig, vocabularies: HfVocabularies, data: dict[str, Any]) -> Config:
    """Return the configuration of the run. RunError for invalid language codes, or if the model is too large."""
    generation = folder.generation()
    try:
        return Config.model_validate(
            {
                "data": {**data, "characters": "as_written"},
                "tokenizer": {
                    "type": vocabularies.tokenizers.src.type,
                    "vocab_size": max(8, vocabularies.tokenizers.tgt.vocab_size),
                    "joint": vocabularies.tokenizers.joint,
                },
                "model": model_values(hf),
                "decoding": {
                    "beam_size": generation.num_beams,
                    "length_penalty": generation.length_penalty,
                },
            }
        )
    except ValidationError as error:
        fault = first_fault(error)
        codes = "languages are codes such as en, deu or pt_BR; set them with --from and --to"
        raise RunError(fault, path=folder.path, hint=codes if fault.startswith("data") else "") from None


def _m2m100_data(folder: HfFolder, known: list[str], languages: Languages) -> dict[str, Any]:
    """Return the section `data` with all directions between the given languages."""
    hint = "choose them with --from and --to, each once or several times"
    if not languages.src or not languages.tgt:
        raise RunError(
            f"this model translates between {len(known)} languages; choose those for the run",
            path=folder.path,
            hint=f"{hint}; `nmt info` of this folder lists them",
        )
    for code in (*languages.src, *languages.tgt):
        if code not in known:
            near = [each for each in known if each[:2] == code[:2]]
            raise RunError(
                f"this model has no language {code}",
                path=folder.path,
                hint=f"did you mean {' or '.join(near)}?" if near else f"`nmt info` lists its {len(known)} languages",
            )
    pairs = list(dict.fromkeys((src, tgt) for src in languages.src for tgt in languages.tgt if src != tgt))
    if not pairs:
        raise RunError("the languages of both sides are the same", path=folder.path, hint=hint)
    return _data(pairs)


def _marian_data(folder: HfFolder, targets: list[str], languages: Languages) -> dict[str, Any]:
    """Return the section `data` with the languages of the model."""
    settings = folder.tokenizer_settings()
    if max(len(languages.src), len(languages.tgt)) > 1:
        raise RunError("a Marian model has one source language and, unless it has tags, one target", path=folder.path)
    src, tgt = (
        named[0] if named else default
        for named, default in zip(languages, (settings.source_lang, settings.target_lang), strict=True)
    )
    if targets and not languages.tgt:
        tgt = targets[0]
    elif targets and tgt not in targets:
        raise RunError(f"this model translates into {', '.join(targets)}, not into {tgt}", path=folder.path)
    if not src or not tgt:
        raise RunError(
            "tokenizer_config.json does not name the languages", path=folder.path, hint="set them with --from and --to"
        )
    return _data([(src, target) for target in dict.fromkeys([tgt, *targets])])


def _data(directions: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the section `data` with these directions, and placeholders for the corpora of the training."""
    corpora = [{"src": NO_CORPUS, "tgt": NO_CORPUS, "src_lang": src, "tgt_lang": tgt} for src, tgt in directions]
    src, tgt = directions[0]
    return {"src_lang": src, "tgt_lang": tgt, "train": corpora if len(corpora) > 1 else corpora[0]}


def direction_options(config: Config) -> str:
    """Return the options of `nmt translate` that are needed to select the first direction of a run."""
    sources, targets = (list(dict.fromkeys(codes)) for codes in zip(*config.data.directions, strict=True))
    from_ = f" --from {sources[0]}" if len(sources) > 1 and config.model.language_tags == "both" else ""
    return from_ + (f" --to {targets[0]}" if len(targets) > 1 else "")


def _card(name: str, folder: HfFolder, config: Config, size: int) -> str:
    """Return the model card of the run, with the license in the card of the folder."""
    directions = direction_names(config)
    name_of_license = license_of(folder.card)
    facts = {
        "languages": directions,
        "size": size_of(size, config.model),
        "from": f"the Hugging Face folder `{folder.path.resolve().name}`, imported with nmt {__version__}",
        "license": name_of_license or "unknown: look it up before you share this folder",
    }
    use = f'    nmt translate --model {shlex.quote(name)}{direction_options(config)} "text"'
    return (
        front_matter(name_of_license)
        + "\n\n".join([f"# {name}: {directions}", facts_table(facts), "## Use", use])
        + "\n"
    )
