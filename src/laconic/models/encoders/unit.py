"""Encode texts and label texts into one space, in which a text is near to its labels: vectors of length 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.models.encoders.base import WordEncoder
from laconic.types import PAD, Inputs

_PIECE = 64  # words whose gradients are summed one after the other


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
        self.grams = nn.Embedding(buckets, embedding)
        nn.init.normal_(self.grams.weight, std=embedding**-0.5)
        self.register_buffer("gram_starts", spelling.starts, persistent=False)
        self.register_buffer("gram_numbers", spelling.numbers[: int(spelling.starts[-1])], persistent=False)
        self._words_of_grams: _Turned | None = None

    def summed(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        ids, weights = self.cut(inputs)
        if ids.is_cuda:
            table = self.all_vectors()
            return functional.embedding_bag(ids, table, mode="sum", per_sample_weights=weights, padding_idx=PAD)
        weights = weights * (ids != PAD)
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

    def all_vectors(self) -> Float[Tensor, "ids dim"]:
        """Return the vectors of all words, in shapes that do not depend on a batch: a captured step needs that.

        On a GPU this is quicker than the n-grams of a batch's words, whose gradients would have to be sorted.
        """
        if self._words_of_grams is None:
            self._words_of_grams = _turned_round(Spelling(self.gram_starts, self.gram_numbers), len(self.grams.weight))
        root = self.gram_starts.diff().clamp(min=1).sqrt()[:, None]
        spelling = self.gram_starts, self.gram_numbers
        spelt = _SumOfGrams.apply(self.grams.weight, *spelling, *self._words_of_grams)  # type: ignore[no-untyped-call]
        return self.embedding.weight + spelt / root

    @torch.no_grad()
    def folded(self) -> UnitEncoder:
        """Return the same encoder with one vector for each word, rounded to half precision."""
        encoder = UnitEncoder(num_ids=self.num_ids, length=self.length, embedding=self.dim)
        every = torch.arange(self.num_ids, device=self.gram_starts.device)
        vectors = torch.cat([self.word_vectors(some) for some in torch.split(every, 1 << 16)])
        encoder.start_from(vectors.half().float().cpu())
        encoder.linear.load_state_dict(self.linear.state_dict())
        return encoder.to(self.gram_starts.device).eval()


class _Turned(NamedTuple):
    """The words that have each n-gram, in pieces: piece p is words[starts[p]:starts[p + 1]], and n-gram g has the
    pieces from pieces[g] to pieces[g + 1].

    Pieces are short, so that no n-gram that thousands of words share holds up a GPU.
    """

    pieces: Int[Tensor, "grams+1"]
    starts: Int[Tensor, "pieces+1"]
    words: Int[Tensor, "n"]


def _turned_round(spelling: Spelling, grams: int) -> _Turned:
    """Return the words of each n-gram."""
    counts = spelling.starts.diff()
    words = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    numbers = spelling.numbers.long()
    order = numbers.argsort(stable=True)
    of_gram = torch.bincount(numbers, minlength=grams)
    in_pieces = (of_gram + _PIECE - 1) // _PIECE
    pieces = functional.pad(in_pieces.cumsum(0), (1, 0))
    gram = torch.arange(grams, device=counts.device).repeat_interleave(in_pieces)
    before = torch.arange(len(gram), device=counts.device) - pieces[gram]  # pieces of the same n-gram
    first = functional.pad(of_gram.cumsum(0), (1, 0))[gram] + before * _PIECE
    starts = functional.pad(first, (0, 1), value=len(words))
    return _Turned(pieces, starts, words[order].to(spelling.numbers.dtype))


class _SumOfGrams(torch.autograd.Function):
    """The sum of each word's n-gram vectors. Its gradient is such a sum too: over the words of each n-gram."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, starts: Tensor, numbers: Tensor, *turned: Tensor) -> Tensor:
        ctx.save_for_backward(*turned)
        return _sums(weight, numbers, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        pieces, starts, words = ctx.saved_tensors
        of_pieces = _sums(gradient.contiguous(), words, starts)
        every = torch.arange(len(of_pieces), device=pieces.device)
        return _sums(of_pieces, every, pieces), None, None, None, None, None


def _sums(rows: Float[Tensor, "rows dim"], numbers: Int[Tensor, "n"], starts: Int[Tensor, "sums+1"]) -> Tensor:
    """Return the sums of numbered rows, one for every start but the last."""
    return functional.embedding_bag(numbers, rows, starts.to(numbers.dtype), mode="sum", include_last_offset=True)


def _once(numbers: Int[Tensor, "*shape"], below: int) -> tuple[Int[Tensor, "n"], Int[Tensor, "*shape"]]:
    """Return each of these numbers once, sorted, and the place of each in that list; without sorting them."""
    used = torch.zeros(below, dtype=torch.bool, device=numbers.device)
    used[numbers.flatten()] = True
    return used.nonzero()[:, 0], (used.cumsum(0) - 1)[numbers]
