"""The queue: who is answered together, in which order, who is refused at once, and that everybody hears something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.serve import batcher as batching
from laconic.serve.batcher import Batcher
from laconic.serve.errors import Refusal
from tests.variants import examples

LONG = 1e9  # a deadline that does not come


class Answers:
    """Answers a question with itself in capitals, once it is let go; a bad one is refused, a broken one breaks it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.began, self.let_go = threading.Semaphore(0), threading.Event()

    def __call__(self, questions: Sequence[str]) -> list[str | Refusal]:
        self.batches.append(list(questions))
        self.began.release()
        assert self.let_go.wait(30)
        if any(question.startswith("broken") for question in questions):
            raise RuntimeError("a mistake")
        return [Refusal(422, "bad", "") if one.startswith("bad") else one.upper() for one in questions]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(batching, "monotonic", lambda: self.now)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time stands still but where a test moves it: a machine that is busy must not look like a slow model."""
    return Clock(monkeypatch)


class Queue:
    """A batcher of such answers; its first question, `one`, is being answered while others are asked."""

    def __init__(self, queue: int = 100, batch: int = 4) -> None:
        self.answers, self.told = Answers(), list[int]()
        self.batcher: Batcher[str, str] = Batcher(self.answers, queue=queue, batch=batch, on_batch=self.told.append)
        self.tasks: list[asyncio.Task[str]] = []

    async def ask(self, question: str, texts: int = 1, deadline: float = LONG) -> asyncio.Task[str]:
        """After this the question waits, or was refused."""
        self.tasks.append(asyncio.create_task(self.batcher.ask(question, texts, deadline)))
        await asyncio.sleep(0)
        return self.tasks[-1]

    async def begin(self, texts: int = 1) -> asyncio.Task[str]:
        task = await self.ask("one", texts)
        assert await asyncio.to_thread(self.answers.began.acquire, timeout=30)
        return task

    async def end(self) -> list[str]:
        """Lets go; answers of all in the order in which they asked, or codes of refusals."""
        self.answers.let_go.set()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.batcher.close()
        assert self.batcher.texts == 0
        return [one.code if isinstance(one, Refusal) else str(one) for one in ended]


def run(claim: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(claim(), 60))


def test_a_question_that_comes_alone_is_answered_alone() -> None:
    async def claim() -> None:
        queue = Queue()
        await queue.begin()
        assert await queue.end() == ["ONE"]
        assert (queue.answers.batches, queue.told) == ([["one"]], [1])

    run(claim)


def test_what_comes_while_others_are_answered_goes_together_in_the_order_of_coming() -> None:
    async def claim() -> None:
        queue = Queue(batch=4)
        await queue.begin()
        for question in "abcdef":
            await queue.ask(question)
        assert queue.batcher.texts == 7
        assert await queue.end() == ["ONE", *"ABCDEF"]
        assert queue.answers.batches == [["one"], ["a", "b", "c", "d"], ["e", "f"]]
        assert queue.told == [1, 4, 2]

    run(claim)


def test_a_batch_has_so_many_texts_and_a_larger_question_goes_alone() -> None:
    async def claim() -> None:
        queue = Queue(batch=4)
        await queue.begin()
        for question, texts in (("a", 3), ("b", 2), ("c", 2), ("d", 9), ("e", 1)):
            await queue.ask(question, texts)
        assert await queue.end() == ["ONE", *"ABCDE"]
        assert queue.answers.batches == [["one"], ["a"], ["b", "c"], ["d"], ["e"]]

    run(claim)


def test_a_full_queue_refuses_at_once() -> None:
    async def claim() -> None:
        queue = Queue(queue=3)
        await queue.begin()
        await queue.ask("a")
        assert not queue.batcher.full
        refused = await queue.ask("b", texts=2)
        assert refused.done()
        await queue.ask("c")
        assert queue.batcher.full
        await queue.ask("d")
        assert await queue.end() == ["ONE", "A", "busy", "C", "busy"]
        assert not queue.batcher.full

    run(claim)


def test_a_question_larger_than_the_queue_is_answered_where_nothing_waits() -> None:
    async def claim() -> None:
        queue = Queue(queue=3)
        await queue.begin(texts=50)
        await queue.ask("a", texts=50)
        assert await queue.end() == ["ONE", "busy"]

    run(claim)


def test_what_cannot_be_answered_in_time_at_the_known_speed_is_refused_when_it_comes(clock: Clock) -> None:

    async def claim() -> None:
        queue = Queue()
        await queue.begin(texts=2)
        clock.now += 2  # a second a text is known from here on
        queue.answers.let_go.set()
        await queue.tasks[0]
        queue.answers.let_go.clear()
        await queue.begin()
        refused = await queue.ask("a", texts=2, deadline=clock.now + 3.7)  # of which four fifths are planned with
        assert refused.done()
        waits = await queue.ask("b", texts=2, deadline=clock.now + 3.8)
        assert not waits.done()
        assert await queue.end() == ["ONE", "ONE", "busy", "B"]

    run(claim)


def test_the_known_speed_refuses_nobody_where_nothing_waits(clock: Clock) -> None:

    async def claim() -> None:
        queue = Queue()
        await queue.begin()
        clock.now += 1000
        queue.answers.let_go.set()
        await queue.tasks[0]
        await queue.ask("a", deadline=clock.now + 1)  # the machine may have been busy with something else
        assert await queue.end() == ["ONE", "A"]

    run(claim)


def test_one_whose_deadline_passed_is_told_so_and_nothing_is_computed_for_it(clock: Clock) -> None:

    async def claim() -> None:
        queue = Queue()
        await queue.begin()
        await queue.ask("a", deadline=clock.now + 1)
        await queue.ask("b", deadline=clock.now + 5)
        await queue.ask("c", deadline=clock.now + 1)
        clock.now += 2
        assert await queue.end() == ["ONE", "too_late", "B", "too_late"]
        assert queue.answers.batches == [["one"], ["b"]]

    run(claim)


def test_who_goes_away_is_not_answered_and_the_place_is_free() -> None:
    async def claim() -> None:
        queue = Queue(queue=4)
        first = await queue.begin()
        for question in "abc":
            await queue.ask(question)
        queue.tasks[2].cancel()
        first.cancel()  # what is being computed is computed
        await asyncio.sleep(0)
        queue.answers.let_go.set()
        assert await queue.tasks[3] == "C"
        assert queue.batcher.texts == 0
        await queue.ask("d", texts=4)
        with pytest.raises(asyncio.CancelledError):
            await first
        queue.tasks = [queue.tasks[1], *queue.tasks[3:]]
        assert await queue.end() == ["A", "C", "D"]
        assert queue.answers.batches == [["one"], ["a", "c"], ["d"]]

    run(claim)


def test_a_mistake_is_told_to_those_of_its_batch_alone_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def claim() -> None:
        queue = Queue(batch=2)
        await queue.begin()
        for question in ("a", "broken", "b", "bad"):
            await queue.ask(question)
        assert await queue.end() == ["ONE", "internal", "internal", "B", "bad"]
        assert "RuntimeError: a mistake" in caplog.text

    run(claim)


def test_closing_waits_for_all() -> None:
    async def claim() -> None:
        queue = Queue(batch=1)
        await queue.begin()
        await queue.ask("a")
        await queue.ask("b")
        closing = asyncio.create_task(queue.batcher.close())
        await asyncio.sleep(0)
        assert not closing.done()
        queue.answers.let_go.set()
        await closing
        assert [task.result() for task in queue.tasks] == ["ONE", "A", "B"]

    run(claim)


ARRIVALS = st.tuples(
    st.sampled_from(["good", "good", "bad", "broken"]),
    st.integers(1, 7),  # texts
    st.sampled_from([LONG, LONG, -1.0]),  # the last has passed already
    st.sampled_from([None, None, 0.0, 0.001]),  # seconds until the client goes away
    st.integers(0, 3),  # turns of the loop until the next one comes
)


@examples(60)
@given(st.lists(ARRIVALS, max_size=25), st.integers(1, 12), st.integers(1, 5))
def test_whoever_comes_hears_something_and_nothing_stays_behind(
    arrivals: list[tuple[str, int, float, float | None, int]], most_waiting: int, most_together: int
) -> None:
    async def claim() -> None:
        queue = Queue(most_waiting, most_together)
        queue.answers.let_go.set()
        for number, (kind, texts, deadline, goes, turns) in enumerate(arrivals):
            task = await queue.ask(f"{kind} {number}", texts, deadline)
            if goes is not None:
                asyncio.get_running_loop().call_later(goes, task.cancel)
            for _ in range(turns):
                await asyncio.sleep(0)
        ended = await queue.end()
        for number, (kind, _, deadline, goes, _) in enumerate(arrivals):
            told = {"good": f"GOOD {number}", "bad": "bad", "broken": "internal"}[kind]
            assert ended[number] in {"busy", *(("too_late",) if deadline < 0 else (told, "internal"))} or (
                goes is not None and queue.tasks[number].cancelled()
            )
        batches = [[int(question.split()[1]) for question in batch] for batch in queue.answers.batches]
        computed = [number for batch in batches for number in batch]
        assert computed == sorted(computed)
        assert all(arrivals[number][2] == LONG for number in computed)
        for batch in batches:
            assert len(batch) == 1 or sum(arrivals[number][1] for number in batch) <= most_together

    run(claim)
