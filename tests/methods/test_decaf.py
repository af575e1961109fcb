"""DECAF: its blocks, rows of labels' texts, the loss on opened clusters, its modules one by one, and its ensemble."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.table import Table
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.cli.inspection import inspect_model
from laconic.config import preset_path, read_settings
from laconic.data.corpus import Corpus, Labels
from laconic.data.dataset import Dataset
from laconic.data.describe import describe
from laconic.data.prepare import prepare
from laconic.data.tokenizer import padded
from laconic.errors import ConfigError, DataError
from laconic.methods.costs import Machine
from laconic.methods.decaf import modules as decaf_modules
from laconic.methods.decaf import recipe as decaf
from laconic.methods.decaf.ablations import theorem_3_1
from laconic.methods.decaf.beam import true_ranks
from laconic.methods.decaf.config import Module, plan_of, ranker_plan
from laconic.methods.decaf.costs import training_costs
from laconic.methods.decaf.modules import learn_shortlister, learn_words
from laconic.methods.decaf.recipe import Config, with_sizes
from laconic.methods.estimates import expected_costs
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker, with_settings
from laconic.methods.train import train_model
from laconic.models.classifiers import LabelText, LinearClassifier
from laconic.models.classifiers.label_text import FixedTexts, Texts
from laconic.models.clustering import cluster_vectors, random_tree
from laconic.models.encoders import Identity, SumEncoder
from laconic.models.layers import DocumentBlock, EmbeddingBlock
from laconic.models.rankers import CandidatesRanker, Ensemble, ShortlistRanker
from laconic.models.shortlisters.labels import NearestLabels, Nearness
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.loop import Silent
from laconic.training.optimizer import clock_table
from laconic.training.run import Run
from laconic.training.tasks import AllLabels, PickedClusters
from laconic.types import NO_LABEL, Batch, Tokens
from tests.planted import planted_texts
from tests.test_rankers import SETTINGS
from tests.variants import some_slow

SMALL = {**SETTINGS["decaf"], "epochs": 8, "beam": 0}
CORPUS = planted_texts(num_labels=12, with_label_texts=True)
DIM, LABELS, WORDS = 5, 11, 30
CPU = torch.device("cpu")


def settings(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def trained(corpus: Corpus = CORPUS, members: int = 1, **changes: Any) -> SavedModel:
    return train_model(corpus, "decaf", config_of("decaf", settings(**changes)), Run.unkept(), members)


def p_at_1(model: SavedModel, corpus: Corpus = CORPUS) -> float:
    return Predictor(model, "cpu").evaluate(corpus, "test").metrics["P@1"]


def shortlist_ranker(model: SavedModel) -> ShortlistRanker:
    ranker = restore_ranker(model, CPU)
    assert isinstance(ranker, ShortlistRanker)
    return ranker


# Blocks and rows


def test_an_embedding_block_starts_as_half_of_a_vector_and_half_of_its_positive_part() -> None:
    e = torch.randn(4, DIM)
    torch.testing.assert_close(EmbeddingBlock(DIM, dropout=0.0)(e), e / 2 + e.relu() / 2)


def test_a_document_block_reads_its_part_of_a_vector() -> None:
    torch.manual_seed(0)
    block, e = DocumentBlock(DIM, dropout=0.0, first=3), torch.randn(4, DIM + 6)
    torch.testing.assert_close(block(e), (e[:, 3 : 3 + DIM] / 2 + e[:, 3 : 3 + DIM].relu() / 2).relu())


def bags(rows: int = LABELS, *, seed: int = 0) -> csr_array:
    """Texts of one to four words; the last has none."""
    generator = np.random.default_rng(seed)
    full = np.zeros((rows, WORDS), dtype=np.float32)
    for row in range(rows - 1):
        full[row, 2 + generator.choice(WORDS - 2, 1 + row % 4, replace=False)] = generator.uniform(0.1, 1)
    return csr_array(full)


def as_if_trained(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def made(*, text: bool = True, refined: bool = True, bias: bool = True, starts: Tensor | None = None) -> LabelText:
    torch.manual_seed(0)
    encoder = SumEncoder(num_ids=WORDS, length=4, embedding=DIM)
    rows = LABELS if starts is None else len(starts) - 1
    classifier = LabelText(
        Texts(bags(), encoder.embedding) if text else None,
        torch.randn(rows, DIM) if refined else None,
        DocumentBlock(DIM, dropout=0.0),
        dropout=0.0,
        bias=bias,
        starts=starts,
    )
    as_if_trained(classifier)
    return classifier.eval()


def plain_rows(classifier: LabelText, text: Tensor | None) -> Tensor:
    """By the paper's formulas, a matrix product at a time; `text` is what the label block makes of bags."""
    if text is None:
        assert classifier.refinement is not None
        return classifier.refinement
    if classifier.refinement is None or classifier.combination is None:
        return text
    alpha, beta = classifier.combination.alpha.sigmoid(), classifier.combination.beta.sigmoid()
    return alpha * classifier.refinement + beta * text


def plain_texts(classifier: LabelText) -> Tensor | None:
    if classifier.texts is None or classifier.block is None:
        return None
    assert isinstance(classifier.texts, Texts)
    e = torch.from_numpy(bags().toarray()) @ classifier.texts._table[0].weight
    block = classifier.block
    alpha, beta = block.combination.alpha.sigmoid(), block.combination.beta.sigmoid()
    return alpha * (e.relu() @ block.weight().T + block.bias) + beta * e


@pytest.mark.parametrize(("text", "refined"), [(True, True), (True, False), (False, True)])
def test_a_row_combines_the_texts_vector_and_the_refinement(text: bool, refined: bool) -> None:
    classifier = made(text=text, refined=refined)
    expected = plain_rows(classifier, plain_texts(classifier))
    torch.testing.assert_close(classifier.rows(slice(0, LABELS)), expected)
    some = torch.tensor([LABELS - 1, 3, 3, 0])
    torch.testing.assert_close(classifier.rows(some), expected[some])


def test_texts_of_a_cluster_may_be_encoded_apart_and_added_up() -> None:
    starts = torch.tensor([0, 4, 7, LABELS])
    classifier = made(starts=starts)
    texts = plain_texts(classifier)
    assert texts is not None
    summed = torch.stack([texts[first:last].sum(0) for first, last in pairwise(starts)])
    torch.testing.assert_close(classifier.rows(slice(0, 3)), plain_rows(classifier, summed))


@pytest.mark.parametrize("bias", [True, False])
def test_a_materialised_classifier_scores_the_same_without_texts(bias: bool) -> None:
    classifier, vectors = made(bias=bias), torch.randn(3, DIM)
    linear = classifier.materialised()
    torch.testing.assert_close(linear.score_all(vectors), classifier.score_all(vectors))
    assert not any("text" in name for name in linear.state_dict())


def test_texts_are_kept_by_nobody_and_words_by_their_encoder_alone() -> None:
    encoder = SumEncoder(num_ids=WORDS, length=4, embedding=DIM)
    classifier = LabelText(Texts(bags(), encoder.embedding), None, torch.nn.Identity(), dropout=0.0)
    task = AllLabels(encoder, classifier, dropout=0.0, chunk=4)
    assert [name for name in task.state_dict() if "texts" in name or "table" in name] == []
    assert sum(parameter is encoder.embedding.weight for parameter in task.parameters()) == 1


def test_words_learn_from_texts_as_from_a_plain_product() -> None:
    torch.manual_seed(0)
    table = torch.nn.Embedding(WORDS, DIM)
    slopes = torch.randn(LABELS, DIM)
    summed = Texts(bags(), table)()
    expected = torch.from_numpy(bags().toarray()) @ table.weight
    torch.testing.assert_close(summed, expected)
    ours, theirs = (torch.autograd.grad(one, table.weight, slopes)[0] for one in (summed, expected))
    torch.testing.assert_close(ours, theirs)


def test_texts_that_stay_are_the_same_texts() -> None:
    classifier = made()
    assert isinstance(classifier.texts, Texts)
    fixed = LabelText(FixedTexts(classifier.texts().detach()), None, torch.nn.Identity(), dropout=0.0)
    free = LabelText(classifier.texts, None, torch.nn.Identity(), dropout=0.0)
    torch.testing.assert_close(fixed.rows(slice(0, LABELS)), free.rows(slice(0, LABELS)))


# Losses, against a plain computation


def tokens() -> Tokens:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, WORDS, (3, 4), generator=generator, dtype=torch.int32)
    return Tokens(ids, torch.rand(3, 4, generator=generator))


POSITIVES = torch.tensor([[3, 7, 1], [0, NO_LABEL, NO_LABEL], [NO_LABEL] * 3])


def gradients(loss: Tensor, task: torch.nn.Module) -> dict[str, Tensor]:
    names, parameters = zip(*task.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, retain_graph=True), strict=True))


def both() -> tuple[SumEncoder, LabelText]:
    torch.manual_seed(0)
    encoder = SumEncoder(num_ids=WORDS, length=4, embedding=DIM)
    classifier = LabelText(
        Texts(bags(), encoder.embedding), torch.randn(LABELS, DIM), DocumentBlock(DIM, dropout=0.0), dropout=0.0
    )
    as_if_trained(classifier)
    return encoder, classifier


def plain_scores(encoder: SumEncoder, classifier: LabelText) -> Tensor:
    ids, weights = tokens()
    e = (encoder.embedding.weight[ids.long()] * weights[:, :, None]).sum(1)
    assert classifier.bias is not None
    return classifier.transform(e) @ plain_rows(classifier, plain_texts(classifier)).T + classifier.bias


def wanted() -> Tensor:
    truth = torch.zeros(3, LABELS)
    for row, place in (POSITIVES != NO_LABEL).nonzero().tolist():
        truth[row, POSITIVES[row, place]] = 1
    return truth


def check_same(loss: Tensor, expected: Tensor, task: torch.nn.Module) -> None:
    torch.testing.assert_close(loss, expected)
    check_slopes(loss, expected, task)


def check_slopes(loss: Tensor, expected: Tensor, task: torch.nn.Module) -> None:
    ours, theirs = gradients(loss, task), gradients(expected, task)
    assert theirs["encoder.embedding.weight"].any()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, msg=lambda problem, name=name: f"{name}: {problem}")


def test_all_labels_teach_words_through_documents_and_label_texts() -> None:
    encoder, classifier = both()
    task = AllLabels(encoder, classifier, dropout=0.0, chunk=4).eval()
    scores = plain_scores(encoder, classifier)
    expected = functional.binary_cross_entropy_with_logits(scores, wanted())
    check_same(task(Batch(tokens(), POSITIVES), torch.zeros(())), expected, task)


def test_nothing_is_learnt_about_pairs_that_are_left_out() -> None:
    encoder, classifier = both()
    left_out = torch.tensor([[5, NO_LABEL], [4, 8], [NO_LABEL, NO_LABEL]])
    scores, counted = plain_scores(encoder, classifier), torch.ones(3, LABELS)
    counted[0, 5] = counted[1, 4] = counted[1, 8] = 0
    task = AllLabels(encoder, classifier, dropout=0.0, chunk=4).eval()
    losses = counted * functional.binary_cross_entropy_with_logits(scores, wanted(), reduction="none")
    check_slopes(task(Batch(tokens(), POSITIVES, left_out=left_out), torch.zeros(())), losses.mean(), task)
    opened = PickedClusters(encoder, classifier, random_tree(LABELS, 4, 0).starts).eval()
    picks = torch.tensor([[0, 1, 2, 3]] * 2 + [[0, 1, 2, 4]])  # 4: none
    counted[2, opened.starts[3] :] = 0
    losses = counted * functional.binary_cross_entropy_with_logits(scores, wanted(), reduction="none")
    batch = Batch(tokens(), POSITIVES, None, None, picks, left_out)
    check_slopes(opened(batch, torch.zeros(())), losses.sum() / (3 * 4 * opened.size), opened)


@pytest.mark.parametrize("missing", [True, False])
def test_the_loss_is_over_the_labels_of_opened_clusters_and_of_missing_positives(missing: bool) -> None:
    encoder, classifier = both()
    tree = random_tree(LABELS, 4, 0)
    task = PickedClusters(encoder, classifier, tree.starts, missing=missing).eval()
    picks = torch.tensor([[0, 2], [3, 1], [1, 2]])
    scores, truth, starts = plain_scores(encoder, classifier), wanted(), tree.starts.tolist()
    total = torch.zeros(())
    for row in range(3):
        own = {cluster for cluster in range(4) if truth[row, starts[cluster] : starts[cluster + 1]].any()}
        opened = sorted(set(picks[row].tolist()) | (own if missing else set()))
        labels = [label for cluster in opened for label in range(starts[cluster], starts[cluster + 1])]
        total = total + functional.binary_cross_entropy_with_logits(
            scores[row, labels], truth[row, labels], reduction="sum"
        )
    assert any(POSITIVES[0, place] >= starts[3] or starts[1] <= POSITIVES[0, place] < starts[2] for place in range(3))
    batch = Batch(tokens(), POSITIVES, None, None, picks)
    check_same(task(batch, torch.zeros(())), total / (3 * 2 * task.size), task)


def test_rows_of_opened_clusters_alone_move() -> None:
    encoder, classifier = both()
    task = PickedClusters(encoder, classifier, random_tree(LABELS, 4, 0).starts)
    batch = Batch(tokens()._replace(), torch.full((3, 1), NO_LABEL), None, None, torch.tensor([[1]] * 3))
    slopes = gradients(task(batch, torch.zeros(())), task)["classifier.refinement"]
    starts = task.starts.tolist()
    assert slopes.any(1).nonzero().flatten().tolist() == list(range(starts[1], starts[2]))
    assert task.tables <= dict(task.named_parameters()).keys()


def test_labels_are_clustered_by_vectors() -> None:
    vectors = torch.zeros(9, 3)
    vectors[[0, 3, 5, 8], 0], vectors[[1, 2, 6, 7], 1] = 1, 1  # the fifth label is like nothing
    tree = cluster_vectors(vectors, 2, seed=0)
    halves = [set(tree.order[first:last].tolist()) - {4} for first, last in ((0, tree.starts[1]), (tree.starts[1], 9))]
    assert sorted(map(sorted, halves)) == [[0, 3, 5, 8], [1, 2, 6, 7]]
    with pytest.raises(ConfigError, match="power of two"):
        cluster_vectors(vectors, 3, seed=0)


# Modules


@pytest.mark.parametrize(
    "changes",
    some_slow(
        [
            {"lite": True},
            {"refinement": False},
            {"label_text": False},
            {"start": "random"},
            {"cluster_text": "apart"},
            {"bias": False, "prior": False},
            {"prior": False},
            {"missing": False},
            {"own_vectors": False},
            {"lite": True, "own_vectors": False},
            {"recall_on": "training"},
            {"validation": 0.0},
            {"clusters": 1},
            {"shortlist": "nearest"},
            {"shortlist": "nearest", "lite": True},
        ]
    ),
    ids=str,
)
def test_every_part_can_be_exchanged(changes: dict[str, Any], tmp_path: Path) -> None:
    write_model(trained(**changes), tmp_path / "model")
    model = read_model(tmp_path / "model")
    assert p_at_1(model) > 50  # a twelfth would be chance
    widths = [model.tensors[name].shape[1] for name in ("encoder.embedding.weight", "classifier.weight")]
    one_set = bool({"lite", "own_vectors"} & changes.keys())
    assert widths == [32 if one_set else 64, 32]  # word vectors of the shortlister and of the ranker, side by side
    kept = {name.split(".")[1] for name in model.tensors if name.startswith("classifier.")}
    assert kept == {"weight", "bias", "transform"}  # rows as they are, and nothing that they were made of


def test_nearest_labels_are_those_whose_centroids_are_nearest() -> None:
    model = trained(shortlist="nearest", validation=0.0, beam=2)
    ranker, data = shortlist_ranker(model), data_of()
    words = model.tensors["encoder.embedding.weight"][:, :32].numpy()  # of the shortlister, those of module I
    vectors = torch.from_numpy(data.inputs @ words).relu()
    units = functional.normalize(vectors, dim=1)
    centroids = functional.normalize(torch.from_numpy(data.labels.T @ units.numpy()), dim=1)
    cosines = units @ centroids.T
    picked = ranker.picked(padded(data.inputs, ranker.encoder.length))
    assert picked.shape[1] == ranker.top == 2 * 12 // 4  # as many labels as two of the four clusters would have
    torch.testing.assert_close(cosines.gather(1, picked), cosines.topk(ranker.top).values, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_nearest_labels_are_learnt_and_scored_as_those_of_learnt_clusters() -> None:
    """So that the two differ by their shortlists alone."""
    model = trained(shortlist="nearest")
    ranker, told = shortlist_ranker(model), model.facts["training"]
    assert ranker.product
    assert {"recall_by_beam", "theorem_3_1"} <= told.keys()
    assert "shortlister" not in told  # nothing was learnt for it
    same = shortlist_ranker(trained())
    assert ranker.state_dict().keys() == same.state_dict().keys()


def test_nearest_labels_are_learnt_by_the_loss_of_opened_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PickedClusters] = []

    class Watched(PickedClusters):
        def __init__(self, *parts: Any, **more: Any) -> None:
            super().__init__(*parts, **more)
            seen.append(self)

    monkeypatch.setattr(decaf_modules, "PickedClusters", Watched)
    trained(shortlist="nearest", missing=False, epochs=3)
    assert [(task.size, task.missing, len(task.starts)) for task in seen] == [(1, False, 13)]


@pytest.mark.slow
def test_a_model_that_looked_up_nearest_labels_otherwise_still_answers() -> None:
    """As earlier versions did, with nearest labels in the ranker's own vectors."""
    near = Nearness(size=6, centroids=6, neighbours=0)
    ranker = CandidatesRanker(
        SumEncoder(num_ids=WORDS, length=4, embedding=DIM),
        NearestLabels.of(torch.randn(20, DIM), csr_array(np.eye(20, LABELS, dtype=np.float32)), near, seed=0),
        LinearClassifier(DIM, LABELS, transform=DocumentBlock(DIM, dropout=0.0)),
        beta=1.0,
    ).eval()
    config = replace(Config(), shortlist="nearest", nearness=near, length=4)
    restored = decaf.restore(config, ranker.state_dict())
    torch.testing.assert_close(restored.rank(tokens(), 3), ranker.rank(tokens(), 3))
    with pytest.raises(ConfigError, match="beam says how many of the nearest labels are taken"):
        with_sizes(config, 20, LABELS, 4)


def data_of(corpus: Corpus = CORPUS) -> Dataset:
    return prepare(corpus, Config().text, Config().vocabulary).data


def test_given_vectors_stay_as_they_are(tmp_path: Path) -> None:
    generator, words = (
        np.random.default_rng(0),
        [word for text in CORPUS.split("train").texts or () for word in text.split()],
    )
    lines = [" ".join([word, *map(str, generator.normal(size=32).round(3))]) for word in sorted(set(words))]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    model = trained(given_vectors=True, vectors=str(tmp_path / "vectors.txt"))
    assert p_at_1(model) > 50
    assert "surrogate" not in model.facts["training"]
    assert model.vocabulary is not None
    first = model.vocabulary.words[0]
    kept = next(line for line in lines if line.startswith(f"{first} "))
    vector = torch.tensor([float(number) for number in kept.split()[1:]])
    table = model.tensors["encoder.embedding.weight"][2]
    torch.testing.assert_close(functional.cosine_similarity(table, vector, dim=0), torch.tensor(1.0))


def test_the_beam_is_the_smallest_that_finds_enough_of_held_out_texts() -> None:
    data, config = data_of(), config_of("decaf", settings(recall=0.9, clusters=8))
    done = decaf.train(data, config, Run.unkept())
    _, held = data.split(config.validation, config.seed)
    assert isinstance(done.ranker, ShortlistRanker)
    ranker, inputs = done.ranker, held.inputs
    found = {}
    for beam in range(1, 9):
        picked = ranker.with_beam(beam).picked(padded(inputs))
        opened = ranker.clusters.order[ranker.clusters.members(picked).clamp(min=0)]
        found[beam] = np.mean([label in opened[row] for row, label in zip(*held.labels.nonzero(), strict=True)])
    smallest = min(beam for beam, share in found.items() if share >= 0.9)
    assert 1 < smallest < 8
    assert done.config.beam == done.config.answer_beam == ranker.top == smallest
    kept = done.facts["training"]["recall_by_beam"]
    assert kept == {beam: pytest.approx(found[int(beam)], abs=1e-3) for beam in ("1", "2", "4", "8")}


def test_recall_opens_no_more_than_a_share_of_the_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decaf, "_ALWAYS", 2)
    done = decaf.train(data_of(), config_of("decaf", settings(recall=1.0, clusters=8, most_opened=0.25)), Run.unkept())
    assert done.config.beam == 2


def test_theorem_3_1_is_told_with_the_paper_s_numbers() -> None:
    labels = csr_array(np.eye(4, 10, dtype=np.float32))
    told = theorem_3_1(labels, 0.75)
    assert told["sparsity"] == pytest.approx(0.1)
    assert told["bound"] == pytest.approx(0.025 * np.log(40))
    assert theorem_3_1(labels, 1.0)["bound"] == 0


def test_a_trained_model_tells_theorem_3_1_of_its_own_training_texts(tmp_path: Path) -> None:
    model = trained(validation=0.0, beam=1, answer_beam=1)
    told, ranker, data = model.facts["training"]["theorem_3_1"], shortlist_ranker(model), data_of()
    assert told["sparsity"] == pytest.approx(data.labels.nnz / (len(data) * 12))
    opened = ranker.clusters.order[ranker.clusters.members(ranker.picked(padded(data.inputs)))]
    found = [label in opened[row] for row, label in zip(*data.labels.nonzero(), strict=True)]
    assert told["recall"] == pytest.approx(np.mean(found))
    assert 0 < told["recall"] < 1
    write_model(model, tmp_path / "model")
    table, *_ = inspect_model(tmp_path / "model", verify=False).shown
    assert isinstance(table, Table)
    assert "Theorem 3.1" in list(table.columns[0].cells)


class Stops(Silent):
    """Interrupts after so many steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def stepped(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("members", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_and_a_finished_stage_is_not_trained_again(tmp_path: Path, members: int) -> None:
    short = settings(epochs=4, batch_size=32)
    whole = trained(members=members, epochs=4, batch_size=32)
    for after in (9, 14, 6):
        with pytest.raises(KeyboardInterrupt):
            run = Run(tmp_path / "run", watcher=Stops(after), device=CPU, seconds=0.0)
            train_model(CORPUS, "decaf", config_of("decaf", short), run, members)
    run = Run(tmp_path / "run", watcher=Silent(), device=CPU, seconds=0.0)
    again = train_model(CORPUS, "decaf", config_of("decaf", short), run, members)
    assert whole.tensors.keys() == again.tensors.keys()
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, again.tensors[name]), name


# Ensembles, label texts, settings


class Counts(Silent):
    """How many trainings began."""

    def __init__(self) -> None:
        self.trainings = 0

    def began(self, how: str, epochs: int, steps: int, done: int) -> None:
        self.trainings += 1


@pytest.mark.slow
def test_instances_share_the_surrogate_task_and_answer_with_their_mean() -> None:
    watcher = Counts()
    run = Run(None, watcher=watcher, device=CPU)
    model = train_model(CORPUS, "decaf", config_of("decaf", settings(epochs=8)), run, 3)
    assert watcher.trainings == 1 + 3 * 2
    ranker = restore_ranker(model, CPU)
    assert isinstance(ranker, Ensemble)
    assert [member["seed"] for member in model.facts["members"]] == [29, 30, 31]
    assert len(model.facts["training"]["surrogate"]) == 4
    inputs = padded(data_of().inputs[:5])
    labels, scores = ranker.rank(inputs, 5)
    means = torch.stack([member.score(inputs, labels) for member in ranker.rankers()]).mean(0)
    torch.testing.assert_close(scores, means)
    tops = {member.top for member in ranker.rankers() if isinstance(member, ShortlistRanker)}
    assert tops == {model.facts["config"]["beam"]}
    assert p_at_1(model) > 50


def test_instances_share_the_surrogate_task_where_label_texts_are_learnt_too() -> None:
    watcher = Counts()
    config = config_of("decaf", settings(epochs=4, extra_texts={}))
    model = train_model(CORPUS, "decaf", config, Run(None, watcher=watcher, device=CPU), 2)
    assert watcher.trainings == 1 + 2 * 2
    assert isinstance(restore_ranker(model, CPU), Ensemble)


@pytest.mark.slow
def test_lite_instances_have_the_same_words() -> None:
    model = trained(members=2, lite=True, epochs=4)
    one, other = (model.tensors[f"members.{number}.encoder.embedding.weight"] for number in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(*(model.tensors[f"members.{number}.classifier.weight"] for number in range(2)))


@pytest.mark.slow
def test_labels_without_texts_are_learnt_too() -> None:
    data, config = data_of(), config_of("decaf", settings())
    assert data.label_inputs is not None
    bare = data.label_inputs.copy()
    bare.data[bare.indptr[0] : bare.indptr[6]] = 0  # the first six say nothing
    for inputs in (bare, None):
        ranker = decaf.train(replace(data, label_inputs=inputs), config, Run.unkept()).ranker
        labels = ranker.rank(padded(data.inputs), 1).labels.numpy()
        right = [data.labels[row, label] > 0 for row, label in enumerate(labels[:, 0])]
        assert np.mean(right) > 0.8


def test_the_beam_is_judged_by_texts_cut_where_the_model_cuts_them() -> None:
    data = data_of()
    config = with_sizes(config_of("decaf", settings(epochs=4, length=1)), len(data), data.num_labels, 8)
    words, _ = learn_words(data, config, Run.unkept())
    shortlister = learn_shortlister(data, words, config, Run.unkept())
    ids, weights = (part[:, 0].numpy() for part in padded(data.inputs, 1))
    first_words = csr_array((weights, ids, np.arange(len(data) + 1)), shape=data.inputs.shape)
    whole, cut = (true_ranks(shortlister, replace(data, inputs=rows), CPU) for rows in (data.inputs, first_words))
    assert torch.equal(whole, cut)


def test_without_texts_and_without_refinement_there_is_nothing_to_learn() -> None:
    bare = replace(CORPUS, labels=Labels(names=CORPUS.labels.names))
    with pytest.raises(DataError, match="refinement=false"):
        trained(bare, refinement=False)


def test_dense_features_are_refused_with_a_way_out() -> None:
    data = replace(data_of(), inputs=np.ones((240, 4), dtype=np.float32), ordered=False)
    with pytest.raises(DataError, match="astec --encoder dense"):
        decaf.train(data, config_of("decaf", SMALL), Run.unkept())


def test_the_beam_of_answers_can_be_overruled() -> None:
    model = trained(beam=2, epochs=4)
    assert shortlist_ranker(model).top == 2
    assert shortlist_ranker(with_settings(model, {"answer_beam": 3})).top == 3
    with pytest.raises(ConfigError, match="answer_beam"):
        with_settings(model, {"beam": 3})


def test_data_is_told_what_it_would_cost() -> None:
    told = expected_costs(describe(CORPUS))["decaf"]
    model = train_model(CORPUS, "decaf", config_of("decaf", {"epochs": 1}), Run.unkept())
    ranker = restore_ranker(model, CPU)
    assert sum(told["parameters"].values()) == sum(parameter.numel() for parameter in ranker.parameters())
    assert told["epochs"] == with_sizes(Config(), 240, 12, 6).epochs


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"clusters": 3}, "power of two"),
        ({"start": "zeros"}, "text or random"),
        ({"cluster_text": "mixed"}, "together or apart"),
        ({"recall_on": "test"}, "held-out or training"),
        ({"refinement": False, "label_text": False}, "both are false"),
        ({"given_vectors": True}, "vectors=FILE"),
        ({"shortlist": "graph"}, "clusters or nearest"),
        ({"recall": 0}, "recall must be"),
        ({"ranker": {"dropout": 1.0}}, "dropout must be"),
        ({"ranker": {"optimiser": "sgd"}}, "adam or adam-bf16 or adagrad-bf16"),
        ({"ranker": {"optimiser": "adam-bf16"}, "refinement": False}, "refinement is false"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_known(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        config_of("decaf", wrong)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(("optimiser", "rate"), [("adam-bf16", 0.01), ("adagrad-bf16", 0.05)])
def test_refinement_vectors_are_learnt_in_half_precision(optimiser: str, rate: float, text: bool) -> None:
    changes = settings(ranker={"optimiser": optimiser, "learning_rate": rate}, label_text=text)
    model = train_model(CORPUS, "decaf", config_of("decaf", changes), Run.unkept("cuda"))
    assert shortlist_ranker(model).classifier.rows(slice(0, 12)).dtype == torch.float32
    assert p_at_1(model) > 50


@pytest.mark.parametrize("optimiser", ["adam-bf16", "adagrad-bf16"])
def test_half_precision_is_refused_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch, optimiser: str) -> None:
    monkeypatch.setattr(decaf, "learn_words", pytest.fail)
    for members in (1, 2):
        with pytest.raises(ConfigError, match=f"optimiser={optimiser}.*leave it out"):
            trained(members=members, ranker={"optimiser": optimiser})


def test_refinement_vectors_alone_have_the_optimiser_of_the_settings() -> None:
    config = with_sizes(config_of("decaf", settings(ranker={"optimiser": "adam-bf16"})), 100, 12, 5)
    assert (ranker_plan(config).optimiser, plan_of(config, config.shortlister).optimiser) == ("adam-bf16", "adam")
    with_text, without, texts_alone = (
        PickedClusters(Identity(DIM), made(text=text, refined=refined), torch.arange(LABELS + 1))
        for text, refined in ((True, True), (False, True), (True, False))
    )
    refined = frozenset({"classifier.refinement"})
    assert [task.rows() for task in (with_text, without, texts_alone)] == [refined, refined, frozenset()]
    machine = Machine(name="any", flops=1e12, bandwidth=1e11, launch=0.0)
    half, full = (
        training_costs(one, machine, words=1000, labels=1 << 20, texts=100).memory
        for one in (config, replace(config, ranker=replace(config.ranker, optimiser="adam")))
    )
    assert full - half == 8 * (1 << 20) * config.embedding  # weight and two moments, and the gradient: 8 instead of 16


@pytest.mark.parametrize("text", [True, False])
def test_rows_in_half_precision_are_computed_in_full(text: bool) -> None:
    classifier, half = (made(text=text) for _ in range(2))
    assert half.refinement is not None
    assert classifier.refinement is not None
    half.refinement.data = half.refinement.data.bfloat16()
    classifier.refinement.data = half.refinement.data.float()
    assert torch.equal(half.materialised().weight, classifier.materialised().weight)
    some = torch.tensor([3, 1])
    assert torch.equal(half.rows(some), classifier.rows(some))
    for one in (half, classifier):
        (one.rows(slice(0, LABELS)).float() ** 2).sum().backward()
    assert half.refinement.grad is not None
    assert half.refinement.grad.dtype == torch.bfloat16
    assert torch.equal(half.refinement.grad, classifier.refinement.grad.bfloat16())


def test_sizes_come_from_the_data() -> None:
    large = with_sizes(Config(), 693_082, 312_330, 9)
    assert (large.clusters, large.batch_size, large.length) == (65_536, 256, 9)
    small = with_sizes(Config(epochs=40, learning_rate=0.02), 45_000, 36_306, 12)
    epochs = (small.surrogate.epochs, small.shortlister.epochs, small.ranker.epochs)
    rates = (small.surrogate.learning_rate, small.shortlister.learning_rate, small.ranker.learning_rate)
    assert (small.clusters, epochs, rates) == (8192, (20, 10, 10), pytest.approx((0.02, 0.016, 0.016)))
    tiny = with_sizes(Config(), 20, 3, 5)
    assert (tiny.clusters, tiny.epochs) == (1, 84)
    with pytest.raises(ConfigError, match="at most the 3 labels"):
        with_sizes(Config(clusters=4), 20, 3, 5)


# Presets: clusters, beam, width, rate of the surrogate task, dropout of the later modules
DATASETS = {
    "LF-AmazonTitles-131K": (32_768, 200, 300, 0.01, 0.2),
    "LF-WikiSeeAlsoTitles-320K": (131_072, 160, 300, 0.01, 0.2),
    "LF-AmazonTitles-1.3M": (131_072, 100, 512, 0.01, 0.5),
    "LF-WikiTitles-500K": (131_072, 100, 512, 0.005, 0.2),
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_has_the_settings_of_the_published_code(name: str) -> None:
    clusters, beam, width, rate, dropout = DATASETS[name]
    config = with_sizes(config_of("decaf", read_settings(preset_path("decaf", name), [])), 500_000, 1 << 20, 9)
    assert (config.clusters, config.beam, config.embedding, config.batch_size) == (clusters, beam, width, 255)
    modules = (config.surrogate, config.shortlister, config.ranker)
    assert [module.epochs for module in modules] == [20, 10, 10]
    assert [module.learning_rate for module in modules] == pytest.approx([rate, 0.8 * rate, 0.8 * rate])
    assert [module.dropout for module in modules] == [0.5, dropout, dropout]
    assert [halvings(config, module) for module in modules] == [[10, 15], [5], [5]]
    assert not config.prior
    assert preset_path("astec", name).name == preset_path("decaf", name).name


def halvings(config: Config, module: Module) -> list[int]:
    """The epochs after which a module's rate is halved."""
    rates = clock_table(plan_of(config, module), module.epochs)[:, 0]
    return [epoch for epoch in range(1, module.epochs) if rates[epoch] == pytest.approx(rates[epoch - 1] / 2)]


def test_presets_for_the_lite_form_and_for_laptops_are_there() -> None:
    assert config_of("decaf", read_settings(preset_path("decaf", "lite"), [])).lite
    assert config_of("decaf", read_settings(preset_path("decaf", "laptop"), [])).embedding < 300
