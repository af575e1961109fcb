"""Attributes of labels: read, kept in both kinds of folders, and filtered by wherever labels are predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic import Laconic
from laconic.data.attributes import LONGEST_VALUE, MOST_ATTRIBUTES, LabelAttributes
from laconic.data.corpus import Corpus, Labels
from laconic.data.output import write_folder
from laconic.data.sources import read
from laconic.errors import ConfigError, DataError, ModelError
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import open_packed, write_packed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.predictor import Predictor
from laconic.serve import responses
from laconic.serve.errors import Refusal
from laconic.serve.openapi import facts_of
from laconic.serve.responses import Asked
from laconic.serve.schemas import Question, question_of, question_schema
from laconic.serve.settings import Limits, Serving
from laconic.serve.version import opened
from laconic.storage.manifest import write_manifest
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.storage.tensors import save_tensors, tensors_of
from laconic.training.run import Run
from laconic.update.model import add_labels, remove_labels, update
from laconic.update.rankers import Config
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told

PLANTED = planted_texts(with_label_texts=True)
TEXTS = list(PLANTED.split("test").texts or ())
EVEN = [name for at, name in enumerate(PLANTED.labels.names) if at % 2 == 0]


def values_of(label: int) -> dict[str, list[str]]:
    """Even or odd, and for the first six labels a size; the first label has two sizes."""
    own = {"kind": ["even" if label % 2 == 0 else "odd"]}
    if label < 6:
        own["size"] = ["big", "small"] if label == 0 else ["big" if label < 3 else "small"]
    return own


def attributes() -> LabelAttributes:
    found = LabelAttributes.of([values_of(label) for label in range(len(PLANTED.labels))])
    assert found is not None
    return found


CORPUS = replace(PLANTED, labels=replace(PLANTED.labels, attributes=attributes()))


def trained() -> SavedModel:
    return train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return trained()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "data"
    write_folder(CORPUS, folder, compress=False)
    return folder


@pytest.fixture
def folder(model: SavedModel, tmp_path: Path) -> Path:
    write_model(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="module", params=["model", "packed", "model from a folder", "packed from a folder"])
def predictor(request: pytest.FixtureRequest, model: SavedModel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("models") / "m"
    match request.param:
        case "model":
            return Predictor(model, "cpu")
        case "packed":
            return PackedPredictor(pack(model))
        case "model from a folder":
            write_model(model, place)
            return Predictor.open(place, device="cpu")
    write_packed(pack(model), place)
    return PackedPredictor.open(place)


def test_filtered_labels_are_the_best_of_their_group_not_of_the_first_k(predictor: Any) -> None:
    every = predictor.predict(TEXTS, len(CORPUS.labels))
    assert predictor.predict(TEXTS, 3, where={"kind": "even"}) == predictor.predict(TEXTS, 3, allow=EVEN)
    for own, whole in zip(predictor.predict(TEXTS, 3, where={"size": "big"}), every, strict=True):
        assert {label for label, _ in own} == {"L0", "L1", "L2"}
        assert [label for label, _ in own] == [label for label, _ in whole if label in ("L0", "L1", "L2")]


def labels_where(predictor: Any, where: dict[str, Any], **others: Any) -> set[str]:
    return {one.label for one in predictor.predict([""], 99, where=where, **others)[0]}


def test_values_of_an_attribute_are_alternatives_and_attributes_are_conditions(predictor: Any) -> None:
    assert labels_where(predictor, {"size": ["small", "big"]}) == {f"L{label}" for label in range(6)}
    assert labels_where(predictor, {"size": {"small"}, "kind": "even"}) == {"L0", "L4"}
    assert labels_where(predictor, {"size": []}) == set()
    assert len(labels_where(predictor, {})) == len(CORPUS.labels)


def test_names_and_attributes_filter_together(predictor: Any) -> None:
    assert labels_where(predictor, {"size": "big"}, allow=["L1", "L7"]) == {"L1"}
    assert labels_where(predictor, {"size": "big"}, block=["L1"]) == {"L0", "L2"}


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"kinds": "even"}, "the nearest attribute is 'kind'"),
        ({"xyz": "even"}, "they have: kind, size"),
        ({"kind": "evn"}, "'kind' to be 'evn', but no label has this value.*nearest value is 'even'"),
        ({"kind": {"a": 1}}, "must be a text, a number or a list of them"),
    ],
)
def test_a_wrong_name_or_value_is_answered_with_the_nearest(predictor: Any, where: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        predictor.predict(["a"], where=where)


def test_labels_without_attributes_cannot_be_filtered_by_them() -> None:
    plain = Laconic("nearest").fit(["red rose", "blue sea"], ["flower", "water"])
    with pytest.raises(ConfigError, match=r"the labels of this model have none.*labels.jsonl"):
        plain.predict("rose", where={"kind": "plant"})


def test_a_dataset_folder_keeps_them(data: Path) -> None:
    again = read(data)
    assert again.labels.attribute_values() == CORPUS.labels.attribute_values()
    first = json.loads((data / "labels.jsonl").read_text().splitlines()[0])
    assert (first["kind"], first["size"]) == ("even", ["big", "small"])


def listed(folder: Path, lines: list[dict[str, Any]]) -> Corpus:
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"text": "a", "labels": ["a", "c"]}\n')
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read(folder)


def test_values_are_texts_numbers_and_lists_of_them(tmp_path: Path) -> None:
    found = listed(
        tmp_path / "data",
        [
            {"id": "a", "year": 1999, "new": True, "tags": ["x", 2, "x", None]},
            {"id": "b", "year": None, "new": False, "tags": " y "},
        ],
    )
    assert found.labels.names == ["a", "b", "c"]
    a, b, c = found.labels.attribute_values()
    assert a == {"year": ["1999"], "new": ["true"], "tags": ["2", "x"]}
    assert (b, c) == ({"new": ["false"], "tags": ["y"]}, {})
    assert found.labels.attributes is not None
    assert found.labels.attributes.having({"year": 1999, "new": True}).tolist() == [True, False, False]


def test_what_is_no_attribute_is_left_out_and_reported(tmp_path: Path) -> None:
    long, many = "x" * (LONGEST_VALUE + 1), {f"key {at}": "a" for at in range(MOST_ATTRIBUTES)}
    found = listed(tmp_path / "data", [{"id": "a", "deep": {"b": 1}, "long": "a", **many}, {"id": "b", "long": long}])
    assert found.labels.attributes is not None
    assert len(found.labels.attributes.names) == MOST_ATTRIBUTES - 1  # the long one took a place until it was refused
    notes = "\n".join(found.notes)
    assert "'deep' of labels is not kept as an attribute" in notes
    assert "labels.jsonl:1: it is neither a text nor a number" in notes
    assert "labels.jsonl:2: it has 201 characters" in notes


def test_a_table_of_labels_has_attributes_in_its_other_columns(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "a", "labels": ["a", "b"]}\n')
    (tmp_path / "labels.csv").write_text("id,text,category\na,first,x\nb,second,\n")
    labels = read(tmp_path).labels
    assert (labels.texts, labels.attribute_values()) == (["first", "second"], [{"category": ["x"]}, {}])
    (tmp_path / "labels.csv").write_text("uri,label_en,notation,group\nhttp://a,first,7,x\nhttp://b,second,8,y\n")
    labels = read(tmp_path).labels
    assert labels.attribute_values()[:2] == [{"group": ["x"]}, {"group": ["y"]}]


def test_both_folders_keep_them_and_old_ones_without_any_open(model: SavedModel, tmp_path: Path) -> None:
    for labels in (model.labels, replace(model.labels, attributes=None)):
        write_model(replace(model, labels=labels), tmp_path / "m")
        write_packed(pack(read_model(tmp_path / "m")), tmp_path / "p")
        assert read_model(tmp_path / "m").labels.attribute_values() == labels.attribute_values()
        packed = open_packed(tmp_path / "p").label_attributes
        values = None if packed is None else packed.by_label()
        assert values == (None if labels.attributes is None else labels.attribute_values())
        assert (tmp_path / "m" / "label_attributes.txt").exists() == (labels.attributes is not None)
        assert ("label_attributes" in read_model(tmp_path / "m").facts) == (labels.attributes is not None)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("labels", torch.full((18,), 99, dtype=torch.int32)),
        ("labels", torch.full((18,), -1, dtype=torch.int32)),
        ("labels", torch.zeros(18, dtype=torch.int64)),
        ("starts", torch.tensor([0, 5, 2, 18, 18], dtype=torch.int64)),
        ("starts", torch.zeros(5, dtype=torch.bfloat16)),
        ("bounds", torch.tensor([0, 3, 9], dtype=torch.int64)),
        ("bounds", torch.zeros(0, dtype=torch.int64)),
    ],
)
def test_a_damaged_folder_is_refused(folder: Path, part: str, value: torch.Tensor) -> None:
    path = folder / "label_attributes.safetensors"
    save_tensors(tensors_of(path) | {part: value}, path)
    write_manifest(folder, format=1)
    with pytest.raises(ModelError):
        read_model(folder)


def test_names_that_are_none_are_refused(folder: Path) -> None:
    path = folder / "model.json"
    for names in ({"kind": 1}, ["kind", "kind"], ["kind", 7], ["kind"], "kind"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"label_attributes": names}))
        write_manifest(folder, format=1)
        with pytest.raises(ModelError):
            read_model(folder)


def test_a_damaged_packed_folder_is_refused(model: SavedModel, tmp_path: Path) -> None:
    whole = pack(model)
    assert whole.label_attributes is not None
    for change in (
        {"labels": np.full(18, 99, dtype=np.int32)},
        {"starts": np.zeros(3, dtype=np.int64)},
        {"names": ["kind"]},
    ):
        write_packed(replace(whole, label_attributes=replace(whole.label_attributes, **change)), tmp_path / "packed")
        with pytest.raises(ModelError):
            open_packed(tmp_path / "packed")


def test_labels_that_come_and_go_take_their_attributes_along(model: SavedModel) -> None:
    text = (CORPUS.labels.texts or [])[3]
    values = LabelAttributes.of([{"kind": ["new"]}])
    more = add_labels(model, Labels(names=["N"], texts=[text], attributes=values))
    assert more.labels.attribute_values() == [*CORPUS.labels.attribute_values(), {"kind": ["new"]}]
    fewer = remove_labels(more, ["L0", "L3"])
    assert fewer.labels.attribute_values() == [values_of(label) for label in range(12) if label not in (0, 3)] + [
        {"kind": ["new"]}
    ]
    assert labels_where(Predictor(fewer, "cpu"), {"kind": ["even", "new"]}) == {*EVEN, "N"} - {"L0"}
    assert remove_labels(model, PLANTED.labels.names[:-1]).labels.attribute_values() == [values_of(11)]


def test_an_update_keeps_attributes_and_takes_those_that_its_data_lists(model: SavedModel) -> None:
    changed = replace(PLANTED.labels, attributes=LabelAttributes.of([{"kind": ["first"]}, *[{}] * 11]))
    after = update(model, replace(PLANTED, labels=changed), Config(epochs=1), Run.unkept())
    assert after.labels.attribute_values() == [{"kind": ["first"]}, *CORPUS.labels.attribute_values()[1:]]


def test_another_attribute_is_another_training() -> None:
    from laconic.methods.train import Training

    def facts(corpus: Corpus) -> Any:
        return Training.of(corpus, "nearest", config_of("nearest", {})).facts["data"]

    other = CORPUS.labels.with_attributes({"L0": {"kind": ["odd"]}})
    assert len({facts(PLANTED), facts(CORPUS), facts(replace(CORPUS, labels=other))}) == 3


def test_the_command_line_filters(data: Path, tmp_path: Path) -> None:
    laconic("train", data, "--method", "nearest", "--out", tmp_path / "m", "--quiet")
    for folder in (tmp_path / "m", tmp_path / "m" / "packed"):
        ask = ("predict", folder, "--text", TEXTS[0], "-k", 99, "--json")
        shown = json.loads(laconic(*ask, "--where", "size=big", "--where", "size=small", "--where", "kind=even"))
        assert {one["label"] for one in shown["predictions"]} == {"L0", "L2", "L4"}
        assert "the nearest attribute is 'kind'" in laconic(*ask, "--where", "kin=even", code=2)
        assert "--where must be NAME=VALUE" in laconic(*ask, "--where", "kind", code=2)
        assert "2 values of 6 labels: small (4), big (3)" in laconic("inspect", folder)
    assert json.loads(laconic("inspect", tmp_path / "m", "--json"))["label_attributes"]["kind"]["values"] == 2
    assert json.loads(laconic("inspect", data, "--json"))["labels"]["attributes"]["size"]["labels"] == 6


def test_attributes_are_set_in_a_finished_model_and_its_packed_version(data: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    write_folder(PLANTED, plain)
    laconic("train", plain, "--method", "nearest", "--out", tmp_path / "m", "--quiet")
    before = laconic("predict", tmp_path / "m", "--text", TEXTS[0])
    ask = ("predict", tmp_path / "m", "--text", TEXTS[0], "--where", "kind=even")
    assert "have none" in laconic(*ask, code=2)
    shown, told = shown_and_told("set-attributes", tmp_path / "m", data / "labels.jsonl")
    assert "Attributes of 12 labels are set (kind: 2 values; size: 2 values)" in shown
    assert (told, laconic("predict", tmp_path / "m", "--text", TEXTS[0])) == ("", before)
    assert "L" in laconic(*ask)
    (tmp_path / "more.csv").write_text("id,kind\nL0,third\nunheard,third\n")
    shown, told = shown_and_told("set-attributes", tmp_path / "m", tmp_path / "more.csv", "--out", tmp_path / "other")
    assert "1 label is not in the model, such as 'unheard'" in told
    attributes = open_packed(tmp_path / "other" / "packed").label_attributes
    assert attributes is not None
    assert attributes.by_label()[0] == {"kind": ["third"]}
    (tmp_path / "more.csv").write_text("id,kind\nunheard,third\n")
    assert "none of its labels is in the model" in laconic(
        "set-attributes", tmp_path / "m", tmp_path / "more.csv", code=2
    )


def test_the_estimator_takes_and_filters_them(tmp_path: Path) -> None:
    given = {"flower": {"kingdom": "plant"}, "water": {"kingdom": ["thing", "place"]}, "elsewhere": {"kingdom": "no"}}
    fitted = Laconic("nearest").fit(
        ["red rose", "blue sea", "old oak"], ["flower", "water", "tree"], label_attributes=given
    )
    assert [one.label for one in fitted.predict("a rose", where={"kingdom": "place"})] == ["water"]
    fitted.add_labels({"fire": "red"}, label_attributes={"fire": {"kingdom": "thing"}})
    fitted.pack(["red rose"]).save(tmp_path / "m")
    again = Laconic.load(tmp_path / "m")
    assert {one.label for one in again.predict("red", where={"kingdom": "thing"})} == {"water", "fire"}
    again.set_label_attributes({"fire": {}, "tree": {"kingdom": "plant"}})
    assert {one.label for one in again.predict("red", where={"kingdom": "plant"})} == {"flower", "tree"}
    again.update(["old rose"], ["flower"], label_attributes={"flower": {"kingdom": "thing"}})
    assert {one.label for one in again.predict("red", where={"kingdom": "thing"})} == {"water", "flower"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["flower"], "where a dict of label names and attributes is needed"),
        ({"flower": "plant"}, r"label_attributes\['flower'\] is 'plant'"),
        ({"flour": {"a": 1}}, "none of these is a label"),
        ({"flower": {"a": {"b": 1}}}, "neither a text nor a number"),
    ],
)
def test_wrong_attributes_in_python_are_refused(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Laconic("nearest").fit(["red rose"], ["flower"], label_attributes=given)


LIMITS = Limits(names=3)


def refused(body: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        question_of(json.dumps({"text": "a", **body}).encode(), LIMITS)
    return refusal.value


def test_the_service_limits_what_is_asked() -> None:
    assert question_of(b'{"text": "a", "where": {"a": "b", "c": [1, true]}}', LIMITS).where == {
        "a": "b",
        "c": [1, True],
    }
    assert refused({"where": {"a": ["b"] * 3, "c": "d"}}).where == "where"
    assert "at most 100 attributes" in str(refused({"where": {f"a{at}": "b" for at in range(101)}}).message)
    for wrong in ("kind", {"kind": None}, {"kind": {"a": 1}}, {"kind": [["a"]]}):
        refusal = refused({"where": wrong})
        assert "kind" not in f"{refusal.message} {refusal.where}"
    assert question_schema(LIMITS)["properties"]["where"]["anyOf"][0]["maxProperties"] == 100


def test_the_service_filters(model: SavedModel, tmp_path: Path) -> None:
    write_packed(pack(model), tmp_path / "packed")
    version = opened(tmp_path / "packed", speed=_usual(), verify=True)
    questions = [
        Question(text=TEXTS[0], k=99, where={"size": "big"}),
        Question(text=TEXTS[0], k=99),
        Question(text=TEXTS[0], k=99, where={"size": "secret"}),
    ]
    big, every, unknown = responses.answered(version, [Asked(one, float("inf")) for one in questions], Limits())
    assert isinstance(big, bytes)
    assert isinstance(every, bytes)
    assert [len(json.loads(body)["answers"][0]["predictions"]) for body in (big, every)] == [3, 12]
    assert isinstance(unknown, Refusal)
    assert (unknown.status, unknown.where) == (422, "where")
    assert "its attributes: kind, size" in unknown.message
    assert "secret" not in unknown.message
    assert facts_of(version, Serving()).attributes["size"].model_dump() == {
        "values": 2,
        "labels": 6,
        "largest": {"small": 4, "big": 3},
    }


def _usual() -> Any:
    from laconic.predict.load import USUAL

    return USUAL
