"""System, Compute Budget, SPL Token, Token-2022 and Associated Token: bytes, logs and effects."""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Mint, TokenAccount
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    COMPUTE_BUDGET,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    WSOL,
    Program,
)

_U64: Final = Struct("<Q").pack
_SYSTEM_TRANSFER: Final = Struct("<IQ").pack
_SYSTEM_CREATE: Final = Struct("<IQQ32s").pack
_CHECKED: Final = Struct("<BQB").pack
_TAGGED: Final = Struct("<BQ").pack

INSUFFICIENT_FUNDS: Final = 1
_UNITS: Final = {TOKEN: 6_200, TOKEN_2022: 2_500}
_TWO_WRITABLE: Final = mask("ww")


def set_unit_limit(tx: Execution) -> None:
    """Declare the intent's compute unit limit."""
    tx.enter(COMPUTE_BUDGET, (), b"\x02" + tx.intent.unit_limit.to_bytes(4, "little"))
    tx.leave_builtin()


def set_unit_price(tx: Execution) -> None:
    """Declare the intent's price of a compute unit."""
    tx.enter(COMPUTE_BUDGET, (), b"\x03" + _U64(tx.intent.unit_price))
    tx.leave_builtin()


def transfer_lamports(tx: Execution, source: bytes, destination: bytes, lamports: int) -> None:
    """System transfer."""
    tx.enter(SYSTEM, (source, destination), _SYSTEM_TRANSFER(2, lamports), _TWO_WRITABLE)
    tx.move_lamports(source, destination, lamports)
    tx.leave_builtin()


def create_account(
    tx: Execution,
    payer: bytes,
    address: bytes,
    lamports: int,
    space: int,
    owner: Program,
    *,
    has_bytes: bool = False,
) -> None:
    """System createAccount: allocate, assign and fund.

    A venue's account is opaque, unless it `has_bytes`.
    """
    data = _SYSTEM_CREATE(0, lamports, space, owner.address)
    tx.enter(SYSTEM, (payer, address), data, _TWO_WRITABLE)
    if tx.ledger.lamports.get(address):
        raise InstructionError(0, f"Create Account: account {address.hex()} already in use")
    tx.move_lamports(payer, address, lamports)
    if owner not in (TOKEN, TOKEN_2022) and not has_bytes:
        opaque = tx.ledger.opaque
        opaque.add(address)
        tx.changes.undo.append(lambda: opaque.discard(address))
    tx.leave_builtin()


def create_account_with_seed(
    tx: Execution,
    payer: bytes,
    address: bytes,
    seed: str,
    lamports: int,
    space: int,
    owner: Program = TOKEN,
) -> None:
    """System createAccountWithSeed (base is the payer)."""
    text = seed.encode()
    data = (
        b"\x03\x00\x00\x00"
        + payer
        + _U64(len(text))
        + text
        + Struct("<QQ").pack(lamports, space)
        + owner.address
    )
    tx.enter(SYSTEM, (payer, address, payer), data, mask("ww-"))
    if tx.ledger.lamports.get(address):
        raise InstructionError(0, "Create Account: account already in use")
    tx.move_lamports(payer, address, lamports)
    tx.leave_builtin()


def held(tx: Execution, address: bytes) -> TokenAccount:
    """Return a token account; fails as Anchor does where it was never initialized."""
    account = tx.ledger.tokens.get(address)
    if account is None:
        raise InstructionError(3012, "AnchorError: AccountNotInitialized. Error Number: 3012.")
    return account


def _move(tx: Execution, source: TokenAccount, destination: TokenAccount, amount: int) -> int:
    """Move tokens; returns what Token-2022 withheld from the recipient."""
    if source.amount_raw < amount:
        raise InstructionError(INSUFFICIENT_FUNDS, "Error: insufficient funds")
    before = tx.changes.tokens
    if source.address not in before:
        before[source.address] = (source, source.amount_raw)
    if destination.address not in before:
        before[destination.address] = (destination, destination.amount_raw)
    mint = source.mint
    fee = mint.transfer_fee(amount) if mint.transfer_fee_bps else 0
    source.amount_raw -= amount
    destination.amount_raw += amount - fee
    if fee:
        destination.withheld_raw += fee
        tx.changes.undo.append(lambda: _withhold(destination, -fee))
    if mint.address == WSOL:
        tx.move_lamports(source.address, destination.address, amount)
    return fee


def _withhold(account: TokenAccount, fee: int) -> None:
    account.withheld_raw += fee


def transfer(
    tx: Execution, source: bytes, destination: bytes, authority: bytes, amount_raw: int
) -> None:
    """SPL Token transfer (tag 3): no mint in its accounts."""
    tx.enter(TOKEN, (source, destination, authority), _TAGGED(3, amount_raw), _TRANSFER_WRITABLE)
    tx.logs.append("Program log: Instruction: Transfer")
    _move(tx, held(tx, source), held(tx, destination), amount_raw)
    tx.leave(4_645)


_TRANSFER_WRITABLE: Final = mask("ww-")
_CHECKED_WRITABLE: Final = mask("w-w-")


def transfer_checked(
    tx: Execution, source: bytes, mint: Mint, destination: bytes, authority: bytes, amount_raw: int
) -> int:
    """Checked transfer under the mint's own program; returns the fee withheld from it."""
    program = mint.program
    tx.enter(
        program,
        (source, mint.address, destination, authority),
        _CHECKED(12, amount_raw, mint.decimals),
        _CHECKED_WRITABLE,
    )
    tx.logs.append("Program log: Instruction: TransferChecked")
    fee = _move(tx, held(tx, source), held(tx, destination), amount_raw)
    tx.leave(_UNITS[program])
    return fee


def transfer_checked_with_fee(
    tx: Execution, source: bytes, mint: Mint, destination: bytes, authority: bytes, amount_raw: int
) -> int:
    """Token-2022 transferCheckedWithFee (tag 26, 1): the sender names the fee."""
    fee = mint.transfer_fee(amount_raw)
    tx.enter(
        TOKEN_2022,
        (source, mint.address, destination, authority),
        b"\x1a\x01" + Struct("<QBQ").pack(amount_raw, mint.decimals, fee),
        _CHECKED_WRITABLE,
    )
    tx.logs.append("Program log: TransferFeeInstruction: TransferCheckedWithFee")
    _move(tx, held(tx, source), held(tx, destination), amount_raw)
    tx.leave(3_100)
    return fee


def open_token_account(
    tx: Execution, address: bytes, mint: Mint, owner: bytes, rent_lamports: int
) -> TokenAccount:
    """Put an initialized, empty token account on the ledger; wSOL starts with spare lamports."""
    account = TokenAccount(address, mint, owner, rent_lamports)
    if mint.address == WSOL:
        account.amount_raw = tx.ledger.lamports.get(address, 0) - rent_lamports
    tx.changes.tokens.setdefault(address, None)
    tx.ledger.tokens[address] = account
    return account


def initialize_account(
    tx: Execution, address: bytes, mint: Mint, owner: bytes, sysvar: bool = False
) -> None:
    """initializeAccount3, or the older initializeAccount with the rent sysvar."""
    if sysvar:
        accounts: tuple[bytes, ...] = (address, mint.address, owner, RENT_SYSVAR)
        tx.enter(mint.program, accounts, b"\x01", mask("w---"))
        tx.logs.append("Program log: Instruction: InitializeAccount")
    else:
        tx.enter(mint.program, (address, mint.address), b"\x12" + owner, mask("w-"))
        tx.logs.append("Program log: Instruction: InitializeAccount3")
    open_token_account(tx, address, mint, owner, mint.account_rent_lamports)
    tx.leave(4_188 if mint.program is TOKEN else 1_969)


_ATA_WRITABLE: Final = mask("ww----")


def create_associated(
    tx: Execution,
    payer: bytes,
    owner: bytes,
    mint: Mint,
    idempotent: bool = True,
    others: tuple[bytes, ...] = (),
) -> bytes:
    """Create an associated token account, with all that its program calls; returns its address.

    `others` are accounts that a calling program passes along unused.
    """
    program = mint.program
    address = tx.ledger.associated(owner, mint)
    accounts = (payer, address, owner, mint.address, SYSTEM.address, program.address)
    data = b"\x01" if idempotent else b"\x00"
    tx.enter(ASSOCIATED_TOKEN, accounts + others, data, _ATA_WRITABLE if not others else None)
    tx.logs.append("Program log: CreateIdempotent" if idempotent else "Program log: Create")
    if address in tx.ledger.tokens:
        if not idempotent:
            raise InstructionError(0, "Error: Associated token account is already in use")
        tx.leave(4_437)
        return address
    legacy = program is TOKEN
    rent = mint.account_rent_lamports
    space = 165 if legacy else (182 if mint.transfer_fee_bps else 170)
    tx.enter(program, (mint.address,), b"\x15\x07\x00")
    tx.logs.append("Program log: Instruction: GetAccountDataSize")
    tx.logs.append(f"{program.consumed}1569 of {tx.units_left} compute units")
    tx.returns(program, _U64(space))
    tx.logs.append(program.success)
    tx.frames.pop()
    tx.height -= 1
    tx.units_left -= 1_569
    create_account(tx, payer, address, rent, space, program)
    tx.logs.append("Program log: Initialize the associated token account")
    tx.enter(program, (address,), b"\x16")
    tx.logs.append("Program log: Instruction: InitializeImmutableOwner")
    if legacy:
        tx.logs.append("Program log: Please upgrade to SPL Token 2022 for immutable owner support")
    tx.leave(1_405 if legacy else 736)
    initialize_account(tx, address, mint, owner)
    tx.leave(9_000)
    return address


def sync_native(tx: Execution, address: bytes, others: tuple[bytes, ...] = ()) -> None:
    """Let a wSOL account count the lamports it was sent."""
    tx.enter(TOKEN, (address, *others), b"\x11", (True,) + (False,) * len(others))
    tx.logs.append("Program log: Instruction: SyncNative")
    account = held(tx, address)
    tx.note_token(account)
    account.amount_raw = tx.ledger.lamports[address] - account.rent_lamports
    tx.leave(3_045)


_CLOSE_WRITABLE: Final = mask("ww-")


def close_account(tx: Execution, address: bytes, destination: bytes, authority: bytes) -> None:
    """Close a token account; its lamports go to `destination`."""
    there = tx.ledger.tokens.get(address)
    program = TOKEN if there is None else there.mint.program
    tx.enter(program, (address, destination, authority), b"\x09", _CLOSE_WRITABLE)
    tx.logs.append("Program log: Instruction: CloseAccount")
    account = held(tx, address)
    if account.amount_raw and account.mint.address != WSOL:
        raise InstructionError(
            11, "Error: Non-native account can only be closed if its balance is zero"
        )
    tx.note_token(account)
    tx.move_lamports(address, destination, tx.ledger.lamports[address])
    del tx.ledger.tokens[address]
    tx.leave(2_915)


def mint_to(tx: Execution, mint: Mint, destination: bytes, authority: bytes, amount: int) -> None:
    """Mint new tokens."""
    tx.enter(mint.program, (mint.address, destination, authority), _TAGGED(7, amount), mask("ww-"))
    tx.logs.append("Program log: Instruction: MintTo")
    account = held(tx, destination)
    tx.note_token(account)
    account.amount_raw += amount
    mint.supply_raw += amount
    tx.changes.contents.add(mint.address)
    tx.changes.undo.append(lambda: _change_supply(mint, -amount))
    tx.leave(4_492 if mint.program is TOKEN else 1_714)


def burn(tx: Execution, source: bytes, mint: Mint, authority: bytes, amount_raw: int) -> None:
    """Burn tokens."""
    tx.enter(mint.program, (source, mint.address, authority), _TAGGED(8, amount_raw), mask("ww-"))
    tx.logs.append("Program log: Instruction: Burn")
    account = held(tx, source)
    if account.amount_raw < amount_raw:
        raise InstructionError(INSUFFICIENT_FUNDS, "Error: insufficient funds")
    tx.note_token(account)
    account.amount_raw -= amount_raw
    mint.supply_raw -= amount_raw
    tx.changes.contents.add(mint.address)
    if tx.height == 1:
        tx.burns.append((account, amount_raw))
    tx.changes.undo.append(lambda: _change_supply(mint, amount_raw))
    tx.leave(4_700 if mint.program is TOKEN else 1_295)


def _change_supply(mint: Mint, by_raw: int) -> None:
    mint.supply_raw += by_raw


def revoke_mint_authority(tx: Execution, mint: Mint, authority: bytes) -> None:
    """setAuthority: nobody can mint any more."""
    tx.enter(mint.program, (mint.address, authority), b"\x06\x00\x00", mask("w-"))
    tx.logs.append("Program log: Instruction: SetAuthority")
    before = mint.authority
    mint.authority = None
    tx.changes.contents.add(mint.address)
    tx.changes.undo.append(lambda: _set_authority(mint, before))
    tx.leave(2_911 if mint.program is TOKEN else 1_044)


def _set_authority(mint: Mint, authority: bytes | None) -> None:
    mint.authority = authority
