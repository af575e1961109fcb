"""The code on the pages for readers runs, and prints what the pages show.

python -m tests.test_guides [PAGE ...]      writes into the pages what their code prints today
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.pages import ROOT, Block, ForkServer, agree, blocks_of, commands_of, regenerated, run_page, session

FOLDERS = ("docs/start", "docs/guides")
OTHERS = ("README.md", "docs/index.md", "docs/command-line.md", "docs/python.md")
CODE = ("console", "python", "bash", "sh", "shell", "pycon")


def pages() -> list[str]:
    guides = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]
    return [*OTHERS, *(str(path.relative_to(ROOT)) for path in guides)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    started = ForkServer(tmp_path_factory.mktemp("bin"))
    yield started
    started.close()


def code_of(name: str) -> list[Block]:
    return [one for one in blocks_of((ROOT / name).read_text(encoding="utf-8")) if one.language in CODE]


def has_code(name: str) -> bool:
    return any(not one.reason for one in code_of(name))


@pytest.mark.parametrize("name", [name for name in pages() if has_code(name)])
def test_a_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path, server: ForkServer) -> None:
    with session(tmp_path, server) as opened:
        for shown, output in run_page((ROOT / name).read_text(encoding="utf-8"), opened):
            assert agree(shown.output, output), "\n".join([f"{name}:{shown.line}: {shown.code}", *output])


@pytest.mark.parametrize("name", pages())
def test_code_is_in_a_form_that_is_run_or_says_why_it_is_not(name: str) -> None:
    for block in code_of(name):
        assert block.language in ("console", "python"), f"{name}:{block.line}: use console or python"
        if block.language == "console":
            assert commands_of(block)
        assert len(block.reason.split()) != 1, f"{name}:{block.line}: say why in words"


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def main(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        server = ForkServer(Path(folder))
        try:
            for name in names or [name for name in pages() if has_code(name)]:
                with TemporaryDirectory() as inside, session(Path(inside), server) as opened:
                    page = (ROOT / name).read_text(encoding="utf-8")
                    (ROOT / name).write_text(regenerated(page, list(run_page(page, opened))), encoding="utf-8")
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
