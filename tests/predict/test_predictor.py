"""Allowed and blocked labels: whatever the way there, the answer is the full ranking less what is not permitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.analysis.sweep import sweep_model
from laconic.config import Settings
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ConfigError, DataError, UserError
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker, with_settings
from laconic.methods.train import train_model
from laconic.models.rankers import Ranker, ShortlistRanker
from laconic.predict import label_filter as permitting
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor, RankerAmong
from laconic.storage.model_folder import SavedModel, write_model
from laconic.training.run import Run
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens
from tests.planted import planted_texts, planted_vectors

NUM_LABELS = 30
NAMES = [f"L{label}" for label in range(NUM_LABELS)]
METHODS: dict[str, Settings] = {
    "nearest": {},
    "inceptionxml": {"epochs": 3, "embedding": 64, "length": 4, "batch_size": 32, "validation": 0.0},
    # All clusters open: a narrow shortlist is tested below.
    "inceptionxml+": {"encoder": "bag", "epochs": 3, "embedding": 16, "validation": 0.0, "clusters": 8, "top": 8},
}
WAYS = {"as it is": {}, "always wider": {"_FEW": 0}, "few at once": {"_SCORED_AT_ONCE": 1, "_RANKED_AT_ONCE": 40}}
CORPUS = planted_texts(num_labels=NUM_LABELS)
TEXTS = [*(CORPUS.split("test").texts or ())[:12], "", "xyzzy"]


@pytest.fixture(scope="module", params=METHODS)
def predictor(request: pytest.FixtureRequest) -> Predictor:
    config = config_of(request.param, METHODS[request.param])
    return Predictor(train_model(CORPUS, request.param, config, Run.unkept()), "cpu")


@pytest.fixture(params=WAYS)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(permitting, name, value)


def check(answers: list[list[Prediction]], full: list[list[Prediction]], permitted: set[str], k: int) -> None:
    """Labels of equal scores may come in any order."""
    for answer, everything in zip(answers, full, strict=True):
        left = [prediction for prediction in everything if prediction.label in permitted]
        assert len({label for label, _ in answer}) == len(answer) == min(k, len(left))
        np.testing.assert_allclose([score for _, score in answer], [score for _, score in left[:k]], rtol=1e-5)
        score_of = dict(left)
        np.testing.assert_allclose([score_of[label] for label, _ in answer], [score for _, score in answer], rtol=1e-5)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("k", [1, 5, NUM_LABELS + 3])
def test_permitted_labels_come_in_the_order_of_the_full_ranking(predictor: Predictor, k: int) -> None:
    full = predictor.predict(TEXTS, NUM_LABELS)
    generator = np.random.default_rng(k)
    for allowed, blocked in ((1, 0), (3, 0), (20, 0), (30, 0), (None, 1), (None, 12), (None, 29), (20, 12), (4, 29)):
        allow = None if allowed is None else [str(name) for name in generator.choice(NAMES, allowed, replace=False)]
        block = [str(name) for name in generator.choice(NAMES, blocked, replace=False)]
        permitted = set(NAMES if allow is None else allow) - set(block)
        check(predictor.predict(TEXTS, k, allow=allow, block=block), full, permitted, k)


def test_a_list_of_nothing_blocks_nothing_and_allows_nothing(predictor: Predictor) -> None:
    assert predictor.predict(TEXTS, block=[]) == predictor.predict(TEXTS) == predictor.predict(TEXTS, allow=NAMES)
    assert predictor.predict(TEXTS, allow=[]) == predictor.predict(TEXTS, block=NAMES) == [[]] * len(TEXTS)
    assert predictor.predict([], allow=["L1"]) == predictor.predict([], block=["L1"]) == []


def test_names_may_come_from_a_generator_and_twice(predictor: Predictor) -> None:
    assert predictor.predict(TEXTS, allow=(name for name in ("L1", "L2", "L1"))) == predictor.predict(
        TEXTS, allow=["L2", "L1"]
    )


@pytest.mark.parametrize("argument", ["allow", "block"])
def test_unknown_names_are_listed(predictor: Predictor, argument: str) -> None:
    def ask(names: Any) -> None:
        predictor.predict(TEXTS, 5, **{argument: names})

    with pytest.raises(ConfigError, match=rf"{argument} names labels that the model does not have: 'red'$"):
        ask(["L1", "red"])
    with pytest.raises(ConfigError, match=r"have: 'n0', 'n1', 'n2', 'n3', 'n4' and 3 more$"):
        ask([f"n{number}" for number in range(8)])
    with pytest.raises(ConfigError, match=rf"{argument} must be a list of label names, but is one string: 'L1'"):
        ask("L1")


def test_k_is_one_or_more(predictor: Predictor) -> None:
    with pytest.raises(ConfigError, match="k must be 1 or more, but is 0"):
        predictor.predict(TEXTS, 0, allow=["L1"])


# A model with clusters


@pytest.fixture(scope="module")
def clustered() -> SavedModel:
    settings = METHODS["inceptionxml+"] | {"encoder": "cnn", "top": 2}
    return train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", settings), Run.unkept())


@pytest.fixture(scope="module")
def folder(clustered: SavedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    write_model(clustered, path)
    return path


def test_settings_overrule_how_a_model_answers(clustered: SavedModel, folder: Path) -> None:
    ranker = restore_ranker(clustered, torch.device("cpu"))
    assert isinstance(ranker, ShortlistRanker)
    inputs = tokens(clustered)
    for top in (1, 2, 8, 100):
        opened = Predictor.open(folder, device="cpu", settings={"answer_top": top})
        expected = ranker.with_beam(top).rank(inputs, 3)
        assert [[label for label, _ in answer] for answer in opened.predict(TEXTS, 3)] == [
            [NAMES[label] for label in row] for row in expected.labels.tolist()
        ]
    assert Predictor.open(folder, device="cpu", settings={}).predict(TEXTS) == Predictor(clustered, "cpu").predict(
        TEXTS
    )
    product, extreme = (
        Predictor.open(folder, device="cpu", settings={"ranking": ranking}).predict(TEXTS, NUM_LABELS)
        for ranking in ("product", "extreme")
    )
    for one, other in zip(product, extreme, strict=True):
        score_of = dict(other)
        assert all(score < score_of[label] for label, score in one)


def tokens(model: SavedModel) -> Tokens:
    assert model.vocabulary is not None
    return Tokenizer(Splitter(), model.vocabulary).tokens(TEXTS)


def test_how_texts_are_read_was_learnt_and_is_not_overruled(clustered: SavedModel) -> None:
    with pytest.raises(ConfigError, match=r"text.stop_words cannot be changed without training.*answer_top, ranking"):
        with_settings(clustered, {"text": {"stop_words": False}})


@pytest.mark.parametrize(
    ("settings", "problem", "message"),
    [
        ({"answer": 3}, ConfigError, "there is no setting 'answer'; did you mean 'answer_top'"),
        ({"answer_top": 2.5}, ConfigError, "answer_top must be int, but is 2.5"),
        ({"text": {"stopwords": True}}, ConfigError, r"there is no setting 'text\.stopwords'"),
        ({"hidden": 9}, UserError, "hidden|size mismatch"),
        ({"bias": True}, UserError, "bias"),
        ({"encoder": "bag", "length": 3}, UserError, "encoder"),
    ],
)
def test_settings_that_the_model_cannot_have_are_refused(
    folder: Path, settings: Settings, problem: type[UserError], message: str
) -> None:
    with pytest.raises(problem, match=message):
        Predictor.open(folder, device="cpu", settings=settings)


def test_an_allowed_label_is_found_in_a_cluster_that_is_not_opened(clustered: SavedModel) -> None:
    narrow = Predictor(with_settings(clustered, {"answer_top": 1}), "cpu")
    for name in NAMES:
        answers = narrow.predict(TEXTS, allow=[name])
        assert [[label for label, _ in answer] for answer in answers] == [[name]] * len(TEXTS)


def test_a_blocked_label_gives_its_place_to_others(clustered: SavedModel) -> None:
    narrow = Predictor(with_settings(clustered, {"answer_top": 1}), "cpu")
    for text, answer in zip(TEXTS, narrow.predict(TEXTS, 3), strict=True):
        others = narrow.predict([text], 3, block=[answer[0].label])[0]
        assert answer[0].label not in {label for label, _ in others}
        assert len(others) == 3


def test_shuffled_words_are_the_same_words(clustered: SavedModel) -> None:
    """A bag does not mind; an encoder that reads their order may."""
    bag = Predictor(
        train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", METHODS["inceptionxml+"]), Run.unkept()), "cpu"
    )
    assert bag.evaluate(CORPUS, "test", shuffle=1).metrics == pytest.approx(bag.evaluate(CORPUS, "test").metrics)
    cnn = Predictor(clustered, "cpu")
    one, again, another = (cnn.evaluate(CORPUS, "test", shuffle=seed).metrics for seed in (1, 1, 2))
    assert one == again != another


def test_the_words_of_features_have_no_order_to_shuffle() -> None:
    corpus = planted_vectors()
    model = train_model(corpus, "nearest", config_of("nearest", {}), Run.unkept())
    with pytest.raises(DataError, match="the words of features cannot be shuffled"):
        Predictor(model, "cpu").evaluate(corpus, "test", shuffle=1)


def test_a_sweep_doubles_around_what_the_model_opens(clustered: SavedModel) -> None:
    found = sweep_model(Predictor(clustered, "cpu"), CORPUS, "test")
    assert [row["top"] for row in found] == [1, 2, 4, 8]
    assert [row["labels scored"] for row in found] == [12.5, 25, 50, 100]
    assert found[-1]["shortlist recall"] == 100


def test_a_sweep_stays_on_the_dial(clustered: SavedModel) -> None:
    for top in (0, 9, 1.5):
        with pytest.raises(ConfigError, match=f"top must be 1 to the model's 8 clusters, but is {top}"):
            sweep_model(Predictor(clustered, "cpu"), CORPUS, "test", [top])
    flat = train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())
    with pytest.raises(ConfigError, match="this model has no setting to sweep"):
        sweep_model(Predictor(flat, "cpu"), CORPUS, "test")


@pytest.mark.slow
def test_the_members_of_an_ensemble_turn_their_dials_together() -> None:
    settings = METHODS["inceptionxml+"] | {"epochs": 1}
    pair = train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", settings), Run.unkept(), 2)
    for point in sweep_model(Predictor(pair, "cpu"), CORPUS, "test", [2, 8]):
        turned = with_settings(pair, {"answer_top": int(point["top"])})
        metrics = Predictor(turned, "cpu").evaluate(CORPUS, "test").metrics
        assert point["P@1"] == pytest.approx(metrics["P@1"])
        assert point["PSP@5"] == pytest.approx(metrics["PSP@5"])


def test_a_model_of_features_answers_no_texts() -> None:
    model = train_model(planted_vectors(), "nearest", config_of("nearest", {}), Run.unkept())
    with pytest.raises(DataError, match="trained on features"):
        Predictor(model, "cpu").predict(["text"], allow=["L1"])


class Shortlisting(Ranker):
    """Scores a label by the input's number for it, and finds only the first three labels by itself."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.num_labels = num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        assert isinstance(inputs, Tensor)
        scores, labels = inputs[:, :3].sort(dim=1, descending=True)
        empty = (len(inputs), max(k - 3, 0))
        labels = torch.cat([labels[:, :k], torch.full(empty, NO_LABEL)], 1)
        return Ranking(labels, torch.cat([scores[:, :k], torch.zeros(empty)], 1))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        assert isinstance(inputs, Tensor)
        return inputs.gather(1, labels)


INPUTS = torch.tensor([[0.1, 0.3, 0.2, 0.9, 0.8, 0.7], [0.3, 0.2, 0.1, 0.7, 0.9, 0.8]])


def test_an_allowed_label_is_found_outside_the_shortlist() -> None:
    permitted = np.array([True, False, False, False, True, False])
    labels, scores = RankerAmong(Shortlisting(6), permitted).rank(INPUTS, 2)
    assert labels.tolist() == [[4, 0], [4, 0]]
    torch.testing.assert_close(scores, torch.tensor([[0.8, 0.1], [0.9, 0.3]]))


def test_a_blocked_label_leaves_the_rest_of_the_shortlist() -> None:
    permitted = np.array([True, False, True, True, True, True])
    labels, scores = RankerAmong(Shortlisting(6), permitted).rank(INPUTS, 3)
    assert labels.tolist() == [[2, 0, NO_LABEL], [0, 2, NO_LABEL]]
    torch.testing.assert_close(scores[:, :2], torch.tensor([[0.2, 0.1], [0.3, 0.1]]))


def test_the_scores_of_labels_are_the_rankers_own() -> None:
    labels = torch.tensor([[3, 0], [1, 5]])
    among = RankerAmong(Shortlisting(6), np.ones(6, dtype=bool))
    torch.testing.assert_close(among.score(INPUTS, labels), INPUTS.gather(1, labels))
