"""What a transaction did to balances, and what moved beside its swaps.

Balances are emitted for accounts that changed: of a wallet's accounts all, of vaults those that
hold other tokens than money. An account is a vault where a leg moved its pool's side of the
swap there, or where its owner is itself a pool or curve that the transaction's events name, and
did not sign: a maker who fills requests for quotes is a wallet.
SOL that is not wrapped is emitted for the signers, as far as they are wallets.

A movement is what the recorded change of a wallet's accounts of one mint leaves over, once its
swaps (`wallet_amount_raw`, `wallet_quote_amount_raw`) and burns are taken off:

    received - sent = change - swapped + burned

So it is exact whatever the route: a swap whose wallet does not own the accounts that moved is
the wallet sending, and the owner receiving, what was swapped; a Token-2022 fee is no one's; an
account opened or closed begins or ends with nothing.

Burned is what a wallet's own instruction burns. What a program burns it may give something for, be
it a stake account, a share of a pool or tokens on another chain: that is sent, or sold where it is
part of a swap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from pipeline.decoding.contract import Leg, Malformed
from pipeline.solana.transaction import SOURCE, Transaction
from schemas.events import Event, Migration, Movement, Side, Swap, TokenBalance
from schemas.money import MONEY, SOL_DECIMALS, WSOL
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.borsh import u64

_BURN: Final = frozenset({b"\x08", b"\x0f"})  # Burn, BurnChecked: account first
_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_TOKEN_2022: Final = text(TOKEN_2022_PROGRAM)
_SYSTEM_CREATE: Final = b"\x00\x00\x00\x00"
_SYSTEM_ASSIGN: Final = b"\x01\x00\x00\x00"
_U64_MAX: Final = 2**64 - 1

CREATED, ASSIGNED = 1, 0  # accounts of CreateAccount, of Assign

Legs = Sequence[tuple[int, Leg]]  # with the position of the instruction that is the swap
Holding = tuple[str, str]  # owner, mint


def changes(
    tx: Transaction, legs: Legs, events: Sequence[Event]
) -> tuple[list[TokenBalance], list[Movement], list[Holding]]:
    """Return the balances that a successful transaction changed, and the movements in it.

    Last come the holdings whose movement has no size that the tape can carry: the issuer of a mint
    may mint and burn more within a transaction than there can be at once.

    Raises one of contract.UNREADABLE where its bytes cannot be.
    """
    accounts, former_holders, keys, place = tx.token_accounts, tx.former_holders, tx.keys, tx.index
    vaults = _vaults(tx, legs, events)
    balances: list[TokenBalance] = []
    moved: defaultdict[Holding, int] = defaultdict(int)
    if former_holders:
        _take_from_former_holders(tx, vaults, balances, moved)
    for index, account in accounts.items():
        amount_raw, mint = account.post_raw, account.mint
        gained = amount_raw - account.pre_raw
        if not gained and index not in former_holders:
            continue
        is_vault = index in vaults
        if mint not in MONEY:
            if not is_vault:
                moved[account.owner, mint] += gained
        elif is_vault:
            continue
        if not 0 <= amount_raw <= _U64_MAX:
            raise Malformed(f"balance {amount_raw} is not an unsigned 64-bit integer")
        balances.append(
            TokenBalance(
                _address(keys[index]),
                account.owner,
                mint,
                account.decimals or 0,
                amount_raw,
                is_vault,
                account.program == _TOKEN_2022,
                place,
            )
        )
    _add_native(tx, balances)
    for event in events:
        if isinstance(event, Swap):
            _take_off(event, moved)
    burned = _burned(tx, vaults)
    if burned or any(moved.values()):
        return balances, *_movements(tx, events, moved, burned)
    return balances, [], []


def _vaults(tx: Transaction, legs: Legs, events: Sequence[Event]) -> set[int]:
    vaults: set[int] = set()
    for _, leg in legs:
        if leg.vault_in is not None:
            vaults.add(leg.vault_in)
        if leg.vault_out is not None:
            vaults.add(leg.vault_out)
    if events:
        pools = {event.pool for event in events}
        for event in events:
            if isinstance(event, Migration):
                pools.add(event.from_pool)
        pools.difference_update(tx.signer_addresses)  # a maker who signs is a wallet
        for index, account in tx.token_accounts.items():
            if account.owner in pools:
                vaults.add(index)
    return vaults


def _take_from_former_holders(
    tx: Transaction,
    vaults: set[int],
    balances: list[TokenBalance],
    moved: defaultdict[Holding, int],
) -> None:
    """Let accounts that changed hands leave their former holders with nothing."""
    for index, former in tx.former_holders.items():
        account, is_vault = tx.token_accounts[index], index in vaults
        if not is_vault:
            if former.mint not in MONEY:
                moved[former.owner, former.mint] -= former.pre_raw
            if account.mint not in MONEY:
                moved[account.owner, account.mint] += former.pre_raw  # it begins with nothing
        elif former.mint in MONEY:
            continue
        balances.append(
            TokenBalance(
                _address(tx.keys[index]),
                former.owner,
                former.mint,
                former.decimals or 0,
                0,
                is_vault,
                former.program == _TOKEN_2022,
                tx.index,
            )
        )


def _add_native(tx: Transaction, balances: list[TokenBalance]) -> None:
    """Add the signers' own SOL."""
    before, after = tx.meta.pre_balances, tx.meta.post_balances
    for index, owner in enumerate(tx.signer_addresses):
        if index >= len(before) or index >= len(after):
            return
        lamports = after[index]
        if lamports != before[index] and (not index or _is_wallet(tx, index, before[index])):
            balances.append(
                TokenBalance(
                    tx.keys[index], owner, WSOL, SOL_DECIMALS, lamports, False, False, tx.index
                )
            )


def _is_wallet(tx: Transaction, index: int, lamports_before: int) -> bool:
    """Return whether a cosigner is a wallet, not a new mint or other account that signs once."""
    if tx.token_account(index) is not None:
        return False
    if lamports_before:
        return True
    for position, data in enumerate(tx.data):
        if data[:4] == _SYSTEM_CREATE:
            place, owner = CREATED, data[20:52]
        elif data[:4] == _SYSTEM_ASSIGN:
            place, owner = ASSIGNED, data[4:36]
        else:
            continue
        if (
            tx.accounts[position][place : place + 1] == bytes([index])
            and owner != SYSTEM_PROGRAM
            and tx.program(position) == SYSTEM_PROGRAM
        ):
            return False
    return True


def _burned(tx: Transaction, vaults: set[int]) -> dict[Holding, int]:
    """Sum what outer instructions burn out of wallets' accounts."""
    burned: defaultdict[Holding, int] = defaultdict(int)
    for position, data in enumerate(tx.data):
        if (
            data[:1] not in _BURN
            or tx.heights[position] != 1
            or tx.program(position) not in _TOKEN_PROGRAMS
        ):
            continue
        source = tx.accounts[position][SOURCE]
        holding = tx.holding(source, position)
        if holding is not None and source not in vaults and holding[1] not in MONEY:
            burned[holding] += u64(data, 1)
    return burned


def _take_off(swap: Swap, moved: defaultdict[Holding, int]) -> None:
    """Take off what a swap gave its wallet and took from it."""
    buys = swap.side is Side.BUY
    if swap.mint not in MONEY:
        raw = swap.wallet_amount_raw
        moved[swap.wallet, swap.mint] -= raw if buys else -raw
    if swap.quote_mint not in MONEY:
        raw = swap.wallet_quote_amount_raw
        moved[swap.wallet, swap.quote_mint] += raw if buys else -raw


def _movements(
    tx: Transaction,
    events: Sequence[Event],
    moved: dict[Holding, int],
    burned: dict[Holding, int],
) -> tuple[list[Movement], list[Holding]]:
    movements, too_large = [], []
    for holding in moved | burned:
        burned_raw = burned.get(holding, 0)
        net = moved.get(holding, 0) + burned_raw
        if max(abs(net), burned_raw) > _U64_MAX:
            too_large.append(holding)
        elif net or burned_raw:
            owner, mint = holding
            movements.append(
                Movement(
                    signature=tx.signature,
                    tx_index=tx.index,
                    wallet=owner,
                    mint=mint,
                    decimals=_decimals(tx, events, mint),
                    received_raw=max(net, 0),
                    sent_raw=max(-net, 0),
                    burned_raw=burned_raw,
                )
            )
    return movements, too_large


def _decimals(tx: Transaction, events: Sequence[Event], mint: str) -> int:
    """Return the decimals that the recorded balances have, else a swap."""
    found = tx.decimals.get(mint)
    if found is None:
        for event in events:
            if isinstance(event, Swap) and mint in (event.mint, event.quote_mint):
                return event.decimals if mint == event.mint else event.quote_decimals
    return found or 0


def _address(address: bytes) -> bytes:
    if len(address) != 32:
        raise Malformed(f"an account's address has {len(address)} bytes")
    return address
