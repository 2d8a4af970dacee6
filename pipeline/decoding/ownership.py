"""Whose swaps are that another account signed for.

A listed keeper's program names the order's owner. Anybody may fill some orders, and swap whatever
else meanwhile: what gave more than the keeper took for the order is not the order's, nor is what
got less than its owner received, who was paid otherwise: at no price of those swaps.

Where an unlisted one trades for an account of its own or of a user, balances show it: who signed
only passed tokens on, and one other account gave what was paid and got what came out. Both must be
so: nothing leaves a wallet that did not sign but by a program it trusts, or by the issuer of a
Token-2022 mint, which does not count; while anyone can send tokens to a wallet, through a pool of
their own and at any price, and must not put trades into its books by that. There the trade stays
with who signed, and what comes out of it is received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pipeline.decoding.assemble import gave
from pipeline.decoding.contract import Filled, Leg
from pipeline.decoding.flows import Flow, flows
from pipeline.solana.transaction import Transaction
from schemas.events import Event, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import text

Legs = Sequence[tuple[int, Leg]]  # with the position of the instruction that is the swap


def fill(tx: Transaction, position: int, filled: Filled, events: Iterable[Event]) -> None:
    """Give a filled order's swaps to its owner, and make them add up to what that received.

    Raises one of contract.UNREADABLE.
    """
    end = tx.subtree_end(position)
    swaps = [
        event
        for event in events
        if isinstance(event, Swap)
        and filled.begin <= event.event_index < end
        and event.wallet in (filled.keeper, filled.owner)
    ]
    if not _is_of_order(tx, position, filled, swaps):
        return
    _give(swaps, filled.owner, filled.keeper)
    if filled.received_raw is not None:
        _reduce(swaps, filled.output_mint, filled.received_raw)


def _is_of_order(tx: Transaction, position: int, filled: Filled, swaps: Sequence[Swap]) -> bool:
    """Return whether swaps gave one mint alone, no more of it than was taken, and pay the owner."""
    net = net_of(swaps)
    given = [(mint, -raw) for mint, raw in net.items() if raw < 0]
    if len(given) != 1 or net.get(filled.output_mint, 0) < (filled.received_raw or 0):
        return False
    if tx.programs[filled.begin] != tx.programs[position]:
        return True  # nothing says where the keeper took it
    ((input_mint, given_raw),) = given
    taken = flows(tx, filled.begin, tx.subtree_end(filled.begin))
    return given_raw <= sum(-flow.amount_raw for flow in taken if _left(flow, input_mint))


def _left(flow: Flow, mint: str) -> bool:
    return flow.mint == mint and flow.amount_raw < 0


def pass_on(tx: Transaction, legs: Legs, events: Iterable[Event]) -> None:
    """Give swaps whose signer only passed tokens on to the account that gave and got them.

    Raises one of contract.UNREADABLE.
    """
    if _stays(tx, legs):
        return
    swaps: defaultdict[str, list[Swap]] = defaultdict(list)
    for event in events:
        if isinstance(event, Swap):
            swaps[event.wallet].append(event)
    for wallet, own in swaps.items():
        if wallet not in tx.signer_addresses or any(swap.keeper for swap in own):
            continue
        net = {mint: raw for mint, raw in net_of(own).items() if raw}
        if len(net) != 2 or not _others_share(tx, net):
            continue
        (paid_raw, input_mint), (got_raw, output_mint) = sorted((net[mint], mint) for mint in net)
        owners = [
            (owner, balances[output_mint])
            for owner, balances in _gained(tx).items()
            if owner not in swaps
            and owner not in tx.signer_addresses
            and balances[input_mint] <= paid_raw < 0 < balances[output_mint] <= got_raw
        ]
        if len(owners) == 1 and _agreed(tx, owners[0][0], input_mint, -paid_raw):
            owner, received_raw = owners[0]
            _give(own, owner, wallet)
            _reduce(own, output_mint, received_raw)


def _others_share(tx: Transaction, net: Mapping[str, int]) -> bool:
    """Return whether tokens of one who did not sign moved as a wallet's net does."""
    return any(
        (account.post_raw - account.pre_raw) * net.get(account.mint, 0) > 0
        and account.owner not in tx.signer_addresses
        for account in tx.token_accounts.values()
    )


def _agreed(tx: Transaction, owner: str, mint: str, amount_raw: int) -> bool:
    """Return whether an owner agreed that as much left its accounts of a mint."""
    if mint == WSOL:
        return True  # nobody else moves it
    accounts = {
        index
        for index, account in tx.token_accounts.items()
        if account.owner == owner and account.mint == mint
    }
    moved = (tx.transfer(at) for at in range(len(tx.programs)))
    given_raw = sum(
        each.amount_raw
        for each in moved
        if each is not None
        and each.source in accounts
        and gave(tx, each.position, each.source, each.authority) == owner
    )
    return given_raw >= amount_raw


def _stays(tx: Transaction, legs: Legs) -> bool:
    """Return whether the first leg's input left, or the last one's output stayed with, a signer."""
    (_, first), (_, last) = legs[0], legs[-1]
    for index, sign, amount_raw in (
        (last.destination, 1, last.output_raw if last.received_raw is None else last.received_raw),
        (first.source, -1, first.input_raw if first.paid_raw is None else first.paid_raw),
    ):
        account = None if index is None else tx.token_accounts.get(index)
        if (
            account is not None
            and (account.post_raw - account.pre_raw) * sign >= amount_raw
            and account.owner in tx.signer_addresses
        ):
            return True
    return False


def _gained(tx: Transaction) -> dict[str, defaultdict[str, int]]:
    """Return what each owner's token accounts, and its own SOL, gained by mint."""
    found: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for index, account in tx.token_accounts.items():
        former = tx.former_holders.get(index, account)
        found[former.owner][former.mint] -= account.pre_raw
        found[account.owner][account.mint] += account.post_raw
    pairs = zip(tx.keys, tx.meta.pre_balances, tx.meta.post_balances, strict=False)
    for index, (address, before, after) in enumerate(pairs):
        if before != after and tx.token_account(index) is None:
            found[text(address)][WSOL] += after - before
    return found


def _give(swaps: Sequence[Swap], owner: str, keeper: str) -> None:
    for swap in swaps:
        swap.wallet, swap.keeper = owner, keeper


def _reduce(swaps: Sequence[Swap], mint: str, received_raw: int) -> None:
    """Let swaps give their owner no more of a mint than that received, the last ones first."""
    kept_raw = net_of(swaps).get(mint, 0) - received_raw
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


def net_of(swaps: Iterable[Swap]) -> dict[str, int]:
    """Sum what a wallet's swaps gave it by mint, less what they took."""
    net: defaultdict[str, int] = defaultdict(int)
    for swap in swaps:
        sign = 1 if swap.side is Side.BUY else -1
        net[swap.mint] += sign * swap.wallet_amount_raw
        net[swap.quote_mint] -= sign * swap.wallet_quote_amount_raw
    return net
