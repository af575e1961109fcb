"""Evaluates our models and other libraries on the same texts: accuracy, training time, size and latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from laconic.analysis.bench import AS_IT_IS, Config, packed_folder, timing_of
from laconic.analysis.peers.exam import Exam
from laconic.analysis.peers.libraries import peer_at
from laconic.analysis.peers.process import Questions, measured, size_of, write_work
from laconic.data.catalogue import Propensity
from laconic.data.corpus import Corpus
from laconic.errors import DataError, UserError
from laconic.packed.folder import is_packed, open_packed
from laconic.predict.load import packed_predictor
from laconic.storage.manifest import json_object

OnEntry = Callable[[str, int, int], None]  # whose turn it is, how many are done, and of how many


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of the table; without metrics if a peer failed."""

    name: str
    how: str  # the command that trained it, or how a library is asked
    figures: Mapping[str, float] = field(default_factory=dict)  # in percent
    seconds: float | None = None  # of training; None: nobody knows
    size: int | None = None  # bytes on disk of what answers
    p50: float | None = None  # milliseconds of one text on one thread, from raw text to label names
    failure: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def contest(
    models: Sequence[Path],
    places: Sequence[str],
    corpus: Corpus,
    split_name: str,
    config: Config,
    on_entry: OnEntry = lambda name, done, count: None,
) -> list[Entry]:
    """Evaluate our models, then train and evaluate each peer; a peer that fails does not stop the others."""
    corpus = with_constants(corpus, models)
    exam, count = Exam.of(corpus, split_name, config.texts), len(models) + len(places)
    entries = list[Entry]()
    for model in models:
        on_entry(str(model), len(entries), count)
        entries.append(_of_model(model, corpus, exam, config))
    with TemporaryDirectory(prefix="laconic-") as folder:
        questions = Questions(texts=exam.texts, names=exam.names, places=exam.places, k=config.k, singly=config.singly)
        write_work(Path(folder), exam.examples, questions)
        for place in places:
            on_entry(peer_at(place).name, len(entries), count)
            entries.append(_of_peer(place, Path(folder), exam, len(entries)))
    return entries


def with_constants(corpus: Corpus, models: Sequence[Path]) -> Corpus:
    """Return the data with the first model's propensity constants, where the user gave none."""
    if corpus.propensity is not None or not models:
        return corpus
    match json_object(models[0] / ("packed.json" if is_packed(models[0]) else "model.json")):
        case {"propensity": {"a": float(a), "b": float(b)}}:
            return replace(corpus, propensity=Propensity(a=a, b=b))
    return corpus


def _of_model(model: Path, corpus: Corpus, exam: Exam, config: Config) -> Entry:
    """Evaluate the packed version of a model at its own search width."""
    with packed_folder(model, corpus) as folder:
        packed = open_packed(folder)
        if packed.vocabulary is None:
            raise DataError(f"{model} is asked with raw texts, but it reads features")
        answers = packed_predictor(packed).predict(exam.texts, exam.places)
        command, seconds = _training(packed.facts if is_packed(model) else json_object(model / "model.json"))
        return Entry(
            name=f"{model} ({packed.facts['method']})",
            how=command or f"a packed model that was trained by {packed.facts['method']}",
            figures=exam.figures_of_names([[one.label for one in answer] for answer in answers]),
            seconds=seconds,
            size=size_of(folder),
            p50=timing_of(folder, exam.texts, AS_IT_IS, config).p50,
        )


def _training(facts: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the command that trained a model and its duration, as far as they are recorded."""
    command, seconds = facts.get("command"), facts.get("seconds")
    return (
        command if isinstance(command, str) else "",
        float(seconds) if isinstance(seconds, int | float) else None,
    )


def _of_peer(place: str, folder: Path, exam: Exam, number: int) -> Entry:
    peer = peer_at(place)
    try:
        answers = measured(place, folder, number)
        return Entry(
            name=peer.name,
            how=peer.how,
            figures=exam.figures(answers.labels),
            seconds=answers.seconds,
            size=answers.size,
            p50=answers.p50,
        )
    except UserError as error:  # it ended badly, or answered with what cannot be judged
        return Entry(name=peer.name, how=peer.how, failure=str(error))
