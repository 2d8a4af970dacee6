"""Adrena's stakes: liquid ones, and up to 32 that are locked, in one account a wallet and token.

A lock that has ended can be taken out; one that was left early gives its tokens less a fee.
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
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, u64
from schemas.solana.derived import derived

PROGRAM: Final = key("13gDzEXCdocbj8iAiqrScGo47NiSuYENGsRqi3SEAwet")
ADX: Final = key("AuQaustGiaqxRvj2gtCdrd22PBzTn8kM3kEPEkZCtuDw")
ALP: Final = key("4yCLi5yWGzpTWMQ1iWHG5CrGYAdBkhyEdsuSugjDUqwj")
STAKINGS: Final = {mint: derived(PROGRAM, b"staking", mint) for mint in (ADX, ALP)}

USER_STAKING: Final = Kind(
    "adrena_user_staking", PROGRAM, bytes.fromhex("2253ca5d19f33f36"), size=3_904
)

_DECIMALS: Final = 6
_LIQUID_AT: Final = 24
_LOCKED: Final = range(64, 3_904, 120)
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not


def stake_address(wallet: bytes, mint: bytes) -> bytes:
    """Return where the stakes of a wallet in ADX or ALP are."""
    return derived(PROGRAM, b"user_staking", wallet, STAKINGS[mint])


def read_stakes(held: Held, world: World) -> Reading:
    """Return a wallet's stakes in either token; raises Unreadable."""
    at = {mint: stake_address(held.wallet, mint) for mint in STAKINGS}
    found = yield tuple(at.values())
    positions = []
    for mint, address in at.items():
        if account := found.get(address):
            if account.kind is not USER_STAKING or len(account.data) != USER_STAKING.size:
                raise Unreadable(f"stakes: {account.kind.name} of another size", address)
            position = _stakes(account, mint, world.time_s)
            if position.assets:
                positions.append(position)
    return positions


def _stakes(account: Account, mint: bytes, now_s: int) -> Position:
    position = Position("staking", account, market=STAKINGS[mint])
    data = account.data
    free, locked = u64(data, _LIQUID_AT), 0
    for at in _LOCKED:
        amount, ends_s = u64(data, at), i64(data, at + 24)
        if not amount:
            continue
        has_ended = ends_s <= now_s or data[at + 88] != 0  # or was left early
        if has_ended:
            fee = u64(data, at + 96)
            if fee > amount:
                raise Unreadable(f"stakes: a fee of {fee} of {amount} at {at}", account.address)
            amount -= fee
            free += amount
        else:
            locked += amount
        shares = (0, amount) if has_ended else (amount, 0)
        ends_ms = max(min(ends_s * 1000, _LATEST_MS), -_LATEST_MS)
        position.locks.append(Lock("term", *shares, ends_ms))
    for role, amount in ((Role.SUPPLY, free), (Role.LOCKED, locked)):
        if amount:
            position.assets.append(Asset(role, mint, amount, _DECIMALS))
    return position
