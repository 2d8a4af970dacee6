"""SPL Governance, known as Realms: tokens deposited to vote in DAOs.

A DAO uses the shared program or an instance of its own. Where it counts votes by the voter stake
registry, the deposit is in a `Voter` of that program, and the record here is empty. Where it counts
them by a plugin that nothing here reads, an empty record says that a deposit may be there. Anyone
can make an empty record for a wallet; only the wallet, or its delegate, can vote with it, so only
then an amount is said to be unknown.

A DAO's config says of both its tokens what kind they are: tokens of a membership are never
withdrawn, its authority may burn them. A DAO without a config has none.

Source: spl-governance (`state/token_owner_record.rs`, `state/realm.rs`, `state/realm_config.rs`,
`state/legacy.rs`); what each plugin counts, governance-program-library and Realms' application.
Of a record of version 0 the votes are the lower half of the field: the upper counts the votes of
all time.
"""

from __future__ import annotations

from struct import error
from typing import Final, NamedTuple

from schemas.protocols import helium, parcl, pyth
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
    Voting,
    World,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.programs import ADDRESSES
from schemas.protocols.vote_deposits import REGISTRARS, VOTERS, Ballot, read_voters
from schemas.solana.addresses import key, text
from schemas.solana.borsh import Reader, raw_pubkey, u32, u64
from schemas.solana.derived import derived

_INSTANCES: Final = (76, *range(100, 132))  # in programs.toml: the shared program is the first
_OWNER_AT: Final = 65
_DELEGATE_AT: Final = 121
_RESERVED_V2: Final = 124
_TAGS: Final = {"v1": b"\x02", "v2": b"\x11"}
RECORDS: Final = tuple(
    Kind(f"realms_{number}_record_{version}", ADDRESSES[number], tag, wallets=(_OWNER_AT,))
    for number in _INSTANCES
    for version, tag in _TAGS.items()
)
CONFIGS: Final = tuple(
    Kind(f"realms_{number}_config", ADDRESSES[number], b"\x0b") for number in _INSTANCES
)
REALMS: Final = tuple(
    Kind(f"realms_{number}_realm_{version}", ADDRESSES[number], tag)
    for number in _INSTANCES
    for version, tag in (("v1", b"\x01"), ("v2", b"\x10"))
)
_TOKENS_AT: Final = 33  # of a config
_MEMBERSHIP: Final = 1
_COMMUNITY_MINT: Final = slice(1, 33)
_READ_ELSEWHERE: Final = frozenset(
    {
        helium.PROGRAM,
        pyth.PROGRAM,
        parcl.STAKING,
        key("dVoTE1AJqkZVoE1mPbWcqYPmEEvAUBksHY2NiM2UJQe"),  # of stakes in Drift's insurance fund
        *(each.program for each in VOTERS),
    }
)
"""Plugins whose deposits are positions of their own."""
_WITHOUT_DEPOSITS: Final = frozenset(
    {
        key("GnftV5kLjd67tvHpNGyodwWveEKivz3ZWvvE3Z4xi2iw"),
        key("GnftVc21v2BRchsRa9dGdrVmJPLZiRHe9j2offnFTZFg"),
    }
)
"""Plugins that count the NFTs in a wallet."""
_ROUTE: Final = "deposits"
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_REALM: Final = (
    "assets.role, locks: one of the DAO's tokens is of a membership, and which one is not known"
)
_POWER: Final = "voting.power_raw: a DAO may count votes by a program of its own"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's deposits; raises Unreadable."""
    records = _records(held)
    ballots = {each.of: each.ballot for each in records}
    return (
        yield from in_step(
            _read_records(records, world.time_s),
            read_voters(_ROUTE, held, ballots, world.time_s),
        )
    )


class _Token(NamedTuple):
    """What a DAO's config says of one of its tokens."""

    plugin: bytes | None
    is_membership: bool


class _Config(NamedTuple):
    account: Account
    community: _Token
    council: _Token

    @property
    def plugins(self) -> list[bytes]:
        """Return the programs that count the DAO's votes, whose deposits nothing reads."""
        both = (self.community.plugin, self.council.plugin)
        known = _READ_ELSEWHERE | _WITHOUT_DEPOSITS
        return [each for each in both if each is not None and each not in known]


class _Record(NamedTuple):
    account: Account
    deposit_raw: int
    ballot: Ballot
    locks_s: list[int | None]  # when its locks expire; None: never

    @property
    def realm(self) -> bytes:
        """Return the address of the DAO."""
        return raw_pubkey(self.account.data, 1)

    @property
    def mint(self) -> bytes:
        """Return what its owner deposits."""
        return raw_pubkey(self.account.data, 33)

    @property
    def of(self) -> bytes:
        """Return program, DAO and mint: of a wallet, one record has them."""
        return self.account.kind.program + self.realm + self.mint


def _records(held: Held) -> list[_Record]:
    kinds = set(RECORDS)
    return [
        _record(account)
        for account in held.accounts
        if account.kind in kinds and account.data[_OWNER_AT : _OWNER_AT + 32] == held.wallet
    ]


def _record(account: Account) -> _Record:
    data = account.data
    try:
        is_wide = data[:1] == _TAGS["v2"] and data[114] > 0
        reader = Reader(data, _DELEGATE_AT)
        ballot = Ballot(
            u64(data, 105) if is_wide else u32(data, 105),
            data[113],
            reader.raw_pubkey() if reader.flag() else None,
            account.slot,
        )
        locks_s = _locks_s(reader) if is_wide else []
        return _Record(account, u64(data, 97), ballot, locks_s)
    except (error, IndexError):
        raise Unreadable(f"record of {len(data)} bytes", account.address) from None


def _read_records(records: list[_Record], now_s: int) -> Reading:
    if not records:
        return []
    found = yield sorted(
        {_config_address(each) for each in records} | {each.realm for each in records}
    )
    positions = []
    for record in records:
        account = found.get(_config_address(record))
        config = None if account is None else _config(account, record)
        if record.deposit_raw:
            positions.append(_position(record, config, found.get(record.realm), now_s))
        elif config is not None and (plugins := config.plugins):
            positions.append(_elsewhere(record, config.account, plugins))
    return positions


def _config_address(record: _Record) -> bytes:
    return derived(record.account.kind.program, b"realm-config", record.realm)


def _config(account: Account, record: _Record) -> _Config:
    """Return a DAO's config; raises Unreadable."""
    if account.kind not in CONFIGS:
        raise Unreadable(f"config: {account.kind.name}", record.account.address)
    reader = Reader(account.data, _TOKENS_AT)
    try:
        return _Config(account, _token(reader), _token(reader))
    except error:
        detail = f"config of {len(account.data)} bytes"
        raise Unreadable(detail, record.account.address) from None


def _token(reader: Reader) -> _Token:
    """Read a `GoverningTokenConfig`; raises struct.error."""
    plugin = reader.raw_pubkey() if reader.flag() else None
    if reader.flag():
        reader.skip(32)  # the plugin of the most votes that there can be
    kind = reader.u8()
    reader.skip(4)
    reader.skip(32 * reader.u32())  # authorities that may lock records
    return _Token(plugin, kind == _MEMBERSHIP)


def _elsewhere(record: _Record, config: Account, plugins: list[bytes]) -> Position:
    """Return an empty record of a DAO whose plugins may have deposits."""
    named = ", ".join(map(text, plugins))
    ballot = record.ballot
    is_used = ballot.is_open or ballot.delegate is not None
    return Position(
        _ROUTE,
        record.account,
        market=record.realm,
        reference_slot=config.slot,
        assets=[Asset(Role.SUPPLY, record.mint, None)] if is_used else [],
        voting=Voting(None, ballot.open_votes, ballot.delegate),
        unsupported_fields=[f"assets: a deposit in a plugin that is not read: {named}", _POWER],
    )


def _position(
    record: _Record, config: _Config | None, realm: Account | None, now_s: int
) -> Position:
    """Return a deposit; raises Unreadable."""
    ballot = record.ballot
    position = Position(
        _ROUTE,
        record.account,
        market=record.realm,
        voting=Voting(None, ballot.open_votes, ballot.delegate),
        unsupported_fields=[_POWER],
    )
    lock = _lock(record.deposit_raw, record.locks_s, now_s, is_voting=ballot.is_open)
    is_membership = _is_membership(position, record, config, realm)
    if is_membership:
        lock = Lock("permanent", record.deposit_raw, 0)
    is_free = lock is None and is_membership is False
    role = Role.SUPPLY if is_free else Role.LOCKED
    position.assets = [Asset(role, record.mint, record.deposit_raw)]
    position.locks = [] if lock is None else [lock]
    return position


def _is_membership(
    position: Position, record: _Record, config: _Config | None, realm: Account | None
) -> bool | None:
    """Return whether a deposit is of a membership; None, and say why, where it is not known.

    Raises Unreadable.
    """
    if config is None:
        return False
    position.reference_slot = config.account.slot
    community, council = config.community.is_membership, config.council.is_membership
    if community == council:
        return community
    if realm is None:
        position.missing.append(record.realm)
        position.unsupported_fields.append(_NO_REALM)
        return None
    if realm.kind not in REALMS or len(realm.data) < _COMMUNITY_MINT.stop:
        detail = f"realm: {realm.kind.name} of {len(realm.data)} bytes"
        raise Unreadable(detail, record.account.address)
    position.reference_slot = min(config.account.slot, realm.slot)
    return community if realm.data[_COMMUNITY_MINT] == record.mint else council


def _locks_s(reader: Reader) -> list[int | None]:
    """Return when the locks of a record expire; None: never. Raises struct.error."""
    reader.skip(_RESERVED_V2)
    if not reader.has(4):
        return []  # written before there were locks
    expiries: list[int | None] = []
    for _ in range(reader.u32()):
        reader.skip(1 + 32)
        expiries.append(reader.i64() if reader.flag() else None)
    return expiries


def _lock(
    deposit_raw: int, locks_s: list[int | None], now_s: int, *, is_voting: bool
) -> Lock | None:
    """Return what keeps a deposit; None where it can be withdrawn."""
    held_s = [each for each in locks_s if each is None or each >= now_s]
    if is_voting or None in held_s:
        return Lock("escrow", deposit_raw, 0)
    ends_s = max((each for each in held_s if each is not None), default=None)
    if ends_s is None:
        return None
    return Lock("escrow", deposit_raw, 0, min(ends_s * 1000, _LATEST_MS))


PROTOCOL: Final = Protocol(
    "realms",
    (*RECORDS, *CONFIGS, *REALMS, *VOTERS, *REGISTRARS),
    (Route(_ROUTE, Shape.GOVERNANCE, "Tokens deposited to vote in DAOs, and locked for votes"),),
    read,
    unsupported_fields=(
        "instances of the program that Realms' registry does not list",
        "deposits in plugins other than the voter stake registry: each is named, without amounts",
    ),
)
