"""Tutorials: sources become notebooks, notebooks are executed, and pages show what cells print and draw."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from reference.hook import with_links_mended
from reference.notebooks import executed, notebook, page, sources

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


def test_a_notebook_is_executed_and_a_warning_is_an_error() -> None:
    assert executed(notebook(SOURCE))["cells"][1]["outputs"][0]["text"] == ["42\n"]
    with pytest.raises(RuntimeError, match="a cell of a tutorial warns"):
        executed(notebook("# T\n\n```python\nimport warnings\n\nwarnings.warn('old')\n```\n"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_a_tutorial_has_a_title_is_in_the_navigation_and_has_its_pictures_described(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith("# ")
    assert f"tutorials/{path.name}\n" in (ROOT / "mkdocs.yml").read_text()
    assert f"tutorials/{path.name})" in (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert re.findall(r"\bImage\([^)]*\)", source)
    assert all(" alt=" in one for one in re.findall(r"\bImage\([^)]*\)", source))
    assert all(compile(one["source"], path.name, "exec") for one in notebook(source)["cells"] if "outputs" in one)
