"""Shares of Kamino's vaults and strategies, as tokens."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Position,
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.kamino_parts import liquidity, vaults
from schemas.protocols.kamino_parts.reserve import RESERVE
from schemas.protocols.math.ticks import orca_sqrt_price_x64, raydium_sqrt_price_x64
from schemas.solana.addresses import key
from tests.support.exploring import examples

WALLET, VAULT, STRATEGY, MINT_A, MINT_B, SHARES, POOL, INSIDE = (
    bytes([n]) * 32 for n in range(1, 9)
)
RESERVES = tuple(bytes([n]) * 32 for n in range(20, 45))
WORLD = World(100, 1_700_000_000, 5)
WHIRLPOOLS = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
CLMM = key("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK")
ONE = 1 << 60
U64 = st.integers(0, 2**64 - 1)


def drive(reading: Reading, chain: Mapping[bytes, Account]) -> list[Position]:
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: chain[each] for each in wanted if each in chain})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def put(size: int, tag: bytes, fields: Mapping[int, bytes]) -> bytes:
    data = bytearray(size)
    for at, value in {0: tag, **fields}.items():
        data[at : at + len(value)] = value
    return bytes(data)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def u128(value: int) -> bytes:
    return value.to_bytes(16, "little")


def vault(
    available: int, issued: int, ctokens: Mapping[bytes, int], fees_sf: int = 0, decimals: int = 6
) -> Account:
    fields = {
        80: MINT_A,
        112: u64(decimals),
        184: SHARES,
        224: u64(available),
        232: u64(issued),
        296: u128(fees_sf),
    }
    for number, (reserve, amount) in enumerate(ctokens.items()):
        at = 312 + 2160 * number
        fields |= {at: reserve, at + 1104: u64(amount)}
    data = put(62552, vaults.VAULT.tag, fields)
    return Account(VAULT, vaults.VAULT, 1, data, 90)


def reserve(
    address: bytes, available: int, borrowed_sf: int, supply: int, fees_sf: int = 0, slot: int = 80
) -> Account:
    fields = {
        16: u64(WORLD.slot),
        224: u64(available),
        232: u128(borrowed_sf),
        344: u128(fees_sf),
        2592: u64(supply),
    }
    return Account(address, RESERVE, 1, put(8624, RESERVE.tag, fields), slot)


def held(account: Account, shares: int, mint: bytes = SHARES) -> Held:
    return Held(WALLET, [account], {mint: shares})


def read_vault(account: Account, shares: int, *reserves: Account) -> list[Position]:
    chain = {each.address: each for each in reserves}
    return drive(vaults.read(held(account, shares), WORLD), chain)


def test_shares_are_worth_their_part_of_what_a_vault_has_and_has_lent() -> None:
    first = reserve(RESERVES[0], 600, 500 * ONE, 1000, 100 * ONE)  # a token is worth 1
    second = reserve(RESERVES[1], 3000, 0, 1000, slot=70)  # 3
    account = vault(1000, 800, {RESERVES[0]: 500, RESERVES[1]: 100}, 200 * ONE)
    [found] = read_vault(account, 400, first, second)
    [asset] = found.assets
    assert (asset.mint, asset.amount_raw, asset.decimals) == (MINT_A, 800, 6)
    assert found.stands_for == {SHARES: 400}
    assert found.reference_slot == 70
    assert not found.missing
    assert not found.unsupported_fields


def test_what_a_vault_has_lent_grows_with_interest() -> None:
    idle = reserve(RESERVES[0], 1000, 10**6 * ONE, 1_001_000)
    fields = {16: u64(WORLD.slot), 4920: struct.pack("<IIII", 0, 1000, 10_000, 1000)}
    data = bytearray(idle.data)
    for at, value in fields.items():
        data[at : at + len(value)] = value
    lent = vault(0, 1000, {RESERVES[0]: 1_001_000})
    later = World(WORLD.slot + 63_072_000, WORLD.time_s, WORLD.epoch)  # a year at 10 %
    chain = {RESERVES[0]: idle._replace(data=bytes(data))}
    [found] = drive(vaults.read(held(lent, 1000), later), chain)
    amount = found.assets[0].amount_raw
    assert amount is not None
    assert 1_100_000 < amount - 1000 < 1_105_200  # compounded


def test_what_reserves_have_paid_a_vault_since_their_refresh_is_named_and_no_line() -> None:
    idle = reserve(RESERVES[0], 1000, 0, 1000)
    data = bytearray(idle.data)
    for at, value in {16: WORLD.slot - 1, 440: 5, 5792: 1}.items():
        data[at : at + 8] = u64(value)
    data[4920:4936] = struct.pack("<IIII", 0, 1000, 10_000, 1000)
    chain = idle._replace(data=bytes(data))
    [found] = read_vault(vault(0, 1000, {RESERVES[0]: 1000}), 500, chain)
    assert [(each.role, each.amount_raw) for each in found.assets] == [(Role.SUPPLY, 500)]
    [named] = found.unsupported_fields
    assert "have paid" in named


def test_a_vault_whose_share_the_wallet_lacks_is_not_its() -> None:
    account = vault(1000, 800, {})
    assert drive(vaults.read(held(account, 5, MINT_B), WORLD), {}) == []
    assert drive(vaults.read(held(account, 0), WORLD), {}) == []


def test_a_missing_reserve_leaves_the_amount_unknown() -> None:
    [found] = read_vault(vault(1000, 800, {RESERVES[0]: 500}), 400)
    assert found.missing == [RESERVES[0]]
    assert found.assets[0].amount_raw is None
    assert found.unsupported_fields


def test_a_vault_names_the_markets_of_all_reserves_that_it_has_lent_to() -> None:
    """Anybody can open a vault, and a market whose interest its shares would be worth."""
    lent = []
    for at, market in zip(RESERVES, (b"M", b"N", b"M"), strict=False):
        one = reserve(at, 600, 0, 1000)
        lent.append(one._replace(data=one.data[:32] + market * 32 + one.data[64:]))
    account = vault(1000, 800, dict.fromkeys(RESERVES[:3], 5) | {RESERVES[4]: 0})
    [found] = read_vault(account, 400, *lent)
    assert found.open_markets == [b"M" * 32, b"N" * 32]
    [lacks] = read_vault(account, 400, lent[1])
    assert lacks.open_markets == [b"N" * 32], "what it lacks does not hide the others"
    [idle] = read_vault(vault(1000, 800, {}), 400)
    assert idle.open_markets == []


def test_a_vault_without_shares_or_with_more_fees_than_tokens_pays_nothing() -> None:
    """Anybody can open one and send its shares: none of it makes a sum unknown."""
    for account in (vault(1000, 0, {}), vault(1000, 10, {}, 1001 * ONE)):
        [found] = read_vault(account, 1)
        assert found.assets[0].amount_raw == 0
        [named] = found.unsupported_fields
        assert "pays nothing" in named
    [found] = read_vault(vault(1000, 10, {}, 1000 * ONE), 1)
    assert (found.assets[0].amount_raw, found.unsupported_fields) == (0, [])


@given(U64, st.integers(1, 2**64 - 1), st.lists(st.tuples(U64, U64, U64), max_size=25), U64)
@examples(50)
def test_a_vault_never_gives_more_than_it_has(
    available: int, issued: int, lent: list[tuple[int, int, int]], part: int
) -> None:
    shares = part % issued + 1
    ctokens = {RESERVES[n]: amount for n, (amount, _, _) in enumerate(lent)}
    reserves = [reserve(RESERVES[n], total, 0, supply) for n, (_, total, supply) in enumerate(lent)]
    whole = Fraction(available)
    for amount, total, supply in lent:
        rate = Fraction(total, supply) if total and supply else Fraction(1)
        whole += Fraction(int(amount * rate * ONE), ONE)
    [found] = read_vault(vault(available, issued, ctokens), shares, *reserves)
    assert found.assets[0].amount_raw == int(whole * shares / issued)


def strategy(dex: int, idle: tuple[int, int], issued: int, inside: bytes = INSIDE) -> Account:
    fields = {
        112: POOL,
        272: inside,
        544: MINT_A,
        576: MINT_B,
        608: u64(9),
        616: u64(6),
        624: u64(idle[0]),
        632: u64(idle[1]),
        720: SHARES,
        800: u64(issued),
        1544: u64(dex),
    }
    data = put(4064, liquidity.STRATEGY.tag, fields)
    return Account(STRATEGY, liquidity.STRATEGY, 1, data, 90)


def pool(program: bytes, sqrt_price_x64: int, tick: int) -> Account:
    tag, at, tick_at = ("3f95d10ce1806309", 65, 81)
    if program == CLMM:
        tag, at, tick_at = ("f7ede3f5d7c3de46", 253, 269)
    fields = {at: u128(sqrt_price_x64), tick_at: struct.pack("<i", tick)}
    kind = Kind("a_pool", program, bytes.fromhex(tag))
    return Account(POOL, kind, 1, put(1544, kind.tag, fields), 60)


def inside(program: bytes, amount: int, ticks: tuple[int, int], of: bytes = POOL) -> Account:
    tag, at, ticks_at, amount_at = ("aabc8fe47a40f7d0", 8, 88, 72)
    if program == CLMM:
        tag, at, ticks_at, amount_at = ("466f967ee60f1975", 41, 73, 81)
    fields = {at: of, ticks_at: struct.pack("<ii", *ticks), amount_at: u128(amount)}
    kind = Kind("a_position", program, bytes.fromhex(tag))
    return Account(INSIDE, kind, 1, put(281, kind.tag, fields), 70)


def read_strategy(account: Account, shares: int, *chain: Account) -> list[Position]:
    reading = liquidity.read(held(account, shares), WORLD)
    return drive(reading, {each.address: each for each in chain})


@pytest.mark.parametrize("dex", [0, 1])
def test_shares_of_a_strategy_are_worth_its_position_and_its_idle_tokens(dex: int) -> None:
    program, root = ((WHIRLPOOLS, orca_sqrt_price_x64), (CLMM, raydium_sqrt_price_x64))[dex]
    amount, now = 10**12, 1 << 64
    lower, upper = root(-100), root(100)
    exact_a = Fraction(amount * (upper - now) << 64, now * upper)
    exact_b = Fraction(amount * (now - lower), 1 << 64)
    [found] = read_strategy(
        strategy(dex, (7, 11), 1000),
        250,
        pool(program, now, 0),
        inside(program, amount, (-100, 100)),
    )
    token_a, token_b = found.assets  # no line of fees, whose amount nobody knows
    assert (token_a.mint, token_b.mint) == (MINT_A, MINT_B)
    assert any("fees" in each for each in found.unsupported_fields)
    assert token_a.amount_raw == (7 + int(exact_a)) * 250 // 1000
    assert token_b.amount_raw == (11 + int(exact_b)) * 250 // 1000
    assert found.stands_for == {SHARES: 250}
    assert found.reference_slot == 60
    assert found.range is not None
    assert found.range.is_in_range
    assert found.range.current == 1000  # 9 decimals by 6
    assert found.market == POOL


@pytest.mark.parametrize("dex", [0, 1])
@pytest.mark.parametrize(("tick", "is_in_range"), [(-101, False), (-7, True), (100, False)])
def test_a_strategys_range_has_the_tick_of_its_pool(
    dex: int, tick: int, *, is_in_range: bool
) -> None:
    program, root = ((WHIRLPOOLS, orca_sqrt_price_x64), (CLMM, raydium_sqrt_price_x64))[dex]
    placed = inside(program, 10**12, (-100, 100))
    [found] = read_strategy(strategy(dex, (7, 11), 10), 5, pool(program, root(tick), tick), placed)
    assert found.range is not None
    assert (found.range.lower_index, found.range.upper_index) == (-100, 99)
    assert (found.range.current_index, found.range.is_in_range) == (tick, is_in_range)


@pytest.mark.parametrize(
    ("account", "why"),
    [
        (strategy(2, (7, 11), 10), "not over Orca"),
        (strategy(0, (7, 11), 10, bytes(32)), "no position"),
        (strategy(0, (7, 11), 0), "no shares"),
    ],
)
def test_a_strategy_whose_amounts_cannot_be_computed_is_a_line_of_its_shares(
    account: Account, why: str
) -> None:
    """Anybody can send one: lines of its tokens without amounts made the wallet unknown."""
    [found] = read_strategy(account, 5)
    assert [(each.role, each.mint, each.amount_raw) for each in found.assets] == [
        (Role.SUPPLY, SHARES, 5)
    ]
    [named] = found.unsupported_fields
    assert why in named
    assert (found.missing, found.stands_for) == ([], {SHARES: 5})


def test_a_strategy_whose_pool_is_missing_says_so() -> None:
    [found] = read_strategy(strategy(0, (7, 11), 10), 5, inside(WHIRLPOOLS, 5, (-10, 10)))
    assert found.missing == [POOL]
    assert {each.amount_raw for each in found.assets} == {None}


@pytest.mark.parametrize(
    "chain",
    [
        (pool(CLMM, 1 << 64, 0), inside(WHIRLPOOLS, 5, (-10, 10))),
        (pool(WHIRLPOOLS, 1 << 64, 0), inside(WHIRLPOOLS, 5, (10, 10))),
        (pool(WHIRLPOOLS, 1 << 64, 0), inside(WHIRLPOOLS, 5, (-10, 2**31 - 1))),
        (pool(WHIRLPOOLS, 1 << 64, 0), inside(WHIRLPOOLS, 5, (-10, 10), MINT_A)),
    ],
    ids=["another program", "no ticks between", "no such tick", "another pool"],
)
def test_a_strategy_whose_position_makes_no_sense_is_unreadable(
    chain: tuple[Account, Account],
) -> None:
    with pytest.raises(Unreadable) as raised:
        read_strategy(strategy(0, (1, 1), 10), 5, *chain)
    assert raised.value.account == STRATEGY


def cut(account: Account, size: int) -> Account:
    return account._replace(data=account.data[:size])


def test_accounts_of_wrong_size_are_unreadable() -> None:
    lent = vault(1, 1, {RESERVES[0]: 5})
    for size in (0, 8, 200, 62551):
        with pytest.raises(Unreadable):
            read_vault(cut(lent, size), 1)
    with pytest.raises(Unreadable, match="2000 bytes"):
        read_vault(lent, 1, cut(reserve(RESERVES[0], 1, 1, 1), 2000))
    with pytest.raises(Unreadable, match="no reserve"):
        read_vault(lent, 1, lent._replace(address=RESERVES[0]))
    with pytest.raises(Unreadable, match="fees"):
        read_vault(lent, 1, reserve(RESERVES[0], 1, 0, 1, 2 * ONE))
    for size in (0, 700, 4063):
        with pytest.raises(Unreadable):
            read_strategy(cut(strategy(0, (1, 1), 1), size), 1)
    for size in (8, 40, 80):
        with pytest.raises(Unreadable):
            read_strategy(
                strategy(0, (1, 1), 1),
                1,
                pool(WHIRLPOOLS, 1 << 64, 0),
                cut(inside(WHIRLPOOLS, 5, (-10, 10)), size),
            )


def test_tokens_of_any_number_of_decimals_are_no_error() -> None:
    """A mint has what its maker wrote; anybody can open a vault or strategy of one."""
    [found] = read_vault(vault(1000, 10, {}, decimals=33), 1)
    assert [(each.amount_raw, each.decimals) for each in found.assets] == [(100, None)]
    many = strategy(0, (70, 110), 10)
    data = bytearray(many.data)
    data[608:616] = u64(2**64 - 1)
    placed = pool(WHIRLPOOLS, 1 << 64, 0), inside(WHIRLPOOLS, 0, (-10, 10))
    [found] = read_strategy(many._replace(data=bytes(data)), 1, *placed)
    assert [(each.amount_raw, each.decimals) for each in found.assets] == [(7, None), (11, 6)]
    assert found.range is not None
    assert found.range.current is None


@given(st.binary(min_size=4056, max_size=4056), st.binary(min_size=700, max_size=700), U64)
@examples(50)
def test_hostile_bytes_raise_unreadable_or_are_read(
    noise: bytes, other: bytes, shares: int
) -> None:
    account = Account(STRATEGY, liquidity.STRATEGY, 1, liquidity.STRATEGY.tag + noise, 9)
    data = account.data
    chain = {
        data[112:144]: pool(WHIRLPOOLS, 1, 0)._replace(address=data[112:144]),
        data[272:304]: inside(WHIRLPOOLS, 1, (0, 1))._replace(data=other, address=data[272:304]),
    }
    try:
        found = drive(liquidity.read(held(account, shares, data[720:752]), WORLD), chain)
    except Unreadable:
        return
    assert len(found) == (shares > 0)
