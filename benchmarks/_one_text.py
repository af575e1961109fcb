"""How long one text takes an untrained model of a given shape: word ids in, the best five labels out."""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks._plus_paper import without_clusters
from laconic.clustering import random_tree
from laconic.costs import Shape
from laconic.methods import inceptionxml, inceptionxml_plus
from laconic.rankers import FlatRanker, Ranker
from laconic.types import FIRST_WORD, Tokens

TIMES, WARM_UP = 200, 5


def milliseconds_of_both(shape: Shape, words: int, device: str) -> dict[str, float]:
    """With the shape's clusters and without, for texts of so many words; the median."""
    shapes = {"InceptionXML+": shape, "InceptionXML": without_clusters(shape)}
    return {name: milliseconds(built(one, device), words, device) for name, one in shapes.items()}


def milliseconds(ranker: Ranker, words: int, device: str) -> float:
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(FIRST_WORD, ranker.num_ids, (TIMES + WARM_UP, 1, words), generator=generator).to(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = [_timed(ranker, Tokens(ids, torch.ones(1, words, device=device)), device) for ids in texts]
    finally:
        torch.set_num_threads(threads)
    return round(statistics.median(times[WARM_UP:]), 2)


@torch.no_grad()
def built(shape: Shape, device: str) -> Ranker:
    torch.manual_seed(0)
    length, embedding = shape.length, shape.dim
    with torch.device(device):
        if not shape.clusters:
            flat = inceptionxml.Config(length=length, embedding=embedding)
            return FlatRanker(*inceptionxml.build(flat, shape.words, shape.labels)).to(device).eval()
        clustered = inceptionxml_plus.Config(length=length, embedding=embedding, clusters=shape.clusters, top=shape.top)
        ranker = inceptionxml_plus.build(clustered, shape.words, random_tree(shape.labels, shape.clusters, 0))
    # Untrained rows pick the same clusters for all texts, whose labels then wait in the cache: spread the picks.
    ranker.clusters.classifier.weight.normal_()
    return ranker.to(device).eval()


@torch.inference_mode()
def _timed(ranker: Ranker, text: Tokens, device: str) -> float:
    started = time.perf_counter()
    ranker.rank(text, 5)
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e3
