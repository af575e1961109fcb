"""Make what the guides for users of other libraries take for granted: the same texts in the files of each library.

They are descriptions of Debian packages with the packages that each needs, and stand for the reader's own. Beside this
file is what the libraries themselves answered on them, by the code that the guides show: fastText 0.9.2 (with one
thread) in fasttext.txt, omikuji 0.5.2 in omikuji.jsonl, PECOS 1.2.8 in pecos.npz.
"""

import csv
import gzip
import json
from pathlib import Path

from scipy.sparse import csr_matrix, save_npz
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from laconic.data.catalogue import BUNDLED


def packages(split, step):
    with gzip.open(BUNDLED["debian-related"] / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][::step]


def write(name, lines):
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def address(name):
    return f"<https://packages.debian.org/{name}>"


splits = {"train": packages("train", 15), "test": packages("test", 50)}
for split, found in splits.items():
    # fastText
    prefixed = [[f"__label__{name}" for name in one["labels"]] for one in found]
    write(
        f"{split}.txt", [" ".join([*labels, one["text"].lower()]) for labels, one in zip(prefixed, found, strict=True)]
    )
    # Annif
    write(f"{split}.tsv", [f"{one['text']}\t{' '.join(map(address, one['labels']))}" for one in found])
    # scikit-learn
    with open(f"{split}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "labels"], *([one["text"], "|".join(one["labels"])] for one in found)])

# PECOS and omikuji: texts with numbers of labels, and matrices
names = sorted({name for one in splits["train"] for name in one["labels"]})
number = {name: at for at, name in enumerate(names)}
write("labels.txt", names)
write("vocabulary.tsv", [f"{address(name)}\t{name}" for name in names])
words, binary = TfidfVectorizer(), MultiLabelBinarizer(classes=names, sparse_output=True)
words.fit(one["text"] for one in splits["train"])
for split, short in (("train", "trn"), ("test", "tst")):
    known = [[name for name in one["labels"] if name in number] for one in splits[split]]
    numbers = [",".join(str(number[name]) for name in labels) for labels in known]
    write(f"{short}.txt", [f"{ids}\t{one['text']}" for ids, one in zip(numbers, splits[split], strict=True)])
    rows = csr_matrix(words.transform(one["text"] for one in splits[split]), dtype="float32")
    save_npz(f"X.{short}.npz", rows)
    save_npz(f"Y.{short}.npz", csr_matrix(binary.fit_transform(known), dtype="float32"))
    # the file of both that omikuji reads
    features = [zip(row.indices, row.data, strict=True) for row in rows]
    pairs = [" ".join(f"{column}:{value:.6g}" for column, value in row) for row in features]
    Path("sparse").mkdir(exist_ok=True)
    sizes = f"{rows.shape[0]} {rows.shape[1]} {len(names)}"
    write(f"sparse/{split}.txt", [sizes, *(f"{ids} {row}" for ids, row in zip(numbers, pairs, strict=True))])
