"""Masked softmax, scoring functions and multi-head attention, against numbers from the textbooks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nmt.base.errors import NmtError
from nmt.model.attention import MultiHeadAttention, attend, masked_softmax
from nmt.model.cache import PreallocatedKVCache
from nmt.model.kernels.attention_kernels import sdpa
from nmt.model.masks import AttentionMask, causal_mask, mask_bias
from nmt.model.positions import sinusoidal_positions
from nmt.model.scores import AdditiveScore, GaussianScore

TEXTBOOK_VALUES = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
TEXTBOOK_POOLED = torch.tensor([[[2.0, 3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0, 13.0]]])


def test_masked_softmax_takes_one_valid_length_a_sentence():
    weights = masked_softmax(torch.rand(2, 2, 4), torch.tensor([2, 3]))
    assert torch.allclose(weights.sum(-1), torch.ones(2, 2))
    assert weights[0, :, 2:].eq(0).all()
    assert weights[1, :, 3:].eq(0).all()
    assert weights[1, :, :3].gt(0).all()


def test_masked_softmax_takes_one_valid_length_a_query():
    weights = masked_softmax(torch.rand(2, 2, 4), torch.tensor([[1, 3], [2, 4]]))
    assert (weights > 0).tolist() == [
        [[True, False, False, False], [True, True, True, False]],
        [[True, True, False, False], [True, True, True, True]],
    ]


def test_lengths_are_those_of_sentences_whatever_axes_lie_between():
    """B = H, so that a mask by head would not show in the shape."""
    scores, lengths = torch.randn(3, 3, 5, 7), torch.tensor([2, 7, 0])
    mask = (torch.arange(7) < lengths[:, None])[:, None, None]
    assert torch.equal(masked_softmax(scores, lengths), masked_softmax(scores, mask))
    by_query = torch.randint(0, 8, (3, 5))
    mask = (torch.arange(7) < by_query[..., None])[:, None]
    assert torch.equal(masked_softmax(scores, by_query), masked_softmax(scores, mask))
    assert torch.equal(masked_softmax(scores[:, 0, 0], lengths), masked_softmax(scores, lengths)[:, 0, 0])


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([2.0, 3.0]),
        torch.tensor([[2.0] * 4] * 4),
        torch.tensor([2, 3, 4]),
        torch.tensor([[2, 3, 4]]),
        torch.ones(2, 4, 4, dtype=torch.uint8),
        torch.tensor(2),
        torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]),  # a mask, although it has the shape of lengths
        torch.zeros(2, 4, dtype=torch.int64),
    ],
    ids=lambda mask: f"{mask.dtype} {mask.tolist()}",
)
def test_lengths_of_another_shape_or_with_fractions_are_refused(mask):
    with pytest.raises(NmtError, match=r"for scores \[2, 4, 4\]\n  pass a boolean mask .* or integer lengths"):
        masked_softmax(torch.randn(2, 4, 4), mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_fully_masked_row_gives_zeros_in_every_precision(dtype):
    mask = torch.tensor([[True, False, True], [False, False, False]])
    weights = masked_softmax(torch.full((2, 3), 30000.0, dtype=dtype), mask)
    assert weights[1].tolist() == [0.0, 0.0, 0.0]
    assert weights[0].tolist() == [0.5, 0.0, 0.5]


def test_masked_softmax_leaves_its_input_as_it_was():
    scores = torch.rand(2, 3)
    before = scores.clone()
    masked_softmax(scores, torch.tensor([[True, False, True]]))
    assert torch.equal(scores, before)


def test_uniform_keys_average_the_valid_values_with_dot_product_scores():
    pooled, _ = attend(torch.randn(2, 1, 2), torch.ones(2, 10, 2), TEXTBOOK_VALUES, torch.tensor([2, 6]))
    assert torch.allclose(pooled, TEXTBOOK_POOLED)


def test_uniform_keys_average_the_valid_values_with_additive_scores_of_unlike_sizes():
    score = AdditiveScore(query_size=20, key_size=2, hidden_size=8)
    query, key, lengths = torch.randn(2, 1, 20), torch.ones(2, 10, 2), torch.tensor([2, 6])
    pooled, weights = attend(query, key, TEXTBOOK_VALUES, lengths, score=score)
    assert torch.allclose(pooled, TEXTBOOK_POOLED)
    assert weights[0, 0, 2:].eq(0).all()


def test_additive_scores_follow_their_formula():
    score = AdditiveScore(query_size=3, key_size=5, hidden_size=7)
    query, key = torch.randn(2, 3), torch.randn(11, 5)
    wq, wk, wv = score.query_proj.weight, score.key_proj.weight, score.score_proj.weight[0]
    expected = torch.stack([torch.stack([wv @ torch.tanh(wq @ q + wk @ k) for k in key]) for q in query])
    assert torch.allclose(score(query, key), expected, atol=1e-6)


def test_gaussian_scores_follow_their_formula():
    query, key = torch.randn(2, 3), torch.randn(11, 3)
    expected = -((query[:, None] - key[None]) * 0.7).square().sum(-1) / 2
    assert torch.allclose(GaussianScore(initial_width=0.7)(query, key), expected, atol=1e-6)


def test_layer_norm_of_one_to_four():
    normed = nn.LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert torch.allclose(normed, torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416]), atol=1e-4)


def test_sinusoidal_positions_have_as_many_columns_as_asked_for():
    table, angles = sinusoidal_positions(10, 7), torch.arange(10)[:, None] * 1e4 ** (-torch.arange(0, 7, 2) / 7)
    assert table.shape == (10, 7)
    assert torch.allclose(table[:, 0::2], angles.sin(), atol=1e-5)


def test_the_dot_product_of_sinusoidal_positions_depends_on_their_offset_alone():
    table = sinusoidal_positions(97, 30).double()
    products = table @ table.T
    for offset in (0, 1, 7, 31):
        diagonal = products.diagonal(offset)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_nadaraya_watson_regression_learns_its_width(seed):
    """Fifty noisy points of 2 sin(x) + x^0.8 (Dive into Deep Learning, 11.2), the width learned leave-one-out."""
    random = torch.Generator().manual_seed(seed)
    x = (torch.rand(50, generator=random) * 5).sort().values[:, None]
    truth = lambda x: 2 * x.sin() + x**0.8  # noqa: E731
    y = truth(x) + torch.randn(x.shape, generator=random) * 0.5
    x_test = torch.arange(0, 5, 0.1)[:, None]
    kernel = GaussianScore(initial_width=1.0)
    optimizer = torch.optim.Adam(kernel.parameters(), lr=0.1)
    others = ~torch.eye(50, dtype=torch.bool)
    for _ in range(100):
        loss = (attend(x, x, y, others, score=kernel)[0] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def test_error(prediction):
        return float((prediction - truth(x_test)).square().mean())

    learned = test_error(attend(x_test, x, y, score=kernel)[0].detach())
    assert learned < 0.25 * test_error(y.mean().expand_as(x_test))
    assert learned < test_error(attend(x_test, x, y, score=GaussianScore(initial_width=1.0))[0].detach())


def test_multi_head_attention_equals_torchs_with_the_same_weights():
    ours = MultiHeadAttention(33, 3, attention="scaled_dot_product", dropout=0.0)
    theirs = nn.MultiheadAttention(33, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query_proj.weight, ours.key_value_proj.weight]))
        for parameter in (ours.query_proj.bias, ours.key_value_proj.bias):
            parameter.normal_()
        theirs.in_proj_bias.copy_(torch.cat([ours.query_proj.bias, ours.key_value_proj.bias]))
        theirs.out_proj.load_state_dict(ours.output_proj.state_dict())
    queries, memory = torch.randn(2, 5, 33), torch.randn(2, 7, 33)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[0, ..., 4:] = False
    bias = AttentionMask(mask_bias(mask, torch.float32))
    pooled, weights = ours(queries, ours.project_key_value(memory), bias, keep_weights=True)
    expected, their_weights = theirs(
        queries, memory, memory, key_padding_mask=~mask[:, 0, 0], average_attn_weights=False
    )
    assert torch.allclose(pooled, expected, atol=1e-5)
    assert torch.allclose(weights, their_weights, atol=1e-5)


def test_multi_head_attention_takes_states_and_lengths():
    attention, states, memory = MultiHeadAttention(12, 3), torch.randn(3, 5, 12), torch.randn(3, 7, 12)
    pooled, weights = attention(states, memory, torch.tensor([2, 7, 4]), keep_weights=True)
    assert not weights[0, :, :, 2:].any()
    bias = AttentionMask(mask_bias((torch.arange(7) < torch.tensor([[2], [7], [4]]))[:, None, None], torch.float32))
    expected, none = attention(states, attention.project_key_value(memory), bias)
    assert torch.allclose(pooled, expected, atol=1e-6)
    assert none is None
    with pytest.raises(NmtError, match="5 heads do not divide d_model 12"):
        MultiHeadAttention(12, 5)


def test_a_causal_mask_with_padding_in_its_bias_is_refused():
    """The kernels of a GPU would attend to the padding."""
    attention, heads = MultiHeadAttention(12, 3), torch.randn(2, 3, 5, 4)
    padded = causal_mask(5, 5) & torch.tensor([True, True, True, False, False])
    for bias in (mask_bias(padded.expand(2, 1, 5, 5), torch.float32), None):
        with pytest.raises(ValueError, match="causal AttentionMask needs the bias of its causal mask"):
            attention.attend(heads, heads, heads, AttentionMask(bias, causal=True))


def test_plain_attention_equals_torchs_fused_kernel():
    query, key, value = torch.randn(2, 3, 5, 11), torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 11)
    mask = torch.rand(2, 1, 5, 7) > 0.3
    mask[1, 0, 2] = False  # a row that may look nowhere
    fused = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert torch.allclose(attend(query, key, value, mask)[0], fused, atol=1e-6)


def test_the_causal_mask_of_a_chunk_lets_its_last_query_see_all():
    assert causal_mask(2, 5).tolist() == [[True, True, True, True, False], [True, True, True, True, True]]


@pytest.mark.parametrize(("num_cached", "num_new", "causal"), [(0, 5, True), (3, 5, False), (3, 1, False)])
def test_torchs_kernel_with_the_mask_of_a_cache_equals_plain_attention(num_cached, num_new, causal):
    """`is_causal` aligns to the top left: right for a whole target, wrong for a chunk after cached positions."""
    heads = [torch.randn(2, 3, n, 11) for n in (num_new, num_cached + num_new, num_cached + num_new)]
    cross = [(torch.randn(2, 3, 4, 11), torch.randn(2, 3, 4, 11))]
    cache = PreallocatedKVCache(cross, AttentionMask(torch.zeros(2, 1, 1, 4)), max_len=9)
    cache.advance(num_cached)
    mask = cache.self_mask(num_new, heads[0])
    assert mask.causal == causal
    query, *key_value = heads
    plain, _ = attend(query, *key_value, mask)
    assert torch.allclose(sdpa(query, tuple(key_value), mask), plain, atol=1e-6)


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("shape", [(1, 7), (2, 5)])
def test_gradients_of_keys_and_values_that_lie_side_by_side_are_joined_without_a_copy(shape, side_by_side):
    """As the kernel for a GPU writes them, and as others do."""
    attention = MultiHeadAttention(8, 2)
    states = torch.randn(*shape, 8, requires_grad=True)
    drawn = torch.randn(*shape, 2, 2, 4)  # keys and values, heads, features
    parts = drawn.unbind(2) if side_by_side else [part.clone() for part in drawn.unbind(2)]
    with torch.profiler.profile() as seen:
        ours = torch.autograd.grad(
            attention.project_key_value(states), states, [part.transpose(1, 2) for part in parts]
        )[0]
    assert ("aten::cat" in {event.name for event in seen.events()}) != side_by_side
    plain = torch.autograd.grad(attention.key_value_proj(states), states, drawn.flatten(2))[0]
    assert torch.allclose(ours, plain, atol=1e-6)


def test_gradients_that_only_look_side_by_side_are_joined_in_their_order():
    attention = MultiHeadAttention(8, 2)
    states = torch.randn(1, 7, 8, requires_grad=True)
    drawn = torch.randn(1, 7, 2, 2, 4)
    swapped = [part.transpose(1, 2) for part in drawn.flip(2).unbind(2)], drawn.unbind(2)[::-1]
    for parts in (swapped[0], [part.transpose(1, 2) for part in swapped[1]]):
        ours = torch.autograd.grad(attention.project_key_value(states), states, parts)[0]
        plain = torch.autograd.grad(attention.key_value_proj(states), states, drawn.flip(2).flatten(2))[0]
        assert torch.allclose(ours, plain, atol=1e-6)
