"""The encoders by name."""

from collections.abc import Callable

from laconic.encoders.bag import BagEncoder
from laconic.encoders.base import Encoder, WordEncoder
from laconic.encoders.cnn import CnnEncoder
from laconic.encoders.identity import Identity
from laconic.encoders.inception import InceptionEncoder

ENCODERS: dict[str, Callable[..., WordEncoder]] = {"inception": InceptionEncoder, "bag": BagEncoder, "cnn": CnnEncoder}

__all__ = ["ENCODERS", "BagEncoder", "CnnEncoder", "Encoder", "Identity", "InceptionEncoder", "WordEncoder"]
