"""Export a run as a package for Argos Translate (`.argosmodel`), which LibreTranslate can also use.

The layout is that of argostranslate.package 1.11: a zip file with one folder that contains metadata.json, README.md, a
CTranslate2 model in `model/`, and `sentencepiece.model` for both sides.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from nmt.apps.interop.export import export_ctranslate2
from nmt.apps.interop.export_folder import Quantization
from nmt.artifacts.packed import zip_folder
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.base.files import to_json, write_text
from nmt.config import Config
from nmt.data.text.tags import language_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.model_card import share_card

ARGOS_VERSION = "1.9.0"  # the version of Argos Translate declared in the package: the first one with this layout

MAX_TOKENS = 1024
"""Argos Translate passes sources of up to this many tokens to CTranslate2, whatever the model's limit is."""

_PACKAGE_VERSION = "1.0"


def export_argos(run: RunDir, out: Path, quantization: Quantization = "int8") -> None:
    """Write the best model of `run` as the package `out`, after checking that its CTranslate2 form agrees with the run.

    RunError as in `export_ctranslate2`, or if Argos Translate cannot use such a model.
    """
    config = run.config()
    tokenizers = TokenizerPair.load(run.tokenizer)
    _refuse_unsupported(run, config, tokenizers)
    with tempfile.TemporaryDirectory(prefix="nmt-") as name:
        direction = config.data.directions[0]
        folder = Path(name, "zip", f"translate-{direction.src}_{direction.tgt}-{_PACKAGE_VERSION.replace('.', '_')}")
        folder.mkdir(parents=True)
        model = folder / "model"
        export_ctranslate2(run, model, quantization=quantization, num_positions=MAX_TOKENS + 1)
        shutil.rmtree(model / "tokenizer")
        for other in ("README.md", "export.json"):
            (model / other).unlink(missing_ok=True)
        (folder / "sentencepiece.model").write_bytes(tokenizers.src.model_bytes)
        metadata = {
            "type": "translate",
            "package_version": _PACKAGE_VERSION,
            "argos_version": ARGOS_VERSION,
            "from_code": direction.src,
            "from_name": direction.src,
            "to_code": direction.tgt,
            "to_name": direction.tgt,
            "links": [],
        }
        write_text(folder / "metadata.json", to_json(metadata, indent=2))
        write_text(folder / "README.md", share_card(run, config, out.stem, out.name))
        zip_folder(folder.parent, out)


def _refuse_unsupported(run: RunDir, config: Config, tokenizers: TokenizerPair) -> None:
    """Raise RunError with the reason if Argos Translate cannot translate with such a run."""
    if len(config.data.directions) > 1 or language_tags(config):
        directions = ", ".join(map(str, config.data.directions))
        raise RunError(
            f"a package of Argos Translate has one direction, not {directions}",
            path=run.path,
            hint="export it with `nmt export ctranslate2`, or train a model for one direction",
        )
    if tokenizers.tgt.byte_tokens and not tokenizers.src.byte_tokens:
        raise RunError(
            "Argos Translate decodes with the source tokenizer, which lacks the byte tokens of the target's",
            path=run.tokenizer,
            hint="train it with tokenizer.joint, or with bytes on both sides",
        )
