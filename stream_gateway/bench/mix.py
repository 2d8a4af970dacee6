"""The clients: a thousand, each with the subscriptions of a plausible user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from stream_gateway.bench.market import PLATFORMS, VENUES, Market
from stream_gateway.subscriptions import Filter

SHARES: Final = {
    "firehose": 40,  # every swap, and what became of slots
    "dex": 130,  # swaps of one venue, the busier the likelier
    "venues": 30,  # swaps of two or three venues
    "token": 320,  # a token's page: its swaps and its prices
    "wallets": 150,  # swaps of 1 to 100 wallets
    "creations": 60,  # every creation
    "platforms": 60,  # creations on one or two platforms
    "mints": 170,  # prices of 1 to 100 tokens
    "all_prices": 40,  # every price
}
"""Of a thousand connections how many are of which kind."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client sends, and what it means."""

    message: dict[str, Any]
    filter: Filter


@dataclass(frozen=True, slots=True)
class Connection:
    """One client."""

    kind: str
    subscriptions: tuple[Subscription, ...]


def connections(market: Market, count: int, seed: int = 2) -> list[Connection]:
    """Return so many connections in the shares above, shuffled."""
    random = Random(seed)  # noqa: S311 - it shall come out the same each time
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    random.shuffle(kinds)
    return [
        Connection(kind, _WISHES[kind](market, random))
        for kind in (kinds[number % len(kinds)] for number in range(count))
    ]


def unmatched(market: Market, count: int) -> list[Filter]:
    """Return filters that no event will ever match: addresses that are in no market."""
    kinds: tuple[Callable[[str], Filter], ...] = (
        lambda address: Filter("swaps", tokens=frozenset({address})),
        lambda address: Filter("swaps", wallets=frozenset({address})),
        lambda address: Filter("prices", mints=frozenset({address})),
        lambda address: Filter("creations", platforms=frozenset({address.lower()})),
    )
    return [kinds[number % len(kinds)](market.address()) for number in range(count)]


def swaps(dexes: list[str] | None = None) -> Subscription:
    """Return a subscription to swaps, of some venues or of all."""
    message: dict[str, Any] = {"action": "subscribe", "channel": "swaps"}
    if dexes:
        message["dex"] = dexes
    return Subscription(message, Filter("swaps", dexes=frozenset(dexes or ())))


def _firehose(market: Market, random: Random) -> tuple[Subscription, ...]:
    status = {"action": "subscribe", "channel": "status"}
    return (swaps(), Subscription(status, Filter("status")))


def _dex(market: Market, random: Random) -> tuple[Subscription, ...]:
    return (swaps(random.choices([*VENUES], [*VENUES.values()])),)


def _venues(market: Market, random: Random) -> tuple[Subscription, ...]:
    return (swaps(random.sample([*VENUES], random.randint(2, 3))),)


def _token(market: Market, random: Random) -> tuple[Subscription, ...]:
    [mint] = market.mints(1)
    trades = {"action": "subscribe", "channel": "swaps", "token": mint}
    return (Subscription(trades, Filter("swaps", tokens=frozenset({mint}))), _prices([mint]))


def _wallets(market: Market, random: Random) -> tuple[Subscription, ...]:
    wallets = sorted(set(market.wallets(random.randint(1, 100))))
    message = {"action": "subscribe", "channel": "swaps", "wallets": wallets}
    return (Subscription(message, Filter("swaps", wallets=frozenset(wallets))),)


def _creations(market: Market, random: Random) -> tuple[Subscription, ...]:
    return (Subscription({"action": "subscribe", "channel": "creations"}, Filter("creations")),)


def _platforms(market: Market, random: Random) -> tuple[Subscription, ...]:
    platforms = random.sample([*PLATFORMS], random.randint(1, 2))
    message = {"action": "subscribe", "channel": "creations", "platforms": platforms}
    return (Subscription(message, Filter("creations", platforms=frozenset(platforms))),)


def _mints(market: Market, random: Random) -> tuple[Subscription, ...]:
    return (_prices(sorted(set(market.mints(random.randint(1, 100))))),)


def _all_prices(market: Market, random: Random) -> tuple[Subscription, ...]:
    return (_prices([]),)


def _prices(mints: list[str]) -> Subscription:
    message: dict[str, Any] = {"action": "subscribe", "channel": "prices"}
    if mints:
        message["mints"] = mints
    return Subscription(message, Filter("prices", mints=frozenset(mints)))


_WISHES: Final[dict[str, Callable[[Market, Random], tuple[Subscription, ...]]]] = {
    "firehose": _firehose,
    "dex": _dex,
    "venues": _venues,
    "token": _token,
    "wallets": _wallets,
    "creations": _creations,
    "platforms": _platforms,
    "mints": _mints,
    "all_prices": _all_prices,
}
