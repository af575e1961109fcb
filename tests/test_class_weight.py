"""Weights of labels in training: what they are, what every method makes of them, and where they are refused."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional

from laconic import Laconic
from laconic.data.class_weight import label_weights
from laconic.errors import ConfigError, UserError
from laconic.methods.registry import METHODS
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.training.tasks import AllLabels
from laconic.types import NO_LABEL, Batch
from tests.planted import word

NAMES = ["common", "rare", "unused"]
# One text in eight is of the rare label, and no word tells which: the rare label wins only where it weighs more.
TEXTS = [f"ember quartz {word(at // 8 % 4)}" for at in range(160)]
LABELS = [["rare"] if at % 8 == 0 else ["common"] for at in range(160)]
QUESTION = "ember quartz"
FLAT = {"epochs": 10, "batch_size": 16, "learning_rate": 0.1, "embedding": 8, "validation": 0.0}
SMALL = {"nearest": {"neighbours": 160}, "trees": {"trees": 1, "epochs": 100}, "inceptionxml": FLAT, "xml-cnn": FLAT}


def test_balanced_weights_are_scikit_learns_where_each_text_has_one_label():
    y = np.repeat([0, 1, 2, 3], [50, 30, 1, 7])
    ours = label_weights("balanced", list("abcd"), np.bincount(y))
    assert np.allclose(ours, compute_class_weight("balanced", classes=np.arange(4), y=y))


def test_balanced_labels_weigh_the_same_in_sum_and_unused_ones_weigh_1():
    counts = np.array([40, 5, 0])
    assert np.allclose(label_weights("balanced", NAMES, counts) * counts, [22.5, 22.5, 0])
    assert label_weights("balanced", NAMES, counts)[2] == 1


def test_a_dict_weighs_the_labels_that_it_names():
    assert label_weights({"rare": 3}, NAMES, np.ones(3)).tolist() == [1, 3, 1]
    assert label_weights({7: np.float32(2)}, ["7"], np.ones(1)).tolist() == [2]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("balance", "must be None, 'balanced' or a dict of label names, but is 'balance'"),
        (2.0, "but is 2.0"),
        ({"rar": 2.0}, "'rar', which is no label; did you mean 'rare'?"),
        ({"rare": 0}, r"class_weight\['rare'\] must be a number above 0, but is 0"),
        ({"rare": float("nan")}, "must be a number above 0, but is nan"),
        ({"rare": True}, "must be a number above 0, but is True"),
        ({"rare": "2"}, "must be a number above 0, but is '2'"),
    ],
)
def test_what_is_no_weight_is_refused(wanted, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        label_weights(wanted, NAMES, np.ones(3))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("left_out", [False, True])
def test_loss_and_gradients_are_those_of_weighted_positives(soft, left_out):
    torch.manual_seed(0)
    weights = torch.tensor([0.1, 1.0, 7.0, 2.5, 0.6])
    classifier, vectors = LinearClassifier(4, 5), torch.randn(3, 4)
    torch.nn.init.normal_(classifier.weight)
    torch.nn.init.normal_(classifier.bias)
    positives = torch.tensor([[0, 2], [3, NO_LABEL], [NO_LABEL, NO_LABEL]])
    targets = torch.tensor([[0.3, 1.0], [0.9, 0.0], [0.0, 0.0]]) if soft else None
    out = torch.tensor([[4], [NO_LABEL], [1]]) if left_out else None
    batch = Batch(vectors, positives, targets, torch.tensor([1.0, 2.0, 0.5]), left_out=out)
    task = AllLabels(Identity(4), classifier, dropout=0.0, chunk=2, label_weights=weights)
    task(batch, torch.tensor(0.5)).backward()
    found = classifier.weight.grad.clone(), classifier.bias.grad.clone()

    classifier.zero_grad()
    truth, of_pairs = torch.zeros(3, 5), torch.ones(3, 5)
    for row, place in ((0, 0), (0, 1), (1, 0)):
        label = positives[row, place]
        truth[row, label] = 1.0 if targets is None else targets[row, place]
        of_pairs[row, label] = weights[label]
    if left_out:
        of_pairs[0, 4] = of_pairs[2, 1] = 0.0
    scores = vectors @ classifier.weight.T + classifier.bias
    plain = functional.binary_cross_entropy_with_logits(scores, truth, reduction="none")
    expected = (plain * of_pairs * batch.weights[:, None]).mean()
    expected.backward()
    torch.testing.assert_close(found, (classifier.weight.grad, classifier.bias.grad))
    if not left_out:  # a pair that is left out counts as its own prediction in the loss
        torch.testing.assert_close(task(batch, torch.tensor(0.5)), expected)


@pytest.mark.parametrize("method", SMALL)
def test_a_rare_label_is_first_where_it_weighs_more(method):
    first = {
        weight: Laconic(method, class_weight=given, **SMALL[method]).fit(TEXTS, LABELS).predict(QUESTION, k=1)[0].label
        for weight, given in {"none": None, "by name": {"rare": 50.0, "common": 0.2}}.items()
    }
    assert first == {"none": "common", "by name": "rare"}


def test_weights_are_saved_with_the_model_and_shown(tmp_path):
    model = Laconic("nearest", class_weight={"rare": 50.0}).fit(TEXTS, LABELS)
    model.save(tmp_path / "model")
    again = Laconic.load(tmp_path / "model")
    assert again.class_weight == {"rare": 50.0}
    assert "class_weight" not in Laconic("nearest").fit(TEXTS, LABELS).model_.facts
    assert again.predict(QUESTION) == model.predict(QUESTION)
    with pytest.raises(UserError, match="trained with class_weight, which an update does not apply"):
        model.update(["five six"], [["rare"]])


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.weighs_labels])
def test_other_methods_refuse_weights_and_name_those_that_have_them(method):
    with pytest.raises(ConfigError, match="methods that have it are nearest, trees, inceptionxml, xml-cnn"):
        Laconic(method, class_weight="balanced").fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Laconic(class_weight="balanced"), "class_weight is for a named method"),
        (Laconic("trees", class_weight="balanced", validation=0.2, fusion={}), "does not reach what fusion learns"),
        (Laconic("trees", class_weight="balanced", validation=0.2, reranker={}), "does not reach what reranker learns"),
    ],
)
def test_weights_are_refused_where_they_would_not_reach_all_that_is_learnt(estimator, message):
    with pytest.raises(ConfigError, match=message):
        estimator.fit(TEXTS, LABELS)
