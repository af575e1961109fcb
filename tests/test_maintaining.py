"""A finished model of every method: labels join it and leave it, and it learns on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from laconic import Laconic
from laconic.config import Settings
from laconic.data.corpus import Corpus, Labels
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.text import Splitter, word_table
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import bags
from laconic.errors import ConfigError, DataError, TrainingError
from laconic.methods.registry import METHODS, config_of
from laconic.methods.restore import move_ranker, restore_ranker
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.update.model import add_labels, remove_labels, update
from laconic.update.rankers import Config, NewWords, with_words
from tests.planted import planted_texts, planted_vectors, words_of
from tests.test_cli import laconic, shown_and_told
from tests.test_rankers import RERANKER, SETTINGS
from tests.variants import some_slow

EVERYTHING = planted_texts(num_labels=12, num_texts=240, with_label_texts=True)
KNOWN = list(EVERYTHING.labels.names)
MODELS = [*METHODS, "nearest, re-ranked", "xml-cnn, 2 members", "astec, label texts", "astec, clusters"]
# New labels are of the words of two old ones, which a model knows.
PAIRS = {"both of 1 and 4": (1, 4), "both of 2 and 7": (2, 7)}
OWN = [" ".join(words_of(one)[:2] + words_of(other)[:2]) for one, other in PAIRS.values()]
NEW = Labels(names=list(PAIRS), texts=OWN)
TEACHING = Config(epochs=10, batch_size=8, learning_rate=0.02, hard=6, random=3)
# Bags are quick to train, and what is said of rows and clusters does not depend on the encoder.
_QUICK: dict[str, Settings] = {
    "astec": {"epochs": 25},
    "inceptionxml": {"encoder": "bag", "epochs": 15},
    "inceptionxml+": {"encoder": "bag", "epochs": 20},
    "xml-cnn": {"encoder": "bag", "learning_rate": 0.02},
    "mach": {"members": 3},
    "nearest": {"calibration": 0.0},  # a change of labels drops the curve
    "trees": {"calibration": 0.0},
}
_OPTIONS: dict[str, Settings] = {
    "re-ranked": {"reranker": RERANKER},
    "label texts": {"label_texts": 3},
    "clusters": {"shortlister": "clusters"},
    "subwords": {"vocabulary": {"subwords": 64}},
}
_trained: dict[str, SavedModel] = {}


def model_of(name: str) -> SavedModel:
    """Trained once; nothing may change it."""
    if name not in _trained:
        method, _, how = name.partition(", ")
        settings = SETTINGS.get(method, {}) | _QUICK.get(method, {}) | _OPTIONS.get(how, {})
        members = 2 if "members" in how else 1
        _trained[name] = train_model(EVERYTHING, method, config_of(method, settings), Run.unkept(), members)
    return _trained[name]


def first_labels(model: SavedModel, texts: Sequence[str], k: int = 4) -> list[list[str]]:
    return [[one.label for one in answer] for answer in Predictor(model, "cpu").predict(texts, k)]


def scores(model: SavedModel, texts: Sequence[str]) -> list[dict[str, float]]:
    return [{one.label: one.score for one in answer} for answer in Predictor(model, "cpu").predict(texts, 100)]


def test_texts() -> list[str]:
    return list(EVERYTHING.split("test").texts or [])


test_texts.__test__ = False  # type: ignore[attr-defined]  # read by pytest alone


def p_at_1(model: SavedModel) -> float:
    """On texts that have nothing of the new labels."""
    labels, texts = EVERYTHING.split("test").labels, test_texts()
    strange = [label for pair in PAIRS.values() for label in pair]
    apart = [at for at in range(len(texts)) if not labels[[at]][:, strange].nnz]
    answers = first_labels(model, [texts[at] for at in apart], 1)
    right = [{KNOWN[label] for label in labels[[at]].indices} >= {*one} for at, one in zip(apart, answers, strict=True)]
    return 100 * sum(right) / len(right)


# Labels are added


@pytest.mark.parametrize("name", some_slow(MODELS))
def test_an_added_label_is_found_by_its_own_words_and_old_ones_stay(name: str, tmp_path: Path) -> None:
    model = add_labels(model_of(name), NEW)
    write_model(model, tmp_path / "model")
    model = read_model(tmp_path / "model")
    assert list(model.labels.names) == [*KNOWN, *PAIRS]
    assert model.label_counts[-2:].tolist() == [0, 0]
    assert model.facts["sizes"]["labels"] == 14
    for label, answer in zip(NEW.names, first_labels(model, OWN), strict=True):
        assert label in answer
    assert p_at_1(model) >= p_at_1(model_of(name)) - 5


@pytest.mark.parametrize("name", some_slow(MODELS, len(METHODS)))
def test_a_label_without_a_text_is_found_by_its_examples(name: str) -> None:
    nameless, texts = Labels(names=["4711", "0815"], texts=["", ""]), [" ".join(own.split()[::-1]) for own in OWN]
    rows = [Row(f"{at}", text, [label]) for at, (text, label) in enumerate(zip(texts, nameless.names, strict=True))]
    model = add_labels(model_of(name), nameless, corpus_of({"train": rows}, None, source="examples"))
    assert model.label_counts[-2:].tolist() == [1, 1]
    assert model.facts["changes"][-1]["examples"] == 2
    for label, answer in zip(nameless.names, first_labels(model, OWN), strict=True):
        assert label in answer


def test_what_was_added_and_from_what_is_told() -> None:
    texts = [f"{OWN[0]} neverseen", OWN[1]]
    model = add_labels(model_of("nearest"), Labels(names=NEW.names, texts=texts))
    (told,) = model.facts["changes"]
    # Names of more than one word count too, and their words are unknown.
    assert (told["verb"], told["labels"], told["examples"]) == ("add-labels", 2, 0)
    assert told["unknown_words"] < told["words"]
    again = remove_labels(model, ["L3"])
    assert [change["verb"] for change in again.facts["changes"]] == ["add-labels", "remove-labels"]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (Labels(names=["L3", "other"], texts=["a", "b"]), "the model has 'L3' already"),
        (Labels(names=["4711"], texts=["neverseen word"]), "'4711': no word .* give them texts .*, or examples"),
        (Labels(names=[]), "there is no new label"),
    ],
)
def test_labels_that_cannot_be_added_are_named(new: Labels, message: str) -> None:
    with pytest.raises(DataError, match=message):
        add_labels(model_of("nearest"), new)


def test_examples_of_labels_that_nobody_knows_are_refused() -> None:
    rows = [Row("1", OWN[0], [NEW.names[0], "somebody else's"])]
    with pytest.raises(DataError, match=r"somebody else's.*neither labels of the model nor new ones"):
        add_labels(model_of("nearest"), NEW, corpus_of({"train": rows}, None, source="examples"))


def test_a_model_of_features_is_told_apart() -> None:
    model = train_model(planted_vectors(), "nearest", config_of("nearest", {}), Run.unkept())
    with pytest.raises(DataError, match="reads features, not texts"):
        add_labels(model, NEW)
    assert len(remove_labels(model, ["L3"]).labels) == 7


# Labels are removed


@pytest.mark.parametrize("name", some_slow(MODELS, len(METHODS)))
def test_removed_labels_never_come_back_and_others_stay_in_order(name: str, tmp_path: Path) -> None:
    write_model(remove_labels(model_of(name), ["L0", "L7"]), tmp_path / "model")
    model, before = read_model(tmp_path / "model"), model_of(name)
    kept = [label for label in KNOWN if label not in ("L0", "L7")]
    assert list(model.labels.names) == kept
    assert model.label_counts.tolist() == [before.label_counts[KNOWN.index(label)] for label in kept]
    for old, new in zip(scores(before, test_texts()), scores(model, test_texts()), strict=True):
        assert {*new} <= {*kept}
        if {*list(old)[:3]} & {"L0", "L7"}:
            continue
        assert next(iter(new)) == next(iter(old))


@pytest.mark.parametrize("name", ["inceptionxml", "xml-cnn", "mach", "inceptionxml+"])
def test_the_others_scores_stay_but_for_rounding(name: str) -> None:
    model = remove_labels(model_of(name), ["L0", "L7"])
    for old, new in zip(scores(model_of(name), test_texts()), scores(model, test_texts()), strict=True):
        assert new == pytest.approx({label: score for label, score in old.items() if label in new}, rel=1e-5)


def test_all_labels_of_a_cluster_may_go() -> None:
    before = model_of("inceptionxml+")
    order, starts = (before.tensors[f"clusters.{part}"].tolist() for part in ("order", "starts"))
    gone = [KNOWN[label] for label in order[starts[1] : starts[2]]]
    model = remove_labels(before, gone)
    assert all(len(answer) == 12 - len(gone) for answer in scores(model, test_texts()))


@pytest.mark.parametrize("name", some_slow(MODELS, len(METHODS)))
def test_what_was_added_can_be_removed_again(name: str) -> None:
    model = remove_labels(add_labels(model_of(name), NEW), NEW.names)
    for one, other in zip(scores(model_of(name), test_texts()), scores(model, test_texts()), strict=True):
        assert next(iter(one)) == next(iter(other))
        assert other == pytest.approx(one, abs=1e-5)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["L33", "gone"], "the model has no labels 'L33', 'gone'; near 'L33' are 'L3'"),
        (KNOWN, "all of the model's 12 labels"),
        ([], "there is no label to remove"),
    ],
)
def test_labels_that_cannot_be_removed_are_named(names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        remove_labels(model_of("nearest"), names)


# A model learns on


def further(num: int = 60) -> Corpus:
    """Texts of old labels, and of two new ones that are known by their texts' words."""
    more = planted_texts(num_labels=12, num_texts=num, seed=3, with_label_texts=True)
    split = more.split("train")
    rows = [
        Row(f"{at}", (split.texts or [])[at], [KNOWN[label] for label in split.labels[[at]].indices])
        for at in range(len(split))
    ]
    rows += [Row(f"new {at}", OWN[at % 2], [NEW.names[at % 2]]) for at in range(12)]
    own = [LabelRow("labels", name, text) for name, text in zip(NEW.names, OWN, strict=True)]
    return corpus_of({"train": rows}, own, source="further")


@pytest.mark.parametrize("name", some_slow(MODELS, len(METHODS)))
def test_an_update_learns_new_labels_and_keeps_old_ones(name: str, tmp_path: Path) -> None:
    model = update(model_of(name), further(), TEACHING, Run.unkept())
    write_model(model, tmp_path / "model")
    model = read_model(tmp_path / "model")
    assert list(model.labels.names) == [*KNOWN, *PAIRS]
    assert model.label_counts[-2:].tolist() == [6, 6]
    assert model.facts["sizes"]["texts"] == 240 + 72
    assert model.facts["changes"][-1]["texts"] == 72
    for label, answer in zip(NEW.names, first_labels(model, OWN), strict=True):
        assert label in answer[:3]
    assert p_at_1(model) >= p_at_1(model_of(name)) - 5


@pytest.mark.parametrize("name", some_slow(["inceptionxml+", "xml-cnn, 2 members"]))
def test_a_killed_update_goes_on_and_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    class Stops(Silent):
        def __init__(self, after: int) -> None:
            self.left = after

        def stepped(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    whole = update(model_of(name), further(), TEACHING, Run.unkept())
    for after in (30, 20):
        run = Run(tmp_path / "run", watcher=Stops(after), device=torch.device("cpu"), seconds=0.0)
        with pytest.raises(KeyboardInterrupt):
            update(model_of(name), further(), TEACHING, run)
    run = Run(tmp_path / "run", watcher=Silent(), device=torch.device("cpu"), seconds=0.0)
    again = update(model_of(name), further(), TEACHING, run)
    for tensor, value in whole.tensors.items():
        assert torch.equal(value, again.tensors[tensor]), tensor
    other = Run(tmp_path / "run", watcher=Silent(), device=torch.device("cpu"), seconds=0.0)
    with pytest.raises(TrainingError, match=r"config\.epochs = 10"):
        update(model_of(name), further(), replace(TEACHING, epochs=2), other)


def texts_of_new_words(label: str) -> Corpus:
    """A dozen of them, among texts of old labels."""
    split = EVERYTHING.split("train")
    known = [
        (text, [KNOWN[label] for label in split.labels[[at]].indices]) for at, text in enumerate(split.texts or [])
    ]
    texts = [*known[:60], *([("yellow scarf", [label]), ("scarf", [label])] * 6)]
    rows = [Row(str(at), text, labels) for at, (text, labels) in enumerate(texts)]
    return corpus_of({"train": rows}, None, source="scarves")


@pytest.mark.parametrize("name", some_slow(MODELS, len(METHODS)))
def test_an_update_learns_words_that_the_model_did_not_know(name: str, tmp_path: Path) -> None:
    model = update(model_of(name), texts_of_new_words("scarves"), TEACHING, Run.unkept())
    assert model.vocabulary is not None
    assert {"yellow", "scarf"} <= {*model.vocabulary.words}
    assert model.facts["changes"][-1]["new_words"] == 2
    write_model(model, tmp_path / "model")
    answers = first_labels(read_model(tmp_path / "model"), ["yellow scarf", "scarf yellow"], 1)
    assert answers == [["scarves"]] * 2
    assert p_at_1(model) >= p_at_1(model_of(name)) - 5


# Trees teach no old label.
@pytest.mark.parametrize("name", some_slow([name for name in MODELS if not name.startswith("trees")], 4))
def test_new_words_may_speak_for_an_old_label(name: str) -> None:
    model = update(model_of(name), texts_of_new_words(KNOWN[3]), TEACHING, Run.unkept())
    assert KNOWN[3] in first_labels(model, ["yellow scarf"], 3)[0]


@pytest.mark.parametrize("name", some_slow([*MODELS, "inceptionxml, subwords"], len(METHODS)))
def test_room_for_new_words_changes_no_answer_to_texts_of_old_words(name: str) -> None:
    model = model_of(name)
    ranker, tokenizer = restore_ranker(model, torch.device("cpu")), Tokenizer(Splitter(), model.vocabulary)
    before = ranker.rank(tokenizer.tokens(test_texts()), 5)
    table = word_table(["yellow scarf", "scarf"], Splitter())
    grown = model.vocabulary.extended(table, 1)
    assert grown.words[len(model.vocabulary.words) :] == ["scarf", "yellow"]
    words = NewWords.of(model.vocabulary, grown, table, bags(model.vocabulary.tokens(table)))
    ranker = with_words(restore_ranker(model, torch.device("cpu")), words)
    after = ranker.rank(Tokenizer(Splitter(), grown).tokens(test_texts()), 5)
    assert torch.equal(before.labels, after.labels)
    torch.testing.assert_close(before.scores, after.scores)


def test_a_vocabulary_whose_size_was_set_does_not_grow_and_an_update_says_so() -> None:
    config = config_of("nearest", {"vocabulary": {"size": 20}})
    model = train_model(EVERYTHING, "nearest", config, Run.unkept())
    changed = update(model, texts_of_new_words(KNOWN[3]), TEACHING, Run.unkept())
    assert changed.vocabulary is model.vocabulary
    (told,) = changed.facts["changes"]
    assert told["new_words"] == 0
    assert told["unknown_words"] >= 18  # those of scarves, and what did not fit in before


def test_a_new_label_that_one_text_alone_has_is_never_held_out() -> None:
    rows = [Row(f"{at}", OWN[0], [f"new {at}"]) for at in range(8)]
    model = update(
        model_of("nearest"), corpus_of({"train": rows}, None, source="further"), Config(validation=0.9), Run.unkept()
    )
    assert len(model.labels) == 20


def test_nothing_is_learnt_where_held_out_texts_find_that_better() -> None:
    model = model_of("inceptionxml")
    shuffled = further()
    split = shuffled.split("train")
    rows = [
        Row(f"{at}", text, [KNOWN[int(np.random.default_rng(at).integers(12))]])
        for at, text in enumerate(split.texts or [])
    ]
    noise = corpus_of({"train": rows}, None, source="noise")
    learnt = update(model, noise, Config(epochs=1, learning_rate=1e-9), Run.unkept())
    assert torch.allclose(learnt.tensors["classifier.weight"], model.tensors["classifier.weight"], atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("learning_rate", 0.0), ("validation", 1.0), ("hard", -1)])
def test_a_wrong_setting_of_an_update_is_told(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be .* to .*, but is {value}"):
        Config(**{name: value})  # type: ignore[arg-type]  # wrong on purpose


def test_the_old_model_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(model_of("nearest"), tmp_path / "model")
    files = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    changed = add_labels(read_model(tmp_path / "model"), NEW)
    monkeypatch.setattr("laconic.storage.model_folder.model_card", lambda facts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_model(changed, tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == files


# The doors


def test_the_command_line_adds_and_removes_and_updates(tmp_path: Path) -> None:
    write_model(model_of("nearest"), tmp_path / "model")
    records = [{"id": name, "text": text} for name, text in zip(NEW.names, OWN, strict=True)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    said = laconic("add-labels", tmp_path / "model", tmp_path / "labels.jsonl", "--out", tmp_path / "more")
    assert "Added 2 labels" in said
    assert len(read_model(tmp_path / "model").labels) == 12
    (tmp_path / "names.txt").write_text("L0\nL3\n")
    said = laconic("remove-labels", tmp_path / "more", tmp_path / "names.txt", "--label", NEW.names[0])
    assert "Removed 3 labels (now 11)" in said
    (tmp_path / "new.jsonl").write_text(json.dumps({"text": OWN[0], "labels": ["L1", NEW.names[0]]}) + "\n")
    said = laconic("update", tmp_path / "more", tmp_path / "new.jsonl", "--epochs", 1, "--set", "validation=0.0")
    assert "Trained on 1 text; 1 label added (now 12)" in said
    assert not (tmp_path / "more" / "run").exists()
    card = (tmp_path / "more" / "README.md").read_text()
    assert "`add-labels` (2 labels)" in card
    assert "`update` (1 label, 1 text)" in card


def test_the_command_line_tells_what_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    write_model(model_of("nearest"), tmp_path / "model")
    (tmp_path / "labels.jsonl").write_text('{"id": "L3", "text": "again"}\n')
    files = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    said = laconic("add-labels", tmp_path / "model", tmp_path / "labels.jsonl", code=2)
    assert "no label can be added" in said
    assert "labels.jsonl:1: 'L3': the model has it already" in said
    (tmp_path / "labels.jsonl").write_text("")
    assert "the file is empty" in laconic("add-labels", tmp_path / "model", tmp_path / "labels.jsonl", code=2)
    assert "no labels 'L33'" in laconic("remove-labels", tmp_path / "model", "--label", "L33", code=2)
    assert "no label to remove" in laconic("remove-labels", tmp_path / "model", code=2)
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == files


def test_one_label_that_cannot_be_added_does_not_keep_out_the_others(tmp_path: Path) -> None:
    write_model(model_of("nearest"), tmp_path / "model")
    records = [
        {"id": NEW.names[0], "text": OWN[0]},
        {"id": "L3", "text": OWN[0]},
        {"id": "4711", "text": "neverseen word"},
        {"id": NEW.names[0], "text": OWN[1]},
        {"id": " ", "text": OWN[1]},
        {"id": NEW.names[1], "text": OWN[1]},
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    said, told = shown_and_told("add-labels", tmp_path / "model", tmp_path / "labels.jsonl")
    assert "Added 2 labels" in said
    assert list(read_model(tmp_path / "model").labels.names)[12:] == list(NEW.names)
    for refusal in (
        "labels.jsonl:2: 'L3': the model has it already",
        "labels.jsonl:3: '4711': no word of its text is known to the model",
        f"labels.jsonl:4: {NEW.names[0]!r}: already listed at",
        "labels.jsonl:5: ' ': not a name",
    ):
        assert f"not added: {tmp_path}/{refusal}" in told


def test_an_example_makes_a_label_usable_whose_words_are_unknown(tmp_path: Path) -> None:
    write_model(model_of("nearest"), tmp_path / "model")
    (tmp_path / "labels.jsonl").write_text('{"id": "4711", "text": "neverseen"}\n{"id": "4712", "text": "neverseen"}\n')
    (tmp_path / "examples.jsonl").write_text(json.dumps({"text": OWN[0], "labels": ["4711"]}) + "\n")
    add = ["add-labels", tmp_path / "model", tmp_path / "labels.jsonl", "--examples", tmp_path / "examples.jsonl"]
    said, told = shown_and_told(*add)
    assert "Added 1 label from 1 example (now 13)" in said
    assert "1 example" in said
    assert "'4712': no word of its text" in told


def test_figures_from_before_a_change_are_marked(tmp_path: Path) -> None:
    model = model_of("nearest")
    model = replace(model, facts={**model.facts, "metrics": {"split": "test", "metrics": {"P@1": 50.0}}})
    for one, marked in ((model, False), (remove_labels(model, ["L3"]), True)):
        write_model(one, tmp_path / "model")
        assert ("before the model was changed" in (tmp_path / "model" / "README.md").read_text()) == marked


def test_an_estimator_goes_with_the_times() -> None:
    texts, labels = ["red rose", "white rose", "blue sea", "deep ocean"], [["flower"], ["flower"], ["water"], ["water"]]
    model = Laconic("nearest").fit(texts, labels, {"flower": "", "water": ""})
    model.add_labels({"colour": "red white"}).remove_labels(["flower"])
    assert list(model.labels_) == ["water", "colour"]
    assert model.predict("white", k=1)[0].label == "colour"
    model.update(["red sea"], [["colour", "storm"]], validation=0.0)
    assert list(model.labels_) == ["water", "colour", "storm"]
    assert "storm" in [one.label for one in model.predict("red sea", k=3)]
    model.add_labels({7: ""}, ["deep blue"], [[7]])
    assert model.predict("deep blue", k=1)[0].label == "7"


@pytest.mark.parametrize(("method", "device"), [("nearest", "cpu"), ("trees", "cpu"), ("inceptionxml", "meta")])
def test_rankers_that_answer_on_the_cpu_alone_are_never_moved(method: str, device: str) -> None:
    folder = Path(__file__).parent / "models" / f"format-1-{method}" / "model"
    model = read_model(folder)
    moved = move_ranker(restore_ranker(model, torch.device("cpu")), model, torch.device("meta"))
    assert {tensor.device.type for tensor in moved.state_dict().values()} == {device}
