"""Laconic as a backend of Annif, beside backends of Annif's own: one vocabulary, the same titles, Annif's metrics.

Annif lives in an environment of its own, in which laconic is installed too:

    make test-annif
    build/annif/bin/python -m pip install 'annif[omikuji,fasttext]'     they may have to be built
    build/annif/bin/python -m nltk.downloader -d build/annif/nltk_data punkt_tab
    python -m benchmarks.annif_backends --annif build/annif/bin/annif

Every step is a command of Annif: load-vocab, train, suggest, eval. The first records of yso-titles are used.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common import data_folder, save_beside

TRAIN, TEST = 20_000, 5_000  # records
METRICS = ("F1@5", "NDCG", "NDCG@5", "Precision@1", "Precision@5")
QUESTION = "Heating a house with solar energy"
# omikuji's settings are the Bonsai-like ones. fastText learns little from few titles in 5 epochs, so that it is tried
# with a higher learning rate and more epochs too.
_FASTTEXT = {"backend": "fasttext", "dim": "500", "lr": "0.25", "epoch": "5", "loss": "hs", "chunksize": "24"}
PROJECTS = {
    "mllm": {"backend": "mllm"},
    "fasttext": _FASTTEXT,
    "fasttext-long": _FASTTEXT | {"lr": "1", "epoch": "50"},
    "omikuji": {"backend": "omikuji", "cluster_balanced": "False", "cluster_k": "100", "max_depth": "3"},
    "ensemble": {"backend": "ensemble", "sources": "mllm,omikuji"},
    "laconic-nearest": {"backend": "laconic", "method": "nearest"},
    "laconic-trees": {"backend": "laconic", "method": "trees"},
    "laconic-auto": {"backend": "laconic"},
}
COMMON = {"language": "en", "vocab": "yso", "analyzer": "snowball(english)", "limit": "100"}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.annif_backends", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--annif", type=Path, default=Path("build/annif/bin/annif"), help="Annif's command")
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help=f"some of {', '.join(PROJECTS)}; all by default")
    given = parser.parse_args()
    data = data_folder("yso-titles")
    if data is None or not given.annif.exists():
        print(f"{'yso-titles' if data is None else given.annif}: not here, left out")
        return
    wanted = given.projects or list(PROJECTS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(data, folder)
        annif = Annif(given.annif.absolute(), folder)
        annif("load-vocab", "yso", "vocabulary.tsv", "--language", "en")
        known = {"annif": annif("--version").strip(), "train_texts": TRAIN, "test_texts": TEST}
        save_beside("annif_backends", "about", known)
        for name in wanted:
            save_beside("annif_backends", name, annif.measure(name))


class Annif:
    """Annif's command, run in a folder with its projects."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder

    def __call__(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [self.path, *arguments], cwd=self.folder, input=given, capture_output=True, text=True, env=_environment()
        )
        if done.returncode:
            raise SystemExit(f"annif {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout

    def measure(self, name: str) -> dict[str, Any]:
        """Train a project and evaluate it; return its figures."""
        seconds = {}
        started = time.perf_counter()
        if PROJECTS[name]["backend"] != "ensemble":
            self("train", name, "train.tsv")
        seconds["train"] = time.perf_counter() - started
        suggested = self("suggest", name, "--limit", "3", given=QUESTION)
        started = time.perf_counter()
        asked = [part for metric in METRICS for part in ("--metric", metric)]
        self("eval", name, "test.tsv", *asked, "--metrics-file", f"{name}.json")
        seconds["eval"] = time.perf_counter() - started
        found = json.loads((self.folder / f"{name}.json").read_text())
        return {
            "settings": PROJECTS[name],
            "seconds": {what: round(one, 1) for what, one in seconds.items()},
            "metrics": {metric: round(100 * found[metric], 2) for metric in METRICS},
            "suggested": [line.split("\t")[1] for line in suggested.splitlines() if line.startswith("<")],
        }


def write_files(data: Path, folder: Path) -> None:
    """Write the vocabulary, the corpora and the projects as Annif reads them."""
    labels = list(_records(data / "labels.jsonl.gz"))
    vocabulary = (f"<{label['id']}>\t{label['text']}\n" for label in labels)
    (folder / "vocabulary.tsv").write_text("".join(vocabulary), encoding="utf-8")
    for split, count in (("train", TRAIN), ("test", TEST)):
        with (folder / f"{split}.tsv").open("w", encoding="utf-8") as file:
            for record in islice(_records(data / f"{split}.jsonl.gz"), count):
                subjects = " ".join(f"<{labels[number]['id']}>" for number in record["labels"])
                file.write(f"{' '.join(record['text'].split())}\t{subjects}\n")
    sections = (
        "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in ({"name": name} | COMMON | own).items()), ""])
        for name, own in PROJECTS.items()
    )
    (folder / "projects.cfg").write_text("\n".join(sections), encoding="utf-8")


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _environment() -> dict[str, str]:
    return os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}


if __name__ == "__main__":
    main()
