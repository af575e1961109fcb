"""What an installation without extras can do, with the packages that extras bring made impossible to import."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest

from laconic.errors import EXTRAS, install_hint
from tests.serve.small import TEXTS, write
from tests.variants import some_slow

ROOT = Path(__file__).parents[1]
BLOCKED = sorted(name for name, extra in EXTRAS.items() if extra)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model") / "packed"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of processes, also of those that they start, in which these packages are missing."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({BLOCKED!r}))\n")
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}


def laconic(environment: dict[str, str], *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laconic", *map(str, arguments)]
    return subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, check=False)


def test_help_is_shown(environment: dict[str, str]) -> None:
    done = laconic(environment, "--help")
    assert done.returncode == 0
    assert "serve" in done.stdout


def test_a_packed_model_answers_and_explains(environment: dict[str, str], packed: Path, tmp_path: Path) -> None:
    done = laconic(environment, "predict", packed, "-", "--json", "--explain", stdin=TEXTS[0])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"]
    done = laconic(environment, "predict", packed, "-", "--out", tmp_path / "answers.csv", stdin=TEXTS[0])
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_packed_model_is_served(environment: dict[str, str], packed: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "laconic", "serve", str(packed), "--port", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as service:
        try:
            answer = _asked(service, f"http://127.0.0.1:{port}/v1/predict")
        finally:
            service.terminate()
        assert service.wait(30) == 0
    assert answer["answers"][0]["predictions"]


def _asked(service: subprocess.Popen[bytes], url: str) -> dict[str, list[dict[str, object]]]:
    request = urllib.request.Request(url, json.dumps({"text": TEXTS[0]}).encode(), {"content-type": "application/json"})
    for _ in range(600):
        assert service.poll() is None
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return dict(json.load(answer))
        except OSError:  # it does not listen yet
            time.sleep(0.1)
    raise AssertionError("the service did not answer within a minute")


@pytest.mark.parametrize(
    ("arguments", "package"),
    some_slow(
        [
            ("train debian-related --out {0}/model", "torch"),
            ("inspect debian-related", "scipy"),
            ("evaluate {1} debian-related", "scipy"),
            ("predict {1} {0}/a.parquet", "pyarrow"),
            ("demo", "torch"),
        ],
        unpack=True,
    ),
)
def test_a_verb_that_needs_more_names_the_command(
    environment: dict[str, str], packed: Path, tmp_path: Path, arguments: str, package: str
) -> None:
    (tmp_path / "a.parquet").touch()
    done = laconic(environment, *arguments.format(tmp_path, packed).split())
    verb = arguments.split()[0]
    assert done.returncode == 2
    assert done.stderr == f"error: laconic {verb} needs {package}, which is not installed; {install_hint('train')}\n"


def test_the_estimator_names_the_command(environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", "from laconic import Laconic"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"which is not installed; {install_hint('train')}" in done.stderr


def test_every_package_that_may_be_missing_is_of_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {"": project["dependencies"], **project["optional-dependencies"]}
    distributions = {"sklearn": "scikit-learn", "faiss": "faiss-cpu"}
    for package, extra in EXTRAS.items():
        assert any(one.startswith(distributions.get(package, package)) for one in declared[extra]), package
