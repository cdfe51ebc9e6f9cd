"""Model cards: the license in one, and the card of a shared model, with the metadata that Hugging Face reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from nmt.artifacts.rundir import RunDir
from nmt.base.files import read_at_most
from nmt.config import Config
from nmt.data.read.corpus import paths_of
from nmt.evaluation.card import HEADING, scores_section, test_record

_MAX_CARD_BYTES = 1_000_000
_LICENSE = re.compile(r"^license:[ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9._-]{0,60})[\"']?[ \t]*$", re.MULTILINE)
_MODEL_OPTION = re.compile(r"(nmt [a-z]+ --model) [^\s`]+")


def license_of(card: Path) -> str | None:
    """Return the license in the README.md at `card`, such as apache-2.0; None if there is none."""
    text = _read(card)
    found = _LICENSE.search(text[4:].partition("\n---")[0]) if text.startswith("---\n") else None
    return found[1] if found else None


def front_matter(name: str | None) -> str:
    """Return the front matter of a model card with its license `name`; empty if there is none."""
    return f"---\nlicense: {name}\n---\n\n" if name else ""


def share_card(run: RunDir, config: Config, name: str, model: str) -> str:
    """Return README.md for the model `name` shared from `run`; `model` is the value that users pass to --model.

    Languages and scores are added to the front matter of the run's card. Its text stays, without the folders of the
    corpus.
    """
    own, text = _split(_read(run.card) or f"# {name}\n")
    record = test_record(run, run.usable_checkpoint().stem)
    front = {**_metadata(config, name, record), **own}
    corpora = (config.data.corpora(split) for split in ("train", "valid", "test"))
    for path in sorted((str(path) for corpus in corpora for path in paths_of(corpus)), key=len, reverse=True):
        text = text.replace(path, path.replace("\\", "/").rpartition("/")[2])
    text = text.replace(", `data/valid.src` and `data/valid.tgt`", "")
    text = _MODEL_OPTION.sub(lambda found: f"{found[1]} {model}", text)
    if record and HEADING not in text:
        text = f"{text.rstrip()}\n\n{scores_section(run)}\n"
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n{text.lstrip()}"


def _read(card: Path) -> str:
    try:
        return read_at_most(card, _MAX_CARD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""


def _split(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a card, and the rest. Front matter that is not a YAML mapping is left out."""
    if not text.startswith("---\n"):
        return {}, text
    front, _, rest = text[4:].partition("\n---")
    try:
        values = yaml.safe_load(front)
    except (yaml.YAMLError, RecursionError, ValueError):
        values = None
    return (values if isinstance(values, dict) else {}), rest.partition("\n")[2]


def _metadata(config: Config, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a model card as defined by Hugging Face ("Model Cards", section `model-index`)."""
    directions = config.data.directions
    codes = dict.fromkeys(code for direction in directions for code in (direction.src, direction.tgt))
    metadata: dict[str, Any] = {
        "language": list(codes),
        "library_name": "nmt",
        "pipeline_tag": "translation",
        "tags": ["translation", "nmt"],
    }
    if record:
        result = {
            "task": {"type": "translation", "name": f"Translation {', '.join(map(str, directions))}"},
            "dataset": {"type": "held-out", "name": f"test set ({record.get('sentences', '?')} sentences)"},
            "metrics": [
                {
                    "type": metric.lower().rstrip("+0123456789"),  # chrF2 has the type chrf
                    "value": score["value"],
                    "name": f"{metric} ({score['signature']})",
                }
                for metric, score in record["scores"].items()
            ],
        }
        metadata["model-index"] = [{"name": name, "results": [result]}]
    return metadata
