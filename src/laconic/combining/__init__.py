"""From what several channels know of a text and a label to one score."""

from laconic.combining.evidence import NUMBERS, Channels, Evidence, gathered

__all__ = ["NUMBERS", "Channels", "Evidence", "gathered"]
