"""Kernels are compiled for the processor at hand, unless the user says for which, and nobody else's are."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.codegen import get_host_cpu_features

import laconic
from laconic.kernels.cache import KernelCache
from laconic.kernels.jit import Borrowing, WideVectors, compiled, compiled_in_any_order, has_fast_wide_vectors
from tests.variants import some_slow

_UNCHANGED = """if True:
    import importlib, pkgutil, numba
    def settings():
        return {name: repr(value) for name, value in vars(numba.config).items() if name.isupper()}
    before = settings()
    import laconic, laconic.kernels.jit
    models = [f"models.{name}" for name in ("label_trees", "shortlisters", "clustering", "fusion")]
    for name in ("packed.engine", "data.formats", *models):
        package = importlib.import_module(f"laconic.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"laconic.{name}.{module.name}")
    after = settings()
    print({name: (before[name], after[name]) for name in before if before[name] != after[name]})
"""
_CACHED = """if True:
    import numpy as np
    from cached import dot
    dot(np.ones(5, np.float32), np.ones(5, np.float32))
    print(sum(dot.stats.cache_hits.values()), sum(dot.stats.cache_misses.values()))
"""


def product(one, other):  # type: ignore[no-untyped-def]  # a numba kernel
    total = np.float32(0)
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes from the cache cannot be looked at."""
    monkeypatch.setattr("laconic.kernels.jit.KernelCache", lambda function: NullCache())


def kernels() -> Iterator[Any]:
    """Every kernel of the package."""
    names = [found.name for found in pkgutil.walk_packages(laconic.__path__, "laconic.")]
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(name)
        except ImportError:  # of another library, which is not there
            continue
        own = (value for value in vars(found).values() if getattr(value, "__module__", "") == name)
        yield from (value for value in own if isinstance(value, numba.core.dispatcher.Dispatcher))


@pytest.mark.slow
def test_importing_changes_no_setting_of_numba() -> None:
    found = subprocess.run([sys.executable, "-c", _UNCHANGED], check=True, capture_output=True, text=True)
    assert found.stdout == "{}\n"


def test_wide_vectors_are_used_where_a_processor_has_them_and_stays_fast() -> None:
    assert has_fast_wide_vectors("+avx2,+avx512f,+avx512vbmi2")
    for features in ("", "+neon", "+avx2,+fma", "+avx512f,-avx512vbmi2"):
        assert not has_fast_wide_vectors(features)


def test_no_kernel_loses_its_options() -> None:
    wide = numba.config.CPU_FEATURES is None and has_fast_wide_vectors(get_host_cpu_features())
    found = list(kernels())
    assert len(found) > 50
    for kernel in found:
        options = kernel.targetoptions
        assert (options["nogil"], options["nopython"], options["error_model"]) == (True, True, "numpy")
        assert options["fastmath"] in (False, {"reassoc", "contract"})
        assert isinstance(kernel._cache, KernelCache)
        assert kernel._compiler.pipeline_class is (WideVectors if wide else Borrowing)


@pytest.mark.usefixtures("uncached")
def test_a_kernel_for_wide_vectors_says_so_to_the_compiler_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(100, dtype=np.float32)
    for decorator in (compiled, compiled_in_any_order):
        texts = []
        for compiler in (Borrowing, WideVectors):
            monkeypatch.setattr("laconic.kernels.jit._compiler", lambda compiler=compiler: compiler)
            kernel: Any = decorator(product)
            assert kernel(numbers, numbers) == product(numbers, numbers)
            texts.append("".join(kernel.inspect_llvm().values()))
        assert ['"prefer-vector-width"="512"' in text for text in texts] == [False, True]


class Several(NamedTuple):
    first: np.ndarray
    others: tuple[np.ndarray, np.ndarray]


def longest(several):  # type: ignore[no-untyped-def]
    best = several.first
    for one in several.others:
        if len(one) > len(best):
            best = one
    return best.sum()


def last(several):  # type: ignore[no-untyped-def]
    return several.others[1][1:]


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("compiler", [Borrowing, WideVectors])
def test_a_kernel_counts_no_references_to_its_arguments(compiler: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.kernels.jit._compiler", lambda: compiler)
    arrays = Several(np.arange(3.0), (np.arange(4.0), np.arange(5.0)))
    kernel: Any = compiled(longest)
    counting = numba.njit(longest)
    assert kernel(arrays) == counting(arrays) == 10
    body, with_counts = ("".join(one.inspect_llvm().values()).split("cpython")[0] for one in (kernel, counting))
    assert "@NRT_incref" in with_counts
    assert "@NRT_incref" not in body


@pytest.mark.usefixtures("uncached")
def test_an_argument_that_a_kernel_returns_outlives_its_name() -> None:
    kernel: Any = compiled(last)
    array = np.arange(100_000.0)
    before = sys.getrefcount(array)
    found = kernel(Several(np.zeros(1), (np.zeros(1), array)))
    assert sys.getrefcount(array) == before + 1
    del array
    assert found.sum() == sum(range(100_000))


@pytest.mark.skipif("+avx512f" not in get_host_cpu_features().split(","), reason="needs a processor with AVX-512")
@pytest.mark.usefixtures("uncached")
def test_wide_vectors_are_in_the_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.kernels.jit._compiler", lambda: WideVectors)
    kernel: Any = compiled_in_any_order(product)
    numbers = np.arange(100, dtype=np.float32)
    kernel(numbers, numbers)
    assert "zmm" in "".join(kernel.inspect_asm().values())


def test_what_the_user_has_set_stays() -> None:
    code = "from laconic.kernels.jit import _compiler, numba; print(numba.config.CPU_FEATURES, _compiler().__name__)"
    said = {**os.environ, "NUMBA_CPU_FEATURES": "+avx512vbmi2"}
    found = subprocess.run([sys.executable, "-c", code], env=said, check=True, capture_output=True, text=True)
    assert found.stdout == "+avx512vbmi2 Borrowing\n"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", some_slow([Borrowing, WideVectors]))
def test_a_kernel_is_compiled_once_for_all_processes(compiler: type, tmp_path: Path) -> None:
    source = "import laconic.kernels.jit as c\n"
    source += f"from {compiler.__module__} import {compiler.__name__} as one\nc._compiler = lambda: one\n"
    source += "@c.compiled\ndef dot(one, other):\n    return (one * other).sum()\n"
    (tmp_path / "cached.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    told = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [subprocess.run([sys.executable, "-c", _CACHED], env=told, check=True, capture_output=True) for _ in "12"]
    assert [run.stdout for run in runs] == [b"0 1\n", b"1 0\n"]


@pytest.mark.slow
def test_a_cache_that_names_classes_of_another_version_is_compiled_anew(tmp_path: Path) -> None:
    """An index is unpickled before its age is checked: a class that was renamed must not stop a kernel."""
    script = tmp_path / "kernels.py"
    source = (
        "from typing import NamedTuple\n"
        "import numpy as np\n"
        "from laconic.kernels.jit import compiled\n"
        "class {name}(NamedTuple):\n    values: np.ndarray\n"
        "@compiled\ndef total(pair):\n    return pair.values.sum()\n"
        "print(total({name}(np.arange(4))))\n"
    )
    for name in ("Before", "After"):
        script.write_text(source.format(name=name))
        module = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import kernels"
        done = subprocess.run([sys.executable, "-c", module], capture_output=True, text=True, check=False)
        assert done.stdout == "6\n", done.stderr
