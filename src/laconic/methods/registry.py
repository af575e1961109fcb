"""The methods by name, and what can be put over any of them: the only registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from torch import Tensor

from laconic.config import Settings, check_method, configure, method_called
from laconic.data.dataset import Dataset
from laconic.errors import ConfigError
from laconic.methods import astec, inceptionxml, inceptionxml_plus, mach, nearest, trees, xml_cnn
from laconic.methods.decaf import recipe as decaf
from laconic.methods.result import Trained
from laconic.methods.wrappers import fusion, reranker
from laconic.methods.wrappers import label_texts as extra_texts
from laconic.methods.wrappers.ensemble import restore_members, train_members
from laconic.models.rankers import Ranker
from laconic.training.run import Run


@dataclass(frozen=True)
class Method:
    """What a file of methods/ offers."""

    config: type[Any]
    train: Callable[[Dataset, Any, Run], Trained]
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker]
    reads_label_texts: Callable[[Any], bool]  # whether its config has a use for them
    on_gpu: bool  # whether its ranker may be moved to one
    answering: frozenset[str] = frozenset()  # settings that say how a model answers, not what it has learnt
    # How so many members are trained where they share something; None: each by itself.
    together: Callable[[int], Callable[[Dataset, Any, Run], Trained]] | None = None


METHODS = {
    "nearest": Method(
        nearest.Config,
        nearest.train,
        nearest.restore,
        reads_label_texts=lambda config: True,
        on_gpu=False,
        answering=frozenset({"neighbours", "power", "label_text"}),
    ),
    "trees": Method(
        trees.Config,
        trees.train,
        trees.restore,
        reads_label_texts=lambda config: False,
        on_gpu=False,
        answering=frozenset({"beam"}),
    ),
    "inceptionxml": Method(
        inceptionxml.Config,
        inceptionxml.train,
        inceptionxml.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
    "inceptionxml+": Method(
        inceptionxml_plus.Config,
        inceptionxml_plus.train,
        inceptionxml_plus.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
        answering=frozenset({"answer_top", "ranking"}),
    ),
    "astec": Method(
        astec.Config,
        astec.train,
        astec.restore,
        reads_label_texts=lambda config: config.label_texts > 0,
        on_gpu=True,
        answering=frozenset({"beta", "votes", "shortlist"}),
    ),
    "decaf": Method(
        decaf.Config,
        decaf.train,
        decaf.restore,
        reads_label_texts=lambda config: config.label_text,
        on_gpu=True,
        answering=frozenset({"answer_beam"}),
        together=lambda members: partial(decaf.train_together, members),
    ),
    "xml-cnn": Method(
        xml_cnn.Config,
        xml_cnn.train,
        xml_cnn.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
    "mach": Method(
        mach.Config,
        mach.train,
        mach.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
}


def config_of(method_name: str, settings: Settings) -> Any:
    """The method's config: its own defaults where the settings say nothing.

    A group among them that is named like one of OVER, be it empty, puts that over the method.
    """
    return configure(ensemble_of(method_name, 1, over=settings).config, settings)


def reranked(method: Method) -> Method:
    """The method with a re-ranker over its ranker."""
    return replace(
        method,
        config=reranker.config_over(method.config),
        train=partial(reranker.train_over, method.train),
        restore=partial(reranker.restore_over, method.restore),
        answering=method.answering | {"reranker.alpha", "reranker.size"},
        together=None,
    )


def fused(method: Method) -> Method:
    """The method with its answers weighed together with those of trees and of nearest."""
    return replace(
        method,
        config=fusion.config_over(method.config),
        train=partial(fusion.train_over, method.train),
        restore=partial(fusion.restore_over, method.restore),
        reads_label_texts=lambda config: True,
        answering=method.answering | {"fusion.tail"},
        together=None,
    )


def with_extra_texts(method: Method) -> Method:
    """The method learning from the labels' own texts too."""
    together = method.together
    return replace(
        method,
        config=extra_texts.config_over(method.config),
        train=partial(extra_texts.train_over, method.train),
        reads_label_texts=lambda config: True,
        together=None if together is None else lambda members: partial(extra_texts.train_over, together(members)),
    )


# What can be put over any method, innermost first; the settings of each are a group of that name.
OVER: dict[str, Callable[[Method], Method]] = {
    "reranker": reranked,
    "fusion": fused,
    "extra_texts": with_extra_texts,  # outermost: all that learns learns from them too
}


SHORT = {"reranker": "alpha", "fusion": "tail"}  # a dial of each that may be named without its group


def put_over(config: Any) -> list[str]:
    """What a config has over its method."""
    return [name for name in OVER if hasattr(config, name)]


def ensemble_of(method_name: str, members: int, *, over: Collection[str] = ()) -> Method:
    """The method that trains and restores so many members of another; of one member, that other itself.

    What is named in `over` is over each member: only so are there texts that what is under it has not learnt from.
    """
    method = _method_named(method_name)
    for name in OVER:
        method = OVER[name](method) if name in over else method
    if type(members) is not int or members < 1:
        raise ConfigError(f"ensemble must be a whole number of 1 or more, but is {members!r}")
    if members == 1:
        return method
    if "seed" not in {field.name for field in fields(method.config)}:
        raise ConfigError(
            f"ensemble must be 1 for {method_name}, but is {members}: members differ by their seed, and it has none"
        )
    return replace(
        method,
        train=method.together(members) if method.together else partial(train_members, method.train, members),
        restore=partial(restore_members, method.restore, members),
    )


def _method_named(name: str) -> Method:
    check_method(name)
    return METHODS[method_called(name)]
