"""Give work to actors of Ray, each of which opens a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from laconic.bulk.ray_cluster import needs_of
from laconic.errors import DataError, UserError

_RETRIES = 10  # of work whose actor was killed
W = TypeVar("W")


class Worker(Protocol):
    """A class whose instances work. Errors of the user are returned: Ray would wrap them, and try again."""

    def open(self) -> UserError | None:
        """Open what the work needs."""

    def work(self, *given: Any) -> Any:
        """Return the result of some work, or an error of the user."""


def start_actors(worker: type[Worker], given: Sequence[Any], count: int, device: str) -> list[Any]:
    """Start actors; one that is killed is started again and gets its work once more."""
    import ray

    options = {**needs_of(device, count), "max_restarts": -1, "max_task_retries": _RETRIES}
    actor = ray.remote(worker).options(**options)
    return [actor.remote(*given) for _ in range(count)]


def results(actors: Sequence[Any], works: Sequence[W], *shared: Any) -> Iterator[tuple[W, Any]]:
    """Yield each work with its result as it is done, and end the actors. `shared` goes to them with every work.

    An actor gets work when it is free; one that never starts, as for want of machines, gets none.
    """
    import ray

    queue, left = iter(works), len(works)
    waiting: dict[Any, tuple[Any, W | None]] = {actor.open.remote(): (actor, None) for actor in actors}
    try:
        while left:
            (done,), _ = ray.wait([*waiting])
            actor, work = waiting.pop(done)
            found = _result(done, work)
            if work is not None:
                left -= 1
                yield work, found
            following = next(queue, None)
            if following is not None:
                waiting[actor.work.remote(following, *shared)] = actor, following
    finally:
        for actor in actors:
            ray.kill(actor)


def _result(done: Any, work: Any) -> Any:
    import ray

    try:
        found = ray.get(done)
    except ray.exceptions.RayError as error:
        what = "a process could not be started" if work is None else f"{work}: its process ended too often"
        raise DataError(f"{what} ({error}); run the command again, or look at Ray's logs") from None
    if isinstance(found, UserError):
        raise found
    return found
