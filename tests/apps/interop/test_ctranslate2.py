"""Every model option that CTranslate2 serves gives the same translations and scores there; the others are refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from nmt.apps.interop.agreement import compare
from nmt.apps.interop.ctranslate2 import write_ctranslate2
from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.apps.interop.supported import IN_CTRANSLATE2, IN_MARIAN, refuse_unsupported
from nmt.base.errors import RunError
from nmt.config.model import ModelConfig
from nmt.config.search import SearchOptions
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.model.transformer import Transformer
from tests.quick import quick_and_slow

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")

BASE = {
    "d_model": 30,
    "num_heads": 3,
    "d_ff": 44,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "max_src_len": 19,
    "max_tgt_len": 23,
}
OPTIONS = [
    {},
    {"positions": "learned"},
    {"positions": "rotary"},
    {"norm_position": "post"},
    {"norm": "rms"},
    {"norm": "rms", "norm_position": "post"},
    {"activation": "gelu"},
    {"activation": "silu"},
    {"activation": "swiglu"},
    {"tied_embeddings": "none"},
    {"tied_embeddings": "target"},
    {"output_bias": True},
    {"num_heads": 1},
    {"d_model": 21, "d_ff": 37, "positions": "learned"},  # an odd head size
    {"encoder_layers": 1, "decoder_layers": 1},
    {"max_src_len": 29, "max_tgt_len": 11},
    {"positions": "rotary", "norm": "rms", "activation": "swiglu", "tied_embeddings": "target"},
    {"qk_norm": "self"},
    {"qk_norm": "self", "positions": "rotary", "norm": "rms"},
]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
    texts = [" ".join(random.Random(i).choices(words, k=6)) for i in range(60)]
    return train_tokenizers(TokenizerConfig(type="bpe", vocab_size=320), lambda: iter(texts), lambda: iter(texts))


@pytest.fixture(scope="module")
def separate() -> TokenizerPair:
    config = TokenizerConfig(type="char", vocab_size=290, joint=False)
    return train_tokenizers(config, lambda: iter(["abc abd"]), lambda: iter(["xyz xuv w"]))


def random_model(tokenizers: TokenizerPair, **options: object) -> Transformer:
    """A model with weights so far from those it starts with that its choices are clear, and biases count."""
    torch.manual_seed(5)
    model = Transformer(
        ModelConfig.model_validate({**BASE, **options}), tokenizers.src.vocab_size, tokenizers.tgt.vocab_size
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.25)
    return model.eval()


def export(model: Transformer, tokenizers: TokenizerPair, folder: Path, quantization="none") -> CTranslate2Engine:
    write_ctranslate2(model, tokenizers, folder, quantization)
    return CTranslate2Engine(folder, model, tokenizers)


def some_sources(tokenizers: TokenizerPair, longest: int) -> list[list[int]]:
    draw = random.Random(11)
    return [draw.choices(range(4, tokenizers.src.vocab_size), k=k) for k in [1, 2, 3, 5, 8, longest - 1] * 3]


@pytest.mark.parametrize(
    "options",
    quick_and_slow(OPTIONS, lambda number, _: number % 2 == 0),
    ids=lambda options: ",".join(map(str, options.values())) or "default",
)
def test_every_supported_option_agrees_in_scores_and_translations(options, tokenizers, tmp_path):
    model = random_model(tokenizers, **options)
    made = export(model, tokenizers, tmp_path)
    found = compare(TorchEngine([model], tokenizers), made, some_sources(tokenizers, model.config.max_src_len))
    assert found.largest_score_difference < 1e-3
    assert found.equal + found.near_ties == found.sentences == 18
    assert found.near_ties <= 1


def test_separate_vocabularies_agree(separate, tmp_path):
    model = random_model(separate, tied_embeddings="target")
    found = compare(TorchEngine([model], separate), export(model, separate, tmp_path), some_sources(separate, 19))
    assert (found.equal + found.near_ties, found.largest_score_difference < 1e-3) == (18, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "model.bin",
        "source_vocabulary.json",
        "target_vocabulary.json",
    ]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_targets_at_and_over_the_limit_are_scored_as_by_the_run(positions, tokenizers, tmp_path):
    model = random_model(tokenizers, positions=positions)
    ours, theirs = TorchEngine([model], tokenizers), export(model, tokenizers, tmp_path)
    sources = some_sources(tokenizers, 19)[:5]
    targets = [[9] * length for length in (0, 1, 22, 23, 60)]
    a, b = ours.score(sources, targets), theirs.score(sources, targets)
    assert [len(row) for row in b] == [1, 2, 23, 23, 23]
    for first, second in zip(a, b, strict=True):
        assert second == pytest.approx(first, abs=1e-4)


APART = {  # nats, of a score of four tokens
    "float32": 0.0,
    "int8": 2.0,
    "int8_float32": 2.0,
    "int8_float16": 2.0,
    "int8_bfloat16": 2.0,
    "int16": 0.2,
    "float16": 0.1,
    "bfloat16": 0.8,
}


@pytest.mark.parametrize("quantization", [name for name in APART if name != "float32"])
def test_every_precision_is_near_and_leaves_the_model_as_it_was(quantization, tokenizers, tmp_path):
    model = random_model(tokenizers)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    made = export(model, tokenizers, tmp_path, quantization)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    sources, targets = some_sources(tokenizers, 19)[:6], [[40, 50, 60]] * 6
    ours = TorchEngine([model], tokenizers).score(sources, targets)
    apart = max(APART[quantization], APART[made.precision])  # a processor may compute in another precision
    for first, second in zip(ours, made.score(sources, targets), strict=True):
        assert second == pytest.approx(first, abs=apart)
    assert ours != made.score(sources, targets)


def test_tokens_that_are_never_generated_are_not(tokenizers, tmp_path):
    model = random_model(tokenizers)
    with torch.no_grad():  # the forbidden ones are the likeliest: their rows point where the states do
        for i in tokenizers.tgt.never_generated:
            model.output_proj.weight[i] *= 9
    sources = some_sources(tokenizers, 19)
    for options in (SearchOptions(), SearchOptions(beam_size=3)):
        for (found,) in export(model, tokenizers, tmp_path).search(sources, options):
            assert not {*tokenizers.tgt.never_generated} & {*found.ids}


@pytest.mark.parametrize(
    ("option", "value", "can"),
    [
        ("attention", "additive", "scaled_dot_product"),
        ("attention", "gaussian", "scaled_dot_product"),
        ("activation", "relu2", "relu or gelu or silu or swiglu"),
        ("qk_norm", "true", "false or self"),
    ],
)
def test_an_option_that_ctranslate2_has_not_is_refused_by_name(option, value, can):
    config = ModelConfig.model_validate({**BASE, option: value})
    with pytest.raises(RunError) as caught:
        refuse_unsupported(config, Path("run/config.yaml"), "CTranslate2")
    assert str(caught.value) == (
        f"run/config.yaml: CTranslate2 cannot run a model with model.{option}: {value}\n"
        f"  it supports model.{option}: {can}"
    )


@pytest.mark.parametrize("supported", [IN_CTRANSLATE2, IN_MARIAN])
def test_every_key_of_the_model_section_is_known_to_the_exports(supported):
    numbers = {key for key, value in ModelConfig() if isinstance(value, int | float) and not isinstance(value, bool)}
    assert {*supported, *numbers} == {*ModelConfig.model_fields}
