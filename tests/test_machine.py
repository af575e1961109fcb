"""Cores and memory are counted as a container or a batch system limits them, on machines described by files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from laconic.system import machine
from laconic.system.machine import free_memory, limit_thread_pools, torch_within_cores, usable_cores

GIB = 1 << 30
PACKAGE = Path(__file__).parents[1] / "src" / "laconic"
MEMINFO = f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {48 * GIB // 1024} kB\n"
UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
SEPARATE = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)
UNLIMITED = "9223372036854771712\n"  # as version 1 says it


def described(root: Path, files: Mapping[str, str]) -> Path:
    """A machine with 48 GiB free and these files."""
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def unified(root: Path, groups: Mapping[str, Mapping[str, str]], own: str = "/") -> Path:
    files = {f"sys/fs/cgroup{group}/{name}": text for group, named in groups.items() for name, text in named.items()}
    return described(root, {"proc/self/cgroup": f"0::{own}\n", "proc/self/mountinfo": UNIFIED, **files})


def separate(root: Path, files: Mapping[str, str], own: str = "/", mounts: str = SEPARATE) -> Path:
    told = f"9:name=systemd:/\n4:memory:{own}\n3:cpuset:/\n1:cpu,cpuacct:{own}\n0::/\n"
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    return described(root, {"proc/self/cgroup": told, "proc/self/mountinfo": mounts, **files})


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)


# Cores


def test_cores_are_those_of_the_affinity_mask_not_all_that_the_machine_has(tmp_path):
    assert usable_cores(described(tmp_path, {})) == 8


def test_a_system_without_affinity_has_all_its_cores(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("250000 100000", 3), ("200000 100000", 2), ("10000 100000", 1), ("1600000 100000", 8)],
)
def test_a_quota_is_rounded_up_to_cores(tmp_path, quota, cores):
    assert usable_cores(unified(tmp_path, {"": {"cpu.max": quota}})) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("150000", 2), ("50000", 1)])
def test_a_quota_of_version_1_counts(tmp_path, quota, cores):
    files = {"cpu,cpuacct/job/cpu.cfs_quota_us": quota, "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}
    assert usable_cores(separate(tmp_path, files, own="/job")) == cores


def test_the_tightest_of_the_groups_around_a_process_decides(tmp_path):
    quotas = {"": "max 100000", "/a": "300000 100000", "/a/b": "500000 100000", "/a/b/c": "max 100000"}
    groups = {group: {"cpu.max": quota} for group, quota in quotas.items()}
    groups["/other"] = {"cpu.max": "100000 100000"}
    assert usable_cores(unified(tmp_path, groups, own="/a/b/c")) == 3


# Memory


def test_memory_is_what_the_system_has_to_give(tmp_path):
    assert free_memory(described(tmp_path, {})) == 48 * GIB


def test_nothing_is_claimed_where_the_system_does_not_say(tmp_path):
    assert free_memory(tmp_path) is None


def test_a_limit_leaves_what_is_not_yet_used_and_cached_files_are_not_in_the_way(tmp_path):
    group = {
        "memory.max": f"{4 * GIB}\n",
        "memory.current": f"{3 * GIB}\n",
        "memory.stat": f"anon {GIB}\nactive_file {GIB // 2}\ninactive_file {GIB}\n",
    }
    assert free_memory(unified(tmp_path, {"/pod": group}, own="/pod")) == 4 * GIB - 3 * GIB // 2


def test_a_limit_of_version_1_leaves_what_is_not_yet_used(tmp_path):
    files = {
        "memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
        "memory/job/memory.usage_in_bytes": f"{GIB}\n",
        "memory/job/memory.stat": f"inactive_file 5\ntotal_active_file 0\ntotal_inactive_file {GIB // 4}\n",
        "memory/memory.limit_in_bytes": UNLIMITED,
        "memory/memory.usage_in_bytes": f"{60 * GIB}\n",
    }
    assert free_memory(separate(tmp_path, files, own="/job")) == GIB + GIB // 4


def test_the_group_with_least_to_spare_decides(tmp_path):
    def group(limit, used):
        return {"memory.max": limit, "memory.current": str(used)}

    groups = {
        "/a": group(str(8 * GIB), 6 * GIB),
        "/a/b": group(str(4 * GIB), GIB),
        "/a/b/c": group("max", GIB),
    }
    assert free_memory(unified(tmp_path, groups, own="/a/b/c")) == 2 * GIB


def test_the_bound_from_which_on_a_group_is_slowed_down_is_a_limit(tmp_path):
    group = {"memory.max": "max", "memory.high": str(2 * GIB), "memory.current": str(GIB)}
    assert free_memory(unified(tmp_path, {"/slice": group}, own="/slice")) == GIB


def test_a_group_over_its_limit_leaves_nothing(tmp_path):
    group = {"memory.max": str(GIB), "memory.current": str(2 * GIB)}
    assert free_memory(unified(tmp_path, {"": group})) == 0


def test_a_limit_above_what_the_machine_has_does_not_count(tmp_path):
    group = {"memory.max": str(500 * GIB), "memory.current": str(GIB)}
    assert free_memory(unified(tmp_path, {"": group})) == 48 * GIB


@pytest.mark.parametrize("own", ["/docker/0123", "/../elsewhere"])
def test_a_container_that_is_told_a_path_of_its_host_finds_its_own_group(tmp_path, own):
    mounts = "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n"
    files = {"memory/memory.limit_in_bytes": str(GIB), "memory/memory.usage_in_bytes": str(GIB // 2)}
    assert free_memory(separate(tmp_path, files, own=own, mounts=mounts)) == GIB // 2


def test_this_machine_can_be_asked():
    assert 1 <= usable_cores() <= 8
    free = free_memory()
    assert free is None or 0 < free < 1 << 50


# Threads of others


def quota_of(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_cores_by_quota", lambda root: cores)


def test_thread_pools_are_told_of_a_quota_and_a_users_own_word_stands(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    quota_of(8, monkeypatch)
    limit_thread_pools()
    assert "OMP_NUM_THREADS" not in os.environ  # they count as many themselves
    quota_of(2, monkeypatch)
    limit_thread_pools()
    assert os.environ["OMP_NUM_THREADS"] == "2"
    quota_of(1, monkeypatch)
    limit_thread_pools()
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_torch_keeps_within_usable_cores_for_a_while(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for quota, threads in ((2, 2), (8, 4)):
            quota_of(quota, monkeypatch)
            with torch_within_cores():
                assert torch.get_num_threads() == threads
            assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


# One place that asks


def test_only_this_module_asks_the_system_for_cores_and_memory():
    asking = re.compile(
        r"cpu_count|sched_[gs]etaffinity|meminfo|sysconf|cgroup|getrlimit|virtual_memory|hardware_concurrency"
    )
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if asking.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"system/machine.py"}


def test_counting_cores_needs_no_torch():
    code = (
        "import sys, laconic.system.machine; laconic.system.machine.usable_cores(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
