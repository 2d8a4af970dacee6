"""Jupiter Lend against its SDK, and by hand.

The SDK leaves amounts of a vault in the vault's decimals. Its own share price takes the liquidity
price as stored; it is given the accrued one, as the program has it.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import jupiter_lend as lend
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.jupiter_lend_prices import MAX_TICK, MIN_TICK, SCALE, debt_of, ratio_at
from schemas.protocols.mint import MINT
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import key
from schemas.solana.derived import derived
from tests.support import npm
from tests.support.judging import judged

HERE = Path(__file__).parent / "jupiter_lend_sdk"
WALLET = bytes([1]) * 32
NFT, F_TOKEN, COIN, USD = (bytes([n]) * 32 for n in (2, 3, 4, 5))
NOW_S = 1_763_900_000
VAULT = struct.pack("<H", 7)
TICK = -100


def address(seed: bytes, *more: bytes) -> bytes:
    return derived(lend.VAULTS, seed, VAULT, *more)


def reserve(supply: int = SCALE, borrow: int = SCALE, rate: int = 0, past_s: int = 0) -> bytes:
    head = lend.RESERVE.tag + bytes(64) + struct.pack("<HHH", rate, 1000, 5000)
    head += struct.pack("<QQQH", NOW_S - past_s, supply, borrow, 0)
    return (head + struct.pack("<QQQQ", 1000, 0, 500, 0)).ljust(192, b"\0")


def position(*, tick: int = TICK, dust: int = 0, is_supply: bool = False) -> bytes:
    return (
        lend.POSITION.tag + VAULT + struct.pack("<I", 1) + NFT
        + struct.pack("<BiIQQ", is_supply, tick, 1, 10**12, dust)
    )  # fmt: skip


def vault(*, is_liquidated: int = 0, ids: int = 1) -> dict[bytes, bytes]:
    """Return a vault of a coin of 9 decimals, which lends one of 6, without interest."""
    config = lend.CONFIG.tag + VAULT + bytes(144) + COIN + USD + b"\0"
    state = lend.STATE.tag + VAULT + bytes(73) + struct.pack("<QQQQ", *[SCALE] * 4)
    tick = lend.TICK.tag + VAULT + struct.pack("<iBI", TICK, is_liquidated, ids)
    return {
        address(b"vault_config"): config,
        address(b"vault_state"): (state + bytes(4) + struct.pack("<Q", NOW_S)),
        address(b"vault_metadata"): lend.METADATA.tag + VAULT + bytes(32) + bytes([9, 6]),
        address(b"tick", struct.pack("<I", TICK + MAX_TICK)): tick.ljust(40, b"\0"),
        derived(lend.LIQUIDITY, b"reserve", COIN): reserve(),
        derived(lend.LIQUIDITY, b"reserve", USD): reserve(),
    }


def known(accounts: Mapping[bytes, bytes]) -> dict[bytes, Account]:
    found = {}
    for at, data in accounts.items():
        programs = (lend.EARN, lend.VAULTS, lend.LIQUIDITY, lend.REWARDS)
        kinds = (kind_of(at, of, data) for of in programs)
        if kind := next((each for each in kinds if each), None):
            found[at] = Account(at, kind, 1, data, 5)
    return found


def run(
    held: list[Account], tokens: dict[bytes, int], accounts: Mapping[bytes, Account], time_s: int
) -> list[Position]:
    reading = lend.read(Held(WALLET, held, tokens), World(9, time_s, 1))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: accounts[each] for each in wanted if each in accounts})
    except StopIteration as end:
        positions: list[Position] = end.value
        return positions
    raise AssertionError("it asks for ever")


def account(kind: Kind, data: bytes) -> Account:
    return Account(b"a" * 32, kind, 1, data, 5)


def borrowed(data: bytes, accounts: Mapping[bytes, bytes]) -> Position:
    [found] = run([account(lend.POSITION, data)], {NFT: 1}, known(accounts), NOW_S)
    return found


def test_collateral_and_debt_of_a_position_are_in_the_tokens_decimals() -> None:
    found = borrowed(position(), vault())
    supply, debt = found.assets
    assert (supply.role, supply.mint, supply.amount_raw) == (Role.SUPPLY, COIN, 10**12)
    assert (debt.role, debt.mint) == (Role.BORROW, USD)
    assert debt.amount_raw == -(-debt_of(TICK, 10**12) // 1000)
    assert debt.amount_raw == pytest.approx(10**9 * 1.0015**TICK, rel=1e-6)
    assert (found.id, found.stands_for, found.missing) == (NFT, {NFT: 1}, [])


def test_a_position_without_debt_has_none() -> None:
    found = borrowed(position(is_supply=True), vault())
    assert [(each.role, each.amount_raw) for each in found.assets] == [(Role.SUPPLY, 10**12)]


@pytest.mark.parametrize("changed", [{"is_liquidated": 1}, {"ids": 2}])
def test_a_liquidated_position_needs_its_branch(changed: dict[str, int]) -> None:
    found = borrowed(position(), vault(**changed))
    assert [each.amount_raw for each in found.assets] == [None, None]
    assert len(found.missing) == 1


def test_branches_that_merge_in_a_circle_lead_nowhere() -> None:
    accounts = vault(is_liquidated=1)
    one = (1 << 34) << 15 | 16384 - 34
    tick = address(b"tick", struct.pack("<I", TICK + MAX_TICK))
    accounts[tick] = accounts[tick][:27] + struct.pack("<BIQ", 0, 0, one)
    branch = lend.BRANCH.tag + VAULT + struct.pack("<IBiIQQIi", 0, 2, TICK, 0, 0, one, 0, 0)
    accounts[address(b"branch", bytes(4))] = branch
    found = borrowed(position(), accounts)
    assert [each.amount_raw for each in found.assets] == [None, None]
    assert any("branches" in each for each in found.unsupported_fields)


def test_a_merge_by_a_factor_of_one_leaves_the_other_factor_to_its_last_bit() -> None:
    accounts = vault(is_liquidated=1)
    one, factor = (1 << 34) << 15 | 16384 - 34, (1 << 34 | 1) << 15 | 16384 - 34
    tick = address(b"tick", struct.pack("<I", TICK + MAX_TICK))
    accounts[tick] = accounts[tick][:27] + struct.pack("<BIQ", 0, 0, one)
    for number, status, next_number in ((0, 2, 1), (1, 0, 0)):
        branch = struct.pack(
            "<IBiIQQIi", number, status, TICK, 2**30 - 1, 0, factor, next_number, 0
        )
        at = address(b"branch", struct.pack("<I", number))
        accounts[at] = lend.BRANCH.tag + VAULT + branch
    supply, _ = borrowed(position(), accounts).assets
    # The end's factor is what it was at the merge: all is left but the 0.01 % that is taken off.
    assert supply.amount_raw == pytest.approx(999_900_000_000, rel=0, abs=3)


@pytest.mark.parametrize("left_out", range(6))
def test_what_is_not_there_is_missing_and_nothing_is_guessed(left_out: int) -> None:
    accounts = vault()
    gone = list(accounts)[left_out]
    del accounts[gone]
    found = borrowed(position(), accounts)
    assert gone in found.missing
    assert all(each.amount_raw is None for each in found.assets)


def test_a_position_is_its_nft_s_holder_s() -> None:
    owned = [account(lend.POSITION, position())]
    assert run(owned, {}, known(vault()), NOW_S) == []


def lending(reserve_at: bytes, model: bytes = bytes(32)) -> bytes:
    data = lend.LENDING.tag + USD + F_TOKEN + struct.pack("<HB", 1, 6) + model
    data += struct.pack("<QQQ", SCALE, 2 * SCALE, NOW_S) + reserve_at + bytes(33)
    return data


def test_shares_of_earn_grow_with_the_price_of_liquidity() -> None:
    at = b"r" * 32
    accounts = known({at: reserve(supply=SCALE * 11 // 10)})
    [found] = run([account(lend.LENDING, lending(at))], {F_TOKEN: 1000}, accounts, NOW_S)
    assert [each.amount_raw for each in found.assets] == [2200]
    assert found.stands_for == {F_TOKEN: 1000}
    [lacking] = run([account(lend.LENDING, lending(at))], {F_TOKEN: 1000}, {}, NOW_S)
    assert (lacking.missing, lacking.assets[0].amount_raw) == ([at], None)


def rewards_model(tvl: int = 0, yearly: int = 0, past_s: int = 0) -> bytes:
    numbers = struct.pack("<QQQQQQ", tvl, 31_536_000, NOW_S - past_s, yearly, 0, 0)
    return (lend.REWARDS_MODEL.tag + USD + numbers).ljust(89, b"\0")


def test_rewards_of_earn_raise_the_price_by_what_all_shares_are_worth() -> None:
    at, model_at = b"r" * 32, b"w" * 32
    data = bytearray(lending(at, model_at))
    data[123:131] = struct.pack("<Q", NOW_S - 31_536_000)
    earn = account(lend.LENDING, bytes(data))
    mint = Account(F_TOKEN, MINT, 1, bytes(36) + struct.pack("<QBB", 500, 6, 1) + bytes(36), 4)
    # All 500 shares are worth 1,000; the rewards of a year are 200 of these, of half a year 100.
    for model, amount in (
        (rewards_model(yearly=200, past_s=31_536_000), 2400),
        (rewards_model(yearly=200, past_s=31_536_000 // 2), 2200),
        (rewards_model(yearly=200, past_s=31_536_000, tvl=1001), 2000),
        (rewards_model(yearly=700, past_s=31_536_000), 3000),  # half of all at most
        (rewards_model(yearly=200, past_s=-9), 2000),
    ):
        there = {**known({at: reserve(), model_at: model}), F_TOKEN: mint}
        [found] = run([earn], {F_TOKEN: 1000}, there, NOW_S)
        assert [(each.role, each.amount_raw) for each in found.assets] == [(Role.SUPPLY, amount)]
        assert (found.missing, found.unsupported_fields) == ([], [])
    for gone in (at, model_at, F_TOKEN):
        there = {**known({at: reserve(), model_at: rewards_model()}), F_TOKEN: mint}
        del there[gone]
        [found] = run([earn], {F_TOKEN: 1000}, there, NOW_S)
        assert (found.missing, found.assets[0].amount_raw) == ([gone], None)


@given(st.integers(MIN_TICK, MAX_TICK - 1))
def test_a_higher_tick_owes_more(tick: int) -> None:
    assert ratio_at(tick) < ratio_at(tick + 1)
    assert ratio_at(tick + 1) == pytest.approx(2**48 * 1.0015 ** (tick + 1), rel=1e-3)


@given(st.binary(max_size=230), st.integers(0, 2**63))
def test_any_bytes_are_read_or_unreadable(noise: bytes, time_s: int) -> None:
    accounts = {
        at: each._replace(data=(each.kind.tag + noise).ljust(len(noise) % 230, b"\xff"))
        for at, each in known(vault()).items()
    }
    for data in (position(), position()[:46] + noise, lend.POSITION.tag + noise):
        for references in (accounts, known(vault())):
            held = [account(lend.POSITION, data), account(lend.LENDING, data + noise)]
            tokens = {data[14:46]: 1, held[1].data[40:72]: 5}
            try:
                run(held, tokens, references, time_s)
            except Unreadable as failure:
                assert failure.account == b"a" * 32  # noqa: PT017 - either outcome is right


def check(world: dict[str, Any]) -> None:
    accounts = known({key(at): base64.b64decode(of) for at, of in world["accounts"].items()})
    assert len(accounts) == len(world["accounts"])
    held = [accounts[key(world["lending"])], accounts[key(world["position"])]]
    shares = int(world["shares"])
    tokens = {key(world["f_token"]): shares, key(world["position_mint"]): 1}
    earn, found = run(held, tokens, accounts, world["time_s"])
    theirs = world["answers"]
    assert earn.assets[0].amount_raw == int(theirs["earn"])
    supply_price, borrow_price = map(int, theirs["vault"])
    supply_scale, borrow_scale = (
        10 ** max(9 - theirs[of], 0) for of in ("supplyMintDecimals", "borrowMintDecimals")
    )
    amounts = {each.role: each.amount_raw for each in found.assets}
    if theirs["position"] is None:  # the SDK refuses the branches' factors
        assert set(amounts.values()) == {None}
        assert any("branches" in each for each in found.unsupported_fields)
        return
    left = {name: int(value) for name, value in theirs["position"].items()}
    supplied = left["collateral"] * supply_price // SCALE // supply_scale
    owed = max(left["debt"] - left["dust"], 0)
    debt = -(-owed * borrow_price // (SCALE * borrow_scale))
    assert amounts[Role.SUPPLY] == supplied
    assert amounts.get(Role.BORROW, 0) == debt


def test_recorded_worlds_are_read_as_the_sdk_read_them() -> None:
    """Recorded with `node worlds.mjs 20 > worlds.jsonl` where the SDK is installed."""
    worlds = [json.loads(line) for line in (HERE / "worlds.jsonl").read_text().splitlines()]
    assert len(worlds) == 20
    for world in worlds:
        check(world)


def check_rewards(world: dict[str, Any]) -> None:
    """Compare shares whose price rewards raise with what the SDK says."""
    there = {}
    for at, (program, packed) in world["accounts"].items():
        data = base64.b64decode(packed)
        kind = kind_of(key(at), key(program), data)
        assert kind is not None
        there[key(at)] = Account(key(at), kind, 1, data, 5)
    shares = {key(world["f_token"]): int(world["shares"])}
    [found] = run([there[key(world["lending"])]], shares, there, world["time_s"])
    assert [each.amount_raw for each in found.assets] == [int(world["earn"])]


def test_recorded_rewards_of_earn_are_what_the_sdk_says() -> None:
    """Recorded with `node rewards.mjs 12 > rewards.jsonl` where the SDK is installed."""
    worlds = [json.loads(line) for line in (HERE / "rewards.jsonl").read_text().splitlines()]
    assert len(worlds) == 12
    for world in worlds:
        check_rewards(world)


@pytest.mark.node
@pytest.mark.skipif(os.environ.get("JUPITER_LEND_SDK") != "1", reason="226 MB: JUPITER_LEND_SDK=1")
def test_rewards_of_random_worlds_are_what_the_sdk_says(request: pytest.FixtureRequest) -> None:
    folder = npm.installed(request, "jupiter-lend-sdk", HERE, "@jup-ag/lend-read")
    done = subprocess.run(
        ["node", "rewards.mjs", "200"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    worlds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(worlds) == 200
    for world in worlds:
        check_rewards(world)


@pytest.mark.node
@pytest.mark.skipif(os.environ.get("JUPITER_LEND_SDK") != "1", reason="226 MB: JUPITER_LEND_SDK=1")
def test_random_worlds_are_read_as_the_sdk_reads_them(request: pytest.FixtureRequest) -> None:
    folder = npm.installed(request, "jupiter-lend-sdk", HERE, "@jup-ag/lend-read")
    done = subprocess.run(
        ["node", "worlds.mjs", "200"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    worlds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(worlds) == 200
    for world in worlds:
        check(world)
    judged(worlds=len(worlds))
