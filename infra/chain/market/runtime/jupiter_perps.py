"""Perps after Jupiter's: a pool, custodies, positions and requests, their bytes and arithmetic.

Layouts: `Pool`, `Custody` (2,000 bytes each, zeros behind), `Position` (216) and `PositionRequest`
of the IDL 0.1.0, Anchor. Dollars have 6 decimals, rates 9. A long's collateral is the token it is
about and belongs to the pool while it is open; a short's is a dollar and stays the owner's. What
the pool gets is rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct, pack_into
from typing import Final, NamedTuple

from infra.chain.market.runtime.programs import JUPITER_PERPS

USD: Final = 1_000_000
RATE: Final = 1_000_000_000
BPS: Final = 10_000
HOUR_S: Final = 3_600
HOURS_A_YEAR: Final = 8_760
FEE_BPS: Final = 6  # of what a position grows or shrinks
MOST_LEVERAGE: Final = 500
IMPACT_SCALAR: Final = 3_750_000_000_000_000
TARGET_UTILISATION: Final = RATE * 8 // 10
RATES_BPS: Final = (1_000, 3_500, 15_000)  # of a year: of nothing, the target and all locked
POSITION_BYTES: Final = 216
POSITION_RENT_LAMPORTS: Final = (128 + POSITION_BYTES) * 6_960
REQUEST_BYTES: Final = 286
REQUEST_RENT_LAMPORTS: Final = (128 + REQUEST_BYTES) * 6_960
CUSTODY_RENT_LAMPORTS: Final = (128 + 2_000) * 6_960
POOL_RENT_LAMPORTS: Final = CUSTODY_RENT_LAMPORTS
LONG, SHORT = 1, 2
INCREASE, DECREASE = 1, 2

_ACCOUNT_BYTES: Final = 2_000
_MAX_POSITION_USD: Final = 10_000_000 * USD
_POSITION_TAG: Final = bytes.fromhex("aabc8fe47a40f7d0")
_REQUEST_TAG: Final = bytes.fromhex("0c26fac72e9a20d8")
_CUSTODY_TAG: Final = bytes.fromhex("01b830515d833f91")
_POOL_TAG: Final = bytes.fromhex("f19a6d0411b16dbc")
_POSITION: Final = Struct("<8s32s32s32s32sqqBQQQq16sQB").pack
_REQUEST: Final = Struct("<8s32s32s32s32s32sqqQQBBB").pack
_U64: Final = Struct("<Q").pack


@dataclass(frozen=True, slots=True)
class Custody:
    """What the pool has of one token."""

    pool: bytes
    mint: bytes
    vault: bytes
    bumps: tuple[int, int]  # of its address, and of its vault's
    decimals: int
    is_stable: bool
    doves: bytes
    doves_ag: bytes
    updated_s: int
    cumulative_rate: int = 0
    fees_raw: int = 0
    owned_raw: int = 0
    locked_raw: int = 0
    guaranteed_usd: int = 0  # sizes of the longs less their collateral
    shorts_usd: int = 0
    shorts_price: int = 0  # mean entry of the shorts

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return JUPITER_PERPS.address

    @property
    def hourly_rate(self) -> int:
        """Return what positions pay an hour to borrow, of their size."""
        used = self.locked_raw * RATE // self.owned_raw if self.owned_raw else 0
        least, target, most = RATES_BPS
        if used <= TARGET_UTILISATION:
            yearly = least + _up((target - least) * used, TARGET_UTILISATION)
        else:
            beyond = used - TARGET_UTILISATION
            yearly = target + _up((most - target) * beyond, RATE - TARGET_UTILISATION)
        return yearly * RATE // BPS // HOURS_A_YEAR

    def accrued(self, time_s: int) -> Custody:
        """Return the custody with the borrow rate until a time."""
        past_s = time_s - self.updated_s
        if past_s <= 0:
            return self
        grown = self.cumulative_rate + _up(past_s * self.hourly_rate, HOUR_S)
        return replace(self, updated_s=time_s, cumulative_rate=grown)

    def tokens(self, usd: int, price: int) -> int:
        """Return how many raw units some dollars are, rounded down."""
        return usd * int(10**self.decimals) // price

    def usd(self, amount_raw: int, price: int) -> int:
        """Return what raw units are worth, rounded down."""
        return amount_raw * price // int(10**self.decimals)

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_ACCOUNT_BYTES)
        data[:8] = _CUSTODY_TAG
        data[8:104] = self.pool + self.mint + self.vault
        data[104:138] = bytes((self.decimals, self.is_stable)) + self.doves
        pack_into("<BQI", data, 138, 2, 50, 5)
        pack_into("<6Q", data, 151, IMPACT_SCALAR, 0, 0, MOST_LEVERAGE * BPS, *[10**15] * 2)
        data[199:206] = b"\1" * 7  # everything is allowed
        pack_into("<Q", data, 206, BPS // 2)
        pack_into("<3Q", data, 214, self.fees_raw, self.owned_raw, self.locked_raw)
        pack_into("<3Q", data, 238, self.guaranteed_usd, self.shorts_usd, self.shorts_price)
        data[262:278] = self.cumulative_rate.to_bytes(16, "little")
        pack_into("<qQBB", data, 278, self.updated_s, 0, *self.bumps)
        pack_into("<3Q", data, 296, FEE_BPS, FEE_BPS, _MAX_POSITION_USD)
        data[320:352] = self.doves
        pack_into("<4Q", data, 352, RATES_BPS[0], RATES_BPS[2], RATES_BPS[1], TARGET_UTILISATION)
        data[384:416] = self.doves_ag
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool whose tokens traders bet against."""

    custodies: tuple[bytes, ...]
    bumps: tuple[int, int]  # of its address, and of its token's
    inception_s: int
    aum_usd: int = 0
    refreshed_s: int = 0
    refreshed_slot: int = 0

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return JUPITER_PERPS.address

    def data(self) -> bytes:
        """Return the account's data."""
        named = _POOL_TAG + b"\4\0\0\0Pool" + len(self.custodies).to_bytes(4, "little")
        limit = (1 << 80).to_bytes(16, "little") + bytes(24)
        fees = Struct("<9Q").pack(100, 100, 20, 10, 100, 2, 5, 150, 2_500)
        rest = Struct("<qBBq33sqQ?QQ").pack(
            *(45, *self.bumps, self.inception_s, bytes(33), self.refreshed_s),
            *(500, False, 100, self.refreshed_slot),
        )
        aum = self.aum_usd.to_bytes(16, "little")
        data = named + b"".join(self.custodies) + aum + limit + fees + bytes(24) + rest
        return data.ljust(_ACCOUNT_BYTES, b"\0")


class Fees(NamedTuple):
    """What one change of a position costs, in dollars."""

    position_usd: int = 0
    funding_usd: int = 0
    impact_usd: int = 0

    @property
    def usd(self) -> int:
        """Return all of it."""
        return sum(self)


@dataclass(frozen=True, slots=True)
class Position:
    """A wallet's long or short of one token; it stays, empty, when it is closed."""

    owner_key: bytes
    pool: bytes
    custody: bytes
    collateral_custody: bytes
    side: int
    bump: int
    opened_s: int = 0
    updated_s: int = 0
    price: int = 0
    size_usd: int = 0
    collateral_usd: int = 0
    realized_usd: int = 0
    rate_snapshot: int = 0
    locked_raw: int = 0

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return JUPITER_PERPS.address

    @property
    def is_long(self) -> bool:
        """Whether it gains when the price rises."""
        return self.side == LONG

    def funding_usd(self, collateral: Custody) -> int:
        """Return what it owes for borrowing since its last change."""
        return _up((collateral.cumulative_rate - self.rate_snapshot) * self.size_usd, RATE)

    def fees(self, collateral: Custody, size_usd: int) -> Fees:
        """Return what a change by a size costs now."""
        return Fees(
            _up(size_usd * FEE_BPS, BPS),
            self.funding_usd(collateral),
            _up(size_usd * size_usd, IMPACT_SCALAR),
        )

    def pnl_usd(self, price: int) -> int:
        """Return what the price alone has brought, rounded towards nothing."""
        if not self.size_usd:
            return 0
        moved = price - self.price if self.is_long else self.price - price
        gained = self.size_usd * abs(moved) // self.price
        return gained if moved > 0 else -gained

    def margin_usd(self, collateral: Custody, price: int) -> int:
        """Return the collateral that would be left if it were closed."""
        costs = self.fees(collateral, self.size_usd).usd
        return self.collateral_usd + self.pnl_usd(price) - costs

    def is_liquidatable(self, collateral: Custody, price: int) -> bool:
        """Whether what is left is less than the greatest leverage wants."""
        return (
            self.size_usd > 0 and self.margin_usd(collateral, price) * MOST_LEVERAGE < self.size_usd
        )

    def data(self) -> bytes:
        """Return the account's data."""
        return _POSITION(
            *(_POSITION_TAG, self.owner_key, self.pool, self.custody, self.collateral_custody),
            *(self.opened_s, self.updated_s, self.side, self.price, self.size_usd),
            *(self.collateral_usd, self.realized_usd, self.rate_snapshot.to_bytes(16, "little")),
            *(self.locked_raw, self.bump),
        ).ljust(POSITION_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """What a wallet wants a keeper to do with its position."""

    owner_key: bytes
    pool: bytes
    custody: bytes
    position: bytes
    mint: bytes  # of its token account: what goes in, or comes out
    time_s: int
    change: int
    side: int
    counter: int
    bump: int
    price_slippage: int
    size_usd: int = 0
    collateral_raw: int = 0  # tokens of an increase; of a decrease dollars
    is_entire: bool = False
    is_executed: bool = False

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return JUPITER_PERPS.address

    def data(self) -> bytes:
        """Return the account's data."""
        entire = b"\1" + bytes((self.is_entire,)) if self.change == DECREASE else b"\0"
        rest = Struct("<?QB").pack(self.is_executed, self.counter, self.bump) + b"\0"
        data = (
            _REQUEST(
                *(_REQUEST_TAG, self.owner_key, self.pool, self.custody, self.position),
                *(self.mint, self.time_s, self.time_s, self.size_usd, self.collateral_raw),
                *(self.change, 0, self.side),
            )
            + b"\1"
            + _U64(self.price_slippage)
            + bytes(4)  # no least output, no swap before, no trigger
            + entire
            + rest
        )
        return data.ljust(REQUEST_BYTES, b"\0")


class Increased(NamedTuple):
    """A position that grew, and what its custodies have then."""

    position: Position
    custody: Custody
    collateral: Custody  # the same as `custody` for a long
    collateral_usd: int  # by which the collateral grew
    collateral_raw: int
    fee_raw: int
    fees: Fees


class Decreased(NamedTuple):
    """A position that shrank, and what its custodies have then."""

    position: Position
    custody: Custody
    collateral: Custody
    pnl_usd: int
    paid_usd: int  # to the owner
    paid_raw: int
    fees: Fees
    rest_usd: int = 0  # of a liquidation: what was left, which the pool keeps


def increased(
    position: Position,
    sides: tuple[Custody, Custody],
    prices: tuple[int, int],
    amount_raw: int,
    size_usd: int,
    time_s: int,
) -> Increased | None:
    """Add tokens and size to a position.

    None where the tokens do not cover its fees, or are more than it bets on.

    `sides`: the custody it is about, and that of its collateral; so are `prices`.
    """
    collateral = sides[1].accrued(time_s)
    custody = collateral if position.is_long else sides[0].accrued(time_s)
    price = prices[0]
    fees = position.fees(collateral, size_usd)
    fee_raw = _up(fees.usd * int(10**collateral.decimals), prices[1])
    if amount_raw < fee_raw:
        return None
    kept_raw = amount_raw - fee_raw
    added_usd = collateral.usd(kept_raw, prices[1])
    size = position.size_usd + size_usd
    if size < position.collateral_usd + added_usd:
        return None
    entry = price
    if position.size_usd:  # the same tokens altogether
        tokens = position.size_usd * price + size_usd * position.price
        entry = size * position.price * price // tokens
    locked_raw = custody.tokens(size_usd, price) if position.is_long else size_usd
    grown = replace(
        position,
        opened_s=position.opened_s if position.size_usd else time_s,
        updated_s=time_s,
        price=entry,
        size_usd=size,
        collateral_usd=position.collateral_usd + added_usd,
        rate_snapshot=collateral.cumulative_rate,
        locked_raw=position.locked_raw + locked_raw,
    )
    collateral = replace(
        collateral,
        fees_raw=collateral.fees_raw + fee_raw,
        locked_raw=collateral.locked_raw + locked_raw,
        owned_raw=collateral.owned_raw + (kept_raw if position.is_long else 0),
        guaranteed_usd=collateral.guaranteed_usd
        + (size_usd - added_usd if position.is_long else 0),
    )
    if position.is_long:
        custody = collateral
    else:
        custody = _shorts(custody, custody.shorts_usd + size_usd, size_usd, price)
    return Increased(grown, custody, collateral, added_usd, kept_raw, fee_raw, fees)


def decreased(
    position: Position,
    sides: tuple[Custody, Custody],
    prices: tuple[int, int],
    size_usd: int,
    withdrawn_usd: int,
    time_s: int,
    *,
    is_liquidation: bool = False,
) -> Decreased | None:
    """Take size and collateral out of a position; with all of its size it is closed.

    A liquidation closes it and pays its owner nothing. None where the collateral does not suffice,
    or would be more than it bets on, and where the pool has locked what it would pay.
    """
    collateral = sides[1].accrued(time_s)
    custody = collateral if position.is_long else sides[0].accrued(time_s)
    closes = size_usd == position.size_usd
    all_pnl = position.pnl_usd(prices[0])
    pnl = abs(all_pnl) * size_usd // position.size_usd
    pnl = pnl if all_pnl > 0 else -pnl
    fees = position.fees(collateral, size_usd)
    left = position.collateral_usd
    paid = max(pnl, 0)
    if pnl < 0:
        if is_liquidation:
            pnl = max(pnl, -left)
        left += pnl
    withdrawn = left if closes else withdrawn_usd
    left -= withdrawn
    paid += withdrawn
    if is_liquidation:
        fees = _affordable(fees, paid)
    if paid >= fees.usd:
        paid -= fees.usd
    else:
        left -= fees.usd
    size = position.size_usd - size_usd
    if not 0 <= left <= size:
        return None
    rest_usd = paid if is_liquidation else 0
    paid -= rest_usd
    paid_raw = collateral.tokens(paid, prices[1])
    # Of a long, the pool gives up dollars for fees in tokens; of a short they are dollars.
    fee_raw = collateral.tokens(fees.usd, prices[1])
    if position.is_long:
        owned_raw = collateral.owned_raw - paid_raw - fee_raw
    else:
        lost = position.collateral_usd - left  # of the owner's dollars
        owned_raw = collateral.owned_raw + lost - paid_raw - fee_raw
    locked_raw = position.locked_raw * size_usd // position.size_usd
    realized = position.realized_usd + pnl
    shrunk = replace(
        position,
        updated_s=time_s,
        size_usd=size,
        collateral_usd=left,
        realized_usd=realized if size else 0,
        rate_snapshot=collateral.cumulative_rate,
        locked_raw=position.locked_raw - locked_raw if size else 0,
        price=position.price if size else 0,
    )
    freed_raw = locked_raw if size else position.locked_raw
    collateral = replace(
        collateral,
        fees_raw=collateral.fees_raw + fee_raw,
        owned_raw=owned_raw,
        locked_raw=collateral.locked_raw - freed_raw,
        guaranteed_usd=collateral.guaranteed_usd
        - (size_usd - (position.collateral_usd - left) if position.is_long else 0),
    )
    if owned_raw < collateral.locked_raw:
        return None
    if position.is_long:
        custody = collateral
    else:
        custody = _shorts(custody, custody.shorts_usd - size_usd, 0, prices[0])
    return Decreased(shrunk, custody, collateral, pnl, paid, paid_raw, fees, rest_usd)


def aum_usd(custody: Custody, price: int) -> int:
    """Return what the pool has of a token, less what its traders have gained with it.

    `price`: of the token; a stable one is worth a dollar.
    """
    if custody.is_stable:
        return custody.owned_raw
    worth = custody.guaranteed_usd + custody.usd(custody.owned_raw - custody.locked_raw, price)
    if custody.shorts_usd:
        worth += custody.shorts_usd * (price - custody.shorts_price) // custody.shorts_price
    return worth


def _affordable(fees: Fees, usd: int) -> Fees:
    """Return the part of the fees that there is something for, the loan's first."""
    funding = min(fees.funding_usd, usd)
    position = min(fees.position_usd, usd - funding)
    return Fees(position, funding, min(fees.impact_usd, usd - funding - position))


def _shorts(custody: Custody, shorts_usd: int, added_usd: int, price: int) -> Custody:
    """Return a custody with another size of all shorts, and the mean of their entries."""
    before = shorts_usd - added_usd
    entry = custody.shorts_price
    if added_usd:
        entry = price
        if before:
            tokens = before * price + added_usd * custody.shorts_price
            entry = shorts_usd * custody.shorts_price * price // tokens
    return replace(custody, shorts_usd=shorts_usd, shorts_price=entry if shorts_usd else 0)


def _up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
