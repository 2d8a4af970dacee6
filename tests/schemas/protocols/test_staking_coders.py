"""Accounts of staking programs that Anchor's coder wrote with random fields, read as it reads them.

The coder judges offsets and the encoding of options and enums; the sums beside it are those of the
programs' sources, over the fields that the coder reads.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import meteora_s2e as s2e
from schemas.protocols import pyth, solstice, streamflow
from schemas.protocols.contract import Account, Held, Kind, Lock, Position, Reading, World
from schemas.protocols.token import TOKEN
from schemas.solana.derived import derived
from tests.support import npm
from tests.support.judging import judged

IDLS = Path(__file__).parents[4] / "shared" / "facts" / "positions" / "idl"
CODERS = Path(__file__).parent / "staking_coders"
WORLDS = range(200)
WORLD = World(100, 1_790_000_000, 900)
WALLET = bytes(range(1, 33))

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not IDLS.exists(), reason="the IDLs of the facts are not here"),
]


class Written:
    """An account that the coder wrote, and what it reads."""

    def __init__(self, kind: Kind, answer: dict[str, Any], address: bytes) -> None:
        self.fields: dict[str, Any] = answer["account"]
        self.slots: list[Any] = answer["slots"]
        data = base64.b64decode(answer["data"])
        assert kind.matches(address, kind.program, data)
        self.account = Account(address, kind, 1, data, 9)


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "staking-coders", CODERS, "@coral-xyz/anchor")


def written(
    folder: Path, idl: str, kind: Kind, name: str, sets: Mapping[bytes, Mapping[str, Any]]
) -> list[Written]:
    """Return accounts by address; of each, fields to set, and `slots` that follow it."""
    lines = (
        json.dumps(
            {"idl": str(IDLS / idl), "name": name, "seed": number, "slots": fields.get("slots")}
            | {"set": {each: fields[each] for each in fields if each != "slots"}}
        )
        for number, fields in enumerate(sets.values())
    )
    done = subprocess.run(
        ["node", "coders.cjs"],
        cwd=folder,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(sets)
    judged(worlds=len(sets))
    return [Written(kind, of, address) for of, address in zip(answers, sets, strict=True)]


def written_at(
    folder: Path, idl: str, kind: Kind, name: str, address: bytes, sets: Sequence[dict[str, Any]]
) -> list[Written]:
    """Return versions of the account at a fixed address."""
    apart = dataclasses.replace(kind, addresses=())
    found = written(folder, idl, apart, name, {address_of(n): of for n, of in enumerate(sets)})
    for each in found:
        each.account = each.account._replace(address=address, kind=kind)
    return found


def address_of(number: int) -> bytes:
    return struct.pack("<I", number + 1).ljust(32, b"\7")


def drive(reading: Reading, chain: Iterable[Account]) -> list[Position]:
    there = {each.address: each for each in chain}
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(position: Position) -> dict[str, int | None]:
    return {each.role.value: each.amount_raw for each in position.assets}


def token_account(address: bytes, mint: bytes, amount: int) -> Account:
    data = mint + bytes(32) + struct.pack("<Q", amount) + bytes(36) + b"\1" + bytes(56)
    return Account(address, TOKEN, 1, data, 9)


def test_pyth(folder: Path) -> None:
    idl = "p27-pyth_staking.json"
    epoch = WORLD.time_s // pyth.EPOCH_S
    chance = random.Random(27)
    sets: dict[bytes, dict[str, Any]] = {}
    locks: dict[bytes, dict[str, Any]] = {}
    for number in WORLDS:
        slots = [
            {
                "amount": str(chance.randrange(1 << chance.randrange(1, 60))),
                "activation_epoch": str(epoch + chance.randrange(-3, 2)),
                "unlocking_start": chance.choice((None, str(epoch + chance.randrange(-3, 3)))),
            }
            if chance.random() < 0.8
            else None
            for _ in range(number % 21)
        ]
        of_lock = {
            "initial_balance": str(chance.randrange(1 << chance.randrange(1, 60))),
            "start_date": str(WORLD.time_s - chance.randrange(-9, 3000)),
            "period_duration": str(chance.randrange(1, 500)),
            "num_periods": str(chance.randrange(1, 9)),
        }
        variant = ("FullyVested", "PeriodicVesting", "PeriodicVestingAfterListing")[number % 3]
        address = address_of(number)
        sets[address] = {"owner": WALLET.hex(), "slots": slots}
        locks[derived(pyth.PROGRAM, b"stake_metadata", address)] = {"lock": {variant: of_lock}}
    accounts = written(folder, idl, pyth.POSITIONS, "PositionData", sets)
    details = written(folder, idl, pyth.METADATA, "StakeAccountMetadataV2", locks)
    listed = {"pyth_token_list_time": str(WORLD.time_s - 1000)}
    [config] = written(folder, idl, pyth.CONFIG, "GlobalConfig", {pyth.CONFIG_ADDRESS: listed})
    seen = 0
    for account, detail in zip(accounts, details, strict=True):
        [[variant, lock]] = detail.fields["lock"].items()
        slots = [each for each in account.slots if each is not None]
        bound = [each for each in slots if pyth_lock(each, epoch).locked_raw]
        votes = sum(
            int(each["amount"]) for each in bound if "Voting" in each["target_with_parameters"]
        )
        published = sum(int(each["amount"]) for each in bound) - votes
        left = 0
        if variant != "FullyVested":
            start = int(lock.get("start_date", WORLD.time_s - 1000))
            gone = max(0, WORLD.time_s - start) // int(lock["period_duration"])
            periods = int(lock["num_periods"])
            left = max(0, periods - gone) * int(lock["initial_balance"]) // periods
        kept = max(votes, published + left)
        balance = kept + chance.randrange(1 << 40)
        address = account.account.address
        custody = token_account(derived(pyth.PROGRAM, b"custody", address), pyth.PYTH, balance)
        chain = (detail.account, config.account, custody)
        assert account.account.kind.found_by(account.account.data) == [WALLET]
        found = drive(pyth.read(Held(WALLET, [account.account]), WORLD), chain)
        expected = {"supply": balance - kept, "locked": kept}
        if not any(expected.values()) and not found:
            continue
        [position] = found
        seen += 1
        assert lines(position) == {role: raw for role, raw in expected.items() if raw}
        assert not position.missing
        assert not position.unsupported_fields
        cooling = [each for each in position.locks if each.kind == "cooldown"]
        assert cooling == [pyth_lock(each, epoch) for each in slots]
        vesting = [each.locked_raw for each in position.locks if each.kind == "vesting"]
        assert vesting == ([] if variant == "FullyVested" else [left])
    assert seen > 190


def pyth_lock(slot: Mapping[str, Any], epoch: int) -> Lock:
    """Return a position's lock by its state in `get_current_position`, epoch by epoch."""
    amount, activation = int(slot["amount"]), int(slot["activation_epoch"])
    if slot["unlocking_start"] is None:
        return Lock("cooldown", amount)
    start = int(slot["unlocking_start"])

    def is_unlocked(at: int) -> bool:
        return at >= activation and at >= start and at >= start + 1

    ends = next(at for at in range(epoch - 9, epoch + 9) if is_unlocked(at))
    locked, free = (0, amount) if is_unlocked(epoch) else (amount, 0)
    return Lock("cooldown", locked, free, ends_ms=ends * pyth.EPOCH_S * 1000)


def test_stake2earn(folder: Path) -> None:
    idl = "p30-meteora_stake_for_fee_b.json"
    chance = random.Random(30)
    stakes: dict[bytes, dict[str, Any]] = {}
    leaving: dict[bytes, dict[str, Any]] = {}
    vaults: dict[bytes, dict[str, Any]] = {}
    for number in WORLDS:
        address = address_of(number + 1000)
        checkpoints = [chance.randrange(1 << 70) for _ in range(2)]
        stakes[address_of(number)] = {
            "owner": WALLET.hex(),
            "vault": address.hex(),
            "inTopList": chance.randrange(2),
            "feeAPerLiquidityCheckpoint": str(checkpoints[0]),
            "feeBPerLiquidityCheckpoint": str(checkpoints[1]),
        }
        leaving[address_of(number + 2000)] = {
            "owner": WALLET.hex(),
            "vault": address.hex(),
            "releaseAt": str(WORLD.time_s + chance.randrange(-9, 9)),
        }
        vaults[address] = {
            "configuration": {"secondsToFullUnlock": str(chance.randrange(1, 900))},
            "topStakerInfo": {
                "lastUpdatedAt": str(WORLD.time_s - chance.randrange(-9, 1000)),
                "cumulativeFeeAPerLiquidity": str(checkpoints[0] + chance.randrange(1 << 66)),
                "cumulativeFeeBPerLiquidity": str(checkpoints[1] + chance.randrange(1 << 66)),
            },
        }
    escrows = written(folder, idl, s2e.ESCROW, "stakeEscrow", stakes)
    unstakes = written(folder, idl, s2e.UNSTAKE, "unstake", leaving)
    pools = written(folder, idl, s2e.VAULT, "feeVault", vaults)
    for escrow, unstake, vault in zip(escrows, unstakes, pools, strict=True):
        for each in (escrow, unstake):
            assert each.account.kind.found_by(each.account.data) == [WALLET]
        held = Held(WALLET, [escrow.account, unstake.account])
        stake, out = drive(s2e.read(held, WORLD), [vault.account])
        assert stake.market == out.market == vault.account.address
        mints = [bytes.fromhex(vault.fields[name]) for name in ("stakeMint", "quoteMint")]
        info = vault.fields["topStakerInfo"]
        whole_s = int(vault.fields["configuration"]["secondsToFullUnlock"])
        part = Fraction(WORLD.time_s - int(info["lastUpdatedAt"]), whole_s)
        fees = []
        for of in "AB":
            fee = int(escrow.fields[f"fee{of}Pending"])
            if escrow.fields["inTopList"]:
                released = int(int(info[f"lockedFee{of}"]) * min(max(part, Fraction(0)), 1))
                each = (released << 64) // int(info["effectiveStakeAmount"])
                each += int(info[f"cumulativeFee{of}PerLiquidity"])
                each -= int(escrow.fields[f"fee{of}PerLiquidityCheckpoint"])
                fee += (each * int(escrow.fields["stakeAmount"])) >> 64
            fees.append(fee)
        assert [(each.mint, each.amount_raw) for each in stake.assets] == [
            (mints[0], int(escrow.fields["stakeAmount"])),
            *zip(mints, fees, strict=True),
        ]
        [line] = out.assets
        assert (line.mint, line.amount_raw) == (mints[0], int(unstake.fields["unstakeAmount"]))
        release_s = int(unstake.fields["releaseAt"])
        assert line.role == ("supply" if release_s <= WORLD.time_s else "pending")
        assert out.locks[0].ends_ms == release_s * 1000


def test_solstice(folder: Path) -> None:
    idl = "p31-solstice.json"
    chance = random.Random(31)
    pools = written_at(
        folder,
        idl,
        solstice.POOL,
        "YieldPool",
        solstice.POOL_ADDRESS,
        [
            {"total_assets": str(chance.randrange(1 << 64, 1 << 80)), "shares_supply": str(supply)}
            for supply in (chance.randrange(1 << 80) for _ in WORLDS)
        ],
    )
    schedules = written_at(
        folder,
        idl,
        solstice.SCHEDULE,
        "VestingSchedule",
        solstice.SCHEDULE_ADDRESS,
        [
            {
                "start_time": str(WORLD.time_s - chance.randrange(1, 900)),
                "end_time": str(WORLD.time_s + chance.randrange(900) - 300),
            }
            for _ in WORLDS
        ],
    )
    cooldowns = written(
        folder,
        idl,
        solstice.COOLDOWN,
        "CooldownEscrow",
        {
            address_of(number): {
                "user": WALLET.hex(),
                "cooldown_end": str(WORLD.time_s + chance.randrange(-9, 9)),
            }
            for number in WORLDS
        },
    )
    for pool, schedule, cooldown in zip(pools, schedules, cooldowns, strict=True):
        assert cooldown.account.kind.found_by(cooldown.account.data) == [WALLET]
        start, end = (int(schedule.fields[name]) for name in ("start_time", "end_time"))
        if start >= end:
            continue
        shares = chance.randrange(1, 1 << 60)
        held = Held(WALLET, [cooldown.account], {solstice.EUSX: shares})
        worth, leaving = drive(solstice.read(held, WORLD), [pool.account, schedule.account])
        rest = Fraction(max(0, end - WORLD.time_s), end - start)
        unvested = int(int(schedule.fields["vesting_amount"]) * rest)
        whole = int(pool.fields["total_assets"]) - unvested + 1
        [line] = worth.assets
        assert line.amount_raw == shares * whole // (int(pool.fields["shares_supply"]) + 1)
        assert line.mint.hex() == pool.fields["asset_mint"]
        assert line.decimals == pool.fields["asset_mint_decimals"]
        assert worth.stands_for == {solstice.EUSX: shares}
        [out] = leaving.assets
        assert out.amount_raw == int(cooldown.fields["asset_amount"])
        assert out.mint.hex() == cooldown.fields["asset_mint"]
        ends_s = int(cooldown.fields["cooldown_end"])
        assert out.role == ("supply" if ends_s <= WORLD.time_s else "pending")
        assert leaving.locks[0].ends_ms == ends_s * 1000


def test_streamflow(folder: Path) -> None:
    idl = "p28alt-streamflow_stake_pool.json"
    chance = random.Random(28)
    stakes: dict[bytes, dict[str, Any]] = {}
    sets: dict[bytes, dict[str, Any]] = {}
    for number in WORLDS:
        address = address_of(number + 1000)
        stakes[address_of(number)] = {
            "authority": WALLET.hex(),
            "stake_pool": address.hex(),
            "duration": str(chance.randrange(1, 1000)),
            "created_ts": str(WORLD.time_s - chance.randrange(1000)),
            "closed_ts": "0" if number % 9 else "1",
            "unstake_ts": str(chance.choice((0, WORLD.time_s - chance.randrange(1000)))),
        }
        sets[address] = {"unstake_period": str(chance.choice((0, chance.randrange(1000))))}
    entries = written(folder, idl, streamflow.ENTRY, "StakeEntry", stakes)
    pools = written(folder, idl, streamflow.POOL, "StakePool", sets)
    for entry, pool in zip(entries, pools, strict=True):
        assert entry.account.kind.found_by(entry.account.data) == [WALLET]
        found = drive(streamflow.read(Held(WALLET, [entry.account]), WORLD), [pool.account])
        if entry.fields["closed_ts"] != "0":
            assert not found
            continue
        [position] = found
        [line] = position.assets
        assert line.amount_raw == int(entry.fields["amount"])
        assert line.mint.hex() == pool.fields["mint"]
        assert position.market == pool.account.address
        ends = [int(entry.fields["created_ts"]) + int(entry.fields["duration"])]
        period, noticed = int(pool.fields["unstake_period"]), int(entry.fields["unstake_ts"])
        if period:
            ends.append(noticed + period if noticed else 1 << 62)
        is_free = max(ends) <= WORLD.time_s
        assert line.role == ("supply" if is_free else "pending" if noticed else "locked")
        assert position.locks[0].ends_ms == ends[0] * 1000
        assert len(position.locks) == len(ends)
