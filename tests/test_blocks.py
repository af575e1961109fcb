"""Blocks of the pages say what the results say, and plainly what nobody has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import fp8_rows
from benchmarks.blocks import label_text, others, plus, plus_costs
from benchmarks.blocks.label_text import (
    beside,
    choices,
    decaf_accuracy,
    decaf_on_validation,
    fused,
    laptop,
    learnt,
)
from benchmarks.blocks.of_papers import of_paper
from benchmarks.blocks.plus import ATTACHED, DEBIAN, LIGHTXML, OURS, YSO, figure_3, figure_4, figure_5, sweep
from benchmarks.blocks.plus_costs import BASE, PLUS, figure_1, projected_hours, table_4, table_4_ours
from benchmarks.chaos.claims import exceptions, how_often
from benchmarks.pages import BLOCKS, ROOT, block, filled, placed
from benchmarks.papers.plots import Dot, plot_progress, plot_trade_off
from benchmarks.tables import FIGURES, USUAL, NotMeasuredError, Spread, apart, found
from matplotlib.axes import Axes
from matplotlib.figure import Figure

METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "tail R@10", "nDCG@5")


def measured(mean: float, sd: float = 0.0, **more: Any) -> dict[str, Any]:
    """A model whose figures are all alike."""
    return {"seeds": 3, "history": [{}] * 7} | {name: {"mean": mean, "sd": sd} for name in FIGURES} | more


def of(mean: float, prefix: str = "", **others: float) -> dict[str, Any]:
    """A model's figures, all alike but for the others."""
    figures = dict.fromkeys(METRICS, mean) | {name.replace("_", "@"): value for name, value in others.items()}
    return {prefix + name: {"mean": value, "sd": 0.3} for name, value in figures.items()}


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


# Any page


@pytest.mark.parametrize("page", BLOCKS)
def test_a_page_has_one_place_for_every_block(page: str) -> None:
    texts = {name: f"the block of {name}." for name in BLOCKS[page]}
    text = filled((ROOT / page).read_text(encoding="utf-8"), texts)
    assert all(text.count(one) == 1 for one in texts.values())
    assert filled(text, texts) == text, "writing again changes nothing"


def test_pictures_of_a_block_are_found_from_its_page() -> None:
    assert placed("![a](pictures/a.png)", "docs/papers/decaf.md") == "![a](../pictures/a.png)"
    assert placed("![a](pictures/a.png)", "docs/which-method.md") == "![a](pictures/a.png)"
    assert placed("![a](pictures/a.png)", "README.md") == "![a](docs/pictures/a.png)"


def test_without_results_a_block_names_the_command_that_makes_them() -> None:
    assert "`python -m benchmarks.papers inceptionxml --table 6` makes it" in block(plus.table_6, {})
    assert block(others.load, {}).startswith("**Not measured yet:**")


def test_a_result_without_a_part_names_the_part() -> None:
    with pytest.raises(NotMeasuredError, match=r"inceptionxml_table_5\.json` has no debian-related → InceptionXML\+"):
        found({"inceptionxml_table_5": {DEBIAN: {}}}, "inceptionxml_table_5", DEBIAN, "InceptionXML+")


def test_results_are_read_in_each_of_their_forms() -> None:
    assert Spread.of({"mean": 1.5, "sd": 0.25}) == Spread.of("1.50 ± 0.25") == Spread(1.5, 0.25)
    assert str(Spread.of(1.5)) == "1.50"
    assert Spread(-1.5, 0.25).signed == "−1.50 ± 0.25"


def test_a_difference_has_the_standard_error_of_two_means() -> None:
    one, other = measured(10.0, 0.3), measured(9.0, 0.4) | {"seeds": 4}
    assert apart(one, other, ("P@1",))["P@1"] == pytest.approx((1.0, (0.3**2 / 3 + 0.4**2 / 4) ** 0.5))


# Tables of the papers


def test_a_papers_table_has_its_order_its_command_and_what_was_not_trained() -> None:
    rows = {"+ HNSW shortlist": {"seeds": 1} | of(48.0), "DECAF": {"seeds": 1} | of(50.0)}
    text = of_paper({"decaf_table_5": {DEBIAN: rows, "command": "python -m this --results build"}}, "decaf", "table 5")
    assert text.startswith("debian-related:")
    assert text.index("| DECAF | ours, 1 seed |") < text.index("| + HNSW shortlist | ours, 1 seed |")
    assert "Not trained on debian-related: + Parabel shortlist." in text
    assert text.endswith("Made by `python -m this`.")
    made = {"earlier commands": ["python -m first"], "command": "python -m this"}
    assert of_paper({"decaf_table_5": {DEBIAN: rows} | made}, "decaf", "table 5").endswith(
        "`python -m first` and `python -m this`."
    )


def test_a_table_with_times_says_how_many_trainings_shared_the_gpu() -> None:
    rows = {"MACH as published": measured(50.0, seconds={"mean": 36.0, "sd": 0.0})}
    command = "python -m benchmarks.papers deepxml --table 4 --at-once 2"
    text = of_paper({"deepxml_table_4": {DEBIAN: rows, "command": command}}, "deepxml", "table 4")
    assert "up to 2 trainings at once on one GPU: times are of trainings that shared it" in text


def test_a_sign_that_is_not_the_papers_is_named_and_whether_it_may_be_chance() -> None:
    runs = {
        "DECAF": {"seeds": 3} | of(50.0),
        "DECAF-no-init": {"seeds": 3} | of(52.0, PSP_5=50.1),  # the paper loses by it on both of its datasets
        "DECAF-ẑ¹": {"seeds": 3} | of(48.0, PSP_5=51.0),  # of which it wins PSP@5 on one
    }
    text = of_paper({"decaf_table_6": {DEBIAN: runs, "command": "python -m this"}}, "decaf", "table 6")
    clear = "DECAF-no-init, P@1 +2.00 ± 0.24 here, −0.61 and −1.33 in the paper"
    weak = "DECAF-no-init, PSP@5 +0.10 ± 0.24 here, less than two standard errors, −0.38 and −1.54 in the paper"
    assert f"Effects whose sign is not the paper's: {clear}; {weak}." in text


def test_a_method_that_is_slower_here_and_quicker_in_the_paper_is_named() -> None:
    took = {"XML-CNN as published": 30.0, "DeepXML + XML-CNN": 60.0}
    rows = {name: measured(50.0 + one / 60, seconds={"mean": one, "sd": 0.0}) for name, one in took.items()}
    text = of_paper({"deepxml_table_4": {DEBIAN: rows, "command": "python -m this"}}, "deepxml", "table 4")
    assert "sign is not the paper's: DeepXML + XML-CNN is 0.5× as fast here, 10× in the paper." in text


def test_trees_with_label_texts_are_compared_with_the_same_trees_without() -> None:
    runs = {
        "DECAF": {"seeds": 1} | of(50.0),
        "Parabel": {"seeds": 1} | of(40.0),
        "Parabel + metadata": {"seeds": 1} | of(38.0),
    }
    text = of_paper({"decaf_table_4": {DEBIAN: runs, "command": "python -m this"}}, "decaf", "table 4")
    assert "the paper's: Parabel + metadata, P@1 −2.00 ± 0.42 here, one seed, +1.00 and +3.01 in the paper" in text
    assert "; Parabel, P@1" not in text


# InceptionXML+


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
    rows: dict[str, dict[str, Any]] = {
        "table_2": {"InceptionXML+*": {"seeds": 1} | dict.fromkeys(FIGURES, 57.0)},
        "table_3": {"InceptionXML+": single},
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
    base = dict.fromkeys(FIGURES, "54.00 ± 0.20") | {"seconds": "90.00 ± 2.00"}
    return {f"inceptionxml_{name}": {"command": command, DEBIAN: row} for name, row in rows.items()} | {
        "inception_quality": {"command": "python -m benchmarks --at-once 9", DEBIAN: {"protocol": base}},
        "peers": {DEBIAN: {"a peer": {"P@1": 53.9, "P@3": 40.0, "train seconds": 7.0}, "a lead": {"P@1": 99.0}}},
    }


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
        "shortlist": {"quickened": {"p50_ms": 0.34}},
        "all labels": {"quickened, batches of 1": {"batch_ms": 0.397}},
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
    assert "Times have not been measured yet" in table_4({})


def test_our_models_stand_with_their_training_and_packed_times() -> None:
    text = table_4_ours(debian() | SPEEDS)
    assert "| 100.00 ± 1.00 | – |" in text
    assert "| 90.00 ± 2.00 | 0.25 |" in text
    assert "up to 19 trainings at once" in text
    assert "up to 9 trainings at once" in text


def test_figure_1_has_peers_with_all_of_their_figures_and_no_leads() -> None:
    text = figure_1(debian())
    assert "| InceptionXML+ | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 55.00 ± 0.30 | 100 |" in text
    assert "| a peer | 53.9 | 40.0 | – | – | – | 7.0 | – |" in text
    assert "a lead" not in text
    assert [dot.name for dot in plus_costs.dots(debian())] == [PLUS, BASE, "a peer"]


def test_table_6_orders_by_clusters_and_tells_the_papers_differences_beside_ours() -> None:
    runs = {
        f"{size}: {model}": measured(mean, 0.3)
        for size, means in {"4K, 200": (37.0, 36.0, 34.0), "1K, 50": (35.0, 35.1, 33.0)}.items()
        for model, mean in zip((OURS, ATTACHED, LIGHTXML), means, strict=True)
    }
    text = plus.table_6({"inceptionxml_table_6": {"command": "python -m this", YSO: runs}})
    assert "7 epochs, batches of 256." in text
    assert text.index("| 1K, 50: Ours | ours, 3 seeds | 35.00") < text.index("| 4K, 200: Ours | ours, 3 seeds | 37.00")
    assert (
        f"- {OURS} − {ATTACHED}, P@1: −0.10 ± 0.24 (1K, 50), +1.00 ± 0.24 (4K, 200); in the paper +0.13 to +1.04"
        in text
    )


def test_the_sweep_marks_the_k_of_training(tmp_path: Path, drawn: list[Axes]) -> None:
    text = sweep(debian())
    assert "| 50 | 2.00 | 70.00 | 51.00 |" in text
    assert "| 100 (as trained) | 2.00 | 70.00 | 50.00 |" in text
    plus.drawings(debian())["plus-sweep.png"](tmp_path / "picture.png")
    lines = {line.get_label(): list(line.get_ydata()) for line in drawn[0].lines}
    assert lines["P@1"] == [51.0, 50.0]
    assert list(drawn[0].lines[-1].get_xdata()) == [100, 100]


def test_both_frameworks_are_compared_after_the_last_epoch(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_3(debian())
    assert "extreme P@1 −0.50, meta P@1 +1.50, shortlist recall +0.00" in text
    assert "on 902 texts has a standard error of about 1.7" in text
    assert "here it does not." in text
    assert "| Ours | 7 | 12.50 | 15.00 | 50.00 |" in text
    plus.drawings(debian())["plus-figure-3.png"](tmp_path / "picture.png")
    assert list(drawn[0].lines[-1].get_xdata()) == [7, 7], "the encoder is attached after a quarter of the epochs"


def test_a_framework_has_one_line_a_classifier(tmp_path: Path, drawn: list[Axes]) -> None:
    plot_progress({"one": epochs(60.0, 50.0), "other": epochs(40.0, 30.0)}, 7.0, tmp_path / "picture.png")
    ends = {line.get_label(): line.get_ydata()[-1] for line in drawn[0].lines[:4]}
    assert ends == {"meta, one": 60.0, "extreme, one": 50.0, "meta, other": 40.0, "extreme, other": 30.0}


def test_the_order_as_it_comes_is_none_of_the_ten(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_4(debian())
    assert "| 10 orders: lowest | 60.10 |" in text
    assert "| 10 orders: median | 60.55 |" in text
    assert "| as they come | 60.00 |" in text
    assert "below all 10 others in P@1, P@3, P@5, PSP@1, PSP@3, PSP@5, above all in none" in text
    plus.drawings(debian())["plus-figure-4.png"](tmp_path / "picture.png")
    marks = next(line for line in drawn[0].lines if line.get_label() == "as they come")
    assert marks.get_ydata() == pytest.approx([-0.55] * 6)


def test_a_difference_within_two_standard_errors_is_called_that(tmp_path: Path, drawn: list[Axes]) -> None:
    text = figure_5(debian())
    assert "Higher with attention: P@3 (+1.00 ± 0.24), P@5" in text
    assert "Higher without: P@1 (−0.10 ± 0.24, less than two standard errors)." in text
    plus.drawings(debian())["plus-figure-5.png"](tmp_path / "picture.png")
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


# Label texts


def run(alone: float, together: float, **others: float) -> dict[str, Any]:
    """Three seeds, alone and fused."""
    return {"seeds": 3} | of(alone, **others) | of(together, "fused: ")


def protocol(**more: Any) -> dict[str, Any]:
    runs = {"astec": run(50.0, 60.0), "astec, label texts learnt": run(52.0, 61.0, P_1=49.0) | more}
    return {"command": "python -m benchmarks", DEBIAN: runs}


def test_peers_that_are_ahead_are_named() -> None:
    untrained = {"P@1": 10.0, "P@5": 10.0, "PSP@5": 61.5, "tail R@10": 10.0}
    text = beside(
        {
            "label_text_protocol": protocol(),
            "nearest_quality": {DEBIAN: {"nearest": untrained}},
            "peers": {DEBIAN: {"omikuji, Parabel-like": dict.fromkeys(USUAL, 20.0) | {"P@1": 63.1}}},
        }
    )
    assert "- debian-related: P@1 63.1 (omikuji, Parabel-like), PSP@5 61.5 (`nearest`, untrained).\n" in text


def test_the_tail_bias_is_of_one_seed_and_shown_where_it_was_scored() -> None:
    assert "tail=" not in beside({"label_text_protocol": protocol()})
    text = beside({"label_text_protocol": protocol(**of(40.5, "fused, tail 0.2: "))})
    assert "| Astec, label texts learnt, fused, `tail=0.2` | 1 | 40.50" in text
    assert "tail=0.4" not in text


def test_what_learning_label_texts_costs_is_told_with_its_error() -> None:
    text = learnt({"label_text_protocol": protocol()})
    assert "| difference |  | −1.00 ± 0.24 | +2.00 ± 0.24 | +2.00 ± 0.24 | +2.00 ± 0.24 |" in text
    assert "- Astec on debian-related: gains P@5 (+2.00 ± 0.24)" in text
    assert text.endswith("loses P@1 (−1.00 ± 0.24).")


def test_fusion_is_weighed_against_the_same_model_alone_and_against_the_other_fused() -> None:
    text = fused({"label_text_protocol": protocol()})
    assert "| over itself alone |  | +10.00 ± 0.24 |" in text
    assert "| over itself alone |  | +12.00 ± 0.24 | +9.00 ± 0.24 |" in text
    assert text.endswith("tail R@10 (+1.00 ± 0.24); loses none.")


def test_the_way_that_was_taken_is_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"": 50.0, ", label texts each once an epoch": 51.0, ", label texts a tenth of a batch": 52.0}
    runs = {f"astec{way}": of(mean) for way, mean in (ways | {", label texts at half weight": 49.0}).items()}
    monkeypatch.setattr(label_text, "chosen", lambda data, method, preset: {"share": 0.1})
    text = choices({"label_text_choices": {DEBIAN: runs}})
    assert text.endswith("| Astec | 50.0 / 50.0 | 51.0 / 51.0 | **52.0 / 52.0** | 49.0 / 49.0 |")


def test_a_run_on_a_cpu_has_its_fused_figures() -> None:
    text = laptop({"label_text_protocol_laptop": protocol()})
    assert "| Astec, label texts learnt, fused | 3 | 61.00 ± 0.30 |" in text


def test_the_best_of_decaf_stands_beside_the_best_of_astec() -> None:
    opened = {"beam": {"mean": 90.0, "sd": 0.0}, "clusters": 4096}
    own = {"slow": of(38.0, P_1=41.0) | opened, "quick": of(37.0, P_1=42.0) | opened}
    text = decaf_on_validation(
        {"decaf_choices": {"npm-names-deps": own}, "deepxml_choices": {"npm-names-deps": {"a": of(39.0)}}}
    )
    assert text.endswith("| npm-names-deps | 38.0 | 41.0 | 39.0 | 39.0 | slow | 90 of 4,096 | 2 of 4 |")


def test_a_seed_that_is_missing_is_seen_and_makes_the_difference_less_sure() -> None:
    runs = {"DECAF": {"seeds": 2} | of(50.0), "Astec": {"seeds": 3} | of(49.0)}
    text = decaf_accuracy({"decaf_table_1": {DEBIAN: runs}})
    assert "| DECAF | 2 | 50.00 ± 0.30 |" in text
    assert "| Astec | 3 | 49.00 ± 0.30 |" in text
    assert "| DECAF − Astec |  | +1.00 ± 0.27 |" in text


def test_an_ensembles_sizes_follow_its_first_instance() -> None:
    ensemble = {"seeds": 3} | of(52.0) | of(50.0, "1 instance: ") | of(51.0, "2 instances: ")
    text = decaf_accuracy({"decaf_table_1": {DEBIAN: {"DECAF": ensemble, "Astec": {"seeds": 3} | of(49.0)}}})
    assert text.index("| DECAF | 3 | 50.00") < text.index("| DECAF, 2 instances | 3 | 51.00")
    assert text.index("| DECAF, 2 instances |") < text.index("| DECAF, 3 instances | 3 | 52.00")
    assert "| DECAF − Astec |  | +1.00 ± 0.24 |" in text


def test_pictures_are_drawn_of_what_was_measured(tmp_path: Path) -> None:
    recalls = {"2": {"recall by beam": {"1": 0.5, "2": 1.0}}, "4": {"recall by beam": {"1": 0.3, "4": 1.0}}}
    results = {"decaf_figure_6": {DEBIAN: recalls}, "decaf_table_1": {DEBIAN: {"DECAF": of(50.0)}}}
    text = label_text.decaf_pictures(results)
    named = "Recall by beam for each fan-out (Figure 6), debian-related"
    assert text == f"![{named}](pictures/decaf-figure-6-debian-related.png)"
    ((name, draw),) = label_text.drawings(results).items()
    draw(tmp_path / name)
    assert (tmp_path / "decaf-figure-6-debian-related.png").read_bytes().startswith(b"\x89PNG")


# README, the combined model, the service, labels


def combined(seeds: int, **means: float) -> dict[str, Any]:
    figures = {
        f"{name.replace('_', ' ')}: {one}": {"mean": mean, "sd": 0.5} for name, mean in means.items() for one in USUAL
    }
    return {"command": "python -m this", "machine": "2 cores", DEBIAN: {"combined": {"seeds": seeds, **figures}}}


def test_what_was_not_measured_has_no_row() -> None:
    table = others.first_table({"combined_quality": combined(3, all=10.0)})
    assert "| **`laconic train`** on a GPU, mean of 3 seeds | **10.0** |" in table
    assert table.count("laconic train") == 1
    shown = others.channels({"combined_quality": combined(1, all=10.0, without_trees=11.0, without_siamese=9.0)})
    assert "| without trees | +1.00" in shown
    assert "| without siamese | −1.00" in shown
    assert "siamese alone" not in shown
    assert "nearest" not in shown
    shown = others.channels({"combined_quality": combined(1, all=10.0, siamese=8.0)})
    assert "| siamese alone | −2.00" in shown


def test_a_combined_model_that_is_below_its_trees_is_said_to_be() -> None:
    text = others.channels_on_cpu({"combined_cpu": combined(3, all=10.0, trees=10.4)})
    assert "| label trees alone | +0.40 ± 0.41 |" in text
    assert "below label trees alone in P@1 of debian-related (10.00, it 10.40); label trees alone in P@5" in text
    assert "below" not in others.channels_on_cpu({"combined_cpu": combined(3, all=10.5, trees=10.4)})


def test_a_claim_that_does_not_hold_is_said_not_to() -> None:
    made = {"command": "c", "load": {"claims": [{"what": "w", "found": "1 of 2", "holds": False}]}}
    assert "| w | 1 of 2 | **no** |" in others.claims({"chaos": made})
    assert (exceptions(0), exceptions(1)) == ("0 exceptions", "1 exception")
    assert how_often({"a": 1200, "b": 3}) == "a (1,200 times), b (3 times)"


def test_changed_labels_stand_with_the_command_that_trained_the_model() -> None:
    figures = {"P@1": 60.0, "P@5": 30.0, "recall@10": 10.0, "mean recall@10 of a label": 20.0, "places of ten": 0.5}
    one = {"seconds to add": 2.1, "without": figures, "added": figures | {"P@5": 29.5}, "trained": figures}
    text = others.hidden_labels({"label_changes_hidden": {DEBIAN: {"astec laptop": one, "nearest seed 1": one}}})
    assert "| `astec --preset laptop`, seed 0 | 10.0 | 10.0 | 20.0 | 20.0 | 60.0, 60.0 | −0.50 | 0.50 | 2 s |" in text
    assert "| `nearest`, seed 1 |" in text


def test_a_run_is_named_by_the_options_of_its_command() -> None:
    assert others.named("astec laptop seed 2") == "`astec --preset laptop`, seed 2"
    assert others.named("combined fusion.siamese=0 seed 1") == "`laconic train --set fusion.siamese=0`, seed 1"
    assert others.named("nearest") == "`nearest`, seed 0"


def test_rows_in_few_bits_stand_beside_others_with_the_size_of_the_data() -> None:
    counts = {
        name: {"mean": number, "sd": 0.0} for name, number in (("training texts", 5000), ("texts", 900), ("labels", 70))
    }
    runs = {
        way: {"seeds": 1, **counts} | of(mean) for way, mean in (("float32, rate 0.1", 40.0), ("e4m3, rate 0.1", 39.0))
    }
    shown = others.rows_in_few_bits({"fp8_rows": {"command": "b", "earlier commands": [], DEBIAN: runs}})
    assert f"| **{DEBIAN}**, one seed, 5,000 training texts, 900 held-out texts, 70 labels |" in shown
    assert "| e4m3, learning rate 0.1 | 39.00 ± 0.30 |" in shown


def test_numbers_are_rounded_as_torch_rounds_them_or_by_chance_to_a_neighbour() -> None:
    torch.manual_seed(0)
    numbers = torch.randn(100, 50) * torch.logspace(-3, 2.5, 100)[:, None]
    for kind, form in (
        (torch.float8_e4m3fn, fp8_rows.E4M3),
        (torch.float8_e5m2, fp8_rows.E5M2),
        (torch.bfloat16, fp8_rows.BFLOAT16),
    ):
        assert torch.equal(fp8_rows.rounded(numbers, form, stochastic=False), numbers.to(kind).float())
        by_chance = fp8_rows.rounded(numbers, form, stochastic=True)
        assert torch.equal(by_chance.to(kind).float(), by_chance)
        assert torch.equal(fp8_rows.rounded(by_chance, form, stochastic=True), by_chance)
    third = fp8_rows.rounded(
        torch.full((100, 100), 1 + 1 / 24), fp8_rows.E4M3, stochastic=True
    )  # a third of 1/8 above 1
    assert set(third.unique().tolist()) == {1.0, 1.125}
    assert third.mean().item() == pytest.approx(1 + 1 / 24, abs=0.005)
    tiny = torch.tensor([[1e-6, -3e-6]])
    scaled = fp8_rows.stored(tiny, fp8_rows.Way(fp8_rows.E4M3, stochastic=False, scaled=True))
    torch.testing.assert_close(scaled, tiny, rtol=0.07, atol=0)


def test_a_start_from_vectors_stands_beside_a_random_one_with_their_difference() -> None:
    starts = {"random start": 40.0, "vectors of a transformer": 39.0}
    runs = {
        f"astec, {way}, test": {"seeds": 3, "texts": {"mean": 5000, "sd": 0.0}} | of(mean)
        for way, mean in starts.items()
    }
    shown = others.static_vectors({"static_vectors": {"command": "b", "earlier commands": ["a"], DEBIAN: runs}})
    assert f"| **{DEBIAN}**, mean of 3 seeds, 5,000 test texts |" in shown
    assert "| random start | 40.00 ± 0.30 |" in shown
    assert "| difference | −1.00 ± 0.24 |" in shown
    assert shown.endswith("Made by `a`, `b`.")
