"""Stakes in Drift's insurance funds: shares of a fund's vault, and those that are leaving it.

A request to unstake keeps what it was worth: later gains stay in the fund, losses count. A fund
that lost most of what it had takes decimals off all shares (`base`), a stake's when it is touched.

Source: programs/drift `controller/insurance.rs`, `math/insurance.rs`; amounts are judged by
`unstakeSharesToAmountWithOpenRequest` of `@drift-labs/sdk`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Lock,
    Position,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.drift_parts.layout import (
    STAKE,
    SpotMarket,
    checked,
    spot_market_address,
    spot_market_of,
)
from schemas.protocols.vaults import Side, vault_amount
from schemas.solana.borsh import i64, u16, u64, u128

ROUTES: Final = (
    Route("staking", Shape.STAKING, "Stakes in insurance funds, and those that are leaving"),
)
UNSUPPORTED: Final = ("revenue that an insurance fund has not been paid yet",)
_MOST_BASE: Final = 38  # decimals that 128 bits have
_LATEST_MS: Final = (1 << 53) - 1
_NO_VAULT: Final = "assets.amount_raw: what the fund's vault has is not known"
_NO_SHARES: Final = "assets.amount_raw: the fund counts no shares"


class _Stake(NamedTuple):
    account: Account
    market_index: int
    shares: int
    leaving: int  # of the shares
    base: int
    requested_raw: int
    requested_s: int


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stakes; raises Unreadable."""
    stakes = [
        stake
        for account in held.of(STAKE)
        if checked(account, STAKE)[8:40] == held.wallet and (stake := _stake_of(account)).shares
    ]
    if not stakes:
        return []
    addresses = {each.market_index: spot_market_address(each.market_index) for each in stakes}
    found = yield tuple(addresses.values())
    markets = {
        index: spot_market_of(found[address], index)
        for index, address in addresses.items()
        if address in found
    }
    vaults: Mapping[bytes, Account] = {}
    if markets:
        vaults = yield tuple({each.insurance_vault: None for each in markets.values()})
    return [_position(each, markets.get(each.market_index), vaults, world) for each in stakes]


def _stake_of(account: Account) -> _Stake:
    data = account.data
    stake = _Stake(
        account,
        u16(data, 120),
        u128(data, 40),
        u128(data, 56),
        u128(data, 72),
        u64(data, 96),
        i64(data, 104),
    )
    if stake.leaving > stake.shares:
        raise Unreadable(f"stake: {stake.leaving} of {stake.shares} shares leave", account.address)
    return stake


def _position(
    stake: _Stake, market: SpotMarket | None, vaults: Mapping[bytes, Account], world: World
) -> Position:
    address = spot_market_address(stake.market_index)
    position = Position("staking", stake.account, market=address)
    if market is None:
        position.missing.append(address)
        return position
    position.reference_slot = market.slot
    staked, leaving = _amounts(stake, market, vaults, position)
    if staked != 0:
        position.assets.append(Asset(Role.SUPPLY, market.mint, staked, market.decimals))
    if stake.leaving:
        position.assets.append(Asset(Role.PENDING, market.mint, leaving, market.decimals))
        ends_s = stake.requested_s + market.unstaking_s
        is_over = ends_s <= world.time_s
        locked, claimable = (0, leaving) if is_over else (leaving, 0)
        ends_ms = max(min(ends_s * 1000, _LATEST_MS), 0)
        position.locks = [Lock("cooldown", locked, claimable, ends_ms)]
    return position


def _amounts(
    stake: _Stake, market: SpotMarket, vaults: Mapping[bytes, Account], position: Position
) -> tuple[int | None, int | None]:
    """Return what stays and what is leaving; raises Unreadable."""
    vault = vaults.get(market.insurance_vault)
    side = Side(market.insurance_vault, market.mint, market.decimals, 0)
    held_raw = vault_amount(vaults, side)
    if vault is None or held_raw is None:
        position.missing.append(market.insurance_vault)
        position.unsupported_fields.append(_NO_VAULT)
        return None, None
    position.reference_slot = min(market.slot, vault.slot)
    shares, leaving = _rebased(stake, market)
    total = market.insurance_shares
    if shares > total:
        detail = f"stake: {shares} of the fund's {total} shares"
        raise Unreadable(detail, stake.account.address)
    if not total:
        position.unsupported_fields.append(_NO_SHARES)
        return None, None
    left = min(stake.requested_raw, leaving * held_raw // total)
    return (shares - leaving) * held_raw // total, left


def _rebased(stake: _Stake, market: SpotMarket) -> tuple[int, int]:
    moved = market.insurance_base - stake.base
    if not 0 <= moved <= _MOST_BASE:
        detail = f"stake: base {stake.base}, its fund's {market.insurance_base}"
        raise Unreadable(detail, stake.account.address)
    return stake.shares // 10**moved, stake.leaving // 10**moved
