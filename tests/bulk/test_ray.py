"""A cluster of Ray with two cores on this machine: `make test-ray`. Killed processes lose and double nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laconic import bulk
from laconic.bulk.model_copy import ModelCopy
from laconic.bulk.ray_cluster import needs_of, workers_of
from laconic.bulk.ray_engine import answer_job
from laconic.bulk.ray_pool import results, start_actors
from laconic.errors import install_hint
from tests.bulk.jobs import answer_here, expected_rows, job_of, many_texts, parts_of, rows_of, write_titles
from tests.serve.small import TEXTS, write
from tests.test_cli import laconic, shown_and_told

COUNT = 40 * 1024


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def titles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_titles(tmp_path_factory.mktemp("titles") / "titles.parquet", COUNT)


@pytest.fixture(scope="module")
def whole(model: Path, titles: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the parts that one process writes."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    answer_here(job_of(model, [titles], folder, k=3))
    return parts_of(folder)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Return Ray with a cluster of two cores, which several tests share; it believes in a GPU that is not there."""
    found = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    found.init("local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield found
    found.shutdown()


def test_without_ray_the_option_says_what_to_install(
    model: Path, titles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laconic.cli.bulk.find_spec", lambda name: None)
    message = laconic("predict", model, titles, "--engine", "ray", "--out", tmp_path / "out", code=2)
    assert message == f"error: --engine ray needs ray, which is not installed; {install_hint('ray')}\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--engine spark --out {0}/out", "--engine must be ray, but is 'spark'"),
        ("--engine ray", "--engine needs files or folders of texts, and --out FOLDER to write to"),
        ("--engine ray --out {0}/out --threads 2", "--threads does not go with --engine; leave one of them out"),
        ("--workers 2", "--workers needs --engine; add --engine ray"),
        ("--engine ray --out {0}/out --column gone", "no column 'gone'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    model: Path, titles: Path, tmp_path: Path, more: str, message: str
) -> None:
    pytest.importorskip("ray")
    assert message in laconic("predict", model, titles, *more.format(tmp_path).split(), code=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_the_command_line_answers_as_without_an_engine(model: Path, ray: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    texts = many_texts(3000)
    write_titles(tmp_path / "in" / "b.parquet", 3000)
    (tmp_path / "in" / "a.csv").write_text("key,title\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    asked = ["predict", model, tmp_path / "in", "-k", 3, "--engine", "ray", "--out", tmp_path / "out"]
    assert laconic(*asked) == f"{tmp_path / 'out'}: 6,000 texts in 2 parts\n"
    assert [row["title"] for row in rows_of(tmp_path / "out")] == texts * 2
    found = [(row["labels"], row["scores"], row["known_words"]) for row in rows_of(tmp_path / "out")]
    assert found == expected_rows(model, texts, 3) * 2
    assert laconic(*asked) == f"{tmp_path / 'out'}: 6,000 texts in 2 parts\n"  # which were there
    assert "other options" in laconic(*asked, "--min-score", 0.5, code=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_bad_row_stops_the_command_or_is_skipped(model: Path, ray: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": 5}\n{"text": "b"}\n')
    asked = ["predict", model, tmp_path / "a.jsonl", "--engine", "ray", "--out", tmp_path / "out"]
    assert "a.jsonl:2: " in laconic(*asked, code=2)
    shown, told = shown_and_told(*asked, "--skip-bad")
    assert shown == f"{tmp_path / 'out'}: 2 texts in 1 part\n"
    note = f"note: 1 text was skipped because of errors, which are listed in {tmp_path / 'out' / '_bad'}"
    assert told.splitlines()[-1] == note  # a stage that takes three seconds has a line before it


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dataset_of_ray_gets_answers(model: Path, ray: Any) -> None:
    import ray.data

    texts = many_texts(3000)
    dataset = ray.data.from_arrow(pa.table({"title": texts, "key": list(range(3000))}))
    rows = sorted(bulk.predict(dataset, model, workers=1, k=3).take_all(), key=lambda row: row["key"])
    assert [row["title"] for row in rows] == texts
    expected = expected_rows(model, texts, 3)
    assert [([*row["labels"]], [*row["scores"]], row["known_words"]) for row in rows] == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_travels_to_a_machine_that_does_not_see_it(
    model: Path, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = ModelCopy.of(model / "packed", travels=True)
    assert copy.here() == model / "packed"
    elsewhere = ModelCopy(folder=tmp_path / "nowhere", version=copy.version, files=copy.files)
    here = elsewhere.here()
    assert here == elsewhere.here() == tmp_path / "laconic" / "models" / copy.version
    table = pa.table({"text": TEXTS})
    assert bulk.BatchPredictor(here)(table).equals(bulk.BatchPredictor(model)(table))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_evaluation_on_ray_is_that_of_one_process(model: Path, ray: Any, tmp_path: Path) -> None:
    labels = ["|".join(f"L{label}" for label in {number % 12, number % 5}) for number in range(9000)]
    lines = (f"{text},{label}\n" for text, label in zip(many_texts(9000), labels, strict=True))
    (tmp_path / "test.csv").write_text("text,labels\n" + "".join(lines))
    asked = ["evaluate", model / "packed", tmp_path / "test.csv", "--json"]
    alone = json.loads(laconic(*asked, "--per-label", tmp_path / "alone.csv"))
    assert alone["texts"] == 9000
    assert json.loads(laconic(*asked, "--engine", "ray", "--per-label", tmp_path / "ray.csv")) == alone
    assert (tmp_path / "ray.csv").read_text() == (tmp_path / "alone.csv").read_text()


class GpuProbe:
    """An actor that reports which GPUs Ray gives it."""

    def open(self) -> None:
        return None

    def work(self, number: int) -> tuple[int, str | None]:
        time.sleep(0.5)
        return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_actors_share_a_gpu(ray: Any) -> None:
    assert workers_of("cuda", None) == 1
    assert needs_of("cuda", 1) == {"num_cpus": 1, "num_gpus": 1}
    assert needs_of("cuda", 3) == {"num_cpus": 1, "num_gpus": 0.3333}
    assert needs_of("cpu", 3) == {"num_cpus": 1, "num_gpus": 0}
    found = dict(results(start_actors(GpuProbe, (), 2, "cuda"), range(8)))
    assert len({pid for pid, _ in found.values()}) == 2
    assert {gpu for _, gpu in found.values()} == {"0"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_actors_answer_with_a_model_that_is_not_packed(model: Path, ray: Any, tmp_path: Path) -> None:
    """What actors with a GPU do, on a CPU."""
    shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns("packed"))
    titles = write_titles(tmp_path / "titles.parquet", 2048)
    for to, answer in (("here", answer_here), ("ray", partial(answer_job, workers=1))):
        answer(job_of(tmp_path / "model", [titles], tmp_path / to, k=3, device="cpu"))
    assert parts_of(tmp_path / "ray") == parts_of(tmp_path / "here")


def _driver(model: Path, titles: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.bulk.jobs", *map(str, (model, titles, folder, 2))]
    return subprocess.Popen(command)


def _parts_reach(folder: Path, number: int, driver: subprocess.Popen[bytes]) -> None:
    _wait_for(lambda: len(parts_of(folder)) >= number or driver.poll() is not None)


def _wait_for(condition: Callable[[], bool], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def _actors_below(pid: int) -> list[int]:
    """Return the processes of actors that a driver has started, itself or by Ray."""
    parents, titles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            titles[int(path.name)] = (path / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue

    def is_below(one: int) -> bool:
        return one == pid or (one in parents and is_below(parents[one]))

    return [one for one, title in titles.items() if title.startswith(b"ray::UnitActor") and is_below(one)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_actors_that_are_killed_lose_and_double_nothing(
    model: Path, titles: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    killed = 0
    with _driver(model, titles, tmp_path / "out") as driver:
        while driver.poll() is None:
            _parts_reach(tmp_path / "out", 5 * (killed + 1), driver)
            for actor in _actors_below(driver.pid)[:1] if killed < 5 else []:
                os.kill(actor, signal.SIGKILL)
                killed += 1
            time.sleep(0.05)
    assert driver.returncode == 0
    assert killed >= 3
    assert parts_of(tmp_path / "out") == whole
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_where_it_was(
    model: Path, titles: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    with _driver(model, titles, tmp_path / "out") as driver:
        _parts_reach(tmp_path / "out", 10, driver)
        driver.kill()
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "_receipts").iterdir()}
    with _driver(model, titles, tmp_path / "out") as driver:
        assert driver.wait() == 0
    assert 10 - 2 <= len(written) < len(whole), "a receipt is written after its part: those of both actors may lack"
    assert parts_of(tmp_path / "out") == whole
