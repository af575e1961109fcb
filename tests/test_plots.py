"""Pictures are whole PNG files that show the numbers they were given."""

import struct
import sys
from typing import IO

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laconic.errors import ConfigError, UserError
from laconic.plots import plot_contributions, plot_label_frequencies, plot_lengths, plot_speed, plot_sweep

COUNTS = np.array([0, 7, 1, 30, 0, 2])
LENGTHS = np.array([1, 2, 2, 3, 9])
CONTRIBUTIONS = {"astec": np.array([1.0, 2.0, 3.0]), "decaf": np.array([2.0, 2.5, 3.0])}
FREQUENCIES = np.array([1.2, 10.0, 400.0])
PLACES = [{"dial": "beam 2", "p50": 0.5, "P@5": 30.0}, {"dial": "exact", "p50": 4.0, "P@5": 30.2}]
POINTS = [{"beta": 0.5, "P@5": 30.0, "PSP@5": 19.0}, {"beta": 0.1, "P@5": 28.0, "PSP@5": 21.0}]

PICTURES = {
    "contributions": lambda path: plot_contributions(CONTRIBUTIONS, FREQUENCIES, path),
    "lengths": lambda path: plot_lengths(LENGTHS, path),
    "frequencies": lambda path: plot_label_frequencies(COUNTS, path),
    "sweep": lambda path: plot_sweep(POINTS, "beta", path),
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
    assert [text.get_text() for text in drawn[0].get_xticklabels()] == ["1\n(1.2)", "2\n(10)", "3\n(400)"]
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == ["astec", "decaf"]
    assert "P@3" in drawn[0].get_title()


def test_every_length_has_its_bar(tmp_path, drawn):
    plot_lengths(LENGTHS, tmp_path / "picture.png")
    assert [bar.get_height() for bar in drawn[0].patches] == [0, 1, 2, 1, 0, 0, 0, 0, 0, 1]
    assert drawn[0].get_legend().get_texts()[0].get_text() == "95 % have at most 9"


def test_very_long_texts_share_bars_and_none_is_lost(tmp_path, drawn):
    plot_lengths(np.arange(1000), tmp_path / "picture.png")
    heights = [bar.get_height() for bar in drawn[0].patches]
    assert sum(heights) == 1000
    assert len(heights) <= 61


def test_frequencies_fall_with_rank_and_labels_without_texts_are_counted(tmp_path, drawn):
    plot_label_frequencies(COUNTS, tmp_path / "picture.png")
    line = drawn[0].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 3, 4]
    assert line.get_ydata().tolist() == [30, 7, 2, 1]
    assert (drawn[0].get_xscale(), drawn[0].get_yscale()) == ("log", "log")
    assert "2 of 6 labels have no text" in drawn[0].get_xlabel()


def test_a_sweep_is_drawn_along_its_dial(tmp_path, drawn):
    plot_sweep(POINTS, "beta", tmp_path / "picture.png")
    plain, weighed = drawn[0].lines
    assert (plain.get_xdata().tolist(), plain.get_ydata().tolist()) == ([0.1, 0.5], [28, 30])
    assert (weighed.get_label(), weighed.get_ydata().tolist()) == ("PSP@5", [21, 19])
    assert (drawn[0].get_xlabel(), drawn[0].get_xscale()) == ("beta", "linear")


def test_places_of_a_dial_stand_by_name_at_their_time_and_small_differences_look_small(tmp_path, drawn):
    plot_speed(PLACES, tmp_path / "picture.png")
    line, low_and_high = drawn[0].lines[0], drawn[0].get_ylim()
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 4.0], [30.0, 30.2])
    assert {text.get_text(): text.xy for text in drawn[0].texts} == {"beam 2": (0.5, 30.0), "exact": (4.0, 30.2)}
    assert drawn[0].get_xscale() == "log"
    assert low_and_high[1] - low_and_high[0] > 1


def test_drawing_starts_no_window_system(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    plot_lengths(LENGTHS, tmp_path / "picture.png")
    assert "matplotlib.pyplot" not in sys.modules


def test_without_matplotlib_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[track\]'"):
        plot_lengths(LENGTHS, tmp_path / "picture.png")
