"""Meteora's positions against its own SDKs, on bytes that Anchor's coder wrote.

`METEORA_SDK=1` runs it: the SDKs with what they need are 90 MB. Each world is a pair or pool with
its arrays and one position. Amounts, fees, rewards and locks must be equal to the unit. Without the
variable, the SDKs' answers on a few of the worlds, in `meteora_worlds.json.gz`, are the judge;
`METEORA_SDK=1 METEORA_RECORD=1` writes that file anew.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import meteora_damm_v2, meteora_dlmm
from schemas.protocols.contract import Account, Held, Position, Reading, Role, World
from schemas.protocols.mint import MINT
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import key, text
from tests.support import npm
from tests.support.judging import judged

HERE = Path(__file__).parent
ACCOUNTS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts"
CORPUS = ACCOUNTS / "p17-meteora-dlmm"
POOLS = ACCOUNTS / "p18-meteora-damm-v2"
RECORDED = HERE / "meteora_worlds.json.gz"
WORLDS = 200
RECORDED_WORLDS = 10
NOBODY = text(bytes(32))
ADDRESS = b"p" * 32
DECIMALS = (6, 9)
needs_sdk = pytest.mark.skipif(
    os.environ.get("METEORA_SDK") != "1", reason="METEORA_SDK=1 installs 90 MB of SDKs"
)


def asked(request: pytest.FixtureRequest, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    folder = npm.installed(request, "meteora-sdks", HERE / "meteora_sdks", "@meteora-ag/dlmm")
    done = subprocess.run(
        ["node", "meteora.cjs"],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def account(address: bytes, program: bytes, encoded: str) -> Account:
    data = base64.b64decode(encoded)
    kind = kind_of(address, program, data)
    assert kind is not None
    return Account(address, kind, 1, data, 77)


def mint(address: bytes, decimals: int) -> Account:
    data = bytes(44) + bytes((decimals, 1)) + bytes(36)
    return Account(address, MINT, 1, data, 5)


def driven(reading: Reading, known: dict[bytes, Account]) -> list[Position]:
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found


def lines(position: Position) -> Counter[tuple[Role, bytes]]:
    found: Counter[tuple[Role, bytes]] = Counter()
    for asset in position.assets:
        assert asset.amount_raw is not None
        found[asset.role, asset.mint] += asset.amount_raw
    return found


def expected(*of: tuple[Role, str, str]) -> Counter[tuple[Role, bytes]]:
    found: Counter[tuple[Role, bytes]] = Counter()
    for role, of_mint, raw in of:
        if int(raw):
            found[role, key(of_mint)] += int(raw)
    return found


def with_mints(theirs: dict[str, Any], known: dict[bytes, Account]) -> dict[bytes, Account]:
    pairs = zip(theirs["mints"], DECIMALS, strict=True)
    return known | {key(each): mint(key(each), decimals) for each, decimals in pairs}


def check_dlmm(theirs: dict[str, Any]) -> None:
    held = account(ADDRESS, meteora_dlmm.PROGRAM, theirs["position"])
    known = with_mints(
        theirs,
        {
            key(name): account(key(name), meteora_dlmm.PROGRAM, data)
            for name, data in theirs["accounts"].items()
        },
    )
    world = World(theirs["slot"], theirs["now"], 800)
    owner, fee_owner = theirs["owner"], theirs["fee_owner"]
    if fee_owner == NOBODY:
        fee_owner = owner
    parts = [
        position
        for wallet in dict.fromkeys((owner, fee_owner))
        for position in driven(meteora_dlmm.read(Held(key(wallet), [held]), world), known)
    ]
    x, y = theirs["mints"]
    role = Role.LOCKED if theirs["is_locked"] else Role.SUPPLY
    of_owner = [(role, x, theirs["x"]), (role, y, theirs["y"])]
    of_owner += [
        (Role.REWARD, of_mint, raw)
        for of_mint, raw in zip(theirs["reward_mints"], theirs["rewards"], strict=True)
    ]
    fees = [(Role.REWARD, x, theirs["fee_x"]), (Role.REWARD, y, theirs["fee_y"])]
    if owner == fee_owner:
        assert [lines(each) for each in parts] == [expected(*of_owner, *fees)]
    else:
        assert [lines(each) for each in parts] == [expected(*of_owner), expected(*fees)]
        assert parts[1].locks == []
    assert len(parts[0].locks) == theirs["is_locked"]
    for part in parts:
        assert (part.missing, part.reference_slot, part.unsupported_fields) == ([], 77, [])
        found = part.range
        assert found is not None
        assert (found.lower_index, found.upper_index) == (theirs["lower"], theirs["upper"])
        assert found.is_in_range == (theirs["lower"] <= theirs["active"] <= theirs["upper"])
        ratio = Fraction(10) ** (DECIMALS[0] - DECIMALS[1])
        assert [found.lower, found.upper, found.current] == [
            Fraction(int(each), 2**64) * ratio for each in theirs["price_q64"]
        ]


def accrues(theirs: dict[str, Any]) -> bool:
    """Return whether time alone adds to the rewards of a world of bins."""
    held = account(ADDRESS, meteora_dlmm.PROGRAM, theirs["position"])
    known = {
        key(name): account(key(name), meteora_dlmm.PROGRAM, data)
        for name, data in theirs["accounts"].items()
    }
    wallet = Held(key(theirs["owner"]), [held])
    then, now = (
        driven(meteora_dlmm.read(wallet, World(theirs["slot"], time_s, 800)), known)
        for time_s in (0, theirs["now"])
    )
    rewards = {key(each) for each in theirs["reward_mints"]}
    return any(
        lines(now[0])[Role.REWARD, each] > lines(then[0])[Role.REWARD, each] for each in rewards
    )


def check_damm(theirs: dict[str, Any]) -> None:
    program = meteora_damm_v2.PROGRAM
    nft, pool = key(theirs["nft"]), key(theirs["pool_address"])
    at = key(theirs["position_address"])
    held = Held(
        key(NOBODY),
        [account(at, program, theirs["position"]), account(b"v" * 32, program, theirs["vesting"])],
        {nft: 1},
    )
    known = with_mints(theirs, {pool: account(pool, program, theirs["pool"])})
    world = World(theirs["slot"], theirs["now"], 800)
    [position] = driven(meteora_damm_v2.read(held, world), known)
    wanted = []
    for of_mint, of_all, of_free, fee in zip(
        theirs["mints"], theirs["all"], theirs["free"], theirs["fees"], strict=True
    ):
        wanted += [(Role.SUPPLY, of_mint, of_free), (Role.REWARD, of_mint, fee)]
        wanted += [(Role.LOCKED, of_mint, str(int(of_all) - int(of_free)))]
    wanted += [
        (Role.REWARD, of_mint, raw)
        for of_mint, raw in zip(theirs["reward_mints"], theirs["rewards"], strict=True)
        if of_mint
    ]
    assert lines(position) == expected(*wanted)
    assert position.stands_for == {nft: 1}
    assert (position.id, position.market, position.missing) == (nft, pool, [])
    assert position.unsupported_fields == []
    vesting = [each for each in position.locks if each.kind == "vesting"]
    ends = [each.ends_slot if theirs["by_slot"] else each.ends_ms for each in vesting]
    scale = 1 if theirs["by_slot"] else 1000
    assert [
        [str(each.locked_raw), str(each.claimable_raw), str((end or 0) // scale)]
        for each, end in zip(vesting, ends, strict=True)
    ] == theirs["locks"]
    permanent = [each.locked_raw for each in position.locks if each.kind == "permanent"]
    assert permanent == ([int(theirs["permanent"])] if theirs["permanent"] != "0" else [])
    assert position.range is not None
    assert position.range.current == Fraction(int(theirs["sqrt_price"]) ** 2, 2**128) * Fraction(
        10
    ) ** (DECIMALS[0] - DECIMALS[1])


@pytest.mark.node
@needs_sdk
def test_random_bins_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    in_bins = asked(request, [{"dlmm": seed} for seed in range(WORLDS)])
    assert len(in_bins) == WORLDS
    assert len({each["fee_x"] for each in in_bins}) > WORLDS - 10
    assert sum(each["rewards"][0] != "0" for each in in_bins) > WORLDS // 4
    assert sum(each["upper"] - each["lower"] >= 70 for each in in_bins) > WORLDS // 8
    assert {each["is_locked"] for each in in_bins} == {True, False}
    assert sum(accrues(each) for each in in_bins) > WORLDS // 8
    for theirs in in_bins:
        check_dlmm(theirs)
    judged(worlds=len(in_bins))
    if os.environ.get("METEORA_RECORD"):
        record("dlmm", in_bins)


@pytest.mark.node
@needs_sdk
def test_random_pools_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    in_pools = asked(request, [{"damm": seed} for seed in range(WORLDS)])
    assert len(in_pools) == WORLDS
    assert {each["mode"] for each in in_pools} == {0, 1, 2}
    assert sum(bool(each["locks"]) for each in in_pools) > WORLDS // 3
    assert len({each["fees"][0] for each in in_pools}) > WORLDS // 2
    for theirs in in_pools:
        check_damm(theirs)
    judged(worlds=len(in_pools))
    if os.environ.get("METEORA_RECORD"):
        record("damm", in_pools)


def record(name: str, worlds: list[dict[str, Any]]) -> None:
    """Replace the recorded answers of a program with the first of these."""
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    some = json.dumps(recorded | {name: worlds[:RECORDED_WORLDS]})
    RECORDED.write_bytes(gzip.compress(some.encode(), mtime=0))


@pytest.mark.parametrize(("name", "check"), [("dlmm", check_dlmm), ("damm", check_damm)])
def test_recorded_answers_of_the_sdks_are_ours(name: str, check: Any) -> None:
    worlds = json.loads(gzip.decompress(RECORDED.read_bytes()))[name]
    assert len(worlds) == RECORDED_WORLDS
    assert name != "dlmm" or any(accrues(each) for each in worlds)
    for theirs in worlds:
        check(theirs)


@pytest.mark.node
@needs_sdk
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_real_bins_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    questions = []
    for file in sorted(CORPUS.glob("LbPair-*.json")):
        pair = json.loads(file.read_text())
        if not (address := pair["pubkey"]):
            continue
        arrays = [
            json.loads(each.read_text())["account"]["data"][0]
            for each in sorted(CORPUS.glob(f"BinArray-*{address}.json"))
        ]
        for each in arrays:
            data = base64.b64decode(each)
            lower = int.from_bytes(data[8:16], "little", signed=True) * 70
            questions.append(
                {
                    "address": address,
                    "bins": pair["account"]["data"][0],
                    "arrays": arrays,
                    "lower": lower,
                    "upper": lower + 69,
                    "now": 1_790_000_000,
                }
            )
    assert len(questions) == 6
    answers = asked(request, questions)
    assert any(int(each["x"]) for each in answers)
    for theirs in answers:
        check_dlmm(theirs)
    arrays = {array for each in questions for array in each["arrays"]}
    judged(accounts=len(arrays | {each["bins"] for each in questions}))


@pytest.mark.node
@needs_sdk
@pytest.mark.skipif(not POOLS.exists(), reason="the corpus of real accounts is not here")
def test_real_pools_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    pools = [
        json.loads(file.read_text())["account"]["data"][0] for file in sorted(POOLS.glob("Pool-*"))
    ]
    assert len(pools) == 3
    answers = asked(request, [{"pool": pool, "seed": seed} for pool in pools for seed in range(20)])
    assert any(int(each["all"][0]) for each in answers)
    assert {each["pool"] for each in answers} == set(pools)
    for theirs in answers:
        check_damm(theirs)
    judged(accounts=len(pools))
