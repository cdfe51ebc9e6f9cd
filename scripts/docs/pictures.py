"""Draw the images of the documentation into docs/images.

    python scripts/docs/pictures.py RUN

RUN is a run of configs/demo-en-zh.yaml. For a learning curve with more than two validations, train it with
`--set training.validate_every=100`. The code blocks of the tutorial train its reversal model here.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import torch
from drawings import draw_growth, draw_heads, draw_positions

from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.plots import draw_attention, draw_curves, read_metrics
from nmt.evaluation.plots.drawing import drawing, save_picture
from nmt.model import GaussianScore, attend
from nmt.model.positions import sinusoidal_positions
from nmt.model.recording import AttentionWeights, attention_weights
from nmt.model.transformer import Transformer

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SCALE = ROOT / "benchmarks" / "results" / "2026-11-25-scale.json"
CHAPTER = ROOT / "docs" / "tutorials" / "transformer"
SENTENCE = "I am from China"
LONGER_SENTENCE = "If it is cold tomorrow, my friend will read books at home."
MAX_OUTPUT = 20  # tokens


def main() -> None:
    """Draw every image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = RunDir(parser.parse_args().run)
    IMAGES.mkdir(exist_ok=True)
    draw_curves(read_metrics(run.metrics), IMAGES / "curves.svg")
    draw_positions(sinusoidal_positions(60, 32), IMAGES / "positions.svg")
    draw_kernel_regression(IMAGES / "kernel-regression.svg")
    draw_scale()
    draw_demo_heads(run)
    draw_reversal_heads()


def draw_scale() -> None:
    """Draw the measurements of benchmarks/scale.py."""
    measured = json.loads(SCALE.read_text(encoding="utf-8"))["rows"]
    names = {"check": "nmt data check", "store": "preparation", "translate": "nmt translate", "train": "one update"}
    rows = {
        name: [
            (row["size"], row.get("s_per_update", row["cpu_s"]), row["peak_mb"])
            for row in measured
            if row["work"] == work
        ]
        for work, name in names.items()
    }
    draw_growth(rows, IMAGES / "scale.svg")


def draw_demo_heads(run: RunDir) -> None:
    """Draw the attention of the demo model: one heat map of its last layer, and all heads of each kind."""
    tokenizers = TokenizerPair.load(run.tokenizer)
    model = load_model(run, tokenizers, torch.device("cpu"))
    weights, src_tokens, output_tokens = attention_to(LONGER_SENTENCE, model, tokenizers)
    mean = weights.cross[-1, 0].mean(0)  # [T, S]: the last layer, averaged over its heads
    draw_attention(mean.numpy(), src_tokens, output_tokens, IMAGES / "attention.svg")
    weights, src_tokens, output_tokens = attention_to(SENTENCE, model, tokenizers)
    input_tokens = ["<s>", *output_tokens[:-1]]
    draw_heads(weights.cross[:, 0], src_tokens, output_tokens, IMAGES / "heads-cross.svg")
    draw_heads(weights.encoder[:, 0], src_tokens, src_tokens, IMAGES / "heads-encoder.svg")
    draw_heads(weights.decoder[:, 0], input_tokens, input_tokens, IMAGES / "heads-decoder.svg")


def attention_to(
    text: str, model: Transformer, tokenizers: TokenizerPair
) -> tuple[AttentionWeights, list[str], list[str]]:
    """Return the weights of `model` while it translates `text`, the source tokens and the output tokens."""
    src = [*tokenizers.src.encode(text), EOS_ID]
    output = greedy(model, src)
    weights = attention_weights(model, torch.tensor([src]), torch.tensor([[BOS_ID, *output[:-1]]]))
    return weights, [*tokenizers.src.tokens(src[:-1]), "</s>"], [*tokenizers.tgt.tokens(output[:-1]), "</s>"]


def greedy(model: Transformer, src: list[int]) -> list[int]:
    """Return the greedy output of `src`, eos included, by the search that the tutorial writes."""
    output = [BOS_ID]
    with torch.inference_mode():
        while len(output) <= MAX_OUTPUT and output[-1] != EOS_ID:
            output.append(int(model(torch.tensor([src]), torch.tensor([output]))[0, -1].argmax()))
    return output[1:]


def draw_reversal_heads() -> None:
    """Train the tutorial's model as the page on training does, and draw its cross-attention."""
    session: dict[str, object] = {}
    page = (CHAPTER / "5-training.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL):
        exec(block, session)
    model = session["model"]
    assert isinstance(model, Transformer)
    src = [*(4 + digit for digit in (3, 1, 4, 1, 5)), EOS_ID]
    output = greedy(model, src)
    weights = attention_weights(model, torch.tensor([src]), torch.tensor([[BOS_ID, *output[:-1]]]))
    digits, reversed_digits = (
        [str(token - 4) if token > EOS_ID else "</s>" for token in side] for side in (src, output)
    )
    draw_heads(weights.cross[:, 0], digits, reversed_digits, IMAGES / "reversal-cross.svg")


def draw_kernel_regression(path: Path) -> None:
    """Draw the kernel regression of the tutorial's first page: predictions and weights for two widths."""
    from matplotlib.figure import Figure

    x = torch.linspace(0, 5, 40)[:, None]  # [S, 1]
    y = 2 * torch.sin(x) + x
    at = torch.linspace(0, 5, 100)[:, None]  # [Q, 1]
    with drawing(), torch.inference_mode():
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        prediction, *maps = figure.subplots(1, 3)
        prediction.plot(x[:, 0], y[:, 0], "o", markersize=3, color="0.6", label="values at the keys")
        for width, color, axes in zip((1.0, 4.0), ("#c8641e", "#1f4e79"), maps, strict=True):
            pooled, weights = attend(at, x, y, score=GaussianScore(initial_width=width))
            prediction.plot(at[:, 0], pooled[:, 0], color=color, label=f"prediction, w = {width:g}")
            axes.imshow(weights, cmap="Blues", aspect="auto", origin="lower", extent=(0, 5, 0, 5))
            axes.set(title=f"weights, w = {width:g}", xlabel="key", ylabel="query")
        prediction.set(title="kernel regression", xlabel="x")
        prediction.legend(frameon=False, fontsize=8)
        prediction.spines[["top", "right"]].set_visible(False)
        save_picture(figure, path)


if __name__ == "__main__":
    main()
