"""The model card of a shared model: the run's card, with the metadata that Hugging Face reads."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from nmt.artifacts.rundir import RunDir
from nmt.base.files import read_at_most
from nmt.config import Config
from nmt.data.read.corpus import paths_of

_MAX_CARD_BYTES = 1_000_000
_MODEL_OPTION = re.compile(r"(nmt [a-z]+ --model) [^\s`]+")
_SHARED_KEYS = ("set", "sentences", "beam_size", "length_penalty", "precision", "checkpoints")


def test_record(run: RunDir, checkpoint: str) -> dict[str, Any]:
    """Return the test-set scores of `checkpoint` saved by `nmt eval`, without paths; empty if there are none.

    RunError if the record is damaged.
    """
    path = run.evaluations / "test.json"
    record = run.read_json(path) if path.is_file() else {}
    scores = record.get("scores")
    if record.get("checkpoints") != [checkpoint] or not isinstance(scores, dict):
        return {}
    kept = {
        name: {"value": score["value"], "signature": str(score.get("signature", ""))}
        for name, score in scores.items()
        if isinstance(score, dict) and isinstance(score.get("value"), int | float) and math.isfinite(score["value"])
    }
    return {**{key: record[key] for key in _SHARED_KEYS if key in record}, "scores": kept} if kept else {}


def share_card(run: RunDir, config: Config, name: str, model: str) -> str:
    """Return README.md for the model `name` shared from `run`; `model` is the value that users pass to --model.

    Languages and scores are added to the front matter of the run's card. Its text stays, without the folders of the
    corpus.
    """
    own, text = _split(_read(run) or f"# {name}\n")
    record = test_record(run, run.usable_checkpoint().stem)
    front = {**_metadata(config, name, record), **own}
    for path in sorted(map(str, paths_of_all(config)), key=len, reverse=True):
        text = text.replace(path, path.replace("\\", "/").rpartition("/")[2])
    text = text.replace(", `data/valid.src` and `data/valid.tgt`", "")
    text = _MODEL_OPTION.sub(lambda found: f"{found[1]} {model}", text)
    if record and "## Test scores" not in text:
        lines = (
            f"- {metric} {score['value']:.2f} (`{score['signature']}`)" for metric, score in record["scores"].items()
        )
        text = f"{text.rstrip()}\n\n## Test scores\n\n" + "\n".join(lines) + "\n"
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n{text.lstrip()}"


def paths_of_all(config: Config) -> list[Any]:
    """Return the paths of all corpora of a configuration."""
    return [path for split in ("train", "valid", "test") for path in paths_of(config.data.corpora(split))]


def _read(run: RunDir) -> str:
    try:
        return read_at_most(run.card, _MAX_CARD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
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
        metrics = [_metric(name, score) for name, score in record["scores"].items()]
        result = {
            "task": {"type": "translation", "name": f"Translation {', '.join(map(str, directions))}"},
            "dataset": {"type": "held-out", "name": f"test set ({record.get('sentences', '?')} sentences)"},
            "metrics": metrics,
        }
        metadata["model-index"] = [{"name": name, "results": [result]}]
    return metadata


def _metric(name: str, score: dict[str, Any]) -> dict[str, Any]:
    """Return a score in the form of `model-index`, where chrF2 has the type chrf."""
    kind = name.lower().rstrip("+0123456789")
    return {"type": kind, "value": score["value"], "name": f"{name} ({score['signature']})"}
