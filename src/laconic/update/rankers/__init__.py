"""Change a ranker's labels and words, or train it further, for every kind of ranker.

A kind of ranker registers three functions: `with_labels`, `without_labels` and `fine_tune_ranker`; a part that uses
token ids a fourth, `add_words`. Label names and files are known to update/model.py alone.
"""

from laconic.update.rankers import fusion, nearest, siamese, trees  # noqa: F401  # they register how their rankers change
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import Config, NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.words import NewWords, with_words

__all__ = [
    "Additions",
    "Config",
    "NewTexts",
    "NewWords",
    "fine_tune_ranker",
    "with_labels",
    "with_words",
    "without_labels",
]
