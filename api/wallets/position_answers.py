"""The shapes of positions and of what a wallet gained.

Amounts of a token are given in its smallest unit as text (`*_raw`) and in whole tokens as a number;
money as integers in text (`*_lamports`, `*_usd_micros`) and as numbers (`*_sol`, `*_usd`). What is
not known is null and never 0.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from api.docs.words import IN_MICROS, IN_MICROS_THEN, IN_SOL, IN_USD, IN_WHOLE
from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET
from api.http.cursors import Page


def about(description: str, *examples: Any) -> Any:
    """Return what the document says of a field."""
    return Field(description=description, examples=[*examples] or None)


class UpTo(TypedDict):
    """Up to where an answer is complete."""

    as_of_slot: Annotated[int, about("settled slot up to which everything is in", 341_204_118)]
    as_of_ms: Annotated[int, about("time of that block", 1_763_700_000_000)]


class GapCounts(TypedDict):
    """What the figures of an answer lack, or should lack: slots of the tape, and what is left out.

    A count is null while it is not known, as ClickHouse does not answer.
    """

    missing_slots: Annotated[
        int | None, about("slots that the tape could not have: no figure has their trades", 12)
    ]
    lost_slots: Annotated[
        int | None,
        about(
            "slots that the tape has, and the books behind this answer have lost; counted once a "
            "partition of the books",
            0,
        ),
    ]
    rolled_back_slots: Annotated[
        int | None,
        about(
            "slots that were rolled back after they were settled: their trades never happened, "
            "and are in the figures. About a wallet: those that touched it, or of which the "
            "wallets are not known; else all of the tape. Null as well where rolled-back slots "
            "touched more than 100,000 wallets",
            1,
        ),
    ]
    quarantined: Annotated[
        int | None,
        about(
            "wallets or tokens that this answer leaves out, as what is stored of them cannot be "
            "read, until the books are rebuilt",
            0,
        ),
    ]


class AsOf(UpTo):
    """Up to where an answer is complete, and what it lacks."""

    gaps: Annotated[
        GapCounts | None,
        about("slots because of which figures may be wrong; null: none is known, as is usual"),
    ]


class Paid(TypedDict):
    """What transactions cost beside the trade; never a part of a gain."""

    fee_lamports: Annotated[
        str, about("network fees, base and priority, of transactions that succeeded", "105000")
    ]
    fee_sol: Annotated[float, about(IN_SOL, 0.000105)]
    priority_fee_lamports: Annotated[str, about("of these the priority fees", "100000")]
    priority_fee_sol: Annotated[float, about(IN_SOL, 0.0001)]
    tip_lamports: Annotated[str, about("tips", "1000000")]
    tip_sol: Annotated[float, about(IN_SOL, 0.001)]


class Outcome(TypedDict):
    """What trades paid, took in and came to."""

    buys: Annotated[int, about("transactions that bought, net", 12)]
    sells: Annotated[int, about("transactions that sold, net", 9)]
    wins: Annotated[int, about("sales that realized a gain in dollars", 5)]
    losses: Annotated[int, about("sales that realized a loss in dollars", 3)]
    bought_lamports: Annotated[
        str, about("paid for what was bought at a known value", "12500000000")
    ]
    bought_sol: Annotated[float, about(IN_SOL, 12.5)]
    bought_usd_micros: Annotated[str, about(IN_MICROS_THEN, "1875000000")]
    bought_usd: Annotated[float, about(IN_USD, 1875.0)]
    sold_lamports: Annotated[
        str, about("taken in for what was sold at a known value", "14000000000")
    ]
    sold_sol: Annotated[float, about(IN_SOL, 14.0)]
    sold_usd_micros: Annotated[str, about(IN_MICROS_THEN, "2100000000")]
    sold_usd: Annotated[float, about(IN_USD, 2100.0)]
    matched_cost_lamports: Annotated[
        str, about("cost, first in first out, of what was sold or burned", "10000000000")
    ]
    matched_cost_sol: Annotated[float, about(IN_SOL, 10.0)]
    matched_cost_usd_micros: Annotated[str, about(IN_MICROS_THEN, "1500000000")]
    matched_cost_usd: Annotated[float, about(IN_USD, 1500.0)]
    realized_lamports: Annotated[
        str | None,
        about(
            "gain of what was sold or burned from lots of known cost, without fees; null: nothing "
            "was",
            "2000000000",
        ),
    ]
    realized_sol: Annotated[float | None, about(IN_SOL, 2.0)]
    realized_usd_micros: Annotated[str | None, about(IN_MICROS_THEN, "300000000")]
    realized_usd: Annotated[float | None, about(IN_USD, 300.0)]
    realized_pct: Annotated[
        float | None, about("`realized_usd` in per cent of `matched_cost_usd`", 20.0)
    ]


class Trading(Outcome, Paid):
    """What a wallet did within a time, over all its tokens."""

    unmatched_sales: Annotated[
        int,
        about("sales of which a part has no known cost or value: it is no gain and no loss", 1),
    ]
    win_rate_pct: Annotated[
        float | None, about("`wins` in per cent of `wins` and `losses`; null: neither", 62.5)
    ]


class Priced(TypedDict):
    """What an amount is worth at the last price; null where there is none."""

    price_sol: Annotated[float | None, about("SOL for a whole token; null: no price", 1.2e-7)]
    price_usd: Annotated[float | None, about("dollars for a whole token", 1.8e-5)]
    price_time_ms: Annotated[int | None, about("time of the price's last trade", 1_763_699_990_000)]
    price_slot: Annotated[int | None, about("slot of that trade", 341_204_093)]
    is_price_stale: Annotated[
        bool | None, about("that trade is an hour older than the chain's last block", False)
    ]
    value_lamports: Annotated[
        str | None, about("what it is worth, rounded down; null: no price", "3000000000")
    ]
    value_sol: Annotated[float | None, about(IN_SOL, 3.0)]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "450000000")]
    value_usd: Annotated[float | None, about(IN_USD, 450.0)]


class Unrealized(TypedDict):
    """The gain that a sale at the last price would realize."""

    unrealized_lamports: Annotated[
        str | None,
        about(
            "worth of what is held at a known cost, less that cost; what is held without a known "
            "cost is left out; null: no price, or nothing held has a known cost",
            "500000000",
        ),
    ]
    unrealized_sol: Annotated[float | None, about(IN_SOL, 0.5)]
    unrealized_usd_micros: Annotated[str | None, about(IN_MICROS, "75000000")]
    unrealized_usd: Annotated[float | None, about(IN_USD, 75.0)]
    unrealized_pct: Annotated[
        float | None, about("`unrealized_usd` in per cent of `held_cost_usd`", 20.0)
    ]


class Cost(TypedDict):
    """What is held has cost."""

    held_cost_lamports: Annotated[str, about("cost of the open lots", "2500000000")]
    held_cost_sol: Annotated[float, about(IN_SOL, 2.5)]
    held_cost_usd_micros: Annotated[str, about(IN_MICROS_THEN, "375000000")]
    held_cost_usd: Annotated[float, about(IN_USD, 375.0)]


class Unmatched(TypedDict):
    """What was disposed of without a gain or a loss that anybody knows."""

    unmatched_raw: Annotated[
        str,
        about(
            "sold or burned without a lot of known cost, or at an unknown value: no gain, no loss",
            "0",
        ),
    ]
    unmatched: Annotated[float | None, about(IN_WHOLE, 0.0)]


class Moved(Unmatched):
    """What came and went of a token: of all time in a position, else within the answer's time."""

    bought_raw: Annotated[str, about("bought, net of each transaction", "125000000000000")]
    bought: Annotated[float | None, about(IN_WHOLE, 125_000_000.0)]
    sold_raw: Annotated[str, about("sold, net of each transaction", "100000000000000")]
    sold: Annotated[float | None, about(IN_WHOLE, 100_000_000.0)]
    received_raw: Annotated[
        str, about("received beside trades, in transactions that touch a venue or router", "0")
    ]
    received: Annotated[float | None, about(IN_WHOLE, 0.0)]
    sent_raw: Annotated[
        str, about("sent away beside trades, in such transactions; takes its cost along", "0")
    ]
    sent: Annotated[float | None, about(IN_WHOLE, 0.0)]
    burned_raw: Annotated[
        str,
        about("burned by the wallet itself: sold for nothing; what a program burns is sent", "0"),
    ]
    burned: Annotated[float | None, about(IN_WHOLE, 0.0)]


class PositionOf(Moved, Outcome, Cost, Priced, Unrealized, Paid):
    """What a wallet did with a token, what it holds of it, and what that is worth.

    First in, first out. A position counts what came and went through lots: a balance that the
    wallet had before the tape began is not in it, nor what plain transfers brought or took, of
    transactions that touch no venue. What the wallet holds on chain is in `holdings`.
    """

    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    name: Annotated[str | None, about("name of the token; null while not known", "Example")]
    symbol: Annotated[str | None, about("its symbol", "EXM")]
    decimals: Annotated[int | None, about("places behind the point", 6)]
    held_raw: Annotated[
        str, about("in open lots; plain transfers elsewhere are not in it", "25000000000000")
    ]
    held: Annotated[float | None, about(IN_WHOLE, 25_000_000.0)]
    unknown_cost_raw: Annotated[
        str, about("of these without a known cost: received, or bought at an unknown value", "0")
    ]
    unknown_cost: Annotated[float | None, about(IN_WHOLE, 0.0)]
    average_entry_sol: Annotated[
        float | None, about("cost of a whole token, of those held at a known cost", 1e-7)
    ]
    average_entry_usd: Annotated[float | None, about(IN_USD, 1.5e-5)]
    open_lots: Annotated[int, about("lots not fully disposed of", 3)]
    first_trade_slot: Annotated[
        int | None, about("slot of the first trade; null: none", 341_007_100)
    ]
    first_trade_ms: Annotated[int | None, about("time of that block", 1_763_100_000_000)]
    last_trade_slot: Annotated[int | None, about("slot of the last trade", 341_200_100)]
    last_trade_ms: Annotated[int | None, about("time of that block", 1_763_698_400_000)]
    changed_slot: Annotated[int, about("slot of the last change of any kind", 341_200_100)]


class CompactPosition(TypedDict):
    """What a list shows of a position; money in dollars. `view=full` has the exact integers."""

    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    name: Annotated[str | None, about("name of the token; null while not known", "Example")]
    symbol: Annotated[str | None, about("its symbol", "EXM")]
    held: Annotated[float | None, about("in open lots, in whole tokens", 25_000_000.0)]
    held_cost_usd: Annotated[float, about("cost of the open lots", 375.0)]
    price_usd: Annotated[float | None, about("dollars for a whole token; null: no price", 1.8e-5)]
    is_price_stale: Annotated[
        bool | None, about("its trade is an hour older than the chain's last block", False)
    ]
    value_usd: Annotated[float | None, about("worth of what is held; null: no price", 450.0)]
    unrealized_usd: Annotated[
        float | None, about("gain in what is held at a known cost; null: not known", 75.0)
    ]
    unrealized_pct: Annotated[float | None, about("that in per cent of `held_cost_usd`", 20.0)]
    realized_usd: Annotated[
        float | None, about("gain of what was sold or burned; null: nothing was", 300.0)
    ]
    realized_pct: Annotated[float | None, about("that in per cent of its cost", 20.0)]
    buys: Annotated[int, about("transactions that bought, net", 12)]
    sells: Annotated[int, about("transactions that sold, net", 9)]
    win_rate_pct: Annotated[
        float | None, about("sales with a gain in per cent of those with a gain or loss", 62.5)
    ]
    last_trade_ms: Annotated[int | None, about("time of the last trade", 1_763_698_400_000)]


Listed = Annotated[
    list[PositionOf] | list[CompactPosition],
    about("newest trade first; `CompactPosition` with `view=compact`"),
]


class Open(Cost, Unrealized):
    """What a wallet's positions hold, summed."""

    held_positions: Annotated[int, about("positions that hold something", 7)]
    priced_positions: Annotated[int, about("of these with a price: only they have a value", 6)]
    stale_positions: Annotated[int, about("of these with a stale price", 1)]
    unknown_cost_positions: Annotated[
        int, about("positions that hold something without a known cost", 2)
    ]
    value_lamports: Annotated[
        str | None, about("worth of what is held and priced; null: nothing is", "9000000000")
    ]
    value_sol: Annotated[float | None, about(IN_SOL, 9.0)]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "1350000000")]
    value_usd: Annotated[float | None, about(IN_USD, 1350.0)]


class Totals(Trading):
    """All that a wallet did since the tape began, over all its tokens.

    Fees of trades without a net trade of a token (SOL for a dollar coin, say) are in as well, so
    fees are at least the sum over the positions; everything else is exactly that sum.
    """

    position_count: Annotated[int, about("tokens that the wallet has a position in", 18)]
    open: Annotated[
        Open | None,
        about(
            "what the positions hold now; null for a wallet with more than 1,000 positions (200 "
            "in a batch) in tokens that moved lately, or as many in tokens that did not: "
            "`/portfolio` counts the newest of them",
        ),
    ]


class PositionList(AsOf):
    """A page of a wallet's positions, newest trade first."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    totals: Annotated[Totals, about("over all positions, not only those listed")]
    positions: Listed
    page: Page


class AllPositions(AsOf):
    """A wallet's positions, newest trade first, up to a limit."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    totals: Annotated[Totals, about("over all positions, not only those listed")]
    positions: Listed


class PositionAnswer(PositionOf, AsOf):
    """One position."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]


class PnlDay(Trading):
    """What a wallet did on a day."""

    day: Annotated[str, about("UTC, by the time of the blocks", "2025-11-21")]
    from_ms: Annotated[int, about("its beginning", 1_763_683_200_000)]


class Summary(Trading):
    """What a wallet did on the last seven days of the chain's clock, today's among them."""

    from_ms: Annotated[int | None, about("beginning of the first day", 1_763_164_800_000)]
    to_ms: Annotated[
        int | None, about("end of the last day, which may be to come", 1_763_769_600_000)
    ]
    days: Annotated[list[PnlDay], about("the seven, oldest first, idle ones too")]


class SummaryAnswer(Summary, AsOf):
    """The 7-day summary of a wallet."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
