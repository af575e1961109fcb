"""Training texts that are kept: the nearest of a label are found, and nothing is kept that nobody chose to keep."""

import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split, pair_matrix
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig, bags
from laconic.errors import DataError, ModelError
from laconic.export.pack import pack, with_texts
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed import kept_texts as module
from laconic.packed.folder import open_packed, write_packed
from laconic.packed.kept_texts import FILE, KeptTexts
from laconic.packed.tokenizer import Reader
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Prediction
from laconic.training.run import Run
from laconic.types import NO_LABEL
from laconic.update.model import remove_labels
from tests.planted import bags_in_full, planted_texts, planted_vectors
from tests.predict.test_packed import changed_arrays, opened
from tests.predict.tiny import NAMES, packed, packed_features
from tests.variants import examples

FLOWER, WATER, RED, SIZE = range(4)  # of NAMES
LABELLED = {
    "red rose in a garden": [FLOWER, RED],
    "white rose": [FLOWER],
    "ein Größenvergleich: 日本 🌹 rose": [FLOWER, SIZE],
    "blue sea": [WATER],
    "deep blue ocean": [WATER],
    "red sea red": [WATER, RED],
    "garden without a label": [],
}


def kept_of(model, labelled=None):
    labelled = list(LABELLED.items()) if labelled is None else labelled
    texts = [text for text, _ in labelled]
    pairs = [(row, label) for row, (_, labels) in enumerate(labelled) for label in labels]
    words = bags(Tokenizer(model.splitter, model.vocabulary).rows(texts))
    return KeptTexts.of(texts, words, csr_array(pair_matrix(pairs, (len(texts), len(NAMES)))))


def nearest(model, text, *labels, count=3):
    found = model.kept_texts.nearest(Reader(model.splitter, model.vocabulary).read([text]), np.array(labels), count)
    return [[near.text for near in own] for own in found]


@pytest.fixture(params=["words", "sub-words"])
def keeping(request):
    config = VocabularyConfig(sublinear=True, subwords=64 if request.param == "sub-words" else 0)
    model = packed(config, Splitter(stop_words=False))
    return replace(model, kept_texts=kept_of(model))


def test_the_nearest_texts_of_each_label_come_first(keeping):
    assert nearest(keeping, "a red rose", FLOWER, RED, count=1) == [["red rose in a garden"]] * 2
    assert nearest(keeping, "the deep ocean", WATER, count=1) == [["deep blue ocean"]]
    assert nearest(keeping, "white rose", FLOWER)[0][0] == "white rose"


def test_a_text_is_as_near_as_its_cosine_says(keeping):
    reader = Reader(keeping.splitter, keeping.vocabulary)
    every = bags_in_full(Tokenizer(keeping.splitter, keeping.vocabulary).rows(LABELLED), keeping.vocabulary.num_ids)
    for text in [*LABELLED, "red garden ocean", "unheard-of", ""]:
        own = reader.read([text])
        full = np.bincount(own.ids, own.weights, minlength=keeping.vocabulary.num_ids)
        cosines = dict(zip(LABELLED, every @ full, strict=True))
        found = keeping.kept_texts.nearest(own, np.arange(len(NAMES)), 2)
        for label, near in enumerate(found):
            wanted = [other for other in LABELLED if label in LABELLED[other] and cosines[other] > 0]
            wanted.sort(key=lambda other: -round(float(cosines[other]), 5))
            assert [one.text for one in near] == wanted[:2]
            assert [one.similarity for one in near] == pytest.approx([cosines[other] for other in wanted[:2]], abs=1e-5)


def test_a_text_is_the_nearest_to_itself_and_no_nearer_than_1(keeping):
    for text in keeping.kept_texts.texts:
        own = Reader(keeping.splitter, keeping.vocabulary).read([text])
        ((best, *_),) = keeping.kept_texts.nearest(own, np.array(LABELLED[text][:1]), 3)
        assert best == (text, 1.0)


def test_texts_that_share_nothing_and_labels_that_are_unknown_have_none():
    model = packed()
    model = replace(model, kept_texts=kept_of(model))
    assert nearest(model, "xyzzy", FLOWER, NO_LABEL) == [[], []]
    assert nearest(model, "deep ocean", FLOWER, WATER, NO_LABEL, len(NAMES) - 1) == [[], ["deep blue ocean"], [], []]


def test_a_text_that_stands_twice_is_kept_once_with_the_labels_of_both():
    model = packed()
    kept = kept_of(model, [("white rose", [FLOWER]), ("blue sea", []), ("white rose", [RED]), ("white rose", [RED])])
    assert list(kept.texts) == ["white rose"]
    assert nearest(replace(model, kept_texts=kept), "rose", FLOWER, RED) == [["white rose"]] * 2


def test_of_a_label_with_many_texts_some_are_kept_and_of_others_all(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 5)
    model = packed()
    many = [(f"red rose {number}", [RED]) for number in range(40)]
    few = [(f"blue sea {number}", [WATER]) for number in range(4)]
    kept, again = (kept_of(model, [*many, *few]) for _ in range(2))
    counts = np.diff(kept.starts)
    assert (counts[RED], counts[WATER], len(kept.texts)) == (5, 4, 9)
    assert list(kept.texts) == list(again.texts)
    assert set(kept.texts) < {text for text, _ in [*many, *few]}
    assert set(kept.texts) != {text for text, _ in [*many[:5], *few]}  # not the first ones, which may be of one kind
    for label, texts in ((RED, many), (WATER, few)):
        own = kept.numbers[kept.starts[label] : kept.starts[label + 1]]
        assert {kept.texts[text] for text in own} <= {text for text, _ in texts}


def test_what_was_kept_is_opened(keeping, tmp_path):
    write_packed(keeping, tmp_path / "packed")
    read = opened(tmp_path / "packed", verify=True)
    with_labels = [text for text, labels in LABELLED.items() if labels]
    assert list(read.kept_texts.texts) == list(keeping.kept_texts.texts) == with_labels
    for text in LABELLED:
        assert nearest(read, text, *range(len(NAMES))) == nearest(keeping, text, *range(len(NAMES)))
    write_packed(read, tmp_path / "again")  # as who loads a model and saves it does
    assert (tmp_path / "again" / FILE).read_bytes() == (tmp_path / "packed" / FILE).read_bytes()
    assert opened(tmp_path / "again").version == read.version


def test_nothing_is_kept_by_default(tmp_path):
    write_packed(packed(), tmp_path / "packed")
    assert not (tmp_path / "packed" / FILE).exists()
    read = opened(tmp_path / "packed")
    assert (read.kept_texts, read.num_kept) == (None, 0)
    packed_predictor = PackedPredictor(read)
    assert [
        one.texts for one in packed_predictor.explained("white rose", packed_predictor.predict(["white rose"])[0])
    ] == [[]] * 5


TAMPERED = {
    "texts.starts": (np.array([0, 3]), "bounds of texts.utf8"),
    "texts.words.starts": (np.array([0, 0]), "bounds of "),
    "texts.words.numbers": (lambda array: array + 10_000, "words of kept texts point outside"),
    "texts.words.values": (lambda array: array * np.float32(np.nan), "values of lists are not all finite"),
    "texts.labels.starts": (lambda array: array[::-1].copy(), "bounds of labels' texts are not bounds"),
    "texts.labels.numbers": (lambda array: array + 1, "texts of labels point outside"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_arrays_that_were_tampered_with_or_are_gone_are_refused(name, tmp_path):
    write_packed(replace(packed(), kept_texts=kept_of(packed())), tmp_path / "packed")
    new, message = TAMPERED[name]
    changed_arrays(tmp_path / "packed", lambda arrays: arrays | {name: new(arrays[name]) if callable(new) else new})
    with pytest.raises(ModelError, match=message):
        opened(tmp_path / "packed")
    changed_arrays(tmp_path / "packed", lambda arrays: {key: array for key, array in arrays.items() if key != name})
    if name == "texts.starts":  # without which there are no texts
        assert opened(tmp_path / "packed").kept_texts is None
    else:
        with pytest.raises(ModelError, match=f"lacks its array '{name}'; pack the model again"):
            opened(tmp_path / "packed")


NEGATIVE = ["texts.words.numbers", "texts.labels.numbers"]


@pytest.mark.parametrize("name", NEGATIVE)
def test_numbers_before_the_first_are_refused(name, tmp_path):
    write_packed(replace(packed(), kept_texts=kept_of(packed())), tmp_path / "packed")
    changed_arrays(tmp_path / "packed", lambda arrays: arrays | {name: arrays[name] * 0 - 1})
    with pytest.raises(ModelError, match="point outside of 0 to"):
        opened(tmp_path / "packed")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A packed model to spoil. Its texts are ASCII: checkers of annotations take a look at them, at random."""
    folder = tmp_path_factory.mktemp("packed") / "packed"
    names = [f"label {number}" for number in range(len(NAMES))]
    kept = kept_of(packed(), [(text, labels) for text, labels in LABELLED.items() if text.isascii()])
    write_packed(replace(packed(), labels=names, label_texts=None, kept_texts=kept), folder)
    return folder


@examples(100)
@given(st.data())
def test_hostile_arrays_give_a_model_error_and_nothing_else(plain, data):
    def spoil(arrays):
        array = arrays[data.draw(st.sampled_from([name for name in arrays if name.startswith("texts.")]))]
        for _ in range(data.draw(st.integers(1, 4))):
            at, byte = data.draw(st.integers(0, array.nbytes - 1)), data.draw(st.integers(0, 255))
            array.view(np.uint8)[at] = byte
        return arrays

    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(plain, Path(temporary) / "packed")
        changed_arrays(Path(temporary) / "packed", spoil)
        with suppress(ModelError):
            packed_predictor = PackedPredictor(opened(Path(temporary) / "packed"))
            told = packed_predictor.explained("a red rose", packed_predictor.predict(["a red rose"], 99)[0])
            assert all(0 <= near.similarity <= 1 for one in told for near in one.texts)


def test_texts_of_other_labels_than_the_models_are_refused(tmp_path):
    write_packed(replace(packed(), kept_texts=kept_of(packed())), tmp_path / "packed")
    shorter = {"texts.labels.starts": np.array([0, 0]), "texts.labels.numbers": np.zeros(0, np.int32)}
    changed_arrays(tmp_path / "packed", lambda arrays: arrays | shorter)
    with pytest.raises(ModelError, match="the labels do not fit together"):
        opened(tmp_path / "packed")


def test_a_file_of_texts_that_is_missing_is_named(tmp_path):
    write_packed(replace(packed(), kept_texts=kept_of(packed())), tmp_path / "packed")
    (tmp_path / "packed" / FILE).unlink()
    with pytest.raises(ModelError, match=f"{FILE}: .* it is not there; copy the model again"):
        opened(tmp_path / "packed")


CORPUS = planted_texts()
TRAIN = CORPUS.split("train")


@pytest.fixture(scope="module")
def model():
    return train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())


def texts_by_label(packed_model):
    kept = packed_model.kept_texts
    return {
        name: {kept.texts[text] for text in kept.numbers[kept.starts[label] : kept.starts[label + 1]]}
        for label, name in enumerate(packed_model.labels)
    }


def labelled(corpus):
    split = corpus.split("train")
    return {
        name: {split.texts[row] for row in split.labels[:, [label]].nonzero()[0]}
        for label, name in enumerate(corpus.labels.names)
    }


def test_every_label_keeps_its_training_texts_and_no_others(model):
    assert texts_by_label(with_texts(pack(model), CORPUS)) == labelled(CORPUS)


def test_an_answer_is_explained_by_texts_that_have_its_label(model, tmp_path):
    write_packed(with_texts(pack(model, CORPUS), CORPUS), tmp_path / "packed")
    packed_predictor, truth = PackedPredictor(open_packed(tmp_path / "packed")), labelled(CORPUS)
    for text in TRAIN.texts[:20]:
        for label, _, _, near in packed_predictor.explained(text, packed_predictor.predict([text], 4)[0]):
            assert {one.text for one in near} <= truth[label]
            assert [one.similarity for one in near] == sorted((one.similarity for one in near), reverse=True)
            assert len(near) <= 3
            assert text not in truth[label] or near[0].similarity == 1
    assert packed_predictor.explained(TRAIN.texts[0], [Prediction("no such label", 0.5)])[0].texts == []
    assert packed_predictor.explained(TRAIN.texts[0], []) == []


def test_labels_are_known_by_their_names(model):
    order = np.array([3, 1, 0, 2, *range(4, 12)])
    names = [CORPUS.labels.names[label] for label in order]
    names[-1] = "of another model"
    moved = replace(TRAIN, labels=csr_array(TRAIN.labels[:, order]))
    other = Corpus(splits={"all": moved}, labels=Labels(names=names), source="planted")
    found = texts_by_label(with_texts(pack(model), other))
    assert found == labelled(CORPUS) | {CORPUS.labels.names[order[-1]]: set()}


def test_a_pair_that_is_left_out_keeps_nothing(model):
    row = int(TRAIN.labels[:, [0]].nonzero()[0][0])
    text = TRAIN.texts[row]
    assert list(TRAIN.texts).count(text) == 1
    split = replace(TRAIN, leave_out=pair_matrix([(row, 0)], TRAIN.labels.shape))
    found = texts_by_label(with_texts(pack(model), replace(CORPUS, splits={"train": split})))
    assert found == labelled(CORPUS) | {"L0": labelled(CORPUS)["L0"] - {text}}


def test_a_label_that_was_removed_leaves_no_text_behind(model):
    fewer = with_texts(pack(remove_labels(model, ["L0"])), CORPUS)
    wanted = {name: texts for name, texts in labelled(CORPUS).items() if name != "L0"}
    assert texts_by_label(fewer) == wanted
    assert set(fewer.kept_texts.texts) == set().union(*wanted.values()) != set(TRAIN.texts)


def test_data_that_has_nothing_to_keep_is_refused(model):
    test_only = replace(CORPUS, splits={"test": CORPUS.split("test")})
    strange = replace(CORPUS, labels=Labels(names=[f"other {name}" for name in CORPUS.labels.names]))
    for corpus, message in (
        (test_only, "planted: it has no training texts to keep"),
        (planted_vectors(), "planted: it has no training texts to keep"),
        (strange, "none of its training texts has a label of the model"),
    ):
        with pytest.raises(DataError, match=message):
            with_texts(pack(model), corpus)
    both = Split(labels=TRAIN.labels, texts=TRAIN.texts, features=np.zeros((len(TRAIN), 4), np.float32))
    with pytest.raises(DataError, match="reads features, not texts, so it has no texts to keep"):
        with_texts(packed_features(), replace(CORPUS, splits={"train": both}))
