from __future__ import annotations

from typing import Any

import pytest

from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.storage.card import fused_channels, model_card
from laconic.storage.model_folder import write_model
from laconic.training.run import Run
from tests.planted import planted_texts

FACTS: dict[str, Any] = {
    "laconic": "1.2.3",
    "method": "inceptionxml",
    "inputs": "text",
    "sizes": {"labels": 36_306, "texts": 45_124, "pairs": 90_248, "inputs": 9},
    "data": {"name": "debian-related"},
}
TRAINING = {
    "best_epoch": 2,
    "epochs": [
        {"epoch": 1, "loss": 0.5, "score": 50.0, "seconds": 30.0},
        {"epoch": 2, "loss": 0.25, "score": 61.24, "seconds": 31.0},
        {"epoch": 3, "loss": 0.125, "score": 60.0, "seconds": 32.0},
    ],
}


def test_what_is_not_known_is_left_out() -> None:
    card = model_card(FACTS)
    assert card.startswith("# inceptionxml on debian-related\n")
    assert "laconic 1.2.3: it ranks 36,306 labels" in card
    for absent in ("epoch", "##", "propensity", "made |", "None"):
        assert absent not in card


def test_the_data_are_described() -> None:
    assert "45,124 texts, 36,306 labels, 90,248 pairs of text and label (2.0 a text)" in model_card(FACTS)
    assert "| propensity | A = 0.55, B = 1.5 |" in model_card(FACTS | {"propensity": {"a": 0.55, "b": 1.5}})


def test_training_is_told_with_its_best_epoch() -> None:
    card = model_card(FACTS | {"training": TRAINING})
    assert "| training | 3 epochs, 93 s, loss 0.125 at the end |" in card
    assert "| best epoch | 2, nDCG@5 61.2 on texts held out of training |" in card


def test_epochs_of_all_stages_are_counted() -> None:
    surrogate = [{"epoch": number, "loss": 5.0, "score": None, "seconds": 7.0} for number in range(1, 11)]
    card = model_card(FACTS | {"training": {**TRAINING, "surrogate": surrogate}})
    assert "| training | 13 epochs, 163 s, loss 0.125 at the end |" in card
    assert "| best epoch | 2, nDCG@5 61.2 on texts held out of training |" in card


def test_an_epoch_that_was_chosen_before_a_refit_has_the_figure_by_which_it_was_chosen() -> None:
    refit = [epoch | {"score": None} for epoch in TRAINING["epochs"][:2]]
    card = model_card(FACTS | {"training": {"best_epoch": 2, "epochs": refit, "before_refit": TRAINING["epochs"]}})
    assert "| training | 5 epochs, 154 s, loss 0.25 at the end |" in card
    assert "| best epoch | 2, nDCG@5 61.2 on texts held out of training |" in card


def test_an_epoch_without_a_score_has_no_figure() -> None:
    history = [epoch | {"score": None} for epoch in TRAINING["epochs"][:2]]
    assert "| best epoch | 2 |" in model_card(FACTS | {"training": {"best_epoch": 2, "epochs": history}})
    assert "best epoch" not in model_card(FACTS | {"training": {"best_epoch": 0, "epochs": history}})


def test_figures_stand_beside_half_of_their_intervals() -> None:
    metrics = {"tail R@10": 22.44, "P@1": 60.123, "P@20": 9.0, "nDCG@5": 55.0}
    measured = {"split": "test", "metrics": metrics, "intervals": {"P@1": [59.0, 61.4]}}
    card = model_card(FACTS | {"metrics": measured})
    assert "## Figures on the split `test`" in card
    assert "| P@1 | nDCG@5 | tail R@10 |\n| --- | --- | --- |\n| 60.1 ±1.2 | 55.0 | 22.4 |\n" in card
    assert "P@20" not in card


@pytest.mark.parametrize("nothing", [{}, {"metrics": {}}, {"split": "test"}, None])
def test_no_figures_are_no_table(nothing: Any) -> None:
    assert "Figures" not in model_card(FACTS | {"metrics": nothing})


def test_the_command_can_be_copied() -> None:
    assert "```console\n$ laconic train debian --out m\n```" in model_card(
        FACTS | {"command": "laconic train debian --out m"}
    )


def test_settings_are_written_as_set_takes_them() -> None:
    card = model_card(FACTS | {"config": {"epochs": 3, "text": {"stop_words": False}}})
    assert "## Settings\n\n- `epochs = 3`\n- `text.stop_words = False`\n" in card


def test_a_model_of_features_is_not_shown_with_texts() -> None:
    card = model_card(FACTS | {"inputs": "sparse"})
    assert "sparse features" in card
    assert "predict" not in card
    assert 'Laconic.load("this folder").predict' in model_card(FACTS)


def test_a_name_of_data_stays_in_its_line() -> None:
    card = model_card(FACTS | {"data": {"name": "a|b\nc"}})
    assert "| learnt from | a\\|b c: 45,124" in card


def test_a_model_folder_has_its_card(tmp_path) -> None:
    settings = {"epochs": 2, "embedding": 64, "length": 4, "validation": 0.2}
    model = train_model(planted_texts(), "inceptionxml", config_of("inceptionxml", settings), Run.unkept())
    write_model(model, tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("# inceptionxml on planted\n")
    assert "240 texts, 12 labels" in card
    assert "| training | 2 epochs" in card
    assert "on texts held out of training" in card


def test_theorem_3_1_is_told_of_a_model_or_of_each_member() -> None:
    told = {"training": {"theorem_3_1": {"sparsity": 1.4e-4, "recall": 0.951, "bound": 8.17e-5}}}
    row = "sparsity 0.00014, recall 95.1% on training texts, excess loss of the order 8.2e-05"
    assert f"| Theorem 3.1 | {row} |" in model_card(FACTS | told)
    members = [{"seed": seed, **told} for seed in (29, 30)]
    card = model_card(FACTS | {"members": members})
    assert f"| Theorem 3.1, seed 29 | {row} |" in card
    assert f"| Theorem 3.1, seed 30 | {row} |" in card


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"trees": 3, "neighbours": 100, "label_texts": True, "siamese": 128},
            "label trees, nearest texts, label texts and siamese",
        ),
        ({"trees": 0, "neighbours": 100, "label_texts": True}, "nearest texts and label texts"),
        ({"trees": 1, "encoder": {"folder": "transformer"}}, "label trees and transformer"),
        ({"trees": 3, "neighbours": 0, "label_texts": False, "siamese": 0}, "label trees"),
        ({"trees": 0, "neighbours": 0, "label_texts": False, "siamese": 0}, "no other channel"),
    ],
)
def test_channels_that_are_turned_off_are_not_named(settings: dict[str, Any], named: str) -> None:
    assert fused_channels(settings) == named
