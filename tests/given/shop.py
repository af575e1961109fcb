"""Make what a page takes for granted: tables of texts and labels, and lists of them.

They are descriptions of Debian packages with the packages that each needs, and stand for the reader's own files.
"""

import csv
import gzip
import json

from laconic.data.catalogue import BUNDLED


def write(name: str, columns: list[str], rows: list[list[str]]) -> None:
    with open(name, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerows([columns, *rows])


with gzip.open(BUNDLED["debian-related"] / "train.jsonl.gz", "rt", encoding="utf-8") as file:
    packages = [json.loads(line) for line in file][::75]
texts, labels = [one["text"] for one in packages], [one["labels"] for one in packages]
rows = [[text, "|".join(names)] for text, names in zip(texts, labels, strict=True)]
write("shop.csv", ["text", "labels"], rows[:450])
write("titles.csv", ["sku", "title"], [["17", "chess engine"], ["18", "photo editor"]])
texts, labels, new_texts, new_labels = texts[:450], labels[:450], texts[450:500], labels[450:500]
