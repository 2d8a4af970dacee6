"""Wallets, positions and lots of one partition: from Redis and ClickHouse into memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.agents.pnl.cold import ColdMints
from pipeline.agents.pnl.cold_rows import Asleep
from pipeline.agents.pnl.cold_wallets import ColdWallets
from pipeline.agents.pnl.memory import (
    Memory,
    Place,
    Rest,
    Wallet,
    entry_at,
    raw_address,
    stored_entry,
)
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.domain.lots import Holding
from pipeline.domain.netting import SELL
from schemas.positions import (
    CHUNK_LOTS,
    LOT,
    ColdWallet,
    PackedError,
    WalletDay,
    full_chunks,
    unpack_wallet_day,
)
from schemas.proto.tape_pb2 import SlotBatch
from schemas.times import DAY_MS

_FIRST_READ_CHUNKS: Final = 4  # then four times as many each time


class Loader:
    """Reads what is not in memory. All but `disposals` raise RedisError and ClickHouseError.

    A wallet with a value that cannot be read goes into quarantine: it is not in what is returned,
    and the flows in memory are without it.
    """

    def __init__(
        self,
        store: Store,
        memory: Memory,
        cold: ColdMints,
        cold_wallets: ColdWallets,
        rest: Rest,
        quarantine: Quarantine,
    ) -> None:
        self.quarantine = quarantine
        self._store = store
        self._memory = memory
        self._cold = cold
        self._cold_wallets = cold_wallets
        self._rest = rest

    async def load_wallets(self, hours: Mapping[str, int], first: SlotBatch) -> None:
        """Read wallets; take those that were put away, and positions, back from ClickHouse.

        `hours` are those in which the wallets move first: before, none of them is due again.
        """
        memory = self._memory
        day = max(memory.clock_ms, first.block_time_ms) // DAY_MS
        read = await self.read_wallets([*hours], day) if hours else []
        absent = [wallet.address for wallet, is_here in read if not is_here]
        away = await self._cold_wallets.read(absent, first.slot) if absent else {}
        mints = {mint for slot in memory.flows for mint in memory.mints(slot)}
        theirs = await self._cold.positions_of(away, mints, first.slot)
        new = {*hours}

        async def are_here(owners: set[str]) -> set[str]:
            owners = {name for name in owners if name not in self.quarantine}
            return new & owners | await self._are_here(owners - new)

        asleep = await self._cold.wake(mints, first.slot, are_here)
        # Nothing is changed before this point, but that the mints are awake: a read that failed
        # is done again.
        for each in asleep:
            self._wake(each)
        for wallet, _ in read:
            if wallet.address in self.quarantine:
                continue
            if (found := away.get(wallet.address)) is not None:
                self._wake_wallet(wallet, found, hours[wallet.address])
            memory.wallets.put(wallet.address, wallet)
        for each in theirs:
            if each.wallet in self.quarantine:
                continue
            entry = memory.entries.get((each.wallet, each.mint))
            if entry is None or not entry.holding.position.changed_slot:
                self._wake(each)
        memory.leave_out(self.quarantine)

    async def read_wallets(self, names: list[str], day: int) -> list[tuple[Wallet, bool]]:
        """Return wallets as Redis has them, and whether it has them."""
        raws = [raw_address(name) for name in names]
        totals, figures, dues = await self._store.read_wallets(raws, day)
        found = []
        for name, raw, total, of_day, due in zip(names, raws, totals, figures, dues, strict=True):
            place = f"{self._store.totals} {name}"
            is_here = not ((total is None and due is None) or self._cold_wallets.is_put_away(name))
            try:
                known_total = unpack_wallet_day(total) if total and is_here else WalletDay()
                place = f"{self._store.days(day)} {name}"
                known_day = unpack_wallet_day(of_day) if of_day else WalletDay()
            except PackedError as error:
                self.quarantine.put(name, place, error)
                continue
            wallet = Wallet(
                name,
                raw,
                known_total,
                day,
                known_day,
                self._rest,
                None if due is None or not is_here else int(due),
            )
            found.append((wallet, is_here))
        return found

    async def _are_here(self, names: set[str]) -> set[str]:
        """Return which of the wallets are not put away."""
        here = {name for name in names if self._memory.wallets.get(name) is not None}
        asked = [name for name in names - here if not self._cold_wallets.is_put_away(name)]
        if not asked:
            return here
        totals, _, dues = await self._store.read_wallets([*map(raw_address, asked)], 0)
        return here | {
            name
            for name, total, due in zip(asked, totals, dues, strict=True)
            if total is not None or due is not None
        }

    def _wake_wallet(self, wallet: Wallet, away: ColdWallet, hour: int) -> None:
        """Take back a wallet, but for its positions."""
        if away.total:
            wallet.total = unpack_wallet_day(away.total)
        self._cold_wallets.wake(wallet, away)
        self._cold_wallets.touch(wallet, hour)
        self._cold.mark([wallet.address])
        self._memory.balances[wallet.address].update(away.balances)

    def _wake(self, asleep: Asleep) -> None:
        """Take back a position."""
        memory = self._memory
        place = (asleep.wallet, asleep.mint)
        holding = Holding.unpack(asleep.packed)
        for number, chunk in zip(full_chunks(holding.position), asleep.chunks, strict=True):
            holding.add(number, chunk)
            holding.filled.append(number)
        entry = entry_at(place, holding)
        memory.entries.put(place, entry)
        memory.dirty[place] = entry

    async def load_entries(self, wanted: Iterable[Place]) -> None:
        """Read positions; those that came from ClickHouse just now are in memory already."""
        memory = self._memory
        places = [
            place
            for place in wanted
            if memory.entries.get(place) is None and place[0] not in self.quarantine
        ]
        found = await self._store.read_positions(
            [(wallet, raw_address(mint)) for wallet, mint in places]
        )
        for place, packed in zip(places, found, strict=True):
            if packed is None:
                memory.entries.put(place, entry_at(place, Holding.empty()))
            else:
                self.take_position(place, packed)
        memory.leave_out(self.quarantine)

    def take_position(self, place: Place, packed: bytes) -> bool:
        """Take a position that Redis has into memory; return False where it cannot be read."""
        try:
            entry = stored_entry(place, packed)
        except PackedError as error:
            wallet, mint = place
            self.quarantine.put(wallet, f"{self._store.positions(wallet)} {mint}", error)
            return False
        self._memory.entries.put(place, entry)
        return True

    def disposals(self) -> dict[Place, int]:
        """Return how much the flows loaded may take of the positions that have full chunks."""
        memory = self._memory
        wanted: defaultdict[Place, int] = defaultdict(int)
        for slot_flows in memory.flows.values():
            for flow in slot_flows:
                if flow.side == SELL or flow.sent_raw or flow.burned_raw:
                    place = (flow.wallet, flow.mint)
                    if full_chunks(memory.entry_of(place).holding.position):
                        sold_raw = flow.quantity_raw if flow.side == SELL else 0
                        wanted[place] += sold_raw + flow.sent_raw + flow.burned_raw
        return wanted

    async def load_lots(self, wanted: dict[Place, int]) -> None:
        """Read the full chunks that a quantity to be disposed of reaches."""
        at_once = _FIRST_READ_CHUNKS
        while wanted:
            keys: list[str] = []
            targets: list[tuple[Place, int]] = []
            for place in [*wanted]:
                if place[0] in self.quarantine:
                    del wanted[place]
                    continue
                holding = self._memory.entry_of(place).holding
                missing = holding.missing_chunk(wanted[place])
                if missing is None:
                    del wanted[place]
                    continue
                end = min(missing + at_once, full_chunks(holding.position).stop)
                for number in range(missing, end):
                    if number not in holding.chunks:
                        keys.append(self._store.lots(*place, number))
                        targets.append((place, number))
            for (place, number), chunk, name in zip(
                targets, await self._store.read_lots(keys), keys, strict=True
            ):
                if (why := wrong_chunk(chunk)) is not None:
                    self.quarantine.put(place[0], name, why)
                elif chunk is not None:
                    self._memory.entry_of(place).holding.add(number, chunk)
            at_once *= 4
        self._memory.leave_out(self.quarantine)

    async def load_all_lots(self, places: Iterable[Place]) -> None:
        """Read all full chunks of positions."""
        await self.load_lots(
            {
                place: self._memory.entry_of(place).holding.position.held_raw
                for place in places
                if place[0] not in self.quarantine
            }
        )


def wrong_chunk(chunk: bytes | None) -> str | None:
    """Return what is wrong with a full chunk of lots, None where nothing is."""
    if chunk is None:
        return "it is not in Redis, as its position says"
    if not chunk or len(chunk) % LOT.size or len(chunk) > LOT.size * CHUNK_LOTS:
        return f"{len(chunk)} bytes are no chunk of lots"
    return None
