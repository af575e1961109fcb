"""The command line: reads arguments, calls the library and prints. Heavy imports are inside the verbs."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from laconic import __version__
from laconic.cli import (
    attributes,
    bench,
    data,
    demo,
    evaluate,
    export,
    labels,
    pack,
    predict,
    remote,
    serve,
    settings,
    threshold,
    train,
    vectors,
)
from laconic.cli.options import err, out
from laconic.cli.verb import Group
from laconic.data.formats.bounds import LONGEST_LINE, MEGABYTE
from laconic.errors import UserError, missing_package
from laconic.system.machine import limit_thread_pools

_MAX_LINE = "--max-line"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

app = typer.Typer(
    cls=Group,
    help="Assign a short text the few right labels out of up to millions.",
    epilog="Begin with `laconic demo`, or with `laconic train FILE.csv`; `laconic VERB --help` has examples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for family in (
    demo,
    train,
    vectors,
    predict,
    serve,
    evaluate,
    bench,
    labels,
    attributes,
    threshold,
    pack,
    export,
    remote,
    data,
    settings,
):
    app.add_typer(family.verbs)


def main() -> None:
    """Run a verb. Exit codes: 0 done, 2 the user's mistake, 130 interrupted, 1 anything else."""
    debug = "--debug" in sys.argv
    limit_thread_pools()
    _open_streams()
    try:
        _run([argument for argument in sys.argv[1:] if argument != "--debug"])
    except UserError as error:
        if debug:
            raise
        _complain(str(error))
    except ModuleNotFoundError as error:
        message = missing_package(_verb_named(sys.argv[1:]), error)
        if debug or message is None:
            raise
        _complain(message)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        _discard_output()
    except OSError as error:
        if debug or not (error.filename or error.errno in _FULL):  # no file of the user's
            raise
        _discard_output()
        _complain(f"{error.filename or 'the output cannot be written'}: {error.strerror}")


def _run(arguments: list[str]) -> None:
    try:
        app(_of_every_verb(arguments), prog_name="laconic")
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # for which typer exits with 1
            raise stop.__context__ from None
        raise
    finally:
        sys.stdout.flush()


def _open_streams() -> None:
    """Put files without content in the place of standard streams that are closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - as long as the process


def _discard_output() -> None:
    """Let what is still in the buffer of the standard output go nowhere, or Python would complain when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ else nowhere)
    os.close(nowhere)


def _of_every_verb(arguments: list[str]) -> list[str]:
    """Move --max-line and its value before the verb, so that it may stand behind it."""
    at = next((at for at, one in enumerate(arguments) if one.partition("=")[0] == _MAX_LINE), None)
    if at is None or "--" in arguments[:at]:
        return arguments
    end = at + 1 + (arguments[at] == _MAX_LINE)
    return [*arguments[at:end], *arguments[:at], *arguments[end:]]


def _verb_named(arguments: list[str]) -> str:
    return " ".join(["laconic", *[argument for argument in arguments if not argument.startswith("-")][:1]])


def _complain(message: str) -> NoReturn:
    err.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    sys.exit(2)


def _print_version(asked: bool) -> bool:
    if asked:
        out.print(__version__)
        raise typer.Exit
    return asked


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show full tracebacks for errors.")] = False,
    max_line: Annotated[
        int, typer.Option(_MAX_LINE, metavar="MB", help="Longest line of a file that is read, in megabytes.", min=1)
    ] = LONGEST_LINE.get() // MEGABYTE,
) -> None:
    """Accept the options of every verb; `main` itself looks for --debug."""
    LONGEST_LINE.set(max_line * MEGABYTE)
