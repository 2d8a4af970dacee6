"""What a stretch of instructions moved, and an exchange read from that alone.

For programs that emit no event: whatever they move, they move by instructions of the
token programs, the System program and, out of stake accounts, the Stake program. Somebody who
gave one mint and received another traded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from pipeline.decoding.contract import Leg
from pipeline.solana.transaction import DESTINATION, MINTED_TO, OWNER, SOURCE, Transaction
from schemas.money import WSOL
from schemas.solana.addresses import (
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    has_private_key,
    key,
    text,
)
from schemas.solana.borsh import u64

_MINT_TO: Final = frozenset({b"\x07", b"\x0e"})
_BURN: Final = frozenset({b"\x08", b"\x0f"})
_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_TOKEN_2022: Final = text(TOKEN_2022_PROGRAM)
# Instructions that move lamports from their first account to their second.
_LAMPORTS: Final = {
    SYSTEM_PROGRAM: b"\x02\x00\x00\x00",  # Transfer
    STAKE_PROGRAM: b"\x04\x00\x00\x00",  # Withdraw
}


class Flow(NamedTuple):
    """What an account gained, or lost where negative; raw units of `mint`."""

    account: int  # index into the transaction's keys
    owner: str  # of SOL that is not wrapped, the account itself
    mint: str
    amount_raw: int


def flows(tx: Transaction, start: int, end: int) -> Iterator[Flow]:
    """Yield what the instructions from `start` up to `end` moved, minted and burnt.

    Raises one of contract.UNREADABLE where their bytes do not fit.
    """
    for at in range(start, end):
        program, data = tx.program(at), tx.data[at]
        if program in _TOKEN_PROGRAMS:
            moved = tx.transfer(at)
            if moved is not None:
                yield from _token(tx, at, moved.source, -moved.amount_raw)
                yield from _token(tx, at, moved.destination, moved.received_raw)
            elif data[:1] in _MINT_TO:
                yield from _token(tx, at, tx.accounts[at][MINTED_TO], u64(data, 1))
            elif data[:1] in _BURN:
                yield from _token(tx, at, tx.accounts[at][SOURCE], -u64(data, 1))
        elif len(data) == 12 and data[:4] == _LAMPORTS.get(program):
            lamports = u64(data, 4)
            yield _lamports(tx, at, tx.accounts[at][SOURCE], -lamports)
            yield _lamports(tx, at, tx.accounts[at][DESTINATION], lamports)


def _token(tx: Transaction, at: int, index: int, amount_raw: int) -> Iterator[Flow]:
    holding = tx.holding(index, at)
    if holding is not None:
        yield Flow(index, *holding, amount_raw)


def _lamports(tx: Transaction, at: int, index: int, lamports: int) -> Flow:
    holding = tx.holding(index, at)
    owner = text(tx.keys[index]) if holding is None else holding[0]
    return Flow(index, owner, WSOL, lamports)


def exchange(
    tx: Transaction, start: int, end: int, *, others: Container[str] = (), pool: str = ""
) -> Leg | None:
    """Return the exchange that instructions from `start` up to `end` made, if it is one.

    The trader gave one mint and received another. Where two did, each the other's, it is the one
    who signed, else the one among `others`; where that leaves a choice it is no exchange. `pool` is
    its address; without it the owner of what paid out, or where that is not known one of the mints.
    """
    found = list(flows(tx, start, end))
    nets: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for flow in found:
        nets[flow.owner][flow.mint] += flow.amount_raw
    traders = [owner for owner, net in nets.items() if _trades(net)]
    for chosen in (tx.signer_addresses, others):
        if len(traders) > 1:
            traders = [owner for owner in traders if owner in chosen] or traders
    if len(traders) != 1:
        return None
    (trader,) = traders
    net = nets[trader]
    input_mint = next(mint for mint, amount_raw in net.items() if amount_raw < 0)
    output_mint = next(mint for mint, amount_raw in net.items() if amount_raw > 0)
    accounts: defaultdict[tuple[int, str], int] = defaultdict(int)
    for flow in found:
        accounts[flow.account, flow.mint] += flow.amount_raw
    mine = {flow.account for flow in found if flow.owner == trader}
    source = _most(tx, accounts, input_mint, -1, mine)
    destination = _most(tx, accounts, output_mint, 1, mine)
    # What was burnt or made has no vault: who else gained of it took a fee. An account that ends as
    # it began only passed something on.
    # An account of a wallet is no vault, whatever moved: who has its key is a maker, or was paid.
    theirs = {
        flow.account
        for flow in found
        if flow.account not in mine and flow.owner and not has_private_key(flow.owner)
    }
    is_burnt = sum(net[input_mint] for net in nets.values()) < 0
    is_minted = sum(net[output_mint] for net in nets.values()) > 0
    vault_in = None if is_burnt else _vault(tx, accounts, input_mint, 1, theirs)
    vault_out = None if is_minted else _vault(tx, accounts, output_mint, -1, theirs)
    paid_raw, received_raw = -net[input_mint], net[output_mint]
    return Leg(
        pool=pool or _pool(found, vault_out, (input_mint, output_mint)),
        input_mint=input_mint,
        output_mint=output_mint,
        input_raw=paid_raw if vault_in is None else accounts[vault_in, input_mint],
        output_raw=received_raw if vault_out is None else -accounts[vault_out, output_mint],
        paid_raw=paid_raw,
        received_raw=received_raw,
        source=source,
        destination=destination,
        user=_user(tx, start, end, trader, source),
        vault_in=vault_in,
        vault_out=vault_out,
    )


def _trades(net: dict[str, int]) -> bool:
    """Whether somebody gave exactly one mint for exactly one other."""
    amounts = sorted(amount_raw for amount_raw in net.values() if amount_raw)
    return len(amounts) == 2 and amounts[0] < 0 < amounts[1]


def _most(
    tx: Transaction,
    accounts: dict[tuple[int, str], int],
    mint: str,
    sign: int,
    among: set[int],
) -> int | None:
    """Return the token account that gained (sign 1) or lost (sign -1) most of a mint."""
    found = [
        (amount_raw * sign, account)
        for (account, of), amount_raw in accounts.items()
        if of == mint and account in among and amount_raw * sign > 0
    ]
    account = max(found)[1] if found else None
    return account if account is not None and tx.token_account(account) is not None else None


def _vault(
    tx: Transaction,
    accounts: dict[tuple[int, str], int],
    mint: str,
    sign: int,
    among: set[int],
) -> int | None:
    """Return such an account if it also ended with more (sign 1) or with less (sign -1)."""
    found = _most(tx, accounts, mint, sign, among)
    account = None if found is None else tx.token_accounts.get(found)
    return found if account and (account.post_raw - account.pre_raw) * sign > 0 else None


def _pool(found: list[Flow], vault_out: int | None, mints: tuple[str, str]) -> str:
    """Return who owned what paid out, else a mint: anybody can pay into an account of a pool."""
    for flow in found:
        if flow.account == vault_out and flow.owner:
            return flow.owner
    return mints[0] if mints[1] == WSOL else mints[1]


def _user(tx: Transaction, start: int, end: int, trader: str, source: int | None) -> int | None:
    """Return the trader; of Token-2022 who let the tokens leave: that may be the mint's issuer."""
    account = None if source is None else tx.token_account(source)
    if account is None or account.program != _TOKEN_2022:
        return _index(tx, trader)
    for at in range(start, end):
        moved = tx.transfer(at)
        if moved is not None:
            if moved.source == source:
                return moved.authority
        elif (
            tx.data[at][:1] in _BURN
            and tx.program(at) in _TOKEN_PROGRAMS
            and tx.accounts[at][SOURCE] == source
        ):
            return tx.accounts[at][OWNER]
    return None


def _index(tx: Transaction, owner: str) -> int | None:
    address = key(owner)
    return tx.keys.index(address) if address in tx.keys else None
