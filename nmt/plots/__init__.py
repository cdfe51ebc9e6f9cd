"""Pictures: the attention heat map and the learning curves. matplotlib is imported when one is drawn, not before."""

from __future__ import annotations

from nmt.plots.attention import draw_attention
from nmt.plots.curves import draw_curves, read_metrics

__all__ = ["draw_attention", "draw_curves", "read_metrics"]
