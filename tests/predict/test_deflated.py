"""Deflated arrays are equal to the plain ones in every bit, and a hostile file gives an error instead of gigabytes."""

from __future__ import annotations

import pickle
import tracemalloc
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed import deflated as deflating
from laconic.packed import folder as packed_folder
from laconic.packed.arrays import map_arrays, write_arrays
from laconic.packed.compact import compacted, expanded
from laconic.packed.deflated import SMALL, deflated, inflated
from laconic.packed.engine.parts import flattened
from laconic.packed.folder import open_packed, write_packed
from tests.predict.test_compact import same
from tests.predict.tiny import KINDS, NAMES, packed

CHANCE = np.random.default_rng(7)
ROWS = CHANCE.integers(256, size=50_000, dtype=np.uint8)  # which do not shrink
ARRAYS = {
    "few values": CHANCE.integers(5, size=4000).astype(np.int32),
    "a table": CHANCE.integers(9, size=(300, 10)).astype(np.float16),
    "a cube": CHANCE.integers(9, size=(10, 20, 30)),
    "not numbers": np.where(CHANCE.random(3000) < 0.5, np.nan, -0.0).astype(np.float32),
    "letters": np.frombuffer(b"a red rose, a blue sea, " * 400, dtype=np.uint8),
    "not aligned": np.repeat(np.arange(2000, dtype=np.uint16) % 50, 2)[::2],
    "columns": np.asfortranarray(CHANCE.integers(9, size=(200, 10)).astype(np.int16)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_bit_by_bit_and_take_fewer_bytes(name: str, tmp_path: Path) -> None:
    arrays = {"part.numbers": ARRAYS[name], "rows": ROWS}
    written = deflated(arrays)
    write_arrays(tmp_path / "arrays", written)
    found = inflated(map_arrays(tmp_path / "arrays"))
    assert written.keys() != found.keys() == arrays.keys()
    assert all(same(found[name], array) for name, array in arrays.items())
    assert sum(array.nbytes for array in written.values()) < 0.8 * ARRAYS[name].nbytes + ROWS.nbytes


def test_names_say_kind_and_shape() -> None:
    written = deflated({"part.scales": ARRAYS["a table"], "rows": ROWS})
    assert list(written) == ["part.scales:deflated:F16:300x10", "rows"]


def test_steps_are_deflated_too() -> None:
    arrays = {"a.starts": np.cumsum(np.tile([3, 700, 5], 2000)), "rows": ROWS}
    written = compacted(arrays)
    assert list(written) == ["a.starts:steps:I64:deflated:U8:6000", "a.starts:long:I64:deflated:U64:2000", "rows"]
    assert same(expanded(written)["a.starts"], arrays["a.starts"])


def test_what_processes_share_stays_as_it_is() -> None:
    large = np.tile(ROWS >> 4, SMALL // len(ROWS) + 1)
    assert list(deflated({"rows": large, "few": ROWS[:500] >> 7})) == ["rows", "few"]
    assert list(deflated({"rows:steps:I32": large})) != ["rows:steps:I32"]


def test_nothing_is_written_that_would_be_refused() -> None:
    """A file of zeros alone would be inflated to a thousand times its bytes."""
    arrays = {"a": np.zeros(100_000, dtype=np.int32)}
    assert deflated(arrays) == arrays


DATA = CHANCE.integers(5, size=4000).astype(np.uint8)
CONTENT = zlib.compress(DATA.tobytes())


def bytes_of(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("a:deflated:U8:4000", ROWS),
        ("a:deflated:U8:4000", bytes_of(CONTENT[:-1])),
        ("a:deflated:U8:4000", bytes_of(CONTENT[: len(CONTENT) // 2])),
        ("a:deflated:U8:4000", bytes_of(CONTENT + b"x")),
        ("a:deflated:U8:4000", bytes_of(b"")),
        ("a:deflated:U8:3999", bytes_of(CONTENT)),
        ("a:deflated:U8:4001", bytes_of(CONTENT)),
        ("a:deflated:U8:4000", bytes_of(CONTENT)[None]),
        ("a:deflated:U8:4000", bytes_of(CONTENT).view(np.int8)),
        ("a:deflated:U8:0x4000", bytes_of(CONTENT)),
        ("a:deflated:U8:-4000", bytes_of(CONTENT)),
        ("a:deflated:U8:", bytes_of(CONTENT)),
        ("a:deflated:U8", bytes_of(CONTENT)),
        ("a:deflated", bytes_of(CONTENT)),
        ("a:deflated:U9:4000", bytes_of(CONTENT)),
        ("a:deflated:U8:4000:deflated:U8:4000", bytes_of(CONTENT)),
        ("a:deflated:U8:" + "9" * 5000, bytes_of(CONTENT)),
        ("a:deflated:U8:" + "x".join(["999999999999999999"] * 8), bytes_of(CONTENT)),
    ],
)
def test_damaged_arrays_are_refused(name: str, array: np.ndarray) -> None:
    with pytest.raises(ModelError, match="pack the model again"):
        expanded({name: array, "rows": ROWS})


def most_bytes(arrays: dict[str, np.ndarray]) -> int:
    """Return the most memory that is held while the arrays are refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="pack the model again"):
            expanded(arrays)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BOMB = bytes_of(zlib.compress(bytes(50_000_000)))


@pytest.mark.parametrize(
    "arrays",
    [
        {"a:deflated:U8:50000000": BOMB},
        {"a:deflated:U8:4000": BOMB},
        {"a:deflated:F64:1000000x1000000": BOMB},
        {f"a{number}:deflated:U8:50000000": BOMB for number in range(20)},
        {f"a{number}:deflated:U8:40000": BOMB for number in range(20)},
        {"a:steps:I64:deflated:U8:50000000": BOMB, "a:long:I64": np.zeros(0, dtype=np.uint64)},
    ],
)
def test_little_that_would_be_inflated_to_much_is_refused_without_taking_memory(arrays: dict[str, np.ndarray]) -> None:
    assert most_bytes(arrays) < 3_000_000


@given(st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_other_bytes_are_refused(changes: list[tuple[int, int]]) -> None:
    content = bytearray(CONTENT)
    for place, byte in changes:
        content[place] = byte
    arrays = {"a:deflated:U8:4000": bytes_of(bytes(content))}
    with suppress(ModelError):
        assert np.array_equal(expanded(arrays)["a"], DATA)


def test_label_texts_are_an_array_where_they_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{name} é " * 300 for name in NAMES]
    model = replace(packed(), label_texts=texts)
    write_packed(model, tmp_path / "new")
    monkeypatch.setattr(packed_folder, "_LEAST_TEXTS", 1 << 30)  # as earlier versions wrote it
    write_packed(model, tmp_path / "old")
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("new", "old")]
    assert files[1] - files[0] == {"label_texts.utf8"}
    for name in ("new", "old"):
        found = open_packed(tmp_path / name, kinds=KINDS).label_texts
        assert found is not None
        assert list(found) == list(pickle.loads(pickle.dumps(found))) == texts


def test_label_texts_that_are_no_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_packed(packed(), tmp_path / "packed")
    arrays = map_arrays(tmp_path / "packed" / "arrays.safetensors")
    monkeypatch.setattr(packed_folder, "map_arrays", lambda path: {**arrays, "label_texts.utf8": np.zeros(3)})
    with pytest.raises(ModelError, match=r"label_texts\.utf8 must be uint8"):
        open_packed(tmp_path / "packed", kinds=KINDS)


def test_a_model_of_before_opens_whatever_is_deflated_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_packed(packed(), tmp_path / "plain")
    monkeypatch.setattr(deflating, "_LEAST", 8)
    monkeypatch.setattr(deflating, "_MOST_LEFT", 2)
    write_packed(packed(), tmp_path / "deflated")
    names = map_arrays(tmp_path / "deflated" / "arrays.safetensors")
    assert any(":deflated:" in name for name in names)
    assert not any(":deflated:" in name for name in map_arrays(tmp_path / "plain" / "arrays.safetensors"))
    models = [open_packed(tmp_path / name, kinds=KINDS) for name in ("plain", "deflated")]
    assert list(models[0].labels) == list(models[1].labels)
    plain, found = (flattened(model.ranker) for model in models)
    assert plain[0] == found[0]
    assert all(same(found[1][name], array) for name, array in plain[1].items())
