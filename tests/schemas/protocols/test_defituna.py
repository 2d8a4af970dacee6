"""DefiTuna's deposits and leveraged positions."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from schemas.protocols import defituna
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
from schemas.protocols.math.ticks import orca_sqrt_price_x64
from schemas.protocols.registry import SLUGS
from schemas.solana.addresses import key
from tests.support.exploring import examples

WALLET, AT, MINT_A, MINT_B, POOL, VAULT_A, VAULT_B = (bytes([n]) * 32 for n in range(1, 8))
WORLD = World(100, 1_700_000_000, 5)
WHIRLPOOL = Kind(
    "a_whirlpool",
    key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"),
    bytes.fromhex("3f95d10ce1806309"),
)
U64 = st.integers(0, 2**64 - 1)
SIDES = (VAULT_A, MINT_A), (VAULT_B, MINT_B)


def derived(*seeds: bytes) -> bytes:
    return bytes(Pubkey.find_program_address(list(seeds), Pubkey(defituna.PROGRAM))[0])


MARKET = derived(b"market", POOL)


def account(
    kind: Kind, address: bytes, size: int, fields: Mapping[int, bytes], slot: int = 50
) -> Account:
    data = bytearray(size)
    for at, value in {0: kind.tag, **fields}.items():
        data[at : at + len(value)] = value
    return Account(address, kind, 1, bytes(data), slot)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def u128(value: int) -> bytes:
    return value.to_bytes(16, "little")


def vault(
    address: bytes,
    mint: bytes,
    deposited: tuple[int, int],
    borrowed: tuple[int, int],
    rate: int = 0,
) -> Account:
    interest = 0, rate, WORLD.time_s - 1
    numbers = struct.pack("<QQQQQQQ", *deposited, *borrowed, *interest)
    return account(defituna.VAULT, address, 355, {11: mint, 43: numbers})


def lending(shares: int, of: bytes) -> Account:
    fields = {11: WALLET, 43: MINT_A, 83: u64(shares), 91: of}
    return account(defituna.LENDING, AT, 155, fields)


def market(threshold: int = 830_000) -> Account:
    fields = {88: struct.pack("<I", threshold), 157: VAULT_A, 189: VAULT_B}
    return account(defituna.MARKET, MARKET, 348, fields, 40)


def lp(
    liquidity: int, ticks: tuple[int, int], loans: tuple[int, int], kept: tuple[int, int] = (0, 0)
) -> Account:
    fields = {
        11: WALLET,
        43: POOL,
        75: MINT_A,
        107: MINT_B,
        171: u128(liquidity),
        187: struct.pack("<ii", *ticks),
        195: struct.pack("<QQ", *loans),
        227: struct.pack("<QQ", *kept),
    }
    return account(defituna.LP, AT, 339, fields)


def spot(token: int, amount: int, loan: int) -> Account:
    fields = {11: WALLET, 43: POOL, 75: MINT_A, 107: MINT_B, 140: bytes([token])}
    return account(defituna.SPOT, AT, 346, {**fields, 146: u64(amount), 154: u64(loan)})


def fusion(sqrt_price_x64: int, tick: int = 0) -> Account:
    fields = {167: u128(sqrt_price_x64), 183: struct.pack("<i", tick)}
    return account(defituna.POOL, POOL, 423, fields)


def whirlpool(sqrt_price_x64: int, tick: int = 0) -> Account:
    fields = {65: u128(sqrt_price_x64), 81: struct.pack("<i", tick)}
    return account(WHIRLPOOL, POOL, 653, fields)


def read(mine: Account, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = defituna.read(Held(WALLET, [mine]), WORLD)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def test_a_deposit_is_its_part_of_the_vaults_funds_rounded_down() -> None:
    [found] = read(lending(10, VAULT_A), vault(VAULT_A, MINT_A, (1000, 300), (0, 0)))
    assert lines(found) == [("supply", MINT_A, 33)]
    assert found.market == VAULT_A
    assert found.reference_slot == 50


AUTHORITY_AT, ISOLATED_AT, CREATOR_AT = 171, 203, 237  # of a vault, its market; of a market


@pytest.mark.parametrize("at", [AUTHORITY_AT, ISOLATED_AT])
def test_a_vault_that_anybody_created_is_an_open_market(at: int) -> None:
    """Its creator chooses its interest, and can borrow of it: its funds grow to any sum."""
    own, other = (vault(each, mint, (10**15, 1), (10, 10)) for each, mint in SIDES)
    data = bytearray(own.data)
    data[at : at + 32] = b"z" * 32
    opened = own._replace(data=bytes(data))
    [found] = read(lending(10, VAULT_A), opened)
    assert found.open_markets == [VAULT_A]
    [found] = read(lending(10, VAULT_A), own)
    assert found.open_markets == []
    chain = fusion(1 << 64), market(), opened, other
    [short] = read(spot(1, 100, 20), *chain)
    assert short.open_markets == [VAULT_A]
    [long] = read(spot(0, 100, 20), *chain)
    assert long.open_markets == [], "it owes the other vault"


def test_a_market_that_anybody_created_is_open() -> None:
    of = market()
    data = bytearray(of.data)
    data[CREATOR_AT : CREATOR_AT + 32] = b"z" * 32
    both = [vault(each, mint, (0, 0), (10, 10)) for each, mint in SIDES]
    for created, opened in ((of._replace(data=bytes(data)), [MARKET]), (of, [])):
        [found] = read(spot(0, 100, 20), fusion(1 << 64), created, *both)
        assert found.open_markets == opened


def test_interest_since_a_vaults_last_update_is_not_known() -> None:
    lent = vault(VAULT_A, MINT_A, (1000, 300), (500, 100), rate=1)
    [found] = read(lending(10, VAULT_A), lent)
    assert lines(found) == [("supply", MINT_A, 33), ("pending", MINT_A, None)]
    assert any("interest" in each for each in found.unsupported_fields)
    owed = vault(VAULT_B, MINT_B, (0, 0), (10, 10), rate=1)
    [long] = read(spot(0, 100, 300), fusion(1 << 65), market(), lent, owed)
    assert lines(long) == [
        ("supply", MINT_A, 100),
        ("borrow", MINT_B, 300),
        ("borrow", MINT_B, None),
    ]
    assert long.health == Health(None, None, None)


def test_a_deposit_of_the_first_version_is_in_the_vault_of_its_mint() -> None:
    address = derived(b"vault", MINT_A)
    [found] = read(lending(10, bytes(32)), vault(address, MINT_A, (30, 10), (0, 0)))
    assert lines(found) == [("supply", MINT_A, 30)]


def test_shares_of_a_vault_without_shares_are_funds() -> None:
    [found] = read(lending(10, VAULT_A), vault(VAULT_A, MINT_A, (0, 0), (0, 0)))
    assert lines(found) == [("supply", MINT_A, 10)]


def test_a_deposit_without_its_vault_is_kept_without_an_amount() -> None:
    [found] = read(lending(10, VAULT_A))
    assert lines(found) == [("supply", MINT_A, None)]
    assert found.missing == [VAULT_A]
    assert found.unsupported_fields


@pytest.mark.parametrize("pool", [fusion, whirlpool])
def test_leveraged_liquidity_has_tokens_debts_range_and_health(pool: object) -> None:
    assert callable(pool)
    one = 1 << 64
    [found] = read(
        lp(10**9, (-1000, 1000), (10**6, 0), (5, 6)),
        pool(one),
        market(),
        vault(VAULT_A, MINT_A, (0, 0), (2_000_001, 10**6 * 2)),
        vault(VAULT_B, MINT_B, (0, 0), (0, 0)),
    )
    upper, lower = orca_sqrt_price_x64(1000), orca_sqrt_price_x64(-1000)
    held_a = 5 + int(Fraction(10**9 * (upper - one), upper))
    held_b = 6 + int(Fraction(10**9 * (one - lower), one))
    assert lines(found) == [
        ("supply", MINT_A, held_a),
        ("supply", MINT_B, held_b),
        ("borrow", MINT_A, 1_000_001),  # 1,000,000.5, rounded up
        ("reward", MINT_A, None),  # fees that are not collected
        ("reward", MINT_B, None),
    ]
    assert any("fees" in each for each in found.unsupported_fields)
    assert found.health is not None
    assert found.health.ltv == Fraction(1_000_001, held_a + held_b)
    assert found.health.liquidation_ltv == Fraction(83, 100)
    assert found.health.health_factor == Fraction(83, 100) / found.health.ltv
    assert found.range is not None
    assert (found.range.lower_index, found.range.current_index) == (-1000, 0)
    assert found.range.is_in_range
    assert found.market == MARKET
    assert found.reference_slot == 40


def test_a_long_has_a_and_owes_b_and_a_short_the_other_way_round() -> None:
    chain = (
        fusion(1 << 65),  # A is worth 4 B
        market(),
        vault(VAULT_A, MINT_A, (0, 0), (10, 10)),
        vault(VAULT_B, MINT_B, (0, 0), (10, 10)),
    )
    [long] = read(spot(0, 100, 300), *chain)
    assert lines(long) == [("supply", MINT_A, 100), ("borrow", MINT_B, 300)]
    assert long.health is not None
    assert long.health.ltv == Fraction(3, 4)
    [short] = read(spot(1, 100, 20), *chain)
    assert lines(short) == [("supply", MINT_B, 100), ("borrow", MINT_A, 20)]
    assert short.health is not None
    assert short.health.ltv == Fraction(4, 5)
    with pytest.raises(Unreadable, match="position_token"):
        read(spot(2, 100, 20), *chain)


def test_what_is_missing_is_named_and_its_amounts_unknown() -> None:
    position = lp(10**9, (-10, 10), (7, 0))
    [found] = read(position)
    assert found.missing == [POOL, MARKET]
    assert {each.amount_raw for each in found.assets} == {None}
    assert found.health is None
    [found] = read(position, fusion(1 << 64), market())
    assert found.missing == [VAULT_A]
    borrowed = [each for each in found.assets if each.role is Role.BORROW]
    assert [each.amount_raw for each in borrowed] == [None]
    assert found.health is not None
    assert found.health.health_factor is None


def test_a_position_without_a_loan_has_no_health_factor_and_needs_no_vault() -> None:
    [found] = read(spot(0, 100, 0), fusion(1 << 64), market())
    assert found.health is not None
    assert found.health.health_factor is None
    assert found.health.ltv == 0
    assert not found.missing


def test_an_empty_position_is_none() -> None:
    assert read(lp(0, (-10, 10), (0, 0)), fusion(1 << 64), market()) == []
    assert read(lending(0, VAULT_A)) == []


def test_bytes_that_are_not_what_their_kind_says_are_unreadable() -> None:
    whole = (
        fusion(1 << 64),
        market(),
        vault(VAULT_A, MINT_A, (0, 0), (1, 1)),
        vault(VAULT_B, MINT_B, (0, 0), (1, 1)),
    )
    for mine in (lp(10**9, (-10, 10), (7, 7)), spot(0, 5, 5), lending(5, VAULT_A)):
        for size in (8, 60, 90):
            with pytest.raises(Unreadable) as raised:
                read(mine._replace(data=mine.data[:size]), *whole)
            assert raised.value.account == AT
    position = lp(10**9, (-10, 10), (7, 7))
    for number, size in ((0, 100), (1, 100), (2, 50), (0, 0), (2, 0)):
        chain = list(whole)
        chain[number] = chain[number]._replace(data=chain[number].data[:size])
        with pytest.raises(Unreadable):
            read(position, *chain)
    for ticks in ((10, 10), (20, -20), (-(2**31), 5), (0, 2**31 - 1)):
        with pytest.raises(Unreadable):
            read(lp(1, ticks, (0, 0)), *whole)
    with pytest.raises(Unreadable, match="mint 1"):
        read(position, *whole[:3], vault(VAULT_B, MINT_A, (0, 0), (1, 1)))


@pytest.mark.parametrize("pool", [fusion(1 << 64), whirlpool(1 << 64)])
def test_a_pool_is_one_by_its_program_and_its_tag(pool: Account) -> None:
    for other in (
        pool._replace(kind=Kind("another", AT, pool.kind.tag)),
        pool._replace(data=bytes(8) + pool.data[8:]),
    ):
        with pytest.raises(Unreadable, match="is no pool") as raised:
            read(spot(0, 5, 0), other, market())
        assert raised.value.account == AT


@given(st.binary(min_size=331, max_size=331), st.binary(min_size=415, max_size=415))
@examples(60)
def test_hostile_bytes_raise_unreadable_or_are_read(noise: bytes, other: bytes) -> None:
    for kind in (defituna.LP, defituna.SPOT, defituna.LENDING):
        mine = Account(AT, kind, 1, kind.tag + noise, 9)
        pool_at = mine.data[43:75]
        pool = Account(pool_at, defituna.POOL, 1, defituna.POOL.tag + other, 9)
        try:
            found = read(mine, pool)
        except Unreadable:
            continue
        assert len(found) <= 1


@given(U64, U64, st.integers(1, 2**64 - 1))
@examples(60)
def test_deposits_of_a_vault_are_never_more_than_its_funds(
    mine: int, funds: int, others: int
) -> None:
    shares = mine % others
    chain = vault(VAULT_A, MINT_A, (funds, others), (0, 0))
    parts = [
        each.assets[0].amount_raw or 0
        for part in (shares, others - shares)
        for each in read(lending(part, VAULT_A), chain)
    ]
    assert funds - 1 <= sum(parts) <= funds


def test_staking_is_not_supported_and_says_why() -> None:
    protocol = SLUGS["p06"]
    assert protocol is defituna.PROTOCOL
    assert protocol.identified == "guess"
    reasons = {route.path: route.unsupported for route in protocol.routes}
    assert reasons["positions"] is None
    assert reasons["staking"]
