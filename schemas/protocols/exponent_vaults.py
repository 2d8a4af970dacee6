"""Exponent's strategy vaults: share tokens, and withdrawals on their way.

A request keeps shares in escrow; the vault's manager fills it with tokens, which its owner then
takes out. What a share is worth is not computed: what a vault has elsewhere is priced by accounts
of Exponent's own, and that arithmetic is not published. So shares count at their market price.

Source: `ExponentStrategyVault` and `WithdrawalAccount` of the program's IDL, second-hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error
from typing import Final, NamedTuple

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
)
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader, raw_pubkey

PROGRAM: Final = key("sVau1tXvayVWfotzm9Ahcv2qfnnfRWttt78BCnNC6dD")
ROUTE: Final = "v2/strategy-vaults"
_ENTRIES_AT: Final = 104
_MOST: Final = 256  # tokens of a vault, their prices and policies, fills of a request


def _shares_mint_at(data: bytes) -> tuple[int, ...]:
    """Return the offset of the mint of a vault's shares, which follows its tokens."""
    reader = Reader(data, _ENTRIES_AT)
    try:
        for _ in range(_count(reader)):
            reader.skip(32)
            if reader.u8():  # of a price: a product of several
                reader.skip(8 * _count(reader))
            else:
                reader.skip(8)
            reader.skip(72)
            reader.skip(8 * _count(reader))
        reader.skip(32)
    except error:
        return ()
    return (reader.offset,)


def _count(reader: Reader) -> int:
    count = reader.u32()
    if count > _MOST:
        raise error(f"{count} elements at {reader.offset - 4}")
    return count


VAULT: Final = Kind(
    "exponent_strategy_vault",
    PROGRAM,
    bytes.fromhex("62e427c974d2270b"),
    mints_at=_shares_mint_at,
)
REQUEST: Final = Kind(
    "exponent_withdrawal", PROGRAM, bytes.fromhex("63aeee9ab0cc14f6"), wallets=(40,)
)
KINDS: Final = (VAULT, REQUEST)

_NO_WORTH: Final = "assets.price_usd: what a share is worth by the vault is not computed"
_NO_VAULT: Final = "assets: the vault, which says what its shares are, is not known"


class _Request(NamedTuple):
    account: Account
    vault: bytes
    shares: int  # that are not filled
    fills: list[Asset]


def read(held: Held) -> Reading:
    """Return a wallet's shares, and its withdrawals; raises Unreadable."""
    requests = [_request(each) for each in held.of(REQUEST) if each.data[40:72] == held.wallet]
    vaults = (yield tuple({each.vault: None for each in requests})) if requests else {}
    positions = [each for vault in held.of(VAULT) for each in _shares(vault, held)]
    open_requests = (each for each in requests if each.shares or each.fills)
    return [*positions, *(_withdrawal(each, vaults.get(each.vault)) for each in open_requests)]


def _shares(vault: Account, held: Held) -> Iterator[Position]:
    for mint in vault.kind.represented_by(vault.data):
        if (shares := held.tokens.get(mint, 0)) > 0:
            position = Position(ROUTE, vault, market=vault.address, stands_for={mint: shares})
            position.assets = [Asset(Role.SUPPLY, mint, shares)]
            position.unsupported_fields.append(_NO_WORTH)
            yield position


def _request(account: Account) -> _Request:
    reader = Reader(account.data, 80)
    try:
        shares = reader.u64()
        fills = []
        for _ in range(_count(reader)):
            mint = reader.raw_pubkey()
            reader.skip(32)
            if raw := reader.u64():
                fills.append(Asset(Role.PENDING, mint, raw))
    except error:
        raise Unreadable(f"withdrawal of {len(account.data)} bytes", account.address) from None
    return _Request(account, raw_pubkey(account.data, 8), shares, fills)


def _withdrawal(request: _Request, vault: Account | None) -> Position:
    position = Position(ROUTE, request.account, market=request.vault, assets=request.fills)
    if not request.shares:
        return position
    position.locks = [Lock("cooldown", request.shares, 0)]
    if vault is None:
        position.missing.append(request.vault)
        position.unsupported_fields.append(_NO_VAULT)
        return position
    position.reference_slot = vault.slot
    mints = vault.kind.represented_by(vault.data) if vault.kind is VAULT else ()
    if not mints:
        raise Unreadable("withdrawal: its vault at 8 is none", request.account.address)
    [mint] = mints
    position.assets = [*request.fills, Asset(Role.PENDING, mint, request.shares)]
    position.unsupported_fields.append(_NO_WORTH)
    return position
