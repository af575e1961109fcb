"""Encode texts and label texts into one space, in which a text is near to its labels: vectors of length 1."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders.base import WordEncoder
from laconic.types import PAD, Inputs


class UnitEncoder(WordEncoder):
    """The weighted sum of word vectors, x + GELU(Linear(x)) of it, divided by its length."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = 256) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dim = embedding
        self.linear = nn.Linear(embedding, embedding)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.start_from(torch.randn(num_ids, embedding) * embedding**-0.5)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return self.shaped(self.summed(inputs))

    def shaped(self, summed: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """Return the vectors of texts from the sums of their words' vectors."""
        return functional.normalize(summed + functional.gelu(self.linear(summed)), dim=1)


class Spelling(NamedTuple):
    """The character n-grams of words, as numbers: those of token id i are numbers[starts[i]:starts[i + 1]]."""

    starts: Int[Tensor, "ids+1"]
    numbers: Int[Tensor, "grams"]


class SpellingEncoder(UnitEncoder):
    """A unit encoder in training: a word's vector is its own plus those of the character n-grams it is spelt with.

    Rare words learn from others of similar spelling. `folded` adds the n-grams to the words once and for all.
    """

    gram_starts: Tensor
    gram_numbers: Tensor

    def __init__(self, *, num_ids: int, length: int, embedding: int, spelling: Spelling, buckets: int) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.grams = nn.Embedding(buckets + 1, embedding)  # the last stands for no n-gram
        nn.init.normal_(self.grams.weight, std=embedding**-0.5)
        self.most = int(spelling.starts.diff().max())  # n-grams of a word
        self.register_buffer("gram_starts", spelling.starts, persistent=False)
        self.register_buffer("gram_numbers", spelling.numbers, persistent=False)

    def summed(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        ids, weights = self.cut(inputs)
        weights = weights * (ids != PAD)
        if ids.is_cuda:  # fixed shapes, which a captured step needs
            vectors = self._vectors_in_fixed_shapes(ids.reshape(-1)).view(*ids.shape, -1)
            return (vectors * weights[:, :, None]).sum(1)
        words, place = _once(ids.long(), self.num_ids)
        return functional.embedding_bag(place, self.word_vectors(words), mode="sum", per_sample_weights=weights)

    def word_vectors(self, words: Int[Tensor, "n"]) -> Float[Tensor, "n dim"]:
        """Return the vectors of words, n-grams included. Each n-gram is looked up once."""
        counts = self.gram_starts.diff()[words]
        offsets = counts.cumsum(0) - counts
        within = torch.arange(int(counts.sum()), device=words.device) - offsets.repeat_interleave(counts)
        numbers = self.gram_numbers[self.gram_starts[words].repeat_interleave(counts) + within]
        grams, place = _once(numbers.long(), self.grams.num_embeddings)
        spelt = functional.embedding_bag(place, self.grams(grams), offsets, mode="sum")
        own: Tensor = self.embedding(words)
        return own + spelt / counts.clamp(min=1).sqrt()[:, None]

    def _vectors_in_fixed_shapes(self, words: Int[Tensor, "n"]) -> Float[Tensor, "n dim"]:
        """Compute `word_vectors` without asking how many n-grams there are."""
        starts, counts = self.gram_starts[words], self.gram_starts.diff()[words]
        place = torch.arange(self.most, device=words.device)
        there, none = place < counts[:, None], self.grams.num_embeddings - 1
        numbers = torch.where(there, self.gram_numbers[(starts[:, None] + place) * there].long(), none)
        spelt = functional.embedding_bag(numbers, self.grams.weight, mode="sum", padding_idx=none)
        own: Tensor = self.embedding(words)
        return own + spelt / counts.clamp(min=1).sqrt()[:, None]

    @torch.no_grad()
    def folded(self) -> UnitEncoder:
        """Return the same encoder with one vector for each word."""
        encoder = UnitEncoder(num_ids=self.num_ids, length=self.length, embedding=self.dim)
        every = torch.arange(self.num_ids, device=self.gram_starts.device)
        encoder.start_from(torch.cat([self.word_vectors(some) for some in torch.split(every, 1 << 16)]).cpu())
        encoder.linear.load_state_dict(self.linear.state_dict())
        return encoder.to(self.gram_starts.device).eval()


def _once(numbers: Int[Tensor, "*shape"], below: int) -> tuple[Int[Tensor, "n"], Int[Tensor, "*shape"]]:
    """Return each of these numbers once, sorted, and the place of each in that list; without sorting them."""
    used = torch.zeros(below, dtype=torch.bool, device=numbers.device)
    used[numbers.flatten()] = True
    return used.nonzero()[:, 0], (used.cumsum(0) - 1)[numbers]
