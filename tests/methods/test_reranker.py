"""A re-ranker over any ranker: it corrects what the other confuses, by a share that the validation split chooses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from scipy.sparse import csr_array
from torch import Tensor

from laconic import Laconic
from laconic.analysis.sweep import sweep_model
from laconic.cli.inspection import inspect_model
from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.data.vectors import WordVectors
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluation.evaluate import rank_all
from laconic.methods import inceptionxml, nearest
from laconic.methods.config import RerankerConfig as Config
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker, with_settings
from laconic.methods.result import Trained
from laconic.methods.train import train_model
from laconic.methods.wrappers import reranker
from laconic.methods.wrappers.ensemble import common_settings
from laconic.methods.wrappers.reranker import best_alpha, with_sizes
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.rankers import SHARES, Ranker, Reranker
from laconic.predict.predictor import Predictor
from laconic.storage.card import model_card
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.planted import planted_texts, planted_vectors, share_of_right_first_labels
from tests.test_ensembles import Known, Watched, kept, rows, same
from tests.test_rankers import RERANKER, SETTINGS
from tests.variants import some_slow

CPU = torch.device("cpu")
CORPUS = planted_texts(num_labels=12)
TEXTS = list(CORPUS.split("test").texts or ())
SMALL = {"epochs": 3, "batch_size": 16, "embedding": 16, "length": 4, "learning_rate": 0.02, "validation": 0.2}
STEPS = 3 * 12  # of the base: epochs × batches


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def learnt(run: Run | None = None, members: int = 1, base: dict[str, Any] | None = None, **own: Any) -> SavedModel:
    settings = SMALL | (base or {}) | {"reranker": RERANKER | own}
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", settings), run or Run.unkept(), members)


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return learnt()


@pytest.fixture(scope="module")
def pair() -> SavedModel:
    return learnt(members=2, epochs=2)


# Answers


def over(table: Float[Tensor, "texts labels"], *, size: int, alpha: float, seed: int = 0) -> Reranker:
    """A re-ranker of labels that a table ranks; a text is its row of the table, and the square of that number."""
    torch.manual_seed(seed)
    return Reranker(Known(table), Identity(2), LinearClassifier(2, table.shape[1]), size=size, alpha=alpha).eval()


def texts(count: int) -> Float[Tensor, "count 2"]:
    return torch.cat([rows(count), rows(count) ** 2], 1)


def shares(ranker: Reranker, inputs: Tensor) -> Float[Tensor, "texts labels"]:
    """What the re-ranker says of every label, whether it is a candidate or not."""
    return ranker.classifier.score_all(inputs).sigmoid()


TABLE = 0.05 + torch.rand(6, 20, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("k", [1, 5, 12, 20])
@torch.no_grad()
def test_ranking_agrees_with_a_plain_loop(k: int, alpha: float) -> None:
    ranker = over(TABLE, size=8, alpha=alpha)
    labels, scores = ranker.rank(texts(6), k)
    own = shares(ranker, texts(6))
    for row in range(6):
        ranked = TABLE[row].argsort(descending=True).tolist()
        best = max(float(own[row, label]) for label in ranked[:8])
        score = {label: (1 - alpha) * float(TABLE[row, label] / TABLE[row].max()) for label in ranked}
        for label in ranked[:8]:
            score[label] += alpha * float(own[row, label]) / best
        expected = sorted(ranked, key=lambda label: -score[label])[:k]
        assert labels[row].tolist() == expected
        torch.testing.assert_close(scores[row], torch.tensor([score[label] for label in expected]))


@torch.no_grad()
def test_no_share_at_all_is_the_order_of_the_base_even_among_equals() -> None:
    ranker = over(TABLE.round(decimals=1), size=20, alpha=0.0)
    expected = ranker.base.rank(texts(6), 20).labels
    for k in (3, 20):
        assert torch.equal(ranker.rank(texts(6), k).labels, expected[:, :k])


@torch.no_grad()
def test_the_whole_share_is_the_order_of_the_re_ranker_among_the_candidates() -> None:
    ranker = over(TABLE, size=8, alpha=1.0)
    candidates = ranker.base.rank(texts(6), 8).labels
    order = shares(ranker, texts(6)).gather(1, candidates).argsort(dim=1, descending=True)
    assert torch.equal(ranker.rank(texts(6), 8).labels, candidates.gather(1, order))


@torch.no_grad()
def test_labels_beyond_the_candidates_come_after_them_as_the_base_has_them() -> None:
    ranker = over(TABLE, size=8, alpha=0.7)
    wide, by_base = ranker.rank(texts(6), 20).labels, ranker.base.rank(texts(6), 20).labels
    assert torch.equal(wide[:, 8:], by_base[:, 8:])
    assert torch.equal(wide[:, :8], ranker.rank(texts(6), 8).labels)


@torch.no_grad()
def test_several_shares_at_once_are_each_of_them_alone() -> None:
    ranker = over(TABLE, size=8, alpha=0.5)
    for alpha, ranking in zip((0.0, 0.25, 1.0), ranker.rank_by(texts(6), 7, (0.0, 0.25, 1.0)), strict=True):
        alone = ranker.blended(alpha).rank(texts(6), 7)
        assert torch.equal(ranking.labels, alone.labels)
        torch.testing.assert_close(ranking.scores, alone.scores)


@torch.no_grad()
def test_every_label_has_a_score_and_those_of_a_ranking_their_own() -> None:
    ranker = over(TABLE, size=8, alpha=0.4)
    labels, scores = ranker.rank(texts(6), 20)
    torch.testing.assert_close(ranker.score(texts(6), labels), scores)
    some = labels[:, [15, 0, 3]]
    torch.testing.assert_close(ranker.score(texts(6), some), scores[:, [15, 0, 3]])
    nothing = torch.full((6, 2), NO_LABEL)
    assert ranker.score(texts(6), nothing).tolist() == [[0, 0]] * 6


@torch.no_grad()
def test_rows_end_in_no_label_where_those_of_the_base_do() -> None:
    ranker = over(torch.tensor([[0.0, 0.2, 0.0, 0.3], [0.0, 0.0, 0.0, 0.0]]), size=3, alpha=0.5)
    labels, scores = ranker.rank(texts(2), 6)
    assert sorted(labels[0, :2].tolist()) == [1, 3]
    assert (labels[0, 2:] == NO_LABEL).all()
    assert (labels[1] == NO_LABEL).all()
    assert scores[labels == NO_LABEL].tolist() == [0] * 10
    assert ranker.rank(texts(2)[:0], 6).labels.shape == (0, 6)


# Training


ALL = RERANKER | {"size": 12}  # labels are candidates, whatever the base takes them for


class Twins(Ranker):
    """Ranks as another ranker does, but takes every label of an even number for the next one, and the other way."""

    def __init__(self, ranker: Ranker) -> None:
        super().__init__()
        self.ranker, self.num_labels = ranker, ranker.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        labels, scores = self.ranker.rank(inputs, k)
        return Ranking(torch.where(labels == NO_LABEL, labels, labels ^ 1), scores)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, torch.where(labels == NO_LABEL, labels, labels ^ 1))


BASE_CONFIG = inceptionxml.Config(validation=0.2, seed=3)  # a base's, as far as a re-ranker asks
DATA, TOKENIZER = prepare(CORPUS, BASE_CONFIG.text, BASE_CONFIG.vocabulary)


def base_of(data: Dataset, config: Any = BASE_CONFIG, *, twins: bool = False) -> Trained:
    learn, _ = data.split(config.validation, config.seed)
    ranker = nearest.build(learn, nearest.Config())
    return Trained(Twins(ranker) if twins else ranker, config, {"training": {"epochs": []}})


def right_first(ranker: Ranker) -> float:
    test = CORPUS.split("test")
    return share_of_right_first_labels(rank_all(ranker, TOKENIZER.rows(TEXTS), 5).labels.numpy(), test.labels)


@pytest.mark.parametrize("encoder", some_slow(["bag", "cnn", "inception"]))
def test_it_corrects_the_order_of_the_base(encoder: str) -> None:
    base = base_of(DATA, twins=True)
    trained = reranker.train(DATA, base, Config(**ALL | {"encoder": encoder}), Run.unkept())
    assert right_first(base.ranker) < 0.3
    assert right_first(trained.ranker) > 0.9
    assert right_first(trained.ranker.blended(0.0)) == right_first(base.ranker)
    assert trained.config.reranker.alpha >= 0.5


def test_alpha_is_the_best_on_the_texts_that_the_base_has_not_learnt_from() -> None:
    trained = reranker.train(DATA, base_of(DATA, twins=True), Config(**ALL), Run.unkept())
    found = {float(alpha): score for alpha, score in trained.facts["reranking"]["alphas"].items()}
    assert tuple(found) == SHARES
    alpha = trained.config.reranker.alpha
    assert found[alpha] == max(found.values()) > found[0.0]
    assert float(trained.ranker.alpha) == pytest.approx(alpha)
    _, held = DATA.split(BASE_CONFIG.validation, BASE_CONFIG.seed)
    for share in (0.0, alpha):
        labels = rank_all(trained.ranker.blended(share), held.inputs, 5).labels.numpy()
        assert found[share] == pytest.approx(100 * ndcg_at_5(labels, held.labels))


def ndcg_at_5(labels: Int[np.ndarray, "texts 5"], truth: csr_array) -> float:
    """Text by text."""
    discounts, total = 1 / np.log2(np.arange(2, 7)), 0.0
    for row, answer in enumerate(labels):
        true = set(truth[[row]].indices)
        total += (
            sum(discounts[place] for place, label in enumerate(answer) if label in true) / discounts[: len(true)].sum()
        )
    return total / len(labels)


def test_a_re_ranker_that_has_learnt_nothing_does_no_harm() -> None:
    idle = Config(**RERANKER | {"epochs": 1, "learning_rate": 1e-9})
    trained = reranker.train(DATA, base_of(DATA), idle, Run.unkept())
    found = trained.facts["reranking"]["alphas"]
    assert found["1.0"] < found["0.0"] == found[str(trained.config.reranker.alpha)]


def test_of_equal_shares_the_nearest_to_the_usual_one_is_taken() -> None:
    assert best_alpha({0.0: 7.0, 0.5: 7.0, 0.8: 7.0, 1.0: 6.0}) == 0.5
    assert best_alpha({0.0: 7.0, 0.5: 6.0}) == 0.0
    assert best_alpha({}) == 0.6


def test_a_share_that_is_given_is_kept() -> None:
    trained = reranker.train(DATA, base_of(DATA), Config(**RERANKER | {"epochs": 1, "alpha": 0.0}), Run.unkept())
    assert (trained.config.reranker.alpha, float(trained.ranker.alpha)) == (0, 0)
    assert "alphas" not in trained.facts["reranking"]


@pytest.mark.parametrize("changes", some_slow([{"validation": 0.0}, {"refit": True}]), ids=str)
def test_where_the_base_has_learnt_from_all_texts_the_last_epoch_and_the_usual_share_are_kept(
    changes: dict[str, Any],
) -> None:
    config = replace(BASE_CONFIG, **changes)
    trained = reranker.train(DATA, base_of(DATA, config), Config(**RERANKER | {"epochs": 2}), Run.unkept())
    assert trained.config.reranker.alpha == 0.6
    assert [epoch["score"] for epoch in trained.facts["reranking"]["epochs"]] == [None, None]


def remembered(folder: Path, data: Dataset, base: Trained, **own: Any) -> dict[str, Tensor]:
    """What the run has kept of the base's answers."""
    run = Run(folder, watcher=Watched(), device=CPU)
    reranker.train(data, base, Config(**RERANKER | {"epochs": 1} | own), run)
    return load_file(folder / "reranker-candidates.safetensors")


def test_it_learns_from_the_texts_of_the_base_and_is_chosen_by_the_others(tmp_path: Path) -> None:
    base = base_of(DATA, twins=True)
    learn, held = DATA.split(BASE_CONFIG.validation, BASE_CONFIG.seed)
    found = remembered(tmp_path, DATA, base)
    assert torch.equal(found["labels"].long(), rank_all(base.ranker, learn.inputs, 8).labels)
    assert torch.equal(found["held_labels"], rank_all(base.ranker, held.inputs, 8).labels)


def test_a_pair_to_be_left_out_is_never_a_negative(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    pairs = csr_array((generator.random(DATA.labels.shape) < 0.3).astype(np.float32))
    data = replace(DATA, leave_out=pairs)
    found = remembered(tmp_path, data, base_of(data))["labels"]
    learn, _ = data.split(BASE_CONFIG.validation, BASE_CONFIG.seed)
    without = rank_all(base_of(data).ranker, learn.inputs, 8).labels
    left_out = 0
    for row, answer in enumerate(without.tolist()):
        forbidden = set(learn.leave_out[[row]].indices)
        left_out += len(forbidden & set(answer))
        assert found[row].tolist() == [NO_LABEL if label in forbidden else label for label in answer]
    assert left_out > len(learn)


@pytest.mark.parametrize("stop", some_slow([5, STEPS, STEPS + 1, STEPS + 30]))
def test_a_stopped_run_goes_on_to_the_same_bits_and_trains_no_stage_again(
    model: SavedModel, tmp_path: Path, stop: int
) -> None:
    whole = STEPS + RERANKER["epochs"] * 12
    with pytest.raises(KeyboardInterrupt):
        learnt(kept(tmp_path, Watched(stop)))
    watcher = Watched()
    assert same(learnt(kept(tmp_path, watcher)), model)
    assert watcher.steps == whole - stop
    stages = [json.loads(line)["stage"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert stages == ["train"] * 3 + ["reranker"] * RERANKER["epochs"]


def test_a_base_is_what_it_would_be_alone(model: SavedModel) -> None:
    alone = train_model(CORPUS, "inceptionxml", config_of("inceptionxml", SMALL), Run.unkept())
    for name, tensor in alone.tensors.items():
        assert torch.equal(model.tensors[f"base.{name}"], tensor)
    assert model.facts["training"]["best_epoch"] == alone.facts["training"]["best_epoch"]
    predictor = Predictor(with_settings(model, {"alpha": 0.0}), "cpu")
    assert names(predictor.predict(TEXTS)) == names(Predictor(alone, "cpu").predict(TEXTS))


def names(answers: list[list[Any]]) -> list[list[str]]:
    return [[prediction.label for prediction in answer] for answer in answers]


def test_dense_features_are_re_ranked_too() -> None:
    corpus = planted_vectors()
    config = config_of("nearest", {"reranker": RERANKER | {"encoder": "", "epochs": 20, "embedding": 16}})
    model = train_model(corpus, "nearest", config, Run.unkept())
    assert model.facts["config"]["reranker"]["encoder"] == "dense"
    first = [point["P@1"] for point in sweep_model(Predictor(model, "cpu"), corpus, "test", [0.0, 0.6])]
    assert first[0] == 90.0 < 95 < first[1]


# Settings


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"encoder": "bert"}, "encoder must be inception or bag"),
        ({"alpha": 2}, "alpha must be -1 to 1, but is 2"),
        ({"size": 0}, "size must be 1 to"),
        ({"batch_size": 1}, "batch_size must be 0"),
        ({"epoch": 1}, "there is no setting 'reranker.epoch'; did you mean 'reranker.epochs'"),
        (5, "reranker is a group of settings; set reranker.size=..."),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_known(wrong: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        config_of("nearest", {"reranker": wrong})


def test_what_cannot_be_is_refused_before_the_base_learns() -> None:
    vectors = WordVectors(np.zeros((3, 64), np.float32), np.ones(3, bool), TOKENIZER.vocabulary)
    dense = replace(DATA, inputs=np.zeros((len(DATA), 4), np.float32))
    subwords = config_of("nearest", {"vocabulary": {"subwords": 64}, "reranker": {"encoder": "cnn"}})

    def train_base(*_: Any) -> Trained:
        raise AssertionError("the base has learnt")

    for data, config, error in [
        (replace(DATA, word_vectors=vectors), config_of("nearest", {"reranker": {"embedding": 32}}), ConfigError),
        (dense, config_of("nearest", {"reranker": {"encoder": "bag"}}), DataError),
        (DATA, subwords, ConfigError),
    ]:
        with pytest.raises(error):
            reranker.train_over(train_base, data, config, Run.unkept())


def test_sizes_come_from_the_data_and_the_seed_from_the_base() -> None:
    def many(texts: int) -> Dataset:
        empty = csr_array((texts, 9), dtype=np.float32)
        return Dataset(inputs=empty, labels=empty)

    base = replace(BASE_CONFIG, seed=7)
    large, small = with_sizes(Config(), many(485_000), base), with_sizes(Config(), many(45_000), base)
    assert (large.epochs, large.batch_size, large.seed, large.encoder) == (10, 256, 7, "bag")
    assert large.learning_rate == pytest.approx(50 / 18_945, rel=0.01)  # steps
    assert (small.epochs, small.learning_rate) == (30, pytest.approx(50 / 5273, rel=0.01))
    assert with_sizes(Config(), many(500), base).learning_rate == 0.02
    assert with_sizes(Config(), many(4_000_000), base).learning_rate == 0.002
    assert with_sizes(Config(seed=1, epochs=3, learning_rate=0.5), many(500), base).learning_rate == 0.5


def test_the_share_can_be_overruled_and_what_was_learnt_cannot(model: SavedModel) -> None:
    for settings in ({"alpha": 0.25}, {"reranker": {"alpha": 0.25}}):
        overruled = restore_ranker(with_settings(model, settings), CPU)
        assert isinstance(overruled, Reranker)
        assert float(overruled.alpha) == 0.25
    assert restore_ranker(with_settings(model, {"reranker": {"size": 3}}), CPU).size == 3
    with pytest.raises(ConfigError, match=r"reranker.epochs cannot be changed .* reranker.alpha, reranker.size"):
        with_settings(model, {"reranker": {"epochs": 3}})
    with pytest.raises(ConfigError, match="alpha must be -1 to 1"):
        with_settings(model, {"alpha": 7.0})
    plain = train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())
    changeable = "what can be changed without training is label_text, neighbours, power"
    with pytest.raises(ConfigError, match=f"there is no setting 'alpha'; {changeable}"):
        with_settings(plain, {"alpha": 0.5})
    with pytest.raises(ConfigError, match="there is no setting 'neighbors'; did you mean 'neighbours'"):
        with_settings(plain, {"neighbors": 5})


# Folders


def test_a_saved_model_is_the_same_model(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    opened = Predictor.open(tmp_path / "model", device="cpu", verify=True)
    assert opened.predict(TEXTS) == Predictor(model, "cpu").predict(TEXTS)
    assert same(read_model(tmp_path / "model"), model)
    assert model.facts["config"]["reranker"]["alpha"] == pytest.approx(float(model.tensors["alpha"]))
    assert inspect_model(tmp_path / "model", verify=True).facts["cost"] is None
    card = model_card(model.facts)
    assert "| method | `inceptionxml`, re-ranked (bag) |" in card
    assert f"| training, re-ranker | {RERANKER['epochs']} epochs" in card
    assert "- `reranker.size = 8`" in card


Tensors = dict[str, Tensor]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda tensors: tensors | {"alpha": torch.tensor(torch.nan)}, "alpha"),
        (lambda tensors: tensors | {"alpha": torch.tensor(1.5)}, "alpha"),
        (lambda tensors: tensors | {"alpha": torch.zeros(2)}, "alpha"),
        (lambda tensors: tensors | {"alpha": torch.tensor(1)}, "alpha"),
        (lambda tensors: tensors | {"beta": torch.tensor(0.5)}, "beta"),
        (lambda tensors: tensors | {"base.beta": torch.tensor(0.5)}, "beta"),
        (lambda tensors: {name: tensor for name, tensor in tensors.items() if name != "alpha"}, "alpha"),
        (lambda tensors: {name: tensor for name, tensor in tensors.items() if name.startswith("base.")}, "alpha"),
        (
            lambda tensors: {name: tensor for name, tensor in tensors.items() if not name.startswith("base.")},
            "inceptionxml",
        ),
        (lambda tensors: cut(tensors, "classifier.weight", "classifier.bias"), "it knows 11 labels, but .* 12"),
        (lambda tensors: cut(tensors, "encoder.embedding.weight"), "token ids"),
        (
            lambda tensors: cut(tensors, "base.classifier.weight", "base.classifier.bias"),
            "it knows 12 labels, but .* 11",
        ),
        (lambda tensors: {}, "inceptionxml"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    model: SavedModel, spoil: Callable[[Tensors], Tensors], named: str
) -> None:
    with pytest.raises(ModelError, match=named):
        restore_ranker(replace(model, tensors=spoil(dict(model.tensors))), CPU)


def cut(tensors: Tensors, *shorter: str) -> Tensors:
    return tensors | {name: tensors[name][:-1] for name in shorter}


@pytest.mark.parametrize("wrong", ["bag", None, {"encoder": "bert"}, {"alpha": 3.0}, {"taste": 1}], ids=str)
def test_settings_that_cannot_be_are_refused(model: SavedModel, wrong: Any) -> None:
    facts = {**model.facts, "config": {**model.facts["config"], "reranker": wrong}}
    with pytest.raises(ModelError):
        restore_ranker(replace(model, facts=facts), CPU)


def test_a_model_and_its_settings_go_together(model: SavedModel) -> None:
    config = {name: value for name, value in model.facts["config"].items() if name != "reranker"}
    with pytest.raises(ModelError):
        restore_ranker(replace(model, facts={**model.facts, "config": config}), CPU)


# Over Astec, whose dial is its own


ASTEC = SETTINGS["astec"] | {"epochs": 7, "shortlist": {"size": 12}}


def test_the_dial_of_astec_is_what_evaluation_finds_there() -> None:
    astec = train_model(CORPUS, "astec", config_of("astec", ASTEC), Run.unkept())
    points = sweep_model(Predictor(astec, "cpu"), CORPUS, "test")
    assert [point["beta"] for point in points] == list(SHARES)
    for point in (points[1], points[10]):
        metrics = Predictor(with_settings(astec, {"beta": point["beta"]}), "cpu").evaluate(CORPUS, "test").metrics
        assert {name: metrics[name] for name in list(point)[1:]} == pytest.approx(dict(list(point.items())[1:]))


@pytest.mark.slow
def test_the_dial_under_a_re_ranker_can_be_turned_too() -> None:
    settings = ASTEC | {"reranker": RERANKER | {"epochs": 2}}
    model = train_model(CORPUS, "astec", config_of("astec", settings), Run.unkept())
    chosen = restore_ranker(model, CPU)
    turned = restore_ranker(with_settings(model, {"beta": 0.35}), CPU)
    assert float(turned.base.beta) == pytest.approx(0.35) != float(chosen.base.beta)
    assert float(turned.alpha) == float(chosen.alpha)
    assert next(iter(sweep_model(Predictor(model, "cpu"), CORPUS, "test", [0.5])[0])) == "alpha"


# Ensembles, and those who use them


def test_what_members_chose_differently_is_as_it_was_given() -> None:
    given = config_of("astec", {"seed": 5, "reranker": {"epochs": 4}})
    configs = [
        replace(given, seed=seed, beta=beta, length=9, reranker=replace(given.reranker, alpha=alpha, length=8))
        for seed, beta, alpha in ((5, 0.1, 0.6), (6, 0.3, 0.9))
    ]
    expected = replace(given, seed=5, beta=-1.0, length=9, reranker=replace(given.reranker, alpha=-1.0, length=8))
    assert common_settings(configs, given) == expected


@pytest.mark.slow
def test_every_member_has_a_re_ranker_with_a_share_of_its_own(pair: SavedModel, tmp_path: Path) -> None:
    chosen = [float(pair.tensors[f"members.{number}.alpha"]) for number in (0, 1)]
    for number, member in enumerate(pair.facts["members"]):
        alone = learnt(base={"seed": 29 + number}, epochs=2)
        assert float(alone.tensors["alpha"]) == chosen[number]
        assert torch.equal(alone.tensors["classifier.weight"], pair.tensors[f"members.{number}.classifier.weight"])
        assert len(member["reranking"]["epochs"]) == 2
    assert chosen[0] != chosen[1]  # or this would claim nothing
    assert pair.facts["config"]["reranker"]["alpha"] == -1
    write_model(pair, tmp_path / "pair")
    restored = restore_ranker(read_model(tmp_path / "pair"), CPU)
    assert [float(member.alpha) for member in restored.rankers()] == chosen
    assert "training, re-ranker, seed 30" in model_card(pair.facts)


@pytest.mark.slow
def test_the_share_of_all_members_is_overruled_at_once(pair: SavedModel) -> None:
    overruled = restore_ranker(with_settings(pair, {"alpha": 0.25}), CPU)
    assert [float(member.alpha) for member in overruled.rankers()] == [0.25, 0.25]


def test_the_estimator_knows_re_rankers(tmp_path: Path) -> None:
    texts, labels = ["red rose", "blue sea", "white rose", "deep sea"], [["flower"], ["water"], ["flower"], ["water"]]
    model = Laconic("nearest", device="cpu", reranker={"embedding": 16}, reranker__epochs=2).fit(texts, labels)
    model.save(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert loaded.predict(texts) == model.predict(texts)
    assert loaded.get_params()["reranker"]["epochs"] == 2
    assert same(loaded.fit(texts, labels).model_, model.model_)
