"""All protocols, by name, by slug and by program; built once, at import."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from re import fullmatch
from typing import Final

from schemas import protocols
from schemas.protocols import programs
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    PoolShare,
    Protocol,
    Unreadable,
)
from schemas.solana.addresses import key, text


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
    named: dict[str, Protocol] = {}
    for protocol in protocols:
        if protocol.name in named:
            raise Conflict(f"protocol {protocol.name} is in two files")
        named[protocol.name] = protocol
    found: dict[str, Protocol] = {}
    for slug, name in slugs.items():
        if name not in named:
            raise Conflict(f"slug {slug}: there is no protocol {name}")
        if other := [each for each, of in found.items() if of is named[name]]:
            raise Conflict(f"protocol {name} has two slugs: {other[0]} and {slug}")
        found[slug] = named[name]
    return found


def by_program(protocols: Iterable[Protocol]) -> dict[bytes, tuple[Kind, ...]]:
    """Return the kinds of each program; raises Conflict.

    Two files may know a program, as token accounts and mints are of one; no account is of both.
    """
    found: dict[bytes, tuple[Kind, ...]] = {}
    owners: dict[str, str] = {}
    for protocol in protocols:
        for kind in protocol.kinds:
            if kind.name in owners:
                raise Conflict(f"kind {kind.name} is claimed twice")
            if kind.program not in programs.NUMBERS:
                raise Conflict(f"kind {kind.name}: its program has no number in programs.toml")
            if not (kind.tag or kind.size is not None or kind.addresses):
                raise Conflict(f"kind {kind.name}: neither tag, size nor address identifies it")
            for other in found.get(kind.program, ()):
                if owners[other.name] != protocol.name and _may_be_one(kind, other):
                    raise Conflict(
                        f"program {text(kind.program)} is claimed twice: an account may be "
                        f"{other.name} of {owners[other.name]} and {kind.name} of {protocol.name}"
                    )
            owners[kind.name] = protocol.name
            found[kind.program] = (*found.get(kind.program, ()), kind)
    return found


def _may_be_one(kind: Kind, other: Kind) -> bool:
    """Return whether an account may be of two kinds of one program."""
    if kind.size is not None and other.size is not None and kind.size != other.size:
        return False
    for size, of in ((kind.size, other), (other.size, kind)):
        if size is not None and size in (of.not_size, *range(of.tag_at + len(of.tag))):
            return False  # too short for the other's tag
    if kind.addresses and other.addresses and not {*kind.addresses} & {*other.addresses}:
        return False
    common = min(len(kind.tag), len(other.tag))
    return kind.tag_at != other.tag_at or kind.tag[:common] == other.tag[:common]


KINDS: Final = by_program(ALL)


def shipped(stored: str, protocols: Iterable[Protocol]) -> dict[str, Protocol]:
    """Return the protocols by slug, of the text of slugs.toml; raises Conflict, which names it."""
    lines = (line.partition("#")[0].partition("=") for line in stored.splitlines())
    slugs = Counter(slug.strip() for slug, sign, _ in lines if sign)
    if twice := [slug for slug, times in slugs.items() if times > 1]:
        raise Conflict(f"slugs.toml: slug {twice[0]} is claimed twice")
    try:
        return by_slug(tomllib.loads(stored), protocols)
    except (tomllib.TOMLDecodeError, Conflict) as error:
        raise Conflict(f"slugs.toml: {error}") from None


SLUGS: Final = shipped(files("schemas.protocols").joinpath("slugs.toml").read_text(), ALL)


def verified_markets(also: str) -> frozenset[bytes]:
    """Return all protocols' verified markets, and an operator's: addresses with commas between."""
    added = frozenset(key(each.strip()) for each in also.split(",") if each.strip())
    return added.union(*(each.verified_markets for each in ALL))


def served(changes: str) -> dict[str, Protocol]:
    """Return the protocols by slug, as an operator changes them: `p10=flash,p13=-`.

    A slug gets another protocol, or a new slug one; `-` switches it off. Raises Conflict, whose
    text names the setting.
    """
    if not changes.strip():
        return dict(SLUGS)
    named = {slug: protocol.name for slug, protocol in SLUGS.items()}
    changed: set[str] = set()
    for change in filter(None, (each.strip() for each in changes.split(","))):
        slug, sign, name = (part.strip() for part in change.partition("="))
        if not (sign and name and fullmatch("[a-z][a-z0-9]*", slug)):
            raise Conflict(f"PROTOCOLS: {change} is not <slug>=<protocol> or <slug>=-")
        if slug in changed:
            raise Conflict(f"PROTOCOLS: slug {slug} is claimed twice")
        changed.add(slug)
        if name == "-":
            if slug not in named:
                raise Conflict(f"PROTOCOLS: there is no slug {slug} to switch off")
            del named[slug]
        else:
            named[slug] = name
    try:
        return by_slug(named, ALL)
    except Conflict as error:
        raise Conflict(f"PROTOCOLS: {error}") from None


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
_LPS: Final = {
    kind: protocol
    for protocol in ALL
    if protocol.lp is not None
    for kind in protocol.kinds
    if kind.has_mints
}
SHARE_PROGRAMS: Final = tuple(sorted({kind.program for kind in (*_SHARES, *_LPS)}))
"""Programs with pools whose token is a share of them."""


MINT_PROGRAMS: Final = frozenset(
    program for program, kinds in KINDS.items() if any(kind.has_mints for kind in kinds)
)
"""Programs with accounts that a token finds: NFT positions, pools and shares."""


def mints_of(kind: Kind, data: bytes) -> list[bytes]:
    """Return the mints that an account of a kind is found by, ascending, each once."""
    return kind.represented_by(data)


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


def whole_pool(account: Account, mint: bytes) -> tuple[Protocol, Held] | None:
    """Return what reads the reserves of a pool by its LP tokens, all of them held by nobody.

    None where the account is no pool of that LP token, or there are none of it.
    """
    protocol = _LPS.get(account.kind)
    if protocol is None or protocol.lp is None:
        return None
    try:
        lp = protocol.lp(account)
    except Unreadable:
        return None
    if lp is None or lp.mint != mint or not lp.supply_raw:
        return None
    return protocol, Held(bytes(len(mint)), [account], {mint: lp.supply_raw})
