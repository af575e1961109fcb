"""A student learns what its teacher answers, beside what is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from laconic.data.corpus import Labels, pair_matrix
from laconic.data.prepare import prepare
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError
from laconic.methods.distillation import Config, _ignoring_the_text, with_teacher_facts, with_teacher_labels
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_config, restore_ranker
from laconic.methods.train import train_model
from laconic.models.fusion.ranker import FusedRanker
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from tests.planted import planted_texts

CPU = torch.device("cpu")
CORPUS = planted_texts(num_labels=12, num_texts=320, with_label_texts=True)
FUSION = {"trees": 0, "width": 6, "neighbours": 8, "hidden": 8}
TEACHER: dict[str, Any] = {"validation": 0.3, "trees": 1, "fusion": FUSION}
STUDENT: dict[str, Any] = {"encoder": "bag", "epochs": 30, "batch_size": 16, "embedding": 16, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def teacher() -> SavedModel:
    return train_model(CORPUS, "trees", config_of("trees", TEACHER), Run.unkept())


def test_what_is_true_stays_and_what_the_teacher_holds_possible_joins(teacher: SavedModel) -> None:
    config = Config(answers=3, trust=0.5, least=0.0, validation=0.0)
    split, taught = CORPUS.split("train"), with_teacher_labels(teacher, CORPUS, CPU, config).split("train")
    before, after = split.labels.toarray(), taught.labels.toarray()
    assert (after[before > 0] == before[before > 0]).all()
    others = after[before == 0]
    assert 0 < others.max() <= 0.5
    assert ((after > 0) & (before == 0)).sum(1).max() <= 3


def test_texts_that_choose_the_epoch_keep_what_is_true(teacher: SavedModel) -> None:
    taught = with_teacher_labels(teacher, CORPUS, CPU, Config(validation=0.1))
    valid = taught.split("valid")
    assert len(valid) == 32
    assert len(taught.split("train")) == 320 - 32
    rows = {text: row for row, text in enumerate(CORPUS.split("train").texts or ())}
    own = CORPUS.split("train").labels.toarray()[[rows[text] for text in valid.texts or ()]]
    assert np.array_equal(valid.labels.toarray(), own)


def test_pairs_that_are_left_out_are_not_taught(teacher: SavedModel) -> None:
    split = CORPUS.split("train")
    left_out = pair_matrix([(row, label) for row in range(len(split)) for label in (0, 1)], split.labels.shape)
    labels = split.labels.toarray()
    labels[:, :2] = 0
    corpus = replace(CORPUS, splits={"train": replace(split, leave_out=left_out, labels=type(split.labels)(labels))})
    taught = with_teacher_labels(teacher, corpus, CPU, Config(validation=0.0)).split("train").labels.toarray()
    assert not taught[:, :2].any()
    kept = replace(corpus, splits={"train": replace(corpus.split("train"), leave_out=None)})
    assert with_teacher_labels(teacher, kept, CPU, Config(validation=0.0)).split("train").labels.toarray()[:, :2].any()


def test_the_teacher_does_not_remember_the_text_itself(teacher: SavedModel) -> None:
    ranker, config = restore_ranker(teacher, CPU), restore_config(teacher)
    data = prepare(CORPUS, config.text, config.vocabulary).data.rows(np.arange(10))
    forgetting = _ignoring_the_text(ranker)
    assert isinstance(forgetting, FusedRanker)
    assert isinstance(ranker, FusedRanker)
    before: Any = ranker.nearest
    after: Any = forgetting.nearest
    assert (before.channels(inputs_of(data.inputs)).weights[:, 0] > 0.99).all()
    assert (after.channels(inputs_of(data.inputs)).weights <= 0.97).all()


@pytest.mark.slow
def test_a_student_learns_and_counts_as_its_teacher_does(teacher: SavedModel) -> None:
    taught = with_teacher_labels(teacher, CORPUS, CPU, Config())
    student = train_model(taught, "inceptionxml", config_of("inceptionxml", STUDENT), Run.unkept())
    student = with_teacher_facts(student, teacher)
    assert np.array_equal(student.label_counts, teacher.label_counts)
    assert student.facts["teacher"] == "trees"
    assert Predictor(student, "cpu").evaluate(CORPUS, "test").metrics["P@1"] > 80


def test_a_teacher_of_other_labels_is_refused(teacher: SavedModel) -> None:
    other = replace(CORPUS, labels=Labels(names=[f"X{i}" for i in range(12)]))
    with pytest.raises(ConfigError, match="are not the data's"):
        with_teacher_labels(teacher, other, CPU, Config())
