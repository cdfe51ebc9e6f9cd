"""Start source embeddings from a lexicon, so that translating is at first the same task as copying.

A decoder that can copy its source (`training.copy_targets`) then translates word by word before it has seen a
translation. From a few thousand pairs alone, it would hardly learn to look at the source.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nmt.data.lexicon.model1 import learn_lexicon
from nmt.data.store.store import TokenStore

# Token pairs with fewer expected links, over both directions, are dropped: mostly chance. Chosen by hand.
MIN_LINKS = 0.05


def start_lexically(weights: dict[str, Tensor], store: TokenStore, *, joint: bool) -> None:
    """Replace the source embeddings [V, D] in `weights` by means of target embeddings, from the tokens of `store`.

    A source token gets the mean over its translations, weighted by their expected links in IBM model 1 (Brown et al.
    1993) and scaled to the mean norm of target embeddings. A token without translations gets the embedding of the same
    target token if the vocabulary is `joint`; else it keeps its own. RunError if the store is damaged.
    """
    lexicon = learn_lexicon(store)
    name = "src_embedding.tokens.weight"
    kept = lexicon.links >= MIN_LINKS
    places = torch.from_numpy(np.stack([lexicon.src[kept], lexicon.tgt[kept]]))
    targets = weights["tgt_embedding.tokens.weight"].detach()
    links = torch.from_numpy(lexicon.links[kept]).to(targets)
    shape = (store.src.vocab_size, store.tgt.vocab_size)
    table = torch.sparse_coo_tensor(places.to(targets.device), links, shape, check_invariants=True)
    means = torch.sparse.mm(table, targets)
    norms = means.norm(dim=1, keepdim=True)
    others = targets if joint else weights[name].detach()
    weights[name] = torch.where(norms > 0, means / norms.clamp(min=1e-9) * targets.norm(dim=1).mean(), others)
