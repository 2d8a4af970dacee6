"""Shares of Raydium's pools: by hand, with hostile bytes, and against Raydium's own SDK.

The SDK encodes the bytes and computes the amounts. It does not know what a withdrawal from an AMM
v4 pool adds to Raydium's profit. So its worlds are of status 3, in which the program takes none;
and in those of other statuses it shares what the profit leaves, which the judge computes in real
numbers and the program in steps that cut off. `RAYDIUM_SDK=1` runs it (184 MB); `answers.jsonl` is
what `node raydium.cjs 20` said, `profits.jsonl.gz` what `node raydium.cjs profits 20` said.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from struct import pack, pack_into
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import raydium_amm_v4 as amm
from schemas.protocols import raydium_cpmm as cpmm
from schemas.protocols import raydium_farms as farms
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Position,
    Protocol,
    Role,
    Unreadable,
    World,
    issuer_of,
)
from schemas.protocols.registry import kind_of, whole_pool
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import TOKEN_PROGRAM, key, text
from tests.support import npm
from tests.support.exploring import examples
from tests.support.judging import judged

SDK = Path(__file__).parent / "raydium_sdk"
PACKAGE = "@raydium-io/raydium-sdk-v2"
REAL = (
    Path(__file__).parents[4]
    / "shared/corpus/accounts/p21-raydium-amm-v4"
    / "AmmInfo-5y2QYKY8gQCcmG6jy4fc7wFg8L5SW7bkyvMH3jUTqBdy.json"
)
WALLET, POOL, LP, COIN, PC, COIN_VAULT, PC_VAULT, TARGETS, NFT, LOCK = (
    bytes([n]) * 32 for n in range(1, 11)
)
WORLD = World(9, 9, 9)
ADDED = 100  # LP tokens of a pool


def account(address: bytes, kind: Kind, data: bytes, slot: int = 9) -> Account:
    return Account(address, kind, 1, data, slot)


def vault(address: bytes, mint: bytes, amount: int, slot: int = 8) -> Account:
    data = mint + POOL + pack("<Q", amount) + bytes(36) + b"\1" + bytes(56)
    return account(address, TOKEN, data, slot)


def amm_pool(coin_owed: int = 0, pc_owed: int = 0, status: int = 6, lp: int = ADDED) -> bytes:
    data = bytearray(752)
    for at, value in ((0, status), (32, 6), (40, 6), (120, 10**6), (160, 12), (168, 100)):
        pack_into("<Q", data, at, value)
    for at, value in ((192, coin_owed), (200, pc_owed), (720, lp)):
        pack_into("<Q", data, at, value)
    for at, address in ((336, COIN_VAULT), (368, PC_VAULT), (400, COIN), (432, PC)):
        data[at : at + 32] = address
    data[464:496], data[592:624] = LP, TARGETS
    return bytes(data)


def targets(x: int, y: int) -> Account:
    data = bytearray(2208)
    pack_into("<QQQQ", data, 1024, x, 0, y, 0)
    return account(TARGETS, amm.TARGETS, bytes(data), 7)


def cpmm_pool(owed: tuple[int, ...] = (0,) * 6, lp: int = ADDED) -> bytes:
    data = bytearray(637)
    data[:8] = cpmm.POOL.tag
    for at, address in ((72, COIN_VAULT), (104, PC_VAULT), (136, LP), (168, COIN), (200, PC)):
        data[at : at + 32] = address
    data[331:333] = bytes((6, 9))
    pack_into("<Q", data, 333, lp)
    for at, value in zip((341, 349, 357, 365, 397, 405), owed, strict=True):
        pack_into("<Q", data, at, value)
    return bytes(data)


def lock(lp: int) -> Account:
    data = cpmm.LOCK.tag + pack("<4Q", lp, 0, 0, 0) + bytes(24) + POOL + NFT + WALLET + LP
    return account(LOCK, cpmm.LOCK, data + bytes(64))


def answered(
    protocol: Protocol,
    accounts: list[Account],
    tokens: Mapping[bytes, int],
    *known: Account,
    wallet: bytes = WALLET,
    world: World = WORLD,
    issuers: Mapping[bytes, Account] | None = None,
) -> list[Position]:
    assert protocol.read is not None
    reading = protocol.read(Held(wallet, accounts, tokens), world)
    stored = {each.address: each for each in known} | {**(issuers or {})}
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: stored[each] for each in wanted if each in stored})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("it wants accounts without end")


def amounts(position: Position) -> list[int | None]:
    return [each.amount_raw for each in position.assets]


def test_an_amm_share_is_of_the_vaults_less_what_raydium_may_take():
    data = amm_pool(coin_owed=50, pc_owed=70)
    known = (vault(COIN_VAULT, COIN, 1_050), vault(PC_VAULT, PC, 4_070), targets(4_000, 1_000))
    [position] = answered(amm.PROTOCOL, [account(POOL, amm.POOL, data)], {LP: 33}, *known)
    assert amounts(position) == [330, 1_320], "nothing has grown since it was counted"
    assert [each.mint for each in position.assets] == [COIN, PC]
    assert position.stands_for == {LP: 33}
    assert position.reference_slot == 7
    assert position.range is not None
    assert position.range.current == 4
    assert not position.missing


def test_an_amm_withdrawal_takes_raydiums_part_of_what_trades_earned_first():
    # k was 1,000,000 x 1,000,000; 1,210,000 of each now: each grew by 210,000, 12 % is Raydium's.
    known = (vault(COIN_VAULT, COIN, 1_210_000), vault(PC_VAULT, PC, 1_210_000))
    counted = targets(1_000_000, 1_000_000)
    held = [account(POOL, amm.POOL, amm_pool())]
    [position] = answered(amm.PROTOCOL, held, {LP: 100}, *known, counted)
    assert amounts(position) == [1_210_000 - 25_200] * 2
    only = [account(POOL, amm.POOL, amm_pool(status=3))]
    [position] = answered(amm.PROTOCOL, only, {LP: 100}, *known, counted)
    assert amounts(position) == [1_210_000] * 2
    [position] = answered(amm.PROTOCOL, held, {LP: 100}, *known, targets(10**7, 10**7))
    assert amounts(position) == [None, None], "the program refuses: k cannot shrink"
    assert "refuses" in position.unsupported_fields[0]


def test_an_amm_withdrawal_fails_where_raydiums_part_is_more_than_the_pool_has_of_one_token():
    """When k was 55 x 55, it was 5 coin (5.5) by 550 pc at the price of now: 5 and 450 grew."""
    data = bytearray(amm_pool())
    known = vault(COIN_VAULT, COIN, 10), vault(PC_VAULT, PC, 1_000), targets(55, 55)
    for percent, expected in ((220, [None, None]), (200, [10 - 10, 1_000 - 900])):
        pack_into("<Q", data, 160, percent)
        held = [account(POOL, amm.POOL, bytes(data))]
        [position] = answered(amm.PROTOCOL, held, {LP: 100}, *known)
        assert amounts(position) == expected


FARM, LP_VAULT, ISSUER = b"f" * 32, b"v" * 32, issuer_of(LP, amm.POOL)


def stake(lp: int) -> list[Account]:
    """Return a stake of LP tokens, its farm and the farm's vault."""
    data = bytes(16) + FARM + WALLET + pack("<Q", lp) + bytes(208)
    farm = account(FARM, farms.FARM_V6, bytes(104) + LP_VAULT + bytes(1976 - 136), 6)
    return [account(LOCK, farms.LEDGERS[4], data), farm, vault(LP_VAULT, LP, 10**6)]


def test_a_stake_in_a_farm_whose_pool_is_not_known_is_lp_tokens_of_its_owner_alone():
    ledger, *known = stake(77)
    [position] = answered(amm.PROTOCOL, [ledger], {}, *known)
    assert [(each.role, each.mint, each.amount_raw) for each in position.assets] == [
        (Role.SUPPLY, LP, 77)
    ]
    assert position.market == FARM
    assert len(position.unsupported_fields) == 1
    assert not answered(amm.PROTOCOL, [ledger], {}, *known, wallet=COIN)
    for lacking, there in ((FARM, ()), (LP_VAULT, known[:1])):
        [position] = answered(amm.PROTOCOL, [ledger], {}, *there)
        assert (position.missing, position.assets) == ([lacking], [])


def test_lp_tokens_in_a_farm_are_worth_their_part_of_the_pool_beside_those_in_the_wallet():
    ledger, *known = stake(33)
    pool = account(POOL, amm.POOL, amm_pool())
    of_pool = vault(COIN_VAULT, COIN, 1_000), vault(PC_VAULT, PC, 4_000), targets(4_000, 1_000)
    [position] = answered(amm.PROTOCOL, [ledger], {}, *known, *of_pool, issuers={ISSUER: pool})
    assert amounts(position) == [330, 1_320]
    assert [each.mint for each in position.assets] == [COIN, PC]
    assert (position.account.address, position.market, position.id) == (LOCK, POOL, None)
    assert not position.stands_for, "the wallet has not got these tokens"
    assert (position.reference_slot, position.unsupported_fields) == (6, [])
    held, staked = answered(amm.PROTOCOL, [ledger, pool], {LP: 10}, *known, *of_pool)
    assert amounts(held) == [100, 400]
    assert amounts(staked) == [330, 1_320], "the pool is among what the wallet's tokens led to"
    [position] = answered(amm.PROTOCOL, [ledger], {}, *known, issuers={ISSUER: pool})
    assert {*position.missing} == {COIN_VAULT, PC_VAULT, TARGETS}
    assert amounts(position) == [None, None]
    short = pool._replace(data=pool.data[:700])
    for broken, stakes in ((short, stake(33)), (pool, stake(ADDED + 1))):
        with pytest.raises(Unreadable) as raised:
            answered(amm.PROTOCOL, stakes[:1], {}, *stakes[1:], issuers={ISSUER: broken})
        assert raised.value.account == LOCK, "it is left out, and other stakes are read"


def check_rewards(world: dict[str, Any]) -> None:
    """Compare what a stake has earned with what the SDK says."""
    version = world["version"]
    ledger_kind = {3: farms.LEDGERS[1], 5: farms.LEDGERS[3], 6: farms.LEDGERS[4]}[version]
    farm_kind = {3: farms.FARM_V3, 5: farms.FARM_V5, 6: farms.FARM_V6}[version]
    data = {name: base64.b64decode(world[name]) for name in ("ledger", "farm", "token")}
    at = ledger_kind.wallets[0]
    farm_at, wallet = data["ledger"][at - 32 : at], data["ledger"][at : at + 32]
    vault_at = data["farm"][104:136] if version == 6 else data["farm"][16:48]
    known = [account(farm_at, farm_kind, data["farm"]), account(vault_at, TOKEN, data["token"])]
    theirs = [(key(address), int(amount)) for address, amount in world["rewards"]]
    if version != 6:  # it names the rewards' vaults: here each is of its own mint
        known += [vault(address, address, 5) for address, _ in theirs]
    ledger = account(LOCK, ledger_kind, data["ledger"])
    world_of = World(world["slot"], world["time_s"], 9)
    [position] = answered(amm.PROTOCOL, [ledger], {}, *known, wallet=wallet, world=world_of)
    rewards = [each for each in position.assets if each.role is Role.REWARD]
    assert [(each.mint, each.amount_raw) for each in rewards] == [
        each for each in theirs if each[1] > 0
    ]


def test_recorded_rewards_of_farms_are_what_the_sdk_says() -> None:
    """Recorded with `node farm_rewards.cjs 9 > farm_rewards.jsonl`."""
    worlds = [json.loads(line) for line in (SDK / "farm_rewards.jsonl").read_text().splitlines()]
    assert [each["version"] for each in worlds] == [3, 5, 6] * 3
    for world in worlds:
        check_rewards(world)


def test_a_reward_whose_vault_is_not_known_is_asked_for():
    [world, *_] = [json.loads(line) for line in (SDK / "farm_rewards.jsonl").open()]
    data = {name: base64.b64decode(world[name]) for name in ("ledger", "farm", "token")}
    known = (
        account(data["ledger"][8:40], farms.FARM_V3, data["farm"]),
        account(data["farm"][16:48], TOKEN, data["token"]),
    )
    ledger = account(LOCK, farms.LEDGERS[1], data["ledger"])
    later = World(world["slot"], world["time_s"], 9)
    wallet = data["ledger"][40:72]
    [position] = answered(amm.PROTOCOL, [ledger], {}, *known, wallet=wallet, world=later)
    assert (position.missing, position.lacking) == ([], [data["farm"][48:80]])
    assert "asked for" in position.unsupported_fields[0]
    assert [each.role for each in position.assets] == [Role.SUPPLY]
    narrow = data["ledger"][:88]
    old = account(LOCK, farms.LEDGERS[0], narrow)
    reward_vault = vault(data["farm"][48:80], COIN, 5)
    found = [
        answered(amm.PROTOCOL, [each], {}, *known, reward_vault, wallet=wallet, world=later)[
            0
        ].assets
        for each in (ledger, old)
    ]
    assert found[0] == found[1], "debts of a first ledger are u64"
    assert found[0][1].mint == COIN


@pytest.mark.parametrize("ledger", farms.LEDGERS, ids=lambda kind: kind.name)
def test_a_ledger_of_each_age_has_farm_owner_and_stake_in_a_row(ledger):
    at = 16 if ledger.size == 296 else 8
    data = (bytes(at) + POOL + WALLET + pack("<Q", 77)).ljust(ledger.size, b"\0")
    assert ledger.matches(LOCK, ledger.program, data)
    assert [data[place : place + 32] for place in ledger.wallets] == [WALLET]
    [position] = answered(amm.PROTOCOL, [account(LOCK, ledger, data)], {})
    assert position.missing == [POOL]


def test_a_cpmm_share_is_of_the_vaults_less_all_fees():
    data = cpmm_pool((1, 2, 10, 20, 100, 200))
    known = vault(COIN_VAULT, COIN, 1_111), vault(PC_VAULT, PC, 2_222, slot=5)
    [position] = answered(cpmm.PROTOCOL, [account(POOL, cpmm.POOL, data)], {LP: 33}, *known)
    assert amounts(position) == [330, 660]
    assert [each.decimals for each in position.assets] == [6, 9]
    assert position.reference_slot == 5
    assert position.stands_for == {LP: 33}


def cpmm_of(status: int) -> bytes:
    data = bytearray(cpmm_pool())
    data[329] = status
    return bytes(data)


@pytest.mark.parametrize(
    ("protocol", "kind", "pool_of", "paused", "paying"),
    [
        (
            amm.PROTOCOL,
            amm.POOL,
            lambda status: amm_pool(status=status),
            (0, 2, 8),
            (1, *range(3, 8)),
        ),
        (cpmm.PROTOCOL, cpmm.POOL, cpmm_of, (2, 7), (0, 1, 5)),
    ],
    ids=("amm_v4", "cpmm"),
)
def test_shares_of_a_pool_that_pays_nothing_out_are_locked(
    protocol: Protocol,
    kind: Kind,
    pool_of: Callable[[int], bytes],
    paused: tuple[int, ...],
    paying: tuple[int, ...],
) -> None:
    known = vault(COIN_VAULT, COIN, 1_000), vault(PC_VAULT, PC, 4_000), targets(4_000, 1_000)
    for role, statuses in ((Role.LOCKED, paused), (Role.SUPPLY, paying)):
        for status in statuses:
            held = [account(POOL, kind, pool_of(status))]
            [position] = answered(protocol, held, {LP: 33}, *known)
            assert [(each.role, each.amount_raw) for each in position.assets] == [
                (role, 330),
                (role, 1_320),
            ]
            assert len(position.unsupported_fields) == (role is Role.LOCKED)


def test_locked_liquidity_is_of_the_nfts_holder_and_not_of_its_former_owner():
    known = (
        account(POOL, cpmm.POOL, cpmm_pool()),
        vault(COIN_VAULT, COIN, 1_000),
        vault(PC_VAULT, PC, 2_000),
    )
    [position] = answered(cpmm.PROTOCOL, [lock(40)], {NFT: 1}, *known)
    assert [each.role for each in position.assets] == [Role.LOCKED] * 2
    assert amounts(position) == [400, 800]
    assert position.id == NFT
    assert position.stands_for == {NFT: 1}
    assert [(each.kind, each.locked_raw) for each in position.locks] == [("permanent", 40)]
    assert position.unsupported_fields[0].startswith("rewards")
    assert not answered(cpmm.PROTOCOL, [lock(40)], {}, *known)
    [position] = answered(cpmm.PROTOCOL, [lock(40)], {NFT: 1})
    assert position.missing == [POOL]


@pytest.mark.parametrize(
    ("protocol", "kind", "data"),
    [(amm.PROTOCOL, amm.POOL, amm_pool()), (cpmm.PROTOCOL, cpmm.POOL, cpmm_pool())],
)
def test_a_vault_that_is_not_known_is_named_and_no_amount_guessed(
    protocol: Protocol, kind: Kind, data: bytes
) -> None:
    known = vault(COIN_VAULT, COIN, 1_000), targets(1, 1)
    [position] = answered(protocol, [account(POOL, kind, data)], {LP: 1}, *known)
    assert position.missing == [PC_VAULT]
    assert position.assets[1].amount_raw is None
    assert position.unsupported_fields
    assert not answered(protocol, [account(POOL, kind, data)], {COIN: 5}, *known)


@pytest.mark.parametrize(
    ("protocol", "kind", "pool_of"),
    [(amm.PROTOCOL, amm.POOL, amm_pool), (cpmm.PROTOCOL, cpmm.POOL, cpmm_pool)],
)
def test_all_lp_tokens_of_a_pool_together_withdraw_its_reserves(
    protocol: Protocol, kind: Kind, pool_of: Callable[..., bytes]
) -> None:
    pool = account(POOL, kind, pool_of())
    whole = whole_pool(pool, LP)
    assert whole == (protocol, Held(bytes(32), [pool], {LP: ADDED}))
    known = vault(COIN_VAULT, COIN, 1_000), vault(PC_VAULT, PC, 4_000), targets(4_000, 1_000)
    [position] = answered(protocol, [pool], {LP: ADDED}, *known, wallet=bytes(32))
    assert amounts(position) == [1_000, 4_000]
    empty = account(POOL, kind, pool_of(lp=0))
    for other, mint in (
        (pool, COIN),
        (empty, LP),
        (pool._replace(data=pool.data[:200]), LP),
        (lock(40), LP),
        (vault(POOL, LP, 40), LP),
    ):
        assert whole_pool(other, mint) is None


def test_what_the_program_would_not_do_is_unreadable():
    def read(data: bytes, lp: int, *known: Account) -> None:
        answered(cpmm.PROTOCOL, [account(POOL, cpmm.POOL, data)], {LP: lp}, *known)

    good = vault(COIN_VAULT, COIN, 10), vault(PC_VAULT, PC, 10)
    for data, lp, known, why in (
        (cpmm_pool(), ADDED + 1, good, "101 of 100 LP"),
        (cpmm_pool((11, 0, 0, 0, 0, 0)), 1, good, "11 are owed"),
        (cpmm_pool(), 1, (vault(COIN_VAULT, PC, 10), good[1]), "another mint"),
        (cpmm_pool()[:200], 1, good, "no integer"),
    ):
        with pytest.raises(Unreadable, match=why) as raised:
            read(data, lp, *known)
        assert raised.value.account is not None


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 2**64 - 1), st.data())
@examples(200)
def test_shares_are_never_more_than_the_reserve(
    coin: int, pc: int, supply: int, drawn: st.DataObject
) -> None:
    first = drawn.draw(st.integers(0, supply))
    held = [account(POOL, cpmm.POOL, cpmm_pool(lp=supply))]
    known = vault(COIN_VAULT, COIN, coin), vault(PC_VAULT, PC, pc)
    both = [
        amounts(position)
        for shares in (first, supply - first)
        for position in answered(cpmm.PROTOCOL, held, {LP: shares}, *known)
    ]
    for side, reserve in enumerate((coin, pc)):
        withdrawn = sum(each[side] or 0 for each in both)
        assert reserve - 1 <= withdrawn <= reserve


@pytest.mark.parametrize("seed", range(60))
def test_hostile_bytes_are_unreadable_or_read(seed: int) -> None:
    rng = Random(seed)
    for protocol, kind, good in (
        (amm.PROTOCOL, amm.POOL, amm_pool()),
        (cpmm.PROTOCOL, cpmm.POOL, cpmm_pool()),
        (cpmm.PROTOCOL, cpmm.LOCK, lock(7).data),
        (amm.PROTOCOL, farms.LEDGERS[4], bytes(16) + POOL + WALLET + bytes(216)),
    ):
        data = bytearray(good)
        for _ in range(rng.randint(1, 60)):
            data[rng.randrange(len(data))] = rng.choice((0, 255, rng.randrange(256)))
        if seed % 5 == 0:
            del data[rng.randrange(len(data)) :]
        if seed % 7 == 0:
            data[:] = bytes([rng.choice((0, 255))]) * len(data)
        at = (kind.mints or kind.wallets)[0]
        tokens = {bytes(data[at : at + 32]): 2**64 - 1 if seed % 2 else 1}
        mess = Account(TARGETS, amm.TARGETS, 1, rng.randbytes(rng.choice((0, 2208))), 1)
        known = [vault(COIN_VAULT, COIN, rng.getrandbits(64)), vault(PC_VAULT, PC, 5), mess]
        known.append(account(POOL, cpmm.POOL, cpmm_pool()))
        with suppress(Unreadable):
            found = answered(protocol, [account(LOCK, kind, bytes(data))], tokens, *known)
            assert all(isinstance(each, Position) for each in found)


def check(world: dict[str, Any]) -> int:
    """Compare one of the SDK's worlds with ours; returns how many amounts differ as they may.

    Where a withdrawal takes a profit, the program cuts off 1 of what pc was, and with it a part of
    coin, and a unit at each division: less than the bounds here, of the real numbers of the judge.
    """
    protocol, program = {
        "cpmm": (cpmm.PROTOCOL, cpmm.POOL.program),
        "amm": (amm.PROTOCOL, amm.POOL.program),
    }[world["kind"]]
    data = base64.b64decode(world["data"])
    kind = kind_of(POOL, program, data)
    assert kind is not None
    [lp_mint] = kind.found_by(data)
    known = []
    for address, packed in world["vaults"]:
        bytes_of = base64.b64decode(packed)
        assert kind_of(key(address), TOKEN_PROGRAM, bytes_of) is TOKEN
        known.append(account(key(address), TOKEN, bytes_of))
    counted = base64.b64decode(world["targets"]) if "targets" in world else bytes(2208)
    known.append(Account(data[592:624], amm.TARGETS, 1, counted, 1))
    lp = int(world["lp"])
    [position] = answered(protocol, [account(POOL, kind, data)], {lp_mint: lp}, *known)
    assert not position.missing
    grown = world.get("grown", 0)
    if grown < 0:
        assert amounts(position) == [None, None], "the program refuses: k cannot shrink"
        return 0
    most = [0, 0]
    if grown:
        most = [4 + int(world["coin"]) // (4 * int(world["pc_scaled"])), 3]
    differ = 0
    for ours, theirs, bound in zip(amounts(position), world["amounts"], most, strict=True):
        assert ours is not None
        assert abs(ours - int(theirs)) <= bound, (ours, theirs, bound)
        differ += ours != int(theirs)
    return differ


def test_recorded_answers_of_the_sdk_are_ours() -> None:
    worlds = [json.loads(line) for line in (SDK / "answers.jsonl").read_text().splitlines()]
    assert len(worlds) == 20
    for world in worlds:
        check(world)


def test_recorded_shares_of_what_a_profit_leaves_are_ours() -> None:
    packed = gzip.decompress((SDK / "profits.jsonl.gz").read_bytes()).decode()
    worlds = [json.loads(line) for line in packed.splitlines()]
    assert len(worlds) == 20
    assert {each["grown"] for each in worlds} == {-1, 0, 1}
    for world in worlds:
        check(world)


def asked(
    request: pytest.FixtureRequest, *arguments: str, script: str = "raydium.cjs"
) -> list[dict[str, Any]]:
    folder = npm.installed(request, "raydium-sdk", SDK, PACKAGE)
    done = subprocess.run(
        ["node", script, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


needs_sdk = pytest.mark.skipif(
    os.environ.get("RAYDIUM_SDK") != "1", reason="RAYDIUM_SDK=1 installs 184 MB"
)


@pytest.mark.node
@needs_sdk
def test_random_pools_are_worth_what_the_sdk_says(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, "400")
    assert len({each["lp"] for each in worlds}) > 390
    for world in worlds:
        check(world)
    judged(worlds=len(worlds))


@pytest.mark.node
@needs_sdk
def test_random_pools_that_owe_a_profit_are_worth_the_sdks_share_of_the_rest(
    request: pytest.FixtureRequest,
) -> None:
    worlds = asked(request, "profits", "200")
    differences = sum(check(world) for world in worlds)
    kinds = Counter((each["status"], each["grown"]) for each in worlds)
    assert {each for each, _ in kinds} == {1, 2, 4, 5, 6, 7}
    assert min(sum(kinds[of, grown] for of, _ in kinds) for grown in (-1, 0, 1)) > 20
    judged(worlds=len(worlds), differences=differences)


@pytest.mark.node
@needs_sdk
def test_random_stakes_in_farms_are_read_as_the_sdk_wrote_them(
    request: pytest.FixtureRequest,
) -> None:
    worlds = asked(request, "ledgers")
    assert len(worlds) == 200
    for world in worlds:
        data, farm = base64.b64decode(world["data"]), base64.b64decode(world["farm"])
        program = {"3": farms.FARM_V3, "5": farms.FARM_V5, "6": farms.FARM_V6}[
            world["version"][1]
        ].program
        kind, farm_kind = kind_of(POOL, program, data), kind_of(POOL, program, farm)
        assert kind is not None
        assert farm_kind is not None
        assert kind.name == f"raydium_ledger_{world['version']}"
        held = Held(key(world["owner"]), [account(POOL, kind, data)])
        staked = account(key(world["id"]), farm_kind, farm)
        known = staked, account(key(world["vault"]), TOKEN, base64.b64decode(world["token"]))
        [position] = answered(amm.PROTOCOL, [*held.accounts], {}, *known, wallet=held.wallet)
        asset, *_ = position.assets
        assert (text(asset.mint), str(asset.amount_raw)) == (world["mint"], world["deposited"])
        assert position.market == key(world["id"])
    judged(worlds=len(worlds))


@pytest.mark.node
@needs_sdk
def test_random_rewards_of_farms_are_what_the_sdk_says(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, "200", script="farm_rewards.cjs")
    assert len(worlds) == 200
    for world in worlds:
        check_rewards(world)
    judged(worlds=len(worlds))


@pytest.mark.node
@needs_sdk
@pytest.mark.skipif(not REAL.exists(), reason="the corpus of real accounts is not here")
def test_a_real_pool_is_read_as_the_sdk_reads_it(request: pytest.FixtureRequest) -> None:
    found = json.loads(REAL.read_text())["account"]
    data = base64.b64decode(found["data"][0])
    assert kind_of(POOL, key(found["owner"]), data) is amm.POOL
    [theirs] = asked(request, "decode", found["data"][0])
    lp_mint = key(theirs["lpMint"])
    assert amm.POOL.found_by(data) == [lp_mint]
    [position] = answered(amm.PROTOCOL, [account(POOL, amm.POOL, data)], {lp_mint: 1})
    mints = [text(each.mint) for each in position.assets]
    assert mints == [theirs["baseMint"], theirs["quoteMint"]]
    assert [str(each.decimals) for each in position.assets] == [
        theirs["baseDecimal"],
        theirs["quoteDecimal"],
    ]
    assert {text(each) for each in position.missing} == {
        theirs["baseVault"],
        theirs["quoteVault"],
        theirs["targetOrders"],
    }
    judged(accounts=1)
