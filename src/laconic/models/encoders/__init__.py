"""Encoders: token ids or features to one vector per text."""

from collections.abc import Callable

from laconic.models.encoders.bag import BagEncoder, MlpEncoder, SumEncoder
from laconic.models.encoders.base import Encoder, Transformed, UnitVectors, WordEncoder
from laconic.models.encoders.cnn import CnnEncoder
from laconic.models.encoders.dense import DenseEncoder, Identity
from laconic.models.encoders.inception import InceptionEncoder
from laconic.models.encoders.pieces import PieceEncoder
from laconic.models.encoders.transformer import TransformerEncoder
from laconic.models.encoders.unit import SpellingEncoder, UnitEncoder

WORD_ENCODERS: dict[str, Callable[..., WordEncoder]] = {
    "inception": InceptionEncoder,
    "bag": BagEncoder,
    "cnn": CnnEncoder,
    "mlp": MlpEncoder,
}
ENCODERS: dict[str, Callable[..., Encoder]] = {**WORD_ENCODERS, "dense": DenseEncoder}

__all__ = [
    "ENCODERS",
    "WORD_ENCODERS",
    "BagEncoder",
    "CnnEncoder",
    "DenseEncoder",
    "Encoder",
    "Identity",
    "InceptionEncoder",
    "MlpEncoder",
    "PieceEncoder",
    "SpellingEncoder",
    "SumEncoder",
    "Transformed",
    "TransformerEncoder",
    "UnitEncoder",
    "UnitVectors",
    "WordEncoder",
]
