"""The transformer encoder against torch's own layers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from laconic.data.encoder_folder import Pretrained, read_pretrained
from laconic.models.encoders import TransformerEncoder
from laconic.types import FIRST_WORD, PAD, Tokens
from tests.tiny_transformer import PIECES, tiny_tensors, tiny_transformer

IDS = torch.tensor([[4, 9, 11, 17, 5], [4, 7, 5, PAD, PAD]])


def encoder_of(found: Pretrained, *, length: int = 16, layers: int = 2) -> TransformerEncoder:
    encoder = TransformerEncoder(
        num_ids=FIRST_WORD + len(PIECES),
        length=length,
        embedding=found.dim,
        layers=layers,
        heads=found.heads,
        inner=found.inner,
    )
    encoder.load(found.weights)
    return encoder.eval()


def encode(encoder: TransformerEncoder, ids: Tensor) -> Tensor:
    return encoder(Tokens(ids, torch.ones(ids.shape)))


def reference(ids: Tensor, layers: int) -> Tensor:
    """BERT by torch's own layers, and the mean of what the last one gives for tokens that are there."""
    tensors = tiny_tensors()
    pieces = (ids - FIRST_WORD).clamp(min=0)
    h = tensors["embeddings.word_embeddings.weight"][pieces]
    h = h + tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
    h = h + tensors["embeddings.token_type_embeddings.weight"][0]
    norm = tensors["embeddings.LayerNorm.weight"], tensors["embeddings.LayerNorm.bias"]
    h = nn.functional.layer_norm(h, (32,), *norm, eps=1e-12)
    for number in range(layers):
        layer = nn.TransformerEncoderLayer(32, 4, 48, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
        bert = f"encoder.layer.{number}."

        def part(name: str, own: str, bert: str = bert) -> dict[str, Tensor]:
            return {f"{own}.{one}": tensors[f"{bert}{name}.{one}"] for one in ("weight", "bias")}

        state = part("attention.output.dense", "self_attn.out_proj") | part("intermediate.dense", "linear1")
        state |= part("output.dense", "linear2")
        state |= part("attention.output.LayerNorm", "norm1") | part("output.LayerNorm", "norm2")
        for one in ("weight", "bias"):
            names = (f"{bert}attention.self.{name}.{one}" for name in ("query", "key", "value"))
            state[f"self_attn.in_proj_{one}"] = torch.cat([tensors[name] for name in names])
        layer.load_state_dict(state)
        layer.train()
        layer.dropout.p = layer.dropout1.p = layer.dropout2.p = layer.self_attn.dropout = 0.0
        h = layer(h, src_key_padding_mask=ids == PAD)
    there = (ids != PAD).float()[:, :, None]
    return (h * there).sum(1) / there.sum(1)


def test_vectors_are_those_of_torchs_own_layers(tmp_path: Path) -> None:
    found = read_pretrained(tiny_transformer(tmp_path / "tiny"))
    for layers in (1, 2):
        torch.testing.assert_close(encode(encoder_of(found, layers=layers), IDS), reference(IDS, layers))


def test_padding_does_not_change_the_vector(tmp_path: Path) -> None:
    encoder = encoder_of(read_pretrained(tiny_transformer(tmp_path / "tiny")))
    alone, longer = IDS[1:, :3], torch.nn.functional.pad(IDS[1:, :3], (0, 9), value=PAD)
    torch.testing.assert_close(encode(encoder, alone), encode(encoder, longer))


def test_the_order_of_tokens_matters(tmp_path: Path) -> None:
    encoder = encoder_of(read_pretrained(tiny_transformer(tmp_path / "tiny")))
    assert not torch.allclose(encode(encoder, IDS[:1]), encode(encoder, IDS[:1].flip(1)), atol=1e-3)


def test_texts_are_cut_at_the_length(tmp_path: Path) -> None:
    encoder = encoder_of(read_pretrained(tiny_transformer(tmp_path / "tiny")), length=3)
    torch.testing.assert_close(encode(encoder, IDS), encode(encoder, IDS[:, :3]))


def test_a_text_without_tokens_has_a_finite_vector_and_gradient(tmp_path: Path) -> None:
    encoder = encoder_of(read_pretrained(tiny_transformer(tmp_path / "tiny")))
    vectors = encode(encoder, torch.full((1, 3), PAD))
    vectors.sum().backward()
    assert not vectors.any()
    assert all(one.grad is None or one.grad.isfinite().all() for one in encoder.parameters())
