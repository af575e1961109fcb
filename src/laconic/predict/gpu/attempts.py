"""Decides when a failed optimisation is tried again.

A failure is answered around, and the faster way rests for some calls: one after the first failure, and about twice as
many after each further one in a row. Lack of memory may pass, because others use the GPU too, so it is tried again
for ever. Anything else, such as a kernel that a compiler refuses, will hardly change: after three failures without a
success between them the way is given up for good.
"""

from __future__ import annotations

import logging

import torch

log = logging.getLogger(__name__)
_TRIES = 3  # failures, but for lack of memory, after which there is no further attempt
_LONGEST_REST = 1023  # calls


class Attempts:
    """Counts and logs the failures of one optimisation; `what` names it in the log."""

    def __init__(self, what: str) -> None:
        self.what, self.given_up = what, False
        self._failures = self._lasting = self._rest = 0

    def due(self) -> bool:
        """Return whether this call should try."""
        if self.given_up or self._rest:
            self._rest = max(0, self._rest - 1)
            return False
        return True

    def succeeded(self) -> None:
        self._failures = self._lasting = self._rest = 0

    def failed(self, error: Exception) -> None:
        self._failures += 1
        self._lasting += not may_pass(error)
        self._rest = min(2**self._failures - 1, _LONGEST_REST)
        self.given_up = self._lasting >= _TRIES
        brief = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if self.given_up:
            log.warning("%s failed (%s) %d times and is not tried again", self.what, brief, self._failures)
        else:
            log.warning("%s failed (%s); next attempt after %d calls without it", self.what, brief, self._rest)


def may_pass(error: Exception) -> bool:
    """Return whether the same call may succeed later, because only memory was lacking."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        sign in str(error) for sign in ("out of memory", "ALLOC_FAILED")
    )
