"""Reads and writes the folder of a packed model; its arrays and strings are memory-mapped.

packed.json          method, sizes, where the model came from, how its parts are put together
arrays.safetensors   the parts' arrays, the vocabulary's counts, where strings begin     manifest.json   as of a model
                     (compact.py: some of them in fewer bytes)
labels.utf8          the labels' names, one after another; vocabulary.utf8
label_texts.utf8     where labels have one: their texts; up to 4 MB they are an array of that name
attributes.utf8      values of the labels' attributes, where there are any
texts.utf8           the training texts, where the user chose to keep them (kept_texts.py)

Among the arrays are the hashes of the training texts (data/sketch.py); packed models from before have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from laconic.config import configure, settings_of
from laconic.data.attributes import LabelAttributes, checked_names
from laconic.data.pieces import read_pieces
from laconic.data.sketch import TextSketch
from laconic.data.text import Splitter
from laconic.data.vocabulary import Vocabulary
from laconic.errors import ConfigError, ModelError
from laconic.kernels.checks import check_array, check_numbers
from laconic.packed.arrays import map_arrays, named_array, write_arrays
from laconic.packed.compact import compacted, expanded
from laconic.packed.deflated import SMALL
from laconic.packed.engine import PARTS
from laconic.packed.engine.parts import Part, flattened, restored
from laconic.packed.engine.ranker import PackedRanker, nesting
from laconic.packed.kept_texts import KeptTexts, open_texts, write_texts
from laconic.packed.strings import LabelNames, NameIndex, Strings, write_strings
from laconic.storage.json_files import write_json
from laconic.storage.manifest import (
    PACKED_MODEL,
    check_manifest,
    check_replaceable,
    json_object,
    kind_of,
    version_of,
    write_manifest,
)
from laconic.system.files import replacing

FORMAT = 1
SECONDS = "packing_seconds"  # among the facts: how long packing took
SOURCE = "source"  # among the facts: the version of the model folder that was packed
_RANKER = "ranker."
_SKETCH = "training_texts"  # among the facts
_ATTRIBUTES = "label_attributes"  # among the facts: their names
_LABEL_TEXTS = "label_texts.utf8"  # a file, or among the arrays
_LEAST_TEXTS = 1 << 14  # bytes: shorter texts are not worth an array
_HASHES = "training_texts.hashes"  # among the arrays
_MOST_NESTED = 5  # rankers in each other: one that asks another for ranks and scores takes twice as long as that one
_MOST_TEXTS = 1 << 53  # up to here, doubles are exact


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedModel:
    """The content of a packed folder."""

    facts: Mapping[str, Any]  # packed.json; of model.json at least laconic, method, inputs, sizes, created
    ranker: PackedRanker
    labels: Sequence[str]
    label_texts: Sequence[str] | None = None
    label_counts: Int[np.ndarray, "labels"] | None = None  # training texts of each; None: rare labels are not known
    label_attributes: LabelAttributes | None = None
    splitter: Splitter = Splitter()
    vocabulary: Vocabulary | None  # None: the model reads features, not texts
    kept_texts: KeptTexts | None = None  # those of training; None: nobody chose to keep them
    sketch: TextSketch | None = None  # of the training texts; None: the model does not tell
    version: str = ""  # of its files: it changes when any of them does

    @property
    def label_names(self) -> Sequence[str]:
        return self.labels

    @property
    def num_kept(self) -> int:
        """Return the number of training texts in the folder."""
        return 0 if self.kept_texts is None else len(self.kept_texts.texts)


def write_packed(model: PackedModel, folder: Path) -> None:
    """Write the folder in one step; an older one of that name is replaced."""
    check_replaceable(folder, kind=PACKED_MODEL)
    write_in_place(model, folder)


def write_in_place(
    model: PackedModel, folder: Path, extras: Mapping[str, Callable[[Path], None]] | None = None
) -> None:
    """Write the folder in one step; whatever was there is replaced, and the caller has checked that it may be.

    `extras` are files that the folder has besides, such as a model card, each with what writes it.
    """
    structure, arrays = flattened(model.ranker, _RANKER)
    facts = {"format": FORMAT, **model.facts, "text": settings_of(model.splitter), "ranker": structure}
    index = NameIndex.of(model.labels)
    with replacing(folder) as partial:
        arrays["labels.starts"] = write_strings(partial / "labels.utf8", model.labels)
        arrays["labels.hashes"], arrays["labels.order"] = index
        if model.label_counts is not None:
            arrays["labels.counts"] = model.label_counts.astype(np.int64)
        if model.label_texts is not None:
            arrays |= _write_label_texts(model.label_texts, partial)
        facts.pop(_ATTRIBUTES, None)
        if model.label_attributes is not None:
            facts[_ATTRIBUTES] = list(model.label_attributes.names)
            arrays |= _write_attributes(model.label_attributes, partial)
        if model.vocabulary is not None:
            arrays["vocabulary.starts"] = write_strings(partial / "vocabulary.utf8", model.vocabulary.words)
            arrays["vocabulary.counts"] = model.vocabulary.text_counts.astype(np.int64)
            arrays["vocabulary.subwords"] = model.vocabulary.subword_counts.astype(np.int64)
        if model.kept_texts is not None:
            arrays |= write_texts(model.kept_texts, partial)
        if model.sketch is not None:
            arrays[_HASHES] = model.sketch.hashes
        facts[_SKETCH] = None if model.sketch is None else model.sketch.facts()
        write_arrays(partial / "arrays.safetensors", compacted(arrays))
        write_json(partial / "packed.json", {**facts, "vocabulary": _vocabulary_facts(model.vocabulary)})
        for name, write in (extras or {}).items():
            write(partial / name)
        write_manifest(partial, format=FORMAT, kind=PACKED_MODEL)


def of_version(model: PackedModel, version: str) -> PackedModel:
    """Return the packed model with the version of the model folder that it was made from."""
    return replace(model, facts={**model.facts, SOURCE: version})


def is_packed(folder: Path) -> bool:
    """Return whether the manifest of a folder is that of a packed model."""
    return kind_of(folder) == PACKED_MODEL


def open_packed(folder: Path, *, verify: bool = True, kinds: Mapping[str, type[Part]] = PARTS) -> PackedModel:
    """Open a packed folder after checking the content of its files, or without `verify` their sizes alone.

    `kinds` are the parts that it may have.
    """
    check_manifest(folder, verify=verify, kind=PACKED_MODEL)
    facts = json_object(folder / "packed.json")
    if facts.get("format") != FORMAT:
        raise ModelError(
            f"{folder}: the packed model has format {facts.get('format')!r}, but this version reads {FORMAT}; pack the "
            "model again"
        )
    _check_facts(facts, folder)
    arrays = expanded(map_arrays(folder / "arrays.safetensors"))
    model = PackedModel(
        facts=facts,
        ranker=_ranker(facts.get("ranker"), arrays, kinds),
        labels=LabelNames(
            folder / "labels.utf8",
            named_array("labels.starts", arrays),
            NameIndex(named_array("labels.hashes", arrays), named_array("labels.order", arrays)),
        ),
        label_texts=_label_texts(folder, arrays),
        label_counts=_label_counts(arrays),
        label_attributes=_attributes(folder, facts, arrays),
        splitter=_splitter(facts.get("text"), folder),
        vocabulary=_vocabulary(folder, facts.get("vocabulary"), arrays),
        kept_texts=open_texts(folder, arrays, facts["sizes"]["inputs"]),
        sketch=_sketch(facts.get(_SKETCH), arrays, folder),
        version=version_of(folder),
    )
    _check_sizes(model, folder)
    return model


def _vocabulary_facts(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    pieces = {} if vocabulary.pieces is None else {"pieces": asdict(vocabulary.pieces)}
    return {"num_texts": vocabulary.num_texts, "sublinear": vocabulary.sublinear, **pieces}


def _check_facts(facts: Mapping[str, Any], folder: Path) -> None:
    """Check the facts that users of a packed model rely on."""
    match facts:
        case {
            "laconic": str(),
            "method": str(),
            "inputs": "text" | "sparse" | "dense",
            "sizes": {"labels": int(), "inputs": int()},
            "created": str(),
        }:
            return
    raise ModelError(f"{folder}/packed.json: it lacks what a model must say of itself; pack the model again")


def _ranker(structure: Any, arrays: Mapping[str, np.ndarray], kinds: Mapping[str, type[Part]]) -> PackedRanker:
    try:
        ranker = restored(structure, arrays, kinds)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        # Parts look at their arrays; of a structure that was tampered with they may be taken aback.
        raise ModelError(f"the packed model's parts do not fit together ({error}); pack the model again") from None
    if not isinstance(ranker, PackedRanker):
        raise ModelError(f"the packed model is a part that cannot rank, {type(ranker).__name__}; pack the model again")
    if (found := nesting(ranker)) > _MOST_NESTED:
        raise ModelError(
            f"the packed model has {found} rankers in each other, but may have {_MOST_NESTED}; pack the model again"
        )
    return ranker


def _write_label_texts(texts: Sequence[str], folder: Path) -> dict[str, np.ndarray]:
    """Write the texts; return the arrays that belong to them, with all of them where that takes fewer bytes."""
    path = folder / _LABEL_TEXTS
    arrays = {"label_texts.starts": write_strings(path, texts)}
    if _LEAST_TEXTS <= path.stat().st_size <= SMALL:
        arrays[_LABEL_TEXTS] = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        path.unlink()
    return arrays


def _label_texts(folder: Path, arrays: Mapping[str, np.ndarray]) -> Strings | None:
    starts = arrays.get("label_texts.starts")
    return None if starts is None else Strings(folder / _LABEL_TEXTS, starts, arrays.get(_LABEL_TEXTS))


def _write_attributes(attributes: LabelAttributes, folder: Path) -> dict[str, np.ndarray]:
    """Write the values of attributes; return the arrays that belong to them."""
    return {
        "attributes.values": write_strings(folder / "attributes.utf8", attributes.values),
        "attributes.bounds": attributes.bounds,
        "attributes.starts": attributes.starts,
        "attributes.labels": attributes.labels,
    }


def _attributes(folder: Path, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> LabelAttributes | None:
    names = facts.get(_ATTRIBUTES)
    if names is None:
        return None
    return LabelAttributes(
        names=checked_names(names, folder / "packed.json"),
        bounds=named_array("attributes.bounds", arrays),
        values=Strings(folder / "attributes.utf8", named_array("attributes.values", arrays)),
        starts=named_array("attributes.starts", arrays),
        labels=named_array("attributes.labels", arrays),
        num_labels=facts["sizes"]["labels"],
    ).checked()


def _label_counts(arrays: Mapping[str, np.ndarray]) -> Int[np.ndarray, "labels"] | None:
    counts = arrays.get("labels.counts")
    if counts is not None:
        check_array(counts, "labels' counts", np.int64, (None,))
        check_numbers(counts, "labels' counts", 0, _MOST_TEXTS)
    return counts


def _sketch(facts: Any, arrays: Mapping[str, np.ndarray], folder: Path) -> TextSketch | None:
    if facts is None:
        return None
    hashes = named_array(_HASHES, arrays)
    if not TextSketch.fits(hashes, facts):
        raise ModelError(
            f"{folder}: the hashes of training texts are not the {facts!r} that packed.json speaks of; pack the model "
            "again"
        )
    return TextSketch(hashes=hashes, complete=facts["complete"])


def _splitter(settings: Any, folder: Path) -> Splitter:
    try:
        return configure(Splitter, settings)
    except (ConfigError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{folder}/packed.json: how texts are read is not of this version: {error}; pack the model again"
        ) from None


def _vocabulary(folder: Path, facts: Any, arrays: Mapping[str, np.ndarray]) -> Vocabulary | None:
    match facts:
        case None:
            return None
        case {"num_texts": int(num_texts), "sublinear": bool(sublinear), **others} if 0 <= num_texts < _MOST_TEXTS:
            words = Strings(folder / "vocabulary.utf8", named_array("vocabulary.starts", arrays)).all()
            counts, subwords = named_array("vocabulary.counts", arrays), named_array("vocabulary.subwords", arrays)
            check_array(counts, "words' counts", np.int64, (len(words),))
            check_array(subwords, "sub-words' counts", np.int64, (None,))
            for numbers, name in ((counts, "words' counts"), (subwords, "sub-words' counts")):
                check_numbers(numbers, name, 0, _MOST_TEXTS)
            return Vocabulary(
                words=words,
                text_counts=counts,
                num_texts=num_texts,
                sublinear=sublinear,
                subword_counts=subwords,
                pieces=read_pieces(others.get("pieces"), words, folder / "packed.json"),
            )
    raise ModelError(
        f"{folder}/packed.json: num_texts and sublinear of the vocabulary are needed, but it has {facts!r}"
    )


def _check_sizes(model: PackedModel, folder: Path) -> None:
    sizes = {
        "sizes.labels": model.facts["sizes"]["labels"],
        "labels.utf8": len(model.labels),
        "label_texts.utf8": len(model.labels if model.label_texts is None else model.label_texts),
        "labels.counts": len(model.labels if model.label_counts is None else model.label_counts),
        "texts.labels": len(model.labels) if model.kept_texts is None else model.kept_texts.num_labels,
        "the ranker": model.ranker.num_labels,
    }
    if len(set(sizes.values())) != 1:
        raise ModelError(f"{folder}: the labels do not fit together ({sizes}); pack the model again")
    inputs, vocabulary = model.facts["sizes"]["inputs"], model.vocabulary
    if vocabulary is None and model.kept_texts is not None:
        raise ModelError(f"{folder}: training texts are kept of a model that reads no texts; pack the model again")
    fits = vocabulary is None if model.facts["inputs"] != "text" else vocabulary and vocabulary.num_ids == inputs
    if not fits:
        raise ModelError(f"{folder}: the vocabulary does not fit the model's {inputs:,} inputs; pack the model again")
