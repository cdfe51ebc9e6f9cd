"""The operations that are counted are those of the products that the model makes."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.config.model import ModelConfig
from nmt.model.transformer import Transformer
from nmt.training.flops import TrainingFlops


def test_the_count_equals_torchs_own_but_for_the_future_that_is_masked():
    model = Transformer(ModelConfig(d_model=32, num_heads=4, d_ff=64, encoder_layers=2, decoder_layers=3), 60, 60)
    src, tgt = torch.full((5, 7), 9), torch.full((5, 6), 9)
    with FlopCounterMode(display=False) as counter:
        model(src, tgt)
    # torch counts all 6 x 6 pairs of target positions, ours only those that are not masked.
    masked = 3 * 4 * 32 * 5 * (6 * 6 - 6 * 7 / 2)
    lengths = np.full(5, 7), np.full(5, 6)
    assert TrainingFlops(model)(*lengths) == 3 * (counter.get_total_flops() - masked)
    assert TrainingFlops(model, num_passes=2)(*lengths) == 2 * TrainingFlops(model)(*lengths)
