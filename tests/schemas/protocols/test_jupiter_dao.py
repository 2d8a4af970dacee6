"""Jupiter DAO: escrows built by hand, and layouts as Anchor's coder writes them from the IDL.

Votes are those of the program's formula, here in fractions.
"""

from __future__ import annotations

import base64
import struct
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import jupiter_dao
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor

WALLET, OTHER, MINT, LOCKER = (bytes([n]) * 32 for n in range(1, 5))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
MONTH_S = 30 * 86_400
WORLDS = 200
U64 = 1 << 64


def account(kind: Kind, data: bytes, at: bytes = b"e" * 32, slot: int = 90) -> Account:
    assert kind_of(at, jupiter_dao.PROGRAM, data) is kind
    return Account(at, kind, 1, data, slot)


def escrow(
    amount: int = 500,
    *,
    ends_s: int = NOW_S + MONTH_S // 2,
    started_s: int = NOW_S - MONTH_S,
    max_lock: int = 0,
    leaving: int = 0,
    delegate: bytes = WALLET,
    owner: bytes = WALLET,
) -> Account:
    data = jupiter_dao.ESCROW.tag + LOCKER + owner + b"\xff" + bytes(32)
    data += struct.pack("<Qqq", amount, started_s, ends_s) + delegate
    data += struct.pack("<BQ", max_lock, leaving) + bytes(152)
    assert len(data) == 322
    return account(jupiter_dao.ESCROW, data)


def locker(multiplier: int = 1, most_s: int = MONTH_S) -> Account:
    data = jupiter_dao.LOCKER.tag + bytes(33) + MINT + bytes(48)
    data += struct.pack("<BQQQ", multiplier, 0, most_s, 0) + bytes(512)
    assert len(data) == 658
    return account(jupiter_dao.LOCKER, data, LOCKER, 80)


def read(*own: Account, others: tuple[Account, ...] = (), now_s: int = NOW_S) -> list[Position]:
    known = {each.address: each for each in others}
    reading = jupiter_dao.read(Held(WALLET, own), WORLD._replace(time_s=now_s))
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


def test_an_escrow_is_locked_until_it_ends_and_its_votes_fall_with_time() -> None:
    [position] = read(escrow(), others=(locker(2),))
    assert lines(position) == [(Role.LOCKED, MINT, 500)]
    [lock] = position.locks
    assert (lock.kind, lock.locked_raw, lock.claimable_raw) == ("escrow", 500, 0)
    assert lock.ends_ms == (NOW_S + MONTH_S // 2) * 1000
    assert position.voting is not None
    assert (position.voting.power_raw, position.voting.delegate) == (500, None)  # 500 * 2 / 2
    assert (position.market, position.reference_slot) == (LOCKER, 80)


def test_an_escrow_that_has_ended_is_free_and_has_no_votes() -> None:
    """`withdraw.rs` wants `expiration <= now`, where Tribeca wants `<`."""
    [position] = read(escrow(ends_s=NOW_S), others=(locker(),))
    assert lines(position) == [(Role.SUPPLY, MINT, 500)]
    assert (position.locks[0].locked_raw, position.locks[0].claimable_raw) == (0, 500)
    assert position.voting is not None
    assert position.voting.power_raw == 0


def test_a_max_lock_never_ends_and_keeps_all_votes() -> None:
    [position] = read(escrow(max_lock=1, ends_s=NOW_S - 1), others=(locker(3),))
    assert lines(position) == [(Role.LOCKED, MINT, 500)]
    assert [(each.locked_raw, each.ends_ms) for each in position.locks] == [(500, None)]
    assert position.voting is not None
    assert position.voting.power_raw == 1500


def test_parts_on_their_way_out_are_a_total_of_their_own_and_have_no_votes() -> None:
    [position] = read(escrow(max_lock=1, leaving=70, delegate=OTHER), others=(locker(),))
    assert lines(position) == [(Role.LOCKED, MINT, 500), (Role.PENDING, MINT, 70)]
    assert [(each.kind, each.locked_raw, each.claimable_raw) for each in position.locks] == [
        ("escrow", 500, 0),
        ("cooldown", 70, None),
    ]
    assert any("parts on their way out" in each for each in position.unsupported_fields)
    assert position.voting is not None
    assert (position.voting.power_raw, position.voting.delegate) == (500, OTHER)
    [all_of_it] = read(escrow(0, leaving=70), others=(locker(),))
    assert lines(all_of_it) == [(Role.PENDING, MINT, 70)]


def test_without_its_locker_an_escrow_has_no_known_token() -> None:
    [position] = read(escrow())
    assert (position.assets, position.missing) == ([], [LOCKER])
    assert position.voting is not None
    assert position.voting.power_raw is None
    assert any("locker" in each for each in position.unsupported_fields)


def test_an_empty_escrow_and_one_of_another_wallet_are_no_position() -> None:
    assert read(escrow(0)) == []
    assert read(escrow(owner=OTHER, delegate=WALLET)) == []


def test_votes_that_the_program_cannot_compute_are_named() -> None:
    for of, terms in (
        (escrow(U64 - 1), locker(2)),
        (escrow(U64 - 1, max_lock=1), locker(2)),
        (escrow(), locker(most_s=0)),
    ):
        [position] = read(of, others=(terms,))
        assert position.voting is not None
        assert position.voting.power_raw is None
        assert any(each.startswith("voting.power_raw") for each in position.unsupported_fields)


@pytest.mark.parametrize(
    ("started_s", "power_raw"),
    [(0, 0), (-1, 250), (1, 250), (NOW_S, 250), (NOW_S + 1, 0)],
    ids=["never", "before 1970", "in 1970", "now", "later"],
)
def test_an_escrow_votes_from_its_start(started_s: int, power_raw: int) -> None:
    [position] = read(escrow(started_s=started_s), others=(locker(),))
    assert position.voting is not None
    assert position.voting.power_raw == power_raw


@given(
    st.integers(1, (1 << 56) - 1),
    st.integers(0, 255),
    st.integers(-MONTH_S, 3 * MONTH_S),
    st.integers(1, 4 * MONTH_S),
)
def test_votes_are_the_share_of_the_term_that_is_left_cut_off(
    amount: int, multiplier: int, left_s: int, most_s: int
) -> None:
    [position] = read(escrow(amount, ends_s=NOW_S + left_s), others=(locker(multiplier, most_s),))
    share = min(Fraction(max(0, left_s), most_s), Fraction(1))
    assert position.voting is not None
    assert position.voting.power_raw == floor(amount * multiplier * share)


@pytest.mark.parametrize("size", [72, 100, 169])
def test_an_escrow_cut_short_is_unreadable(size: int) -> None:
    own = escrow()._replace(data=escrow().data[:size])
    with pytest.raises(Unreadable, match=f"escrow of {size} bytes") as error:
        read(own)
    assert error.value.account == own.address


def test_bytes_that_the_program_does_not_write_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="is_max_lock 2 at 161"):
        read(escrow(max_lock=2))
    with pytest.raises(Unreadable, match="locker of 60 bytes"):
        read(escrow(), others=(locker()._replace(data=locker().data[:60]),))
    with pytest.raises(Unreadable, match="locker: jupiter_dao_escrow"):
        read(escrow(), others=(escrow()._replace(address=LOCKER),))


def test_the_slug() -> None:
    assert SLUGS["p23"] is jupiter_dao.PROTOCOL


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


def written(coder: Path, name: str, fields: list[dict[str, Any]]) -> list[Any]:
    idl = anchor.idl("p23-jupiter_locked_voter.json")
    questions = [
        {"encode": name, "idl": idl, "seed": seed, "fields": each}
        for seed, each in enumerate(fields)
    ]
    answers = anchor.asked(coder, questions)
    return [(base64.b64decode(each["data"]), each["fields"]) for each in answers]


@pytest.mark.node
def test_escrows_and_lockers_are_laid_out_as_in_the_idl(coder: Path) -> None:
    lockers = written(coder, "Locker", [{}] * WORLDS)
    ends = [str(NOW_S + (seed - 50) * 100_000) for seed in range(WORLDS)]
    starts = [str(NOW_S - seed * 1000) for seed in range(WORLDS)]
    escrows = written(
        coder,
        "Escrow",
        [
            {
                "locker": text(LOCKER),
                "owner": text(WALLET),
                "escrow_ends_at": ends[seed],
                "escrow_started_at": starts[seed],
            }
            for seed in range(WORLDS)
        ],
    )
    powers = 0
    for (data, fields), (terms, params) in zip(escrows, lockers, strict=True):
        assert jupiter_dao.ESCROW.found_by(data) == [WALLET]
        [position] = read(
            account(jupiter_dao.ESCROW, data),
            others=(account(jupiter_dao.LOCKER, terms, LOCKER),),
        )
        ends_s = int(fields["escrow_ends_at"])
        is_over = not fields["is_max_lock"] and ends_s <= NOW_S
        mint, amount = key(params["token_mint"]), int(fields["amount"])
        leaving = int(fields["partial_unstaking_amount"])
        both = [
            (Role.SUPPLY if is_over else Role.LOCKED, mint, amount),
            (Role.PENDING, mint, leaving),
        ]
        assert lines(position) == [each for each in both if each[2]]
        most = amount * int(params["params"]["max_stake_vote_multiplier"])
        whole_s = int(params["params"]["max_stake_duration"])
        share = min(Fraction(max(0, ends_s - NOW_S), max(1, whole_s)), Fraction(1))
        power: int | None = floor(most * (1 if fields["is_max_lock"] else share))
        if not is_over and (most >= U64 or not (whole_s or fields["is_max_lock"])):
            power = None
        assert position.voting is not None
        assert position.voting.power_raw == power
        assert position.voting.delegate == key(fields["vote_delegate"])
        powers += power not in (None, 0)
        assert position.locks[0].ends_ms == (None if fields["is_max_lock"] else ends_s * 1000)
    assert powers > WORLDS // 4
