"""XML-CNN: every label's row right after the bottleneck, all labels at once."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from laconic.config import configure, preset_path, read_settings
from laconic.data.prepare import prepare
from laconic.errors import ConfigError, DataError, ModelError, TrainingError
from laconic.evaluation.evaluate import validation_figures
from laconic.methods import xml_cnn
from laconic.methods.common import encoded
from laconic.methods.costs import flat_costs, training_machine
from laconic.methods.flat import FlatTraining, build
from laconic.methods.registry import config_of, ensemble_of
from laconic.methods.train import train_model
from laconic.methods.xml_cnn import Config, with_sizes
from laconic.models.encoders.cnn import BOTTLENECK
from laconic.predict.predictor import Predictor
from laconic.training.loop import Silent
from laconic.training.optimizer import Plan, clock_table
from laconic.training.run import Run
from tests.planted import planted_rare_labels, planted_texts, planted_vectors
from tests.variants import some_slow

SMALL = {"epochs": 8, "embedding": 16, "length": 6, "batch_size": 16, "learning_rate": 0.005}
BRIEF = SMALL | {"epochs": 2}
CORPUS = planted_texts(num_labels=12)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(settings, run=None, members=1):
    return train_model(CORPUS, "xml-cnn", config_of("xml-cnn", settings), run or Run.unkept(), members)


@pytest.fixture(scope="module")
def model():
    return trained(SMALL)


def p_at_1(model):
    return Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@1"]


def test_planted_labels_are_found(model):
    assert p_at_1(model) > 90


def test_a_label_scores_the_probability_of_its_row_on_the_bottleneck(model):
    ranker = xml_cnn.restore(configure(Config, model.facts["config"]), model.tensors)
    inputs = prepare(CORPUS, Config().text, Config().vocabulary).tokenizer.tokens(CORPUS.split("test").texts)
    vectors = ranker.encoder(inputs)
    assert vectors.shape[1] == BOTTLENECK == 512
    plain = (vectors @ model.tensors["classifier.weight"].T + model.tensors["classifier.bias"]).sigmoid()
    labels, scores = ranker.rank(inputs, 12)
    torch.testing.assert_close(scores, plain.gather(1, labels))
    assert {name for name in model.tensors if not name.startswith("encoder.")} == {
        "classifier.weight",
        "classifier.bias",
    }


@pytest.mark.parametrize(
    "changes",
    some_slow(
        [
            {"refit": True, "epochs": 5},
            {"validation": 0.0, "prior": True, "lazy": True},
            {"batch_norm": True, "refit": True, "epochs": 5},
        ],
        0,
    ),
    ids=str,
)
def test_other_ways_to_train_it_learn_too(changes):
    assert p_at_1(trained(SMALL | changes)) > 80


def test_dense_features_are_read_by_the_encoder_for_them():
    corpus = planted_vectors()
    settings = SMALL | {"encoder": "dense", "epochs": 20}
    found = train_model(corpus, "xml-cnn", config_of("xml-cnn", settings), Run.unkept())
    assert Predictor(found, "cpu").evaluate(corpus, "test").metrics["P@1"] > 75  # an eighth would be chance


def test_an_ensemble_of_it_is_trained_and_restored():
    found = trained(BRIEF, members=2)
    ranker = ensemble_of("xml-cnn", 2).restore(configure(Config, found.facts["config"]), found.tensors)
    assert ranker.num_labels == 12
    rows = [found.tensors[f"members.{number}.classifier.weight"] for number in range(2)]
    assert not torch.equal(*rows)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    class Stops(Silent):
        def __init__(self, after):
            self.left = after

        def stepped(self):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    settings = BRIEF | {"batch_norm": True}
    whole = trained(settings)
    for after in (7, 12):
        with pytest.raises(KeyboardInterrupt):
            trained(settings, Run(tmp_path / "run", watcher=Stops(after), device=CPU, seconds=0.0))
    again = trained(settings, Run(tmp_path / "run", watcher=Silent(), device=CPU, seconds=0.0))
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, again.tensors[name]), name


def test_the_rate_is_constant_as_published_unless_it_is_to_be_halved():
    def rates(**changes):
        return set(clock_table(xml_cnn._training(Config(epochs=10, batch_size=8, **changes)).plan, 50)[:, 0])

    assert rates() == {0.001}
    assert rates(halve_after=0.7) == {0.001, 0.0005}


def test_sizes_come_from_the_data():
    large = with_sizes(Config(), 485_176, 20)
    assert (large.epochs, large.batch_size, large.length) == (13, 128, 20)
    assert with_sizes(Config(), 45_000, 60).length == 32
    assert with_sizes(Config(encoder="mlp"), 45_000, 60).length == 60
    given = Config(epochs=3, batch_size=7, length=9)
    assert with_sizes(given, 485_176, 20) == given


# What it takes


def test_weights_and_their_moments_are_counted_and_time_goes_with_the_work():
    config = configure(Config, SMALL)
    data = prepare(CORPUS, config.text, config.vocabulary, with_label_texts=False).data

    def of(labels=12, **changes):
        own = replace(config, **changes)
        training = FlatTraining(
            plan=Plan(epochs=1, batch_size=8),
            dropout=0.0,
            chunk=64,
            prior=False,
            precision=torch.float32,
            build=partial(build, own),
        )
        sizes = {"words": data.inputs.shape[1], "labels": labels, "texts": len(data)}
        return flat_costs(training, own, **sizes, machine=training_machine(CPU))

    model = trained(BRIEF | {"epochs": 1})
    assert of()[1] == sum(tensor.numel() for tensor in model.tensors.values())
    assert of()[0].memory > 16 * of()[1]
    assert of(labels=1012)[0].memory - of(labels=64)[0].memory == 16 * 948 * (BOTTLENECK + 1)
    assert of(labels=1012)[0].seconds > of()[0].seconds


def test_a_run_that_cannot_fit_says_what_would(monkeypatch):
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 21_000_000)
    with pytest.raises(TrainingError, match="--set embedding=64 and --set batch_size=32 it would fit"):
        trained(BRIEF | {"embedding": 2048})
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 1000)
    with pytest.raises(TrainingError, match="--method nearest"):
        trained(BRIEF)


# What it refuses


def test_tensors_that_do_not_fit_are_refused(model):
    config, tensors = configure(Config, model.facts["config"]), model.tensors
    name = "encoder.bottleneck.weight"
    wrong = [
        {name: tensors[name][:-1]},
        {name: tensors[name] / 0},
        {name: tensors[name].half()},
        {"classifier.weight": tensors["classifier.weight"][0]},
        {"classifier.bias": tensors["classifier.bias"][:5]},
        {"classifier.transform.weight": tensors[name]},
    ]
    for change in wrong:
        with pytest.raises(ModelError, match="xml-cnn"):
            xml_cnn.restore(config, tensors | change)
    for name in tensors:
        with pytest.raises(ModelError, match=name):
            xml_cnn.restore(config, {other: tensor for other, tensor in tensors.items() if other != name})


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"encoder": "tree"}, "encoder must be .* or cnn"),
        ({"refit": True, "validation": 0.0}, "refit needs"),
        ({"encoder": "inception", "batch_size": 1}, "batch_size must be 0 .* or at least 2"),
        ({"vocabulary": {"subwords": 64}}, "--encoder bag"),
        ({"halve_after": 1.5}, "halve_after must be 0 to 1"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_known(wrong, named):
    with pytest.raises(ConfigError, match=named):
        config_of("xml-cnn", wrong)


def test_features_without_an_order_are_refused_with_words():
    config = configure(Config, BRIEF)
    data = prepare(CORPUS, config.text, config.vocabulary, with_label_texts=False).data
    with pytest.raises(DataError, match="--encoder bag"):
        xml_cnn.train(replace(data, ordered=False), config, Run.unkept())


# Where every label is rare


def trained_on_rare_labels(**changes):
    """One epoch by the preset for a CPU, narrower."""
    settings = read_settings(preset_path("xml-cnn", "laptop"), []) | {"epochs": 1, "embedding": 32, "validation": 0.0}
    config = configure(Config, settings | changes)
    data = prepare(planted_rare_labels(num_labels=600, each=8), config.text, config.vocabulary).data
    ranker = xml_cnn.train(data, config, Run.unkept()).ranker
    some = data.rows(np.arange(300))
    with torch.no_grad():
        active = (encoded(ranker.encoder, some.inputs, CPU) > 0).float().mean().item()
    return active, validation_figures(ranker, some)["P@1"], ranker


def test_the_preset_learns_rare_labels_for_which_the_bottleneck_would_die_without_normalisation():
    active, found, ranker = trained_on_rare_labels()
    assert active > 0.3
    assert found > 30
    assert isinstance(ranker.classifier.transform, torch.nn.Identity)
    active, found, _ = trained_on_rare_labels(batch_norm=False)
    assert active < 0.1
    assert found < 5
