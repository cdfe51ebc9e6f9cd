"""Counters, gauges and histograms of a server, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class ModelMetrics(NamedTuple):
    """The metrics of one model's queue."""

    full: Counter
    src_tokens: Counter
    segments: Histogram
    seconds: Histogram
    queue_tokens: Gauge


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        add = _Adder(self.registry)
        self.requests = add.counter("requests", "Requests answered", "path", "status")
        self.seconds = add.histogram("request_seconds", "Time to answer a request", _SECONDS, "path")
        self.refused = add.counter("refused", "Requests refused by a limit", "limit")
        self.gone = add.counter("clients_gone", "Requests whose client disconnected before the response")
        self.src_tokens = add.counter("source_tokens", "Source tokens translated", "model")
        self.batch_segments = add.histogram("batch_segments", "Segments translated together", _SIZES, "model")
        self.batch_seconds = add.histogram("batch_seconds", "Time to translate a batch", _SECONDS, "model")
        self.queue_tokens = add.gauge("queue_tokens", "Source tokens waiting for a model", "model")
        self.models_loaded = add.gauge("models_loaded", "Models in memory")
        self.model_loads = add.counter("model_loads", "Times a model was loaded", "model")

    def of_model(self, name: str) -> ModelMetrics:
        """Return the metrics for the queue of one model."""
        return ModelMetrics(
            self.refused.labels("queue"),
            self.src_tokens.labels(name),
            self.batch_segments.labels(name),
            self.batch_seconds.labels(name),
            self.queue_tokens.labels(name),
        )

    def render(self) -> bytes:
        """Return all values as text."""
        return generate_latest(self.registry)


class _Adder:
    """Adds metrics to a registry."""

    def __init__(self, registry: CollectorRegistry):
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"nmt_{name}", text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"nmt_{name}", text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"nmt_{name}", text, labels, buckets=buckets, registry=self._registry)
