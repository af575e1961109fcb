"""Astec's presets: the paper's datasets with their settings, and other methods' encoders inside DeepXML."""

import numpy as np
import pytest

from laconic.config import preset_path, read_settings
from laconic.methods.astec import Config, _plan
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.optimizer import clock_table
from laconic.training.run import Run
from tests.planted import planted_texts

# By dataset: training texts; the rates of both stages (Table 5, and the code where it differs); the
# classifier's share of a score; the epochs of the last stage and after how many its rate is halved; k-means centres.
DATASETS = {
    "WikiSeeAlsoTitles-350K": (629_418, 0.005, 0.002, 0.3, (15, 14), 0),
    "WikiTitles-500K": (1_699_722, 0.005, 0.0005, 0.6, (12, 10), 300),
    "AmazonTitles-670K": (485_176, 0.02, 0.001, 0.1, (15, 14), 0),
    "AmazonTitles-3M": (1_712_536, 0.003, 0.0005, 0.1, (15, 14), 300),
    "LF-AmazonTitles-131K": (294_805, 0.03, 0.001, 0.1, (15, 14), 0),
    "LF-AmazonTitles-1.3M": (2_248_619, 0.003, 0.0005, 0.6, (15, 14), 300),
    "LF-WikiSeeAlsoTitles-320K": (693_082, 0.005, 0.002, 0.1, (15, 14), 0),
    "LF-WikiTitles-500K": (1_813_391, 0.005, 0.0005, 0.6, (15, 10), 300),
}


def preset(name: str, *assignments: str) -> Config:
    config = config_of("astec", read_settings(preset_path("astec", name), assignments))
    assert isinstance(config, Config)
    return config


def halvings(config: Config, epochs: int, stage: str) -> list[int]:
    """The epochs after which a stage's rate is halved."""
    rates = clock_table(_plan(config, getattr(config, stage)), epochs)[:, 0]
    return [epoch for epoch in range(1, epochs) if rates[epoch] == pytest.approx(rates[epoch - 1] / 2)]


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_has_the_settings_of_the_paper_and_its_code(name: str) -> None:
    texts, surrogate, extreme, beta, (epochs, halved), centres = DATASETS[name]
    config = preset(name)
    assert (config.surrogate.count, config.surrogate.epochs, config.surrogate.learning_rate) == (65_536, 20, surrogate)
    assert (config.extreme.epochs, config.extreme.learning_rate, config.batch_size) == (epochs, extreme, 255)
    assert halvings(config, 20, "surrogate") == [14]
    assert halvings(config, epochs, "extreme") == [halved]
    assert (config.beta, config.shortlist.size, config.embedding) == (beta, 500, 300)
    assert (config.extreme.random, config.prior, config.shortlist.centres) == (150, False, centres)
    assert (config.votes, config.shortlist.neighbour_weight, config.shortlist.neighbour_power) == (0.075, 0.075, 1.0)
    assert (config.clustering.smoothing, config.clustering.walks) == (("symmetric", 0) if centres else ("rows", 50))
    if centres:
        assert config.shortlist.frequent * texts == pytest.approx(7500, rel=0.015)


def test_a_papers_dataset_is_called_alike_in_every_method() -> None:
    for name in ("WikiSeeAlsoTitles-350K", "WikiTitles-500K", "AmazonTitles-670K", "AmazonTitles-3M"):
        assert preset_path("inceptionxml+", name).name == preset_path("astec", name).name


SMALL = [
    *("epochs=42", "embedding=32", "length=6", "batch_size=16", "dropout=0.1", "surrogate.count=8"),
    *("shortlist.size=9", "shortlist.centroids=8", "shortlist.neighbours=5", "extreme.random=2", "clustering.walks=10"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "encoder", "groups", "rate"),
    [
        pytest.param("xml-cnn", "cnn", "clusters", 0.01, marks=pytest.mark.slow),
        pytest.param("mach", "mlp", "random", 0.03, marks=pytest.mark.slow),
        ("inception", "inception", "clusters", 0.02),
    ],
)
def test_other_encoders_go_through_all_four_modules(name: str, encoder: str, groups: str, rate: float) -> None:
    corpus = planted_texts(num_labels=12)
    config = preset(name, *SMALL, f"learning_rate={rate}")
    assert (config.encoder, config.surrogate.groups) == (encoder, groups)
    model = train_model(corpus, "astec", config, Run.unkept())
    assert model.facts["training"]["surrogate"]
    assert np.isfinite([epoch["loss"] for epoch in model.facts["training"]["epochs"]]).all()
    assert Predictor(model, "cpu").evaluate(corpus, "test").metrics["P@1"] > 60  # a twelfth would be chance
