"""Transactions from outside: what their instructions do on the simulated chain.

It runs what a payment is made of: Compute Budget, System transfers, TransferChecked of both token
programs, and Memo. Anything else is refused before it lands.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, Intent, Step
from infra.chain.market.runtime.programs import (
    COMPUTE_BUDGET,
    MEMO,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    Program,
)
from infra.chain.submission import Submission, Unreadable

_TRANSFER: Final = Struct("<IQ")
_CHECKED: Final = Struct("<BQB")
_TOKENS: Final = {each.address: each for each in (TOKEN, TOKEN_2022)}
_MOST_UNITS: Final = 1_400_000
_TRANSFER_TAG: Final = 2
_TRANSFER_CHECKED_TAG: Final = 12
_MINT_MISMATCH: Final = 3
_OWNER_MISMATCH: Final = 4
_DECIMALS_MISMATCH: Final = 18
_NOT_OF_THE_MINT: Final = "Error: Account not associated with this Mint"
_NOT_RUN: Final = (
    "this chain runs Compute Budget, System transfers, TransferChecked and Memo of transactions "
    "that are sent to it"
)


def intent_of(submission: Submission, serial: int) -> Intent:
    """Return what a transaction does; raises Unreadable."""
    signers = frozenset(submission.keys[: submission.header[0]])
    writable = submission.writable
    steps: list[Step] = []
    unit_limit = unit_price = 0
    for index, places, data in submission.instructions:
        program = submission.keys[index]
        accounts = tuple(submission.keys[place] for place in places)
        if program == COMPUTE_BUDGET.address:
            if data[:1] == b"\x02" and len(data) == 5:
                unit_limit = min(int.from_bytes(data[1:], "little"), _MOST_UNITS)
            elif data[:1] == b"\x03" and len(data) == 9:
                unit_price = int.from_bytes(data[1:], "little")
            else:
                raise Unreadable(_NOT_RUN)
            steps.append(_Budget(accounts, data))
        elif program == MEMO.address:
            steps.append(_Memo(accounts, data))
        elif program == SYSTEM.address:
            steps.append(_system(_written(accounts, (0, 1), writable), data, signers))
        elif program in _TOKENS:
            accounts = _written(accounts, (0, 2), writable)
            steps.append(_checked(_TOKENS[program], accounts, data, signers))
        else:
            raise Unreadable(_NOT_RUN)
    return Intent(
        serial=serial,
        payer=submission.keys[0],
        steps=steps,
        recent_blockhash=submission.recent_blockhash,
        cosigners=submission.keys[1 : submission.header[0]],
        unit_limit=unit_limit,
        unit_price=unit_price,
        version=0 if submission.is_versioned else None,
        submission=submission,
    )


def _written(
    accounts: tuple[bytes, ...], places: tuple[int, ...], writable: frozenset[bytes]
) -> tuple[bytes, ...]:
    """Return the accounts of an instruction that writes some of them; raises Unreadable."""
    if any(accounts[place] not in writable for place in places if place < len(accounts)):
        raise Unreadable("an account that an instruction writes is read-only in the message")
    return accounts


class _Budget:
    def __init__(self, accounts: tuple[bytes, ...], data: bytes) -> None:
        self._accounts = accounts
        self._data = data

    def __call__(self, tx: Execution) -> None:
        tx.enter(COMPUTE_BUDGET, self._accounts, self._data)
        tx.leave_builtin()


class _Memo:
    def __init__(self, accounts: tuple[bytes, ...], data: bytes) -> None:
        self._accounts = accounts
        self._data = data

    def __call__(self, tx: Execution) -> None:
        tx.enter(MEMO, self._accounts, self._data)
        text = self._data.decode("utf-8", "backslashreplace")
        tx.log(f'Program log: Memo (len {len(self._data)}): "{text}"')
        tx.leave(1_000 + 100 * len(self._data))


def _system(accounts: tuple[bytes, ...], data: bytes, signers: frozenset[bytes]) -> Step:
    if len(data) != _TRANSFER.size or len(accounts) < 2:
        raise Unreadable(_NOT_RUN)
    tag, lamports = _TRANSFER.unpack(data)
    if tag != _TRANSFER_TAG or accounts[0] not in signers:
        raise Unreadable(_NOT_RUN)
    return lambda tx: spl.transfer_lamports(tx, accounts[0], accounts[1], lamports)


def _checked(
    program: Program, accounts: tuple[bytes, ...], data: bytes, signers: frozenset[bytes]
) -> Step:
    if len(data) != _CHECKED.size or data[0] != _TRANSFER_CHECKED_TAG or len(accounts) < 4:
        raise Unreadable(_NOT_RUN)
    _, amount_raw, decimals = _CHECKED.unpack(data)
    source, mint_address, destination, authority = accounts[:4]

    def transfer(tx: Execution) -> None:
        ledger = tx.ledger
        mint = ledger.mints.get(mint_address)
        held, to = ledger.tokens.get(source), ledger.tokens.get(destination)
        try:
            if mint is None or held is None or to is None or mint.program is not program:
                raise InstructionError(_MINT_MISMATCH, _NOT_OF_THE_MINT)
            if held.mint is not mint or to.mint is not mint:
                raise InstructionError(_MINT_MISMATCH, _NOT_OF_THE_MINT)
            if held.owner != authority or authority not in signers:
                raise InstructionError(_OWNER_MISMATCH, "Error: owner does not match")
            if mint.decimals != decimals:
                raise InstructionError(_DECIMALS_MISMATCH, "Error: decimals differ from the Mint's")
        except InstructionError:
            tx.enter(program, accounts, data)
            tx.log("Program log: Instruction: TransferChecked")
            raise
        spl.transfer_checked(tx, source, mint, destination, authority, amount_raw)

    return transfer
