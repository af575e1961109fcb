"""The encoders by name."""

from collections.abc import Callable

from laconic.encoders.bag import BagEncoder, SumEncoder
from laconic.encoders.base import Encoder, WordEncoder
from laconic.encoders.cnn import CnnEncoder
from laconic.encoders.dense import DenseEncoder
from laconic.encoders.identity import Identity
from laconic.encoders.inception import InceptionEncoder
from laconic.encoders.mlp import MlpEncoder

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
    "SumEncoder",
    "WordEncoder",
]
