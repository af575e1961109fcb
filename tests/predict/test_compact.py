"""Compact arrays are equal to the plain ones in every bit, take fewer bytes, and are refused where they are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed import folder as packed_folder
from laconic.packed.arrays import map_arrays
from laconic.packed.compact import compacted, expanded
from laconic.packed.engine.parts import flattened
from laconic.packed.folder import open_packed, write_packed
from laconic.predict.load import packed_predictor
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.test_rankers import SETTINGS

CHANCE = np.random.default_rng(5)
SIZES = CHANCE.integers(0, 40, 500)
ARRAYS = {
    "bounds in eight bytes": np.cumsum(SIZES),
    "bounds in four bytes": np.cumsum(SIZES).astype(np.int32),
    "a long range": np.cumsum(np.where(np.arange(500) == 77, 70_000, SIZES)).astype(np.int32),
    "a range of 254, of 255 and of 256": np.cumsum(np.tile([254, 255, 256], 100)),
    "bounds that begin anew": (np.cumsum(SIZES) % 100).astype(np.uint16),
    "numbers below zero": np.concatenate([np.cumsum(SIZES) - 10**12, [-1, 0, np.iinfo(np.int64).max]]),
    "smallest and largest": np.tile(np.array([-(2**31), 2**31 - 1], dtype=np.int32), 3),
    "an order": CHANCE.permutation(5000).astype(np.int32),
    "no numbers": np.zeros(0, dtype=np.int64),
    "few numbers": np.arange(9),
    "all the same": np.zeros(300, dtype=np.int64),
    "not aligned": np.cumsum(np.repeat(SIZES, 2))[::2],
}
FLOATS = {
    "zeros": np.zeros(1000, dtype=np.float32),
    "zeros below zero": np.full(1000, -0.0, dtype=np.float32),
    "no numbers": np.full(1000, np.nan, dtype=np.float32),
    "one that is not zero": np.eye(1, 1000, 999, dtype=np.float32)[0],
    "zeros in eight bytes": np.zeros(1000),
    "rows of zeros": np.zeros((100, 100), dtype=np.float32),
}


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("name", ARRAYS)
def test_integers_come_back_bit_by_bit(name: str) -> None:
    written = compacted({"part.starts": ARRAYS[name], "other": np.arange(3)})
    found = expanded(written)
    assert same(found["part.starts"], ARRAYS[name])
    assert same(found["other"], np.arange(3))


def test_nodes_of_label_trees_are_written_as_steps_unless_processes_had_better_share_them() -> None:
    nodes = (np.arange(3000) % 700).astype(np.uint16)
    names = [name.partition(":deflated:")[0] for name in compacted({"trees.nodes": nodes})]
    assert names == ["trees.nodes:steps:U16", "trees.nodes:long:U16"]
    assert same(expanded(compacted({"trees.nodes": nodes}))["trees.nodes"], nodes)
    many = np.tile(nodes, 1500)
    assert list(compacted({"trees.nodes": many})) == ["trees.nodes"]
    assert list(compacted({"trees.starts": many})) != ["trees.starts"]


@pytest.mark.parametrize("name", FLOATS)
def test_floats_come_back_bit_by_bit(name: str) -> None:
    room = np.zeros(5000, dtype=np.int8)  # such as rows have
    assert same(expanded(compacted({"biases": FLOATS[name], "rows": room}))["biases"], FLOATS[name])


@pytest.mark.parametrize("name", ["bounds in four bytes", "a long range", "bounds that begin anew"])
def test_steps_mean_what_they_say(name: str) -> None:
    """The reference implementation adds up one number after another."""
    array = ARRAYS[name]
    steps, long = compacted({"a.starts": array}).values()
    longer, total, found = iter(long.tolist()), 0, []
    for step in steps.tolist():
        total = (total + (next(longer) if step == 255 else step)) % 2 ** (8 * array.itemsize)
        found.append(total)
    assert found == array.tolist()


@pytest.mark.parametrize(
    ("name", "array", "most"),
    [
        ("a.starts", ARRAYS["bounds in eight bytes"], 1 / 8),
        ("a.starts", ARRAYS["bounds in four bytes"], 1 / 4),
        ("a.weight_starts", ARRAYS["bounds that begin anew"], 0.99),
        ("a.biases", FLOATS["zeros"], 0.01),
    ],
)
def test_compact_arrays_take_fewer_bytes(name: str, array: np.ndarray, most: float) -> None:
    assert sum(part.nbytes for part in compacted({name: array}).values()) <= most * array.nbytes


def test_what_would_take_more_and_what_is_large_stay_as_they_are() -> None:
    chance = np.random.default_rng(0)
    arrays = {"a.weights": np.zeros(900, dtype=np.int8), "a.rows": chance.integers(256, size=(90, 90), dtype=np.uint8)}
    arrays["a.order"] = chance.integers(1 << 60, size=500)
    arrays["few.starts"] = np.arange(9)
    jumps = np.cumsum(chance.integers(256, 1 << 16, size=900)).astype(np.uint16)
    assert compacted({**arrays, "b.starts": jumps}).keys() == {*arrays, "b.starts"}


def test_arrays_of_earlier_versions_are_read_as_they_are() -> None:
    for name, array in ARRAYS.items():
        assert expanded({name: array})[name] is array


STEPS = np.array([3, 255, 1], dtype=np.uint8)
LONG = np.array([700], dtype=np.uint32)


@pytest.mark.parametrize(
    "arrays",
    [
        {"a:steps:I32": STEPS},
        {"a:steps:I32": STEPS, "a:long:I64": LONG.astype(np.uint64)},
        {"a:steps:I32": STEPS, "a:long:I32": LONG.astype(np.int32)},
        {"a:steps:I32": STEPS, "a:long:I32": LONG[:0]},
        {"a:steps:I32": STEPS, "a:long:I32": np.tile(LONG, 2)},
        {"a:steps:I32": STEPS.astype(np.int64), "a:long:I32": LONG},
        {"a:steps:I32": STEPS[None], "a:long:I32": LONG},
        {"a:steps:F32": STEPS, "a:long:F32": LONG},
        {"a:steps:I99": STEPS, "a:long:I99": LONG},
        {"a:steps": STEPS, "a:long": LONG},
        {"a:zeros:F32": np.array([1 << 40])},
        {"a:zeros:F32": np.array([-1])},
        {"a:zeros:F32": np.array([1, 1])},
        {"a:zeros:F32": np.array([1], dtype=np.int32)},
        {"a:zeros:I64": np.array([1])},
        {"a:zeros:F32": np.array([20]), "b:zeros:F32": np.array([20])},
        {"a:riddle:F32": STEPS},
    ],
)
def test_damaged_arrays_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(ModelError, match="pack the model again"):
        expanded(arrays)


@pytest.mark.parametrize("method", ["trees", "astec"])
def test_a_packed_model_is_smaller_and_the_same(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = planted_texts(num_labels=100, with_label_texts=True)
    config = config_of(method, SETTINGS.get(method, {}))
    packed = pack(train_model(corpus, method, config, Run.unkept()), corpus, "cpu")
    write_packed(packed, tmp_path / "compact")
    monkeypatch.setattr(packed_folder, "compacted", lambda arrays: arrays)  # as earlier versions wrote it
    write_packed(packed, tmp_path / "plain")
    sizes = [(tmp_path / name / "arrays.safetensors").stat().st_size for name in ("compact", "plain")]
    assert sizes[0] < sizes[1]
    assert {name.partition(":")[0] for name in map_arrays(tmp_path / "compact" / "arrays.safetensors")} == {
        *map_arrays(tmp_path / "plain" / "arrays.safetensors")
    }
    models = [open_packed(tmp_path / name) for name in ("compact", "plain")]
    (structure, arrays), (other_structure, others) = (flattened(model.ranker) for model in models)
    assert structure == other_structure
    assert all(same(arrays[name], others[name]) for name in others)
    texts = list(corpus.split("test").texts or ())
    (labels, scores, _), found = (packed_predictor(model).rank_texts(texts, 5) for model in models)
    assert same(labels, found[0])
    assert same(scores, found[1])
