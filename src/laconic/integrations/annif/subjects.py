"""The names of a project's subjects as texts of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rdflib import URIRef
from rdflib.namespace import SKOS


def label_texts(project: Any, *, alternatives: bool) -> dict[str, str]:
    """Return the text of each subject by its address: its name in the project's language and, if wanted, others."""
    language = project.vocab_lang
    graph = project.vocab.as_graph() if alternatives else None
    return {
        subject.uri: "; ".join([subject.labels[language] or "", *_others(graph, subject.uri, language)])
        for _, subject in project.subjects.active
    }


def _others(graph: Any, address: str, language: str) -> Iterator[str]:
    """Yield the alternative names of a subject in that language, sorted."""
    if graph is not None:
        found = graph.objects(URIRef(address), SKOS.altLabel)
        yield from sorted({str(name) for name in found if name.language == language})
