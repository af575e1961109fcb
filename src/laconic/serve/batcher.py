"""A bounded queue of questions that are answered in batches: those that arrived during the last batch.

Nothing waits for company, so a single question is answered at once, and the more come the larger a batch is. Where a
question could not be answered in time, it is refused when it comes, not when its time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from laconic.serve.errors import Refusal, busy, failed, too_late

log = logging.getLogger(__name__)
Q = TypeVar("Q")
A = TypeVar("A")
_REMEMBERED = 31  # batches whose speeds tell that of the next; their median, since a machine does other things too
_LONGEST = 0.05  # seconds that a batch should take at most: whoever comes meanwhile waits for its end
_TRUSTED = 0.8  # share of a deadline that may be planned with; speeds are guesses, and the way here took time too


@dataclass(eq=False)
class _Waiting(Generic[Q, A]):
    question: Q
    texts: int
    deadline: float
    answer: asyncio.Future[A]


class Batcher(Generic[Q, A]):
    """A queue in front of `answer`, which a separate thread calls with a few questions at a time.

    `answer` returns a response or a refusal for each of them.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | Refusal]],
        *,
        queue: int,  # texts that may wait
        batch: int,  # texts that are answered together; a larger question goes alone
        on_batch: Callable[[int], None] = lambda texts: None,
    ) -> None:
        self._answer, self._most_waiting, self._most_together, self._on_batch = answer, queue, batch, on_batch
        self._waiting: deque[_Waiting[Q, A]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="laconic-answers")
        self._speeds: deque[float] = deque(maxlen=_REMEMBERED)
        self._seconds_a_text = 0.0
        self._worker: asyncio.Task[None] | None = None
        self.texts = 0  # that wait or are being answered

    @property
    def full(self) -> bool:
        """Return whether a question with one text would be refused."""
        return self.texts >= self._most_waiting

    async def ask(self, question: Q, texts: int, deadline: float) -> A:
        """Return the answer; `deadline` is a time of the monotonic clock."""
        # One that alone is more than the queue holds must have a chance when nothing waits.
        if self.texts and self.texts + texts > self._most_waiting:
            raise busy()
        if self.texts and (self.texts + texts) * self._seconds_a_text > _TRUSTED * (deadline - monotonic()):
            raise busy()
        waiting = _Waiting(question, texts, deadline, asyncio.get_running_loop().create_future())
        self.texts += texts
        self._waiting.append(waiting)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        answer: A = await waiting.answer
        return answer

    async def close(self) -> None:
        """After all that wait have their answer."""
        while self._worker is not None:
            await self._worker
        self._thread.shutdown()

    async def _work(self) -> None:
        """Until nothing waits."""
        try:
            while self._waiting:
                if batch := self._next():
                    await self._answer_together(batch)
        finally:
            self._worker = None

    async def _answer_together(self, batch: Sequence[_Waiting[Q, A]]) -> None:
        began, texts = monotonic(), sum(one.texts for one in batch)
        answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._answered, batch)
        self._learn((monotonic() - began) / texts)
        for one, answer in zip(batch, answers, strict=True):
            self._settle(one, answer)
        self._on_batch(texts)

    def _next(self) -> list[_Waiting[Q, A]]:
        """Return the questions that are still wanted, in order of arrival."""
        batch: list[_Waiting[Q, A]] = []
        texts, now, most = 0, monotonic(), self._most_together
        if self._seconds_a_text:
            most = min(most, int(_LONGEST / self._seconds_a_text))
        while self._waiting and (not batch or texts + self._waiting[0].texts <= most):
            one = self._waiting.popleft()
            alone = self.texts == one.texts  # then it is tried whatever is known: speeds change
            if one.deadline < now + (0 if alone else one.texts * self._seconds_a_text) or one.answer.cancelled():
                self._settle(one, too_late())
            else:
                batch.append(one)
                texts += one.texts
        return batch

    def _answered(self, batch: Sequence[_Waiting[Q, A]]) -> Sequence[A | Refusal]:
        try:
            return self._answer([one.question for one in batch])
        except Exception:  # whatever it is, those who wait must hear of it, and others go on
            log.exception("answering failed")
            return [failed() for _ in batch]

    def _settle(self, one: _Waiting[Q, A], answer: A | Refusal) -> None:
        self.texts -= one.texts
        if one.answer.done():  # who asked is gone
            return
        if isinstance(answer, Refusal):
            one.answer.set_exception(answer)
        else:
            one.answer.set_result(answer)

    def _learn(self, seconds_a_text: float) -> None:
        self._speeds.append(seconds_a_text)
        self._seconds_a_text = sorted(self._speeds)[len(self._speeds) // 2]
