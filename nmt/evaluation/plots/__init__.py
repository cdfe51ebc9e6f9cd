"""Plots of attention and learning curves. matplotlib is imported only when a plot is drawn."""

from __future__ import annotations

from nmt.evaluation.plots.attention_map import draw_attention
from nmt.evaluation.plots.curves import draw_curves, read_metrics

__all__ = ["draw_attention", "draw_curves", "read_metrics"]
