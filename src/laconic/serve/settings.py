"""Settings of the service; the command line shows these defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path

from laconic.errors import ConfigError

_LOCAL = ("localhost", "127.0.0.1", "[::1]")  # names of this machine


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest request that is accepted."""

    bytes: int = 1_000_000  # of a body; more is refused before it is read
    texts: int = 100  # in one request
    characters: int = 1000  # in one text
    k: int = 100  # labels a text
    names: int = 10_000  # in an allow or block list; also values in `where`
    explained: int = 10  # texts in one request that asks why
    explained_words: int = 200  # in all of them together: a text is scored once more without each of its words

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise ConfigError(f"the limit of {one.name} must be 1 or more, but is {getattr(self, one.name)}")


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """Time limits, in seconds."""

    deadline: float = 1.0  # for a request to be answered; what cannot be is refused
    headers: float = 10.0  # for a request's headers to come
    body: float = 10.0  # for its body to come
    drain: float = 0.5  # between the wish to stop and the last connection that is accepted
    stop: float = 8.0  # for what was accepted to be finished after that
    trial: float = 300.0  # for a changed model to be opened, verified and to answer a text
    look: float = 1.0  # between looks at whether the model folder has changed; 0: no looks

    def __post_init__(self) -> None:
        for one in fields(self):
            least, value = 0.0 if one.name in ("drain", "look") else 0.001, getattr(self, one.name)
            if not least <= value <= 3600:
                raise ConfigError(f"{one.name} must be within {least:g}..3600 seconds, but is {value}")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """All settings of a service except its model's."""

    host: str = "127.0.0.1"  # nobody else's machine, unless set otherwise
    port: int = 8000  # 0: any that is free
    workers: int = 1  # processes; they share the model's pages
    queue: int = 256  # texts that may wait in a worker
    batch: int = 64  # texts that are answered together
    limits: Limits = field(default_factory=Limits)
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    token: str = field(default="", repr=False)  # what clients must bear; empty: nothing
    hosts: tuple[str, ...] = ()  # names by which clients may call the service, besides those of this machine; "*": any
    origins: tuple[str, ...] = ()  # web pages elsewhere that may ask (CORS)
    log_requests: bool = True  # a line for each; refusals are counted instead

    def __post_init__(self) -> None:
        for name, least, most in (("port", 0, 65535), ("workers", 1, 1024), ("queue", 1, 10**9), ("batch", 1, 10**6)):
            if not least <= (value := getattr(self, name)) <= most:
                raise ConfigError(f"{name} must be within {least}..{most}, but is {value}")
        if self.token and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise ConfigError("the token must be printable ASCII without spaces")

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def known_hosts(self) -> frozenset[bytes] | None:
        """Return the names by which clients may call the service, in lower case; None: any.

        A page in a browser of this machine can make its own name an address of this machine (DNS rebinding), and would
        then read answers as if they were its own. Where other machines are served, their names are not known.
        """
        if "*" in self.hosts or not (self.hosts or self.loopback):
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(name.lower().encode() for name in (*_LOCAL, own, *self.hosts))

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def read_token(path: Path | None) -> str:
    """Read the bearer token, the only line of a file; on a command line all users of the machine could see it."""
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the token cannot be read ({error})") from None
    if not token:
        raise ConfigError(f"{path}: the file is empty, but should hold the token")
    return token
