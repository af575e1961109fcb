"""Small models that are packed within a moment, and folders of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import PackedModel, of_version, write_packed
from laconic.predict.load import Speed
from laconic.serve.version import opened
from laconic.storage.manifest import version_of
from laconic.storage.model_folder import SavedModel, write_model
from laconic.system.files import replacing_file
from laconic.training.run import Run
from tests.planted import planted_texts, planted_vectors

CORPUS = planted_texts(with_label_texts=True)
TEXTS = list(CORPUS.split("test").texts or ())


@cache
def trained(neighbours: int = 5) -> SavedModel:
    return train_model(CORPUS, "nearest", config_of("nearest", {"neighbours": neighbours}), Run.unkept())


@cache
def packed(neighbours: int = 5) -> PackedModel:
    return pack(trained(neighbours))


@cache
def packed_features() -> PackedModel:
    return pack(train_model(planted_vectors(), "nearest", config_of("nearest", {}), Run.unkept()))


def write(folder: Path, neighbours: int = 5) -> Path:
    """A model folder with its packed model; it takes the place of another."""
    made = folder.with_name(f"{folder.name}-made")
    write_model(trained(neighbours), made)
    write_packed(of_version(packed(neighbours), version_of(made)), made / "packed")
    shutil.rmtree(folder, ignore_errors=True)
    return made.rename(folder)


def rewrite(path: Path, content: bytes) -> None:
    """Another file of that name: whoever has the old one open keeps it."""
    with replacing_file(path) as partial:
        partial.write_bytes(content)


def in_process(model: Path, speed: Speed, unwanted: Callable[[], bool]) -> str:
    """A trial without a process of its own, which takes a second to start."""
    return opened(model, speed, verify=True).name
