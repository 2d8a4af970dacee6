"""What a pool's vaults have, and what a share of them is: for pools whose LP token is a share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from schemas.protocols.contract import Account, Asset, Position, Range, Role, Unreadable
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.token_accounts import BadAccount, read_token_account

PAUSED: Final = "locks: the pool is paused: it pays nothing out until its program's admin ends that"


@dataclass(frozen=True, slots=True)
class Side:
    """One of a pool's two tokens."""

    vault: bytes
    mint: bytes
    decimals: int
    owed_raw: int  # in the vault, and not the liquidity providers'


def vault_amount(vaults: Mapping[bytes, Account], side: Side) -> int | None:
    """Return the raw amount in a side's vault, None where it is not known; raises Unreadable."""
    account = vaults.get(side.vault)
    if account is None:
        return None
    if account.kind not in (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED):
        raise Unreadable("the vault is no token account", account.address)
    try:
        held = read_token_account(account.kind.program, account.data)
    except BadAccount as error:
        raise Unreadable(f"vault: {error}", account.address) from None
    if held.mint != side.mint:
        raise Unreadable("the vault is of another mint", account.address)
    return held.amount_raw


def reserve(vaults: Mapping[bytes, Account], side: Side, pool: bytes) -> int | None:
    """Return what liquidity providers have of a side, None where it is not known."""
    amount = vault_amount(vaults, side)
    if amount is None:
        return None
    if amount < side.owed_raw:
        # Vault and pool may be of two slots; the program itself stops here.
        raise Unreadable(f"{side.owed_raw} are owed of a vault of {amount}", pool)
    return amount - side.owed_raw


def share_of(shares: int, reserve_raw: int | None, supply: int) -> int | None:
    """Return what shares withdraw of a reserve, rounded down; None where it is not known."""
    if reserve_raw is None or not supply:
        return None
    return shares * reserve_raw // supply


def note_vaults(position: Position, vaults: Mapping[bytes, Account], *sides: Side) -> None:
    """Note which vaults a position lacks, and the oldest that it was computed from."""
    found = [vaults[side.vault].slot for side in sides if side.vault in vaults]
    known = [slot for slot in (position.reference_slot, *found) if slot is not None]
    position.reference_slot = min(known, default=None)
    position.missing += [side.vault for side in sides if side.vault not in vaults]


def assets(role: Role, amounts: tuple[int | None, int | None], *sides: Side) -> list[Asset]:
    """Return the lines of a share of two reserves."""
    return [
        Asset(role, side.mint, amount, side.decimals)
        for side, amount in zip(sides, amounts, strict=True)
    ]


def full_range(base: Side, quote: Side, base_raw: int | None, quote_raw: int | None) -> Range:
    """Return the range of liquidity that earns at any price."""
    current = None
    if base_raw and quote_raw is not None and max(base.decimals, quote.decimals) <= _MOST_DECIMALS:
        current = Fraction(quote_raw * 10**base.decimals, base_raw * 10**quote.decimals)
    return Range(base.mint, quote.mint, None, None, None, None, None, current, True)


_MOST_DECIMALS = 255  # a mint has a byte of them; a pool's bytes may say anything
