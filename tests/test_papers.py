"""The papers' tables on folders of the papers' shapes: each is made by one command, beside the published figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks._trainings import Job, side_by_side, stored, with_run
from benchmarks.papers.__main__ import main
from benchmarks.papers.datasets import PUBLISHED, Dataset, known_as
from benchmarks.papers.estimates import seconds_of
from benchmarks.papers.report import published, shown
from benchmarks.papers.rows import ROWS, SHARED, fan_outs
from benchmarks.papers.work import Options, completed

from laconic.methods.registry import config_of
from tests.planted import planted_texts
from tests.repository_folder import write_repository, write_vectors
from tests.variants import some_slow

AMAZON, LABEL_TEXTS, OURS = "AmazonTitles-670K", "LF-AmazonTitles-131K", "debian-related"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name in (AMAZON, LABEL_TEXTS):
        write_repository(root / name)
    write_repository(root / "features alone" / LABEL_TEXTS, raw=False)
    write_vectors(root / "vectors.txt", root / AMAZON)
    write_records(root / OURS)
    return root


def write_records(folder: Path) -> None:
    """Write data of our own name, as small as the others."""
    folder.mkdir()
    corpus = planted_texts(num_labels=40, num_texts=300)
    for name in ("train", "test"):
        split = corpus.split(name)
        rows = [[f"L{label}" for label in split.labels[[row]].indices] for row in range(len(split))]
        lines = [json.dumps({"text": text, "labels": own}) for text, own in zip(split.texts or (), rows, strict=True)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))


def made(data: Path, tmp_path: Path, paper: str, *arguments: str, folder: str = "") -> tuple[dict[str, dict], str]:
    """The rows of the results and the page of one table, trained for an epoch on the CPU."""
    folder = folder or (LABEL_TEXTS if paper == "decaf" else AMAZON)
    usual = ["--device", "cpu", "--epochs", "1", "--results", str(tmp_path)]
    main([paper, *arguments, "--data", str(data / folder), *usual, "--set", "embedding=16", "members=2"])
    (result,), (page,) = tmp_path.glob("*.json"), tmp_path.glob("*.md")
    rows = json.loads(result.read_text())
    assert rows["command"].startswith("python -m benchmarks.")
    return rows[Path(folder).name], page.read_text()


TABLES = {
    ("inceptionxml", 2): ["InceptionXML+*", "Astec*"],
    ("inceptionxml", 3): ["InceptionXML+", "InceptionXML", "Astec"],
    ("inceptionxml", 4): ["InceptionXML+", "InceptionXML", "Astec"],
    ("inceptionxml", 5): ["InceptionXML+"],
    ("inceptionxml", 6): ["8, 1: Ours", "8, 1: w/o detaching", "8, 1: in LightXML's framework", "in DeepXML"],
    ("deepxml", 1): ["Astec without its re-ranker", "Astec", "Parabel"],
    ("deepxml", 4): ["XML-CNN as published", "DeepXML + XML-CNN", "MACH as published", "DeepXML + MACH"],
    ("deepxml", 6): ["Astec", "surrogate: random", "negatives: uniform", "classifier: DiSMEC", "classifier: Parabel"],
    ("decaf", 1): ["DECAF", "Astec", "Bonsai"],
    ("decaf", 4): ["Parabel", "Parabel + metadata"],
    ("decaf", 5): ["DECAF", "+ HNSW shortlist", "+ Parabel shortlist"],
    ("decaf", 6): ["DECAF", "DECAF-8K", "DECAF-ẑ¹", "DECAF-lite"],
}


@pytest.mark.parametrize(("paper", "table"), some_slow(TABLES, unpack=True), ids=str)
def test_a_table_is_made_on_a_folder_of_the_papers_name(paper: str, table: int, data: Path, tmp_path: Path) -> None:
    rows, page = made(data, tmp_path, paper, "--table", str(table), "--only", *TABLES[paper, table])
    assert set(TABLES[paper, table]) <= rows.keys()
    assert all(0 <= row["P@1"]["mean"] <= 100 and row["seconds"]["mean"] > 0 for row in rows.values())
    known = PUBLISHED[paper][str(table)][LABEL_TEXTS if paper == "decaf" else AMAZON]
    assert all(f"| {name} | paper |" in page for name in known)


@pytest.mark.slow
def test_a_table_of_another_table_s_trainings_trains_nothing(data: Path, tmp_path: Path) -> None:
    made(data, tmp_path, "decaf", "--table", "1", "--only", "DECAF-lite")
    kept = (tmp_path / "decaf_table_1.json").read_text()
    main(
        [
            "decaf",
            "--table",
            "2",
            "--only",
            "DECAF-lite",
            "--data",
            str(data / LABEL_TEXTS),
            "--results",
            str(tmp_path),
            "--device",
            "cpu",
        ]
    )
    assert (tmp_path / "decaf_table_1.json").read_text() == kept
    assert "C@20" in (tmp_path / "decaf_table_2.md").read_text()


def test_settings_and_sizes_need_no_training(data: Path, tmp_path: Path) -> None:
    arguments = [
        "deepxml",
        "--table",
        "3",
        "5",
        "--data",
        str(data / AMAZON),
        "--results",
        str(tmp_path),
        "--device",
        "cpu",
    ]
    main(arguments)
    sizes, settings = ((tmp_path / f"deepxml_table_{number}.md").read_text() for number in (3, 5))
    assert f"| {AMAZON} | ours | 300 | 75 |" in sizes
    assert f"| {AMAZON} | paper | 485,176 | 150,875 | 66,666 | 670,091 |" in sizes
    assert f"| {AMAZON} | paper | 65536 | 0.02 | 0.002 |" in settings


def test_examples_show_what_is_true_and_what_is_not(data: Path, tmp_path: Path) -> None:
    rows, page = made(data, tmp_path, "decaf", "--table", "3")
    examples = rows["DECAF"]["examples"]
    assert len(examples) == 5
    assert all(len(labels) == 5 for labels in examples.values())
    assert any(one["kind"] != "not true" for labels in examples.values() for one in labels) == ("**" in page)


@pytest.mark.parametrize(
    ("paper", "figure", "only"),
    some_slow(
        [
            pytest.param("inceptionxml", "3", "", marks=pytest.mark.slow),
            pytest.param("inceptionxml", "4", "permutation 1", marks=pytest.mark.slow),
            pytest.param("inceptionxml", "5", "", marks=pytest.mark.slow),
            ("deepxml", "2", "50"),
            ("deepxml", "3", "without"),
            ("decaf", "4", "Parabel"),
            ("decaf", "5", ""),
            ("decaf", "6", ""),
        ],
        4,
        unpack=True,
    ),
)
def test_a_figure_is_drawn(paper: str, figure: str, only: str, data: Path, tmp_path: Path) -> None:
    arguments = ["--figure", figure, "--vectors", str(data / "vectors.txt"), *(["--only", only] if only else [])]
    made(data, tmp_path, paper, *arguments)
    (picture,) = (tmp_path / "pictures").glob("*.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_re_ranker_s_weight_is_chosen_on_validation(data: Path, tmp_path: Path) -> None:
    rows, _ = made(data, tmp_path, "deepxml", "--part", "reranker")
    (row,) = rows.values()
    assert max(row["alphas"], key=row["alphas"].get) == str(row["alpha"]["mean"]) or row["alpha"]["mean"] == 0.6
    assert {"base: P@1", "P@1"} <= row.keys()


@pytest.mark.slow
def test_shortlists_overlap_and_theorem_1_has_numbers(data: Path, tmp_path: Path) -> None:
    rows, page = made(data, tmp_path, "deepxml", "--part", "vectors")
    row = rows["Astec"]
    assert 0 < row["overlap of shortlists"]["mean"] <= 100
    assert row["theorem 1: largest ‖x̂ − v‖ / ‖v‖"]["mean"] <= row["theorem 1: λ"]["mean"] + 0.2
    assert "more than 87 %" in page


def test_features_and_vectors_are_what_deepxml_reads(data: Path, tmp_path: Path) -> None:
    """Features without texts, started from vectors of what Xf.txt names: the published input of Astec and DECAF."""
    arguments = ["--table", "6", "--only", "FFT", "--vectors", str(data / "vectors.txt")]
    rows, _ = made(data, tmp_path, "decaf", *arguments, folder=f"features alone/{LABEL_TEXTS}")
    assert rows.keys() == {"DECAF-FFT"}
    with_texts = Dataset(str(data / AMAZON), "deepxml")
    inputs = with_texts.prepared("astec", with_texts.fitted(with_texts.settings("astec")))
    assert inputs.prepared.tokenizer is None
    plus = with_texts.prepared("inceptionxml+", with_texts.fitted(with_texts.settings("inceptionxml+")))
    assert plus.prepared.tokenizer is not None


def test_rows_that_want_vectors_are_left_out_without_them(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.papers.__main__.GLOVE", tmp_path / "none")
    main(["decaf", "--table", "6", "--only", "FFT", "--data", str(data / LABEL_TEXTS), "--device", "cpu", "--dry-run"])
    said = capsys.readouterr().out
    assert "DECAF-FFT: left out, for it wants word vectors (--vectors FILE)" in said
    assert "0 trainings" in said


def test_propensities_are_those_of_the_dataset(data: Path) -> None:
    amazon = Dataset(str(data / AMAZON), "inceptionxml")
    training = amazon.prepared("inceptionxml+", amazon.fitted(amazon.settings("inceptionxml+"))).truth.training
    assert training is not None
    assert (training.propensity.a, training.propensity.b) == (0.6, 2.6)


def test_a_dataset_is_known_by_its_name_or_its_size() -> None:
    assert known_as("amazontitles_670k", 10, 10) == AMAZON
    assert known_as("my LF-AmazonTitles-1.3M", 10, 10) == "LF-AmazonTitles-1.3M"
    assert known_as("download", 294_805, 131_073) == LABEL_TEXTS
    assert known_as("debian-related", 45_124, 36_306) == ""


@pytest.mark.parametrize("paper", ROWS)
def test_every_row_of_every_table_has_settings_that_its_method_takes(paper: str, data: Path) -> None:

    for place in (str(data / AMAZON), str(data / LABEL_TEXTS), str(data / OURS)):
        one = Dataset(place, paper)
        for make in ROWS[paper].values():
            for row in make(one):
                settings = completed(row, one, Options(vectors=data / "vectors.txt"))
                assert settings is not None
                config = config_of(row.method, settings)
                assert getattr(config, "members", 32) == 32  # of MACH, as it was published


def test_fan_outs_of_the_paper_s_size_are_those_of_its_table(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.setattr(Dataset, "fitted", lambda self, settings: settings)
    names = [row.name for row in fan_outs(Dataset(str(data / AMAZON), "inceptionxml"))]
    assert set(PUBLISHED["inceptionxml"]["6"][AMAZON]) == set(names)


def test_on_other_data_the_papers_rows_say_where_they_are_from(data: Path) -> None:
    rows = {"Astec": with_run({}, 1, {"P@1": 31.0, "P@5": 14.0, "seconds": 3.0})}
    page = shown("deepxml", "table 6", Dataset(str(data / OURS), "deepxml"), rows)
    assert "| Astec | ours, 1 seed | 31.00 | 14.00 |" in page
    assert f"| Astec | paper, {AMAZON} | 39.12 | 32.07 |" in page
    assert "| negatives: uniform | paper, WikiTitles-500K | 27.3 | 11.4 |" in page
    assert published("decaf", "table 5", Dataset(str(data / OURS), "decaf"))["DECAF"][0] == f"paper, {LABEL_TEXTS}"


def test_results_are_kept_as_they_come_and_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks._trainings.RESULTS", tmp_path / "earlier")
    asked: list[tuple[str, int]] = []

    def work(job: Job) -> dict[str, float]:
        asked.append((job.name, job.seed))
        if job.name == "bad":
            raise ValueError("no")
        assert job.seed == 1 or stored("x", tmp_path)["data"]["good"]["seeds"] == 1  # the first is there already
        return {"P@1": 10.0 * job.seed, "history": [job.seed]}

    jobs = [Job("some/data", name, seed, {}) for seed in (1, 2) for name in ("bad", "good")]
    side_by_side(jobs, work, "x", 1, folder=tmp_path)
    row = stored("x", tmp_path)["data"]["good"]
    assert (row["seeds"], row["history"]) == (2, [1])
    assert row["P@1"] == {"mean": 15.0, "sd": pytest.approx(np.std([10, 20], ddof=1), abs=1e-3)}
    asked.clear()
    side_by_side(jobs, work, "x", 1, folder=tmp_path)
    assert asked == [("bad", 1), ("bad", 2)]
    side_by_side([Job("some/data", "good", 2, {})], work, "x", 1, folder=tmp_path, again=True)
    assert stored("x", tmp_path)["data"]["good"]["seeds"] == 2


def test_a_row_of_which_only_means_were_kept_begins_anew() -> None:
    old = {"seeds": 3, "P@1": {"mean": 50.0, "sd": 1.0}, "history": [1, 2]}
    assert with_run(old, 1, {"P@1": 40.0}) == {
        "seeds": 1,
        "P@1": {"mean": 40.0, "sd": 0.0},
        "runs": {"1": {"P@1": 40.0}},
    }


def test_a_wrong_table_or_folder_is_refused_with_what_there_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["deepxml", "--table", "9", "--data", "debian-related"])
    assert "table 9 asked of deepxml; there are table 1" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"nowhere: not in .* nor a folder"):
        main(["deepxml", "--table", "4", "--data", "nowhere", "--device", "cpu"])


def test_estimates_are_of_trainings_that_were_measured() -> None:
    one = seconds_of(Job("debian-related", "", 1, {}, "decaf"))
    three = seconds_of(Job("debian-related", "", 1, {}, "decaf", 3))
    assert one is not None
    assert three is not None
    assert one < three < 3 * one  # they share module I
    assert seconds_of(Job(AMAZON, "", 1, {}, "decaf")) is None


def test_what_is_shared_is_a_table_of_its_own() -> None:
    assert all(source in ROWS[paper] for (paper, _), source in SHARED.items())
