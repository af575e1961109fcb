import errno
import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.corpus import Labels
from laconic.data.sketch import TextSketch
from laconic.data.vocabulary import Vocabulary
from laconic.errors import ModelError, UserError
from laconic.storage.manifest import write_manifest
from laconic.storage.model_folder import SavedModel, _lines, _write_lines, read_model, read_trained_on, write_model
from laconic.storage.tensors import Storage
from tests.variants import examples

FACTS = {
    "laconic": "0",
    "method": "nearest",
    "inputs": "text",
    "config": {"neighbours": 3},
    "sizes": {"labels": 2, "texts": 4, "pairs": 5, "inputs": 4},
    "propensity": {"a": 0.55, "b": 1.5},
    "data": {"name": "planted"},
    "created": "today",
}


def model(names=("red", "two\nlines \\n")):
    return SavedModel(
        facts=FACTS,
        tensors={"rows": torch.arange(6).reshape(2, 3), "part.bias": torch.ones(2)},
        labels=Labels(names=list(names), texts=["a colour", ""]),
        label_counts=np.array([3, 2]),
        vocabulary=Vocabulary(words=["red", "c++"], text_counts=np.array([4, 1]), num_texts=4, sublinear=True),
        sketch=TextSketch.of(np.array([2**63 + 5, 7, 7], dtype=np.uint64)),
    )


@pytest.fixture
def folder(tmp_path):
    write_model(model(), tmp_path / "model")
    return tmp_path / "model"


def test_a_model_whose_writer_was_killed_between_two_renames_is_read_and_replaced(folder):
    aside = folder.with_name(".model.set-aside")
    for use in (lambda: read_model(folder, verify=True), lambda: write_model(model(("a", "b")), folder)):
        folder.rename(aside)
        use()
        assert len(read_model(folder, verify=True).labels) == 2
        assert not aside.exists()


def test_what_was_written_is_read_back(folder):
    read = read_model(folder, verify=True)
    assert {name: read.facts[name] for name in FACTS} == FACTS
    assert read.labels == model().labels
    assert read.label_counts.tolist() == [3, 2]
    assert set(read.tensors) == {"rows", "part.bias"}
    assert torch.equal(read.tensors["rows"], model().tensors["rows"])
    assert list(read.vocabulary.words) == ["red", "c++"]
    assert read.vocabulary.text_counts.tolist() == [4, 1]
    assert (read.vocabulary.num_texts, read.vocabulary.sublinear) == (4, True)
    assert (read.sketch.hashes.tolist(), read.sketch.complete) == ([7, 2**63 + 5], True)


def with_subwords(counts=(0, 4, 2)):
    vocabulary = replace(model().vocabulary, subword_counts=np.array(counts, dtype=np.int64))
    return replace(model(), vocabulary=vocabulary)


def test_the_counts_of_sub_words_are_read_back_and_are_none_of_the_ranker_s_tensors(tmp_path):
    write_model(with_subwords(), tmp_path / "model")
    read = read_model(tmp_path / "model", verify=True)
    assert read.vocabulary.subword_counts.tolist() == [0, 4, 2]
    assert read.vocabulary.num_ids == model().vocabulary.num_ids + 3
    assert set(read.tensors) == {"rows", "part.bias"}


def test_a_model_from_before_there_were_sub_words_has_none(folder):
    change(folder, "model.json", lambda facts: facts | {"vocabulary": {"num_texts": 4, "sublinear": True}})
    assert len(read_model(folder).vocabulary.subword_counts) == 0


@pytest.mark.parametrize("announced", [0, 2, 4, -3, "3", None, [3]])
def test_sub_words_that_are_not_as_many_as_announced_are_refused(tmp_path, announced):
    write_model(with_subwords(), tmp_path / "model")
    change(
        tmp_path / "model",
        "model.json",
        lambda facts: facts | {"vocabulary": facts["vocabulary"] | {"subwords": announced}},
    )
    with pytest.raises(ModelError, match=r"model\.safetensors: subword_counts must be .* copy the model again"):
        read_model(tmp_path / "model")


@pytest.mark.parametrize("counts", [(0, -1, 2), (0, 5, 2)])
def test_a_sub_word_that_stands_in_more_texts_than_there_are_or_in_fewer_than_none_is_refused(tmp_path, counts):
    write_model(with_subwords(counts), tmp_path / "model")
    with pytest.raises(ModelError, match="subword_counts must be 3 integers from 0 to 4, but is not"):
        read_model(tmp_path / "model")


def large():
    """A model whose rows do not fit into a file of 1,000 bytes."""
    return replace(model(), tensors={"rows": torch.arange(900.0).reshape(300, 3), "part.bias": torch.ones(2)})


def test_a_model_in_several_files_is_the_same_model(tmp_path):
    write_model(large(), tmp_path / "model", storage=Storage(shard_size=1000))
    files = sorted(path.name for path in (tmp_path / "model").glob("model*.safetensors"))
    assert files == [f"model-{number:05}-of-{len(files):05}.safetensors" for number in range(1, len(files) + 1)]
    assert len(files) > 3
    read = read_model(tmp_path / "model", verify=True)
    assert {name: tensor.tolist() for name, tensor in read.tensors.items()} == {
        name: tensor.tolist() for name, tensor in large().tensors.items()
    }
    assert read.label_counts.tolist() == [3, 2]


def test_every_one_of_several_files_is_checked(tmp_path):
    write_model(large(), tmp_path / "model", storage=Storage(shard_size=1000))
    path = sorted((tmp_path / "model").glob("*.safetensors"))[1]
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"{path.name}: .*a hash differs"):
        read_model(tmp_path / "model", verify=True)
    path.unlink()
    with pytest.raises(ModelError, match=rf"{path.name}: .*not there; copy the model again"):
        read_model(tmp_path / "model")


def test_a_model_that_is_written_again_is_stored_as_it_was(tmp_path):
    write_model(large(), tmp_path / "model", storage=Storage(shard_size=1000, half=True))
    first = {path.name for path in (tmp_path / "model").iterdir()}
    write_model(read_model(tmp_path / "model"), tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == first
    assert read_model(tmp_path / "model").facts["storage"]["half"]
    write_model(read_model(tmp_path / "model"), tmp_path / "model", storage=Storage())
    assert [path.name for path in (tmp_path / "model").glob("model*.safetensors")] == ["model.safetensors"]


def test_a_model_from_before_there_were_several_files_has_one(folder):
    change(folder, "model.json", lambda facts: {name: value for name, value in facts.items() if name != "storage"})
    assert set(read_model(folder).tensors) == {"rows", "part.bias"}


def test_every_file_may_be_read_by_those_who_may_read_the_others(folder):
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert len(modes) == 1


def test_a_model_takes_the_place_of_a_model(folder):
    write_model(model(names=("blue", "green")), folder)
    assert read_model(folder).labels.names == ["blue", "green"]


def test_a_folder_that_is_not_a_model_is_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"it holds 'thesis.tex', which .* would be lost; choose another name"):
        write_model(model(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("manifest", ['{"name": "an extension", "manifest_version": 3}', "[]", "not JSON"])
def test_somebody_elses_manifest_makes_no_model_folder(tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(UserError, match="choose another name"):
        write_model(model(), tmp_path)
    assert (tmp_path / "manifest.json").read_text() == manifest


def test_notes_that_somebody_left_in_a_model_folder_are_not_lost(folder):
    (folder / "NOTES.md").write_text("do not retrain")
    with pytest.raises(UserError, match=r"it holds 'NOTES\.md'"):
        write_model(model(), folder)
    assert (folder / "NOTES.md").read_text() == "do not retrain"


def test_a_model_behind_a_link_is_replaced_there(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    write_model(model(names=("blue", "green")), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read_model(folder).labels.names == ["blue", "green"]
    assert {path.name for path in tmp_path.iterdir()} == {"model", "link"}


def test_a_full_disk_is_an_error_for_people_and_keeps_the_old_model(folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("laconic.storage.tensors._bytes_of", full)
    with pytest.raises(UserError, match="model: the disk is full; nothing was changed there"):
        write_model(model(names=("blue", "green")), folder)
    assert read_model(folder, verify=True).labels == model().labels


@pytest.mark.parametrize(
    "spoil",
    [
        lambda facts: {name: value for name, value in facts.items() if name != "created"},
        lambda facts: facts | {"sizes": 3},
        lambda facts: facts | {"method": ["x"]},
        lambda facts: facts | {"propensity": {"a": "x", "b": 1.5}},
    ],
)
def test_facts_that_nobody_could_use_are_refused(folder, spoil):
    change(folder, "model.json", spoil)
    with pytest.raises(ModelError, match=r"model\.json: it lacks what a model must say of itself"):
        read_model(folder)


def test_a_count_that_no_computer_holds_is_refused(folder):
    change_text(folder, "vocabulary.txt", "red\t" + "9" * 30 + "\nc++\t1\n")
    with pytest.raises(ModelError, match=r"vocabulary\.txt:1"):
        read_model(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "labels.txt", "vocabulary.txt", "label_texts.txt"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=rf"{name}: .*not there; copy the model again"):
        read_model(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "labels.txt", "vocabulary.txt", "README.md"])
def test_a_truncated_file_is_named_with_both_sizes(folder, name):
    size = (folder / name).stat().st_size
    os.truncate(folder / name, size - 1)
    with pytest.raises(ModelError, match=rf"{name}: {size - 1} bytes, but the manifest says {size}"):
        read_model(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "labels.txt", "vocabulary.txt"])
def test_a_flipped_bit_is_found_by_verifying(folder, name):
    data = bytearray((folder / name).read_bytes())
    data[-2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ModelError, match=rf"{name}: .*a hash differs"):
        read_model(folder, verify=True)


def test_a_model_of_another_version_is_refused(folder):
    change(folder, "model.json", lambda facts: facts | {"format": 99})
    with pytest.raises(ModelError, match=r"the model has format 99, but this version reads 1"):
        read_model(folder)


@pytest.mark.parametrize(
    "told", [3, {"hashes": 3, "complete": True}, {"hashes": 2}, {"hashes": 2, "complete": 1}, {"hashes": "2"}]
)
def test_hashes_of_training_texts_that_are_not_as_announced_are_refused(folder, told):
    change(folder, "model.json", lambda facts: facts | {"training_texts": told})
    with pytest.raises(ModelError, match=r"training_texts\.safetensors: these are not the .*copy the model again"):
        read_model(folder)


def test_a_model_from_before_there_were_hashes_of_training_texts_has_none(folder):
    change(folder, "model.json", lambda facts: {name: facts[name] for name in facts if name != "training_texts"})
    assert read_model(folder).sketch is None
    assert read_trained_on(folder).sketch is None


def test_what_a_model_tells_of_its_training_texts_is_read_alone(folder):
    assert read_trained_on(folder).sketch.hashes.tolist() == [7, 2**63 + 5]


def test_labels_that_do_not_fit_together_are_refused(folder):
    change_text(folder, "labels.txt", "red\nred\n")
    with pytest.raises(ModelError, match="do not fit together"):
        read_model(folder)


def test_a_folder_that_is_no_model_says_so(tmp_path):
    with pytest.raises(ModelError, match="no such model folder"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"not a model folder: it has no manifest\.json"):
        read_model(tmp_path)


@examples(200)
@given(st.data())
def test_hostile_files_give_a_model_error_and_nothing_else(data):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        write_model(data.draw(st.sampled_from([model(), with_subwords()])), folder)
        path = folder / data.draw(
            st.sampled_from(
                ["manifest.json", "model.json", "model.safetensors", "vocabulary.txt", "training_texts.safetensors"]
            )
        )
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with suppress(ModelError):
            read_model(folder)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_name_survives_a_file_of_lines(names):
    with tempfile.TemporaryDirectory() as temporary:
        _write_lines(Path(temporary) / "names", names)
        assert _lines(Path(temporary) / "names") == names


def change(folder, name, function):
    change_text(folder, name, json.dumps(function(json.loads((folder / name).read_text()))))


def change_text(folder, name, text):
    """Changes a file and its entry in the manifest, as somebody would who means it."""
    (folder / name).write_text(text)
    write_manifest(folder, format=1)
