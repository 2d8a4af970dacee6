"""What the paths of perps' history answer. Conventions are those of `api.history.answers`."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from api.docs.words import IN_USD
from api.http.cursors import Page
from api.wallets.position_answers import AsOf, about

IN_USDC = "the same in USDC"
IN_BASE = "the same in whole units"

Usd = Annotated[float, about(IN_USD, 12.5)]
UsdOrNone = Annotated[float | None, about(IN_USD, 12.5)]


class Known(AsOf):
    """From where on a history is known, and what of it could not be read."""

    wallet: str
    dex: Annotated[str, about("venue, a slug", "drift")]
    identified: Annotated[
        Literal["certain", "likely", "guess"],
        about("how sure it is that the path's slug means this venue"),
    ]
    from_ms: Annotated[int, about("beginning of the range", 1_763_000_000_000)]
    to_ms: Annotated[int, about("its end, not included", 1_763_700_000_001)]
    known_from_slot: Annotated[
        int | None,
        about("slot from which on all events are known; null: none yet", 341_000_000),
    ]
    known_from_ms: Annotated[int | None, about("time of that block", 1_763_600_000_000)]
    unread: Annotated[
        int,
        about(
            "instructions in the range whose events may be the wallet's and could not be read, "
            "mostly as the runtime cut off the transaction's log",
            0,
        ),
    ]
    is_complete: Annotated[
        bool,
        about("the range begins where events are known, ends by `as_of_ms`, and lacks nothing"),
    ]
    page: Page


class FundingSum(TypedDict):
    """What was paid and received as funding within the range."""

    payments: Annotated[int, about("how many payments", 240)]
    paid_raw: Annotated[str, about("paid, in millionths of USDC", "12500000")]
    paid: Annotated[float, about(IN_USDC, 12.5)]
    received_raw: Annotated[str, about("received, in millionths of USDC", "2500000")]
    received: Annotated[float, about(IN_USDC, 2.5)]
    net_raw: Annotated[str, about("received less paid", "-10000000")]
    net: Annotated[float, about(IN_USDC, -10.0)]


class FundingOfMarket(FundingSum):
    """What was paid and received as funding in one market."""

    market_index: Annotated[int, about("number of the perp market", 0)]


class FundingPayment(TypedDict):
    """One payment; (`signature`, `event_index`, `log_index`) is its identity."""

    signature: Annotated[str, about("transaction")]
    slot: Annotated[int, about("slot of the transaction", 341_204_118)]
    tx_index: Annotated[int, about("place of the transaction in its slot", 417)]
    event_index: Annotated[int, about("place of the instruction, in execution order", 3)]
    log_index: Annotated[int, about("place among the events that it logged", 0)]
    block_time_ms: Annotated[int, about("time of the block", 1_763_700_000_000)]
    program_id: Annotated[str, about("program of the venue")]
    account: Annotated[str, about("sub-account of the wallet")]
    market_index: Annotated[int, about("number of the perp market", 0)]
    payment_raw: Annotated[str, about("negative: paid; in millionths of USDC", "-125000")]
    payment: Annotated[float, about(IN_USDC, -0.125)]
    base_raw: Annotated[
        str, about("size of the position in billionths; negative: short", "40000000000")
    ]
    base: Annotated[float, about(IN_BASE, 40.0)]
    last_cumulative_funding_raw: Annotated[
        str, about("cumulative rate up to which the position had paid, in billionths")
    ]
    cumulative_funding_long_raw: Annotated[str, about("cumulative rate of longs at the payment")]
    cumulative_funding_short_raw: Annotated[str, about("cumulative rate of shorts at the payment")]


class FundingHistory(Known):
    """A page of a wallet's funding payments, and what they come to over the range."""

    total: Annotated[FundingSum, about("all markets together")]
    markets: Annotated[list[FundingOfMarket], about("ascending by number")]
    payments: Annotated[list[FundingPayment], about("newest first")]


class PerpPnl(TypedDict):
    """What positions realized within the range; fees are beside the gain."""

    increases: Annotated[int, about("times that a position was opened or grew", 4)]
    decreases: Annotated[int, about("times that one was closed or shrank", 3)]
    liquidations: Annotated[int, about("times that one was liquidated", 0)]
    wins: Annotated[int, about("decreases and liquidations with a gain, before fees", 2)]
    losses: Annotated[int, about("of them those with a loss, before fees", 1)]
    realized_usd_micros: Annotated[
        str, about("gain of what was closed or liquidated, before fees", "12500000")
    ]
    realized_usd: Usd
    fee_usd_micros: Annotated[
        str, about("fees of all changes, as their events have them", "1500000")
    ]
    fee_usd: Usd
    liquidation_fee_usd_micros: Annotated[
        str, about("the events' fee of liquidations; whether `fee_usd` has it they do not say", "0")
    ]
    liquidation_fee_usd: Usd


class PerpPnlOfMarket(PerpPnl):
    """What positions in one token realized."""

    mint: Annotated[str, about("token traded")]


class PerpChange(TypedDict):
    """A position grew, shrank or was liquidated; (`signature`, `event_index`) is its identity.

    Money is what the program's event says, in millionths of a dollar.
    """

    signature: Annotated[str, about("transaction")]
    slot: Annotated[int, about("slot of the transaction", 341_204_118)]
    tx_index: Annotated[int, about("place of the transaction in its slot", 417)]
    event_index: Annotated[int, about("place of the event, in execution order", 5)]
    block_time_ms: Annotated[int, about("time of the block", 1_763_700_000_000)]
    program_id: Annotated[str, about("program of the venue")]
    position: Annotated[str, about("account of the position")]
    pool: Annotated[str, about("pool that is the other side")]
    custody: Annotated[str, about("custody of the token traded")]
    collateral_custody: Annotated[str, about("custody of the collateral")]
    mint: Annotated[str, about("token traded")]
    side: Annotated[Literal["long", "short"], about("of the position", "long")]
    change: Annotated[Literal["increase", "decrease", "liquidate"], about("what became of it")]
    is_instant: Annotated[bool, about("executed without a request")]
    size_usd_micros: Annotated[str, about("size of the position, as the event has it")]
    size_usd: Usd
    size_delta_usd_micros: Annotated[
        str | None, about("by how much it grew or shrank; null for a liquidation")
    ]
    size_delta_usd: UsdOrNone
    collateral_delta_usd_micros: Annotated[
        str | None, about("collateral put in; null but for an increase")
    ]
    collateral_delta_usd: UsdOrNone
    price_usd_micros: Annotated[str, about("price at which it was executed", "150250000")]
    price_usd: Usd
    pnl_usd_micros: Annotated[
        str | None, about("gain of what was closed, before fees; null for an increase")
    ]
    pnl_usd: UsdOrNone
    fee_usd_micros: Annotated[str, about("fee, as the event has it")]
    fee_usd: Usd
    position_fee_usd_micros: Annotated[
        str | None, about("fee of opening or closing; null: the event has none")
    ]
    position_fee_usd: UsdOrNone
    funding_fee_usd_micros: Annotated[
        str | None, about("fee of borrowing; null: the event has none")
    ]
    funding_fee_usd: UsdOrNone
    price_impact_fee_usd_micros: Annotated[
        str | None, about("fee of price impact; null: the event has none")
    ]
    price_impact_fee_usd: UsdOrNone
    liquidation_fee_usd_micros: Annotated[
        str | None, about("fee of the liquidation; null for anything else")
    ]
    liquidation_fee_usd: UsdOrNone
    paid_out_usd_micros: Annotated[str | None, about("what the wallet got; null for an increase")]
    paid_out_usd: UsdOrNone
    collateral_usd_micros: Annotated[
        str | None, about("collateral of the position; null: the event has none")
    ]
    collateral_usd: UsdOrNone
    entry_price_usd_micros: Annotated[
        str | None, about("average price of opening; null: the event has none")
    ]
    entry_price_usd: UsdOrNone


class PerpHistory(Known):
    """A page of what became of a wallet's perpetual positions, and what they realized."""

    total: Annotated[PerpPnl, about("all tokens together")]
    markets: Annotated[list[PerpPnlOfMarket], about("by token traded")]
    changes: Annotated[list[PerpChange], about("newest first")]
