"""Bets on Flash Trade where its SDK cannot be asked: what is missing, old or far from its average.

Its SDK is the judge of the arithmetic, in `test_flash_sdk.py`.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import pytest

from schemas.protocols import flash, flash_staking
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from tests.support.perp_worlds import NOW_S

WALLET, BET, MARKET, SOLS, DOLLARS, ORACLE, OTHER = (bytes([n]) * 32 for n in range(1, 8))
SOL, USDC, DOLLAR_ORACLE, POOL = (bytes([n]) * 32 for n in range(11, 15))
DOLLAR = 1_000_000
ONE = 10**8  # of prices


def account(kind: Kind, at: bytes, size: int, fields: dict[int, bytes], slot: int = 90) -> Account:
    data = bytearray(size)
    for offset, value in {0: kind.tag, **fields}.items():
        data[offset : offset + len(value)] = value
    assert kind_of(at, kind.program, bytes(data)) is kind
    return Account(at, kind, 1, bytes(data), slot)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def bet(**changed: Any) -> Account:
    """A bet on 100 SOL at 100 dollars, with 1,000 dollars."""
    fields = {8: WALLET, 40: MARKET, 120: u64(100 * ONE) + struct.pack("<i", -8)}
    fields |= {132: u64(100 * 10**9, 10_000 * DOLLAR, 20_000 * DOLLAR), 172: u64(1_000 * DOLLAR)}
    fields |= {232: b"\1", 236: b"\x09"}
    fields |= {int(at[1:]): value for at, value in changed.items()}
    return account(flash.POSITION, BET, flash.POSITION_SIZE, fields)


def market(side: int = 2) -> Account:
    fields = {40: SOLS, 72: DOLLARS, 104: bytes([side])}
    return account(flash.MARKET, MARKET, 246, fields, 80)


def custody(at: bytes = SOLS, **changed: bytes) -> Account:
    mint, oracle, decimals = (SOL, ORACLE, 9) if at == SOLS else (USDC, DOLLAR_ORACLE, 6)
    fields = {8: POOL, 40: mint, 104: bytes([decimals, at == DOLLARS]), 109: oracle}
    fields |= {174: u64(100), 238: struct.pack("<I", 1_000_000), 452: u64(800_000)}
    fields |= {int(offset[1:]): value for offset, value in changed.items()}
    return account(flash.CUSTODY, at, flash.CUSTODY_SIZE, fields, 70)


def oracle(usd: int, at: bytes = ORACLE, age_s: int = 0, average: int | None = None) -> Account:
    price, usual = usd * ONE, (usd if average is None else average) * ONE
    fields = {8: u64(price) + struct.pack("<iQQq", -8, 0, usual, NOW_S - age_s)}
    return account(flash.ORACLE, at, 76, fields, 60)


CHAIN = (market(), custody(), custody(DOLLARS), oracle(90), oracle(1, DOLLAR_ORACLE))


def read(own: list[Account], *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = flash.read(Held(WALLET, own), World(99, NOW_S, 3))
    try:
        wanted = next(reading)
        for _ in range(4):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more rounds than markets, custodies and prices need")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def test_a_short_bet_that_wins() -> None:
    [found] = read([bet()], *CHAIN)
    assert found.perp is not None
    assert (found.perp.side, found.perp.size) == ("short", Fraction(100))
    assert found.perp.unrealized_usd == 1_000
    assert (found.perp.notional_usd, found.perp.leverage) == (Fraction(9_000), Fraction(9))
    assert found.perp.liquidation_price_usd == Fraction("108.92")  # 100 to keep, 8 to close
    assert lines(found) == [
        ("supply", USDC, 1_000 * DOLLAR),
        ("pending", USDC, 1_000 * DOLLAR),
        ("borrow", USDC, 7_200_000),  # 0.08 % of what it is worth now
    ]
    assert (found.market, found.reference_slot, found.unsupported_fields) == (MARKET, 60, [])
    assert flash.PROTOCOL not in SLUGS.values()


def test_a_bet_at_a_price_in_whole_dollars_is_liquidated_at_one() -> None:
    [found] = read([bet(x120=u64(100) + struct.pack("<i", 0))], *CHAIN)
    assert found.perp is not None
    assert found.perp.entry_price_usd == 100
    assert found.perp.liquidation_price_usd == 108  # 108.92 where prices are finer


@pytest.mark.parametrize(
    "other",
    [
        oracle(90, age_s=61),
        oracle(90, average=91),
        oracle(0),
        custody(x108=b"\1"),
        custody(x198=u64(5, 4)),
    ],
    ids=["old", "far from its average", "none", "inverse", "spread"],
)
def test_a_price_that_a_bet_is_not_closed_at_gives_no_gain(other: Account) -> None:
    [found] = read([bet()], *CHAIN, other)
    assert found.perp is not None
    assert found.perp.unrealized_usd is None
    assert found.perp.liquidation_price_usd is not None
    assert lines(found)[1:] == [("pending", USDC, None), ("borrow", USDC, None)]
    assert found.unsupported_fields


def test_without_the_price_of_what_it_is_paid_in_no_amount_is_known() -> None:
    [found] = read([bet()], *CHAIN, oracle(2, DOLLAR_ORACLE))  # a dollar is 2
    assert found.perp is not None
    assert found.perp.mark_price_usd == 90
    assert {each.amount_raw for each in found.assets} == {None}
    assert found.unsupported_fields


def test_what_liquidates_a_bet_of_more_than_the_usual_leverage_is_not_known() -> None:
    [found] = read([bet(x212=u64(1))], *CHAIN)
    assert found.perp is not None
    assert found.perp.liquidation_price_usd is None
    assert "more than the usual leverage" in found.unsupported_fields[0]


@pytest.mark.parametrize(("left_out", "missing"), [(0, MARKET), (1, SOLS), (3, ORACLE)])
def test_accounts_that_are_not_there_are_missing(left_out: int, missing: bytes) -> None:
    chain = [each for n, each in enumerate(CHAIN) if n != left_out]
    [found] = read([bet()], *chain)
    assert found.missing == [missing]
    assert found.unsupported_fields


def test_bets_of_others_closed_ones_and_accounts_that_cannot_be() -> None:
    assert read([bet(x8=OTHER), bet(x132=u64(0)), bet(x232=b"\0")], *CHAIN) == []
    with pytest.raises(Unreadable, match="position of 256 bytes"):
        read([bet()._replace(data=bet().data + bytes(8))], *CHAIN)
    with pytest.raises(Unreadable, match="side 3 at 104") as caught:
        read([bet()], market(3), *CHAIN[1:])
    assert caught.value.account == MARKET
    with pytest.raises(Unreadable, match="flash_oracle of 76 bytes where flash_custody") as caught:
        read([bet()], *CHAIN, oracle(90)._replace(address=SOLS))
    assert caught.value.account == SOLS


def test_each_withdrawal_of_a_stake_has_tokens_that_are_free_and_that_are_locked() -> None:
    requests = u64(5, 70, 99, 0, 300, 99, 11, 13, 99)  # the third is not counted: a former one
    fields = {8: WALLET, 43: b"\2", 44: requests, 124: u64(1_000)}
    [found] = read([account(flash_staking.TOKEN_STAKE, BET, 252, fields)])
    assert lines(found) == [
        ("supply", flash_staking.FAF, 1_005),
        ("pending", flash_staking.FAF, 370),
    ]
    assert [(each.kind, each.locked_raw, each.claimable_raw) for each in found.locks] == [
        ("cooldown", 70, 5),
        ("cooldown", 300, 0),
    ]
    assert found.unsupported_fields


def test_a_stake_with_more_withdrawals_than_it_has_room_for_cannot_be() -> None:
    stake = account(flash_staking.TOKEN_STAKE, BET, 252, {8: WALLET, 43: b"\4"})
    with pytest.raises(Unreadable, match="4 withdrawals at 43"):
        read([stake])
    pool = account(flash_staking.POOL, POOL, 500, {8: u64(65)})
    share = account(flash_staking.FLP_STAKE, BET, 138, {8: WALLET, 40: POOL, 80: u64(7)})
    with pytest.raises(Unreadable, match="or its name") as caught:
        read([share], pool)
    assert caught.value.account == POOL
