"""From what several channels know of a text and a label to one score."""

from laconic.combining.evidence import NUMBERS, Channels, Evidence, gathered
from laconic.combining.network import Combiner

__all__ = ["NUMBERS", "Channels", "Combiner", "Evidence", "gathered"]
