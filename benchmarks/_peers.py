"""What others have on the test splits, one run each with their own defaults; a text's pair with itself is left out.

P@1, P@5, PSP@5 and recall@10 of labels with few texts, in per cent.
"""

from __future__ import annotations

from collections.abc import Mapping

PEERS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "debian-related": {
        "omikuji, Parabel-like": (63.1, 31.0, 19.8, 5.4),
        "omikuji, Bonsai-like": (62.9, 31.0, 20.6, 6.6),
        "PECOS, XR-Linear": (62.4, 30.2, 19.6, 5.6),
        "PECOS and label texts": (63.9, 31.4, 29.3, 23.8),
        "InceptionXML, its authors' code, self pairs kept": (60.1, 30.0, 20.5, 6.7),
    },
    "npm-names-deps": {
        "omikuji, Bonsai-like": (43.0, 21.8, 29.5, 24.9),
        "PECOS, XR-Linear": (41.9, 21.2, 28.4, 23.2),
        "PECOS, nearest texts and label texts": (42.7, 21.6, 29.9, 28.8),
        "InceptionXML, its authors' code": (41.7, 21.6, 30.2, 25.8),
    },
    "yso-titles": {
        "omikuji, Parabel-like": (36.0, 16.0, 35.3, 16.1),
        "omikuji, Bonsai-like": (37.1, 16.5, 36.7, 18.9),
        "PECOS, XR-Linear": (34.9, 15.4, 34.0, 16.6),
        "InceptionXML, its authors' code": (36.8, 16.5, 36.0, 8.1),
    },
    "eurlex57k-titles": {
        "omikuji, Bonsai-like": (91.4, 67.5, 63.4, 25.6),
        "PECOS, XR-Linear": (90.1, 67.0, 62.8, 23.7),
    },
}


def shown(data: str, names: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """The figures of some of them, by the names that a table gives them; those that were run on the data."""
    return {name: PEERS[data][peer] for name, peer in names.items() if peer in PEERS[data]}
