import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split, self_pairs
from laconic.data.output import write_folder
from laconic.data.sources import read
from laconic.errors import UserError
from tests.variants import examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def splits(draw, labels, columns, kind):
    rows = draw(st.integers(1, 4))
    weights = st.sampled_from([0.0, 0.0, 1.0, 0.5, 2.25])
    size = rows * len(labels)
    matrix = np.array(draw(st.lists(weights, min_size=size, max_size=size)), dtype=np.float32).reshape(rows, -1)
    ids = draw(st.none() | st.lists(st.none() | st.sampled_from(labels.names) | TEXTS, min_size=rows, max_size=rows))
    if ids is not None and all(id is None for id in ids):
        ids = None
    left_out = csr_array(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(rows, -1))
    if ids is not None:
        left_out = left_out + self_pairs(ids, labels)
    dense = np.array(draw(st.lists(weights, min_size=rows * columns, max_size=rows * columns)), dtype=np.float32)
    dense = dense.reshape(rows, columns)
    features = {"text": None, "dense": dense}.get(kind, csr_array(dense))
    return Split(
        labels=csr_array(matrix),
        texts=draw(st.lists(TEXTS, min_size=rows, max_size=rows)) if "text" in kind else None,
        features=features,
        ids=ids,
        weights=np.array(draw(st.lists(weights, min_size=rows, max_size=rows)), dtype=np.float32),
        leave_out=left_out if left_out.nnz else None,
    )


@st.composite
def corpora(draw):
    names = draw(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4, unique=True))
    texts = draw(st.none() | st.lists(TEXTS, min_size=len(names), max_size=len(names)))
    labels = Labels(names=names, texts=texts)
    kind = draw(st.sampled_from(["text", "sparse", "dense", "text and sparse"]))
    both = {name: draw(splits(labels, 3, kind)) for name in ("train", "test")}
    return Corpus(splits=both, labels=labels, source="any")


def same(one, other):
    if one is None or other is None:
        return one is other
    if isinstance(one, csr_array):
        return one.shape == other.shape and (one != other).nnz == 0
    return np.array_equal(np.asarray(one), np.asarray(other))


@examples(80)
@given(corpus=corpora(), compress=st.booleans())
def test_a_corpus_that_is_written_and_read_is_the_same(corpus, compress):
    with tempfile.TemporaryDirectory() as temporary:
        write_folder(corpus, Path(temporary) / "folder", compress=compress)
        back = read(Path(temporary) / "folder")
    assert back.labels == corpus.labels
    for name, split in corpus.splits.items():
        for part, value in vars(split).items():
            assert same(value, getattr(back.splits[name], part)), part


def test_a_folder_that_is_there_is_not_touched(tmp_path):
    labels = Labels(names=["a"])
    corpus = Corpus(splits={"all": Split(labels=csr_array([[1.0]]), texts=["t"])}, labels=labels, source="x")
    with pytest.raises(UserError, match="this is there already"):
        write_folder(corpus, tmp_path)
    assert not list(tmp_path.iterdir())
    write_folder(corpus, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["labels.jsonl.gz", "train.jsonl.gz"]
