"""The estimates of the page on several GPUs, worked by hand."""

from __future__ import annotations

import pytest
from benchmarks.blocks.several_gpus import ENCODER, MEASURED, communication, memory, step


def test_one_gpu_takes_what_was_measured() -> None:
    assert step(4.0, *MEASURED, 1) == pytest.approx(4.0)


def test_twice_the_gpus_take_half_the_time_of_rows_and_what_is_sent() -> None:
    sent = 2 * 0.025 + 2 * 3 / 4 * 4 * 128 * 480 / 450e6
    assert communication(4, 480) == pytest.approx(sent)
    assert step(4.0, *MEASURED, 4) == pytest.approx(ENCODER + (4.0 - ENCODER) / 4 + sent)


def test_adam_has_twelve_bytes_per_number_and_a_batch_two_per_label() -> None:
    assert memory(10, 3, "adam") == 10 * (12 * 3 + 2 * 128)
    assert memory(10, 3, "adagrad-bf16") == 10 * (2 * 3 + 4 + 2 * 128)
