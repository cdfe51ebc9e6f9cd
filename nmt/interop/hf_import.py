"""A Hugging Face folder with a Marian model (OPUS-MT) becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from nmt import __version__
from nmt.checkpoint import save_weights
from nmt.config import Config
from nmt.errors import RunError
from nmt.files import write_text
from nmt.interop.hf_folder import GenerationConfig, HfFolder, MarianConfig
from nmt.interop.hf_model import model_values
from nmt.interop.hf_vocabulary import HfVocabularies, read_vocabularies
from nmt.interop.hf_weights import from_hf
from nmt.interop.license import front_matter, license_of
from nmt.rundir import CheckpointIndex, RunDir, new_run

CHECKPOINT = "imported"
NO_CORPUS = "not-in-this-run"
"""The file name that stands for the training corpus, which nmt does not know."""


class Languages(NamedTuple):
    """The languages that the user names; None: as tokenizer_config.json has it."""

    src: str | None = None
    tgt: str | None = None


AS_IN_THE_FOLDER = Languages()


def import_hf(path: Path, out: Path, languages: Languages = AS_IN_THE_FOLDER, *, overwrite: bool = False) -> RunDir:
    """Make a run at `out` of the Marian model in the folder `path`; it appears whole.

    RunError or DataError if the folder is damaged, or holds a model that nmt does not compute, or if `out` exists and
    may not be replaced.
    """
    folder = HfFolder(path)
    folder.check()
    marian = folder.config()
    vocabularies = read_vocabularies(folder, marian)
    config = _run_config(folder, marian, vocabularies, languages)
    with new_run(out, overwrite=overwrite) as run:
        weights = from_hf(folder, marian, config.model, vocabularies.src, vocabularies.tgt)
        vocabularies.tokenizers.save(run.tokenizer)
        run.checkpoints.mkdir()
        save_weights(run.checkpoint(CHECKPOINT), weights)
        run.write_index(CheckpointIndex(last=CHECKPOINT, best=CHECKPOINT, checkpoints={CHECKPOINT: {}}))
        run.write_config(config)
        size = sum(tensor.numel() for tensor in weights.values())
        write_text(run.card, _card(out.name, folder, config, size))
    return RunDir(out)


def _run_config(folder: HfFolder, marian: MarianConfig, vocabularies: HfVocabularies, languages: Languages) -> Config:
    """Return the configuration of the run. RunError if the languages are not known, or the model is too large."""
    try:
        return Config.model_validate(
            {
                "data": _data(folder, vocabularies.languages, languages),
                "tokenizer": {
                    "type": vocabularies.tokenizers.src.type,
                    "vocab_size": max(8, vocabularies.tokenizers.tgt.vocab_size),
                    "joint": vocabularies.tokenizers.joint,
                },
                "model": model_values(marian),
                "decoding": _decoding(folder.generation()),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        codes = "languages are codes such as en, deu or pt_BR; name them with --src-lang and --tgt-lang"
        hint = codes if name.startswith("data") else ""
        raise RunError(
            f"{name}: {first['msg']}", path=folder.path, hint=hint if name.startswith("data") else ""
        ) from None


def _data(folder: HfFolder, targets: list[str], languages: Languages) -> dict[str, Any]:
    """Return the section `data`: the languages, and corpora that stand for those that the model was trained on."""
    settings = folder.tokenizer_settings()
    src, tgt = languages.src or settings.source_lang, languages.tgt or settings.target_lang
    if targets and languages.tgt is None:
        tgt = targets[0]
    elif targets and tgt not in targets:
        raise RunError(f"this model translates into {', '.join(targets)}, not into {tgt}", path=folder.path)
    if not src or not tgt:
        hint = "name them with --src-lang and --tgt-lang"
        raise RunError("tokenizer_config.json does not name the languages", path=folder.path, hint=hint)
    corpus = {"src": NO_CORPUS, "tgt": NO_CORPUS}
    several = [{**corpus, "tgt_lang": target} for target in dict.fromkeys([tgt, *targets])]
    return {"src_lang": src, "tgt_lang": tgt, "train": several if targets else corpus}


def _decoding(generation: GenerationConfig) -> dict[str, Any]:
    return {
        "beam_size": generation.num_beams,
        "length_penalty": generation.length_penalty,
        "exact": generation.num_beams > 1 and generation.early_stopping == "never",
    }


def _card(name: str, folder: HfFolder, config: Config, size: int) -> str:
    """Return the model card of the run, with the license that the card of the folder names."""
    model = config.model
    directions = ", ".join(f"{direction.src} to {direction.tgt}" for direction in config.data.directions)
    name_of_license = license_of(folder.card)
    facts = {
        "languages": directions,
        "size": f"{size / 1e6:.1f}M parameters: {model.encoder_layers}+{model.decoder_layers} layers, "
        f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads",
        "from": f"the Hugging Face folder `{folder.path.resolve().name}`, imported with nmt {__version__}",
        "license": name_of_license or "not named there: look it up before you share this folder",
    }
    table = "\n".join(["| | |", "|---|---|", *(f"| {key} | {fact} |" for key, fact in facts.items())])
    to = f" --to {config.data.directions[0].tgt}" if len(config.data.directions) > 1 else ""
    use = f'    nmt translate --model {name}{to} "text"'
    return front_matter(name_of_license) + "\n\n".join([f"# {name}: {directions}", table, "## Use", use]) + "\n"
