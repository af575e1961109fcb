"""Data of the shapes of the InceptionXML paper (Table 1), made on any device, from which labels can be learnt.

Labels stand in a ring in the order of their frequency, which is Zipf's. A text takes an anchor and a few labels that
follow it closely, so labels that stand together go together and are about equally frequent. Every label has a
few words, of its own and of the topics that it shares with its neighbours; a text writes words of its labels among
words that say nothing. Label numbers are shuffled.

    python -m benchmarks.shapes

`benchmarks.shape_files` writes such data as files.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from benchmarks.common import save
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.types import FIRST_WORD, PAD, Tokens

SHARED_BY = (1, 1, 16, 256, 4096)  # how many neighbours share each word of a label: its own, and its topics'
BACKGROUND = 0.3  # share of words that say nothing
SPREAD = 3  # a text's next label is one to so many places further
# Exponents of Zipf's law, which must not be 1. That of labels leaves few without any text, as in the papers' data.
OF_LABELS, OF_WORDS = 0.6, 0.95


@dataclass(frozen=True, kw_only=True)
class DataShape:
    texts: int
    words: int
    labels: int
    labels_a_text: float
    up_to_4: float  # share of texts with at most 4 words
    up_to_8: float
    test_texts: int = 0

    @property
    def lengths(self) -> NormalDist:
        """The logarithm of a text's number of words, such that both shares are met."""
        low, high = NormalDist().inv_cdf(self.up_to_4), NormalDist().inv_cdf(self.up_to_8)
        sigma = log(8.5 / 4.5) / (high - low)
        return NormalDist(log(4.5) - low * sigma, sigma)

    @property
    def average_words(self) -> float:
        return exp(self.lengths.mean + self.lengths.variance / 2)


PAPER_SHAPES = {
    "WikiSeeAlsoTitles-350K": DataShape(
        texts=629_418,
        test_texts=162_491,
        words=91_414,
        labels=352_072,
        labels_a_text=2.33,
        up_to_4=0.82,
        up_to_8=0.98,
    ),
    "WikiTitles-500K": DataShape(
        texts=1_699_722,
        test_texts=722_678,
        words=185_479,
        labels=501_070,
        labels_a_text=4.89,
        up_to_4=0.83,
        up_to_8=0.98,
    ),
    "AmazonTitles-670K": DataShape(
        texts=485_176,
        test_texts=150_875,
        words=66_666,
        labels=670_091,
        labels_a_text=5.39,
        up_to_4=0.40,
        up_to_8=0.70,
    ),
    "AmazonTitles-3M": DataShape(
        texts=1_712_536,
        test_texts=739_665,
        words=165_431,
        labels=2_812_281,
        labels_a_text=36.18,
        up_to_4=0.15,
        up_to_8=0.52,
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ShapedTexts:
    shape: DataShape
    ids: Int[Tensor, "texts length"]  # words in reading order, PAD at the end
    starts: Int[Tensor, "texts+1"]  # of each text's labels in `labels`
    labels: Int[Tensor, "pairs"]
    label_words: Int[Tensor, "labels words"]  # that each label's texts write; as ids

    def resident(self) -> Resident:
        counts = self.starts.diff()
        return Resident(
            inputs=Tokens(self.ids, self.weights()),
            starts=self.starts[:-1],
            counts=counts,
            labels=self.labels,
            targets=None,
            weights=None,
            width=int(counts.max()),
        )

    def dataset(self) -> Dataset:
        there = self.ids != PAD
        starts = np.concatenate([[0], there.sum(1).cumsum(0).cpu().numpy()])
        ids, weights = self.ids[there].cpu().numpy(), self.weights()[there].cpu().numpy()
        labels = self.labels.to(torch.int32).cpu().numpy()
        ones = np.ones(len(labels), dtype=np.float32)
        return Dataset(
            inputs=csr_array((weights, ids, starts), shape=(len(self.ids), self.shape.words + FIRST_WORD)),
            labels=csr_array((ones, labels, self.starts.cpu().numpy()), shape=(len(self.ids), self.shape.labels)),
            ordered=True,
        )

    def weights(self) -> Float[Tensor, "texts length"]:
        """What each word of a text adds to the text's tf-idf of length 1."""
        ordered = self.ids.sort(dim=1).values
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        texts_with = torch.bincount(ordered[first], minlength=self.shape.words + FIRST_WORD)
        idf = torch.log((1 + len(self.ids)) / (1 + texts_with.double())).float() + 1
        idf[PAD] = 0
        return torch.cat([_unit(ids, idf) for ids in self.ids.split(1 << 16)])


def make(
    shape: DataShape, *, seed: int = 0, part: int = 0, texts: int = 0, length: int = 32, device: str = "cpu"
) -> ShapedTexts:
    """So many texts (0: the shape's). Other parts of one seed are other texts with the same labels and words."""
    world = torch.Generator(device).manual_seed(seed)
    numbers = torch.randperm(shape.labels, generator=world, device=device)
    words = torch.stack([_shared_words(shape, size, world) for size in SHARED_BY], dim=1)
    chance = torch.Generator(device).manual_seed(seed * 1_000_003 + part + 1)
    texts = texts or shape.texts
    starts, places = _places(shape, texts, chance)
    return ShapedTexts(
        shape=shape,
        ids=_words(shape, length, starts, places, words, chance),
        starts=starts,
        labels=numbers[places],
        label_words=words[numbers.argsort()] + FIRST_WORD,
    )


def _places(shape: DataShape, texts: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where each text's labels begin, and the places of all labels in the ring."""
    rates = torch.full((texts,), shape.labels_a_text - 1, device=chance.device)
    counts = 1 + torch.poisson(rates, generator=chance).long().clamp(max=shape.labels // SPREAD - 1)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    steps = torch.randint(1, SPREAD + 1, (int(starts[-1]),), generator=chance, device=chance.device)
    walked = steps.cumsum_(0)
    anchors = _zipf(shape.labels, OF_LABELS, texts, chance)
    return starts, (torch.repeat_interleave(anchors - walked[starts[:-1]], counts) + walked) % shape.labels


def _shared_words(shape: DataShape, size: int, world: torch.Generator) -> Tensor:
    """For each label of the ring a word that it has in common with `size` neighbours."""
    drawn = (_uniform(-(-shape.labels // size), world).square() * shape.words).long()
    return drawn.repeat_interleave(size)[: shape.labels]


def _words(
    shape: DataShape, length: int, starts: Tensor, places: Tensor, words: Tensor, chance: torch.Generator
) -> Tensor:
    """Texts as rows of token ids."""
    texts, device = len(starts) - 1, chance.device
    logarithms = torch.randn(texts, generator=chance, device=device) * shape.lengths.stdev + shape.lengths.mean
    there = torch.arange(length, device=device) < logarithms.exp().round().clamp(1, length)[:, None]
    text = there.nonzero()[:, 0]
    about = starts[text] + (_uniform(len(text), chance) * starts.diff()[text]).long()
    word = words[places[about], torch.randint(len(SHARED_BY), (len(text),), generator=chance, device=device)]
    says_nothing = _uniform(len(text), chance) < BACKGROUND
    word = torch.where(says_nothing, _zipf(shape.words, OF_WORDS, len(text), chance), word)
    ids = torch.full((texts, length), PAD, dtype=torch.int32, device=device)
    ids[there] = (word + FIRST_WORD).int()
    return ids


def _zipf(size: int, exponent: float, count: int, chance: torch.Generator) -> Tensor:
    """Numbers below `size`, drawn as often as (number + offset) ** -exponent; the offset flattens the very head."""
    offset, power = max(1, size / 100_000), 1 - exponent
    low, high = offset**power, (size + offset) ** power
    drawn = (low + (high - low) * _uniform(count, chance)) ** (1 / power) - offset
    return drawn.long().clamp(max=size - 1)


def _uniform(count: int, chance: torch.Generator) -> Tensor:
    return torch.rand(count, generator=chance, device=chance.device, dtype=torch.float64)


def _unit(ids: Int[Tensor, "texts length"], idf: Float[Tensor, "ids"]) -> Float[Tensor, "texts length"]:
    weights = idf[ids]
    times = (ids[:, :, None] == ids[:, None, :]).sum(2)
    return weights / (times * weights.square()).sum(1, keepdim=True).sqrt()


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    figures: dict[str, object] = {"device": torch.cuda.get_device_name() if device == "cuda" else device}
    for name, shape in PAPER_SHAPES.items():
        started = time.perf_counter()
        made = make(shape, device=device)
        pairs, longest = (
            len(made.labels),
            int(made.labels.bincount(minlength=shape.labels).max()),
        )  # waits for the device
        figures[name] = {
            "seconds": round(time.perf_counter() - started, 1),
            "labels_a_text": round(pairs / shape.texts, 2),
            "words_a_text": round(float((made.ids != PAD).sum() / shape.texts), 2),
            "texts_of_the_most_frequent_label": longest,
        }
    save("shapes", figures)


if __name__ == "__main__":
    main()
