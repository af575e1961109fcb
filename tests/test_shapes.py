"""Data made in the papers' shapes: what it promises to those who measure with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.shape_files import word, write
from benchmarks.shapes import OF_LABELS, PAPER_SHAPES, DataShape, make

from laconic.data import sources
from laconic.data.prepare import label_texts
from laconic.data.text import STOP_WORDS
from laconic.data.vocabulary import bags
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.run import Run
from laconic.types import FIRST_WORD, PAD, Tokens

SMALL = DataShape(texts=4000, words=900, labels=300, labels_a_text=3.5, up_to_4=0.4, up_to_8=0.7)


def test_labels_are_predicted_by_words() -> None:
    learn, test = make(SMALL, seed=3).dataset(), make(SMALL, seed=3, part=1, texts=500).dataset()
    sums = (learn.labels.T @ bags(learn.inputs)).toarray()
    centroids = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    truth = test.labels.toarray()
    nearest = truth[np.arange(500), (bags(test.inputs) @ centroids.T).argmax(1)].mean()
    popular = truth[:, learn.label_counts.argmax()].mean()
    assert nearest > 0.5 > 5 * popular


def test_label_frequencies_follow_a_power_of_their_rank() -> None:
    shape = PAPER_SHAPES["AmazonTitles-670K"]
    counts = np.sort(make(shape, texts=100_000).labels.bincount(minlength=shape.labels).numpy())[::-1]
    at = np.array([100, 300, 1000, 3000, 10_000])
    around = [counts[rank // 2 : 2 * rank].mean() for rank in at]
    slope, _ = np.polyfit(np.log(at), np.log(around), 1)
    assert slope == pytest.approx(-OF_LABELS, abs=0.1)


@pytest.mark.parametrize("name", PAPER_SHAPES)
def test_a_papers_shape_has_its_lengths_and_labels(name: str) -> None:
    shape = PAPER_SHAPES[name]
    made = make(shape, texts=20_000)
    lengths = (made.ids != PAD).sum(1)
    assert float((lengths <= 4).float().mean()) == pytest.approx(shape.up_to_4, abs=0.02)
    assert float((lengths <= 8).float().mean()) == pytest.approx(shape.up_to_8, abs=0.02)
    assert float(lengths.float().mean()) == pytest.approx(shape.average_words, rel=0.05)
    assert len(made.labels) / 20_000 == pytest.approx(shape.labels_a_text, rel=0.02)


def test_numbers_are_within_the_shape_and_a_text_names_no_label_twice() -> None:
    made = make(SMALL)
    there = made.ids != PAD
    assert there.int().diff(dim=1).max() == 0, "words stand before all padding"
    assert FIRST_WORD <= int(made.ids[there].min()) <= int(made.ids.max()) < FIRST_WORD + SMALL.words
    text = torch.repeat_interleave(made.starts.diff())
    assert len((text * SMALL.labels + made.labels).unique()) == len(made.labels)
    assert int(made.labels.max()) < SMALL.labels


def test_both_forms_hold_the_same_data_with_tf_idf_of_length_one() -> None:
    made = make(SMALL, texts=50)
    data, resident = made.dataset(), made.resident()
    assert isinstance(resident.inputs, Tokens)
    rows = bags(data.inputs)
    np.testing.assert_allclose(rows.multiply(rows).sum(axis=1), 1, rtol=1e-5)
    there = resident.inputs.ids != PAD
    assert resident.inputs.ids[there].tolist() == data.inputs.indices.tolist()
    np.testing.assert_array_equal(resident.inputs.weights[there], data.inputs.data)
    assert not resident.inputs.weights[~there].any()
    batch = resident.take(torch.arange(50))
    for row in range(50):
        labels = data.labels.indices[data.labels.indptr[row] : data.labels.indptr[row + 1]].tolist()
        assert batch.positives[row, : len(labels)].tolist() == labels


def test_a_seed_decides_the_texts() -> None:
    one, again, other = make(SMALL, seed=1), make(SMALL, seed=1), make(SMALL, seed=2)
    assert torch.equal(one.ids, again.ids)
    assert torch.equal(one.labels, again.labels)
    assert not torch.equal(one.ids, other.ids)
    assert not torch.equal(one.ids, make(SMALL, seed=1, part=1).ids)


def test_files_of_a_shape_are_data_that_can_be_learnt(tmp_path: Path) -> None:
    shape = DataShape(texts=3000, test_texts=300, words=400, labels=200, labels_a_text=2.0, up_to_4=0.4, up_to_8=0.7)
    write(shape, tmp_path)
    corpus = sources.read(str(tmp_path))
    assert len(corpus.split("train")) == 3000
    assert len(corpus.split("test")) == 300
    assert len(corpus.labels) == 200
    assert label_texts(corpus.labels) is not None
    model = train_model(corpus, "nearest", config_of("nearest", {}), Run.unkept())
    assert Predictor(model, "cpu").evaluate(corpus, "test").metrics["P@1"] > 30  # one label in 200 at random


def test_every_number_is_spelt_as_another_word() -> None:
    words = [word(number) for number in range(20_000)]
    assert len(set(words)) == len(words)
    assert not STOP_WORDS & set(words)
    assert all(one.isalpha() for one in words)
