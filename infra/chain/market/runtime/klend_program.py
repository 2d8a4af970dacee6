"""klend's instructions: bytes, logs and effects.

Encodings are those of its IDL 1.24.0; errors those of its `LendingError`. As the program does,
each instruction on an obligation wants its reserve and the obligation refreshed in the same slot,
and leaves both to be refreshed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.klend import (
    BITS,
    CLOSE_FACTOR_PERCENT,
    LIQUIDATION_FEE_PERCENT,
    OBLIGATION_BYTES,
    OBLIGATION_RENT_LAMPORTS,
    ONE,
    SMALL_DEBT_USD,
    Obligation,
    Reserve,
    bonus_sf,
    ceiling,
)
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import (
    INSTRUCTIONS_SYSVAR,
    KLEND,
    RENT_SYSVAR,
    SYSTEM,
    anchor_tag,
    pda,
)
from infra.chain.market.runtime.stake_program import set_native

NOT_FOUND: Final = 3012  # Anchor's AccountNotInitialized
INVALID_AMOUNT: Final = 6003
INSUFFICIENT_LIQUIDITY: Final = 6008
RESERVE_STALE: Final = 6009
WITHDRAW_TOO_LARGE: Final = 6011
BORROW_TOO_LARGE: Final = 6013
OBLIGATION_HEALTHY: Final = 6016
OBLIGATION_STALE: Final = 6017
COLLATERAL_EMPTY: Final = 6026
LIQUIDITY_EMPTY: Final = 6027
ALL: Final = (1 << 64) - 1

_AMOUNT: Final = Struct("<Q").pack
_LIQUIDATION: Final = Struct("<QQQ").pack
_INITIALIZE: Final = anchor_tag("init_obligation")
_REFRESH_RESERVE: Final = anchor_tag("refresh_reserve")
_REFRESH_OBLIGATION: Final = anchor_tag("refresh_obligation")
_DEPOSIT: Final = anchor_tag("deposit_reserve_liquidity_and_obligation_collateral")
_WITHDRAW: Final = anchor_tag("withdraw_obligation_collateral_and_redeem_reserve_collateral")
_BORROW: Final = anchor_tag("borrow_obligation_liquidity")
_REPAY: Final = anchor_tag("repay_obligation_liquidity")
_LIQUIDATE: Final = anchor_tag("liquidate_obligation_and_redeem_reserve_collateral")
_UNITS: Final = 45_000


@dataclass(frozen=True, slots=True)
class Lent:
    """A reserve's constants: its address, and the addresses that its instructions name."""

    market: bytes
    authority: bytes  # of the market's vaults and collateral mints
    address: bytes
    mint: Mint
    vault: bytes
    fee_vault: bytes
    collateral_mint: Mint
    collateral_vault: bytes
    oracle: bytes


class Holder(NamedTuple):
    """Whose obligation an instruction is about."""

    account: bytes
    authority: bytes


def obligation_address(market: bytes, wallet: bytes) -> bytes:
    """Return where a wallet's first plain obligation is."""
    seeds = (b"\0", b"\0", wallet, market, SYSTEM.address, SYSTEM.address)
    return pda(KLEND, *seeds)


def initialize(tx: Execution, of: Holder, market: bytes) -> None:
    """Make an empty obligation of a wallet."""
    wallet = of.authority
    accounts = (
        *(wallet, wallet, of.account, market, SYSTEM.address, SYSTEM.address),
        *(pda(KLEND, b"user_meta", wallet), RENT_SYSVAR, SYSTEM.address),
    )
    tx.enter(KLEND, accounts, _INITIALIZE + bytes(2), mask("-ww------"))
    tx.log("Program log: Instruction: InitObligation")
    spl.create_account(
        tx, wallet, of.account, OBLIGATION_RENT_LAMPORTS, OBLIGATION_BYTES, KLEND, has_bytes=True
    )
    set_native(tx, of.account, Obligation(market, wallet, tx.slot))
    tx.leave(12_000)


def refresh_reserve(tx: Execution, lent: Lent, price_sf: int) -> None:
    """Add a reserve's interest until now, and take the oracle's price."""
    nothing = KLEND.address  # Anchor's stand-in for an account that is left out
    accounts = (lent.address, lent.market, nothing, nothing, nothing, lent.oracle)
    tx.enter(KLEND, accounts, _REFRESH_RESERVE, mask("w-----"))
    tx.log("Program log: Instruction: RefreshReserve")
    reserve = _reserve(tx, lent)
    set_native(tx, lent.address, reserve.refreshed(tx.slot, tx.time_s, price_sf))
    tx.leave(_UNITS)


def refresh_obligation(tx: Execution, of: Holder) -> None:
    """Add interest to an obligation's debts, and weigh it by its reserves' prices."""
    obligation = _obligation(tx, of.account)
    reserves = {}
    for address in obligation.reserves:
        reserve = tx.ledger.natives[address]
        assert isinstance(reserve, Reserve)
        reserves[address] = reserve
    accounts = (obligation.market, of.account, *reserves)
    tx.enter(KLEND, accounts, _REFRESH_OBLIGATION, mask("-w" + "-" * len(reserves)))
    tx.log("Program log: Instruction: RefreshObligation")
    if any(each.is_stale or each.slot != tx.slot for each in reserves.values()):
        raise InstructionError(RESERVE_STALE)
    set_native(tx, of.account, obligation.refreshed(reserves, tx.slot))
    tx.leave(_UNITS)


def deposit(tx: Execution, of: Holder, lent: Lent, amount_raw: int) -> None:
    """Put tokens into a reserve; the obligation gets collateral tokens for them."""
    source = tx.ledger.associated(of.authority, lent.mint)
    accounts = (
        *(of.authority, of.account, lent.market, lent.authority, lent.address),
        *(lent.mint.address, lent.vault, lent.collateral_mint.address, lent.collateral_vault),
        *(source, KLEND.address, *_programs(lent)),
    )
    tx.enter(KLEND, accounts, _DEPOSIT + _AMOUNT(amount_raw), mask("ww--w-wwww----"))
    tx.log("Program log: Instruction: DepositReserveLiquidityAndObligationCollateral")
    reserve, obligation = _fresh(tx, lent, of.account)
    collateral_raw = reserve.collateral_of(amount_raw)
    if not collateral_raw:
        raise InstructionError(INVALID_AMOUNT)
    taken_raw = reserve.price_of_collateral(collateral_raw)
    spl.transfer(tx, source, lent.vault, of.authority, taken_raw)
    spl.mint_to(tx, lent.collateral_mint, lent.collateral_vault, lent.authority, collateral_raw)
    _put(
        tx,
        lent,
        reserve,
        available_raw=reserve.available_raw + taken_raw,
        collateral_raw=reserve.collateral_raw + collateral_raw,
    )
    before = obligation.deposit_of(lent.address)
    after = replace(before, collateral_raw=before.collateral_raw + collateral_raw)
    set_native(tx, of.account, obligation.with_deposit(after))
    tx.leave(_UNITS)


def withdraw(tx: Execution, of: Holder, lent: Lent, collateral_raw: int) -> None:
    """Take collateral tokens out of an obligation and redeem them; `ALL`: all of them."""
    accounts = (
        *(of.authority, of.account, lent.market, lent.authority, lent.address),
        *(lent.mint.address, lent.collateral_vault, lent.collateral_mint.address, lent.vault),
        tx.ledger.associated(of.authority, lent.mint),
        *(KLEND.address, *_programs(lent)),
    )
    tx.enter(KLEND, accounts, _WITHDRAW + _AMOUNT(collateral_raw), mask("ww--w-wwww----"))
    tx.log("Program log: Instruction: WithdrawObligationCollateralAndRedeemReserveCollateral")
    reserve, obligation = _fresh(tx, lent, of.account)
    before = obligation.deposit_of(lent.address)
    if not before.collateral_raw:
        raise InstructionError(COLLATERAL_EMPTY)
    taken = min(collateral_raw, before.collateral_raw)
    after = replace(before, collateral_raw=before.collateral_raw - taken)
    left = obligation.with_deposit(after)
    reserves = {each: tx.ledger.natives[each] for each in left.reserves}
    checked = left.refreshed(
        {at: each for at, each in reserves.items() if isinstance(each, Reserve)}, tx.slot
    )
    if checked.weighed_sf > checked.allowed_sf:
        raise InstructionError(WITHDRAW_TOO_LARGE)
    set_native(tx, of.account, left)
    _redeem(tx, of.authority, lent, reserve, taken)
    tx.leave(_UNITS)


def borrow(tx: Execution, of: Holder, lent: Lent, amount_raw: int) -> None:
    """Take a loan of a reserve."""
    destination = tx.ledger.associated(of.authority, lent.mint)
    accounts = (
        *(of.authority, of.account, lent.market, lent.authority, lent.address),
        *(lent.mint.address, lent.vault, lent.fee_vault, destination),
        *(KLEND.address, lent.mint.program.address, INSTRUCTIONS_SYSVAR),
    )
    tx.enter(KLEND, accounts, _BORROW + _AMOUNT(amount_raw), mask("-w--w-www---"))
    tx.log("Program log: Instruction: BorrowObligationLiquidity")
    reserve, obligation = _fresh(tx, lent, of.account)
    if amount_raw > reserve.available_raw:
        raise InstructionError(INSUFFICIENT_LIQUIDITY)
    added_sf = reserve.worth_sf(amount_raw << BITS) * reserve.terms.borrow_factor // 100
    if obligation.weighed_sf + added_sf > obligation.allowed_sf:
        raise InstructionError(BORROW_TOO_LARGE)
    added_sf = amount_raw << BITS
    before = obligation.borrow_of(lent.address)
    after = replace(
        before,
        rate_sf=reserve.rate_sf,
        amount_sf=before.amount_sf + added_sf,
        borrowed_s=tx.time_s,
    )
    _put(
        tx,
        lent,
        reserve,
        available_raw=reserve.available_raw - amount_raw,
        debt_sf=reserve.debt_sf + added_sf,
    )
    set_native(tx, of.account, obligation.with_borrow(after))
    spl.transfer(tx, lent.vault, destination, lent.authority, amount_raw)
    tx.leave(_UNITS)


def repay(tx: Execution, of: Holder, lent: Lent, amount_raw: int) -> None:
    """Give back a part of a loan; `ALL`: all of it."""
    source = tx.ledger.associated(of.authority, lent.mint)
    accounts = (
        *(of.authority, of.account, lent.market, lent.address, lent.mint.address),
        *(lent.vault, source, lent.mint.program.address, INSTRUCTIONS_SYSVAR),
    )
    tx.enter(KLEND, accounts, _REPAY + _AMOUNT(amount_raw), mask("-w-w-ww--"))
    tx.log("Program log: Instruction: RepayObligationLiquidity")
    reserve, obligation = _fresh(tx, lent, of.account)
    before = obligation.borrow_of(lent.address)
    if not before.amount_sf:
        raise InstructionError(LIQUIDITY_EMPTY)
    settled_sf = min(amount_raw << BITS, before.amount_sf)
    _settle(tx, of.authority, lent, reserve, settled_sf)
    after = replace(before, amount_sf=before.amount_sf - settled_sf)
    set_native(tx, of.account, obligation.with_borrow(after))
    tx.leave(_UNITS)


def liquidate(
    tx: Execution, keeper: bytes, debtor: bytes, debt: Lent, asset: Lent, amount_raw: int
) -> None:
    """Repay a part of an unhealthy obligation's debt, for collateral that is worth more.

    The keeper gets the collateral's liquidity; a part of the bonus goes to the reserve's fees.
    """
    ledger = tx.ledger
    source = ledger.associated(keeper, debt.mint)
    destination = ledger.associated(keeper, asset.mint)
    accounts = (
        *(keeper, debtor, debt.market, debt.authority, debt.address, debt.mint.address),
        *(debt.vault, asset.address, asset.mint.address, asset.collateral_mint.address),
        *(asset.collateral_vault, asset.vault, asset.fee_vault, source),
        *(ledger.associated(keeper, asset.collateral_mint), destination),
        *(asset.collateral_mint.program.address, debt.mint.program.address),
        *(asset.mint.program.address, INSTRUCTIONS_SYSVAR),
    )
    data = _LIQUIDATE + _LIQUIDATION(amount_raw, 0, 0)
    tx.enter(KLEND, accounts, data, mask("-w--w-ww-wwwwwww----"))
    tx.log("Program log: Instruction: LiquidateObligationAndRedeemReserveCollateral")
    owed_to, obligation = _fresh(tx, debt, debtor)
    _fresh(tx, asset, debtor)
    owed, secured = obligation.borrow_of(debt.address), obligation.deposit_of(asset.address)
    if not owed.worth_sf or not secured.worth_sf:
        raise InstructionError(COLLATERAL_EMPTY if owed.worth_sf else LIQUIDITY_EMPTY)
    if obligation.weighed_sf < obligation.limit_sf:
        raise InstructionError(OBLIGATION_HEALTHY)
    more_sf = ONE + bonus_sf(obligation)
    settled_sf = min(_closable(owed.amount_sf, owed.worth_sf), amount_raw << BITS)
    wanted_sf = (owed.worth_sf * settled_sf // owed.amount_sf) * more_sf >> BITS
    if wanted_sf >= secured.worth_sf:
        settled_sf = settled_sf * secured.worth_sf // wanted_sf
        collateral_raw = secured.collateral_raw
    else:
        collateral_raw = max(secured.collateral_raw * wanted_sf // secured.worth_sf, 1)
    _settle(tx, keeper, debt, owed_to, settled_sf)
    left = obligation.with_borrow(replace(owed, amount_sf=owed.amount_sf - settled_sf))
    kept = replace(secured, collateral_raw=secured.collateral_raw - collateral_raw)
    set_native(tx, debtor, left.with_deposit(kept))
    paid_raw = _redeem(tx, keeper, asset, _reserve(tx, asset), collateral_raw)
    bonus_raw = paid_raw - (paid_raw << BITS) // more_sf
    fee_raw = max(bonus_raw * LIQUIDATION_FEE_PERCENT // 100, 1)
    spl.transfer(tx, destination, asset.fee_vault, keeper, fee_raw)
    tx.leave(3 * _UNITS)


def _closable(amount_sf: int, worth_sf: int) -> int:
    """Return how much of a debt one liquidation may repay."""
    if worth_sf <= SMALL_DEBT_USD << BITS:
        return amount_sf
    return amount_sf * CLOSE_FACTOR_PERCENT // 100


def _settle(tx: Execution, payer: bytes, lent: Lent, reserve: Reserve, settled_sf: int) -> None:
    """Take what a part of a debt is, rounded up."""
    paid_raw = ceiling(settled_sf)
    spl.transfer(tx, tx.ledger.associated(payer, lent.mint), lent.vault, payer, paid_raw)
    _put(
        tx,
        lent,
        reserve,
        available_raw=reserve.available_raw + paid_raw,
        debt_sf=max(reserve.debt_sf - settled_sf, 0),  # each obligation's interest is cut off apart
    )


def _redeem(
    tx: Execution, recipient: bytes, lent: Lent, reserve: Reserve, collateral_raw: int
) -> int:
    """Burn collateral tokens of the vault and pay what they are, rounded down; returns it."""
    paid_raw = reserve.redeemable_sf(collateral_raw) >> BITS
    if paid_raw > reserve.available_raw:
        raise InstructionError(INSUFFICIENT_LIQUIDITY)
    spl.burn(tx, lent.collateral_vault, lent.collateral_mint, lent.authority, collateral_raw)
    destination = tx.ledger.associated(recipient, lent.mint)
    spl.transfer(tx, lent.vault, destination, lent.authority, paid_raw)
    _put(
        tx,
        lent,
        reserve,
        available_raw=reserve.available_raw - paid_raw,
        collateral_raw=reserve.collateral_raw - collateral_raw,
    )
    return paid_raw


def _programs(lent: Lent) -> tuple[bytes, ...]:
    collateral, liquidity = lent.collateral_mint.program, lent.mint.program
    return collateral.address, liquidity.address, INSTRUCTIONS_SYSVAR


def _obligation(tx: Execution, address: bytes) -> Obligation:
    obligation = tx.ledger.natives.get(address)
    if not isinstance(obligation, Obligation):
        raise InstructionError(NOT_FOUND)
    return obligation


def _reserve(tx: Execution, lent: Lent) -> Reserve:
    reserve = tx.ledger.natives[lent.address]
    assert isinstance(reserve, Reserve)
    return reserve


def _fresh(tx: Execution, lent: Lent, address: bytes) -> tuple[Reserve, Obligation]:
    """Return a reserve and an obligation that were refreshed in this slot and not used since."""
    reserve, obligation = _reserve(tx, lent), _obligation(tx, address)
    if reserve.is_stale or reserve.slot != tx.slot:
        raise InstructionError(RESERVE_STALE)
    if obligation.is_stale or obligation.slot != tx.slot:
        raise InstructionError(OBLIGATION_STALE)
    return reserve, obligation


def _put(
    tx: Execution,
    lent: Lent,
    reserve: Reserve,
    *,
    available_raw: int,
    debt_sf: int | None = None,
    collateral_raw: int | None = None,
) -> None:
    """Change what a reserve has; it is stale then."""
    changed = replace(
        reserve,
        is_stale=True,
        available_raw=available_raw,
        debt_sf=reserve.debt_sf if debt_sf is None else debt_sf,
        collateral_raw=reserve.collateral_raw if collateral_raw is None else collateral_raw,
    )
    set_native(tx, lent.address, changed)
