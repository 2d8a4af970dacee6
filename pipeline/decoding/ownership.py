"""Whose a swap is where its signer traded for somebody else: by what came of its output.

A listed keeper names the order's owner. Of any other program or payer the balances decide. A
wallet that kept less than half of what its swaps gave, and paid less than half of their price
itself, was a keeper; the owner who received at least half traded. One that paid but kept nothing
bought for another, if a pool or a listed router paid that out: what another program takes is a
deposit, and a transfer of its own a gift afterwards. A sale whose money goes elsewhere stays its
seller's. An owner who gives something else for it afterwards is a pool, and did not trade.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pipeline.decoding.contract import Filled, Leg
from pipeline.decoding.hops import ROUTER_PROGRAMS
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import TokenAccount, Transaction
from schemas.events import Event, Side, Swap
from schemas.money import MONEY, WSOL
from schemas.solana.addresses import key, text

RENT_LAMPORTS: Final = 3_000_000  # SOL that opening or closing an account moves is no trade

_LISTED: Final = PROGRAMS | ROUTER_PROGRAMS

Legs = Sequence[tuple[int, Leg]]  # with the position of the instruction that is the swap


def fill(tx: Transaction, position: int, filled: Filled, events: Iterable[Event]) -> None:
    """Give a filled order's swaps to its owner, and make them add up to what that received."""
    end = tx.subtree_end(position)
    swaps = [
        event
        for event in events
        if isinstance(event, Swap) and filled.begin <= event.event_index < end
    ]
    _give(swaps, filled.owner, filled.keeper)
    if filled.received_raw is not None:
        _reduce(swaps, filled.output_mint, filled.received_raw)


def _give(swaps: Sequence[Swap], owner: str, keeper: str) -> None:
    for swap in swaps:
        swap.wallet, swap.keeper = owner, keeper


def _reduce(swaps: Sequence[Swap], mint: str, received_raw: int) -> None:
    """Let swaps give their owner no more of a mint than that received, the last ones first."""
    kept_raw = _net(swaps).get(mint, 0) - received_raw
    for swap in reversed(swaps):
        if kept_raw > 0:
            kept_raw -= _take(swap, mint, kept_raw)


def _take(swap: Swap, mint: str, most_raw: int) -> int:
    """Take off a swap's output of a mint what its wallet did not receive; return how much."""
    if swap.side is Side.BUY and swap.mint == mint:
        taken_raw = min(most_raw, swap.wallet_amount_raw)
        swap.wallet_amount_raw -= taken_raw
    elif swap.side is Side.SELL and swap.quote_mint == mint:
        taken_raw = min(most_raw, swap.wallet_quote_amount_raw)
        swap.wallet_quote_amount_raw -= taken_raw
    else:
        return 0
    return taken_raw


def _net(swaps: Iterable[Swap]) -> dict[str, int]:
    """Sum what a wallet's swaps gave it by mint, less what they took."""
    net: defaultdict[str, int] = defaultdict(int)
    for swap in swaps:
        sign = 1 if swap.side is Side.BUY else -1
        net[swap.mint] += sign * swap.wallet_amount_raw
        net[swap.quote_mint] -= sign * swap.wallet_quote_amount_raw
    return net


def pass_on(tx: Transaction, legs: Legs, events: Sequence[Event]) -> None:
    """Give swaps whose wallet passed their output on to who received it."""
    if len(legs) == 1 and not _suspicious(tx, legs[0][1], events):
        return
    by_wallet: defaultdict[str, list[Swap]] = defaultdict(list)
    for event in events:
        if isinstance(event, Swap) and not event.keeper:
            by_wallet[event.wallet].append(event)
    for wallet, swaps in by_wallet.items():
        net = _net(swaps)
        gave = [mint for mint, amount_raw in net.items() if amount_raw < 0]
        got = [mint for mint, amount_raw in net.items() if amount_raw > 0]
        if len(gave) != 1 or len(got) != 1:
            continue
        (input_mint,), (output_mint,) = gave, got
        kept = _change(tx, output_mint, wallet)
        if kept * 2 >= net[output_mint]:
            continue
        is_keeper = -_change(tx, input_mint, wallet) * 2 < -net[input_mint]
        if not is_keeper and (kept > 0 or output_mint in MONEY):
            continue
        if _received_more(tx, wallet, net):
            continue  # for the output, from a program that nothing decodes
        owner, received_raw = _receiver(tx, legs, events, output_mint, net[output_mint], wallet)
        if owner and (is_keeper or _was_handed(tx, owner, output_mint)):
            _give(swaps, owner, wallet if is_keeper else "")
            _reduce(swaps, output_mint, received_raw)


def _suspicious(tx: Transaction, leg: Leg, events: Sequence[Event]) -> bool:
    """Whether a lone leg's accounts say that its wallet may not be who traded."""
    for event in events:
        if isinstance(event, Swap):
            for index in (leg.source, leg.destination):
                account = _recorded(tx, index)
                if account is not None and (
                    account.owner != event.wallet or account.pre_raw == account.post_raw
                ):
                    return True
    return False


def _recorded(tx: Transaction, index: int | None) -> TokenAccount | None:
    return None if index is None else tx.token_accounts.get(index)


def _change(tx: Transaction, mint: str, owner: str) -> int:
    """Return what an owner gained of a mint; see `_changes`."""
    gained = 0
    if mint != WSOL:
        for account in tx.token_accounts.values():
            if account.mint == mint and account.owner == owner:
                gained += account.post_raw - account.pre_raw
        return gained
    before, after = tx.meta.pre_balances, tx.meta.post_balances
    places = [index for index, each in tx.token_accounts.items() if each.owner == owner]
    address = key(owner)
    if address in tx.keys:
        places.append(tx.keys.index(address))
        gained = tx.fee_lamports if places[-1] == 0 else 0
    for index in places:
        if index < len(before) and index < len(after):
            gained += after[index] - before[index]
    return gained


def _changes(tx: Transaction, mint: str) -> dict[str, int]:
    """Return what owners gained of a mint; SOL is counted with what is not wrapped, fee aside."""
    found: defaultdict[str, int] = defaultdict(int)
    before, after = tx.meta.pre_balances, tx.meta.post_balances
    if mint != WSOL:
        for account in tx.token_accounts.values():
            if account.mint == mint:
                found[account.owner] += account.post_raw - account.pre_raw
        return found
    for index in range(min(len(before), len(after), len(tx.keys))):
        token = tx.token_accounts.get(index)
        owner = text(tx.keys[index]) if token is None else token.owner
        found[owner] += after[index] - before[index]
    found[tx.fee_payer] += tx.fee_lamports
    return found


def _received_more(tx: Transaction, wallet: str, traded: Collection[str]) -> bool:
    """Whether a wallet gained tokens that its swaps did not trade, or SOL that is no rent."""
    for account in tx.token_accounts.values():
        gained = account.owner == wallet and account.post_raw > account.pre_raw
        if gained and account.mint not in traded and account.mint != WSOL:
            return True
    return WSOL not in traded and _change(tx, WSOL, wallet) > RENT_LAMPORTS


def _was_handed(tx: Transaction, owner: str, mint: str) -> bool:
    """Whether pools and listed routers alone paid a mint out to an owner."""
    for position in range(len(tx.programs)):
        moved = tx.transfer(position)
        account = None if moved is None else tx.token_account(moved.destination)
        if account is not None and (account.owner, account.mint) == (owner, mint):
            caller = next(tx.ancestors(position), None)
            if caller is None or tx.program(caller) not in _LISTED:
                return False
    return True


def _gave(tx: Transaction, mint: str, after: int) -> set[str]:
    """Return who gave tokens other than of a mint after a position."""
    found = set()
    for position in range(after + 1, len(tx.programs)):
        moved = tx.transfer(position)
        account = None if moved is None else tx.token_account(moved.source)
        if account is not None and account.mint != mint:
            found.add(account.owner)
    return found


def _receiver(
    tx: Transaction,
    legs: Legs,
    events: Sequence[Event],
    mint: str,
    amount_raw: int,
    wallet: str,
) -> tuple[str, int]:
    """Return who received at least half of an amount, and how much; ('', 0) where nobody did.

    Pools and vaults did not.
    """
    first = min(position for position, _ in legs)
    pools = {wallet, *(event.pool for event in events), *_gave(tx, mint, first)}
    for _, leg in legs:
        for index in (leg.vault_in, leg.vault_out):
            account = None if index is None else tx.token_account(index)
            if account is not None:
                pools.add(account.owner)
            elif index is not None:
                pools.add(text(tx.keys[index]))
    received = [
        (gained, owner)
        for owner, gained in _changes(tx, mint).items()
        if owner not in pools and amount_raw <= gained * 2 <= amount_raw * 2
    ]
    gained, owner = max(received, default=(0, ""))
    return owner, gained
