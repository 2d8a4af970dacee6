"""Conservation: do the decoded swaps account for what the token balances of a transaction did?

For every vault and every trader's account of a leg, its recorded change must equal what the
legs moved there plus the transfers that happened outside the legs. Curves that hold SOL as
their own lamports are compared in lamports. Accounts that were opened or closed in the
transaction have no two balances to compare and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.decoding.contract import UNREADABLE, Leg
from pipeline.decoding.ledger import lamports_for_account
from pipeline.decoding.reading import Reading
from pipeline.solana.transaction import (
    ACCOUNT,
    DESTINATION,
    MINTED_TO,
    SOURCE,
    Transaction,
)
from schemas.money import WSOL
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.borsh import u64

_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_MINT_TO: Final = frozenset({b"\x07", b"\x0e"})
_BURN: Final = frozenset({b"\x08", b"\x0f"})
_CLOSE: Final = b"\x09"
_SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class Difference:
    """An account whose balance changed by another amount than the events say; raw units."""

    account: str
    owner: str
    role: str  # "vault" or "trader"
    mint: str
    expected_raw: int
    actual_raw: int


def differences(tx: Transaction, readings: Sequence[Reading]) -> list[Difference]:
    """Return the accounts of a transaction that its legs leave unexplained."""
    legs = [
        (reading.position, fact)
        for reading in readings
        for fact in reading.facts
        if isinstance(fact, Leg)
    ]
    vaults: defaultdict[int, int] = defaultdict(int)
    traders: defaultdict[int, int] = defaultdict(int)
    inside: set[int] = set()
    for position, leg in legs:
        for part in (*leg.parts, position):
            inside.update(range(part, tx.subtree_end(part)))
        _move(vaults, leg.vault_in, leg.input_raw)
        _move(vaults, leg.vault_out, -leg.output_raw)
        _move(traders, leg.source, -(leg.input_raw if leg.paid_raw is None else leg.paid_raw))
        _move(
            traders,
            leg.destination,
            leg.output_raw if leg.received_raw is None else leg.received_raw,
        )
    closed, outside = _outside(tx, inside)
    found = []
    for role, expected in (("vault", vaults), ("trader", traders)):
        for account, moved_raw in expected.items():
            if account in closed:
                continue
            actual = _change(tx, account)
            total = moved_raw + outside[account]
            if actual is None or actual[1] == total:
                continue
            address, token = text(tx.keys[account]), tx.token_accounts.get(account)
            owner = address if token is None else token.owner
            found.append(Difference(address, owner, role, actual[0], total, actual[1]))
    return found


def _move(balances: defaultdict[int, int], account: int | None, amount_raw: int) -> None:
    if account is not None:
        balances[account] += amount_raw


def _change(tx: Transaction, account: int) -> tuple[str, int] | None:
    """Return (mint, change) of a token account, or of an account that holds SOL as lamports."""
    token = tx.token_accounts.get(account)
    if token is not None:
        return token.mint, token.post_raw - token.pre_raw
    if tx.token_account(account) is not None:
        return None  # opened and closed here
    before, after = tx.meta.pre_balances, tx.meta.post_balances
    if account < len(before) and account < len(after):
        return WSOL, after[account] - before[account]
    return None


def _outside(tx: Transaction, inside: set[int]) -> tuple[set[int], defaultdict[int, int]]:
    """Return the accounts that were closed, and what moved outside the legs by account.

    An instruction whose bytes do not fit moved nothing.
    """
    closed: set[int] = set()
    moved: defaultdict[int, int] = defaultdict(int)
    for position in range(len(tx.programs)):
        try:
            program, data = tx.program(position), tx.data[position]
            if program in _TOKEN_PROGRAMS:
                if data[:1] == _CLOSE:
                    closed.add(tx.accounts[position][ACCOUNT])
                if position not in inside:
                    _add_tokens(tx, position, moved)
            elif program == SYSTEM_PROGRAM and position not in inside:
                _add_lamports(tx, position, moved)
        except UNREADABLE:
            continue
    return closed, moved


def _add_tokens(tx: Transaction, position: int, moved: defaultdict[int, int]) -> None:
    data, accounts = tx.data[position], tx.accounts[position]
    transfer = tx.transfer(position)
    if transfer is not None:
        moved[transfer.source] -= transfer.amount_raw
        moved[transfer.destination] += transfer.received_raw
    elif data[:1] in _MINT_TO:
        moved[accounts[MINTED_TO]] += u64(data, 1)
    elif data[:1] in _BURN:
        moved[accounts[SOURCE]] -= u64(data, 1)


def _add_lamports(tx: Transaction, position: int, moved: defaultdict[int, int]) -> None:
    data, accounts = tx.data[position], tx.accounts[position]
    lamports = _lamports(data)
    if lamports:
        source, destination = accounts[SOURCE], accounts[DESTINATION]
        moved[source] -= lamports
        moved[destination] += _as_tokens(tx, destination, lamports, data)


def _lamports(data: bytes) -> int:
    """Return what a System instruction moves from its first account to its second."""
    return u64(data, 4) if data[:4] == _SYSTEM_TRANSFER else lamports_for_account(data)


def _as_tokens(tx: Transaction, index: int, lamports: int, data: bytes) -> int:
    """Return what lamports add to an account that is compared in tokens, or in lamports."""
    account = tx.token_account(index)
    if account is None or (account.mint == WSOL and data[:4] == _SYSTEM_TRANSFER):
        return lamports  # a transfer may be SOL to wrap
    after = tx.meta.post_balances
    if account.mint != WSOL or index >= len(after):
        return 0  # the rent of a token account is none of its tokens
    return lamports - (after[index] - account.post_raw)
