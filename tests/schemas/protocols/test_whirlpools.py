"""Liquidity of Whirlpools, against Orca's codecs and arithmetic, real accounts, and bad bytes.

No difference is known between our amounts, fees and rewards and those of `decreaseLiquidityQuote`,
`collectFeesQuote` and `collectRewardsQuote`, all without transfer fees, of pools whose vaults have
what is owed: the SDK does not look at them. Where a product exceeds u128 the SDK raises and the
program gives nothing; there we follow the program.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from schemas.protocols import whirlpools
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
from schemas.protocols.math.ticks import MAX_TICK, MIN_TICK, orca_sqrt_price_x64
from schemas.protocols.mint import MINT
from schemas.protocols.token import TOKEN
from schemas.protocols.whirlpools import (
    DYNAMIC_TICK_ARRAY,
    LOCK,
    POSITION,
    PROTOCOL,
    TICK_ARRAY,
    WHIRLPOOL,
)
from schemas.solana.addresses import key, text
from tests.support import npm
from tests.support.exploring import examples
from tests.support.judging import judged

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p19-orca-whirlpools"
SDKS = Path(__file__).parent / "whirlpool_sdks"
PROGRAM = Pubkey(POSITION.program)
WALLET, POOL, NFT, A, B, R = (bytes([n]) * 32 for n in range(1, 7))
VAULT = b"v" * 32
ENOUGH = 2**64 - 1
NOW_S = 1_700_000_100
SPACING = 4
SEEDS = range(1, 21)


def kind_of(data: bytes) -> Kind:
    return next(each for each in PROTOCOL.kinds if each.matches(POOL, POSITION.program, data))


def account(address: bytes, data: bytes, kind: Kind | None = None, slot: int = 9) -> Account:
    return Account(address, kind or kind_of(data), 1, data, slot)


def vault(address: bytes, mint: bytes, raw: int, slot: int = 9) -> Account:
    data = mint + bytes(32) + struct.pack("<Q36xB56x", raw, 1)
    return Account(address, TOKEN, 1, data, slot)


def vaults_of(pool: bytes) -> list[Account]:
    """Return vaults of a pool's rewards that have whatever is owed."""
    rewards = [pool[at : at + 64] for at in (269, 397, 525)]
    return [vault(each[32:], each[:32], ENOUGH) for each in rewards if any(each)]


def derived(*seeds: bytes) -> bytes:
    return bytes(Pubkey.find_program_address(list(seeds), PROGRAM)[0])


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
    world = World(10, time_s, 1)
    return driven(whirlpools.read(held, world), {each.address: each for each in known})


def lines(position: Position, *roles: Role) -> list[tuple[str, str]]:
    return [
        (text(each.mint), str(each.amount_raw)) for each in position.assets if each.role in roles
    ]


@pytest.fixture(scope="module")
def sdks(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "whirlpool-sdks", SDKS, "@orca-so/whirlpools-core")


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["node", "whirlpools.cjs"],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(world: dict[str, Any]) -> int:
    """Read a world; returns in how many lines it is owed something."""
    accounts = {
        key(address): account(key(address), base64.b64decode(data))
        for address, data in world["accounts"].items()
    }
    own = accounts[key(world["position"])]
    mint = key(world["mint"])
    known = [*accounts.values(), *vaults_of(accounts[key(world["market"])].data)]
    [found] = read([own], known, [mint], world["now"])
    some = [tuple(each) for each in world["amounts"] if each[1] != "0"]
    owed = [tuple(each) for each in world["owed"] if each[1] != "0"]
    role = Role.LOCKED if world["isLocked"] else Role.SUPPLY
    assert lines(found, role) == some
    assert lines(found, Role.REWARD) == owed
    assert len(found.assets) == len(some) + len(owed)
    assert found.missing == []
    assert found.unsupported_fields == []
    assert found.market == key(world["market"])
    assert found.id == (None if world["isBundled"] else mint)
    assert found.stands_for == {mint: 1}
    assert bool(found.locks) is world["isLocked"]
    lower, upper, current = world["ticks"]
    assert found.range is not None
    assert found.range.is_in_range is (lower <= current < upper)
    return len(owed)


@pytest.mark.node
def test_random_worlds_are_worth_what_the_sdk_says(sdks: Path) -> None:
    worlds = asked(sdks, [{"seed": seed} for seed in range(200)])
    earned = sum(check(world) for world in worlds)
    statuses = {world["status"] for world in worlds}
    assert statuses == {"priceInRange", "priceBelowRange", "priceAboveRange"}
    assert sum(world["isLocked"] for world in worlds) > 30
    assert earned > 700
    judged(worlds=len(worlds))


@pytest.mark.node
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_real_accounts_are_worth_what_the_sdk_says(sdks: Path) -> None:
    """What is not recorded of a world with real pools, arrays and positions is made up.

    So is the pool of an array or position whose own is not recorded: any other of its spacing.
    """

    def data(name: str) -> str:
        [file] = CORPUS.glob(f"{name}*.json")
        encoded: str = json.loads(file.read_text())["account"]["data"][0]
        return encoded

    by_spacing = {
        int.from_bytes(base64.b64decode(each)[41:43], "little"): each
        for file in sorted(CORPUS.glob("Whirlpool-*.json"))
        for each in [json.loads(file.read_text())["account"]["data"][0]]
    }
    assert [*sorted(by_spacing)] == [4, 16, 64, 128, 32896]
    somewhere = text(POOL)
    questions: list[dict[str, Any]] = [
        {"seed": seed, "pool": [somewhere, pool]} for pool in by_spacing.values() for seed in SEEDS
    ]
    recorded = "EgxU92G34jw6QDG9RuTX9StFg1PmHuDqkRKAE5kVEiZ4"
    whole = [data("TickArray-AihM"), data("TickArray-F4h3")]
    arrays = [(64, recorded, whole)]
    for spacing, name, at in ((32896, "TickArray-d688", -32), (128, "DynamicTickArray-6038", 12)):
        array = data(name)
        of = (base64.b64decode(array)[at:] + bytes(32))[:32]
        arrays.append((spacing, text(of), [array]))
    questions += [
        {"seed": seed, "pool": [pool, by_spacing[spacing]], "arrays": some}
        for spacing, pool, some in arrays
        for seed in SEEDS
    ]
    reset, other = data("Position-J6DF"), data("Position-63b5")
    of_other = text(base64.b64decode(other)[8:40])
    questions.append({"seed": 1, "pool": [recorded, by_spacing[64]], "arrays": whole, "own": reset})
    questions += [{"seed": n, "pool": [of_other, by_spacing[16]], "own": other} for n in SEEDS]
    worlds = asked(sdks, questions)
    assert sum(check(world) for world in worlds) > 3 * len(worlds)
    assert worlds[-1]["amounts"][0][1] != "0"
    judged(accounts=len(by_spacing) + sum(len(some) for _, _, some in arrays) + 2)


@pytest.mark.node
def test_square_roots_of_prices_are_the_sdks(sdks: Path) -> None:
    ticks = [MIN_TICK, MAX_TICK, *range(-20, 20), *range(MIN_TICK, MAX_TICK, 401)]
    [answer] = asked(sdks, [{"ticks": ticks}])
    assert [str(orca_sqrt_price_x64(tick)) for tick in ticks] == answer["roots"]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_recorded_accounts_are_read() -> None:
    """One position's pool is recorded; the position was reset and holds nothing."""
    recorded = {}
    for file in sorted(CORPUS.glob("*.json")):
        found = json.loads(file.read_text())
        data = base64.b64decode(found["account"]["data"][0])
        if any(each.matches(POOL, POSITION.program, data) for each in PROTOCOL.kinds):
            address = key(found["pubkey"]) if found["pubkey"] else file.name.encode()[-32:]
            recorded[address] = account(address, data)
    kinds = [each.kind for each in recorded.values()]
    assert [kinds.count(each) for each in PROTOCOL.kinds] == [2, 5, 0, 3, 1]
    reset = recorded[key("J6DFYFKUsoMYgxkbeAqVnpSb8fniA9tHR44ZQu8KBgMS")]
    [found] = read([reset], recorded.values(), [reset.data[40:72]])
    assert found.id == reset.data[40:72], "its address is derived from its mint"
    assert found.market == key("EgxU92G34jw6QDG9RuTX9StFg1PmHuDqkRKAE5kVEiZ4")
    assert found.range is not None
    assert found.assets == []
    assert found.missing == []
    [other] = [each for each in recorded.values() if each.kind is POSITION and each != reset]
    [found] = read([other], recorded.values(), [other.data[40:72]])
    assert found.missing == [other.data[8:40]]


def ticks_bytes(tick: int, growths: tuple[int, ...]) -> bytes:
    """Return a dynamic array with one tick, whose growths outside are given."""
    start = tick // (88 * SPACING) * 88 * SPACING
    fields = b"".join(each.to_bytes(16, "little") for each in (1, 1, *growths))
    ticks = [b"\1" + fields if start + at * SPACING == tick else b"\0" for at in range(88)]
    head = DYNAMIC_TICK_ARRAY.tag + struct.pack("<i", start) + POOL + bytes(16)
    return head + b"".join(ticks)


def array_at(tick: int) -> bytes:
    start = tick // (88 * SPACING) * 88 * SPACING
    return derived(b"tick_array", POOL, str(start).encode())


def pool_bytes(current: int = 0, spacing: int = SPACING) -> bytes:
    data = bytearray(WHIRLPOOL.tag + bytes(645))
    struct.pack_into("<H", data, 41, spacing)
    data[49:65] = (1 << 20).to_bytes(16, "little")
    data[65:81] = orca_sqrt_price_x64(current).to_bytes(16, "little")
    struct.pack_into("<i", data, 81, current)
    data[101:133], data[181:213], data[269:333] = A, B, R + VAULT
    data[165:181] = (5 << 64).to_bytes(16, "little")
    struct.pack_into("<Q", data, 261, NOW_S - 100)
    data[365:381] = (1 << 64).to_bytes(16, "little")
    return bytes(data)


def position_bytes(liquidity: int = 1 << 19, ticks: tuple[int, int] = (-4000, 4000)) -> bytes:
    data = bytearray(POSITION.tag + POOL + NFT + liquidity.to_bytes(16, "little") + bytes(128))
    struct.pack_into("<ii", data, 88, *ticks)
    struct.pack_into("<Q", data, 112, 7)
    return bytes(data)


OWN = derived(b"position", NFT)
AMOUNT = int(2**19 * (1 - 1.0001**-2000))  # of each token, at a price of 1
NO_GROWTH = (0,) * 5
ARRAYS = [account(array_at(tick), ticks_bytes(tick, NO_GROWTH), slot=5) for tick in (-4000, 4000)]
POOL_ACCOUNT = account(POOL, pool_bytes(), slot=7)
REWARD_VAULT = vault(VAULT, R, 1_000)
MINTS = [Account(mint, MINT, 1, bytes(44) + b"\6" + bytes(37), 1) for mint in (A, B)]


def test_fees_and_rewards_accrue_to_liquidity_in_its_range() -> None:
    own = account(OWN, position_bytes())
    [found] = read([own], [POOL_ACCOUNT, REWARD_VAULT, *ARRAYS, *MINTS], [NFT])
    assert [each.amount_raw for each in found.assets] == [AMOUNT, AMOUNT, 7 + 5 * 2**19, 50]
    assert [each.mint for each in found.assets] == [A, B, A, R]
    assert [each.decimals for each in found.assets] == [6, 6, 6, None]
    assert found.reference_slot == 5
    assert found.range is not None
    assert found.range.current == 1


def test_rewards_are_what_the_vault_has_at_most() -> None:
    """`collect_reward` pays the lesser of both, and emissions go on when nothing is left."""
    own = account(OWN, position_bytes())
    for had, paid in ((50, 50), (49, 49), (0, 0)):
        known = [POOL_ACCOUNT, *ARRAYS, *MINTS, vault(VAULT, R, had, slot=4)]
        [found] = read([own], known, [NFT])
        assert (found.assets[-1].mint, found.assets[-1].amount_raw) == (R, paid)
        assert found.reference_slot == 4
        assert found.missing == []
        short = [f"rewards: {50 - paid} more of {text(R)} are owed than its vault has"]
        assert found.unsupported_fields == (short if paid < 50 else [])


def test_positions_of_a_wallet_share_the_vault() -> None:
    mints = [bytes([n]) * 32 for n in (21, 22, 23)]
    own = [
        account(derived(b"position", mint), position_bytes().replace(NFT, mint)) for mint in mints
    ]
    found = read(own, [POOL_ACCOUNT, *ARRAYS, *MINTS, vault(VAULT, R, 70)], mints)
    assert [each.assets[-1].amount_raw for each in found] == [50, 20, 0]
    assert [len(each.unsupported_fields) for each in found] == [0, 1, 1]


def test_without_its_vault_a_reward_counts_nothing_and_the_rest_is_known() -> None:
    """A reward that nobody followed yet made supplies and fees unknown, and the wallet's worth."""
    own = account(OWN, position_bytes())
    [found] = read([own], [POOL_ACCOUNT, *ARRAYS, *MINTS], [NFT])
    assert [each.amount_raw for each in found.assets] == [AMOUNT, AMOUNT, 7 + 5 * 2**19, 0]
    assert (found.missing, found.lacking) == ([], [VAULT])
    [named] = found.unsupported_fields
    assert "counts 0 until" in named
    before = World(10, NOW_S - 100, 1)  # nothing is owed of it: the vault is not needed
    known = {each.address: each for each in (POOL_ACCOUNT, *ARRAYS, *MINTS)}
    [found] = driven(whirlpools.read(Held(WALLET, [own], {NFT: 1}), before), known)
    assert (found.lacking, found.unsupported_fields) == ([], [])


def test_a_vault_of_another_mint_is_named() -> None:
    own = account(OWN, position_bytes())
    with pytest.raises(Unreadable, match="another mint") as raised:
        read([own], [POOL_ACCOUNT, *ARRAYS, vault(VAULT, A, 9)], [NFT])
    assert raised.value.account == VAULT


def test_without_its_arrays_amounts_remain_and_fees_are_not_known() -> None:
    own = account(OWN, position_bytes())
    [found] = read([own], [POOL_ACCOUNT, ARRAYS[0]], [NFT])
    assert found.missing == [array_at(4000)]
    assert found.unsupported_fields == ["fees and rewards: a tick array is missing"]
    assert [each.amount_raw for each in found.assets] == [AMOUNT, AMOUNT, None, None, None]


def test_without_liquidity_only_what_was_owed_is_there_and_no_array_is_needed() -> None:
    own = account(OWN, position_bytes(liquidity=0))
    [found] = read([own], [POOL_ACCOUNT], [NFT])
    assert [(each.role, each.amount_raw) for each in found.assets] == [(Role.REWARD, 7)]
    assert found.missing == []


def test_without_its_pool_a_position_stays() -> None:
    [found] = read([account(OWN, position_bytes())], [], [NFT])
    assert found.missing == [POOL]
    assert found.assets == []


def test_only_the_holder_of_the_nft_has_the_position() -> None:
    assert read([account(OWN, position_bytes())], [POOL_ACCOUNT, *ARRAYS], []) == []
    assert read([], [POOL_ACCOUNT], [NFT]) == []


def test_a_position_whose_nft_is_sold_does_not_hide_the_next() -> None:
    sold = bytes([9]) * 32
    before = account(derived(b"position", sold), position_bytes().replace(NFT, sold))
    [found] = read([before, account(OWN, position_bytes())], [POOL_ACCOUNT, *ARRAYS], [NFT])
    assert found.account.address == OWN


def test_positions_of_a_bundle_count_its_nft_once() -> None:
    own = [
        account(derived(b"bundled_position", NFT, str(n).encode()), position_bytes())
        for n in (0, 9)
    ]
    found = read(own, [POOL_ACCOUNT, *ARRAYS], [NFT])
    assert [each.id for each in found] == [None, None]
    assert [each.stands_for for each in found] == [{NFT: 1}, {}]


def test_a_locked_position_is_locked_for_ever() -> None:
    lock = account(derived(b"lock_config", OWN), LOCK.tag + bytes(233), slot=3)
    [found] = read([account(OWN, position_bytes())], [POOL_ACCOUNT, *ARRAYS, lock], [NFT])
    assert found.locks == [Lock("permanent", 1 << 19, 0)]
    assert [each.role for each in found.assets[:2]] == [Role.LOCKED] * 2
    assert found.reference_slot == 3


@pytest.mark.parametrize(
    ("own", "pool", "why"),
    [
        (position_bytes()[:100], pool_bytes(), "position of 100 bytes"),
        (position_bytes(ticks=(4, 4)), pool_bytes(), "ticks 4 and 4"),
        (position_bytes(ticks=(-500000, 4)), pool_bytes(), "beyond"),
        (position_bytes(liquidity=2**128 - 1), pool_bytes(), "more than u64"),
        (position_bytes(), pool_bytes(spacing=0), "tick_spacing is 0"),
        (position_bytes(), pool_bytes()[:600], "whirlpool of 600 bytes"),
    ],
)
def test_bytes_that_are_no_position_are_named(own: bytes, pool: bytes, why: str) -> None:
    known = [account(POOL, pool, WHIRLPOOL), *ARRAYS]
    with pytest.raises(Unreadable, match=why) as raised:
        read([account(OWN, own, POSITION)], known, [NFT])
    assert raised.value.account == OWN


@pytest.mark.parametrize("size", [0, 8, 60, 70, 2000])
@pytest.mark.parametrize("kind", [TICK_ARRAY, DYNAMIC_TICK_ARRAY])
def test_an_array_that_ends_early_is_named(kind: Kind, size: int) -> None:
    arrays = [account(each.address, b"\xff" * size, kind) for each in ARRAYS]
    own = account(OWN, position_bytes())
    with pytest.raises(Unreadable, match=f"tick array of {size} bytes"):
        read([own], [POOL_ACCOUNT, *arrays], [NFT])


@given(st.binary(min_size=208, max_size=208), st.binary(min_size=645, max_size=645))
@examples(300)
def test_any_bytes_are_read_or_unreadable(own: bytes, pool: bytes) -> None:
    data = bytearray(POSITION.tag + own)
    data[8:72] = POOL + NFT
    data[88:96] = struct.pack("<ii", -4000, 4000)
    pool = WHIRLPOOL.tag + pool
    known = [account(POOL, pool), *ARRAYS, *MINTS, *vaults_of(pool)]
    try:
        [found] = read([account(OWN, bytes(data))], known, [NFT])
    except Unreadable:
        return
    assert all(each.amount_raw is not None and each.amount_raw < 2**64 for each in found.assets)


U128 = st.integers(0, 2**128 - 1)
U64 = st.integers(0, 2**64 - 1)


def clear_owed(data: bytes, pool: bytes, outside: tuple[list[int], list[int]]) -> list[int]:
    """Return what a position is owed, read field by field: fees of a and b, then rewards."""

    def u128(of: bytes, at: int) -> int:
        return int.from_bytes(of[at : at + 16], "little")

    liquidity, [current] = u128(data, 72), struct.unpack_from("<i", pool, 81)
    lower, upper = struct.unpack_from("<ii", data, 88)
    past_s = max(NOW_S - int.from_bytes(pool[261:269], "little"), 0)
    found = []
    for number, at in enumerate((165, 245, 381, 509, 637)):
        whole = u128(pool, at)
        if number >= 2 and u128(pool, 49):
            emitted = u128(pool, at - 16) * past_s
            whole += emitted // u128(pool, 49) if emitted < 2**128 else 0
        whole %= 2**128
        below = outside[0][number] if current >= lower else whole - outside[0][number]
        above = outside[1][number] if current < upper else whole - outside[1][number]
        grown = (whole - below - above - u128(data, 96 + 24 * number)) % 2**128
        earned = liquidity * grown >> 64
        owed = int.from_bytes(data[112 + 24 * number : 120 + 24 * number], "little")
        found.append((owed + (earned if earned < 2**64 else 0)) % 2**64)
    return found


@given(
    st.lists(U128, min_size=5, max_size=5),
    st.lists(U128, min_size=5, max_size=5),
    st.lists(st.tuples(U128, U64), min_size=5, max_size=5),
    st.lists(U128, min_size=8, max_size=8),
    st.integers(1, 2**40),
    st.integers(-9000, 9000),
)
@examples(100)
def test_what_is_owed_is_what_the_fields_say_one_by_one(
    lower: list[int],
    upper: list[int],
    counted: list[tuple[int, int]],
    growths: list[int],
    liquidity: int,
    current: int,
) -> None:
    own, pool = bytearray(position_bytes(liquidity)), bytearray(pool_bytes(current))
    for number, (checkpoint, owed) in enumerate(counted):
        at = 96 + 24 * number
        own[at : at + 24] = checkpoint.to_bytes(16, "little") + owed.to_bytes(8, "little")
    for at, growth in zip((165, 245, 365, 381, 493, 509, 621, 637), growths, strict=True):
        pool[at : at + 16] = growth.to_bytes(16, "little")
    mints = [A, B, R, bytes([7] * 32), bytes([8] * 32)]
    for at, mint in zip((101, 181, 269, 397, 525), mints, strict=True):
        pool[at : at + 32] = mint
        pool[at + 32 : at + 64] = bytes([at % 251]) * 32
    arrays = [
        account(array_at(tick), ticks_bytes(tick, tuple(outside)))
        for tick, outside in ((-4000, lower), (4000, upper))
    ]
    known = [account(POOL, bytes(pool)), *arrays, *vaults_of(bytes(pool))]
    [found] = read([account(OWN, bytes(own))], known, [NFT])
    rewards = [each for each in found.assets if each.role is Role.REWARD]
    owed_raw = clear_owed(bytes(own), bytes(pool), (lower, upper))
    expected = [(mint, owed) for mint, owed in zip(mints, owed_raw, strict=True) if owed]
    assert [(each.mint, each.amount_raw) for each in rewards] == expected


def test_a_pool_that_changed_is_read_anew() -> None:
    own = account(OWN, position_bytes())
    for fee, owed in ((5, 5), (6, 6), (5, 5)):  # the last as after a fork that came to nothing
        pool = bytearray(pool_bytes())
        pool[165:181] = (fee << 64).to_bytes(16, "little")
        [found] = read([own], [account(POOL, bytes(pool)), *ARRAYS, *MINTS], [NFT])
        assert found.assets[2].amount_raw == 7 + owed * 2**19
