"""Strings in one memory-mapped file: millions of names that take no time to open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from jaxtyping import Int, UInt

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_numbers, check_starts
from laconic.packed.arrays import map_bytes
from laconic.types import NO_LABEL


def write_strings(path: Path, strings: Iterable[str]) -> Int[np.ndarray, "bounds"]:
    """Write strings; return where each begins, in bytes, and where the last one ends."""
    lengths = [0]
    with path.open("wb") as file:
        lengths.extend(file.write(string.encode()) for string in strings)
    return np.cumsum(lengths, dtype=np.int64)


class Strings(Sequence[str]):
    """A sequence of strings, decoded on access."""

    def __init__(self, path: Path, starts: np.ndarray, content: np.ndarray | None = None) -> None:
        """Map the file of that name or, where they are an array instead, take its bytes."""
        if content is not None:
            check_array(content, path.name, np.uint8, (None,))
        self._path, self._starts = path, starts
        self._content = map_bytes(path) if content is None else content.tobytes()
        check_array(starts, f"bounds of {path.name}", np.int64, (None,))
        check_starts(starts, f"bounds of {path.name}", len(self._content))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_content": self._content[:]}  # a copy has its own bytes: a mapped file stays where it is

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        count = len(self._starts) - 1
        number = at + count if at < 0 else at
        if not 0 <= number < count:
            raise IndexError(at)
        try:
            return self._content[self._starts.item(number) : self._starts.item(number + 1)].decode()
        except UnicodeDecodeError as error:
            raise self._damaged(error) from None

    def all(self) -> list[str]:
        """Decode all strings at once, which is much faster than one by one."""
        content, bounds = self._content[:], self._starts.tolist()
        try:
            return [content[first:last].decode() for first, last in pairwise(bounds)]
        except UnicodeDecodeError as error:
            raise self._damaged(error) from None

    def buffers(self) -> tuple[np.ndarray, Any]:
        """Return where strings begin and the bytes of all of them, which Arrow reads without a copy."""
        return self._starts, self._content

    def _damaged(self, error: UnicodeDecodeError) -> ModelError:
        return ModelError(f"{self._path}: {error.object!r} is not UTF-8 ({error}); copy the model again")


class NameIndex(NamedTuple):
    """Finds the number of a name by hash, without a dict of all names in every process."""

    hashes: UInt[np.ndarray, "labels"]  # 64 bits each, the smallest first
    order: Int[np.ndarray, "labels"]  # int32: the number of the name with that hash

    @staticmethod
    def of(names: Iterable[str]) -> NameIndex:
        hashes = _hashes(names)
        order = hashes.argsort(kind="stable")
        return NameIndex(hashes[order], order.astype(np.int32))

    def checked(self, count: int) -> NameIndex:
        check_array(self.hashes, "names' hashes", np.uint64, (count,))
        check_array(self.order, "order of names", np.int32, (count,))
        check_numbers(self.order, "order of names", 0, count)
        return self


class LabelNames(Strings):
    """The names of labels, and the numbers of names."""

    def __init__(self, path: Path, starts: np.ndarray, index: NameIndex) -> None:
        super().__init__(path, starts)
        self._index = index.checked(len(self))

    def numbers_of(self, names: Sequence[str]) -> Int[np.ndarray, "n"]:
        """Return the labels of these names; NO_LABEL for unknown names."""
        hashes = _hashes(names)
        first, last = (self._index.hashes.searchsorted(hashes, side) for side in ("left", "right"))
        found = zip(names, first.tolist(), last.tolist(), strict=True)
        return np.array([self._number(name, *places) for name, *places in found], dtype=np.int64)

    def _number(self, name: str, first: int, last: int) -> int:
        """Return the label of a name, comparing names where hashes are equal."""
        there = (int(number) for number in self._index.order[first:last])
        return next((number for number in there if self[number] == name), NO_LABEL)


def _hashes(names: Iterable[str]) -> UInt[np.ndarray, "names"]:
    digests = (blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u8")
