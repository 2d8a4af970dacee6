"""The books of wallets as bytes: a position, its lots, a wallet's day. Shared by all readers.

Numbers are little-endian and unsigned. The first byte of a position or a day is its form: 1 has
8 bytes for each amount, 2 has 16: it is written where an amount does not fit 8. So every record
has one form only, and equal records are equal bytes.

Position (`Position`): form u8; then as amounts, in this order, the fields up to
`tip_lamports`; then u32 x 6 from `buys` to `lots_closed`; then u64 x 5 from `first_trade_slot` to
`changed_slot`; then the open lots of the last, unfinished chunk, oldest first.

Lot (`Lot`), 45 bytes: u64 quantity_raw, u64 cost_lamports, u64 cost_usd_micros, u64 slot,
u64 time_ms, u32 tx_index, u8 1 where the cost is known, else 0.

Lots are numbered from 0 in the order in which they were opened; those from `lots_closed` up to
`lots_opened` are open, the first of them lacks `head_taken_raw`. Sixteen in a row are a chunk: lot
n is in chunk n // 16. A chunk that is full is a record of its own, written once: the lots that
were open when it became full, so the last one always ends it.

Wallet day (`WalletDay`): form u8; as amounts the fields up to `tip_lamports`; then u32 x 5 from
`buys` to `unmatched_sales`; then u64 changed_slot. The same record holds all days together.

A position with all its open lots, as ClickHouse keeps it when its token is dead: u32 length and
bytes of the position, then for each full chunk u16 length and bytes.

A wallet's positions, whose fields are the 32 bytes of a mint, also have the field COLD_MARK once
one of them was put away into ClickHouse. It stays when they are all back.

Balance (`Balance`), 42 bytes: mint 32 bytes, u64 amount_raw, u8 decimals, u8 1 for Token-2022.

A wallet as ClickHouse keeps it when it is at rest (`ColdWallet`): u16 length and bytes of the
wallet day of all days together, 0 where it has none; then for each balance the 32 bytes of its
account and the balance, ascending by account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, Final, NamedTuple, TypeVar

CHUNK_LOTS: Final = 16
COLD_MARK: Final = b"cold"

_NARROW: Final = 1
_WIDE: Final = 2
_WIDE_BYTES: Final = 16
_U64_MAX: Final = 2**64 - 1


class PackedError(ValueError):
    """Bytes that are no such record; the text says which and why."""


class Lot(NamedTuple):
    """What was bought or received at once; costs are 0 where `has_cost` is 0."""

    quantity_raw: int
    cost_lamports: int
    cost_usd_micros: int
    slot: int
    time_ms: int
    tx_index: int
    has_cost: int


LOT: Final = Struct("<QQQQQIB")


@dataclass(slots=True)
class Position:
    """What a wallet has done with a token, and what it still holds of it."""

    held_raw: int = 0  # in open lots
    held_known_raw: int = 0  # of these in lots whose cost is known
    head_taken_raw: int = 0  # of the oldest open lot
    bought_raw: int = 0
    sold_raw: int = 0
    received_raw: int = 0
    sent_raw: int = 0
    burned_raw: int = 0
    unmatched_raw: int = 0  # sold or burned without a lot of known cost, or at an unknown value
    bought_lamports: int = 0  # paid, where it is known
    bought_usd_micros: int = 0
    sold_lamports: int = 0  # taken in, where it is known
    sold_usd_micros: int = 0
    matched_proceeds_lamports: int = 0  # of what was sold from lots of known cost
    matched_proceeds_usd_micros: int = 0
    matched_cost_lamports: int = 0  # of the same
    matched_cost_usd_micros: int = 0
    held_cost_lamports: int = 0  # of the open lots
    held_cost_usd_micros: int = 0
    fee_lamports: int = 0  # base + priority
    priority_fee_lamports: int = 0
    tip_lamports: int = 0
    buys: int = 0
    sells: int = 0
    wins: int = 0  # sales that realized a gain in dollars
    losses: int = 0
    lots_opened: int = 0
    lots_closed: int = 0
    first_trade_slot: int = 0  # trades are purchases and sales; 0: none yet
    first_trade_ms: int = 0
    last_trade_slot: int = 0
    last_trade_ms: int = 0
    changed_slot: int = 0

    @property
    def realized_lamports(self) -> int:
        """Return the gain of what was sold or burned from lots of known cost."""
        return self.matched_proceeds_lamports - self.matched_cost_lamports

    @property
    def realized_usd_micros(self) -> int:
        """Return the same in millionths of a dollar."""
        return self.matched_proceeds_usd_micros - self.matched_cost_usd_micros


P = TypeVar("P", bound=Position)


@dataclass(slots=True)
class WalletDay:
    """What a wallet did on one day (UTC, by the time of the block), over all its tokens."""

    bought_lamports: int = 0
    bought_usd_micros: int = 0
    sold_lamports: int = 0
    sold_usd_micros: int = 0
    matched_proceeds_lamports: int = 0
    matched_proceeds_usd_micros: int = 0
    matched_cost_lamports: int = 0
    matched_cost_usd_micros: int = 0
    fee_lamports: int = 0
    priority_fee_lamports: int = 0
    tip_lamports: int = 0
    buys: int = 0
    sells: int = 0
    wins: int = 0
    losses: int = 0
    unmatched_sales: int = 0  # sales of which a part was not matched
    changed_slot: int = 0

    @property
    def realized_lamports(self) -> int:
        """Return the gain of what was sold or burned from lots of known cost."""
        return self.matched_proceeds_lamports - self.matched_cost_lamports

    @property
    def realized_usd_micros(self) -> int:
        """Return the same in millionths of a dollar."""
        return self.matched_proceeds_usd_micros - self.matched_cost_usd_micros


@dataclass(slots=True, frozen=True)
class Balance:
    """What a token account of a wallet holds."""

    mint: bytes
    amount_raw: int
    decimals: int
    is_token_2022: bool


class ColdWallet(NamedTuple):
    """What was put away of a wallet beside its positions."""

    total: bytes  # packed WalletDay of all days together; empty: none
    balances: dict[bytes, bytes]  # raw token account -> packed Balance


class _Form:
    """How the fields of a record lie in its bytes: amounts first, then what always fits."""

    def __init__(self, record: type[Any], rest: str) -> None:
        names = [field.name for field in fields(record)]
        self.name = record.__name__
        self.values = attrgetter(*names)
        self.amounts = names.index("buys")
        self.narrow = Struct(f"<B{self.amounts}Q{rest}")
        self.wide = Struct(f"<B{f'{_WIDE_BYTES}s' * self.amounts}{rest}")

    def pack(self, record: Position | WalletDay) -> bytes:
        """Return the bytes of a record."""
        values = self.values(record)
        try:
            return self.narrow.pack(_NARROW, *values)
        except StructError:
            amounts = (value.to_bytes(_WIDE_BYTES, "little") for value in values[: self.amounts])
            return self.wide.pack(_WIDE, *amounts, *values[self.amounts :])

    def unpack(self, data: bytes) -> tuple[list[int] | tuple[int, ...], int]:
        """Return the fields' values and how many bytes they took; raises PackedError."""
        form = data[0] if data else 0
        layout = self.narrow if form == _NARROW else self.wide if form == _WIDE else None
        if layout is None or len(data) < layout.size:
            raise PackedError(f"{self.name}: {len(data)} bytes of form {form}")
        values = layout.unpack_from(data)
        if form == _NARROW:
            return values[1:], layout.size
        amounts = [int.from_bytes(value, "little") for value in values[1 : self.amounts + 1]]
        return [*amounts, *values[self.amounts + 1 :]], layout.size


_POSITION: Final = _Form(Position, "6I5Q")
_WALLET_DAY: Final = _Form(WalletDay, "5IQ")
_BALANCE: Final = Struct("<32sQBB")
_ACCOUNT_BYTES: Final = 32


def pack_position(position: Position, tail: bytes) -> bytes:
    """Return the bytes of a position; `tail` is the open lots of its last chunk, packed."""
    return _POSITION.pack(position) + tail


def unpack_position(data: bytes) -> tuple[Position, bytes]:
    """Return a position and the open lots of its last chunk, packed; raises PackedError."""
    values, size = _POSITION.unpack(data)
    position, tail = Position(*values), data[size:]
    if len(tail) != LOT.size * len(tail_lots(position)):
        raise PackedError(f"Position: {len(tail)} bytes of lots, {tail_lots(position)} are open")
    return position, tail


def unpack_figures(data: bytes, record: type[P]) -> P:
    """Return a position alone, in half the time; raises PackedError."""
    return record(*_POSITION.unpack(data)[0])


def tail_lots(position: Position) -> range:
    """Return the numbers of the open lots in the last, unfinished chunk."""
    opened = position.lots_opened
    return range(max(position.lots_closed, opened - opened % CHUNK_LOTS), opened)


def full_chunks(position: Position) -> range:
    """Return the numbers of the full chunks that hold open lots."""
    return range(position.lots_closed // CHUNK_LOTS, position.lots_opened // CHUNK_LOTS)


def unpack_lots(data: bytes) -> Iterator[Lot]:
    """Yield packed lots; raises PackedError."""
    if len(data) % LOT.size:
        raise PackedError(f"Lot: {len(data)} bytes are not a multiple of {LOT.size}")
    return map(Lot._make, LOT.iter_unpack(data))


def pack_cold(position: bytes, chunks: Iterable[bytes]) -> bytes:
    """Return the bytes of a packed position together with its full chunks."""
    parts = [len(position).to_bytes(4, "little"), position]
    for chunk in chunks:
        parts += [len(chunk).to_bytes(2, "little"), chunk]
    return b"".join(parts)


def unpack_cold(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return a packed position and its full chunks; raises PackedError."""
    at = 4 + int.from_bytes(data[:4], "little")
    position, chunks = data[4:at], []
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        chunks.append(data[at + 2 : end])
        at = end
    if at != len(data) or len(data) < 4:
        raise PackedError(f"cold position: {len(data)} bytes, {at} expected")
    return position, chunks


def pack_wallet_day(day: WalletDay) -> bytes:
    """Return the bytes of a day."""
    return _WALLET_DAY.pack(day)


def unpack_wallet_day(data: bytes) -> WalletDay:
    """Return a day; raises PackedError."""
    values, size = _WALLET_DAY.unpack(data)
    if len(data) != size:
        raise PackedError(f"WalletDay: {len(data)} bytes instead of {size}")
    return WalletDay(*values)


def summary(days: Iterable[WalletDay]) -> WalletDay:
    """Return days as one: of the last seven days' records that is the 7-day summary."""
    rows = [_WALLET_DAY.values(day) for day in days]
    if not rows:
        return WalletDay()
    *sums, changed_slots = zip(*rows, strict=True)
    values = [*map(sum, sums), max(changed_slots)]
    return WalletDay(*values)


def pack_balance(mint: bytes, amount_raw: int, decimals: int, is_token_2022: bool) -> bytes:
    """Return the bytes of a balance; `mint` is its 32 bytes."""
    return _BALANCE.pack(mint, amount_raw, decimals, is_token_2022)


def unpack_balance(data: bytes) -> Balance:
    """Return a balance; raises PackedError."""
    if len(data) != _BALANCE.size:
        raise PackedError(f"Balance: {len(data)} bytes instead of {_BALANCE.size}")
    mint, amount_raw, decimals, is_token_2022 = _BALANCE.unpack(data)
    return Balance(mint, amount_raw, decimals, bool(is_token_2022))


def pack_cold_wallet(wallet: ColdWallet) -> bytes:
    """Return the bytes of a wallet that is put away."""
    total, balances = wallet
    return b"".join(
        (
            len(total).to_bytes(2, "little"),
            total,
            *(account + packed for account, packed in sorted(balances.items())),
        )
    )


def unpack_cold_wallet(data: bytes) -> ColdWallet:
    """Return a wallet that was put away; raises PackedError."""
    start = 2 + int.from_bytes(data[:2], "little")
    size = _ACCOUNT_BYTES + _BALANCE.size
    if len(data) < start or (len(data) - start) % size:
        raise PackedError(f"cold wallet: {len(data)} bytes, {start} before its balances")
    return ColdWallet(
        data[2:start],
        {
            data[at : at + _ACCOUNT_BYTES]: data[at + _ACCOUNT_BYTES : at + size]
            for at in range(start, len(data), size)
        },
    )
