"""Features are the bags of words that our own models read, also after they were written down."""

from __future__ import annotations

import numpy as np

from laconic.analysis.peers.features import Features
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig, bags

TEXTS = ["the red rose and the red tulip", "a blue sea", "red sea"]
ASKED = ["the sea, the sea", "an unknown rose", "nothing", ""]


def test_rows_are_those_of_the_tokenizer(tmp_path) -> None:
    features = Features.of(TEXTS)
    tokenizer = Tokenizer.of(TEXTS, Splitter(stop_words=False), VocabularyConfig())
    features.write(tmp_path)
    for one in (features, Features.read(tmp_path)):
        for texts in (TEXTS, ASKED):
            rows = one.rows(texts)
            np.testing.assert_allclose(rows.toarray(), bags(tokenizer.rows(texts)).toarray(), rtol=1e-6)
            assert rows.has_canonical_format
            assert (rows.data != 0).all()
