"""Choose a plan for the data, the machine and the time budget, where no method is named.

There is one recipe: a trained ranker, label trees, nearest texts, labels' own texts and a learnt space of texts and
label texts, combined by a small network (methods/wrappers/fusion.py). The trained ranker differs, and takes most of the
time, which is estimated for the cores that other processes leave at that moment (stage_times.py). A plan is chosen if
the budget has room for most of it; the run then does as much of it as there is time for (training/deadline.py). The
choice is stored with the run, so that an interrupted run resumes with it, on another machine or a busier one too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laconic.config import Settings, merged, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.dataset import MOST_HELD_OUT
from laconic.data.languages import are_unspaced
from laconic.data.prepare import label_texts
from laconic.errors import ConfigError
from laconic.methods import trees
from laconic.methods.config import MethodConfig
from laconic.methods.first_kernels import uncompiled_kernels
from laconic.methods.registry import config_of
from laconic.methods.stage_memory import beside_memory, needed_memory, planned_within
from laconic.methods.stage_times import Situation, compile_seconds
from laconic.system.machine import free_memory, memory_held, share_of_cores, usable_cores
from laconic.system.speed import best_of, core_speed
from laconic.training.deadline import Part, scale_within, total_seconds
from laconic.units import counted, human_bytes, human_seconds

_BUSY, _LONG = 0.7, 10.0  # a share of the cores below which it is said, of what takes so many seconds
_SHORTER = 1800.0  # seconds of a budget that is named where training without one takes more than twice as long
_FEW = 500  # texts; with fewer, too few can be held out to train the combining network
_MANY = 1_000_000  # labels; with more, clusters of labels are searched
_HELD_OUT = 0.1  # fraction of the texts that train the combining network; at most MOST_HELD_OUT texts
# How the combining network, which chooses a text's best labels, weighs rare labels and a text's first label. The trees
# that order its best labels give back what that costs in P@1 (docs/log.md).
_WEIGHING: Settings = {"rare": 0.8, "first": 1.0}
_LARGE = 200_000  # texts; with more, larger batches take fewer steps and lose nothing
_WARM_UP = 15  # epochs in which InceptionXML starts from label texts; fewer where there are many texts:
_MOST_WARM = 4_000_000  # texts times epochs, at most
_ROW_START = 8.0  # how much labels score above their bias at first, for their own text
_SPACE = {True: 256, False: 128}  # dimensions of the space of texts and label texts, with a GPU and without
_SUBWORDS = 1 << 18  # buckets of n-grams, where no space parts words (docs/log.md)
_MOST_MEMBERS = 5  # of an ensemble; a text takes as many times as long to label
_LATE = 1.2  # times a budget that one label tree may take, as nearest texts alone find far fewer labels
_USED = 0.8  # fraction of a budget that a model must have a use for, or else an ensemble is trained
_LARGEST_SCALE = 1e3  # beyond the bounds of all parts
_WORTHWHILE = 0.7


class Choice(NamedTuple):
    """A method with its settings, and why it was chosen."""

    method: str
    settings: Settings
    parts: Mapping[str, Part]  # of the run, with their estimated times
    why: str
    memory: int = 0  # bytes that the process is estimated to hold at most
    members: int = 1  # of an ensemble
    is_large: bool = False  # only a budget that has room for it makes it worth its time
    worthwhile: float = _WORTHWHILE  # scale below which a smaller plan does better
    over: float = 1.0  # times the budget that it may take, where what is smaller does far worse
    scale: float = 1.0  # of what was planned, that the budget has room for

    @property
    def seconds(self) -> float:
        """Return the estimated time."""
        return total_seconds(self.parts, self.scale)


def describe_situation(corpus: Corpus, *, gpu: bool, budget: float | None, packing: bool = False) -> Situation:
    """Describe data, machine and budget, after a quick measurement of the machine."""
    split = corpus.split("train")
    kind = "text" if split.texts is not None else "dense" if isinstance(split.features, np.ndarray) else "sparse"
    there = label_texts(corpus.labels) is not None
    sizes = len(split), len(corpus.labels), int(split.labels.nnz)
    judged = len(corpus.splits.get("test", ()))
    held, free = memory_held(), free_memory()
    # A moment's work of others would choose a plan that is too small.
    speed, share = core_speed(), share_of_cores()
    speed, share = best_of(speed, core_speed()), max(share, share_of_cores())
    return Situation(
        *sizes,
        kind,
        there,
        gpu,
        usable_cores(),
        budget,
        share,
        speed,
        judged=judged,
        packing=packing,
        held_memory=held,
        free_memory=None if free is None else held + free,
        unspaced=split.texts is not None and are_unspaced(split.texts),
        uncompiled=uncompiled_kernels(gpu=gpu),
    )


def choose(of: Situation) -> Choice:
    """Return the best choice within the time budget; where none fits, the fastest."""
    choices = list(_from_best(of))
    choices = [one for one in choices if of.free_memory is None or one.memory <= of.free_memory] or choices[-1:]
    if of.budget is None:
        choice, late = next(one for one in choices if not one.is_large), False
    else:
        fitting = [one for one in choices if _least_seconds(one) <= of.budget]
        choice, late = (fitting or choices[-1:])[0], not fitting
        if choices.index(choice) and choice.method == "nearest":
            choice = choice._replace(why=f"{choice.why}, {_too_long(choices[choices.index(choice) - 1], of)}")
        choice = _scaled(choice, of, scale_within(choice.parts, of.budget))
    choice = choice._replace(memory=choice.memory + beside_memory(of, choice.method, choice.memory))
    time = f"{human_seconds(choice.seconds)} {_machine(choice, of)}"
    if compiling := sum(compile_seconds(of, choice.method, choice.parts).values()):
        time += f", {human_seconds(compiling)} of them to compile kernels, once"
    if late:
        time += f", more than the budget of {human_seconds(of.budget or 0.0)}"
    why = f"{choice.why}; {time}, {human_bytes(choice.memory)} of memory"
    if of.budget is None and choice.seconds > 2 * _SHORTER and any(map(_is_short, choices)):
        why += f"; a budget, such as {_SHORTER / 60:.0f}m, shortens it"
    return choice._replace(why=why)


def _too_long(choice: Choice, of: Situation) -> str:
    """Say why there is no time for a choice."""
    least, compiling = _least_seconds(choice), sum(compile_seconds(of, choice.method, choice.parts).values())
    why = f"as {choice.why} would take {human_seconds(least)}"
    if of.budget is None or least - compiling > of.budget / choice.over:
        return why
    return f"{why}, {human_seconds(compiling)} of them to compile kernels; a training without a budget does so, once"


def _is_short(choice: Choice) -> bool:
    return choice.method != "nearest" and _least_seconds(choice) <= _SHORTER


def _least_seconds(choice: Choice) -> float:
    """Return the seconds that a budget must have for a choice."""
    return total_seconds(choice.parts, choice.worthwhile) / choice.over


def _scaled(choice: Choice, of: Situation, scale: float) -> Choice:
    """Return the choice as the budget has room for it, with the memory of as many trees as that is."""
    config = config_of(choice.method, choice.settings)
    if isinstance(config, trees.Config):
        forest = next(part for name, part in choice.parts.items() if name.split(".")[-1] == "trees")
        count = max(1, int(config.trees * forest.scaled(scale) + 0.3))
        choice = choice._replace(memory=needed_memory(of, replace(config, trees=count), choice.members))
    return choice._replace(scale=scale)


def config_for(choice: Choice, wanted: Settings) -> tuple[Settings, MethodConfig]:
    """Return the choice's settings, overridden by those that are wanted, and the config with them."""
    settings = merged(choice.settings, wanted)
    try:
        return settings, config_of(choice.method, settings)
    except ConfigError as error:
        raise ConfigError(f"{error} ({choice.method} was chosen; name the method whose settings these are)") from None


def _from_best(of: Situation) -> Iterator[Choice]:
    if of.texts < _FEW or of.kind == "dense":
        few = counted(of.texts, "text") if of.texts < _FEW else "features without words"
        yield _plan(of, "nearest", {}, f"nearest texts, as {few} are too little to train on")
        return
    if of.gpu and of.kind == "text":
        plan = _plan(of, *_on_gpu(of), _describe("InceptionXML", of))
        yield from [*_ensembles(of, plan), plan]
    elif of.kind == "text":
        wide = _plan(of, "astec", _with_wrappers(of, _wide(of), width=_SPACE[True]), _describe("Astec", of))
        yield from [*_ensembles(of, wide), wide._replace(is_large=True)]
        laptop = read_settings(preset_path("astec", "laptop"), [])
        yield _plan(of, "astec", _with_wrappers(of, laptop), _describe("small Astec", of))
    for rounds in (3, 1) if _has_space(of) else ():  # one where finding hard negatives among many labels takes long
        settings = _with_wrappers(of, _reading(of), trees=0, rounds=rounds)
        yield from _with_ensembles(of, _plan(of, "trees", settings, _describe("label trees", of, trees=False)))
    settings = _with_wrappers(of, _reading(of), trees=0, rounds=0)
    plan = _plan(of, "trees", settings, _describe("label trees", of, trees=False, space=False))
    # One tree does nearly as well as three.
    yield from _with_ensembles(of, plan._replace(worthwhile=0.0, over=_LATE))
    yield _plan(of, "nearest", {}, "nearest texts + label texts, without training")


def _plan(of: Situation, method: str, settings: Settings, why: str) -> Choice:
    config = config_of(method, settings)
    return Choice(method, settings, planned_within(of, method, config), why, needed_memory(of, config))


def _ensembles(of: Situation, plan: Choice) -> Iterator[Choice]:
    """Yield ensembles of a plan, the largest first."""
    for members in range(_MOST_MEMBERS, 1, -1):
        yield _ensemble(of, plan, members)


def _ensemble(of: Situation, plan: Choice, members: int) -> Choice:
    config = config_of(plan.method, plan.settings)
    return plan._replace(
        parts=planned_within(of, plan.method, config, members),
        why=f"{members} models of {plan.why}",
        memory=needed_memory(of, config, members),
        members=members,
        is_large=True,
        worthwhile=1.0,
        over=1.0,
    )


def _with_ensembles(of: Situation, plan: Choice) -> Iterator[Choice]:
    """Yield a plan and, if one model has no use for all of a budget, before it the smallest ensemble that has."""
    if of.budget is not None and not _uses_most(of.budget, plan):
        ensembles = [_ensemble(of, plan, members) for members in range(2, _MOST_MEMBERS + 1)]
        yield next((one for one in ensembles if _uses_most(of.budget, one)), ensembles[-1])
    yield plan


def _uses_most(budget: float, plan: Choice) -> bool:
    return total_seconds(plan.parts, _LARGEST_SCALE) >= _USED * budget


def _wide(of: Situation) -> Settings:
    """Return the settings of an Astec that takes longer: the method's own, which start from label texts if possible."""
    return {"warm_up": {"epochs": _WARM_UP}, "row_start": _ROW_START} if _has_space(of) else {}


def _on_gpu(of: Situation) -> tuple[str, Settings]:
    method = "inceptionxml" if of.labels <= _MANY else "inceptionxml+"
    epochs = int(np.clip(round(28 * (45_000 / of.texts) ** 0.6), 6, 40))
    batch, rate = (128, 0.003) if of.texts < _LARGE else (512, 0.005)
    own: Settings = {"epochs": epochs, "batch_size": batch, "learning_rate": rate}
    own |= {"prior": of.texts >= _LARGE} if method == "inceptionxml" else {}
    if _has_space(of):
        warm = int(np.clip(_MOST_WARM // of.texts, 2, _WARM_UP))
        own |= {"warm_up": {"epochs": warm}, "row_start": _ROW_START}
    return method, _with_wrappers(of, own)


def _reading(of: Situation) -> Settings:
    """Return how label trees and nearest texts read words: with sub-words where no space parts words."""
    return {"vocabulary": {"subwords": _SUBWORDS}} if of.unspaced else {}


def _has_space(of: Situation) -> bool:
    """Return whether texts and label texts can be learnt to share a space."""
    return of.label_texts and of.kind == "text"


def _with_wrappers(of: Situation, settings: Settings, trees: int = 3, *, rounds: int = 3, width: int = 0) -> Settings:
    """Return a method's settings with those of fusion and, where labels have texts, of extra texts."""
    held = min(_HELD_OUT, math.floor(1e5 * MOST_HELD_OUT / of.texts) / 1e5)
    learnt = {"extra_texts": {"share": 0.1}} if _has_space(of) and trees else {}
    channel: Settings = {"siamese": width or _SPACE[of.gpu]} if rounds and _has_space(of) else {}
    channel |= {"rounds": rounds} if 0 < rounds < 3 else {}
    return settings | {"validation": held, "fusion": {"trees": trees, **channel, **_WEIGHING}, **learnt}


def _describe(learner: str, of: Situation, *, trees: bool = True, space: bool = True) -> str:
    channels = ["label trees"] * trees + ["nearest texts"] + ["label texts"] * of.label_texts
    channels += ["siamese"] * (space and _has_space(of))
    return " + ".join([learner, *channels])


def _machine(choice: Choice, of: Situation) -> str:
    busy = " beside other work" * (of.share < _BUSY and choice.seconds >= _LONG)
    return f"on {'a GPU' if choice.method.startswith('inceptionxml') else counted(of.cores, 'core')}{busy}"
