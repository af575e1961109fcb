"""Vocabularies in SKOS (Turtle, RDF/XML, N-Triples): concepts as labels, with their names and broader concepts.

It takes rdflib. JSON-LD is not read: a file of it may make its reader fetch addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax import SAXException

from laconic.data.formats.assemble import LabelRow
from laconic.data.formats.lines import contents
from laconic.data.formats.records import excerpt
from laconic.errors import DataError, UserError, missing_package

_FORMS = {"ttl": "turtle", "rdf": "xml", "xml": "xml", "owl": "xml", "skos": "xml", "nt": "nt"}
ENDINGS = tuple(_FORMS)
_USUAL = ("", "en")  # languages that come first, where none are asked for; "" has names without a language
Names = Mapping[str, Sequence[str]]  # by language


def form_of(path: Path) -> str | None:
    """Return rdflib's name of the format that a file's ending tells; None: it is not RDF."""
    return _FORMS.get(path.name.lower().removesuffix(".gz").rpartition(".")[2])


def label_rows(path: Path, languages: Sequence[str] = ()) -> list[LabelRow]:
    """Read all concepts that are not deprecated, in the order of their addresses."""
    graph = _graph(path)
    from rdflib.namespace import OWL, RDF, SKOS

    concepts = {one for one in graph.subjects(RDF.type, SKOS.Concept) if not _is_true(graph.value(one, OWL.deprecated))}
    if not concepts:
        raise DataError(f"{path}: there is no skos:Concept here; give a vocabulary in SKOS")
    rows = []
    for concept in sorted(concepts):
        others = (set(graph.objects(concept, SKOS.broader)) | set(graph.subjects(SKOS.narrower, concept))) & concepts
        broader = sorted(str(one) for one in others - {concept})
        text, names = text_and_others(_preferred(graph, concept), _names(graph, concept, SKOS.altLabel), languages)
        rows.append(LabelRow(f"{path}: <{concept}>", str(concept), text, names, broader))
    return rows


def text_and_others(preferred: Names, alternative: Names, languages: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return a label's text, its preferred name in the first language that has one, and all other names of it."""
    wanted = list(languages) or [*_USUAL, *sorted({*preferred, *alternative} - {*_USUAL})]
    first = [name for language in wanted for name in preferred.get(language, ())]
    others = [name for language in wanted for name in alternative.get(language, ())]
    every = list(dict.fromkeys([*first, *others]))
    return (every[0], every[1:]) if every else (None, [])


def _preferred(graph: Any, concept: Any) -> Names:
    from rdflib.namespace import RDFS, SKOS

    return _names(graph, concept, SKOS.prefLabel) or _names(graph, concept, RDFS.label)


def _names(graph: Any, concept: Any, kind: Any) -> dict[str, list[str]]:
    """Return the names of that kind by language, sorted."""
    found: dict[str, list[str]] = {}
    for name in sorted(graph.objects(concept, kind)):
        found.setdefault(getattr(name, "language", None) or "", []).append(" ".join(str(name).split()))
    return found


def _graph(path: Path) -> Any:
    try:
        import rdflib
        from rdflib.exceptions import ParserError
    except ModuleNotFoundError as error:
        raise UserError(missing_package(f"{path}: a vocabulary in SKOS", error) or str(error)) from None
    graph = rdflib.Graph()
    try:
        # SyntaxError is what the parsers of Turtle and N-Triples raise.
        graph.parse(data=contents(path), format=form_of(path))
    except (SAXException, SyntaxError, ParserError, ValueError) as error:
        said = excerpt(" ".join(str(error).split()), 120)
        raise DataError(f"{path}: this is not whole {_named(path)} ({said}); write it again") from None
    return graph


def _named(path: Path) -> str:
    return {"turtle": "Turtle", "xml": "RDF/XML", "nt": "N-Triples"}[form_of(path) or "xml"]


def _is_true(value: Any) -> bool:
    return value is not None and str(value).lower() in ("true", "1")
