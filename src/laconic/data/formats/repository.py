"""Read a folder of the Extreme Classification Repository, in every form its datasets were published in.

    texts      trn.json (title, target_ind, target_rel) with lbl.json (uid, title) · trn_X.txt with Y.txt, a text a line
    features   trn_X_Xf.txt | .npz | .npy · trn_X.npy · Yf.txt or lbl_X_Xf.txt for the labels, Xf.txt names the columns
    labels     trn_X_Y.txt | .npz
    both       train.txt, the old single file (also NAME_train.txt)
    left out   filter_labels_train.txt or trn_filter_labels.txt, "text label" a line

The same for tst and val. Any of them may be gzip'd, with or without `.gz` in its name, and what is not there is done
without: labels alone are enough to score predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Features, Labels, Split, pair_matrix
from laconic.data.formats.assemble import Gathered
from laconic.data.formats.bounds import check_announced
from laconic.data.formats.lines import contents, lines, opened
from laconic.data.formats.matrices import check_columns, read_matrix
from laconic.data.formats.records import excerpt
from laconic.data.formats.repository_json import numbered, read_labels, read_texts, unique
from laconic.data.formats.sparse_text import read_labelled
from laconic.errors import DataError
from laconic.units import counted

_BEGINNINGS = {"train": ("trn",), "valid": ("val", "vld"), "test": ("tst",)}  # of the names of a split's files
_MISSPELT = {"test": "filter_labels_text.txt"}  # as NGAME's instructions have it


def recognises(folder: Path) -> bool:
    """Tell whether the folder has texts, features or labels under the repository's names."""
    return folder.is_dir() and bool(_sources(_Files.of(folder)))


def read(folder: Path) -> Corpus:
    files, sizes = _Files.of(folder), _Sizes()
    sources = _sources(files)
    _refuse_without_labels(folder, sources)
    listed = _listed(files, sizes)
    matrices = {name: _matrices(source, sizes) for name, source in sources.items()}
    raw = {name: _raw(source.records, sizes) for name, source in sources.items() if source.records}
    if "labels" not in sizes:
        found = max(max(part.labels, default=-1) + 1 for part in raw.values())
        check_announced(found, sum(len(part.labels) for part in raw.values()), str(folder), "label")
        sizes.agree("labels", found, folder)
    splits = {name: _split(source, matrices[name], raw.get(name), sizes) for name, source in sources.items()}
    return Corpus(
        splits=splits,
        labels=_with_features(listed or numbered(sizes.number("labels")), files, sizes),
        source=str(folder),
        feature_names=_feature_names(files, sizes),
        notes=[note for name in splits for note in _notes(sources[name], splits[name], raw.get(name))],
    )


def recognises_file(path: Path) -> bool:
    """Tell by its header whether this is an old single file."""
    with opened(path) as file:
        return _OLD_HEADER.match(file.read(100)) is not None


def read_file(path: Path) -> Corpus:
    """Read an old single file as a corpus of one split."""
    labels, features = read_labelled(path)
    check_columns(labels, path, "label")
    check_columns(features, path, "feature")
    splits = {"all": Split(labels=labels, features=features)}
    return Corpus(splits=splits, labels=numbered(labels.shape[1]), source=str(path))


_OLD_HEADER = re.compile(rb"(\xef\xbb\xbf)?[ \t]*\d+[ \t]+\d+[ \t]+\d+[ \t\r]*(\n|\Z)")


class _Files(NamedTuple):
    """The folder's files by name, without `.gz`."""

    folder: Path
    paths: dict[str, Path]

    @classmethod
    def of(cls, folder: Path) -> _Files:
        # In reverse, so that a plain file takes the place of its gzip'd copy.
        found = sorted((path for path in folder.iterdir() if path.is_file()), reverse=True)
        return cls(folder, {path.name.removesuffix(".gz"): path for path in found})

    def find(self, *names: str) -> Path | None:
        """Return the first of these files that exists."""
        return next((self.paths[name] for name in names if name in self.paths), None)

    def old(self, split: str) -> Path | None:
        """Return the split's old single file."""
        ending = f"{split}.txt"
        named = [path for name, path in self.paths.items() if name == ending or name.endswith(f"_{ending}")]
        found = [path for path in named if recognises_file(path)]
        if len(found) > 1:
            raise DataError(f"{self.folder}: both {found[0].name} and {found[1].name} are there; keep one of them")
        return found[0] if found else None


class _Source(NamedTuple):
    """The files of one split."""

    name: str
    labels: Path | None
    features: Path | None
    texts: Path | None
    records: Path | None
    old: Path | None
    leave_out: Path | None


def _sources(files: _Files) -> dict[str, _Source]:
    """Return the splits of which there is anything but a filter."""
    found = {name: _source(files, name) for name in _BEGINNINGS}
    return {name: source for name, source in found.items() if any(source[1:-1])}


def _source(files: _Files, name: str) -> _Source:
    def find(*endings: str) -> Path | None:
        return files.find(*(beginning + ending for beginning in _BEGINNINGS[name] for ending in endings))

    labels = find("_X_Y.txt", "_X_Y.npz")
    features = find("_X_Xf.txt", "_X_Xf.npz", "_X_Xf.npy", "_X.npy", "_X.npz")
    return _Source(
        name=name,
        labels=labels,
        features=features,
        texts=find("_X.txt"),
        records=find(".json"),
        old=None if labels and features else files.old(name),
        leave_out=find("_filter_labels.txt")
        or files.find(f"filter_labels_{name}.txt", *([_MISSPELT[name]] if name in _MISSPELT else [])),
    )


def _refuse_without_labels(folder: Path, sources: dict[str, _Source]) -> None:
    if not sources:
        raise DataError(f"{folder}: none of trn_X_Y.txt, trn.json and train.txt is here; is it the right folder?")
    for name, source in sources.items():
        if not (source.labels or source.records or source.old):
            raise DataError(
                f"{source.features or source.texts}: its labels are missing; "
                f"put {_BEGINNINGS[name][0]}_X_Y.txt beside it, or take it away"
            )


class _Sizes:
    """The number of texts, labels and features by the first file that tells it; a contradicting file is refused."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, Path]] = {}

    def agree(self, what: str, number: int, path: Path) -> None:
        first, where = self._first.setdefault(what, (number, path))
        if number != first:
            raise DataError(f"{path} has {number} {what}, but {where} has {first}; they are not of the same data")

    def number(self, what: str) -> int:
        return self._first[what][0]

    def __contains__(self, what: str) -> bool:
        return what in self._first


def _listed(files: _Files, sizes: _Sizes) -> Labels | None:
    """Read the labels of lbl.json, or else of Y.txt; None without either."""
    if path := files.find("lbl.json"):
        labels = read_labels(path)
    elif path := files.find("Y.txt"):
        texts = [line for _, line in lines(path)]
        labels = Labels(names=unique(texts), texts=texts)
    else:
        return None
    sizes.agree("labels", len(labels), path)
    return labels


class _Matrices(NamedTuple):
    """The features and labels of one split."""

    labels: csr_array | None
    features: Features | None


def _matrices(source: _Source, sizes: _Sizes) -> _Matrices:
    labels, features = read_labelled(source.old) if source.old else (None, None)
    if source.labels:
        labels = _label_matrix(source.labels)
    if source.features:
        features = read_matrix(source.features, column="feature")
    for matrix, path, columns in (
        (labels, source.labels or source.old, "labels"),
        (features, source.features or source.old, "features" if isinstance(features, csr_array) else "dimensions"),
    ):
        if matrix is not None and path is not None:
            check_columns(matrix, path, columns.removesuffix("s"))
            sizes.agree(f"{source.name} texts", matrix.shape[0], path)
            sizes.agree(columns, matrix.shape[1], path)
    return _Matrices(labels, features)


def _label_matrix(path: Path) -> csr_array:
    matrix = _sparse_matrix(path, "label")
    negative = np.flatnonzero(matrix.data < 0)
    if len(negative):
        row = int(np.searchsorted(matrix.indptr, negative[0], side="right")) - 1
        label, weight = matrix.indices[negative[0]], matrix.data[negative[0]]
        raise DataError(f"{path}: row {row}: label {label} has the weight {weight}, which must not be negative")
    matrix.eliminate_zeros()
    return matrix


def _sparse_matrix(path: Path, column: str) -> csr_array:
    matrix = read_matrix(path, column=column)
    if not isinstance(matrix, csr_array):
        raise DataError(f"{path}: a dense array, where a sparse matrix is needed; save it with scipy.sparse.save_npz")
    return matrix


def _raw(path: Path, sizes: _Sizes) -> Gathered:
    return read_texts(path, sizes.number("labels") if "labels" in sizes else None)


def _split(source: _Source, matrices: _Matrices, raw: Gathered | None, sizes: _Sizes) -> Split:
    labels, texts = matrices.labels, None
    if raw is not None and source.records:
        sizes.agree(f"{source.name} texts", len(raw.texts), source.records)
        texts = [text for text in raw.texts if text is not None]  # every one has a title
        labels = raw.matrix(sizes.number("labels")) if labels is None else labels
    if source.texts:
        texts = [line for _, line in lines(source.texts)]
        sizes.agree(f"{source.name} texts", len(texts), source.texts)
    assert labels is not None  # _refuse_without_labels
    return Split(
        labels=labels,
        texts=texts,
        features=matrices.features,
        ids=raw.ids if raw is not None and any(raw.ids) else None,
        leave_out=_left_out(source.leave_out, labels.shape) if source.leave_out else None,
    )


def _left_out(path: Path, shape: tuple[int, int]) -> csr_array:
    numbered_lines = lines(path, may_be_empty=True)
    pairs = [_pair(line, shape, f"{path}:{number}") for number, line in numbered_lines if line.strip()]
    return pair_matrix(pairs, shape)


def _pair(line: str, shape: tuple[int, int], place: str) -> tuple[int, int]:
    numbers = line.split()
    if len(numbers) != 2 or not all(re.fullmatch(r"-?[0-9]{1,18}", number) for number in numbers):
        raise DataError(f"{place}: the line is '{excerpt(line)}', where two numbers are needed: text label")
    pair = int(numbers[0]), int(numbers[1])
    for what, number, size in zip(("text", "label"), pair, shape, strict=True):
        if not 0 <= number < size:
            raise DataError(f"{place}: {what} {number} is outside 0..{size - 1}; is this the filter of another split?")
    return pair


def _with_features(labels: Labels, files: _Files, sizes: _Sizes) -> Labels:
    path = files.find("Yf.txt", "Yf.npz", "lbl_X_Xf.txt", "lbl_X_Xf.npz")
    if path is None:
        return labels
    features = _sparse_matrix(path, "feature")
    check_columns(features, path, "feature")
    sizes.agree("labels", features.shape[0], path)
    sizes.agree("features", features.shape[1], path)
    return replace(labels, features=features)


def _feature_names(files: _Files, sizes: _Sizes) -> list[str] | None:
    path = files.find("Xf.txt")
    if path is None:
        return None
    # In latin-1 every byte is a character, and some would end a line for `splitlines`.
    names = [name.removesuffix("\r") for name in contents(path).decode("latin-1").removesuffix("\n").split("\n")]
    sizes.agree("features", len(names), path)
    return names


def _notes(source: _Source, split: Split, raw: Gathered | None) -> Iterator[str]:
    bare = int(np.count_nonzero(np.diff(split.labels.indptr) == 0))
    if bare:
        yield f"{source.name}: {counted(bare, 'text has', 'texts have')} no label, of {len(split):,}"
    if raw is None:
        return
    if raw.repeated:
        yield f"{source.name}: {counted(raw.repeated, 'repeated label')} ignored"
    if source.labels and (split.labels.astype(bool) != raw.matrix(split.labels.shape[1]).astype(bool)).nnz:
        yield f"{source.name}: {source.records} and {source.labels} differ in labels; the latter's are used"
