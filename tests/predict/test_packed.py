"""The packed folder: what was written is opened; what was tampered with is refused, whatever was done to it."""

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ModelError, UserError
from laconic.packed import deflated
from laconic.packed.arrays import map_arrays, write_arrays
from laconic.packed.engine.parts import Part
from laconic.packed.folder import is_packed, open_packed, write_packed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.manifest import PACKED_MODEL, write_manifest
from laconic.storage.model_folder import check_free, read_model
from laconic.system.files import replacing_file
from tests.predict.tiny import KINDS, NAMES, facts, packed, packed_features
from tests.variants import examples

FILES = ["arrays.safetensors", "label_texts.utf8", "labels.utf8", "packed.json", "vocabulary.utf8"]


@pytest.fixture
def folder(tmp_path):
    write_packed(packed(), tmp_path / "packed")
    return tmp_path / "packed"


def opened(folder, verify=False):
    return open_packed(folder, verify=verify, kinds=KINDS)


def test_what_was_written_is_opened(tmp_path):
    model = packed(VocabularyConfig(sublinear=True, subwords=9), Splitter(stop_words=False, pattern=r"\w+"))
    write_packed(model, tmp_path / "packed")
    read = opened(tmp_path / "packed", verify=True)
    assert {name: read.facts[name] for name in model.facts} == model.facts
    assert (list(read.labels), list(read.label_texts)) == (model.labels, model.label_texts)
    assert (read.splitter, read.ranker.found) == (model.splitter, model.ranker.found)
    np.testing.assert_array_equal(read.ranker.weights, model.ranker.weights)
    assert not read.ranker.weights.flags.writeable
    assert (read.vocabulary.words, read.vocabulary.ids) == (model.vocabulary.words, model.vocabulary.ids)
    assert (read.vocabulary.num_texts, read.vocabulary.sublinear) == (model.vocabulary.num_texts, True)
    np.testing.assert_array_equal(read.vocabulary.word_weights, model.vocabulary.word_weights)
    np.testing.assert_array_equal(read.vocabulary.subword_counts, model.vocabulary.subword_counts)
    assert (read.sketch.hashes.tolist(), read.sketch.complete) == (model.sketch.hashes.tolist(), True)


def test_a_packed_model_from_before_there_were_hashes_of_training_texts_has_none(folder):
    changed(folder, lambda facts: {name: facts[name] for name in facts if name != "training_texts"})
    changed_arrays(folder, lambda arrays: {name: arrays[name] for name in arrays if name != "training_texts.hashes"})
    assert opened(folder).sketch is None


def test_a_model_of_features_has_no_vocabulary(tmp_path):
    write_packed(packed_features(), tmp_path / "packed")
    read = opened(tmp_path / "packed", verify=True)
    assert (read.vocabulary, read.label_texts, list(read.labels)) == (None, None, NAMES)
    assert not (tmp_path / "packed" / "vocabulary.utf8").exists()


def test_the_version_is_that_of_the_content(folder, tmp_path):
    version = opened(folder).version
    assert len(version) == 12
    write_packed(packed(), tmp_path / "again")
    write_packed(packed(found=3), tmp_path / "other")
    assert opened(tmp_path / "again").version == version != opened(tmp_path / "other").version


def test_an_open_model_is_not_disturbed_by_the_one_that_takes_its_place(folder):
    old = opened(folder)
    write_packed(packed(found=3), folder)
    assert (old.ranker.found, list(old.labels)) == (len(NAMES), NAMES)
    np.testing.assert_array_equal(old.ranker.weights, packed().ranker.weights)
    assert opened(folder).ranker.found == 3


def test_a_full_disk_keeps_the_old_model(folder, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("laconic.packed.folder.write_arrays", full)
    with pytest.raises(UserError, match="packed: the disk is full; nothing was changed there"):
        write_packed(packed(found=3), folder)
    assert opened(folder, verify=True).ranker.found == len(NAMES)


def test_a_folder_that_is_not_a_packed_model_is_not_overwritten(folder, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"it holds '.*', which is not of a packed model and would be lost"):
        write_packed(packed(), tmp_path)
    (folder / "NOTES.md").write_text("do not pack again")
    with pytest.raises(UserError, match=r"it holds 'NOTES\.md', which"):
        write_packed(packed(), folder)
    assert (folder / "NOTES.md").read_text() == "do not pack again"


MODEL = Path(__file__).parents[1] / "models" / "format-1-nearest" / "model"


def test_a_model_and_a_packed_model_are_never_taken_for_one_another(folder):
    assert (is_packed(folder), is_packed(MODEL), is_packed(folder.parent)) == (True, False, False)
    with pytest.raises(UserError, match="would be lost; choose another name"):
        write_packed(packed(), MODEL)
    with pytest.raises(UserError, match="would be lost; choose another name"):
        check_free(folder)
    with pytest.raises(ModelError, match=r"a folder of kind 'packed model' is needed here, but this one is .* 'model'"):
        opened(MODEL)
    with pytest.raises(ModelError, match=r"a folder of kind 'model' is needed here, but this one is .* 'packed model'"):
        read_model(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_or_cut_off_or_changed_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=rf"{name}: .*a hash differs"):
        opened(folder, verify=True)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(ModelError, match=rf"{name}: {len(content) - 1:,} bytes, but the manifest says {len(content)}"):
        opened(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=rf"{name}: .*not there; copy the model again"):
        opened(folder)


def changed(folder, change):
    """Changes packed.json and its entry in the manifest, as somebody would who means it."""
    write(folder, "packed.json", json.dumps(change(json.loads((folder / "packed.json").read_text()))).encode())


def changed_arrays(folder, change):
    arrays = {name: array.copy() for name, array in map_arrays(folder / "arrays.safetensors").items()}
    with replacing_file(folder / "arrays.safetensors") as path:
        write_arrays(path, change(arrays))
    write(folder, "arrays.safetensors", (folder / "arrays.safetensors").read_bytes())


def write(folder, name, content):
    (folder / name).write_bytes(content)
    write_manifest(folder, format=1, kind=PACKED_MODEL)


TAMPERED = {
    "format": ({"format": 99}, "has format 99, but this version reads 1; pack the model again"),
    "facts": ({"sizes": 3}, r"packed\.json: it lacks what a model must say of itself"),
    "labels": ({"sizes": facts(width=1)["sizes"] | {"labels": 3}}, "the labels do not fit together"),
    "inputs": ({"sizes": facts(width=1)["sizes"]}, "the vocabulary does not fit the model's 1 inputs"),
    "kind of inputs": ({"inputs": "dense"}, "the vocabulary does not fit"),
    "no vocabulary": ({"vocabulary": None}, "the vocabulary does not fit"),
    "strange vocabulary": ({"vocabulary": {"num_texts": -1, "sublinear": False}}, "num_texts and sublinear .* needed"),
    "no splitter": ({"text": None}, "how texts are read is not of this version"),
    "strange splitter": ({"text": {"pattern": "("}}, "how texts are read is not of this version"),
    "no ranker": ({"ranker": None}, "a part of a kind that this version does not know"),
    "strange part": ({"ranker": {"kind": "Oracle"}}, "a part of a kind that this version does not know"),
    "part of another version": ({"ranker": {"kind": "Weights"}}, "is of another version"),
    "array that is not there": ({"ranker": {"kind": "Weights", "weights": {"array": "x"}, "found": 3}}, "lacks its"),
    "array that is none": ({"ranker": {"kind": "Weights", "weights": 3, "found": 3}}, "weights must be float32"),
    "strange hashes": ({"training_texts": {"hashes": 1}}, "the hashes of training texts are not the"),
    "part inside itself": (
        {"ranker": {"kind": "Weights", "weights": {"array": "labels.starts"}, "found": [[3]]}},
        "weights must be float32",
    ),
}


@pytest.mark.parametrize(("change", "message"), TAMPERED.values(), ids=TAMPERED)
def test_facts_that_were_tampered_with_are_refused(folder, change, message):
    changed(folder, lambda facts: facts | change)
    with pytest.raises(ModelError, match=message):
        opened(folder)


ARRAYS = {
    "labels.starts": (np.array([0, 3]), "bounds of labels.utf8"),
    "labels.hashes": (np.zeros(2, np.uint64), "names' hashes must be uint64 12"),
    "labels.order": (np.full(12, 12, np.int32), "order of names point outside"),
    "label_texts.starts": (np.array([[0, 3]]), "bounds of label_texts.utf8"),
    "vocabulary.starts": (np.array([0.0, 3.0]), "bounds of vocabulary.utf8"),
    "vocabulary.counts": (np.array([1]), "words' counts must be int64"),
    "vocabulary.subwords": (np.array([-5]), "sub-words' counts point outside"),
    "training_texts.hashes": (np.array([3, 3], np.uint64), "the hashes of training texts are not the .* again"),
    "ranker.weights": (np.full((9, 12), np.nan, np.float32), "weights are not all finite"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_were_tampered_with_or_are_gone_are_refused(folder, name):
    array, message = ARRAYS[name]
    changed_arrays(folder, lambda arrays: arrays | {name: array})
    with pytest.raises(ModelError, match=message):
        opened(folder)
    changed_arrays(folder, lambda arrays: {other: array for other, array in arrays.items() if other != name})
    if name != "label_texts.starts":  # which not every model has
        with pytest.raises(ModelError, match=f"lacks its array '{name}'; pack the model again"):
            opened(folder)


def test_a_part_that_cannot_rank_is_no_model(tmp_path):
    write_packed(packed(), tmp_path / "packed")
    with pytest.raises(ModelError, match="a part that cannot rank, Silent"):
        open_packed(tmp_path / "packed", kinds={"Weights": Silent})


@dataclass(frozen=True, kw_only=True, eq=False)
class Silent(Part):
    weights: np.ndarray
    found: int


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Packed models to spoil. Their names are ASCII: checkers of annotations take a look at them, at random."""
    models = [packed(), packed(VocabularyConfig(subwords=3)), packed_features()]
    paths = [tmp_path_factory.mktemp("packed") / str(number) for number in range(len(models))]
    for model, path in zip(models, paths, strict=True):
        names = [f"label {number}" for number in range(len(NAMES))]
        write_packed(replace(model, labels=names, label_texts=None), path)
    with pytest.MonkeyPatch.context() as patch:  # every array deflated
        patch.setattr(deflated, "_LEAST", 1)
        patch.setattr(deflated, "_MOST_LEFT", 99)
        write_packed(replace(models[0], labels=names, label_texts=None), paths[0].with_name("deflated"))
    return [*paths, paths[0].with_name("deflated")]


@examples(200)
@given(st.data())
def test_hostile_files_give_a_model_error_and_nothing_else(folders, data):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "packed"
        shutil.copytree(data.draw(st.sampled_from(folders)), folder)
        path = folder / data.draw(st.sampled_from(sorted({path.name for path in folder.iterdir()} - {"labels.utf8"})))
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with suppress(ModelError):
            packed_predictor = PackedPredictor(opened(folder))
            if packed_predictor.facts["inputs"] == "text":
                packed_predictor.predict(["a red rose"], 99, block=[])
