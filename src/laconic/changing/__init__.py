"""A finished ranker with other labels: they join it by their own texts or a few examples, leave it, or learn further.

A kind of ranker is known here by three functions: `with_labels`, `without_labels` and `taught`. Knows nothing of names
and files; maintaining.py does.
"""

from laconic.changing.additions import Additions, with_known_words
from laconic.changing.learning import Config, Lesson, taught
from laconic.changing.rankers import with_labels, without_labels

__all__ = ["Additions", "Config", "Lesson", "taught", "with_known_words", "with_labels", "without_labels"]
