"""Tutorials: sources become notebooks, notebooks are executed, and pages show what cells print and draw."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("nbclient")

from reference import notebooks
from reference.hook import with_links_mended
from reference.notebooks import notebook, page, sources

ROOT = Path(__file__).parents[1]
SOURCE = "# Title\n\nWords with [a link](../docs/methods.md).\n\n```python\nprint(6 * 7)\n```\n\nLast words.\n"
PIXEL = "iVBORw0KGgo="


def with_outputs(*outputs: dict[str, Any]) -> dict[str, Any]:
    done = notebook(SOURCE)
    done["cells"][1]["outputs"] = list(outputs)
    return done


def test_blocks_of_python_are_cells_and_links_into_the_repository_are_words() -> None:
    cells = notebook(SOURCE)["cells"]
    assert [one["cell_type"] for one in cells] == ["markdown", "code", "markdown"]
    assert [one["source"] for one in cells] == ["# Title\n\nWords with a link.", "print(6 * 7)", "Last words."]


def test_a_page_shows_output_of_every_kind_below_its_cell() -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": ["42\n"]}
    table = {"output_type": "execute_result", "data": {"text/html": "<table>\n\n</table>", "text/plain": "x"}}
    drawn = {"output_type": "display_data", "data": {"image/png": PIXEL}, "metadata": {"image/png": {"alt": "A dot"}}}
    text, pictures = page("name", SOURCE, with_outputs(stream, table, drawn))
    assert text.index("print(6 * 7)") < text.index("{ .text .output }\n42\n") < text.index("Last words.")
    assert '<div class="output">\n<table>\n</table>\n</div>' in text
    assert "![A dot](name-1.png)" in text
    assert list(pictures) == ["name-1.png"]
    assert "[Download as a notebook](name.ipynb)" in text


def test_links_of_tutorials_lead_to_pages_of_the_site() -> None:
    text = "[a](../docs/methods.md) [b](serving.md) [c](first-model.ipynb)"
    assert with_links_mended(text, "tutorials/first-model.md") == (
        "[a](../methods.md) [b](serving.md) [c](first-model.ipynb)"
    )
    assert with_links_mended("[a](../../tutorials/serving.md)", "docs/tutorials/index.md") == "[a](serving.md)"


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Execute a tutorial in a process of its own: threads of a notebook's client would stay in this one."""
    (folder / "name.md").write_text(source)
    code = "import sys; from pathlib import Path; from reference.notebooks import execute; "
    code += "execute(Path(sys.argv[1]) / 'name.md', Path(sys.argv[1]) / 'executed')"
    return subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True)


def test_a_notebook_is_executed_with_the_lines_of_one_stream_together(tmp_path: Path) -> None:
    source = SOURCE.replace("print(6 * 7)", "print(6 * 7, flush=True)\nprint(43)")
    assert run(source, tmp_path).returncode == 0
    (output,) = json.loads((tmp_path / "executed" / "name.ipynb").read_text())["cells"][1]["outputs"]
    assert "".join(output["text"]) == "42\n43\n"


@pytest.mark.parametrize(
    ("broken", "told"), [("1 / 0", "ZeroDivisionError"), ("import warnings; warnings.warn('x')", "warns")]
)
def test_a_cell_that_fails_or_warns_is_an_error(broken: str, told: str, tmp_path: Path) -> None:
    done = run(SOURCE.replace("print(6 * 7)", broken), tmp_path)
    assert done.returncode != 0
    assert told in done.stderr
    assert not (tmp_path / "executed").exists()


def test_a_notebook_of_another_source_or_code_is_executed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "name.md", []
    path.write_text(SOURCE)
    monkeypatch.setattr(notebooks, "EXECUTED", tmp_path)
    monkeypatch.setattr(notebooks, "execute", lambda path: calls.append(path) or notebook(path.read_text()))
    (tmp_path / "name.ipynb").write_text(json.dumps(notebook(SOURCE)))
    notebooks.made(path)
    assert not calls
    path.write_text(SOURCE + "More.\n")
    notebooks.made(path)
    assert len(calls) == 1
    path.write_text(SOURCE)
    monkeypatch.setattr(notebooks, "_code", lambda: b"other")
    notebooks.made(path)
    assert len(calls) == 2


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_a_tutorial_has_a_title_is_in_the_navigation_and_has_its_pictures_described(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith("# ")
    assert f"tutorials/{path.name}\n" in (ROOT / "mkdocs.yml").read_text()
    assert f"tutorials/{path.name})" in (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert re.findall(r"\bImage\([^)]*\)", source)
    assert all(" alt=" in one for one in re.findall(r"\bImage\([^)]*\)", source))
    assert all(compile(one["source"], path.name, "exec") for one in notebook(source)["cells"] if "outputs" in one)
