"""Prometheus metrics over all processes of the service; docs/reference/service.md describes each.

prometheus_client adds processes up through files, in the folder that FOLDER names; that must be set before this module
is imported.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.requests = Counter(
            "laconic_requests", "Requests that were answered or refused", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "laconic_request_seconds", "From a request's headers to its answer", buckets=_SECONDS, registry=registry
        )
        self.refusals = Counter("laconic_refusals", "Requests that were refused", ["code"], registry=registry)
        self.batches = Histogram("laconic_batch_texts", "Texts answered together", buckets=_TEXTS, registry=registry)
        self.waiting = Gauge(
            "laconic_waiting_texts",
            "Texts that wait or are being answered",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.swaps = Counter("laconic_model_swaps", "Changed models, taken or refused", ["result"], registry=registry)
        self.errors = Counter(
            "laconic_background_errors", "Unforeseen errors in background tasks", ["task"], registry=registry
        )
        self.loaded = Gauge(
            "laconic_model_loaded_timestamp_seconds",
            "When the model that answers was put in place",
            registry=registry,
            multiprocess_mode="livemax",
        )

    def text(self) -> bytes:
        """Return the metrics in Prometheus's text format, summed over processes if there are several."""
        if FOLDER not in os.environ:
            return bytes(generate_latest(self._registry))
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]  # prometheus_client has no types for it
        return bytes(generate_latest(together))
