"""The registry of methods by name, and of wrappers that can be put over any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from torch import Tensor

from laconic.config import Settings, check_method, configure, method_called
from laconic.data.dataset import Dataset
from laconic.errors import ConfigError
from laconic.methods import astec, inceptionxml, inceptionxml_plus, mach, nearest, siamese, trees, xml_cnn
from laconic.methods.config import MethodConfig
from laconic.methods.decaf import recipe as decaf
from laconic.methods.result import Trained
from laconic.methods.wrappers import fusion, reranker
from laconic.methods.wrappers import label_texts as extra_texts
from laconic.methods.wrappers.ensemble import restore_members, train_members
from laconic.models.rankers import Ranker
from laconic.training.run import Run


@dataclass(frozen=True)
class Method:
    """What a file of methods/ offers. Functions take the method's own config, whichever it is."""

    config: type[MethodConfig]
    """Class of the method's settings."""
    train: Callable[[Dataset, Any, Run], Trained]
    """Trains on a dataset with settings and a run."""
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker]
    """Makes the ranker from settings and tensors."""
    reads_label_texts: Callable[[Any], bool] = lambda config: False
    """Whether settings make it read the labels' own texts."""
    on_gpu: bool = True
    """Whether its ranker may be moved to a GPU."""
    prediction_settings: frozenset[str] = frozenset()
    """Settings that can be changed without training."""
    train_members: Callable[[int], Callable[[Dataset, Any, Run], Trained]] | None = None
    """Returns what trains that many members, where members share something. None: each is trained by itself."""
    why_unsharded: Callable[[Any], str] = lambda config: "it has no part that several processes could share"
    """Why settings keep several processes from sharing the labels. Empty: they can."""
    weighs_labels: bool = False
    """Whether the true pairs of labels can have weights."""
    why_no_encoder: str = ""
    """Why no other encoder can be put into it, and what can be done instead."""


def _starts_from_label_texts(config: Any) -> bool:
    return bool(config.warm_up.epochs or config.row_start)


def _is_sharded(config: Any) -> str:
    """Return no reason against sharding, whatever the settings."""
    return ""


METHODS = {
    "nearest": Method(
        nearest.Config,
        nearest.train,
        nearest.restore,
        reads_label_texts=lambda config: True,
        on_gpu=False,
        prediction_settings=frozenset({"neighbours", "power", "label_text"}),
        weighs_labels=True,
    ),
    "trees": Method(
        trees.Config,
        trees.train,
        trees.restore,
        on_gpu=False,
        prediction_settings=frozenset({"beam"}),
        weighs_labels=True,
    ),
    "siamese": Method(siamese.Config, siamese.train, siamese.restore, reads_label_texts=lambda config: True),
    "inceptionxml": Method(
        inceptionxml.Config,
        inceptionxml.train,
        inceptionxml.restore,
        reads_label_texts=_starts_from_label_texts,
        why_unsharded=_is_sharded,
        weighs_labels=True,
    ),
    "inceptionxml+": Method(
        inceptionxml_plus.Config,
        inceptionxml_plus.train,
        inceptionxml_plus.restore,
        reads_label_texts=_starts_from_label_texts,
        prediction_settings=frozenset({"answer_top", "ranking"}),
        why_unsharded=_is_sharded,
    ),
    "astec": Method(
        astec.Config,
        astec.train,
        astec.restore,
        reads_label_texts=lambda config: astec.shortlists_by_text(config) or _starts_from_label_texts(config),
        prediction_settings=frozenset({"beta", "votes", "shortlist"}),
        why_unsharded=_is_sharded,
    ),
    "decaf": Method(
        decaf.Config,
        decaf.train,
        decaf.restore,
        reads_label_texts=lambda config: config.label_text or config.warm_up.epochs > 0,
        prediction_settings=frozenset({"answer_beam"}),
        train_members=lambda members: partial(decaf.train_members, members),
        why_unsharded=lambda config: "shortlist=nearest needs all labels" if config.shortlist == "nearest" else "",
        why_no_encoder="its label rows are sums of the vectors of the labels' words, which a text's encoder does not "
        "give; start these vectors from a transformer instead (`laconic distill-vectors FOLDER --words DATA`, then "
        "--set vectors=FILE), or put it under inceptionxml or siamese",
    ),
    "xml-cnn": Method(
        xml_cnn.Config,
        xml_cnn.train,
        xml_cnn.restore,
        reads_label_texts=_starts_from_label_texts,
        why_unsharded=_is_sharded,
        weighs_labels=True,
    ),
    "mach": Method(mach.Config, mach.train, mach.restore),
}


def config_of(method_name: str, settings: Settings) -> MethodConfig:
    """Return the method's config with these settings; a group of a wrapper's name, even empty, adds the wrapper."""
    method = _method_named(method_name)
    if "encoder" in settings and method.why_no_encoder:
        raise ConfigError(f"there is no setting 'encoder' for {method_name}: {method.why_no_encoder}")
    return configure(method.config, settings)


def add_reranker(method: Method) -> Method:
    """Return the method with a re-ranker over its ranker."""
    return replace(
        method,
        train=partial(reranker.train_over, method.train),
        restore=partial(reranker.restore_over, method.restore),
        prediction_settings=method.prediction_settings | {"reranker.alpha", "reranker.size"},
        train_members=None,
    )


def add_fusion(method: Method) -> Method:
    """Return the method with its scores combined with those of trees and of nearest texts."""
    return replace(
        method,
        train=partial(fusion.train_over, method.train),
        restore=partial(fusion.restore_over, method.restore),
        reads_label_texts=lambda config: True,
        prediction_settings=method.prediction_settings | {"fusion.tail"},
        train_members=None,
    )


def add_extra_texts(method: Method) -> Method:
    """Return the method trained on the labels' own texts too."""
    several = method.train_members
    return replace(
        method,
        train=partial(extra_texts.train_over, method.train),
        reads_label_texts=lambda config: True,
        train_members=None if several is None else lambda members: partial(extra_texts.train_over, several(members)),
    )


# What can be put over any method, innermost first; the settings of each are a group of its name.
WRAPPERS: dict[str, Callable[[Method], Method]] = {
    "reranker": add_reranker,
    "fusion": add_fusion,
    "extra_texts": add_extra_texts,  # outermost: all inner parts learn from these texts too
}


SHORT_NAMES = {"reranker": "alpha", "fusion": "tail"}  # a setting of each that may be given without its group


def wrappers_of(config: MethodConfig) -> list[str]:
    """Return the names of the wrappers that a config puts over its method."""
    return [name for name in WRAPPERS if getattr(config, name) is not None]


def ensemble_of(method_name: str, members: int, *, over: Collection[str] = ()) -> Method:
    """Return a method that trains and restores an ensemble of another; with one member, that other itself.

    Wrappers named in `over` are put over each member: only so are there texts that what is under them has not seen.
    """
    method = _method_named(method_name)
    for name in WRAPPERS:
        method = WRAPPERS[name](method) if name in over else method
    if type(members) is not int or members < 1:
        raise ConfigError(f"ensemble must be an integer of 1 or more, but is {members!r}")
    if members == 1:
        return method
    if "seed" not in {field.name for field in fields(method.config)}:
        raise ConfigError(
            f"ensemble must be 1 for {method_name}, but is {members}: members differ by their seed, and it has none"
        )
    several = method.train_members
    return replace(
        method,
        train=several(members) if several else partial(train_members, method.train, members),
        restore=partial(restore_members, method.restore, members),
    )


def check_shardable(method_name: str, config: MethodConfig, members: int) -> None:
    """Refuse a training that several processes cannot share."""
    method = _method_named(method_name)
    unshared = ["a re-ranker is trained by one process"] * (config.reranker is not None)
    unshared += ["an ensemble is trained by one process"] * (members > 1)
    why = method.why_unsharded(config) or next(iter(unshared), "")
    if why:
        able = ", ".join(name for name, one in METHODS.items() if not one.why_unsharded(one.config()))
        raise ConfigError(
            f"{method_name} cannot be trained by several processes: {why}; start one process, or use --method with one "
            f"of {able}"
        )


def check_weighable(method_name: str, config: MethodConfig) -> None:
    """Refuse weights of labels where training would not apply them to all that it learns."""
    over = [name for name in wrappers_of(config) if name != "extra_texts"]
    if over:
        raise ConfigError(
            f"class_weight does not reach what {over[0]} learns; leave one of them out (fusion has a setting of its "
            "own, fusion.rare, by which rare labels weigh more)"
        )
    if not _method_named(method_name).weighs_labels:
        able = ", ".join(name for name, one in METHODS.items() if one.weighs_labels)
        raise ConfigError(
            f"{method_name} has no class_weight: it also learns groups of labels, to which no weight of one label "
            f"belongs; methods that have it are {able}"
        )


def _method_named(name: str) -> Method:
    check_method(name)
    return METHODS[method_called(name)]
