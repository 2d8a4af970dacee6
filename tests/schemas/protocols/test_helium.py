"""Helium's vote escrow: positions built by hand, and as Anchor's coder writes them from the IDL.

Votes are those of `PositionV0::voting_power`, here in fractions with one rounding a division. The
web app's `calcPositionVotingPower` is no judge: it divides by the baseline factor in floating point
where the program adds the baseline.
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

from schemas.protocols import helium
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor

WALLET, NFT, REGISTRAR = (bytes([n]) * 32 for n in range(1, 4))
HNT = key("hntyVP6YFm1Hg25TN9WGLqM12b8TQmcknKrdu1oxWux")
MOBILE = key("mb1eu7TzEc71KxDpsmsKoucSSuuoGLv1drys1oP2jh6")
IOT = key("iotEVVZLEywoTn1QdwNPddxPWszn3zFhEot3MfL9fns")
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
YEAR_S = 365 * 86_400
BILLION = 1_000_000_000
NONE, CLIFF, CONSTANT = range(3)
WORLDS = 200


def account(kind: Kind, data: bytes, at: bytes = b"p" * 32, slot: int = 90) -> Account:
    assert kind_of(at, helium.PROGRAM, data) is kind
    return Account(at, kind, 1, data, slot)


def position(
    amount: int = 1000,
    *,
    kind: int = CLIFF,
    start_s: int = NOW_S - YEAR_S,
    end_s: int = NOW_S + YEAR_S,
    config: int = 0,
    votes: int = 0,
    genesis_end_s: int = 0,
) -> Account:
    data = helium.POSITION.tag + REGISTRAR + NFT + struct.pack("<qqB", start_s, end_s, kind)
    data += struct.pack("<QBHqB", amount, config, votes, genesis_end_s, 255)
    data += bytes(40) + struct.pack("<I", 1) + bytes(40)
    return account(helium.POSITION, data)


def config(
    mint: bytes = HNT,
    baseline: int = 0,
    extra: int = 100 * BILLION,
    multiplier: int = 3,
    saturation_s: int = 4 * YEAR_S,
) -> bytes:
    return mint + struct.pack("<QQBqQb", baseline, extra, multiplier, 0, saturation_s, 0)


def registrar(*configs: bytes, offset_s: int = 0, has_authority: bool = True) -> Account:
    data = helium.REGISTRAR.tag + bytes(128) + struct.pack("<q", offset_s)
    data += b"\1" + bytes(32) if has_authority else b"\0"
    data += bytes(32 + 2 + 4 + 24 + 32) + struct.pack("<I", len(configs)) + b"".join(configs)
    return account(helium.REGISTRAR, data, REGISTRAR, 80)


def read(
    *own: Account, others: tuple[Account, ...] = (), tokens: dict[bytes, int] | None = None
) -> list[Position]:
    known = {each.address: each for each in others}
    held = Held(WALLET, own, {NFT: 1} if tokens is None else tokens)
    reading = helium.read(held, WORLD)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def only(own: Account, *others: Account) -> Position:
    [found] = read(own, others=others)
    return found


def lines(of: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in of.assets]


def power(of: Position) -> int | None:
    assert of.voting is not None
    return of.voting.power_raw


def test_a_position_stands_for_its_nft_and_is_locked_until_its_end() -> None:
    found = only(position(votes=2), registrar(config()))
    assert lines(found) == [(Role.LOCKED, HNT, 1000)]
    assert (found.id, found.stands_for, found.market) == (NFT, {NFT: 1}, REGISTRAR)
    [lock] = found.locks
    assert (lock.kind, lock.locked_raw, lock.claimable_raw) == ("escrow", 1000, 0)
    assert lock.ends_ms == (NOW_S + YEAR_S) * 1000
    assert found.voting is not None
    assert (found.voting.power_raw, found.voting.open_votes) == (25_000, 2)  # a year of four
    assert (found.reference_slot, found.missing) == (80, [])


@pytest.mark.parametrize("has_authority", [True, False])
@pytest.mark.parametrize(("number", "mint"), [(0, HNT), (1, MOBILE), (2, IOT)])
def test_the_token_is_the_one_that_the_registrar_has_at_the_positions_index(
    number: int, mint: bytes, *, has_authority: bool
) -> None:
    mints = registrar(*map(config, (HNT, MOBILE, IOT)), has_authority=has_authority)
    assert lines(only(position(config=number), mints)) == [(Role.LOCKED, mint, 1000)]


def test_a_position_past_its_end_is_free_unless_it_has_open_votes() -> None:
    free = only(position(end_s=NOW_S), registrar(config()))
    assert lines(free) == [(Role.SUPPLY, HNT, 1000)]
    assert (free.locks[0].locked_raw, free.locks[0].claimable_raw, power(free)) == (0, 1000, 0)
    voting = only(position(end_s=NOW_S, votes=1), registrar(config()))
    assert lines(voting) == [(Role.LOCKED, HNT, 1000)]
    assert (voting.locks[0].locked_raw, voting.locks[0].claimable_raw) == (1000, 0)


def test_votes_of_a_constant_lockup_do_not_fall() -> None:
    assert power(only(position(kind=CONSTANT), registrar(config()))) == 50_000  # two years of four
    over = only(position(kind=CONSTANT, end_s=NOW_S - 1), registrar(config()))
    assert power(over) == (YEAR_S - 1) * 100_000 // (4 * YEAR_S)
    assert lines(over) == [(Role.SUPPLY, HNT, 1000)]  # as `withdraw_v0` has it


def test_votes_begin_with_the_baseline_and_early_positions_have_a_multiple() -> None:
    terms = registrar(config(baseline=2 * BILLION))
    assert power(only(position(), terms)) == 27_000
    assert power(only(position(kind=NONE), terms)) == 2_000
    assert power(only(position(genesis_end_s=NOW_S + 1), terms)) == 3 * 27_000
    assert power(only(position(genesis_end_s=NOW_S), terms)) == 27_000
    plain = registrar(config(baseline=2 * BILLION, multiplier=0))
    assert power(only(position(genesis_end_s=NOW_S + 1), plain)) == 27_000


def test_the_registrars_offset_moves_the_programs_clock() -> None:
    found = only(position(), registrar(config(), offset_s=YEAR_S))
    assert lines(found) == [(Role.SUPPLY, HNT, 1000)]
    assert found.locks[0].ends_ms == NOW_S * 1000


@given(
    st.integers(1, (1 << 64) - 1),
    st.integers(0, 200 * BILLION),
    st.integers(0, 200 * BILLION),
    st.integers(1, 10 * YEAR_S),
    st.integers(-YEAR_S, 10 * YEAR_S),
    st.sampled_from([NONE, CLIFF, CONSTANT]),
)
def test_votes_are_the_baseline_and_the_share_of_the_most_that_is_left(
    amount: int, baseline: int, extra: int, saturation_s: int, left_s: int, kind: int
) -> None:
    terms = registrar(config(baseline=baseline, extra=extra, saturation_s=saturation_s))
    own = position(amount, kind=kind, start_s=NOW_S, end_s=NOW_S + left_s)
    share = min(Fraction(max(0, left_s), saturation_s), Fraction(1)) if kind != NONE else 0
    expected = floor(Fraction(amount * baseline, BILLION))
    expected += floor(floor(Fraction(amount * extra, BILLION)) * share)
    assert power(only(own, terms)) == expected


@pytest.mark.parametrize(
    "terms",
    [
        config(extra=(1 << 64) - 1, saturation_s=(1 << 64) - 1),
        config(saturation_s=0),
    ],
)
def test_votes_that_the_program_cannot_compute_are_named(terms: bytes) -> None:
    most = (1 << 64) - 1
    own = position(most, kind=CONSTANT, start_s=0, end_s=(1 << 62), genesis_end_s=NOW_S + 1)
    found = only(own, registrar(terms))
    assert power(found) is None
    assert any(each.startswith("voting.power_raw") for each in found.unsupported_fields)


def test_a_time_that_is_left_of_more_than_63_bits_is_more_than_the_program_can_compute() -> None:
    latest = (1 << 63) - 1
    terms = registrar(config(extra=2 * BILLION))
    assert power(only(position(kind=CONSTANT, start_s=0, end_s=latest), terms)) == 2000
    found = only(position(kind=CONSTANT, start_s=-1, end_s=latest), terms)
    assert power(found) is None
    assert any(each.startswith("voting.power_raw") for each in found.unsupported_fields)


def test_without_the_registrar_the_token_is_not_known() -> None:
    found = only(position(votes=3))
    assert (found.assets, found.locks, found.missing) == ([], [], [REGISTRAR])
    assert found.voting is not None
    assert (found.voting.power_raw, found.voting.open_votes) == (None, 3)


def test_a_position_whose_nft_the_wallet_does_not_have_and_an_empty_one_are_none() -> None:
    assert read(position(), tokens={}) == []
    assert read(position(), tokens={NFT: 0}) == []
    assert read(position(0)) == []


@pytest.mark.parametrize("size", [72, 80, 99, 107])
def test_a_position_cut_short_is_unreadable(size: int) -> None:
    own = position()._replace(data=position().data[:size])
    with pytest.raises(Unreadable, match=f"position of {size} bytes") as error:
        read(own)
    assert error.value.account == own.address


def test_bytes_that_the_program_does_not_write_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="kind 3 at 88"):
        read(position(kind=3))
    with pytest.raises(Unreadable, match="idx 1 of 1"):
        read(position(config=1), others=(registrar(config()),))
    whole = registrar(config())
    with pytest.raises(Unreadable, match="registrar of"):
        read(position(), others=(whole._replace(data=whole.data[:-3]),))
    with pytest.raises(Unreadable, match="registrar: helium_position"):
        read(position(), others=(position()._replace(address=REGISTRAR),))


def test_the_slug() -> None:
    assert SLUGS["p24"] is helium.PROTOCOL


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


def written(
    coder: Path, name: str, fields: list[dict[str, Any]]
) -> list[tuple[bytes, dict[str, Any]]]:
    idl = anchor.idl("p24-helium_vsr_sonarwatch.json")
    questions = [
        {"encode": name, "idl": idl, "seed": seed, "fields": each}
        for seed, each in enumerate(fields)
    ]
    answers = anchor.asked(coder, questions)
    return [(base64.b64decode(each["data"]), each["fields"]) for each in answers]


@pytest.mark.node
def test_positions_and_registrars_are_laid_out_as_in_the_idl(coder: Path) -> None:
    offsets = [(seed - 100) * 1000 for seed in range(WORLDS)]
    registrars = written(
        coder,
        "Registrar",
        [{"voting_mints": 1 + seed % 4, "time_offset": str(offsets[seed])} for seed in range(200)],
    )
    positions = written(
        coder,
        "PositionV0",
        [
            {
                "registrar": text(REGISTRAR),
                "voting_mint_config_idx": seed % (1 + seed % 4),
                "lockup.start_ts": str(NOW_S - seed * 100_000),
                "lockup.end_ts": str(NOW_S + (seed - 40) * 500_000),
                "amount_deposited_native": str(seed * 10 ** (seed % 17) + 1),
                "genesis_end": str(NOW_S + (seed % 7 - 3) * 900_000),
            }
            for seed in range(WORLDS)
        ],
    )
    powers = 0
    for (data, fields), (terms, of) in zip(positions, registrars, strict=True):
        nft = key(fields["mint"])
        assert helium.POSITION.found_by(data) == [nft]
        [found] = read(
            account(helium.POSITION, data),
            others=(account(helium.REGISTRAR, terms, REGISTRAR),),
            tokens={nft: 1},
        )
        of_mint = of["voting_mints"][int(fields["voting_mint_config_idx"])]
        amount, now_s = int(fields["amount_deposited_native"]), NOW_S + int(of["time_offset"])
        start_s, end_s = int(fields["lockup"]["start_ts"]), int(fields["lockup"]["end_ts"])
        votes = int(fields["num_active_votes"])
        is_free = end_s <= now_s and not votes
        role = Role.SUPPLY if is_free else Role.LOCKED
        assert lines(found) == [(role, key(of_mint["mint"]), amount)]
        assert found.locks[0].ends_ms == (end_s - int(of["time_offset"])) * 1000
        assert found.voting is not None
        assert found.voting.open_votes == votes
        expected = votes_of(fields, of_mint, start_s, end_s, now_s)
        assert found.voting.power_raw == expected
        powers += bool(expected)
    assert powers > WORLDS // 2


def votes_of(
    fields: dict[str, Any], of_mint: dict[str, Any], start_s: int, end_s: int, now_s: int
) -> int | None:
    """Return the votes of a position as the coder wrote it; None where the program would stop."""
    amount = int(fields["amount_deposited_native"])
    [kind] = fields["lockup"]["kind"]
    left_s = max(0, end_s - (start_s if kind == "Constant" else now_s))
    saturation_s = int(of_mint["lockup_saturation_secs"])
    most = amount * int(of_mint["max_extra_lockup_vote_weight_scaled_factor"]) // BILLION
    extra = 0
    if kind != "None" and left_s and most:
        if not saturation_s or most * min(left_s, saturation_s) >= 1 << 128:
            return None
        extra = floor(most * min(Fraction(left_s, saturation_s), Fraction(1)))
    baseline = amount * int(of_mint["baseline_vote_weight_scaled_factor"]) // BILLION
    multiplier = int(of_mint["genesis_vote_power_multiplier"])
    if now_s >= int(fields["genesis_end"]) or not multiplier:
        multiplier = 1
    total = (baseline + extra) * multiplier
    return total if total < 1 << 128 else None
