"""Values that a thread computes: waited for, passed on with what was raised, and stopped."""

from __future__ import annotations

from threading import Event

import pytest

from laconic.system.background import Advance, Background


def test_a_value_is_computed_while_others_work_and_reports_to_whoever_waits() -> None:
    go_on, fractions = Event(), list[float]()

    def compute(advance: Advance) -> int:
        go_on.wait(60)
        advance(0.5)
        return 7

    started = Background(compute)
    fractions_before = list(fractions)
    started._advance = fractions.append
    go_on.set()
    assert started.result(fractions.append) == 7
    assert (fractions_before, fractions) == ([], [0.5])
    assert started.seconds > 0


def test_what_the_computation_raises_is_raised_to_whoever_waits() -> None:
    def compute(advance: Advance) -> int:
        raise MemoryError("too large")

    started = Background(compute)
    for _ in range(2):
        with pytest.raises(MemoryError, match="too large"):
            started.result(lambda fraction: None)


def test_a_computation_that_nobody_waits_for_is_stopped_at_its_next_report() -> None:
    begun, steps = Event(), list[int]()

    def compute(advance: Advance) -> int:
        for step in range(10**9):
            begun.set()
            advance(0.0)
            steps.append(step)
        return 0

    started = Background(compute)
    begun.wait(60)
    started.stop()
    started.wait()
    count = len(steps)
    assert count < 10**9
    assert len(steps) == count
