"""Keep compiled kernels on disk for later processes; where no folder can be used, they are compiled in every process.

Kernels are kept as pickles, so whoever can write them can run code in our process. They lie beside the package, where
its modules lie too, or in a folder of mode 0700 that belongs to the user. Files are named by a hash of their content:
a damaged file, or one that another process wrote at the same time, is never loaded.
"""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

import laconic
from laconic.system.cache_folder import is_private, user_cache

log = logging.getLogger(__name__)
_HASH = 16  # bytes
_ROOT = Path(laconic.__file__).parent.parent
_IMPORTED = re.compile(rb"^from (laconic[\w.]*) import", re.MULTILINE)


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The compiled variants of a kernel: read from any folder that has them, written to the first that can be."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Results(function)
        self._variants = [_Variants(folder, function) for folder in cache_folders(Path(inspect.getfile(function)))]

    @property
    def cache_path(self) -> str:
        return str(self._variants[0].folder)

    def flush(self) -> None:
        for variants in self._variants:
            variants.remove()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        found = (variants.load(key) for variants in self._variants)
        data = next((one for one in found if one is not None), None)
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self._impl.check_cachable(data):
            return
        key, reduced, reasons = self._index_key(sig, data.codegen), self._impl.reduce(data), set()
        for variants in self._variants:
            try:
                variants.save(key, reduced)
                return
            except OSError as error:
                reasons.add(error.strerror or str(error))
        _warn_once("; ".join(sorted(reasons)))


def cache_folders(source: Path) -> list[Path]:
    """Return the folders where kernels of a source file may be kept, the preferred one first."""
    name = f"{source.parent.name}-{blake2b(bytes(source.parent.absolute()), digest_size=_HASH).hexdigest()}"
    chosen = Path(numba.config.CACHE_DIR) / f"laconic-{name}" if numba.config.CACHE_DIR else None
    temporary = Path(os.environ.get("TMPDIR") or "/tmp") / f"laconic-{name}-{os.geteuid()}"
    folders = (chosen, _beside(source), user_cache(f"kernels-{name}"), temporary)
    return [folder for folder in folders if folder is not None]


class _Results(CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    """Numba's conversion of a compiled kernel to what can be pickled, without its search for one folder."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno, self._locator = function.__code__.co_firstlineno, self
        self._py_file = inspect.getfile(function)


class _Folder(NamedTuple):
    """A folder for kernels."""

    path: Path
    is_own: bool  # False: it is where the package's modules lie

    def make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.mkdir(exist_ok=True, mode=0o700 if self.is_own else 0o777)
        if not self.is_trusted():
            raise PermissionError(None, "the folder belongs to another user, or others may write to it")

    def is_trusted(self) -> bool:
        """Tell whether only the user and root can write to the folder, or whoever can write the package's modules."""
        return is_private(self.path) or (not self.is_own and self.path.is_dir())


class _Variants:
    """The compiled variants of a kernel in a folder: an index by types and processor, and a file for each."""

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        source = Path(inspect.getfile(function))
        place = f"{source.stem}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self.folder, self._base = folder, f"{place}.{sys.implementation.cache_tag}".replace("<", "").replace(">", "")
        self._place = _Folder(folder, folder != _beside(source))
        self._index = folder / f"{self._base}.index"
        self._stamp = (numba.__version__, laconic.__version__, _hash_with_imports(source))

    def load(self, key: Any) -> Any:
        """Return what was saved under the key; None if there is nothing, or nothing whole."""
        name = self._entries().get(key)
        return None if name is None else _unpickled(self.folder / name, name.split(".")[-2])

    def save(self, key: Any, value: Any) -> None:
        self._place.make()
        content = dumps(value)
        name = f"{self._base}.{_hash(content)}.kernel"
        _write(self.folder / name, content)
        entries = {**self._entries(), key: name}
        index = dumps((self._stamp, entries))
        _write(self._index, _hash(index).encode() + index)
        for path in self._files() - {self.folder / name for name in entries.values()}:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        with suppress(OSError):
            for path in {self._index, *self._files()}:
                path.unlink(missing_ok=True)

    def _files(self) -> set[Path]:
        return {path for path in self.folder.glob("*.kernel") if path.name.startswith(f"{self._base}.")}

    def _entries(self) -> dict[Any, str]:
        found = _unpickled(self._index) if self._place.is_trusted() else None
        return found[1] if found and found[0] == self._stamp else {}


def _beside(source: Path) -> Path:
    return source.parent / "__pycache__"


def is_marked(name: str) -> bool:
    """Return whether `mark` was called with this name, for this processor and this version of package and compiler."""
    return any(one.is_trusted() and (one.path / _mark_file(name)).is_file() for one in _own_folders())


def mark(name: str) -> None:
    """Write a file beside the kernels, in the first folder where that is possible; there may be none."""
    for folder in _own_folders():
        with suppress(OSError):
            folder.make()
            _write(folder.path / _mark_file(name), b"")
            return


def _own_folders() -> list[_Folder]:
    source = Path(__file__)
    return [_Folder(path, path != _beside(source)) for path in cache_folders(source)]


def _mark_file(name: str) -> str:
    processor = cpu_target.target_context.codegen().magic_tuple()
    known = numba.__version__, laconic.__version__, sys.implementation.cache_tag, processor, name
    return f"{_hash(repr(known).encode())}.mark"


@cache
def _hash_with_imports(source: Path) -> str:
    """Hash a file and all files of the package that it needs: a kernel is compiled with the kernels that it calls."""
    known, unread = {source: _source_of(source)}, [source]
    while unread:
        for path in known[unread.pop()].imports - known.keys():
            known[path] = _source_of(path)
            unread.append(path)
    return _hash("".join(sorted(one.hash for one in known.values())).encode())


class _Source(NamedTuple):
    """What a file has, and the files of the package that it imports when it is loaded."""

    hash: str
    imports: frozenset[Path]


@cache
def _source_of(source: Path) -> _Source:
    content = source.read_bytes()
    places = (_ROOT.joinpath(*name.decode().split(".")) for name in _IMPORTED.findall(content))
    files = (path for place in places for path in (place.with_suffix(".py"), place / "__init__.py"))
    return _Source(_hash(content), frozenset(path for path in files if path.is_file()))


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=_HASH).hexdigest()


def _unpickled(path: Path, expected: str = "") -> Any:
    """Unpickle a file whose content has the hash that is expected, or that it begins with; None for any other."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if not expected:
        expected, content = content[: 2 * _HASH].decode("latin-1"), content[2 * _HASH :]
    if _hash(content) != expected:
        return None
    try:
        return pickle.loads(content)
    except (AttributeError, ImportError):  # it names classes of another version
        return None


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    partial = path.with_name(f".{token_hex(_HASH)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@cache
def _warn_once(reasons: str) -> None:
    log.warning(
        "compiled kernels cannot be kept (%s), so every process compiles them again, for up to a minute or two; set "
        "NUMBA_CACHE_DIR to a folder of your own that can be written",
        reasons,
    )
