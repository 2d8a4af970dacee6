"""marginfi's instructions: bytes, logs and effects.

Encodings are those of its IDL 0.1.9; errors those of `MarginfiError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.marginfi import (
    ACCOUNT_BYTES,
    ACCOUNT_RENT_LAMPORTS,
    MOST_BALANCES,
    ONE,
    Balance,
    Bank,
    LendingAccount,
    health,
)
from infra.chain.market.runtime.programs import MARGINFI, SYSTEM, anchor_tag
from infra.chain.market.runtime.stake_program import set_native

NOT_FOUND: Final = 3012  # Anchor's AccountNotInitialized
NO_SPACE: Final = 6014
RISK_REJECTED: Final = 6009
NOT_UNHEALTHY: Final = 6068
OPERATION_REPAY_ONLY: Final = 6018
OPERATION_DEPOSIT_ONLY: Final = 6019
LIQUIDATOR_PERCENT: Final = 5  # of the collateral, half of it to the insurance vault

_AMOUNT: Final = Struct("<Q").pack
_INITIALIZE: Final = anchor_tag("marginfi_account_initialize")
_DEPOSIT: Final = anchor_tag("lending_account_deposit")
_WITHDRAW: Final = anchor_tag("lending_account_withdraw")
_BORROW: Final = anchor_tag("lending_account_borrow")
_REPAY: Final = anchor_tag("lending_account_repay")
_LIQUIDATE: Final = anchor_tag("lending_account_liquidate")
_UNITS: Final = 40_000


@dataclass(frozen=True, slots=True)
class Lent:
    """A bank's constants: its address, and the addresses that its instructions name."""

    group: bytes
    address: bytes
    mint: Mint
    vault: bytes
    authority: bytes  # of the vault
    insurance: bytes
    oracle: bytes


class Holder(NamedTuple):
    """Whose account an instruction is about."""

    account: bytes
    authority: bytes


Prices = Mapping[bytes, int]  # bank -> I80F48 dollars a whole token, by the oracle


def initialize(tx: Execution, of: Holder, group: bytes) -> None:
    """Make an empty account of a wallet, at the address of a key that signs for it."""
    address, authority = of.account, of.authority
    accounts = (group, address, authority, authority, SYSTEM.address)
    tx.enter(MARGINFI, accounts, _INITIALIZE, mask("-w-w-"))
    tx.log("Program log: Instruction: MarginfiAccountInitialize")
    spl.create_account(
        tx, authority, address, ACCOUNT_RENT_LAMPORTS, ACCOUNT_BYTES, MARGINFI, has_bytes=True
    )
    set_native(tx, address, LendingAccount(group, authority))
    tx.leave(9_000)


def deposit(tx: Execution, of: Holder, lent: Lent, amount_raw: int, prices: Prices) -> None:
    """Put tokens into a bank."""
    source = tx.ledger.associated(of.authority, lent.mint)
    accounts = (lent.group, of.account, of.authority, lent.address, source, lent.vault)
    data = _DEPOSIT + _AMOUNT(amount_raw) + b"\0"
    tx.enter(MARGINFI, (*accounts, lent.mint.program.address), data, mask("-w-www-"))
    tx.log("Program log: Instruction: LendingAccountDeposit")
    bank = _accrue(tx, lent, prices)
    balance = _account(tx, of.account).of(lent.address)
    if balance.debts:
        raise InstructionError(OPERATION_REPAY_ONLY)
    shares = bank.asset_shares(amount_raw)
    spl.transfer(tx, source, lent.vault, of.authority, amount_raw)
    _put(tx, lent, replace(bank, assets=bank.assets + shares))
    _keep(tx, of.account, replace(balance, assets=balance.assets + shares))
    tx.leave(_UNITS)


def withdraw(tx: Execution, of: Holder, lent: Lent, amount_raw: int | None, prices: Prices) -> None:
    """Take tokens out of a bank; None: all of them, and the balance is closed."""
    data = _WITHDRAW + _AMOUNT(amount_raw or 0) + (b"\1\1" if amount_raw is None else b"\0")
    tx.enter(MARGINFI, _outward(tx, of, lent), data, mask("-w-ww-w---"))
    tx.log("Program log: Instruction: LendingAccountWithdraw")
    bank = _accrue(tx, lent, prices)
    balance = _account(tx, of.account).of(lent.address)
    shares = balance.assets
    if amount_raw is not None:
        shares = bank.asset_shares(amount_raw, up=True)
        if shares > balance.assets:
            raise InstructionError(OPERATION_DEPOSIT_ONLY)
    paid = bank.deposited(shares) if amount_raw is None else amount_raw
    _put(tx, lent, replace(bank, assets=bank.assets - shares))
    _keep(tx, of.account, replace(balance, assets=balance.assets - shares))
    _pay(tx, lent, of.authority, paid)
    _check(tx, of.account, prices)
    tx.leave(_UNITS)


def borrow(tx: Execution, of: Holder, lent: Lent, amount_raw: int, prices: Prices) -> None:
    """Take a loan of a bank."""
    data = _BORROW + _AMOUNT(amount_raw)
    tx.enter(MARGINFI, _outward(tx, of, lent), data, mask("-w-ww-w---"))
    tx.log("Program log: Instruction: LendingAccountBorrow")
    bank = _accrue(tx, lent, prices)
    balance = _account(tx, of.account).of(lent.address)
    if balance.assets:
        raise InstructionError(OPERATION_DEPOSIT_ONLY)
    shares = bank.debt_shares(amount_raw, up=True)
    _put(tx, lent, replace(bank, debts=bank.debts + shares))
    _keep(tx, of.account, replace(balance, debts=balance.debts + shares))
    _pay(tx, lent, of.authority, amount_raw)
    _check(tx, of.account, prices)
    tx.leave(_UNITS)


def repay(tx: Execution, of: Holder, lent: Lent, amount_raw: int | None, prices: Prices) -> None:
    """Give back a part of a loan; None: all of it."""
    source = tx.ledger.associated(of.authority, lent.mint)
    accounts = (lent.group, of.account, of.authority, lent.address, source, lent.vault)
    data = _REPAY + _AMOUNT(amount_raw or 0) + (b"\1\1" if amount_raw is None else b"\0")
    tx.enter(MARGINFI, (*accounts, lent.mint.program.address), data, mask("-w-www-"))
    tx.log("Program log: Instruction: LendingAccountRepay")
    bank = _accrue(tx, lent, prices)
    balance = _account(tx, of.account).of(lent.address)
    shares = balance.debts if amount_raw is None else bank.debt_shares(amount_raw)
    if not shares or shares > balance.debts:
        raise InstructionError(OPERATION_REPAY_ONLY)
    paid = bank.owed(shares) if amount_raw is None else amount_raw
    spl.transfer(tx, source, lent.vault, of.authority, paid)
    _put(tx, lent, replace(bank, debts=bank.debts - shares))
    _keep(tx, of.account, replace(balance, debts=balance.debts - shares))
    tx.leave(_UNITS)


def liquidate(
    tx: Execution,
    of: Holder,
    debtor: bytes,
    asset: Lent,
    debt: Lent,
    amount_raw: int,
    prices: Prices,
) -> None:
    """Take over collateral of an unhealthy account below its price, with a part of its debt.

    The keeper pays from deposits of its own account; half of the discount goes to insurance.
    """
    accounts = (
        *(debt.group, asset.address, debt.address, of.account, of.authority, debtor),
        *(debt.authority, debt.vault, debt.insurance, debt.mint.program.address),
        *(asset.oracle, debt.oracle),
    )
    data = _LIQUIDATE + _AMOUNT(amount_raw) + bytes(2)
    tx.enter(MARGINFI, accounts, data, mask("-www-w-ww---"))
    tx.log("Program log: Instruction: LendingAccountLiquidate")
    account, owing = _account(tx, of.account), _account(tx, debtor)
    taken = _accrue(tx, asset, prices)
    _put(tx, asset, taken)
    lent = _accrue(tx, debt, prices)
    _put(tx, debt, lent)
    secured, owed = health(owing, _banks(tx, owing), initial=False)
    if secured >= owed:
        raise InstructionError(NOT_UNHEALTHY)
    worth = amount_raw * taken.price * 10**lent.decimals // 10**taken.decimals
    kept = 200 - LIQUIDATOR_PERCENT  # of 200: what the keeper pays
    paid_raw = worth * kept // (200 * lent.price)
    freed_raw = worth * (100 - LIQUIDATOR_PERCENT) // (100 * lent.price)
    moved = taken.asset_shares(amount_raw)
    spent = lent.asset_shares(paid_raw, up=True)
    freed = lent.debt_shares(freed_raw)
    of_debtor, of_keeper = owing.of(asset.address), account.of(debt.address)
    own_debt, own_asset = owing.of(debt.address), account.of(asset.address)
    if moved > of_debtor.assets or spent > of_keeper.assets or freed > own_debt.debts:
        raise InstructionError(OPERATION_DEPOSIT_ONLY)
    _put(tx, debt, replace(lent, assets=lent.assets - spent, debts=lent.debts - freed))
    _keep(tx, debtor, replace(of_debtor, assets=of_debtor.assets - moved))
    _keep(tx, debtor, replace(own_debt, debts=own_debt.debts - freed))
    _keep(tx, of.account, replace(own_asset, assets=own_asset.assets + moved))
    _keep(tx, of.account, replace(of_keeper, assets=of_keeper.assets - spent))
    spl.transfer(tx, debt.vault, debt.insurance, debt.authority, paid_raw - freed_raw)
    tx.leave(2 * _UNITS)


def _outward(tx: Execution, of: Holder, lent: Lent) -> tuple[bytes, ...]:
    """Return the accounts of an instruction that pays from a bank's vault."""
    destination = tx.ledger.associated(of.authority, lent.mint)
    return (
        *(lent.group, of.account, of.authority, lent.address, destination),
        *(lent.authority, lent.vault, lent.mint.program.address, lent.address, lent.oracle),
    )


def _account(tx: Execution, address: bytes) -> LendingAccount:
    account = tx.ledger.natives.get(address)
    if not isinstance(account, LendingAccount):
        raise InstructionError(NOT_FOUND)
    return account


def _bank(tx: Execution, address: bytes) -> Bank:
    bank = tx.ledger.natives[address]
    assert isinstance(bank, Bank)
    return bank


def _banks(tx: Execution, account: LendingAccount) -> dict[bytes, Bank]:
    return {each.bank: _bank(tx, each.bank) for each in account.balances}


def _accrue(tx: Execution, lent: Lent, prices: Prices) -> Bank:
    return _bank(tx, lent.address).accrued(tx.time_s, prices[lent.address])


def _put(tx: Execution, lent: Lent, bank: Bank) -> None:
    set_native(tx, lent.address, bank)


def _keep(tx: Execution, address: bytes, balance: Balance) -> None:
    account = _account(tx, address).with_balance(replace(balance, updated_s=tx.time_s))
    if len(account.balances) > MOST_BALANCES:
        raise InstructionError(NO_SPACE)
    set_native(tx, address, account)


def _pay(tx: Execution, lent: Lent, owner: bytes, amount_raw: int) -> None:
    destination = tx.ledger.associated(owner, lent.mint)
    spl.transfer(tx, lent.vault, destination, lent.authority, amount_raw)


def _check(tx: Execution, address: bytes, prices: Prices) -> None:
    """Fail where an account's debts are not secured by the weights for new ones."""
    account = _account(tx, address)
    banks = {
        at: replace(bank, price=prices.get(at, bank.price))
        for at, bank in _banks(tx, account).items()
    }
    secured, owed = health(account, banks, initial=True)
    if owed > secured:
        raise InstructionError(RISK_REJECTED)


def dollars(price: float) -> int:
    """Return a price as I80F48."""
    return int(price * ONE)
