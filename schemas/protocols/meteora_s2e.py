"""Meteora Stake2Earn (M3M3): tokens staked for the fees of their pool.

Fees that a vault has collected are released second by second to its top stakers, by their stakes; a
staker that falls off the list keeps what was counted by then. Tokens on their way out are an
account each. Fee a is of the staked token, fee b of the quote token.

Source: the program's IDL (`StakeEscrow`, `Unstake`, `FeeVault`); arithmetic of
@meteora-ag/m3m3 1.0.10 (`getUserStakeAndClaimBalance`, `getFarmReleasedFees`).
"""

from __future__ import annotations

from collections.abc import Iterator
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
    Unreadable,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, raw_pubkey, u64, u128

PROGRAM: Final = key("FEESngU3neckdwib9X3KWqdL7Mjmqk9XNp3uh5JbP4KP")


def _kind(name: str, tag: str, size: int, *wallets: int) -> Kind:
    return Kind(f"s2e_{name}", PROGRAM, bytes.fromhex(tag), size=size, wallets=wallets)


ESCROW: Final = _kind("escrow", "73ad354d2bdb557c", 520, 8)
UNSTAKE: Final = _kind("unstake", "9a94834334f4f413", 304, 64)
VAULT: Final = _kind("vault", "c0b245e83a959d84", 1048)

_ROUTE: Final = "s2e/staking"
_VAULT_AT: Final = {ESCROW: 40, UNSTAKE: 96}
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_VAULT: Final = "assets: the vault, which says what is staked, is not known"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stakes, and what it has taken out of them; raises Unreadable."""
    own = [
        each
        for each in held.accounts
        if each.kind in (ESCROW, UNSTAKE)
        and len(each.data) == each.kind.size
        and raw_pubkey(each.data, each.kind.wallets[0]) == held.wallet
    ]
    if not own:
        return []
    found = yield tuple(dict.fromkeys(_vault_of(each) for each in own))
    positions = []
    for account in own:
        position = Position(_ROUTE, account, market=_vault_of(account))
        if (vault := found.get(_vault_of(account))) is None:
            position.missing.append(_vault_of(account))
            position.unsupported_fields.append(_NO_VAULT)
        else:
            if vault.kind is not VAULT or len(vault.data) != VAULT.size:
                raise Unreadable(f"vault: {vault.kind.name}", account.address)
            position.reference_slot = vault.slot
        if account.kind is ESCROW:
            _stake(position, vault, world.time_s)
        else:
            _unstake(position, vault, world.time_s)
        if position.assets or position.missing:
            positions.append(position)
    return positions


def _vault_of(account: Account) -> bytes:
    return raw_pubkey(account.data, _VAULT_AT[account.kind])


def _stake(position: Position, vault: Account | None, now_s: int) -> None:
    """Fill in a stake and its fees; raises Unreadable."""
    escrow = position.account
    amount_raw = u64(escrow.data, 80)
    if amount_raw:
        position.locks.append(Lock("cooldown", amount_raw))
    if vault is None:
        return
    stake_mint, quote_mint = raw_pubkey(vault.data, 40), raw_pubkey(vault.data, 72)
    lines = [Asset(Role.LOCKED, stake_mint, amount_raw)]
    fees = _fees(escrow, vault, now_s)
    for mint, fee_raw in zip((stake_mint, quote_mint), fees, strict=True):
        lines.append(Asset(Role.REWARD, mint, fee_raw))
    position.assets = [each for each in lines if each.amount_raw]


def _fees(escrow: Account, vault: Account, now_s: int) -> Iterator[int]:
    """Yield what a stake may claim of fee a and fee b; raises Unreadable."""
    is_in_top_list = escrow.data[88] != 0
    for pending_at, checkpoint_at, locked_at, cumulative_at in (
        (184, 152, 560, 584),
        (192, 168, 568, 600),
    ):
        pending_raw = u64(escrow.data, pending_at)
        if is_in_top_list:
            released_raw = _released(vault, u64(vault.data, locked_at), now_s)
            effective_raw = u64(vault.data, 536)
            per_unit = u128(vault.data, cumulative_at)
            per_unit += (released_raw << 64) // effective_raw if effective_raw else 0
            since = per_unit - u128(escrow.data, checkpoint_at)
            if since < 0:
                raise Unreadable(f"checkpoint at {checkpoint_at} above the fees", escrow.address)
            pending_raw += since * u64(escrow.data, 80) >> 64
        yield pending_raw


def _released(vault: Account, locked_raw: int, now_s: int) -> int:
    """Return how much of collected fees has been released since the vault was last updated."""
    elapsed_s, whole_s = now_s - i64(vault.data, 552), u64(vault.data, 424)
    if elapsed_s >= whole_s:
        return locked_raw
    return locked_raw * max(0, elapsed_s) // whole_s


def _unstake(position: Position, vault: Account | None, now_s: int) -> None:
    data = position.account.data
    amount_raw, release_s = u64(data, 40), i64(data, 56)
    is_over = release_s <= now_s
    locked_raw, claimable_raw = (0, amount_raw) if is_over else (amount_raw, 0)
    ends_ms = max(0, min(release_s * 1000, _LATEST_MS))
    position.locks.append(Lock("cooldown", locked_raw, claimable_raw, ends_ms))
    if vault is not None and amount_raw:
        role = Role.SUPPLY if is_over else Role.PENDING
        position.assets.append(Asset(role, raw_pubkey(vault.data, 40), amount_raw))


PROTOCOL: Final = Protocol(
    "meteora_s2e",
    (ESCROW, UNSTAKE, VAULT),
    (Route(_ROUTE, Shape.STAKING, "Tokens staked for the fees of their pool, and unstaked ones"),),
    read,
    unsupported_fields=("fees that the vault has not collected from its pool yet",),
)
