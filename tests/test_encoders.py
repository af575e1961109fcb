"""InceptionXML's encoder: its size, and that padding never changes a vector."""

import pytest
import torch

from laconic.classifiers import CLASSIFIERS
from laconic.encoders import ENCODERS, InceptionEncoder
from laconic.layers import DimensionAttention, Residual, SpectralWeight, WordAttention
from laconic.methods.inceptionxml import Config, build
from laconic.types import PAD, Tokens


def encoder(**options):
    torch.manual_seed(0)
    built = InceptionEncoder(**{"num_ids": 50, "length": 16, "embedding": 300} | options)
    with torch.no_grad():  # as if trained: attentions at work, statistics that are not the first ones
        for attention in (built.word_attention, built.dimension_attention):
            attention.gamma.fill_(0.3)
        for name, buffer in built.named_buffers():
            if "running" in name:
                buffer.uniform_(0.5, 1.5)
    return built.eval()


def tokens(rows):
    length = max(len(row) for row in rows)
    ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows], dtype=torch.int32)
    return Tokens(ids, torch.ones(ids.shape))


def test_parameters_outside_embeddings_and_classifier_are_those_of_the_paper():
    built, classifier = build(Config(length=32), num_ids=100, num_labels=1000)
    outside = sum(p.numel() for name, p in built.named_parameters() if not name.startswith("embedding."))
    outside += sum(p.numel() for p in classifier.transform.parameters())
    assert outside == 402_194  # the paper says 400K
    assert built.dim == 480


@pytest.mark.parametrize("embedding", [8, 50, 64, 100, 128, 300, 301])
@pytest.mark.parametrize("length", [1, 5, 32])
def test_any_embedding_width_and_sequence_length_will_do(embedding, length):
    built = InceptionEncoder(num_ids=20, length=length, embedding=embedding).eval()
    assert built(tokens([[2, 3], [4]])).shape == (2, built.dim)


def test_padding_does_not_change_the_vector():
    built = encoder()
    rows = [[3, 4, 5], [7], [8, 9, 10, 11, 12, 13]]
    together = built(tokens([*rows, [2] * 16]))[:3]
    for row, vector in zip(rows, together, strict=True):
        torch.testing.assert_close(built(tokens([row]))[0], vector, rtol=1e-4, atol=1e-5)


def test_words_beyond_the_length_are_not_read():
    built = encoder(length=4)
    torch.testing.assert_close(built(tokens([[3, 4, 5, 6]])), built(tokens([[3, 4, 5, 6, 7, 8]])))


def test_word_order_matters_once_attention_and_projection_have_weights():
    built = encoder()
    assert not torch.allclose(built(tokens([[3, 4, 5]])), built(tokens([[5, 4, 3]])), atol=1e-3)


def test_both_attentions_are_the_identity_at_the_start():
    x = torch.randn(2, 5, 12)
    assert torch.equal(WordAttention(5)(x), x)
    assert torch.equal(DimensionAttention(12)(x, x), x)


def test_the_cheap_order_of_the_dimension_attention_is_the_papers():
    attention, x, h = DimensionAttention(12).eval(), torch.randn(2, 5, 12), torch.randn(2, 5, 12)
    with torch.no_grad():
        attention.gamma.fill_(0.7)
    weight = attention.weight()
    # The published order: scores of dim × dim between hᵀ and x, times W hᵀ.
    plain = (h.mT + 0.7 * ((h.mT @ x) @ (weight @ h.mT))).mT
    torch.testing.assert_close(attention(h, x), plain, rtol=1e-4, atol=1e-5)


def test_a_spectral_weight_has_the_largest_singular_value_1():
    weight = SpectralWeight(20, 30).train()
    for _ in range(200):
        weight()
    assert float(torch.linalg.matrix_norm(weight().detach(), 2)) == pytest.approx(1, abs=1e-3)


def test_the_spectral_norm_follows_the_weights_only_while_training():
    weight = SpectralWeight(6, 6).eval()
    before = weight.left.clone()
    weight()
    assert torch.equal(weight.left, before)
    weight.train()()
    assert not torch.equal(weight.left, before)


def test_gradients_reach_every_parameter():
    built = encoder(embedding=64).train()
    built(tokens([[3, 4, 5], [7, 8, 9], [3, 8, 4]])).pow(2).sum().backward()
    assert [name for name, parameter in built.named_parameters() if parameter.grad is None] == []


def test_padding_is_not_trained():
    built = encoder(embedding=64).train()
    built(tokens([[3, 4, 5], [7]])).sum().backward()
    assert not built.embedding.weight.grad[PAD].any()


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_gives_a_vector_of_its_width_for_every_text(name):
    built = ENCODERS[name](num_ids=20, length=6, embedding=64).eval()
    assert built(tokens([[2, 3], [4], [5, 6, 7]])).shape == (3, built.dim)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("transform", [None, Residual(8, dropout=0.0)])
def test_scoring_a_shortlist_agrees_with_scoring_everything(name, transform):
    torch.manual_seed(0)
    classifier = CLASSIFIERS[name](8, 4, transform=transform).eval()
    with torch.no_grad():
        classifier.bias.normal_()
    vectors, labels = torch.randn(4, 8), torch.tensor([[3, 1], [0, 2], [2, 3], [1, 0]])
    expected = classifier.score_all(vectors).gather(1, labels)
    torch.testing.assert_close(classifier.score(vectors, labels), expected)
