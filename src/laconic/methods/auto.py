"""Choose a method for the data, the machine and the time budget, where none is named.

There is one recipe: a trained ranker, label trees, nearest texts, labels' own texts and a learnt space of texts and
label texts, combined by a small network (methods/wrappers/fusion.py). The trained ranker differs, and takes most of the
time, which is estimated for the cores that other processes leave at that moment. The choice is stored with the run, so
that an interrupted run resumes with it, on another machine or a busier one too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from laconic.config import Settings, merged, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.dataset import MOST_HELD_OUT
from laconic.data.prepare import label_texts
from laconic.errors import ConfigError
from laconic.methods import siamese
from laconic.methods.config import MethodConfig
from laconic.methods.costs import CPU, GPU
from laconic.methods.registry import config_of
from laconic.methods.warm_up import WARM_UP_BATCH
from laconic.system.machine import share_of_cores, usable_cores
from laconic.units import counted, human_seconds

_BUSY, _LONG = 0.7, 10.0  # a share of the cores below which it is said, of what takes so many seconds
_FEW = 500  # texts; with fewer, too few can be held out to train the combining network
_MANY = 1_000_000  # labels; with more, clusters of labels are searched
_HELD_OUT = 0.1  # fraction of the texts that train the combining network; at most MOST_HELD_OUT texts
# How the combining network, which chooses a text's best labels, weighs rare labels and a text's first label. The trees
# that order its best labels give back what that costs in P@1 (docs/log.md).
_WEIGHING: Settings = {"rare": 0.8, "first": 1.0}
_USUAL_WORDS = 10  # of a text
_LARGE = 200_000  # texts; with more, larger batches take fewer steps and lose nothing
# Seconds on one core or, for _GPU names, on one H200, measured on the data of docs/combined.md; right to a factor of
# two on similar machines.
_ASTEC, _TREES, _CHANNELS = 8e-3, 1.6e-4, 1e-3  # per text; per pair and tree; per text
_GPU_STEP, _GPU_START, _GPU_STAGE = 1.6e-3, 30.0, 8.0
_WARM_UP = 15  # epochs in which InceptionXML starts from label texts; fewer where there are many texts:
_MOST_WARM = 4_000_000  # texts times epochs, at most
_ROW_START = 8.0  # how much labels score above their bias at first, for their own text
_SPACE = {True: 256, False: 128}  # dimensions of the space of texts and label texts, with a GPU and without


class Situation(NamedTuple):
    """Facts that decide the choice."""

    texts: int
    labels: int
    pairs: int
    kind: str  # of inputs: text, sparse or dense
    label_texts: bool
    gpu: bool
    cores: int
    budget: float | None = None  # seconds; None: no limit
    share: float = 1.0  # of the cores, that other processes leave

    @property
    def free_cores(self) -> float:
        return self.cores * self.share


class Choice(NamedTuple):
    """A method with its settings, and why it was chosen."""

    method: str
    settings: Settings
    seconds: float  # estimated
    why: str


def describe_situation(corpus: Corpus, *, gpu: bool, budget: float | None) -> Situation:
    split = corpus.split("train")
    kind = "text" if split.texts is not None else "dense" if isinstance(split.features, np.ndarray) else "sparse"
    there = label_texts(corpus.labels) is not None
    pairs = int(split.labels.nnz)
    sizes = len(split), len(corpus.labels), pairs
    return Situation(*sizes, kind, there, gpu, usable_cores(), budget, share_of_cores())


def choose(of: Situation) -> Choice:
    """Return the best choice within the time budget; where none fits, the fastest."""
    choices = list(_from_best(of))
    fitting = [choice for choice in choices if of.budget is None or choice.seconds <= of.budget]
    choice = fitting[0] if fitting else choices[-1]
    time = f"{human_seconds(choice.seconds)} {_machine(choice, of)}"
    if of.budget is not None and not fitting:
        time += f", more than the budget of {human_seconds(of.budget)}"
    return choice._replace(why=f"{choice.why}; {time}")


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
        yield Choice("nearest", {}, 1.0, f"nearest texts, as {few} are too little to train on")
        return
    if of.gpu and of.kind == "text":
        yield _on_gpu(of)
    elif of.kind == "text":
        laptop = read_settings(preset_path("astec", "laptop"), [])
        seconds = _ASTEC * of.texts / of.free_cores + _fusion_seconds(of)
        yield Choice("astec", _with_wrappers(of, laptop), seconds, _describe("small Astec", of))
    for space in (True, False) if _has_space(of) else (False,):
        seconds = _TREES * 3 * of.pairs / of.free_cores + _fusion_seconds(of, trees=0, space=space)
        settings = _with_wrappers(of, {}, trees=0, space=space)
        yield Choice("trees", settings, seconds, _describe("label trees", of, trees=False, space=space))
    untrained = "nearest texts + label texts, without training"
    yield Choice("nearest", {}, 1e-4 * of.texts / of.free_cores, untrained)


def _on_gpu(of: Situation) -> Choice:
    method = "inceptionxml" if of.labels <= _MANY else "inceptionxml+"
    epochs = int(np.clip(round(28 * (45_000 / of.texts) ** 0.6), 6, 40))
    batch, rate = (128, 0.003) if of.texts < _LARGE else (512, 0.005)
    own: Settings = {"epochs": epochs, "batch_size": batch, "learning_rate": rate}
    own |= {"prior": of.texts >= _LARGE} if method == "inceptionxml" else {}
    steps = epochs * of.texts / batch
    if _has_space(of):
        warm = int(np.clip(_MOST_WARM // of.texts, 2, _WARM_UP))
        own |= {"warm_up": {"epochs": warm}, "row_start": _ROW_START}
        steps += warm * of.texts / WARM_UP_BATCH
    seconds = _GPU_START + _GPU_STEP * steps + _fusion_seconds(of)
    return Choice(method, _with_wrappers(of, own), seconds, _describe("InceptionXML", of))


def _has_space(of: Situation) -> bool:
    """Return whether texts and label texts can be learnt to share a space."""
    return of.label_texts and of.kind == "text"


def _fusion_seconds(of: Situation, trees: int = 3, *, space: bool = True) -> float:
    """Estimate the time of fusion; trees are trained without the held-out texts, and again with them."""
    seconds = (2 * trees * _TREES * of.pairs + _CHANNELS * of.texts) / of.free_cores
    return seconds + _space_seconds(of) if space and _has_space(of) else seconds


def _space_seconds(of: Situation) -> float:
    config = siamese.Config(embedding=_SPACE[of.gpu], length=_USUAL_WORDS)
    config = siamese.sized(config, of.texts, _USUAL_WORDS)
    machine = GPU if of.gpu else CPU.times(of.free_cores)
    stages = _GPU_STAGE * (1 + config.rounds) if of.gpu else 0.0
    return stages + siamese.training_costs(config, machine, words=of.texts, labels=of.labels, texts=of.texts).seconds


def _with_wrappers(of: Situation, settings: Settings, trees: int = 3, *, space: bool = True) -> Settings:
    """Return a method's settings with those of fusion and, where labels have texts, of extra texts."""
    held = min(_HELD_OUT, math.floor(1e5 * MOST_HELD_OUT / of.texts) / 1e5)
    learnt = {"extra_texts": {"share": 0.1}} if _has_space(of) and trees else {}
    channel = {"siamese": _SPACE[of.gpu]} if space and _has_space(of) else {}
    return settings | {"validation": held, "fusion": {"trees": trees, **channel, **_WEIGHING}, **learnt}


def _describe(learner: str, of: Situation, *, trees: bool = True, space: bool = True) -> str:
    channels = ["label trees"] * trees + ["nearest texts"] + ["label texts"] * of.label_texts
    channels += ["siamese"] * (space and _has_space(of))
    return " + ".join([learner, *channels])


def _machine(choice: Choice, of: Situation) -> str:
    busy = " beside other work" * (of.share < _BUSY and choice.seconds >= _LONG)
    return f"on {'a GPU' if choice.method.startswith('inceptionxml') else counted(of.cores, 'core')}{busy}"
