"""Imports point downward, or sideways without a circle (docs/architecture.md draws the floors)."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "laconic"
FLOORS = [
    {"", "errors", "types", "plurals", "compiled", "files", "machine", "manifest", "config", "costs", "data"},
    {
        "encoders",
        "classifiers",
        "shortlisters",
        "clustering",
        "combining",
        "linear",
        "kernels",
        "layers",
        "metrics",
        "plots",
        "calibration",
        "engine",
    },
    {"rankers", "tasks", "losses", "fusing"},
    {
        "run",
        "train",
        "step",
        "optim",
        "checkpoint",
        "tensor_files",
        "card",
        "evaluate",
        "sweeping",
        "predictions",
        "changing",
    },
    {"methods"},
    {"predict", "maintaining", "choosing", "distilling"},
    {
        "cli",
        "cli_bench",
        "cli_changes",
        "cli_pack",
        "cli_predict",
        "cli_serve",
        "cli_shared",
        "cli_train",
        "comparing",
        "inspecting",
        "display",
        "bars",
        "benching",
        "demo",
        "estimator",
        "peers",
        "serve",
        "__main__",
    },
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = {
    ".".join(("laconic", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported_by(path: Path) -> set[str]:
    """Our own modules that a file imports, wherever in the file it does so."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
    return names & MODULES.keys()


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def test_every_room_has_its_floor():
    assert {room_of(module) for module in MODULES} == set(FLOOR_OF)


# The package itself only names the estimator, for those who import it from there.
@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"laconic"}))
def test_imports_do_not_point_upward(module):
    floor = FLOOR_OF[room_of(module)]
    upward = {name for name in imported_by(MODULES[module]) if FLOOR_OF[room_of(name)] > floor}
    assert not upward, f"{module} is on floor {floor} and imports {upward}"


def test_no_circle_of_imports():
    graph = {module: imported_by(path) - {module, "laconic"} for module, path in MODULES.items()}
    # A package is the rooms behind its door: its modules may not import it back.
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {error.args[1]}")


def test_only_the_command_line_prints():
    printing = [
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert set(printing) <= {"laconic.cli.main"}
