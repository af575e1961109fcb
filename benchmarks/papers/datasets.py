"""A dataset as the papers' tables see it: whose it is, what it has, and the settings that each method takes on it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from scipy.sparse import csr_array

from benchmarks._trainings import Material, corpus_of, material
from laconic.config import Settings, merged, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.text import Splitter
from laconic.errors import ConfigError
from laconic.methods.config import UNORDERED
from laconic.methods.registry import METHODS, config_of, ensemble_of

HERE = Path(__file__).parent
PUBLISHED: Mapping[str, Any] = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
OURS: Mapping[str, Any] = tomllib.loads((HERE / "ours.toml").read_text(encoding="utf-8"))
KEEP_SELF_PAIRS = ("inceptionxml", "deepxml")  # papers whose protocol does, on our own data
_LEAST = 4  # labels a cluster or a group must have where a preset's are more than the data has


@dataclass(frozen=True)
class Dataset:
    place: str  # its name, or the path of its folder
    paper: str
    preset: str = ""  # for every method, instead of the settings of the dataset

    @property
    def name(self) -> str:
        return Path(self.place).name

    @property
    def corpus(self) -> Corpus:
        return corpus_of(self.place)

    @cached_property
    def known(self) -> str:
        """The papers' name of it, by its folder's name or by its size; empty: none of theirs."""
        named = known_as(self.name, 0, 0)
        if named or self.name in OURS["settings"]:
            return named
        train = self.corpus.split("train")
        return known_as(self.name, len(train), train.labels.shape[1])

    @property
    def num_labels(self) -> int:
        return int(self.corpus.split("train").labels.shape[1])

    @property
    def has_features(self) -> bool:
        return isinstance(self.corpus.split("train").features, csr_array)

    @property
    def has_texts(self) -> bool:
        return self.corpus.split("train").texts is not None

    def settings(self, method: str) -> Settings:
        """Return a method's settings here: a preset, what was best on a validation split of ours, or its defaults."""
        if self.preset:
            return merged(_preset(method, self.preset), {"validation": 0.0})
        own = OURS["settings"].get(self.name, {}).get(method, {})
        return {"validation": 0.0} | (_preset(method, self.known) if self.known else own)

    def fitted(self, settings: Settings) -> Settings:
        """Return settings whose counts of clusters, groups and buckets are no more than the labels allow."""
        most = 1 << max(0, (self.num_labels // _LEAST).bit_length() - 1)
        clusters = settings.get("clusters", 0)
        changes: Settings = {}
        if clusters > most:
            opened = {name: settings[name] for name in ("top", "beam") if settings.get(name)}
            changes |= {"clusters": most} | {name: max(1, count * most // clusters) for name, count in opened.items()}
        if settings.get("surrogate", {}).get("count", 0) > most:
            changes["surrogate"] = {"count": most}
        if settings.get("buckets", 0) > most:
            changes["buckets"] = max(2, most)
        if changes:
            _say(f"{self.name} has few labels: {changes}")
        return merged(settings, changes)

    def prepared(self, method: str, settings: Settings) -> Material:
        """Return the data as a method with these settings reads it: features where their order does not matter."""
        config = config_of(method, settings)
        ours = not self.known
        return material(
            self.place,
            with_label_texts=ensemble_of(method, 1, over=settings).reads_label_texts(config),
            with_self_pairs=ours and self.paper in KEEP_SELF_PAIRS,
            splitter=Splitter(**OURS["text"]) if ours and self.name in OURS["settings"] else config.text,
            vocabulary=config.vocabulary,
            features=self.has_features and (not self.has_texts or _is_unordered(method, config)),
            called=self.known or self.name,
        )


@cache
def _say(line: str) -> None:
    """Print a line once."""
    print(line)


def known_as(name: str, texts: int, labels: int) -> str:
    """Return the papers' name of a dataset, by the longest that is in its own, or by its size."""
    sizes: Mapping[str, list[int]] = PUBLISHED["sizes"]
    named = [known for known in sizes if _folded(known) in _folded(name)]
    alike = [known for known, size in sizes.items() if size == [texts, labels]]
    return max(named, key=len) if named else next(iter(alike), "")


def with_epochs(method: str, settings: Settings, epochs: int) -> Settings:
    """Return settings with so many epochs in every stage; 0: as they are."""
    if not epochs:
        return settings
    kind = config_of(method, settings)
    groups = {each.name: getattr(kind, each.name) for each in fields(kind)}
    groups.pop("warm_up", None)  # a stage of no paper
    stages = {name: {"epochs": epochs} for name, one in groups.items() if is_dataclass(one) and hasattr(one, "epochs")}
    return merged(settings, stages | ({"epochs": epochs} if hasattr(kind, "epochs") else {}))


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _preset(method: str, name: str) -> Settings:
    try:
        return read_settings(preset_path(method, name), [])
    except ConfigError:  # a method without a preset of this name has its defaults
        return {}


def _is_unordered(method: str, config: Any) -> bool:
    assert method in METHODS
    return method in ("decaf", "trees", "nearest") or getattr(config, "encoder", "") in UNORDERED
