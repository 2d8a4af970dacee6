"""The books of one partition's wallets: positions, days, balances, leaderboards.

Transactions become flows (`domain.netting`), flows change holdings (`domain.lots`); what changed
is written as absolute values. All of it is a function of the slots applied, however they are cut
into flushes.

In memory is what was used lately. A value that Redis does not have yet is never forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pipeline.agents.pnl.cold import Asleep, ColdMints
from pipeline.agents.pnl.memory import (
    NOT_CHANGED,
    Entry,
    Place,
    Recent,
    Wallet,
    entry_at,
    raw_address,
)
from pipeline.agents.pnl.rows import Row, match_row, position_row, wallet_day_row
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Writes
from pipeline.domain.lots import Holding, Match, Realized
from pipeline.domain.netting import BUY, NO_TOKEN, SELL, Flow, flows
from schemas.positions import (
    PackedError,
    WalletDay,
    full_chunks,
    pack_balance,
    pack_wallet_day,
    unpack_wallet_day,
)
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import COLD_POSITIONS, LOT_MATCHES, POSITIONS, WALLET_DAYS
from schemas.solana.addresses import text
from schemas.times import DAY_MS, HOUR_MS

DAYS_KEPT: Final = 35
RECENT: Final = 4_000  # positions, and wallets, that a generation in memory holds
GENERATION_MS: Final = 30_000  # the longest that one lasts, in the chain's time
_CHUNKS_IN_MEMORY: Final = 8
_FIRST_READ_CHUNKS: Final = 4  # then four times as many each time


class PnlBooks:
    """`pipeline.agents.settled.lane.Books` of the wallets of one partition."""

    def __init__(self, store: Store, cold: ColdMints, clock_ms: int, recent: int = RECENT) -> None:
        self._store = store
        self._cold = cold
        self._clock_ms = clock_ms  # the latest block time
        self._entries: Recent[Place, Entry] = Recent(recent)
        self._wallets: Recent[str, Wallet] = Recent(recent)
        self._generation_ms = clock_ms  # when the last one began
        self._flows: dict[int, list[Flow]] = {}  # of the slots that were loaded
        self._idle: dict[str, set[str]] = {}  # mints these may put away -> their wallets
        # What the next `take` returns.
        self._dirty: dict[Place, Entry] = {}
        self._dirty_wallets: dict[str, Wallet] = {}
        self._balances: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._commands: list[tuple[Any, ...]] = []
        # What the last one did.
        self._writing: dict[Place, Entry] = {}

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions and wallets of the batches that are not in memory."""
        self._flows = {batch.slot: flows(batch) for batch in batches}
        entries, wallets = self._entries, self._wallets
        new_places: dict[Place, None] = {}
        new_wallets: dict[str, None] = {}
        for slot_flows in self._flows.values():
            for flow in slot_flows:
                place = (flow.wallet, flow.mint)
                if flow.mint != NO_TOKEN and entries.get(place) is None:
                    new_places[place] = None
                if wallets.get(flow.wallet) is None:
                    new_wallets[flow.wallet] = None
        if new_wallets:
            now_ms = max(self._clock_ms, batches[0].block_time_ms)
            await self._load_wallets(list(new_wallets), now_ms // DAY_MS)
        await self._wake()
        if new_places:
            await self._load_entries(new_places)
        await self._load_lots(self._disposals())
        await self._load_idle(batches)

    def apply(self, batch: SlotBatch) -> None:
        """Do the work of one slot."""
        slot = batch.slot
        time_ms = batch.block_time_ms
        if time_ms > self._clock_ms:
            self._turn(time_ms, slot)
        day = self._clock_ms // DAY_MS
        for flow in self._flows.pop(slot):
            self._apply(flow, slot, time_ms, day)
        balances = self._balances
        for balance in batch.balances:
            amount_raw = balance.amount_raw
            balances[balance.owner][balance.account] = (
                pack_balance(
                    raw_address(balance.mint), amount_raw, balance.decimals, balance.is_token_2022
                )
                if amount_raw
                else None
            )

    def take(self) -> Writes:
        """Return what changed since the last take."""
        store, rows = self._store, self._rows
        cold_rows, commands = self._cold.take(raw_address)
        rows[COLD_POSITIONS.name] += cold_rows
        commands += self._commands
        hashes: dict[str, list[bytes]] = {}
        tops: defaultdict[str, list[int | bytes]] = defaultdict(list)
        positions = rows[POSITIONS.name]
        for entry in self._dirty.values():
            name, holding = entry.wallet, entry.holding
            position = holding.position
            fields = hashes.get(name)
            if fields is None:
                fields = hashes[name] = []
            fields += (entry.mint_raw, holding.pack())
            if holding.filled or holding.emptied:
                filled, emptied = holding.changed_chunks()
                for number, chunk in filled.items():
                    commands.append(("SET", store.lots(name, entry.mint, number), chunk))
                if emptied:
                    commands.append(
                        ("UNLINK", *(store.lots(name, entry.mint, number) for number in emptied))
                    )
            score = position.realized_usd_micros
            if score != entry.score:
                entry.score = score
                tops[entry.mint] += (score, entry.wallet_raw)
            if entry.day != NOT_CHANGED:
                positions.append(position_row(position, name, entry.mint, entry.day))
        commands += [("HSET", store.positions(name), *fields) for name, fields in hashes.items()]
        commands += [("ZADD", store.top(mint), *members) for mint, members in tops.items()]
        self._take_wallets(commands)
        self._take_balances(commands)
        commands.append(("SET", store.clock, self._clock_ms))
        self._rows, self._commands = defaultdict(list), []
        self._writing, self._dirty = self._dirty, {}
        self._dirty_wallets = {}
        return Writes({name: table for name, table in rows.items() if table}, commands)

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        for entry in self._writing.values():
            if len(entry.holding.chunks) > _CHUNKS_IN_MEMORY:
                entry.holding.forget_chunks(_CHUNKS_IN_MEMORY)
        self._writing = {}
        self._cold.written()
        is_due = self._clock_ms - self._generation_ms >= GENERATION_MS
        if is_due:
            self._generation_ms = self._clock_ms
        self._entries.forget(self._dirty, is_due=is_due)
        self._wallets.forget(self._dirty_wallets, is_due=is_due)

    # Reading.

    async def _load_wallets(self, names: list[str], day: int) -> None:
        raws = [raw_address(name) for name in names]
        totals, figures = await self._store.read_wallets(raws, day)
        for name, raw, total, of_day in zip(names, raws, totals, figures, strict=True):
            self._wallets.put(
                name,
                Wallet(
                    name,
                    raw,
                    unpack_wallet_day(total) if total else WalletDay(),
                    day,
                    unpack_wallet_day(of_day) if of_day else WalletDay(),
                ),
            )

    async def _load_entries(self, wanted: Iterable[Place]) -> None:
        """Read positions; those that came from ClickHouse just now are in memory already."""
        places = [place for place in wanted if self._entries.get(place) is None]
        found = await self._store.read_positions(
            [(wallet, raw_address(mint)) for wallet, mint in places]
        )
        for place, packed in zip(places, found, strict=True):
            if packed:
                entry = entry_at(place, Holding.unpack(packed))
                entry.score = entry.holding.position.realized_usd_micros
            else:
                entry = entry_at(place, Holding.empty())
            self._entries.put(place, entry)

    def _disposals(self) -> dict[Place, int]:
        """Return how much the flows loaded may take of the positions that have full chunks."""
        wanted: defaultdict[Place, int] = defaultdict(int)
        for slot_flows in self._flows.values():
            for flow in slot_flows:
                if flow.side == SELL or flow.sent_raw or flow.burned_raw:
                    place = (flow.wallet, flow.mint)
                    if full_chunks(self._entry_of(place).holding.position):
                        sold_raw = flow.quantity_raw if flow.side == SELL else 0
                        wanted[place] += sold_raw + flow.sent_raw + flow.burned_raw
        return wanted

    async def _load_lots(self, wanted: dict[Place, int]) -> None:
        """Read the full chunks that a quantity to be disposed of reaches."""
        at_once = _FIRST_READ_CHUNKS
        while wanted:
            keys: list[str] = []
            targets: list[tuple[Holding, int]] = []
            for place in [*wanted]:
                holding = self._entry_of(place).holding
                missing = holding.missing_chunk(wanted[place])
                if missing is None:
                    del wanted[place]
                    continue
                end = min(missing + at_once, full_chunks(holding.position).stop)
                for number in range(missing, end):
                    if number not in holding.chunks:
                        keys.append(self._store.lots(*place, number))
                        targets.append((holding, number))
            for (holding, number), chunk, name in zip(
                targets, await self._store.read_lots(keys), keys, strict=True
            ):
                if chunk is None:
                    raise PackedError(f"{name} is not in Redis, as its position says")
                holding.add(number, chunk)
            at_once *= 4

    async def _wake(self) -> None:
        """Take the positions of dead tokens that move again back from ClickHouse."""
        mints = {flow.mint for each in self._flows.values() for flow in each} - {NO_TOKEN}
        for asleep in await self._cold.wake(mints, raw_address):
            place = (asleep.wallet, asleep.mint)
            holding = Holding.unpack(asleep.packed)
            for number, chunk in zip(full_chunks(holding.position), asleep.chunks, strict=True):
                holding.add(number, chunk)
                holding.filled.append(number)
            entry = entry_at(place, holding)
            self._entries.put(place, entry)
            self._dirty[place] = entry

    async def _load_idle(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions that the batches may put away."""
        moving: dict[str, int] = {}
        for batch in batches:
            for flow in self._flows[batch.slot]:
                if flow.mint != NO_TOKEN:
                    moving.setdefault(flow.mint, batch.block_time_ms // HOUR_MS)
        times_ms = [batch.block_time_ms for batch in batches]
        mints = await self._cold.find_idle(times_ms, moving, raw_address, text)
        self._idle = {mint: set() for mint in mints}
        if not mints:
            return
        for mint, raws in zip(mints, await self._store.read_holders(mints), strict=True):
            self._idle[mint].update(map(text, raws))
        for wallet, mint in (*self._writing, *self._dirty, *self._places()):
            if mint in self._idle:
                self._idle[mint].add(wallet)
        places = [(wallet, mint) for mint, holders in self._idle.items() for wallet in holders]
        await self._load_entries(places)
        await self._load_lots(
            {place: self._entry_of(place).holding.position.held_raw for place in places}
        )

    def _places(self) -> Iterable[Place]:
        """Return whose holdings the flows loaded change."""
        for slot_flows in self._flows.values():
            for flow in slot_flows:
                yield flow.wallet, flow.mint

    def _moving(self) -> set[str]:
        """Return the mints that the flows not yet applied move."""
        return {mint for _, mint in self._places()}

    def _entry_of(self, place: Place) -> Entry:
        entry = self._entries.get(place)
        assert entry is not None, place
        return entry

    # Applying.

    def _turn(self, time_ms: int, slot: int) -> None:
        """Move the clock on: an hour puts dead tokens away, a day the oldest one's figures."""
        before, self._clock_ms = self._clock_ms // DAY_MS, time_ms
        gone = self._gone_day
        if before and gone > before - DAYS_KEPT:
            days = range(before - DAYS_KEPT + 1, min(before, gone) + 1)
            self._commands.append(("UNLINK", *(self._store.days(day) for day in days)))
        dead, passing = self._cold.turn(time_ms // HOUR_MS, self._moving)
        for mint in dead:
            self._freeze(mint, slot)
        for mint in passing:
            self._cold.mark(wallet for wallet in self._idle[mint] if self._has(wallet, mint))

    @property
    def _gone_day(self) -> int:
        """Return the last day whose figures Redis does not keep any more."""
        return self._clock_ms // DAY_MS - DAYS_KEPT

    def _freeze(self, mint: str, slot: int) -> None:
        """Put a dead token's positions away."""
        asleep = []
        for wallet in sorted(self._idle.pop(mint)):
            place = (wallet, mint)
            entry = self._entry_of(place)
            holding = entry.holding
            if holding.position.changed_slot:
                numbers = full_chunks(holding.position)
                chunks = [holding.chunks[number] for number in numbers]
                asleep.append(Asleep(wallet, mint, holding.pack(), chunks))
                if numbers:
                    names = (self._store.lots(wallet, mint, number) for number in numbers)
                    self._commands.append(("UNLINK", *names))
            if place in self._dirty:
                del self._dirty[place]
                self._write_position(entry)
            self._entries.drop(place)
        self._cold.freeze(mint, raw_address(mint), asleep, slot)

    def _has(self, wallet: str, mint: str) -> bool:
        """Return whether a wallet has a position already; in memory is more than that."""
        return self._entry_of((wallet, mint)).holding.position.changed_slot > 0

    def _write_position(self, entry: Entry) -> None:
        """Put a position among the rows, as it is at the end of a day."""
        if entry.day != NOT_CHANGED:
            self._rows[POSITIONS.name].append(
                position_row(entry.holding.position, entry.wallet, entry.mint, entry.day)
            )

    def _apply(self, flow: Flow, slot: int, time_ms: int, day: int) -> None:
        name = flow.wallet
        wallet = self._wallets.get(name)
        assert wallet is not None
        if wallet.day != day:
            if name in self._dirty_wallets:
                self._write_day(wallet)
            wallet.day, wallet.figures = day, WalletDay()
        self._dirty_wallets[name] = wallet
        total, figures = wallet.total, wallet.figures
        total.changed_slot = figures.changed_slot = slot
        if flow.mint == NO_TOKEN:
            _pay(total, flow)
            _pay(figures, flow)
            return
        place = (name, flow.mint)
        entry = self._entry_of(place)
        if entry.day != day:
            if place in self._dirty:
                self._write_position(entry)
            entry.day = day
        self._cold.moved(flow.mint)
        self._dirty[place] = entry
        holding = entry.holding
        matches: list[Match] = []
        if flow.received_raw:
            holding.receive(flow.received_raw, slot, flow.tx_index, time_ms)
        if flow.side == BUY:
            lamports, usd_micros = flow.lamports, flow.usd_micros
            holding.buy(flow.quantity_raw, lamports, usd_micros, slot, flow.tx_index, time_ms)
            for each in (total, figures):
                each.buys += 1
                if lamports is not None and usd_micros is not None:
                    each.bought_lamports += lamports
                    each.bought_usd_micros += usd_micros
        elif flow.side == SELL:
            lamports, usd_micros = flow.lamports, flow.usd_micros
            realized = holding.sell(flow.quantity_raw, lamports, usd_micros, slot, time_ms, matches)
            for each in (total, figures):
                each.sells += 1
                if lamports is not None and usd_micros is not None:
                    each.sold_lamports += lamports
                    each.sold_usd_micros += usd_micros
                _realize(each, realized, is_sale=True)
        if flow.sent_raw:
            holding.send(flow.sent_raw, slot, matches)
        if flow.burned_raw:
            realized = holding.burn(flow.burned_raw, slot, matches)
            _realize(total, realized, is_sale=False)
            _realize(figures, realized, is_sale=False)
        if flow.fee_lamports or flow.tip_lamports:
            holding.pay(flow.fee_lamports, flow.priority_fee_lamports, flow.tip_lamports)
            _pay(total, flow)
            _pay(figures, flow)
        if matches:
            self._rows[LOT_MATCHES.name] += [
                match_row(match, flow, slot, time_ms) for match in matches
            ]

    # Writing.

    def _write_day(self, wallet: Wallet) -> None:
        """Put a day that is over for a wallet among the writes."""
        figures = wallet.figures
        if wallet.day > self._gone_day:
            self._commands.append(
                ("HSET", self._store.days(wallet.day), wallet.raw, pack_wallet_day(figures))
            )
        self._rows[WALLET_DAYS.name].append(wallet_day_row(figures, wallet.address, wallet.day))

    def _take_wallets(self, commands: list[tuple[Any, ...]]) -> None:
        totals: list[bytes] = []
        days: defaultdict[int, list[bytes]] = defaultdict(list)
        tops: list[int | bytes] = []
        even: list[bytes] = []  # not on the leaderboard, whatever they were in between
        rows = self._rows[WALLET_DAYS.name]
        for wallet in self._dirty_wallets.values():
            raw, total, figures = wallet.raw, wallet.total, wallet.figures
            totals += (raw, pack_wallet_day(total))
            days[wallet.day] += (raw, pack_wallet_day(figures))
            rows.append(wallet_day_row(figures, wallet.address, wallet.day))
            score = total.realized_usd_micros
            if score != wallet.score:
                wallet.score = score
                if score:
                    tops += (score, raw)
                else:
                    even.append(raw)
        if totals:
            commands.append(("HSET", self._store.totals, *totals))
        for day, of_day in days.items():
            if day <= self._gone_day:
                continue
            commands.append(("HSET", self._store.days(day), *of_day))
        if tops:
            commands.append(("ZADD", self._store.top_wallets, *tops))
        if even:
            commands.append(("ZREM", self._store.top_wallets, *even))

    def _take_balances(self, commands: list[tuple[Any, ...]]) -> None:
        for wallet, accounts in self._balances.items():
            held: list[bytes] = []
            empty: list[bytes] = []
            for account, packed in accounts.items():
                if packed is None:
                    empty.append(account)
                else:
                    held += (account, packed)
            if held:
                commands.append(("HSET", self._store.balances(wallet), *held))
            if empty:
                commands.append(("HDEL", self._store.balances(wallet), *empty))
        self._balances = defaultdict(dict)


def _pay(day: WalletDay, flow: Flow) -> None:
    day.fee_lamports += flow.fee_lamports
    day.priority_fee_lamports += flow.priority_fee_lamports
    day.tip_lamports += flow.tip_lamports


def _realize(day: WalletDay, realized: Realized, is_sale: bool) -> None:
    day.matched_proceeds_lamports += realized.proceeds_lamports
    day.matched_proceeds_usd_micros += realized.proceeds_usd_micros
    day.matched_cost_lamports += realized.cost_lamports
    day.matched_cost_usd_micros += realized.cost_usd_micros
    if is_sale:
        gain = realized.proceeds_usd_micros - realized.cost_usd_micros
        if gain > 0:
            day.wins += 1
        elif gain < 0:
            day.losses += 1
        if realized.unmatched_raw:
            day.unmatched_sales += 1
