"""Two models whose answers are known, so that what tells them apart is known too; and real ones, beside `evaluate`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from laconic.analysis.compare import Comparison, Config, Contender, Example, Marked, Tally, compare
from laconic.cli.comparison import comparison_tables, example_table
from laconic.data.corpus import Corpus, Labels
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.errors import ConfigError, DataError
from laconic.evaluation.metrics import TrainingCounts
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor
from laconic.training.run import Run
from tests.planted import planted_texts, planted_vectors
from tests.test_cli import laconic

SETTINGS = {"epochs": 2, "batch_size": 16, "embedding": 16, "length": 4, "validation": 0.0}
FIGURES = ["P@1", "P@5", "nDCG@5", "PSP@5", "tail R@10"]


class Known(Predictor):
    """Answers as it was told to; the first label is the surest."""

    def __init__(self, names: Sequence[str], answers: dict[str, str]) -> None:
        self.labels, self.answers = Labels(names=names), answers

    def text_of(self, label: str) -> str:
        return f"the model's {label}"

    def predict(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[list[Prediction]]:
        ranked = [self.answers.get(text, "").split()[:k] for text in texts]
        return [[Prediction(label, 1 / (place + 1)) for place, label in enumerate(answer)] for answer in ranked]


def known(name: str, answers: dict[str, str], *, labels: str = "a b c d e f", counts: Sequence[int] = ()) -> Contender:
    """A model that trained on `counts` texts of each of its labels."""
    names = labels.split()
    per_label = np.array(counts or [9] * len(names), dtype=np.int64)
    return Contender(name=name, predictor=Known(names, answers), training=TrainingCounts(per_label=per_label, texts=99))


def data(test: dict[str, str], train: Sequence[str] | None = None, *, ids: dict[str, str] | None = None) -> Corpus:
    """Texts with their labels; of the training texts only the labels matter."""
    ids = ids or {}
    rows = {"test": [Row(f"test:{text}", text, labels.split(), id=ids.get(text)) for text, labels in test.items()]}
    if train is not None:
        rows["train"] = [Row(f"train:{n}", f"text {n}", labels.split()) for n, labels in enumerate(train)]
    return corpus_of(rows, [LabelRow("labels", name, f"text of {name}") for name in "abcdef"], source="planted")


def compared(one: Contender, other: Contender, corpus: Corpus, **config: int) -> Comparison:
    return compare((one, other), corpus, "test", Config(**config))


def marks(labels: Iterable[Marked]) -> str:
    """Labels as a table shows them: + right, * never seen together, ° of the tail."""
    return " ".join(
        "+" * mark.right + "*" * bool(mark.unseen_together) + "°" * mark.tail + mark.label for mark in labels
    )


def trained(corpus: Corpus, method: str, members: int = 1, **settings: Any) -> Contender:
    model = train_model(corpus, method, config_of(method, settings), Run.unkept(), members)
    return Contender.of(f"{method} {members}", model, "cpu")


# Figures


@pytest.fixture(scope="module")
def planted() -> Corpus:
    return planted_texts(num_texts=60)


@pytest.fixture(scope="module")
def pair(planted: Corpus) -> tuple[Contender, Contender]:
    return trained(planted, "nearest"), trained(planted, "inceptionxml", 2, **SETTINGS)


def test_figures_are_those_of_evaluate_also_of_an_ensemble(pair: tuple[Contender, Contender], planted: Corpus) -> None:
    comparison = compare(pair, planted, "test", Config())
    assert list(comparison.figures) == FIGURES
    for place, contender in enumerate(pair):
        evaluated = contender.predictor.evaluate(planted, "test").metrics
        for name, figure in comparison.figures.items():
            assert figure.models[place] == pytest.approx(evaluated[name])


def test_the_interval_holds_the_difference_and_turns_with_the_models(
    pair: tuple[Contender, Contender], planted: Corpus
) -> None:
    forth, back = compare(pair, planted, "test", Config()), compare(pair[::-1], planted, "test", Config())
    for name, figure in forth.figures.items():
        low, high = figure.interval
        assert low <= figure.difference <= high
        assert figure.difference == pytest.approx(figure.models[1] - figure.models[0])
        assert back.figures[name].difference == pytest.approx(-figure.difference)
        assert back.figures[name].interval == pytest.approx((-high, -low))
    assert forth.more_right == back.more_right[::-1]
    assert [example.row for example in forth.examples] != []


def test_a_model_does_not_differ_from_itself(pair: tuple[Contender, Contender], planted: Corpus) -> None:
    comparison = compare((pair[0], pair[0]), planted, "test", Config())
    assert all((figure.difference, figure.interval) == (0, (0, 0)) for figure in comparison.figures.values())
    assert comparison.more_right == (0, 0)
    assert comparison.examples == []


def test_two_models_that_are_wrong_together_differ_surely() -> None:
    """Each figure alone is unsure; the difference, taken text by text, is always the same."""
    test = {f"text {n}": "a" for n in range(40)}
    right = {text: "b a" if n % 2 else "a" for n, text in enumerate(test)}
    other = {text: "b" if n % 2 else "a" for n, text in enumerate(test)}
    assert compared(known("one", other), known("other", right), data(test)).figures["P@1"].interval == (0, 0)


def test_texts_are_told_by_who_is_right() -> None:
    test = {"both": "a", "one": "a", "other": "a", "neither": "a", "later": "a"}
    one = known("one", {"both": "a", "one": "a", "other": "b", "neither": "b", "later": "b c a"})
    other = known("other", {"both": "a", "one": "b", "other": "a", "neither": "c", "later": "b c d"})
    comparison = compared(one, other, data(test), k=3)
    assert comparison.right == {1: Tally(1, 1, 1, 2), 3: Tally(2, 1, 1, 1)}
    assert comparison.more_right == (2, 1)


# Examples


def test_texts_that_differ_most_come_first_and_sides_take_turns() -> None:
    test = {"alike": "a b", "by two": "a b c", "by three": "a b c", "the other's by one": "a", "by one": "a"}
    one = known("one", {"alike": "a d", "by two": "a b d", "by three": "a b c", "by one": "a"})
    other = known("other", {"alike": "d b", "by three": "d", "the other's by one": "a"})
    comparison = compared(one, other, data(test), k=3)
    assert [example.text for example in comparison.examples] == ["by three", "the other's by one", "by two", "by one"]
    assert [example.row for example in comparison.examples] == [2, 3, 1, 4]
    few = compared(one, other, data(test), k=3, n=2)
    assert few.examples == comparison.examples[:2]
    assert (few.figures, few.right, few.more_right) == (comparison.figures, comparison.right, comparison.more_right)
    assert compared(one, other, data(test), k=3, n=0).examples == []


def test_the_seed_orders_texts_that_differ_alike() -> None:
    test = {f"text {n}": "a" for n in range(50)}
    one, other = known("one", dict.fromkeys(test, "a")), known("other", {})

    def shown(seed: int) -> list[str]:
        return [example.text for example in compared(one, other, data(test), seed=seed).examples]

    assert shown(1) == shown(1) != shown(2)


def the_example(test: str, answer: str, train: Sequence[str] | None) -> Example:
    """A text with those true labels, and a model with that answer beside one that answers nothing."""
    (example,) = compared(known("one", {"text": answer}), known("other", {}), data({"text": test}, train)).examples
    return example


def test_right_unseen_together_and_rare_labels_are_marked() -> None:
    train = ["a b"] * 6 + ["c"] * 6 + ["d a"] * 6 + ["e"] * 5 + ["f c"] * 6
    example = the_example("a b c", "a c d e f", train)
    assert marks(example.true) == "+a +b +*c"
    assert marks(example.answers[0]) == "+a +*c d *°e f"  # f was seen with c alone, which is enough
    assert marks(example.answers[1]) == ""
    assert [mark.text for mark in example.true] == ["text of a", "text of b", "text of c"]
    assert [mark.score for mark in example.answers[0]] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert {mark.score for mark in example.true} == {None}


def test_a_label_is_not_told_to_be_seen_with_itself() -> None:
    example = the_example("a", "a b", ["a"] * 6 + ["b"] * 6)
    assert [mark.unseen_together for mark in example.answers[0]] == [None, True]


def test_a_weight_of_zero_is_not_seen() -> None:
    corpus = data({"text": "a b"}, ["a b"])
    corpus.splits["train"].labels.data[0] = 0
    (example,) = compared(known("one", {"text": "a"}), known("other", {}), corpus).examples
    assert [mark.unseen_together for mark in example.true] == [True, True]


def test_without_a_train_split_nothing_is_told_of_unseen_pairs_and_the_first_model_tells_the_tail() -> None:
    one = known("one", {"text": "a b"}, counts=[9, 5, 9, 9, 9, 9])
    comparison = compared(one, known("other", {}), data({"text": "a b"}))
    (example,) = comparison.examples
    assert marks(example.answers[0]) == "+a +°b"
    assert {mark.unseen_together for mark in example.answers[0]} == {None}
    assert comparison.figures["tail R@10"].models == (100, 0)
    (note,) = comparison.notes
    assert note.startswith("planted has no train split: labels never seen together are not marked;")
    assert note.endswith("by the training of one")


@pytest.mark.parametrize("train", [None, ["a b"] * 6])
def test_models_and_data_may_know_different_labels(train: list[str] | None) -> None:
    one = known("one", {"text": "x a"}, labels="x a", counts=[1, 9])
    other = known("other", {"text": "b y"}, labels="y b")
    comparison = compared(one, other, data({"text": "a b c"}, train), k=1)
    assert comparison.more_right == (0, 1)
    assert marks(comparison.examples[0].answers[0]) == ("*°x" if train else "°x")
    assert marks(comparison.examples[0].answers[1]) == "+" + "°" * (train is None) + "b"
    assert [answer[0].text for answer in comparison.examples[0].answers] == ["the model's x", "text of b"]
    lacking = [note for note in comparison.notes if "does not have" in note]
    assert lacking == [f"{name} does not have 2 of the 3 labels of these texts" for name in ("one", "other")]


def test_a_pair_of_a_text_with_itself_is_left_out_unless_it_is_kept() -> None:
    corpus = data({"text": "a b"}, ["a b"] * 6, ids={"text": "a"})
    one, other = known("one", {"text": "a c"}), known("other", {"text": "a b"})
    (example,) = compared(one, other, corpus, k=1).examples
    assert (marks(example.true), *map(marks, example.answers)) == ("+b", "*°c", "+b")
    assert [mark.score for answer in example.answers for mark in answer] == [0.5, 0.5]
    assert compared(one, other, corpus.keeping_self_pairs(), k=1).examples == []


# Tables


def printed(names: str) -> str:
    """A text with its first two labels true, and a model that answers the second and the third."""
    first, second, third = names.split()
    rows = {
        "train": [Row(f"train:{n}", f"text {n}", [first if n % 2 else second]) for n in range(12)],
        "test": [Row("test:1", "a [b] text", [first, second])],
    }
    corpus = corpus_of(rows, [LabelRow("labels", name, "of its own") for name in names.split()], source="planted")
    one = known("one", {"a [b] text": f"{second} {third}"}, labels=names)
    comparison = compared(one, known("other", {}), corpus)
    console = Console(width=120, file=io.StringIO(), highlight=False, markup=False)
    (example,) = comparison.examples
    console.print(*comparison_tables(comparison, "planted"), example_table(example, comparison))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_labels_are_shown_by_name_with_their_marks() -> None:
    shown = printed("alpha beta gamma")
    assert "a [b] text" in shown
    assert "true: * alpha (of its own); * beta (of its own)" in shown
    assert "✓*  beta (of its own)" in shown
    assert "✗*° gamma (of its own)" in shown


def test_labels_whose_names_are_codes_are_shown_by_their_texts() -> None:
    shown = printed("L1 L2 L3")
    assert "true: * of its own; * of its own" in shown
    assert "✗*° of its own" in shown
    assert "L3" not in shown


# Mistakes


@pytest.mark.parametrize(("name", "value", "least"), [("k", 0, 1), ("n", -1, 0), ("seed", -1, 0)])
def test_a_setting_out_of_range_is_refused(name: str, value: int, least: int) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be {least} or more, but is {value}"):
        Config(**{name: value})


def test_features_are_refused() -> None:
    corpus = planted_vectors()
    contender = trained(corpus, "nearest")
    with pytest.raises(DataError, match="planted: models are compared on texts, but this data has none"):
        compare((contender, contender), corpus, "test", Config())


# The verb


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, the model `all` of its four training texts, and the model `half` of two of them."""
    place = tmp_path_factory.mktemp("comparing")
    train = [("red rose", "flower red"), ("white rose", "flower"), ("blue sea", "water blue"), ("red sea", "water red")]
    test = [("rose in the sea", "flower water"), ("white [rose]", "flower"), ("", "red")]
    for name, splits in {"all": {"train": train, "test": test}, "half": {"train": train[2:]}}.items():
        (place / f"{name} data").mkdir()
        for split, rows in splits.items():
            lines = [json.dumps({"text": text, "labels": labels.split()}) + "\n" for text, labels in rows]
            (place / f"{name} data" / f"{split}.jsonl").write_text("".join(lines))
        laconic("train", place / f"{name} data", "--method", "nearest", "--no-pack", "--out", place / name)
    return place


def test_the_verb_shows_what_it_writes(folder: Path, tmp_path: Path) -> None:
    one, other, corpus = folder / "all", folder / "half", folder / "all data"
    shown = laconic("compare", one, other, corpus, "-n", 2, "-k", 2, "--json", tmp_path / "all.json")
    written = json.loads((tmp_path / "all.json").read_text())
    assert written["models"] == [str(one), str(other)]
    assert (written["data"], written["split"], written["texts"], written["k"]) == (str(corpus), "test", 3, 2)
    assert list(written["figures"]) == ["P@1", "P@2", "nDCG@5", "PSP@5", "tail R@10"]
    assert sum(written["right"]["@1"].values()) == 3
    assert written["more_right"] == [2, 0]
    for example in written["examples"]:
        assert example["text"] in shown
        assert set(example["answers"][0][0]) == {"label", "text", "right", "tail", "unseen_together", "score"}
    assert "white [rose]" in shown
    assert "true: ° flower" in shown
    assert "differ most in how many of the first 2 are right" in shown


def test_a_single_file_is_compared_without_what_only_training_tells(folder: Path) -> None:
    test = folder / "all data" / "test.jsonl"
    assert "✓" in laconic("compare", folder / "all", folder / "half", test, "-k", 2)


def test_a_model_beside_itself_is_told_so(folder: Path) -> None:
    shown = laconic("compare", folder / "all", folder / "all", folder / "all data")
    assert "no text has more right labels from one model than from the other" in shown


def test_a_missing_model_or_split_is_one_message(folder: Path) -> None:
    assert "nowhere: there is no such model folder" in laconic("compare", folder / "all", "nowhere", "data", code=2)
    complaint = laconic("compare", folder / "all", folder / "half", folder / "all data", "--split", "valid", code=2)
    assert "there is no split 'valid'; it has" in complaint
