"""One version of a model, opened and ready to answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laconic.errors import ModelError
from laconic.packed.folder import SOURCE, is_packed, open_packed
from laconic.predict.load import Speed, packed_predictor
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.manifest import MANIFEST, PACKED, kind_of, version_of
from laconic.system.files import bytes_in

_WARMING = (
    "a text to begin with",
    "",
)  # compiles kernels, or fetches them, before anybody waits


@dataclass(frozen=True)
class Version:
    """One version of a model, ready to answer."""

    name: str  # changes when any byte of the model does
    packed_predictor: PackedPredictor
    folder: Path  # where it was packed
    bytes: int


def opened(model: Path, speed: Speed, *, verify: bool) -> Version:
    """Open the packed model of a folder and run it once, so that the first request is quick."""
    folder = packed_folder(model)
    packed = open_packed(folder, verify=verify)
    if version_of(folder) != packed.version:
        raise ModelError(f"{folder}: it changed while it was opened; it is looked at again")
    if packed.vocabulary is None:
        raise ModelError(f"{folder}: this model reads features, but a service is asked with texts")
    version = Version(packed.version, packed_predictor(packed, speed), folder, bytes_in(folder))
    for text in _WARMING:
        version.packed_predictor.predict([text])
    return version


def packed_folder(model: Path) -> Path:
    """Return the packed folder: the folder itself, or the one inside a model folder if it belongs to that model."""
    if is_packed(model):
        return model
    if not kind_of(model):
        raise ModelError(f"{model}: this is not a model folder: it has no {MANIFEST}")
    if not is_packed(model / PACKED):
        raise ModelError(f"{model}: this model was not packed; `laconic pack {model}` makes what can be served")
    if open_packed(model / PACKED, verify=False).facts.get(SOURCE) != version_of(model):
        raise ModelError(f"{model / PACKED}: it was packed of another model; `laconic pack {model}` packs this one")
    return model / PACKED
