"""A model with a question: from texts to Arrow columns of labels and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from laconic.bulk.arrow_labels import AnswerColumns, LabelColumns
from laconic.config import Settings
from laconic.data.attributes import Where
from laconic.packed.folder import is_packed
from laconic.predict.interface import TextPredictor
from laconic.predict.label_filter import LabelFilter
from laconic.predict.load import USUAL, Speed, on_cpu, open_folder, packed_of
from laconic.predict.min_score import Limits, MinScore, places
from laconic.storage.manifest import PACKED


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a model about every text. Plain values, which travel to other processes."""

    column: str = ""  # of the texts, or several; empty: the usual ones
    k: int | None = None
    min_score: MinScore = None
    allow: Sequence[str] | None = None
    block: Sequence[str] | None = None
    where: Where | None = None
    device: str = "auto"
    settings: Settings = field(default_factory=dict)
    speed: Speed = USUAL


class Labeller:
    """Answers texts with the labels that a question asks for."""

    def __init__(self, predictor: TextPredictor, question: Question) -> None:
        self.fields, self.column = predictor.fields, question.column
        self._predictor = predictor
        self._k = places(question.k, question.min_score, predictor.threshold)
        self._permitted = predictor.permitted(LabelFilter(question.allow, question.block, question.where))
        limits = Limits.of(question.min_score, predictor.threshold, predictor.find)
        self._columns = LabelColumns(predictor.names, limits)

    def answers(self, texts: Sequence[str]) -> AnswerColumns:
        """Return the columns of answers to texts."""
        return self._columns.of(self._predictor.rank_texts(texts, self._k, self._permitted))


def settled(question: Question, model: Path) -> Question:
    """Return a question whose device is cpu or cuda: where it was left open, it is that of this machine.

    A GPU that was asked for may be on other machines alone.
    """
    cpu = question.device != "cuda" and (is_packed(model) or on_cpu(question.device))
    return replace(question, device="cpu" if cpu else "cuda")


def answering_folder(model: Path, question: Question, *, verify: bool = True) -> Path:
    """Return the folder that answers: on a CPU the packed model, if there is one that belongs to the model."""
    whole = is_packed(model) or bool(question.settings) or question.device == "cuda" or not on_cpu(question.device)
    return model if whole or packed_of(model, verify=verify) is None else model / PACKED


def check_question(folder: Path, question: Question, *, verify: bool = True) -> str:
    """Refuse a question that this model cannot answer, and a damaged folder; return the fields that the model reads.

    No GPU is needed for it.
    """
    labeller = open_labeller(folder, replace(question, device="cpu"), verify=verify)
    labeller.answers([""])
    return labeller.fields


def open_labeller(folder: Path, question: Question, *, verify: bool = True) -> Labeller:
    """Open exactly this folder, a model or a packed one, for a question."""
    return Labeller(open_predictor(folder, question, verify=verify), question)


def open_predictor(folder: Path, question: Question, *, verify: bool = True) -> TextPredictor:
    """Open exactly this folder; a packed model answers with one thread."""
    speed = replace(question.speed, threads=1) if is_packed(folder) else question.speed
    return open_folder(folder, device=question.device, settings=question.settings, speed=speed, verify=verify)
