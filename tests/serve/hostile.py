"""Requests that no honest client sends, each with the answers that are allowed.

Whatever it is: nothing of it comes back, a refusal is short, and the service is as ready afterwards as before.
"""

from __future__ import annotations

from tests.serve.hostile_bodies import bodies
from tests.serve.hostile_case import Hostile
from tests.serve.hostile_wire import as_question, requests


def corpus() -> list[Hostile]:
    return [*(as_question(name, body, allowed) for name, (body, allowed) in bodies().items()), *requests()]
