"""The kernels in Triton: against plain formulas in fp64, on a GPU or in Triton's interpreter, and compiled for an H100.

`make test-kernels` runs these tests on machines without a GPU.
"""

from __future__ import annotations

import os

import pytest
import torch

from nmt.model.attention import attend
from nmt.model.kernels.packing import Segments
from nmt.model.masks import AttentionMask

triton = pytest.importorskip("triton", reason="Triton is not installed: `make test-kernels` installs and runs it")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
computes = pytest.mark.skipif(
    DEVICE.type == "cpu" and not INTERPRETED, reason="needs a CUDA device, or TRITON_INTERPRET=1"
)
LIMITS = {torch.float32: 5e-3 if DEVICE.type == "cuda" else 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
dtypes = pytest.mark.parametrize("dtype", LIMITS if DEVICE.type == "cuda" else [torch.float32])


def error(ours, theirs):
    return float(((ours.double() - theirs).norm() / theirs.norm()).detach())


def segments(lengths, width):
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE)
    return Segments(offsets, torch.cat([torch.arange(n) for n in lengths]).to(DEVICE), width)


@computes
@dtypes
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("size", "query_lengths", "key_lengths", "width"),
    [
        (16, (3, 0, 7, 5, 0, 1), (2, 4, 9, 0, 0, 6), 9),
        (24, (3, 0, 7, 5, 0, 1), (2, 4, 9, 0, 0, 6), 9),
        (16, (70, 3, 130, 0, 64, 65), (33, 0, 150, 2, 128, 1), 150),
        *([(64, (28, 31, 1), (30, 2, 64), 64), (128, (28, 31, 40), (30, 2, 64), 64)] if DEVICE.type == "cuda" else []),
    ],
)
def test_attention_within_segments_and_its_gradients_are_those_of_the_formula(
    dtype, causal, size, query_lengths, key_lengths, width
):
    from nmt.model.kernels.gpu.segment_attention import segment_attention

    torch.manual_seed(1)
    key_lengths = query_lengths if causal else key_lengths
    queries, keys = segments(query_lengths, width), segments(key_lengths, width)
    heads = 3
    inputs = [
        torch.randn(1, sum(lengths), parts * heads * size, device=DEVICE).to(dtype).requires_grad_()
        for lengths, parts in ((query_lengths, 1), (key_lengths, 2))
    ]
    above = torch.randn(1, heads, sum(query_lengths), size, device=DEVICE).to(dtype)
    bias = queries.bias(keys, causal, torch.float64)
    has_keys = (bias == 0).any(1)[:, None]

    def split(states):
        return states.unflatten(-1, (heads, -1)).transpose(1, 2)

    def outputs_of(attention, query, key_value):
        pooled = attention(split(query), *(split(half) for half in key_value.chunk(2, dim=-1)))
        return pooled, *torch.autograd.grad(pooled, (query, key_value), above.to(pooled.dtype))

    ours = outputs_of(lambda *each: segment_attention(*each, queries, keys, causal), *inputs)
    exact = [each.detach().double().requires_grad_() for each in inputs]
    theirs = outputs_of(lambda *each: attend(*each, AttentionMask(bias))[0] * has_keys, *exact)
    assert max(map(error, ours, theirs)) < LIMITS[dtype]


@computes
@dtypes
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("vocab_size", [61, 5000])
def test_the_fused_loss_and_its_gradient_are_those_of_cross_entropy(dtype, smoothing, vocab_size):
    from nmt.model.kernels.gpu.fused_loss import fused_loss

    torch.manual_seed(1)
    logits = (3 * torch.randn(9, vocab_size, device=DEVICE)).to(dtype)
    target = torch.randint(0, vocab_size, (9, 1), device=DEVICE)
    exact = logits.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, target[:, 0], label_smoothing=smoothing, reduction="none")
    (gradient,) = torch.autograd.grad(expected.sum(), exact)
    assert error(fused_loss(logits, target, False, smoothing)[:, 0], expected.detach()) < 1e-5
    assert error(fused_loss(logits, target, True, smoothing)[:, 0], expected.detach()) < 1e-5
    assert error(logits, gradient) < LIMITS[dtype]


@computes
@dtypes
@pytest.mark.parametrize("num_rows", [1, 37, 600])
@pytest.mark.parametrize("size", [50, 96])
def test_the_gradients_of_a_layer_norm_are_those_of_the_formula(dtype, num_rows, size):
    from nmt.model.kernels.gpu.norm_gradients import NormInOnePass

    torch.manual_seed(1)
    inputs = [torch.randn(shape, device=DEVICE).to(dtype).requires_grad_() for shape in ((num_rows, size), size, size)]
    above = torch.randn(num_rows, size, device=DEVICE).to(dtype)
    ours = torch.autograd.grad(NormInOnePass.apply(*inputs, 1e-5), inputs, above)
    states, weight, bias = (each.detach().double().requires_grad_() for each in inputs)
    normed = torch.nn.functional.layer_norm(states, (size,), weight, bias, 1e-5)
    theirs = torch.autograd.grad(normed, (states, weight, bias), above.double())
    assert max(map(error, ours, theirs)) < LIMITS[dtype]


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.skipif(INTERPRETED, reason="compiles nothing in the interpreter")
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_kernels_compile_for_an_h100(dtype, causal):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from nmt.model.kernels.gpu import fused_loss, norm_gradients, segment_attention

    tile = {"SIZE": 64, "PADDED": 64, "TILE": 64, "CAUSAL": causal}
    kernels = [
        (segment_attention._forward_kernel, tile),
        (segment_attention._backward_kernel, tile),
        (fused_loss._loss_kernel, {"BLOCK": 4096, "WITH_GRADIENT": causal}),
        (norm_gradients._norm_kernel, {"ROWS": 4, "FEATURES": 512}),
    ]
    in_fp32, in_int32, in_int64 = (
        {"log_totals", "losses", "means", "scales", "sums"},
        {"query_offsets", "key_offsets"},
        {"targets"},
    )
    for kernel, constants in kernels:
        types = {}
        for name in kernel.arg_names:
            if name in constants:
                types[name] = "constexpr"
            elif name in ("scale", "smoothing"):
                types[name] = "fp32"
            elif name.endswith("stride") or name.startswith(("num_", "rows_")):
                types[name] = "i32"
            else:
                kinds = ((in_fp32, "fp32"), (in_int32, "i32"), (in_int64, "i64"))
                types[name] = "*" + next((kind for names, kind in kinds if name in names), dtype)
        source = ASTSource(kernel, types, {(kernel.arg_names.index(name),): value for name, value in constants.items()})
        assert "ptx" in triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm
