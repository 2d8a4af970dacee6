"""Kamino's vaults (kvault): a share is a part of what a vault holds and has lent to reserves.

Source: kvault's `VaultState` (IDL) and `vault_operations.rs`: `amounts_invested`, `compute_aum`,
`compute_user_total_received_on_withdraw`; klend's `CollateralExchangeRate`. A reserve counts as it
was last refreshed, fees as they were last charged. Shares in a vault's farm are a position of
`staking`: that of the farm's account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import error
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.solana.addresses import key, text
from schemas.solana.borsh import raw_pubkey, u64, u128

SHARES_MINT_AT: Final = 184
SIZE: Final = 62552
VAULT: Final = Kind(
    "kamino_vault",
    key("KvauGMspG5k6rtzrqqn7WNn3oZdyKqLKwK2XWQ8FLjd"),
    bytes.fromhex("e4c452a562d2eb98"),
    size=SIZE,
    mints=(SHARES_MINT_AT,),
)
KINDS: Final[tuple[Kind, ...]] = (VAULT,)
ROUTES: Final = (
    Route("vaults", Shape.YIELD, "Shares of vaults that lend, as tokens of their asset"),
)
UNSUPPORTED: Final[tuple[str, ...]] = (
    "vaults: interest since a reserve was last refreshed",
    "vaults: fees, rewards and the penalty of a withdrawal now",
    "vaults: shares staked in a vault's farm are in the route staking, as shares",
)

_SF_BITS: Final = 60
_ALLOCATIONS: Final = range(312, 312 + 25 * 2160, 2160)
_CTOKENS_AT: Final = 1104  # in an allocation
_UNSET: Final = bytes(32)
_MAX_DECIMALS: Final = 32
_KLEND: Final = key("KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD")
_RESERVE_TAG: Final = bytes.fromhex("2bf2ccca1af73b7f")


class _Vault(NamedTuple):
    account: Account
    mint: bytes
    decimals: int
    shares_mint: bytes
    shares_held: int
    shares_issued: int
    available: int
    pending_fees_sf: int
    ctokens: list[tuple[bytes, int]]  # reserve, amount of its collateral token


def read(held: Held, world: World) -> Reading:
    """Return the vaults that a wallet has shares of, as tokens; raises Unreadable."""
    vaults = [*_vaults(held)]
    if not vaults:
        return []
    reserves = yield tuple(dict.fromkeys(each for vault in vaults for each, _ in vault.ctokens))
    return [_position(vault, reserves) for vault in vaults]


def _vaults(held: Held) -> Iterator[_Vault]:
    for account in held.of(VAULT):
        data = account.data
        if len(data) != SIZE:
            raise Unreadable(f"vault of {len(data)} bytes", account.address)
        shares_mint = raw_pubkey(data, SHARES_MINT_AT)
        if not (shares := held.tokens.get(shares_mint, 0)):
            continue
        decimals = u64(data, 112)
        if decimals > _MAX_DECIMALS:
            raise Unreadable(f"token_mint_decimals {decimals}", account.address)
        ctokens = [
            (raw_pubkey(data, at), amount)
            for at in _ALLOCATIONS
            if (amount := u64(data, at + _CTOKENS_AT)) and raw_pubkey(data, at) != _UNSET
        ]
        yield _Vault(
            account=account,
            mint=raw_pubkey(data, 80),
            decimals=decimals,
            shares_mint=shares_mint,
            shares_held=shares,
            shares_issued=u64(data, 232),
            available=u64(data, 224),
            pending_fees_sf=u128(data, 296),
            ctokens=ctokens,
        )


def _position(vault: _Vault, found: Mapping[bytes, Account]) -> Position:
    used = [found[reserve] for reserve, _ in vault.ctokens if reserve in found]
    position = Position(
        "vaults",
        vault.account,
        market=vault.account.address,
        stands_for={vault.shares_mint: vault.shares_held},
        missing=[reserve for reserve, _ in vault.ctokens if reserve not in found],
        reference_slot=min((reserve.slot for reserve in used), default=None),
    )
    amount = None if position.missing else _worth(vault, found)
    if amount is None and not position.missing:
        position.unsupported_fields.append("amount_raw: no shares are issued, or fees exceed all")
    elif amount is None:
        position.unsupported_fields.append("amount_raw: a reserve is missing")
    position.assets.append(Asset(Role.SUPPLY, vault.mint, amount, vault.decimals))
    return position


def _worth(vault: _Vault, reserves: Mapping[bytes, Account]) -> int | None:
    """Return the raw tokens that the wallet's shares are worth, rounded down."""
    held_sf = vault.available << _SF_BITS
    for reserve, ctokens in vault.ctokens:
        held_sf += _liquidity_sf(reserves[reserve], ctokens, vault.account)
    net_sf = held_sf - vault.pending_fees_sf
    if net_sf < 0 or not vault.shares_issued:
        return None
    return net_sf * vault.shares_held // vault.shares_issued >> _SF_BITS


def _liquidity_sf(reserve: Account, ctokens: int, vault: Account) -> int:
    """Return what a reserve's collateral tokens are worth, in 1/2**60, rounded down."""
    data = reserve.data
    if reserve.kind.program != _KLEND or not data.startswith(_RESERVE_TAG):
        raise Unreadable(f"allocation to {text(reserve.address)}, no reserve", vault.address)
    try:
        supply = u64(data, 2592)
        fees_sf = u128(data, 344) + u128(data, 360) + u128(data, 376)
        liquidity_sf = (u64(data, 224) << _SF_BITS) + u128(data, 232) - fees_sf
    except error:
        detail = f"reserve {text(reserve.address)} of {len(data)} bytes"
        raise Unreadable(detail, vault.address) from None
    if liquidity_sf < 0:
        raise Unreadable(f"reserve {text(reserve.address)}: fees exceed all", vault.address)
    if not supply or not liquidity_sf:
        return ctokens << _SF_BITS  # the rate that a reserve begins with
    return ctokens * liquidity_sf // supply
