"""What is tried on the device of a training."""

from __future__ import annotations

from nmt.config import ModelConfig
from nmt.model.transformer import Transformer
from nmt.training.environment import choose_blocks


def test_batches_are_not_laid_out_in_blocks_on_a_cpu_which_has_no_kernel_for_it():
    model = Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 13, 13)
    assert choose_blocks(model) == (False, "attention has no kernel for segments on cpu")
