"""The model card (Mitchell et al. 2019) of a finished run."""

from __future__ import annotations

import shlex

from nmt.base.files import write_text
from nmt.data.read.corpus import paths_of
from nmt.data.text.tags import language_tags
from nmt.decoding.engines.selection import prefers_fp32
from nmt.evaluation.card import scores_section
from nmt.training.parts import Training


def write_card(training: Training) -> None:
    """Write `README.md` into the run: the model, its training data, its scores, and how to use it."""
    run, data = training.run, training.config.data
    languages = ", ".join(f"{direction.src} to {direction.tgt}" for direction in data.directions)
    to = f" --to {data.directions[0].tgt}" if language_tags(training.config) else ""
    facts = {"languages": languages, **_facts(training)}
    paragraphs = (
        f"# {run.path.name}: {languages}",
        f"A Transformer encoder-decoder, trained with nmt {run.info().nmt}.",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {fact} |" for name, fact in facts.items())]),
        *_scores(training),
        f"`nmt eval --model {shlex.quote(str(run.path))}` scores the test set and saves the result under `eval/`.",
        *filter(None, [scores_section(run)]),
        "## Use",
        f'    nmt translate --model {shlex.quote(str(run.path))}{to} "text"',
        f"The model reads up to {training.config.model.max_src_len} tokens at a time; nmt splits longer texts.\n"
        "Expect poor translations of text that is unlike the training corpus.",
        "The license of the training corpus determines the license of the model. Add it here before you share this "
        "folder.",
    )
    write_text(run.card, "\n\n".join(paragraphs) + "\n")


def _facts(training: Training) -> dict[str, str]:
    run, config, model, tokenizers = training.run, training.config, training.config.model, training.tokenizers
    info = run.info()
    sides = {"joint": tokenizers.src} if tokenizers.joint else {"source": tokenizers.src, "target": tokenizers.tgt}
    files = ", ".join(map(str, paths_of(config.data.corpora("train"))))
    size = f"{training.model.num_parameters() / 1e6:.1f}M parameters"
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    base = f"; continued from {config.training.init_from}" if config.training.init_from else ""
    minutes = training.monitor.train_seconds / 60
    machine = f"{info.device} ({info.precision}, threads: {info.threads})"
    return {
        "size": f"{size}: {layers}, d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads",
        "vocabulary": ", ".join(f"{t.vocab_size:,} {t.type} tokens ({side})" for side, t in sides.items()),
        "trained on": f"{run.read_json(run.report_file)['pairs']:,} sentence pairs of {files}",
        "training": f"{training.update:,} updates in {minutes:.1f} minutes on {machine}, seed "
        f"{config.training.seed}{base}",
        "weights": f"checkpoint {run.index().best}",
    }


def _scores(training: Training) -> list[str]:
    run, index = training.run, training.run.index()
    assert index.best is not None
    best, num_pairs = index.checkpoints[index.best], len(run.read_pairs("valid")[0])
    paragraphs = [
        "## Scores",
        f"Greedy search on the validation set ({num_pairs:,} pairs, `data/valid.src` and `data/valid.tgt`),\n"
        "which also selected the checkpoint:",
        # A list, because the signatures contain the separator of table cells.
        f"- BLEU {best['bleu']:.2f} (`{index.signatures['bleu']}`)\n"
        f"- chrF {best['chrf']:.2f} (`{index.signatures['chrf']}`)\n"
        f"- perplexity {best['perplexity']:.2f} per token",
    ]
    directions = [
        f"- {direction}: BLEU {best[f'bleu.{direction}']:.2f}, chrF {best[f'chrf.{direction}']:.2f}"
        for direction in (str(pairs.direction) for pairs in training.validator.sets)
        if f"bleu.{direction}" in best
    ]
    if directions:
        paragraphs += ["BLEU and chrF are means over the directions:", "\n".join(directions)]
    if index.int8 is not None:
        paragraphs.append(
            f"On a CPU, the native engine reaches BLEU {index.int8.int8_bleu:.2f} in int8 and "
            f"{index.int8.fp32_bleu:.2f} in fp32.\n"
            f"`nmt translate` uses {'fp32' if prefers_fp32(run) else 'int8'} there unless you set `--precision`."
        )
    return paragraphs
