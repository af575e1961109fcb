"""Estimate the most memory that a training of the combined default holds, with all of its channels."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from laconic.methods import astec, siamese, trees
from laconic.methods.config import FusionConfig, MethodConfig
from laconic.methods.costs import CPU
from laconic.methods.first_kernels import MEMORY_LEFT, MEMORY_TO_COMPILE, kernels_of
from laconic.methods.stage_times import USUAL_WORDS, Situation, compiles_beside, planned_parts, space_of
from laconic.models.fusion import numbers_of
from laconic.training.deadline import Part

_TREES = "trees"  # the stage in which label trees grow that are a model of their own
_LIBRARIES = 250 << 20  # compiled kernels and further libraries, which are loaded while training
_GPU = 1600 << 20  # CUDA's libraries, and the processes that compile steps and grow label trees beside a GPU
_TEXT = 400  # bytes per text: its words and labels as numbers, in several forms
_PAIR, _SOLVER = 800, 200 << 20  # bytes per pair of text and label, and of the solver, while a tree is grown
_SHARING = 7  # labels of a text; where there are more, they share what a tree holds of their text
_TREE, _JOINED = 115, 3  # bytes per pair of text and label of a tree that is grown; copies where trees are joined
_PACKING = 300 << 20  # bytes of a packed model beside the model, and of what it is compared with
_COPIES = 1.4  # of what the channels say of held-out texts
_SCRATCH = 40  # bytes per label and core while that is gathered


def planned_within(of: Situation, method: str, config: MethodConfig, members: int = 1) -> dict[str, Part]:
    """Return the parts of a training; label trees grow no more than memory has room for, however long the budget."""
    parts = planned_parts(of, method, config, members)
    if not isinstance(config, trees.Config) or of.free_memory is None:
        return parts
    own = [name for name in parts if name.split(".")[-1] == _TREES]
    most = parts[own[0]].most
    more = range(config.trees + 1, round(config.trees * most) + 1)
    fitting = [count for count in more if needed_memory(of, replace(config, trees=count), members) <= of.free_memory]
    most = min(most, max(fitting, default=config.trees) / config.trees)
    return parts | {name: parts[name]._replace(most=most) for name in own}


def needed_memory(of: Situation, config: MethodConfig, members: int = 1) -> int:
    """Return the bytes that the process will hold at most, with those that it holds already."""
    fusion, kept = config.fusion, _kept(of, config)
    stages = [members * kept + _PACKING * (of.packing and fusion is not None)]
    if isinstance(config, trees.Config) or (fusion is not None and fusion.trees):
        stages += [kept + _SOLVER + _growing(of), kept + (_JOINED - 1) * _forest(of, config)]
    if isinstance(config, astec.Config) and not of.gpu:
        sized = astec.with_sizes(config, of.texts, of.labels, USUAL_WORDS, of.pairs)
        stages.append(astec.training_costs(sized, CPU, words=of.words, labels=of.labels, texts=of.texts).memory)
    if fusion is not None:
        stages.append(kept + _evidence(of, config, fusion))
        if fusion.siamese and of.label_texts and not of.gpu:
            space = space_of(of, config)
            sizes = {"words": of.words, "labels": of.labels, "texts": of.texts}
            stages.append(kept + siamese.training_costs(space, CPU, **sizes).memory)
    libraries = _LIBRARIES + _GPU * of.gpu
    return of.held_memory + libraries + _TEXT * of.texts + max(stages) + kept * (members - 1)


def beside_memory(of: Situation, method: str, memory: int) -> int:
    """Return the bytes of a process that compiles kernels beside a first training on a GPU; 0 where there is none.

    Where memory has no room for it beside the `memory` of the training, it does not start.
    """
    packing = kernels_of(method, "packing", gpu=of.gpu)
    is_wanted = compiles_beside(of, method) and packing is not None and packing.name in of.uncompiled
    has_room = of.free_memory is None or memory + MEMORY_TO_COMPILE + MEMORY_LEFT <= of.free_memory
    return MEMORY_TO_COMPILE * (is_wanted and has_room)


def _kept(of: Situation, config: MethodConfig) -> int:
    """Return the bytes of the trained channels, which stay while others are trained."""
    fusion, kept = config.fusion, _forest(of, config)
    if isinstance(config, astec.Config):
        kept += 4 * (of.words + 2 * of.labels + 2 * of.texts) * config.embedding
    if fusion is not None and of.label_texts:
        kept += 4 * (of.words + of.labels) * fusion.siamese
    return kept


def _forest(of: Situation, config: MethodConfig) -> int:
    """Return the bytes of the label trees."""
    count = config.trees if isinstance(config, trees.Config) else 0 if config.fusion is None else config.fusion.trees
    return _TREE * of.pairs * count


def _growing(of: Situation) -> int:
    """Return the bytes of what a tree that is growing holds of texts and labels."""
    return round(_PAIR * of.pairs * min(1.0, sqrt(_SHARING * of.texts / max(1, of.pairs))))


def _evidence(of: Situation, config: MethodConfig, fusion: FusionConfig) -> int:
    """Return the bytes of what all channels say of the held-out texts."""
    rankers = 1 + (fusion.trees > 0) + (fusion.siamese > 0 and of.label_texts)
    candidates = fusion.width * (rankers + 1 + of.label_texts)
    found = round(4 * _COPIES * of.texts * config.validation * candidates * numbers_of(rankers))
    return found + _SCRATCH * of.labels * of.cores
