"""MACH: members over random buckets, and the mean of what they say of a label's bucket."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from laconic.config import configure, preset_path, read_settings
from laconic.data.prepare import prepare
from laconic.errors import ConfigError, DataError, ModelError, TrainingError
from laconic.methods import mach
from laconic.methods.mach import Config, draw_member, with_sizes
from laconic.methods.registry import config_of, ensemble_of
from laconic.methods.train import train_model
from laconic.models.classifiers import HashedClassifier, LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.rankers import BucketsRanker
from laconic.predict.predictor import Predictor
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.types import NO_LABEL
from tests.planted import planted_rare_labels, planted_texts, share_of_right_first_labels
from tests.variants import some_slow

SMALL = {
    "members": 4,
    "buckets": 6,
    "epochs": 12,
    "embedding": 32,
    "length": 6,
    "batch_size": 16,
    "learning_rate": 0.03,
    "dropout": 0.1,
}
BRIEF = SMALL | {"members": 3, "epochs": 2}
CORPUS = planted_texts(num_labels=12)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(settings, run=None, members=1):
    return train_model(CORPUS, "mach", config_of("mach", settings), run or Run.unkept(), members)


def restored(model):
    return mach.restore(configure(Config, model.facts["config"]), model.tensors)


def p_at_1(model):
    return Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@1"]


# What it learns


@pytest.mark.slow
def test_labels_that_share_buckets_are_told_apart_by_the_members_together():
    model = trained(SMALL)
    assert p_at_1(model) > 90
    alone = BucketsRanker(restored(model).parts()[:1])  # 12 labels in 6 buckets: one member must guess
    tokenizer, test = prepare(CORPUS, Config().text, Config().vocabulary).tokenizer, CORPUS.split("test")
    labels = alone.rank(tokenizer.tokens(test.texts), 1).labels.numpy()
    assert share_of_right_first_labels(labels, test.labels) < 0.85


def test_the_preset_learns_rare_labels_which_biases_that_start_at_0_keep_it_from():
    corpus = planted_rare_labels(num_labels=600, each=8)
    small = {"members": 1, "buckets": 1024, "epochs": 6, "embedding": 64, "validation": 0.0}

    def found(**changes):
        settings = read_settings(preset_path("mach", "laptop"), []) | small | changes
        model = train_model(corpus, "mach", config_of("mach", settings), Run.unkept())
        return Predictor(model, "cpu").evaluate(corpus, "test").metrics["P@1"]

    assert found() > 40  # a third of the labels share a bucket with others, which one member cannot tell apart
    assert found(prior=False, batch_norm=False) < 5


def test_every_member_has_its_own_epochs_and_they_are_told_one_after_another():
    told = trained(BRIEF).facts["training"]
    assert len(told["best_epochs"]) == 3
    assert [epoch["epoch"] for epoch in told["epochs"]] == [1, 2, 3, 4, 5, 6]
    assert set(told["best_epochs"]) <= {1, 2}


def test_no_member_learns_from_the_texts_that_choose_its_epoch():
    """They are the same for all, so that whoever builds on the model has texts that none of it has seen."""
    config = configure(Config, BRIEF | {"validation": 0.1})
    data = prepare(CORPUS, config.text, config.vocabulary, with_label_texts=False).data
    learn, held = data.split(0.1, config.seed)
    alone = mach.train(learn, replace(config, validation=0.0, epochs=1), Run.unkept()).ranker
    together = mach.train(data, replace(config, epochs=1), Run.unkept()).ranker
    assert len(held) == 24
    for name, tensor in alone.state_dict().items():
        assert torch.equal(tensor, together.state_dict()[name]), name


def test_an_ensemble_of_it_is_trained_and_restored():
    model = trained(BRIEF, members=2)
    assert len([name for name in model.tensors if name.endswith("bucket_of")]) == 6
    ranker = ensemble_of("mach", 2).restore(configure(Config, model.facts["config"]), model.tensors)
    assert ranker.num_labels == 12


@pytest.mark.parametrize("changes", some_slow([{"validation": 0.0, "encoder": "bag"}, {"refit": True}], 0), ids=str)
def test_other_ways_to_train_it_learn_too(changes):
    assert p_at_1(trained(SMALL | changes)) > 70


# What a label scores


def by_hand():
    """Two members over two buckets; inputs are what they multiply their rows with, in units of ln 3."""
    one, other = (LinearClassifier(2, 2) for _ in range(2))
    with torch.no_grad():
        one.weight.copy_(math.log(3) * torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        other.weight.copy_(math.log(3) * torch.tensor([[-1.0, 0.0], [0.0, 0.0]]))
    first = HashedClassifier(torch.tensor([0, 1, 1]), one)
    second = HashedClassifier(torch.tensor([1, 0, 1]), other)
    return BucketsRanker([(Identity(2), first), (Identity(2), second)])


def test_the_score_is_the_mean_of_the_probabilities_of_a_labels_buckets():
    ranker = by_hand()
    inputs = torch.tensor([[1.0, 0.0], [0.0, -1.0]])
    # Of the first text: buckets 3/4 and 1/2 in one member, 1/4 and 1/2 in the other. Of the second: 1/2, 1/4; 1/2, 1/2.
    means = [[(0.75 + 0.5) / 2, (0.5 + 0.25) / 2, (0.5 + 0.5) / 2], [0.5, (0.25 + 0.5) / 2, (0.25 + 0.5) / 2]]
    labels, scores = ranker.rank(inputs, 3)
    assert labels.tolist() == [[0, 2, 1], [0, 1, 2]]
    for row in range(2):
        assert scores[row].tolist() == pytest.approx(sorted(means[row], reverse=True))
    asked = torch.tensor([[2, NO_LABEL, 1], [1, 0, NO_LABEL]])
    expected = torch.tensor([[0.5, 0, 0.375], [0.375, 0.5, 0]])
    torch.testing.assert_close(ranker.score(inputs, asked), expected)


def at_random(at_once=1 << 24, labels=200, buckets=7, members=3):
    torch.manual_seed(0)
    parts = [HashedClassifier(torch.randint(buckets, (labels,)), LinearClassifier(5, buckets)) for _ in range(members)]
    return BucketsRanker([(Identity(5), part) for part in parts], at_once=at_once)


@torch.no_grad()
def plain_ranking(ranker, inputs, k):
    """Text by text and label by label; of equals the smaller label first."""
    rows = []
    for vector in inputs:
        scores = [0.0] * ranker.num_labels
        for _, classifier in ranker.parts():
            chances = classifier.buckets.score_all(vector[None])[0].sigmoid().tolist()
            for label, bucket in enumerate(classifier.bucket_of.tolist()):
                scores[label] += chances[bucket]
        rows.append(sorted(range(ranker.num_labels), key=lambda label: (-scores[label], label))[:k])
    return rows


@pytest.mark.parametrize("at_once", [1, 40, 999, 1 << 24])
def test_how_many_labels_are_scored_at_a_time_changes_nothing(at_once):
    ranker, inputs = at_random(at_once), torch.randn(8, 5)
    # 200 labels share 7³ triples of buckets: many are equal, also where the ranking ends.
    assert len({tuple(one.bucket_of[label].item() for _, one in ranker.parts()) for label in range(200)}) < 190
    for k in (1, 10, 200):
        assert ranker.rank(inputs, k).labels.tolist() == plain_ranking(ranker, inputs, k)
    whole = at_random().rank(inputs, 20)
    labels, scores = ranker.rank(inputs, 20)
    assert torch.equal(labels, whole.labels)
    assert torch.equal(scores, whole.scores)


def test_labels_of_the_same_buckets_come_in_their_order_and_missing_ones_last():
    same = HashedClassifier(torch.zeros(5, dtype=torch.int64), LinearClassifier(3, 2))
    ranker = BucketsRanker([(Identity(3), same)], at_once=2)
    labels, scores = ranker.rank(torch.randn(2, 3), 7)
    assert labels.tolist() == [[0, 1, 2, 3, 4, NO_LABEL, NO_LABEL]] * 2
    assert not scores[:, 5:].any()


def test_chances_of_0_and_1_are_ranked_too():
    part = LinearClassifier(1, 3)
    with torch.no_grad():
        part.weight.copy_(torch.tensor([[-1e4], [1e4], [1.0]]))
    ranker = BucketsRanker([(Identity(1), HashedClassifier(torch.tensor([0, 1, 2]), part))])
    labels, scores = ranker.rank(torch.ones(1, 1), 3)
    assert labels.tolist() == [[1, 2, 0]]
    assert scores[0, 0] == 1
    assert scores[0, 2] == 0


# Buckets


def test_buckets_are_the_seeds_and_the_members_alone():
    config = Config(buckets=50, seed=3)
    again, other = draw_member(config, 0, 1000), draw_member(config, 1, 1000)
    assert np.array_equal(draw_member(config, 0, 1000).bucket_of, again.bucket_of)
    assert again.seed == draw_member(config, 0, 1000).seed != other.seed
    # As many labels agree as chance would have it, also with the members of a MACH whose seed is one more.
    for draw in (other, draw_member(replace(config, seed=4), 0, 1000), draw_member(replace(config, seed=4), 1, 1000)):
        assert 0 < (draw.bucket_of == again.bucket_of).mean() < 0.05
    assert np.bincount(again.bucket_of, minlength=50).min() > 5


def test_sizes_come_from_the_data():
    large, small, few = (with_sizes(Config(), 485_176, labels, 20) for labels in (670_091, 36_306, 12))
    assert (large.buckets, small.buckets, few.buckets) == (16_384, 2048, 64)
    assert (large.members, large.epochs, large.batch_size, large.length) == (16, 6, 128, 20)
    given = Config(buckets=20_000, members=32, epochs=3, batch_size=7, length=9)
    assert with_sizes(given, 485_176, 670_091, 20) == given


# Runs


class Stops(Silent):
    """Interrupts after so many steps, and notes how many were done of what began."""

    def __init__(self, after=-1):
        self.left, self.began_at, self.plans = after, [], []

    def planned(self, memory, seconds):
        self.plans.append((memory, seconds))

    def entered(self, stage):
        self.stage = stage

    def began(self, how, epochs, steps, done):
        self.began_at.append((self.stage.partition(",")[0], done, epochs * steps))

    def stepped(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_a_killed_run_goes_on_and_a_finished_member_is_not_trained_again(tmp_path):
    whole = trained(BRIEF)
    steps = 2 * 15  # of a member: 228 texts, batches of 16, two epochs
    for after in (20, 30):  # within the first member, then within the second
        with pytest.raises(KeyboardInterrupt):
            trained(BRIEF, Run(tmp_path / "run", watcher=Stops(after), device=CPU, seconds=0.0))
    watcher = Stops()
    again = trained(BRIEF, Run(tmp_path / "run", watcher=watcher, device=CPU, seconds=0.0))
    names, done, of = zip(*watcher.began_at, strict=True)
    assert names == ("member 1 of 3", "member 2 of 3", "member 3 of 3")
    assert of == (steps,) * 3
    assert done[0] == steps, "the first member had been finished"
    assert 0 < done[1] < steps, "the second goes on"
    assert done[2] == 0
    assert -watcher.left - 1 == steps - done[1] + steps
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, again.tensors[name]), name


def test_what_it_takes_is_announced_once_and_members_add_up(monkeypatch):
    monkeypatch.setattr("laconic.training.run.memory_held", lambda: 0)

    def planned(**changes):
        watcher = Stops()
        trained(BRIEF | {"epochs": 1} | changes, Run(None, watcher=watcher, device=CPU))
        ((memory, seconds),) = watcher.plans
        return memory, seconds

    one, three = planned(members=1), planned(members=3)
    rows = 58 * 32 + 32 + 32 * 33 + 6 * 33  # words, a bias, the second layer, buckets
    assert three[0] - one[0] == 2 * 4 * rows
    assert one[0] > 16 * rows
    assert three[1] == pytest.approx(3 * one[1])


def test_a_run_that_cannot_fit_says_what_would(monkeypatch):
    settings = BRIEF | {"embedding": 512, "members": 16}
    for free, remedy in (
        (12_000_000, "with --set members=4"),
        (5_000_000, "with --set embedding=64 it"),
        (1000, "nearest"),
    ):
        monkeypatch.setattr("laconic.training.run._free_memory", lambda device, free=free: free)
        with pytest.raises(TrainingError, match=remedy):
            trained(settings)


# What it refuses


def test_tensors_that_do_not_fit_are_refused():
    model = trained(BRIEF | {"epochs": 1, "validation": 0.0})
    config, tensors = configure(Config, model.facts["config"]), model.tensors
    bucket_of, weight = "members.1.classifier.bucket_of", "members.1.classifier.buckets.weight"

    def with_bucket(number):
        changed = tensors[bucket_of].clone()
        changed[3] = number
        return {bucket_of: changed}

    wrong = [
        with_bucket(-1),
        with_bucket(6),
        with_bucket(2**31 - 1),
        {bucket_of: tensors[bucket_of][:-1]},
        {bucket_of: tensors[bucket_of].long()},
        {bucket_of: tensors[bucket_of].float()},
        {bucket_of: tensors[bucket_of][0]},
        {weight: tensors[weight][:4]},
        {weight: tensors[weight][0]},
        {weight: tensors[weight] / 0},
        {"members.1.encoder.embedding.weight": tensors["members.1.encoder.embedding.weight"][:-1]},
        {"members.3.classifier.bucket_of": tensors[bucket_of]},
        {"more": torch.zeros(1)},
    ]
    for change in wrong:
        with pytest.raises(ModelError):
            mach.restore(config, tensors | change)
    for name in tensors:
        with pytest.raises(ModelError, match=name):
            mach.restore(config, {other: tensor for other, tensor in tensors.items() if other != name})
    with pytest.raises(ModelError, match=r"members\.3\."):
        mach.restore(replace(config, members=4), tensors)
    assert mach.restore(config, tensors).num_labels == 12


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"members": 0}, "members must be 1 to"),
        ({"buckets": -1}, "buckets must be 0 to"),
        ({"encoder": "tree"}, "encoder must be .* or mlp"),
        ({"refit": True, "validation": 0.0}, "refit needs"),
        ({"encoder": "dense", "batch_size": 1}, "batch_size must be 0 .* or at least 2"),
        ({"encoder": "cnn", "vocabulary": {"subwords": 64}}, "--encoder bag"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_known(wrong, named):
    with pytest.raises(ConfigError, match=named):
        config_of("mach", wrong)


def test_sub_words_and_features_without_an_order_are_read():
    settings = BRIEF | {"epochs": 1, "members": 1, "length": 0, "vocabulary": {"subwords": 64}}
    assert trained(settings).facts["config"]["length"] > 6
    config = configure(Config, BRIEF | {"epochs": 1})
    data, _ = prepare(CORPUS, config.text, config.vocabulary, with_label_texts=False)
    assert mach.train(replace(data, ordered=False), config, Run.unkept()).ranker.num_labels == 12
    with pytest.raises(DataError, match="--encoder bag"):
        mach.train(replace(data, ordered=False), replace(config, encoder="cnn"), Run.unkept())
