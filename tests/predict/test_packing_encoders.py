"""What packing makes of encoders and transforms answers as they do, once their word vectors are of half precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.tokenizer import padded
from laconic.errors import ModelError
from laconic.export.encoders import pack_encoder, pack_transform
from laconic.models.encoders import (
    ENCODERS,
    WORD_ENCODERS,
    BagEncoder,
    DenseEncoder,
    Encoder,
    Identity,
    InceptionEncoder,
    SumEncoder,
    WordEncoder,
    cnn,
    inception,
)
from laconic.models.layers import DocumentBlock, EmbeddingBlock, Residual, SpectralResidual, Transfer
from laconic.packed.engine import encoders, inception_kernels
from laconic.packed.engine.texts import Texts
from laconic.types import PAD, UNKNOWN, Inputs
from tests.variants import some_slow

NUM_IDS = 50
SIZES = [(7, 64), (1, 8), (12, 75), (5, 6), (32, 300)]
Built = Callable[..., WordEncoder]
BUILT: dict[str, Built] = {
    **WORD_ENCODERS,
    "inception without attention": lambda **sizes: InceptionEncoder(**sizes, attention=False),
    "sum": SumEncoder,
    "mlp of two widths": lambda **sizes: WORD_ENCODERS["mlp"](**sizes, hidden=11),
}


def as_if_trained(module: nn.Module, seed: int = 0) -> nn.Module:
    """Attentions, biases and shares at work, statistics that are not the first ones, words of half precision."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(("gamma", "bias", "alpha", "beta", "norm.weight")):
                parameter.uniform_(-0.5, 0.5, generator=generator)
            if name == "embedding.weight":
                parameter.copy_(parameter.half())
                parameter[UNKNOWN] = 0.25
        for name, buffer in module.named_buffers():
            if "running" in name:
                buffer.uniform_(0.5, 1.5, generator=generator)
    return module.eval()


def encoder(name: str, length: int = 7, embedding: int = 64) -> WordEncoder:
    torch.manual_seed(1)
    built = BUILT[name](num_ids=NUM_IDS, length=length, embedding=embedding)
    as_if_trained(built)
    return built


def rows(lengths: Sequence[int]) -> csr_array:
    """Texts of these lengths, with words that come twice and words that are unknown."""
    generator = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = generator.integers(UNKNOWN, NUM_IDS, size=starts[-1])
    weights = np.where(ids == UNKNOWN, 0, generator.random(len(ids)))
    return csr_array((weights.astype(np.float32), ids, starts), shape=(len(lengths), NUM_IDS))


def texts(table: csr_array) -> Texts:
    return Texts(table.indices.astype(np.int32), table.data, table.indptr.astype(np.int64))


def answers(module: nn.Module, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
    with torch.no_grad():
        found: Tensor = module(inputs)
    return found.numpy()


def check_close(found: np.ndarray, expected: np.ndarray) -> None:
    """To within a few roundings of the largest number."""
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(expected).max() > 0
    assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize(("length", "embedding"), some_slow(SIZES, 2, unpack=True))
@pytest.mark.parametrize("name", BUILT)
def test_a_packed_encoder_is_the_encoder(name: str, length: int, embedding: int) -> None:
    built = encoder(name, length, embedding)
    table = rows([length, 0, *range(length + 4), 1])
    packed = pack_encoder(built)
    assert packed.dim == built.dim
    check_close(packed.encode(texts(table)), answers(built, padded(table)))


@pytest.mark.parametrize("name", BUILT)
def test_a_text_without_words_has_the_encoder_s_vector(name: str) -> None:
    built, table = encoder(name), rows([0])
    found, expected = pack_encoder(built).encode(texts(table)), answers(built, padded(table))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_half_precision_is_all_that_is_lost() -> None:
    torch.manual_seed(2)
    for name in BUILT:
        built, table = BUILT[name](num_ids=NUM_IDS, length=7, embedding=64).eval(), rows([3, 5, 7])
        expected = answers(built, padded(table))
        difference = pack_encoder(built).encode(texts(table)) - expected
        assert np.abs(difference).max() <= 2e-3 * np.abs(expected).max()


def test_dense_features_are_normalised_as_they_were() -> None:
    built, features = DenseEncoder(num_ids=13, embedding=10), torch.randn(5, 13)
    as_if_trained(built)
    check_close(pack_encoder(built).encode(features.numpy()), answers(built, features))


def test_vectors_that_are_there_stay() -> None:
    vectors = np.ones((2, 4), dtype=np.float32)
    assert np.array_equal(pack_encoder(Identity(4)).encode(vectors), vectors)


@pytest.mark.parametrize("name", BUILT)
def test_padding_says_nothing_whatever_its_vector(name: str) -> None:
    built = encoder(name)
    expected = pack_encoder(built).encode(texts(rows([3, 4])))
    with torch.no_grad():
        built.embedding.weight[PAD] = 7
    packed: Any = pack_encoder(built)
    assert np.array_equal(packed.encode(texts(rows([3, 4]))), expected)
    assert not getattr(packed, "encoder", packed).words[PAD].any()


@pytest.mark.parametrize("name", BUILT)
def test_a_packed_encoder_stays_as_it_is_while_the_model_learns_on(name: str) -> None:
    built, inputs = encoder(name), texts(rows([3, 4]))
    packed = pack_encoder(built)
    expected = packed.encode(inputs)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(1)
    assert np.array_equal(packed.encode(inputs), expected)


@pytest.mark.parametrize("wrong", [70_000.0, float("nan"), -float("inf")])
def test_word_vectors_beyond_half_precision_are_refused(wrong: float) -> None:
    built = BagEncoder(num_ids=NUM_IDS, length=7, embedding=8).eval()
    with torch.no_grad():
        built.embedding.weight[3, 3] = wrong
    with pytest.raises(ModelError, match="float16 ends at 65,504"):
        pack_encoder(built)


def test_the_engine_has_the_encoders_sizes() -> None:
    assert inception_kernels.CHANNELS == inception.CHANNELS
    assert inception_kernels.SIZES == inception.KERNELS
    assert inception_kernels.STRIDE == inception.STRIDE
    assert (max(inception.KERNELS) - inception.STRIDE) // 2 == inception_kernels.SIDE
    assert encoders.WIDTHS == cnn.WIDTHS


def test_every_encoder_can_be_packed() -> None:
    for build in ENCODERS.values():
        pack_encoder(build(num_ids=NUM_IDS, length=7, embedding=8).eval())


def test_what_cannot_be_packed_says_so() -> None:
    class Other(Encoder):
        def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
            return torch.zeros(1, 1)

    with pytest.raises(ModelError, match="kind Other cannot be packed"):
        pack_encoder(Other())
    with pytest.raises(ModelError, match="kind Tanh cannot be packed"):
        pack_transform(nn.Tanh(), 3)


TRANSFORMS: dict[str, Callable[[int], nn.Module]] = {
    "identity": lambda dim: nn.Identity(),
    "linear": lambda dim: nn.Linear(dim, dim),
    "linear without bias": lambda dim: nn.Linear(dim, dim + 3, bias=False),
    "residual": lambda dim: Residual(dim, dropout=0.5),
    "narrower residual": lambda dim: Residual(dim, dim // 2, dropout=0.5),
    "spectral residual": lambda dim: SpectralResidual(dim, dim, dropout=0.5),
    "spectral residual, narrower": lambda dim: SpectralResidual(dim, dim * 5 // 8, dropout=0.5),
    "spectral residual, wider": lambda dim: SpectralResidual(dim, dim + 5, dropout=0.5),
    "transfer": lambda dim: Transfer(dim, dropout=0.5),
    "transfer, unbounded": lambda dim: Transfer(dim, dropout=0.5, bounded=False),
    "transfer without skip": lambda dim: Transfer(dim, dropout=0.5, skip=False),
    "embedding block": lambda dim: EmbeddingBlock(dim, dropout=0.5),
    "document block": lambda dim: DocumentBlock(dim, dropout=0.5),
    "document block, first half": lambda dim: DocumentBlock(dim // 2, dropout=0.5),
    "document block, second half": lambda dim: DocumentBlock(dim // 2, dropout=0.5, first=dim - dim // 2),
}


@pytest.mark.parametrize("dim", [8, 33, 480])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_packed_transform_is_the_transform(name: str, dim: int) -> None:
    torch.manual_seed(1)
    module, vectors = as_if_trained(TRANSFORMS[name](dim)), torch.randn(6, dim)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape) / 20)  # as training would, away from the identity
    packed, expected = pack_transform(module, dim), answers(module, vectors)
    assert (packed.inputs, packed.width) == (dim, expected.shape[1])
    check_close(packed.apply(vectors.numpy()), expected)
    check_close(packed.apply(vectors[:1].numpy()), expected[:1])
