"""Score translations, quantify the uncertainty of scores, and show where translations go wrong."""

from nmt.evaluation.scores import METRICS, MetricScore, score, score_sets

__all__ = ["METRICS", "MetricScore", "score", "score_sets"]
