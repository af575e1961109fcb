"""Our versions of the DECAF paper's Figures 5 and 6, as PNG files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laconic.plots import COLOURS, canvas, write_picture


def plot_ensembles(figures: Mapping[str, Any], most: int, path: Path) -> None:
    """What each further instance brings (Figure 5)."""
    figure, axes = canvas("What an ensemble wins over a single instance")
    sizes = list(range(1, most + 1))
    for name, colour in zip(("P@1", "P@5", "PSP@1", "PSP@5"), COLOURS, strict=False):
        values = [figures[name if size == 1 else f"{size} instances: {name}"]["mean"] for size in sizes]
        won = [value - values[0] for value in values]
        axes.plot(sizes, won, color=colour, marker=".", label=f"{name} ({values[0]:.1f} alone)")
    axes.set_xticks(sizes)
    axes.set_xlabel("instances, which share the surrogate task")
    axes.set_ylabel("points")
    axes.legend(frameon=False)
    write_picture(figure, path)


def plot_recalls(recalls: Mapping[int, Mapping[str, float]], path: Path) -> None:
    """True labels of held-out texts in the clusters opened, by how many labels these have (Figure 6)."""
    figure, axes = canvas("Recall by beam, for each fan-out")
    for (clusters, found), colour in zip(sorted(recalls.items()), COLOURS, strict=False):
        beams = [int(beam) for beam in found]
        axes.plot(
            [beam / clusters for beam in beams],
            [100 * share for share in found.values()],
            color=colour,
            marker=".",
            label=f"{clusters:,} clusters",
        )
    axes.axhline(85, color="0.4", linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("share of all labels that are scored (beam over clusters, logarithmic)")
    axes.set_ylabel("true labels found (%)")
    axes.legend(frameon=False, loc="lower right")
    write_picture(figure, path)
