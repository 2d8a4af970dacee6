"""Ledger: all that instructions moved, in execution order, rent and closed accounts included.

What balances did beyond it programs did with lamports of their own accounts, which needs no
instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.decoding.contract import UNREADABLE, Malformed
from pipeline.decoding.flows import Flow, flows
from pipeline.solana.transaction import ACCOUNT, DESTINATION, SOURCE, Transaction
from schemas.money import WSOL
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.borsh import u64

_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_CLOSE_ACCOUNT: Final = b"\x09"
_CREATE: Final = b"\x00\x00\x00\x00"
_CREATE_WITH_SEED: Final = b"\x03\x00\x00\x00"
_LAMPORTS_PER_BYTE: Final = 6_960  # of an account that is exempt from rent
_BYTES_OF_EMPTY: Final = 128


class Entry(NamedTuple):
    """What one instruction moved."""

    moved: list[Flow]
    rent: list[Flow]  # what an account was opened with, or still held when it was closed


def ledger(tx: Transaction) -> list[Entry]:
    """Return what each instruction moved, by position; one whose bytes do not fit moved nothing."""
    lamports = list(tx.meta.pre_balances)
    lamports += [0] * (len(tx.keys) - len(lamports))
    entries = []
    for at in range(len(tx.programs)):
        try:
            entry = _entry(tx, at, lamports)
            for flow in (*entry.moved, *entry.rent):
                if flow.mint == WSOL:
                    lamports[flow.account] += flow.amount_raw
        except UNREADABLE:
            entry = Entry([], [])
        entries.append(entry)
    return entries


def lamports_for_account(data: bytes) -> int:
    """Return what a System instruction gives the account that it opens; 0 if it opens none.

    Raises one of contract.UNREADABLE.
    """
    if data[:4] == _CREATE:
        return u64(data, 4)
    if data[:4] == _CREATE_WITH_SEED:
        seed_bytes = u64(data, 36)  # after the base, 32
        if seed_bytes > len(data):
            raise Malformed(f"a seed of {seed_bytes} bytes")
        return u64(data, 44 + seed_bytes)
    return 0


def _entry(tx: Transaction, at: int, lamports: list[int]) -> Entry:
    program, data, accounts = tx.program(at), tx.data[at], tx.accounts[at]
    if program in _TOKEN_PROGRAMS and data[:1] == _CLOSE_ACCOUNT:
        account = accounts[ACCOUNT]
        return Entry([], [*_pay(tx, account, accounts[DESTINATION], lamports[account])])
    if program == SYSTEM_PROGRAM and (opened := lamports_for_account(data)):
        return Entry([], [*_pay(tx, accounts[SOURCE], accounts[DESTINATION], opened)])
    moved = list(flows(tx, at, at + 1))
    if program == SYSTEM_PROGRAM and moved and _is_rent(moved[1], lamports):
        return Entry([], moved)
    return Entry(moved, [])


def _pay(tx: Transaction, source: int, destination: int, lamports: int) -> Iterator[Flow]:
    for index, amount in ((source, -lamports), (destination, lamports)):
        account = tx.token_account(index)
        owner = text(tx.keys[index]) if account is None else account.owner
        yield Flow(index, owner, WSOL, amount)


def _is_rent(received: Flow, lamports: list[int]) -> bool:
    """Return whether a transfer is exactly what an account of some size needs, which had nothing.

    Programs open an account in this way, too, and venues an account for their fees.
    """
    size, rest = divmod(received.amount_raw, _LAMPORTS_PER_BYTE)
    return not rest and size >= _BYTES_OF_EMPTY and not lamports[received.account]
