"""Parcl's margin accounts, liquidity, requested withdrawals and stakes.

The bytes are written field by field in the order of the SDK's serializers: its `PreciseInt` has
three words, so that a position of a margin account has 64 bytes.
"""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest

from schemas.protocols import parcl
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import key
from schemas.solana.derived import derived

WALLET, EXCHANGE, ACCOUNT, OTHER, MINT = (bytes([n]) * 32 for n in range(1, 6))
NOW = 1_790_000_000


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def u128(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=value < 0)


def account(kind: Kind, body: bytes, address: bytes = ACCOUNT, slot: int = 50) -> Account:
    found = Account(address, kind, 1, kind.tag + body, slot)
    assert kind.matches(address, kind.program, found.data), (kind.name, len(found.data))
    return found


def exchange(min_lp_duration_s: int = 0) -> Account:
    accounting = u128(1) + u128(-2) + u64(*range(3, 10)) + bytes(8)
    settings = u64(min_lp_duration_s, 1, 2, 3, 4) + struct.pack("<HHH", 5, 6, 7) + bytes(2)
    markets = struct.pack("<62I", *range(62)) + (bytes(4) + b"\7" * 32) * 10
    keys = MINT + b"\x08" * 160
    body = accounting + settings + u64(1) + markets + struct.pack("<Hh", 1, -6) + keys
    return account(parcl.EXCHANGE, body + b"\xff" + bytes(8) + bytes(11), EXCHANGE, 40)


def bet(size_raw: int, price_raw: int, market: int) -> bytes:
    funding = (-123_456).to_bytes(24, "little", signed=True)
    return u128(size_raw) + u128(price_raw) + funding + struct.pack("<I", market) + bytes(4)


def margin(margin_raw: int, *bets: bytes, owner: bytes = WALLET) -> Account:
    empty = bytes(64)
    body = b"".join([*bets, *[empty] * (12 - len(bets))])
    body += u64(margin_raw, 77) + struct.pack("<I", 3) + EXCHANGE + owner + OTHER
    return account(parcl.MARGIN, body + b"\0\xfe" + bytes(10))


def lp_account(shares: int, added_s: int) -> Account:
    body = u64(1_000, shares, added_s) + EXCHANGE + WALLET + OTHER
    return account(parcl.LP_ACCOUNT, body + b"\xfe" + bytes(7))


def lp_position(shares: int, maturity_s: int) -> Account:
    body = u64(9, 1_000, shares, maturity_s) + EXCHANGE + WALLET
    return account(parcl.LP_POSITION, body + b"\xfe" + bytes(7))


def request(amount_raw: int, maturity_s: int, tip_raw: int = 0) -> Account:
    body = u64(9, maturity_s, amount_raw, tip_raw) + EXCHANGE + WALLET + OTHER
    return account(parcl.REQUEST, body + b"\xfe" + bytes(7))


def stake(owner: bytes = WALLET) -> Account:
    return account(parcl.STAKE, owner + bytes(4_000))


def custody(amount_raw: int, mint: bytes = parcl.PRCL) -> Account:
    data = mint + bytes(32) + u64(amount_raw) + bytes(36) + b"\1" + bytes(56)
    return Account(derived(parcl.STAKING, b"custody", ACCOUNT), TOKEN, 1, data, 45)


def read(own: list[Account], *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = parcl.read(Held(WALLET, own), World(9, NOW, 3))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def test_a_margin_account_and_each_of_its_positions() -> None:
    own = margin(250_000_000, bet(2_500_000, 31_012_345_678, 4), bet(-(1 << 70), 99, 7))
    deposit, long, short = read([own], exchange())
    [line] = deposit.assets
    assert (line.role, line.mint, line.amount_raw) == ("supply", MINT, 250_000_000)
    assert (deposit.route, deposit.market, deposit.perp) == ("positions", EXCHANGE, None)
    assert not deposit.unsupported_fields
    assert long.perp is not None
    assert (long.perp.side, long.perp.size) == ("long", Fraction(5, 2))
    assert long.perp.entry_price_usd == Fraction(31_012_345_678, 10**8)
    assert long.market == derived(parcl.PROGRAM, b"market", EXCHANGE, struct.pack("<I", 4))
    assert short.perp is not None
    assert (short.perp.side, short.perp.size) == ("short", Fraction(1 << 70, 10**6))
    for each in (long, short):
        [profit] = each.assets
        assert (profit.role, profit.mint, profit.amount_raw) == ("pending", MINT, None)
        assert each.perp is not None
        assert each.perp.unrealized_usd is each.perp.mark_price_usd is each.perp.funding_usd is None
        [unknown] = each.unsupported_fields
        assert unknown.startswith("assets.amount_raw: profit")
    assert len({each.id or each.account.address for each in (deposit, long, short)}) == 3
    assert {each.reference_slot for each in (deposit, long, short)} == {40}


@pytest.mark.parametrize(("size_raw", "side"), [(1, "long"), (-1, "short")])
def test_the_least_position_has_a_side(size_raw: int, side: str) -> None:
    [_, found] = read([margin(1, bet(size_raw, 1, 4))], exchange())
    assert found.perp is not None
    assert found.perp.side == side


def test_positions_of_two_accounts_in_one_market_are_two() -> None:
    one, other = margin(1, bet(1, 1, 4)), margin(1, bet(1, 1, 4))._replace(address=OTHER)
    found = read([one, other], exchange())
    assert len({each.id or each.account.address for each in found}) == 4


def test_an_empty_margin_account_is_no_position() -> None:
    assert read([margin(0)], exchange()) == []
    assert read([margin(5, owner=OTHER)], exchange()) == []


def test_two_positions_in_one_market_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="two positions in one market"):
        read([margin(1, bet(1, 1, 4), bet(2, 1, 4))], exchange())


@pytest.mark.parametrize("past_s", [-1, 0, 1])
def test_liquidity_is_locked_until_its_term_ends(past_s: int) -> None:
    own = [
        lp_position(600, NOW - past_s),
        lp_account(700, NOW - past_s - 90)._replace(address=OTHER),
    ]
    found = read(own, exchange(90))
    assert {each.locks[0].ends_ms for each in found} == {(NOW - past_s) * 1000}
    by_address = sorted(found, key=lambda each: each.account.address)
    for each, shares in zip(by_address, (600, 700), strict=True):
        [line], [lock] = each.assets, each.locks
        assert (line.mint, line.amount_raw) == (MINT, None)
        assert line.role == ("locked" if past_s < 0 else "supply")
        assert (lock.locked_raw, lock.claimable_raw)[past_s >= 0] == shares
        assert each.unsupported_fields
        assert each.route == "lp"


def test_a_requested_withdrawal_is_pending_and_a_tip_may_be_taken_off() -> None:
    for tip_raw in (0, 5):
        [found] = read([request(900, NOW + 60, tip_raw)], exchange())
        [line], [lock] = found.assets, found.locks
        assert (line.role, line.mint) == ("pending", MINT)
        assert line.amount_raw == (None if tip_raw else 900)
        assert bool(found.unsupported_fields) == bool(tip_raw)
        assert (lock.locked_raw, lock.ends_ms) == (900, (NOW + 60) * 1000)
    assert read([request(0, NOW)], exchange()) == []


def test_a_stake_account_is_what_is_in_its_custody() -> None:
    [found] = read([stake()], custody(12_000_000))
    [line] = found.assets
    assert (line.role, line.mint, line.amount_raw) == ("supply", parcl.PRCL, 12_000_000)
    assert (found.route, found.reference_slot, found.locks) == ("staking", 45, [])
    assert read([stake()], custody(0)) == []
    assert read([stake(OTHER)], custody(1)) == []
    [unknown] = read([stake()])
    assert unknown.missing == [custody(0).address]
    assert unknown.assets[0].amount_raw is None
    with pytest.raises(Unreadable, match="another mint"):
        read([stake()], custody(1, MINT))


def test_without_its_exchange_a_position_has_no_assets() -> None:
    for own in (margin(1, bet(1, 1, 1)), lp_position(1, NOW), request(1, NOW)):
        for found in read([own]):
            assert found.assets == []
            assert found.missing == [EXCHANGE]
            assert found.unsupported_fields


def test_an_exchange_of_another_kind_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="its exchange is parcl_margin_account"):
        read([margin(1)], margin(1)._replace(address=EXCHANGE))


def test_programs_and_tags_are_those_of_the_sdk() -> None:
    assert key("3parcLrT7WnXAcyPfkCz49oofuuf2guUKkjuFkAhZW8Y") == parcl.PROGRAM
    assert [*parcl.MARGIN.tag] == [133, 220, 173, 213, 179, 211, 43, 238]
    assert [*parcl.LP_ACCOUNT.tag] == [23, 166, 251, 222, 23, 27, 215, 48]
    assert [*parcl.LP_POSITION.tag] == [105, 241, 37, 200, 224, 2, 252, 90]
    assert [*parcl.REQUEST.tag] == [140, 131, 219, 225, 201, 122, 84, 250]
    assert [*parcl.EXCHANGE.tag] == [30, 200, 220, 149, 3, 61, 104, 50]
