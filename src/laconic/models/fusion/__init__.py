"""From what several channels know of a text and a label to one score."""

from laconic.models.fusion.evidence import NUMBERS, Asked, Channels, Evidence, Listed, gathered, numbers_of

__all__ = ["NUMBERS", "Asked", "Channels", "Evidence", "Listed", "gathered", "numbers_of"]
