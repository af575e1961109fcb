"""The command line: reads arguments, calls the library and prints. Heavy imports are inside the verbs."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from laconic import __version__
from laconic.cli import bench, data, demo, evaluate, labels, pack, predict, serve, settings, train
from laconic.cli.options import err, out
from laconic.cli.verb import Group
from laconic.errors import UserError, missing_package
from laconic.system.machine import limit_thread_pools

app = typer.Typer(
    cls=Group,
    help="Assign a short text the few right labels out of up to millions.",
    epilog="Begin with `laconic demo`, or with `laconic train FILE.csv`; `laconic VERB --help` has examples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for family in (demo, train, predict, serve, evaluate, bench, labels, pack, data, settings):
    app.add_typer(family.verbs)


def main() -> None:
    """Run a verb. Exit codes: 0 done, 2 the user's mistake, 130 interrupted, 1 anything else."""
    debug = "--debug" in sys.argv
    limit_thread_pools()
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"], prog_name="laconic")
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
        sys.stderr.close()
    except OSError as error:
        if debug or error.filename is None:  # no file of the user's
            raise
        _complain(f"{error.filename}: {error.strerror}")


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
) -> None:
    """Accept the options of every verb; `main` itself looks for --debug."""
