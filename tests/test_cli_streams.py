"""Standard streams that are closed, full or read in part, and texts that a terminal would obey."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from laconic import Laconic
from laconic.cli.escape import SafeConsole, escaped
from laconic.cli.main import _of_every_verb

HOSTILE = "red\x1b]0;owned\x07 \x9b31m rose\u202e"
SHOWN = r"red\x1b]0;owned\x07 \x9b31m rose\u202e"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    Laconic("nearest").fit([HOSTILE, "blue sea"], [[HOSTILE], ["water"]]).save(place / "model")
    (place / "many.txt").write_text(f"{HOSTILE}\n" * 3000)
    return place


def shell(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    filled = command.replace("laconic", f"{sys.executable} -m laconic")
    script = ["bash", "-c", f"set -o pipefail; {filled}"]
    return subprocess.run(script, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("laconic predict model many.txt | head -1", 0, ""),
        ("laconic predict model many.txt >&-", 0, ""),
        ("laconic predict model --text rose <&- >&- 2>&-", 0, ""),
        pytest.param(
            "laconic predict model many.txt > /dev/full",
            2,
            "error: the output cannot be written: No space left on device\n",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full"),
        ),
        pytest.param(
            "laconic predict model many.txt --out /proc/x/a.csv",
            2,
            "error: /proc/x/a.csv: cannot be written (No such file or directory); nothing was changed there\n",
            marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc"),
        ),
        ("laconic predict model many.txt --max-line 1 > /dev/null", 0, ""),
    ],
)
def test_a_stream_that_is_gone_gives_no_traceback(command: str, code: int, message: str, place: Path) -> None:
    done = shell(command, place)
    assert (done.returncode, done.stderr) == (code, message)


def test_control_characters_are_shown_as_escapes(place: Path) -> None:
    done = shell("laconic predict model many.txt | head -2", place)
    assert [line.removeprefix("  1.600  ") for line in done.stdout.splitlines()] == [SHOWN, SHOWN]
    done = shell(f"laconic predict '{HOSTILE}' --text a", place)
    assert r"red\x1b]0;owned" in done.stderr
    assert "\x1b" not in done.stderr


def test_what_a_table_holds_is_escaped_and_its_styles_stay() -> None:
    console = SafeConsole(force_terminal=True, width=80, color_system="standard")
    table = Table("label")
    table.add_row(HOSTILE, style="red")
    with console.capture() as captured:
        console.print(table)
    assert r"red\x1b]0;owned" in captured.get()
    assert "\x1b[31m" in captured.get()
    assert not any(sign in captured.get() for sign in ("\x1b]", "\x07", "\x9b", "\u202e"))


def test_letters_tabs_and_lines_stay() -> None:
    text = "Größe\t中文 🎉\nنص"
    assert escaped(text) == text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict", "m", "--max-line", "3", "f"], ["--max-line", "3", "predict", "m", "f"]),
        (["predict", "m", "--max-line=3"], ["--max-line=3", "predict", "m"]),
        (["predict", "m", "--", "--max-line"], ["predict", "m", "--", "--max-line"]),
        (["predict", "m"], ["predict", "m"]),
    ],
)
def test_the_longest_line_may_be_given_behind_the_verb(arguments: list[str], expected: list[str]) -> None:
    assert _of_every_verb(arguments) == expected
