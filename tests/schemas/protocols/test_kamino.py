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
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import kamino
from schemas.protocols.contract import Account, Role
from schemas.protocols.kamino_parts import farms, lending
from schemas.protocols.kamino_parts.reserve import RESERVE
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor, npm
from tests.support.exploring import examples
from tests.support.judging import judged
from tests.support.kamino import (
    FARM,
    MINT,
    OTHER,
    SHARE,
    WALLET,
    account,
    farm_data,
    holding,
    loan,
    obligation_data,
    read,
    reserve_data,
    staked,
    unless_unreadable,
    user_data,
)

SDKS = Path(__file__).parent / "kamino_sdks"
RECORDED = SDKS / "recorded.json"
SHARED = Path(__file__).parents[4] / "shared"
IDLS = [
    SHARED / "facts" / "positions" / "idl" / f"p01-kamino_{of}.json" for of in ("lend", "farms")
]
CORPUS = SHARED / "corpus" / "accounts" / "p01-kamino"
KINDS = {kind.name: kind for kind in kamino.PROTOCOL.kinds}
needs_sdks = pytest.mark.skipif(
    not os.environ.get("KLEND_SDK") or not all(each.exists() for each in IDLS),
    reason="KLEND_SDK is not set, or there are no IDLs here",
)


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
