"""Write any corpus as a dataset folder in our own format (formats/jsonl.py); reading it gives an equal corpus."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, save_npz

from laconic.data.corpus import Corpus, Features, Labels, Split, self_pairs
from laconic.errors import UserError
from laconic.system.files import check_writable, replacing


def write_folder(corpus: Corpus, folder: Path, *, compress: bool = True) -> None:
    """Write a new dataset folder; an existing one is refused."""
    check_new(folder)
    with replacing(folder) as partial:
        for name, split in corpus.splits.items():
            split_name = "train" if name == "all" else name
            write_lines(partial / f"{split_name}.jsonl", lines_of(records(split, corpus.labels)), compress=compress)
            if split.features is not None:
                _write_features(partial / f"{split_name}_features", split.features)
        write_lines(partial / "labels.jsonl", lines_of(label_records(corpus.labels)), compress=compress)
        if corpus.labels.features is not None:
            _write_features(partial / "labels_features", corpus.labels.features)
        if corpus.feature_names is not None:
            (partial / "features.txt").write_text("".join(f"{name}\n" for name in corpus.feature_names), "utf-8")


def check_new(folder: Path) -> None:
    """Refuse a folder that is there, or that cannot be made."""
    check_writable(folder)
    if folder.exists():
        raise UserError(f"{folder}: this is there already; choose another name or remove it")


def records(split: Split, labels: Labels) -> Iterator[dict[str, Any]]:
    """Yield a record for each text; labels are written by name, so that people can read them."""
    left_out = _left_out_besides_ids(split, labels)
    for row in range(len(split)):
        numbers, values = _row(split.labels, row)
        record: dict[str, Any] = {}
        if split.ids is not None and split.ids[row] is not None:
            record["id"] = split.ids[row]
        if split.texts is not None:
            record["text"] = split.texts[row]
        record["labels"] = [labels.names[label] for label in numbers]
        if any(value != 1 for value in values):
            record["label_weights"] = values
        if split.weights is not None:
            record["weight"] = float(split.weights[row])
        if split.groups is not None and split.groups[row] is not None:
            record["group"] = split.groups[row]
        if left_out is not None and (more := _row(left_out, row)[0]):
            record["leave_out"] = [labels.names[label] for label in more]
        yield record


def _left_out_besides_ids(split: Split, labels: Labels) -> csr_array | None:
    if split.leave_out is None or split.ids is None:
        return split.leave_out
    more = split.leave_out > self_pairs(split.ids, labels)
    return csr_array(more)


def _row(matrix: csr_array, row: int) -> tuple[list[int], list[float | bool]]:
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    stored = matrix.data[part] != 0
    return matrix.indices[part][stored].tolist(), matrix.data[part][stored].tolist()


def label_records(labels: Labels) -> Iterator[dict[str, Any]]:
    """Yield a record for each label."""
    attributes = labels.attribute_values()
    for number, name in enumerate(labels.names):
        record: dict[str, Any] = {"id": name}
        if labels.texts is not None:
            record["text"] = labels.texts[number]
        if labels.alternatives is not None and labels.alternatives[number]:
            record["alternatives"] = list(labels.alternatives[number])
        if labels.broader is not None and (broader := _row(labels.broader, number)[0]):
            record["broader"] = [labels.names[other] for other in broader]
        for key, values in attributes[number].items():
            record[key] = values[0] if len(values) == 1 else values
        yield record


def lines_of(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield records as JSON Lines."""
    return (json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def write_lines(path: Path, lines: Iterable[bytes], *, compress: bool) -> None:
    """Write lines, or blocks of them, to a file, or gzip'd to one whose name ends in .gz."""
    if not compress:
        with path.open("wb") as file:
            file.writelines(lines)
        return
    # No name and no time inside, so that the same data gives the same bytes.
    with path.with_name(path.name + ".gz").open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.writelines(lines)


def _write_features(stem: Path, features: Features) -> None:
    if isinstance(features, csr_array):
        save_npz(stem.with_name(stem.name + ".npz"), features)
    else:
        np.save(stem.with_name(stem.name + ".npy"), features)
