"""Label-smoothed cross-entropy over real target tokens: always a sum, never a mean.

Sum, not mean: micro-batches hold different numbers of real tokens, and the mean of their means is not the token mean.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from nmt.base.special_tokens import PAD_ID


def token_loss(logits: Tensor, tgt_out: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropy over real target tokens, in nats, and the number of these tokens.

    logits [..., T, V], tgt_out [..., T]; padding does not count. Label smoothing as in Szegedy et al. 2016,
    section 7: the target token keeps 1 - e of the probability, and e is spread evenly over all V tokens.
    """
    rows, targets = logits.flatten(0, -2).float(), tgt_out.flatten()
    loss = F.cross_entropy(rows, targets, ignore_index=PAD_ID, label_smoothing=label_smoothing, reduction="sum")
    return loss, (tgt_out != PAD_ID).sum()
