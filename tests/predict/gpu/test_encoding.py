"""What is folded into weights, and what is computed once, changes no vector."""

import pytest
import torch

from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import BagEncoder, InceptionEncoder
from laconic.models.layers import DocumentBlock, Residual, SpectralResidual, SpectralWeight, Transfer
from laconic.predict.gpu.encoders import FoldedInception, optimise_encoder, with_fixed_norms
from laconic.types import PAD, Tokens

WORDS, LENGTH = 40, 8


def encoder(**settings):
    """With all of its parts at work: attention as of a trained one, and statistics that normalise."""
    torch.manual_seed(0)
    made = InceptionEncoder(**{"num_ids": WORDS, "length": LENGTH, "embedding": 64} | settings).eval()
    with torch.no_grad():
        for name, tensor in (*made.named_parameters(), *made.named_buffers()):
            if name.endswith(("running_mean", "bias", "norm.weight")):
                tensor.normal_()
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif name.endswith("gamma"):
                tensor.fill_(0.3)
            elif name == "embedding.weight":
                tensor.normal_()[PAD] = 0
    return made


def tokens(words, texts=5):
    ids = torch.randint(2, WORDS, (texts, words), dtype=torch.int32)
    ids[0, words // 2 :] = PAD
    return Tokens(ids, torch.ones(texts, words))


@pytest.mark.parametrize("words", [1, 5, LENGTH, LENGTH + 3])
@pytest.mark.parametrize("settings", [{}, {"attention": False}, {"embedding": 300}, {"embedding": 30}])
def test_the_folded_encoder_gives_the_same_vectors(settings, words):
    plain, inputs = encoder(**settings), tokens(words)
    with torch.no_grad():
        expected, found = plain(inputs), FoldedInception(plain)(inputs)
        scale = expected.abs().max()
        torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=1e-5)


def test_every_part_of_the_encoder_is_at_work():
    """So that the test above would notice one that was left out."""
    plain, inputs = encoder(), tokens(6)
    with torch.no_grad():
        whole = plain(inputs)
        for name, parameter in plain.named_parameters():
            before = parameter.clone()
            parameter.add_(0.1 * torch.randn_like(parameter))
            assert (plain(inputs) - whole).abs().max() > 1e-4 * whole.abs().max(), name
            parameter.copy_(before)


def test_the_word_table_is_shared():
    plain = encoder()
    assert optimise_encoder(plain).embedding.weight is plain.embedding.weight
    bag = BagEncoder(num_ids=WORDS, length=LENGTH, embedding=16).eval()
    assert optimise_encoder(bag).embedding.weight is bag.embedding.weight


TRANSFORMS = {
    "spectral residual": lambda: SpectralResidual(12, 10, dropout=0.5),
    "residual": lambda: Residual(12, dropout=0.5),
    "transfer": lambda: Transfer(12, dropout=0.5),
    "document block": lambda: DocumentBlock(12, dropout=0.5),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_is_settled_gives_the_same_scores_and_finds_no_norms(name):
    torch.manual_seed(0)
    transform = TRANSFORMS[name]()
    width = transform(torch.randn(2, 12)).shape[1]
    classifier, vectors = LinearClassifier(width, 30, transform=transform).eval(), torch.randn(5, 12)
    matrices = [part for part in classifier.modules() if isinstance(part, SpectralWeight)]
    quick = with_fixed_norms(classifier)
    assert not any(isinstance(part, SpectralWeight) for part in quick.modules())
    assert [part for part in classifier.modules() if isinstance(part, SpectralWeight)] == matrices
    assert quick.weight is classifier.weight
    torch.testing.assert_close(quick.score_all(vectors), classifier.score_all(vectors))
