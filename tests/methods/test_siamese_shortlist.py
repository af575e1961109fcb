"""Astec over the labels that a learnt space of texts and label texts finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.config import Settings
from laconic.data.corpus import Labels
from laconic.data.tokenizer import inputs_of as tokens_of
from laconic.errors import ConfigError, DataError
from laconic.export.rankers import pack_ranker
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.space import NearestInSpace
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.space_labels import SpaceLabels
from laconic.packed.engine.texts import inputs_of
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.update.model import add_labels, remove_labels
from tests.planted import planted_texts, words_of
from tests.test_rankers import SETTINGS

CORPUS = planted_texts(num_labels=12, with_label_texts=True)
SIAMESE: Settings = SETTINGS["astec"] | {"shortlister": "siamese", "shortlist": {"size": 6}}


@pytest.fixture(scope="module")
def model() -> SavedModel:
    """Trained once; nothing may change it."""
    return train_model(CORPUS, "astec", config_of("astec", SIAMESE), Run.unkept())


@pytest.fixture(scope="module")
def ranker(model: SavedModel) -> CandidatesRanker:
    found = restore_ranker(model, torch.device("cpu"))
    assert isinstance(found, CandidatesRanker)
    return found


def new_texts(model: SavedModel, texts: int = 1000) -> csr_array:
    tokenizer = Predictor(model, "cpu").view.tokenizer
    assert tokenizer is not None
    return tokenizer.rows(list(CORPUS.split("test").texts or [])[:texts])


def test_new_texts_get_their_labels(model: SavedModel) -> None:
    assert Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@1"] > 80  # a twelfth would be chance


@pytest.mark.parametrize("size", [3, 12, 20])
def test_the_labels_of_the_largest_cosines_are_listed(model: SavedModel, ranker: CandidatesRanker, size: int) -> None:
    near, inputs = ranker.shortlister, tokens_of(new_texts(model, 40))
    assert isinstance(near, NearestInSpace)
    with torch.no_grad():
        found = near(inputs, torch.zeros(40, 1), size)
        texts, rows = near.siamese.space(inputs), near.siamese.labels.weight
    cosines = torch.nn.functional.cosine_similarity(texts[:, None], rows[None], dim=2)
    best = cosines.sort(dim=1, descending=True)
    assert torch.equal(found.labels[:, : min(size, 12)], best.indices[:, :size])
    # Rows are rounded to half precision, so their length is not quite the same.
    torch.testing.assert_close(found.scores[:, : min(size, 12)], best.values[:, :size], rtol=1e-3, atol=1e-3)
    assert (found.labels[:, 12:] == -1).all()


def test_a_stored_model_answers_as_before(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    texts = list(CORPUS.split("test").texts or [])
    answers = [Predictor(one, "cpu").predict(texts, 5) for one in (model, read_model(tmp_path / "model"))]
    assert answers[0] == answers[1]


def test_the_packed_model_answers_as_the_model_does(model: SavedModel, ranker: CandidatesRanker) -> None:
    inputs, texts = tokens_of(new_texts(model)), inputs_of(new_texts(model))
    packed = pack_ranker(ranker).exact()
    assert isinstance(packed, Blended)
    assert isinstance(packed.shortlist, SpaceLabels)
    with torch.no_grad():
        wanted = ranker.rank(inputs, 4)
        vectors = ranker.encoder(inputs)
        listed = ranker.shortlister(inputs, vectors, 6)
    found = packed.shortlist.listed(texts, vectors.numpy(), 6)
    np.testing.assert_array_equal(found.labels, listed.labels.numpy())
    np.testing.assert_allclose(found.scores, listed.scores.numpy(), atol=2e-3)
    answer = packed.rank(texts, 4)
    np.testing.assert_array_equal(answer.labels[:, 0], wanted.labels[:, 0].numpy())
    np.testing.assert_allclose(answer.scores, wanted.scores.numpy(), atol=5e-3)


def test_a_label_added_by_its_text_is_found_and_a_removed_one_is_not(model: SavedModel) -> None:
    text = " ".join(words_of(1)[:2] + words_of(4)[:2])
    grown = add_labels(model, Labels(names=["both"], texts=[text]))
    assert "both" in [one.label for one in Predictor(grown, "cpu").predict([text], 6)[0]]
    name = CORPUS.labels.names[1]
    fewer = remove_labels(model, [name])
    listed = [one.label for answer in Predictor(fewer, "cpu").predict([text], 20) for one in answer]
    assert name not in listed
    assert len(listed) == 11


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shortlister=siamese finds labels by their texts already"):
        config_of("astec", SIAMESE | {"label_texts": 2})
    with pytest.raises(ConfigError, match=r"shortlister=siamese is trained once"):
        config_of("astec", SIAMESE | {"extreme": {"fine_tuned": True}})
    plain = planted_texts(num_labels=12)
    with pytest.raises(DataError, match=r"shortlister=siamese needs labels with texts"):
        train_model(plain, "astec", config_of("astec", SIAMESE), Run.unkept())
