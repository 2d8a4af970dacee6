"""The books of one partition's wallets: positions, days, balances, leaderboards.

Transactions become flows (`domain.netting`), flows change holdings (`domain.lots`); what changed
is written as absolute values. All of it is a function of the slots applied, however they are cut
into flushes.

In memory is what was used lately. A value that Redis does not have yet is never forgotten. A wallet
of which a stored value cannot be read is left out (`settled.quarantine`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from pipeline.agents.pnl.cold import ColdMints
from pipeline.agents.pnl.cold_rows import ColdRows, Journal
from pipeline.agents.pnl.cold_wallets import ColdWallets
from pipeline.agents.pnl.loading import Loader
from pipeline.agents.pnl.memory import (
    NOT_CHANGED,
    Memory,
    Place,
    Rest,
    raw_address,
)
from pipeline.agents.pnl.perps import PerpRows
from pipeline.agents.pnl.putting_away import PuttingAway
from pipeline.agents.pnl.rows import (
    Row,
    match_row,
    position_row,
    wallet_day_row,
    write_day,
    write_position,
)
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.domain.lots import Match, Realized
from pipeline.domain.netting import BUY, NO_TOKEN, SELL, Flow, flows
from schemas.positions import (
    WalletDay,
    pack_balance,
    pack_wallet_day,
)
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import LOT_MATCHES, POSITIONS, WALLET_DAYS
from schemas.times import DAY_MS, HOUR_MS

RECENT: Final = 4_000  # positions, and wallets, that a generation in memory holds
GENERATION_MS: Final = 30_000  # the longest that one lasts, in the chain's time
_CHUNKS_IN_MEMORY: Final = 8


class PnlBooks:
    """`pipeline.agents.settled.lane.Books` of the wallets of one partition."""

    def __init__(
        self,
        store: Store,
        place: int,
        cold_rows: ColdRows,
        mints_rest_hours: int,
        wallets_rest: Rest,
        clock_ms: int,
        quarantine: Quarantine,
        recent: int = RECENT,
    ) -> None:
        self.quarantine = quarantine
        self._store = store
        self._journal = journal = Journal()  # of the next `take`
        self._memory = memory = Memory(clock_ms, recent)
        hour = clock_ms // HOUR_MS
        cold = ColdMints(store, place, mints_rest_hours, cold_rows, journal, hour)
        cold_wallets = ColdWallets(store, cold_rows, journal, clock_ms)
        self._cold, self._cold_wallets = cold, cold_wallets
        self._loader = Loader(store, memory, cold, cold_wallets, wallets_rest, quarantine)
        self._away = PuttingAway(store, memory, cold, cold_wallets, journal, self._loader)
        self._generation_ms = clock_ms  # when the last one began
        self._perps = PerpRows(place)

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions and wallets of the batches that are not in memory."""
        memory = self._memory
        self.quarantine.slot = batches[0].slot
        memory.flows = {batch.slot: flows(batch) for batch in batches}
        memory.left_out.clear()
        memory.touches = {
            batch.slot: {flow.wallet for flow in memory.flows[batch.slot]}.union(
                [balance.owner for balance in batch.balances]
            )
            for batch in batches
        }
        memory.leave_out(self.quarantine)
        entries, wallets = memory.entries, memory.wallets
        new_places: dict[Place, None] = {}
        new_wallets: dict[str, int] = {}  # -> the hour in which it moves first
        clock_ms = memory.clock_ms
        for batch in batches:
            clock_ms = max(clock_ms, batch.block_time_ms)
            for name in memory.touches[batch.slot]:
                if wallets.get(name) is None:
                    new_wallets.setdefault(name, clock_ms // HOUR_MS)
        for slot_flows in memory.flows.values():
            for flow in slot_flows:
                place = (flow.wallet, flow.mint)
                if flow.mint != NO_TOKEN and entries.get(place) is None:
                    new_places[place] = None
        await self._loader.load_wallets(new_wallets, batches[0])
        if new_places:
            await self._loader.load_entries(new_places)
        await self._loader.load_lots(self._loader.disposals())
        await self._away.load_idle(batches)
        await self._away.load_idle_wallets(batches)

    def apply(self, batch: SlotBatch) -> None:
        """Do the work of one slot."""
        self._perps.apply(batch)
        memory = self._memory
        slot = batch.slot
        time_ms = batch.block_time_ms
        if time_ms > memory.clock_ms:
            self._away.turn(time_ms, slot)
        day = memory.clock_ms // DAY_MS
        hour, touch, wallets = memory.clock_ms // HOUR_MS, self._cold_wallets.touch, memory.wallets
        for name in memory.touches.pop(slot):
            wallet = wallets.get(name)
            assert wallet is not None, name
            touch(wallet, hour)
        for flow in memory.flows.pop(slot):
            self._apply(flow, slot, time_ms, day)
        for mint in memory.left_out.pop(slot, ()):
            if mint != NO_TOKEN:
                self._cold.moved(mint)
        balances, left_out = memory.balances, self.quarantine
        for balance in batch.balances:
            if left_out and balance.owner in left_out:
                continue
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
        memory = self._memory
        store = self._store
        self._cold.take()
        self._cold_wallets.take()
        rows, commands = self._journal.take()
        hashes: dict[str, list[bytes]] = {}
        tops: defaultdict[str, list[int | bytes]] = defaultdict(list)
        positions = rows[POSITIONS.name]
        for entry in memory.dirty.values():
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
        self._take_wallets(commands, rows[WALLET_DAYS.name])
        self._take_balances(commands)
        commands += self.quarantine.commands()
        commands.append(("SET", store.clock, memory.clock_ms))
        memory.writing, memory.dirty = memory.dirty, {}
        memory.dirty_wallets = {}
        made = {name: table for name, table in rows.items() if table}
        return Writes(made | self._perps.take(), commands)

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        memory = self._memory
        for entry in memory.writing.values():
            if len(entry.holding.chunks) > _CHUNKS_IN_MEMORY:
                entry.holding.forget_chunks(_CHUNKS_IN_MEMORY)
        memory.writing = {}
        memory.balances_writing = defaultdict(dict)
        self._cold.written()
        self._cold_wallets.written()
        is_due = memory.clock_ms - self._generation_ms >= GENERATION_MS
        if is_due:
            self._generation_ms = memory.clock_ms
        memory.entries.forget(memory.dirty, is_due=is_due)
        memory.wallets.forget(self._cold_wallets.touched, is_due=is_due)

    async def evict(self, slot: int) -> Writes | None:
        """Put wallets away before they are due, as Redis has them."""
        return await self._away.evict(slot)

    # Applying.

    def _apply(self, flow: Flow, slot: int, time_ms: int, day: int) -> None:
        memory = self._memory
        name = flow.wallet
        wallet = memory.wallets.get(name)
        assert wallet is not None
        if wallet.day != day:
            if name in memory.dirty_wallets:
                write_day(self._journal, self._store, wallet, memory.gone_day)
            wallet.day, wallet.figures = day, WalletDay()
        memory.dirty_wallets[name] = wallet
        total, figures = wallet.total, wallet.figures
        total.changed_slot = figures.changed_slot = slot
        if flow.mint == NO_TOKEN:
            _pay(total, flow)
            _pay(figures, flow)
            return
        place = (name, flow.mint)
        entry = memory.entry_of(place)
        if entry.day != day:
            if place in memory.dirty:
                write_position(self._journal, entry)
            entry.day = day
        self._cold.moved(flow.mint)
        memory.dirty[place] = entry
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
            self._journal.rows[LOT_MATCHES.name] += [
                match_row(match, flow, slot, time_ms) for match in matches
            ]

    # Writing.

    def _take_wallets(self, commands: list[tuple[Any, ...]], rows: list[Row]) -> None:
        memory = self._memory
        totals: list[bytes] = []
        days: defaultdict[int, list[bytes]] = defaultdict(list)
        for wallet in memory.dirty_wallets.values():
            raw, total, figures = wallet.raw, wallet.total, wallet.figures
            totals += (raw, pack_wallet_day(total))
            days[wallet.day] += (raw, pack_wallet_day(figures))
            rows.append(wallet_day_row(figures, wallet.address, wallet.day))
        if totals:
            commands.append(("HSET", self._store.totals, *totals))
        for day, of_day in days.items():
            if day <= memory.gone_day:
                continue
            commands.append(("HSET", self._store.days(day), *of_day))

    def _take_balances(self, commands: list[tuple[Any, ...]]) -> None:
        memory = self._memory
        for wallet, accounts in memory.balances.items():
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
        memory.balances_writing, memory.balances = memory.balances, defaultdict(dict)


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
