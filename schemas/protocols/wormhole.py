"""Wormhole MultiGov: W deposited to vote with, and W that vests.

A deposit can be withdrawn at any time. Its votes, and those of W that vests, are its delegate's.

Source: the staking program's `StakeAccountMetadata` and `VestingBalance`, borsh.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Voting,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64

PROGRAM: Final = key("MGoV9M6YUsdhJzjzH9JMCW2tRe1LLxF1CjwqKC7DR1B")
W: Final = key("85VBFQZC9TZkfaptBWjvUw7YbZjy52A6mjtPGjstQAmQ")
_DECIMALS: Final = 6

_OWNER_AT: Final = 27
_VESTER_AT: Final = 8
DEPOSIT: Final = Kind(
    "wormhole_deposit", PROGRAM, bytes.fromhex("440bed8a3d210f5d"), wallets=(_OWNER_AT,)
)
VESTING: Final = Kind(
    "wormhole_vesting", PROGRAM, bytes.fromhex("e0464e8078c709b6"), wallets=(_VESTER_AT,)
)
_LEAST: Final = {DEPOSIT: 93, VESTING: 81}  # what is read; versions of the program append
_NOBODY: Final = bytes(32)
_DATES: Final = "locks: when what vests can be claimed, which accounts of each date say"


def read(held: Held, _: World) -> Reading:
    """Return a wallet's deposits, and what vests for it."""
    yield from ()
    positions = []
    for account in held.accounts:
        if account.kind not in _LEAST or len(account.data) < _LEAST[account.kind]:
            continue
        if raw_pubkey(account.data, account.kind.wallets[0]) == held.wallet:
            read_one = _deposit if account.kind is DEPOSIT else _vesting
            if (position := read_one(account)) is not None:
                positions.append(position)
    return positions


def _deposit(account: Account) -> Position | None:
    """Return a deposit; None where nothing is in it and nothing votes by it."""
    amount_raw, vesting_raw = u64(account.data, 11), u64(account.data, 19)
    delegate = raw_pubkey(account.data, 59)
    if not amount_raw and not vesting_raw:
        return None
    return Position(
        "staking",
        account,
        market=W,
        assets=[Asset(Role.SUPPLY, W, amount_raw, _DECIMALS)],
        voting=Voting(
            power_raw=amount_raw + vesting_raw,
            open_votes=None,
            delegate=None if delegate == _NOBODY else delegate,
        ),
    )


def _vesting(account: Account) -> Position | None:
    """Return W that vests and was not claimed; None for none."""
    amount_raw = u64(account.data, 40)
    if not amount_raw:
        return None
    return Position(
        "staking",
        account,
        market=W,
        assets=[Asset(Role.LOCKED, W, amount_raw, _DECIMALS)],
        locks=[Lock("vesting")],
        unsupported_fields=[_DATES],
    )


PROTOCOL: Final = Protocol(
    "wormhole",
    (DEPOSIT, VESTING),
    (Route("staking", Shape.STAKING, "W deposited for votes, and W that vests"),),
    read,
    unsupported_fields=(
        "W sent to a deposit since its owner last delegated",
        "deposits of the first staking program",
        "open votes, which keep nothing from being withdrawn",
    ),
)
