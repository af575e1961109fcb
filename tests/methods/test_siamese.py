"""siamese: texts and label texts in one space, alone and as a channel of fusion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.errors import ConfigError, DataError
from laconic.export.rankers import pack_ranker
from laconic.methods import siamese
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.siamese import Config
from laconic.methods.train import train_model
from laconic.models.encoders.unit import Spelling, SpellingEncoder
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.siamese_ranker import SiameseRanker, label_vectors
from laconic.packed.engine.texts import Texts
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from laconic.training.tasks_siamese import Contrast
from laconic.types import NO_LABEL, Batch, Tokens
from laconic.update.model import add_labels, remove_labels
from laconic.update.rankers.fusion import usual_frequency
from tests.methods.test_fusion import CORPUS, HIDDEN
from tests.methods.test_fusion import SMALL as FUSED
from tests.planted import planted_texts, planted_vectors, words_of
from tests.test_ensembles import Watched, kept, same

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {"epochs": 10, "batch_size": 32, "embedding": 16, "grams": 256, "rounds": 2}
TEXTS = list(CORPUS.split("test").texts or ())


def learnt(run: Run | None = None, **own: Any) -> SavedModel:
    return train_model(CORPUS, "siamese", config_of("siamese", SMALL | own), run or Run.unkept())


@pytest.fixture(scope="module")
def model() -> SavedModel:
    with torch.enable_grad():
        return learnt()


@pytest.fixture(scope="module")
def fused() -> SavedModel:
    own = FUSED["fusion"] | {"epochs": 20, "siamese": 16, "rare": 0.3, "first": 1.5}
    with torch.enable_grad():
        return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", FUSED | {"fusion": own}), Run.unkept())


def asked(model: SavedModel, texts: list[str]) -> tuple[Texts, Tokens]:
    tokenizer = Predictor(model, "cpu").view.tokenizer
    assert tokenizer is not None
    rows = tokenizer.rows(texts)
    return Texts(rows.indices, rows.data, rows.indptr.astype(np.int64)), tokenizer.tokens(texts)


def test_labels_are_found_also_one_that_no_training_text_has(model: SavedModel) -> None:
    assert Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@1"] > 80
    assert Predictor(model, "cpu").predict([" ".join(words_of(HIDDEN))], k=1)[0][0].label == f"L{HIDDEN}"


def test_rows_are_the_vectors_of_label_texts_of_length_one(model: SavedModel) -> None:
    ranker = restore_ranker(model, CPU)
    assert isinstance(ranker, SiameseRanker)
    _, tokens = asked(model, [" ".join(words_of(label)) for label in range(12)])
    with torch.no_grad():
        vectors = ranker.encoder(tokens)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(12))
    torch.testing.assert_close(ranker.labels.weight.detach(), vectors / Config().temperature, rtol=1e-3, atol=1e-3)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(model: SavedModel, tmp_path: Path) -> None:
    for stop in (3, 50):  # in the first stage, and in one with hard negatives
        with pytest.raises(KeyboardInterrupt):
            learnt(kept(tmp_path, Watched(stop)))
    assert same(learnt(kept(tmp_path, Watched())), model)


def spelt(seed: int = 0) -> SpellingEncoder:
    torch.manual_seed(seed)
    counts = torch.tensor([0, 0, 3, 0, 2, 5])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    numbers = torch.randint(7, (10,), dtype=torch.int32)
    return SpellingEncoder(num_ids=6, length=4, embedding=8, spelling=Spelling(starts, numbers), buckets=7)


TOKENS = Tokens(torch.tensor([[2, 4, 2, 0], [5, 1, 3, 4], [0, 0, 0, 0]]), torch.rand(3, 4))


def test_a_word_is_itself_and_its_n_grams() -> None:
    encoder = spelt()
    own, grams = encoder.embedding.weight, encoder.grams.weight
    expected = [own[2] + grams[encoder.gram_numbers[:3].long()].sum(0) / 3**0.5, own[3]]
    torch.testing.assert_close(encoder.word_vectors(torch.tensor([2, 3])), torch.stack(expected))


@pytest.mark.parametrize("piece", [1, 2, 64])
def test_vectors_of_all_words_have_the_same_values_and_gradients(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.models.encoders.unit._PIECE", piece)
    one, other = spelt(), spelt()
    words = torch.tensor([5, 2, 3, 2])
    one.word_vectors(words).square().sum().backward()  # type: ignore[no-untyped-call]  # of torch
    other.all_vectors()[words].square().sum().backward()  # type: ignore[no-untyped-call]  # of torch
    torch.testing.assert_close(other.all_vectors()[words], one.word_vectors(words))
    for parameter, twin in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, twin.grad)


def test_the_folded_encoder_gives_the_same_vectors() -> None:
    encoder = spelt().eval()
    with torch.no_grad():
        torch.testing.assert_close(encoder.folded()(TOKENS), encoder(TOKENS), rtol=1e-3, atol=1e-3)


def test_the_loss_is_that_of_a_plain_loop() -> None:
    """Labels 0 to 4; label 3 has no text; text 1 has two true labels, and label 0 is left out of it."""
    encoder = spelt().eval()
    ids = torch.tensor([[2, 0], [4, 5], [5, 0], [0, 0], [3, 4]])
    texts = Tokens(ids, (ids != 0).float())
    frequency = torch.tensor([-1.0, -2.0, -0.5, -3.0, -1.5])
    task = Contrast(encoder, texts, frequency, temperature=0.1, correction=0.5, positives=3, hard=2).eval()
    positives = torch.tensor([[1, NO_LABEL], [2, 4], [3, NO_LABEL]])
    left_out, weights = torch.tensor([[NO_LABEL], [0], [NO_LABEL]]), torch.tensor([1.0, 2.0, 1.0])
    batch = Batch(TOKENS, positives, None, weights, torch.tensor([[0], [0], [NO_LABEL]]), left_out)
    torch.manual_seed(5)
    loss = task(batch, torch.zeros(()))
    torch.manual_seed(5)
    drawn, hard = task._draw(positives, 3), task._draw(batch.negatives, 2)  # type: ignore[arg-type]  # it is there
    cosines = encoder(TOKENS) @ encoder(texts).T
    compared = {label for label in [*drawn.flatten().tolist(), *hard.flatten().tolist()] if label not in (NO_LABEL, 3)}
    total = 0.0
    for text in range(3):
        apart = {*positives[text].tolist(), *left_out[text].tolist()}
        against = sum(
            torch.exp(cosines[text, label] / 0.1 + 0.5 * frequency[label]) for label in compared if label not in apart
        )
        for label in drawn[text].tolist():
            if label not in (NO_LABEL, 3):
                own = torch.exp(cosines[text, label] / 0.1 + 0.5 * frequency[label])
                total = total - weights[text] * torch.log(own / (own + against)) / 3
    torch.testing.assert_close(loss, torch.as_tensor(total) / 3)


def test_hard_negatives_are_near_wrong_labels() -> None:
    config = siamese.with_sizes(Config(**SMALL | {"nearest": 3}), DATA)
    found = siamese._nearest_wrong(siamese._started(DATA, config), DATA, config)["labels"].numpy()
    assert found.shape == (len(DATA), 3)
    rows = np.repeat(np.arange(len(DATA)), 3)[found.ravel() != NO_LABEL]
    assert not DATA.labels.toarray()[rows, found[found != NO_LABEL]].any()


DATA: Dataset = prepare(CORPUS, Config().text, Config().vocabulary).data


def test_a_label_without_a_text_is_the_mean_of_its_texts() -> None:
    own, texts = torch.eye(3)[:2], torch.tensor([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    own = torch.cat([own, torch.full((2, 3), 9.0)])
    labels = csr_array(np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0]], dtype=np.float32))
    vectors = label_vectors(own, np.array([True, True, False, False]), texts, labels)
    torch.testing.assert_close(vectors, torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [0, 0, 0]]))


def test_epochs_are_shared_between_stages() -> None:
    assert siamese._stages(Config(epochs=20, rounds=3)) == [8, 4, 4, 4]
    assert siamese._stages(Config(epochs=20, hard=0)) == [20]
    assert siamese._stages(Config(epochs=2, rounds=3)) == [1, 1]


def test_other_data_and_settings_are_refused() -> None:
    with pytest.raises(DataError, match="siamese reads words, but this data has dense features"):
        train_model(planted_vectors(), "siamese", config_of("siamese", SMALL), Run.unkept())
    with pytest.raises(DataError, match="siamese wants labels with texts, but this data has none"):
        train_model(planted_texts(), "siamese", config_of("siamese", SMALL), Run.unkept())
    with pytest.raises(ConfigError, match="temperature must be"):
        Config(temperature=0.0)


@torch.no_grad()
@pytest.mark.parametrize("which", ["model", "fused"])
def test_packed_answers_are_the_model_s(which: str, request: pytest.FixtureRequest) -> None:
    model: SavedModel = request.getfixturevalue(which)
    ranker = restore_ranker(model, CPU)
    packed, tokens = asked(model, TEXTS)
    found, expected = pack_ranker(ranker).rank(packed, 5), ranker.rank(tokens, 5)
    np.testing.assert_allclose(found.scores, expected.scores.numpy(), atol=5e-3)
    assert (found.labels[:, 0] == expected.labels[:, 0].numpy()).mean() > 0.95


@torch.no_grad()
def test_fusion_has_the_space_s_score_of_every_candidate(fused: SavedModel) -> None:
    ranker = restore_ranker(fused, CPU)
    assert isinstance(ranker, FusedRanker)
    assert isinstance(ranker.siamese, SiameseRanker)
    _, tokens = asked(fused, TEXTS[:7])
    found = ranker.evidence(tokens)
    scores = ranker.siamese.score(tokens, torch.from_numpy(found.labels)).numpy()
    own = found.numbers[:, :, -5]  # of the last ranker, score, share, log of the share, place and what is weighed
    there = found.labels != NO_LABEL
    np.testing.assert_allclose(own[there], scores[there], rtol=1e-5)
    np.testing.assert_allclose(found.numbers[:, :, -4].max(axis=1), 1)
    labels, expected = ranker.rank(tokens, 5)
    torch.testing.assert_close(ranker.score(tokens, labels), expected)


@pytest.mark.parametrize("which", ["model", "fused"])
def test_labels_come_by_their_text_alone_and_go(which: str, request: pytest.FixtureRequest) -> None:
    model: SavedModel = request.getfixturevalue(which)
    text = " ".join([*words_of(1)[:2], *words_of(2)[:2]])
    grown = add_labels(model, Labels(names=["new"], texts=[text]))
    (first,) = Predictor(grown, "cpu").predict([text], k=3)
    assert "new" in {answer.label for answer in first}
    again = remove_labels(grown, ["new"])
    before, after = (Predictor(one, "cpu").predict(TEXTS[:9], k=1) for one in (model, again))
    assert [answers[0].label for answers in after] == [answers[0].label for answers in before]


def test_a_label_without_examples_is_taken_for_a_frequent_one(fused: SavedModel) -> None:
    text = " ".join(words_of(1)[:2])
    counts = restore_ranker(fused, CPU).get_buffer("frequency").expm1().round().long()
    grown = add_labels(fused, Labels(names=["new"], texts=[text]))
    expected = torch.tensor(float(third_quartile_of_pairs(counts.tolist()))).log1p()
    torch.testing.assert_close(grown.tensors["frequency"][-1], expected)
    torch.testing.assert_close(grown.tensors["frequency"][:-1], fused.tensors["frequency"])

    shown = Split(texts=[text] * 2, labels=csr_array(np.ones((2, 1), dtype=np.float32)))
    examples = Corpus(splits={"train": shown}, labels=Labels(names=["new"]), source="examples")
    grown = add_labels(fused, Labels(names=["new"], texts=[text]), examples)
    torch.testing.assert_close(grown.tensors["frequency"][-1], torch.tensor(2.0).log1p())


@given(st.lists(st.integers(0, 50), max_size=30))
def test_three_quarters_of_all_pairs_are_of_labels_at_most_as_frequent_as_the_usual_one(counts: list[int]) -> None:
    found = usual_frequency(torch.tensor(counts, dtype=torch.float32).log1p()).expm1()
    assert round(float(found)) == third_quartile_of_pairs(counts)


def third_quartile_of_pairs(counts: list[int]) -> int:
    """Sort all pairs of text and label by their label's frequency, and look at the one three quarters of the way."""
    pairs = sorted(count for count in counts for _ in range(count))
    return pairs[-(-3 * len(pairs) // 4) - 1] if pairs else 0


def test_without_a_space_a_new_label_has_no_frequency() -> None:
    with torch.enable_grad():
        plain = train_model(CORPUS, "inceptionxml", config_of("inceptionxml", FUSED), Run.unkept())
    grown = add_labels(plain, Labels(names=["new"], texts=[" ".join(words_of(1)[:2])]))
    assert grown.tensors["frequency"][-1] == 0


def test_data_keeps_its_words() -> None:
    assert DATA.words is not None
    assert len(DATA.words) == DATA.inputs.shape[1] - 2
    assert replace(DATA, words=None).rows(np.arange(3)).words is None
