"""Every figure on README and docs is that of a file of results, a paper's, or a setting; and it says which."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import pages
from benchmarks.figures import agrees, complaints
from benchmarks.pages import ROOT, filled, problems
from benchmarks.tables import every_result

RESULTS: dict[str, Any] = {
    "speed": {"packed": {"found": 99.952, "a > b": {"mean": 3.5, "sd": 0.1}}, "runs": [1.5, "60.19 ± 0.39"]}
}


def wrong(page: str) -> list[str]:
    return list(complaints(page, RESULTS))


def test_pages_say_what_the_results_say() -> None:
    assert list(problems(every_result())) == []


def test_a_wrong_figure_on_a_page_is_found() -> None:
    page = (ROOT / "docs" / "guides" / "many-texts.md").read_text(encoding="utf-8")
    assert page.count("99.95 %<!-- = ") == 1
    (found,) = complaints(page.replace("99.95 %", "99.99 %"), every_result())
    assert "99.99 is 99.9520 in prediction_speed" in found


def test_a_figure_is_its_value_rounded_to_the_digits_that_it_has() -> None:
    assert (
        wrong("It finds 99.95<!-- = speed > packed > found --> of them, or 100 %<!-- = speed > packed > found -->.")
        == []
    )
    (found,) = wrong("It finds\n99.96 %<!-- = speed > packed > found -->.")
    assert found == "2: 99.96 is 99.9520 in speed > packed > found"


@pytest.mark.parametrize(
    "line",
    [
        "P@1 is 60.19<!-- = speed > runs > 1 -->.",
        "It took 1.5 s<!-- = speed > runs > 0 -->, 1,500 ms<!-- = speed > runs > 0 times 1000 -->.",
        "It lost −98.45<!-- = speed > runs > 0 minus speed > packed > found -->.",
        "One is below the other<!-- holds: speed > runs > 0 below speed > packed > found -->.",
        "The paper has 37.41<!-- paper -->, and a rate of .005<!-- setting -->.",
        "<!-- settings: ours -->\n| rate | 0.5 |\n|---|---|\n| share | 10 % |",
        "`tail=0.2`, Theorem 3.1, 127.0.0.1, HTTP/1.1, Apache-2.0, LF-AmazonTitles-1.3M, 36,306 labels",
        "```\n1.5\n```\n<!-- a block -->\n\n| 1.5 |\n\n<!-- end of a block -->",
        "[a picture](docs/speed-0.5.png)",
    ],
)
def test_a_figure_with_a_source_may_stand(line: str) -> None:
    assert wrong(line) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("P@1 is 60.2.", "60.2 names no source"),
        ("a rate of .005 was best", ".005 names no source"),
        ("| `astec` | 60.5 |", "60.5 names no source"),
        ("in 10 minutes", "10 minutes names no source"),
        ("98 % and 27 MB<!-- setting -->", "98 % names no source"),
        ("One is above the other<!-- holds: speed > runs > 0 above speed > packed > found -->.", "does not hold"),
        ("1.5<!-- = speed > walks > 0 -->", "the results have no walks"),
        ("1.5<!-- = speeds > runs > 0 -->", "the results have no speeds"),
        ("fast<!-- = speed > runs > 0 -->", "follows no figure"),
        ("<!-- settings: ours -->\n| 0.5 |\n\nP@1 is 60.2.", "4: 60.2 names no source"),
    ],
)
def test_a_figure_without_its_source_is_named(line: str, told: str) -> None:
    (found,) = wrong(line)
    assert told in found


def test_rounding_is_to_the_nearest() -> None:
    assert agrees("0.3", 0.34)
    assert agrees("−0.3", -0.26)
    assert not agrees("0.3", 0.36)
    assert not agrees("0.30", 0.31)


def test_a_stale_block_and_a_missing_picture_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("<!-- a -->\nold\n<!-- end of a -->\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PICTURES", tmp_path)
    monkeypatch.setattr(pages, "BLOCKS", {"README.md": {"a": lambda results: "new"}})
    monkeypatch.setattr(pages, "DRAWINGS", (lambda results: {"a.png": lambda path: path.write_bytes(b"")},))
    with pytest.raises(SystemExit, match=r"README.md: stale.*\n.*a.png: missing"):
        pages.main(["--check"])
    assert "old" in (tmp_path / "README.md").read_text()
    pages.main([])
    assert (tmp_path / "README.md").read_text() == "<!-- a -->\n\nnew\n\n<!-- end of a -->\n"
    pages.main(["--check"])


def test_commands_on_the_pages_exist() -> None:
    named = {name for path in pages.pages() for name in re.findall(r"python -m\s+benchmarks\.(\w+)", path.read_text())}
    assert {"pages", "papers"} <= named
    assert [name for name in sorted(named) if importlib.util.find_spec(f"benchmarks.{name}") is None] == []


def test_only_what_stands_between_markers_is_replaced() -> None:
    page = "before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n"
    assert filled(page, {"a": "new"}) == "before\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nafter\n"
    with pytest.raises(ValueError, match="the page must have two lines, <!-- b --> and then <!-- end of b -->"):
        filled(page, {"b": "new"})
