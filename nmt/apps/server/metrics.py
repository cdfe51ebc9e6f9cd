"""Counters, gauges and histograms of a server, in Prometheus' text format."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time and open files, on Linux
        counter = partial(Counter, namespace="nmt", registry=self.registry)
        gauge = partial(Gauge, namespace="nmt", registry=self.registry)
        histogram = partial(Histogram, namespace="nmt", registry=self.registry)
        self.requests = counter("requests", "Requests answered", ["path", "status"])
        self.seconds = histogram("request_seconds", "Time to answer a request", ["path"], buckets=_SECONDS)
        self.refused = counter("refused", "Requests refused by a limit", ["limit"])
        self.src_tokens = counter("source_tokens", "Source tokens translated", ["model"])
        self.batch_segments = histogram("batch_segments", "Segments translated together", ["model"], buckets=_SIZES)
        self.queue_tokens = gauge("queue_tokens", "Source tokens waiting for a model", ["model"])
