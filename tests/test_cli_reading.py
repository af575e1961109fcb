"""Reading data for a verb: a terminal shows that it goes on, and Ctrl-C ends it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from laconic.cli.main import main
from laconic.cli.progress import reading_data, waiting
from laconic.data.formats.lines import READ
from laconic.data.sources import read


def test_a_terminal_shows_what_is_read() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with waiting(console, "reading [data].csv"):
        pass
    assert "reading [data].csv" in console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO


def test_a_file_shows_nothing_of_it() -> None:
    console = Console(file=io.StringIO())
    with waiting(console, "reading data.csv"):
        pass
    assert not console.file.getvalue().strip()  # type: ignore[attr-defined]  # it is a StringIO


def test_bytes_are_counted_while_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "red rose", "labels": ["red"]}\n' * 1000)
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with reading_data(console, str(tmp_path)):
        assert len(read(str(tmp_path)).split("train")) == 1000
    assert "40.0/40.0 kB" in console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert READ.get() is None


def test_an_interrupt_while_data_is_read_ends_with_130_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laconic.data.formats.lines.opened", interrupted)
    (tmp_path / "data.csv").write_text("text,labels\nred rose,red\n")
    monkeypatch.setattr(
        sys, "argv", ["laconic", "train", f"{tmp_path}/data.csv", "--method", "nearest", "--out", f"{tmp_path}/m"]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
