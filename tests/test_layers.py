"""Imports between packages point down one list, and the map in docs/architecture.md shows that list.

python -m tests.test_layers      writes the map anew, from the packages' own docstrings
"""

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "laconic"
# A package may import what stands below it.
LAYERS = [
    "__main__",
    "integrations",
    "mlflow",
    "estimator",
    "cli",
    "serve",
    "analysis",
    "bulk",
    "predict",
    "export",
    "packed",
    "update",
    "methods",
    "training",
    "trackers",
    "evaluation",
    "models",
    "storage",
    "data",
    "kernels",
    "config",
    "types",
    "system",
    "units",
    "errors",
]
MODULES = {
    ".".join(("laconic", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
MAPS = {"docs/architecture.md": 2}  # pages, and how deep their map goes
MAP = re.compile(r"(<!-- map of packages -->\n)(.*?)(<!-- end of map of packages -->)", re.DOTALL)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imported_by(path: Path) -> set[str]:
    """Return our own modules that a file imports, wherever in the file it does so."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
    return names & MODULES.keys()


def package_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def test_every_package_has_its_layer():
    assert {package_of(module) for module in MODULES} - {""} == set(LAYERS)


def test_the_root_has_eight_modules_at_most():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_no_module_is_named_by_a_participle():
    nouns = {"training"}  # a noun of this field
    assert not [m for m in MODULES if m.endswith("ing") and m.rpartition(".")[2] not in nouns | {"clustering"}]


# The package itself only names the estimator, for those who import it from there.
def test_imports_between_packages_point_down():
    for module in sorted(MODULES.keys() - {"laconic"}):
        layer = LAYERS.index(package_of(module))
        names = imported_by(MODULES[module]) - {"laconic"}
        upward = {name for name in names if LAYERS.index(package_of(name)) < layer}
        assert not upward, f"{module} is of {package_of(module)} and imports {upward}"


def test_no_circle_of_imports():
    graph = {module: imported_by(path) - {module, "laconic"} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {error.args[1]}")


def test_only_the_command_line_prints():
    printing = [
        module
        for module, path in MODULES.items()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert set(printing) <= {"laconic.cli.options"}


def test_every_module_says_what_it_is_for():
    assert [module for module in sorted(MODULES) if not summary(module)] in ([], ["laconic.__main__"])


@pytest.mark.parametrize("page", MAPS)
def test_the_map_of_a_page_is_that_of_the_packages(page):
    found = MAP.search((ROOT / page).read_text())
    assert found, f"{page} has no map of packages"
    assert found[2] == drawn(MAPS[page]), "it is stale: python -m tests.test_layers writes it anew"


def summary(module: str) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(parsed(MODULES[module])) or "").partition("\n\n")[0].replace("\n", " ")


def drawn(depth: int) -> str:
    """Draw packages, and with a depth of 2 their modules, from the top layer down."""
    lines = ["```", "src/laconic/"]
    for layer in LAYERS:
        if layer == "__main__":
            continue
        lines += _lines(f"laconic.{layer}", 1, depth)
    return "\n".join([*lines, "```", ""])


def _lines(module: str, level: int, depth: int) -> list[str]:
    inside = sorted(name for name in MODULES if name.rpartition(".")[0] == module)
    name = module.rpartition(".")[2] + ("/" if MODULES[module].name == "__init__.py" else ".py")
    lines = [f"{'  ' * level}{name:<{28 - 2 * level}}{summary(module)}"]
    return lines + [line for one in inside if level < depth for line in _lines(one, level + 1, depth)]


if __name__ == "__main__":
    for page, deep in MAPS.items():
        text = (ROOT / page).read_text()
        (ROOT / page).write_text(MAP.sub(lambda found, deep=deep: found[1] + drawn(deep) + found[3], text))
