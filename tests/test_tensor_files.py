"""Tensors in one file or in several: whatever the size of the files, what was written is read back."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from laconic.errors import ConfigError, ModelError
from laconic.storage.tensors import Storage, read_tensors, save_tensors, storage_facts, storage_of, write_tensors

KINDS = [torch.float32, torch.float64, torch.int64, torch.int8, torch.uint8]
SHAPES = st.lists(st.integers(0, 8), max_size=3).map(tuple)  # no row is larger than a file


def filled(shape, kind, seed=0):
    return torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(seed)).to(kind)


@given(
    st.lists(st.tuples(st.one_of(SHAPES, st.just((400, 3))), st.sampled_from(KINDS)), min_size=1, max_size=6),
    st.sampled_from([0, 1000, 1500, 4000]),
)
def test_whatever_the_size_of_files_tensors_are_read_back(kinds, shard_size):
    tensors = {f"tensor.{n}": filled(shape, kind, n) for n, (shape, kind) in enumerate(kinds)}
    storage = Storage(shard_size=shard_size)
    with tempfile.TemporaryDirectory() as temporary:
        paths = write_tensors(tensors, Path(temporary), storage)
        assert sorted(path.name for path in paths) == sorted(path.name for path in Path(temporary).iterdir())
        if shard_size:
            assert max(path.stat().st_size for path in paths) <= shard_size
        read = read_tensors(Path(temporary), len(paths))
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


def test_a_large_tensor_is_cut_by_rows_and_small_ones_share_a_file(tmp_path):
    tensors = {"a": torch.ones(3), "rows": torch.arange(600.0).reshape(150, 4), "b": torch.zeros(2)}
    paths = write_tensors(tensors, tmp_path, Storage(shard_size=1000))
    assert [path.name for path in paths] == [f"model-{n:05}-of-00004.safetensors" for n in range(1, 5)]
    pieces = [load_file(path) for path in paths]
    assert [set(piece) for piece in pieces] == [{"a"}, {"rows"}, {"rows"}, {"rows", "b"}]
    assert torch.equal(torch.cat([piece["rows"] for piece in pieces[1:]]), tensors["rows"])


def test_a_row_that_is_larger_than_a_file_has_a_file_of_its_own(tmp_path):
    rows = torch.arange(2000.0).reshape(4, 500)
    paths = write_tensors({"rows": rows}, tmp_path, Storage(shard_size=1000))
    assert len(paths) == 4
    assert torch.equal(read_tensors(tmp_path, 4)["rows"], rows)


def test_matrices_in_half_precision_are_half_as_large_and_come_back_in_single(tmp_path):
    tensors = {"rows": torch.randn(300, 8), "vector": torch.randn(300), "counts": torch.arange(300)}
    storage = Storage(half=True)
    (path,) = write_tensors(tensors, tmp_path, storage)
    assert {name: tensor.dtype for name, tensor in load_file(path).items()} == {
        "rows": torch.float16,
        "vector": torch.float32,
        "counts": torch.int64,
    }
    read = read_tensors(tmp_path, 1)
    assert torch.equal(read["rows"], tensors["rows"].half().float())
    torch.testing.assert_close(read["rows"], tensors["rows"], rtol=1e-3, atol=1e-6)
    assert torch.equal(read["vector"], tensors["vector"])
    assert torch.equal(read["counts"], tensors["counts"])


@pytest.mark.parametrize("value", [0.5, 0.1])
def test_a_large_matrix_is_written_in_half_precision_where_nothing_is_lost_by_it(tmp_path, value):
    rows = torch.randn(1100, 256).half().float()
    rows[-1, -1] = value
    (path,) = write_tensors({"rows": rows}, tmp_path, Storage())
    assert load_file(path)["rows"].dtype == (torch.float16 if value == 0.5 else torch.float32)
    assert torch.equal(read_tensors(tmp_path, 1)["rows"], rows)


@pytest.mark.parametrize("value", [65536.0, -1e30, float("inf")])
def test_a_matrix_that_half_precision_cannot_hold_stays_as_it_is(tmp_path, value):
    rows = torch.tensor([[1.0, value], [0.1, 0.2]])
    write_tensors({"rows": rows}, tmp_path, Storage(half=True))
    assert torch.equal(read_tensors(tmp_path, 1)["rows"], rows)


@pytest.mark.parametrize(
    "other", [torch.ones(2, 4), torch.ones(2, 3, dtype=torch.int64), torch.ones(2), torch.tensor(1)]
)
def test_pieces_that_do_not_fit_together_are_refused(tmp_path, other):
    save_file({"rows": torch.ones(2, 3)}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"rows": other}, tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(ModelError, match=r"the pieces of the tensor 'rows' do not fit together"):
        read_tensors(tmp_path, 2)


def test_a_missing_file_is_named(tmp_path):
    paths = write_tensors({"rows": torch.ones(400, 3)}, tmp_path, Storage(shard_size=1000))
    paths[2].unlink()
    with pytest.raises(ModelError, match=rf"{paths[2].name}: not a whole safetensors file"):
        read_tensors(tmp_path, len(paths))


def test_how_a_model_is_stored_is_told_and_understood():
    storage = Storage(shard_size=5000, half=True)
    assert storage_of(storage_facts(storage, 7), Path("model.json")) == (storage, 7)
    assert storage_of(None, Path("model.json")) == (Storage(), 1)


@pytest.mark.parametrize(
    "facts",
    [
        3,
        {},
        {"files": 0},
        {"files": "2"},
        {"files": 2, "half": 1},
        {"files": 2, "zip": True},
        {"files": 1, "shard_size": 3},
    ],
)
def test_a_storage_that_nobody_could_have_written_is_refused(facts):
    with pytest.raises(ModelError, match=r"^model\.json: .*storage"):
        storage_of(facts, Path("model.json"))


def test_more_files_than_there_are_is_found_at_the_first_that_is_missing(tmp_path):
    with pytest.raises(ModelError, match=r"model-00001-of-1000000000000000\.safetensors"):
        read_tensors(tmp_path, 10**15)


@pytest.mark.parametrize("size", [-1, 1, 16, 999])
def test_a_size_without_its_unit_is_refused(size):
    with pytest.raises(
        ConfigError, match=f"must be 0 .one file. or 1,000 bytes or more, but is {size} bytes; write 16MB"
    ):
        Storage(shard_size=size)


@pytest.mark.parametrize("facts", [None, {}, {"b": "x", "a": 'ü"\\\n\u2028\x01'}])
def test_files_are_those_of_safetensors(facts, tmp_path):
    kinds = [*KINDS, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.uint16, torch.bool]
    tensors = {
        f'é"\n{kind}, {shape}': filled(shape, kind) for kind in kinds for shape in [(), (0,), (3,), (2, 5), (0, 4)]
    }
    tensors["a transposed one"] = torch.arange(12.0).view(3, 4).T
    tensors["one number in the place of many"] = torch.tensor(7, dtype=torch.int32).expand(1)
    tensors["none"] = torch.tensor(7, dtype=torch.int32).expand(0)
    tensors["many of them"] = torch.tensor(7.0).expand(3, 2)
    save_tensors(tensors, tmp_path / "file", facts)
    read = load_file(tmp_path / "file")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) and read[name].dtype == tensor.dtype for name, tensor in tensors.items())
    with safe_open(tmp_path / "file", "pt") as file:
        assert (file.metadata() or {}) == (facts or {})


def test_tensors_are_written_over_the_file_that_they_are_mapped_from(tmp_path):
    save_tensors({"a": torch.arange(5000.0), "b": torch.ones(3)}, tmp_path / "file")
    mapped = load_file(tmp_path / "file")
    save_tensors(dict(mapped), tmp_path / "file")
    assert torch.equal(load_file(tmp_path / "file")["a"], torch.arange(5000.0))
    assert torch.equal(mapped["a"], torch.arange(5000.0))
