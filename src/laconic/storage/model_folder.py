"""Write and read model folders: facts, tensors, vocabulary and label names.

model.json           method, config, sizes, metrics, provenance        manifest.json   size and sha256 of every file
model.safetensors    the ranker's tensors, the labels' counts and,     README.md       the model card
                     where there are sub-words, their buckets' counts; in several files where that was wanted
vocabulary.txt       a word and the number of texts that have it, a line
labels.txt           a label name a line; label_texts.txt, where labels have one, in the same order
label_attributes.txt a value of an attribute a line, where labels have attributes; label_attributes.safetensors has the
                     labels of each value
training_texts.safetensors   hashes of the training texts (data/sketch.py); models from before there were any have none
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from laconic.config import configure
from laconic.data.attributes import LabelAttributes, checked_names
from laconic.data.corpus import Labels
from laconic.data.evaluation_texts import TrainedOn
from laconic.data.pieces import read_pieces
from laconic.data.sketch import TextSketch
from laconic.data.text import Splitter
from laconic.data.vocabulary import Vocabulary
from laconic.errors import ConfigError, ModelError
from laconic.storage.card import model_card
from laconic.storage.facts import ModelFacts, without_stale_curve
from laconic.storage.json_files import write_json
from laconic.storage.manifest import (
    PACKED,
    PACKED_MODEL,
    check_manifest,
    check_replaceable,
    json_object,
    write_manifest,
)
from laconic.storage.tensors import (
    Storage,
    read_tensors,
    save_tensors,
    storage_facts,
    storage_of,
    tensors_of,
    write_tensors,
)
from laconic.system.files import check_writable, left_behind, replacing
from laconic.system.locks import locked

FORMAT = 1
CARD = "README.md"
FINISHED = "finished"  # in a run folder that was kept: nothing goes on there
RUN = "run"  # the folder of an unfinished run, inside the model folder that it will fill
_COUNTS = "label_counts"
_SUBWORDS = "subword_counts"
_RANKER = "ranker."
_STORAGE = "storage"
_TRAINING_TEXTS = "training_texts"
_ATTRIBUTES = "label_attributes"


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedModel:
    """Everything that a model folder holds."""

    facts: Mapping[str, Any]  # model.json
    tensors: Mapping[str, Tensor]
    labels: Labels
    label_counts: Int[np.ndarray, "labels"]
    vocabulary: Vocabulary | None  # None: the model reads features, not texts
    sketch: TextSketch | None = None  # of the training texts; None: the model does not tell

    @property
    def about(self) -> ModelFacts:
        """Return the facts with typed access."""
        return ModelFacts(self.facts)

    @property
    def label_names(self) -> Sequence[str]:
        return self.labels.names

    @property
    def label_attributes(self) -> LabelAttributes | None:
        return self.labels.attributes

    @property
    def splitter(self) -> Splitter:
        """Return the splitter of the model's settings."""
        try:
            return configure(Splitter, self.facts["config"]["text"])
        except (ConfigError, KeyError, TypeError) as error:
            raise ModelError(f"the model's settings are not those of this version: {error}") from None


def write_model(
    model: SavedModel,
    folder: Path,
    *,
    pictures: Mapping[str, Callable[[Path], None]] | None = None,
    keep_run: bool = False,
    storage: Storage | None = None,
    add: Callable[[Path], None] | None = None,
) -> None:
    """Write the folder atomically, replacing an older model of that name.

    `storage` None: as the model was stored when it was read, if it was; else in one file. `add` is called with the
    folder of the whole model before it takes its place, to add the packed model.
    """
    check_free(folder)
    tensors = {_RANKER + name: tensor.contiguous() for name, tensor in model.tensors.items()}
    tensors[_COUNTS] = torch.from_numpy(model.label_counts)
    if model.vocabulary is not None and len(model.vocabulary.subword_counts):
        tensors[_SUBWORDS] = torch.from_numpy(model.vocabulary.subword_counts)
    storage = storage or storage_of(model.facts.get(_STORAGE), folder)[0]
    facts = {"format": FORMAT, **model.facts, "vocabulary": _vocabulary_facts(model.vocabulary)}
    facts[_TRAINING_TEXTS] = None if model.sketch is None else model.sketch.facts()
    attributes = model.labels.attributes
    facts.pop(_ATTRIBUTES, None)
    if attributes is not None:
        facts[_ATTRIBUTES] = list(attributes.names)
    with replacing(folder) as partial:
        _write_lines(partial / "labels.txt", model.labels.names)
        paths = write_tensors(tensors, partial, storage)
        facts[_STORAGE] = storage_facts(storage, len(paths))
        if model.sketch is not None:
            paths.append(_write_sketch(model.sketch, partial))
        if attributes is not None:
            paths.append(_write_attributes(attributes, partial))
        for path in paths:
            shutil.copymode(partial / "labels.txt", path)  # they are made for their owner alone
        if model.labels.texts is not None:
            _write_lines(partial / "label_texts.txt", model.labels.texts)
        if model.vocabulary is not None:
            counted = zip(model.vocabulary.words, model.vocabulary.text_counts, strict=True)
            _write_lines(partial / "vocabulary.txt", [f"{word}\t{count}" for word, count in counted])
        write_json(partial / "model.json", facts)
        (partial / CARD).write_text(model_card(facts), encoding="utf-8")
        for name, draw in (pictures or {}).items():
            draw(partial / name)
        write_manifest(partial, format=FORMAT)
        if keep_run and (folder / RUN).exists():
            shutil.copytree(folder / RUN, partial / RUN)
            (partial / RUN / FINISHED).touch()
        if add is not None:
            add(partial)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a model folder from reading or training a model until it is written.

    Refuse a folder that another process writes, or that `check_free` refuses.
    """
    check_free(folder)
    with locked(folder):
        yield


def check_free(folder: Path) -> None:
    """Refuse a folder that holds anything but a model, its packed model or its own unfinished run.

    A packed model that training kept alone, which has the card of a model, may be replaced like any other model.
    """
    packed = folder / PACKED
    besides = [RUN, PACKED, *(path.name for path in left_behind(packed))]
    alone = (PACKED_MODEL,) if (folder / CARD).exists() else ()
    check_replaceable(folder, also=alone, besides=besides)
    check_replaceable(packed, kind=PACKED_MODEL)
    check_writable(folder)


def read_model(folder: Path, *, verify: bool = True) -> SavedModel:
    """Read a model after checking the content of its files, or without `verify` their sizes alone."""
    facts = read_facts(folder, verify=verify)
    _, files = storage_of(facts.get(_STORAGE), folder / "model.json")
    tensors = read_tensors(folder, files)
    names, texts = _lines(folder / "labels.txt"), folder / "label_texts.txt"
    attributes = _read_attributes(folder, facts.get(_ATTRIBUTES), len(names))
    labels = Labels(names=names, texts=_lines(texts) if texts.exists() else None, attributes=attributes)
    counts = tensors.pop(_COUNTS, torch.zeros(0)).numpy()
    subwords = tensors.pop(_SUBWORDS, torch.zeros(0, dtype=torch.int64))
    sizes = {"labels.txt": len(names), "label_counts": len(counts), "label_texts.txt": len(labels.texts or names)}
    if len(set(sizes.values())) != 1 or len(set(names)) != len(names):
        raise ModelError(f"{folder}: the labels do not fit together ({sizes}, {len(set(names))} different names)")
    return SavedModel(
        facts=facts,
        tensors={name.removeprefix(_RANKER): tensor for name, tensor in tensors.items()},
        labels=labels,
        label_counts=counts,
        vocabulary=_read_vocabulary(folder, facts.get("vocabulary"), subwords),
        sketch=_read_sketch(folder, facts.get(_TRAINING_TEXTS)),
    )


def read_facts(folder: Path, *, verify: bool = False) -> ModelFacts:
    """Read model.json after checking the sizes of all files; with `verify`, their content."""
    check_manifest(folder, verify=verify)
    facts = ModelFacts(json_object(folder / "model.json"))
    if facts.get("format") != FORMAT:
        raise ModelError(f"{folder}: the model has format {facts.get('format')!r}, but this version reads {FORMAT}")
    facts.check(folder)
    return ModelFacts(without_stale_curve(facts))  # earlier versions kept one


def read_trained_on(folder: Path) -> TrainedOn:
    """Read what a model stores of its training texts."""
    facts = read_facts(folder)
    return TrainedOn.of(facts, _read_sketch(folder, facts.get(_TRAINING_TEXTS)))


def read_label_names(folder: Path) -> list[str]:
    """Read the names of a model's labels alone."""
    return _lines(folder / "labels.txt")


def _vocabulary_facts(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {
        "num_texts": vocabulary.num_texts,
        "sublinear": vocabulary.sublinear,
        "subwords": len(vocabulary.subword_counts),
        **({} if vocabulary.pieces is None else {"pieces": asdict(vocabulary.pieces)}),
    }


def _read_vocabulary(folder: Path, facts: Any, subwords: Tensor) -> Vocabulary | None:
    if facts is None:
        return None
    words, counts = list[str](), list[int]()
    for number, line in enumerate(_lines(folder / "vocabulary.txt"), 1):
        word, _, count = line.partition("\t")
        if not word or not count.isdecimal() or len(count) > 18:
            raise ModelError(
                f"{folder}/vocabulary.txt:{number}: a word and its count are needed, but the line is {line!r}"
            )
        words.append(word)
        counts.append(int(count))
    match facts:
        case {"num_texts": int(num_texts), "sublinear": bool(sublinear), **others}:
            _check_subwords(subwords, others.get("subwords", 0), num_texts, folder)
            return Vocabulary(
                words=words,
                text_counts=np.array(counts, dtype=np.int64),
                num_texts=num_texts,
                sublinear=sublinear,
                subword_counts=subwords.numpy(),
                pieces=read_pieces(others.get("pieces"), words, folder / "model.json"),
            )
    raise ModelError(f"{folder}/model.json: num_texts and sublinear of the vocabulary are needed, but it has {facts!r}")


def _check_subwords(counts: Tensor, expected: Any, num_texts: int, folder: Path) -> None:
    """Refuse sub-word counts that differ from the facts; older models have none."""
    fits = counts.dtype == torch.int64 and counts.shape == (expected,)
    if not fits or (len(counts) and not 0 <= int(counts.min()) <= int(counts.max()) <= num_texts):
        raise ModelError(
            f"{folder}/model.safetensors: {_SUBWORDS} must be {expected!r} integers from 0 to {num_texts}, but "
            "is not; copy the model again"
        )


def _write_sketch(sketch: TextSketch, folder: Path) -> Path:
    """Write the hashes of the training texts as signed 64-bit integers, which torch supports."""
    path = folder / f"{_TRAINING_TEXTS}.safetensors"
    save_tensors({"hashes": torch.from_numpy(sketch.hashes.view(np.int64))}, path)
    return path


def _read_sketch(folder: Path, facts: Any) -> TextSketch | None:
    if facts is None:
        return None
    path = folder / f"{_TRAINING_TEXTS}.safetensors"
    hashes = tensors_of(path).get("hashes", torch.zeros(0)).numpy()
    hashes = hashes.view(np.uint64) if hashes.dtype == np.int64 else hashes
    if not TextSketch.fits(hashes, facts):
        raise ModelError(f"{path}: these are not the {facts!r} that model.json speaks of; copy the model again")
    return TextSketch(hashes=hashes, complete=facts["complete"])


def _write_attributes(attributes: LabelAttributes, folder: Path) -> Path:
    """Write the values of attributes and the labels of each; return the file of numbers."""
    _write_lines(folder / f"{_ATTRIBUTES}.txt", attributes.values)
    path = folder / f"{_ATTRIBUTES}.safetensors"
    parts = {"bounds": attributes.bounds, "starts": attributes.starts, "labels": attributes.labels}
    save_tensors({name: torch.from_numpy(np.array(part)) for name, part in parts.items()}, path)
    return path


def _read_attributes(folder: Path, names: Any, num_labels: int) -> LabelAttributes | None:
    if names is None:
        return None
    path = folder / f"{_ATTRIBUTES}.safetensors"
    none = torch.zeros(0)
    tensors = {name: part for name, part in tensors_of(path).items() if part.dtype in (torch.int32, torch.int64)}
    parts = {name: tensors.get(name, none).numpy() for name in ("bounds", "starts", "labels")}
    values = _lines(folder / f"{_ATTRIBUTES}.txt")
    return LabelAttributes(names=checked_names(names, path), values=values, num_labels=num_labels, **parts).checked()


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write one entry per line; line ends inside an entry are escaped by a backslash."""
    escaped = (line.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") for line in lines)
    path.write_text("".join(line + "\n" for line in escaped), encoding="utf-8", newline="\n")


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); copy the model again") from None
    return [_unescaped(line) for line in text.split("\n")[:-1]]


def _unescaped(line: str) -> str:
    if "\\" not in line:
        return line
    parts = line.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)
