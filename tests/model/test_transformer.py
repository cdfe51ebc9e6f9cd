"""The model as a whole: equal to torch's, cached or not, padded or not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from nmt.base.errors import NmtError
from nmt.base.special_tokens import PAD_ID
from nmt.config import ModelConfig
from nmt.model.cache import KVCache
from nmt.model.shapes import parameter_shapes
from nmt.model.transformer import Transformer
from tests.quick import quick_and_slow

MAX_LEN = 13
SIZES = {"d_model": 24, "num_heads": 3, "d_ff": 37, "encoder_layers": 2, "decoder_layers": 2}
KINDS = [
    {"attention": attention, "positions": positions, "norm": norm, "norm_position": place}
    for attention, positions, norm, place in itertools.product(
        ("scaled_dot_product", "additive", "gaussian"),
        ("sinusoidal", "learned", "rotary"),
        ("layer", "rms"),
        ("pre", "post"),
    )
    if attention == "scaled_dot_product" or positions != "rotary"
]
KINDS += [
    {"qk_norm": True, "positions": "rotary", "activation": "relu2"},
    {"qk_norm": "self", "positions": "rotary"},
    {"qk_norm": True, "attention": "additive", "norm_position": "post"},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
# By day each kind at the full length, and a third of them (with each attention, norm and so on) at each other length.
KINDS_AND_LENGTHS = {
    "-".join(map(str, [*kind.values(), length])): (kind, length) for kind in KINDS for length in (1, 2, MAX_LEN)
}
every_kind_and_length = pytest.mark.parametrize(
    ("kind", "length"), quick_and_slow(KINDS_AND_LENGTHS, lambda n, name: n % 3 == 2 or n // 3 % 3 == n % 3)
)


def make(**options) -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(
        **{**SIZES, "max_src_len": MAX_LEN, "max_tgt_len": MAX_LEN, "tied_embeddings": "none", **options}
    )
    return Transformer(config, 31, 29).eval()


@every_kind
def test_the_shapes_of_parameters_are_those_that_are_listed(kind):
    model = make(**kind)
    found = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert parameter_shapes(model.config, 31, 29) == found


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, 29, shape)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return float((a - b).detach().abs().max()) < 1e-5


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_text_longer_than_the_positions_of_the_model_is_refused(positions):
    model = make(positions=positions)
    with pytest.raises(NmtError, match=r"14 tokens, but the model has 13 positions\n.*model\.max_src_len"):
        model.encode(ids(2, MAX_LEN + 1))
    with pytest.raises(NmtError, match="14 tokens, but the model has 13 positions"):
        model(ids(2, MAX_LEN), ids(2, MAX_LEN + 1))


@every_kind_and_length
def test_cached_logits_equal_full_ones_step_by_step_and_in_chunks(kind, length):
    model = make(**kind)
    src, tgt_in = ids(2, 7), ids(2, length)
    src[0, 5:] = PAD_ID
    with torch.no_grad():
        full = model(src, tgt_in)
        for chunk in (1, 5):
            cache = model.start_cache(model.encode(src), max_len=length)
            logits = torch.cat([model.decode(part, cache) for part in tgt_in.split(chunk, dim=1)], dim=1)
            assert close(logits, full)


@every_kind_and_length
def test_garbage_in_the_padding_changes_nothing(kind, length):
    wide = MAX_LEN + 3
    model = make(**kind, max_src_len=wide, max_tgt_len=wide)
    src, tgt_in = ids(1, length), ids(1, length)
    padded_src, padded_tgt = torch.full((3, wide), PAD_ID), torch.full((3, wide), PAD_ID)
    padded_src[1, :length], padded_tgt[1, :length] = src[0], tgt_in[0]
    padded_src[0], padded_src[2], padded_tgt[0], padded_tgt[2] = ids(4, wide)
    padded_tgt[1, length:] = ids(wide - length)
    with torch.no_grad():
        alone = model(src, tgt_in)
        model.src_embedding.tokens.weight[PAD_ID] = 1000 * torch.randn(24)
        assert close(model(padded_src, padded_tgt)[1:2, :length], alone)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_teacher_forced_logits_equal_those_of_torchs_transformer(place, activation):
    model = make(norm_position=place, activation=activation)
    theirs = _torchs(model, place, activation)
    src, tgt_in = ids(2, 7), ids(2, 5)
    src[0, 5:] = PAD_ID
    padding = src == PAD_ID
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with torch.no_grad():
        states = theirs(
            model.src_embedding(src),
            model.tgt_embedding(tgt_in),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        assert close(model(src, tgt_in), model.output_proj(states))


def _torchs(model: Transformer, place: str, activation: str) -> nn.Transformer:
    """`torch.nn.Transformer` with the weights of `model`."""
    options = {"batch_first": True, "norm_first": place == "pre", "activation": activation}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(24, 3, 37, **options),
        2,
        norm=nn.LayerNorm(24) if place == "pre" else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(24, 3, 37, **options), 2, norm=nn.LayerNorm(24) if place == "pre" else None
    )
    # Built first, filled then: its constructor draws the weights of the stacks it is given anew.
    whole = nn.Transformer(24, 3, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).eval()
    for theirs, ours in zip(encoder.layers, model.encoder_layers, strict=True):
        _copy_layer(theirs, ours, ["self"])
    for theirs, ours in zip(decoder.layers, model.decoder_layers, strict=True):
        _copy_layer(theirs, ours, ["self", "cross"])
    return whole


def _copy_layer(theirs: nn.Module, ours: nn.Module, attentions: list[str]) -> None:
    names = {"self": "self_attn", "cross": "multihead_attn"}
    with torch.no_grad():
        for index, kind in enumerate(attentions, 1):
            attention, target = getattr(ours, f"{kind}_attention"), getattr(theirs, names[kind])
            target.in_proj_weight.copy_(torch.cat([attention.query_proj.weight, attention.key_value_proj.weight]))
            target.out_proj.load_state_dict(attention.output_proj.state_dict())
            getattr(theirs, f"norm{index}").load_state_dict(getattr(ours, f"{kind}_residual").norm.state_dict())
        norm = getattr(theirs, f"norm{len(attentions) + 1}")
        norm.load_state_dict(ours.feed_forward_residual.norm.state_dict())
        theirs.linear1.load_state_dict(ours.feed_forward.input_proj.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.output_proj.state_dict())


@pytest.mark.parametrize(("tied", "num_matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_tied_embeddings_share_their_matrices(tied, num_matrices):
    config = ModelConfig(**SIZES, tied_embeddings=tied)
    model = Transformer(config, 31, 31)
    matrices = {
        id(model.src_embedding.tokens.weight),
        id(model.tgt_embedding.tokens.weight),
        id(model.output_proj.weight),
    }
    assert len(matrices) == num_matrices


def test_a_sentence_may_leave_the_batch_and_the_others_go_on():
    model = make()
    src, tgt_in = ids(5, 7), ids(5, 4)
    kept = torch.tensor([0, 4])
    with torch.no_grad():
        full = model(src, tgt_in)
        cache = model.start_cache(model.encode(src), max_len=4)
        model.decode(tgt_in[:, :2], cache)
        cache.select_sentences(kept)
        assert close(model.decode(tgt_in[kept, 2:], cache), full[kept, 2:])


def test_swiglu_gates_with_silu():
    model = make(activation="swiglu")
    branch = model.encoder_layers[0].feed_forward
    states = torch.randn(2, 5, 24)
    gate, linear = branch.input_proj(states).chunk(2, dim=-1)
    assert close(branch(states), branch.output_proj(nn.functional.silu(gate) * linear))


def test_the_cache_keeps_cross_attention_when_asked():
    model = make()
    memory = model.encode(ids(2, 7))
    cache = KVCache(model.project_memory(memory), memory.mask, keep_attention=True)
    model.decode_states(ids(2, 5), cache)
    assert [tuple(weights.shape) for weights in cache.attention] == [(2, 3, 5, 7)] * 2
    assert torch.allclose(cache.attention[-1].sum(-1), torch.ones(2, 3, 5))


def test_a_cache_without_room_for_targets_refuses_a_second_call():
    model = Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16), 20, 20).eval()
    cache = model.start_cache(model.encode(torch.tensor([[5, 6, 3]])))
    model.decode(torch.tensor([[2]]), cache)
    with pytest.raises(NmtError, match=r"a second call would not see the first\n .*start_cache\(memory, max_len\)"):
        model.decode(torch.tensor([[7]]), cache)


def test_decoding_step_by_step_gives_the_gradients_of_decoding_at_once():
    """As a loop without `torch.no_grad`, of a book, does."""
    torch.manual_seed(4)
    model = Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16, dropout=0.0), 20, 20).eval()
    src, tgt = torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7, 8, 9]])
    cache = model.start_cache(model.encode(src), max_len=4)
    steps = torch.cat([model.decode(tgt[:, i : i + 1], cache) for i in range(4)], dim=1)
    at_once = model(src, tgt)
    assert torch.allclose(steps, at_once, atol=1e-5)
    weights = list(model.parameters())
    for ours, expected in zip(
        torch.autograd.grad(steps.square().sum(), weights),
        torch.autograd.grad(at_once.square().sum(), weights),
        strict=True,
    ):
        assert torch.allclose(ours, expected, atol=1e-4)


@pytest.mark.parametrize("sizes", [(20, 16), (16, 20)])
def test_one_embedding_for_two_vocabularies_is_refused(sizes):
    config = ModelConfig(d_model=16, num_heads=2, d_ff=16, tied_embeddings="all")
    with pytest.raises(NmtError, match=f"one embedding for vocabularies of {sizes[0]} and {sizes[1]}"):
        Transformer(config, *sizes)
    apart = Transformer(config.model_copy(update={"tied_embeddings": "target"}), *sizes)
    assert apart(torch.tensor([[15]]), torch.tensor([[2]])).shape == (1, 1, sizes[1])
