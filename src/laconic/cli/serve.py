"""The verb `serve`: run the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laconic.cli.pack import Beam, Exact

verbs = typer.Typer()


@verbs.command()
def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A packed model, or a model folder that has one.")],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Number of worker processes; they share the model's memory.", min=1)] = 1,
    deadline_ms: Annotated[int, typer.Option(help="Time limit of a request in milliseconds.", min=1)] = 1000,
    queue: Annotated[
        int, typer.Option(help="Texts that may wait in each worker; more are refused (503).", min=1)
    ] = 256,
    max_body: Annotated[str, typer.Option("--max-body", metavar="SIZE", help="Largest request body.")] = "1MB",
    max_texts: Annotated[int, typer.Option(help="Most texts per request.", min=1)] = 100,
    max_characters: Annotated[int, typer.Option(help="Most characters per text.", min=1)] = 1000,
    max_k: Annotated[int, typer.Option(help="Most labels per text.", min=1)] = 100,
    token_file: Annotated[Path | None, typer.Option(help="File with the bearer token clients must send.")] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Origin allowed to call the API from a browser (CORS); may be repeated.")
    ] = None,
    drain: Annotated[
        float, typer.Option(help="Seconds after SIGTERM during which new connections are accepted.", min=0)
    ] = 0.5,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Reload the model folder when it changes.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log each request.")] = False,
    beam: Beam = None,
    exact: Exact = False,
) -> None:
    """Serve a packed model over HTTP, with a page to try it at /.

    SIGTERM stops the service after it has answered accepted requests; SIGUSR1 reloads the model folder.
    """
    from laconic.predict.load import Speed
    from laconic.serve.server import serve as run
    from laconic.serve.settings import Limits, Serving, TimeLimits, read_token
    from laconic.units import bytes_of

    settings = Serving(
        host=host,
        port=port,
        workers=workers,
        queue=queue,
        limits=Limits(bytes=bytes_of(max_body), texts=max_texts, characters=max_characters, k=max_k),
        time_limits=TimeLimits(deadline=deadline_ms / 1e3, drain=drain, look=1.0 if watch else 0.0),
        token=read_token(token_file),
        origins=tuple(origin or ()),
        log_requests=not quiet,
    )
    run(model, settings, Speed(beam=beam, exact=exact, threads=1))
