"""Adrena: bets by the figures of the program's own unit tests, and stakes.

What a close pays, and what is liquidated, is written out again as the program's code has it
(`get_exit_position_numbers`, `check_leverage`), in whole numbers: the reading must agree with it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import adrena
from schemas.protocols.adrena_staking import ADX, ALP, STAKINGS, stake_address
from schemas.protocols.contract import Account, Held, Kind, Lock, Perp, Position, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of, served
from schemas.solana.addresses import key
from tests.support.exploring import examples
from tests.support.perp_worlds import (
    NOW_S,
    adrena_custody,
    adrena_oracle,
    adrena_position,
    adrena_stakes,
)

WALLET, BET, POOL, BTCS, DOLLARS, OTHER = (bytes([n]) * 32 for n in range(1, 7))
BTC, USDC = bytes([7]) * 32, bytes([8]) * 32
USD = 1_000_000
ONE = 10**10  # of prices
BPS = 10_000
TRADED, PAID = "BTCUSD", "WBTCUSD"

SIZE, KEPT = 99_600 * USD, 25_000 * USD
FEES = {"exit_fee": 100 * USD, "liquidation_fee": 500 * USD}


def account(kind: Kind, at: bytes, data: bytes, slot: int = 90) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, slot)


def bet(length: int = adrena.POSITION_SIZE, **figures: Any) -> Account:
    """The bet of the program's unit tests: 99,600 dollars, entered at 25,000, with 25,000."""
    usual = {"owner": WALLET, "pool": POOL, "custody": BTCS, "lender": BTCS, **FEES}
    usual |= {"entry": 25_000 * ONE, "size": SIZE, "borrowed": 100_000 * USD, "kept": KEPT}
    usual |= {"locked": 4 * 10**9, "collateral": 10**9, "opened_s": NOW_S - 1}
    return account(adrena.POSITION, BET, adrena_position({**usual, **figures}, length))


def custody(at: bytes = BTCS, length: int = adrena.CUSTODY_SIZE, **figures: Any) -> Account:
    usual = {"pool": POOL, "mint": BTC, "oracle": PAID, "trade_oracle": TRADED}
    usual |= {"most_leverage": 1_100_000, "updated_s": NOW_S}
    return account(adrena.CUSTODY, at, adrena_custody({**usual, **figures}, length), 80)


def oracle(usd: int, spread: int = 0, time_s: int = NOW_S, paid: int | None = None) -> Account:
    price = (usd * ONE, spread, time_s, -10)
    paid_in = (25_000 * ONE if paid is None else paid * ONE, spread, time_s, -10)
    data = adrena_oracle({"": (0, 0, 0, 0), TRADED: price, PAID: paid_in})
    return account(adrena.ORACLE, adrena.ORACLE_ADDRESS, data, 70)


def read(own: list[Account], *chain: Account, now_s: int = NOW_S) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = adrena.read(Held(WALLET, own), World(99, now_s, 3))
    try:
        wanted = next(reading)
        for _ in range(2):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more rounds than one")


def one(own: Account, *chain: Account, now_s: int = NOW_S) -> tuple[Position, Perp]:
    [found] = read([own], *chain, now_s=now_s)
    assert found.perp is not None
    return found, found.perp


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def pays(position: Position) -> int:
    signs = [-1 if each.role == "borrow" else 1 for each in position.assets]
    amounts = [each.amount_raw for each in position.assets]
    assert None not in amounts
    return sum(sign * (raw or 0) for sign, raw in zip(signs, amounts, strict=True))


def test_a_bet_that_was_opened_now() -> None:
    found, perp = one(bet(), custody(), oracle(25_000))
    assert perp == Perp(
        symbol=TRADED,
        side="long",
        size=Fraction("3.984"),
        notional_usd=Fraction(99_600),
        entry_price_usd=Fraction(25_000),
        mark_price_usd=Fraction(25_000),
        liquidation_price_usd=Fraction(190_776_743_335_844, ONE),
        leverage=Fraction(99_600, 25_000),
        unrealized_usd=Fraction(0),
        funding_usd=Fraction(0),
    )
    assert lines(found) == [("supply", BTC, 10**9), ("borrow", BTC, 4_000_000)]
    assert (found.market, found.reference_slot, found.unsupported_fields) == (BTCS, 70, [])
    assert SLUGS["p10"] is adrena.PROTOCOL


@pytest.mark.parametrize(
    ("entry", "gain", "ends"),
    [
        (24_500, Fraction("2032.653061"), 186_961_208_469_127),
        (25_400, Fraction("-1568.503938"), None),
        (20_000, None, 152_621_394_668_675),
        (26_000, None, 198_407_813_069_278),
        (35_000, None, 267_087_440_670_181),
    ],
)
def test_figures_are_those_of_the_programs_tests(
    entry: int, gain: Fraction | None, ends: int | None
) -> None:
    _, perp = one(bet(entry=entry * ONE), custody(), oracle(25_000))
    assert gain is None or perp.unrealized_usd == gain
    assert ends is None or perp.liquidation_price_usd == Fraction(ends, ONE)


@pytest.mark.parametrize(
    ("cumulative", "updated_s", "snapshot", "owed"),
    [
        (0, NOW_S, 0, 0),
        (0, NOW_S - 3_600, 0, 9),
        (90_000, NOW_S + 1, 0, 9),
        (90_000, NOW_S, 70_000, 2),
        (90_000, NOW_S, 90_001, 0),
        (1 << 70, NOW_S, 1 << 70, 0),
    ],
)
def test_interest_is_that_of_the_programs_tests(
    cumulative: int, updated_s: int, snapshot: int, owed: int
) -> None:
    lender = custody(hourly=90_000, cumulative=cumulative, updated_s=updated_s)
    _, perp = one(bet(snapshot=snapshot), lender, oracle(25_000))
    assert perp.funding_usd == -owed
    _, perp = one(bet(snapshot=snapshot, booked=USD, paid=2 * USD), lender, oracle(25_000))
    assert perp.funding_usd == -owed - 3


@dataclass(frozen=True)
class Case:
    """A bet whose borrow fees are all booked, and the prices that it is closed at."""

    side: int
    entry: int
    size: int
    kept: int
    locked: int
    booked: int
    exit_fee: int
    liquidation_fee: int
    mark: int
    paid: int
    spread: int

    def net(self, mark: int, fee: int) -> int:
        """What is won, negative where it is lost, by the program."""
        won = mark - self.entry if self.side == 1 else self.entry - mark
        owed = fee + self.booked
        if won > 0:
            gain = self.size * won // self.entry
            most = self.locked * (self.paid - self.spread) * USD // (ONE * 10**9)
            return min(gain - owed, most) if gain >= owed else gain - owed
        return self.size * won // self.entry - owed  # what is lost is rounded up

    def paid_out(self) -> Fraction:
        usd = max(self.kept + self.net(self.mark, self.exit_fee), 0)
        return Fraction(usd * ONE * 10**9, USD * (self.paid + self.spread))

    def is_liquidated(self, mark: int, most_leverage: int) -> bool:
        margin = self.kept + self.net(mark, max(self.exit_fee, self.liquidation_fee))
        return margin <= 0 or self.size * BPS // margin > most_leverage

    def account(self) -> Account:
        names = ("side", "entry", "size", "kept", "locked", "booked", "exit_fee", "liquidation_fee")
        return bet(**{name: getattr(self, name) for name in names})


CASES = st.builds(
    Case,
    side=st.sampled_from((1, 2)),
    entry=st.integers(10**8, 10**15),
    size=st.integers(10 * USD, 10**12),
    kept=st.integers(10 * USD, 10**11),
    locked=st.integers(0, 10**14),
    booked=st.integers(0, 10**9),
    exit_fee=st.integers(0, 10**9),
    liquidation_fee=st.integers(0, 10**9),
    mark=st.integers(10**8, 10**15),
    paid=st.integers(10**8, 10**15),
    spread=st.integers(0, 10**7),
)


def case_oracle(case: Case) -> Account:
    prices = {TRADED: (case.mark, 5, NOW_S, -10), PAID: (case.paid, case.spread, NOW_S, -10)}
    return account(adrena.ORACLE, adrena.ORACLE_ADDRESS, adrena_oracle(prices), 70)


@given(CASES)
@examples(60)
def test_closing_pays_what_the_program_pays(case: Case) -> None:
    found, perp = one(case.account(), custody(), case_oracle(case))
    assert case.paid_out() - len(found.assets) < pays(found) <= case.paid_out()
    assert perp.funding_usd == -Fraction(case.booked, USD)


@given(CASES, st.integers(11_000, 5_000_000))
@examples(60)
def test_a_bet_is_liquidated_past_its_price_and_not_before(case: Case, most: int) -> None:
    _, perp = one(case.account(), custody(most_leverage=most), case_oracle(case))
    ends = perp.liquidation_price_usd
    # A dollar's millionth, and one of leverage's parts, are so much of the price
    step = 2 + 3 * case.entry // case.size + case.entry // most
    way = -1 if case.side == 1 else 1
    if ends is None:
        assert case.side == 2 or not case.is_liquidated(step, most)
        return
    assert case.is_liquidated(max(int(ends * ONE) + way * step, 0), most) or ends * ONE < step
    if case.locked * (case.paid - case.spread) * USD >= case.size * 10**20:  # its gain is not cut
        assert not case.is_liquidated(int(ends * ONE) - way * step, most)


@pytest.mark.parametrize(("age_s", "is_known"), [(60, True), (61, False)])
def test_a_price_that_is_too_old_is_none(age_s: int, is_known: bool) -> None:
    found, perp = one(bet(), custody(), oracle(25_000, time_s=NOW_S - age_s))
    assert (perp.mark_price_usd is not None) is is_known
    assert all((each.amount_raw is not None) is is_known for each in found.assets)
    assert perp.liquidation_price_usd is not None
    assert bool(found.unsupported_fields) is not is_known


def test_accounts_of_a_later_release_give_what_their_first_bytes_say() -> None:
    for own, of in ((bet(length=464), custody()), (bet(), custody(length=1_200))):
        found, perp = one(own, of, oracle(26_000))
        assert (perp.side, perp.size) == ("long", Fraction("3.984"))
        assert perp.mark_price_usd == 26_000
        assert (perp.funding_usd, perp.liquidation_price_usd) == (None, None)
        assert [each.amount_raw is None for each in found.assets] == [False, True, True, True]
        assert perp.unrealized_usd == 3_984
        assert "another release" in found.unsupported_fields[0]


def test_accounts_that_are_not_there_are_missing() -> None:
    found, perp = one(bet(lender=DOLLARS), custody())
    assert (found.missing, found.assets) == ([DOLLARS], [])
    assert perp.entry_price_usd == 25_000
    found, perp = one(bet(), custody())
    assert found.missing == [adrena.ORACLE_ADDRESS]
    assert perp.mark_price_usd is None


def test_bytes_that_cannot_be() -> None:
    for own, reason in ((bet(side=0), "side 0"), (bet(entry=0), "no price")):
        with pytest.raises(Unreadable, match=reason) as caught:
            read([own], custody(), oracle(25_000))
        assert caught.value.account == BET
    with pytest.raises(Unreadable, match="adrena_position of 287 bytes"):
        read([bet()._replace(data=bet().data[:287])])
    with pytest.raises(Unreadable, match="it is adrena_oracle") as caught:
        read([bet()], oracle(25_000)._replace(address=BTCS))
    assert caught.value.account == BTCS


def test_bets_of_others_and_of_no_size_are_none() -> None:
    nothing = adrena_position({"owner": WALLET, "entry": ONE})
    assert read([bet(owner=OTHER), account(adrena.POSITION, BET, nothing)]) == []


def stakes(mint: bytes, data: bytes) -> Account:
    return account(adrena.USER_STAKING, stake_address(WALLET, mint), data, 50)


def test_stakes_are_found_by_the_wallets_address() -> None:
    locked = {
        0: {"amount": 100, "ends_s": NOW_S + 1},
        31: {"amount": 50, "ends_s": NOW_S},
        7: {"amount": 40, "ends_s": NOW_S + 9, "early_exit": 1, "fee": 15},
    }
    adx, alp = read(
        [],
        stakes(ADX, adrena_stakes(7, locked)),
        stakes(ALP, adrena_stakes(0, {3: {"amount": 5, "ends_s": NOW_S + 1}})),
    )
    assert lines(adx) == [("supply", ADX, 82), ("locked", ADX, 100)]
    assert adx.locks == [
        Lock("term", 100, 0, (NOW_S + 1) * 1000),
        Lock("term", 0, 25, (NOW_S + 9) * 1000),
        Lock("term", 0, 50, NOW_S * 1000),
    ]
    assert lines(alp) == [("locked", ALP, 5)]
    assert [each.decimals for each in (*adx.assets, *alp.assets)] == [6, 6, 6]
    assert (adx.market, alp.market) == (STAKINGS[ADX], STAKINGS[ALP])
    assert {each.route for each in (adx, alp)} == {"staking"}
    assert read([], stakes(ADX, adrena_stakes(0, {}))) == []


def test_a_fee_above_a_stake_cannot_be() -> None:
    locked = {0: {"amount": 1, "ends_s": 0, "fee": 2}}
    with pytest.raises(Unreadable, match="a fee of 2 of 1 at 64"):
        read([], stakes(ADX, adrena_stakes(0, locked)))


def test_stakings_are_at_the_addresses_that_the_mints_lead_to() -> None:
    assert key("AuQaustGiaqxRvj2gtCdrd22PBzTn8kM3kEPEkZCtuDw") == ADX
    assert stake_address(WALLET, ADX) != stake_address(OTHER, ADX) != stake_address(OTHER, ALP)


def test_its_bets_are_of_an_aggregate_and_its_stakes_of_none() -> None:
    members = tomllib.loads(files("schemas.protocols").joinpath("aggregates.toml").read_text())
    assert {"p09/positions", "p10/positions"} < set(members["all-perps"])
    assert not [each for each in members["all-staking"] if each.startswith("p10/")]


def test_an_operator_puts_the_other_one_in_its_place() -> None:
    assert served("p10=flash")["p10"].name == "flash"
    assert {each.path for each in served("p10=flash")["p10"].routes} == {
        each.path for each in SLUGS["p10"].routes
    }
    assert "p10" not in served("p10=-")
