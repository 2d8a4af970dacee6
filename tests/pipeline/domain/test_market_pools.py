"""A mint with more pools than are followed, or that leaves its curve for another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

from pipeline.domain.market import MAX_POOLS, QUARTER_MS, MintMarket
from schemas.events import Commitment, Migration, Swap
from schemas.markets import MINUTE, window
from schemas.money import WSOL
from schemas.solana.addresses import key as raw
from schemas.solana.addresses import text

T0_MS = QUARTER_MS * 1_900_000
MINT = text(bytes(32))
DAY = 24 * 60


def address(name: object) -> str:
    return text(sha256(str(name).encode()).digest())


def trade(
    market: MintMarket,
    swap: Callable[..., Swap],
    at_ms: int,
    pools: Iterable[object],
    wallet: str,
    **fields: int,
) -> None:
    """Let a wallet trade in pools, one a slot."""
    for pool in pools:
        market.holders.owners.setdefault(raw(address(pool)), 0)
        for member in (raw(wallet), raw(address(pool)) + raw(wallet)):
            market.traders.known.setdefault(member, None)
        slot = market.head.slot + 1
        market.begin_slot(slot, at_ms, (150, 1))
        worth = {"sol_value_lamports": 10**9, "usd_value_micros": 150 * 10**6} | fields
        market.swap(
            swap(MINT, WSOL, 10**9, 10**9, pool=address(pool), wallet=wallet, slot=slot, **worth)
        )
        market.end_slot()


def test_more_pools_than_are_followed_in_one_quarter_hour(swap: Callable[..., Swap]) -> None:
    market, wallet = MintMarket(MINT), address("wallet")
    for _ in range(2):
        trade(market, swap, T0_MS, range(MAX_POOLS + 3), wallet)
    assert set(market.pools) == {address(pool) for pool in range(MAX_POOLS)}
    for pool in market.pools.values():
        figures = window(pool.quarters.data, T0_MS // 60_000, DAY)
        assert (figures.traders, figures.buys) == (1, 2)
    whole = window(market.quarters.data, T0_MS // 60_000, DAY)
    assert (whole.traders, whole.buys) == (1, 2 * (MAX_POOLS + 3))
    assert window(market.minutes.data, T0_MS // 60_000, MINUTE).traders == 1


def test_a_pool_that_is_idle_gives_way_and_begins_anew(swap: Callable[..., Swap]) -> None:
    market, wallet, other = MintMarket(MINT), address("wallet"), address("other")
    later_ms = T0_MS + QUARTER_MS
    trade(market, swap, T0_MS, range(MAX_POOLS), wallet)
    trade(market, swap, later_ms, [MAX_POOLS], wallet)
    assert address(0) not in market.pools
    trade(market, swap, later_ms, [0], other)
    trade(market, swap, later_ms, [0], wallet)
    figures = window(market.pools[address(0)].quarters.data, later_ms // 60_000, DAY)
    assert (figures.traders, figures.buys) == (2, 2)
    assert address(1) not in market.pools


def test_pools_of_like_addresses_count_their_traders_apart(swap: Callable[..., Swap]) -> None:
    """Anybody can make two addresses that begin alike."""
    market, wallets = MintMarket(MINT), [address("one"), address("other")]
    pools = [text(b"12345678" + bytes([number]) * 24) for number in (1, 2)]
    minute = T0_MS // 60_000
    market.begin_slot(1, T0_MS, (150, 1))
    for pool in pools:
        market.holders.owners[raw(pool)] = 0
        for wallet in wallets:
            for member in (raw(wallet), raw(pool) + raw(wallet)):
                market.traders.known.setdefault(member, None)
    for pool in pools:
        for wallet in wallets:
            market.swap(
                swap(
                    MINT, WSOL, 10**9, 10**9, pool=pool, wallet=wallet,
                    sol_value_lamports=10**9, usd_value_micros=150 * 10**6,
                )
            )  # fmt: skip
    for pool in pools:
        assert window(market.pools[pool].quarters.data, minute, DAY).traders == 2
    assert window(market.quarters.data, minute, DAY).traders == 2


def test_a_migration_to_a_pool_that_has_traded_moves_the_price(swap: Callable[..., Swap]) -> None:
    market, wallet = MintMarket(MINT), address("wallet")
    curve, pool = address("curve"), address("pool")
    deep = {"quote_reserve_raw": 10**12}
    trade(market, swap, T0_MS, ["curve"] * 20, wallet, **deep)
    trade(market, swap, T0_MS, ["pool"], wallet, sol_value_lamports=2 * 10**9, **deep)
    slot = market.head.slot
    sol, usd = market.head.price_sol, market.head.price_usd
    market.begin_slot(slot + 1, T0_MS, (151, 1))
    market.migrated(
        Migration(
            "s", slot + 1, 0, 0, T0_MS, MINT, "", "", curve, "", pool, WSOL,
            None, None, Commitment.CONFIRMED,
        )
    )  # fmt: skip
    market.end_slot()
    assert market.head.price_sol == 2 * sol
    assert market.head.price_usd == 2 * usd * 151 // 150
