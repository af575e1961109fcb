"""Which method suits some data, a machine and the time there is: what training chooses where no method is named.

There is one recipe: a learnt ranker, label trees, nearest texts and the labels' own texts, weighed by a small network
(methods/wrappers/fusion.py). The learnt ranker differs, and takes most of the time. The choice depends on nothing that
changes from one minute to the next, so that a run that was stopped goes on with the same choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from laconic.config import Settings, merged, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.dataset import MOST_HELD_OUT
from laconic.data.prepare import label_texts
from laconic.errors import ConfigError
from laconic.methods.registry import config_of
from laconic.system.machine import usable_cores
from laconic.units import counted, human_seconds

_FEW = 500  # texts; of fewer, too few can be held out to learn how channels are weighed
_MANY = 1_000_000  # labels; of more, some are picked
_HELD_OUT = 0.1  # fraction of the texts that say how channels are weighed; less where that is MOST_HELD_OUT
_LEANING = 0.05  # to rare labels: on held-out texts it costs 0.2 points of P@1 and gives 1.5 of their recall
_LARGE = 200_000  # texts; of more, larger batches take fewer steps and lose nothing
# Seconds on one core or, where it is said, on one H200, measured on the data of docs/combined.md. Right to a factor of
# two on machines like those.
_ASTEC, _TREES, _CHANNELS = 8e-3, 1.6e-4, 1e-3  # a text; a pair and tree; a text
_GPU_STEP, _GPU_START = 1.6e-3, 30.0


class Situation(NamedTuple):
    """What a choice goes by."""

    texts: int
    labels: int
    pairs: int
    kind: str  # of inputs: text, sparse or dense
    label_texts: bool
    gpu: bool
    cores: int
    budget: float | None = None  # seconds; None: as long as it takes


class Choice(NamedTuple):
    method: str
    settings: Settings
    seconds: float  # about
    why: str


def situation(corpus: Corpus, *, gpu: bool, budget: float | None) -> Situation:
    split = corpus.split("train")
    kind = "text" if split.texts is not None else "dense" if isinstance(split.features, np.ndarray) else "sparse"
    there = label_texts(corpus.labels) is not None
    pairs = int(split.labels.nnz)
    return Situation(len(split), len(corpus.labels), pairs, kind, there, gpu, usable_cores(), budget)


def chosen(of: Situation) -> Choice:
    """The best that fits the time there is; where none does, the quickest."""
    choices = list(_from_best(of))
    fitting = [choice for choice in choices if of.budget is None or choice.seconds <= of.budget]
    choice = fitting[0] if fitting else choices[-1]
    time = human_seconds(choice.seconds)
    if of.budget is not None and not fitting:
        time += f", though {human_seconds(of.budget)} were asked for"
    return choice._replace(why=f"{choice.why}; {time}")


def config_for(choice: Choice, wanted: Settings) -> tuple[Settings, Any]:
    """The choice's settings, overruled by what is wanted, and the config that they make."""
    settings = merged(choice.settings, wanted)
    try:
        return settings, config_of(choice.method, settings)
    except ConfigError as error:
        raise ConfigError(f"{error} ({choice.method} was chosen; name the method whose settings these are)") from None


def _from_best(of: Situation) -> Iterator[Choice]:
    if of.texts < _FEW or of.kind == "dense":
        few = counted(of.texts, "text") if of.texts < _FEW else "features without words"
        yield Choice("nearest", {}, 1.0, f"{few}: too little to learn more from than which texts are near")
        return
    if of.gpu and of.kind == "text":
        yield _on_gpu(of)
    elif of.kind == "text":
        laptop = read_settings(preset_path("astec", "laptop"), [])
        seconds = _ASTEC * of.texts / of.cores + _fusing(of)
        yield Choice("astec", _combined(of, laptop), seconds, _said(f"Astec, narrow for a CPU, {_on_cores(of)}", of))
    seconds = _TREES * 3 * of.pairs / of.cores + _fusing(of, trees=0)
    yield Choice("trees", _combined(of, {}, trees=0), seconds, _said(f"label trees {_on_cores(of)}", of, trees=False))
    untrained = "nearest texts and labels' own texts, which need no training"
    yield Choice("nearest", {}, 1e-4 * of.texts / of.cores, untrained)


def _on_gpu(of: Situation) -> Choice:
    method = "inceptionxml" if of.labels <= _MANY else "inceptionxml+"
    epochs = int(np.clip(round(28 * (45_000 / of.texts) ** 0.6), 6, 40))
    batch, rate = (128, 0.003) if of.texts < _LARGE else (512, 0.005)
    own: Settings = {"epochs": epochs, "batch_size": batch, "learning_rate": rate}
    own |= {"prior": of.texts >= _LARGE} if method == "inceptionxml" else {}
    seconds = _GPU_START + _GPU_STEP * epochs * of.texts / batch + _fusing(of)
    return Choice(method, _combined(of, own), seconds, _said("InceptionXML on a GPU", of))


def _fusing(of: Situation, trees: int = 3) -> float:
    """Trees are grown without the held-out texts, and once more with them."""
    return (2 * trees * _TREES * of.pairs + _CHANNELS * of.texts) / of.cores


def _combined(of: Situation, settings: Settings, trees: int = 3) -> Settings:
    """A method's settings, with all that there is over it."""
    held = min(_HELD_OUT, math.floor(1e5 * MOST_HELD_OUT / of.texts) / 1e5)
    learnt = {"extra_texts": {"share": 0.1}} if of.label_texts and of.kind == "text" and trees else {}
    return settings | {"validation": held, "fusion": {"trees": trees, "tail": _LEANING}, **learnt}


def _said(learner: str, of: Situation, *, trees: bool = True) -> str:
    channels = ["label trees"] * trees + ["nearest texts"] + ["labels' own texts"] * of.label_texts
    return f"{learner}, weighed with {', '.join(channels)}"


def _on_cores(of: Situation) -> str:
    return f"on {counted(of.cores, 'core')}"
