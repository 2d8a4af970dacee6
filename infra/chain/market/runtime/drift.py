"""Perps after Drift: users, a perp market, a spot market and an oracle, bytes and arithmetic.

Layouts: `User` (4,376 bytes), `UserStats` (240), `PerpMarket` (1,216), `SpotMarket` (776) and
`PythLazerOracle` (48) of Drift's IDL 2.150.0, Anchor. Base amounts have 9 decimals, dollars and
prices 6, funding rates 9, scaled balances 9. There is one market, of SOL, and one collateral, USDC,
which nobody borrows. What users gain or lose stays in their position until it is settled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct, pack_into
from typing import Final

from infra.chain.market.runtime.programs import DRIFT, NO_ADDRESS

USD: Final = 1_000_000
BASE: Final = 1_000_000_000
BUFFER: Final = 1_000  # of funding rates over prices
DAY_HOURS: Final = 24
FUNDING_PERIOD_S: Final = 20
FEE_BPS: Final = 10
INITIAL_RATIO: Final = 500  # of 10,000: the margin that a new position wants
MAINTENANCE_RATIO: Final = 300
USER_BYTES: Final = 4_376
STATS_BYTES: Final = 240
STEP: Final = 10_000_000  # base
MARKET_INDEX: Final = 0
ORACLE_DECIMALS: Final = 8

INTEREST: Final = 10_000_000_000  # cumulative, of deposits and debts, as it began
_SCALE: Final = 1_000  # scaled balance of a raw unit of USDC
_RESERVE: Final = 41_000_000 * BASE
_PEG_SPREAD_BPS: Final = 100  # between the mark and the oracle where all bet one way
_USER_TAG: Final = bytes.fromhex("9f755fe3ef973aec")
_STATS_TAG: Final = bytes.fromhex("b0df881b7a4f20e3")
_PERP_TAG: Final = bytes.fromhex("0adf0c2c6bf537f7")
_SPOT_TAG: Final = bytes.fromhex("64b1086ba8414127")
_ORACLE_TAG: Final = bytes.fromhex("9f07a1f922517985")
_PYTH_LAZER: Final = 12
_PYTH_LAZER_STABLE: Final = 15
_ORACLE: Final = Struct("<8sqQQi4xQ").pack


def rent_lamports(size: int) -> int:
    """Return what an account of some bytes holds at least."""
    return (128 + size) * 6_960


@dataclass(frozen=True, slots=True)
class LazerOracle:
    """A price that Pyth Lazer reports, with 8 decimals."""

    price: int
    time_s: int
    slot: int

    @property
    def owner(self) -> bytes:
        """Return Drift's program."""
        return DRIFT.address

    @property
    def usd(self) -> int:
        """Return the price in millionths."""
        return self.price // 100

    def data(self) -> bytes:
        """Return the account's data."""
        time_us = self.time_s * 1_000_000
        conf = self.price // 10_000
        return _ORACLE(_ORACLE_TAG, self.price, time_us, self.slot, -ORACLE_DECIMALS, conf)


@dataclass(frozen=True, slots=True)
class SpotMarket:
    """The USDC in the vault: deposits of users, and the pool of the perp market."""

    address: bytes
    oracle: bytes
    mint: bytes
    vault: bytes
    insurance_vault: bytes
    time_s: int
    deposits_raw: int = 0
    next_deposit_id: int = 1

    @property
    def owner(self) -> bytes:
        """Return Drift's program."""
        return DRIFT.address

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(776)
        data[:136] = _SPOT_TAG + self.address + self.oracle + self.mint + self.vault
        data[136:168] = b"USDC".ljust(32)
        pack_into("<qQqqqq", data, 168, USD, 0, 0, USD, USD, self.time_s)
        pack_into("<4Qq", data, 216, USD, USD, USD, USD, self.time_s)
        data[304:336] = self.insurance_vault
        pack_into("<q", data, 384, 1_123_200)
        data[432:448] = _u128(scaled(self.deposits_raw))
        data[464:496] = _u128(INTEREST) * 2
        pack_into("<2Q", data, 528, 10**12, 10**15)
        pack_into("<QQ", data, 568, self.time_s, self.time_s)
        pack_into("<4Q", data, 592, 1, 1, 0, 0)
        pack_into("<Q", data, 632, self.next_deposit_id)
        pack_into("<4I", data, 640, *[10_000] * 4)
        pack_into("<4I", data, 664, 5_000, 800_000, 52_500, 900_000)
        pack_into("<IH", data, 680, 6, 0)
        data[687:690] = bytes((_PYTH_LAZER_STABLE, 1, 0))  # active, collateral
        return bytes(data)


@dataclass(frozen=True, slots=True)
class PerpMarket:
    """The perp market of SOL and its AMM, which is the other side of every trade."""

    address: bytes
    oracle: bytes
    price: int  # of the oracle, when it was last looked at
    time_s: int
    slot: int
    long_base: int = 0
    short_base: int = 0  # not above 0
    quotes: int = 0  # of all users
    long_entry: int = 0
    short_entry: int = 0
    long_even: int = 0
    short_even: int = 0
    cumulative_long: int = 0
    cumulative_short: int = 0
    last_rate: int = 0
    funded_s: int = 0
    pool_raw: int = 0  # USDC that gains are paid from
    fees_usd: int = 0
    next_rate_id: int = 1
    next_fill_id: int = 1
    last_fill_price: int = 0
    with_base: int = 0  # users that have a position

    @property
    def owner(self) -> bytes:
        """Return Drift's program."""
        return DRIFT.address

    @property
    def mark(self) -> int:
        """Return the AMM's price: above the oracle's where longs outweigh shorts."""
        net = self.long_base + self.short_base
        gross = self.long_base - self.short_base
        return self.price + self.price * net * _PEG_SPREAD_BPS // (max(gross, 1) * 10_000)

    def cumulative(self, base: int) -> int:
        """Return the cumulative funding rate of a side."""
        return self.cumulative_long if base > 0 else self.cumulative_short

    def funded(self, time_s: int) -> PerpMarket:
        """Return the market with the funding of another period: the side that outweighs pays."""
        spread = self.mark - self.price
        rate = spread * BUFFER * FUNDING_PERIOD_S // (DAY_HOURS * 3_600)
        return replace(
            self,
            cumulative_long=self.cumulative_long + rate,
            cumulative_short=self.cumulative_short + rate,
            last_rate=rate,
            funded_s=time_s,
            next_rate_id=self.next_rate_id + 1,
        )

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(1_216)
        data[:72] = _PERP_TAG + self.address + self.oracle
        pack_into("<qQqqqq", data, 72, self.price, 0, 0, self.price, self.price, self.time_s)
        root = _u128(_RESERVE)
        data[176:208] = root * 2
        data[208:272] = _u128(1_004_142) + _u128(0) + _u128(2 * _RESERVE) + root
        data[272:304] = _u128(self.mark) + root
        net = self.long_base + self.short_base
        data[304:368] = b"".join(map(_i128, (self.long_base, self.short_base, net, 0)))
        data[368:400] = _u128(10**18) + _i128(self.quotes)
        sums = (self.long_entry, self.short_entry, self.long_even, self.short_even)
        data[400:464] = b"".join(map(_i128, sums))
        pack_into("<4q", data, 480, *[self.last_rate] * 4)
        data[512:560] = _i128(self.fees_usd) * 2 + _u128(self.fees_usd)
        data[560:576] = _i128(self.fees_usd)
        data[608:640] = _i128(self.cumulative_long) + _i128(self.cumulative_short)
        data[656:720] = root * 4
        pack_into("<qq", data, 720, self.price, 0)
        pack_into("<4QQ", data, 736, *[self.mark] * 4, self.slot)
        pack_into("<qq", data, 792, self.funded_s, FUNDING_PERIOD_S)
        pack_into("<3Q", data, 808, STEP, 100, STEP)
        pack_into("<q", data, 888, self.time_s)
        pack_into("<4I", data, 896, 500, 50_000, 250, 250)
        data[924:928] = bytes((100, 0, _PYTH_LAZER, 1))
        pack_into("<q", data, 968, self.price)
        data[976:992] = _u128(scaled(self.pool_raw))
        data[1000:1032] = b"SOL-PERP".ljust(32)
        pack_into("<3Q", data, 1_096, self.next_fill_id, self.next_rate_id, 1)
        pack_into("<6I", data, 1_120, 0, 0, 7_500, 7_500, INITIAL_RATIO, MAINTENANCE_RATIO)
        pack_into("<4I", data, 1_144, 0, 10_000, self.with_base, self.with_base)
        data[1_162:1_164] = b"\1\0"  # active, perpetual
        pack_into("<Q", data, 1_184, self.last_fill_price)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class UserStats:
    """What a wallet has paid with all its users."""

    authority: bytes
    paid_fees_usd: int = 0
    volume_usd: int = 0
    traded_s: int = 0

    @property
    def owner(self) -> bytes:
        """Return Drift's program."""
        return DRIFT.address

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(STATS_BYTES)
        data[:72] = _STATS_TAG + self.authority + NO_ADDRESS
        pack_into("<Q", data, 72, self.paid_fees_usd)
        pack_into("<Q", data, 136, self.volume_usd)
        pack_into("<q", data, 160, self.traded_s)
        pack_into("<HH", data, 184, 1, 1)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class User:
    """A wallet's account: a deposit of USDC, and a position of SOL."""

    authority: bytes
    deposit_raw: int = 0
    base: int = 0
    quote: int = 0  # what the position has cost, negative for a long, with fees and funding
    entry: int = 0  # without fees and funding
    even: int = 0  # what it takes to come out without a loss
    last_cumulative: int = 0
    settled_usd: int = 0
    funding_usd: int = 0
    deposited_usd: int = 0
    withdrawn_usd: int = 0
    active_slot: int = 0
    next_order_id: int = 1

    @property
    def owner(self) -> bytes:
        """Return Drift's program."""
        return DRIFT.address

    def payment(self, market: PerpMarket) -> int:
        """Return the funding that it receives now, or pays where it is negative."""
        delta = market.cumulative(self.base) - self.last_cumulative
        size = abs(delta) * abs(self.base) // USD // BUFFER // 1_000
        return -size if (delta > 0) == (self.base > 0) else size

    def settled(self, market: PerpMarket) -> tuple[User, PerpMarket]:
        """Return it, and the market, with its funding."""
        payment = self.payment(market)
        user = replace(
            self,
            quote=self.quote + payment,
            even=self.even + payment,
            last_cumulative=market.cumulative(self.base),
            funding_usd=self.funding_usd + payment,
        )
        if self.base > 0:
            market = replace(market, long_even=market.long_even + payment)
        else:
            market = replace(market, short_even=market.short_even + payment)
        return user, replace(market, quotes=market.quotes + payment)

    def equity_usd(self, price: int) -> int:
        """Return the deposit with all that it has gained or lost."""
        return self.deposit_raw + self.quote + self.base * price // BASE

    def notional_usd(self, price: int) -> int:
        """Return how much SOL it has bet on, in dollars."""
        return abs(self.base) * price // BASE

    def has_margin(self, price: int) -> bool:
        """Whether it may have so large a position."""
        wanted = self.notional_usd(price) * INITIAL_RATIO
        return self.equity_usd(price) * 10_000 >= wanted

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(USER_BYTES)
        data[:72] = _USER_TAG + self.authority + NO_ADDRESS
        data[72:104] = b"Main Account".ljust(32)
        pack_into("<Q", data, 104, scaled(self.deposit_raw))
        pack_into("<q", data, 128, self.deposit_raw)
        pack_into("<5q", data, 424, *self._position())
        pack_into("<q", data, 480, self.settled_usd)
        pack_into("<QQ", data, 4_272, self.deposited_usd, self.withdrawn_usd)
        pack_into("<qqqQQ", data, 4_296, self.settled_usd, 0, self.funding_usd, 0, self.active_slot)
        pack_into("<I", data, 4_336, self.next_order_id)
        pack_into("<H", data, 4_344, 1)
        return bytes(data)

    def _position(self) -> tuple[int, int, int, int, int]:
        return self.last_cumulative, self.base, self.quote, self.even, self.entry


def filled(
    user: User, market: PerpMarket, base: int, price: int, slot: int
) -> tuple[User, PerpMarket, int, int]:
    """Return both after a trade with the AMM, and the dollars that changed hands and the fee.

    The base has the position's sign, or takes at most all of it away.
    """
    worth = abs(base) * price // BASE
    quote = -worth if base > 0 else worth
    fee = -(-worth * FEE_BPS // 10_000)
    after = user.base + base
    if user.base == 0 or (user.base > 0) == (base > 0):
        entry, even = user.entry + quote, user.even + quote
    elif after == 0:
        entry = even = 0
    else:
        entry = user.entry - user.entry * abs(base) // abs(user.base)
        even = user.even - user.even * abs(base) // abs(user.base)
    if after:
        even -= fee
    is_long = (user.base or base) > 0
    changed = replace(
        user,
        base=after,
        quote=user.quote + quote - fee,
        entry=entry,
        even=even,
        last_cumulative=(user.last_cumulative if user.base else market.cumulative(base))
        if after
        else 0,
        active_slot=slot,
        next_order_id=user.next_order_id + 1,
    )
    moved = entry - user.entry, even - user.even
    market = replace(
        market,
        quotes=market.quotes + quote - fee,
        fees_usd=market.fees_usd + fee,
        next_fill_id=market.next_fill_id + 1,
        last_fill_price=price,
        with_base=market.with_base + (after != 0) - (user.base != 0),
    )
    if is_long:
        market = replace(
            market,
            long_base=market.long_base + base,
            long_entry=market.long_entry + moved[0],
            long_even=market.long_even + moved[1],
        )
    else:
        market = replace(
            market,
            short_base=market.short_base + base,
            short_entry=market.short_entry + moved[0],
            short_even=market.short_even + moved[1],
        )
    return changed, market, worth, fee


def with_pnl(user: User, market: PerpMarket) -> tuple[User, PerpMarket, int]:
    """Return both after what a closed position has brought is paid, as far as the pool has it."""
    pnl = user.quote
    pnl = min(pnl, market.pool_raw) if pnl > 0 else max(pnl, -user.deposit_raw)
    settled = replace(
        user,
        deposit_raw=user.deposit_raw + pnl,
        quote=user.quote - pnl,
        settled_usd=user.settled_usd + pnl,
    )
    market = replace(market, quotes=market.quotes - pnl, pool_raw=market.pool_raw - pnl)
    return settled, market, pnl


def scaled(amount_raw: int) -> int:
    """Return an amount of USDC as balances are kept."""
    return amount_raw * _SCALE


def _u128(value: int) -> bytes:
    return value.to_bytes(16, "little")


def _i128(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)
