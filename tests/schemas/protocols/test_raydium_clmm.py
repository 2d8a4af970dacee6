"""Liquidity of Raydium CLMM, against its SDK's layouts and arithmetic, and on bad bytes.

The SDK takes 260 MB with what it needs, so it runs with RAYDIUM_SDK=1 only; without it 20 worlds
are read that it has written and answered. Written anew by
`RAYDIUM_SDK=record pytest -m node tests/schemas/protocols/test_raydium_clmm.py`.
Amounts, fees and rewards are the SDK's but for one case: of what has been earned since the position
was last written the program drops all where it exceeds u64 (`to_underflow_u64`), the SDK does not.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from schemas.protocols import raydium_clmm
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Lock,
    Position,
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.math.ticks import MAX_TICK, MIN_TICK, raydium_sqrt_price_x64
from schemas.protocols.raydium_clmm import LOCK, POOL, POSITION, PROTOCOL, TICK_ARRAY
from schemas.solana.addresses import key, text
from tests.support import npm
from tests.support.exploring import examples
from tests.support.judging import judged

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p20-raydium-clmm"
SDK = Path(__file__).parent / "clmm_sdk"
RECORDED = Path(__file__).parent / "clmm_worlds.json"
PROGRAM = Pubkey(POSITION.program)
WALLET, POOL_AT, NFT, A, B, R, OWN, LOCK_AT, LOCK_NFT = (bytes([n]) * 32 for n in range(1, 10))
NOW_S = 1_700_000_100
SPACING = 10


def kind_of(data: bytes) -> Kind:
    tagged = [each for each in PROTOCOL.kinds if each.tag and data.startswith(each.tag)]
    return tagged[0] if tagged else LOCK


def account(address: bytes, data: bytes, kind: Kind | None = None, slot: int = 9) -> Account:
    return Account(address, kind or kind_of(data), 1, data, slot)


def driven(reading: Reading, known: Mapping[bytes, Account]) -> list[Position]:
    """Return what a reading finds when it is sent what it asks for; 8 rounds at most."""
    wanted = next(reading, None)
    try:
        for _ in range(8):
            if wanted is None:
                return []
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def read(
    own: Iterable[Account], known: Iterable[Account], mints: Iterable[bytes], time_s: int = NOW_S
) -> list[Position]:
    held = Held(WALLET, [*own], dict.fromkeys(mints, 1))
    found = {each.address: each for each in known}
    return driven(raydium_clmm.read(held, World(10, time_s, 1)), found)


def lines(position: Position, role: Role) -> list[list[str]]:
    return [
        [text(each.mint), str(each.amount_raw)] for each in position.assets if each.role is role
    ]


def check(world: dict[str, Any]) -> int:
    """Read a world; returns in how many lines it is owed something."""
    accounts = {
        key(address): account(key(address), zlib.decompress(base64.b64decode(data)))
        for address, data in world["accounts"].items()
    }
    assert all(len(each.data) == each.kind.size for each in accounts.values())
    mint = key(world["mint"])
    [found] = read([accounts[key(world["held"])]], accounts.values(), [mint], world["now"])
    some = [each for each in world["amounts"] if each[1] != "0"]
    kept = [
        now if int(now[1]) < 2**64 else before
        for now, before in zip(world["owed"], world["before"], strict=True)
    ]
    owed = [each for each in kept if each[1] != "0"]
    assert lines(found, Role.LOCKED if world["isLocked"] else Role.SUPPLY) == some
    assert lines(found, Role.REWARD) == owed
    assert len(found.assets) == len(some) + len(owed)
    assert found.missing == []
    assert found.unsupported_fields == []
    assert found.id == mint
    assert found.stands_for == {mint: 1}
    assert [each.kind for each in found.locks] == ["permanent"] * world["isLocked"]
    lower, upper, current = world["ticks"]
    assert found.range is not None
    assert found.range.is_in_range is (lower <= current < upper)
    return len(owed)


@pytest.fixture(scope="module")
def sdk(request: pytest.FixtureRequest) -> Path:
    if "RAYDIUM_SDK" not in os.environ:
        pytest.skip("RAYDIUM_SDK is not set: the SDK takes 260 MB")
    return npm.installed(request, "raydium-sdk", SDK, "@raydium-io/raydium-sdk-v2")


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["node", "clmm.cjs"],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.node
def test_random_worlds_are_worth_what_the_sdk_says(sdk: Path) -> None:
    worlds = asked(sdk, [{"seed": seed} for seed in range(200)])
    if os.environ["RAYDIUM_SDK"] == "record":
        RECORDED.write_text("".join(json.dumps(each) + "\n" for each in worlds[:20]))
    assert sum(check(each) for each in worlds) > 700
    assert sum(each["isLocked"] for each in worlds) > 30
    dropped = [raw for each in worlds for _, raw in each["owed"] if int(raw) >= 2**64]
    assert len(dropped) < 50, "few lines are what the program drops"
    judged(worlds=len(worlds), differences=len(dropped))


@pytest.mark.node
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_real_accounts_are_worth_what_the_sdk_says(sdk: Path) -> None:
    """Positions and what else is not recorded are made up; the array's pool is not recorded."""
    pool, array = (
        json.loads((CORPUS / f"{name}.json").read_text())["account"]["data"][0]
        for name in ("PoolState-2b82233cb0cd", "TickArrayState-e0375e06a9dc")
    )
    of = text(base64.b64decode(array)[8:40])
    questions: list[dict[str, Any]] = [
        *({"seed": seed, "pool": [text(POOL_AT), pool]} for seed in range(40)),
        *({"seed": seed, "pool": [of, pool], "array": array} for seed in range(40)),
    ]
    worlds = asked(sdk, questions)
    assert len(worlds) == 80
    assert sum(check(each) for each in worlds) > 100
    judged(accounts=2)


@pytest.mark.node
def test_square_roots_of_prices_are_the_sdks(sdk: Path) -> None:
    ticks = [MIN_TICK, MAX_TICK, *range(-20, 20), *range(MIN_TICK, MAX_TICK, 401)]
    [answer] = asked(sdk, [{"ticks": ticks}])
    assert [str(raydium_sqrt_price_x64(tick)) for tick in ticks] == answer["roots"]


def test_recorded_worlds_are_worth_what_the_sdk_said() -> None:
    worlds = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert len(worlds) == 20
    assert {each["isLocked"] for each in worlds} == {True, False}
    assert sum(check(each) for each in worlds) > 70


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_recorded_accounts_are_what_their_kinds_say() -> None:
    """The pool's price is between those of its tick and of the next."""
    found = {}
    for name in ("PoolState-2b82233cb0cd", "TickArrayState-e0375e06a9dc"):
        recorded = json.loads((CORPUS / f"{name}.json").read_text())["account"]
        data = base64.b64decode(recorded["data"][0])
        kind = kind_of(data)
        assert kind.matches(OWN, key(recorded["owner"]), data)
        found[kind] = data
    pool = found[POOL]
    position = position_bytes(liquidity=0)
    [read_one] = read([account(OWN, position)], [account(POOL_AT, pool)], [NFT])
    assert read_one.range is not None
    [current] = struct.unpack_from("<i", pool, 269)
    assert read_one.range.current_index == current
    sqrt_price_x64 = int.from_bytes(pool[253:269], "little")
    assert raydium_sqrt_price_x64(current) <= sqrt_price_x64 < raydium_sqrt_price_x64(current + 1)


def pool_bytes(spacing: int = SPACING) -> bytes:
    data = bytearray(POOL.tag + bytes(1536))
    data[73:105], data[105:137], data[233:235] = A, B, b"\6\6"
    struct.pack_into("<H", data, 235, spacing)
    data[237:253] = (1 << 20).to_bytes(16, "little")
    data[253:269] = (1 << 64).to_bytes(16, "little")
    data[277:293] = (5 << 64).to_bytes(16, "little")
    struct.pack_into("<QQQ", data, 398, NOW_S - 200, NOW_S - 20, NOW_S - 100)
    data[422:438] = (1 << 64).to_bytes(16, "little")
    data[454:486] = R
    return bytes(data)


def position_bytes(liquidity: int = 1 << 19, ticks: tuple[int, int] = (-4000, 4000)) -> bytes:
    data = bytearray(POSITION.tag + b"\0" + NFT + POOL_AT + bytes(208))
    struct.pack_into("<ii", data, 73, *ticks)
    data[81:97] = liquidity.to_bytes(16, "little")
    struct.pack_into("<Q", data, 129, 7)
    return bytes(data)


def lock_bytes() -> bytes:
    return bytes(41) + POOL_AT + OWN + bytes(32) + LOCK_NFT + bytes(72)


def array_at(tick: int) -> bytes:
    start = tick // (60 * SPACING) * 60 * SPACING
    seeds = [b"tick_array", POOL_AT, struct.pack(">i", start)]
    return bytes(Pubkey.find_program_address(seeds, PROGRAM)[0])


AMOUNT = int(2**19 * (1 - 1.0001**-2000))  # of each token, at a price of 1
ARRAYS = [account(array_at(tick), TICK_ARRAY.tag + bytes(10232), slot=5) for tick in (-4000, 4000)]
POOL_ACCOUNT = account(POOL_AT, pool_bytes(), slot=7)
OWN_ACCOUNT = account(OWN, position_bytes())


def test_rewards_accrue_to_their_end() -> None:
    [found] = read([OWN_ACCOUNT], [POOL_ACCOUNT, *ARRAYS], [NFT])
    assert [each.amount_raw for each in found.assets] == [AMOUNT, AMOUNT, 7 + 5 * 2**19, 40]
    assert [each.mint for each in found.assets] == [A, B, A, R]
    assert [each.decimals for each in found.assets] == [6, 6, 6, None]
    assert found.reference_slot == 5
    [opening] = read([OWN_ACCOUNT], [POOL_ACCOUNT, *ARRAYS], [NFT], NOW_S - 200)
    assert len(opening.assets) == 3


def test_without_its_arrays_amounts_remain_and_fees_are_not_known() -> None:
    [found] = read([OWN_ACCOUNT], [POOL_ACCOUNT, ARRAYS[1]], [NFT])
    assert found.missing == [array_at(-4000)]
    assert found.unsupported_fields == ["fees and rewards: a tick array is missing"]
    assert [each.amount_raw for each in found.assets] == [AMOUNT, AMOUNT, None, None, None]


def test_without_liquidity_only_what_was_owed_is_there_and_no_array_is_needed() -> None:
    [found] = read([account(OWN, position_bytes(liquidity=0))], [POOL_ACCOUNT], [NFT])
    assert [(each.role, each.amount_raw) for each in found.assets] == [(Role.REWARD, 7)]
    assert found.missing == []


@pytest.mark.parametrize(("status", "role"), [(2, Role.LOCKED), (0xFF - 2, Role.SUPPLY)])
def test_liquidity_is_locked_while_the_pool_lets_none_be_decreased(status: int, role: Role) -> None:
    data = bytearray(pool_bytes())
    data[389] = status
    [found] = read([OWN_ACCOUNT], [account(POOL_AT, bytes(data)), *ARRAYS], [NFT])
    assert [each.role for each in found.assets] == [role, role, Role.REWARD, Role.REWARD]
    assert [each.amount_raw for each in found.assets[:2]] == [AMOUNT, AMOUNT]
    assert bool(found.unsupported_fields) is (role is Role.LOCKED)


def test_only_the_holder_of_the_nft_has_the_position() -> None:
    lock = account(LOCK_AT, lock_bytes())
    assert read([OWN_ACCOUNT, lock], [OWN_ACCOUNT, POOL_ACCOUNT], []) == []
    [found] = read([OWN_ACCOUNT], [], [NFT])
    assert found.missing == [POOL_AT]


def test_a_locked_position_belongs_to_the_holder_of_the_locks_nft() -> None:
    lock = account(LOCK_AT, lock_bytes(), slot=3)
    [found] = read([lock], [OWN_ACCOUNT, POOL_ACCOUNT, *ARRAYS], [LOCK_NFT])
    assert found.id == LOCK_NFT
    assert found.stands_for == {LOCK_NFT: 1}
    assert found.locks == [Lock("permanent", 1 << 19, 0)]
    roles = [each.role for each in found.assets]
    assert roles == [Role.LOCKED, Role.LOCKED, Role.REWARD, Role.REWARD]
    assert found.reference_slot == 3
    [lost] = read([lock], [], [LOCK_NFT])
    assert lost.missing == [OWN]


@pytest.mark.parametrize(
    ("own", "pool", "why"),
    [
        (position_bytes()[:100], pool_bytes(), "position of 100 bytes"),
        (position_bytes(ticks=(4, 4)), pool_bytes(), "ticks 4 and 4"),
        (position_bytes(ticks=(-500000, 4)), pool_bytes(), "beyond"),
        (position_bytes(liquidity=2**128 - 1), pool_bytes(), "more than u64"),
        (position_bytes(), pool_bytes(spacing=0), "tick_spacing is 0"),
        (position_bytes(), pool_bytes()[:600], "pool of 600 bytes"),
    ],
)
def test_bytes_that_are_no_position_are_named(own: bytes, pool: bytes, why: str) -> None:
    known = [account(POOL_AT, pool, POOL), *ARRAYS]
    with pytest.raises(Unreadable, match=why) as raised:
        read([account(OWN, own, POSITION)], known, [NFT])
    assert raised.value.account == OWN


def test_an_array_and_a_lock_that_end_early_are_named() -> None:
    arrays = [account(each.address, bytes(50), TICK_ARRAY) for each in ARRAYS]
    with pytest.raises(Unreadable, match="tick array of 50 bytes"):
        read([OWN_ACCOUNT], [POOL_ACCOUNT, *arrays], [NFT])
    with pytest.raises(Unreadable, match="lock of 50 bytes"):
        read([account(LOCK_AT, bytes(50), LOCK)], [], [LOCK_NFT])


@given(st.binary(min_size=273, max_size=273), st.binary(min_size=1536, max_size=1536))
@examples(300)
def test_any_bytes_are_read_or_unreadable(own: bytes, pool: bytes) -> None:
    data = bytearray(POSITION.tag + own)
    data[9:73] = NFT + POOL_AT
    data[73:81] = struct.pack("<ii", -4000, 4000)
    try:
        [found] = read(
            [account(OWN, bytes(data))], [account(POOL_AT, POOL.tag + pool), *ARRAYS], [NFT]
        )
    except Unreadable:
        return
    assert all(each.amount_raw is None or each.amount_raw < 2**64 for each in found.assets)
