"""Functions run in several processes as in one, and a process that is killed is an error of the user."""

from __future__ import annotations

import os
import signal

import pytest

from laconic.errors import DataError, UserError
from laconic.system.processes import processes


def doubled(number: int) -> tuple[int, int]:
    return os.getpid(), 2 * number


def refused(number: int) -> int:
    raise DataError(f"row {number}: mend it")


def killed(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_in_the_order_of_values(count: int) -> None:
    with processes(count) as run:
        found = list(run(doubled, range(50)))
    assert [result for _, result in found] == [2 * number for number in range(50)]
    assert (os.getpid() in {pid for pid, _ in found}) == (count == 1)


def test_errors_are_those_of_one_process() -> None:
    with pytest.raises(DataError, match="row 3: mend it"), processes(2) as run:
        list(run(refused, [3]))


def test_a_process_that_is_killed_is_reported() -> None:
    with pytest.raises(UserError, match=r"killed.*use fewer of them \(--workers\)"), processes(2) as run:
        list(run(killed, [1]))
