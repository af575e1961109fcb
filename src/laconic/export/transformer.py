"""Convert a transformer to the packed engine's: an ONNX graph with weights of 8 bits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.errors import ModelError
from laconic.export.encoders import pack_encoder
from laconic.export.onnx import quiet_exporter
from laconic.models.encoders import PieceEncoder, TransformerEncoder
from laconic.packed.engine.transformer import INPUT, Pieces, Transformer
from laconic.types import Tokens

_MOST = 1 << 16  # texts of a batch


class _Graph(nn.Module):
    """What is written: token ids in, vectors out."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Int[Tensor, "batch words"]) -> Float[Tensor, "batch dim"]:
        vectors: Tensor = self.encoder(Tokens(ids, ids.float()))
        return vectors


@pack_encoder.register
def _(encoder: TransformerEncoder) -> Transformer:
    return packed_transformer(encoder)


@pack_encoder.register
def _(encoder: PieceEncoder) -> Transformer:
    table = (part.cpu().numpy().copy() for part in (encoder.starts, encoder.pieces, encoder.ends))
    starts, pieces, ends = table
    return packed_transformer(encoder.transformer, Pieces(starts=starts, pieces=pieces, ends=ends))


def packed_transformer(
    encoder: TransformerEncoder, pieces: Pieces | None = None, *, exact: bool = False
) -> Transformer:
    """Write the encoder as a graph; its weights are of 8 bits unless it is to be exact."""
    with tempfile.TemporaryDirectory(prefix="laconic-") as folder:
        path = Path(folder) / "encoder.onnx"
        _write(encoder.cpu().eval(), path)
        graph = np.frombuffer((path if exact else _quantised(path)).read_bytes(), dtype=np.uint8)
    return Transformer(graph=graph, width=encoder.dim, length=encoder.length, tokens=encoder.num_ids, pieces=pieces)


def _write(encoder: TransformerEncoder, path: Path) -> None:
    example = torch.ones(2, max(2, min(4, encoder.length)), dtype=torch.int64)
    batch = torch.export.Dim("batch", min=1, max=_MOST)
    words = torch.export.Dim("words", min=1, max=encoder.length) if encoder.length > 1 else None
    try:
        with quiet_exporter():
            torch.onnx.export(
                _Graph(encoder).eval(),
                (example,),
                path,
                dynamo=True,
                verbose=False,
                external_data=False,
                input_names=[INPUT],
                output_names=["vectors"],
                dynamic_shapes={INPUT: {0: batch, 1: words}},
            )
    except ModuleNotFoundError as error:
        raise ModelError(
            f"a transformer is packed as an ONNX graph, for which {error.name} is missing: "
            "pip install 'laconic-xmc[onnx]', or --no-pack"
        ) from None


def _quantised(path: Path) -> Path:
    """Write the graph's matrices and word vectors in 8 bits, a scale for each column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    narrow = path.with_name("narrow.onnx")
    with quiet_exporter():
        quantize_dynamic(path, narrow, weight_type=QuantType.QInt8, per_channel=True)
    return narrow
