"""Run the code of a page of documentation: its files, commands and Python blocks, in order, in a folder of their own.

A page is markdown. Of its fenced blocks these are used:

    ```csv title="shop.csv"     is written to that file, whatever its language
    ```console                  lines that begin with "$ " are run by bash, the others are what they print
    ```python                   is run; a ```text block directly below is what it prints

A line `<!-- given: tests/given/NAME.py -->` names Python that is run before all blocks: it makes the files and names
that the page takes for the reader's own; `<!-- given: PATH as NAME -->` copies a file. A block of commands or Python
below a line `<!-- not run: REASON -->` is not run, and `pip install` never is: the tests run with what is installed.
In a shown output, a line `...` stands for any lines. `laconic serve` is left running until the page ends, at a free
port instead of 8000. Variables that a command exports are those of all that is started below it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COLUMNS = 100  # of the terminal that tables are drawn for
PORT = "8000"  # on the pages
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n+)?"
    r"^```(?P<language>[\w-]*)(?P<options>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_GIVEN = re.compile(r"^<!-- given: (\S+)(?: as (\S+))? -->$", re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')
# A number may differ a little between machines; how long something took, how large it is in memory, and a model's
# version may be anything.
_FREE = re.compile(r"\b\d[\d,.]* ?(?:s|ms|µs|seconds?|minutes?|MB|GB|kB|bytes|cores?)\b|\b[0-9a-f]{12}\b")
_STAGE = re.compile(r"(evaluating|ranking|packing|comparing the packed model with the model|reading \S+): [\d.]+ s$")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_TOLERANCE = 0.02


class Block(NamedTuple):
    """A fenced block, with the place of its body in the page."""

    language: str
    body: str
    title: str
    reason: str  # why it is not run
    begin: int
    line: int


def blocks_of(page: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(page):
        title = _TITLE.search(match["options"])
        begin = match.start("body")
        line = page.count("\n", 0, begin)
        reason = match["reason"] or ""
        found.append(Block(match["language"], match["body"], title[1] if title else "", reason, begin, line))
    return found


class Shown(NamedTuple):
    """A command or a piece of Python, and what the page says that it prints."""

    code: str
    output: list[str]
    begin: int  # of the output in the page
    end: int
    line: int


def commands_of(block: Block) -> list[Shown]:
    """Return the commands of a block; a line that ends with a backslash goes on in the next."""
    found: list[Shown] = []
    place, line, goes_on = block.begin, block.line, False
    for text in block.body.splitlines(keepends=True):
        place, line = place + len(text), line + 1
        if text.startswith("$ ") or goes_on:
            code = found.pop().code + text if goes_on else text[2:]
            found.append(Shown(code, [], place, place, line))
            goes_on = text.rstrip("\n").endswith("\\")
        elif found:
            last = found.pop()
            found.append(last._replace(output=[*last.output, text.rstrip("\n")], end=place))
        else:
            raise ValueError(f"line {line}: output before any command")
    return found


@dataclass
class Session:
    """A folder in which the code of one page is run."""

    folder: Path
    server: ForkServer
    port: int = field(default_factory=lambda: free_port())
    python: Python | None = None
    services: list[subprocess.Popen[bytes]] = field(default_factory=list)
    exported: dict[str, str] = field(default_factory=dict)  # variables, for all that runs later

    @property
    def environment(self) -> dict[str, str]:
        return self.server.environment | self.exported

    def run_command(self, code: str) -> str:
        code = code.replace(f"localhost:{PORT}", f"localhost:{self.port}").rstrip("\n")
        code = code.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self.port}")
        if code.startswith("laconic serve"):
            return self.serve(code)
        if code.startswith("pip install "):
            return ""
        if code.startswith("export "):
            return self.export(code)
        command = ["bash", "-c", f"set -o pipefail\n{code}"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output = done.stdout.decode().replace(str(self.port), PORT)
        if done.returncode:
            raise AssertionError(f"{code}\nended with {done.returncode}:\n{output}")
        return output

    def export(self, code: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"{code}\nenv -0"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, check=True
        )
        after = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
        self.exported |= {name: value for name, value in after.items() if f"{name}=" in code}
        return ""

    def serve(self, code: str) -> str:
        command = f"exec {code.partition('#')[0]} --port {self.port}"
        with open(self.folder / "service.log", "ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        self.services.append(process)
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10):
                    return ""
            except (urllib.error.URLError, OSError):
                if process.poll() is not None:
                    break
                time.sleep(0.1)
        raise AssertionError(f"{code}\ndoes not serve: {(self.folder / 'service.log').read_text()}")

    def run_python(self, code: str) -> str:
        if self.python is None:
            self.python = Python(self.folder, self.environment)
        return self.python.run(code)

    def close(self) -> None:
        if self.python is not None:
            self.python.close()
        for process in self.services:
            process.terminate()
            process.wait(60)


class Python:
    """An interpreter that keeps its names from one block to the next, as a reader's does."""

    _END = "\0end\0"
    _LOOP = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "the page", "exec"), names)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("\\0failed\\0", end="")
    print("\\0end\\0", flush=True)
"""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        command = ["laconic", "--python", self._LOOP]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            executable=str(Path(environment["SHIM"]) / "laconic"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, code: str) -> str:
        import json

        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        output = ""
        while not output.endswith(self._END + "\n"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"{code}\nended the interpreter:\n{output}")
            output += line
        output = output.removesuffix(self._END + "\n")
        if output.endswith("\0failed\0"):
            raise AssertionError(f"{code}\nfailed:\n{output}")
        return output

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class ForkServer:
    """A process that has imported laconic and runs each command in a fork of itself: nobody waits for imports."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "socket"
        script = folder / "laconic"
        script.write_text(f"#!{sys.executable} -ISs\n{_CLIENT}")
        script.chmod(0o755)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_"))}
        self.environment = {
            **own,
            "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": str(COLUMNS),
            "LC_ALL": "C.UTF-8",
            "LACONIC_SOCKET": str(self.path),
            "SHIM": str(folder),
        }
        self.process = subprocess.Popen([sys.executable, "-c", _SERVER, str(self.path)], env=self.environment)
        while not self.path.exists():
            if self.process.poll() is not None:
                raise AssertionError("the server of commands does not start")
            time.sleep(0.05)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


_CLIENT = """
import json, os, socket, sys
if sys.argv[1:2] == ["serve"] or "_LACONIC_COMPLETE" in os.environ:
    os.execv(sys.executable, [sys.executable, "-m", "laconic", *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["LACONIC_SOCKET"])
asked = json.dumps({"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
socket.send_fds(connection, [len(asked).to_bytes(4, "big")], [0, 1, 2])
connection.sendall(asked)
sys.exit(int(connection.recv(4) or b"1"))
"""

_SERVER = """
import importlib, json, os, signal, socket, sys
for name in ("torch", "sklearn.cluster", "sklearn.pipeline", "scipy.sparse", "pyarrow.parquet", "laconic.estimator",
             "laconic.cli.main", "laconic.methods.train", "laconic.export.pack", "laconic.predict.load",
             "laconic.predict.output", "laconic.evaluation.evaluate", "laconic.update"):
    importlib.import_module(name)
from laconic.cli.main import main

def answer(connection, fds, asked):
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    arguments, code = asked["arguments"], 0
    try:
        if arguments[:1] == ["--python"]:
            exec(arguments[1], {"__name__": "loop"})
        else:
            sys.argv = ["laconic", *arguments]
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(str(code).encode())
    os._exit(code)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1] + ".new")
listening.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    connection, _ = listening.accept()
    size, fds, _, _ = socket.recv_fds(connection, 4, 3)
    size, asked = int.from_bytes(size, "big"), b""
    while len(asked) < size:
        asked += connection.recv(size - len(asked))
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listening.close()
        answer(connection, fds, json.loads(asked))
    for fd in fds:
        os.close(fd)
    connection.close()
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def session(folder: Path, server: ForkServer) -> Iterator[Session]:
    opened = Session(folder, server)
    try:
        yield opened
    finally:
        opened.close()


class Printed(NamedTuple):
    """What was shown and what was printed instead."""

    shown: Shown
    output: list[str]


def run_page(page: str, opened: Session) -> Iterator[Printed]:
    """Run a page, and yield everything whose output is shown."""
    blocks = blocks_of(page)
    for given, name in _GIVEN.findall(page):
        if name:
            shutil.copyfile(ROOT / given, opened.folder / name)
        else:
            opened.run_python((ROOT / given).read_text(encoding="utf-8"))
    for number, block in enumerate(blocks):
        if block.title:
            path = opened.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")
        elif block.reason:
            continue
        elif block.language == "console":
            for shown in commands_of(block):
                output = opened.run_command(shown.code)
                if shown.output:
                    yield Printed(shown, cleaned(output))
        elif block.language == "python":
            output = opened.run_python(block.body)
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            if after is not None and after.language == "text" and directly_below(page, block, after):
                end = after.begin + len(after.body)
                yield Printed(Shown(block.body, after.body.splitlines(), after.begin, end, after.line), cleaned(output))


def directly_below(page: str, block: Block, after: Block) -> bool:
    between = page[block.begin + len(block.body) : after.begin]
    return "".join(between.split()) == "``````text"


def cleaned(output: str) -> list[str]:
    """Return the lines without what surrounds them: empty lines at both ends, and blanks at the end of lines.

    Lines of stages that took long are left out too, since others take longer on another machine.
    """
    lines = [line.rstrip() for line in output.splitlines() if not _STAGE.match(line)]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return lines


def agree(shown: list[str], printed: list[str]) -> bool:
    """Say whether an output is the one that is shown, where `...` stands for any lines, or ends a line early."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(agree(shown[1:], printed[number:]) for number in range(len(printed) + 1))
    return bool(printed) and lines_agree(shown[0].rstrip(), printed[0]) and agree(shown[1:], printed[1:])


def lines_agree(shown: str, printed: str) -> bool:
    shown, printed = _FREE.sub("~", shown), _FREE.sub("~", printed)
    if shown.endswith("...") and not printed.endswith("..."):
        shown = shown.removesuffix("...").rstrip()
        printed = printed[: len(shown)]
    if _blanked(shown) != _blanked(printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(near(float(one.replace(",", "")), float(other.replace(",", ""))) for one, other in pairs)


def _blanked(line: str) -> str:
    """Return a line without its numbers and without the widths of its columns."""
    return re.sub(r"[ ━─]+", " ", _NUMBER.sub("#", line))


def near(one: float, other: float) -> bool:
    return abs(one - other) <= max(_TOLERANCE, _TOLERANCE * abs(one))


def regenerated(page: str, printed: list[Printed]) -> str:
    """Return the page with every output that does not agree replaced by what was printed."""
    for shown, output in reversed(printed):
        if not agree(shown.output, output):
            page = page[: shown.begin] + "\n".join([*output, ""]) + page[shown.end :]
    return page
