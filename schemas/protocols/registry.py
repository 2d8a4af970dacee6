"""All protocols, by name, by slug and by program; built once, at import."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import Final

from schemas import protocols
from schemas.protocols import programs
from schemas.protocols.contract import Account, Kind, PoolShare, Protocol, Unreadable


class Conflict(ValueError):
    """Two protocol files claim the same thing, or one lacks something; the text names it."""


def _discovered() -> Iterator[Protocol]:
    """Yield the PROTOCOL of each file beside this one that has one, by the file's name."""
    for found in sorted(iter_modules(protocols.__path__), key=lambda each: each.name):
        if f"{protocols.__name__}.{found.name}" != __name__:
            module = import_module(f"{protocols.__name__}.{found.name}")
            if isinstance(protocol := getattr(module, "PROTOCOL", None), Protocol):
                yield protocol


ALL: Final = tuple(_discovered())


def by_slug(slugs: Mapping[str, str], protocols: Iterable[Protocol]) -> dict[str, Protocol]:
    """Return the protocols by their slugs; raises Conflict."""
    named = {protocol.name: protocol for protocol in protocols}
    found: dict[str, Protocol] = {}
    for slug, name in slugs.items():
        if name not in named:
            raise Conflict(f"slug {slug}: there is no protocol {name}")
        if named[name] in found.values():
            raise Conflict(f"protocol {name} has two slugs")
        found[slug] = named[name]
    return found


def by_program(protocols: Iterable[Protocol]) -> dict[bytes, tuple[Kind, ...]]:
    """Return the kinds of each program; raises Conflict."""
    found: dict[bytes, tuple[Kind, ...]] = {}
    names: set[str] = set()
    for protocol in protocols:
        for kind in protocol.kinds:
            if kind.name in names:
                raise Conflict(f"kind {kind.name} is claimed twice")
            if kind.program not in programs.NUMBERS:
                raise Conflict(f"kind {kind.name}: its program has no number in programs.toml")
            if not (kind.tag or kind.size is not None or kind.addresses):
                raise Conflict(f"kind {kind.name}: neither tag, size nor address identifies it")
            names.add(kind.name)
            found[kind.program] = (*found.get(kind.program, ()), kind)
    return found


KINDS: Final = by_program(ALL)
SLUGS: Final = by_slug(
    tomllib.loads(files("schemas.protocols").joinpath("slugs.toml").read_text()), ALL
)


def kind_of(address: bytes, program: bytes, data: bytes) -> Kind | None:
    """Return which kind an account is of, or None where no protocol file knows it."""
    for kind in KINDS.get(program, ()):
        if kind.matches(address, program, data):
            return kind
    return None


_SHARES: Final = {
    kind: protocol.share
    for protocol in ALL
    if protocol.share is not None
    for kind in protocol.kinds
}
SHARE_PROGRAMS: Final = tuple(sorted({kind.program for kind in _SHARES}))
"""Programs with pools whose token is a share of them."""


def pool_mint(kind: Kind, data: bytes) -> bytes | None:
    """Return the mint of a pool's token, None where an account of a kind is no pool."""
    if kind not in _SHARES or not kind.mints:
        return None
    at = kind.mints[0]
    return data[at : at + 32] if len(data) >= at + 32 else None


def pool_share(account: Account, mint: bytes) -> PoolShare | None:
    """Return what a mint is a share of by an account, None where that is none of its pools."""
    read = _SHARES.get(account.kind)
    if read is None:
        return None
    try:
        share = read(account)
    except Unreadable:
        return None
    return share if share.mint == mint else None
