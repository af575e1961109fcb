"""What others report, to stand beside our figures: the InceptionXML paper's tables, and peers measured once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.shapes import PAPER_SHAPES
from laconic.costs import Shape

PLUS, BASE = "InceptionXML+", "InceptionXML"


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A row of Table 4 (the hours of AmazonTitles-3M stand in section 6.2), with the epochs of Table 7."""

    hours: float
    epochs: int
    gflops: float | None = None
    milliseconds: float | None = None
    gigabytes: float | None = None


PRINTED = {
    "AmazonTitles-670K": {
        PLUS: Printed(gflops=0.049, hours=4.3, milliseconds=4.67, gigabytes=1.4, epochs=35),
        BASE: Printed(gflops=0.334, hours=7.7, milliseconds=7.97, gigabytes=1.3, epochs=42),
    },
    "WikiSeeAlsoTitles-350K": {
        PLUS: Printed(gflops=0.027, hours=4.3, milliseconds=4.36, gigabytes=0.80, epochs=30),
        BASE: Printed(gflops=0.176, hours=6.3, milliseconds=5.60, gigabytes=0.73, epochs=42),
    },
    "WikiTitles-500K": {
        PLUS: Printed(gflops=0.029, hours=10.3, milliseconds=4.37, gigabytes=1.2, epochs=27),
        BASE: Printed(gflops=0.247, hours=13.5, milliseconds=6.45, gigabytes=1.1, epochs=33),
    },
    "AmazonTitles-3M": {PLUS: Printed(hours=27.2, epochs=35)},
}

TABLE_5 = {
    "AmazonTitles-670K": ({"P@3": 37.04, "P@5": 33.92}, {"P@3": (36.01, 0.05), "P@5": (32.86, 0.03)}),
    "WikiSeeAlsoTitles-350K": ({"P@3": 14.61, "P@5": 11.44}, {"P@3": (14.45, 0.03), "P@5": (11.32, 0.02)}),
}

OURS, ATTACHED, LIGHTXML = "Ours", "w/o detaching", "in LightXML's framework"
TABLE_6 = {
    "8K, 100": {
        OURS: {"P@1": 40.26, "P@5": 32.75, "PSP@1": 26.05, "PSP@5": 31.21},
        ATTACHED: {"P@1": 40.13, "P@5": 32.68, "PSP@1": 25.75, "PSP@5": 31.07},
        LIGHTXML: {"P@1": 39.40, "P@5": 32.36, "PSP@1": 25.14, "PSP@5": 30.38},
    },
    "16K, 200": {
        OURS: {"P@1": 40.67, "P@5": 33.27, "PSP@1": 26.34, "PSP@5": 31.81},
        ATTACHED: {"P@1": 40.51, "P@5": 32.95, "PSP@1": 26.03, "PSP@5": 31.36},
        LIGHTXML: {"P@1": 39.47, "P@5": 32.43, "PSP@1": 24.89, "PSP@5": 30.67},
    },
    "32K, 400": {
        OURS: {"P@1": 41.01, "P@5": 33.65, "PSP@1": 26.75, "PSP@5": 32.32},
        ATTACHED: {"P@1": 40.24, "P@5": 33.09, "PSP@1": 26.07, "PSP@5": 31.67},
        LIGHTXML: {"P@1": 39.58, "P@5": 34.81, "PSP@1": 24.45, "PSP@5": 30.73},  # 34.81: a misprint, most likely
    },
    "65K, 800": {
        OURS: {"P@1": 41.51, "P@5": 34.39, "PSP@1": 27.25, "PSP@5": 32.89},
        ATTACHED: {"P@1": 40.47, "P@5": 33.23, "PSP@1": 26.40, "PSP@5": 31.97},
        LIGHTXML: {"P@1": 39.27, "P@5": 32.77, "PSP@1": 23.54, "PSP@5": 30.54},
    },
}

# debian-related, default settings, one run each, training seconds on two CPU cores; self pairs left out of predictions.
PEERS = {
    "fastText": ({"P@1": 53.2, "P@3": 33.4, "P@5": 25.0, "PSP@1": 12.2, "PSP@5": 14.1}, 4.6),
    "PECOS XR-Linear": ({"P@1": 62.4, "P@3": 40.3, "P@5": 30.2, "PSP@1": 14.8, "PSP@5": 19.6}, 6.5),
    "omikuji, Parabel-like": ({"P@1": 63.1, "P@3": 41.2, "P@5": 31.0, "PSP@1": 14.5, "PSP@5": 19.8}, 14.0),
    "napkinXC PLT": ({"P@1": 62.0, "P@3": 40.4, "P@5": 30.5, "PSP@1": 13.6, "PSP@5": 18.3}, 18.0),
    "omikuji, Bonsai-like": ({"P@1": 62.9, "P@3": 41.0, "P@5": 31.0, "PSP@1": 15.0, "PSP@5": 20.6}, 30.0),
}
# The authors' code of InceptionXML+: 28 epochs, 4,096 clusters, K = 100, pairs kept, one run.
AUTHORS_PLUS = {"P@1": 60.2, "P@3": 39.0, "P@5": 29.5, "PSP@1": 16.4, "PSP@5": 20.4}


def paper_shape(name: str, *, length: int, clusters: int) -> Shape:
    data = PAPER_SHAPES[name]
    # The published sizes count padding among the words, but not the unknown word.
    return Shape(words=data.words + 1, labels=data.labels, length=length, clusters=clusters, top=800)


def without_clusters(shape: Shape) -> Shape:
    return replace(shape, clusters=0, top=0)


SHAPES = {  # the lengths with which Table 4's arithmetic comes out
    "AmazonTitles-670K": paper_shape("AmazonTitles-670K", length=32, clusters=65_536),
    "WikiSeeAlsoTitles-350K": paper_shape("WikiSeeAlsoTitles-350K", length=14, clusters=32_768),
    "WikiTitles-500K": paper_shape("WikiTitles-500K", length=14, clusters=32_768),
}
