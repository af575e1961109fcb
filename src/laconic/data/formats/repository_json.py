"""Read the repository's raw files: `trn.json`, with titles and label numbers, and `lbl.json`.

A record's keys are uid, title, content, target_ind (label numbers) and target_rel (their weights). Titles are the
texts; `content`, which is long, is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from laconic.data.corpus import Labels
from laconic.data.formats.assemble import LARGEST, Gathered
from laconic.data.formats.records import Record, integers_of, numbers_of, records, text, text_of
from laconic.errors import DataError
from laconic.units import counted

_MOST_LABELS = 2**31 - 1


def read_texts(path: Path, num_labels: int | None) -> Gathered:
    """Read the records of a split; `num_labels` None: the number of labels is not known yet."""
    found = Gathered()
    for place, record in _placed(path):
        labels = _targets(record, _MOST_LABELS if num_labels is None else num_labels, place)
        found.add(text_of(record, "title", place), _uid(record, place), labels)
    return found


def read_labels(path: Path) -> Labels:
    """Read the labels by uid, with their titles."""
    rows = [(_uid(record, place) or "", text_of(record, "title", place)) for place, record in _placed(path)]
    return Labels(names=unique([uid for uid, _ in rows]), texts=[title for _, title in rows])


def unique(names: Sequence[str]) -> list[str]:
    """Make names unique by appending the label's number to repeats; a label without a name becomes its number."""
    taken: dict[str, None] = {}  # in the order of entry
    for number, name in enumerate(names):
        mine = name if name.strip() else str(number)
        while mine in taken:
            mine += f" #{number}"
        taken[mine] = None
    return list(taken)


def numbered(count: int) -> Labels:
    """Return labels that are known by their numbers alone."""
    return Labels(names=[str(number) for number in range(count)])


def _placed(path: Path) -> Iterator[tuple[str, Record]]:
    return ((f"{path}:{line}", record) for line, record in records(path))


def _targets(record: Record, limit: int, place: str) -> list[tuple[int, float]]:
    """Return the record's labels with their weights."""
    labels = integers_of(record, "target_ind", place)
    weights = numbers_of(record, "target_rel", place) if "target_rel" in record else [1.0] * len(labels)
    if len(labels) != len(weights):
        raise DataError(
            f'{place}: {counted(len(labels), "label")} in "target_ind", but {counted(len(weights), "weight")} in '
            '"target_rel"; give one for each'
        )
    for label, weight in zip(labels, weights, strict=True):
        if not 0 <= label < limit:
            raise DataError(f'{place}: "target_ind": label {label} is outside 0..{limit - 1}, the labels there are')
        if not 0 <= weight <= LARGEST:
            raise DataError(f'{place}: "target_rel": the weight {weight} is not in 0..{LARGEST:.3g}; mend it')
    return [*zip(labels, weights, strict=True)]


def _uid(record: Record, place: str) -> str | None:
    uid = record.get("uid")
    if type(uid) is int:
        return str(uid)
    return None if uid is None else text(uid, f'{place}: "uid"')
