"""A finished ranker with other labels: they join it by their own texts or a few examples, leave it, or learn further.

A kind of ranker is known here by three functions: `with_labels`, `without_labels` and `taught`; a part that goes by
token ids by a fourth, `add_words`. Knows nothing of names and files; update/model.py does.
"""

from laconic.update.rankers import fusion, nearest, trees  # noqa: F401  # they register how their rankers change
from laconic.update.rankers.additions import Additions, with_known_words
from laconic.update.rankers.fine_tune import Config, Lesson, taught
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.words import NewWords, with_words

__all__ = [
    "Additions",
    "Config",
    "Lesson",
    "NewWords",
    "taught",
    "with_known_words",
    "with_labels",
    "with_words",
    "without_labels",
]
