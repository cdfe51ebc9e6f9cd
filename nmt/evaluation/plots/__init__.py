"""Plots of attention, positions and learning curves. matplotlib is imported only when a plot is drawn."""

from __future__ import annotations

from nmt.evaluation.plots.attention import draw_attention
from nmt.evaluation.plots.curves import draw_curves, read_metrics
from nmt.evaluation.plots.heads import draw_heads
from nmt.evaluation.plots.positions import draw_positions

__all__ = ["draw_attention", "draw_curves", "draw_heads", "draw_positions", "read_metrics"]
