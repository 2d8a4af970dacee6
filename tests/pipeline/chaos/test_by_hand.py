"""The oracle on examples small enough to be computed by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pipeline.chaos.books import Books, held, net_trades, piece
from pipeline.chaos.compare import launchpads
from pipeline.chaos.differences import Differences
from pipeline.chaos.markets import Markets, weight
from pipeline.chaos.movements import Movement, balances, movements
from pipeline.chaos.truth import Slot, Tx, named_in, without
from pipeline.chaos.values import DOLLARS, SOL, Valuer, reference, rounded

USDC = DOLLARS[0]
DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


def swap(
    wallet: str,
    side: str,
    amount: int,
    paid: int,
    mint: str = "coin",
    quote: str = SOL,
    at: int = 1,
) -> dict[str, Any]:
    return {
        "event_index": at,
        "dex": "pump-swap",
        "pool": f"{mint}/{quote}",
        "wallet": wallet,
        "fee_payer": wallet,
        "mint": mint,
        "quote_mint": quote,
        "side": side,
        "amount_raw": amount,
        "quote_amount_raw": paid,
        "wallet_amount_raw": amount,
        "wallet_quote_amount_raw": paid,
        "decimals": 9 if mint == SOL else 6,
        "quote_decimals": 9 if quote == SOL else 6,
        "fee_lamports": 5_000,
        "priority_fee_lamports": 0,
        "tip_lamports": 0,
    }


def slot(number: int, *swaps: dict[str, Any], tokens: Any = (), burned: Any = ()) -> Slot:
    flow = {
        "seen": True,
        "signers": ["a"],
        "tokens": list(tokens),
        "sol": [],
        "burned": list(burned),
        "token_2022": [],
    }
    tokens = [
        *flow["tokens"],
        *(
            (f"{each['wallet']}-{each['mint']}", each["wallet"], each["mint"], 6, 0, change, None)
            for each in swaps
            for change in [each["amount_raw"] * (1 if each["side"] == "buy" else -1)]
        ),
    ]
    flow["tokens"] = tokens
    tx = Tx(f"tx{number}", 0, swaps=list(swaps), flow=flow)
    return Slot(number, number - 1, "", NOON_MS + number * 400, [tx])


def played(*slots: Slot) -> Books:
    valuer, books = Valuer(), Books()
    valuer.sol_usd = Fraction(100)
    for each in slots:
        valuer.slot(each)
        books.slot(each)
    books.finish()
    return books


def test_oldest_lots_go_first_and_nothing_of_the_cost_is_lost():
    books = played(
        slot(1, swap("a", "buy", 100, 1_000)),
        slot(2, swap("a", "buy", 50, 701)),
        slot(3, swap("a", "sell", 120, 3_000)),
    )
    first, second = books.matches
    # 100 of the first lot, 20 of the second: floor(701 * 20 / 50) = 280.
    assert (first.quantity_raw, first.cost, first.proceeds) == (100, (1_000, 100), (2_500, 250))
    assert (second.quantity_raw, second.cost, second.proceeds) == (20, (280, 28), (500, 50))
    position = books.positions["a", "coin"]
    assert held(position)["held_cost_lamports"] == 701 - 280
    assert position.sums["lots_closed"] == 1
    assert position.sums["wins"] == 1
    assert position.sums["fee_lamports"] == 15_000


def test_more_than_is_held_is_neither_gain_nor_loss():
    books = played(slot(1, swap("a", "buy", 10, 100)), slot(2, swap("a", "sell", 30, 900)))
    known, unknown = books.matches
    assert (known.cost, known.proceeds) == ((100, 10), (300, 30))
    assert (unknown.lot, unknown.quantity_raw, unknown.proceeds) == (None, 20, (600, 60))
    assert books.positions["a", "coin"].sums["unmatched_raw"] == 20
    assert books.days["a", 20_000]["unmatched_sales"] == 1


def test_a_route_is_a_sale_and_a_purchase():
    trades = net_trades(
        [
            swap("a", "sell", 5, 1_000, mint="one")
            | {"sol_value_lamports": 1_000, "usd_value_micros": 7},
            swap("a", "buy", 8, 1_000, mint="two", at=4)
            | {"sol_value_lamports": 1_000, "usd_value_micros": 7},
        ]
    )
    assert {mint: (t.is_buy, t.quantity_raw, t.value) for (_, mint), t in trades.items()} == {
        "one": (False, 5, (1_000, 7)),
        "two": (True, 8, (1_000, 7)),
    }


def test_a_gift_leaves_without_gain_and_arrives_without_cost():
    gift = [("a-coin", "a", "coin", 6, 40, 10, None), ("b-coin", "b", "coin", 6, None, 30, None)]
    books = played(slot(1, swap("a", "buy", 40, 400)), slot(2, tokens=gift))
    [match] = books.matches
    assert (match.kind, match.quantity_raw, match.cost, match.proceeds) == (
        "transfer",
        30,
        (300, 30),
        None,
    )
    [lot] = books.positions["b", "coin"].lots
    assert (lot.quantity_raw, lot.cost) == (30, None)


def test_a_burn_disposes_at_nothing():
    burn = [("a-coin", "a", "coin", 6, 40, 15, None)]
    books = played(
        slot(1, swap("a", "buy", 40, 400)),
        slot(2, tokens=burn, burned=[("a-coin", "a", "coin", 25)]),
    )
    [match] = books.matches
    assert (match.kind, match.cost, match.proceeds) == ("burn", (250, 25), (0, 0))
    assert books.positions["a", "coin"].sums["losses"] == 0  # of sales alone


def test_a_movement_is_what_swaps_and_burns_leave_over():
    tx = slot(
        1,
        swap("a", "buy", 40, 400),
        tokens=[("a-other", "a", "coin", 6, 0, 2, None)],
        burned=[("a-coin", "a", "coin", 3)],
    ).transactions[0]
    assert movements(tx) == {("a", "coin"): Movement(5, 0, 3)}


def test_an_account_of_a_traded_pool_is_a_vault():
    each = slot(1, swap("a", "buy", 40, 400), tokens=[("v", "p", "coin", 6, 9, 8, f"coin/{SOL}")])
    assert {b.account: b.is_vault for b in balances(each)} == {"a-coin": False, "v": True}


def test_the_reference_is_the_median_by_volume_and_moves_by_so_much_at_most():
    dear = swap("a", "sell", 10**9, 300 * 10**6, mint=SOL, quote=USDC) | {"pool": "dear"}
    fair = swap("a", "sell", 10**10, 1_000 * 10**6, mint=SOL, quote=USDC) | {"pool": "fair"}
    dust = swap("a", "sell", 10**7, 10**9, mint=SOL, quote=USDC) | {"pool": "dust"}
    assert reference(None, [dear, fair, dust]) == 100
    assert reference(Fraction(90), [dear, fair]) == Fraction("91.8")
    three = [dear, fair, fair | {"pool": "third"}]
    assert reference(Fraction(95), three) == 100
    assert reference(Fraction(90), three) == 99  # a tenth; 2 % if two report reserves
    assert reference(Fraction(90), [dust]) == 90
    assert rounded(Fraction(2, 3)) == Fraction("0.666666666667")


def test_a_token_quoted_in_a_token_is_worth_what_the_route_says():
    valuer = Valuer()
    legs = [
        swap("a", "buy", 50, 2_000, mint="one"),
        swap("a", "sell", 50, 7, mint="one", quote="two"),
    ]
    valuer.slot(slot(1, *legs))
    assert [leg["sol_value_lamports"] for leg in legs] == [2_000, 2_000]
    assert [leg["usd_value_micros"] for leg in legs] == [None, None]


def test_holders_are_neither_vaults_nor_pools():
    valuer, markets = Valuer(), Markets()
    each = slot(
        1,
        swap("a", "buy", 40, 400),
        tokens=[
            ("v", "authority", "coin", 6, 9, 8, f"coin/{SOL}"),
            ("w", f"coin/{SOL}", "coin", 6, 0, 7, None),
        ],
    )
    valuer.slot(each)
    markets.slot(each, None)
    assert markets.holders["coin"].by_owner() == {"a": 40}
    assert markets.candles["coin", 60, (NOON_MS + 400) // 60_000 * 60].buys == 1


def test_a_maker_who_signs_holds_what_a_pool_would_not():
    valuer, markets = Valuer(), Markets()
    fill = swap("a", "buy", 40, 400) | {"dex": "jupiter-rfq", "pool": "m"}
    each = slot(1, fill, tokens=[("m-coin", "m", "coin", 6, 90, 50, None)])
    each.transactions[0].flow["signers"] = ["m", "a"]
    valuer.slot(each)
    markets.slot(each, None)
    assert markets.holders["coin"].by_owner() == {"a": 40, "m": 50}


def test_a_token_is_of_the_platform_that_its_creation_then_its_curve_then_its_migration_names():
    def launch(platform: str, at: int, **fields: Any) -> dict[str, Any]:
        return {"event_index": at, "mint": "coin", "platform": platform, **fields}

    def traded(dex: str, at: int) -> dict[str, Any]:
        # The market's notes know the platform of every swap; the transaction of a pool does not.
        return swap("a", "buy", 1, 1, at=at) | {
            "dex": dex,
            "platform": "known",
            "signature": "s",
            "slot": 1,
        }

    def platforms(*slots: Slot) -> list[str]:
        return [*launchpads(slots).values()]

    def one(number: int, **events: Any) -> Slot:
        return Slot(number, number - 1, "", NOON_MS, [Tx(f"tx{number}", 0, **events)])

    pool, curve = traded("pump-swap", 2), traded("meteora-dbc", 3)
    creation = launch("bags", 1)
    migration = launch("moved", 4, from_pool="curve")
    assert platforms(one(1, swaps=[pool, curve])) == ["", "known"]
    assert platforms(one(1, swaps=[pool, curve], creations=[creation])) == ["bags", "bags"]
    late = pool | {"event_index": 5}
    assert platforms(one(1, swaps=[pool, curve, late], migrations=[migration])) == [
        *("", "known", "moved"),
    ]
    other = pool | {"mint": "other", "event_index": 6}
    assert platforms(
        one(1, creations=[creation]), one(2, migrations=[migration]), one(3, swaps=[pool, other])
    ) == ["bags", ""]


@pytest.mark.parametrize(("dollars", "expected"), [(0, 0), (1, 1024), (3, 2048), (10**9, 13_606)])
def test_a_traders_weight_is_the_logarithm_of_the_dollars(dollars, expected):
    assert weight(dollars * 100) == pytest.approx(expected, abs=60)


def test_pieces_add_up():
    assert sum(piece(10, at, at + 1, 3) for at in range(3)) == 10


def test_lost_slots_are_left_out():
    left = without([slot(number) for number in range(1, 6)], [(2, 4)], had={3})
    assert [each.slot for each in left] == [1, 3, 5]


def test_what_rests_on_a_torn_slot_is_excused_and_counted():
    wallet, coin, owner = "w" * 32, "c" * 44, "o" * 43
    torn = slot(3)
    flow = {"seen": True, "accounts": [{"owner": owner, "mint": SOL}]}
    torn.transactions = [Tx("s", 0, [swap(wallet, "buy", 1, 2, mint=coin)], flow=flow)]
    assert named_in(torn) == {wallet, coin, owner, SOL}

    found = Differences(unknowable=frozenset({3, *named_in(torn)}))
    found.maps("position", {(wallet, "b"): 1, ("a", coin): 1, ("a", "b"): 1}, {})
    found.maps("wallet", {owner: 1, "a": 1}, {"a": 1})
    found.maps("slot", {3: 1}, {3: 2})
    assert found.excused == 4
    assert found.counts == {"position": 1}
