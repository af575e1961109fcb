"""Counters of one process, and of several together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from laconic.serve.metrics import FOLDER, Metrics

# A process that has another, as a service has its workers; each counts.
COUNTED = """
import os
from laconic.serve.metrics import Metrics
measures = Metrics()
child = os.fork()
measures.requests.labels("/v1/predict", 200).inc(2 if child else 5)
measures.batches.observe(3)
measures.waiting.set(4 if child else 6)
if not child:
    os._exit(0)
os.waitpid(child, 0)
print(measures.text().decode())
"""


def test_two_services_in_a_process_do_not_share_their_counters() -> None:
    one, other = Metrics(), Metrics()
    one.swaps.labels("taken").inc()
    assert 'laconic_model_swaps_total{result="taken"} 1.0' in one.text().decode()
    assert 'result="taken"' not in other.text().decode()


def test_processes_are_counted_together(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED],
        env={**os.environ, FOLDER: str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'laconic_requests_total{path="/v1/predict",status="200"} 7.0' in done.stdout
    assert "laconic_batch_texts_count 2.0" in done.stdout
    assert "laconic_waiting_texts 10.0" in done.stdout
