"""Linear layers by oneDNN and by torch's own products are the same but for rounding."""

import pytest
import torch
from torch.nn import functional as F

from nmt.base import machine
from nmt.model.kernels import chunked_loss, linear
from nmt.model.kernels.chunked_loss import projected_token_loss
from nmt.model.kernels.linear import Linear
from tests.model.test_transformer import make

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN")


@pytest.fixture
def onednn(monkeypatch):
    """Prefer oneDNN on any processor, for small matrices too, with blocks of few rows."""
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(linear, "BLOCKS", (16, 8, 4))


def gradients(product, *leaves):
    """Return the product of the leaves and their gradients."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    made = product(*leaves)
    made.backward(torch.linspace(-1, 1, made.numel()).view_as(made))
    return [made.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("num_out", [6, 20])
@pytest.mark.parametrize("shape", [(16,), (31,), (3,), (3, 5), (2, 8), (2, 37), (1, 3), (0, 4)])
def test_products_and_their_gradients_are_those_of_torch_and_may_be_overwritten(shape, num_out, onednn):
    states, weight, bias = torch.randn(*shape, 10), torch.randn(num_out, 10), torch.randn(num_out)
    overwritten = [
        gradients(lambda *leaves, multiply=multiply: multiply(*leaves).mul_(2), states, weight, bias)
        for multiply in (linear._Linear.apply, F.linear)
    ]
    for got, expected in zip(*overwritten, strict=True):
        assert torch.allclose(got, expected, atol=1e-4)


def train(model):
    src, tgt = torch.randint(4, 20, (5, 9)), torch.randint(4, 20, (5, 7))
    model(src, tgt).square().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def test_a_model_has_the_gradients_that_it_has_without_onednn(onednn, monkeypatch):
    results = []
    for prefers in (True, False):
        monkeypatch.setattr(linear, "prefers_onednn", lambda prefers=prefers: prefers)
        torch.manual_seed(1)
        results.append(train(make().train()))
    for got, expected in zip(*results, strict=True):
        assert torch.allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("num_rows", [0, 3, 41])
def test_the_chunked_loss_has_the_gradients_that_it_has_without_onednn(num_rows, onednn, monkeypatch):
    monkeypatch.setattr(chunked_loss, "CHUNK_ROWS", 16)
    states, weight = torch.randn(1, num_rows, 8), torch.randn(30, 8)
    targets = torch.randint(4, 30, (1, num_rows))

    def loss(states, weight):
        return projected_token_loss(states, weight, targets, torch.arange(num_rows), 0.1)

    got = gradients(loss, states, weight)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: False)
    for each, expected in zip(got, gradients(loss, states, weight), strict=True):
        assert torch.allclose(each, expected, atol=1e-4)


def test_without_gradients_and_in_other_precisions_torch_computes(onednn, monkeypatch):
    monkeypatch.setattr(linear, "product", None)
    layer, states = Linear(10, 6), torch.randn(3, 10)
    with torch.no_grad():
        assert layer(states).equal(F.linear(states, layer.weight, layer.bias))
    assert layer.bfloat16()(states.bfloat16()).requires_grad
    with pytest.raises(TypeError):
        layer.float()(states)


def test_onednn_has_products_of_few_numbers_of_rows(onednn):
    """For each, it keeps a kernel."""
    numbers = set()

    class Calls(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket is torch.ops.mkldnn._linear_pointwise:
                numbers.add((*args[0].shape, *args[1 if func._overloadname == "default" else 2].shape))
            return func(*args, **(kwargs or {}))

    layer = Linear(10, 6)
    with Calls():
        for count in range(1, 70):
            layer(torch.randn(count, 10, requires_grad=True)).sum().backward()
    assert len(numbers) == 9


@pytest.mark.parametrize(
    ("model", "family", "flags", "environment", "prefers"),
    [
        ("AMD EPYC", "26", "avx2 avx512vl", {}, True),
        ("AMD EPYC", "25", "avx2 avx512vl", {}, False),  # Zen 4
        ("AMD EPYC", "26", "avx2", {}, False),  # a virtual machine may hide it
        ("Intel(R) Xeon(R)", "26", "avx2 avx512vl", {}, False),
        ("AMD EPYC", "26", "avx2 avx512vl", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ("AMD EPYC", "26", "avx2 avx512vl", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, True),
        ("AMD EPYC", "26", "avx2 avx512vl", {"ATEN_CPU_CAPABILITY": "default"}, False),
    ],
)
def test_the_processor_decides(model, family, flags, environment, prefers, monkeypatch):
    facts = {"model name": model, "cpu family": family, "flags": flags}
    monkeypatch.setattr(machine, "_proc", lambda file, name: facts[name])
    for name in ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.prefers_onednn.__wrapped__() == prefers
