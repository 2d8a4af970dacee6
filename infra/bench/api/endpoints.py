"""What is asked in the bench: every kind of answer, for wallets and tokens as they trade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import orjson
from clickhouse_connect.driver.client import Client

from infra.bench.api.load import Request
from infra.clickhouse.sql import load

PAIRS: Final = 400
MINTS_A_BATCH: Final = 100
WALLETS_A_BATCH: Final = 50

_PAIRS: Final = load(__package__, "pairs")

Pairs = Sequence[tuple[str, str]]  # wallet, and a token it has traded


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path with {wallet} and {mint} in it."""

    name: str
    path: str

    def requests(self, pairs: Pairs) -> list[Request]:
        """Return a request for each pair, each path once, in an order of its own."""
        paths = {self.path.format(wallet=wallet, mint=mint): None for wallet, mint in pairs}
        requests = [Request(path) for path in paths]
        Random(self.name).shuffle(requests)  # noqa: S311 - figures to be had again
        return requests


HOT: Final = (
    Endpoint("price", "/api/tokens/{mint}/price"),
    Endpoint("token", "/api/tokens/{mint}"),
    Endpoint("holders", "/api/tokens/{mint}/holders"),
    Endpoint("top_traders", "/api/tokens/{mint}/leaderboard"),
    Endpoint("trending", "/api/tokens/trending"),
    Endpoint("position", "/api/wallets/{wallet}/{mint}"),
    Endpoint("positions", "/api/wallets/{wallet}"),
    Endpoint("newest", "/api/wallets/{wallet}/all-dex"),
    Endpoint("holdings", "/api/wallets/{wallet}/holdings"),
    Endpoint("summary", "/api/wallets/{wallet}/pnl/summary"),
    Endpoint("portfolio", "/api/wallets/{wallet}/portfolio"),
    Endpoint("usage", "/api/usage"),
)
"""Answered from Redis."""

CLICKHOUSE: Final = (
    Endpoint("daily_pnl", "/api/wallets/{wallet}/pnl/daily"),
    Endpoint("daily_pnl_of_token", "/api/wallets/{wallet}/pnl/{mint}/daily"),
    Endpoint("daily_trades", "/api/wallets/{wallet}/trades/daily"),
    Endpoint("trades_of_token", "/api/wallets/{wallet}/trades/{mint}"),
    Endpoint("swaps_of_wallet", "/api/wallets/{wallet}/swaps"),
    Endpoint("swaps_of_token", "/api/tokens/{mint}/swaps"),
    Endpoint("candles", "/api/tokens/{mint}/candles"),
    Endpoint("lots", "/api/wallets/{wallet}/{mint}/lots"),
)
"""Answered from ClickHouse."""


def read_pairs(clickhouse: Client, swaps: int) -> list[tuple[str, str]]:
    """Return wallets with a token each, drawn from the swaps: who trades much is drawn often."""
    parameters = {"one_in": max(1, swaps // (4 * PAIRS)), "count": PAIRS}
    rows: Any = clickhouse.query(_PAIRS, parameters=parameters).result_rows
    return [(wallet, mint) for wallet, mint in rows]


def token_batch(pairs: Pairs, count: int) -> list[Request]:
    """Return requests for the facts of `count` tokens at once."""
    return _batches("/api/tokens/batch", "mints", [mint for _, mint in pairs], count, {})


def top_batch(pairs: Pairs, count: int) -> list[Request]:
    """Return requests for the best traders of `count` tokens at once."""
    mints = [mint for _, mint in pairs]
    return _batches("/api/tokens/leaderboard/batch", "mints", mints, count, {})


def wallet_batch(pairs: Pairs, count: int) -> list[Request]:
    """Return requests for the summaries of `count` wallets at once."""
    wallets = [wallet for wallet, _ in pairs]
    return _batches("/api/wallets/batch", "wallets", wallets, count, {"include": ["pnl"]})


def _batches(
    path: str, field: str, addresses: Sequence[str], count: int, more: dict[str, Any]
) -> list[Request]:
    several = [*dict.fromkeys(addresses)]
    count = min(count, len(several))
    return [
        Request(path, "POST", orjson.dumps({field: chosen, **more}).decode())
        for seed in range(20)
        for chosen in [Random(seed).sample(several, count)]  # noqa: S311 - likewise
    ]
