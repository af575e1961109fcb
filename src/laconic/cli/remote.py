"""The verbs `push` and `pull`: copy models to and from buckets, hubs and shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.interrupts import UNCHANGED, interruptible
from laconic.cli.options import MODEL, ModelFolder, err, out
from laconic.cli.verb import argument, command, option
from laconic.units import counted, human_bytes

if TYPE_CHECKING:
    from laconic.storage.remote import Transfer

verbs = typer.Typer()
_GROUP = "Change"
_PUSHED_IN_PART = "interrupted; the location has no whole model now; run the same command again"


@command(verbs, group=_GROUP, example="laconic push model s3://bucket/products\nlaconic push model /mnt/share/products")
def push(
    model: ModelFolder,
    url: Annotated[str, argument("URL", "Where to: s3://, gs://, hf://, another location of fsspec, or a path.")],
    force: Annotated[bool, option(MODEL, "--force", "Replace another model that is there.")] = False,
) -> None:
    """Copy a model folder, with its packed model, to a bucket, a hub or a share.

    Files are verified first and the manifest is written last, so that a push that was interrupted leaves no model.
    """
    from laconic.cli.progress import byte_progress
    from laconic.storage.remote import push, shown

    with interruptible(_PUSHED_IN_PART), byte_progress(err, f"pushing {model}") as watch:
        done = push(model, url, force=force, watch=watch)
    out.print(f"{shown(url)}: {_told(done, 'pushed')}", soft_wrap=True)


@command(verbs, group=_GROUP, example="laconic pull s3://bucket/products model")
def pull(
    url: Annotated[str, argument("URL", "Where from: s3://, gs://, hf://, https://, another location, or a path.")],
    model: Annotated[Path, argument("MODEL", "The model folder to write; a model that is there is replaced.")],
) -> None:
    """Copy a model from a bucket, a hub or a share, and verify it before it takes the place of an older one."""
    from laconic.cli.progress import byte_progress
    from laconic.storage.remote import pull

    with interruptible(UNCHANGED), byte_progress(err, f"pulling {model}") as watch:
        done = pull(url, model, watch=watch)
    out.print(f"{model}: {_told(done, 'pulled')}", soft_wrap=True)


def _told(done: Transfer, what: str) -> str:
    about = f"version {done.version}, {counted(done.files, 'file')}, {human_bytes(done.bytes)}"
    return f"{what} {about}" if done.changed else f"is there already; {about}"
