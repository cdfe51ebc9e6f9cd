"""Scores of translations, how sure they are, and where translations go wrong."""

from nmt.evaluate.scores import METRICS, MetricScore, score, score_sets

__all__ = ["METRICS", "MetricScore", "score", "score_sets"]
