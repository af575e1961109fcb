"""Tables and pictures say what the results say, and plainly what nobody has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import plus_tables
from benchmarks._plus_costs import figure_1, projected_hours, table_4, table_4_ours
from benchmarks._plus_paper import ATTACHED, BASE, LIGHTXML, OURS, PLUS
from benchmarks._plus_pictures import Dot, plot_progress, plot_trade_off
from benchmarks._plus_results import FIGURES, NotMeasuredError, Spread, apart
from benchmarks.plus_tables import DEBIAN, PAGE, YSO, block, figure_3, figure_4, figure_5, filled, sections, sweep
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laconic.methods.costs import Shape

SMALL = Shape(words=30, labels=40, length=4, dim=16, clusters=8, top=2)


def measured(mean: float, sd: float = 0.0, **more: Any) -> dict[str, Any]:
    """A model whose figures are all alike."""
    return {"seeds": 3, "history": [{}] * 7} | {name: {"mean": mean, "sd": sd} for name in FIGURES} | more


def epochs(meta: float, extreme: float) -> list[dict[str, Any]]:
    """28 epochs that rise to these."""
    figures = [{"P@1": extreme * i / 28, "cluster P@1": meta * i / 28, "shortlist recall": 50.0} for i in range(1, 29)]
    return [{"epoch": number, "figures": one} for number, one in enumerate(figures, start=1)]


def debian() -> dict[str, Any]:
    """The files of results that the page is made of, but for those of other data and of speeds."""
    point = {"labels scored": 2.0, "shortlist recall": 70.0, "P@1": 50.0, "P@3": 40.0, "P@5": 30.0}
    single = measured(
        55.0,
        0.3,
        sweep=[{"top": 50, **point, "P@1": 51.0}, {"top": 100, **point}],
        **{f"by the product: P@{k}": {"mean": 56.0, "sd": 0.1} for k in (1, 3, 5)},
        **{name: {"mean": 100.0, "sd": 1.0} for name in ("seconds", "seconds of steps")},
    )
    shuffled = {"P@1": (50.0, 49.0, 1.0), "P@3": (40.0, 38.0, 0.0), "P@5": (30.0, 30.0, 0.0)}
    moved = {
        key: {"mean": value, "sd": 0.0}
        for name, values in shuffled.items()
        for key, value in zip((name, f"words shuffled: {name}", f"words shuffled: {name} ±"), values, strict=True)
    }
    rows: dict[str, dict[str, Any]] = {
        "table_2": {"InceptionXML+*": {"seeds": 1} | dict.fromkeys(FIGURES, 57.0)},
        "table_3": {"InceptionXML+": single},
        "table_5": {"InceptionXML+": {"seeds": 1} | moved},
        "figure_3": {
            OURS: {"history": epochs(meta=60.0, extreme=50.0)},
            LIGHTXML: {"history": epochs(meta=61.5, extreme=49.5)},
        },
        "figure_4": {f"permutation {i}": measured(60.0 + i / 10) for i in range(11)},
        "figure_5": {
            "with attention": measured(55.0, 0.3),
            "without": measured(54.0, 0.3, **{"P@1": {"mean": 55.1, "sd": 0.3}}),
        },
    }
    command = "python -m benchmarks.papers inceptionxml --at-once 19"
    return {f"inceptionxml_{name}": {"command": command, DEBIAN: row} for name, row in rows.items()}


def of_table_6(**runs: Any) -> dict[str, Any]:
    return {"inceptionxml_table_6": {"command": "python -m benchmarks.papers inceptionxml --table 6", YSO: runs}}


BASE_RESULTS = {
    "command": "python -m benchmarks.inception_quality --at-once 9",
    DEBIAN: {
        "protocol": dict.fromkeys(FIGURES, "54.00 ± 0.20") | {"seconds": "90.00 ± 2.00"},
        "authors' code": {"P@1": 53.9},
    },
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """The axes of every figure that is saved, for a look at what is on them."""
    axes: list[Axes] = []
    save = Figure.savefig

    def watched(figure: Figure, *args: Any, **kwargs: Any) -> None:
        axes.extend(figure.axes)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", watched)
    return axes


def test_results_are_read_in_each_of_their_forms() -> None:
    assert Spread.of({"mean": 1.5, "sd": 0.25}) == Spread.of("1.50 ± 0.25") == Spread(1.5, 0.25)
    assert str(Spread.of(1.5)) == "1.50"
    assert Spread(-1.5, 0.25).signed == "−1.50 ± 0.25"


def test_a_difference_has_the_standard_error_of_two_means() -> None:
    one, other = measured(10.0, 0.3), measured(9.0, 0.4) | {"seeds": 4}
    assert apart(one, other, ("P@1",))["P@1"] == pytest.approx((1.0, (0.3**2 / 3 + 0.4**2 / 4) ** 0.5))


def test_the_page_has_a_place_for_every_block() -> None:
    texts = {name: f"the block of {name}." for name in sections({}, SMALL, 100)}
    page = filled(PAGE.read_text(), texts)
    assert all(page.count(text) == 1 for text in texts.values())
    assert filled(page, texts) == page, "writing again changes nothing"


def test_only_what_stands_between_markers_is_replaced() -> None:
    page = "before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n"
    assert filled(page, {"a": "new"}) == "before\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nafter\n"
    with pytest.raises(ValueError, match="the page must have two lines, <!-- b --> and then <!-- end of b -->"):
        filled(page, {"b": "new"})


def test_without_any_result_every_block_that_needs_one_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plus_tables, "PAGE", tmp_path / "page.md")
    blocks = {name: block(make) for name, make in sections({}, SMALL, 100).items()}
    counted = blocks.pop("table 4")
    assert all(text.startswith("**Not measured yet:**") for text in blocks.values())
    assert "`python -m benchmarks.papers inceptionxml --table 6` makes it" in blocks["table 6"]
    assert "0.0486 | 0.049 | – | 4.3 | – | – | 4.67 | 1.39 | 1.4 |" in counted
    assert "Times have not been measured yet" in counted
    assert not list(tmp_path.iterdir())


def test_a_result_without_a_part_names_the_part() -> None:
    with pytest.raises(NotMeasuredError, match=r"inceptionxml_table_5\.json` has no debian-related → InceptionXML\+"):
        plus_tables.table_5({"inceptionxml_table_5": {DEBIAN: {}}})


SPEEDS = {
    "training_speed": {
        "gpu": "a GPU",
        "InceptionXML+, 670K": {"adam": {"milliseconds": 10.0}, "plain": {"milliseconds": 99.0}},
        "InceptionXML, 670K": {"adam": {"milliseconds": 3.6}},
    },
    "prediction_speed": {
        "machine": "two cores",
        "shapes": {"AmazonTitles-670K": {"p50_ms": 0.993}},
        "models": {"debian-related, inceptionxml": {"p50_ms": 0.25}},
    },
    "gpu_prediction": {
        "gpu": "a GPU",
        "labels": 670_091,
        "shortlist": {"optimise": {"p50_ms": 0.34}},
        "all labels": {"optimise, batches of 1": {"batch_ms": 0.397}},
    },
}


def test_hours_follow_from_the_time_of_a_step() -> None:
    steps = {PLUS: 1896 * 35 * 10.0, BASE: 3791 * 42 * 3.6}  # of an epoch, epochs, milliseconds
    for method, milliseconds in steps.items():
        assert projected_hours(SPEEDS, "AmazonTitles-670K", method) == pytest.approx(milliseconds / 3.6e6)
    assert projected_hours(SPEEDS, "WikiTitles-500K", BASE) is None
    assert projected_hours(SPEEDS, "AmazonTitles-3M", PLUS) is None
    wide = SPEEDS | {"plus_step_3m": {"milliseconds": 20.0, "parameters": 9}}
    assert projected_hours(wide, "AmazonTitles-3M", PLUS) == pytest.approx(13380 * 35 * 20 / 3.6e6)


def test_table_4_has_the_times_of_packed_models_and_of_a_gpu() -> None:
    text = table_4(SPEEDS)
    assert "AmazonTitles-670K: InceptionXML+ | 0.0486 | 0.049 | 0.18 | 4.3 | 0.99 | 0.34 | 4.67 | 1.39 | 1.4 |" in text
    assert "AmazonTitles-670K: InceptionXML | 0.3346 | 0.334 | 0.16 | 7.7 | – | 0.40 | 7.97 | 1.28 | 1.3 |" in text
    assert "WikiTitles-500K: InceptionXML+ | 0.0290 | 0.029 | – | 10.3 | – | – | 4.37 | 1.16 | 1.2 |" in text
    assert "on one a GPU" in text
    assert "Packed: two cores" in text


def test_our_models_stand_with_their_training_and_packed_times() -> None:
    text = table_4_ours(debian() | {"inception_quality": BASE_RESULTS} | SPEEDS, SMALL)
    assert "| 100.00 ± 1.00 | – |" in text
    assert "| 90.00 ± 2.00 | 0.25 |" in text
    assert "up to 19 trainings at once" in text
    assert "up to 9 trainings at once" in text


def test_shuffled_words_stand_beside_the_same_models_own_figures() -> None:
    text = plus_tables.table_5(debian())
    assert "| debian-related, original | 50.00 | 40.00 | 30.00 |" in text
    assert "| words shuffled | 49.00 ± 1.00 | 38.00 | 30.00 |" in text
    assert "| lost | −1.00 | −2.00 | +0.00 |" in text
    assert "| paper: AmazonTitles-670K, original | – | 37.04 | 33.92 |" in text


def test_table_6_orders_by_clusters_and_says_which_models_are_missing() -> None:
    runs = {f"4K, 200: {OURS}": measured(36.0, 0.1), f"1K, 50: {OURS}": measured(35.0, 0.1)}
    text = plus_tables.table_6(of_table_6(**runs, **{"in DeepXML": measured(33.0)}))
    assert text.index("| 1K, 50 | Ours | 35.00 ± 0.10") < text.index("| 4K, 200 | Ours | 36.00 ± 0.10")
    assert f"**Not measured yet:** 1K, 50: {ATTACHED}, 1K, 50: {LIGHTXML}, 4K, 200: {ATTACHED}" in text
    assert "7 epochs" in text
    assert "in DeepXML" not in text


def test_table_6_weighs_the_papers_claims_as_found() -> None:
    runs = {
        f"{size}: {model}": measured(mean, 0.3)
        for size, means in {"1K, 50": (35.0, 35.1, 33.0), "4K, 200": (37.0, 36.0, 34.0)}.items()
        for model, mean in zip((OURS, ATTACHED, LIGHTXML), means, strict=True)
    }
    text = plus_tables.table_6(of_table_6(**runs))
    assert f"| {OURS} − {ATTACHED} | paper, 65K, 800 | +1.04 |" in text
    assert f"| {OURS} − {ATTACHED} | yso-titles, 1K, 50 | −0.10 ± 0.24 |" in text
    assert (
        f"- {OURS} over {ATTACHED}: 4 of 8 differences are positive here; 4 are two standard errors or more, 4" in text
    )
    assert f"- {ATTACHED} over {LIGHTXML}: 8 of 8 differences are positive here; 8 are" in text
    assert "−0.10 ± 0.24 to +1.00 ± 0.24 here, +0.13 to +1.04 in the paper" in text
    assert "Not measured" not in text


def test_the_sweep_marks_the_k_of_training(tmp_path: Path, drawn: list[Axes]) -> None:
    text = sweep(debian(), tmp_path)
    assert "| 50 | 2.00 | 70.00 | 51.00 |" in text
    assert "| 100 (as trained) | 2.00 | 70.00 | 50.00 |" in text
    lines = {line.get_label(): list(line.get_ydata()) for line in drawn[0].lines}
    assert lines["P@1"] == [51.0, 50.0]
    assert list(drawn[0].lines[-1].get_xdata()) == [100, 100]


def test_both_frameworks_are_compared_after_the_last_epoch(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_3(debian(), 5000, tmp_path)
    assert "extreme P@1 −0.50, meta P@1 +1.50, shortlist recall +0.00" in text
    assert "on 100 texts has a standard error of about 5.0" in text
    assert "| Ours | 7 | 12.50 | 15.00 | 50.00 |" in text
    assert list(drawn[0].lines[-1].get_xdata()) == [7, 7], "the encoder is attached after a quarter of the epochs"


def test_a_framework_has_one_line_a_classifier(tmp_path: Path, drawn: list[Axes]) -> None:
    plot_progress({"one": epochs(60.0, 50.0), "other": epochs(40.0, 30.0)}, 7.0, tmp_path / "picture.png")
    ends = {line.get_label(): line.get_ydata()[-1] for line in drawn[0].lines[:4]}
    assert ends == {"meta, one": 60.0, "extreme, one": 50.0, "meta, other": 40.0, "extreme, other": 30.0}


def test_the_order_as_it_comes_is_none_of_the_ten(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_4(debian(), tmp_path)
    assert "| 10 orders: lowest | 60.10 |" in text
    assert "| 10 orders: median | 60.55 |" in text
    assert "| as they come | 60.00 |" in text
    assert "below all 10 others in P@1, P@3, P@5, PSP@1, PSP@3, PSP@5, above all in none" in text
    marks = next(line for line in drawn[0].lines if line.get_label() == "as they come")
    assert marks.get_ydata() == pytest.approx([-0.55] * 6)


def test_a_difference_within_two_standard_errors_is_called_that(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_5(debian(), tmp_path)
    assert "Higher with attention: P@3 (+1.00 ± 0.24), P@5" in text
    assert "Higher without: P@1 (−0.10 ± 0.24, less than two standard errors)." in text
    assert [bar.get_height() for bar in drawn[0].patches[:1] + drawn[0].patches[6:8]] == [55.0, 55.1, 54.0]


def test_a_dots_area_is_the_models_size_and_a_square_has_none(tmp_path: Path, drawn: list[Axes]) -> None:
    dots = [Dot("small", 10.0, 50.0, 100.0), Dot("large", 20.0, 60.0, 300.0), Dot("a peer", 5.0, 55.0, None)]
    plot_trade_off(dots, tmp_path / "picture.png")
    small, large, peer = drawn[0].collections
    assert large.get_sizes()[0] == 3 * small.get_sizes()[0]
    assert len(peer.get_facecolor()) == 0
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == [
        "1  small, 100 MB",
        "2  large, 300 MB",
        "3  a peer",
    ]


def test_three_models_cost_three_times_one(tmp_path: Path) -> None:
    text = figure_1(debian() | {"inception_quality": BASE_RESULTS}, SMALL, tmp_path)
    assert "| InceptionXML+ | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 100 |" in text
    assert "| three of them | 57.00 | 57.00 | 57.00 | 57.00 | 57.00 | 300 |" in text
    assert "| authors' InceptionXML | 53.9 | – | – | – | – | – | – |" in text
    assert (tmp_path / "plus-figure-1.png").read_bytes().startswith(b"\x89PNG")
