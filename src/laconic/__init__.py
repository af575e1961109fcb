"""laconic: from a short text to the right few of millions of labels."""

__version__ = "0.1.0"
