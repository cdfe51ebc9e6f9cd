"""Model cards (Mitchell et al. 2019): that of a run, its test scores and license, and that of a shared model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nmt.artifacts.run_records import SavedEvaluation
from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import count_parameters
from nmt.base.errors import counted
from nmt.base.files import read_at_most, write_text
from nmt.config import Config
from nmt.config.model import ModelConfig
from nmt.data.read.pairs import paths_of
from nmt.data.text.tags import language_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.scorings import num_scorings

_HEADING = "## Test scores"
VERDICT_TITLE = (
    "On the validation set, with 95% intervals, and as a control chrF with the references of other sentences"
)
_OLD_SCORES = re.compile(rf"\n{_HEADING}\n.*?(?=\n## |\Z)", re.DOTALL)
_MAX_CARD_BYTES = 1_000_000
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
_ABSOLUTE = re.compile(r"(?<![\w:/.\\~])(?:~?/|[A-Za-z]:[/\\])(?:[^\s/\\`'\"<>|()]+[/\\])+([^\s/\\`'\"<>|()]+)")
_MODEL_OPTION = re.compile(r"""(nmt [a-z]+ --model) (?:'[^'\n]*'|"[^"\n]*"|[^\s`'"])+""")


def write_card(
    run: RunDir, config: Config, tokenizers: TokenizerPair, *, num_updates: int, minutes: float, cpu_precision: str
) -> None:
    """Write `README.md` into a finished run: the model, its training data, its scores, and how to use it.

    `minutes` are those of the training; `cpu_precision` is the precision in which nmt translates on a CPU.
    """
    languages = direction_names(config)
    to = f" --to {config.data.directions[0].tgt}" if language_tags(config) else ""
    facts = {"languages": languages, **_facts(run, config, tokenizers, num_updates, minutes)}
    paragraphs = (
        f"# {run.path.name}: {languages}",
        f"A Transformer encoder-decoder, trained with nmt {run.info().nmt}.",
        facts_table(facts),
        *_valid_scores(run, cpu_precision),
        f"`nmt eval --model {shlex.quote(str(run.path))}` scores the test set and saves the result under `eval/`.",
        *filter(None, [_scores_section(run)]),
        "## Use",
        f'    nmt translate --model {shlex.quote(str(run.path))}{to} "text"',
        f"The model reads up to {config.model.max_src_len} tokens at a time; nmt splits longer texts.\n"
        "Expect poor translations of text that is unlike the training corpus.",
        "The license of the training corpus determines the license of the model. Add it here before you share this "
        "folder.",
    )
    write_text(run.card, "\n\n".join(paragraphs) + "\n")


def _facts(run: RunDir, config: Config, tokenizers: TokenizerPair, num_updates: int, minutes: float) -> dict[str, str]:
    info = run.info()
    vocabularies = tokenizers.vocabularies()
    files = ", ".join(map(str, paths_of(config.data.corpora("train"))))
    base = f"; continued from {config.training.init_from}" if config.training.init_from else ""
    machine = f"{info.device} ({info.precision}, threads: {info.threads})"
    return {
        "size": size_of(count_parameters(run.best_checkpoint()), config.model),
        "vocabulary": ", ".join(f"{t.vocab_size:,} {t.type} tokens ({side})" for side, t in vocabularies.items()),
        "trained on": f"{run.read_json(run.report_file)['pairs']:,} sentence pairs of {files}",
        "training": f"{num_updates:,} updates in {minutes:.1f} minutes on {machine}, seed {config.training.seed}{base}",
        "weights": f"checkpoint {run.index().best}",
    }


def direction_names(config: Config) -> str:
    """Return the directions of a model in words, such as `en to de, en to fr`."""
    return ", ".join(f"{direction.src} to {direction.tgt}" for direction in config.data.directions)


def facts_table(facts: Mapping[str, str]) -> str:
    """Return a table of facts by their names."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {fact} |" for name, fact in facts.items())])


def size_of(num_parameters: int, model: ModelConfig) -> str:
    """Return the size of a model in words."""
    return f"{num_parameters / 1e6:.1f}M parameters: {layers_of(model)}"


def layers_of(model: ModelConfig) -> str:
    """Return the number and the sizes of the layers in words."""
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    return f"{layers}, d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads"


def _valid_scores(run: RunDir, cpu_precision: str) -> list[str]:
    index = run.index()
    num_pairs = len(run.read_pairs("valid")[0])
    assert index.best is not None
    best = index.checkpoints[index.best]
    paragraphs = [
        "## Scores",
        f"The network, by greedy search on the validation set ({num_pairs:,} pairs, `data/valid.src` and\n"
        "`data/valid.tgt`), which also selected the checkpoint:",
        # A list, because the signatures contain the separator of table cells.
        f"- BLEU {best['bleu']:.2f} (`{index.signatures['bleu']}`)\n"
        f"- chrF {best['chrf']:.2f} (`{index.signatures['chrf']}`)\n"
        f"- perplexity {best['perplexity']:.2f} per token",
    ]
    directions = [name.removeprefix("bleu.") for name in best if name.startswith("bleu.")]
    if directions:
        of_each = (f"- {name}: BLEU {best[f'bleu.{name}']:.2f}, chrF {best[f'chrf.{name}']:.2f}" for name in directions)
        paragraphs += ["BLEU and chrF are means over the directions:", "\n".join(of_each)]
    if index.verdict is not None:
        lines = "\n".join(f"- {line}" for line in index.verdict.describe())
        paragraphs.append(f"{VERDICT_TITLE}:\n\n{lines}")
    if index.int8 is not None:
        chosen = f"uses {cpu_precision} there unless you set `--precision`"
        if index.int8.differs:
            chosen = "uses PyTorch there: the native engine has other formulas than this model was trained with"
        paragraphs.append(
            f"On a CPU, the native engine reaches BLEU {index.int8.int8_bleu:.2f} in int8 and "
            f"{index.int8.fp32_bleu:.2f} in fp32.\n"
            f"`nmt translate` {chosen}."
        )
    return paragraphs


def _scores_section(run: RunDir) -> str:
    """Return the section with the test scores of the best checkpoint; empty if there are none."""
    evaluation = run.evaluation(run.index().best)
    if evaluation is None:
        return ""
    lines = []
    for name, score in evaluation.scores.items():
        interval = f" ± {score.interval.half_width:.2f}" if score.interval is not None else ""
        lines.append(f"- {name} {score.value:.2f}{interval} (`{score.signature}`)")
    if (twins := evaluation.near_twins) is not None:
        lines += ["", twins_line(twins.sentences, evaluation.sentences or 0, twins.scores_without) + "."]
    times = num_scorings(run.evaluations, "test")
    scored = f" {counted(times, 'time')}" if times else ""
    paragraphs = (
        _HEADING,
        f"On {evaluation.sentences or '?'} sentences, with 95% confidence intervals:",
        "\n".join(lines),
        f"The test set was scored{scored}. The more often settings are chosen by its scores, the less these say about "
        "other\ntext.",
    )
    return "\n\n".join(paragraphs)


def twins_line(num_twins: int, num_sentences: int, others: Mapping[str, float]) -> str:
    """Return how many test sentences have a near-twin in the training data, and the scores of the others, in words."""
    scores = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    without = f"; without them: {scores}" if scores else ""
    return f"{num_twins:,} of {num_sentences:,} test sentences have a near-twin in the training data{without}"


def update_card(run: RunDir) -> None:
    """Put the test scores into the run's card, if it has one: before the section on use, or at its end.

    They replace older ones; the rest of its text stays.
    """
    section = _scores_section(run)
    if not section or not run.card.is_file():
        return
    with suppress(OSError, UnicodeDecodeError):  # of a card that the user has replaced
        old = _OLD_SCORES.sub("", run.card.read_text(encoding="utf-8"))
        before, mark, after = old.partition("\n## Use\n")
        write_text(run.card, f"{before.rstrip()}\n\n{section}\n{mark}{after}")


def license_of(card: Path) -> str | None:
    """Return the license in the README.md at `card`, such as apache-2.0; None if there is none."""
    named = _split(_read(card))[0].get("license")
    return named if isinstance(named, str) and _LICENSE.fullmatch(named) else None


def front_matter(name: str | None) -> str:
    """Return the front matter of a model card with its license `name`; empty if there is none."""
    return f"---\nlicense: {name}\n---\n\n" if name else ""


def share_card(run: RunDir, config: Config, name: str, model: str) -> str:
    """Return README.md for the model `name` shared from `run`; `model` is the value that users pass to --model.

    Languages and scores are added to the front matter of the run's card, as Hugging Face reads them. Its text stays,
    with the names of files alone: their folders tell about the machine and its owner.
    """
    own, text = _split(_read(run.card) or f"# {name}\n")
    evaluation = run.evaluation(run.usable_checkpoint().stem)
    front = {**_metadata(config, name, evaluation), **own}
    corpora = (config.data.corpora(split) for split in ("train", "valid", "test"))
    paths = [*(str(path) for corpus in corpora for path in paths_of(corpus)), config.training.init_from or ""]
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, re.split(r"[/\\]", path.rstrip("/\\"))[-1]) if path else text
    text = _ABSOLUTE.sub(lambda path: path[1], text)  # those of an adaptation, or that a user has written
    text = text.replace(", `data/valid.src` and `data/valid.tgt`", "")
    text = _MODEL_OPTION.sub(lambda found: f"{found[1]} {shlex.quote(model)}", text)
    if evaluation is not None and _HEADING not in text:
        text = f"{text.rstrip()}\n\n{_scores_section(run)}\n"
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


def _metadata(config: Config, name: str, evaluation: SavedEvaluation | None) -> dict[str, Any]:
    """Return the metadata of a model card as defined by Hugging Face ("Model Cards", section `model-index`)."""
    directions = config.data.directions
    codes = dict.fromkeys(code for direction in directions for code in (direction.src, direction.tgt))
    metadata: dict[str, Any] = {
        "language": list(codes),
        "library_name": "nmt",
        "pipeline_tag": "translation",
        "tags": ["translation", "nmt"],
    }
    if evaluation is not None:
        result = {
            "task": {"type": "translation", "name": f"Translation {', '.join(map(str, directions))}"},
            "dataset": {"type": "held-out", "name": f"test set ({evaluation.sentences or '?'} sentences)"},
            "metrics": [
                {
                    "type": metric.lower().rstrip("+0123456789"),  # chrF2 has the type chrf
                    "value": score.value,
                    "name": f"{metric} ({score.signature})",
                }
                for metric, score in evaluation.scores.items()
            ],
        }
        metadata["model-index"] = [{"name": name, "results": [result]}]
    return metadata
