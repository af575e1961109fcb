"""Estimate the most memory that a training of the combined default holds, with all of its channels."""

from __future__ import annotations

from laconic.methods import astec, siamese, trees
from laconic.methods.config import FusionConfig, MethodConfig
from laconic.methods.costs import CPU
from laconic.methods.stage_times import USUAL_WORDS, Situation, space_of

_LIBRARIES = 250 << 20  # compiled kernels and further libraries, which are loaded while training
_TEXT = 400  # bytes per text: its words and labels as numbers, in several forms
_WEIGHTS = 400  # bytes per pair of text and label: what a tree takes while it is grown
_CANDIDATES, _NUMBERS, _COPIES = 200, 20, 4  # labels per held-out text, numbers of each, and copies of four bytes


def needed_memory(of: Situation, config: MethodConfig, members: int = 1) -> int:
    """Return the bytes that the process will hold at most, on top of them what it holds now."""
    stages = [_WEIGHTS * of.pairs * (isinstance(config, trees.Config) or config.fusion is not None)]
    if isinstance(config, astec.Config) and not of.gpu:
        sized = astec.with_sizes(config, of.texts, of.labels, USUAL_WORDS, of.pairs)
        stages.append(astec.training_costs(sized, CPU, words=of.words, labels=of.labels, texts=of.texts).memory)
    if config.fusion is not None:
        stages += _of_fusion(of, config, config.fusion)
    finished = max(stages) // 4 * (members - 1)  # weights of finished members stay
    return of.held_memory + _LIBRARIES + _TEXT * of.texts + max(stages) + finished


def _of_fusion(of: Situation, config: MethodConfig, fusion: FusionConfig) -> list[int]:
    held = round(of.texts * config.validation)
    stages = [4 * _COPIES * _CANDIDATES * _NUMBERS * held]
    if fusion.siamese and of.label_texts and not of.gpu:
        space = space_of(of, config)
        stages.append(siamese.training_costs(space, CPU, words=of.words, labels=of.labels, texts=of.texts).memory)
    return stages
