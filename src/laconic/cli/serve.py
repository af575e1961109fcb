"""The verb `serve`: run the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.options import MACHINE, OUTPUT, Beam, Exact, err
from laconic.cli.verb import argument, command, option

if TYPE_CHECKING:
    from laconic.serve.settings import Serving

verbs = typer.Typer()
_ADDRESS, _LIMITS = "Address", "Limits"


@command(verbs, group="Train and use", example="laconic serve model\nlaconic serve model --host 0.0.0.0 --workers 4")
def serve(
    model: Annotated[Path, argument("MODEL", "A packed model, or a model folder that has one.")],
    host: Annotated[
        str, option(_ADDRESS, "--host ADDRESS", "Address to listen on; 0.0.0.0 accepts other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option(_ADDRESS, "--port N", "Port to listen on; 0 picks a free one.", min=0, max=65535)
    ] = 8000,
    token_file: Annotated[
        Path | None, option(_ADDRESS, "--token-file FILE", "File with the bearer token clients must send.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option(
            _ADDRESS,
            "--allow-host NAME",
            "Host name that clients may use, besides this machine's own; '*' for any; may be repeated.",
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        option(_ADDRESS, "--origin URL", "Origin allowed to call the API from a browser (CORS); may be repeated."),
    ] = None,
    workers: Annotated[
        int, option(MACHINE, "--workers N", "Number of worker processes; they share the model's memory.", min=1)
    ] = 1,
    beam: Beam = None,
    exact: Exact = False,
    deadline_ms: Annotated[
        int, option(_LIMITS, "--deadline-ms MS", "Time limit of a request in milliseconds.", min=1)
    ] = 1000,
    queue: Annotated[
        int, option(_LIMITS, "--queue N", "Texts that may wait in each worker; more are refused (503).", min=1)
    ] = 256,
    max_body: Annotated[str, option(_LIMITS, "--max-body SIZE", "Largest request body.")] = "1MB",
    max_texts: Annotated[int, option(_LIMITS, "--max-texts N", "Most texts per request.", min=1)] = 100,
    max_characters: Annotated[int, option(_LIMITS, "--max-characters N", "Most characters per text.", min=1)] = 1000,
    max_k: Annotated[int, option(_LIMITS, "--max-k N", "Most labels per text.", min=1)] = 100,
    drain: Annotated[
        float,
        option(_LIMITS, "--drain SECONDS", "Seconds after SIGTERM during which new connections are accepted.", min=0),
    ] = 0.5,
    watch: Annotated[bool, option("Model", "--watch/--no-watch", "Reload the model folder when it changes.")] = True,
    quiet: Annotated[bool, option(OUTPUT, "--quiet", "Do not log each request.")] = False,
) -> None:
    """Serve a packed model over HTTP, with a page to try it at / and the API described at /docs.

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
        hosts=tuple(allow_host or ()),
        origins=tuple(origin or ()),
        log_requests=not quiet,
    )
    run(model, settings, Speed(beam=beam, exact=exact, threads=1), started=_print_address)


def _print_address(settings: Serving) -> None:
    """Print where the service is to be found, if somebody is there to read it; logs say it to programs."""
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    if err.is_terminal:
        err.print(f"Serving at {url} (API: {url}/docs). Ctrl-C stops.", soft_wrap=True)
