"""Tutorials: notebooks whose source is Markdown, executed, and shown as pages with what their cells print and draw.

A file tutorials/NAME.md is the source; every block of Python in it is a cell. `python -m reference.notebooks` (by
`make tutorials`) executes all of them into build/tutorials/NAME.ipynb. The site shows these files, and executes a
tutorial itself where there is none, or where the tutorial or the code of laconic has changed since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES, EXECUTED = ROOT / "tutorials", ROOT / "build" / "tutorials"
SECONDS = 300  # for one cell
_CELL = re.compile(r"^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
_INSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)")  # a link into the repository
_MARKDOWN = {"cell_type": "markdown", "metadata": {}}
_CODE = {"cell_type": "code", "metadata": {}, "execution_count": None}
Notebook = dict[str, Any]


def sources() -> list[Path]:
    """Return the files of all tutorials."""
    return sorted(SOURCES.glob("*.md"))


def notebook(source: str) -> Notebook:
    """Return the notebook of a source, without output. Its links into the repository are only their words."""
    cells: list[dict[str, Any]] = []
    for code, text in _parts(source):
        one = {**_CODE, "outputs": []} if code else dict(_MARKDOWN)
        words = text if code else _INSIDE.sub(r"\1", text)
        cells.append({**one, "id": f"cell-{len(cells) + 1}", "source": words})
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    facts = {"kernelspec": python, "language_info": {"name": "python"}, "made_of": _digest(source)}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": facts, "cells": cells}


def executed(plain: Notebook) -> Notebook:
    """Execute a notebook in a folder of its own; a cell that fails, or that warns, is an error."""
    import nbformat
    from nbclient import NotebookClient

    with TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = f"{folder}/ipython"  # the settings of whoever builds the site do not count
        work = Path(folder) / "work"
        work.mkdir()
        found = nbformat.from_dict(plain)
        quiet = ["--log-level=ERROR"]  # the kernel warns that its port, of this machine alone, is not encrypted
        resources = {"metadata": {"path": work}}
        client = NotebookClient(
            found, timeout=SECONDS, kernel_name="python3", resources=resources, extra_arguments=quiet
        )
        client.execute()
    done: Notebook = json.loads(nbformat.writes(found))
    for cell in done["cells"]:
        cell["metadata"] = {}  # when it ran
        if "outputs" in cell:
            cell["outputs"] = _joined(cell["outputs"])
        said = [_text(one["text"]) for one in cell.get("outputs", []) if one.get("name") == "stderr"]
        if said:
            raise RuntimeError(f"a cell of a tutorial warns:\n{_text(cell['source'])}\n\n{''.join(said)}")
    return done


def execute(path: Path, folder: Path = EXECUTED) -> Notebook:
    """Execute the tutorial at that path and write the notebook with its output into the folder."""
    began = time.monotonic()
    done = executed(notebook(path.read_text(encoding="utf-8")))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{path.stem}.ipynb"
    target.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stderr.write(f"{target}: {time.monotonic() - began:.0f} s\n")
    return done


def made(path: Path) -> Notebook:
    """Return the executed notebook of a tutorial; execute it where there is none of this source and this code."""
    target, source = EXECUTED / f"{path.stem}.ipynb", path.read_text(encoding="utf-8")
    if target.exists():
        found: Notebook = json.loads(target.read_text(encoding="utf-8"))
        if found["metadata"].get("made_of") == _digest(source):
            return found
    return execute(path)


def page(name: str, source: str, done: Notebook) -> tuple[str, dict[str, bytes]]:
    """Return a tutorial's page with output, and its pictures by their names."""
    pictures: dict[str, bytes] = {}
    title, _, rest = source.partition("\n")
    download = f"[Download as a notebook]({name}.ipynb){{ download }}"
    lines, code_cells = [title, "", download, ""], (one for one in done["cells"] if one["cell_type"] == "code")
    for code, text in _parts(rest):
        lines += ["```python", text, "```", ""] if code else [text, ""]
        for output in next(code_cells)["outputs"] if code else ():
            lines += [_shown(output, name, pictures), ""]
    return "\n".join(lines), pictures


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs of a cell with pieces of one stream, which come as they are flushed, joined."""
    found: list[dict[str, Any]] = []
    for one in outputs:
        if found and "name" in one and found[-1].get("name") == one["name"]:
            found[-1]["text"] = _text(found[-1]["text"]) + _text(one["text"])
        else:
            found.append(one)
    return found


def _parts(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a source, and whether each is code."""
    last = 0
    for found in _CELL.finditer(source):
        yield from ((False, text) for text in (source[last : found.start()].strip(),) if text)
        yield True, found[1].rstrip()
        last = found.end()
    yield from ((False, text) for text in (source[last:].strip(),) if text)


def _shown(output: Mapping[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    if output["output_type"] == "stream":
        return _plain(output["text"])
    data, facts = output["data"], output.get("metadata", {})
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(_text(data["image/png"]))
        return f"![{facts['image/png']['alt']}]({file}){{ .output }}"
    if "text/html" in data:
        html = "\n".join(line for line in _text(data["text/html"]).splitlines() if line.strip())
        return f'<div class="output">\n{html}\n</div>'
    return _plain(data["text/plain"])


def _plain(text: str | list[str]) -> str:
    return f"``` {{ .text .output }}\n{_text(text).rstrip()}\n```"


def _text(value: str | list[str]) -> str:
    """Return text that notebooks may keep as a list of lines."""
    return value if isinstance(value, str) else "".join(value)


def _digest(source: str) -> str:
    """Return a hash of a tutorial's source and of all code that it may run."""
    return hashlib.sha256(source.encode() + _code()).hexdigest()


@cache
def _code() -> bytes:
    files = sorted((ROOT / "src" / "laconic").rglob("*.py"))
    return b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)


if __name__ == "__main__":
    for one in [Path(name) for name in sys.argv[1:]] or sources():
        execute(one)
