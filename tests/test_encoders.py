"""What every encoder promises, above all that padding never changes a vector; then what each is."""

import pytest
import torch
from torch.nn import functional

from laconic.methods.inceptionxml import Config, build
from laconic.models.encoders import WORD_ENCODERS, BagEncoder, CnnEncoder, MlpEncoder
from laconic.models.encoders.cnn import CHUNKS, FILTERS, WIDTHS
from laconic.models.encoders.inception import CHANNELS, KERNELS, InceptionEncoder, _CopiedWindows, _ring, _windows
from laconic.models.layers import DimensionAttention, SpectralWeight, WordAttention
from laconic.types import PAD, UNKNOWN, Tokens
from tests.variants import some_slow


def encoder(name="inception", **options):
    torch.manual_seed(0)
    built = WORD_ENCODERS[name](**{"num_ids": 50, "length": 16, "embedding": 64} | options)
    with torch.no_grad():  # as if trained: attentions and biases at work, statistics that are not the first ones
        for part, parameter in built.named_parameters():
            if part.endswith(("gamma", "bias")):
                parameter.uniform_(0.1, 0.5)
        for part, buffer in built.named_buffers():
            if "running" in part:
                buffer.uniform_(0.5, 1.5)
    return built.eval()


def tokens(rows):
    """Every word weighs as much as its id, so that a weight that went with another word would be seen."""
    length = max(len(row) for row in rows)
    ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows], dtype=torch.int32)
    return Tokens(ids, ids / 10)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_an_encoder_gives_a_vector_of_its_width_for_every_text(name):
    built = encoder(name)
    assert built(tokens([[2, 3], [4], [5, 6, 7]])).shape == (3, built.dim)
    assert built(Tokens(torch.zeros(0, 1, dtype=torch.int32), torch.zeros(0, 1))).shape == (0, built.dim)


@pytest.mark.parametrize("name", WORD_ENCODERS)
@pytest.mark.parametrize("embedding", some_slow([8, 50, 64, 100, 128, 300, 301], 2))
@pytest.mark.parametrize("length", [1, 5, 32])
def test_any_embedding_width_and_sequence_length_will_do(name, embedding, length):
    built = encoder(name, length=length, embedding=embedding)
    assert built(tokens([[2, 3], [4]])).shape == (2, built.dim)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_padding_does_not_change_the_vector(name):
    built = encoder(name)
    rows = [[3, 4, 5], [7], [8, 9, 10, 11, 12, 13]]
    together = built(tokens([*rows, [2] * 16]))[:3]
    for row, vector in zip(rows, together, strict=True):
        torch.testing.assert_close(built(tokens([row]))[0], vector, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_words_beyond_the_length_are_not_read(name):
    built = encoder(name, length=4)
    torch.testing.assert_close(built(tokens([[3, 4, 5, 6]])), built(tokens([[3, 4, 5, 6, 7, 8]])))


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_a_text_without_words_has_a_vector(name):
    built = encoder(name)
    alone, together = built(tokens([[PAD]])), built(tokens([[], [3, 4, 5]]))
    assert alone.isfinite().all()
    torch.testing.assert_close(alone[0], together[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_gradients_reach_every_parameter(name):
    built = encoder(name).train()
    vectors = built(tokens([[3, 4, 5], [7, 8, 9], [3, 8, 4]]))
    (vectors * torch.randn(vectors.shape)).sum().backward()
    assert [part for part, parameter in built.named_parameters() if not parameter.grad.any()] == []


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_padding_is_not_trained(name):
    built = encoder(name).train()
    built(tokens([[3, 4, 5], [7]])).sum().backward()
    assert not built.embedding.weight.grad[PAD].any()


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_an_encoder_is_the_seed_s_alone(name):
    def vectors(seed):
        torch.manual_seed(seed)
        return WORD_ENCODERS[name](num_ids=20, length=6, embedding=64).train()(tokens([[2, 3], [4], [5, 6, 7]]))

    assert torch.equal(vectors(1), vectors(1))
    assert not torch.equal(vectors(1), vectors(2))


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_an_encoder_begins_with_the_vectors_that_it_is_given(name):
    built, start = encoder(name), torch.ones(50, 64)
    assert not built.embedding.weight[[PAD, UNKNOWN]].any()
    built.start_from(start)
    assert torch.equal(built.embedding.weight[2:], start[2:])
    assert not built.embedding.weight[[PAD, UNKNOWN]].any()


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_no_value_is_looked_at_while_encoding(name):
    """A step can be captured only where shapes and paths follow from shapes alone; on `meta` there are no values."""
    with torch.device("meta"):
        built = WORD_ENCODERS[name](num_ids=20, length=6, embedding=64)
        inputs = Tokens(torch.ones(3, 5, dtype=torch.int32), torch.ones(3, 5))
    assert built(inputs).shape == (3, built.dim)


def test_parameters_outside_embeddings_and_classifier_are_those_of_the_paper():
    built, classifier = build(Config(length=32), num_ids=100, num_labels=1000)
    outside = sum(p.numel() for name, p in built.named_parameters() if not name.startswith("embedding."))
    outside += sum(p.numel() for p in classifier.transform.parameters())
    assert outside == 402_194  # the paper says 400K
    assert built.dim == 480


@pytest.mark.parametrize("name", ["inception", "cnn"])
def test_word_order_matters_to_an_encoder_of_sequences(name):
    built = encoder(name)
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


def test_without_attention_there_is_none_and_the_rest_stays():
    built, plain = encoder(), encoder(attention=False)
    assert not [name for name in plain.state_dict() if "attention" in name]
    assert {name for name in built.state_dict() if "attention" not in name} == set(plain.state_dict())
    plain.load_state_dict(built.state_dict(), strict=False)
    with torch.no_grad():
        built.word_attention.gamma.zero_()
        built.dimension_attention.gamma.zero_()
    inputs = tokens([[3, 4, 5], [7]])
    torch.testing.assert_close(plain(inputs), built(inputs))


def test_without_attention_padding_does_not_change_the_vector_either():
    built = encoder(attention=False)
    torch.testing.assert_close(built(tokens([[3, 4]]))[0], built(tokens([[3, 4], [2] * 9]))[0], rtol=1e-4, atol=1e-5)


def test_dropout_after_the_projection_has_a_share_of_its_own():
    assert encoder(dropout=0.3).drop_projection.p == 0.3
    plain = encoder(dropout=0.3, projection_dropout=0.0)
    assert (plain.drop_words.p, plain.drop_projection.p, plain.drop_branches.p) == (0.3, 0, 0.3)


def test_a_bag_is_the_weighted_sum_of_its_words_cut_at_zero():
    built, inputs = encoder("bag"), tokens([[3, 4, 3], [7]])
    words = built.embedding.weight
    expected = torch.stack([0.3 * words[3] + 0.4 * words[4] + 0.3 * words[3], 0.7 * words[7]]).clamp(min=0)
    torch.testing.assert_close(built(inputs), expected)


def test_a_bag_does_not_mind_the_order_of_words():
    built = encoder("bag")
    torch.testing.assert_close(built(tokens([[3, 4, 5]])), built(tokens([[5, 3, 4]])))


def test_a_bag_drops_half_of_its_numbers_while_training():
    built = BagEncoder(num_ids=4, length=2, embedding=10_000).train()
    built.start_from(torch.ones(4, 10_000))
    vector = built(Tokens(torch.tensor([[2, 3]]), torch.tensor([[1.0, 1.0]])))
    assert vector.unique().tolist() == [0, 4]
    assert float((vector == 0).float().mean()) == pytest.approx(0.5, abs=0.03)


def test_a_bag_without_vectors_starts_as_xavier_says_for_relu():
    weight = BagEncoder(num_ids=1000, length=2, embedding=200).embedding.weight.detach()
    bound = (2 * 6 / 1200) ** 0.5
    assert 0.99 * bound < float(weight.abs().max()) <= bound


def test_a_cnn_agrees_with_filters_slid_by_hand():
    built, row = encoder("cnn", length=7), [3, 4, 5, 6, 7]
    words = torch.zeros(7 + max(WIDTHS), 64)
    words[: len(row)] = built.embedding.weight[row]
    answers = torch.stack(
        [
            torch.cat(
                [
                    torch.einsum("ftw,wt->f", branch.weight, words[place : place + width])
                    for branch, width in zip(built.branches, WIDTHS, strict=True)
                ]
            )
            for place in range(7)
        ]
    )
    # Two chunks of seven places share the middle one.
    parts = torch.stack([answers[:4].amax(0), answers[3:].amax(0)], dim=1)
    expected = built.bottleneck((parts + built.bias[:, None]).relu().flatten()).relu()
    assert (CHUNKS, parts.shape) == (2, (len(WIDTHS) * FILTERS, 2))
    torch.testing.assert_close(built(tokens([row]))[0], expected, rtol=1e-4, atol=1e-5)


def test_windows_may_be_wider_than_every_text():
    built = CnnEncoder(num_ids=20, length=2, embedding=8).eval()
    assert max(WIDTHS) > 2
    assert built(tokens([[2, 3], [4]])).isfinite().all()


def test_an_mlp_is_a_perceptron_over_tf_idf():
    built, inputs = encoder("mlp"), tokens([[3, 4, 3], [7], []])
    table = torch.zeros(3, 50)  # a column for each token id, tf-idf in it
    table[0, 3], table[0, 4], table[1, 7] = 0.6, 0.4, 0.7
    first = (table @ built.embedding.weight + built.bias).relu()
    expected = (first @ built.second.weight.T + built.second.bias).relu()
    torch.testing.assert_close(built(inputs), expected)


def test_an_mlp_does_not_mind_the_order_of_words():
    built = encoder("mlp")
    torch.testing.assert_close(built(tokens([[3, 4, 5]])), built(tokens([[5, 3, 4]])))


def test_the_second_layer_of_an_mlp_is_as_wide_as_is_wanted():
    assert encoder("mlp").dim == 64
    assert encoder("mlp", hidden=10)(tokens([[3, 4]])).shape == (1, 10)


def test_an_mlp_drops_of_both_layers_while_training():
    built = MlpEncoder(num_ids=4, length=2, embedding=2000, hidden=2000).train()
    built.start_from(torch.ones(4, 2000))
    with torch.no_grad():
        built.second.weight.copy_(torch.eye(2000))
    vector = built(Tokens(torch.tensor([[2, 3]]), torch.tensor([[1.0, 1.0]])))
    assert vector.unique().tolist() == [0, 8]  # both words' 1, doubled twice
    assert float((vector == 0).float().mean()) == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(("before", "size"), [(40, 16), (41, 16), (43, 16), (16, 16), (18, 5), (7, 1)])
def test_windows_are_torchs_convolution(before, size):
    torch.manual_seed(0)
    h, weight, bias = torch.randn(3, before, 6), torch.randn(5, 6, size), torch.randn(5)
    expected = functional.conv1d(h.mT, weight, bias, stride=4).mT
    torch.testing.assert_close(_windows(h, weight, bias), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("before", "size"), [(40, 16), (41, 16), (43, 16), (16, 16), (18, 5), (7, 1)])
def test_copied_windows_have_the_same_values_and_gradients(before, size):
    torch.manual_seed(0)
    parts = [torch.randn(3, before, 6), torch.randn(5, 6, size), torch.randn(5)]
    one, other = ([part.clone().requires_grad_() for part in parts] for _ in range(2))
    expected, found = _windows(*one), _CopiedWindows.apply(*other)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for values in (expected, found):
        values.sin().sum().backward()
    for part, twin in zip(one, other, strict=True):
        torch.testing.assert_close(twin.grad, part.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("embedding", [6, 30, 64, 300])
def test_branches_are_convolutions_on_a_ring(embedding):
    torch.manual_seed(0)
    encoder = InceptionEncoder(num_ids=9, length=4, embedding=embedding)
    h = torch.randn(2, embedding, CHANNELS)
    expected = []
    for branch, size in zip(encoder.branches, KERNELS, strict=True):
        side = (size - 4) // 2
        ring = torch.cat([h[:, embedding - side :], h, h[:, :side]], dim=1)
        expected.append(functional.conv1d(ring.mT, branch.weight, branch.bias, stride=4).mT)
    found = _windows(_ring(h), *encoder._branch_weights())
    torch.testing.assert_close(found, torch.cat(expected, dim=2), rtol=1e-4, atol=1e-5)
