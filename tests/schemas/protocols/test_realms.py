"""Realms: records and deposits built by hand; the official client and Anchor's coder as judges.

Votes of a vesting are judged by a sum over its periods, each a cliff of its own, in fractions.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import subprocess
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from schemas.protocols import helium, parcl, pyth, realms, vote_deposits
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Lock,
    Position,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.registry import SLUGS, kind_of
from schemas.protocols.vote_deposits import Deposit, Terms
from schemas.solana.addresses import key, text
from tests.support import anchor, npm
from tests.support.judging import judged

WALLET, OTHER, MINT, REALM, REGISTRAR = (bytes([n]) * 32 for n in range(1, 6))
SHARED_V1, SHARED_V2 = realms.RECORDS[:2]
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
DAY_S = 86_400
MONTH_S = 2_628_000
WORLDS = 200
PLUGIN, COUNCIL = (bytes([n]) * 32 for n in (6, 7))
VOTED = struct.pack("<Q", 3)
U64 = 1 << 64
LIQUID, MEMBERSHIP, DORMANT = range(3)
NONE, DAILY, MONTHLY, CLIFF, CONSTANT = range(5)
JUDGES = Path(__file__).parent / "governance_judges"


def account(kind: Kind, data: bytes, at: bytes = b"r" * 32, slot: int = 90) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, slot)


def record(
    deposit: int = 500,
    *,
    kind: Kind = SHARED_V2,
    votes: bytes = bytes(8),
    proposals: int = 0,
    version: int = 1,
    delegate: bytes | None = None,
    locks_s: tuple[int | None, ...] = (),
) -> Account:
    data = kind.tag + REALM + MINT + WALLET + struct.pack("<Q", deposit) + votes
    data += bytes([proposals, version]) + bytes(6)
    data += b"\0" if delegate is None else b"\1" + delegate
    if kind.tag == SHARED_V2.tag:
        data += bytes(124) + struct.pack("<I", len(locks_s))
        for each in locks_s:
            data += b"\7" + OTHER + (b"\0" if each is None else b"\1" + struct.pack("<q", each))
    return account(kind, data)


def entry(
    amount: int,
    kind: int = NONE,
    *,
    locked: int | None = None,
    start_s: int = NOW_S,
    end_s: int = NOW_S,
    mint: int = 0,
    is_used: bool = True,
    is_grant: bool = False,
) -> bytes:
    data = struct.pack("<qqB15x", start_s, end_s, kind)
    data += struct.pack("<QQ", amount, amount if locked is None else locked)
    return data + bytes([is_used, is_grant, mint]) + bytes(29)


def voter(*entries: bytes, of: int = 0) -> Account:
    kind = vote_deposits.VOTERS[of]
    unused = entry(9, is_used=False) * (32 - len(entries))
    data = kind.tag + WALLET + REGISTRAR + b"".join(entries) + unused + bytes(96)
    assert len(data) == 2728
    return account(kind, data, b"v" * 32)


def registrar(
    *,
    offset_s: int = 0,
    of: int = 0,
    saturation_s: int = 100 * DAY_S,
    digit_shift: int = 0,
    factors: tuple[int, int] = (10**9, 2 * 10**9),
    dao: bytes = SHARED_V2.program + REALM + MINT,
) -> Account:
    """A registrar of two tokens; the second one has other factors where `factors` says so."""
    kind = vote_deposits.REGISTRARS[of]
    terms, others = (
        struct.pack("<QQQb", *each, saturation_s, digit_shift) + bytes(63)
        for each in ((10**9, 2 * 10**9), factors)
    )
    mints = MINT + bytes(32) + terms + OTHER + bytes(32) + others + bytes(304)
    data = kind.tag + dao + bytes(64) + mints + struct.pack("<q", offset_s) + bytes(96)
    assert len(data) == 880
    return account(kind, data, REGISTRAR, 80)


def read(*own: Account, others: tuple[Account, ...] = (), now_s: int = NOW_S) -> list[Position]:
    known = {each.address: each for each in others}
    reading = realms.read(Held(WALLET, own), WORLD._replace(time_s=now_s))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def test_a_deposit_without_votes_can_be_withdrawn() -> None:
    [position] = read(record(delegate=OTHER))
    assert lines(position) == [(Role.SUPPLY, MINT, 500)]
    assert (position.market, position.locks) == (REALM, [])
    assert position.voting is not None
    assert (position.voting.open_votes, position.voting.delegate) == (0, OTHER)
    assert position.voting.power_raw is None


@pytest.mark.parametrize(
    ("votes", "proposals", "locks_s", "ends_ms"),
    [
        (struct.pack("<Q", 3), 0, (), None),
        (bytes(8), 1, (), None),
        (bytes(8), 0, (None,), None),
        (bytes(8), 0, (NOW_S - 1, NOW_S + 5), (NOW_S + 5) * 1000),
        (bytes(8), 0, (NOW_S + 5, None), None),
    ],
)
def test_votes_proposals_and_locks_keep_a_deposit(
    votes: bytes, proposals: int, locks_s: tuple[int | None, ...], ends_ms: int | None
) -> None:
    [position] = read(record(votes=votes, proposals=proposals, locks_s=locks_s))
    assert lines(position) == [(Role.LOCKED, MINT, 500)]
    [lock] = position.locks
    assert (lock.locked_raw, lock.claimable_raw, lock.ends_ms) == (500, 0, ends_ms)


def test_locks_that_have_expired_keep_nothing() -> None:
    [position] = read(record(locks_s=(NOW_S - 1,)))
    assert position.locks == []


@pytest.mark.parametrize("kind", [SHARED_V1, SHARED_V2])
def test_of_old_records_the_votes_of_all_time_do_not_count(kind: Kind) -> None:
    [position] = read(record(kind=kind, version=0, votes=struct.pack("<II", 2, 700)))
    assert position.voting is not None
    assert position.voting.open_votes == 2


def test_an_empty_record_and_one_of_another_wallet_are_no_position() -> None:
    assert read(record(0)) == []
    of_other = record()._replace(data=record().data.replace(WALLET, OTHER))
    assert read(of_other) == []


@pytest.mark.parametrize("size", [104, 113, 121, 140])
def test_a_record_cut_short_is_unreadable(size: int) -> None:
    whole = record(delegate=OTHER)
    with pytest.raises(Unreadable, match=f"record of {size} bytes") as error:
        read(whole._replace(data=whole.data[:size]))
    assert error.value.account == whole.address


def config(
    community: bytes | None = None,
    council: bytes | None = None,
    of: int = 0,
    authorities: tuple[tuple[bytes, ...], tuple[bytes, ...]] = ((), ()),
    types: tuple[int, int] = (LIQUID, LIQUID),
) -> Account:
    """The DAO's config, as the program has it since its third version."""
    kind = realms.CONFIGS[of]
    data = kind.tag + REALM
    tokens = ((community, OTHER), (council, None))
    for plugins, locking, token_type in zip(tokens, authorities, types, strict=True):
        for each in plugins:
            data += b"\0" if each is None else b"\1" + each
        data += bytes([token_type, 0, 0, 0, 0]) + struct.pack("<I", len(locking))
        data += b"".join(locking)
    seeds = [b"realm-config", REALM]
    at = Pubkey.find_program_address(seeds, Pubkey(kind.program))[0]
    return account(kind, data + bytes(110), bytes(at), 80)


@pytest.mark.parametrize(
    ("own", "is_used"),
    [
        (record(0), False),
        (record(0, votes=VOTED), True),
        (record(0, proposals=1), True),
        (record(0, delegate=OTHER), True),
        (record(0, kind=SHARED_V1, version=0, votes=struct.pack("<II", 0, 9)), False),
    ],
    ids=["made by anyone", "voted", "proposed", "delegated", "voted long ago"],
)
def test_an_empty_record_of_a_dao_with_a_plugin_names_it(own: Account, is_used: bool) -> None:
    [position] = read(own, others=(config(PLUGIN, COUNCIL),))
    assert lines(position) == ([(Role.SUPPLY, MINT, None)] if is_used else [])
    assert (position.market, position.reference_slot) == (REALM, 80)
    [reason, _] = position.unsupported_fields
    assert reason.startswith("assets: ")
    assert text(PLUGIN) in reason
    assert text(COUNCIL) in reason


def test_two_empty_records_of_a_dao_are_two() -> None:
    second = record(0)._replace(address=b"s" * 32)
    assert len(read(record(0), second, others=(config(PLUGIN),))) == 2


@pytest.mark.parametrize(
    "plugin",
    [
        None,
        vote_deposits.VOTERS[0].program,
        helium.PROGRAM,
        pyth.PROGRAM,
        parcl.STAKING,
        key("dVoTE1AJqkZVoE1mPbWcqYPmEEvAUBksHY2NiM2UJQe"),
        key("HBZ5oXbFBFbr8Krt2oMU7ApHFeukdRS8Rye1f3T66vg5"),
        key("VoteWPk9yyGmkX4U77nEWRJWpcc8kUfrPoghxENpstL"),
        key("GnftV5kLjd67tvHpNGyodwWveEKivz3ZWvvE3Z4xi2iw"),
        key("GnftVc21v2BRchsRa9dGdrVmJPLZiRHe9j2offnFTZFg"),
    ],
    ids=[
        *("none", "registry", "helium", "pyth", "parcl", "drift", "xandeum's registry"),
        *("another registry", "nfts", "compressed nfts"),
    ],
)
def test_an_empty_record_of_any_other_dao_is_no_position(plugin: bytes | None) -> None:
    assert read(record(0, votes=VOTED), others=(config(plugin, plugin),)) == []


def test_a_deposit_of_a_dao_with_a_plugin_is_what_the_record_has() -> None:
    [position] = read(record(), others=(config(PLUGIN),))
    assert lines(position) == [(Role.SUPPLY, MINT, 500)]


@pytest.mark.parametrize(
    "locking", [bytes([1]) * 32, bytes([0, 0]) + bytes([5]) * 30, bytes(range(1, 33))]
)
def test_authorities_that_may_lock_records_are_no_plugins(locking: bytes) -> None:
    """`GoverningTokenConfig`: reserved is `[u8; 4]`, and `lock_authorities` a vector of keys."""
    own = record(0, votes=VOTED)
    authorities = ((locking, OTHER), (locking,))
    assert read(own, others=(config(authorities=authorities),)) == []
    [position] = read(own, others=(config(None, COUNCIL, authorities=authorities),))
    assert position.unsupported_fields[0].endswith(f": {text(COUNCIL)}")


def test_more_authorities_than_a_config_has_room_for_are_unreadable() -> None:
    whole = config()
    for at in (33 + 34 + 5, 33 + 34 + 9 + 2 + 5):  # of the community, of the council
        data = bytearray(whole.data)
        data[at : at + 4] = b"\xff" * 4
        with pytest.raises(Unreadable, match="config of 197 bytes") as error:
            read(record(0), others=(whole._replace(data=bytes(data)),))
        assert error.value.account == record(0).address


def test_a_config_of_an_earlier_version_has_nothing_where_the_council_is_now() -> None:
    whole = config(PLUGIN)
    head = whole.data[: 33 + 2 * 33]
    earlier = whole._replace(data=head + bytes(2 + 128))
    [position] = read(record(0), others=(earlier,))
    assert position.unsupported_fields[0].endswith(text(PLUGIN))


def realm(community_mint: bytes, kind: Kind = realms.REALMS[1]) -> Account:
    return account(kind, kind.tag + community_mint + bytes(230), REALM, 60)


@pytest.mark.parametrize("types", [(MEMBERSHIP, LIQUID), (MEMBERSHIP, DORMANT)])
@pytest.mark.parametrize("kind", realms.REALMS[:2])
def test_tokens_of_a_membership_are_never_withdrawn(kind: Kind, types: tuple[int, int]) -> None:
    """`assert_can_withdraw_governing_token`: Liquid and Dormant can be, Membership cannot."""
    community, council = realm(MINT, kind), realm(OTHER, kind)
    for of, config_types in ((community, types), (council, types[::-1])):
        for own in (record(), record(votes=VOTED), record(locks_s=(NOW_S + 5,))):
            [position] = read(own, others=(config(types=config_types), of))
            assert lines(position) == [(Role.LOCKED, MINT, 500)]
            assert position.locks == [Lock("permanent", 500, 0)]
            assert position.reference_slot == 60
    for of, config_types in ((community, types[::-1]), (council, types)):
        [position] = read(record(), others=(config(types=config_types), of))
        assert lines(position) == [(Role.SUPPLY, MINT, 500)]
        assert position.locks == []


def test_where_both_tokens_are_of_one_type_the_dao_is_not_needed() -> None:
    for types, role in (
        ((MEMBERSHIP, MEMBERSHIP), Role.LOCKED),
        ((LIQUID, DORMANT), Role.SUPPLY),
    ):
        [position] = read(record(), others=(config(types=types),))
        assert lines(position) == [(role, MINT, 500)]
        assert (position.missing, position.reference_slot) == ([], 80)


def test_a_deposit_that_may_be_of_a_membership_is_not_free() -> None:
    others = (config(types=(LIQUID, MEMBERSHIP)),)
    [position] = read(record(), others=others)
    assert lines(position) == [(Role.LOCKED, MINT, 500)]
    assert (position.locks, position.missing) == ([], [REALM])
    assert any(each.startswith("assets.role") for each in position.unsupported_fields)
    [position] = read(record(proposals=1), others=others)
    assert position.locks == [Lock("escrow", 500, 0)]


@pytest.mark.parametrize(
    "of", [realm(MINT)._replace(data=b"\x10" + bytes(31)), config()._replace(address=REALM)]
)
def test_a_dao_that_is_none_is_unreadable(of: Account) -> None:
    with pytest.raises(Unreadable, match="realm: ") as error:
        read(record(), others=(config(types=(LIQUID, MEMBERSHIP)), of))
    assert error.value.account == record().address


def test_a_config_that_is_none_is_unreadable() -> None:
    other = realm(MINT)._replace(address=config().address)
    with pytest.raises(Unreadable, match="config: realms_76_realm_v2") as error:
        read(record(), others=(other,))
    assert error.value.account == record().address


@pytest.mark.parametrize("size", [33, 60, 70, 107])
def test_a_config_cut_short_is_unreadable(size: int) -> None:
    whole = config(PLUGIN)
    cut = whole._replace(data=whole.data[:size])
    with pytest.raises(Unreadable, match=f"config of {size} bytes") as error:
        read(record(0), others=(cut,))
    assert error.value.account == record(0).address


def test_each_instance_of_the_program_has_records() -> None:
    programs = {each.program for each in realms.RECORDS}
    assert len(realms.RECORDS) == 2 * len(programs)
    last = realms.RECORDS[-1]
    assert read(record(kind=last))[0].account.kind is last


def test_deposits_of_each_lockup() -> None:
    end_s = NOW_S + 50 * DAY_S
    own = voter(
        entry(10),
        entry(20, CLIFF, end_s=end_s),
        entry(30, DAILY, start_s=NOW_S - 50 * DAY_S, end_s=end_s),
        entry(40, CONSTANT, end_s=NOW_S + 50 * DAY_S, mint=1),
        entry(50, CLIFF, end_s=NOW_S),
    )
    [position] = read(own, others=(registrar(),))
    assert lines(position) == [
        (Role.SUPPLY, MINT, 10),
        (Role.LOCKED, MINT, 20),
        (Role.LOCKED, MINT, 15),
        (Role.SUPPLY, MINT, 15),
        (Role.LOCKED, OTHER, 40),
        (Role.SUPPLY, MINT, 50),
    ]
    assert [(each.kind, each.locked_raw, each.ends_ms) for each in position.locks] == [
        ("escrow", 20, end_s * 1000),
        ("vesting", 15, end_s * 1000),
        ("escrow", 40, None),
        ("escrow", 0, NOW_S * 1000),
    ]
    assert (position.market, position.reference_slot) == (REGISTRAR, 80)


@pytest.mark.parametrize(
    ("own", "is_kept", "open_votes"),
    [
        (record(0, votes=VOTED), True, 3),
        (record(9, votes=VOTED), True, 3),
        (record(0, proposals=1), True, 0),
        (record(0, locks_s=(None,)), False, 0),
        (record(0), False, 0),
    ],
    ids=["voted", "with a deposit too", "proposed", "locked, which the registry ignores", "none"],
)
def test_open_votes_and_proposals_of_the_dao_keep_what_is_free(
    own: Account, is_kept: bool, open_votes: int
) -> None:
    """`withdraw.rs`: of a token that votes; nothing is withdrawn until the record is free."""
    end_s = NOW_S + 50 * DAY_S
    deposits = (entry(10), entry(30, DAILY, start_s=NOW_S - 50 * DAY_S, end_s=end_s))
    others = (registrar(factors=(0, 0)),)
    *_, position = read(voter(*deposits, entry(7, mint=1)), own, others=others)
    locks = [(each.kind, each.locked_raw, each.claimable_raw) for each in position.locks]
    if is_kept:
        assert lines(position) == [
            (Role.LOCKED, MINT, 10),
            (Role.LOCKED, MINT, 30),
            (Role.SUPPLY, OTHER, 7),
        ]
        assert locks == [("escrow", 10, 0), ("vesting", 15, 0), ("escrow", 15, 0)]
    else:
        assert [role for role, *_ in lines(position)].count(Role.SUPPLY) == 3
        assert locks == [("vesting", 15, 15)]
    assert position.voting is not None
    assert (position.voting.open_votes, position.unsupported_fields) == (open_votes, [])


@pytest.mark.parametrize("factors", [(1, 0), (0, 1)])
def test_open_votes_keep_a_token_that_votes_in_either_way(factors: tuple[int, int]) -> None:
    others = (registrar(factors=factors),)
    [position] = read(voter(entry(7, mint=1)), record(0, votes=VOTED), others=others)
    assert lines(position) == [(Role.LOCKED, OTHER, 7)]


def test_votes_of_a_deposit_are_cast_by_the_delegate_of_its_record() -> None:
    own = record(0, delegate=COUNCIL)._replace(slot=70)
    [position] = read(voter(entry(7)), own, others=(registrar(),))
    assert position.voting is not None
    assert position.voting.delegate == COUNCIL
    assert position.reference_slot == 70


@pytest.mark.parametrize(
    "dao",
    [
        realms.RECORDS[-1].program + REALM + MINT,
        SHARED_V2.program + OTHER + MINT,
        SHARED_V2.program + REALM + OTHER,
    ],
    ids=["program", "realm", "mint"],
)
def test_without_the_record_of_its_own_dao_open_votes_are_not_known(dao: bytes) -> None:
    others = (registrar(dao=dao),)
    [position] = read(voter(entry(7)), record(0, votes=VOTED), others=others)
    assert lines(position) == [(Role.SUPPLY, MINT, 7)]
    assert position.voting is not None
    assert position.voting.open_votes is None
    [named] = position.unsupported_fields
    assert named.startswith("voting, locks: ")


def test_a_registrars_time_counts() -> None:
    own = voter(entry(20, CLIFF, end_s=NOW_S + 100))
    [position] = read(own, others=(registrar(offset_s=100),))
    assert lines(position) == [(Role.SUPPLY, MINT, 20)]


@pytest.mark.parametrize(
    ("digit_shift", "power_raw"), [(-2, 12), (-1, 123), (0, 1_234), (2, 123_400)]
)
@pytest.mark.parametrize("mint", [0, 1])
def test_a_registrar_shifts_the_digits_of_a_token_before_they_are_votes(
    mint: int, digit_shift: int, power_raw: int
) -> None:
    [position] = read(voter(entry(1_234, mint=mint)), others=(registrar(digit_shift=digit_shift),))
    assert position.voting is not None
    assert position.voting.power_raw == power_raw


@pytest.mark.parametrize(
    "program",
    [
        "vsr2nfGVNHmSY8uxoBGqq8AQbwz3JwaEaHqGbsTPXqQ",
        "HBZ5oXbFBFbr8Krt2oMU7ApHFeukdRS8Rye1f3T66vg5",
        "VoteWPk9yyGmkX4U77nEWRJWpcc8kUfrPoghxENpstL",
    ],
)
def test_deposits_in_each_registry_of_realms_are_read(program: str) -> None:
    of = [kind.program for kind in vote_deposits.VOTERS].index(key(program))
    [position] = read(voter(entry(10), of=of), others=(registrar(of=of),))
    assert lines(position) == [(Role.SUPPLY, MINT, 10)]


@pytest.mark.parametrize(("ends_in_s", "is_named"), [(-1, False), (1, True)])
def test_what_a_dao_may_take_back_is_named(ends_in_s: int, is_named: bool) -> None:
    grant = entry(10, CLIFF, start_s=NOW_S - 9, end_s=NOW_S + ends_in_s, is_grant=True)
    [position] = read(voter(grant), others=(registrar(),))
    assert any("take back" in each for each in position.unsupported_fields) is is_named


def test_votes_of_an_instance_are_not_known() -> None:
    [shared] = read(voter(entry(10)), others=(registrar(),))
    [own] = read(voter(entry(10), of=1), others=(registrar(of=1),))
    assert shared.voting is not None
    assert own.voting is not None
    assert (shared.voting.power_raw, own.voting.power_raw) == (10, None)
    assert any("instance" in each for each in own.unsupported_fields)


def test_without_its_registrar_a_deposit_has_no_known_token() -> None:
    [position] = read(voter(entry(10)))
    assert (position.assets, position.missing) == ([], [REGISTRAR])
    assert any("registrar" in each for each in position.unsupported_fields)


def test_a_voter_without_deposits_is_no_position() -> None:
    assert read(voter()) == []


@pytest.mark.parametrize(
    ("own", "others", "detail"),
    [
        (voter(entry(1, 5)), (), "lockup.kind 5 at 88"),
        (voter(entry(1))._replace(data=voter().data[:2000]), (), "voter of 2000 bytes"),
        (voter(entry(1, mint=4)), (registrar(),), "voting_mint_config_idx 4 of 4"),
        (
            voter(entry(1, CLIFF, locked=2, end_s=NOW_S + 9)),
            (registrar(),),
            "a deposit of 1 with 2 locked",
        ),
        (voter(entry(1)), (registrar(of=1),), "registrar: vote_deposits_78_registrar"),
        (
            voter(entry(1)),
            (registrar()._replace(data=registrar().data[:400]),),
            "registrar of 400 bytes",
        ),
    ],
    ids=["lockup", "voter", "mint", "locked", "instance", "registrar"],
)
def test_bytes_that_the_program_does_not_write_are_unreadable(
    own: Account, others: tuple[Account, ...], detail: str
) -> None:
    with pytest.raises(Unreadable, match=detail) as error:
        read(own, others=others)
    assert error.value.account == own.address


def test_votes_that_the_program_cannot_compute_are_none() -> None:
    deposit = Deposit(NOW_S, NOW_S + 9, CLIFF, U64 - 1, U64 - 1, 0)
    for terms in (
        Terms(MINT, 2 * 10**9, 0, 1, 0),
        Terms(MINT, 1, 1, 0, 0),
        Terms(MINT, 1, 1, 9, 3),
    ):
        assert vote_deposits.power(deposit, terms, NOW_S) is None


def test_a_vesting_has_no_votes_with_more_seconds_left_than_the_program_can_count() -> None:
    end_s = (1 << 63) - 1
    deposit = Deposit(end_s - MONTH_S, end_s, MONTHLY, 7, 7, 0)
    terms = Terms(MINT, 0, 10**9, 100 * DAY_S, 0)
    assert vote_deposits.power(deposit, terms, end_s - (U64 - 1)) == 7
    assert vote_deposits.power(deposit, terms, end_s - U64) is None


@given(
    st.integers(1, 1 << 50),
    st.sampled_from([(DAILY, DAY_S), (MONTHLY, MONTH_S)]),
    st.integers(1, 100),
    st.integers(-300 * DAY_S, 300 * DAY_S),
    st.integers(1, 2000 * DAY_S),
)
def test_a_vesting_votes_as_a_row_of_cliffs(
    amount: int, kind: tuple[int, int], periods: int, passed_s: int, saturation_s: int
) -> None:
    lockup, period_s = kind
    start_s = NOW_S - passed_s
    end_s = start_s + periods * period_s
    deposit = Deposit(start_s, end_s, lockup, amount, amount, 0)
    found = vote_deposits.power(deposit, Terms(MINT, 0, 10**9, saturation_s, 0), NOW_S)
    ends = [start_s + n * period_s for n in range(1, periods + 1)]
    left = [each - NOW_S for each in ends if each > NOW_S]
    share = Fraction(amount, periods * saturation_s)
    votes = floor(sum((min(each, saturation_s) * share for each in left), Fraction(0)))
    if left and min(left) >= saturation_s:
        votes = amount  # the program does not count how many periods are left of how many
    if passed_s < 0 and left:
        # Before it starts, the program counts all periods from the end backwards.
        assert found is None or found <= amount
        return
    assert found == votes
    assert deposit.locked_raw(NOW_S) == amount - amount * (periods - len(left)) // periods


def test_the_slug() -> None:
    assert SLUGS["p32"] is realms.PROTOCOL


@pytest.fixture(scope="module")
def judges(request: pytest.FixtureRequest) -> Path:
    folder = npm.installed(request, "governance-judges", JUDGES, "@solana/spl-governance")
    subprocess.run(["node", "judges.cjs", "idls"], cwd=folder, check=True, timeout=120)
    return folder


@pytest.mark.node
def test_records_are_what_the_official_client_reads(judges: Path) -> None:
    chance = random.Random(32)
    own = []
    for _ in range(WORLDS):
        kind = chance.choice(realms.RECORDS)
        votes = struct.pack("<II", chance.choice((0, chance.randrange(1 << 32))), 0)
        own.append(
            record(
                chance.randrange(1, U64),
                kind=kind,
                votes=votes,
                proposals=chance.choice((0, chance.randrange(10))),
                version=chance.randrange(2),
                delegate=chance.choice((None, chance.randbytes(32))),
            )
        )
    for each, answer in zip(own, said(judges, "records", own), strict=True):
        [position] = read(each)
        [asset] = position.assets
        assert position.market == key(answer["realm"])
        assert (asset.mint, asset.amount_raw) == (key(answer["mint"]), int(answer["deposit"]))
        assert position.voting is not None
        assert position.voting.open_votes == answer["votes"]
        delegate = position.voting.delegate
        assert (None if delegate is None else text(delegate)) == answer["delegate"]
        is_held = bool(answer["votes"] or answer["proposals"])
        assert asset.role is (Role.LOCKED if is_held else Role.SUPPLY)
    judged(worlds=len(own))


@pytest.mark.node
def test_configs_are_what_the_official_client_reads(judges: Path) -> None:
    chance = random.Random(11)
    own = [
        config(
            *(chance.choice((None, chance.randbytes(32))) for _ in range(2)),
            types=(chance.randrange(3), chance.randrange(3)),
        )
        for _ in range(WORLDS)
    ]
    for each, answer in zip(own, said(judges, "configs", own), strict=True):
        assert text(each.address) == answer["address"]
        plugins = [plugin for plugin in answer["plugins"] if plugin is not None]
        found = read(record(0), others=(each,))
        names = [
            position.unsupported_fields[0].partition(": a deposit in")[2] for position in found
        ]
        assert names == [f" a plugin that is not read: {', '.join(plugins)}"] * bool(plugins)
        for community_mint, is_membership in zip(
            (MINT, OTHER), answer["isMembership"], strict=True
        ):
            [deposit] = read(record(), others=(each, realm(community_mint)))
            assert bool(deposit.locks) == is_membership
    judged(worlds=len(own))


def said(judges: Path, of: str, own: list[Account]) -> list[dict[str, Any]]:
    """Return what the official client reads from accounts."""
    done = subprocess.run(
        ["node", "judges.cjs", of],
        cwd=judges,
        input="".join(base64.b64encode(each.data).decode() + "\n" for each in own),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.node
def test_deposits_are_laid_out_as_in_the_clients_idl(
    judges: Path, request: pytest.FixtureRequest
) -> None:
    coder = anchor.coder(request)
    idl = str(judges / "registry.json")
    chance = random.Random(77)

    def asked(name: str, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return anchor.asked(
            coder,
            [
                {"encode": name, "idl": idl, "seed": seed, "fields": each}
                for seed, each in enumerate(fields)
            ],
        )

    offset_s = "12345"
    registrars = asked("registrar", [{"timeOffset": offset_s}] * WORLDS)
    sets: list[dict[str, Any]] = []
    for _ in range(WORLDS):
        fields: dict[str, Any] = {"voterAuthority": text(WALLET), "registrar": text(REGISTRAR)}
        for n in range(32):
            amount = chance.randrange(1, 1 << 60)
            start_s = NOW_S - chance.randrange(100) * DAY_S
            fields |= {
                f"deposits.{n}.lockup.startTs": str(start_s),
                f"deposits.{n}.lockup.endTs": str(start_s + chance.randrange(200) * DAY_S),
                f"deposits.{n}.lockup.kind": chance.choice(("None", "Daily", "Cliff", "Constant")),
                f"deposits.{n}.amountDepositedNative": str(amount),
                f"deposits.{n}.amountInitiallyLockedNative": str(chance.randrange(amount)),
                f"deposits.{n}.votingMintConfigIdx": chance.randrange(4),
            }
        sets.append(fields)
    voters = asked("voter", sets)
    for each, terms in zip(voters, registrars, strict=True):
        own = account(vote_deposits.VOTERS[0], base64.b64decode(each["data"]))
        of = account(vote_deposits.REGISTRARS[0], base64.b64decode(terms["data"]), REGISTRAR)
        [position] = read(own, others=(of,))
        expected = []
        for deposit in each["fields"]["deposits"]:
            if deposit["isUsed"]:
                mint = terms["fields"]["votingMints"][int(deposit["votingMintConfigIdx"])]["mint"]
                expected += _lines(deposit, key(mint), NOW_S + int(offset_s))
        assert lines(position) == expected


def _lines(deposit: dict[str, Any], mint: bytes, now_s: int) -> list[tuple[Role, bytes, int]]:
    """Return what a deposit's fields say, counted day by day."""
    lockup = deposit["lockup"]
    [kind] = lockup["kind"]
    start_s, end_s = int(lockup["startTs"]), int(lockup["endTs"])
    amount, initially = (
        int(deposit["amountDepositedNative"]),
        int(deposit["amountInitiallyLockedNative"]),
    )
    locked = initially
    if kind == "None" or end_s <= (start_s if kind == "Constant" else now_s):
        locked = 0
    elif kind == "Daily":
        days = range(start_s + DAY_S, end_s + 1, DAY_S)
        passed = sum(each <= now_s for each in days)
        locked -= initially * passed // len(days)
    both = ((Role.LOCKED, mint, locked), (Role.SUPPLY, mint, amount - locked))
    return [each for each in both if each[2]]
