"""A release has one number and one date, and nothing tells to fetch it from where it is not."""

import re
from pathlib import Path

import laconic

ROOT = Path(__file__).parents[1]


def test_changelog_and_citation_have_the_version_and_one_date():
    number, date = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).groups()
    citation = (ROOT / "CITATION.cff").read_text()
    assert number == laconic.__version__
    assert f"\nversion: {number}\n" in citation
    assert f"\ndate-released: {date}\n" in citation


def test_the_number_is_written_in_one_place_of_the_code():
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "pyproject.toml"]
    assert [path.name for path in files if f'"{laconic.__version__}"' in path.read_text()] == ["__init__.py"]


def test_no_page_installs_from_a_package_index_that_does_not_have_it():
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "tutorials").glob("*.md"),
    ]
    assert [path.name for path in pages if re.search(r"pip install ['\"]?laconic-xmc", path.read_text())] == []
