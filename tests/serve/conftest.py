"""A model that is served, opened once for all tests, and sites that ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laconic.predict.load import Speed
from laconic.serve.model import Served
from laconic.serve.settings import Serving
from laconic.serve.worker import Service
from tests.serve.asking import Site
from tests.serve.small import write


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that nothing may change."""
    return write(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture(scope="session")
def served(kept: Path) -> Served:
    return Served(kept, Speed(threads=1))


@pytest.fixture
def site(served: Served) -> Iterator[Callable[..., Site]]:
    """Makes a site with the settings that are given."""
    made: list[Site] = []

    def make(served: Served = served, **settings: Any) -> Site:
        made.append(Site(Service(served, Serving(**settings))))
        return made[-1]

    yield make
    for one in made:
        one.service.batcher._thread.shutdown()
