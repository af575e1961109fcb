"""A part of a corpus is the same in all that is known of its texts."""

import numpy as np

from laconic.data.corpus import Corpus, Labels, Split, pair_matrix

SPLIT = Split(
    labels=pair_matrix([(row, row) for row in range(6)], (6, 6)),
    texts=[f"text {row}" for row in range(6)],
    ids=[None, "b", "c", "d", "e", "f"],
    weights=np.arange(6.0),
    leave_out=pair_matrix([(row, 5 - row) for row in range(6)], (6, 6)),
)
CORPUS = Corpus(splits={"test": SPLIT, "train": SPLIT}, labels=Labels(names=list("abcdef")), source="planted")


def test_rows_of_a_split_stay_together_in_their_order():
    some = SPLIT.rows(np.array([4, 0]))
    assert (some.texts, some.ids, some.weights.tolist()) == (["text 4", "text 0"], ["e", None], [4.0, 0.0])
    assert (some.labels.indices.tolist(), some.leave_out.indices.tolist()) == ([4, 0], [1, 5])
    assert some.features is None


def test_a_sample_is_of_one_split_by_chance_and_never_more_than_there_is():
    few = CORPUS.sampled("test", 3)
    assert list(few.splits) == ["test"]
    rows = [int(text.split()[1]) for text in few.split("test").texts]
    assert len(set(rows)) == 3
    assert rows == sorted(rows)
    assert rows == few.split("test").labels.indices.tolist()
    assert few.split("test").texts == CORPUS.sampled("test", 3).split("test").texts
    assert len({tuple(CORPUS.sampled("test", 3, seed).split("test").texts) for seed in range(9)}) > 1
    assert CORPUS.sampled("test", 99).split("test").texts == list(SPLIT.texts)
