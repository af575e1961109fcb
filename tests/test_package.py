"""The wheel is whole: it carries its data, it runs where the source is not, and it names all that it imports."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

import laconic
from laconic.errors import install_hint

ROOT = Path(__file__).parents[1]
TEXTS = {".py", ".md", ".toml", ".txt", ".js", ".html", ".yml"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULE_NAMES = {
    "scikit-learn": "sklearn",
    "prometheus-client": "prometheus_client",
    "fasttext-wheel": "fasttext",
    "mlflow-skinny": "mlflow",
}


@pytest.fixture(scope="module")
def python_with_wheel(tmp_path_factory):
    """A new environment that has the wheel, sees the installed dependencies, and does not see the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*map(str, build), "--quiet", "--disable-pip-version-check"], check=True)
    venv.create(folder / "env", with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "env")}))
    # A path in a .pth file is searched, but .pth files behind it are not obeyed: our editable install stays unseen.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", site]
    wheel = next(folder.glob("laconic_xmc-*.whl"))
    subprocess.run([*map(str, install), str(wheel), "--quiet", "--disable-pip-version-check"], check=True)
    return folder / "env" / "bin" / "python"


def run(python, *arguments, cwd):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_not_the_source_tree(python_with_wheel, tmp_path):
    place = run(python_with_wheel, "-c", "import laconic; print(laconic.__file__)", cwd=tmp_path)
    assert str(ROOT / "src") not in place
    assert "site-packages" in place


def test_the_wheel_says_its_version(python_with_wheel, tmp_path):
    assert run(python_with_wheel, "-m", "laconic", "--version", cwd=tmp_path).strip() == laconic.__version__


def test_the_distribution_is_found_by_its_name(python_with_wheel, tmp_path):
    asked = "from importlib.metadata import distribution; d = distribution('laconic-xmc'); "
    asked += "print(d.version, d.name, [p.value for p in d.entry_points if p.group == 'console_scripts'])"
    wanted = f"{laconic.__version__} laconic-xmc ['laconic.cli.main:main']"
    assert run(python_with_wheel, "-c", asked, cwd=tmp_path).strip() == wanted


def test_nothing_tells_to_install_another_project():
    """The name laconic is taken on PyPI: whoever installs that gets another project."""
    wrong = re.compile(r"pip install (?:-\S+ )*['\"]?laconic(?![-_]xmc)|\blaconic\[[a-z]")
    folders = ("src", "tests", "docs", "examples", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "Dockerfile", "pyproject.toml")]
    assert [str(path) for path in files if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("extra", ["train", "all", "serve", "track"])
def test_a_remedy_names_an_extra_that_there_is(extra):
    assert extra in PROJECT["optional-dependencies"]
    wheel = f"{PROJECT['name'].replace('-', '_')}-VERSION-py3-none-any.whl"
    wanted = f"pip install '.[{extra}]' in a checkout, or pip install '{wheel}[{extra}]' of a wheel"
    assert install_hint(extra) == wanted


@pytest.mark.slow
def test_the_wheel_carries_the_bundled_data(python_with_wheel, tmp_path):
    facts = json.loads(run(python_with_wheel, "-m", "laconic", "inspect", "debian-related", "--json", cwd=tmp_path))
    assert (facts["splits"]["train"]["texts"], facts["splits"]["test"]["texts"]) == (45_124, 11_047)
    assert facts["labels"]["labels"] == facts["labels"]["with_text"] == 36_306


def test_the_wheel_carries_the_presets(python_with_wheel, tmp_path):
    found = "from laconic.config import preset_path; print(preset_path('inceptionxml', 'laptop'))"
    assert "site-packages" in run(python_with_wheel, "-c", found, cwd=tmp_path)


def test_the_wheel_is_typed(python_with_wheel, tmp_path):
    found = "from importlib.resources import files; print(files('laconic').joinpath('py.typed').is_file())"
    assert run(python_with_wheel, "-c", found, cwd=tmp_path).strip() == "True"


def test_every_import_is_a_declared_dependency():
    extras = [name for group in PROJECT["optional-dependencies"].values() for name in group]
    declared = {_module(requirement) for requirement in [*PROJECT["dependencies"], *extras]}
    imported = {name for path in (ROOT / "src").rglob("*.py") for name in _imports(path)}
    without_extra = {"pecos"}  # libpecos asks for a scipy below ours, so no resolver would install both
    assert imported - sys.stdlib_module_names - {"laconic"} - without_extra <= declared


def test_help_does_not_import_what_is_slow():
    """The half second of `laconic --help` is measured in benchmarks; this is why it holds."""
    code = (
        "import sys, laconic.cli.main; print([m for m in ('torch', 'sklearn', 'numba', 'scipy') if m in sys.modules])"
    )
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "[]"


def _module(requirement: str) -> str:
    name = requirement.split(";")[0].strip()
    for sign in "[<>=!~ ":
        name = name.split(sign)[0]
    return MODULE_NAMES.get(name, name)


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names
