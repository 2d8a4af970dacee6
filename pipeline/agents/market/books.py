"""The books of agent `market` on one partition: the markets of its mints, and what is due by time.

Time is the chain's. When its second changes, the candles of one second that were open are
finished, and the trending list hears of the mints something happened to; when its minute changes,
the longer candles of these mints are written, and the list fades. All of it is a function of the
slots: how they are cut into flushes, and what is in memory, makes no difference to any byte. A mint
of which a stored value cannot be read is left out (`settled.quarantine`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from pipeline.agents.market.cold import TURN_MS, ColdMarkets
from pipeline.agents.market.cold_rows import ColdRows
from pipeline.agents.market.load import Loader, MintSlot, Slot, decode, needs
from pipeline.agents.market.registry import Registry
from pipeline.agents.market.resting import Resting
from pipeline.agents.market.state import commands
from pipeline.agents.market.trending_list import TrendingList
from pipeline.agents.market.trending_stream import TrendingStream
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.quarantine import Quarantine, read_quarantine
from pipeline.domain.market import MintMarket, SolUsd, Token
from schemas.channels import LiveEvent, trending_event, trending_removed_event
from schemas.compact_json import compact_json
from schemas.events import Creation, Migration, Swap
from schemas.markets import INTERVALS_S, PRICE_SCALE, QUARTER, Candle
from schemas.money import WSOL
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import ACTIVE, MARKETS, TRENDING, mint_tag, tag_of_mints
from schemas.rows import CANDLES, COLD_MARKETS, HOLDER_SNAPSHOTS, TOKENS
from schemas.solana.addresses import text

GROUP: Final = "market"
MARKETS_IN_MEMORY: Final = 1_000  # of one partition, about 16 KiB each; more if all are needed
DETAILS_IN_MEMORY: Final = 20_000  # accounts, owners and traders of one mint
DETAILS_MIN: Final = 1  # these are forgotten, of all mints, so often
IDLE_MIN: Final = 2  # a market that nothing happened to for so long leaves memory
SNAPSHOT_EVERY_MIN: Final = QUARTER

_SECOND, *_LONGER = range(len(INTERVALS_S))
_LENGTHS: Final = tuple(INTERVALS_S.values())


class MarketBooks:
    """The markets of one partition. `open_books` makes them."""

    def __init__(
        self,
        redis: Redis,
        partition: int,
        registry: Registry,
        cold_rows: ColdRows,
        cold_after_days: int,
        stream: TrendingStream,
        quarantine: Quarantine,
    ) -> None:
        self.quarantine = quarantine
        self._command: Callable[..., Awaitable[Any]] = redis.execute_command
        self._stream = stream
        self._opening = stream.opening()
        self._registry = registry
        self._tag = tag_of_mints(partition)
        self._prices_sol = self._tag == mint_tag(WSOL)  # one of the partitions does
        self._markets: dict[str, MintMarket] = {}  # least recently used first
        self._resting: dict[str, Resting] = {}  # the others on the trending list
        self._loader = Loader(redis, self._tag, self._markets, quarantine)
        self._cold = ColdMarkets(redis, self._tag, cold_after_days, cold_rows, quarantine)
        self._decoded: dict[int, Slot] = {}
        self._slot = 0
        self._time_ms = 0
        self._sol_usd: SolUsd | None = None
        self._this_second: set[str] = set()  # mints that something happened to
        self._this_minute: set[str] = set()
        self._changed: dict[str, None] = {}  # since the last take
        self._in_flight: dict[str, None] = {}
        self._trending = TrendingList(self._tag)
        self._forgot_min = 0  # when `written` last forgot what is idle,
        self._forgot_details_min = 0  # and all details
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._taken_frames: dict[str, LiveEvent] = {}
        self._written_frames: dict[str, LiveEvent] = {}  # to publish live

    async def open(self) -> None:
        """Read what has to be in memory at the watermark; raises RedisError, ClickHouseError."""
        await self._cold.prepare()
        ask = self._command
        head = await ask("HGETALL", MARKETS.make(tag=self._tag))
        if not head:
            return
        self._slot, self._time_ms = int(head[b"slot"]), int(head[b"time_ms"])
        if b"sol_usd" in head:
            dollars, sols = head[b"sol_usd"].split(b"/")
            self._sol_usd = int(dollars), int(sols)
        minute_ms = self._time_ms - self._time_ms % 60_000
        second_ms = self._time_ms - self._time_ms % 1_000
        self.quarantine.slot = self._slot + 1
        active = ACTIVE.make(tag=self._tag)
        this_minute = await ask("ZRANGE", active, minute_ms, "+inf", "BYSCORE", "WITHSCORES")
        for mint, time_ms in this_minute:
            self._this_minute.add(mint.decode())
            if time_ms >= second_ms:
                self._this_second.add(mint.decode())
        listed = await ask("ZRANGE", TRENDING.make(tag=self._tag), 0, -1, "WITHSCORES")
        self._trending.restore((mint.decode(), int(score)) for mint, score in listed)
        await self._loader.load_whole([*self._this_minute, *self._trending.scores])
        evicted = [
            mint
            for mint in self._trending.scores
            if mint not in self.quarantine and not self._markets[mint].is_stored
        ]
        for mint, market in (await self._cold.read(evicted, self._slot + 1)).items():
            del self._markets[mint]
            self._resting[mint] = Resting(market)
        for mint in self.quarantine:
            self._leave_out(mint)
        for mint in self._trending.scores:  # before they are announced; `load` finds them in memory
            if not self._listed(mint).token.name:
                self._ask_name(mint)

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read what the batches need; raises CodecError for a wrong one.

        Raises RedisError and ClickHouseError.
        """
        self.quarantine.slot = batches[0].slot
        decoded = {batch.slot: decode(batch) for batch in batches}
        if self._prices_sol:
            for slot in decoded.values():
                if slot.sol_usd is not None:
                    slot.mints.setdefault(WSOL, MintSlot())
        wanted = needs(decoded.values())
        await self._cold.find_idle(
            self._time_ms,
            [slot.time_ms for slot in decoded.values()],
            {*wanted, *self._changed, *self._in_flight, *self._this_minute},
        )
        new = [mint for mint in wanted if mint not in self._markets and mint not in self.quarantine]
        woken = set()
        for market, known in await self._cold.wake(new, min(decoded)) if new else ():
            woken.add(market.mint)
            self._markets[market.mint] = market
            self._changed[market.mint] = None
            self._registry.woken(market.mint, known)
        await self._loader.load(wanted)
        for mint in self.quarantine.fresh():
            self._leave_out(mint)
        if self.quarantine:
            for slot in decoded.values():
                slot.mints = {m: s for m, s in slot.mints.items() if m not in self.quarantine}
        for mint in wanted:
            self._resting.pop(mint, None)
        self._decoded = decoded
        for mint in new:
            if mint in self.quarantine:
                continue
            market = self._markets[mint]
            if (market.is_stored or mint in woken) and not market.token.name:
                self._ask_name(mint)

    def _leave_out(self, mint: str) -> None:
        """Forget a mint in quarantine, on the trending list as well."""
        listed = self._markets.pop(mint, None) or self._resting.pop(mint, None)
        for place in (self._resting, self._changed, self._in_flight):
            place.pop(mint, None)
        self._cold.leave_out(mint)
        self._this_second.discard(mint)
        self._this_minute.discard(mint)
        if mint in self._trending.scores:
            self._trending.drop(mint)
            dex = listed.token.platform if listed else ""
            self._trending.frames[mint] = trending_removed_event(mint, dex)

    def apply(self, batch: SlotBatch) -> None:
        """Take one slot."""
        slot = self._decoded.pop(batch.slot)
        before_ms, now_ms = self._time_ms, max(slot.time_ms, self._time_ms)
        if now_ms // 1000 != before_ms // 1000:
            self._second_ended()
            if now_ms // 60_000 != before_ms // 60_000:
                self._minute_ended(now_ms // 60_000)
            if now_ms // TURN_MS != before_ms // TURN_MS:
                self._put_away(now_ms, slot.slot)
        self._slot, self._time_ms = slot.slot, now_ms
        self._sol_usd = slot.sol_usd or self._sol_usd
        for mint, work in slot.mints.items():
            market = self._markets.pop(mint)
            self._markets[mint] = market
            market.begin_slot(slot.slot, now_ms, self._sol_usd)
            if mint == WSOL and slot.sol_usd is not None:
                market.reference()
            for event in work.events:
                if isinstance(event, Swap):
                    market.swap(event)
                elif isinstance(event, Creation):
                    market.created(event)
                elif isinstance(event, Migration):
                    market.migrated(event)
            for balance in work.balances:
                market.balance(
                    balance.account,
                    balance.owner,
                    balance.amount_raw,
                    decimals=balance.decimals,
                    is_vault=balance.is_vault,
                    is_token_2022=balance.is_token_2022,
                )
            market.end_slot()
            if market.token_changed:
                self._row(TOKENS.name, _token_row(market))
                if not market.token.name:
                    self._ask_name(mint)
            self._changed[mint] = None
            self._this_second.add(mint)
            self._this_minute.add(mint)

    def take(self) -> Writes:
        """Return the changes since the last take."""
        cold_rows, written = self._cold.take()
        if cold_rows:
            self._rows[COLD_MARKETS.name] = cold_rows
        active: list[Any] = []
        for mint in self._changed:
            market = self._markets[mint]
            written += commands(self._tag, market)
            active += (market.head.time_ms, mint)
        if active:
            written.append(("ZADD", ACTIVE.make(tag=self._tag), *active))
        written += self._trending.commands()
        written += self.quarantine.commands()
        head: list[Any] = ["slot", self._slot, "time_ms", self._time_ms]
        if self._sol_usd is not None:
            head += ("sol_usd", f"{self._sol_usd[0]}/{self._sol_usd[1]}")
        written.append(("HSET", MARKETS.make(tag=self._tag), *head))
        self._in_flight, self._changed = self._changed, {}
        rows, self._rows = self._rows, {}
        self._taken_frames |= self._trending.take_frames()
        return Writes(rows, written)

    def written(self) -> None:
        """Publish the frames of what was written, and drop what has not been used for long."""
        self._cold.written()
        for mint in self._in_flight:  # changed again meanwhile or not: a market may never rest
            market = self._markets[mint]
            if market.details > DETAILS_IN_MEMORY:
                market.forget_details()
        self._in_flight = {}
        self._written_frames |= self._taken_frames
        self._taken_frames = {}
        self._forget_surplus()
        if (minute := self._time_ms // 60_000) != self._forgot_min:
            self._forgot_min = minute
            self._forget_idle((minute - IDLE_MIN) * 60_000)
            if minute - self._forgot_details_min >= DETAILS_MIN:
                self._forgot_details_min = minute
                for market in self._markets.values():
                    market.forget_details()

    async def evict(self, slot: int) -> Writes | None:
        """Put markets away before they are due: those that rest for longest, as Redis has them.

        Not those that opening the books at this watermark, or the list, needs from Redis.
        """
        ask = self._command
        time_ms = int(await ask("HGET", MARKETS.make(tag=self._tag), "time_ms") or 0)
        listed = await ask("ZRANGE", TRENDING.make(tag=self._tag), 0, -1)
        skip = {*self._changed, *self._in_flight, *self._this_minute, *self._cold.pending}
        for mint in {*map(bytes.decode, listed), *self._trending.scores}:
            market = self._markets.get(mint) or self._resting.get(mint)
            # Readers of the list complete the record of one without a name from its holders.
            if market is None or not market.token.name:
                skip.add(mint)
        evicted = await self._cold.evict(time_ms - time_ms % 60_000, skip, slot)
        if evicted is None:
            return None
        mints, writes = evicted
        self._forget([mint for mint in mints if mint in self._markets])
        return writes

    def _forget_surplus(self) -> None:
        surplus = len(self._markets) - MARKETS_IN_MEMORY
        if surplus <= 0:
            return
        idle: list[str] = []
        for mint in self._markets:
            if len(idle) == surplus:
                break
            if not self._is_needed(mint):
                idle.append(mint)
        self._forget(idle)

    def _forget_idle(self, before_ms: int) -> None:
        """Forget the markets to which nothing happened since a time."""
        self._forget(
            [
                mint
                for mint, market in self._markets.items()
                if market.head.time_ms < before_ms and not self._is_needed(mint)
            ]
        )

    def _forget(self, mints: Iterable[str]) -> None:
        """Forget markets, which Redis has; of those on the trending list keep what that needs."""
        for mint in mints:
            market = self._markets.pop(mint)
            if mint in self._trending.scores:
                self._resting[mint] = Resting(market)

    def _is_needed(self, mint: str) -> bool:
        return mint in self._changed or mint in self._this_minute

    async def tick(self) -> None:
        """Publish the trending records that were written to the live stream, the latest of each.

        Where Redis is away they wait.
        """
        if not self._written_frames:
            return
        with suppress(RedisError):
            await self._stream.publish(self._opening, list(self._written_frames.values()))
            self._written_frames = {}

    # What is due by time.

    def _second_ended(self) -> None:
        """Finish the candles of the second, and rank the mints that something happened to."""
        minute = self._time_ms // 60_000
        second = self._time_ms // 1000
        for mint in sorted(self._this_second):
            market = self._markets[mint]
            if market.candles and market.candles[_SECOND].start_s == second:
                self._row(CANDLES.name, candle_row(mint, 1, market.candles[_SECOND]))
            if self._trending.rank(mint, market.score(minute)):
                self._announce(market, minute)
        self._this_second.clear()
        self._announce_removals()

    def _minute_ended(self, now_min: int) -> None:
        """Write the longer candles of the minute and snapshots of holders; let the list fade."""
        minute_s = self._time_ms // 60_000 * 60
        for mint in sorted(self._this_minute):
            market = self._markets[mint]
            if market.candles and market.candles[_LONGER[0]].start_s == minute_s:
                for at in _LONGER:
                    self._row(CANDLES.name, candle_row(mint, _LENGTHS[at], market.candles[at]))
            head = market.head
            if head.holder_count and now_min - head.snapshot_min >= SNAPSHOT_EVERY_MIN:
                head.snapshot_min = now_min
                self._changed[mint] = None
                self._row(HOLDER_SNAPSHOTS.name, _snapshot_row(market))
        self._this_minute.clear()
        for mint in sorted(self._trending.scores):
            listed = self._listed(mint)
            if self._trending.rank(mint, listed.score(now_min)):
                self._announce(listed, now_min)
        self._announce_removals()

    def _put_away(self, now_ms: int, slot: int) -> None:
        """Put away the markets that have been at rest for days."""

        def last_moved_ms(mint: str) -> int:
            return self._markets[mint].head.time_ms

        for mint in self._cold.turn(now_ms, last_moved_ms, slot):
            self._markets.pop(mint, None)

    def _listed(self, mint: str) -> MintMarket | Resting:
        """Return a market of the trending list, or one that has just left it."""
        return self._markets.get(mint) or self._resting[mint]

    def _announce(self, market: MintMarket | Resting, minute: int) -> None:
        record = market.record(minute, self._sol_usd)
        if self._trending.record(market.mint, compact_json(record)):
            if not record["name"]:
                # Once more: a full queue, a refusal or an eviction may have cost the answer.
                self._ask_name(market.mint)
                if known := self._registry.known(market.mint):
                    from_rpc = Token(known.name, known.symbol, supply_raw=known.supply_raw)
                    record = market.record(minute, self._sol_usd, from_rpc)
            self._trending.frames[market.mint] = trending_event(record)

    def _ask_name(self, mint: str) -> None:
        # The account of wrapped SOL has neither SOL's name nor its supply.
        if mint != WSOL:
            self._registry.ask(mint)

    def _announce_removals(self) -> None:
        for mint in sorted(self._trending.left):
            dex = self._listed(mint).token.platform
            self._trending.frames[mint] = trending_removed_event(mint, dex)
            self._resting.pop(mint, None)
        self._trending.left.clear()

    def _row(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows.setdefault(table, []).append(row)


async def open_books(
    redis: Redis,
    partition: int,
    registry: Registry,
    cold_rows: ColdRows,
    cold_after_days: int,
    stream: TrendingStream | None = None,
) -> MarketBooks:
    """Return the books of a partition as Redis has them; raises RedisError, ClickHouseError.

    All books of a process share a stream.
    """
    stream = stream or TrendingStream(redis)
    quarantine = await read_quarantine(redis, GROUP, tag_of_mints(partition))
    books = MarketBooks(redis, partition, registry, cold_rows, cold_after_days, stream, quarantine)
    await books.open()
    return books


def candle_row(mint: str, length_s: int, candle: Candle) -> tuple[Any, ...]:
    """Return the row of a candle."""
    return (
        mint,
        length_s,
        candle.start_s * 1000,
        candle.open_sol / PRICE_SCALE,
        candle.high_sol / PRICE_SCALE,
        candle.low_sol / PRICE_SCALE,
        candle.close_sol / PRICE_SCALE,
        candle.open_usd / PRICE_SCALE,
        candle.high_usd / PRICE_SCALE,
        candle.low_usd / PRICE_SCALE,
        candle.close_usd / PRICE_SCALE,
        candle.amount_raw,
        candle.lamports,
        candle.usd_micros,
        candle.buys,
        candle.sells,
        candle.slot,
    )


def _token_row(market: MintMarket) -> tuple[Any, ...]:
    token = market.token
    return (
        market.mint,
        token.name,
        token.symbol,
        token.uri,
        token.decimals,
        token.supply_raw,
        token.creator,
        token.platform,
        token.dex,
        token.pool,
        token.quote_mint,
        token.token_program,
        token.created_slot,
        token.created_ms,
        token.migrated_slot,
        token.migrated_ms,
        token.migrated_dex,
        token.migrated_pool,
        market.head.slot,
    )


def _snapshot_row(market: MintMarket) -> tuple[Any, ...]:
    top = market.holders.top(100)
    return (
        market.mint,
        market.head.time_ms,
        market.head.holder_count,
        market.head.creator_raw,
        _texts(owner for owner, _ in top),
        [amount for _, amount in top],
        market.head.slot,
    )


def _texts(owners: Iterable[bytes]) -> list[str]:
    return [text(owner) for owner in owners]
