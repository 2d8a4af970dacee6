"""A lender after marginfi's: banks and accounts, their bytes, interest and health.

Layouts: `Bank` (1,864 bytes), `MarginfiAccount` (2,312) and `MarginfiGroup` (1,064) of marginfi's
IDL 0.1.9, Anchor. Amounts are shares of a bank, which are worth more with every second; shares,
values and weights are I80F48: integers in units of 2**-48. Interest is that of
`Bank::accrue_interest` without fees. What a bank owes is rounded down and what it is owed up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct, pack_into
from typing import Final

from infra.chain.market.runtime.programs import MARGINFI

ONE: Final = 1 << 48
YEAR_S: Final = 31_536_000
MOST_BALANCES: Final = 16
BANK_RENT_LAMPORTS: Final = 13_864_320
ACCOUNT_BYTES: Final = 2_312
ACCOUNT_RENT_LAMPORTS: Final = 16_982_400

_BANK_BYTES: Final = 1_864
_BANK_TAG: Final = bytes.fromhex("8e31a6f2324261bc")
_ACCOUNT_TAG: Final = bytes.fromhex("43b2826d7e721c2a")
_GROUP_TAG: Final = bytes.fromhex("b617adf097ceb643")
_GROUP_BYTES: Final = 1_064
GROUP_RENT_LAMPORTS: Final = 8_296_320
_BALANCE: Final = Struct("<B32sB6x16s16s16sQ8x").pack
_U32_MAX: Final = (1 << 32) - 1
_CURVE: Final = 1  # of several points
_KINK: Final = _U32_MAX * 8 // 10  # share of the deposits that is lent, and the rate there
_KINK_RATE: Final = _U32_MAX * 12 // 1_000  # of ten times the principal a year
_FULL_RATE: Final = _U32_MAX * 2 // 10  # where all of it is lent
_HIGHEST_RATE: Final = 10


def fixed(value: int) -> bytes:
    """Return an I80F48 as it is stored."""
    return value.to_bytes(16, "little", signed=True)


def _rate(value: int) -> int:
    """Return a yearly rate as a u32: all of it is ten times the principal."""
    return min(value * _U32_MAX // (_HIGHEST_RATE * ONE), _U32_MAX)


def _share(value: int) -> int:
    """Return what a u32 says of 1."""
    return value * ONE // _U32_MAX


@dataclass(frozen=True, slots=True)
class Weights:
    """How much of a token's worth counts in health: of deposits below 1, of debts above."""

    asset_init: int
    asset: int
    debt_init: int
    debt: int


@dataclass(frozen=True, slots=True)
class Bank:
    """What a group lends of one token."""

    group: bytes
    mint: bytes
    decimals: int
    vault: bytes
    insurance: bytes  # the vault that liquidations pay into
    weights: Weights
    updated_s: int
    price: int = 0  # dollars a whole token, as the oracle last said
    asset_value: int = ONE  # raw units a share
    debt_value: int = ONE
    assets: int = 0  # shares of all accounts
    debts: int = 0

    @property
    def owner(self) -> bytes:
        """Return marginfi's program."""
        return MARGINFI.address

    @property
    def rates(self) -> tuple[int, int, int]:
        """Return what depositors earn and borrowers pay a year, and the share that is lent."""
        owned = self.assets * self.asset_value // ONE
        owed = self.debts * self.debt_value // ONE
        used = min(owed * ONE // owned, ONE) if owned else 0
        kink, top = _share(_KINK), _share(_FULL_RATE) * _HIGHEST_RATE
        at_kink = _share(_KINK_RATE) * _HIGHEST_RATE
        if used <= kink:
            borrowing = at_kink * (used * ONE // kink) // ONE
        else:
            past_kink = (used - kink) * ONE // (ONE - kink)
            borrowing = at_kink + (top - at_kink) * past_kink // ONE
        return borrowing * used // ONE, borrowing, used

    def accrued(self, time_s: int, price: int) -> Bank:
        """Return the bank with interest until a time, at the oracle's price."""
        past_s = max(time_s - self.updated_s, 0)
        earned, paid, _ = self.rates
        return replace(
            self,
            updated_s=self.updated_s + past_s,
            price=price,
            asset_value=self.asset_value * (ONE + earned * past_s // YEAR_S) // ONE,
            debt_value=self.debt_value * (ONE + paid * past_s // YEAR_S) // ONE,
        )

    def asset_shares(self, amount_raw: int, *, up: bool = False) -> int:
        """Return the shares that a deposit of an amount is."""
        return _quotient(amount_raw * ONE * ONE, self.asset_value, up)

    def debt_shares(self, amount_raw: int, *, up: bool = False) -> int:
        """Return the shares that a debt of an amount is."""
        return _quotient(amount_raw * ONE * ONE, self.debt_value, up)

    def deposited(self, shares: int) -> int:
        """Return what shares of deposits are worth in raw units, rounded down."""
        return shares * self.asset_value // (ONE * ONE)

    def owed(self, shares: int) -> int:
        """Return what shares of debts are worth in raw units, rounded up."""
        return _quotient(shares * self.debt_value, ONE * ONE, up=True)

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_BANK_BYTES)
        data[:8] = _BANK_TAG
        pack_into("<32sB32s", data, 8, self.mint, self.decimals, self.group)
        data[80:144] = fixed(self.asset_value) + fixed(self.debt_value) + self.vault
        data[146:178] = self.insurance
        data[256:288] = fixed(self.debts) + fixed(self.assets)
        pack_into("<q", data, 288, self.updated_s)
        weights = self.weights
        for number, weight in enumerate(
            (weights.asset_init, weights.asset, weights.debt_init, weights.debt)
        ):
            data[296 + 16 * number : 312 + 16 * number] = fixed(weight)
        pack_into("<Q", data, 360, (1 << 64) - 1)  # deposits without limit
        # Rates at no use and at full use, then points of (share lent, rate).
        pack_into("<IIII", data, 496, 0, _FULL_RATE, _KINK, _KINK_RATE)
        data[544] = _CURVE
        data[608] = 1  # operational
        pack_into("<Q", data, 776, (1 << 64) - 1)  # borrows likewise
        earned, paid, _ = self.rates
        pack_into("<III", data, 1_376, _rate(paid), _rate(earned), _rate(paid))
        data[1_408:1_424] = fixed(self.price)
        data[1_432:1_448] = fixed(self.price // 1_000)  # how far the oracle may be off
        pack_into("<q", data, 1_424, self.updated_s)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Group:
    """Banks that secure each other's loans."""

    admin: bytes

    @property
    def owner(self) -> bytes:
        """Return marginfi's program."""
        return MARGINFI.address

    def data(self) -> bytes:
        """Return the account's data: fees are off."""
        return (_GROUP_TAG + self.admin).ljust(_GROUP_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has of a bank: deposits or debts, never both."""

    bank: bytes
    assets: int = 0  # shares
    debts: int = 0
    updated_s: int = 0


@dataclass(frozen=True, slots=True)
class LendingAccount:
    """A wallet's account with a group."""

    group: bytes
    authority: bytes
    balances: tuple[Balance, ...] = ()

    @property
    def owner(self) -> bytes:
        """Return marginfi's program."""
        return MARGINFI.address

    def of(self, bank: bytes) -> Balance:
        """Return the balance of a bank, an empty one where there is none."""
        return next((each for each in self.balances if each.bank == bank), Balance(bank))

    def with_balance(self, balance: Balance) -> LendingAccount:
        """Return the account with another balance of a bank; an empty one goes.

        The program keeps them descending by the bank's address.
        """
        others = [each for each in self.balances if each.bank != balance.bank]
        if balance.assets or balance.debts:
            others.append(balance)
        balances = sorted(others, key=lambda each: each.bank, reverse=True)
        return replace(self, balances=tuple(balances))

    def data(self) -> bytes:
        """Return the account's data."""
        balances = b"".join(
            _BALANCE(
                1, each.bank, 0, fixed(each.assets), fixed(each.debts), bytes(16), each.updated_s
            )
            for each in self.balances
        )
        data = (_ACCOUNT_TAG + self.group + self.authority + balances).ljust(ACCOUNT_BYTES, b"\0")
        assert len(data) == ACCOUNT_BYTES
        return data


def health(account: LendingAccount, banks: dict[bytes, Bank], *, initial: bool) -> tuple[int, int]:
    """Return the weighted worth of deposits and of debts: I80F48 dollars times 2**48.

    `initial`: by the weights for new debts, else by those below which it may be liquidated.
    """
    secured = owed = 0
    for balance in account.balances:
        bank = banks[balance.bank]
        weights, whole = bank.weights, 10**bank.decimals
        weight = weights.asset_init if initial else weights.asset
        secured += bank.deposited(balance.assets) * bank.price * weight // whole
        weight = weights.debt_init if initial else weights.debt
        owed += _quotient(bank.owed(balance.debts) * bank.price * weight, whole, up=True)
    return secured, owed


def _quotient(dividend: int, divisor: int, up: bool) -> int:
    return -(-dividend // divisor) if up else dividend // divisor
