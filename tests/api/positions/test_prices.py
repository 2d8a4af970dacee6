"""Prices of what positions hold: the same sources as holdings, and what they still lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from api.positions.prices import PriceReader
from api.positions.records import record
from api.tokens.facts import facts
from api.tokens.pool_price import PoolPrice
from api.tokens.reader import Token, Tokens
from schemas.money import MONEY, USDC
from schemas.prices import LastPrice
from schemas.protocols.contract import Account, Asset, Kind, Position, Role
from schemas.solana.addresses import key, text

COIN, LP, NEW = (bytes([n]) * 32 for n in (1, 2, 3))
VAULT = b"v" * 32
ACCOUNT = Account(b"a" * 32, Kind("thing", b"p" * 32, size=1), 1, b"", 5)


class Stores:
    """What each source knows: a coin with a market, and an LP token by its pool and its mint."""

    def __init__(self, mints: Mapping[bytes, int]) -> None:
        self.mints = {text(mint): decimals for mint, decimals in mints.items()}
        self.asked: list[str] = []

    async def read(self, mints: Iterable[str]) -> Tokens:
        price = LastPrice(0.01, 2.0, 1, 1, "")
        coin = Token(text(COIN), facts(text(COIN), None, None), None, price, "live", b"")
        known = {coin.mint: coin} if coin.mint in set(mints) else {}
        return Tokens(known, 9, 9, 9, 150.0)

    async def known(self, mints: Iterable[str]) -> dict[str, Any]:
        self.asked = [*mints]
        return {
            mint: SimpleNamespace(account=SimpleNamespace(decimals=self.mints[mint]))
            for mint in self.asked
            if mint in self.mints
        }

    async def price(self, tokens: Tokens, decimals: Mapping[str, int | None]) -> list[bytes]:
        if (places := decimals.get(text(LP))) is not None:
            of_pool = PoolPrice(1000, Fraction(10**9), Fraction(3 * 10**6), "", 1, 1, 1, 1)
            tokens.by_mint[text(LP)] = Token(
                text(LP),
                facts(text(LP), None, None),
                None,
                of_pool.per_token(places),
                "pool",
                b"",
                pool_price=of_pool,
            )
        return [VAULT] if text(LP) in decimals else []

    async def of_markets(self, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
        return frozenset(tokens.by_mint)

    async def of_pools(self, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
        return frozenset(mint for mint in mints if mint in tokens.by_mint)


def reader(stores: Any) -> PriceReader:
    return PriceReader(stores, stores, stores, stores)


def position(*mints: bytes) -> Position:
    """Return a farm's deposit, which does not say the decimals of what it holds."""
    return Position("farms", ACCOUNT, assets=[Asset(Role.SUPPLY, mint, 500) for mint in mints])


async def test_an_lp_token_in_a_farm_is_worth_what_it_is_worth_in_the_wallet() -> None:
    stores = Stores({LP: 9})
    deposit = position(LP)
    prices = await reader(stores).of([deposit])
    found = record("p99", deposit, prices)
    [asset] = found["assets"]
    assert (asset["amount"], asset["price_source"]) == (500 / 10**9, "pool")
    assert found["value_usd_micros"] == "1500000"  # half of the pool
    assert (prices.unknown, prices.vaults) == ([], [VAULT])


async def test_what_is_not_known_yet_is_named_so_that_it_can_be_asked_for() -> None:
    stores = Stores({})
    prices = await reader(stores).of([position(LP, NEW)])
    assert prices.unknown == [text(LP), text(NEW)]
    assert record("p99", position(LP), prices)["assets"][0]["value_usd"] is None


async def test_mints_are_asked_only_of_what_no_market_prices() -> None:
    stores = Stores({})
    prices = await reader(stores).of([position(COIN, key(USDC))])
    assert prices.verified == MONEY | {text(COIN)}
    assert (stores.asked, prices.unknown, prices.vaults) == ([], (), ())
