"""Pictures are whole PNG files that show the numbers they were given."""

import struct
import sys
from itertools import combinations
from typing import IO

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from laconic.analysis.plots import (
    plain,
    plot_contributions,
    plot_frontier,
    plot_label_frequencies,
    plot_lengths,
    plot_speed,
    plot_sweep,
    plot_training,
)
from laconic.errors import ConfigError, UserError
from tests.test_cli import data, laconic

__all__ = ["data"]  # a fixture
COUNTS = np.array([0, 7, 1, 30, 0, 2, 14_000])
LENGTHS = np.array([1, 2, 2, 3, 9])
CONTRIBUTIONS = {"astec": np.array([1.0, 2.0, 3.0]), "decaf": np.array([2.0, 2.5, 3.0])}
FREQUENCIES = np.array([1.2, 10.0, 2550.4])
PLACES = [{"dial": "beam 2", "p50": 0.5, "P@5": 30.0}, {"dial": "exact", "p50": 4.0, "P@5": 30.2}]
LOSSES = [{"epoch": number, "loss": 10**-number, "score": None} for number in range(-4, 3)]
POINTS = [{"beta": 0.5, "P@5": 30.0, "PSP@5": 19.0}, {"beta": 0.1, "P@5": 28.0, "PSP@5": 21.0}]
FRONTIER = [{"tail": 0.2, "P@1": 60.0, "tail R@10": 24.0}, {"tail": -0.1, "P@1": 63.0, "tail R@10": 14.0}]

PICTURES = {
    "contributions": lambda path: plot_contributions(CONTRIBUTIONS, FREQUENCIES, path),
    "lengths": lambda path: plot_lengths(LENGTHS, path),
    "frequencies": lambda path: plot_label_frequencies(COUNTS, path),
    "sweep": lambda path: plot_sweep(POINTS, "beta", path),
    "sweep of clusters": lambda path: plot_sweep([{"top": top, "P@5": 30.0} for top in (1.0, 20.0, 4e3)], "top", path),
    "frontier": lambda path: plot_frontier(FRONTIER, "tail", path),
    "training": lambda path: plot_training({"ranker": LOSSES}, path),
    "speed": lambda path: plot_speed(PLACES, path),
    "no lengths": lambda path: plot_lengths(LENGTHS[:0], path),
    "no frequencies": lambda path: plot_label_frequencies(COUNTS[:1], path),
}


@pytest.fixture
def drawn(monkeypatch) -> list[Axes]:
    """The axes of every figure that is saved, for a look at what is on them."""
    axes: list[Axes] = []
    save = Figure.savefig

    def watched(figure: Figure, *args, **kwargs) -> None:
        axes.extend(figure.axes)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", watched)
    return axes


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_whole_png_and_nothing_else_is_left(name, tmp_path):
    PICTURES[name](tmp_path / "picture.png")
    content = (tmp_path / "picture.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert struct.unpack(">II", content[16:24]) == (840, 480)
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        plot_lengths(LENGTHS, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_failed_picture_leaves_the_old_one_in_place(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    path.write_bytes(b"the old one")

    def half(figure: Figure, file: IO[bytes], **kwargs) -> None:
        file.write(b"half a picture")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(UserError, match="no space left"):
        plot_lengths(LENGTHS, path)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_models_stand_side_by_side_over_every_bin(tmp_path, drawn):
    plot_contributions(CONTRIBUTIONS, FREQUENCIES, tmp_path / "picture.png", k=3)
    bars = drawn[0].patches
    assert [bar.get_height() for bar in bars] == [1, 2, 3, 2, 2.5, 3]
    centres = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    np.testing.assert_allclose(centres, [-0.2, 0.8, 1.8, 0.2, 1.2, 2.2])
    assert [text.get_text() for text in drawn[0].get_xticklabels()] == ["1\n(1.2)", "2\n(10)", "3\n(2,550)"]
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == ["astec", "decaf"]
    assert "P@3" in drawn[0].get_title()


def test_every_length_has_its_bar(tmp_path, drawn):
    plot_lengths(LENGTHS, tmp_path / "picture.png")
    assert [bar.get_height() for bar in drawn[0].patches] == [0, 1, 2, 1, 0, 0, 0, 0, 0, 1]
    assert drawn[0].get_legend().get_texts()[0].get_text() == "95 % have at most 9"


def test_long_texts_share_bars(tmp_path, drawn):
    plot_lengths(np.arange(1000), tmp_path / "picture.png")
    heights = [bar.get_height() for bar in drawn[0].patches]
    assert sum(heights) == 990
    assert len(heights) <= 61
    assert drawn[0].get_xlabel() == "words (10 texts are longer than 989, up to 999: not shown)"


def test_one_very_long_text_does_not_flatten_the_others_and_the_axis_says_what_is_left_out(tmp_path, drawn):
    lengths = np.concatenate([np.repeat(np.arange(1, 11), 100), [4312, 350]])
    plot_lengths(lengths, tmp_path / "picture.png")
    assert drawn[0].get_xlim()[1] < 12
    assert [bar.get_height() for bar in drawn[0].patches] == [0] + [100] * 10
    assert drawn[0].get_xlabel() == "words (2 texts are longer than 10, up to 4,312: not shown)"
    assert drawn[0].get_legend().get_texts()[0].get_text() == "95 % have at most 10"


def test_where_nothing_is_left_out_nothing_is_said(tmp_path, drawn):
    plot_lengths(np.repeat(np.arange(1, 11), 100), tmp_path / "picture.png")
    assert drawn[0].get_xlabel() == "words"


def test_frequencies_fall_with_rank_and_labels_without_texts_are_counted(tmp_path, drawn):
    plot_label_frequencies(COUNTS, tmp_path / "picture.png")
    line = drawn[0].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert line.get_ydata().tolist() == [14_000, 30, 7, 2, 1]
    assert (drawn[0].get_xscale(), drawn[0].get_yscale()) == ("log", "log")
    assert "2 of 7 labels have no text" in drawn[0].get_xlabel()


def test_a_sweep_is_drawn_along_its_dial(tmp_path, drawn):
    plot_sweep(POINTS, "beta", tmp_path / "picture.png")
    plain, weighed = drawn[0].lines
    assert (plain.get_xdata().tolist(), plain.get_ydata().tolist()) == ([0.1, 0.5], [28, 30])
    assert (weighed.get_label(), weighed.get_ydata().tolist()) == ("PSP@5", [21, 19])
    assert (drawn[0].get_xlabel(), drawn[0].get_xscale()) == ("beta", "linear")


def test_a_frontier_is_precision_against_the_recall_of_rare_labels_with_values_beside_its_points(tmp_path, drawn):
    plot_frontier(FRONTIER, "tail", tmp_path / "picture.png")
    line = drawn[0].lines[0]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([14, 24], [63, 60])
    assert {text.get_text(): text.xy for text in drawn[0].texts} == {"-0.1": (14, 63), "0.2": (24, 60)}
    assert (drawn[0].get_xlabel(), drawn[0].get_ylabel()) == ("tail R@10 (%)", "P@1 (%)")


def test_places_of_a_dial_stand_by_name_at_their_time_and_small_differences_look_small(tmp_path, drawn):
    plot_speed(PLACES, tmp_path / "picture.png")
    line, low_and_high = drawn[0].lines[0], drawn[0].get_ylim()
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 4.0], [30.0, 30.2])
    assert {text.get_text(): text.xy for text in drawn[0].texts} == {"beam 2": (0.5, 30.0), "exact": (4.0, 30.2)}
    assert drawn[0].get_xscale() == "log"
    assert low_and_high[1] - low_and_high[0] > 1


CLOSE = [(1, 0.5, 30.2), (2, 0.5, 30.3), (4, 0.502, 30.3), (128, 0.505, 30.4), (1024, 0.506, 30.4), (2048, 0.53, 30.41)]


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_names_of_points_that_lie_together_do_not_overlap(tmp_path, drawn, spread):
    points = [
        {"dial": f"beam {beam:,}" + " (own)" * (beam == 128), "p50": time**spread, "P@5": found}
        for beam, time, found in CLOSE
    ]
    points.append({"dial": "exact", "p50": 0.54**spread, "P@5": 30.41})
    plot_speed(points, tmp_path / "picture.png")
    own = [Text.get_window_extent(text) for text in drawn[0].texts]  # without the lines to their points
    assert len(own) == len(points)
    assert not [(one, other) for one, other in combinations(own, 2) if one.overlaps(other)]
    frame = drawn[0].figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in own)
    dots = drawn[0].transData.transform(np.column_stack(drawn[0].lines[0].get_data()))
    assert not [box for box in own if any(box.contains(*dot) for dot in dots)]


SURROGATE = [{"epoch": number, "loss": 300 * 0.8**number, "score": None} for number in range(1, 11)]
EXTREME = [{"epoch": number, "loss": 5 / number, "score": score} for number, score in ((1, 60.0), (2, 64.0), (3, 64.0))]


def test_all_epochs_of_all_stages_are_drawn(tmp_path, drawn):
    plot_training({"surrogate": SURROGATE, "ranker": EXTREME}, tmp_path / "picture.png")
    left, right = drawn
    first, second = left.lines
    assert first.get_xdata().tolist() == list(range(1, 11))
    assert second.get_xdata().tolist() == [11, 12, 13]
    assert second.get_ydata().tolist() == [5, 2.5, 5 / 3]
    scores, best = right.lines
    assert (scores.get_xdata().tolist(), scores.get_ydata().tolist()) == ([11, 12, 13], [60, 64, 64])
    assert list(best.get_xdata()) == [13, 13]  # of equals the later
    assert [text.get_text() for text in left.figure.legends[0].get_texts()] == [
        "surrogate, 10 epochs: loss (left)",
        "ranker, 3 epochs: loss (left)",
        "ranker, 3 epochs: validation nDCG@5 (right, %)",
    ]
    assert left.get_yscale() == "log"


def test_a_single_stage_needs_no_name(tmp_path, drawn):
    plot_training({"ranker": SURROGATE}, tmp_path / "picture.png", title="Training of member 1, seed 5")
    assert [text.get_text() for text in drawn[0].figure.legends[0].get_texts()] == ["loss (left)"]
    assert drawn[0].get_title() == "Training of member 1, seed 5"
    assert len(drawn) == 1


def test_numbers_are_written_as_people_write_them():
    numbers = {0.0: "0", 0.25: "0.25", 17.34: "17.3", 2550.4: "2,550", 1e6: "1,000,000"}
    assert {number: plain(number) for number in numbers} == numbers


@pytest.mark.parametrize("name", [name for name in PICTURES if not name.startswith("no ")])
def test_no_axis_has_powers_of_ten(name, tmp_path, drawn):
    PICTURES[name](tmp_path / "picture.png")
    ticks = [text.get_text() for axes in drawn for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels()]
    assert ticks
    assert not [text for text in ticks if "e+" in text or "10^" in text]


def test_bins_of_two_kinds_have_pictures_of_two_titles(tmp_path, drawn):
    for kind in ("equal label count", "equal total frequency"):
        plot_contributions(CONTRIBUTIONS, FREQUENCIES, tmp_path / "picture.png", bins=kind)
    assert [axes.get_title() for axes in drawn] == [
        "Contribution to P@5 by label frequency, bins of equal label count",
        "Contribution to P@5 by label frequency, bins of equal total frequency",
    ]


TRAIN = ["--device", "cpu", "--no-pack"]


def set_to(*settings):
    return [word for setting in settings for word in ("--set", setting)]


def test_a_training_is_drawn_with_every_epoch_of_every_stage(data, tmp_path, drawn):
    small = set_to("surrogate.epochs=5", "extreme.epochs=2", "embedding=16", "reranker.epochs=3", "reranker.alpha=0.5")
    laconic("train", data, "--method", "astec", "--rerank", *TRAIN, *small, "--out", tmp_path / "model")
    points = [line.get_xdata().tolist() for line in drawn[0].lines]
    assert points == [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10]]
    assert [path.name for path in (tmp_path / "model").glob("*.png")] == ["training.png"]


def test_a_refit_is_drawn_after_the_training_that_chose_its_epoch(data, tmp_path, drawn):
    small = set_to("epochs=4", "embedding=16", "batch_size=2", "validation=0.3")
    laconic("train", data, "--encoder", "bag", "--refit", *TRAIN, *small, "--out", tmp_path / "model")
    before, refit = (line.get_xdata().tolist() for line in drawn[0].lines)
    assert before == [1, 2, 3, 4]
    assert refit[0] == 5


@pytest.mark.slow
def test_pictures_of_one_command_have_different_titles(data, tmp_path, drawn):
    small = set_to("epochs=1", "embedding=16", "batch_size=2", "validation=0")
    commands = (
        ["train", data, "--encoder", "bag", "--ensemble", 2, *TRAIN, *small, "--out", tmp_path / "model"],
        ["evaluate", tmp_path / "model", data, "--device", "cpu", "--plots", tmp_path / "pictures"],
        ["inspect", data, "--plots", tmp_path / "pictures"],
    )
    for command in commands:
        drawn.clear()
        laconic(*command)
        titles = [axes.get_title() for axes in drawn]
        assert len(titles) == len({*titles} - {""}) == 2


def test_drawing_starts_no_window_system(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    plot_lengths(LENGTHS, tmp_path / "picture.png")
    assert "matplotlib.pyplot" not in sys.modules


def test_without_matplotlib_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[track\]'"):
        plot_lengths(LENGTHS, tmp_path / "picture.png")
