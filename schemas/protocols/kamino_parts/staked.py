"""Shares of Kamino's vaults and strategies: in the wallet, and in the farms that name them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.protocols.contract import Account, Asset, Held, Kind, Position, Role, Unreadable

_NO_ISSUER: Final = (
    "assets: the line is of the staked token: "
    "the vault or strategy that the farm names is not known"
)


class Staked(NamedTuple):
    """What a wallet has in a farm, and the vault or strategy that the farm names."""

    position: Position  # of the route `staking`, in shares
    issuer: bytes


class Farmed(NamedTuple):
    """What a wallet has in farms."""

    positions: list[Position]
    of_vaults: list[Staked]
    of_strategies: list[Staked]


class Shares(NamedTuple):
    """Shares of a vault or strategy: a position whose lines are shares."""

    position: Position
    issuer: Account


def shares_of(
    route: str, kind: Kind, held: Held, staked: Sequence[Staked]
) -> Generator[Sequence[bytes], Mapping[bytes, Account], tuple[list[Shares], list[Position]]]:
    """Return a wallet's shares of a kind, held and staked, and what stays a stake.

    That is what a farm has of another token than the shares of whom it names, and what has an
    issuer that does not exist: anybody can open a farm that names none, and put stake into it for
    any wallet, so that is noted, and no error.
    """
    [mint_at] = kind.mints
    known: dict[bytes, Account] = {}
    shares = []
    for account in held.of(kind):
        known[account.address] = account
        mint = _mint(account, mint_at)
        if amount := held.tokens.get(mint, 0):
            lines = [Asset(Role.SUPPLY, mint, amount)]
            position = Position(route, account, assets=lines, stands_for={mint: amount})
            shares.append(Shares(position, account))
    if wanted := {each.issuer for each in staked} - known.keys():
        known |= yield sorted(wanted)
    stays = []
    for position, address in staked:
        issuer = known.get(address)
        if issuer is None:
            position.unsupported_fields.append(_NO_ISSUER)
        elif issuer.kind is kind and position.assets[0].mint == _mint(issuer, mint_at):
            position.route = route
            shares.append(Shares(position, issuer))
            continue
        stays.append(position)
    return shares, stays


def oldest(position: Position, issuer: Account, used: Sequence[Account]) -> int | None:
    """Return the slot of the oldest account that a position was computed from, beside its own."""
    slots = [each.slot for each in used]
    if issuer is not position.account:
        slots.append(issuer.slot)
    if position.reference_slot is not None:  # of the farm
        slots.append(position.reference_slot)
    return min(slots, default=None)


def _mint(account: Account, at: int) -> bytes:
    mint = account.data[at : at + 32]
    if len(mint) < 32:
        raise Unreadable(f"no mint at {at} of {len(account.data)} bytes", account.address)
    return mint
