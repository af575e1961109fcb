"""Kernels are compiled for the processor at hand, unless the user says for which."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
from numba.core.codegen import get_host_cpu_features

from laconic.compiled import wide_vectors


def test_wide_vectors_are_used_where_a_processor_has_them_and_stays_fast() -> None:
    assert wide_vectors("+avx2,+avx512f,+avx512vbmi2") == "+avx2,+avx512f,+avx512vbmi2,-prefer-256-bit"
    for features in ("", "+neon", "+avx2,+fma", "+avx512f,-avx512vbmi2"):
        assert wide_vectors(features) == features


def test_kernels_are_compiled_so() -> None:
    assert wide_vectors(get_host_cpu_features()) == numba.config.CPU_FEATURES


def test_what_the_user_has_set_stays() -> None:
    code = "import laconic.compiled, numba; print(numba.config.CPU_FEATURES)"
    said = {**os.environ, "NUMBA_CPU_FEATURES": "+sse2"}
    found = subprocess.run([sys.executable, "-c", code], env=said, check=True, capture_output=True, text=True)
    assert found.stdout == "+sse2\n"
