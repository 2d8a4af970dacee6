"""A lender after Kamino's klend: a market, reserves and obligations, their bytes and arithmetic.

Layouts: `LendingMarket` (4,664 bytes), `Reserve` (8,624) and `Obligation` (3,344) of klend's IDL
1.24.0, Anchor. Numbers named `_sf` have 60 bits behind the point; products and quotients are cut
off. Source of the sums: klend's `state/reserve.rs` (`accrue_interest`, `compound_interest`,
`CollateralExchangeRate`), `utils/borrow_rate_curve.rs` and `state/obligation.rs`. There are no
elevation groups, farms, referrers or origination fees; caps and their counters are left zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from struct import pack_into
from typing import Final

from infra.chain.market.runtime.programs import KLEND, NO_ADDRESS, TOKEN

BITS: Final = 60
ONE: Final = 1 << BITS
SLOTS_A_YEAR: Final = 63_072_000
MOST_DEPOSITS: Final = 8
MOST_BORROWS: Final = 5
OBLIGATION_BYTES: Final = 3_344
OBLIGATION_RENT_LAMPORTS: Final = 24_165_120
RESERVE_RENT_LAMPORTS: Final = 60_913_920
MARKET_RENT_LAMPORTS: Final = 33_352_320
TAKE_RATE_PERCENT: Final = 15  # of interest, to the protocol
HOST_RATE_BPS: Final = 25  # a year, all of it to the protocol
CLOSE_FACTOR_PERCENT: Final = 20  # of a debt, at one liquidation
SMALL_DEBT_USD: Final = 2  # may be liquidated whole
LEAST_BONUS_BPS: Final = 200
MOST_BONUS_BPS: Final = 1_000
BAD_DEBT_BONUS_BPS: Final = 99
LIQUIDATION_FEE_PERCENT: Final = 40  # of the bonus

_RESERVE_BYTES: Final = 8_624
_MARKET_BYTES: Final = 4_664
_RESERVE_TAG: Final = bytes.fromhex("2bf2ccca1af73b7f")
_OBLIGATION_TAG: Final = bytes.fromhex("a8ce8d6a584caca7")
_MARKET_TAG: Final = bytes.fromhex("f6723262489d1c78")
_FULL_BPS: Final = 10_000
_CURVE: Final = ((0, 100), (5_000, 800), (8_000, 1_200), (_FULL_BPS, 10_000))
"""Basis points of the liquidity that is lent, and the rate of a year there."""
_CURVE_POINTS: Final = 11
_U64_MAX: Final = (1 << 64) - 1


def from_percent(percent: int) -> int:
    """Return a percentage with 60 bits behind the point."""
    return (percent << BITS) // 100


def from_bps(bps: int) -> int:
    """Return basis points with 60 bits behind the point."""
    return (bps << BITS) // _FULL_BPS


def _times(left_sf: int, right_sf: int) -> int:
    return left_sf * right_sf >> BITS


def ceiling(amount_sf: int) -> int:
    """Return the least whole number that is not below."""
    return -(-amount_sf >> BITS)


def yearly_rate(used_sf: int) -> int:
    """Return the rate of a year where a share of the liquidity is lent."""
    used_bps = (used_sf * _FULL_BPS + (ONE >> 1)) >> BITS
    for (start, low), (end, high) in pairwise(_CURVE):
        if used_bps == start:
            return from_bps(low)
        if used_bps < end:
            return (used_sf - from_bps(start)) * (high - low) // (end - start) + from_bps(low)
    return from_bps(_CURVE[-1][1])


def growth(rate_sf: int, slots: int) -> int:
    """Return by what a debt grows in some slots, at a rate of a year.

    Up to four slots are multiplied out; beyond, three terms of the binomial series.
    """
    a_slot = rate_sf // SLOTS_A_YEAR
    if slots <= 4:
        once = ONE + a_slot
        if slots == 4:
            return _times(_times(once, once), _times(once, once))
        grown = ONE
        for _ in range(slots):
            grown = _times(grown, once)
        return grown
    squared = _times(a_slot, a_slot)
    pairs = squared * slots * (slots - 1) // 2
    triples = _times(squared, a_slot) * slots * (slots - 1) * (slots - 2) // 6
    return ONE + a_slot * slots + pairs + triples


@dataclass(frozen=True, slots=True)
class Terms:
    """How much of a token's worth counts, in percent: of deposits, and of debts."""

    loan_to_value: int  # for new debts
    threshold: int  # below which it may be liquidated
    borrow_factor: int  # at least 100


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a market lends of one token."""

    market: bytes
    mint: bytes
    decimals: int
    name: str
    vault: bytes
    fee_vault: bytes  # liquidations pay into it
    collateral_mint: bytes
    collateral_vault: bytes
    terms: Terms
    slot: int
    is_stale: bool = False  # changed since it was refreshed
    price_sf: int = 0  # dollars a whole token, as the oracle last said
    price_s: int = 0
    available_raw: int = 0
    debt_sf: int = 0
    fees_sf: int = 0  # the protocol's part of what is there
    rate_sf: int = ONE  # by what a debt has grown since the start
    collateral_raw: int = 0  # collateral tokens that exist

    @property
    def owner(self) -> bytes:
        """Return klend's program."""
        return KLEND.address

    @property
    def liquidity_sf(self) -> int:
        """Return what the depositors have."""
        return (self.available_raw << BITS) + self.debt_sf - self.fees_sf

    @property
    def used_sf(self) -> int:
        """Return which share of it is lent."""
        return min((self.debt_sf << BITS) // self.liquidity_sf, ONE) if self.liquidity_sf else 0

    def accrued(self, slot: int) -> Reserve:
        """Return the reserve with interest until a slot."""
        slots = slot - self.slot
        if slots <= 0:
            return self
        host_sf = from_bps(HOST_RATE_BPS)
        grown = growth(yearly_rate(self.used_sf) + host_sf, slots)
        debt_sf = _times(self.debt_sf, grown)
        host_fee_sf = _times(self.debt_sf, growth(host_sf, slots)) - self.debt_sf
        interest_sf = debt_sf - self.debt_sf - host_fee_sf
        taken_sf = host_fee_sf + _times(interest_sf, from_percent(TAKE_RATE_PERCENT))
        return replace(
            self,
            slot=slot,
            debt_sf=debt_sf,
            fees_sf=self.fees_sf + taken_sf,
            rate_sf=_times(self.rate_sf, grown),
        )

    def refreshed(self, slot: int, time_s: int, price_sf: int) -> Reserve:
        """Return the reserve with interest until a slot, at the oracle's price."""
        return replace(self.accrued(slot), is_stale=False, price_sf=price_sf, price_s=time_s)

    def redeemable_sf(self, collateral_raw: int) -> int:
        """Return the liquidity that collateral tokens are."""
        if not self.collateral_raw or not self.liquidity_sf:
            return collateral_raw << BITS
        return collateral_raw * self.liquidity_sf // self.collateral_raw

    def collateral_of(self, amount_raw: int) -> int:
        """Return the collateral tokens that liquidity buys, rounded down."""
        if not self.collateral_raw or not self.liquidity_sf:
            return amount_raw
        return (amount_raw << BITS) * self.collateral_raw // self.liquidity_sf

    def price_of_collateral(self, collateral_raw: int) -> int:
        """Return the liquidity that collateral tokens cost, rounded up."""
        if not self.collateral_raw or not self.liquidity_sf:
            return collateral_raw
        return -(-collateral_raw * self.liquidity_sf // (self.collateral_raw << BITS))

    def worth_sf(self, amount_sf: int) -> int:
        """Return dollars."""
        whole: int = 10**self.decimals
        return _times(amount_sf, self.price_sf) // whole

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_RESERVE_BYTES)
        data[:8] = _RESERVE_TAG
        pack_into("<QQB", data, 8, 1, self.slot, self.is_stale)
        data[25] = 0 if self.is_stale else 0b11_1111  # all checks of the price have passed
        data[32:64] = self.market
        data[128:224] = self.mint + self.vault + self.fee_vault
        pack_into("<Q", data, 224, self.available_raw)
        data[232:264] = _u128(self.debt_sf) + _u128(self.price_sf)
        pack_into("<QQ", data, 264, self.price_s, self.decimals)
        data[296:328] = self.rate_sf.to_bytes(32, "little")
        data[344:360] = _u128(self.fees_sf)
        data[408:440] = TOKEN.address
        data[2560:2592] = self.collateral_mint
        pack_into("<Q", data, 2592, self.collateral_raw)
        data[2600:2632] = self.collateral_vault
        pack_into("<H", data, 4858, HOST_RATE_BPS)
        terms = self.terms
        percents = (TAKE_RATE_PERCENT, LIQUIDATION_FEE_PERCENT, terms.loan_to_value)
        data[4870:4874] = bytes((*percents, terms.threshold))
        pack_into("<HHH", data, 4874, LEAST_BONUS_BPS, MOST_BONUS_BPS, BAD_DEBT_BONUS_BPS)
        for number in range(_CURVE_POINTS):  # the last point fills what is left
            pack_into("<II", data, 4920 + 8 * number, *_CURVE[min(number, len(_CURVE) - 1)])
        pack_into("<QQQ", data, 5008, terms.borrow_factor, _U64_MAX, _U64_MAX)
        data[5032:5064] = self.name.encode().ljust(32, b"\0")
        pack_into("<Q", data, 5504, _U64_MAX)  # of loans outside elevation groups
        return bytes(data)


@dataclass(frozen=True, slots=True)
class LendingMarket:
    """Reserves that secure each other's loans."""

    admin: bytes

    @property
    def owner(self) -> bytes:
        """Return klend's program."""
        return KLEND.address

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_MARKET_BYTES)
        data[:8] = _MARKET_TAG
        pack_into("<QQ", data, 8, 1, 255)
        data[24:88] = self.admin * 2
        data[88:120] = b"USD".ljust(32, b"\0")
        data[126:128] = bytes((CLOSE_FACTOR_PERCENT, 95))
        pack_into("<QQQQ", data, 128, SMALL_DEBT_USD, 500_000, 0, 45_000_000)
        data[3248:3280] = b"Simulated Market".ljust(32, b"\0")
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Deposit:
    """Collateral tokens of a reserve."""

    reserve: bytes = NO_ADDRESS
    collateral_raw: int = 0
    worth_sf: int = 0


@dataclass(frozen=True, slots=True)
class Borrow:
    """A debt to a reserve."""

    reserve: bytes = NO_ADDRESS
    rate_sf: int = 0  # of the reserve, when the debt was last counted
    amount_sf: int = 0
    borrowed_s: int = 0
    worth_sf: int = 0
    weighed_sf: int = 0

    def counted(self, rate_sf: int) -> Borrow:
        """Return the debt with interest, at the reserve's rate."""
        if rate_sf <= self.rate_sf:
            return self
        return replace(self, rate_sf=rate_sf, amount_sf=self.amount_sf * rate_sf // self.rate_sf)


@dataclass(frozen=True, slots=True)
class Obligation:
    """What a wallet has with a market; entries keep their places, empty ones have no reserve."""

    market: bytes
    authority: bytes
    slot: int
    is_stale: bool = True
    deposits: tuple[Deposit, ...] = (Deposit(),) * MOST_DEPOSITS
    borrows: tuple[Borrow, ...] = (Borrow(),) * MOST_BORROWS
    allowed_sf: int = 0  # dollars of debt that the deposits allow
    limit_sf: int = 0  # dollars of debt from which it may be liquidated
    lowest_terms: tuple[int, int] = (0, 0)  # threshold and loan to value, percent
    highest_factor: int = 0

    @property
    def owner(self) -> bytes:
        """Return klend's program."""
        return KLEND.address

    @property
    def collateral_sf(self) -> int:
        """Return what the deposits are worth, in dollars."""
        return sum(each.worth_sf for each in self.deposits)

    @property
    def weighed_sf(self) -> int:
        """Return what the debts count, in dollars."""
        return sum(each.weighed_sf for each in self.borrows)

    @property
    def reserves(self) -> tuple[bytes, ...]:
        """Return the reserves it has anything with, deposits first."""
        used = [each.reserve for each in self.deposits]
        used += [each.reserve for each in self.borrows]
        return tuple(dict.fromkeys(each for each in used if each != NO_ADDRESS))

    def deposit_of(self, reserve: bytes) -> Deposit:
        """Return the deposit of a reserve, an empty one where there is none."""
        return next((each for each in self.deposits if each.reserve == reserve), Deposit(reserve))

    def borrow_of(self, reserve: bytes) -> Borrow:
        """Return the debt to a reserve, an empty one where there is none."""
        return next((each for each in self.borrows if each.reserve == reserve), Borrow(reserve))

    def with_deposit(self, deposit: Deposit) -> Obligation:
        """Return it with another deposit of a reserve; raises StopIteration without a place."""
        at = _place([each.reserve for each in self.deposits], deposit.reserve)
        entry = deposit if deposit.collateral_raw else Deposit()
        deposits = (*self.deposits[:at], entry, *self.deposits[at + 1 :])
        return replace(self, deposits=deposits, is_stale=True)

    def with_borrow(self, borrow: Borrow) -> Obligation:
        """Return it with another debt to a reserve; raises StopIteration without a place."""
        at = _place([each.reserve for each in self.borrows], borrow.reserve)
        entry = borrow if borrow.amount_sf else Borrow()
        borrows = (*self.borrows[:at], entry, *self.borrows[at + 1 :])
        return replace(self, borrows=borrows, is_stale=True)

    def refreshed(self, reserves: Mapping[bytes, Reserve], slot: int) -> Obligation:
        """Return it with interest and worth by its reserves as they are at a slot."""
        allowed_sf = limit_sf = 0
        deposits, borrows, terms, factors = [], [], [], []
        for deposit in self.deposits:
            if (reserve := reserves.get(deposit.reserve)) is None:  # an empty place
                deposits.append(deposit)
                continue
            worth_sf = reserve.worth_sf(reserve.redeemable_sf(deposit.collateral_raw))
            allowed_sf += _times(worth_sf, from_percent(reserve.terms.loan_to_value))
            limit_sf += _times(worth_sf, from_percent(reserve.terms.threshold))
            terms.append((reserve.terms.threshold, reserve.terms.loan_to_value))
            deposits.append(replace(deposit, worth_sf=worth_sf))
        for each in self.borrows:
            borrow = each
            if (reserve := reserves.get(borrow.reserve)) is not None:
                borrow = borrow.counted(reserve.rate_sf)
                worth_sf = reserve.worth_sf(borrow.amount_sf)
                factor = reserve.terms.borrow_factor
                weighed_sf = _times(worth_sf, from_percent(factor))
                borrow = replace(borrow, worth_sf=worth_sf, weighed_sf=weighed_sf)
                factors.append(factor)
            borrows.append(borrow)
        return replace(
            self,
            slot=slot,
            is_stale=False,
            deposits=tuple(deposits),
            borrows=tuple(borrows),
            allowed_sf=allowed_sf,
            limit_sf=limit_sf,
            lowest_terms=min(terms, default=(0, 0)),
            highest_factor=max(factors, default=0),
        )

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(OBLIGATION_BYTES)
        data[:8] = _OBLIGATION_TAG
        pack_into("<QB", data, 16, self.slot, self.is_stale)
        data[25] = 0 if self.is_stale else 0b11_1111
        data[32:96] = self.market + self.authority
        for number, deposit in enumerate(self.deposits):
            at = 96 + 136 * number
            pack_into("<32sQ", data, at, deposit.reserve, deposit.collateral_raw)
            data[at + 40 : at + 56] = _u128(deposit.worth_sf)
        pack_into("<Q", data, 1184, self.lowest_terms[0])
        data[1192:1208] = _u128(self.collateral_sf)
        for number, borrow in enumerate(self.borrows):
            at = 1208 + 200 * number
            data[at : at + 64] = borrow.reserve + borrow.rate_sf.to_bytes(32, "little")
            pack_into("<Q", data, at + 80, borrow.borrowed_s)
            data[at + 88 : at + 136] = (
                _u128(borrow.amount_sf) + _u128(borrow.worth_sf) + _u128(borrow.weighed_sf)
            )
        owed_sf = sum(each.worth_sf for each in self.borrows)
        data[2208:2272] = (
            _u128(self.weighed_sf) + _u128(owed_sf) + _u128(self.allowed_sf) + _u128(self.limit_sf)
        )
        data[2287] = any(each.amount_sf for each in self.borrows)
        data[2322] = self.lowest_terms[1]
        pack_into("<Q", data, 2328, self.highest_factor)
        return bytes(data)


def bonus_sf(obligation: Obligation) -> int:
    """Return by how much more than the repaid worth a liquidator gets, as a share of it.

    As far as the debt is beyond its limit, between two bounds; little where it is bad.
    """
    ltv_sf = (obligation.weighed_sf << BITS) // obligation.collateral_sf
    if ltv_sf >= from_percent(99):
        return from_bps(BAD_DEBT_BONUS_BPS)
    beyond_sf = ltv_sf - (obligation.limit_sf << BITS) // obligation.collateral_sf
    return min(max(beyond_sf, from_bps(LEAST_BONUS_BPS)), from_bps(MOST_BONUS_BPS))


def _place(reserves: list[bytes], reserve: bytes) -> int:
    if reserve in reserves:
        return reserves.index(reserve)
    return next(at for at, each in enumerate(reserves) if each == NO_ADDRESS)


def _u128(value: int) -> bytes:
    return value.to_bytes(16, "little")
