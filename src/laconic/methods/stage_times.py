"""Estimate how long each stage of the combined default takes, by its name in a run.

Rates are seconds on one core of a Neoverse N1, measured on the data of docs/combined.md; `Situation.machine` says how
many such cores this machine is worth at the moment. Parts that may be done more or less than planned have their bounds
here too (training/deadline.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from laconic.data.encoder_folder import weights_and_width
from laconic.methods import astec, siamese, trees
from laconic.methods.config import EncoderChannel, FusionConfig, MethodConfig
from laconic.methods.costs import CPU, GPU, Machine, TrainingCosts, bag_reading, with_warm_up
from laconic.methods.first_kernels import COMPILED_BESIDE, CORES_TO_COMPILE_BESIDE, Kernels, kernels_of
from laconic.methods.warm_up import WARM_UP_BATCH
from laconic.methods.wrappers.encoder_channel import STAGE, epochs_of
from laconic.methods.wrappers.fusion import combiner_epochs
from laconic.methods.wrappers.fusion_trees import are_grown_again
from laconic.system.speed import Speed
from laconic.training.deadline import Part, total_seconds

USUAL_WORDS = 10  # of a text
_FLEXIBLE = (0.3, 3.0)  # bounds of epochs: of the plan
_COMBINER_LEAST = 1 / 3  # of its epochs
_MOST_TREES = 8  # more hardly help, and take room
_TREE = 1.5e-4  # seconds per pair of text and label, for one tree
_RANKING, _NEAREST = 1.2e-3, 2e-4  # per text that trees and nearest texts rank, or nearest texts alone
_FEW_LABELS, _DEEPER = 36_000, 0.2  # with more labels, trees rank by this power of them slower
_ORDERING = 2.0  # cores, from which on the order of labels is learnt sooner
_COMBINER, _ORDER = 1.9e-4, 1.4e-3  # per text and epoch, and per text, for the combining network and the trees after it
_PACKED_TEXTS, _COMPARED = 28_000, 5000  # texts that tune a packed model, and that are compared
_PACKING = {"all": 7e-4, "space": 3.4e-3, "astec": 1.5e-3}  # seconds per tuning text
# Seconds of one core to compile the kernels of a stage, which the first training on a machine does.
_COMPILING = {"label trees": 35.0, "evidence": 16.0, "order": 3.0, "packing": 16.0, "training": 40.0}
# Seconds on one H200 (stages.json): of a step, by the texts of its batch and by pairs of text and label; of a step of
# the warm-up; before a stage's first step, and that of a space.
_GPU_STEP, _GPU_TEXT, _GPU_PAIR, _GPU_WARM_STEP = 1.5e-3, 2.6e-6, 2.3e-11, 7.3e-3
_GPU_START, _GPU_SPACE, _GPU_UPDATED = 3.0, 1.2, 128
_GPU_SPACES, _GPU_SEARCHED = 2.0, 3.6e-6  # times what its rates say; seconds per text that looks for negative labels
_GPU_COMBINER, _GPU_JUDGED = 1.0, 4.0  # for the network, and before the first text is judged
_GPU_PACKED, _GPU_LABEL = 6.0, 3e-5  # to pack, and for each label, which is written as well
_GPU_BFLOAT, _GPU_COMPILED, _PIECES = 35e12, 30.0, 16  # operations a second of a transformer; seconds; of a text
_COMPILED = 0.3  # to find that the kernels of label trees are compiled
_DENSE, _SPARSE = 0.6, 0.5  # powers of measured speeds: steps and searches wait for memory too
_SEARCHED = 5.0  # operations for each number of a vector that a text is compared with


class Situation(NamedTuple):
    """Facts that decide the choice of a plan."""

    texts: int
    labels: int
    pairs: int
    kind: str  # of inputs: text, sparse or dense
    label_texts: bool
    gpu: bool
    cores: int
    budget: float | None = None  # seconds; None: no limit
    share: float = 1.0  # of the cores, that other processes leave
    speed: Speed = Speed()  # of one core
    judged: int = 0  # test texts
    packing: bool = True
    held_memory: int = 0  # bytes that the process holds, with the data
    free_memory: int | None = None  # bytes that it may hold; None: unknown
    unspaced: bool = False  # whether most texts are in scripts whose words no space parts
    uncompiled: frozenset[str] = frozenset()  # kernels that no training here has compiled (first_kernels.py)

    @property
    def free_cores(self) -> float:
        return self.cores * self.share

    @property
    def lookup_rate(self) -> float:
        """Return how many cores of the reference this machine is worth where features are looked up."""
        return self.free_cores * math.pow(self.speed.lookups * self.speed.memory, _SPARSE)

    @property
    def one_core(self) -> float:
        """Return how many cores of the reference one thread is worth here: it has a core if others leave one."""
        return min(1.0, self.free_cores) * math.pow(self.speed.products * self.speed.memory, _SPARSE)

    @property
    def words(self) -> int:
        """Return a guess of the vocabulary's size."""
        return round(150 * math.pow(self.texts, 0.52))

    @property
    def machine(self) -> Machine:
        """Return the rates of what trains networks here."""
        if self.gpu:
            return GPU
        cores = CPU.times(self.free_cores)
        flops, bandwidth = cores.flops * math.pow(self.speed.products, _DENSE), cores.bandwidth * self.speed.memory
        return replace(cores, flops=flops, bandwidth=bandwidth)


def planned_parts(of: Situation, method: str, config: MethodConfig, members: int = 1) -> dict[str, Part]:
    """Return the parts of a training with its evaluation and packing, by the names of a run's stages."""
    held = round(of.texts * config.validation)
    parts = _base(of, method, config, of.texts - held, held)
    if config.fusion is not None:
        parts |= _combination(of, config, config.fusion, of.texts - held, held, parts)
    if members > 1:
        parts = {
            f"member-{number}.{name}": part._replace(follows=part.follows and f"member-{number}.{part.follows}")
            for number in range(members)
            for name, part in parts.items()
        }
    # Members of an ensemble rank labels, and then score those of all members.
    ranking = (2 * members if members > 1 else 1) * _ranking_seconds(of, config)
    parts["calibration"] = Part(held * ranking)
    parts["evaluation"] = Part(of.judged * ranking + _GPU_JUDGED * of.gpu)
    if of.packing:
        parts["packing"] = Part(members * _packing_seconds(of, config) + min(_COMPARED, of.judged) * 2 * ranking)
    for name, seconds in compile_seconds(of, method, parts).items():
        parts[name] = parts[name]._replace(once=seconds)
    return parts


def compile_seconds(of: Situation, method: str, parts: Iterable[str]) -> dict[str, float]:
    """Return how long parts compile kernels in a first training here; later members find them compiled."""
    beside, found, seen = compiles_beside(of, method), dict[str, float](), set[Kernels]()
    for part in parts:
        kernels = kernels_of(method, part, gpu=of.gpu)
        if kernels is None or kernels in seen or kernels.name not in of.uncompiled:
            continue
        seen.add(kernels)
        if not beside or kernels.kind == "training":
            found[part] = _COMPILING[kernels.kind] / min(1.0, of.free_cores)
    return found


def compiles_beside(of: Situation, method: str) -> bool:
    """Return whether processes of their own compile the kernels of later stages, and of label trees, beside a GPU."""
    return of.gpu and of.packing and of.cores >= CORES_TO_COMPILE_BESIDE and method in COMPILED_BESIDE


def _ranking_seconds(of: Situation, config: MethodConfig) -> float:
    """Estimate how long it takes to rank a text."""
    if config.fusion is None:
        return _NEAREST / of.lookup_rate
    compared = config.fusion.siamese * of.labels * of.label_texts
    if isinstance(config, astec.Config):
        compared += config.embedding * (of.labels + of.texts)
    deeper = math.pow(max(1.0, of.labels / _FEW_LABELS), _DEEPER)
    return _RANKING * deeper / of.lookup_rate + _SEARCHED * compared / of.machine.flops


def _packing_seconds(of: Situation, config: MethodConfig) -> float:
    """Estimate how long it takes to tune and to write the packed model."""
    fusion = config.fusion
    kinds = ["all"] * (fusion is not None) + ["astec"] * isinstance(config, astec.Config)
    kinds += ["space"] * (fusion is not None and fusion.siamese > 0 and of.label_texts)
    tuned = sum(_PACKING[kind] for kind in kinds) * min(of.texts, _PACKED_TEXTS) / of.lookup_rate
    return tuned + (_GPU_PACKED + _GPU_LABEL * of.labels) * of.gpu


def _base(of: Situation, method: str, config: MethodConfig, texts: int, held: int) -> dict[str, Part]:
    """Return the parts of the trained ranker."""
    sizes = {"words": of.words, "labels": of.labels, "texts": texts}
    if isinstance(config, astec.Config):
        sized = astec.with_sizes(config, of.texts, of.labels, USUAL_WORDS, of.pairs)
        seconds = astec.stage_seconds(sized, of.machine, **sizes, held=held)
        if sized.warm_up.epochs:
            reading, nothing = bag_reading(of.words, sized), TrainingCosts(0, 0.0)
            warm = with_warm_up(nothing, sized.warm_up, reading, texts=texts, machine=of.machine)
            seconds["warm-up"] = warm.seconds
        return _flexible(seconds, "surrogate", "extreme")
    if isinstance(config, trees.Config):
        forest = Part(config.trees * _tree_seconds(of), 1 / config.trees, _MOST_TREES / config.trees)
        return {trees.KERNELS: Part(_COMPILED), "trees": forest}
    if method.startswith("inceptionxml"):
        epochs, batch = config.epochs or 30, config.batch_size or 128  # type: ignore[attr-defined]
        warm = config.warm_up.epochs  # type: ignore[attr-defined]
        # Where some clusters are scored alone, all rows are still updated, which takes as long as some texts' scores.
        scored = min(batch, _GPU_UPDATED) if method == "inceptionxml+" else batch
        step = _GPU_STEP + _GPU_TEXT * batch + _GPU_PAIR * of.labels * scored
        warming = {"train-warm-up": _GPU_START + warm * texts / WARM_UP_BATCH * _GPU_WARM_STEP} if warm else {}
        return _flexible({**warming, "train": _GPU_START + epochs * texts / batch * step}, "train")
    return {"nearest": Part(_NEAREST * of.texts / of.lookup_rate)}


def _combination(
    of: Situation, config: MethodConfig, fusion: FusionConfig, texts: int, held: int, base: Mapping[str, Part]
) -> dict[str, Part]:
    """Return the parts of the other channels, and of what combines them all with the base."""
    parts = {"fusion-evidence": Part(held * _ranking_seconds(of, config))}
    # One thread trains the network, unless a GPU does.
    network = _GPU_COMBINER if of.gpu else _COMBINER * held * combiner_epochs(fusion, held) / of.one_core
    parts["fusion"] = Part(network, _COMBINER_LEAST)
    parts["fusion-order"] = Part(_ORDER * held / of.one_core / max(1.0, of.free_cores / _ORDERING))
    if fusion.siamese and of.label_texts:
        sizes = {"words": of.words, "labels": of.labels, "texts": texts}
        seconds = siamese.stage_seconds(space_of(of, config), of.machine, **sizes, name="fusion-siamese")
        stages = [name for name in seconds if "negatives" not in name]
        if of.gpu:
            searched = _GPU_SEARCHED * texts
            seconds = {
                name: _GPU_SPACES * one + _GPU_SPACE if name in stages else one + searched
                for name, one in seconds.items()
            }
        parts |= _flexible(seconds, *stages)
    if fusion.encoder.folder:
        parts |= _encoder(of, fusion.encoder, texts)
    if fusion.trees:
        parts |= _forests(of, config, fusion, total_seconds({**base, **parts}, 1.0 if of.budget is None else 0.0))
    return parts


def _forests(of: Situation, config: MethodConfig, fusion: FusionConfig, others: float) -> dict[str, Part]:
    """Return the parts that grow label trees; beside a GPU, they wait for nothing else for so many seconds at least."""
    forest, least = fusion.trees * _tree_seconds(of), 1 / fusion.trees
    again = are_grown_again(config.validation, of.pairs, of.cores, beside_gpu=of.gpu)
    first, both = (max(0.0, forests * forest - others * of.gpu) for forests in (1, 2))
    parts = {"fusion-trees": Part(first, least, 1.0)}
    return parts | {"fusion-trees-of-all": Part(both - first, least, 1.0, follows="fusion-trees")} if again else parts


def _encoder(of: Situation, own: EncoderChannel, texts: int) -> dict[str, Part]:
    """Return the parts of a transformer's training; label texts are read beside texts before its own epochs.

    A frozen one reads every text and label text once, and label rows alone are trained.
    """
    start, rate = (_GPU_COMPILED, _GPU_BFLOAT) if of.gpu else (0.0, of.machine.flops)
    weights, width = weights_and_width(Path(own.folder))
    read, epochs = 2 * _PIECES * weights / rate, epochs_of(own, texts)  # seconds for a text
    train, warm = f"{STAGE}.train", f"{STAGE}.train-warm-up"
    if own.frozen:
        named = of.labels if of.label_texts else 0
        seconds = {train: start + (texts + named) * read + epochs * 6 * texts * of.labels * width / rate}
    else:
        seconds = {train: start + epochs * 3 * texts * read}
    if of.label_texts and own.warm_up:
        seconds[warm] = start + 2 * own.warm_up * 3 * texts * read
    return _flexible(seconds, train)


def space_of(of: Situation, config: MethodConfig) -> siamese.Config:
    """Return the settings of the space of texts and label texts, with the sizes that the data decides."""
    assert config.fusion is not None
    space = replace(siamese.space_config(config.fusion.siamese, config), length=USUAL_WORDS)
    return siamese.sized(space, round(of.texts * (1 - config.validation)), USUAL_WORDS)


def _tree_seconds(of: Situation) -> float:
    return _TREE * of.pairs / of.lookup_rate


def _flexible(seconds: dict[str, float], *names: str) -> dict[str, Part]:
    return {name: Part(one, *(_FLEXIBLE if name in names else ())) for name, one in seconds.items()}
