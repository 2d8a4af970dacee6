"""Kamino's loans and farms, against its SDKs on bytes that Anchor's coder wrote.

The SDKs are 264 MB: with KLEND_SDK=1 they are installed and answer 200 worlds of each kind; their
answers to 20 of each are recorded beside the test. To record them anew:
`KLEND_SDK=1 KLEND_RECORD=1 pytest tests/schemas/protocols/test_kamino.py -k recorded_anew`.

Known differences. klend-sdk counts with 20 digits and a float as borrow rate, the program with 60
bits behind the point, cut off, which we follow. The square of a slot's rate is some 20 units of
2**-60, so that n slots after a refresh an amount may differ by amount * n**2 / 2**60, and no line
may by more: of 10**12 units, after an hour, 45; after a minute none. farms-sdk issues
fractions of rewards and rounds the user's to the nearest, the program cuts off at both, and so do
we. The judge makes the SDK's decimals cut off: where whole units are issued all are equal, else
ours is below by at most one unit.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from collections.abc import Mapping
from contextlib import suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import kamino
from schemas.protocols.contract import (
    Account,
    Health,
    Held,
    Kind,
    Position,
    Role,
    Unreadable,
    World,
    issuer_of,
)
from schemas.protocols.kamino_parts import farms, lending
from schemas.protocols.kamino_parts.reserve import RESERVE, compounded
from schemas.protocols.registry import kind_of, verified_markets
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import key, text
from tests.support import anchor, npm
from tests.support.exploring import examples
from tests.support.judging import judged

SDKS = Path(__file__).parent / "kamino_sdks"
RECORDED = SDKS / "recorded.json"
SHARED = Path(__file__).parents[4] / "shared"
IDLS = [
    SHARED / "facts" / "positions" / "idl" / f"p01-kamino_{of}.json" for of in ("lend", "farms")
]
CORPUS = SHARED / "corpus" / "accounts" / "p01-kamino"
KINDS = {kind.name: kind for kind in kamino.PROTOCOL.kinds}
WALLET, OTHER, FARM, MINT, SHARE, PAYS = (bytes([n]) * 32 for n in range(1, 7))
WAD = 10**18
SLOT, NOW_S = 1_000, 1_800_000_000
needs_sdks = pytest.mark.skipif(
    not os.environ.get("KLEND_SDK") or not all(each.exists() for each in IDLS),
    reason="KLEND_SDK is not set, or there are no IDLs here",
)


def read(
    wallet: bytes,
    accounts: Mapping[bytes, Account],
    *,
    slot: int = SLOT,
    time_s: int = NOW_S,
    tokens: Mapping[bytes, int] | None = None,
) -> list[Position]:
    own = [
        each
        for each in accounts.values()
        if {wallet, *(tokens or {})} & {*each.kind.found_by(each.data)}
    ]
    reading = kamino.read(Held(wallet, own, tokens or {}), World(slot, time_s, 1))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: accounts[each] for each in wanted if each in accounts})
    except StopIteration as end:
        return list(end.value)
    raise AssertionError("more rounds than the driver allows")


def unpacked(world: Mapping[str, Any]) -> dict[bytes, Account]:
    found = {}
    for address, (name, packed) in world["accounts"].items():
        data = zlib.decompress(base64.b64decode(packed))
        assert kind_of(key(address), KINDS[name].program, data) is KINDS[name]
        found[key(address)] = Account(key(address), KINDS[name], 1, data, 7)
    return found


def asked(request: pytest.FixtureRequest, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    folder = npm.installed(request, "kamino-sdks", SDKS, "@kamino-finance/klend-sdk")
    lines = [{"idls": [str(each) for each in IDLS]}, *questions]
    done = subprocess.run(
        ["node", "worlds.cjs"],
        cwd=folder,
        input="\n".join(json.dumps(each) for each in lines),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(questions)
    return answers


def near(ours: Fraction | None, theirs: Decimal | None) -> None:
    if ours is None or theirs is None:
        assert ours is None
        assert theirs is None
        return
    assert abs(ours - Fraction(theirs)) <= abs(Fraction(theirs)) * Fraction(1, 10**9)


def by_cut_off(amount: Decimal, slots: int) -> int:
    """Return by how many units the bits that the program cuts off may change an amount.

    It loses less than 2**-60 of the rate of a slot and as much of its square; the binomial series
    multiplies the first by n, the second by n**2 / 2. That of the debt and of the host count.
    """
    lost = int(amount) * (2 * slots + slots**2)
    return 0 if lost < 2**40 else 1 + (lost >> 60)


def check_loan(world: Mapping[str, Any]) -> list[int]:
    """Compare a world's loan with klend-sdk's; returns the differences of its lines."""
    accounts = unpacked(world)
    [position] = read(key(world["wallet"]), accounts, slot=int(world["slot"]))
    assert position.route == "lending"
    assert not position.missing
    differences = []
    for role, lines, rounding in (
        (Role.SUPPLY, world["deposits"], ROUND_FLOOR),
        (Role.BORROW, world["borrows"], ROUND_CEILING),
    ):
        ours = {text(each.mint): each.amount_raw for each in position.assets if each.role is role}
        assert ours.keys() == lines.keys()
        for mint, amount in lines.items():
            exact = Decimal(amount)
            off = (ours[mint] or 0) - int(exact.to_integral_value(rounding))
            assert abs(off) <= by_cut_off(exact, world["elapsed"]), (mint, amount, ours[mint])
            differences.append(off)
    debt, limit, collateral = (Decimal(world[name]) for name in ("debt", "limit", "collateral"))
    health = position.health
    assert health is not None
    if min(Decimal(each) for each in world["deposits"].values()) < Decimal("1e-6"):
        return differences  # dust of a dust: the program itself keeps 60 bits of it
    near(health.health_factor, limit / debt if debt else None)
    near(health.ltv, debt / collateral if collateral else None)
    near(health.liquidation_ltv, limit / collateral if collateral else None)
    return differences


def check_farm(world: Mapping[str, Any]) -> list[int]:
    """Compare a world's farm with farms-sdk's; returns the differences of its rewards.

    The SDK knows no vaults: here each holds more than anybody can have earned.
    """
    accounts = unpacked(world)
    for each in [each for each in accounts.values() if each.kind is farms.FARM_STATE]:
        data = bytearray(each.data)
        for number in range(10):
            at = 192 + 704 * number
            vault = sha256(each.address + bytes([number])).digest()
            data[at + 120 : at + 152] = vault
            accounts[vault] = holding(2**64 - 1, bytes(data[at : at + 32]), vault)
        accounts[each.address] = each._replace(data=bytes(data))
    slot, time_s = int(world["slot"]), int(world["time_s"])
    positions = read(key(world["wallet"]), accounts, slot=slot, time_s=time_s)
    found = {each.route: each for each in positions}
    assert "staking" not in found or not world["delegated"]
    staked = sum(
        each.amount_raw or 0
        for each in (found["staking"].assets if "staking" in found else ())
        if each.role in (Role.SUPPLY, Role.LOCKED)
    )
    assert staked == int(world["staked"])
    lines = found["rewards"].assets if "rewards" in found else []
    ours = {text(each.mint): each.amount_raw for each in lines}
    differences = []
    for mint, amount in world["rewards"].items():
        off = int(amount) - (ours.get(mint) or 0)
        assert 0 <= off <= (0 if world["whole"] else 1), (mint, amount, ours.get(mint))
        differences.append(off)
    return differences


@pytest.mark.node
@needs_sdks
def test_200_loans_are_read_as_klend_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, [{"loan": seed} for seed in range(200)])
    differences = [each for world in worlds for each in check_loan(world)]
    assert len(differences) > 500
    judged(worlds=len(worlds), differences=sum(map(bool, differences)))


@pytest.mark.node
@needs_sdks
def test_200_farms_are_read_as_farms_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, [{"farm": seed} for seed in range(200)])
    differences = [each for world in worlds for each in check_farm(world)]
    assert len(differences) > 500
    judged(worlds=len(worlds), differences=sum(map(bool, differences)))


@pytest.mark.node
@needs_sdks
def test_random_accounts_are_of_their_kind_and_never_break_a_reading(
    request: pytest.FixtureRequest,
) -> None:
    kinds = (
        ("Obligation", "lend", lending.OBLIGATION, ("owner",)),
        ("Reserve", "lend", RESERVE, ("collateral.mint_pubkey",)),
        ("LendingMarket", "lend", lending.LENDING_MARKET, ()),
        ("WithdrawTicket", "lend", lending.TICKET, ("owner",)),
        ("UserState", "farms", farms.USER_STATE, ("owner",)),
        ("FarmState", "farms", farms.FARM_STATE, ()),
    )
    for name, of, kind, finders in kinds:
        asking = [{"account": name, "of": of, "seed": seed} for seed in range(200)]
        for theirs in asked(request, asking):
            data = zlib.decompress(base64.b64decode(theirs["data"]))
            assert kind_of(OTHER, kind.program, data) is kind
            found_by = [key(theirs["leaves"][each]) for each in finders]
            assert kind.found_by(data) == found_by
            account = Account(OTHER, kind, 1, data, 7)
            for wallet in found_by:
                unless_unreadable(wallet, {OTHER: account}, {wallet: 5})
        judged(worlds=len(asking))


@pytest.mark.node
def test_withdrawals_that_wait_are_what_the_coder_wrote(request: pytest.FixtureRequest) -> None:
    chance = Random(1)
    fields = [
        {
            "owner": text(WALLET),
            "reserve": text(OTHER),
            "queued_collateral_amount": str(chance.randrange(1 << chance.randrange(1, 40))),
        }
        for _ in range(200)
    ]
    idl = anchor.idl("p01-kamino_lend.json")
    answers = anchor.asked(
        anchor.coder(request),
        [
            {"encode": "WithdrawTicket", "idl": idl, "seed": seed, "fields": each}
            for seed, each in enumerate(fields)
        ],
    )
    reserve = account(OTHER, RESERVE, reserve_data(3000, 2000))
    for wanted, answer in zip(fields, answers, strict=True):
        data = base64.b64decode(answer["data"])
        assert kind_of(MINT, lending.TICKET.program, data) is lending.TICKET
        found = read(WALLET, {OTHER: reserve, MINT: account(MINT, lending.TICKET, data)})
        redeemed = int(wanted["queued_collateral_amount"]) * 3000 // 2000
        lines = [(each.role, each.amount_raw) for of in found for each in of.assets]
        assert lines == [(Role.PENDING, redeemed)] * bool(redeemed)


@pytest.mark.node
@needs_sdks
@pytest.mark.skipif(not os.environ.get("KLEND_RECORD"), reason="records only when it is asked to")
def test_recorded_anew(request: pytest.FixtureRequest) -> None:
    questions = [{of: seed} for of in ("loan", "farm") for seed in range(1000, 1020)]
    answers = asked(request, questions)
    worlds = {"loans": answers[:20], "farms": answers[20:]}
    RECORDED.write_text(json.dumps(worlds, separators=(",", ":")) + "\n")
    assert RECORDED.stat().st_size < 200_000


def test_recorded_loans_are_read_as_klend_sdk_reads_them() -> None:
    worlds = json.loads(RECORDED.read_text())["loans"]
    assert len(worlds) == 20
    differences = [each for world in worlds for each in check_loan(world)]
    assert len(differences) > 50
    assert sum(map(bool, differences)) <= 5, "large amounts, long after a refresh"


def test_recorded_farms_are_read_as_farms_sdk_reads_them() -> None:
    worlds = json.loads(RECORDED.read_text())["farms"]
    assert len(worlds) == 20
    assert sum(len(check_farm(world)) for world in worlds) > 50


def recorded() -> dict[bytes, Account]:
    """The real accounts of klend by address."""
    accounts = {}
    for file in sorted(CORPUS.glob("*.json")):
        found = json.loads(file.read_text())
        data = base64.b64decode(found["account"]["data"][0])
        program = key(found["account"]["owner"])
        kind = kind_of(key(found["pubkey"]), program, data)
        if kind is not None:
            accounts[key(found["pubkey"])] = Account(key(found["pubkey"]), kind, 1, data, 7)
    assert {each.kind.name for each in accounts.values()} == {"kamino_obligation", "kamino_reserve"}
    return accounts


@pytest.mark.node
@needs_sdks
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_real_accounts_are_read_as_klend_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    """Also loans that are made up, of which one deposit or debt is in the real reserve."""
    real = {
        each.kind: [text(each.address), base64.b64encode(each.data).decode()]
        for each in recorded().values()
    }
    questions: list[dict[str, Any]] = [
        {"loan": seed, "reserve": real[RESERVE]} for seed in range(40)
    ]
    both = {"reserve": real[RESERVE], "obligation": real[lending.OBLIGATION]}
    questions += [{"loan": seed, **both} for seed in range(20)]
    worlds = asked(request, questions)
    mints = [{*each["deposits"], *each["borrows"]} for each in worlds]
    mint = text(base64.b64decode(real[RESERVE][1])[128:160])
    assert sum(mint in each for each in mints) > 40
    differences = [each for world in worlds for each in check_loan(world)]
    judged(accounts=len(real), differences=sum(map(bool, differences)))


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_a_recorded_obligation_and_reserve_are_read() -> None:
    """The obligation has the program's own values, of a day before the reserve was recorded."""
    accounts = recorded()
    [obligation] = [each for each in accounts.values() if each.kind is lending.OBLIGATION]
    [reserve] = [each for each in accounts.values() if each.kind is RESERVE]
    slot = int.from_bytes(reserve.data[16:24], "little")
    [position] = read(obligation.data[64:96], accounts, slot=slot)
    assert not position.missing
    [deposit] = position.assets
    assert deposit.oracle_usd is not None
    value = Fraction(deposit.amount_raw or 0, 10 ** (deposit.decimals or 0)) * deposit.oracle_usd
    theirs, limit = (int.from_bytes(obligation.data[at : at + 16], "little") for at in (1192, 2256))
    assert abs(value * 2**60 / theirs - 1) < Fraction(1, 10), "but for a day's change of price"
    assert position.health is not None
    assert position.health.health_factor is None, "it owes nothing"
    assert position.health.liquidation_ltv is not None
    assert abs(position.health.liquidation_ltv - Fraction(limit, theirs)) < Fraction(1, 10**9)
    [tokens] = read(WALLET, accounts, slot=slot, tokens={reserve.data[2560:2592]: 10**9})
    [asset] = tokens.assets
    assert asset.amount_raw is not None
    assert 10**9 <= asset.amount_raw < 2 * 10**9, "a collateral token is worth more with time"
    later = read(WALLET, accounts, slot=slot + 10**6, tokens={reserve.data[2560:2592]: 10**9})
    assert (later[0].assets[0].amount_raw or 0) > asset.amount_raw


def put(data: bytearray, at: int, value: int, size: int = 8) -> None:
    data[at : at + size] = value.to_bytes(size, "little")


def reserve_data(supply: int, shares: int, debt: int = 0, slot: int = SLOT) -> bytes:
    data = bytearray(RESERVE.size or 0)
    data[:8] = RESERVE.tag
    put(data, 16, slot)
    data[128:160] = MINT
    put(data, 224, supply - debt)
    put(data, 232, debt << 60, 16)
    put(data, 248, 2 << 60, 16)
    put(data, 272, 6)
    put(data, 296, 1 << 60)
    data[2560:2592] = SHARE
    put(data, 2592, shares)
    data[4872], data[4873] = 70, 80
    put(data, 5008, 125)
    for number in range(11):
        put(data, 4920 + 8 * number, number * 1000, 4)
        put(data, 4924 + 8 * number, number * 500, 4)
    return bytes(data)


def obligation_data(deposit: int, debt: int, group: int = 0) -> bytes:
    data = bytearray(lending.OBLIGATION.size or 0)
    data[:8] = lending.OBLIGATION.tag
    data[64:96] = WALLET
    data[96:128] = OTHER
    put(data, 128, deposit)
    data[1208:1240] = OTHER
    put(data, 1240, 1 << 60)
    put(data, 1296, debt << 60, 16)
    data[2285] = group
    return bytes(data)


def user_data(active: int, unclaimed: int = 0, leaving: int = 0) -> bytearray:
    data = bytearray(farms.USER_STATE.size or 0)
    data[:8] = farms.USER_STATE.tag
    data[16:48], data[48:80] = FARM, WALLET
    put(data, 248, unclaimed)
    put(data, 408, active * WAD, 16)
    put(data, 448, leaving * WAD, 16)
    put(data, 464, NOW_S + 60)
    put(data, 512, NOW_S - 10)
    return data


def farm_data(staked: int, rate: int, available: int) -> bytearray:
    data = bytearray(farms.FARM_STATE.size or 0)
    data[:8] = farms.FARM_STATE.tag
    data[72:104] = MINT
    put(data, 104, 6)
    data[192:224] = SHARE
    put(data, 192 + 32, 9)
    data[192 + 120 : 192 + 152] = PAYS
    put(data, 192 + 152, available)
    put(data, 192 + 160, 1)
    put(data, 192 + 168, rate)
    for number in range(1, 20):
        put(data, 192 + 160 + 16 * number, 2**64 - 1)
    put(data, 192 + 488, NOW_S - 100)
    put(data, 7232, 1)
    put(data, 7248, staked)
    put(data, 7408, staked * WAD, 16)
    put(data, 7424, staked * WAD, 16)
    put(data, 7440, staked)
    put(data, 7568, 2**64 - 1)
    return data


def account(address: bytes, kind: Kind, data: bytes) -> Account:
    return Account(address, kind, 1, bytes(data), 7)


def holding(amount: int, mint: bytes = SHARE, address: bytes = PAYS) -> Account:
    data = bytearray(165)
    data[:64] = mint + OTHER
    put(data, 64, amount)
    data[108] = 1
    return account(address, TOKEN, data)


def loan(data: bytes, reserve: bytes) -> dict[bytes, Account]:
    return {
        FARM: account(FARM, lending.OBLIGATION, data),
        OTHER: account(OTHER, RESERVE, reserve),
    }


def staked(user: bytes, farm: bytes) -> dict[bytes, Account]:
    return {
        OTHER: account(OTHER, farms.USER_STATE, user),
        FARM: account(FARM, farms.FARM_STATE, farm),
        PAYS: holding(10**12),
    }


def unless_unreadable(
    wallet: bytes,
    accounts: Mapping[bytes, Account],
    tokens: Mapping[bytes, int],
    *,
    slot: int = SLOT,
    time_s: int = NOW_S,
) -> list[Position]:
    with suppress(Unreadable):
        return read(wallet, accounts, slot=slot, time_s=time_s, tokens=tokens)
    return []


def test_a_loan_has_its_redeemable_deposit_its_debt_and_its_health() -> None:
    [position] = read(WALLET, loan(obligation_data(100, 30), reserve_data(3000, 2000)))
    supply, borrow = position.assets
    assert (supply.role, supply.amount_raw, supply.weight) == (Role.SUPPLY, 150, Fraction(4, 5))
    assert (borrow.role, borrow.amount_raw, borrow.weight) == (Role.BORROW, 30, Fraction(5, 4))
    assert supply.oracle_usd == 2
    assert position.reference_slot == 7
    assert position.health is not None
    assert position.health.health_factor == Fraction(120 * 4, 150)
    assert position.health.ltv == Fraction(150, 600)


def test_rewards_since_a_reserves_refresh_are_named_and_no_line_without_an_amount() -> None:
    """One collateral token of a reserve that pays rewards made the whole wallet unknown."""
    paying = bytearray(reserve_data(3000, 2000))
    put(paying, 440, 5)
    put(paying, 5792, 1)
    accounts = loan(obligation_data(100, 30), bytes(paying))
    [refreshed] = read(WALLET, accounts)
    assert [each.amount_raw for each in refreshed.assets] == [150, 30]
    [later] = read(WALLET, accounts, slot=SLOT + 1)
    assert [(each.role, each.mint, each.amount_raw) for each in later.assets] == [
        (Role.SUPPLY, MINT, 150),
        (Role.BORROW, MINT, 30),
    ]
    assert later.health == Health(None, None, None)
    assert [each.split(":")[0] for each in later.unsupported_fields] == [
        "assets.amount_raw",
        "health",
    ]
    del accounts[FARM]
    [tokens] = read(WALLET, accounts, slot=SLOT + 1, tokens={SHARE: 7})
    assert [(each.role, each.amount_raw) for each in tokens.assets] == [(Role.SUPPLY, 10)]
    assert [each.split(":")[0] for each in tokens.unsupported_fields] == ["assets.amount_raw"]


def test_a_debt_grows_and_is_rounded_up() -> None:
    reserve = reserve_data(4 * 10**12, 4 * 10**12, 2 * 10**12)
    data = obligation_data(0, 10**12)
    amounts = [
        read(WALLET, loan(data, reserve), slot=SLOT + slots)[0].assets[0].amount_raw
        for slots in (0, 1, 2, 63_072_000)
    ]
    with localcontext() as context:
        context.prec = 50
        one = Decimal(10**12) * (1 + Decimal("0.25") / 63_072_000)
        assert amounts[0] == 10**12
        assert amounts[1] == int(one.to_integral_value(ROUND_CEILING))
    # Of the square of a slot's rate the program keeps 18 units, of its third power none.
    year = 63_072_000
    grown = (1 << 60) + (((1 << 60) // 4) // year) * year + 18 * year * (year - 1) // 2
    assert amounts[3] == -(-(10**12) * grown >> 60)


def test_a_point_of_the_curve_is_the_rate_of_what_rounds_to_it() -> None:
    reserve = reserve_data(10**6, 10**6, 500_010)  # 5,000.1 basis points are used
    [position] = read(WALLET, loan(obligation_data(0, 10**15), reserve), slot=SLOT + 1)
    a_slot = (1 << 60) // 4 // 63_072_000
    assert position.assets[0].amount_raw == -(-(10**15) * ((1 << 60) + a_slot) >> 60)


@pytest.mark.parametrize("point", range(11))
def test_each_of_the_eleven_points_of_a_curve_is_the_rate_of_its_utilization(point: int) -> None:
    reserve = reserve_data(10**6, 10**6, point * 100_000)
    [position] = read(WALLET, loan(obligation_data(0, 10**15), reserve), slot=SLOT + 1)
    a_slot = (point << 60) // 20 // 63_072_000  # 5 % a year for each point
    assert position.assets[0].amount_raw == -(-(10**15) * ((1 << 60) + a_slot) >> 60)


def test_a_reserves_tokens_have_as_many_decimals_as_64_bits_hold_their_power_of_ten() -> None:
    data = bytearray(reserve_data(3000, 2000))
    put(data, 272, 19)
    [position] = read(WALLET, loan(obligation_data(100, 30), bytes(data)))
    assert {each.decimals for each in position.assets} == {19}
    for more in (20, 2**64 - 1):  # anybody can open a market with such a reserve: no error
        put(data, 272, more)
        [position] = read(WALLET, loan(obligation_data(100, 30), bytes(data)))
        assert [each.amount_raw for each in position.assets] == [150, 30]
        assert {each.decimals for each in position.assets} == {None}
        assert position.health == Health(None, None, None)
        held = {OTHER: account(OTHER, RESERVE, bytes(data))}
        [tokens] = read(WALLET, held, tokens={SHARE: 7})
        assert [(each.amount_raw, each.decimals) for each in tokens.assets] == [(10, None)]


def test_interest_may_exceed_the_debt() -> None:
    """Of the square of a slot's rate, 2**60 / 63,072,000**2, 289 units are kept, of its cube 0."""
    slots = 3 * 63_072_000
    a_slot = (1 << 60) // 63_072_000
    grown = (1 << 60) + a_slot * slots + 289 * slots * (slots - 1) // 2
    assert compounded(1 << 60, slots) == grown


def test_what_a_loan_lacks_is_named_and_leaves_its_health_unknown() -> None:
    accounts = loan(obligation_data(100, 30, group=2), reserve_data(3000, 2000))
    [position] = read(WALLET, accounts)
    assert position.missing == [bytes(32)], "its market, whose elevation group decides"
    assert position.health is not None
    assert position.health.health_factor is None
    assert [each.amount_raw for each in position.assets] == [150, 30]
    [without] = read(WALLET, {FARM: accounts[FARM]})
    assert without.missing == [bytes(32), OTHER]
    assert without.assets == []
    assert read(OTHER, accounts) == [], "another wallet's"


def test_collateral_tokens_in_the_wallet_are_a_deposit() -> None:
    accounts = {OTHER: account(OTHER, RESERVE, reserve_data(3000, 2000))}
    [position] = read(WALLET, accounts, tokens={SHARE: 7})
    assert [(each.mint, each.amount_raw) for each in position.assets] == [(MINT, 10)]
    assert position.stands_for == {SHARE: 7}
    assert read(WALLET, accounts, tokens={MINT: 7}) == []


def test_a_queued_withdrawal_is_pending() -> None:
    data = bytearray(lending.TICKET.size or 0)
    data[:8] = lending.TICKET.tag
    data[16:48], data[48:80] = WALLET, OTHER
    put(data, 112, 7)
    accounts = loan(obligation_data(0, 0), reserve_data(3000, 2000))
    accounts[MINT] = account(MINT, lending.TICKET, data)
    [position] = read(WALLET, accounts)
    assert [(each.role, each.amount_raw) for each in position.assets] == [(Role.PENDING, 10)]


def test_a_stake_earns_its_share_until_the_rewards_run_out() -> None:
    for available, earned in ((10**9, 5 + 100 * 8 // 4), (40, 5 + 10), (0, 5)):
        rewards, staking = read(WALLET, staked(user_data(10, 5), farm_data(40, 8, available)))
        assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, earned)]
        assert [(each.role, each.amount_raw) for each in staking.assets] == [(Role.SUPPLY, 10)]
        assert (rewards.route, staking.route) == ("rewards", "staking")


def test_a_reward_follows_its_curve_from_point_to_point() -> None:
    farm = farm_data(40, 8, 10**9)
    put(farm, 192 + 176, NOW_S - 30)
    put(farm, 192 + 184, 4)
    rewards, _ = read(WALLET, staked(user_data(10), farm))
    assert rewards.assets[0].amount_raw == (70 * 8 + 30 * 4) // 4


def test_stake_that_may_not_leave_is_locked_and_what_leaves_cools_down() -> None:
    farm = farm_data(40, 0, 0)
    put(farm, 7496, 1)
    put(farm, 7512, 100)
    put(farm, 7424, 20 * WAD, 16)
    put(farm, 7440, 50)  # tokens of pending stake, which are a pool of their own
    [staking] = read(WALLET, staked(user_data(10, leaving=3), farm))
    assert [(each.role, each.amount_raw) for each in staking.assets] == [
        (Role.LOCKED, 10),
        (Role.PENDING, 3 * 50 // 20),
    ]
    term, cooldown = staking.locks
    assert (term.kind, term.locked_raw, term.ends_ms) == ("term", 10, (NOW_S + 90) * 1000)
    assert (cooldown.kind, cooldown.claimable_raw) == ("cooldown", 0)
    assert cooldown.ends_ms == (NOW_S + 60) * 1000


def test_stake_that_warms_up_is_a_share_of_the_pending_tokens() -> None:
    farm, user = farm_data(40, 0, 0), user_data(10)
    put(farm, 7424, 20 * WAD, 16)
    put(farm, 7440, 50)
    put(user, 424, 3 * WAD, 16)  # `pending_deposit_stake_scaled`
    [staking] = read(WALLET, staked(user, farm))
    assert [(each.role, each.amount_raw) for each in staking.assets] == [
        (Role.SUPPLY, 10),
        (Role.PENDING, 3 * 50 // 20),
    ]
    assert staking.locks == []


def test_rewards_by_an_oracle_are_left_out_and_a_delegates_stake_is_not_the_farms() -> None:
    farm = farm_data(40, 8, 10**9)
    put(farm, 7568, 3)
    rewards, _ = read(WALLET, staked(user_data(10), farm))
    assert rewards.assets == []
    assert "oracle" in rewards.unsupported_fields[0]
    put(farm, 7568, 2**64 - 1)
    farm[7328] = 1
    [only] = read(WALLET, staked(user_data(10), farm))
    assert only.route == "rewards"
    [missing] = read(WALLET, {OTHER: account(OTHER, farms.USER_STATE, user_data(10))})
    assert missing.missing == [FARM]


def granted(
    unclaimed: int, holds: int | None, *, user: bytes = OTHER, stake: int = 0
) -> dict[bytes, Account]:
    """A farm that anybody opened, with a grant of its reward to a wallet that did nothing."""
    data = user_data(stake, unclaimed)
    farm = farm_data(1, 0, 0)
    farm[7328] = 1
    found = {
        user: account(user, farms.USER_STATE, data),
        FARM: account(FARM, farms.FARM_STATE, farm),
    }
    return found if holds is None else {**found, PAYS: holding(holds)}


def test_a_reward_is_no_more_than_its_vault_holds() -> None:
    """`reward_user_once` of a stranger's farm grants any wallet any amount."""
    for holds, shown in ((10**18 + 1, 10**18), (10**18, 10**18), (25, 25), (0, 0)):
        [rewards] = read(WALLET, granted(10**18, holds))
        assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, shown)]
        cut = [each for each in rewards.unsupported_fields if "vault" in each]
        assert len(cut) == (shown < 10**18)
        assert (rewards.missing, rewards.lacking, rewards.open_markets) == ([], [], [])


def test_a_reward_whose_vault_is_not_known_counts_nothing_and_has_it_asked_for() -> None:
    """A farm of a verified token, with a vault that nobody follows yet, made the wallet unknown."""
    [rewards] = read(WALLET, granted(10**18, None))
    assert [each.amount_raw for each in rewards.assets] == [0]
    assert (rewards.missing, rewards.lacking) == ([], [PAYS])
    [reason] = rewards.unsupported_fields
    assert "vault" in reason
    assert read(WALLET, granted(0, None)) == [], "nothing is owed: nothing is asked for"


def test_a_vault_of_another_mint_is_unreadable_and_pays_nothing() -> None:
    accounts = granted(5, 10)
    for wrong in (holding(10, MINT), account(PAYS, RESERVE, reserve_data(1, 1))):
        with pytest.raises(Unreadable) as raised:
            read(WALLET, {**accounts, PAYS: wrong})
        assert raised.value.account == PAYS, "it is left out, and the others are read"


def test_what_a_vault_holds_is_shared_by_all_users_of_a_wallet() -> None:
    """One grant a user, of which a stranger can make many: the vault pays its balance once."""
    accounts = {**granted(6, 10), **granted(50, 10, user=MINT), **granted(50, 10, user=b"u" * 32)}
    found = read(WALLET, accounts)
    assert [[each.amount_raw for each in of.assets] for of in found] == [[6], [4], [0]]
    assert {of.reference_slot for of in found} == {7}


def test_a_reward_without_a_vault_is_never_paid() -> None:
    accounts = granted(10**18, None)
    farm = bytearray(accounts[FARM].data)
    farm[192 + 120 : 192 + 152] = bytes(32)
    [rewards] = read(WALLET, {**accounts, FARM: account(FARM, farms.FARM_STATE, farm)})
    assert [each.amount_raw for each in rewards.assets] == [0]
    assert rewards.lacking == []


def test_rewards_that_cannot_be_computed_are_left_out() -> None:
    """The owner of a farm chooses its oracle, or a setting that the program itself fails at."""
    by_oracle, failing = granted(5, 10, stake=1), granted(5, 10, stake=1)
    for accounts, at, value in ((by_oracle, 7568, 3), (failing, 192 + 537, 20)):
        farm = bytearray(accounts[FARM].data)
        put(farm, at, value, 1 if at < 7000 else 8)
        accounts[FARM] = account(FARM, farms.FARM_STATE, farm)
        [rewards] = read(WALLET, accounts)
        assert (rewards.assets, rewards.open_markets) == ([], [])
        [why] = rewards.unsupported_fields
        assert "left out" in why
        del accounts[PAYS]
        [unfollowed] = read(WALLET, accounts)
        assert (unfollowed.assets, unfollowed.unsupported_fields) == ([], [why])
        [empty] = read(WALLET, {**accounts, PAYS: holding(0)})
        assert [each.amount_raw for each in empty.assets] == [0], "an empty vault pays nothing"


def test_beside_a_reward_that_cannot_be_computed_the_others_count() -> None:
    farm, user = farm_data(1, 0, 0), user_data(1, 5)
    farm[7328] = 1
    put(farm, 7232, 2)
    second = 192 + 704
    farm[second : second + 32], farm[second + 120 : second + 152] = MINT, OTHER
    farm[second + 537] = 20  # of its rate's decimals: the program itself fails
    put(farm, second + 488, NOW_S - 100)
    put(user, 256, 7)
    holds = b"h" * 32
    farm[second + 120 : second + 152] = holds
    accounts = {**staked(user, farm), holds: holding(10**9, MINT, holds)}
    [rewards] = read(WALLET, accounts)
    assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, 5)]
    assert rewards.open_markets == []
    assert "rewards_per_second_decimals is 20" in rewards.unsupported_fields[0]


def in_market(data: bytes, market: bytes) -> bytes:
    return data[:32] + market + data[64:]


def test_what_is_in_a_lending_market_names_it() -> None:
    """The owner of a market sets its prices and its interest."""
    reserve = in_market(reserve_data(3000, 2000), b"M" * 32)
    data = in_market(obligation_data(100, 30), b"M" * 32)
    [position] = read(WALLET, loan(data, reserve))
    assert position.open_markets == [b"M" * 32]
    held = {OTHER: account(OTHER, RESERVE, reserve)}
    [tokens] = read(WALLET, held, tokens={SHARE: 7})
    assert tokens.open_markets == [b"M" * 32]
    waits = bytearray(lending.TICKET.size or 0)
    waits[:8] = lending.TICKET.tag
    waits[16:48], waits[48:80] = WALLET, OTHER
    put(waits, 112, 7)
    [ticket] = read(WALLET, {**held, MINT: account(MINT, lending.TICKET, waits)})
    assert ticket.open_markets == [b"M" * 32]


def test_collateral_tokens_in_a_farm_name_their_market() -> None:
    farm = farm_data(40, 0, 0)
    farm[72:104] = SHARE
    reserve = in_market(reserve_data(3000, 2000), b"M" * 32)
    accounts = staked(user_data(10), farm)
    [staking] = read(WALLET, accounts)
    assert staking.open_markets == [], "no reserve has that token"
    accounts[issuer_of(SHARE, RESERVE)] = account(MINT, RESERVE, reserve)
    [staking] = read(WALLET, accounts)
    assert (staking.route, staking.open_markets) == ("staking", [b"M" * 32])


def test_kaminos_markets_are_verified_and_no_other() -> None:
    markets = {text(each) for each in kamino.PROTOCOL.verified_markets}
    assert "7u3HeHxYDLhnCoErrtycNokbQYbWGzLs6JSDqGAv5PfF" in markets
    assert len(markets) == 20
    assert verified_markets("") >= kamino.PROTOCOL.verified_markets


@given(st.integers(0, 10**18), st.integers(0, 2 * 10**8))
@examples(200)
def test_compound_interest_is_below_that_of_the_exponential(rate_bps: int, slots: int) -> None:
    rate_sf = (rate_bps % 100_000 << 60) // 10_000
    grown = compounded(rate_sf, slots)
    assert grown >= 1 << 60
    assert compounded(rate_sf, slots + 1) >= grown
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(rate_sf) / 2**60 / 63_072_000 * slots).exp()
    assert grown <= int(exact * 2**60) + 1


HOSTILE = st.one_of(
    st.integers(0, 9000).map(lambda size: ("cut", size)),
    st.tuples(st.integers(8, 8600), st.sampled_from((b"\xff" * 16, bytes(16), b"\x01" * 16))),
)


@given(st.lists(HOSTILE, max_size=12), st.integers(0, 3))
@examples(300)
def test_hostile_bytes_are_unreadable_or_read_and_nothing_else(
    changes: list[tuple[Any, Any]], which: int
) -> None:
    accounts = {
        **loan(obligation_data(100, 30), reserve_data(3000, 2000, 900)),
    }
    farmed = staked(user_data(10, 5, 3), farm_data(40, 8, 10**9))
    world = [accounts, accounts, farmed, farmed][which]
    address = [FARM, OTHER, OTHER, FARM][which]
    data = bytearray(world[address].data)
    for at, value in changes:
        if at == "cut":
            del data[max(value, 96) :]
        else:
            data[at : at + 16] = value[: max(0, min(16, len(data) - at))]
    changed = {**world, address: world[address]._replace(data=bytes(data))}
    unless_unreadable(WALLET, changed, {SHARE: 3})
    most = {SHARE: 2**64 - 1}
    for position in unless_unreadable(WALLET, changed, most, slot=2**64 - 1, time_s=2**63 - 1):
        assert all((each.amount_raw or 0) >= 0 for each in position.assets)
