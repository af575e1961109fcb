"""Register laconic as a backend of Annif: `backend=laconic` in a project's configuration.

Annif has no hook for backends of other packages, but its command line is Flask's, which loads every entry point of the
group `flask.commands` before it runs a command. Ours is `command`. A server that does not start from Annif's command
line names `laconic.integrations.annif.config.ProductionConfig` in ANNIF_CONFIG instead, or calls `register`.
"""

from __future__ import annotations

import sys

import click

from laconic import __version__


def register() -> None:
    """Add laconic to the backends that Annif knows."""
    import annif.backend

    annif.backend._backend_fns["laconic"] = _backend


def _backend() -> type:
    """Import the backend when a project wants it, as Annif does with its own."""
    from laconic.integrations.annif.backend import LaconicBackend

    return LaconicBackend


@click.command("laconic", hidden=True)
def command() -> None:
    """Show the version of laconic, whose backend is registered."""
    click.echo(f"laconic {__version__}")


# Other programs of Flask load this module too; they do not get Annif.
if "annif" in sys.modules:
    register()
