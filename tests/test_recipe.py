"""What `laconic train` is asked for: where an encoder goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laconic.cli.recipe import Recipe, asked_recipe, settled_recipe
from laconic.config import AUTO
from laconic.errors import ConfigError
from tests.planted import planted_texts
from tests.tiny_transformer import tiny_transformer


def asked(method: str, encoder: str, *settings: str, preset: str = "") -> Recipe:
    none: dict[str, Any] = {"wrappers": {}, "options": {}, "budget": ""}
    return asked_recipe(method, preset=preset, encoder=encoder, settings=list(settings), **none)


def test_a_folder_joins_what_is_chosen_and_goes_into_what_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    chosen = asked(AUTO, folder, "fusion.trees=1")
    assert chosen.method == AUTO
    assert chosen.settings == {"fusion": {"trees": 1, "encoder": {"folder": folder}}}
    assert asked("siamese", folder)[:2] == ("siamese", {"encoder": folder})
    assert asked(AUTO, "bag")[:2] == ("inceptionxml", {"encoder": "bag"})
    assert asked(AUTO, folder, preset="laptop").settings["encoder"] == folder


def test_the_choice_says_that_a_transformer_is_trained_besides(tmp_path: Path) -> None:
    corpus = planted_texts(num_labels=8, num_texts=600, with_label_texts=True)
    settled = settled_recipe(asked(AUTO, str(tiny_transformer(tmp_path / "tiny"))), corpus, "cpu")
    assert settled.config.fusion.encoder.folder == str(tmp_path / "tiny")
    assert settled.why.endswith(f"for {tmp_path / 'tiny'}")
    epochs = settled.parts["fusion-encoder.train"].seconds
    assert settled.parts["fusion-encoder.train-warm-up"].seconds == pytest.approx(epochs * 2 * 4 / 40)


def test_a_frozen_transformer_reads_every_text_once(tmp_path: Path) -> None:
    corpus = planted_texts(num_labels=8, num_texts=600, with_label_texts=True)
    folder = str(tiny_transformer(tmp_path / "tiny"))
    learnt, frozen = (
        settled_recipe(asked(AUTO, folder, "fusion.encoder.warm_up=0", f"fusion.encoder.frozen={how}"), corpus, "cpu")
        for how in ("false", "true")
    )
    assert "fusion-encoder.train-warm-up" not in frozen.parts
    assert 20 * frozen.parts["fusion-encoder.train"].seconds < learnt.parts["fusion-encoder.train"].seconds


def test_an_encoder_that_nothing_can_be_combined_with_is_refused(tmp_path: Path) -> None:
    corpus = planted_texts(num_labels=8, num_texts=60, with_label_texts=True)
    with pytest.raises(ConfigError, match="for a combined model, but the choice is nearest texts"):
        settled_recipe(asked(AUTO, str(tmp_path)), corpus, "cpu")
