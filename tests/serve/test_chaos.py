"""What a service in its own processes survives; `make chaos` measures the same at length."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from benchmarks.chaos.equal import Comparison, compared, distinct
from benchmarks.chaos.hostile import attacked, guarded_serve
from benchmarks.chaos.loops import Tally, arrivals, closed_loop, open_loop, run
from benchmarks.chaos.models import SPOILS, Known, Said, id_coded, put, same
from benchmarks.chaos.processes import Server, tree_of
from benchmarks.chaos.slow import Crowd
from benchmarks.chaos.soak import mixed
from benchmarks.chaos.stop import stopped
from benchmarks.chaos.swap import Answers, Swapper, two_versions, under_load
from benchmarks.chaos.wire import Answer, first_answer, question

from tests.serve.hostile import corpus
from tests.serve.serving import PATIENT, serving
from tests.serve.small import TEXTS

QUESTIONS = [question({"text": text}) for text in TEXTS]


@pytest.fixture(scope="module")
def server(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that refuses nothing for want of time."""
    with serving(kept, tmp_path_factory.mktemp("service"), *PATIENT) as one:
        yield one


def test_every_answer_is_the_one_to_its_own_request(server: Server, kept: Path) -> None:
    known = Known.of(kept / "packed", id_coded(TEXTS, 1500))
    assert distinct(known.answers) > 100
    tally, found = compared(server, known)
    assert tally.statuses == {200: 1500}
    assert (found.wrong, tally.lost) == (0, 0)


@pytest.mark.slow
def test_slow_clients_do_not_keep_others_from_their_answers(server: Server, kept: Path) -> None:
    known, crowd = Known.of(kept / "packed", TEXTS), Crowd(server.port, 90)

    async def among_slow() -> Tally:
        await crowd.come()
        tally = await closed_loop(server.port, QUESTIONS, connections=8)
        crowd.disperse()
        return tally

    assert run(among_slow()).statuses == {200: len(known.texts)}


@pytest.mark.slow
def test_memory_does_not_grow_with_requests(server: Server) -> None:
    requests = mixed(TEXTS, ["L0", "L1", "L2"])
    run(closed_loop(server.port, requests * 10, connections=16))
    before = server.memory()
    tally = run(closed_loop(server.port, requests * 40, connections=16))
    assert tally.statuses.keys() == {200, 404, 422}
    assert server.memory() - before < 10  # megabytes, for 2,400 requests


@pytest.mark.slow
def test_hostile_requests_are_refused_in_few_words_and_change_nothing(kept: Path, tmp_path: Path) -> None:
    with guarded_serve(kept, tmp_path, *PATIENT) as server:
        before = server.pids()
        said = attacked(server, corpus())
        assert not said, "\n".join(said)
        assert server.pids() == before
        assert "raceback" not in server.log.read_text()


@pytest.mark.slow
def test_what_is_too_much_is_refused_and_nothing_is_lost(kept: Path, tmp_path: Path) -> None:
    refused: list[Answer] = []
    with serving(kept, tmp_path, "--deadline-ms", "60000", "--queue", "4") as server:
        tally = run(
            closed_loop(
                server.port,
                QUESTIONS * 20,
                connections=64,
                look=lambda number, answer: refused.append(answer) if answer.status == 503 else None,
            )
        )
        due = arrivals(rate=3000, seconds=0.5)
        flood = run(open_loop(server.port, QUESTIONS, due, connections=64))
    assert tally.statuses.keys() == {200, 503}
    assert tally.statuses.total() == 20 * len(TEXTS)
    assert all(answer.header("retry-after") == "1" and not answer.closes for answer in refused)
    assert flood.statuses.keys() <= {200, 503}
    assert flood.statuses.total() + flood.unsent == len(due)
    assert tally.lost == flood.lost == 0


@pytest.mark.slow
def test_a_stop_under_load_loses_nothing_and_ends_well(kept: Path, tmp_path: Path) -> None:
    with serving(kept, tmp_path, *PATIENT) as server:
        found = run(stopped(server, QUESTIONS))
    assert found.code == 0
    assert found.lost == 0
    assert found.statuses.keys() == {200}


@pytest.mark.slow
def test_models_are_exchanged_under_load_and_broken_ones_refused(kept: Path, tmp_path: Path) -> None:
    versions = two_versions(kept / "packed", tmp_path, TEXTS)
    put(versions[0].folder, tmp_path / "served")
    answers = Answers({one.version: one for one in versions})
    with serving(tmp_path / "served", tmp_path, *PATIENT) as server:
        swapper = Swapper(server, tmp_path / "served", versions)
        tally, swapped = run(under_load(server, swapper, answers, 2 * len(SPOILS)))
    assert (swapped.taken, swapped.refused) == (len(SPOILS), len(SPOILS))
    assert tally.statuses.keys() == {200}
    assert (answers.wrong, tally.lost) == (0, 0)
    assert answers.right.keys() == {one.version for one in versions}


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced_while_others_answer(kept: Path, tmp_path: Path) -> None:
    with serving(kept, tmp_path, *PATIENT, "--workers", "2") as server:
        main, *_ = server.pids()
        for _ in range(3):
            before = set(workers_of(main))
            os.kill(min(before), signal.SIGKILL)
            becomes(lambda before=before: len(set(workers_of(main)) - before) == 1 and len(workers_of(main)) == 2)
            becomes(lambda: server.ready() is not None)
        tally = run(closed_loop(server.port, QUESTIONS, connections=8))
        assert tally.statuses == {200: len(QUESTIONS)}
        assert server.process.poll() is None
        orphans = workers_of(main)
        os.kill(main, signal.SIGKILL)
        becomes(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))


def workers_of(main: int) -> list[int]:
    return [pid for pid in tree_of(main) if pid != main]


def becomes(true: Callable[[], bool]) -> None:
    end = monotonic() + 60
    while not true():
        assert monotonic() < end
        sleep(0.05)


def test_versions_that_are_exchanged_have_no_answer_in_common(kept: Path, tmp_path: Path) -> None:
    """Or a mixed answer could pass for one of theirs."""
    one, other = two_versions(kept / "packed", tmp_path, TEXTS)
    assert not any(map(same, one.answers, other.answers))


def test_answers_to_others_are_seen(kept: Path) -> None:
    known = Known.of(kept / "packed", TEXTS)
    comparison, own = Comparison(known), known.answers[0]
    other = next(answer for answer in known.answers if not same(answer, own))
    comparison.look(0, answer_with(known.version, own, "request-0"))
    assert comparison.wrong == 0
    comparison.look(0, answer_with(known.version, other, "request-0"))
    comparison.look(0, answer_with(known.version, own[:-1], "request-0"))
    comparison.look(0, answer_with(known.version, own, "request-1"))
    comparison.look(0, answer_with("another", own, "request-0"))
    assert comparison.wrong == 4


def answer_with(version: str, said: Said, request_id: str) -> Answer:
    predictions = [{"label": label, "score": score} for label, score in said]
    body = json.dumps({"model": version, "answers": [{"predictions": predictions}]})
    return Answer(200, f"HTTP/1.1 200 OK\r\nx-request-id: {request_id}".encode(), body.encode())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answers_are_found_in_bytes_however_they_come(size: int) -> None:
    sent = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        b"2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\n"
    )
    received, found = b"", []
    for place in range(0, len(sent), size):
        received += sent[place : place + size]
        while one := first_answer(received):
            found.append((one[0].status, one[0].body, one[0].closes))
            received = received[one[1] :]
    assert found == [(200, b"abc", False), (404, b"def", True)]
    assert received == b""
