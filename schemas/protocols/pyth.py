"""Pyth staking: PYTH in stake accounts, staked for votes and with publishers at the same time.

Tokens of a stake account are in its custody. Each of its positions puts an amount at the risk of a
target; the same tokens may back votes and publishers, so that what is bound is the larger of both,
never their sum. Tokens of a vesting schedule that have not vested back votes only. A position that
is unlocked binds nothing, although the program keeps it until it next merges positions.

Anybody can open a stake account for any wallet, of any size and with any schedule: one without
tokens and positions is not the wallet's, whatever its schedule says, and a schedule locks no more
than the tokens that are there.

Source: the program's `PositionData`, `Position`, `VestingSchedule`, `utils/risk.rs` and
`utils/clock.rs`; IDL and arithmetic of @pythnetwork/staking-sdk 0.3.0.
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
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader, raw_pubkey
from schemas.solana.derived import derived
from schemas.solana.token_accounts import BadAccount, read_token_account

PROGRAM: Final = key("pytS9TjG1qyAZypk7n8rw8gfW9sUaqqYyMhJQ4E7JCQ")
PYTH: Final = key("HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3")
CONFIG_ADDRESS: Final = derived(PROGRAM, b"config")
EPOCH_S: Final = 604_800

_OWNER_AT: Final = 8
_HEADER: Final = 40
_SLOT: Final = 200
_MOST_SLOTS: Final = 256  # their index is a byte: the program sets none behind them
_LOCK_AT: Final = 44
_LISTED_AT: Final = 179
_DECIMALS: Final = 6
_LATEST_MS: Final = (1 << 53) - 1  # epochs and times are any 64 bits; JSON numbers are not
_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)

POSITIONS: Final = Kind(
    "pyth_positions", PROGRAM, bytes.fromhex("55c3f14f7cc04f0b"), wallets=(_OWNER_AT,)
)
METADATA: Final = Kind("pyth_stake_metadata", PROGRAM, bytes.fromhex("c033cb134cb18861"))
CONFIG: Final = Kind(
    "pyth_config", PROGRAM, bytes.fromhex("95089ccaa0fcb0d9"), addresses=(CONFIG_ADDRESS,)
)

_FREE: Final = "assets: what can be withdrawn, for it is not known what has vested"
_NO_LENGTH: Final = "locks: periods of no length, by which the program pays nothing out"
_BALANCE: Final = "assets: tokens that are not staked, for the custody is not known"


class Staked(NamedTuple):
    """One position of a stake account."""

    amount_raw: int
    activation_epoch: int
    unlocking_start: int | None  # an epoch
    publisher: bytes | None  # None: it is for votes

    @property
    def unlocked_epoch(self) -> int | None:
        """Return when it is unlocked: an epoch after `unlocking_start`, if active before."""
        if self.unlocking_start is None:
            return None
        return max(self.unlocking_start + 1, self.activation_epoch)

    def binds(self, epoch: int) -> bool:
        """Return whether it keeps tokens from being withdrawn."""
        return self.unlocked_epoch is None or epoch < self.unlocked_epoch


class Vesting(NamedTuple):
    """A schedule by which equal parts vest."""

    initial_raw: int
    start_s: int | None  # None: when the token was listed
    period_s: int
    periods: int


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stake accounts; raises Unreadable."""
    own = [
        each
        for each in held.of(POSITIONS)
        if len(each.data) >= _HEADER and raw_pubkey(each.data, _OWNER_AT) == held.wallet
    ]
    if not own:
        return []
    wanted = [CONFIG_ADDRESS]
    for account in own:
        wanted += (_custody_of(account.address), _metadata_of(account.address))
    found = yield tuple(wanted)
    return [each for account in own if (each := _position(account, found, world)) is not None]


def _custody_of(positions: bytes) -> bytes:
    return derived(PROGRAM, b"custody", positions)


def _metadata_of(positions: bytes) -> bytes:
    return derived(PROGRAM, b"stake_metadata", positions)


def slots(account: Account) -> Iterator[Staked]:
    """Yield the positions of a stake account; raises Unreadable."""
    capacity = (len(account.data) - _HEADER) // _SLOT
    for number in range(min(capacity, _MOST_SLOTS)):
        reader = Reader(account.data, _HEADER + number * _SLOT)
        if _is_some(reader, account):
            amount_raw, activation_epoch = reader.u64(), reader.u64()
            unlocking_start = reader.u64() if _is_some(reader, account) else None
            publisher = reader.raw_pubkey() if _is_some(reader, account) else None
            yield Staked(amount_raw, activation_epoch, unlocking_start, publisher)


def _is_some(reader: Reader, account: Account) -> bool:
    """Read the tag of an option, or of a target: votes or a publisher; raises Unreadable."""
    tag = reader.u8()
    if tag > 1:
        raise Unreadable(f"tag {tag} at {reader.offset - 1}", account.address)
    return tag == 1


def unvested(vesting: Vesting, listed_s: int | None, now_s: int) -> int | None:
    """Return what of a schedule has not vested, rounded down as the program does.

    None for periods of no length: the program divides by their length, so that every withdrawal
    fails. A schedule without periods is over when it starts.
    """
    start_s = listed_s if vesting.start_s is None else vesting.start_s
    if start_s is None or now_s < start_s:
        return vesting.initial_raw
    if not vesting.period_s:
        return None
    passed = (now_s - start_s) // vesting.period_s
    if passed >= vesting.periods:
        return 0
    return (vesting.periods - passed) * vesting.initial_raw // vesting.periods


def _position(account: Account, found: Mapping[bytes, Account], world: World) -> Position | None:
    """Return a stake account; None for one that is empty; raises Unreadable."""
    staked, epoch = [*slots(account)], world.time_s // EPOCH_S
    custody, metadata = (
        found.get(address)
        for address in (_custody_of(account.address), _metadata_of(account.address))
    )
    balance_raw = None if custody is None else _balance(custody, account)
    if balance_raw == 0 and not staked:
        return None
    position = Position("staking", account, market=PYTH)
    position.locks = [_lock(each, epoch) for each in staked]
    position.reference_slot = min(
        (each.slot for each in (custody, metadata) if each is not None), default=None
    )
    unvested_raw: int | None = None
    pays = True
    if metadata is None:
        position.missing.append(_metadata_of(account.address))
    elif (vesting := _vesting(metadata, account)) is None:
        unvested_raw = 0
    else:
        listed_s, is_known = _listed(vesting, found, account, position)
        if is_known:
            unvested_raw = unvested(vesting, listed_s, world.time_s)
            pays = unvested_raw is not None
            locked_raw = unvested_raw
            if locked_raw is not None and balance_raw is not None:
                locked_raw = min(locked_raw, balance_raw)
            position.locks.append(_vesting_lock(vesting, listed_s, locked_raw))
    bound = [each for each in staked if each.binds(epoch)]
    votes_raw = sum(each.amount_raw for each in bound if each.publisher is None)
    published_raw = sum(each.amount_raw for each in bound if each.publisher is not None)
    bound_raw = max(votes_raw, published_raw + (unvested_raw or 0))
    free_raw: int | None = None
    if not pays:
        position.unsupported_fields.append(_NO_LENGTH)
    if balance_raw is None:
        position.missing.append(_custody_of(account.address))
        position.unsupported_fields.append(_BALANCE)
    else:
        bound_raw = min(bound_raw, balance_raw) if pays else balance_raw
        free_raw = balance_raw - bound_raw
        if unvested_raw is None and pays:
            position.unsupported_fields.append(_FREE)
    for role, amount_raw in ((Role.SUPPLY, free_raw), (Role.LOCKED, bound_raw)):
        if amount_raw != 0:
            position.assets.append(Asset(role, PYTH, amount_raw, _DECIMALS))
    return position if position.assets or position.locks else None


def _lock(staked: Staked, epoch: int) -> Lock:
    """Return a position's lock: without an end until its owner asks for it."""
    ends = staked.unlocked_epoch
    if ends is None:
        return Lock("cooldown", staked.amount_raw)
    locked, free = (staked.amount_raw, 0) if staked.binds(epoch) else (0, staked.amount_raw)
    return Lock("cooldown", locked, free, ends_ms=_ms(ends * EPOCH_S))


def _vesting_lock(vesting: Vesting, listed_s: int | None, locked_raw: int | None) -> Lock:
    start_s = listed_s if vesting.start_s is None else vesting.start_s
    ends_ms = None
    if start_s is not None and locked_raw is not None:
        ends_ms = _ms(start_s + vesting.period_s * vesting.periods)
    return Lock("vesting", locked_raw, ends_ms=ends_ms)


def _ms(time_s: int) -> int:
    return max(0, min(time_s * 1000, _LATEST_MS))


def _balance(custody: Account, of: Account) -> int:
    """Return what is in a custody; raises Unreadable."""
    try:
        if custody.kind not in _TOKENS:
            raise BadAccount(f"{custody.kind.name} is no token account")
        state = read_token_account(custody.kind.program, custody.data)
    except BadAccount as bad:
        raise Unreadable(f"custody: {bad}", of.address) from None
    if state.mint != PYTH:
        raise Unreadable("custody of another mint", of.address)
    return state.amount_raw


def _vesting(metadata: Account, of: Account) -> Vesting | None:
    """Return the schedule of a stake account; None where all has vested; raises Unreadable."""
    reader = Reader(metadata.data, _LOCK_AT)
    try:
        if metadata.kind is not METADATA:
            raise Unreadable(f"metadata: {metadata.kind.name}", of.address)
        schedule = reader.u8()
        if schedule == 0:
            return None
        if schedule not in (1, 2):
            raise Unreadable(f"metadata: vesting {schedule} at {_LOCK_AT}", of.address)
        initial_raw = reader.u64()
        start_s = reader.i64() if schedule == 1 else None
        return Vesting(initial_raw, start_s, reader.u64(), reader.u64())
    except error:
        raise Unreadable(f"metadata of {len(metadata.data)} bytes", of.address) from None


def _listed(
    vesting: Vesting, found: Mapping[bytes, Account], of: Account, position: Position
) -> tuple[int | None, bool]:
    """Return when the token was listed, and whether that is known or not needed.

    Raises Unreadable.
    """
    if vesting.start_s is not None:
        return None, True
    config = found.get(CONFIG_ADDRESS)
    if config is None:
        position.missing.append(CONFIG_ADDRESS)
        return None, False
    if position.reference_slot is not None:
        position.reference_slot = min(position.reference_slot, config.slot)
    reader = Reader(config.data, _LISTED_AT)
    try:
        return (reader.i64() if _is_some(reader, of) else None), True
    except error:
        raise Unreadable(f"config of {len(config.data)} bytes", of.address) from None


PROTOCOL: Final = Protocol(
    "pyth",
    (POSITIONS, METADATA, CONFIG),
    (Route("staking", Shape.STAKING, "PYTH staked for votes and with publishers, and vesting"),),
    read,
    identified="guess",
    unsupported_fields=(
        "rewards of publishers: their pool computes them from its events of each epoch",
        "voting power: a share of all PYTH that is staked for votes",
    ),
)
