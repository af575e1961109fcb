"""The encoders by name."""

from laconic.encoders.base import Encoder
from laconic.encoders.inception import InceptionEncoder

ENCODERS = {"inception": InceptionEncoder}

__all__ = ["ENCODERS", "Encoder", "InceptionEncoder"]
