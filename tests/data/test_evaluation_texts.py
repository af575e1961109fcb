"""What a model is evaluated on: a split, what was held out of a file, or all of a file that was not cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.evaluation_texts import TrainedOn, as_trained, cut_test, evaluation_texts
from laconic.data.holdout import Holdout
from laconic.data.sketch import TextSketch
from laconic.errors import ConfigError, DataError

TEXTS = [f"text {number}" for number in range(200)]


def one_file(texts: list[str]) -> Corpus:
    return Corpus(splits={"all": split(texts)}, labels=Labels(names=["a"]), source="shop.csv")


def split(texts: list[str]) -> Split:
    return Split(labels=csr_array(np.ones((len(texts), 1), dtype=np.float32)), texts=texts)


def trained_on(corpus: Corpus) -> TrainedOn:
    hashes = corpus.split("train").hashes()
    assert hashes is not None
    return TrainedOn(TextSketch.of(hashes), corpus.holdout)


def held_out(corpus: Corpus) -> set[str]:
    return set(corpus.split("test").texts or ())


def test_a_fraction_of_texts_is_held_out_whatever_their_order() -> None:
    cut = cut_test(one_file(TEXTS), 0.1)
    assert len(cut.split("test")) == 20
    assert len(cut.split("train")) == 180
    assert held_out(cut) == held_out(cut_test(one_file(TEXTS[::-1]), 0.1))
    assert held_out(cut) != held_out(cut_test(one_file(TEXTS), 0.1, seed=1))
    assert held_out(cut) < held_out(cut_test(one_file(TEXTS), 0.2))


def test_equal_texts_are_on_the_same_side() -> None:
    cut = cut_test(one_file([*TEXTS, *(text.upper() for text in TEXTS)]), 0.1)
    sides = [{text.lower() for text in cut.split(name).texts or ()} for name in ("train", "test")]
    assert not sides[0] & sides[1]
    assert len(cut.split("test")) == 40


@pytest.mark.parametrize("texts", [["a", "b"], ["a", "a", "b"], ["a"] * 50 + ["b"], ["b"] * 50 + ["a"]])
def test_both_sides_have_a_text_where_there_are_two(texts: list[str]) -> None:
    cut = cut_test(one_file(texts), 0.1)
    assert len(cut.split("test")) > 0
    assert len(cut.split("train")) > 0


@pytest.mark.parametrize("texts", [["a"], ["a", "A "]])
def test_nothing_is_held_out_of_one_text(texts: list[str]) -> None:
    cut = cut_test(one_file(texts), 0.1)
    assert list(cut.splits) == ["all"]
    assert cut.holdout is None


def test_data_with_a_test_split_or_without_inputs_is_not_cut() -> None:
    with pytest.raises(ConfigError, match=r"shop\.csv: it has a test split, .*leave --test out"):
        cut_test(cut_test(one_file(TEXTS), 0.1), 0.1)
    labels_alone = replace(one_file(TEXTS), splits={"all": replace(split(TEXTS), texts=None)})
    with pytest.raises(DataError, match="neither texts nor features to hold out"):
        cut_test(labels_alone, 0.1)
    with pytest.raises(ConfigError, match="must be above 0 and below 1, but is 1"):
        cut_test(one_file(TEXTS), 1.0)


def test_the_file_of_the_training_is_evaluated_on_what_was_held_out() -> None:
    cut = cut_test(one_file(TEXTS), 0.1)
    for texts in (TEXTS, TEXTS[::-1], [*TEXTS, "a new one"], TEXTS[:150]):
        chosen = evaluation_texts(one_file(texts), "test", [trained_on(cut)])
        assert (chosen.name, str(chosen)) == ("held-out", "held-out texts")
        assert held_out(chosen.corpus) - {"a new one"} == held_out(cut) & {*texts}
        assert trained_on(cut).overlap(chosen.texts).texts == 0


def test_every_text_is_evaluated_where_that_is_asked_for_and_counted_as_seen() -> None:
    cut = cut_test(one_file(TEXTS), 0.1)
    chosen = evaluation_texts(one_file(TEXTS), "all", [trained_on(cut)])
    assert (chosen.name, str(chosen), len(chosen.texts)) == ("all", "all texts", 200)
    assert trained_on(cut).overlap(chosen.texts) == (180, 0.9, True)
    learnt = evaluation_texts(one_file(TEXTS), "train", [trained_on(cut)])
    assert trained_on(cut).overlap(learnt.texts) == (180, 1.0, True)


def test_another_file_is_evaluated_whole() -> None:
    cut, other = cut_test(one_file(TEXTS), 0.1), one_file([*TEXTS[:30], *(f"other {text}" for text in TEXTS)])
    for models in ([trained_on(cut)], [TrainedOn(None, None)], []):
        chosen = evaluation_texts(other, "test", models)
        assert (chosen.name, len(chosen.texts)) == ("all", 230)


def test_a_file_that_was_not_cut_is_all_texts_under_every_name() -> None:
    corpus = one_file(TEXTS)
    for name in ("test", "valid", "all"):
        assert evaluation_texts(corpus, name, [trained_on(corpus)]).name == "all"


def test_two_models_are_evaluated_on_what_both_held_out() -> None:
    one, other = cut_test(one_file(TEXTS), 0.3), cut_test(one_file(TEXTS), 0.3, seed=1)
    chosen = evaluation_texts(one_file(TEXTS), "test", [trained_on(one), trained_on(other)])
    assert held_out(chosen.corpus) == held_out(one) & held_out(other)


def test_a_split_that_is_there_is_taken_as_it_is() -> None:
    folder = Corpus(splits={"train": split(TEXTS), "test": split(TEXTS[:7])}, labels=Labels(names=["a"]), source="data")
    assert evaluation_texts(folder, "test", [trained_on(folder)]) == evaluation_texts(folder, "test")
    assert str(evaluation_texts(folder, "test")) == "test"
    with pytest.raises(DataError, match="there is no split 'valid'; it has train, test"):
        evaluation_texts(folder, "valid")


def test_a_folder_of_training_texts_can_be_cut_too() -> None:
    folder = Corpus(splits={"train": split(TEXTS), "valid": split(["v"])}, labels=Labels(names=["a"]), source="data")
    cut = cut_test(folder, 0.1)
    assert list(cut.splits) == ["train", "valid", "test"]
    again = as_trained(folder, [trained_on(cut)])
    assert held_out(again) == held_out(cut)


def test_a_single_file_does_not_answer_to_the_name_of_a_test_split() -> None:
    corpus = one_file(TEXTS)
    assert corpus.split("train") is corpus.split("all")
    for name in ("test", "valid"):
        with pytest.raises(DataError, match=f"there is no split '{name}'; it has all"):
            corpus.split(name)


@pytest.mark.parametrize(
    "holdout",
    [None, 3, {}, {"fraction": 0.1, "seed": 0, "below": "x"}, {"fraction": 0.1, "seed": 0, "below": "f" * 17}],
)
def test_a_rule_that_cannot_be_read_is_none(holdout: object) -> None:
    assert Holdout.of_facts({"data": {"name": "x", "holdout": holdout}}) is None
    assert Holdout.of_facts({}) is None


def test_a_rule_comes_back_from_the_facts() -> None:
    rule = cut_test(one_file(TEXTS), 0.1).holdout
    assert rule is not None
    assert Holdout.of_facts({"data": {"holdout": rule.facts()}}) == rule
