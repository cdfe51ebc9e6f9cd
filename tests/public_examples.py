"""Programs as users write them: `make check` runs mypy over them, strictly and without plugins."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import nmt
from nmt.model import ModelConfig, Transformer

log = logging.getLogger(__name__)


def translate_a_file(path: Path) -> list[str]:
    options = nmt.SearchOptions(beam_size=5, num_hypotheses=2)
    with nmt.Translator.load("runs/digits", engine="native", precision="int8") as translator:
        found = translator.translate(path.read_text(encoding="utf-8").splitlines(), options)
        changed = translator.translate(["7319"], {"beam_size": 3}, glossary={"Katze": "feline"})
        scored = translator.score(["7319"], ["9137"])
    return [translation.text for translation in [*found, *changed]] + [str(scored[0].score)]


def scores_of_a_run() -> dict[str, float]:
    try:
        evaluation = nmt.evaluate(nmt.RunDir("runs/digits"), metrics="chrf", beam_size=5)
    except (nmt.ConfigError, nmt.DataError, nmt.RunError) as error:
        log.error("%s %s %s %s", error.message, error.path, error.line, error.hint)
        return {}
    return {score.name: score.value for score in evaluation.scores}


def a_model_of_its_own() -> Transformer:
    return Transformer(ModelConfig(d_model=64, num_heads=4, encoder_layers=1, decoder_layers=1), 100, 100)


def sentences_until(translator: nmt.Translator, text: str, deadline: float) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for translation in translator.stream(text, {"beam_size": 2}, glossary={"Katze": "feline"}):
        found.append(translation.as_json())
        if time.monotonic() > deadline:
            break
    return found


def train_and_stop() -> nmt.TrainResult:
    def stop_at_40(record: nmt.TrainRecord | nmt.ValidRecord) -> bool:
        log.info("%d %s", record.update, record.loss)
        return isinstance(record, nmt.ValidRecord) and record.bleu > 40

    return nmt.train("my.yaml", "runs/my", on_update=stop_at_40)


def train_and_watch() -> nmt.TrainResult:
    def show(record: nmt.TrainRecord | nmt.ValidRecord) -> None:
        if isinstance(record, nmt.ValidRecord):
            log.info("%d %s", record.update, record.bleu)

    config = nmt.load_config("my.yaml", ["training.lr=5e-4"])
    return nmt.train(config, "runs/my", on_update=show)


def one_text() -> str:
    return nmt.translate("7319", "runs/digits", beam_size=5).text
