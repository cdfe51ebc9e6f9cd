"""The device and the precision are chosen by what is there and by what is fast."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nmt.base import device as devices
from nmt.base.device import choose_device, choose_precision, product_rate, tf32_products
from nmt.base.errors import ConfigError

CPU = torch.device("cpu")


def test_a_device_that_is_not_there_is_refused_with_those_that_are():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ConfigError, match="cuda is not available on this machine") as caught:
        choose_device("cuda")
    assert "cpu" in str(caught.value)


@pytest.mark.parametrize(
    ("fp32", "bf16", "chosen"), [(100.0, 300.0, "bf16"), (100.0, 110.0, "fp32"), (100.0, 20.0, "fp32")]
)
def test_auto_takes_bf16_only_where_it_is_clearly_faster(monkeypatch, fp32, bf16, chosen):
    rates = {torch.float32: fp32, torch.bfloat16: bf16}
    monkeypatch.setattr(devices, "product_rate", lambda device, dtype: rates[dtype])
    precision = choose_precision("auto", CPU)
    assert (precision.name, precision.flops) == (chosen, rates[precision.dtype])


def test_a_precision_that_is_named_is_taken(monkeypatch):
    monkeypatch.setattr(devices, "product_rate", lambda device, dtype: 1e9)
    assert choose_precision("bf16", CPU).dtype == torch.bfloat16


def test_the_trial_measures_a_rate():
    assert product_rate(CPU, torch.float32) > 1e8


def test_the_rate_is_that_of_random_numbers_and_the_seed_of_training_is_not_touched():
    """A GPU multiplies equal numbers faster than those of a training."""
    before, operands = torch.get_rng_state(), []

    class NoteOperands(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if "matmul" in function.__name__:
                operands.extend(args)
            return function(*args, **(kwargs or {}))

    with NoteOperands():
        product_rate(CPU, torch.float32)
    assert len(operands) == 8
    assert all(len(matrix.unique()) > 100 for matrix in operands)
    assert torch.equal(torch.get_rng_state(), before)


def test_tf32_is_allowed_within_a_training_on_cuda_alone():
    with tf32_products(CPU):
        assert torch.get_float32_matmul_precision() == "highest"
    with tf32_products(torch.device("cuda")):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"
