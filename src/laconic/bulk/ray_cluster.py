"""Connect to a cluster of Ray, or start one on this machine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from laconic.errors import ConfigError
from laconic.system.machine import usable_cores

_PARTS_OF_GPU = 10_000  # in which Ray counts
# Of actors. Arrow's own allocators keep what was used once, tens of megabytes; `pyarrow.set_memory_pool` would leave
# them to the readers and writers of Parquet.
_VARIABLES = {"ARROW_DEFAULT_MEMORY_POOL": "system"}


@contextmanager
def connected(address: str = "", store: int | None = None) -> Iterator[bool]:
    """Connect to a cluster, or start one of this machine alone; yield whether it may have other machines.

    `store` is the size in bytes of the object store of a cluster that is started here; None: as Ray has it.
    """
    import ray

    if ray.is_initialized():
        yield True
        return
    address = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which Ray warns of otherwise
    given = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": {"env_vars": _VARIABLES}}
    own = {"num_cpus": usable_cores(), "object_store_memory": store, "include_dashboard": False}
    try:
        ray.init(address or "local", **given, **({} if address else own))
    except (ConnectionError, ValueError) as error:
        raise ConfigError(
            f"--address {address}: no cluster of Ray was found there ({error}); `ray start --head` starts one"
        ) from None
    try:
        yield bool(address)
    finally:
        ray.shutdown()


def workers_of(device: str, workers: int | None) -> int:
    """Return the number of actors: as many as asked for, or as the cluster has cores or, for cuda, GPUs."""
    import ray

    resource = "GPU" if device == "cuda" else "CPU"
    there = int(ray.cluster_resources().get(resource, 0))
    if not there and workers is None:
        raise ConfigError(f"the cluster of Ray has no {resource}; leave --device out, or add machines that have one")
    return workers or there


def needs_of(device: str, workers: int) -> dict[str, float]:
    """Return the resources of an actor, as options of Ray; more actors than GPUs share them, each with a core."""
    import ray

    if device != "cuda":
        return {"num_cpus": 1, "num_gpus": 0}
    gpus = max(1, int(ray.cluster_resources().get("GPU", 0)))
    together = -(-workers // gpus)
    return {"num_cpus": 1, "num_gpus": 1 if together == 1 else math.floor(_PARTS_OF_GPU / together) / _PARTS_OF_GPU}
