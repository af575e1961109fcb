"""Arrays in a mapped file: what was written lies there, aligned; whatever else lies there is refused."""

import json
import tempfile
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load_file

from laconic.errors import ModelError
from laconic.packed.arrays import map_arrays, map_bytes, write_arrays

KINDS = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]
ARRAYS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9).filter(lambda name: not name.startswith("_")),
    arrays_of.arrays(st.sampled_from(KINDS), arrays_of.array_shapes(min_dims=0, min_side=0, max_side=9)),
    max_size=6,
)


@given(ARRAYS)
def test_what_was_written_is_mapped_and_every_reader_of_the_format_reads_the_same(arrays):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "arrays"
        write_arrays(path, arrays)
        mapped, loaded = map_arrays(path), load_file(path)
        assert mapped.keys() == arrays.keys() <= loaded.keys()
        for name, array in arrays.items():
            for read in (mapped[name], loaded[name]):
                assert (read.dtype, read.shape) == (array.dtype, array.shape)
                np.testing.assert_array_equal(read, array)
            assert mapped[name].ctypes.data % 64 == 0
            assert mapped[name].flags.c_contiguous
            assert not mapped[name].flags.writeable


def test_an_array_that_is_not_contiguous_is_written_as_it_reads(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    write_arrays(tmp_path / "arrays", {"array": array})
    np.testing.assert_array_equal(map_arrays(tmp_path / "arrays")["array"], array)


def test_writing_needs_no_memory_for_a_second_copy(tmp_path):
    arrays = {str(number): np.ones((1000, 1000), dtype=np.float32) for number in range(3)}
    tracemalloc.start()
    try:
        write_arrays(tmp_path / "arrays", arrays)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_pages_are_the_file_s_own_and_no_copies(tmp_path):
    write_arrays(tmp_path / "arrays", {"array": np.arange(5, dtype=np.int64)})
    array = map_arrays(tmp_path / "arrays")["array"]
    with (tmp_path / "arrays").open("r+b") as file:
        file.seek(-8, 2)
        file.write((77).to_bytes(8, "little"))
    assert array.tolist() == [0, 1, 2, 3, 77]


def test_an_empty_file_has_no_bytes(tmp_path):
    (tmp_path / "empty").touch()
    assert map_bytes(tmp_path / "empty") == b""
    with pytest.raises(ModelError, match="nowhere: cannot be read"):
        map_bytes(tmp_path / "nowhere")


def entry(kind="F32", shape=(2, 2), start=0, end=16):
    return {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}


HOSTILE = {
    "past the end": {"a": entry(shape=(2, 4), end=32)},
    "before the beginning": {"a": entry(start=-16, end=0)},
    "too short for its shape": {"a": entry(shape=(2, 3))},
    "overlapping": {"a": entry(), "b": entry(start=0, end=16)},
    "with a gap": {"a": entry(shape=(1,), end=4), "b": entry(shape=(2,), start=8, end=16)},
    "not to the end": {"a": entry(shape=(2,), end=8)},
    "of truth values": {"a": entry("BOOL", (16,))},
    "of an unknown kind": {"a": entry("F80")},
    "of a kind that is no name": {"a": entry(["F32"])},
    "askew": {"a": entry("U8", (1,), end=1), "b": entry("F32", (3,), 1, 13), "c": entry("U8", (3,), 13, 16)},
    "of a negative size": {"a": entry(shape=(-2, -2))},
    "of a size that is no number": {"a": entry(shape=("2", 2))},
    "of a truth as its size": {"a": entry(shape=(True, 4))},
    "empty, but huge": {"a": entry(), "b": entry(shape=(0, 1 << 62), start=16)},
    "of too many axes": {"a": entry(shape=(1,) * 70 + (4,))},
    "no array": {"a": 3},
    "without a place": {"a": {"dtype": "F32", "shape": [4]}},
    "of no header": [],
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
def test_an_array_that_cannot_be_there_is_refused(tmp_path, header):
    told = json.dumps(header).encode()
    told += b" " * (-(8 + len(told)) % 64)
    (tmp_path / "arrays").write_bytes(len(told).to_bytes(8, "little") + told + bytes(16))
    with pytest.raises(ModelError, match=r"arrays: .*the file is damaged: copy the model again"):
        map_arrays(tmp_path / "arrays")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        (100).to_bytes(8, "little") + b"{}",
        (1 << 60).to_bytes(8, "little") + b"{}",
        bytes(8),
        b"\xff" * 64,
    ],
)
def test_a_header_that_is_cut_off_is_refused(tmp_path, content):
    (tmp_path / "arrays").write_bytes(content)
    with pytest.raises(ModelError, match="the file is damaged"):
        map_arrays(tmp_path / "arrays")


@given(st.data())
def test_hostile_bytes_give_a_model_error_or_arrays_that_can_be_read(data):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "arrays"
        write_arrays(path, {"a": np.ones((3, 5), np.float32), "b": np.arange(7), "c": np.zeros(0, np.int8)})
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 6))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) - 9, 40]))])
        with suppress(ModelError):
            for array in map_arrays(path).values():
                array.tobytes()
