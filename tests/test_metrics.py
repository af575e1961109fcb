"""Metrics against numbers worked by hand, against a plain reference with sets and loops, and against napkinXC."""

from math import inf, log2

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy.sparse import csr_array

from laconic.errors import ConfigError, DataError
from laconic.evaluation.metrics import (
    KS,
    Propensity,
    Ratio,
    TrainingCounts,
    bootstrap,
    coverage,
    equal_frequency_quantiles,
    equal_label_quantiles,
    expected_calibration_error,
    inverse_propensities,
    judge,
    per_text,
    report,
    top_k_of,
    truth_without_pairs,
    without_pairs,
)
from laconic.evaluation.metrics import intervals as intervals_module
from laconic.types import NO_LABEL, Ranking
from tests.variants import examples

NUM_LABELS = 30


def truth_of(*rows: list[int], num_labels: int) -> csr_array:
    dense = np.zeros((len(rows), num_labels), dtype=np.float32)
    for row, labels in enumerate(rows):
        dense[row, labels] = 1
    return csr_array(dense)


def stored(values: list[float], rows: list[int], labels: list[int], shape: tuple[int, int]) -> csr_array:
    """A matrix that keeps the zeros it is given."""
    return csr_array((np.array(values), np.array(labels), np.searchsorted(rows, np.arange(shape[0] + 1))), shape=shape)


# --- worked by hand ---------------------------------------------------------------------------------------------------


def test_precision_divides_by_k_even_where_the_row_is_shorter():
    judged = judge(np.array([[2, 0, NO_LABEL], [1, 2, 0]]), truth_of([2], [1, 0], num_labels=3))
    figures = report(judged, ks=(1, 3))
    assert figures["P@1"] == 100  # both first labels are true
    assert figures["P@3"] == pytest.approx(100 * (1 / 3 + 2 / 3) / 2)


def test_a_text_without_labels_counts_as_zero_and_stays_in_the_denominator():
    judged = judge(np.array([[0, 1], [0, 1]]), truth_of([0], [], num_labels=2))
    figures = report(judged, ks=(1,))
    assert (figures["P@1"], figures["nDCG@1"], figures["R@1"]) == (50, 50, 50)


def test_k_beyond_the_number_of_labels_still_divides_by_k():
    figures = report(judge(np.array([[1, 0]]), truth_of([0, 1], num_labels=2)), ks=(5,))
    assert figures["P@5"] == pytest.approx(40)  # 2 hits of 5 places
    assert figures["R@5"] == pytest.approx(100)
    assert figures["nDCG@5"] == pytest.approx(100)


def test_ndcg_divides_by_the_ideal_of_no_more_hits_than_there_are_labels():
    # One true label, found in the second place: DCG@3 = 1 / log2(3), ideal DCG = 1.
    one = judge(np.array([[3, 1, 0]]), truth_of([1], num_labels=4))
    assert report(one, ks=(3,))["nDCG@3"] == pytest.approx(100 / log2(3))
    # Three true labels, two places: DCG@2 = 1, ideal DCG@2 = 1 + 1 / log2(3).
    many = judge(np.array([[0, 3]]), truth_of([0, 1, 2], num_labels=4))
    assert report(many, ks=(2,))["nDCG@2"] == pytest.approx(100 / (1 + 1 / log2(3)))


def test_recall_is_a_mean_over_texts():
    judged = judge(np.array([[0, 1], [3, 2]]), truth_of([0], [0, 1, 2], num_labels=4))
    assert report(judged, ks=(2,))["R@2"] == pytest.approx(100 * (1 + 1 / 3) / 2)


def test_inverse_propensities_follow_the_formula():
    # N = 20, A = B = 1: C = (ln 20 - 1) * 2 = 3.99146, and 1 + C / (n + 1) for n = 0, 1, 3.
    found = inverse_propensities(np.array([0, 1, 3]), texts=20, propensity=Propensity(a=1.0, b=1.0))
    np.testing.assert_allclose(found, [4.99146, 2.99573, 1.99787], atol=1e-5)


@pytest.mark.parametrize("texts", [0, 1, 2])
def test_with_hardly_any_texts_every_label_weighs_one(texts):
    assert inverse_propensities(np.array([0, 1, 2]), texts, Propensity()).tolist() == [1, 1, 1]


def test_psp_is_a_ratio_of_two_means_and_not_a_mean_of_ratios():
    # Text 0 finds its label 0 (gains w0 of w0); text 1 finds label 1 instead of the heavier 2 (gains w1 of w2).
    training = TrainingCounts(per_label=np.array([30, 5, 0]), texts=100)
    w0, w1, w2 = training.inverse_propensities()
    judged = judge(np.array([[0], [1]]), truth_of([0], [1, 2], num_labels=3))
    assert w0 < w1 < w2
    assert report(judged, training, ks=(1,))["PSP@1"] == pytest.approx(100 * (w0 + w1) / (w0 + w2))


def test_psndcg_divides_model_and_ideal_by_the_same_unweighted_discounts():
    # Text 0 (label 0) finds it in the second place; text 1 (labels 1 and 2) has them the wrong way round.
    training = TrainingCounts(per_label=np.array([30, 5, 0]), texts=100)
    (w0, w1, w2), d = training.inverse_propensities(), 1 / log2(3)
    judged = judge(np.array([[1, 0], [1, 2]]), truth_of([0], [1, 2], num_labels=3))
    model = w0 * d / 1 + (w1 + w2 * d) / (1 + d)
    best = w0 / 1 + (w2 + w1 * d) / (1 + d)
    assert report(judged, training, ks=(2,))["PSnDCG@2"] == pytest.approx(100 * model / best)


def test_tail_recall_is_pooled_over_texts():
    # The tail is 0 (never trained on) and 1 (five texts); 2 has six. It occurs 1 + 2 times and is found 0 + 1 times.
    counts = np.array([0, 5, 6])
    judged = judge(np.array([[2, 1, 0], [1, 2, 0]]), truth_of([0, 2], [0, 1], num_labels=3))
    assert report(judged, TrainingCounts(per_label=counts, texts=9), ks=(1,))["tail R@1"] == pytest.approx(100 / 3)
    # Without labels never trained on, 1 of 1 is found; with labels of six texts, 2 of 4.
    trained = TrainingCounts(per_label=counts, texts=9, tail_at_least=1)
    wide = TrainingCounts(per_label=counts, texts=9, tail_at_most=6)
    assert report(judged, trained, ks=(1,))["tail R@1"] == pytest.approx(100)
    assert report(judged, wide, ks=(1,))["tail R@1"] == pytest.approx(50)


def test_a_tail_that_never_occurs_scores_zero():
    counts = TrainingCounts(per_label=np.array([9, 9]), texts=9)
    assert report(judge(np.array([[0, 1]]), truth_of([0], num_labels=2)), counts, ks=(2,))["tail R@2"] == 0


def test_coverage_counts_labels_in_anybodys_top_k_hit_or_not():
    judged = judge(np.array([[0, 1], [0, NO_LABEL]]), truth_of([3], [3], num_labels=4))
    assert (coverage(judged, 1), coverage(judged, 2)) == (0.25, 0.5)


def test_the_report_has_every_metric_at_every_k():
    labels, truth = random_ranking(0, texts=4), random_pairs(1, texts=4)
    plain = ["P", "nDCG", "R", "C"]
    assert set(report(judge(labels, truth))) == {f"{name}@{k}" for name in plain for k in KS}
    with_counts = report(judge(labels, truth), TrainingCounts.of(truth))
    assert set(with_counts) == {f"{name}@{k}" for name in [*plain, "PSP", "PSnDCG", "tail R"] for k in KS}
    assert KS == (1, 3, 5, 10, 20)


# --- what counts as true, and what is left out ------------------------------------------------------------------------


def test_a_weight_is_relevant_and_a_stored_zero_is_not():
    truth = stored([0.25, 0.0], rows=[0, 0], labels=[1, 2], shape=(1, 3))
    assert judge(np.array([[0, 1, 2]]), truth).hits.tolist() == [[False, True, False]]
    assert TrainingCounts.of(truth).per_label.tolist() == [0, 1, 0]


def test_view_leaves_the_truth_as_it_was():
    truth = stored([1.0, 0.0, 1.0], rows=[0, 0, 0], labels=[2, 1, 0], shape=(1, 3))
    judge(np.array([[0, 1, 2]]), truth, leave_out=truth)
    assert (truth.indices.tolist(), truth.data.tolist()) == ([2, 1, 0], [1, 0, 1])


def test_no_label_is_not_taken_for_the_last_label_of_the_text_before():
    judged = judge(np.array([[0, 1], [0, NO_LABEL]]), truth_of([2], [1], num_labels=3))
    assert not judged.hits.any()


def test_rankings_tensors_and_arrays_are_judged_alike():
    labels, truth = np.array([[2, 0], [1, 2]], dtype=np.int32), truth_of([0], [1], num_labels=3)
    tensor = torch.from_numpy(labels)
    expected = [[False, True], [True, False]]
    for ranking in (labels, tensor, Ranking(tensor, torch.zeros(2, 2))):
        assert judge(ranking, truth).hits.tolist() == expected


def test_pairs_are_left_out_of_truth_and_ranking_before_the_cut_at_k():
    # Label 0 is the text itself. Without it, label 1 moves to the first place and is the only one to be found.
    truth, own = truth_of([0, 1], num_labels=3), truth_of([0], num_labels=3)
    figures = report(judge(np.array([[0, 1, 2]]), truth, leave_out=own), TrainingCounts.of(truth), ks=(1, 2))
    assert (figures["P@1"], figures["R@1"], figures["nDCG@2"], figures["PSP@2"]) == (100, 100, 100, 100)
    assert figures["C@1"] == pytest.approx(100 / 3)


def test_what_is_behind_a_left_out_pair_moves_up_with_its_score():
    ranking = Ranking(torch.tensor([[5, 3, 4], [3, 5, NO_LABEL]]), torch.tensor([[0.9, 0.8, 0.7], [0.6, 0.5, -inf]]))
    pairs = stored([True, False, True], rows=[0, 0, 1], labels=[3, 4, 3], shape=(2, 6))  # (0, 4) is stored as no pair
    left = without_pairs(ranking, pairs)
    assert left.labels.tolist() == [[5, 4, NO_LABEL], [5, NO_LABEL, NO_LABEL]]
    torch.testing.assert_close(left.scores, torch.tensor([[0.9, 0.7, -inf], [0.5, -inf, -inf]]))


def test_the_truth_without_pairs_keeps_the_other_weights():
    truth = csr_array(np.array([[0.5, 0, 2], [1, 1, 0]], dtype=np.float32))
    left = truth_without_pairs(truth, truth_of([2, 1], [0, 1], num_labels=3))
    assert left.toarray().tolist() == [[0.5, 0, 0], [0, 0, 0]]


# --- rankings from scores ---------------------------------------------------------------------------------------------


def test_equal_scores_are_ranked_by_label_number_and_stored_zeros_are_ranked():
    scores = stored([0.5, 0.0, 0.5, -1.0, 2.0], rows=[0, 0, 0, 0, 2], labels=[4, 3, 1, 0, 2], shape=(3, 5))
    ranking = top_k_of(scores, 3)
    assert ranking.labels.tolist() == [[1, 4, 3], [NO_LABEL] * 3, [2, NO_LABEL, NO_LABEL]]
    assert ranking.scores.tolist() == [[0.5, 0.5, 0], [-inf] * 3, [2, -inf, -inf]]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_top_k_agrees_with_sorting_each_row(seed, k):
    random = np.random.default_rng(seed)
    dense = random.integers(-2, 3, (5, 7)) * (random.random((5, 7)) < 0.6)
    scores = csr_array(dense)
    expected = [sorted(np.flatnonzero(row), key=lambda label: (-row[label], label))[:k] for row in dense]
    assert [[x for x in row if x != NO_LABEL] for row in top_k_of(scores, k).labels.tolist()] == expected


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(DataError, match="text 1: the score of label 2 is NaN"):
        top_k_of(stored([1, np.nan], rows=[0, 1], labels=[0, 2], shape=(2, 3)), 1)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 1], [2, 2]], "text 1: label 2 is ranked twice"),
        ([[0, 1], [3, 2]], r"text 1, place 0: label 3 is outside 0\.\.2"),
        ([[0, -2], [1, 2]], "text 0, place 1: label -2 is outside"),
        ([[0, 1]], "the ranking has 1 text,"),
        (np.zeros((0, 2), dtype=int), "there are no texts"),
    ],
)
def test_a_ranking_that_no_ranker_should_answer_is_refused(labels, message):
    with pytest.raises(DataError, match=message):
        judge(np.array(labels), truth_of([0], [1], num_labels=3))


def test_scores_in_the_place_of_labels_are_refused():
    # Where the tests check shapes and types at run time, that check speaks first.
    with pytest.raises((DataError, TypeCheckError), match=r"but this is float64|Type-check error"):
        judge(np.array([[0.5], [0.1]]), truth_of([0], [1], num_labels=3))


def test_repeated_places_without_a_label_are_no_repetition():
    judge(np.array([[NO_LABEL, NO_LABEL]]), truth_of([0], num_labels=3))


def test_a_ranking_too_narrow_for_k_is_refused():
    judged = judge(np.array([[0, 1]]), truth_of([0], num_labels=4))
    with pytest.raises(DataError, match="2 labels a text, too few for metrics at 3"):
        report(judged, ks=(1, 3))
    with pytest.raises(ConfigError, match="k must be 1 or more, but is 0"):
        report(judged, ks=(0,))


def test_counts_and_pairs_of_other_labels_are_refused():
    judged = judge(np.array([[0, 1]]), truth_of([0], num_labels=2))
    with pytest.raises(DataError, match="training counts of 3 labels, but the truth has 2"):
        report(judged, TrainingCounts(per_label=np.array([1, 2, 3]), texts=9), ks=(1,))
    with pytest.raises(DataError, match="training counts of 3 labels, but the truth has 2"):
        equal_label_quantiles(judged, np.array([1, 2, 3]), k=1)
    with pytest.raises(DataError, match=r"shape \(1, 3\), but the truth is of shape \(1, 2\)"):
        judge(np.array([[0, 1]]), truth_of([0], num_labels=2), leave_out=truth_of([0], num_labels=3))


@pytest.mark.parametrize("constants", [{"a": -0.1}, {"a": float("nan")}, {"b": 0.0}, {"b": inf}])
def test_propensity_constants_outside_their_range_are_refused(constants):
    with pytest.raises(ConfigError, match="must be"):
        Propensity(**constants)


# --- against others on random data ------------------------------------------------------------------------------------


def random_pairs(seed: int, *, texts: int) -> csr_array:
    """Few or no labels a text, the low numbers often and the high ones rarely or never."""
    random = np.random.default_rng(seed)
    return csr_array((random.random((texts, NUM_LABELS)) < 0.6 / np.arange(1, NUM_LABELS + 1)).astype(np.float32))


def random_ranking(seed: int, *, texts: int, width: int = 20) -> np.ndarray:
    """Rows of different length, the low label numbers rather early."""
    random = np.random.default_rng(seed)
    order = np.argsort(random.random((texts, NUM_LABELS)) * np.arange(1, NUM_LABELS + 1), axis=1)[:, :width]
    return np.where(np.arange(width) < random.integers(0, width + 1, (texts, 1)), order, NO_LABEL)


def as_lists(labels: np.ndarray) -> list[list[int]]:
    return [[label for label in row if label != NO_LABEL] for row in labels.tolist()]


def plain_report(labels, truth, training: TrainingCounts, k: int) -> dict[str, float]:
    """Every definition once more, text by text, with sets."""
    weights, tail = training.inverse_propensities(), set(np.flatnonzero(training.per_label <= 5))
    sums = dict.fromkeys(["P", "nDCG", "R", "PSP", "best", "PSnDCG", "bestnDCG", "found", "occurrences"], 0.0)
    for ranked, true in zip(as_lists(labels), as_lists_of(truth), strict=True):
        hits = [(place, label) for place, label in enumerate(ranked[:k]) if label in true]
        best = sorted((weights[label] for label in true), reverse=True)[:k]
        ideal = sum(1 / log2(place + 2) for place in range(min(k, len(true)))) or 1
        sums["P"] += len(hits) / k
        sums["R"] += len(hits) / max(len(true), 1)
        sums["nDCG"] += sum(1 / log2(place + 2) for place, _ in hits) / ideal
        sums["PSP"] += sum(weights[label] for _, label in hits) / k
        sums["best"] += sum(best) / k
        sums["PSnDCG"] += sum(weights[label] / log2(place + 2) for place, label in hits) / ideal
        sums["bestnDCG"] += sum(weight / log2(place + 2) for place, weight in enumerate(best)) / ideal
        sums["found"] += sum(label in tail for _, label in hits)
        sums["occurrences"] += len(true & tail)
    predicted = {label for ranked in as_lists(labels) for label in ranked[:k]}
    return {
        **{f"{name}@{k}": 100 * sums[name] / len(labels) for name in ("P", "nDCG", "R")},
        f"PSP@{k}": 100 * sums["PSP"] / (sums["best"] or 1),
        f"PSnDCG@{k}": 100 * sums["PSnDCG"] / (sums["bestnDCG"] or 1),
        f"tail R@{k}": 100 * sums["found"] / (sums["occurrences"] or 1),
        f"C@{k}": 100 * len(predicted) / truth.shape[1],
    }


def as_lists_of(truth: csr_array) -> list[set[int]]:
    return [set(np.flatnonzero(row).tolist()) for row in truth.toarray()]


@examples(60)
@given(seed=st.integers(0, 10**6), texts=st.integers(1, 12))
def test_the_report_agrees_with_a_plain_reference(seed, texts):
    labels, truth = random_ranking(seed, texts=texts), random_pairs(seed + 1, texts=texts)
    training = TrainingCounts.of(random_pairs(seed + 2, texts=40))
    expected = {name: value for k in KS for name, value in plain_report(labels, truth, training, k).items()}
    assert report(judge(labels, truth), training) == pytest.approx(expected)


@examples(30)
@given(seed=st.integers(0, 10**6), texts=st.integers(1, 12))
def test_leaving_pairs_out_is_the_same_as_never_having_had_them(seed, texts):
    labels, truth = random_ranking(seed, texts=texts), random_pairs(seed + 1, texts=texts)
    pairs = random_pairs(seed + 2, texts=texts)
    never = [[label for label in row if pairs[i, label] == 0] for i, row in enumerate(as_lists(labels))]
    filtered = np.array([row + [NO_LABEL] * (20 - len(row)) for row in never])
    judged = judge(labels, truth, leave_out=pairs)
    np.testing.assert_array_equal(judged.labels, filtered)
    np.testing.assert_array_equal(judged.truth.toarray(), np.where(pairs.toarray() > 0, 0, truth.toarray()))


def with_a_label(truth: csr_array) -> csr_array:
    """napkinXC divides by zero where no text has a label."""
    return csr_array(np.maximum(truth.toarray(), np.eye(1, NUM_LABELS, 3)))


@examples(60)
@given(seed=st.integers(0, 10**6), texts=st.integers(1, 12))
def test_the_report_agrees_with_napkinxc(seed, texts):
    napkin = pytest.importorskip("napkinxc.metrics")
    labels, truth = random_ranking(seed, texts=texts), with_a_label(random_pairs(seed + 1, texts=texts))
    training = TrainingCounts.of(random_pairs(seed + 2, texts=40))
    true, ranked, weights = (
        [sorted(row) for row in as_lists_of(truth)],
        as_lists(labels),
        training.inverse_propensities(),
    )
    theirs = {
        "P": napkin.precision_at_k(true, ranked, k=20),
        "R": napkin.recall_at_k(true, ranked, k=20),
        "nDCG": napkin.ndcg_at_k(true, ranked, k=20),
        "PSP": napkin.psprecision_at_k(true, ranked, weights, k=20),
        "PSnDCG": napkin.psndcg_at_k(true, ranked, weights, k=20),
    }
    ours = report(judge(labels, truth), training)
    assert {f"{name}@{k}": 100 * values[k - 1] for name, values in theirs.items() for k in KS} == pytest.approx(
        {name: value for name, value in ours.items() if name.split("@")[0] in theirs}
    )


@given(seed=st.integers(0, 10**6))
def test_coverage_of_true_labels_agrees_with_napkinxc(seed):
    napkin = pytest.importorskip("napkinxc.metrics")
    # napkinXC's coverage is another one: labels hit, among labels of the truth. So let the ranking hold hits only, and
    # give both the same denominator.
    truth = with_a_label(random_pairs(seed, texts=12))
    labels = random_ranking(seed + 1, texts=12)
    hits = np.where(judge(labels, truth).hits, labels, NO_LABEL)
    occurring = len(set.union(*as_lists_of(truth)))
    theirs = napkin.CoverageAtK(k=20).calculate([sorted(row) for row in as_lists_of(truth)], as_lists(hits))[-1]
    assert coverage(judge(hits, truth), 20) * NUM_LABELS == pytest.approx(theirs * occurring)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.6, 2.6), (0.5, 0.4)])
def test_inverse_propensities_agree_with_napkinxc(a, b):
    napkin = pytest.importorskip("napkinxc.metrics")
    train = random_pairs(3, texts=200)
    training = TrainingCounts.of(train, propensity=Propensity(a=a, b=b))
    expected = napkin.Jain_et_al_inverse_propensity(train.toarray().astype(np.float64), a, b)
    np.testing.assert_allclose(training.inverse_propensities(), expected)


# --- quantiles --------------------------------------------------------------------------------------------------------


def test_bins_of_equal_label_count_put_equal_frequencies_in_label_order():
    # By rising frequency: 1 (1), 3 (1), 0 (2), 4 (2), 2 (9); two bins of five labels hold three and two.
    counts = np.array([2, 1, 9, 1, 2])
    judged = judge(np.array([[0, 2], [3, 1]]), truth_of([0, 2], [4], num_labels=5))
    found = equal_label_quantiles(judged, counts, k=2, bins=2)
    assert found.labels.tolist() == [3, 2]
    assert (found.lowest.tolist(), found.highest.tolist()) == ([1, 2], [2, 9])
    assert found.mean_frequency.tolist() == pytest.approx([4 / 3, 11 / 2])
    # Hits: 0, of the first bin, and 2, of the second; one hit is 100 / (2 texts * 2 places) = 25 points.
    assert found.contribution.tolist() == [25, 25]


def test_bins_of_equal_total_frequency_hold_many_rare_labels_and_few_frequent_ones():
    # Rising: 1 (1), 3 (1), 0 (2), 4 (2), 2 (6), in all 12: the first four have half, the last one the other half.
    counts = np.array([2, 1, 6, 1, 2])
    judged = judge(np.array([[0, 2], [4, 1]]), truth_of([0, 2], [4], num_labels=5))
    found = equal_frequency_quantiles(judged, counts, k=2, bins=2)
    assert found.labels.tolist() == [4, 1]
    assert found.mean_frequency.tolist() == [1.5, 6]
    assert found.contribution.tolist() == [50, 25]


def test_a_label_with_more_than_a_bins_share_leaves_a_bin_empty():
    # Of 10 occurrences 8 are label 2's, with their middle at 6: 6 * 5 / 10 is bin 3. Labels 0 and 1 are at 0.5 and 1.5.
    judged = judge(np.array([[2]]), truth_of([2], num_labels=3))
    found = equal_frequency_quantiles(judged, np.array([1, 1, 8]), k=1)
    assert found.labels.tolist() == [2, 0, 0, 1, 0]
    assert found.highest.tolist() == [1, 0, 0, 8, 0]
    assert found.contribution.tolist() == [0, 0, 0, 100, 0]


def test_labels_that_nobody_trained_on_fall_into_the_first_bin():
    judged = judge(np.array([[1]]), truth_of([1], num_labels=3))
    assert equal_frequency_quantiles(judged, np.zeros(3, dtype=int), k=1).labels.tolist() == [3, 0, 0, 0, 0]


@given(seed=st.integers(0, 10**6), k=st.sampled_from(KS), bins=st.integers(1, 9))
def test_the_contributions_of_all_bins_add_up_to_precision(seed, k, bins):
    judged = judge(random_ranking(seed, texts=6), random_pairs(seed + 1, texts=6))
    counts = TrainingCounts.of(random_pairs(seed + 2, texts=40)).per_label
    for quantiles in (equal_label_quantiles, equal_frequency_quantiles):
        found = quantiles(judged, counts, k=k, bins=bins)
        assert found.contribution.sum() == pytest.approx(report(judged, ks=(k,))[f"P@{k}"])
        assert found.labels.sum() == NUM_LABELS


# --- intervals --------------------------------------------------------------------------------------------------------


def test_intervals_agree_with_resampling_the_texts_one_draw_at_a_time():
    labels, truth = random_ranking(0, texts=25), random_pairs(1, texts=25)
    ratios = per_text(judge(labels, truth), TrainingCounts.of(random_pairs(2, texts=40)))
    random = np.random.default_rng(7)
    draws = [random.integers(25, size=25) for _ in range(50)]
    expected = {
        name: tuple(
            np.quantile([Ratio(ratio.gained[draw], ratio.possible[draw]).percent() for draw in draws], [0.05, 0.95])
        )
        for name, ratio in ratios.items()
    }
    found = bootstrap(ratios, resamples=50, level=0.9, seed=7)
    assert list(found) == list(expected)
    for name in found:
        assert found[name] == pytest.approx(expected[name]), name


def test_an_interval_is_as_wide_as_theory_says():
    # Half of 400 texts hit: one standard error of P@1 is 2.5 points, so 95 % is about 50 ± 4.9.
    hit = np.arange(400) % 2
    low, high = bootstrap({"P@1": Ratio(hit.astype(float), np.ones(400))}, resamples=2000)["P@1"]
    assert low == pytest.approx(45.1, abs=0.5)
    assert high == pytest.approx(54.9, abs=0.5)


def test_intervals_depend_on_the_seed_and_not_on_the_memory_at_hand(monkeypatch):
    ratios = per_text(judge(random_ranking(0, texts=30), random_pairs(1, texts=30)))
    at_once = bootstrap(ratios, resamples=20, seed=1)
    assert bootstrap(ratios, resamples=20, seed=2) != at_once
    monkeypatch.setattr(intervals_module, "_WEIGHTS_AT_A_TIME", 90)  # three resamples of 30 texts
    in_chunks = bootstrap(ratios, resamples=20, seed=1)
    for name in at_once:
        assert in_chunks[name] == pytest.approx(at_once[name])


@pytest.mark.parametrize("wrong", [{"resamples": 0}, {"level": 1.0}])
def test_an_interval_that_means_nothing_is_refused(wrong):
    with pytest.raises(ConfigError, match="resamples >= 1 and 0 < level < 1"):
        bootstrap({"P@1": Ratio(np.ones(2), np.ones(2))}, **wrong)


# --- reliability ------------------------------------------------------------------------------------------------------


def test_the_expected_calibration_error_worked_by_hand():
    # Bins of a fifteenth: 0.01 and 0.06 are in the first, 0.7 and 0.72 in the eleventh, 1.0 in the last.
    scores = np.array([0.01, 0.7, 0.06, 1.0, 0.72])
    true = np.array([False, True, True, True, False])
    # |0.035 - 1/2| of 2 pairs, |0.71 - 1/2| of 2, |1 - 1| of 1, over 5 pairs.
    assert expected_calibration_error(scores, true) == pytest.approx(100 * (2 * 0.465 + 2 * 0.21) / 5)
    assert expected_calibration_error(scores, true, bins=1) == pytest.approx(100 * abs(2.49 / 5 - 3 / 5))


def test_scores_that_are_no_probabilities_are_as_far_off_as_they_are():
    assert expected_calibration_error(np.array([1.6, 0.95]), np.array([True, True])) == pytest.approx(100 * 0.55 / 2)
    assert expected_calibration_error(np.zeros(0), np.zeros(0, dtype=bool)) == 0


@given(seed=st.integers(0, 10**6), bins=st.integers(1, 20))
def test_the_calibration_error_agrees_with_going_bin_by_bin(seed, bins):
    generator = np.random.default_rng(seed)
    scores, true = generator.random(50), generator.random(50) < 0.4
    expected = 0.0
    for number in range(bins):
        inside = (scores >= number / bins) & (scores < (number + 1) / bins)
        if inside.any():
            expected += inside.mean() * abs(scores[inside].mean() - true[inside].mean())
    assert expected_calibration_error(scores, true, bins=bins) == pytest.approx(100 * expected)
