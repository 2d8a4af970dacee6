"""What the books of wallets have in memory: wallets, holdings, and what was used lately."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pipeline.agents.settled.quarantine import Quarantine
from pipeline.domain.lots import Holding
from pipeline.domain.netting import NO_TOKEN, Flow
from schemas.codec import CodecError
from schemas.positions import WalletDay, pack_wallet_day
from schemas.solana import addresses
from schemas.times import DAY_MS

NOT_CHANGED: Final = -1  # no day
DAYS_KEPT: Final = 8  # readers sum up seven; older ones are in ClickHouse
NOT_MOVED: Final = 2**40  # an hour: not since it was read

Place = tuple[str, str]  # wallet, mint
V = TypeVar("V")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Rest:
    """How long wallets rest before they are put away, in hours."""

    traded_hours: int  # those that have bought or sold
    received_hours: int  # the others

    def after_hours(self, total: WalletDay) -> int:
        """Return how long a wallet rests that has done so much."""
        return self.traded_hours if total.buys or total.sells else self.received_hours


class Wallet:
    """What is counted per wallet: all days together, and its latest day."""

    __slots__ = ("address", "day", "figures", "known_due", "moved_hour", "raw", "rest", "total")

    def __init__(
        self,
        wallet: str,
        raw: bytes,
        total: WalletDay,
        day: int,
        figures: WalletDay,
        rest: Rest,
        known_due: int | None = None,
    ) -> None:
        self.address = wallet
        self.raw = raw
        self.total = total
        self.day = day
        self.figures = figures
        self.rest = rest
        self.known_due = known_due  # as Redis has it
        self.moved_hour = NOT_MOVED if known_due is None else known_due - rest.after_hours(total)

    @property
    def due(self) -> int:
        """Return the hour from which the wallet may be put away."""
        return self.moved_hour + self.rest.after_hours(self.total)

    def packed_total(self) -> bytes:
        """Return its total as Redis has it, empty where it has none."""
        return pack_wallet_day(self.total) if self.total.changed_slot else b""


class Entry:
    """A holding, whose it is, and the day of its last change."""

    __slots__ = ("day", "holding", "mint", "mint_raw", "score", "wallet", "wallet_raw")

    def __init__(
        self, wallet: str, wallet_raw: bytes, mint: str, mint_raw: bytes, holding: Holding
    ) -> None:
        self.wallet = wallet
        self.wallet_raw = wallet_raw
        self.mint = mint
        self.mint_raw = mint_raw
        self.holding = holding
        self.day = NOT_CHANGED
        self.score: int | None = None  # as the leaderboard has it; None: not there


class Recent(Generic[K, V]):
    """A map that forgets: two generations, the elder goes when the younger is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value, which is used by that."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self._young[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """Add a value."""
        self._young[key] = value

    def drop(self, key: K) -> None:
        """Forget a value."""
        self._young.pop(key, None)
        self._old.pop(key, None)

    def forget(self, keep: Iterable[K], *, is_due: bool) -> None:
        """Forget the elder generation if it is due or the younger is full, but for some keys."""
        if len(self._young) < self._size and not is_due:
            return
        kept = {key: value for key in keep if (value := self.get(key)) is not None}
        self._old, self._young = self._young, kept
        for key in kept:
            self._old.pop(key, None)


class Memory:
    """What the books of one partition have in memory, for loading, applying and putting away."""

    def __init__(self, clock_ms: int, recent: int) -> None:
        self.clock_ms = clock_ms  # the latest block time
        self.entries: Recent[Place, Entry] = Recent(recent)
        self.wallets: Recent[str, Wallet] = Recent(recent)
        self.flows: dict[int, list[Flow]] = {}  # of the slots that were loaded
        # Of the same: mints that wallets in quarantine move.
        self.left_out: defaultdict[int, set[str]] = defaultdict(set)
        self.touches: dict[int, set[str]] = {}  # of the same: wallets that something happens to
        # What the next `take` returns.
        self.dirty: dict[Place, Entry] = {}
        self.dirty_wallets: dict[str, Wallet] = {}
        self.balances: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        # What the last one did.
        self.writing: dict[Place, Entry] = {}
        self.balances_writing: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)

    @property
    def gone_day(self) -> int:
        """Return the last day whose figures Redis does not keep any more."""
        return self.clock_ms // DAY_MS - DAYS_KEPT

    def places(self) -> Iterator[Place]:
        """Yield whose holdings the flows loaded change."""
        for slot_flows in self.flows.values():
            for flow in slot_flows:
                yield flow.wallet, flow.mint

    def leave_out(self, names: Quarantine) -> None:
        """Forget what the slots loaded do to some wallets, but that their tokens move.

        So tokens are put away when they would be with these wallets, too.
        """
        if not names:
            return
        for slot, flows in self.flows.items():
            self.left_out[slot] |= {flow.mint for flow in flows if flow.wallet in names}
            self.flows[slot] = [flow for flow in flows if flow.wallet not in names]
        self.touches = {
            slot: {name for name in touched if name not in names}
            for slot, touched in self.touches.items()
        }

    def mints(self, slot: int) -> set[str]:
        """Return the mints that a slot loaded moves, those moved by wallets left out as well."""
        moved = {flow.mint for flow in self.flows[slot]}
        return (moved | self.left_out.get(slot, set())) - {NO_TOKEN}

    def entry_of(self, place: Place) -> Entry:
        """Return an entry that was loaded."""
        entry = self.entries.get(place)
        assert entry is not None, place
        return entry

    def existing(self, wallet: str, mint: str) -> Entry | None:
        """Return a position that the wallet has already; in memory is more than that."""
        entry = self.entries.get((wallet, mint))
        return entry if entry is not None and entry.holding.position.changed_slot else None


def stored_entry(place: Place, packed: bytes) -> Entry:
    """Return a position that Redis has. Raises PackedError."""
    entry = entry_at(place, Holding.unpack(packed))
    entry.score = entry.holding.position.realized_usd_micros
    return entry


def entry_at(place: Place, holding: Holding) -> Entry:
    """Return the entry of a holding."""
    wallet, mint = place
    return Entry(wallet, raw_address(wallet), mint, raw_address(mint), holding)


def raw_address(text: str) -> bytes:
    """Return the bytes of an address; raises CodecError."""
    try:
        return addresses.key(text)
    except ValueError as error:
        raise CodecError(f"address {text!r}: {error}") from None
