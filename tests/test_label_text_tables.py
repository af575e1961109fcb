"""The page of label texts says what the results say, and leaves out what nobody has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import label_text_tables
from benchmarks._decaf_tables import PROTOCOLS, ablations, accuracy, of_paper, on_validation, pictures
from benchmarks.label_text_tables import FILES, PAGE, block, choices, fused, laptop, learnt, recommended, sections
from benchmarks.plus_tables import filled

DEBIAN = "debian-related"
METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "tail R@10", "nDCG@5")


def of(mean: float, prefix: str = "", **others: float) -> dict[str, Any]:
    """A model's figures, all alike but for the others."""
    figures = dict.fromkeys(METRICS, mean) | {name.replace("_", "@"): value for name, value in others.items()}
    return {prefix + name: {"mean": value, "sd": 0.3} for name, value in figures.items()}


def run(alone: float, together: float, **others: float) -> dict[str, Any]:
    """Three seeds, alone and fused."""
    return {"seeds": 3} | of(alone, **others) | of(together, "fused: ")


def protocol(**more: Any) -> dict[str, Any]:
    runs = {"astec": run(50.0, 60.0), "astec, label texts learnt": run(52.0, 61.0, P_1=49.0) | more}
    return {"command": "python -m benchmarks", DEBIAN: runs}


def test_the_page_has_a_place_for_every_block() -> None:
    texts = {name: f"the block of {name}." for name in sections({})}
    page = filled(PAGE.read_text(encoding="utf-8"), texts)
    assert all(page.count(text) == 1 for text in texts.values())


def test_without_any_result_every_block_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(label_text_tables, "PAGE", tmp_path / "page.md")
    assert {block(make) for make in sections({}).values()} == {""}


def test_peers_that_are_ahead_are_named() -> None:
    untrained = {"P@1": 10.0, "P@5": 10.0, "PSP@5": 61.5, "tail R@10": 10.0}
    text = recommended({"label_text_protocol": protocol(), "nearest_quality": {DEBIAN: {"nearest": untrained}}})
    assert "| debian-related | **Astec, label texts learnt, fused** | 3 | 61.00 ± 0.30 |" in text
    ahead = text.splitlines()[-1]
    assert "P@1 63.1 (omikuji, Parabel-like)" in ahead
    assert "PSP@5 61.5 (`nearest`, untrained)" in ahead
    assert "tail" not in ahead


def test_the_dial_is_of_one_seed_and_shown_where_it_was_scored() -> None:
    assert "tail=" not in recommended({"label_text_protocol": protocol()})
    text = recommended({"label_text_protocol": protocol(**of(40.5, "fused, tail 0.2: "))})
    assert "| the same, `tail=0.2` | 1 | 40.50" in text
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
    monkeypatch.setattr(label_text_tables, "chosen", lambda data, method, preset: {"share": 0.1})
    text = choices({"label_text_choices": {DEBIAN: runs}})
    assert text.endswith("| Astec | 50.0 / 50.0 | 51.0 / 51.0 | **52.0 / 52.0** | 49.0 / 49.0 |")


def test_a_run_on_a_cpu_is_a_section_of_its_own() -> None:
    text = laptop({"label_text_protocol_laptop": protocol()})
    assert text.startswith("## On a CPU")
    assert "| Astec, label texts learnt, fused | 3 | 61.00 ± 0.30 |" in text


def test_the_best_of_decaf_stands_beside_the_best_of_astec() -> None:
    opened = {"beam": {"mean": 90.0, "sd": 0.0}, "clusters": 4096}
    own = {"slow": of(38.0, P_1=41.0) | opened, "quick": of(37.0, P_1=42.0) | opened}
    text = on_validation(
        {"decaf_choices": {"npm-names-deps": own}, "deepxml_choices": {"npm-names-deps": {"a": of(39.0)}}}
    )
    assert text.endswith("| npm-names-deps | 38.0 | 41.0 | 39.0 | 39.0 | slow | 90 of 4,096 | 2 of 4 |")


def beside_astec(mean: float, *, seeds: int = 3) -> dict[str, Any]:
    runs = {"DECAF": {"seeds": seeds} | of(mean), "Astec": {"seeds": 3} | of(49.0)}
    return {"command": "python -m benchmarks", DEBIAN: runs}


def test_the_full_protocol_stands_before_the_laptops_each_under_its_own_heading() -> None:
    text = accuracy({"decaf_table_1_laptop": beside_astec(50.0), "decaf_table_1": beside_astec(52.0)})
    full, preset = text.split("### On the test split, preset `laptop`")
    assert full.startswith("### On the test split, one H200")
    assert "| DECAF − Astec |  | +3.00 ± 0.24 |" in full
    assert "| DECAF − Astec |  | +1.00 ± 0.24 |" in preset
    assert [part.count("DECAF − Astec") for part in (full, preset)] == [1, 1]


@pytest.mark.parametrize("file", PROTOCOLS)
def test_a_protocol_that_was_not_run_is_left_out(file: str) -> None:
    assert file in FILES
    text = accuracy({file: beside_astec(50.0)})
    assert text.startswith(PROTOCOLS[file][0])
    assert text.endswith(PROTOCOLS[file][1])
    assert text.count("###") == 1


def test_a_seed_that_is_missing_is_seen_and_makes_the_difference_less_sure() -> None:
    text = accuracy({"decaf_table_1": beside_astec(50.0, seeds=2)})
    assert "| DECAF | 2 | 50.00 ± 0.30 |" in text
    assert "| Astec | 3 | 49.00 ± 0.30 |" in text
    assert "| DECAF − Astec |  | +1.00 ± 0.27 |" in text


def test_an_ensembles_sizes_follow_its_first_instance() -> None:
    ensemble = {"seeds": 3} | of(52.0) | of(50.0, "1 instance: ") | of(51.0, "2 instances: ")
    text = accuracy({"decaf_table_1": {DEBIAN: {"DECAF": ensemble, "Astec": {"seeds": 3} | of(49.0)}}})
    assert text.index("| DECAF | 3 | 50.00") < text.index("| DECAF, 2 instances | 3 | 51.00")
    assert text.index("| DECAF, 2 instances |") < text.index("| DECAF, 3 instances | 3 | 52.00")
    assert "| DECAF − Astec |  | +1.00 ± 0.24 |" in text


def test_an_ablation_is_compared_with_the_whole_and_with_the_paper() -> None:
    runs = {"DECAF-lite": {"seeds": 3} | of(48.0), "DECAF": {"seeds": 3} | of(50.0)}
    shown = ablations({"decaf_table_6_laptop": {DEBIAN: runs, "command": "python -m this --texts 9"}}).splitlines()
    whole, lite = shown[4:6]
    assert shown[-1] == "Made by `python -m this --texts 9`."
    assert whole.startswith("| debian-related | DECAF |")
    assert whole.endswith("|  |  |  |  |")
    assert lite.endswith("| −2.00 ± 0.24 | −2.00 ± 0.24 | −1.14 | −0.27 |")
    assert "Signs that differ from the paper's: none." in shown


def test_a_sign_that_is_not_the_papers_is_named_unless_it_may_be_chance() -> None:
    runs = {
        "DECAF": {"seeds": 3} | of(50.0),
        "DECAF-no-init": {"seeds": 3} | of(52.0, PSP_5=50.1),  # the paper loses by it on both of its datasets
        "DECAF-ẑ¹": {"seeds": 3} | of(48.0, PSP_5=51.0),  # of which it wins PSP@5 on one
    }
    text = ablations({"decaf_table_6": {DEBIAN: runs, "command": "python -m this"}})
    assert "paper's: DECAF-no-init on debian-related (P@1 +2.00 ± 0.24, paper -0.61 and -1.33)." in text


def test_tables_of_the_paper_stand_on_the_page_with_their_command() -> None:
    rows = {"+ HNSW shortlist": {"seeds": 1} | of(48.0), "DECAF": {"seeds": 1} | of(50.0)}
    text = of_paper({"decaf_table_5": {DEBIAN: rows, "command": "python -m this"}}, "table 5", "### Other shortlists")
    assert text.startswith("### Other shortlists\n\ndebian-related:")
    assert text.index("| DECAF | ours, 1 seed |") < text.index("| + HNSW shortlist | ours, 1 seed |")
    assert text.endswith("Made by `python -m this`.")


def test_pictures_are_drawn_of_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    recalls = {"2": {"recall by beam": {"1": 0.5, "2": 1.0}}, "4": {"recall by beam": {"1": 0.3, "4": 1.0}}}
    text = pictures({"decaf_figure_6": {DEBIAN: recalls}, "decaf_table_1": beside_astec(50.0)}, tmp_path)
    assert text.count("![") == 1
    assert text.endswith("(Figure 6), debian-related](pictures/decaf-figure-6-debian-related.png)")
    assert [path.name for path in tmp_path.iterdir()] == ["decaf-figure-6-debian-related.png"]
