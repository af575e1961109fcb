"""What is chosen where no method is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.common import RESULTS
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.errors import ConfigError
from laconic.estimator import Laconic
from laconic.methods import first_kernels
from laconic.methods.auto import Choice, choose, config_for, describe_situation
from laconic.methods.first_kernels import kernels_of, remember_kernels
from laconic.methods.registry import config_of
from laconic.methods.stage_memory import planned_within
from laconic.methods.stage_times import Situation, _tree_seconds, planned_parts
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.system.speed import Speed
from laconic.training.deadline import total_seconds
from laconic.training.run import Run
from laconic.units import seconds_of
from tests.planted import planted_texts
from tests.variants import some_slow

SHOP = Situation(texts=100_000, labels=20_000, pairs=300_000, kind="text", label_texts=True, gpu=False, cores=2)


def choice(**other: object) -> Choice:
    return choose(SHOP._replace(**other))


def test_a_gpu_learns_what_a_cpu_would_take_long_for() -> None:
    assert choice(gpu=True).method == "inceptionxml"
    assert choice(gpu=True, labels=3_000_000).method == "inceptionxml+"
    assert choice().method == "astec"


def test_features_without_words_in_order_get_trees_which_say_where_they_run() -> None:
    for gpu in (False, True):
        found = choice(gpu=gpu, kind="sparse")
        assert found.method == "trees"
        assert "on 2 cores" in found.why


def test_inception_starts_from_label_texts_where_there_are_any_with_fewer_epochs_of_many_texts() -> None:
    found = [choice(gpu=True, texts=texts) for texts in (100_000, 500_000, 5_000_000)]
    assert [one.settings["warm_up"]["epochs"] for one in found] == [15, 8, 2]
    assert all(one.settings["row_start"] > 0 for one in found)
    without = choice(gpu=True, label_texts=False)
    assert not {"warm_up", "row_start"} & set(without.settings)
    config_of("inceptionxml", found[0].settings)


def test_a_setting_of_another_method_says_which_was_chosen() -> None:
    with pytest.raises(ConfigError, match=r"chunk.*astec was chosen"):
        config_for(choice(), {"chunk": 5})


def test_label_trees_read_sub_words_where_no_space_parts_words() -> None:
    found = choice(budget=240.0, unspaced=True)
    assert found.method == "trees"
    assert config_of("trees", found.settings).vocabulary.subwords > 0
    assert config_of("trees", choice(budget=240.0).settings).vocabulary.subwords == 0


def test_the_script_of_texts_is_looked_at() -> None:
    corpus = planted_texts(num_labels=3, num_texts=30)
    texts = ["リアルタイム戦略ゲーム"] * len(corpus.split("train"))
    written = replace(corpus, splits={"train": replace(corpus.split("train"), texts=texts)})
    found = [describe_situation(one, gpu=False, budget=None).unspaced for one in (corpus, written)]
    assert found == [False, True]


def test_less_time_means_less_learning() -> None:
    methods = [choice(budget=budget).method for budget in (1e9, 240.0, 20.0)]
    assert methods == ["astec", "trees", "nearest"]
    seconds = [choice(budget=budget).seconds for budget in (1e9, 240.0, 20.0)]
    assert seconds == sorted(seconds, reverse=True)
    assert all(found <= budget for found, budget in zip(seconds, (1e9, 240.0, 20.0), strict=True))


def test_where_nothing_is_trained_for_want_of_time_the_time_that_training_takes_is_said() -> None:
    found = choice(budget=20.0)
    assert found.method == "nearest"
    assert "without training, as label trees" in found.why
    assert " would take about " in found.why
    assert "would take" not in choice(texts=20, budget=20.0).why, "which no time would help"


def test_more_time_means_larger_plans_which_use_it() -> None:
    budgets = (300.0, 900.0, 3600.0, 4 * 3600.0, 20 * 3600.0)
    found = [choice(budget=budget) for budget in budgets]
    sizes = [(one.method == "astec", "siamese" in one.settings["fusion"], one.members, one.memory) for one in found]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) >= 4, "not one plan for all"
    used = [one.seconds / budget for one, budget in zip(found, budgets, strict=True)]
    assert all(0.8 <= fraction <= 1 for fraction in used[:-1])
    assert found[-1].members > 1
    assert used[-1] < 1, "there is nothing more to do that would help"


def test_the_smallest_ensemble_of_label_trees_is_trained_that_uses_time_one_model_has_no_use_for() -> None:
    budgets = (120.0, 300.0, 600.0, 1200.0, 1e5)
    found = [choice(kind="sparse", budget=budget) for budget in budgets]
    assert {one.method for one in found} == {"trees"}
    assert [one.members for one in found] == [1, 1, 2, 4, 5]
    assert all(one.seconds >= 0.8 * budget for one, budget in zip(found[:-1], budgets[:-1], strict=True))
    assert found[2].why.startswith("2 models of label trees + ")
    assert choice(kind="sparse").members == 1, "without a budget"


def test_other_work_leaves_a_thread_its_core_where_there_are_two() -> None:
    assert SHOP._replace(share=0.6).one_core == SHOP.one_core
    assert SHOP._replace(share=0.6, cores=1).one_core == pytest.approx(0.6 * SHOP.one_core)


@pytest.mark.parametrize("gpu", [False, True])
def test_without_a_budget_nothing_is_trained_that_only_time_is_for(gpu: bool) -> None:
    found = choice(gpu=gpu)
    assert found.members == 1
    assert found.scale == 1


def test_label_trees_are_no_more_than_memory_has_room_for_however_long_the_budget() -> None:
    for budget in (900.0, 1e5):
        roomy = choice(kind="sparse", budget=budget, free_memory=1 << 40)
        assert roomy.memory == choice(kind="sparse", budget=budget).memory
        for free in (roomy.memory - 1, 2 * roomy.memory // 3):
            found = choice(kind="sparse", budget=budget, free_memory=free)
            assert found.method == "trees"
            assert found.memory <= free
    config = config_of("trees", {"trees": 10})
    assert planned_within(SHOP._replace(free_memory=1 << 40), "trees", config)["trees"].most == 0.8, "as asked for"


def test_a_budget_is_named_where_training_without_one_takes_hours() -> None:
    hint = "a budget, such as 30m, shortens it"
    long = choice(texts=2_000_000, pairs=6_000_000)
    assert long.seconds > 3600
    assert long.why.endswith(hint)
    assert hint not in choice(texts=2_000_000, pairs=6_000_000, budget=7200.0).why, "one is given"
    assert hint not in choice(texts=10_000, pairs=30_000).why, "it is short"
    assert hint not in choice(texts=2_000_000_000, pairs=6_000_000_000).why, "no half hour has room for training"


def test_a_plan_that_memory_has_no_room_for_is_not_chosen() -> None:
    usual = choice()
    assert choice(free_memory=usual.memory).settings == usual.settings
    small = choice(free_memory=usual.memory - 1)
    assert small.memory < usual.memory
    assert choice(free_memory=1).method == "nearest"


def test_faster_cores_take_less_time_and_the_data_in_memory_counts() -> None:
    assert choice(speed=Speed(2.0, 2.0, 2.0)).seconds < 0.7 * choice().seconds
    assert choice(held_memory=1 << 30).memory == choice().memory + (1 << 30)


@pytest.mark.parametrize(("name", "judged"), [("amazontitles-670k-shape", 10_000), ("yso-titles", 90_757)])
def test_on_a_gpu_stages_are_estimated_near_what_they_took(name: str, judged: int) -> None:
    """The figures are those from which the rates were read, so this holds the rates together, and foretells nothing."""
    found = json.loads((RESULTS / "stages.json").read_text())[name]
    took = {stage["stage"]: stage["seconds"] for stage in found["stages"] if not stage["stage"].endswith("-beside")}
    sizes = {key: found["sizes"][key] for key in ("texts", "labels", "pairs")}
    parts = choice(**sizes, gpu=True, cores=16, judged=judged).parts
    estimated = {stage: part.seconds for stage, part in parts.items()}
    assert sum(estimated.values()) == pytest.approx(sum(took.values()), rel=0.15)
    estimated.pop("fusion-trees-of-all", None)  # none were grown again at that time
    for stage, seconds in estimated.items():
        assert seconds == pytest.approx(took.get(stage, 0.0), rel=0.3, abs=2.5), stage


def every_kernel(method: str, *, gpu: bool) -> frozenset[str]:
    """The names of the kernels that are compiled where nothing is marked."""
    parts = ("trees", "train", "fusion-evidence", "fusion-order", "packing")
    return frozenset(one.name for part in parts if (one := kernels_of(method, part, gpu=gpu)))


@pytest.mark.parametrize("gpu", [False, True])
def test_a_first_training_on_a_machine_is_estimated_to_compile_kernels(gpu: bool) -> None:
    usual, method = choice(gpu=gpu, cores=4), choice(gpu=gpu, cores=4).method
    first = choice(gpu=gpu, cores=4, uncompiled=every_kernel(method, gpu=gpu))
    # A GPU's later stages are compiled beside its first.
    assert first.seconds - usual.seconds == pytest.approx(40 if gpu else 70)
    assert "to compile kernels, once" in first.why
    others = every_kernel("decaf", gpu=gpu) - {"label trees"}
    assert choice(gpu=gpu, cores=4, uncompiled=others) == usual


@pytest.mark.parametrize("unable", [{"cores": 2}, {"packing": False}])
def test_later_stages_compile_their_kernels_themselves_where_none_are_compiled_beside_a_gpu(
    unable: dict[str, Any],
) -> None:
    every = every_kernel("inceptionxml", gpu=True)
    usual, first = choice(gpu=True, **unable), choice(gpu=True, **unable, uncompiled=every)
    packing = 16 * ("packing" in first.parts)
    assert first.seconds - usual.seconds == pytest.approx(40 + 35 + 16 + 3 + packing)


def test_the_process_that_compiles_beside_a_gpu_counts_in_the_memory_of_a_first_training() -> None:
    every = every_kernel("inceptionxml", gpu=True)
    little = choice(gpu=True, cores=16).memory + (3 << 30)
    ways: list[tuple[dict[str, Any], int]] = [({}, 1200 << 20), ({"cores": 2}, 0), ({"packing": False}, 0)]
    for unlike, more in [*ways, ({"free_memory": little}, 0), ({"texts": 20}, 0)]:
        usual, first = (
            choice(gpu=True, **{"cores": 16, **unlike}),
            choice(gpu=True, **{"cores": 16, **unlike}, uncompiled=every),
        )
        assert first.memory - usual.memory == more


def test_label_trees_are_compiled_once_for_all_methods() -> None:
    known = every_kernel("trees", gpu=False)
    others = every_kernel("astec", gpu=False) - known
    config = config_of("astec", {"validation": 0.1, "fusion": {"trees": 2}})
    parts = planned_parts(SHOP._replace(uncompiled=others), "astec", config)
    assert {name for name, part in parts.items() if part.once} == {"fusion-evidence", "fusion-order", "packing"}
    parts = planned_parts(SHOP._replace(uncompiled=others | known), "astec", config)
    assert parts["fusion-trees"].once == 35


@pytest.mark.parametrize("budget", [None, 600.0])
def test_members_of_an_ensemble_compile_kernels_once(budget: float | None) -> None:
    config, usual = config_of("trees", {"validation": 0.1, "fusion": {"trees": 2}}), SHOP._replace(budget=budget)
    first = usual._replace(uncompiled=every_kernel("trees", gpu=False))
    more = [
        total_seconds(planned_parts(first, "trees", config, members), 1.0)
        - total_seconds(planned_parts(usual, "trees", config, members), 1.0)
        for members in (1, 3)
    ]
    assert more == [pytest.approx(70), pytest.approx(70)]
    parts = planned_parts(first, "trees", config, 3)
    assert {name for name, part in parts.items() if part.once == 35} == {"member-0.trees-kernels"}, (
        "before a tree's time"
    )


def test_a_budget_that_has_no_room_for_compiling_says_how_to_get_round_it() -> None:
    small: dict[str, Any] = {"texts": 20_000, "labels": 5_000, "pairs": 60_000, "budget": 60.0}
    assert choice(**small).method == "trees"
    first = choice(**small, uncompiled=every_kernel("trees", gpu=False))
    assert first.method == "nearest"
    assert "of them to compile kernels; a training without a budget does so, once" in first.why
    assert "compile" not in choice(**{**small, "budget": 5.0}).why, "nor is there time for the trees themselves"


def test_stages_that_have_ended_are_remembered_by_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: set[str] = set()
    monkeypatch.setattr(first_kernels, "is_marked", marked.__contains__)
    monkeypatch.setattr(first_kernels, "mark", marked.add)
    corpus = planted_texts()

    def uncompiled(*, gpu: bool) -> frozenset[str]:
        return describe_situation(corpus, gpu=gpu, budget=None).uncompiled

    assert every_kernel("trees", gpu=False) <= uncompiled(gpu=False)
    remember_kernels("trees", ["reading", "member-1.trees", "fusion-evidence", "fusion-order", "fusion"], gpu=False)
    assert every_kernel("trees", gpu=False) & uncompiled(gpu=False) == {"packing of trees"}
    assert "label trees" not in every_kernel("astec", gpu=False) & uncompiled(gpu=False)
    assert "evidence of astec" in uncompiled(gpu=False)
    remember_kernels("inceptionxml", ["train", "packing"], gpu=True)
    assert "training of inceptionxml on a GPU" not in uncompiled(gpu=True)
    assert "training of inceptionxml+ on a GPU" in uncompiled(gpu=True)


def test_a_second_forest_beside_a_gpu_is_planned_where_it_grows() -> None:
    config = config_of("inceptionxml", {"validation": 0.04, "fusion": {"trees": 3}})
    few, many = (
        planned_parts(SHOP._replace(gpu=True, cores=16, pairs=pairs), "inceptionxml", config)
        for pairs in (10**5, 10**7)
    )
    assert few["fusion-trees-of-all"].seconds == 0, "beside the GPU's training"
    assert "fusion-trees-of-all" not in many, "few texts are held out"
    config = config_of("inceptionxml", {"validation": 0.1, "fusion": {"trees": 3}})
    parts = planned_parts(SHOP._replace(gpu=True, cores=1, pairs=10**7), "inceptionxml", config)
    assert (
        parts["fusion-trees"].seconds
        < parts["fusion-trees-of-all"].seconds
        == pytest.approx(3 * _tree_seconds(SHOP._replace(cores=1, pairs=10**7)))
    )


def test_an_ensemble_has_the_parts_of_every_member() -> None:
    config = config_of("trees", {"validation": 0.1, "fusion": {"trees": 2}})
    one, two = (planned_parts(SHOP, "trees", config, members) for members in (1, 2))
    assert two["member-1.fusion-trees-of-all"].follows == "member-1.fusion-trees"
    assert two["calibration"].seconds == pytest.approx(4 * one["calibration"].seconds), "labels are ranked and scored"
    alone, both = (total_seconds(parts, 1.0) - parts["calibration"].seconds for parts in (one, two))
    assert both == pytest.approx(2 * alone)


@pytest.mark.parametrize(("gpu", "width"), [(False, 128), (True, 256)])
def test_label_texts_get_a_learnt_space_that_is_smaller_on_a_cpu(gpu: bool, width: int) -> None:
    found = choice(gpu=gpu)
    assert found.settings["fusion"]["siamese"] == width
    assert " + label texts + siamese; " in found.why


@pytest.mark.parametrize("other", [{"label_texts": False}, {"kind": "sparse"}])
def test_without_texts_on_both_sides_there_is_no_learnt_space(other: dict[str, object]) -> None:
    for gpu in (False, True):
        found = choice(gpu=gpu, **other)
        assert "siamese" not in found.settings["fusion"]
        assert "siamese" not in found.why


def test_a_short_time_leaves_the_learnt_space_out_before_the_trees() -> None:
    long, short = choice(budget=600.0), choice(budget=240.0)
    assert (long.method, short.method) == ("trees", "trees")
    assert "siamese" in long.settings["fusion"]
    assert "siamese" not in short.settings["fusion"]
    assert "siamese" not in short.why


@pytest.mark.parametrize("budget", [None, 600.0, 240.0])
def test_the_loss_weighs_rare_labels_instead_of_a_tail_bias(budget: float | None) -> None:
    for gpu in (False, True):
        found = choice(gpu=gpu, budget=budget)
        fusion = config_of(found.method, found.settings).fusion
        assert fusion is not None
        assert (fusion.rare, fusion.first, fusion.tail) == (0.8, 1.0, 0.0)


def test_what_is_wanted_overrules_a_part_of_the_choice() -> None:
    _, config = config_for(choice(), {"fusion": {"siamese": 0}})
    assert config.fusion is not None
    assert (config.fusion.siamese, config.fusion.rare) == (0, 0.8)


def test_where_nothing_fits_the_quickest_is_taken_and_that_is_said() -> None:
    found = choice(budget=0.1)
    assert found.method == "nearest"
    assert "more than the budget of" in found.why


@pytest.mark.slow
@pytest.mark.parametrize("texts", some_slow([45_124, 134_083, 515_549, 1_712_536, 30_000_000], 4))
@pytest.mark.parametrize("gpu", [False, True])
def test_as_many_texts_are_held_out_as_was_planned(texts: int, gpu: bool) -> None:
    share = float(choice(texts=texts, gpu=gpu).settings["validation"])
    inputs, labels = csr_array((texts, 1), dtype=np.float32), csr_array((texts, 2), dtype=np.float32)
    learn, held = Dataset(inputs=inputs, labels=labels).split(share, seed=0)
    assert len(held) == round(share * texts)
    assert len(learn) + len(held) == texts
    assert len(held) == pytest.approx(min(0.1 * texts, 20_000), rel=0.1)


def test_everything_that_is_chosen_is_a_sound_config() -> None:
    situations = [
        SHOP._replace(gpu=gpu, kind=kind, texts=texts, label_texts=named, budget=budget)
        for gpu in (False, True)
        for kind in ("text", "sparse", "dense")
        for texts in (10, 1000, 10_000_000)
        for named in (False, True)
        for budget in (None, 60.0)
    ]
    for one in situations:
        found = choose(one)
        config_of(found.method, found.settings)
        assert ("extra_texts" in found.settings) <= one.label_texts


def test_few_texts_are_only_remembered() -> None:
    assert choice(texts=100).method == "nearest"


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("2", 120), (" 10 M ", 600)]
)
def test_a_budget_is_a_time(written: str, seconds: float) -> None:
    assert seconds_of(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "-5m", "0m", "5 days"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="such as 90s, 5m"):
        seconds_of(written)


@pytest.mark.slow
def test_what_is_chosen_on_a_cpu_in_little_time_learns() -> None:
    corpus = planted_texts(num_labels=12, num_texts=900, with_label_texts=True)
    found = choose(describe_situation(corpus, gpu=False, budget=None)._replace(budget=60.0, cores=1))
    model = train_model(corpus, found.method, config_of(found.method, found.settings), Run.unkept())
    assert Predictor(model, "cpu").evaluate(corpus, "test").metrics["P@1"] > 80
    assert model.facts["method"] == found.method
    assert any(name.startswith("siamese.") for name in model.tensors)


def test_the_estimator_chooses_too() -> None:
    model = Laconic(device="cpu").fit(["red rose", "deep sea"], [["flower"], ["water"]])
    assert model.model_.facts["method"] == "nearest"
    assert model.predict("a red rose", k=1)[0].label == "flower"


def test_other_work_on_the_cores_takes_time_and_is_said() -> None:
    quiet, busy = choice(), choice(share=0.25)
    assert busy.method == quiet.method
    assert busy.seconds == pytest.approx(4 * quiet.seconds, rel=0.2)  # but for what a step takes to begin
    assert " on 2 cores beside other work, " in busy.why
    assert " on 2 cores, " in quiet.why
    assert "work" not in choice(texts=100, share=0.25).why, "what takes a second needs no excuse"
    budget = 1.5 * quiet.seconds
    assert choice(budget=budget).method == "astec"
    assert choice(budget=budget, share=0.25).method != "astec"


def test_only_a_member_s_number_is_left_out_of_a_stage_s_name() -> None:
    assert kernels_of("inceptionxml", "member-3.train", gpu=True) == kernels_of("inceptionxml", "train", gpu=True)
    assert kernels_of("astec", "fusion-encoder.train", gpu=True) is None
