"""Kamino's vaults (kvault): a share is a part of what a vault holds and has lent to reserves.

Source: kvault's `VaultState` (IDL) and `vault_operations.rs`: `amounts_invested`, `compute_aum`,
`compute_user_total_received_on_withdraw`. A vault may lend to reserves of any market: it counts
where all of these are verified. Reserves count with interest until now, fees as they
were last charged, as in klend-sdk's `getTokensPerShareSingleVault`. Shares in a vault's farm count
as those in the wallet do.

Anybody can open a vault and send its shares: one whose own numbers leave nothing to withdraw pays
0, and is no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Position,
    Reading,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.kamino_parts.fixed60 import BITS
from schemas.protocols.kamino_parts.reserve import MARKET_AT, RESERVE, Reserve, reserve_of
from schemas.protocols.kamino_parts.staked import Staked, oldest, shares_of
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
    "vaults: fees and rewards since they were last counted, and the penalty of a withdrawal",
)

_ALLOCATIONS: Final = range(312, 312 + 25 * 2160, 2160)
_CTOKENS_AT: Final = 1104  # in an allocation
_UNSET: Final = bytes(32)
_MAX_DECIMALS: Final = 32
_PAYS_NOTHING: Final = (
    "assets.amount_raw: the vault pays nothing now, for it has no shares, or more fees than tokens"
)
_NO_REWARDS: Final = "assets.amount_raw: what reserves have paid since their last refresh"


class _Vault(NamedTuple):
    account: Account
    mint: bytes
    decimals: int | None  # None: so many that no sum has use for them
    shares_issued: int
    available: int
    pending_fees_sf: int
    ctokens: list[tuple[bytes, int]]  # reserve, amount of its collateral token


def read(held: Held, world: World, staked: Sequence[Staked] = ()) -> Reading:
    """Return the vaults that a wallet has shares of, in a farm too, as tokens; raises Unreadable.

    What is staked and no vault's share stays a stake.
    """
    shares, stays = yield from shares_of("vaults", VAULT, held, staked)
    vaults = [_vault(each.issuer) for each in shares]
    if vaults:
        wanted = tuple(dict.fromkeys(each for vault in vaults for each, _ in vault.ctokens))
        reserves = yield wanted
        for each, vault in zip(shares, vaults, strict=True):
            _count(each.position, vault, reserves, world.slot)
    return [*(each.position for each in shares), *stays]


def _vault(account: Account) -> _Vault:
    data = account.data
    if len(data) != SIZE:
        raise Unreadable(f"vault of {len(data)} bytes", account.address)
    decimals = u64(data, 112)
    ctokens = [
        (raw_pubkey(data, at), amount)
        for at in _ALLOCATIONS
        if (amount := u64(data, at + _CTOKENS_AT)) and raw_pubkey(data, at) != _UNSET
    ]
    return _Vault(
        account=account,
        mint=raw_pubkey(data, 80),
        decimals=decimals if decimals <= _MAX_DECIMALS else None,
        shares_issued=u64(data, 232),
        available=u64(data, 224),
        pending_fees_sf=u128(data, 296),
        ctokens=ctokens,
    )


def _count(position: Position, vault: _Vault, found: Mapping[bytes, Account], slot: int) -> None:
    """Turn a position's shares into tokens of its vault, and note what is not known of them."""
    missing = [address for address, _ in vault.ctokens if address not in found]
    used = [found[address] for address, _ in vault.ctokens if address in found]
    position.market = vault.account.address
    markets = [each.data[MARKET_AT : MARKET_AT + 32] for each in used if each.kind is RESERVE]
    position.open_markets = [*dict.fromkeys(markets)]
    position.missing += missing
    position.reference_slot = oldest(position, vault.account, used)
    reserves: list[Reserve] = []
    whole_sf: int | None = None
    if missing:
        position.unsupported_fields.append("assets.amount_raw: a reserve is missing")
    else:
        reserves = [_reserve(account, slot, vault.account) for account in used]
        whole_sf = _whole_sf(vault, reserves)
        if whole_sf < 0 or not vault.shares_issued:
            whole_sf = 0
            position.unsupported_fields.append(_PAYS_NOTHING)
    for line in position.assets:
        line.mint, line.decimals = vault.mint, vault.decimals
        if whole_sf is None or line.amount_raw is None:
            line.amount_raw = None
        else:
            line.amount_raw = whole_sf * line.amount_raw // (vault.shares_issued or 1) >> BITS
    if any(reserve.is_paying_rewards for reserve in reserves):
        position.unsupported_fields.append(_NO_REWARDS)  # which can only be more


def _reserve(account: Account, slot: int, vault: Account) -> Reserve:
    """Return a reserve; raises Unreadable of the vault that has lent to it."""
    if account.kind is not RESERVE:
        raise Unreadable(f"allocation to {text(account.address)}, no reserve", vault.address)
    try:
        return reserve_of(account, slot)
    except Unreadable as reason:
        raise Unreadable(f"{text(account.address)}: {reason}", vault.address) from None


def _whole_sf(vault: _Vault, reserves: Sequence[Reserve]) -> int:
    """Return the raw tokens that all shares are worth; negative for more fees than tokens."""
    whole_sf = (vault.available << BITS) - vault.pending_fees_sf
    for reserve, (_, ctokens) in zip(reserves, vault.ctokens, strict=True):
        whole_sf += reserve.liquidity_sf(ctokens)
    return whole_sf
