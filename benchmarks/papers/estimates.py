"""About how long a training takes on one H200, from what earlier ones took there, some of which shared the GPU."""

from __future__ import annotations

from benchmarks._trainings import Job

SECONDS: dict[str, dict[str, float]] = {  # a training with the settings of ours.toml; of mach, one member
    "debian-related": {"inceptionxml": 60, "inceptionxml+": 60, "astec": 43, "decaf": 95, "mach": 4, "xml-cnn": 23},
    "npm-names-deps": {"inceptionxml": 110, "inceptionxml+": 110, "astec": 68, "decaf": 110, "mach": 12, "xml-cnn": 80},
    "yso-titles": {"inceptionxml": 160, "inceptionxml+": 160, "astec": 115, "decaf": 160, "mach": 23, "xml-cnn": 160},
}
TREES = {"debian-related": 40.0, "npm-names-deps": 60.0, "yso-titles": 400.0}  # on 16 cores
SHARED_MODULE = 0.5  # what module I is of a training of DECAF: members of an ensemble share it
LOOKS = {"linear": 0.3, "every label": 0.6, "recalls": 0.2, "sweep": 0.1, "by trees": 1.5, "forest": 2.0}


def seconds_of(job: Job) -> float | None:
    """Return the seconds that a training takes alone; None where no such training is known."""
    if job.method == "trees":
        return TREES.get(job.dataset)
    alone = SECONDS.get(job.dataset, {}).get(job.method)
    if alone is None:
        return None
    members = job.settings.get("members", 1) if job.method == "mach" else job.members
    seconds = alone * members
    if job.method == "decaf" and members > 1:
        seconds = alone * (SHARED_MODULE + (1 - SHARED_MODULE) * members)
    if job.method == "decaf" and job.settings.get("lite"):
        seconds *= 0.6
    if "reranker" in job.settings:
        seconds *= 2
    return seconds * (1 + sum(LOOKS.get(look, 0.0) for look in job.looks))
