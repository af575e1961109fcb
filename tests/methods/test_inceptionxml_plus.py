"""InceptionXML+ on planted data: every option trains and is kept, mistakes are told, files are not trusted."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.cli.inspection import inspect_model
from laconic.config import Settings, preset_path, read_settings, settings_of
from laconic.data.corpus import Corpus, Split
from laconic.data.dataset import Dataset
from laconic.data.describe import describe
from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.tokenizer import inputs_of
from laconic.data.vocabulary import VocabularyConfig, bags
from laconic.errors import ConfigError, DataError, ModelError, TrainingError, UserError
from laconic.methods import inceptionxml_plus
from laconic.methods.estimates import expected_costs
from laconic.methods.inceptionxml_plus import Config, with_sizes
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.clustering import LabelTree, cluster_labels, random_tree
from laconic.models.layers import SpectralResidual
from laconic.models.rankers import Ensemble, ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, write_model
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.training.tasks import ClustersAndLabels
from laconic.types import NO_LABEL
from tests.planted import planted_texts, planted_vectors, share_of_right_first_labels
from tests.variants import some_slow

CPU = torch.device("cpu")
LABELS = 12
CORPUS = planted_texts(num_labels=LABELS, num_texts=80)
TEXTS = list(CORPUS.split("test").texts or ())
SMALL: Settings = {
    "encoder": "bag",
    "epochs": 2,
    "embedding": 16,
    "length": 6,
    "batch_size": 16,
    "clusters": 4,
    "top": 2,
    "validation": 0.0,
}
LEARNING: Settings = {"epochs": 20, "learning_rate": 0.04, "embedding": 32, "length": 0}
# The papers' four datasets: texts, labels; Table 7's epochs, batch, clusters.
TABLE_7 = {
    "AmazonTitles-670K": (485_176, 670_091, 35, 256, 65_536),
    "WikiSeeAlsoTitles-350K": (629_418, 352_072, 30, 256, 32_768),
    "WikiTitles-500K": (1_699_722, 501_070, 27, 256, 32_768),
    "AmazonTitles-3M": (1_712_536, 2_812_281, 35, 128, 131_072),
}


def trained(corpus: Corpus = CORPUS, members: int = 1, run: Run | None = None, **settings: Any) -> SavedModel:
    config = config_of("inceptionxml+", SMALL | settings)
    return train_model(corpus, "inceptionxml+", config, run or Run.unkept(), members)


def ranker_of(model: SavedModel) -> ShortlistRanker:
    ranker = restore_ranker(model, CPU)
    assert isinstance(ranker, ShortlistRanker)
    return ranker


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return trained()


def same(one: SavedModel, other: SavedModel) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items()
    )


# Options

OPTIONS: list[Settings] = [
    {"encoder": "inception"},
    {"encoder": "inception", "attention": False},
    {"encoder": "cnn"},
    {"heads": "lightxml"},
    {"heads": "lightxml", "encoder": "inception", "bias": True},
    {"detached": 0.0},
    {"detached": 1.0},
    {"hidden": 8},
    {"hidden": 40},
    {"bias": True},
    {"prior": True, "bias": True},
    {"lazy": True},
    {"ranking": "product"},
    {"answer_top": 1},
    {"answer_top": 400, "top": 400},
    {"top": 1},
    {"clusters": 8},
    {"validation": 0.2, "refit": True},
    {"precision": "bf16", "encoder": "inception"},
    {"chunk": 3},
    {"clustering": {"seed": 7}},
    {"clustering": {"walks": 20, "head": 1.0}},
    {"batch_size": 0, "learning_rate": 0.0, "length": 0, "clusters": 0, "top": 0},
]


@pytest.fixture(scope="module")
def ordered() -> SavedModel:
    """A model with the paper's own encoder."""
    return trained(encoder="inception", epochs=1)


@pytest.fixture(scope="module")
def few() -> Dataset:
    corpus = planted_texts(num_labels=LABELS, num_texts=24)
    return prepare(corpus, Splitter(), VocabularyConfig(), with_label_texts=False).data


@pytest.mark.parametrize("options", some_slow(OPTIONS, 2), ids=str)
def test_every_option_trains_and_is_kept(few: Dataset, options: Settings) -> None:
    asked = config_of("inceptionxml+", SMALL | options)
    trained = inceptionxml_plus.train(few, asked, Run.unkept())
    assert all(np.isfinite(epoch["loss"]) for epoch in trained.facts["training"]["epochs"])
    kept = config_of("inceptionxml+", json.loads(json.dumps(settings_of(trained.config))))
    assert kept == trained.config == with_sizes(asked, len(few), LABELS, 6)
    restored = inceptionxml_plus.restore(kept, trained.ranker.state_dict())
    inputs = inputs_of(few.inputs)
    for one, other in zip(trained.ranker.rank(inputs, 7), restored.rank(inputs, 7), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "options",
    some_slow(
        [
            {"top": 1, "answer_top": 2, "lazy": True, "bias": True, "prior": True},
            {"heads": "lightxml", "ranking": "product"},
            {"hidden": 24, "validation": 0.1, "refit": True},
        ]
    ),
    ids=str,
)
def test_planted_labels_are_learnt(options: Settings) -> None:
    model = trained(**LEARNING | options)
    losses = [epoch["loss"] for epoch in model.facts["training"]["epochs"]]
    assert losses[-1] < losses[0] / 2
    answers = Predictor(model, "cpu").predict(TEXTS, 1)
    found = np.array([[CORPUS.labels.names.index(answer[0].label)] for answer in answers])
    assert share_of_right_first_labels(found, CORPUS.split("test").labels) > 0.8


@pytest.mark.parametrize(
    ("options", "matters"),
    some_slow(
        [
            ({"detached": 1.0}, True),
            ({"lazy": True}, True),
            ({"prior": True}, True),
            ({"top": 4}, True),
            ({"dropout": 0.0}, True),
            ({"cluster_dropout": 0.0}, True),
            ({"classifier_dropout": 0.0}, True),
            ({"eps": 1e-3}, True),
            ({"answer_top": 1, "ranking": "product"}, False),
            ({"permutation": 3}, False),  # without vectors there is no order to change
        ],
        2,
        unpack=True,
    ),
    ids=str,
)
def test_what_is_learnt_depends_on_how_it_is_learnt_and_not_on_how_it_answers(
    model: SavedModel, options: Settings, matters: bool
) -> None:
    assert same(trained(**options), model) != matters


def test_the_task_is_made_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def watched(*parts: Any, **options: Any) -> ClustersAndLabels:
        seen.update(options)
        return ClustersAndLabels(*parts, **options)

    monkeypatch.setattr(inceptionxml_plus, "ClustersAndLabels", watched)
    trained(cluster_dropout=0.1, classifier_dropout=0.2, detached=0.3, chunk=7, top=4, answer_top=1, precision="bf16")
    assert seen == {
        "dropouts": (0.1, 0.2),
        "detached": 0.3,
        "chunk": 7,
        "top": 4,
        "precision": torch.bfloat16,
    }


def test_refit_learns_from_everything_for_as_many_epochs_as_were_best(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([10.0, 90.0, 20.0, 30.0])
    monkeypatch.setattr(inceptionxml_plus, "validation_figures", lambda *held: {"nDCG@5": next(scores)})
    watcher = Watched()
    model = trained(run=Run(None, watcher=watcher, device=CPU), epochs=4, validation=0.2, refit=True)
    assert model.facts["training"]["best_epoch"] == 2
    assert watcher.steps == 4 * 64 / 16 + 2 * 80 / 16
    assert [epoch["score"] for epoch in model.facts["training"]["epochs"]] == [None, None]


def test_heads_are_of_equal_structure_or_as_lightxml_has_them() -> None:
    tree = random_tree(LABELS, 4, 0)
    for hidden, width in ((0, 16), (10, 10)):
        ranker = inceptionxml_plus.build(Config(encoder="bag", embedding=16, hidden=hidden), 9, tree)
        for head in (ranker.clusters.classifier.transform, ranker.classifier.transform):
            assert isinstance(head, SpectralResidual)
            assert head.weight.matrix.shape == (width, 16)
    ranker = inceptionxml_plus.build(Config(encoder="bag", embedding=16, heads="lightxml"), 9, tree)
    assert isinstance(ranker.clusters.classifier.transform, nn.Identity)
    assert isinstance(ranker.classifier.transform, nn.Linear)


def test_biases_start_at_the_log_odds_of_clusters_and_labels() -> None:
    model = trained(prior=True, bias=True, learning_rate=1e-9, epochs=1)
    order, starts = (model.tensors[f"clusters.{name}"].tolist() for name in ("order", "starts"))
    texts = CORPUS.split("train").labels.toarray() > 0
    of_labels = torch.from_numpy(texts[:, order].mean(0))
    of_clusters = torch.tensor([texts[:, order[one:other]].any(1).mean() for one, other in pairwise(starts)])
    for name, shares in (("classifier", of_labels), ("clusters.classifier", of_clusters)):
        torch.testing.assert_close(model.tensors[f"{name}.bias"], shares.logit().float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 3}, r"clusters must be a power of two \(or 0, chosen by the data\), but is 3"),
        ({"clusters": 16}, "clusters must be at most the 12 labels, but is 16"),
        ({"clusters": -4}, "clusters must be 0 to 1,073,741,824, but is -4"),
        ({"top": -1}, "top must be 0 to .*, but is -1"),
        ({"answer_top": -1}, "answer_top must be 0 to .*, but is -1"),
        ({"detached": 1.5}, "detached must be 0 to 1, but is 1.5"),
        ({"detached": float("nan")}, "detached must be 0 to 1, but is nan"),
        ({"heads": "three"}, "heads must be synchronised or lightxml, but is 'three'"),
        ({"ranking": "sum"}, "ranking must be extreme or product, but is 'sum'"),
        ({"encoder": "bert"}, "encoder must be inception or bag or cnn or mlp or dense or .*, but is 'bert'"),
        ({"precision": "fp8"}, "precision must be fp32 or bf16, but is 'fp8'"),
        ({"hidden": -1}, "hidden must be 0 to .*, but is -1"),
        ({"heads": "lightxml", "hidden": 8}, "heads=lightxml has no layer whose width hidden could set"),
        ({"cluster_dropout": 1.0}, "cluster_dropout must be 0 to 0.99, but is 1.0"),
        ({"learning_rate": -0.1}, "learning_rate must be 0 to 100, but is -0.1"),
        ({"chunk": 0}, "chunk must be 1 to .*, but is 0"),
        ({"batch_size": 1}, "batch_size must be 0 .* or at least 2, .*, but is 1"),
        ({"refit": True, "validation": 0.0}, "refit needs a validation split .*; validation is 0"),
        ({"clustering": {"walks": -1}}, r"clustering\.walks must be 0 to 10,000, but is -1"),
        ({"clustering": {"seed": -2}}, r"clustering\.seed must be -1 .*, but is -2"),
        ({"clustering": {"restart": 2.0}}, r"clustering\.restart must be 0 to 1, but is 2.0"),
        ({"clustering": 3}, r"clustering is a group of settings; set clustering\.seed="),
        ({"detach": 0.1}, "there is no setting 'detach'; did you mean 'detached'"),
    ],
)
def test_a_bad_value_is_told_with_what_would_do(settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trained(**settings)


@pytest.mark.parametrize(
    ("name", "value"), [("seed", -1), ("seed", 1 << 62), ("eps", -1.0), ("eps", float("nan"))], ids=str
)
def test_a_seed_or_eps_that_nobody_can_use_is_told(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be .*, but is {value:,}"):
        trained(**{name: value})


# Sizes


@pytest.mark.parametrize(
    ("labels", "clusters", "top"),
    [
        (670_091, 65_536, 776),
        (352_072, 32_768, 512),
        (2_812_281, 131_072, 800),
        (100_000_000, 131_072, 800),
        (36_306, 4_096, 147),
        (24, 4, 2),
        (12, 2, 2),
        (11, 1, 1),
        (1, 1, 1),
    ],
)
def test_clusters_are_chosen_by_the_number_of_labels(labels: int, clusters: int, top: int) -> None:
    config = with_sizes(Config(), 1000, labels, 6)
    assert (config.clusters, config.top, config.answer_top) == (clusters, top, top)
    assert config.top <= config.clusters <= labels


@pytest.mark.parametrize(
    ("texts", "epochs", "batch_size", "learning_rate"),
    [(485_176, 9, 256, 0.0046), (10_000_000, 8, 256, 0.008), (45_000, 28, 256, 0.0028), (2, 67, 8, 0.002)],
)
def test_few_texts_want_many_epochs_of_small_batches_and_steps(
    texts: int, epochs: int, batch_size: int, learning_rate: float
) -> None:
    config = with_sizes(Config(), texts, 1000, 6)
    assert (config.epochs, config.batch_size) == (epochs, batch_size)
    assert config.learning_rate == pytest.approx(learning_rate, rel=0.05)


def test_the_papers_steps_have_the_papers_learning_rate() -> None:
    config = with_sizes(Config(epochs=35), 485_176, 670_091, 32)
    assert config.learning_rate == pytest.approx(0.008, rel=1e-6)


def test_what_is_given_is_not_chosen() -> None:
    given = Config(epochs=5, batch_size=7, learning_rate=0.1, clusters=8, top=3, answer_top=5, length=9)
    assert with_sizes(given, 1000, 1000, 6) == given
    most = with_sizes(Config(clusters=8, top=30, answer_top=40), 1000, 1000, 6)
    assert (most.top, most.answer_top) == (8, 8)


# Presets


def preset(name: str) -> Config:
    config = config_of("inceptionxml+", read_settings(preset_path("inceptionxml+", name), []))
    assert isinstance(config, Config)
    return config


@pytest.mark.parametrize("name", TABLE_7)
def test_presets_have_the_papers_values(name: str) -> None:
    texts, labels, epochs, _, clusters = TABLE_7[name]
    config = preset(name)
    assert (config.epochs, config.learning_rate, config.clusters, config.top) == (epochs, 0.008, clusters, 800)
    assert (config.hidden, config.length) == (300 if name == "AmazonTitles-3M" else 0, 32)
    fitting = with_sizes(config, texts, labels, 32)
    assert (fitting.clusters, fitting.top, fitting.answer_top) == (clusters, 800, 800)


@pytest.mark.parametrize("name", TABLE_7)
def test_presets_have_the_papers_batch_sizes(name: str) -> None:
    assert preset(name).batch_size == TABLE_7[name][3]


@pytest.mark.parametrize(
    ("name", "cluster_dropout", "classifier_dropout", "words"),
    [
        ("AmazonTitles-670K", 0.3, 0.5, 66_665),
        ("WikiSeeAlsoTitles-350K", 0.5, 0.5, 91_413),
        ("WikiTitles-500K", 0.4, 0.4, 185_478),
        ("AmazonTitles-3M", 0.3, 0.4, 165_430),
    ],
)
def test_presets_have_the_dropouts_and_words_of_the_papers_code(
    name: str, cluster_dropout: float, classifier_dropout: float, words: int
) -> None:
    config = preset(name)
    assert (config.cluster_dropout, config.classifier_dropout) == (cluster_dropout, classifier_dropout)
    assert config.vocabulary.size == words


# Clusters and shortlists


def test_labels_that_no_text_has_are_in_a_cluster_and_can_be_answered() -> None:
    train = CORPUS.split("train")
    kept = train.labels.copy()
    kept.data[kept.indices >= 7] = 0
    kept.eliminate_zeros()
    ranker = ranker_of(trained(replace(CORPUS, splits={"train": replace(train, labels=kept)})))
    assert sorted(ranker.clusters.order.tolist()) == list(range(LABELS))
    assert ranker.clusters.starts.tolist() == [0, 3, 6, 9, 12]
    opened = ranker.with_beam(4).rank(tokens(TEXTS), LABELS)
    assert opened.labels.sort(dim=1).values.tolist() == [list(range(LABELS))] * len(TEXTS)


def tokens(texts: list[str]) -> Any:
    _, tokenizer = prepare(CORPUS, Splitter(), VocabularyConfig(), with_label_texts=False)
    assert tokenizer is not None
    return tokenizer.tokens(texts)


@pytest.mark.parametrize("top", some_slow([1, 3]))
def test_the_clusters_of_every_true_label_are_picked_at_every_step(monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    pick, seen = Clusters.pick, []

    def watched(self: Clusters, transformed: Tensor, true: Tensor, top: int) -> Any:
        picked = pick(self, transformed, true, top)
        seen.append(((true[:, :, None] == picked.picks[:, None]).any(2) | (true == NO_LABEL)).all())
        return picked

    monkeypatch.setattr(Clusters, "pick", watched)
    trained(clusters=8, top=top)
    assert len(seen) == 2 * 80 / 16
    assert all(seen)


def test_a_seed_of_its_own_moves_the_clusters_and_nothing_else(model: SavedModel) -> None:
    other, again = (trained(clustering={"seed": 7}, seed=seed) for seed in (29, 30))
    assert not torch.equal(other.tensors["clusters.order"], model.tensors["clusters.order"])
    assert torch.equal(other.tensors["clusters.order"], again.tensors["clusters.order"])
    assert not torch.equal(other.tensors["classifier.weight"], again.tensors["classifier.weight"])
    assert same(trained(clustering={"seed": 29}), model)  # which is the method's own


@pytest.mark.parametrize(
    ("texts", "labels", "encoder"),
    some_slow([(1, 1, "bag"), (2, 3, "inception"), (2, 1, "bag"), (20, 1, "inception")], 2, unpack=True),
)
def test_the_smallest_data_can_be_trained_on(texts: int, labels: int, encoder: str) -> None:
    data = prepare(planted_texts(num_labels=labels), Splitter(), VocabularyConfig(), with_label_texts=False).data
    config = Config(epochs=2, embedding=16, encoder=encoder)
    ranker = inceptionxml_plus.train(data.rows(np.arange(texts)), config, Run.unkept()).ranker
    assert ranker.num_labels == labels
    assert ranker.rank(tokens(["", "xyzzy"]), 2).labels.shape == (2, 2)


def test_texts_without_labels_and_weights_of_texts_and_labels_are_learnt_from() -> None:
    train = CORPUS.split("train")
    labels = csr_array(train.labels.multiply((np.arange(80) % 7 > 0)[:, None]), dtype=np.float32)
    labels.eliminate_zeros()
    labels.data[::2] = 0.5
    weights = np.linspace(0, 2, 80, dtype=np.float32)
    split = replace(train, labels=labels, weights=weights)
    weighted = trained(replace(CORPUS, splits={"train": split}), bias=True, prior=True)
    assert all(0 < epoch["loss"] < 10 for epoch in weighted.facts["training"]["epochs"])


# Features without an order


def featured(corpus: Corpus = CORPUS, *, shift: int = 0) -> Corpus:
    """The corpus with sparse features for words; `shift` features that every text has come before them."""
    data, _ = prepare(corpus, Splitter(), VocabularyConfig(), with_label_texts=False)
    words = bags(data.inputs)
    common = np.full((words.shape[0], shift), 0.01, dtype=np.float32)
    features = csr_array(np.hstack([common, words.toarray()]))
    split = Split(labels=data.labels, features=features)
    return Corpus(splits={"train": split}, labels=corpus.labels, source="features")


def right_first_labels(corpus: Corpus, model: SavedModel) -> float:
    evaluation = Predictor(model, "cpu").evaluate(corpus, "train")
    return evaluation.metrics["P@1"]


@pytest.mark.slow
def test_sparse_features_are_learnt_by_a_bag() -> None:
    corpus = featured()
    assert right_first_labels(corpus, trained(corpus, **LEARNING)) > 80


def test_no_feature_is_cut_off_for_its_number() -> None:
    corpus = featured(shift=40)
    assert right_first_labels(corpus, trained(corpus, **LEARNING)) > 80


@pytest.mark.parametrize("encoder", ["inception", "cnn"])
def test_features_without_an_order_are_refused_where_it_matters(encoder: str) -> None:
    with pytest.raises(DataError, match=rf"encoder {encoder} reads words in their order.*--encoder bag .*would work"):
        trained(featured(), encoder=encoder)


def test_dense_features_are_refused() -> None:
    with pytest.raises(DataError, match="dense features; --encoder dense or --method nearest would work"):
        trained(planted_vectors())


def test_what_dense_features_are_told_to_try_would_work() -> None:
    with pytest.raises(DataError, match=r"^((?!--encoder bag).)*$"):
        trained(planted_vectors(), encoder="inception")


# Runs


class Watched(Silent):
    def __init__(self, at: int = 0) -> None:
        self.at, self.steps = at, 0

    def stepped(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(signal.SIGINT)


KEPT: Settings = {"validation": 0.2, "refit": True, "lazy": True}


@pytest.fixture(scope="module")
def unbroken() -> SavedModel:
    return trained(**KEPT)


@pytest.mark.parametrize(
    "stop", some_slow([1, 6, 10])
)  # of two epochs of four steps, and the first steps of the second stage
def test_a_stopped_run_goes_on_to_the_same_bits_with_the_clusters_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unbroken: SavedModel, stop: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(run=Run(tmp_path, watcher=Watched(stop), device=CPU), **KEPT)
    made = []

    def watched(data: Dataset, *more: Any) -> LabelTree:
        made.append(len(data))
        return cluster_labels(data, *more)

    monkeypatch.setattr("laconic.methods.common.cluster_labels", watched)
    went_on = trained(run=Run(tmp_path, watcher=Silent(), device=CPU), **KEPT)
    assert same(went_on, unbroken)
    assert made == ([] if stop > 8 else [80])  # of the second stage alone, and only if it had not begun
    assert [epoch["loss"] for epoch in went_on.facts["training"]["epochs"]] == [
        epoch["loss"] for epoch in unbroken.facts["training"]["epochs"]
    ]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"clusters": 8}, r"config\.clusters = 4 \(now 8\)"),
        ({"clustering": {"walks": 9}}, r"config\.clustering\.walks = 0 \(now 9\)"),
        ({"detached": 0.5}, r"config\.detached = 0\.25 \(now 0\.5\)"),
    ],
)
def test_another_config_on_an_unfinished_run_is_refused(tmp_path: Path, other: Settings, message: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(run=Run(tmp_path, watcher=Watched(2), device=CPU))
    with pytest.raises(TrainingError, match=message):
        trained(run=Run(tmp_path, watcher=Silent(), device=CPU), **other)


def test_an_epoch_tells_of_the_shortlist() -> None:
    model = trained(validation=0.2)
    for epoch in model.facts["training"]["epochs"]:
        assert list(epoch["figures"]) == ["nDCG@5", "P@1", "cluster P@1", "shortlist recall"]
        assert all(0 <= figure <= 100 for figure in epoch["figures"].values())
        assert epoch["score"] == epoch["figures"]["nDCG@5"]


@pytest.mark.slow
def test_members_differ_by_seed_and_so_by_their_clusters(tmp_path: Path) -> None:
    pair = trained(members=2)
    orders = [pair.tensors[f"members.{number}.clusters.order"] for number in range(2)]
    assert not torch.equal(*orders)
    write_model(pair, tmp_path / "pair")
    opened = Predictor.open(tmp_path / "pair", device="cpu", settings={"answer_top": 4})
    ensemble = restore_ranker(pair, CPU)
    assert isinstance(ensemble, Ensemble)
    labels, scores = ensemble.rank(tokens(TEXTS), 5)
    members = [ranker_of(trained(seed=seed)).score(tokens(TEXTS), labels) for seed in (29, 30)]
    torch.testing.assert_close(scores, torch.stack(members).mean(0))
    assert len(opened.predict(TEXTS, 5)) == len(TEXTS)
    shared = trained(members=2, clustering={"seed": 3})
    assert torch.equal(*(shared.tensors[f"members.{number}.clusters.order"] for number in range(2)))


# Costs


@pytest.mark.slow
def test_data_is_told_what_both_methods_would_cost() -> None:
    costs = expected_costs(describe(CORPUS))
    config = with_sizes(Config(), 80, LABELS, 6)
    model = train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", {"epochs": 1}), Run.unkept())
    assert list(costs) == ["inceptionxml", "inceptionxml+", "astec", "decaf"]
    assert costs["inceptionxml+"]["epochs"] == config.epochs
    assert sum(costs["inceptionxml+"]["parameters"].values()) == parameters(model)
    assert expected_costs(describe(planted_vectors())) == {}


def parameters(model: SavedModel) -> int:
    """What a model has learnt, counted number by number."""
    return sum(parameter.numel() for parameter in ranker_of(model).parameters())


@pytest.mark.parametrize(
    "options",
    some_slow(
        [
            {},
            {"hidden": 8},
            {"attention": False},
            {"encoder": "cnn"},
            {"encoder": "bag"},
            {"bias": True},
            {"heads": "lightxml"},
        ],
        2,
    ),
    ids=str,
)
def test_a_models_parameters_are_counted_right_or_not_at_all(options: Settings, tmp_path: Path) -> None:
    model = trained(**{"encoder": "inception", "epochs": 1} | options)
    write_model(model, tmp_path / "model")
    cost = inspect_model(tmp_path / "model", verify=True).facts["cost"]
    if cost is not None:
        assert sum(cost["parameters"].values()) == parameters(model)


def test_opening_fewer_clusters_costs_less(ordered: SavedModel, tmp_path: Path) -> None:
    costs = []
    for top in (1, 4):
        config = {**ordered.facts["config"], "answer_top": top}
        write_model(replace(ordered, facts={**ordered.facts, "config": config}), tmp_path / str(top))
        costs.append(inspect_model(tmp_path / str(top), verify=False).facts["cost"])
    assert costs[0]["gmacs"] < costs[1]["gmacs"]
    assert costs[0]["bytes"] == costs[1]["bytes"]


# Files that cannot be trusted


def spoilt(model: SavedModel, **tensors: Tensor) -> SavedModel:
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return replace(model, tensors={**model.tensors, **named})


ORDER, STARTS = torch.arange(LABELS), torch.tensor([0, 3, 6, 9, 12])


@pytest.mark.parametrize(
    "tensors",
    [
        {"clusters__order": torch.zeros(LABELS, dtype=torch.int64)},
        {"clusters__order": ORDER + 1},
        {"clusters__order": ORDER - 1},
        {"clusters__order": torch.cat([ORDER[:-1], ORDER[:1]])},
        {"clusters__order": ORDER[:-1]},
        {"clusters__order": torch.arange(LABELS + 1)},
        {"clusters__order": ORDER.int()},
        {"clusters__starts": STARTS + 1},
        {"clusters__starts": STARTS.flip(0)},
        {"clusters__starts": torch.tensor([0, 7, 6, 9, 12])},
        {"clusters__starts": torch.tensor([0, 3, 6, 9, 11])},
        {"clusters__starts": torch.tensor([0, -(2**62), 6, 9, 12])},
        {"clusters__starts": torch.tensor([0, 3, 6, 9, 2**62])},
        {"clusters__starts": torch.tensor([0, 4, 8, 12])},
        {"clusters__starts": torch.tensor([0, 6, 12])},
        {"clusters__starts": torch.tensor([0, 12])},
        {"clusters__starts": STARTS[:1]},
        {"clusters__order": torch.arange(24), "clusters__starts": 2 * STARTS},
        {"clusters__order": ORDER[:8], "clusters__starts": torch.tensor([0, 2, 4, 6, 8])},
        {"clusters__classifier__weight": torch.zeros(8, 16)},
        {"clusters__classifier__bias": torch.zeros(3)},
        {"clusters__classifier__bias": torch.tensor([0.0, torch.nan, 0.0, 0.0])},
        {"classifier__weight": torch.zeros(LABELS, 17)},
        {"classifier__weight": torch.zeros(LABELS + 1, 16)},
    ],
    ids=lambda tensors: ", ".join(f"{name}={tensor.tolist()!s:.40}" for name, tensor in tensors.items()),
)
def test_clusters_that_do_not_fit_are_refused(model: SavedModel, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(ModelError):
        restore_ranker(spoilt(model, **tensors), CPU)


@pytest.mark.parametrize("missing", ["clusters.order", "clusters.starts", "clusters.classifier.weight"])
def test_a_missing_part_of_the_clusters_is_named(model: SavedModel, missing: str) -> None:
    tensors = {name: tensor for name, tensor in model.tensors.items() if name != missing}
    with pytest.raises(ModelError, match=missing):
        restore_ranker(replace(model, tensors=tensors), CPU)


@pytest.mark.parametrize(
    "config",
    [{"answer_top": -1}, {"answer_top": "many"}, {"heads": "none"}, {"clusters": 3}, {"clustering": []}],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(model: SavedModel, config: Settings) -> None:
    facts = {**model.facts, "config": {**model.facts["config"], **config}}
    with pytest.raises(ModelError):
        restore_ranker(replace(model, facts=facts), CPU)


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        ({"answer_top": "many"}, {}),
        ({"answer_top": -1}, {}),
        ({}, {"clusters__starts": torch.arange(99)}),
        ({}, {"encoder__embedding__weight": torch.zeros(4)}),
    ],
    ids=["answer_top is a word", "answer_top is negative", "more clusters than labels", "words of no width"],
)
def test_inspect_refuses_what_cannot_be(
    ordered: SavedModel, config: Settings, tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    facts = {**ordered.facts, "config": {**ordered.facts["config"], **config}}
    write_model(replace(spoilt(ordered, **tensors), facts=facts), tmp_path / "model")
    with pytest.raises(UserError):
        inspect_model(tmp_path / "model", verify=True)
