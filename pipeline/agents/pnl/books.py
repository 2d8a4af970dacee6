"""The books of one partition's wallets: positions, days, balances, leaderboards.

Transactions become flows (`domain.netting`), flows change holdings (`domain.lots`); what changed
is written as absolute values. All of it is a function of the slots applied, however they are cut
into flushes.

In memory is what was used lately. A value that Redis does not have yet is never forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pipeline.agents.pnl.cold import ColdMints
from pipeline.agents.pnl.cold_rows import Asleep, ColdRows, Journal
from pipeline.agents.pnl.cold_wallets import ColdWallets
from pipeline.agents.pnl.memory import (
    NOT_CHANGED,
    NOT_MOVED,
    Entry,
    Place,
    Recent,
    Rest,
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
    COLD_MARK,
    ColdWallet,
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

DAYS_KEPT: Final = 8  # readers sum up seven; older ones are in ClickHouse
RECENT: Final = 4_000  # positions, and wallets, that a generation in memory holds
GENERATION_MS: Final = 30_000  # the longest that one lasts, in the chain's time
EVICTED_AT_ONCE: Final = 500  # wallets, when Redis is full
_CHUNKS_IN_MEMORY: Final = 8
_FIRST_READ_CHUNKS: Final = 4  # then four times as many each time


class _Whole(NamedTuple):
    """What Redis has of a wallet that may be put away."""

    mints: set[str]  # of its positions
    balances: dict[bytes, bytes | None]  # by raw token account


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
        recent: int = RECENT,
    ) -> None:
        self._store = store
        self._journal = journal = Journal()  # of the next `take`
        hour = clock_ms // HOUR_MS
        self._cold = ColdMints(store, place, mints_rest_hours, cold_rows, journal, hour)
        self._cold_wallets = ColdWallets(store, cold_rows, journal, clock_ms)
        self._rest = wallets_rest
        self._clock_ms = clock_ms  # the latest block time
        self._entries: Recent[Place, Entry] = Recent(recent)
        self._wallets: Recent[str, Wallet] = Recent(recent)
        self._generation_ms = clock_ms  # when the last one began
        self._flows: dict[int, list[Flow]] = {}  # of the slots that were loaded
        self._touches: dict[int, set[str]] = {}  # of the same: wallets that something happens to
        self._idle: dict[str, set[str]] = {}  # mints these may put away -> their wallets
        self._idle_wallets: dict[str, _Whole] = {}  # wallets likewise -> what Redis has of them
        # What the next `take` returns.
        self._dirty: dict[Place, Entry] = {}
        self._dirty_wallets: dict[str, Wallet] = {}
        self._balances: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        # What the last one did.
        self._writing: dict[Place, Entry] = {}
        self._balances_writing: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions and wallets of the batches that are not in memory."""
        self._flows = {batch.slot: flows(batch) for batch in batches}
        self._touches = {
            batch.slot: {flow.wallet for flow in self._flows[batch.slot]}.union(
                [balance.owner for balance in batch.balances]
            )
            for batch in batches
        }
        entries, wallets = self._entries, self._wallets
        new_places: dict[Place, None] = {}
        new_wallets: dict[str, None] = {}
        for names in self._touches.values():
            for name in names:
                if wallets.get(name) is None:
                    new_wallets[name] = None
        for slot_flows in self._flows.values():
            for flow in slot_flows:
                place = (flow.wallet, flow.mint)
                if flow.mint != NO_TOKEN and entries.get(place) is None:
                    new_places[place] = None
        await self._load_wallets(list(new_wallets), batches[0])
        if new_places:
            await self._load_entries(new_places)
        await self._load_lots(self._disposals())
        await self._load_idle(batches)
        await self._load_idle_wallets(batches)

    def apply(self, batch: SlotBatch) -> None:
        """Do the work of one slot."""
        slot = batch.slot
        time_ms = batch.block_time_ms
        if time_ms > self._clock_ms:
            self._turn(time_ms, slot)
        day = self._clock_ms // DAY_MS
        hour, touch, wallets = self._clock_ms // HOUR_MS, self._cold_wallets.touch, self._wallets
        for name in self._touches.pop(slot):
            wallet = wallets.get(name)
            assert wallet is not None, name
            touch(wallet, hour)
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
        store = self._store
        self._cold.take()
        self._cold_wallets.take()
        rows, commands = self._journal.take()
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
        self._take_wallets(commands, rows[WALLET_DAYS.name])
        self._take_balances(commands)
        commands.append(("SET", store.clock, self._clock_ms))
        self._writing, self._dirty = self._dirty, {}
        self._dirty_wallets = {}
        return Writes({name: table for name, table in rows.items() if table}, commands)

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        for entry in self._writing.values():
            if len(entry.holding.chunks) > _CHUNKS_IN_MEMORY:
                entry.holding.forget_chunks(_CHUNKS_IN_MEMORY)
        self._writing = {}
        self._balances_writing = defaultdict(dict)
        self._cold.written()
        self._cold_wallets.written()
        is_due = self._clock_ms - self._generation_ms >= GENERATION_MS
        if is_due:
            self._generation_ms = self._clock_ms
        self._entries.forget(self._dirty, is_due=is_due)
        self._wallets.forget(self._cold_wallets.touched, is_due=is_due)

    async def evict(self, slot: int) -> Writes | None:
        """Put wallets away before they are due: those that are due first, as Redis has them."""
        concerned = self._cold_wallets.concerned() | self._cold.concerned()
        concerned.update(wallet for wallet, _ in (*self._dirty, *self._writing))
        limit = EVICTED_AT_ONCE + len(concerned)
        due = await self._store.read_due(NOT_MOVED, limit)
        names = [name for raw, _ in due if (name := text(raw)) not in concerned][:EVICTED_AT_ONCE]
        if not names:
            return None
        journal = Journal()
        wholes = await self._store.read_whole(names)
        read = await self._read_wallets(names, self._clock_ms // DAY_MS)
        for (wallet, _), (positions, balances) in zip(read, wholes, strict=True):
            positions.pop(COLD_MARK, None)
            asleep = []
            for mint_raw, packed in positions.items():
                place = (wallet.address, text(mint_raw))
                self._entries.drop(place)
                position = Holding.unpack(packed).position
                keys = [self._store.lots(*place, number) for number in full_chunks(position)]
                chunks = [chunk for chunk in await self._store.read_lots(keys) if chunk is not None]
                if len(chunks) < len(keys):
                    raise PackedError(f"lots of {place} are not in Redis, as their position says")
                asleep.append(Asleep(*place, packed, chunks))
                journal.commands += [("UNLINK", key) for key in keys]
                self._leave_board(journal, place[1], wallet.raw, position.realized_usd_micros)
            journal.rows[COLD_POSITIONS.name] += self._cold.rows(asleep, slot)
            away = ColdWallet(wallet.packed_total(), balances)
            self._cold_wallets.put_away(journal, wallet, away, slot)
            self._wallets.drop(wallet.address)
        return Writes(journal.rows, journal.commands, len(names))

    # Reading.

    async def _load_wallets(self, names: list[str], first: SlotBatch) -> None:
        """Read wallets; take those that were put away, and positions, back from ClickHouse."""
        day = max(self._clock_ms, first.block_time_ms) // DAY_MS
        read = await self._read_wallets(names, day) if names else []
        absent = [wallet.address for wallet, is_here in read if not is_here]
        away = await self._cold_wallets.read(absent, first.slot) if absent else {}
        mints = {flow.mint for each in self._flows.values() for flow in each} - {NO_TOKEN}
        theirs = await self._cold.positions_of(away, mints, first.slot)
        new = {*names}

        async def are_here(owners: set[str]) -> set[str]:
            return new & owners | await self._are_here(owners - new)

        asleep = await self._cold.wake(mints, first.slot, are_here)
        # Nothing is changed before this point, but that the mints are awake: a read that failed
        # is done again.
        for each in asleep:
            self._wake(each)
        for wallet, _ in read:
            if (found := away.get(wallet.address)) is not None:
                self._wake_wallet(wallet, found, first)
            self._wallets.put(wallet.address, wallet)
        for each in theirs:
            entry = self._entries.get((each.wallet, each.mint))
            if entry is None or not entry.holding.position.changed_slot:
                self._wake(each)

    async def _read_wallets(self, names: list[str], day: int) -> list[tuple[Wallet, bool]]:
        """Return wallets as Redis has them, and whether it has them."""
        raws = [raw_address(name) for name in names]
        totals, figures, dues = await self._store.read_wallets(raws, day)
        found = []
        for name, raw, total, of_day, due in zip(names, raws, totals, figures, dues, strict=True):
            is_here = not ((total is None and due is None) or self._cold_wallets.is_put_away(name))
            wallet = Wallet(
                name,
                raw,
                unpack_wallet_day(total) if total and is_here else WalletDay(),
                day,
                unpack_wallet_day(of_day) if of_day else WalletDay(),
                self._rest,
                None if due is None or not is_here else int(due),
            )
            found.append((wallet, is_here))
        return found

    async def _are_here(self, names: set[str]) -> set[str]:
        """Return which of the wallets are not put away."""
        here = {name for name in names if self._wallets.get(name) is not None}
        asked = [name for name in names - here if not self._cold_wallets.is_put_away(name)]
        if not asked:
            return here
        totals, _, dues = await self._store.read_wallets([*map(raw_address, asked)], 0)
        return here | {
            name
            for name, total, due in zip(asked, totals, dues, strict=True)
            if total is not None or due is not None
        }

    def _wake_wallet(self, wallet: Wallet, away: ColdWallet, first: SlotBatch) -> None:
        """Take back a wallet, but for its positions."""
        if away.total:
            wallet.total = unpack_wallet_day(away.total)
        self._cold_wallets.wake(wallet, away)
        self._cold_wallets.touch(wallet, first.block_time_ms // HOUR_MS)
        self._cold.mark([wallet.address])
        self._balances[wallet.address].update(away.balances)

    def _wake(self, asleep: Asleep) -> None:
        """Take back a position."""
        place = (asleep.wallet, asleep.mint)
        holding = Holding.unpack(asleep.packed)
        for number, chunk in zip(full_chunks(holding.position), asleep.chunks, strict=True):
            holding.add(number, chunk)
            holding.filled.append(number)
        entry = entry_at(place, holding)
        self._entries.put(place, entry)
        self._dirty[place] = entry

    async def _load_entries(self, wanted: Iterable[Place]) -> None:
        """Read positions; those that came from ClickHouse just now are in memory already."""
        places = [place for place in wanted if self._entries.get(place) is None]
        found = await self._store.read_positions(
            [(wallet, raw_address(mint)) for wallet, mint in places]
        )
        for place, packed in zip(places, found, strict=True):
            entry = _stored_entry(place, packed) if packed else entry_at(place, Holding.empty())
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

    async def _load_idle(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions that the batches may put away."""
        moving: dict[str, int] = {}
        for batch in batches:
            for flow in self._flows[batch.slot]:
                if flow.mint != NO_TOKEN:
                    moving.setdefault(flow.mint, batch.block_time_ms // HOUR_MS)
        times_ms = [batch.block_time_ms for batch in batches]
        mints = await self._cold.find_idle(times_ms, moving)
        self._idle = {mint: set() for mint in mints}
        if not mints:
            return
        for mint, raws in zip(mints, await self._store.read_holders(mints), strict=True):
            self._idle[mint].update(
                name for name in map(text, raws) if not self._cold_wallets.is_put_away(name)
            )
        for wallet, mint in (*self._writing, *self._dirty, *self._places()):
            if mint in self._idle:
                self._idle[mint].add(wallet)
        places = [(wallet, mint) for mint, holders in self._idle.items() for wallet in holders]
        await self._load_entries(places)
        await self._load_all_lots(places)

    async def _load_idle_wallets(self, batches: Sequence[SlotBatch]) -> None:
        """Read all that Redis has of the wallets that the batches may put away."""
        moving = {
            name: wallet
            for names in self._touches.values()
            for name in names
            if (wallet := self._wallets.get(name)) is not None
        }
        times_ms = [batch.block_time_ms for batch in batches]
        known, others = await self._cold_wallets.find_idle(times_ms, moving.values())
        self._idle_wallets = {}
        idle = {wallet.address: wallet for wallet in known}
        if absent := [name for name in others if self._wallets.get(name) is None]:
            day = max(self._clock_ms, times_ms[0]) // DAY_MS
            for wallet, _ in await self._read_wallets(absent, day):
                self._wallets.put(wallet.address, wallet)
        for name in others:
            if (there := self._wallets.get(name)) is not None:
                idle[name] = there
        if not idle:
            return
        places: list[Place] = []
        for name, (positions, balances) in zip(
            idle, await self._store.read_whole([*idle]), strict=True
        ):
            mints: set[str] = set()
            if self._cold_wallets.was_put_away(name):
                self._idle_wallets[name] = _Whole(mints, {})  # what counts is in memory
                continue
            positions.pop(COLD_MARK, None)
            for mint_raw, packed in positions.items():
                mint = text(mint_raw)
                if self._cold.is_put_away(mint):
                    continue
                mints.add(mint)
                place = (name, mint)
                if self._entries.get(place) is None:
                    self._entries.put(place, _stored_entry(place, packed))
                places.append(place)
            self._idle_wallets[name] = _Whole(mints, {**balances})
        for name, mint in (*self._writing, *self._dirty, *self._places()):
            if mint != NO_TOKEN and (whole := self._idle_wallets.get(name)) is not None:
                whole.mints.add(mint)
                places.append((name, mint))
        await self._load_all_lots([place for place in places if self._entries.get(place)])
        self._cold_wallets.consider(idle.values())

    async def _load_all_lots(self, places: Iterable[Place]) -> None:
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

    def _touched_later(self) -> set[str]:
        """Return the wallets that something happens to in the slots not yet applied."""
        return {name for names in self._touches.values() for name in names}

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
            self._journal.commands.append(("UNLINK", *(self._store.days(day) for day in days)))
        dead, passing = self._cold.turn(time_ms // HOUR_MS, self._moving)
        for mint in dead:
            self._freeze(mint, slot)
        for mint in passing:
            here = [wallet for wallet in self._idle[mint] if self._existing(wallet, mint)]
            self._cold.pass_by(mint, here)
        idle, back = self._cold_wallets.turn(time_ms, self._touched_later)
        for wallet in idle:
            self._freeze_wallet(wallet, slot)
        for wallet in back:
            self._cold_wallets.pass_by(wallet)
            self._cold.mark([wallet.address])
            for mint in self._idle_wallets[wallet.address].mints:
                if (entry := self._existing(wallet.address, mint)) is not None:
                    gain = entry.holding.position.realized_usd_micros
                    self._note_gain(self._journal, mint, gain)

    @property
    def _gone_day(self) -> int:
        """Return the last day whose figures Redis does not keep any more."""
        return self._clock_ms // DAY_MS - DAYS_KEPT

    def _freeze(self, mint: str, slot: int) -> None:
        """Put a dead token's positions away."""
        wallets = sorted(self._idle.pop(mint))
        asleep = [found for wallet in wallets if (found := self._take_out((wallet, mint)))]
        self._cold.freeze(mint, asleep, slot)

    def _freeze_wallet(self, wallet: Wallet, slot: int) -> None:
        """Put a wallet at rest away, with its positions and balances."""
        name = wallet.address
        whole = self._idle_wallets.pop(name)
        asleep = []
        for mint in sorted(whole.mints):
            if (entry := self._existing(name, mint)) is not None:
                gain = entry.holding.position.realized_usd_micros
                self._leave_board(self._journal, mint, wallet.raw, gain)
            if (found := self._take_out((name, mint))) is not None:
                asleep.append(found)
        self._cold.put_away(asleep, slot)
        self._cold.unmark(name)
        if self._dirty_wallets.pop(name, None) is not None:
            self._write_day(wallet)
        balances = whole.balances
        for newer in (self._balances_writing, self._balances):
            balances |= newer.get(name, {})
        self._balances.pop(name, None)
        held = {account: packed for account, packed in balances.items() if packed is not None}
        self._cold_wallets.freeze(wallet, held, slot)
        self._wallets.drop(name)

    def _take_out(self, place: Place) -> Asleep | None:
        """Forget a position; return it as it is put away, None where there is none."""
        entry = self._entries.get(place)
        if entry is None:
            return None
        if self._dirty.pop(place, None) is not None:
            self._write_position(entry)
        self._entries.drop(place)
        holding = entry.holding
        if not holding.position.changed_slot:
            return None
        numbers = full_chunks(holding.position)
        if numbers:
            names = (self._store.lots(*place, number) for number in numbers)
            self._journal.commands.append(("UNLINK", *names))
        return Asleep(*place, holding.pack(), [holding.chunks[number] for number in numbers])

    def _leave_board(self, journal: Journal, mint: str, wallet_raw: bytes, gain: int) -> None:
        """Take a wallet that is put away off a token's leaderboard."""
        journal.commands.append(("ZREM", self._store.top(mint), wallet_raw))
        self._note_gain(journal, mint, gain)

    def _note_gain(self, journal: Journal, mint: str, gain: int) -> None:
        """Leave in a token's leaderboard how much somebody gained who is put away."""
        if gain:
            journal.commands.append(("ZADD", self._store.top(mint), "GT", gain, COLD_MARK))

    def _existing(self, wallet: str, mint: str) -> Entry | None:
        """Return a position that the wallet has already; in memory is more than that."""
        entry = self._entries.get((wallet, mint))
        return entry if entry is not None and entry.holding.position.changed_slot else None

    def _write_position(self, entry: Entry) -> None:
        """Put a position among the rows, as it is at the end of a day."""
        if entry.day != NOT_CHANGED:
            self._journal.rows[POSITIONS.name].append(
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
            self._journal.rows[LOT_MATCHES.name] += [
                match_row(match, flow, slot, time_ms) for match in matches
            ]

    # Writing.

    def _write_day(self, wallet: Wallet) -> None:
        """Put a day that is over for a wallet among the writes."""
        figures = wallet.figures
        if wallet.day > self._gone_day:
            self._journal.commands.append(
                ("HSET", self._store.days(wallet.day), wallet.raw, pack_wallet_day(figures))
            )
        self._journal.rows[WALLET_DAYS.name].append(
            wallet_day_row(figures, wallet.address, wallet.day)
        )

    def _take_wallets(self, commands: list[tuple[Any, ...]], rows: list[Row]) -> None:
        totals: list[bytes] = []
        days: defaultdict[int, list[bytes]] = defaultdict(list)
        for wallet in self._dirty_wallets.values():
            raw, total, figures = wallet.raw, wallet.total, wallet.figures
            totals += (raw, pack_wallet_day(total))
            days[wallet.day] += (raw, pack_wallet_day(figures))
            rows.append(wallet_day_row(figures, wallet.address, wallet.day))
        if totals:
            commands.append(("HSET", self._store.totals, *totals))
        for day, of_day in days.items():
            if day <= self._gone_day:
                continue
            commands.append(("HSET", self._store.days(day), *of_day))

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
        self._balances_writing, self._balances = self._balances, defaultdict(dict)


def _stored_entry(place: Place, packed: bytes) -> Entry:
    """Return a position that Redis has."""
    entry = entry_at(place, Holding.unpack(packed))
    entry.score = entry.holding.position.realized_usd_micros
    return entry


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
