"""Opens a folder for prediction: its packed model on a CPU if there is one, otherwise the model itself.

torch is not imported before it is needed: it takes longer to come than a packed model takes to answer.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from laconic.config import Settings
from laconic.data.evaluation_texts import TrainedOn
from laconic.errors import ConfigError, ModelError
from laconic.packed.folder import SOURCE, PackedModel, is_packed, open_packed
from laconic.predict.interface import TextPredictor
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.manifest import PACKED, version_of
from laconic.system.machine import usable_cores

log = logging.getLogger(__name__)
_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # one of these is there where Linux has a GPU for torch


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Search settings of a packed model."""

    beam: int | None = None  # clusters or cells to probe; None: as it was packed
    exact: bool = False  # nothing is passed over: answers are those of the model that was packed
    threads: int | None = None  # among which many texts are divided; None: as many as there are cores

    def __post_init__(self) -> None:
        for name, number in (("beam", self.beam), ("threads", self.threads)):
            if number is not None and number < 1:
                raise ConfigError(f"{name} must be 1 or more, but is {number}")
        if self.exact and self.beam is not None:
            raise ConfigError(f"exact answers take no beam, but it is {self.beam}; leave one of them out")


USUAL = Speed()


def open_model(
    folder: Path,
    *,
    device: str = "auto",
    settings: Settings | None = None,
    speed: Speed = USUAL,
    verify: bool = True,
) -> TextPredictor:
    """Open the fastest predictor: on a CPU the packed model, unless settings of the model are changed.

    The content of all files is checked, or without `verify` their sizes alone.
    """
    if not is_packed(folder) and not settings and on_cpu(device):
        packed = packed_of(folder, verify=verify)
        if packed is not None:
            return packed_predictor(packed, speed)
    return open_folder(folder, device=device, settings=settings, speed=speed, verify=verify)


def open_folder(
    folder: Path,
    *,
    device: str = "auto",
    settings: Settings | None = None,
    speed: Speed = USUAL,
    verify: bool = True,
) -> TextPredictor:
    """Open the folder itself, which holds a packed model or a model."""
    if is_packed(folder):
        return open_packed_predictor(folder, device=device, settings=settings, speed=speed, verify=verify)
    if speed != USUAL:
        raise ConfigError(
            f"{folder}: --beam, --exact and --threads are for what was packed, which answers on a CPU and by its own "
            "settings; `laconic pack` packs a model"
        )
    from laconic.predict.predictor import Predictor

    return Predictor.open(folder, device=device, settings=settings, verify=verify)


def open_packed_predictor(
    folder: Path,
    *,
    device: str = "auto",
    settings: Settings | None = None,
    speed: Speed = USUAL,
    verify: bool = True,
) -> PackedPredictor:
    """Open a packed folder."""
    if settings or device not in ("auto", "cpu"):
        raise ConfigError(
            f"{folder}: a packed model runs on a CPU with the settings it was packed with; pass the model "
            "folder that it was made from, or change its search width (--beam, --exact)"
        )
    return packed_predictor(open_packed(folder, verify=verify), speed)


def packed_of(folder: Path, *, verify: bool = True) -> PackedModel | None:
    """Return the packed model inside a model folder; None if there is none or it belongs to another model."""
    try:
        if not is_packed(folder / PACKED):
            return None
        packed = open_packed(folder / PACKED, verify=verify)
    except ModelError as error:
        log.warning("%s; until then the model itself answers", error)
        return None
    if packed.facts.get(SOURCE) != version_of(folder):
        log.warning("%s was packed of another model, so the model itself answers; pack it again", folder / PACKED)
        return None
    return packed


def trained_on(folder: Path) -> TrainedOn:
    """Return what is recorded about a model's training texts, without opening the rest of the model."""
    if is_packed(folder):
        packed = open_packed(folder, verify=False)
        return TrainedOn.of(packed.facts, packed.sketch)
    from laconic.storage.model_folder import read_trained_on

    return read_trained_on(folder)


def packed_predictor(packed: PackedModel, speed: Speed = USUAL) -> PackedPredictor:
    """Return a predictor that runs a packed model at the given search width and number of threads."""
    ranker = packed.ranker
    if speed.exact:
        ranker = ranker.exact()
    elif speed.beam is not None:
        ranker = ranker.with_beam(speed.beam)
    return PackedPredictor(replace(packed, ranker=ranker), speed.threads or usable_cores())


def on_cpu(device: str) -> bool:
    """Return whether predictions run on a CPU; torch is imported only if the machine may have a GPU."""
    if device == "cpu":
        return True
    if device == "auto" and sys.platform == "linux" and not any(Path(gpu).exists() for gpu in _GPUS):
        return True
    if find_spec("torch") is None:
        return True
    from laconic.training.run import device_named

    return device_named(device).type == "cpu"
