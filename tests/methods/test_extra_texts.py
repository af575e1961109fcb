"""Any method that trains may learn from the labels' own texts too."""

import signal
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from laconic.data.corpus import Labels
from laconic.errors import ConfigError, DataError
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_config, restore_ranker, with_settings
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.loop import Silent
from laconic.training.run import Run
from tests.planted import planted_texts, word, words_of
from tests.test_rankers import RERANKER, SETTINGS
from tests.variants import some_slow

HIDDEN = 2
CORPUS = planted_texts(num_labels=12, with_label_texts=True)
ASKED = [f"{word(4)} {one} {other} {word(9)}" for one, other in permutations(words_of(HIDDEN), 2)]
EXTRA = {"share": 0.25}
BAG = {"encoder": "bag", "validation": 0.0}


def without(label):
    """The planted data, but for the training texts that have the label."""
    train = CORPUS.split("train")
    kept = np.flatnonzero(train.labels[:, [label]].toarray().ravel() == 0)
    fewer = replace(train, texts=[train.texts[row] for row in kept], labels=train.labels[kept])
    return replace(CORPUS, splits={**CORPUS.splits, "train": fewer})


def trained(method, corpus=CORPUS, run=None, members=1, **changes):
    config = config_of(method, SETTINGS.get(method, {}) | changes)
    return train_model(corpus, method, config, run or Run.unkept(), members)


def share_of_hidden_first(model):
    return np.mean([best.label == f"L{HIDDEN}" for (best,) in Predictor(model, "cpu").predict(ASKED, 1)])


@pytest.mark.parametrize(
    ("method", "changes"),
    some_slow(
        [
            ("inceptionxml", BAG),
            ("astec", {"validation": 0.0}),
            pytest.param("inceptionxml+", BAG, marks=pytest.mark.slow),
            ("mach", {"validation": 0.0}),
        ],
        unpack=True,
    ),
)
def test_a_label_that_no_text_has_is_found_from_its_own_text(method, changes):
    corpus = without(HIDDEN)
    assert share_of_hidden_first(trained(method, corpus, **changes)) == 0
    model = trained(method, corpus, **changes, extra_texts=EXTRA)
    assert share_of_hidden_first(model) > 0.8
    assert Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@1"] > 90


def test_a_re_ranker_learns_from_them_too():
    """It alone: what it re-ranks knows every label's own text, but would not put the hidden one first by much."""
    changes = {"reranker": RERANKER | {"alpha": 1.0, "size": 12}}
    corpus = without(HIDDEN)
    assert share_of_hidden_first(trained("nearest", corpus, **changes)) == 0
    assert share_of_hidden_first(trained("nearest", corpus, **changes, extra_texts=EXTRA)) > 0.8


@pytest.mark.parametrize("method", some_slow(["xml-cnn", "inceptionxml"]))
@pytest.mark.parametrize("members", [1, 2])
def test_a_model_keeps_their_settings_and_is_restored_as_any_other(method, members):
    model = trained(method, members=members, epochs=2, extra_texts={"weight": 0.5})
    assert model.facts["config"]["extra_texts"] == {"share": 0.0, "threshold": 0.1, "most": 10, "weight": 0.5}
    assert restore_config(model).extra_texts.weight == 0.5
    assert model.facts["sizes"]["texts"] == 240  # what the data has
    plain = trained(method, members=members, epochs=2)
    ranker, other = (restore_ranker(each, torch.device("cpu")) for each in (model, plain))
    assert type(ranker) is type(other)
    assert {name: part.shape for name, part in ranker.state_dict().items() if "embedding" not in name} == {
        name: part.shape for name, part in other.state_dict().items() if "embedding" not in name
    }
    with pytest.raises(ConfigError, match=r"extra_texts\.weight cannot be changed without training"):
        with_settings(model, {"extra_texts": {"weight": 1.0}})


def test_words_that_only_labels_have_are_known():
    texts = [f"{text} newword" for text in CORPUS.labels.texts]
    corpus = replace(CORPUS, labels=replace(CORPUS.labels, texts=texts))
    assert "newword" in trained("xml-cnn", corpus, epochs=1, extra_texts={}).vocabulary.words
    assert "newword" not in trained("xml-cnn", corpus, epochs=1).vocabulary.words


@pytest.mark.slow
def test_once_more_on_all_texts_is_with_them_too():
    model = trained("inceptionxml", without(HIDDEN), encoder="bag", refit=True, extra_texts={"share": 0.5})
    assert share_of_hidden_first(model) > 0.8


class Stopped(Silent):
    def __init__(self, at):
        self.left = at

    def stepped(self):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("method", "stop"),
    some_slow(
        [
            ("inceptionxml", 31),
            ("astec", 9),
            pytest.param("astec", 170, marks=pytest.mark.slow),
            pytest.param("mach", 20, marks=pytest.mark.slow),
        ],
        unpack=True,
    ),
)
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, method, stop):
    changes = {"encoder": "bag", "epochs": 8, "extra_texts": EXTRA} | ({"members": 2} if method == "mach" else {})
    changes |= {"surrogate": {"epochs": 4}, "extreme": {"epochs": 9}} if method == "astec" else {}
    with pytest.raises(KeyboardInterrupt):
        trained(method, run=Run(tmp_path, watcher=Stopped(stop), device=torch.device("cpu")), **changes)
    resumed = trained(method, run=Run(tmp_path, watcher=Silent(), device=torch.device("cpu")), **changes)
    whole = trained(method, **changes)
    assert all(torch.equal(tensor, whole.tensors[name]) for name, tensor in resumed.tensors.items())


def test_data_without_label_texts_is_refused():
    corpus = replace(CORPUS, labels=Labels(names=CORPUS.labels.names))
    with pytest.raises(DataError, match="extra_texts wants labels with texts, but this data has none"):
        trained("xml-cnn", corpus, extra_texts={})


def test_a_method_that_does_not_train_has_none():
    with pytest.raises(ConfigError, match="extra_texts are for methods that train"):
        config_of("nearest", {"extra_texts": {}})


def test_a_batch_of_one_has_no_share():
    with pytest.raises(ConfigError, match=r"batch_size must be at least 2 for extra_texts\.share"):
        trained("xml-cnn", batch_size=1, extra_texts=EXTRA)
