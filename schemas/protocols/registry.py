"""All protocols, by name, by slug and by program; built once, at import."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from schemas.protocols import clock, mint, native_stake, programs, token
from schemas.protocols.contract import Kind, Protocol


class Conflict(ValueError):
    """Two protocol files claim the same thing, or one lacks something; the text names it."""


ALL: Final = (clock.PROTOCOL, mint.PROTOCOL, native_stake.PROTOCOL, token.PROTOCOL)


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
