"""The supported libraries, and which of them are installed; they are looked for but not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pkgutil import resolve_name

from laconic.analysis.peers.peer import Peer
from laconic.errors import ConfigError

ALL = "all"
LIBRARIES: dict[str, tuple[str, ...]] = {  # where each way of asking a library is found
    "omikuji": ("laconic.analysis.peers.omikuji:PARABEL", "laconic.analysis.peers.omikuji:BONSAI"),
    "pecos": ("laconic.analysis.peers.pecos:XR_LINEAR",),
    "napkinxc": ("laconic.analysis.peers.napkinxc:LABEL_TREE",),
    "fasttext": ("laconic.analysis.peers.fasttext:HIERARCHICAL",),
}


def peer_at(place: str) -> Peer:
    peer: Peer = resolve_name(place)
    return peer


def is_installed(peer: Peer) -> bool:
    found = find_spec(peer.module)
    return found is not None and found.origin is not None  # without an origin it is some folder of that name


def chosen(names: Sequence[str], libraries: Mapping[str, Sequence[str]] = LIBRARIES) -> list[str]:
    """Return the modules of the named libraries, each once; `all` means the installed ones."""
    wanted = dict.fromkeys(names)
    if unknown := [name for name in wanted if name not in {*libraries, ALL}]:
        raise ConfigError(f"there is no peer {unknown[0]!r}; known are: {', '.join(libraries)}, {ALL}")
    there = {name: is_installed(peer_at(places[0])) for name, places in libraries.items()}
    for name in wanted:
        if name != ALL and not there[name]:
            raise ConfigError(f"{name} is not installed here; {_remedy(libraries[name])}")
    taken = [name for name in libraries if there[name]] if ALL in wanted else list(wanted)
    if not taken:
        remedies = "; ".join(_remedy(places) for places in libraries.values())
        raise ConfigError(f"none of {', '.join(libraries)} is installed here: {remedies}")
    return [place for name in taken for place in libraries[name]]


def _remedy(places: Sequence[str]) -> str:
    return f"`{peer_at(places[0]).install}` installs it"
