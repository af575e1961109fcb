"""A model on planted data at every search width: the metrics are those of `evaluate`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laconic.analysis import bench as benching
from laconic.analysis import latency as timing
from laconic.analysis.bench import FIGURES, Config, bench, packed_folder, search_settings
from laconic.analysis.latency import Timing, Trial, opened, timed
from laconic.data.corpus import pair_matrix
from laconic.data.output import write_folder
from laconic.errors import ConfigError, DataError
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.folder import of_version, open_packed, write_packed
from laconic.predict.load import packed_predictor
from laconic.storage.manifest import PACKED, version_of
from laconic.storage.model_folder import SavedModel, write_model
from laconic.training.run import Run
from tests.planted import planted_texts, planted_vectors
from tests.test_cli import laconic

CORPUS = planted_texts(num_labels=40, num_texts=160)
SMALL = {
    "encoder": "bag",
    "epochs": 15,
    "learning_rate": 0.04,
    "embedding": 16,
    "batch_size": 16,
    "clusters": 16,
    "top": 2,
    "validation": 0.0,
}


class Here:
    """A process of its own that is none, so that a test does not wait for it."""

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, trial: Trial) -> Timing:
        return timed(opened(trial), trial)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benching, "OwnProcess", Here)
    monkeypatch.setattr(timing, "_WARM_UP", 0)
    monkeypatch.setattr(timing, "_LEAST_SECONDS", 1e-4)


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", SMALL), Run.unkept())


@pytest.fixture(scope="module")
def folder(model: SavedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = tmp_path_factory.mktemp("models") / "packed"
    write_packed(pack(model), packed)
    return packed


@pytest.fixture(scope="module")
def ranker(folder: Path) -> PackedRanker:
    found = open_packed(folder).ranker
    assert isinstance(found, PackedRanker)
    return found


def names(ranker: PackedRanker) -> list[str]:
    return [setting.name for setting in search_settings(ranker)]


def test_the_beam_doubles_around_the_models_own_as_far_as_there_are_clusters(ranker: PackedRanker) -> None:
    assert names(ranker) == ["beam 1", "beam 2 (own)", "beam 4", "beam 8", "exact"]
    assert names(ranker.with_beam(8)) == ["beam 1", "beam 2", "beam 4", "beam 8 (own)", "beam 16", "exact"]
    assert [setting.beam for setting in search_settings(ranker)] == [1, 2, 4, 8, None]


def test_the_beam_of_members_and_of_what_is_re_ranked_is_found_too() -> None:
    settings = SMALL | {"epochs": 1, "reranker": {"epochs": 1, "embedding": 8}}
    model = train_model(CORPUS, "inceptionxml+", config_of("inceptionxml+", settings), Run.unkept(), 2)
    ranker = pack(model).ranker
    assert isinstance(ranker, PackedRanker)
    assert names(ranker) == ["beam 1", "beam 2 (own)", "beam 4", "beam 8", "exact"]


def test_a_model_without_a_dial_has_one_place() -> None:
    ranker = pack(train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())).ranker
    assert isinstance(ranker, PackedRanker)
    assert names(ranker) == ["as it is"]


def test_figures_are_counted_at_every_place_without_the_pairs_to_leave_out(folder: Path) -> None:
    split, packed, texts = CORPUS.split("test"), open_packed(folder), CORPUS.split("test").texts or ()
    firsts = [int(first.label[1:]) for (first,) in packed_predictor(packed).predict(texts, 1)]
    left_out = pair_matrix(list(enumerate(firsts)), split.labels.shape)  # the model's own first answers
    corpus = replace(CORPUS, splits={"test": replace(split, leave_out=left_out)})
    points = bench(folder, corpus, "test", Config(singly=1))
    for point in points:
        answers = packed_predictor(packed, point.setting.speed).predict(texts, 6)
        kept = [[int(one.label[1:]) for one in answer] for answer in answers]
        kept = [[label for label in labels if label != first] for labels, first in zip(kept, firsts, strict=True)]
        for k in (1, 5):
            right = [sum(split.labels[row, label] > 0 for label in labels[:k]) for row, labels in enumerate(kept)]
            assert point.figures[f"P@{k}"] == pytest.approx(100 * np.mean(right) / k)
    assert len({point.figures["P@5"] for point in points}) > 1  # what is not opened is not answered


def test_no_more_texts_are_taken_than_was_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Trial] = []
    monkeypatch.setattr(Here, "ask", lambda self, trial: asked.append(trial) or timed(opened(trial), trial))
    places: list[tuple[int, int]] = []
    bench(folder, CORPUS, "test", Config(texts=7, singly=3, k=2), lambda *place: places.append(place))
    assert places == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)]
    assert {(len(trial.texts), trial.singly, trial.k) for trial in asked} == {(7, 3, 2)}
    assert [trial.beam for trial in asked] == [1, None, 4, 8, None]
    assert [trial.exact for trial in asked] == [False, False, False, False, True]


def test_a_model_that_was_not_packed_is_packed_for_the_moment(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    with packed_folder(tmp_path / "model", CORPUS) as folder:
        assert len(open_packed(folder).labels) == 40
    assert not folder.exists()
    write_packed(of_version(pack(model), version_of(tmp_path / "model")), tmp_path / "model" / PACKED)
    for given in (tmp_path / "model", tmp_path / "model" / PACKED):
        with packed_folder(given, CORPUS) as folder:
            assert folder == tmp_path / "model" / PACKED
    assert folder.exists()


def test_features_and_no_texts_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="from raw text: neither the model nor planted may be of features"):
        bench(folder, planted_vectors(), "test", Config())
    empty = replace(CORPUS, splits={"test": CORPUS.split("test").rows(np.zeros(0, dtype=np.int64))})
    with pytest.raises(DataError, match="planted: the split 'test' has no texts"):
        bench(folder, empty, "test", Config())
    with pytest.raises(ConfigError, match="singly must be 1 or more, but is 0"):
        Config(singly=0)


def test_the_verb_shows_a_table_and_writes_figures_and_a_picture(folder: Path, tmp_path: Path) -> None:
    write_folder(CORPUS, tmp_path / "data")
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    shown = laconic(
        *("bench", folder, tmp_path / "data", "--texts", 10, "--singly", 2, "--json", figures, "--picture", picture)
    )
    assert "test: 10 texts" in " ".join(shown.split())
    assert all(name in shown for name in ("p99, ms", "texts/s", "memory", "nDCG@5", "beam 2 (own)", "exact"))
    written = json.loads(figures.read_text())
    assert [place["beam"] for place in written["places"]] == [1, 2, 4, 8, None]
    assert set(FIGURES) | {"p50", "p99", "texts_a_second", "private"} <= written["places"][0].keys()
    assert picture.read_bytes().startswith(b"\x89PNG")
