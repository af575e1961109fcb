"""Astec, and the four modules of DeepXML that it is made of."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from laconic.config import configure
from laconic.data.prepare import prepare
from laconic.data.sources import read
from laconic.errors import ConfigError, DataError
from laconic.methods import astec
from laconic.methods.astec import Config, with_sizes
from laconic.methods.costs import CPU
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker, with_settings
from laconic.methods.train import train_model
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.layers import Transfer
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.training.tasks import Shortlisted
from laconic.types import NO_LABEL, Batch
from tests.planted import planted_texts, share_of_right_first_labels
from tests.test_rankers import SETTINGS

SMALL = SETTINGS["astec"]
CORPUS = planted_texts(num_labels=12, with_label_texts=True)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def settings(**changes):
    merged = dict(SMALL)
    for name, value in changes.items():
        merged[name] = {**merged[name], **value} if isinstance(value, dict) and name in merged else value
    return merged


def p_at_1(model):
    predictor = Predictor(model, "cpu")
    return predictor.evaluate(CORPUS, "test").metrics["P@1"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"surrogate": {"groups": "random"}}, marks=pytest.mark.slow),
        pytest.param({"surrogate": {"groups": "frequent"}}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"transfer": "unbounded"}}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"transfer": "full"}}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"transfer": "none"}}, marks=pytest.mark.slow),
        pytest.param({"shortlist": {"neighbours": 0}}, marks=pytest.mark.slow),
        pytest.param({"shortlist": {"centres": 2, "frequent": 0.05}}, marks=pytest.mark.slow),
        pytest.param({"beta": 1.0}, marks=pytest.mark.slow),
        pytest.param({"encoder": "cnn", "learning_rate": 0.01}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"negatives": "uniform"}}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"negatives": "unigram"}}, marks=pytest.mark.slow),
        pytest.param({"extreme": {"fine_tuned": True}}, marks=pytest.mark.slow),
        pytest.param({"shortlister": "clusters", "shortlist": {"size": 6}}, marks=pytest.mark.slow),
        pytest.param({"label_texts": 3}, marks=pytest.mark.slow),
        pytest.param({"label_texts": 2, "shortlister": "clusters", "shortlist": {"size": 6}}, marks=pytest.mark.slow),
        pytest.param({"validation": 0.0}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_part_can_be_exchanged(changes):
    model = train_model(CORPUS, "astec", config_of("astec", settings(**changes)), Run.unkept())
    assert p_at_1(model) > 50  # a twelfth would be chance


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("optimiser", "rate"), [("adam-bf16", 0.01), ("adagrad-bf16", 0.1)])
def test_rows_are_learnt_in_half_precision(optimiser, rate):
    changes = settings(extreme={"optimiser": optimiser, "learning_rate": rate}, beta=1.0)
    model = train_model(CORPUS, "astec", config_of("astec", changes), Run.unkept("cuda"))
    assert p_at_1(model) > 50


@pytest.mark.parametrize("optimiser", ["adam-bf16", "adagrad-bf16"])
def test_rows_in_half_precision_are_refused_before_anything_is_trained(monkeypatch, optimiser):
    monkeypatch.setattr(astec, "train_four_modules", pytest.fail)
    data, _ = prepare(CORPUS, Config().text, Config().vocabulary)
    with pytest.raises(ConfigError, match=f"optimiser={optimiser}.*leave it out"):
        astec.train(data, configure(Config, settings(extreme={"optimiser": optimiser})), Run.unkept("cpu"))


def test_rows_have_the_optimiser_of_the_settings(monkeypatch):
    plans = []

    def train(data, held, parts, given, run):
        plans.append(given)
        raise DataError("enough")

    monkeypatch.setattr(astec, "train_four_modules", train)
    monkeypatch.setattr(astec, "check_optimiser", lambda plan, device: None)  # no GPU is needed for this
    data, _ = prepare(CORPUS, Config().text, Config().vocabulary)
    with pytest.raises(DataError, match="enough"):
        astec.train(data, configure(Config, settings(extreme={"optimiser": "adam-bf16"})), Run.unkept())
    assert [(one.surrogate.optimiser, one.extreme.optimiser) for one in plans] == [("adam", "adam-bf16")]


@pytest.fixture(scope="module")
def learnt():
    """Planted data, its tokenizer and what was trained on it; nothing may change them."""
    data, tokenizer = prepare(CORPUS, Config().text, Config().vocabulary)
    return data, tokenizer, astec.train(data, configure(Config, SMALL), Run.unkept())


def test_shares_are_chosen_on_the_validation_split_and_remembered(learnt):
    _, tokenizer, trained = learnt
    tried = trained.facts["training"]["blends"]
    best = max(tried.values())
    assert set(tried) == {f"beta {beta}" for beta in astec.BETAS} | {f"votes {share}" for share in astec.VOTES}
    assert tried[f"beta {trained.config.beta}"] == tried[f"votes {trained.config.votes}"] == best
    assert float(trained.ranker.beta) == pytest.approx(trained.config.beta)
    assert float(trained.ranker.shortlister.neighbour_weight) == pytest.approx(trained.config.votes)
    test = CORPUS.split("test")
    labels = trained.ranker.rank(tokenizer.tokens(test.texts), 5).labels.numpy()
    assert share_of_right_first_labels(labels, test.labels) > 0.9


def test_shares_that_are_given_are_kept():
    data, _ = prepare(CORPUS, Config().text, Config().vocabulary)
    trained = astec.train(data, configure(Config, settings(beta=0.3, votes=0.4, epochs=2)), Run.unkept())
    assert (trained.config.beta, trained.config.votes) == (0.3, 0.4)
    assert float(trained.ranker.shortlister.neighbour_weight) == pytest.approx(0.4)
    assert trained.facts["training"]["blends"] == {}


@pytest.mark.parametrize("changes", [pytest.param({}, marks=pytest.mark.slow), {"label_texts": 3}], ids=str)
def test_votes_can_be_overruled_when_a_model_answers(changes):
    model = train_model(CORPUS, "astec", config_of("astec", settings(votes=0.4, epochs=2, **changes)), Run.unkept())
    ranker = restore_ranker(model, torch.device("cpu"))
    other = restore_ranker(with_settings(model, {"votes": 0.9}), torch.device("cpu"))
    near, far = (one.shortlister.others if changes else one.shortlister for one in (ranker, other))
    assert (float(near.neighbour_weight), float(far.neighbour_weight)) == (pytest.approx(0.4), pytest.approx(0.9))


def plain_loss(vectors, classifier, batch, picked):
    """Text by text: every label once, positives true, the rest not."""
    total = 0
    for row, vector in enumerate(classifier.transform(vectors)):
        labels = sorted({int(label) for label in picked[row] if label != NO_LABEL})
        truth = torch.tensor([float(label in batch.positives[row]) for label in labels])
        scores = classifier.weight[labels] @ vector + classifier.bias[labels]
        total = total + functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum")
    return total / len(vectors)


def test_the_loss_is_summed_over_positives_and_negatives_and_no_positive_is_a_negative():
    torch.manual_seed(0)
    classifier = LinearClassifier(5, 20, transform=Transfer(5, dropout=0.0))
    task = Shortlisted(Identity(5), classifier, random=0).eval()
    positives = torch.tensor([[3, 7, NO_LABEL], [1, NO_LABEL, NO_LABEL], [NO_LABEL] * 3])
    negatives = torch.tensor([[7, 2, 9, 2], [0, 5, 6, NO_LABEL], [4, 4, 4, 8]])  # a positive and repeats among them
    vectors = torch.randn(3, 5)
    batch = Batch(vectors, positives, None, None, negatives)
    loss = task(batch, torch.zeros(()))
    expected = plain_loss(vectors, classifier, batch, torch.cat([positives, negatives], 1))
    torch.testing.assert_close(loss, expected)
    slopes = torch.autograd.grad(loss, list(classifier.parameters()))
    others = torch.autograd.grad(expected, list(classifier.parameters()))
    for mine, other in zip(slopes, others, strict=True):
        torch.testing.assert_close(mine, other)


def test_random_negatives_are_drawn():
    classifier = LinearClassifier(5, 50)
    task = Shortlisted(Identity(5), classifier, random=10)
    batch = Batch(torch.randn(2, 5), torch.tensor([[3], [1]]), None, None, torch.tensor([[7], [2]]))
    torch.manual_seed(0)
    (slopes,) = torch.autograd.grad(task(batch, torch.zeros(())), [classifier.weight])
    assert 10 < int(slopes.any(1).sum()) <= 24


def test_theorem_1_holds_for_trained_weights(learnt):
    """Of a trained transfer: no vector moves further than λ times its length, and cosines with labels' centroids stay
    within their bounds. λ is from an SVD, which one power iteration under-estimates; the bias, which the theorem does
    not know of, adds its length.
    """
    data, tokenizer, trained = learnt
    transfer, encoder = trained.ranker.classifier.transform, trained.ranker.encoder
    norm, reach = float(torch.linalg.svdvals(transfer.weight().detach())[0]), float(transfer.bias.detach().norm())
    with torch.no_grad():
        vectors = encoder(tokenizer.tokens(CORPUS.split("train").texts))
        vectors = vectors[vectors.any(1)]
        moved = transfer(vectors)
    lengths = vectors.norm(dim=1)
    assert norm < 1.2
    assert (vectors >= 0).all()
    assert ((moved - vectors).norm(dim=1) <= norm * lengths + reach + 1e-5).all()
    labels = torch.from_numpy(data.labels.toarray())[encoder(tokenizer.tokens(CORPUS.split("train").texts)).any(1)]
    for own in (labels[:, label].bool() for label in range(data.num_labels)):
        centre, new_centre = vectors[own].mean(0), moved[own].mean(0)
        before, after = (functional.cosine_similarity(x, y[None]) for x, y in ((vectors, centre), (moved, new_centre)))
        # How much longer a vector and a centroid of so many texts can have become.
        longer = (1 + norm) + reach / lengths
        centre_longer = (1 + norm * int(own.sum()) ** 0.5) + reach / centre.norm()
        assert (after >= before / (longer * centre_longer) - 1e-5).all()
        assert (after <= before + longer * centre_longer - 1 + 1e-5).all()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_a_finished_stage_is_not_trained_again(tmp_path):
    class Stops(Silent):
        """Interrupts after so many steps."""

        def __init__(self, after):
            self.left = after

        def stepped(self):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    short = settings(epochs=7, validation=0.1)
    whole = train_model(CORPUS, "astec", config_of("astec", short), Run.unkept())
    cpu = torch.device("cpu")
    for after in (20, 45, 15):
        with pytest.raises(KeyboardInterrupt):
            run = Run(tmp_path / "run", watcher=Stops(after), device=cpu, seconds=0.0)
            train_model(CORPUS, "astec", config_of("astec", short), run)
    run = Run(tmp_path / "run", watcher=Silent(), device=cpu, seconds=0.0)
    again = train_model(CORPUS, "astec", config_of("astec", short), run)
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, again.tensors[name]), name


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"surrogate": {"groups": "trees"}}, "clusters or frequent or random or none"),
        ({"extreme": {"transfer": "teleport"}}, "residual or unbounded or full or none"),
        ({"surrogate": {"groups": "none"}}, "vectors=FILE"),
        ({"beta": 2.0}, "beta"),
        ({"encoder": "lstm"}, "inception or bag or cnn"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_known(wrong, named):
    with pytest.raises(ConfigError, match=named):
        config_of("astec", wrong)


def test_sizes_come_from_the_data():
    large = with_sizes(Config(), 485_176, 670_091, 20, 2_615_099)
    assert (large.surrogate.count, large.epochs, large.batch_size, large.length) == (65_536, 14, 256, 20)
    assert (large.surrogate.epochs, large.extreme.epochs) == (10, 4)
    assert (large.surrogate.learning_rate, large.extreme.learning_rate) == (0.01, pytest.approx(0.003))
    small = with_sizes(Config(epochs=14, learning_rate=0.02), 45_000, 36_306, 12, 231_000)
    assert (small.surrogate.epochs, small.extreme.epochs, small.surrogate.count) == (10, 4, 4096)
    tiny = with_sizes(Config(), 20, 3, 5, 30)
    assert (tiny.surrogate.count, tiny.epochs) == (1, 42)


def test_random_negatives_take_no_search_in_estimates():
    def seconds(negatives):
        extreme = replace(Config().extreme, negatives=negatives)
        sized = with_sizes(replace(Config(), extreme=extreme), 500_000, 25_000, 10, 2_000_000)
        return astec.stage_seconds(sized, CPU, words=100_000, labels=25_000, texts=500_000)

    assert seconds("uniform")["negatives"] == 0 < 3600 < seconds("shortlist")["negatives"]


def test_dense_features_are_refused_with_words():
    data, _ = prepare(CORPUS, Config().text, Config().vocabulary)
    dense = replace(data, inputs=np.ones((len(data), 4), dtype=np.float32), ordered=False)
    with pytest.raises(DataError, match="dense features"):
        astec.train(dense, configure(Config, SMALL), Run.unkept())


@pytest.mark.slow
def test_a_model_with_a_search_graph_of_an_earlier_version_answers_by_exact_search(caplog):
    model = train_model(CORPUS, "astec", config_of("astec", settings(shortlist={"search": "graph"})), Run.unkept())
    assert "exact search is used" in caplog.text
    graph = {f"shortlister.centre_graph.{part}": torch.zeros(3) for part in ("levels", "neighbours", "entry")}
    shortlist = model.facts["config"]["shortlist"] | {"centre_links": 100, "text_search_width": 100}
    older = replace(
        model,
        tensors={**model.tensors, **graph},
        facts={**model.facts, "config": model.facts["config"] | {"shortlist": shortlist}},
    )
    caplog.clear()
    found, expected = (restore_ranker(one, torch.device("cpu")).state_dict() for one in (older, model))
    assert "written by an earlier version" in caplog.text
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def with_given_vectors(folder: Path, names: str) -> SavedModel:
    """Train on a repository folder with sparse features, keeping word vectors as the file has them."""
    files = {"trn_X_Xf.txt": "4 3\n0:1\n1:1 2:1\n0:2\n1:1\n", "trn_X_Y.txt": "4 2\n0:1\n1:1\n0:1\n1:1\n"}
    files |= {"vectors.vec": "pear 3 4 0 0 0 0 0 0\nfig 5 6 0 0 0 0 0 0\n"} | ({"Xf.txt": names} if names else {})
    for name, text in files.items():
        (folder / name).write_text(text, "latin-1")
    settings = {"surrogate": {"groups": "none"}, "vectors": str(folder / "vectors.vec"), "embedding": 8}
    config = config_of("astec", settings | {"epochs": 1, "validation": 0.0, "extreme": {"random": 1}})
    return train_model(read(folder), "astec", config, Run.unkept())


def test_vectors_start_the_features_that_a_repository_folder_names(tmp_path: Path) -> None:
    """Sparse features and vectors of what Xf.txt names are the published input of Astec and DECAF."""
    table = with_given_vectors(tmp_path, "fig\npear\nx\n").tensors["encoder.embedding.weight"]
    torch.testing.assert_close(table[2:4, :2], torch.tensor([[5.0, 6.0], [3.0, 4.0]]))


def test_vectors_for_features_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs the names of the feature columns.* put Xf\.txt"):
        with_given_vectors(tmp_path, "")
