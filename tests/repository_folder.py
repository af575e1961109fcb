"""A folder as the Extreme Classification Repository publishes its data sets, small and with a known answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Split
from tests.planted import planted_texts


def write_repository(folder: Path, *, num_labels: int = 40, num_texts: int = 300, raw: bool = True) -> Path:
    """Write raw texts (unless not `raw`), sparse features with their names, labels, label features and filters."""
    corpus = planted_texts(num_labels=num_labels, num_texts=num_texts, with_label_texts=True)
    label_texts = list(corpus.labels.texts or ())
    words = sorted({word for text in (*_texts(corpus, "train"), *label_texts) for word in text.split()})
    folder.mkdir(parents=True)
    for name, split in {"trn": corpus.split("train"), "tst": corpus.split("test")}.items():
        write_matrix(folder / f"{name}_X_Xf.txt", _bags(list(split.texts or ()), words))
        write_matrix(folder / f"{name}_X_Y.txt", split.labels)
        role = {"trn": "train", "tst": "test"}[name]
        (folder / f"filter_labels_{role}.txt").write_text(f"0 {split.labels.indices[0]}\n")
        if raw:
            _write_records(folder / f"{name}.json.gz", split)
    write_matrix(folder / "Yf.txt", _bags(label_texts, words))
    (folder / "Xf.txt").write_text("".join(f"{word}\n" for word in words), "latin-1")
    if raw:
        lines = [json.dumps({"uid": f"B{label}", "title": text}) for label, text in enumerate(label_texts)]
        (folder / "lbl.json.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


def write_vectors(path: Path, folder: Path, dim: int = 16) -> Path:
    """Write a vector for every feature of such a folder."""
    generator = np.random.default_rng(0)
    words = (folder / "Xf.txt").read_text("latin-1").split()
    rows = generator.normal(size=(len(words), dim)).round(3)
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)))
    return path


def _texts(corpus: Corpus, split: str) -> list[str]:
    return list(corpus.split(split).texts or ())


def _bags(texts: list[str], words: list[str]) -> csr_array:
    number = {word: i for i, word in enumerate(words)}
    rows = np.zeros((len(texts), len(words)), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            rows[row, number.get(word, 0)] += 1
    return csr_array(rows)


def write_matrix(path: Path, matrix: csr_array) -> None:
    rows = [
        " ".join(f"{column}:{float(value)!r}" for column, value in zip(row.indices, row.data, strict=True))
        for row in (matrix[[i]] for i in range(matrix.shape[0]))
    ]
    path.write_text("\n".join([f"{matrix.shape[0]} {matrix.shape[1]}", *rows]) + "\n")


def _write_records(path: Path, split: Split) -> None:
    labels = [split.labels[[row]].indices.tolist() for row in range(len(split))]
    records = [
        json.dumps({"uid": f"A{row}", "title": text, "target_ind": own, "target_rel": [1.0] * len(own)})
        for row, (text, own) in enumerate(zip(split.texts or (), labels, strict=True))
    ]
    path.write_bytes(gzip.compress("\n".join(records).encode()))
