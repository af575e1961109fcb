"""Writes and reads a model folder. Knows nothing of methods: a model here is facts, tensors, words and label names.

model.json           method, config, sizes, metrics, provenance        manifest.json   size and sha256 of every file
model.safetensors    the ranker's tensors, the labels' counts and,     README.md       the model card
                     where there are sub-words, their buckets' counts
vocabulary.txt       a word and the number of texts that have it, a line
labels.txt           a label name a line; label_texts.txt, where labels have one, in the same order
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from laconic.card import model_card
from laconic.data.corpus import Labels
from laconic.data.vocabulary import Vocabulary
from laconic.errors import ModelError, UserError
from laconic.files import replacing

FORMAT = 1
FINISHED = "finished"  # in a run folder that was kept: nothing goes on there
RUN = "run"  # the folder of an unfinished run, inside the model folder that it will fill
_LARGEST_JSON = 16 * 2**20
_COUNTS = "label_counts"
_SUBWORDS = "subword_counts"
_RANKER = "ranker."


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedModel:
    """Everything that a model folder holds."""

    facts: Mapping[str, Any]  # model.json
    tensors: Mapping[str, Tensor]
    labels: Labels
    label_counts: Int[np.ndarray, "labels"]
    vocabulary: Vocabulary | None  # None: the model reads features, not texts


def write_model(
    model: SavedModel,
    folder: Path,
    *,
    pictures: Mapping[str, Callable[[Path], None]] | None = None,
    keep_run: bool = False,
) -> None:
    """The folder appears whole; an older model of that name goes away in the same step."""
    check_free(folder)
    tensors = {_RANKER + name: tensor.contiguous() for name, tensor in model.tensors.items()}
    tensors[_COUNTS] = torch.from_numpy(model.label_counts)
    if model.vocabulary is not None and len(model.vocabulary.subword_counts):
        tensors[_SUBWORDS] = torch.from_numpy(model.vocabulary.subword_counts)
    facts = {"format": FORMAT, **model.facts, "vocabulary": _vocabulary_facts(model.vocabulary)}
    with replacing(folder) as partial:
        _write_lines(partial / "labels.txt", model.labels.names)
        save_tensors(tensors, partial / "model.safetensors")
        shutil.copymode(partial / "labels.txt", partial / "model.safetensors")  # it is made for its owner alone
        if model.labels.texts is not None:
            _write_lines(partial / "label_texts.txt", model.labels.texts)
        if model.vocabulary is not None:
            counted = zip(model.vocabulary.words, model.vocabulary.text_counts, strict=True)
            _write_lines(partial / "vocabulary.txt", [f"{word}\t{count}" for word, count in counted])
        (partial / "model.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (partial / "README.md").write_text(model_card(facts), encoding="utf-8")
        for name, draw in (pictures or {}).items():
            draw(partial / name)
        (partial / "manifest.json").write_text(json.dumps(_manifest(partial), indent=2) + "\n", encoding="utf-8")
        if keep_run and (folder / RUN).exists():
            shutil.copytree(folder / RUN, partial / RUN)
            (partial / RUN / FINISHED).touch()


def check_free(folder: Path) -> None:
    """A model may take the place of a model or of its own unfinished run, and of nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: this is a file; choose another name for the model folder")
    foreign = {path.name for path in folder.iterdir()} - _own_files(folder)
    if foreign:
        raise UserError(
            f"{folder}: it holds {sorted(foreign)[0]!r}, which is not of a model and would be lost; choose another name"
        )


def _own_files(folder: Path) -> set[str]:
    """What we wrote into a folder, by its manifest; where that is not ours, nothing but a run."""
    try:
        manifest = _json_object(folder / "manifest.json")
    except ModelError:
        return {RUN}
    match manifest:
        case {"format": int(), "files": dict(files)}:
            return {RUN, "manifest.json", *files}
    return {RUN}


def read_model(folder: Path, *, verify: bool = False) -> SavedModel:
    """The model, after a check of every file's size; with `verify`, of every byte."""
    _check_manifest(folder, verify=verify)
    facts = _json_object(folder / "model.json")
    if facts.get("format") != FORMAT:
        raise ModelError(f"{folder}: the model has format {facts.get('format')!r}, but this version reads {FORMAT}")
    _check_facts(facts, folder)
    tensors = _tensors(folder / "model.safetensors")
    names, texts = _lines(folder / "labels.txt"), folder / "label_texts.txt"
    labels = Labels(names=names, texts=_lines(texts) if texts.exists() else None)
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
    )


def save_tensors(tensors: Mapping[str, Tensor], path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Writes a safetensors file; a full disk is the same error as anywhere else."""
    try:
        save_file(dict(tensors), path, None if facts is None else dict(facts))
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error)) from None


def _check_facts(facts: Mapping[str, Any], folder: Path) -> None:
    """What everybody who opens a model relies on."""
    match facts:
        case {
            "laconic": str(),
            "method": str(),
            "config": dict(),
            "inputs": "text" | "sparse" | "dense",
            "sizes": {"labels": int(), "texts": int(), "pairs": int(), "inputs": int()},
            "data": {"name": str()},
            "propensity": {"a": float(), "b": float()},
            "created": str(),
        }:
            return
    raise ModelError(f"{folder}/model.json: it lacks what a model must say of itself; copy the model again")


def _manifest(folder: Path) -> dict[str, Any]:
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
    return {"format": FORMAT, "files": files}


def _check_manifest(folder: Path, *, verify: bool) -> None:
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such model folder")
    if not (folder / "manifest.json").exists():
        raise ModelError(f"{folder}: this is not a model folder: it has no manifest.json")
    files = _json_object(folder / "manifest.json").get("files")
    if not isinstance(files, dict):
        raise ModelError(f"{folder}/manifest.json: it does not list the model's files")
    for name, entry in files.items():
        path = folder / Path(name).name
        if not isinstance(entry, dict) or not path.is_file():
            raise ModelError(f"{path}: the manifest lists this file, but it is not there; copy the model again")
        size, announced = path.stat().st_size, entry.get("bytes")
        if size != announced:
            raise ModelError(f"{path}: {size} bytes, but the manifest says {announced!r}; copy the model again")
        if verify and _sha256(path) != entry.get("sha256"):
            raise ModelError(f"{path}: its content is not what was written (sha256 differs); copy the model again")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ModelError(f"{path}: this file of the model is missing; copy the model again")
    if path.stat().st_size > _LARGEST_JSON:
        raise ModelError(f"{path}: {path.stat().st_size:,} bytes is too large for such a file; it was not opened")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON ({error}); copy the model again") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path}: a JSON object is needed here; copy the model again")
    return value


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a whole safetensors file ({error}); copy the model again") from None
    return tensors


def _vocabulary_facts(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {
        "num_texts": vocabulary.num_texts,
        "sublinear": vocabulary.sublinear,
        "subwords": len(vocabulary.subword_counts),
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
            )
    raise ModelError(f"{folder}/model.json: num_texts and sublinear of the vocabulary are needed, but it has {facts!r}")


def _check_subwords(counts: Tensor, announced: Any, num_texts: int, folder: Path) -> None:
    """A model from before there were sub-words announces none."""
    fits = counts.dtype == torch.int64 and counts.shape == (announced,)
    if not fits or (len(counts) and not 0 <= int(counts.min()) <= int(counts.max()) <= num_texts):
        raise ModelError(
            f"{folder}/model.safetensors: {_SUBWORDS} must be {announced!r} whole numbers from 0 to {num_texts}, but "
            "is not; copy the model again"
        )


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    """One entry a line; a line end inside an entry is written as a backslash and a letter."""
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
