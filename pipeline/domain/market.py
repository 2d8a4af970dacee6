"""The market of one mint: price, candles, rolling figures, pools, curve, holders, what it is.

Values in, values out. `begin_slot`, the slot's events and balances in their order, `end_slot`.
What was there before is loaded by the caller: see `MintMarket.traders.known` and `Holders`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from pipeline.domain import curve, trending
from pipeline.domain.candles import Bar, extend
from pipeline.domain.holders import MAKERS, Holders
from pipeline.domain.pool_trade import Trade, trade_of
from pipeline.domain.price import SHOWS_NO_PRICE, MintPrice
from pipeline.domain.rolling import Series, Traders
from schemas.amounts import LAMPORTS, human
from schemas.events import Creation, Migration, Side, Swap
from schemas.markets import (
    MAX_PRICE,
    MAX_VOLUME,
    MINUTE,
    MINUTES_KEPT,
    PRICE_SCALE,
    QUARTER,
    QUARTERS_KEPT,
    SHORT_PREFIX,
    Candle,
    Head,
    PoolFacts,
    sold_pct,
    whole,
)
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.addresses import key as raw

SOL_DIGITS: Final = 24 - 9  # a price is in 1e-24 SOL, a lamport is 1e-9
MAX_POOLS: Final = 64
QUARTER_MS: Final = QUARTER * 60_000
SIDES: Final = 2  # liquidity counts both sides of a pool, taken for equal

SolUsd = tuple[int, int]  # dollars for SOL, an exact ratio


@dataclass(slots=True)
class Token:
    """What a mint is, by the chain's events; empty or None while not known."""

    name: str = ""
    symbol: str = ""
    uri: str = ""
    decimals: int | None = None
    supply_raw: int | None = None
    creator: str = ""
    platform: str = ""
    dex: str = ""  # where it was created
    pool: str = ""
    quote_mint: str = ""
    token_program: str = ""
    created_slot: int | None = None
    created_ms: int | None = None
    migrated_slot: int | None = None
    migrated_ms: int | None = None
    migrated_dex: str = ""
    migrated_pool: str = ""


class Pool:
    """A pool of the mint, and its rolling figures by quarter hour."""

    __slots__ = ("facts", "prefix", "quarters")

    def __init__(self, address: str, facts: PoolFacts, quarters: bytes = b"") -> None:
        self.facts = facts
        self.quarters = Series(QUARTER, QUARTERS_KEPT, quarters)
        self.prefix = raw(address)  # before a wallet, in the mint's set of traders
        if not facts.traders_by_address:
            self.prefix = self.prefix[:SHORT_PREFIX]


class MintMarket:
    """The market of one mint."""

    __slots__ = (
        "_bar",
        "_sol_usd",
        "candles",
        "changed_pools",
        "dropped_pools",
        "head",
        "holders",
        "is_stored",
        "mint",
        "minutes",
        "pools",
        "price",
        "quarters",
        "token",
        "token_changed",
        "token_unwritten",
        "traded",
        "traders",
    )

    def __init__(self, mint: str) -> None:
        self.mint = mint
        self.head = Head()
        self.token = Token()
        self.price = MintPrice()
        self.candles: list[Candle] = []
        self.minutes = Series(MINUTE, MINUTES_KEPT)
        self.quarters = Series(QUARTER, QUARTERS_KEPT)
        self.pools: dict[str, Pool] = {}
        self.traders = Traders()
        self.holders = Holders()
        self.is_stored = False  # until it has been written once
        self.token_changed = False  # in this slot
        self.token_unwritten = self.traded = False  # changed since it was last written
        self.changed_pools: set[str] = set()
        self.dropped_pools: set[str] = set()
        self._bar: Bar | None = None
        self._sol_usd: SolUsd | None = None

    # A slot.

    def begin_slot(self, slot: int, time_ms: int, sol_usd: SolUsd | None) -> None:
        """Begin a slot in which something happens to the mint; time never goes back."""
        self.head.slot = slot
        self.head.time_ms = time_ms
        self._sol_usd = sol_usd
        self.token_changed = False

    def reference(self) -> None:
        """Take the slot's SOL/USD as the price; this market is SOL's own."""
        self.traded = True
        head = self.head
        head.price_sol, head.price_usd = PRICE_SCALE, self._in_dollars(PRICE_SCALE)
        head.first_sol = head.first_sol or head.price_sol
        head.first_usd = head.first_usd or head.price_usd
        if self._bar is None:
            self._bar = Bar()
        self._bar.quote(PRICE_SCALE)

    def swap(self, swap: Swap) -> None:
        """Take a swap."""
        self.traded = True
        minute = self.head.time_ms // 60_000
        trade = trade_of(swap)
        if trade is not None:
            verdict = self.price.apply(trade)
            self._reprice(swap.decimals)
            if verdict in SHOWS_NO_PRICE:
                trade = None
        if self.token.decimals is None:
            self.token.decimals, self.token_changed = swap.decimals, True
        if swap.platform and not self.head.is_launched:
            self._launched(swap.platform)
        # Volumes are of the trades whose value is known, as every answer with one says.
        lamports, usd_micros = swap.sol_value_lamports or 0, swap.usd_value_micros or 0
        is_buy = swap.side is Side.BUY
        head = self.head
        if self._bar is None:
            self._bar = Bar()
        self._bar.add(
            is_buy=is_buy,
            amount_raw=swap.amount_raw,
            lamports=lamports,
            usd_micros=usd_micros,
            price_sol=head.price_sol,
        )
        for series in (self.minutes, self.quarters):
            series.add(
                minute,
                is_buy=is_buy,
                lamports=lamports,
                usd_micros=usd_micros,
                close_sol=head.price_sol,
                close_usd=head.price_usd,
            )
        wallet = raw(swap.wallet)
        self.traders.traded(wallet, minute, usd_micros, (self.minutes, self.quarters))
        if (pool := self._pool(swap)) is not None:
            self._traded_in(pool, swap, trade, wallet)
        self._curve(swap)

    def created(self, creation: Creation) -> None:
        """Take the creation of the mint; of several the first counts."""
        if creation.pool:
            self.holders.exclude(raw(creation.pool))
        if self.token.created_slot is not None:
            return
        token = self.token
        token.name, token.symbol, token.uri = creation.name, creation.symbol, creation.uri
        token.creator, token.platform = creation.creator, creation.platform or token.platform
        token.dex, token.pool = creation.dex, creation.pool
        token.quote_mint = creation.quote_mint
        if creation.decimals is not None:
            token.decimals = creation.decimals
        token.supply_raw = creation.supply_raw
        token.token_program = creation.token_program or token.token_program
        token.created_slot, token.created_ms = creation.slot, creation.block_time_ms
        self.head.is_launched = self.head.is_launched or bool(creation.platform)
        self.token_changed = True
        if creation.creator:
            self.holders.created_by(raw(creation.creator))

    def migrated(self, migration: Migration) -> None:
        """Take the migration from the curve to a pool; of several the first counts."""
        self.price.migrated(migration.from_pool, migration.pool)
        self.traded = True  # the price is another: it must be written before it is forgotten
        token = self.token
        if token.decimals is not None:
            self._reprice(token.decimals)
        if token.migrated_slot is None:
            token.migrated_slot, token.migrated_ms = migration.slot, migration.block_time_ms
            token.migrated_dex, token.migrated_pool = migration.dex, migration.pool
            self.token_changed = True
        if migration.platform and not self.head.is_launched:
            self._launched(migration.platform)
        if migration.pool:
            self.holders.exclude(raw(migration.pool))
        if (left := self.pools.get(migration.from_pool)) and left.facts.liquidity_lamports:
            left.facts.liquidity_lamports = 0
            self.changed_pools.add(migration.from_pool)

    def balance(
        self,
        account: bytes,
        owner: str,
        amount_raw: int,
        *,
        decimals: int,
        is_vault: bool,
        is_token_2022: bool,
    ) -> None:
        """Take what an account holds after the slot."""
        token = self.token
        if not token.token_program or token.decimals is None:
            token.token_program = text(TOKEN_2022_PROGRAM if is_token_2022 else TOKEN_PROGRAM)
            token.decimals = decimals
            self.token_changed = True
        self.holders.set(account, raw(owner), amount_raw, is_vault=is_vault)

    def end_slot(self) -> None:
        """Close the slot: its trades become part of the candles."""
        if self._bar is not None:
            bar = self._bar.candle(self.head.slot, self._sol_usd)
            extend(self.candles, bar, self.head.time_ms // 1000)
            self._bar = None
        self.token_unwritten |= self.token_changed
        head = self.head
        head.holder_count = self.holders.count
        head.creator_raw = self.holders.creator_raw
        head.liquidity_lamports = self._liquidity_lamports()

    # What is in memory.

    @property
    def details(self) -> int:
        """How many accounts, owners and traders are in memory."""
        return len(self.holders.accounts) + len(self.holders.owners) + len(self.traders.known)

    def forget_details(self) -> None:
        """Drop those that the store has, but for the largest holders."""
        self.traders.forget()
        self.holders.forget()

    # What is published.

    @property
    def is_migrated(self) -> bool:
        """Whether the token has left its curve."""
        return self.token.migrated_slot is not None

    def score(self, minute: int) -> int:
        """Return the trending score; 0 for a token of no launch platform."""
        if not self.head.is_launched:
            return 0
        return trending.score(self.minutes.data, self.quarters.data, minute)

    def record(
        self, minute: int, sol_usd: SolUsd | None, from_rpc: Token | None = None
    ) -> dict[str, Any]:
        """Return the message of the trending list about this token, at a minute.

        `from_rpc` completes a token without a name.
        """
        top10_raw = self.holders.top_raw(10)
        quarters = self.quarters.data
        return trending_record(
            self.mint, self.token, self.head, quarters, top10_raw, minute, sol_usd, from_rpc
        )

    def _liquidity_lamports(self) -> int | None:
        """Return the liquidity of all pools where it is known, both sides; None where it is not.

        It is known of pools that disclose it and are quoted in money (`_traded_in`).
        """
        each = [pool.facts.liquidity_lamports for pool in self.pools.values()]
        known = [lamports for lamports in each if lamports is not None]
        return min(sum(known), MAX_VOLUME) if known else None

    def _launched(self, platform: str) -> None:
        self.token.platform = self.token.platform or platform
        self.head.is_launched = self.token_changed = True

    def _reprice(self, decimals: int) -> None:
        if self.price.price is None:
            return
        head = self.head
        head.price_sol = scaled(*self.price.price, decimals)
        head.price_usd = self._in_dollars(head.price_sol)
        head.first_sol = head.first_sol or head.price_sol
        head.first_usd = head.first_usd or head.price_usd

    def _in_dollars(self, price_sol: int) -> int:
        if self._sol_usd is None:
            return 0
        dollars, sols = self._sol_usd
        return min(price_sol * dollars // sols, MAX_PRICE)

    def _traded_in(self, pool: Pool, swap: Swap, trade: Trade | None, wallet: bytes) -> None:
        """Take a swap into the figures of its pool; `trade` is None where it shows no price.

        Then price and liquidity stay: anybody can trade a unit, whose value rounds to anything.
        Liquidity is of pools quoted in money alone: one small trade gives any other quote a price,
        at which reserves of it would count as any sum. Of such a pool it is not known.
        """
        minute = self.head.time_ms // 60_000
        usd_micros = swap.usd_value_micros or 0
        facts = pool.facts
        if trade is not None:
            worth, amount_raw = trade.spot or (trade.lamports, trade.amount_raw)
            facts.price_sol = scaled(worth, amount_raw, swap.decimals)
            facts.price_usd = self._in_dollars(facts.price_sol)
            facts.first_sol = facts.first_sol or facts.price_sol
            facts.first_usd = facts.first_usd or facts.price_usd
            if not trade.in_money:
                facts.liquidity_lamports = None  # earlier versions stored one
            elif trade.depth_lamports is not None:
                facts.liquidity_lamports = min(SIDES * trade.depth_lamports, MAX_VOLUME)
        pool.quarters.add(
            minute,
            is_buy=swap.side is Side.BUY,
            lamports=swap.sol_value_lamports or 0,
            usd_micros=usd_micros,
            close_sol=facts.price_sol,
            close_usd=facts.price_usd,
        )
        self.traders.traded(pool.prefix + wallet, minute, usd_micros, (pool.quarters,))

    def _pool(self, swap: Swap) -> Pool | None:
        """Return the pool of a swap; None while there is no room for another one."""
        pool = self.pools.get(swap.pool)
        if pool is None:
            if swap.dex not in MAKERS:
                self.holders.exclude(raw(swap.pool))
            if len(self.pools) >= MAX_POOLS and not self._drop_idle_pool():
                return None
            pool = self.pools[swap.pool] = Pool(swap.pool, PoolFacts(swap.dex))
            self.dropped_pools.discard(swap.pool)
        facts = pool.facts
        facts.slot, facts.time_ms = swap.slot, self.head.time_ms
        facts.quote_mint = swap.quote_mint
        if swap.reserve_raw is not None:
            facts.reserve_raw = swap.reserve_raw
        if swap.quote_reserve_raw is not None:
            facts.quote_reserve_raw = swap.quote_reserve_raw
        self.changed_pools.add(swap.pool)
        return pool

    def _drop_idle_pool(self) -> bool:
        """Drop the pool that was idle for longest; return whether one could be dropped.

        Not one that has traded in this quarter hour: who traded in it stays in the set of traders,
        and would be taken out of a bucket begun anew without being in it.
        """
        idle = min(self.pools, key=lambda name: (self.pools[name].facts.slot, name))
        if self.pools[idle].facts.time_ms // QUARTER_MS == self.head.time_ms // QUARTER_MS:
            return False
        del self.pools[idle]
        self.changed_pools.discard(idle)
        self.dropped_pools.add(idle)
        return True

    def _curve(self, swap: Swap) -> None:
        state = None if self.is_migrated else curve.state(swap)
        if state is not None:
            self.head.curve_left_raw, self.head.curve_whole_raw = state


def scaled(lamports: int, amount_raw: int, decimals: int) -> int:
    """Return a price in 1e-24 SOL per whole token, within 128 bits."""
    units: int = 10 ** (decimals + SOL_DIGITS)
    return min(lamports * units // amount_raw, MAX_PRICE)


def trending_record(
    mint: str,
    token: Token,
    head: Head,
    quarters: bytes | bytearray,
    top10_raw: int,
    minute: int,
    sol_usd: SolUsd | None,
    from_rpc: Token | None,
) -> dict[str, Any]:
    """Return the message of the trending list about a token, at a minute.

    `top10_raw` is what its ten largest holders have; `from_rpc` completes a token without a name:
    the tape lacks its creation, or that names none. The API's list and the gateway's snapshot
    complete the same ones.
    """
    if from_rpc is not None and not token.name:
        token = replace(
            token,
            name=from_rpc.name,
            symbol=token.symbol or from_rpc.symbol,
            supply_raw=from_rpc.supply_raw if token.supply_raw is None else token.supply_raw,
        )
    decimals, supply = token.decimals, token.supply_raw
    whole_supply = human(supply, decimals) if supply else None
    price_usd = whole(head.price_usd)
    liquidity = None
    if head.liquidity_lamports is not None and sol_usd is not None:
        liquidity = head.liquidity_lamports * sol_usd[0] / sol_usd[1] / LAMPORTS
    is_migrated = token.migrated_slot is not None
    return {
        "mint": mint,
        "name": token.name,
        "symbol": token.symbol,
        "dex": token.platform,
        "creator": token.creator,
        "price_usd": price_usd,
        "market_cap": price_usd * whole_supply if price_usd and whole_supply else None,
        "liquidity_usd": liquidity,
        **trending.volumes(quarters, minute),
        "holder_count": head.holder_count,
        "top10_holders_pct": trending.percent(top10_raw, supply),
        "dev_holding_pct": trending.percent(head.creator_raw, supply) if token.creator else None,
        "bonding_curve_pct": sold_pct(
            head.curve_left_raw, head.curve_whole_raw, is_migrated=is_migrated
        ),
        "is_migrated": is_migrated,
        "supply": whole_supply,
        "decimals": decimals,
    }
