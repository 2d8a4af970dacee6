"""What routes of several protocols have together: members as data, and those that are pending."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from schemas.protocols.contract import Protocol

ABOUT: Final = {
    "all-lending": "Deposits, loans and their health, of all lending protocols",
    "all-perps": "Bets on prices: sizes, collateral, profit and loss, of all perpetual markets",
    "all-staking": "Stake of all kinds: native, and of protocols, with locks and rewards",
    "all-governance": "Deposits and escrows that vote, and tokens that vest",
    "all-yield": "Vaults, yield tokens and strategies",
    "all-lp": "Liquidity of all pools: amounts, ranges, and fees not yet collected",
    "all-rewards": "Rewards of all protocols that were not claimed",
}
NOT_YET: Final = "this protocol is not read yet"
NO_ROUTE: Final = "this route of the protocol is not read yet"
EVERYTHING: Final = "analyze"
OFF: Final = "the operator has switched it off (PROTOCOLS)"


@dataclass(frozen=True, slots=True)
class Pending:
    """A member that nothing reads here."""

    slug: str
    route: str
    reason: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Routes that are answered together."""

    name: str
    about: str
    routes: tuple[tuple[str, str], ...]  # slug, route; each of a protocol that is served
    pending: tuple[Pending, ...]


def aggregates(
    served: Mapping[str, Protocol], known: Mapping[str, Protocol]
) -> dict[str, Aggregate]:
    """Return the aggregates by name, of the slugs that are served; `known` are those of the files.

    A member is what its slug serves, and the protocol that has this slug in the files, wherever an
    operator serves it. Raises ValueError for one that is not `<slug>/<route>`, or comes twice.
    """
    stored = files("schemas.protocols").joinpath("aggregates.toml").read_text()
    found = {}
    for name, members in tomllib.loads(stored).items():
        if len(set(members)) < len(members):
            raise ValueError(f"aggregates.toml: {name} names a member twice")
        routes = dict[tuple[str, str], None]()  # in order
        pending: list[Pending] = []
        for member in members:
            slug, _, route = member.partition("/")
            if not slug or not route:
                raise ValueError(f"aggregates.toml: {name}: {member} is not <slug>/<route>")
            homes = _homes(slug, served, known)
            lacks = {home: why for home in homes if (why := _lacks(served[home], route))}
            if read := [(home, route) for home in homes if home not in lacks]:
                routes |= dict.fromkeys(read)
            elif homes:
                pending.append(Pending(homes[0], route, lacks[homes[0]]))
            else:
                pending.append(Pending(slug, route, OFF if slug in known else NOT_YET))
        found[name] = Aggregate(name, ABOUT[name], tuple(routes), tuple(pending))
    return found


def everything(served: Mapping[str, Protocol], aggregates: Mapping[str, Aggregate]) -> Aggregate:
    """Return all routes that are read, of aggregates or not, and all that are pending."""
    routes, pending = [], dict[tuple[str, str], Pending]()
    for slug, protocol in served.items():
        for route in protocol.routes:
            if route.unsupported is None:
                routes.append((slug, route.path))
            else:
                pending[slug, route.path] = Pending(slug, route.path, route.unsupported)
    for aggregate in aggregates.values():
        pending |= {(each.slug, each.route): each for each in aggregate.pending}
    return Aggregate(EVERYTHING, "All positions", tuple(routes), tuple(pending.values()))


def _homes(
    slug: str, served: Mapping[str, Protocol], known: Mapping[str, Protocol]
) -> tuple[str, ...]:
    """Return the slugs under which a member is served: its protocol's if renamed, and its own."""
    moved = (each for each, of in served.items() if each != slug and of is known.get(slug))
    return (*moved, *((slug,) if slug in served else ()))


def _lacks(protocol: Protocol, path: str) -> str | None:
    """Return why a route of a protocol cannot be answered, None where it can."""
    route = next((each for each in protocol.routes if each.path == path), None)
    return NO_ROUTE if route is None else route.unsupported
