"""Loopscale: loans, strategies of lenders, vaults and their rewards.

Source: the program's IDL (`Loan`, `Ledger`, `CollateralData`, `Strategy`, `Vault`, `VaultStake`,
`UserRewardsInfo`, `VaultRewardsInfo`; packed, so offsets are sums of sizes) and its comments on the
amounts of a strategy. Public readers of the chain report that loans of version 2 have 24 bytes more
than the IDL says, so no kind has one size. The seeds of a vault's rewards are those of a public
client (sava's).

The program publishes neither how interest and rewards accrue, nor how they are rounded, nor what a
vault's share is worth: principal, interest and rewards are as stored, and what came since is a line
without an amount. A share is a line of its LP token, which counts where a market prices it: anybody
can send one, and an amount of the vault's token that is not known would make the wallet's worth
unknown. Nor is published when staked shares can be had back: they stay locked when their term is
over, and that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from schemas.solana.borsh import raw_pubkey, u64
from schemas.solana.derived import derived

PROGRAM: Final = key("1oopBoJG58DgkUVKkEzKgyG9dvRmpgeEm1AVjoHkF78")


def _kind(name: str, tag: str, wallets: tuple[int, ...] = (), mints: tuple[int, ...] = ()) -> Kind:
    return Kind(f"loopscale_{name}", PROGRAM, bytes.fromhex(tag), wallets=wallets, mints=mints)


_BORROWER_AT: Final = 11
_LENDER_AT: Final = 74
_STAKER_AT: Final = 73
_REWARDED_AT: Final = 81
_LP_MINT_AT: Final = 81

LOAN: Final = _kind("loan", "14c34675a5e3b601", wallets=(_BORROWER_AT,))
STRATEGY: Final = _kind("strategy", "ae6e2777526aa966", wallets=(_LENDER_AT,))
VAULT: Final = _kind("vault", "d308e82b02987577", mints=(_LP_MINT_AT,))
VAULT_STAKE: Final = _kind("vault_stake", "e1228035a7efb66b", wallets=(_STAKER_AT,))
REWARDS: Final = _kind("user_rewards", "f21b52b4b7779ced", wallets=(_REWARDED_AT,))
VAULT_REWARDS: Final = _kind("vault_rewards", "048e42dba80b040e")
_SIZES: Final = {
    LOAN: 1634,
    STRATEGY: 8460,
    VAULT: 162,
    VAULT_STAKE: 150,
    REWARDS: 322,
    VAULT_REWARDS: 901,
}
"""At least: programs append fields."""

_LOOP: Final = 2  # at `_LOAN_TYPE_AT`: the type of a loan in 2025, named its status since
_LOAN_TYPE_AT: Final = 10
_LEDGERS: Final = range(59, 969, 182)
_COLLATERAL: Final = range(969, 1334, 73)
_SPL: Final = 0  # type of a collateral
_SCHEDULES: Final = 5  # of a vault's rewards

_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not

_SINCE: Final = "interest since it was last counted: the program does not publish how it accrues"
_OLD_INTEREST: Final = "interest: a ledger of an older layout, whose fields had other meanings"
_OTHER_COLLATERAL: Final = "collateral that is no token: what its amount counts is not published"
_HEALTH: Final = "health: its oracles and the axes of its matrices are not published"
_REWARDS_SINCE: Final = (
    "rewards since they were last counted: how a stake is weighed is not published"
)
_TERM_OVER: Final = (
    "assets.role, locks: the term is over; what unstaking then takes is not published"
)
_SHARE: Final = "assets.price_usd: what a share is worth in the vault's token is not published"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's loans, strategies, vault shares and rewards."""
    for account in held.accounts:
        _check(account)
    stakes = [each for each in _of(held, VAULT_STAKE, _STAKER_AT) if u64(each.data, 105)]
    rewarded = [*_of(held, REWARDS, _REWARDED_AT)]
    known = {each.address: each for each in held.of(VAULT)}
    wanted = {raw_pubkey(each.data, 8) for each in stakes} - known.keys()
    wanted |= {rewards_of(raw_pubkey(each.data, 8)) for each in rewarded}
    schedules: dict[bytes, Account] = {}
    if wanted:
        found = yield tuple(sorted(wanted))
        known.update(_right(found, VAULT))
        schedules = _right(found, VAULT_REWARDS)
    shares = [each for each in held.of(VAULT) if held.tokens.get(raw_pubkey(each.data, 81))]
    positions = [
        *(_loan(each, world) for each in _of(held, LOAN, _BORROWER_AT)),
        *(_strategy(each, world) for each in _of(held, STRATEGY, _LENDER_AT)),
        *(_share(held, each) for each in shares),
        *(_stake(each, known, world) for each in stakes),
        *(_rewards(each, schedules, world) for each in rewarded),
    ]
    return [each for each in positions if each.assets or each.locks or each.missing]


def rewards_of(vault: bytes) -> bytes:
    """Return the address of a vault's `VaultRewardsInfo`."""
    return derived(PROGRAM, b"vault_rewards_info", vault)


def _check(account: Account) -> None:
    """Raise Unreadable where an account is shorter than its kind."""
    size = _SIZES.get(account.kind, 0)
    if len(account.data) < size:
        detail = f"{account.kind.name} of {len(account.data)} bytes, not {size}"
        raise Unreadable(detail, account.address)


def _of(held: Held, kind: Kind, wallet_at: int) -> Iterator[Account]:
    """Yield the accounts of a kind that name the wallet."""
    return (each for each in held.of(kind) if raw_pubkey(each.data, wallet_at) == held.wallet)


def _right(found: Mapping[bytes, Account], kind: Kind) -> dict[bytes, Account]:
    """Return those accounts that are of a kind; raises Unreadable."""
    right = {address: each for address, each in found.items() if each.kind is kind}
    for account in right.values():
        _check(account)
    return right


def _decimal(data: bytes, at: int) -> int:
    """Return a PodDecimal, in 1 / 10**18."""
    return int.from_bytes(data[at : at + 24], "little")


def _ms(time_s: int) -> int | None:
    return min(time_s * 1000, _LATEST_MS) if time_s else None


def _note(position: Position, detail: str) -> None:
    if detail not in position.unsupported_fields:
        position.unsupported_fields.append(detail)


def _loan(account: Account, world: World) -> Position:
    data = account.data
    is_loop = data[_LOAN_TYPE_AT] == _LOOP
    position = Position("loops" if is_loop else "loans", account)
    for at in _COLLATERAL:
        mint, amount = raw_pubkey(data, at), u64(data, at + 32)
        if not any(mint) or not amount:
            continue
        is_token = data[at + 40] == _SPL
        position.assets.append(Asset(Role.SUPPLY, mint, amount if is_token else None))
        if not is_token:
            _note(position, _OTHER_COLLATERAL)
    for at in _LEDGERS:
        if any(raw_pubkey(data, at + 33)):
            position.market = position.market or raw_pubkey(data, at + 65)
            _debt(position, at, world)
    if position.assets:
        _note(position, _HEALTH)
    return position


def _debt(position: Position, at: int, world: World) -> None:
    """Add the lines of one ledger: principal, interest as stored, interest since."""
    data, mint = position.account.data, raw_pubkey(position.account.data, at + 33)
    due, repaid = u64(data, at + 97), u64(data, at + 105)
    interest, counted_s = u64(data, at + 113), u64(data, at + 121)
    if repaid > due:
        raise Unreadable(
            f"principal_repaid {repaid} at {at + 105} is more than {due}", position.account.address
        )
    if due > repaid:
        position.assets.append(Asset(Role.BORROW, mint, due - repaid))
    if counted_s < u64(data, at + 158):  # before its start: no time, but interest_repaid
        if interest or due > repaid:
            position.assets.append(Asset(Role.BORROW, mint, None))
            _note(position, _OLD_INTEREST)
        return
    if interest:
        position.assets.append(Asset(Role.BORROW, mint, interest))
    if due > repaid and _decimal(data, at + 134) and world.time_s > counted_s:
        position.assets.append(Asset(Role.BORROW, mint, None))
        _note(position, _SINCE)


def _strategy(account: Account, world: World) -> Position:
    """Return a lender's principal, idle and lent, and the interest that it is owed."""
    data, mint = account.data, raw_pubkey(account.data, 42)
    position = Position("advanced-lending", account, market=raw_pubkey(data, 268))
    for role, at in (
        (Role.SUPPLY, 148),  # token_balance
        (Role.SUPPLY, 188),  # external_yield_amount
        (Role.LOCKED, 196),  # current_deployed_amount
        (Role.PENDING, 204),  # outstanding_interest_amount
    ):
        if amount := u64(data, at):
            position.assets.append(Asset(role, mint, amount))
    if _decimal(data, 108) and world.time_s > u64(data, 132):
        position.assets.append(Asset(Role.PENDING, mint, None))
        _note(position, _SINCE)
    return position


def _share(held: Held, vault: Account) -> Position:
    """Return LP tokens that the wallet holds."""
    mint = raw_pubkey(vault.data, _LP_MINT_AT)
    position = Position("vaults", vault, market=vault.address)
    shares = held.tokens[mint]
    position.stands_for = {mint: shares}
    position.assets = [Asset(Role.SUPPLY, mint, shares)]
    _note(position, _SHARE)
    return position


def _stake(account: Account, vaults: Mapping[bytes, Account], world: World) -> Position:
    """Return LP tokens that are staked in a vault."""
    data, shares = account.data, u64(account.data, 105)
    address, ends_s = raw_pubkey(data, 8), u64(data, 126)
    position = Position("vaults", account, market=address)
    position.locks = [Lock("term", locked_raw=shares, ends_ms=_ms(ends_s))]
    if ends_s <= world.time_s:
        _note(position, _TERM_OVER)
    if vault := vaults.get(address):
        position.assets = [Asset(Role.LOCKED, raw_pubkey(vault.data, _LP_MINT_AT), shares)]
        _note(position, _SHARE)
        position.reference_slot = vault.slot
    else:
        position.missing.append(address)
    return position


def _rewards(account: Account, schedules: Mapping[bytes, Account], world: World) -> Position:
    """Return the rewards that a stake has not claimed."""
    data, vault = account.data, raw_pubkey(account.data, 8)
    position = Position("rewards", account, market=vault)
    of = schedules.get(rewards_of(vault))
    if of is None:
        position.missing.append(rewards_of(vault))
        return position
    position.reference_slot = of.slot
    for number in range(_SCHEDULES):
        at = 41 + 172 * number
        mint = raw_pubkey(of.data, at)
        if not any(mint):
            continue
        if pending := u64(data, 242 + 8 * number):
            position.assets.append(Asset(Role.REWARD, mint, pending))
        is_behind = _decimal(data, 122 + 24 * number) != _decimal(of.data, at + 104)
        flows = _decimal(of.data, at + 80) and u64(of.data, at + 128) < min(
            u64(of.data, at + 64), world.time_s
        )
        if u64(data, 113) and (is_behind or flows):
            position.assets.append(Asset(Role.REWARD, mint, None))
            _note(position, _REWARDS_SINCE)
    return position


PROTOCOL: Final = Protocol(
    "loopscale",
    (LOAN, STRATEGY, VAULT, VAULT_STAKE, REWARDS, VAULT_REWARDS),
    (
        Route("loans", Shape.LENDING, "Loans that a wallet borrowed, with their collateral"),
        Route("advanced-lending", Shape.LENDING, "Strategies that a wallet lends by"),
        Route("loops", Shape.LENDING, "Loans of the type that loops a yield, by one byte"),
        Route("vaults", Shape.YIELD, "Shares of vaults, held and staked"),
        Route("rewards", Shape.REWARDS, "Rewards of staked shares that were not claimed"),
    ),
    read,
    identified="likely",
    unsupported_fields=(
        "health: oracles, and which axis of a loan's matrices is which, are not published",
        "loops: known by a byte that newer descriptions of the program call a status",
        "interest and rewards since they were last counted",
        "vaults: what a share is worth in the vault's token, and whether it is free after its term",
    ),
    reads_tokens=True,
)
