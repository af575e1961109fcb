"""Estimate the most memory that a training of the combined default holds, with all of its channels."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from laconic.methods import astec, siamese, trees
from laconic.methods.config import FusionConfig, MethodConfig
from laconic.methods.costs import CPU
from laconic.methods.first_kernels import COMPILED_BESIDE, CORES_TO_COMPILE_BESIDE, kernels_of
from laconic.methods.stage_times import USUAL_WORDS, Situation, planned_parts, space_of
from laconic.models.fusion import numbers_of
from laconic.training.deadline import Part

_TREES = "trees"  # the stage in which label trees grow that are a model of their own
_LIBRARIES = 250 << 20  # compiled kernels and further libraries, which are loaded while training
_GPU = 1600 << 20  # CUDA's libraries, and the processes that compile steps and grow label trees beside a GPU
_COMPILING = 1200 << 20  # a process that compiles the kernels of later stages beside a GPU
_TEXT = 400  # bytes per text: its words and labels as numbers, in several forms
_PAIR, _SOLVER = 800, 200 << 20  # bytes per pair of text and label, and of the solver, while a tree is grown
_SHARING = 7  # labels of a text; where there are more, they share what a tree holds of their text
_TREE, _JOINED = 115, 3  # bytes per pair of text and label of a tree that is grown; copies where trees are joined
_PACKING = 300 << 20  # bytes of a packed model beside the model, and of what it is compared with
_COPIES = 1.4  # of what the channels say of held-out texts


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
    libraries = _LIBRARIES + _GPU * of.gpu + _COMPILING * _is_compiled_beside(of)
    return of.held_memory + libraries + _TEXT * of.texts + max(stages) + kept * (members - 1)


def _is_compiled_beside(of: Situation) -> bool:
    """Return whether a process compiles kernels beside a first training on a GPU."""
    stages = [kernels_of(method, "packing", gpu=True) for method in COMPILED_BESIDE]
    names = {kernels.name for kernels in stages if kernels is not None}
    return of.gpu and of.packing and of.cores >= CORES_TO_COMPILE_BESIDE and not names.isdisjoint(of.uncompiled)


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
    return round(4 * _COPIES * of.texts * config.validation * candidates * numbers_of(rankers))
