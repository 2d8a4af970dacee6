"""marginfi's banks and accounts, against its SDK and by hand; Carrot's, which copied them.

The SDK does not accrue, so amounts are compared at the time of the bank's last update and its
rates on their own. Its band is given to it as the bank has it cached, and its confidences are
those: how the program computes them from an oracle is not judged here.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.positions.prices import Prices
from api.positions.records import has_unknown, record
from api.tokens.reader import Tokens
from schemas.protocols import carrot, marginfi, marginfi_lending
from schemas.protocols.contract import (
    Account,
    Health,
    Held,
    Kind,
    Position,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.kamino_parts.reserve import RESERVE
from schemas.protocols.marginfi_emissions import earned
from schemas.protocols.marginfi_interest import rates_of, values_at
from schemas.protocols.math.i80f48 import i80f48
from schemas.protocols.mint import MINT
from schemas.solana.addresses import key, text
from tests.support import anchor, npm
from tests.support.exploring import examples
from tests.support.judging import judged

HERE = Path(__file__).parent / "marginfi_sdk"
CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p02-marginfi"
WALLET = bytes([1]) * 32
BANK_AT, DEBT_AT, GROUP_AT, RESERVE_AT = (bytes([n]) * 32 for n in (20, 21, 9, 22))
NOW_S = 1_763_000_000
ONE = 1 << 48
NEAR = Fraction(1, 10**9)
GROUP = marginfi.GROUP.tag + bytes(1056)
SIDES = ((272, 80), (256, 96))  # of a bank: shares and what one is worth, supplied and borrowed


def word(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)


def account(kind: Kind, data: bytes, address: bytes = b"a" * 32, slot: int = 5) -> Account:
    return Account(address, kind, 1, data, slot)


def bank(**fields: Any) -> bytes:
    """Return a bank of 6 decimals with price 2 +- 0.1, lent out by half at 10 % a year."""
    data = bytearray(marginfi.BANK_SIZE)
    struct.pack_into("<8s32sB32s", data, 0, marginfi.BANK.tag, b"m" * 32, 6, GROUP_AT)
    wide = {80: ONE, 96: ONE, 256: 500 * ONE, 272: 1000 * ONE, 312: ONE // 2, 344: ONE * 5 // 4}
    wide |= {1408: 2 * ONE, 1432: ONE // 10}
    for at, value in {**wide, **fields.get("wide", {})}.items():
        data[at : at + 16] = value.to_bytes(16, "little", signed=True)
    struct.pack_into("<q", data, 288, fields.get("updated_s", NOW_S))
    flat = (2**32 - 1) // 100
    struct.pack_into("<IIB", data, 496, flat, flat, 0)
    data[544] = fields.get("curve", 1)
    data[785] = fields.get("asset_tag", 0)
    struct.pack_into("<Q", data, 840, fields.get("flags", 0))
    struct.pack_into("<Q", data, 936, fields.get("emode_flags", 0))
    struct.pack_into("<H", data, 920, fields.get("emode_tag", 0))
    data[8:40] = fields.get("mint", b"m" * 32)
    return bytes(data)


def holder(*balances: tuple[bytes, int, int, int], tag: bytes = marginfi.ACCOUNT.tag) -> bytes:
    data = bytearray(2312)
    data[:72] = tag + GROUP_AT + WALLET
    for number, (of, supplied, borrowed, emissions) in enumerate(balances):
        at = 72 + number * 104
        data[at : at + 33] = b"\1" + of
        for offset, value in ((40, supplied), (56, borrowed), (72, emissions)):
            data[at + offset : at + offset + 16] = value.to_bytes(16, "little", signed=True)
    return bytes(data)


def run(reading: Any, known: Mapping[bytes, Account]) -> list[Position]:
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        positions: list[Position] = end.value
        return positions
    raise AssertionError("it asks for ever")


def read(
    data: bytes, banks: Mapping[bytes, bytes], now_s: int = NOW_S, group: bytes = GROUP
) -> list[Position]:
    known = {at: account(marginfi.BANK, of, at, 3) for at, of in banks.items()}
    known[GROUP_AT] = account(marginfi.GROUP, group, GROUP_AT, 4)
    held = Held(WALLET, [account(marginfi.ACCOUNT, data)])
    return run(marginfi.read(held, World(9, now_s, 1)), known)


def test_a_deposit_and_a_debt_have_amounts_rounded_for_the_bank_and_health() -> None:
    data = holder((BANK_AT, 1000 * ONE + 7, 0, 0), (DEBT_AT, 0, 100 * ONE + 7, 0))
    [lending] = read(data, {BANK_AT: bank(), DEBT_AT: bank(mint=b"d" * 32)})
    assert [(each.role, each.amount_raw) for each in lending.assets] == [
        (Role.SUPPLY, 1000),
        (Role.BORROW, 101),
    ]
    assert lending.reference_slot == 3
    assert lending.health is not None
    assert lending.health.health_factor is not None
    low, high = Fraction(2 * ONE - ONE // 10, ONE), Fraction(2 * ONE + ONE // 10, ONE)
    assert lending.health.health_factor == (1000 * low / 2) / (101 * high * Fraction(5, 4))


def test_interest_of_a_year_is_due() -> None:
    data = holder((BANK_AT, 1_000_000 * ONE, 1_000_000 * ONE, 0))
    [lending] = read(data, {BANK_AT: bank()}, NOW_S + 31_536_000)
    assert [each.amount_raw for each in lending.assets] == [1_049_999, 1_100_000]


def lent_on(
    supply: int, collateral: int, mint: bytes = b"m" * 32, *, is_paying: bool = False
) -> Account:
    """A reserve of Kamino: so much of a token for so many collateral tokens."""
    data = bytearray(RESERVE.size or 0)
    data[:8] = RESERVE.tag
    data[128:160] = mint
    fields = {16: 8, 224: supply, 272: 6, 2592: collateral}
    for at, value in {**fields, **({440: 1, 5792: 1} if is_paying else {})}.items():
        struct.pack_into("<Q", data, at, value)
    struct.pack_into("<IIII", data, 4920, 0, 0, 10_000, 0)
    return account(RESERVE, bytes(data), RESERVE_AT, 2)


def read_lent_on(reserve: Account | None, shares: int = 7, debt: int = 0) -> Position:
    """Read a deposit in a bank of asset tag 3, that is in collateral tokens of a reserve."""
    lending_on = bytearray(bank(asset_tag=3, wide={256: 0}))
    lending_on[1560:1592] = RESERVE_AT
    known = {
        BANK_AT: account(marginfi.BANK, bytes(lending_on), BANK_AT, 3),
        GROUP_AT: account(marginfi.GROUP, GROUP, GROUP_AT, 4),
    }
    if reserve is not None:
        known[RESERVE_AT] = reserve
    data = holder((BANK_AT, shares * ONE, debt * ONE, 0))
    held = Held(WALLET, [account(marginfi.ACCOUNT, data)])
    [lending] = run(marginfi.read(held, World(9, NOW_S, 1)), known)
    return lending


def test_deposits_of_a_bank_that_lends_on_to_kamino_are_what_its_reserve_redeems() -> None:
    """One raw unit of such a bank, handed to a stranger, made the whole wallet unknown."""
    lending = read_lent_on(lent_on(3000, 2000))
    assert [(each.role, each.mint, each.amount_raw, each.decimals) for each in lending.assets] == [
        (Role.SUPPLY, b"m" * 32, 10, 6)
    ]
    assert lending.reference_slot == 2
    assert lending.assets[0].oracle_usd is None, "the bank's price may be of the shares"
    assert lending.health == Health(None, None, None)
    assert not [each for each in lending.unsupported_fields if each.startswith("amount")]


def test_what_a_bank_that_lends_on_has_is_named_without_its_own_reserve() -> None:
    """An account with such a deposit, handed to a stranger, made the whole wallet unknown."""
    for reserve in (None, lent_on(3000, 2000, b"x" * 32)):
        lending = read_lent_on(reserve)
        assert lending.assets == []
        assert lending.missing == []
        assert lending.health == Health(None, None, None)
        assert "shares of another protocol" in lending.unsupported_fields[0]
    paid = read_lent_on(lent_on(3000, 2000, is_paying=True))
    assert [(each.role, each.amount_raw) for each in paid.assets] == [(Role.SUPPLY, 10)]
    assert paid.health == Health(None, None, None)
    assert "has paid" in paid.unsupported_fields[0]
    owed = read_lent_on(lent_on(3000, 2000), shares=0, debt=5)
    assert [(each.role, each.amount_raw) for each in owed.assets] == [(Role.BORROW, None)]


def test_beside_a_debt_a_deposit_whose_amount_is_not_known_stays_a_line() -> None:
    """Without it the position would count as a loss."""
    data = holder((BANK_AT, 9 * ONE, 0, 0), (DEBT_AT, 0, ONE, 0))
    [lending] = read(data, {BANK_AT: bank(asset_tag=4), DEBT_AT: bank(mint=b"d" * 32)})
    assert [(each.role, each.amount_raw) for each in lending.assets] == [
        (Role.SUPPLY, None),
        (Role.BORROW, 1),
    ]
    known = Prices(Tokens({}, 9, 9, 9, 150.0), frozenset(), {}, markets=frozenset({GROUP_AT}))
    found = record("p02", lending, known)
    assert (found["borrowed_usd_micros"], found["value_usd_micros"]) == (None, "0")
    assert not has_unknown(found), "anybody can make such an account the wallet's"
    [staked] = read(data, {BANK_AT: bank(asset_tag=2), DEBT_AT: bank(mint=b"d" * 32)})
    assert (staked.assets[0].amount_raw, staked.assets[0].oracle_usd) == (9, None)
    assert record("p02", staked, known)["value_usd_micros"] == "0", "a stake has no price"
    [alone] = read(holder((BANK_AT, 9 * ONE, 0, 0)), {BANK_AT: bank(asset_tag=4)})
    assert alone.assets == []
    assert not has_unknown(record("p02", alone, known))


def test_what_is_in_a_group_names_it_and_the_main_group_is_verified() -> None:
    """The owner of a group sets its banks' prices, and can assign its accounts to anybody."""
    data = holder((BANK_AT, 1000 * ONE, 0, 5 * ONE))
    lending, rewards = read(data, {BANK_AT: bank()})
    assert (lending.open_markets, rewards.open_markets) == ([GROUP_AT], [GROUP_AT])
    main = key("4qp6Fx6tnZkY5Wropq9wUYgtFxXKwE6viZxFHg3rdAG8")
    assert marginfi.PROTOCOL.verified_markets == {main}


def emitting(flags: int, remaining: int = 10**9) -> bytes:
    """Return a bank that emits 1,000 units a year for each whole token."""
    data = bytearray(bank())
    struct.pack_into("<QQ", data, 840, flags, 1000)
    data[856:872] = (remaining * ONE).to_bytes(16, "little")
    data[872:904] = b"e" * 32
    return bytes(data)


def test_emissions_are_those_that_are_stored_and_those_since() -> None:
    lending, rewards = read(holder((BANK_AT, ONE, 0, 5 * ONE + 1)), {BANK_AT: bank()})
    assert (lending.route, rewards.route) == ("lending", "rewards")
    assert [(each.role, each.amount_raw) for each in rewards.assets] == [(Role.REWARD, 5)]
    a_year_ago = struct.pack("<Q", NOW_S - 31_536_000)
    for flags, sides, stored, earned_raw in (
        (2, (7_000_000, 0), 0, 7000),
        (2, (0, 7_000_000), 0, None),
        (1, (0, 7_000_000), 3, 7003),
        (3, (0, 7_000_000), 0, 7000),
        (1, (7_000_000, 0), 3, 3),
        (0, (7_000_000, 0), 0, None),
    ):
        shares = [each * ONE for each in (*sides, stored)]
        data = bytearray(holder((BANK_AT, *shares)))  # type: ignore[arg-type]
        data[160:168] = a_year_ago
        _, *rewards_of = read(bytes(data), {BANK_AT: emitting(flags)})
        lines = [(each.mint, each.amount_raw) for of in rewards_of for each in of.assets]
        assert lines == ([] if earned_raw is None else [(b"e" * 32, earned_raw)])
        assert not any(of.unsupported_fields for of in rewards_of)
    data[160:168] = a_year_ago
    [_, rewards] = read(bytes(data), {BANK_AT: emitting(2, remaining=11)})
    assert [each.amount_raw for each in rewards.assets] == [11]
    data[160:168] = struct.pack("<Q", 1_681_989_982)
    assert len(read(bytes(data), {BANK_AT: emitting(2)})) == 1, "it begins now"


def test_interest_of_a_curve_that_the_program_refuses_is_not_known() -> None:
    data = holder((BANK_AT, 1000 * ONE, 0, 0), (DEBT_AT, 0, 100 * ONE, 0))
    old = {BANK_AT: bank(curve=0), DEBT_AT: bank(mint=b"d" * 32)}
    [lending] = read(data, old, NOW_S + 1)
    assert [(each.role, each.amount_raw) for each in lending.assets] == [
        (Role.SUPPLY, 1000),  # as of its last update: it can only be more
        (Role.BORROW, 101),
    ]
    assert lending.health == Health(None, None, None)
    old[DEBT_AT] = bank(mint=b"d" * 32, curve=0)
    [lending] = read(data, old, NOW_S + 1)
    [*_, debt, interest] = lending.assets
    assert (debt.role, debt.amount_raw) == (Role.BORROW, 100)
    assert (interest.role, interest.mint, interest.amount_raw) == (Role.BORROW, b"d" * 32, None)
    assert lending.health == Health(None, None, None)
    assert any("curve of three points" in each for each in lending.unsupported_fields)
    [lending] = read(data, old, NOW_S)
    assert len(lending.assets) == 2, "no time has passed"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"emode_flags": 1, "emode_tag": 7}, "e-mode"),
        ({"asset_tag": 3}, "shares of another protocol"),
        ({"wide": {1432: 0}}, "confidence"),
        ({"wide": {1408: 0}}, "price"),
    ],
)
def test_health_that_is_not_known_is_null_and_named(fields: dict[str, Any], named: str) -> None:
    data = holder((BANK_AT, 9 * ONE, 0, 0), (DEBT_AT, 0, ONE, 0))
    banks = {BANK_AT: bank(**fields), DEBT_AT: bank(mint=b"d" * 32, **fields)}
    [lending] = read(data, banks)
    assert lending.health is not None
    assert lending.health.health_factor is None
    assert any(named in each for each in lending.unsupported_fields)


def test_a_deposit_in_a_bank_that_pays_what_it_has_left_has_no_amount() -> None:
    """TOKENLESS_REPAYMENTS_COMPLETE is 1 << 6; one bit less allows what this one has finished."""
    data = holder((BANK_AT, 9 * ONE, 0, 0), (DEBT_AT, 0, ONE, 0))
    for flags, supplied in ((1 << 6, None), (1 << 5 | 1 << 6, None), (1 << 5, 9)):
        banks = {BANK_AT: bank(flags=flags), DEBT_AT: bank(mint=b"d" * 32)}
        [lending] = read(data, banks)
        assert [(each.role, each.amount_raw) for each in lending.assets] == [
            (Role.SUPPLY, supplied),
            (Role.BORROW, 1),
        ]
        assert lending.health is not None
        assert (lending.health.health_factor is None) is (supplied is None)
        is_named = any("what it has left" in each for each in lending.unsupported_fields)
        assert is_named is (supplied is None)
    [alone] = read(holder((BANK_AT, 9 * ONE, 0, 0)), {BANK_AT: bank(flags=1 << 6)})
    assert alone.assets == []
    assert "what it has left" in alone.unsupported_fields[0]
    debt = {BANK_AT: bank(), DEBT_AT: bank(mint=b"d" * 32, flags=1 << 6)}
    [lending] = read(data, debt)
    assert [each.amount_raw for each in lending.assets] == [9, 1]


def test_a_bank_that_is_not_there_is_missing() -> None:
    [lending] = read(holder((BANK_AT, ONE, 0, 0)), {})
    assert lending.missing == [BANK_AT]
    assert lending.assets == []


def test_another_wallets_account_is_not_read() -> None:
    held = Held(b"x" * 32, [account(marginfi.ACCOUNT, holder((BANK_AT, ONE, 0, 0)))])
    assert run(marginfi.read(held, World(9, NOW_S, 1)), {}) == []


@given(st.binary(max_size=2312), st.binary(max_size=1864), st.integers(0, 2**40))
def test_any_bytes_are_read_or_unreadable(owned: bytes, of: bytes, now_s: int) -> None:
    for size in (len(owned), 2312):
        data = (holder((BANK_AT, ONE, ONE, ONE))[:177] + owned).ljust(size, b"\xff")
        try:
            read(data, {BANK_AT: of, b"\xff" * 32: of.ljust(1864, b"\xff")}, now_s)
        except Unreadable as error:
            assert error.account == b"a" * 32  # noqa: PT017 - either outcome is right


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_shares_never_lose_worth_with_time(first: int, second: int) -> None:
    early, late = (values_at(bank(), GROUP, NOW_S + each) for each in sorted((first, second)))
    assert early is not None
    assert late is not None
    assert early.asset <= late.asset
    assert early.liability <= late.liability


def test_carrot_has_boost_as_of_the_last_update_and_crt() -> None:
    data = holder((BANK_AT, 1000 * ONE, 0, 9 * ONE), tag=carrot.ACCOUNT.tag)
    held = Held(WALLET, [account(carrot.ACCOUNT, data)], {carrot.CRT: 77})
    known = {
        BANK_AT: account(carrot.BANK, bank(flags=1 << 6), BANK_AT),  # not known to be flags there
        carrot.CRT: account(MINT, bytes(82), carrot.CRT),
    }
    lending, crt = run(carrot.read(held, World(9, NOW_S + 99, 1)), known)
    assert [(each.role, each.amount_raw) for each in lending.assets] == [
        (Role.SUPPLY, 1000),
    ]
    assert lending.health is None
    assert len(lending.unsupported_fields) == 2
    assert (crt.route, crt.stands_for) == ("positions", {carrot.CRT: 77})


def check(world: dict[str, Any]) -> None:
    banks = {key(at): base64.b64decode(data) for at, data in world["banks"].items()}
    [lending] = read(base64.b64decode(world["account"]), banks)
    lines = iter(lending.assets)
    for answer in world["answers"]:
        of = banks[key(answer["bank"])]
        supplied, borrowed = floor(Fraction(answer["supplied"])), ceil(Fraction(answer["borrowed"]))
        line = next(lines)
        assert line.amount_raw == (supplied or borrowed)
        assert line.role is (Role.SUPPLY if supplied else Role.BORROW)
        rates = rates_of(of, GROUP)
        assert rates is not None
        assert abs(Fraction(rates.lending, ONE) - Fraction(answer["lending"])) < NEAR
        assert abs(Fraction(rates.borrowing, ONE) - Fraction(answer["borrowing"])) < NEAR
    assert next(lines, None) is None
    assert lending.health is not None
    theirs = world["health"]
    factor = Fraction(theirs["assets"]) / Fraction(theirs["liabilities"])
    assert lending.health.health_factor is not None
    # Whole units here, parts of one there: a part in 10**9 where a debt is of few units.
    assert abs(lending.health.health_factor / factor - 1) < NEAR


def test_recorded_worlds_are_read_as_the_sdk_read_them() -> None:
    """Recorded with `node worlds.cjs 13 > worlds.jsonl`."""
    worlds = [json.loads(line) for line in (HERE / "worlds.jsonl").read_text().splitlines()]
    assert len(worlds) == 13
    for world in worlds:
        check(world)


def asked(request: pytest.FixtureRequest, which: str, given: str = "") -> list[dict[str, Any]]:
    folder = npm.installed(request, "marginfi-sdk", HERE, "@mrgnlabs/marginfi-client-v2")
    done = subprocess.run(
        ["node", "worlds.cjs", which],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


needs_sdk = pytest.mark.skipif(
    os.environ.get("MARGINFI_SDK") != "1", reason="127 MB: MARGINFI_SDK=1"
)


@pytest.mark.node
@needs_sdk
def test_random_worlds_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, "200")
    assert len(worlds) == 200
    for world in worlds:
        check(world)
    judged(worlds=len(worlds))


@pytest.mark.node
def test_fees_of_the_program_are_those_that_the_coder_writes(
    request: pytest.FixtureRequest,
) -> None:
    """The SDK knows no fees of the program; they come on top of what it says of a bank."""
    chance = Random(2)
    chosen = [
        {
            "group_flags": str(chance.choice((0, 1, 2, 3, 2**64 - 1))),
            "fee_state_cache.program_fee_fixed.value": word(chance.randrange(ONE // 9)).hex(),
            "fee_state_cache.program_fee_rate.value": word(chance.randrange(ONE // 4)).hex(),
        }
        for _ in range(200)
    ]
    coder, idl = anchor.coder(request), anchor.idl("p02-marginfi_v2.json")
    groups = anchor.asked(
        coder,
        [
            {"encode": "MarginfiGroup", "idl": idl, "seed": seed, "fields": fields}
            for seed, fields in enumerate(chosen)
        ],
    )
    worlds = [json.loads(line) for line in (HERE / "worlds.jsonl").read_text().splitlines()]
    banks = [
        (base64.b64decode(world["banks"][says["bank"]]), says)
        for world in worlds
        for says in world["answers"]
        if Fraction(says["lending"])
    ]
    for number, (fields, answer) in enumerate(zip(chosen, groups, strict=True)):
        group = base64.b64decode(answer["data"])
        assert marginfi.GROUP.matches(GROUP_AT, marginfi.PROGRAM, group)
        of, says = banks[number % len(banks)]
        supplied, owed = (i80f48(of, at) * i80f48(of, worth) for at, worth in SIDES)
        base = Fraction(says["lending"]) * supplied / owed
        fixed, rate = (
            Fraction(
                int.from_bytes(bytes.fromhex(fields[f"fee_state_cache.{name}.value"]), "little"),
                ONE,
            )
            for name in ("program_fee_fixed", "program_fee_rate")
        )
        added = base * rate + fixed if int(fields["group_flags"]) & 1 else Fraction(0)
        rates = rates_of(of, group)
        assert rates is not None
        assert abs(Fraction(rates.lending, ONE) - Fraction(says["lending"])) < NEAR
        assert abs(Fraction(rates.borrowing, ONE) - Fraction(says["borrowing"]) - added) < NEAR
        data = holder((BANK_AT, 0, 10**6 * ONE, 0))
        year = struct.unpack_from("<q", of, 288)[0] + 31_536_000
        due = bytearray(of)
        due[41:73] = GROUP_AT
        [lending] = read(data, {BANK_AT: bytes(due)}, year, group)
        exact = 10**6 * Fraction(i80f48(of, 96), ONE) * (1 + Fraction(rates.borrowing, ONE))
        assert lending.assets[0].amount_raw == ceil(exact)


def check_emissions(balance: dict[str, Any]) -> None:
    """Compare what a balance has earned; parts of a unit are cut off here, and rounded there."""
    of = base64.b64decode(balance["bank"])
    shares = int(balance["supplied"]), int(balance["borrowed"])
    ours = earned(of, *shares, balance["updated_s"], balance["time_s"])
    theirs = Fraction(balance["earned"])
    assert ours >> 48 == floor(theirs)
    assert abs(theirs - Fraction(ours, ONE)) < Fraction(1, 10**4)


def test_recorded_emissions_are_what_the_sdk_computed() -> None:
    """Recorded with `node emissions.cjs 12 > emissions.jsonl`."""
    balances = [json.loads(line) for line in (HERE / "emissions.jsonl").read_text().splitlines()]
    assert len(balances) == 12
    for balance in balances:
        check_emissions(balance)
    assert sum(Fraction(each["earned"]) > 0 for each in balances) > 6


@pytest.mark.node
@pytest.mark.skipif(os.environ.get("MARGINFI_SDK") != "1", reason="127 MB: MARGINFI_SDK=1")
def test_emissions_of_random_balances_are_what_the_sdk_computes(
    request: pytest.FixtureRequest,
) -> None:
    folder = npm.installed(request, "marginfi-sdk", HERE, "@mrgnlabs/marginfi-client-v2")
    done = subprocess.run(
        ["node", "emissions.cjs", "200"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    balances = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(balances) == 200
    for balance in balances:
        check_emissions(balance)
    judged(worlds=len(balances))


@pytest.fixture(scope="module")
def recorded() -> dict[bytes, Account]:
    """The real accounts by address."""
    if not CORPUS.exists():
        pytest.skip("the corpus of real accounts is not here")
    known: dict[bytes, Account] = {}
    for file in sorted(CORPUS.glob("*.json")):
        found = json.loads(file.read_text())
        data = base64.b64decode(found["account"]["data"][0])
        at = key(found["pubkey"])
        [kind] = (
            each for each in marginfi.PROTOCOL.kinds if each.matches(at, marginfi.PROGRAM, data)
        )
        known[at] = account(kind, data, at)
    return known


def of_kind(known: Mapping[bytes, Account], kind: Kind) -> dict[bytes, Account]:
    return {at: each for at, each in known.items() if each.kind is kind}


def test_real_accounts_are_read(recorded: dict[bytes, Account]) -> None:
    owners = of_kind(recorded, marginfi.ACCOUNT).values()
    assert len(owners) == 5
    positions = []
    for each in owners:
        held = Held(each.data[40:72], [each])
        positions += run(marginfi.read(held, World(9, NOW_S, 1)), recorded)
    assert {each.route for each in positions} == {"lending"}
    amounts = {line.amount_raw for each in positions for line in each.assets}
    assert {738280152, 679254161} <= amounts


@pytest.mark.node
@needs_sdk
def test_real_accounts_and_banks_are_read_as_the_sdk_reads_them(
    request: pytest.FixtureRequest, recorded: dict[bytes, Account]
) -> None:
    """As of the banks' last updates. Each bank also has ten accounts that the SDK made up.

    No health is compared: one bank alone has a price in its cache, and that without a confidence.
    """
    banks, owners = (of_kind(recorded, each) for each in (marginfi.BANK, marginfi.ACCOUNT))
    given = {
        "banks": {text(at): base64.b64encode(each.data).decode() for at, each in banks.items()},
        "accounts": [base64.b64encode(each.data).decode() for each in owners.values()],
    }
    worlds = asked(request, "real", json.dumps(given))
    assert len(worlds) == len(owners) + 10 * len(banks) == 105
    [group] = of_kind(recorded, marginfi.GROUP).values()
    compared = with_rates = 0
    for world in worlds:
        data = base64.b64decode(world["account"])
        held = Held(data[40:72], [account(marginfi.ACCOUNT, data)])
        found = run(marginfi.read(held, World(9, 0, 1)), recorded)
        lines = [line for each in found for line in each.assets]
        for line, says in zip(lines, world["answers"], strict=True):
            bank = banks[key(says["bank"])].data
            supplied, borrowed = floor(Fraction(says["supplied"])), ceil(Fraction(says["borrowed"]))
            assert (line.role, line.mint) == (Role.SUPPLY if supplied else Role.BORROW, bank[8:40])
            assert line.amount_raw == (supplied or borrowed)
            assert line.weight is not None
            assert abs(line.weight - Fraction(says["weights"][not supplied])) < NEAR
            compared += 1
            if (rates := rates_of(bank, group.data)) is not None:
                assert abs(Fraction(rates.lending, ONE) - Fraction(says["lending"])) < NEAR
                assert abs(Fraction(rates.borrowing, ONE) - Fraction(says["borrowing"])) < NEAR
                with_rates += 1
        assert {each.health.health_factor for each in found if each.health} <= {None}
    assert (compared, with_rates) == (202, 20)
    judged(accounts=len(banks) + len(owners) + 1)


WORDS = st.integers(-(2**127), 2**127 - 1)


@given(st.lists(st.tuples(st.booleans(), WORDS, WORDS, WORDS), min_size=16, max_size=16))
@examples(100)
def test_balances_are_what_their_fields_say_one_by_one(
    slots: list[tuple[bool, int, int, int]],
) -> None:
    data = bytearray(marginfi_lending.ACCOUNT_SIZE)
    expected: list[tuple[bytes, int, int, int, int]] = []
    for number, (is_active, *amounts) in enumerate(slots):
        at, bank_at = 72 + 104 * number, bytes([number + 1]) * 32
        data[at : at + 33] = bytes([is_active]) + bank_at
        for offset, amount in zip((40, 56, 72), amounts, strict=True):
            data[at + offset : at + offset + 16] = amount.to_bytes(16, "little", signed=True)
        if is_active:
            a, b, c = (i80f48(bytes(data), at + offset) for offset in (40, 56, 72))
            data[at + 88 : at + 96] = struct.pack("<Q", number + 1)
            expected.append((bank_at, a, b, c, number + 1))
    of = account(marginfi.ACCOUNT, bytes(data))
    # private `_balances`: a reading shows products of shares with prices, which hide a wrong half.
    if any(min(each[1:]) < 0 for each in expected):
        with pytest.raises(Unreadable, match="negative shares or emissions"):
            marginfi_lending._balances(of)
    else:
        assert marginfi_lending._balances(of) == expected
