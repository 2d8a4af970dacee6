"""The voter stake registry: deposits of a wallet in a DAO, each with a lockup of its own.

Source: `voter-stake-registry` (`state/voter.rs`, `deposit_entry.rs`, `lockup.rs`, `registrar.rs`,
`voting_mint_config.rs`). The program's time is the chain's and the registrar's `time_offset`.
Factors are in 1e-9; votes are cut off at each division.

Votes are cast with the DAO's own record of the wallet. While that has open votes or proposals,
nothing is withdrawn of a token that votes (`instructions/withdraw.rs`, which asks what its version
of spl-governance, 2.2.1, asks: the record's locks are not among it).
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
    Reading,
    Role,
    Unreadable,
    Voting,
)
from schemas.protocols.programs import ADDRESSES
from schemas.solana.borsh import i64, raw_pubkey, u64

_SHARED: Final = 77  # numbers in programs.toml; the others are instances of one DAO each
_INSTANCES: Final = (_SHARED, 78, 79, 80, 81, 162, 163)
_AUTHORITY_AT: Final = 8
VOTERS: Final = tuple(
    Kind(
        f"vote_deposits_{number}_voter",
        ADDRESSES[number],
        bytes.fromhex("f15d23bffe9311ca"),  # sha256("account:Voter")
        wallets=(_AUTHORITY_AT,),
    )
    for number in _INSTANCES
)
REGISTRARS: Final = tuple(
    Kind(
        f"vote_deposits_{number}_registrar",
        ADDRESSES[number],
        bytes.fromhex("c1cacd334ea89680"),  # sha256("account:Registrar")
    )
    for number in _INSTANCES
)

_RECORD_OF: Final = slice(8, 104)  # of a registrar: program of the DAO, realm, mint it votes by
_DEPOSITS_AT: Final = 72
_DEPOSIT_SIZE: Final = 80
_DEPOSITS: Final = 32
_MINTS_AT: Final = 168
_MINT_SIZE: Final = 152
_MINTS: Final = 4
_OFFSET_AT: Final = _MINTS_AT + _MINTS * _MINT_SIZE
_NONE, _DAILY, _MONTHLY, _CLIFF, _CONSTANT = range(5)
_PERIOD_S: Final = {_DAILY: 86_400, _MONTHLY: 365 * 86_400 // 12}
_FACTOR: Final = 1_000_000_000
_U64: Final = 1 << 64
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_REGISTRAR: Final = (
    "assets, locks, voting power: the registrar, which has tokens and times, is not known"
)
_CLAWBACK: Final = "locks: the DAO may take back what is locked of a grant"
_OVERFLOW: Final = "voting.power_raw: more than the program can compute"
_OF_INSTANCE: Final = "voting.power_raw: an instance of the program may count votes in another way"
_OPEN_VOTES: Final = (
    "voting, locks: what open votes keep: the DAO's own record of the wallet is not known"
)


class Deposit(NamedTuple):
    """A deposit in a DAO, as the bytes have it."""

    start_s: int
    end_s: int
    kind: int
    amount_raw: int
    initially_locked_raw: int
    mint: int  # which of the registrar's
    is_revocable: bool = False

    def left_s(self, now_s: int) -> int:
        """Return for how long it is locked; a constant lockup does not shrink."""
        return max(0, self.end_s - (self.start_s if self.kind == _CONSTANT else now_s))

    def periods(self, now_s: int) -> tuple[int, int]:
        """Return how many periods of a vesting are left, and how many it has."""
        period_s = _PERIOD_S[self.kind]
        total = max(0, self.end_s - self.start_s) // period_s
        if now_s < self.start_s:
            return total, total
        return -(-self.left_s(now_s) // period_s), total

    def locked_raw(self, now_s: int) -> int:
        """Return what cannot be withdrawn."""
        if self.kind == _NONE or not self.left_s(now_s):
            return 0
        if self.kind not in _PERIOD_S:
            return self.initially_locked_raw
        left, total = self.periods(now_s)
        passed = max(0, total - left)
        if not passed:
            return self.initially_locked_raw
        return self.initially_locked_raw - self.initially_locked_raw * passed // total


class Ballot(NamedTuple):
    """What a DAO's own record of the wallet says of its votes."""

    open_votes: int
    open_proposals: int
    delegate: bytes | None
    slot: int

    @property
    def is_open(self) -> bool:
        """Return whether votes or proposals keep what votes."""
        return bool(self.open_votes or self.open_proposals)


class Terms(NamedTuple):
    """What a registrar gives a token of the DAO."""

    mint: bytes
    baseline: int  # factors of votes, in 1e-9
    most_extra: int
    saturation_s: int
    digit_shift: int

    @property
    def votes(self) -> bool:
        """Return whether the token votes; a DAO may vest others too."""
        return self.baseline > 0 or self.most_extra > 0


def read_voters(route: str, held: Held, ballots: Mapping[bytes, Ballot], now_s: int) -> Reading:
    """Return a wallet's deposits as positions of a route, one a DAO; raises Unreadable.

    `ballots` are those of the wallet's records, by program, realm and mint as one key.
    """
    kinds = dict(zip(VOTERS, REGISTRARS, strict=True))
    own = [
        each
        for each in held.accounts
        if each.kind in kinds and each.data[_AUTHORITY_AT : _AUTHORITY_AT + 32] == held.wallet
    ]
    read = [(each, deposits) for each in own if (deposits := [*_deposits(each)])]
    if not read:
        return []
    found = yield tuple(dict.fromkeys(raw_pubkey(each.data, 40) for each, _ in read))
    positions = []
    for voter, deposits in read:
        position = Position(route, voter, market=raw_pubkey(voter.data, 40))
        registrar = found.get(raw_pubkey(voter.data, 40))
        if registrar is None:
            position.missing.append(raw_pubkey(voter.data, 40))
            position.unsupported_fields += [_NO_REGISTRAR, _OPEN_VOTES]
            position.voting = Voting(None, None, None)
        elif registrar.kind is not kinds[voter.kind]:
            raise Unreadable(f"registrar: {registrar.kind.name}", voter.address)
        else:
            _fill(position, deposits, registrar, ballots, now_s)
        positions.append(position)
    return positions


def _deposits(voter: Account) -> Iterator[Deposit]:
    """Yield the deposits that have something in them; raises Unreadable."""
    data = voter.data
    if len(data) < _DEPOSITS_AT + _DEPOSITS * _DEPOSIT_SIZE:
        raise Unreadable(f"voter of {len(data)} bytes", voter.address)
    for at in range(_DEPOSITS_AT, _DEPOSITS_AT + _DEPOSITS * _DEPOSIT_SIZE, _DEPOSIT_SIZE):
        amount_raw = u64(data, at + 32)
        if not data[at + 48] or not amount_raw:  # is_used
            continue
        if data[at + 16] > _CONSTANT:
            raise Unreadable(f"lockup.kind {data[at + 16]} at {at + 16}", voter.address)
        yield Deposit(
            i64(data, at),
            i64(data, at + 8),
            data[at + 16],
            amount_raw,
            u64(data, at + 40),
            data[at + 50],
            bool(data[at + 49]),  # allow_clawback
        )


def _terms(registrar: Account, of: Deposit, voter: bytes) -> Terms:
    if of.mint >= _MINTS:
        raise Unreadable(f"voting_mint_config_idx {of.mint} of {_MINTS}", voter)
    at = _MINTS_AT + of.mint * _MINT_SIZE
    data = registrar.data
    return Terms(
        raw_pubkey(data, at),
        u64(data, at + 64),
        u64(data, at + 72),
        u64(data, at + 80),
        int.from_bytes(data[at + 88 : at + 89], signed=True),
    )


def _fill(
    position: Position,
    deposits: list[Deposit],
    registrar: Account,
    ballots: Mapping[bytes, Ballot],
    now_s: int,
) -> None:
    """Add a DAO's deposits to a position; raises Unreadable."""
    voter = position.account
    try:
        now_s += i64(registrar.data, _OFFSET_AT)
        both = [(each, _terms(registrar, each, voter.address)) for each in deposits]
    except error:
        detail = f"registrar of {len(registrar.data)} bytes"
        raise Unreadable(detail, voter.address) from None
    position.reference_slot = registrar.slot
    ballot = ballots.get(registrar.data[_RECORD_OF])
    for deposit, terms in both:
        is_kept = ballot is not None and ballot.is_open and terms.votes
        _add(position, deposit, terms.mint, now_s, is_kept=is_kept)
    if any(each.is_revocable and each.locked_raw(now_s) for each in deposits):
        position.unsupported_fields.append(_CLAWBACK)
    power_raw = _sum(position, [power(deposit, terms, now_s) for deposit, terms in both])
    if ballot is None:
        position.unsupported_fields.append(_OPEN_VOTES)
        position.voting = Voting(power_raw, None, None)
    else:
        position.reference_slot = min(registrar.slot, ballot.slot)
        position.voting = Voting(power_raw, ballot.open_votes, ballot.delegate)


def _add(position: Position, of: Deposit, mint: bytes, now_s: int, *, is_kept: bool) -> None:
    """Add the lines and locks of a deposit, what open votes keep of it too; raises Unreadable."""
    locked_raw = of.locked_raw(now_s)
    free_raw = of.amount_raw - locked_raw
    if free_raw < 0:
        detail = f"a deposit of {of.amount_raw} with {locked_raw} locked"
        raise Unreadable(detail, position.account.address)
    kept_raw = free_raw if is_kept else 0
    free_raw -= kept_raw
    lines = ((Role.LOCKED, locked_raw + kept_raw), (Role.SUPPLY, free_raw))
    position.assets += [Asset(role, mint, raw) for role, raw in lines if raw]
    if of.kind != _NONE:
        position.locks.append(_lock(of, locked_raw, free_raw))
    if kept_raw:
        position.locks.append(Lock("escrow", kept_raw, 0))


def _lock(of: Deposit, locked_raw: int, free_raw: int) -> Lock:
    if of.kind == _CONSTANT:  # until its owner ends it, it never does
        return Lock("escrow", locked_raw, free_raw)
    ends_ms = max(0, min(of.end_s * 1000, _LATEST_MS))
    return Lock("vesting" if of.kind in _PERIOD_S else "escrow", locked_raw, free_raw, ends_ms)


def _sum(position: Position, powers: list[int | None]) -> int | None:
    """Return the votes of all deposits; None, and say why, where they are not known."""
    if position.account.kind is not VOTERS[0]:
        position.unsupported_fields.append(_OF_INSTANCE)
        return None
    known = [each for each in powers if each is not None]
    if len(known) < len(powers) or sum(known) >= _U64:
        position.unsupported_fields.append(_OVERFLOW)
        return None
    return sum(known)


def power(of: Deposit, terms: Terms, now_s: int) -> int | None:
    """Return the votes of a deposit; None where the program's integers overflow."""
    baseline = _weight(of.amount_raw, terms.digit_shift, terms.baseline)
    most = _weight(of.initially_locked_raw, terms.digit_shift, terms.most_extra)
    if baseline is None or most is None:
        return None
    extra = _extra(of, most, terms.saturation_s, now_s)
    return None if extra is None or baseline + extra >= _U64 else baseline + extra


def _weight(amount_raw: int, digit_shift: int, factor: int) -> int | None:
    scale = 10 ** abs(digit_shift)
    shifted = amount_raw // scale if digit_shift < 0 else amount_raw * scale
    weight = shifted * factor // _FACTOR
    return weight if max(shifted, weight) < _U64 else None


def _extra(of: Deposit, most: int, saturation_s: int, now_s: int) -> int | None:
    """Return the votes of a lockup for the time that is left of it."""
    left_s = of.left_s(now_s)
    if not left_s or not most or of.kind == _NONE:
        return 0
    if of.kind not in _PERIOD_S:
        return most * min(left_s, saturation_s) // saturation_s if saturation_s else None
    period_s = _PERIOD_S[of.kind]
    left, total = of.periods(now_s)
    if not left:
        return 0
    to_next_s = left_s - period_s * (left - 1)
    if not 0 <= to_next_s < _U64:
        return None
    if to_next_s >= saturation_s:
        return most
    growing = min((saturation_s - to_next_s + period_s) // period_s, left)
    # Each period that is left is a cliff of its own, with at most `saturation_s` counted.
    counted_s = (
        growing * to_next_s
        + growing * (growing - 1) // 2 * period_s
        + (left - growing) * saturation_s
    )
    denominator = total * saturation_s
    if not denominator or max(counted_s, denominator) >= _U64:
        return None
    extra = most * counted_s // denominator
    return extra if extra <= most else None
