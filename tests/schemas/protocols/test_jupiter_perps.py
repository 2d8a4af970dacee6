"""Open bets of Jupiter Perpetuals: figures by hand, and fees as Jupiter's own examples give them.

The examples are a repository and no package. Their answers to 200 worlds are recorded;
`JUPITER_PERPS_EXAMPLES=<folder> pytest -m node <this file>` asks a checkout with its dependencies
and `tsx` installed about 1,000, and `JUPITER_PERPS_EXAMPLES_WRITE=1` beside it records them anew.

Where they end in an error we give no fee. `getLiquidationPrice` prints cents and asks a node: its
formula is written out here.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import jupiter_perps
from schemas.protocols.contract import Account, Held, Kind, Perp, Position, Unreadable, World
from schemas.protocols.jupiter_perps_fees import borrow_fee, closing_fee
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key
from tests.support.exploring import examples
from tests.support.perp_worlds import (
    NOW_S,
    jupiter_custody,
    jupiter_feed,
    jupiter_position,
    jupiter_world,
)

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p09-jupiter-perps"
JUDGE = Path(__file__).parent / "jupiter_perps_judge"
EXAMPLES = os.environ.get("JUPITER_PERPS_EXAMPLES", "")
WALLET, BET, POOL, SOLS, DOLLARS, OTHER = (bytes([n]) * 32 for n in range(1, 7))
SOL = key("So11111111111111111111111111111111111111112")
USDC = key("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
SOL_FEED, USDC_FEED = jupiter_perps.FEED.addresses[0], jupiter_perps.FEED.addresses[3]
DOLLAR = 1_000_000
HOUR_S = 3_600
U64 = st.integers(0, 2**64 - 1)

Answer = list[str | None]


def account(kind: Kind, at: bytes, data: bytes, slot: int = 90) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, slot)


def bet(**figures: Any) -> Account:
    """A bet of 10,000 dollars on SOL, entered at 100 dollars with 1,000 dollars."""
    usual = {"owner": WALLET, "pool": POOL, "custody": SOLS, "lender": SOLS, "entry": 100 * DOLLAR}
    usual |= {"size": 10_000 * DOLLAR, "kept": 1_000 * DOLLAR, "snapshot": 500}
    return account(jupiter_perps.POSITION, BET, jupiter_position({**usual, **figures}))


def sols(**figures: Any) -> Account:
    usual = {"pool": POOL, "mint": SOL, "feed": SOL_FEED, "decimals": 9, "rate": 500}
    usual |= {"owned": 1_000, "locked": 500, "updated_s": NOW_S, "decrease_bps": 6}
    return account(jupiter_perps.CUSTODY, SOLS, jupiter_custody({**usual, **figures}), 80)


def dollars(**figures: Any) -> Account:
    usual = {"pool": POOL, "mint": USDC, "feed": USDC_FEED, "decimals": 6, "rate": 500}
    usual |= {"owned": 1_000, "locked": 500, "updated_s": NOW_S}
    return account(jupiter_perps.CUSTODY, DOLLARS, jupiter_custody({**usual, **figures}), 70)


def feed(usd: int, at: bytes = SOL_FEED, updated_s: int = NOW_S, slot: int = 60) -> Account:
    return account(jupiter_perps.FEED, at, jupiter_feed(usd * 10**8, -8, updated_s), slot)


def read(own: list[Account], *chain: Account, now_s: int = NOW_S) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = jupiter_perps.read(Held(WALLET, own), World(99, now_s, 3))
    try:
        wanted = next(reading)
        for _ in range(3):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more rounds than custodies and prices need")


def one(own: Account, *chain: Account, now_s: int = NOW_S) -> tuple[Position, Perp]:
    [found] = read([own], *chain, now_s=now_s)
    assert found.perp is not None
    return found, found.perp


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def test_a_long_bet_that_wins() -> None:
    found, perp = one(bet(), sols(), feed(110))
    assert perp == Perp(
        symbol="SOL",
        side="long",
        size=Fraction(100),
        notional_usd=Fraction(11_000),
        entry_price_usd=Fraction(100),
        mark_price_usd=Fraction(110),
        liquidation_price_usd=Fraction("90.26"),  # 1,000 less 6 to close, less a 500th of its size
        leverage=Fraction(11),
        unrealized_usd=Fraction(1_000),
        funding_usd=Fraction(0),
    )
    assert lines(found) == [
        ("supply", SOL, 9_090_909_090),  # 1,000 dollars
        ("pending", SOL, 9_090_909_090),
        ("borrow", SOL, 54_545_455),  # 6 dollars
    ]
    assert {each.oracle_usd for each in found.assets} == {Fraction(110)}
    assert (found.market, found.reference_slot, found.unsupported_fields) == (SOLS, 60, [])
    assert SLUGS["p09"] is jupiter_perps.PROTOCOL


def test_a_short_bet_pays_the_rate_of_what_it_is_settled_in() -> None:
    own = bet(side=2, lender=DOLLARS)
    found, perp = one(own, sols(rate=9**9), dollars(rate=2_000_500), feed(110), feed(1, USDC_FEED))
    assert (perp.side, perp.unrealized_usd) == ("short", Fraction(-1_000))
    assert perp.funding_usd == -20  # 0.2 % of its size
    assert perp.liquidation_price_usd == Fraction("109.54")
    assert lines(found) == [
        ("supply", USDC, 1_000 * DOLLAR),
        ("borrow", USDC, 1_000 * DOLLAR),  # all it has: there is nothing left for fees
        ("borrow", USDC, 0),
        ("borrow", USDC, 0),
    ]


def test_a_borrow_fee_grows_with_every_second() -> None:
    custody = sols(jump=(1_000, 15_000, 3_500, 800_000_000))
    # Half is lent: 1,000 and 5/8 of 2,500 bps a year
    yearly = Fraction(1_000 + 1_563, 10_000)
    _, perp = one(bet(), custody, feed(110), now_s=NOW_S + 50)
    hourly = int(yearly / 8_760 * 10**9)
    assert perp.funding_usd is not None
    assert perp.funding_usd * DOLLAR == -(-(-hourly * 50 // HOUR_S) * 10)


@pytest.mark.parametrize(("age_s", "is_known"), [(60, True), (61, False), (-5, True)])
def test_a_price_that_is_too_old_is_none(age_s: int, is_known: bool) -> None:
    found, perp = one(bet(), sols(), feed(110, updated_s=NOW_S - age_s))
    assert (perp.mark_price_usd is not None) is is_known
    assert (perp.unrealized_usd is not None) is is_known
    assert all((each.amount_raw is not None) is is_known for each in found.assets)
    assert perp.liquidation_price_usd == Fraction("90.26")  # it needs none
    assert bool(found.unsupported_fields) is not is_known


def test_accounts_that_are_not_there_are_missing() -> None:
    found, perp = one(bet())
    assert found.missing == [SOLS]
    assert (perp.size, perp.entry_price_usd) == (Fraction(100), Fraction(100))
    assert (found.assets, len(found.unsupported_fields)) == ([], 1)
    found, _ = one(bet(lender=DOLLARS), sols(), feed(110))
    assert found.missing == [DOLLARS]
    found, perp = one(bet(), sols())
    assert found.missing == [SOL_FEED]
    assert perp.mark_price_usd is None


def test_a_large_change_of_the_pool_has_no_known_fee() -> None:
    figures = {"factor": 1, "threshold": 9_999 * DOLLAR}
    found, perp = one(bet(), sols(**figures), feed(110))
    assert lines(found)[2] == ("borrow", SOL, None)
    assert "the fee for closing" in found.unsupported_fields[0]
    assert perp.liquidation_price_usd is not None
    others = {"impact_updated_s": NOW_S - 2, "changes": {(NOW_S - 2) % 60: DOLLAR}}
    found, _ = one(bet(), sols(**figures, **others), feed(110))
    assert found.unsupported_fields == []  # others opened as much as brings it below


@pytest.mark.parametrize(
    ("updated_s", "now_s", "is_counted"),
    [
        (NOW_S - 59, NOW_S, True),
        (NOW_S - 60, NOW_S, False),
        (1, 60, True),  # no matter how far the clock is
        (1, 61, False),
    ],
)
def test_what_others_opened_counts_for_a_minute(
    updated_s: int, now_s: int, is_counted: bool
) -> None:
    changes = {updated_s % 60: DOLLAR}
    custody = sols(
        factor=1, threshold=9_999 * DOLLAR, impact_updated_s=updated_s, changes=changes
    ).data
    # 10,000 dollars less the one that was opened are not above the threshold: 6 bps to close.
    fee = closing_fee(custody, 10_000 * DOLLAR, now_s)
    assert fee == (6 * DOLLAR if is_counted else None)


def test_what_a_custody_does_not_give_is_named() -> None:
    found, perp = one(bet(), sols(most_leverage=0), feed(110))
    assert perp.liquidation_price_usd is None
    assert ["liquidation" in each for each in found.unsupported_fields] == [True]
    found, perp = one(bet(), sols(rate=499), feed(110))  # below that of the bet
    assert (perp.funding_usd, perp.liquidation_price_usd) == (None, None)
    assert ["borrow rate" in each for each in found.unsupported_fields] == [True]
    found, perp = one(bet(), sols(locked=0), feed(110), now_s=NOW_S + 1)  # no rates at all
    assert (perp.funding_usd, len(found.unsupported_fields)) == (None, 1)


def test_closed_bets_and_those_of_others_are_none() -> None:
    assert read([bet(size=0), bet(owner=OTHER)]) == []


def test_bytes_that_cannot_be() -> None:
    short = bet()._replace(data=bet().data[:209])
    for own, reason in ((bet(side=3), "side 3"), (bet(entry=0), "no price"), (short, "209 bytes")):
        with pytest.raises(Unreadable, match=reason) as caught:
            read([own], sols(), feed(110))
        assert caught.value.account == BET
    with pytest.raises(Unreadable, match="doves_price") as caught:
        read([bet()], feed(110)._replace(address=SOLS))
    assert caught.value.account == SOLS
    with pytest.raises(Unreadable, match="custody of 999 bytes"):
        read([bet()], sols()._replace(data=sols().data[:999]))


@given(size=U64, entry=U64, kept=U64, side=st.sampled_from((1, 2)), usd=st.integers(1, 10**9))
@examples(40)
def test_closing_never_pays_less_than_nothing(
    size: int, entry: int, kept: int, side: int, usd: int
) -> None:
    own = bet(size=size or 1, entry=entry or 1, kept=kept, side=side)
    found, perp = one(own, sols(), feed(usd))
    signs = [-1 if each.role == "borrow" else 1 for each in found.assets]
    amounts = [each.amount_raw or 0 for each in found.assets]
    assert sum(sign * raw for sign, raw in zip(signs, amounts, strict=True)) >= 0
    ends = perp.liquidation_price_usd
    assert ends is None or ends > 0


def answers(worlds: list[dict[str, Any]]) -> list[Answer]:
    found: list[Answer] = []
    for world in worlds:
        position, custody = jupiter_position(world), jupiter_custody(world)
        pair = borrow_fee(position, custody, NOW_S), closing_fee(custody, world["size"], NOW_S)
        found.append([None if each is None else str(each) for each in pair])
    return found


def test_fees_are_those_that_the_examples_were_recorded_with() -> None:
    recorded = json.loads((JUDGE / "answers.json").read_text())
    assert len(recorded) == 200
    assert 20 < len([fee for _, fee in recorded if fee is None]) < 100
    assert answers([jupiter_world(seed) for seed in range(200)]) == recorded


@pytest.mark.node
@pytest.mark.skipif(not EXAMPLES, reason="with JUPITER_PERPS_EXAMPLES=<folder> only")
def test_fees_are_those_of_the_examples() -> None:
    worlds = [jupiter_world(seed) for seed in range(1_000)]
    lines = []
    for world in worlds:
        data = {"position": jupiter_position(world), "custody": jupiter_custody(world)}
        asked = {name: base64.b64encode(each).decode() for name, each in data.items()}
        lines.append(json.dumps({**asked, "now_s": NOW_S}))
    done = subprocess.run(
        ["npx", "tsx", str(JUDGE / "judge.cjs")],
        cwd=EXAMPLES,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if os.environ.get("JUPITER_PERPS_EXAMPLES_WRITE") == "1":
        (JUDGE / "answers.json").write_text(json.dumps(said[:200]) + "\n")
    assert answers(worlds) == said


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_a_real_custody_gives_its_rate_and_fees() -> None:
    [file] = CORPUS.glob("Custody-*.json")
    stored = json.loads(file.read_text())
    data = base64.b64decode(stored["account"]["data"][0])
    custody = account(jupiter_perps.CUSTODY, key(stored["pubkey"]), data)
    then_s = 1_771_834_760  # when it was last updated
    position = jupiter_position({"size": 10_000 * DOLLAR, "snapshot": 989_574_039 - 1_000_000})
    assert borrow_fee(position, data, then_s) == 10 * DOLLAR
    a_day = borrow_fee(position, data, then_s + 24 * HOUR_S)
    # 6.26 % is locked, of 80 % at which it is 35 % a year: 1,196 bps, 13,652 parts an hour
    assert a_day == 10 * DOLLAR + 13_652 * 24 * 10
    assert closing_fee(data, 10_000 * DOLLAR, then_s) == 7 * DOLLAR  # 6 bps, and 1 for its size
    own = bet(custody=custody.address, lender=custody.address, snapshot=989_574_039)
    found, perp = one(own, custody, feed(110, updated_s=then_s), now_s=then_s)
    assert (perp.symbol, found.unsupported_fields) == ("SOL", [])
    assert perp.liquidation_price_usd == Fraction("90.27")
