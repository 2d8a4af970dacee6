"""What the paths of history answer: days, swaps, candles, lots and what became of them.

Conventions are those of `api.wallets.position_answers`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from api.docs.words import IN_MICROS, IN_SOL, IN_USD, IN_WHOLE, OF_KNOWN_VALUE
from api.http.cursors import Page
from api.wallets.position_answers import (
    AsOf,
    Moved,
    Outcome,
    Paid,
    PnlDay,
    PositionOf,
    Trading,
    about,
)

FromDay = Annotated[str, about("first day asked for, UTC", "2026-07-02")]
ToDay = Annotated[str, about("last day asked for, UTC", "2026-07-31")]
Decimals = Annotated[int | None, about("places of the token behind the point", 6)]
TapeBegan = Annotated[
    int | None,
    about(
        "time of the first block that is recorded: what was before is not known, and the day it is "
        "in not whole; null: none is yet",
        1_755_900_000_000,
    ),
]


class DailyPnl(AsOf):
    """Daily PnL of a wallet over all its tokens."""

    wallet: str
    from_day: FromDay
    to_day: ToDay
    known_from_ms: TapeBegan
    days: Annotated[
        list[PnlDay], about("oldest first; days on which the wallet did nothing are left out")
    ]
    total: Annotated[Trading, about("all these days together")]


class TokenChange(Moved, Outcome, Paid):
    """What a wallet did with a token within a time."""


class TokenDay(TokenChange):
    """What a wallet did with a token on a day."""

    day: Annotated[str, about("UTC, by the time of the blocks", "2026-07-31")]
    from_ms: Annotated[int, about("its beginning", 1_785_456_000_000)]
    held_raw: Annotated[str, about("in open lots at the end of the day", "25000000000000")]
    held: Annotated[float | None, about(IN_WHOLE, 25_000_000.0)]


class DailyTokenPnl(AsOf):
    """Daily PnL of a wallet with one token."""

    wallet: str
    mint: str
    decimals: Decimals
    from_day: FromDay
    to_day: ToDay
    known_from_ms: TapeBegan
    days: Annotated[list[TokenDay], about("oldest first; days without a change are left out")]
    total: Annotated[TokenChange, about("all these days together")]


class Volume(Paid):
    """How much a wallet traded, at the values of the time; unknown values are left out."""

    trades: Annotated[int, about("purchases and sales together", 21)]
    buys: Annotated[int, about("transactions that bought, net", 12)]
    sells: Annotated[int, about("transactions that sold, net", 9)]
    wins: Annotated[int, about("sales that realized a gain in dollars", 5)]
    losses: Annotated[int, about("sales that realized a loss in dollars", 3)]
    bought_lamports: Annotated[str, about("paid at known values", "12500000000")]
    bought_sol: Annotated[float, about(IN_SOL, 12.5)]
    bought_usd_micros: Annotated[str, about(IN_MICROS, "1875000000")]
    bought_usd: Annotated[float, about(IN_USD, 1875.0)]
    sold_lamports: Annotated[str, about("taken in at known values", "14000000000")]
    sold_sol: Annotated[float, about(IN_SOL, 14.0)]
    sold_usd_micros: Annotated[str, about(IN_MICROS, "2100000000")]
    sold_usd: Annotated[float, about(IN_USD, 2100.0)]
    volume_lamports: Annotated[str, about(f"both together; {OF_KNOWN_VALUE}", "26500000000")]
    volume_sol: Annotated[float, about(IN_SOL, 26.5)]
    volume_usd_micros: Annotated[str, about(IN_MICROS, "3975000000")]
    volume_usd: Annotated[float, about(IN_USD, 3975.0)]


class VolumeDay(Volume):
    """How much a wallet traded on a day."""

    day: Annotated[str, about("UTC, by the time of the blocks", "2026-07-31")]
    from_ms: Annotated[int, about("its beginning", 1_785_456_000_000)]


class DailyTrades(AsOf):
    """Daily volumes of a wallet over all its tokens."""

    wallet: str
    from_day: FromDay
    to_day: ToDay
    known_from_ms: TapeBegan
    days: Annotated[
        list[VolumeDay], about("oldest first; days on which the wallet did nothing are left out")
    ]
    total: Annotated[Volume, about("all these days together")]


class Swap(TypedDict):
    """One pool leg of a transaction: the fields and types of the WebSocket's and Kafka's swaps.

    Fees in SOL are beside. What only live streams have is left out: the token's symbol, virtual
    reserves of curves, and how far these have come.
    """

    signature: Annotated[str, about("transaction; with `event_index` the identity of the swap")]
    slot: Annotated[int, about("slot of the transaction", 341_204_118)]
    tx_index: Annotated[int, about("place of the transaction in its slot", 417)]
    event_index: Annotated[int, about("place of the instruction, in execution order", 3)]
    block_time_ms: Annotated[int, about("time of the block", 1_763_700_000_000)]
    dex: Annotated[str, about("venue, a slug", "pump-swap")]
    program_id: Annotated[str, about("program of the venue")]
    pool: Annotated[str, about("pool or bonding curve")]
    wallet: Annotated[str, about("owner of what came out: the trader, or whose order it was")]
    fee_payer: Annotated[str, about("payer of the transaction")]
    keeper: Annotated[
        str,
        about("who executed the wallet's order (limit order, DCA, value average), or empty", ""),
    ]
    mint: Annotated[str, about("token traded")]
    quote_mint: Annotated[str, about("token it was traded for")]
    side: Annotated[Literal["buy", "sell"], about("what the wallet did with `mint`", "buy")]
    amount_raw: Annotated[str, about("of `mint`, as the pool moved it", "125000000000")]
    decimals: Annotated[int, about("of `mint`", 6)]
    quote_amount_raw: Annotated[str, about("of `quote_mint`, as the pool moved it", "1500000000")]
    quote_decimals: Annotated[int, about("of `quote_mint`", 9)]
    wallet_amount_raw: Annotated[
        str, about("of `mint`, as the wallet gave or received it", "125000000000")
    ]
    wallet_quote_amount_raw: Annotated[
        str, about("of `quote_mint`, as the wallet gave or received it", "1515000000")
    ]
    price: Annotated[float, about("`quote_mint` per token; 0 where no token moved", 1.2e-5)]
    price_sol: Annotated[float | None, about("SOL per token; null: not known", 1.2e-5)]
    price_usd: Annotated[float | None, about("dollars per token; null: not known", 0.0018)]
    sol_value: Annotated[float | None, about("value in SOL; null: not known", 1.5)]
    usd_value: Annotated[float | None, about("value in dollars; null: not known", 225.0)]
    pool_fee_raw: Annotated[
        str | None, about("fee of the pool, of `pool_fee_mint`; null: the venue does not say")
    ]
    pool_fee_mint: Annotated[str, about("token of that fee, or empty")]
    fee_lamports: Annotated[
        str, about("network fee of the transaction, base and priority", "105000")
    ]
    priority_fee_lamports: Annotated[str, about("of this the priority fee", "100000")]
    tip_lamports: Annotated[str, about("tips of the transaction", "1000000")]
    router: Annotated[str, about("aggregator or trading app, a slug, or empty", "jupiter")]
    platform: Annotated[str, about("launchpad of the token, a slug, or empty", "pump-fun")]
    commitment: Annotated[Literal["confirmed"], about("how sure the slot is", "confirmed")]
    reserve_raw: Annotated[
        str | None, about("of `mint` in the pool after the swap; null: not known")
    ]
    quote_reserve_raw: Annotated[str | None, about("of `quote_mint` there, likewise")]
    liquidity: Annotated[str | None, about("of a concentrated pool after the swap, 128 bits")]
    sqrt_price_x64: Annotated[
        str | None, about("square root of such a pool's price after the swap, times 2^64")
    ]
    sol_value_lamports: Annotated[
        str | None, about("value of `quote_amount_raw` in lamports; null: not known", "1500000000")
    ]
    usd_value_micros: Annotated[str | None, about(IN_MICROS, "225000000")]
    amount: Annotated[float, about("`amount_raw` in whole tokens", 125_000.0)]
    quote_amount: Annotated[float, about("`quote_amount_raw` in whole tokens", 1.5)]
    fee_sol: Annotated[float, about("`fee_lamports` in SOL", 0.000105)]
    priority_fee_sol: Annotated[float, about("`priority_fee_lamports` in SOL", 0.0001)]
    tip_sol: Annotated[float, about("`tip_lamports` in SOL", 0.001)]


class SwapPage(AsOf):
    """A page of swaps, newest first."""

    from_ms: Annotated[int, about("where the range of time begins, included", 1_761_108_000_001)]
    to_ms: Annotated[int, about("where it ends, not included", 1_763_700_000_001)]
    known_from_ms: Annotated[
        int | None,
        about(
            "block time from which on swaps are kept: the range lacks what is older; null: none "
            "is recorded yet",
            1_755_900_000_000,
        ),
    ]
    swaps: list[Swap]
    page: Page


class WalletSwaps(SwapPage):
    """Swaps of a wallet."""

    wallet: str


class TokenSwaps(SwapPage):
    """Swaps of a token."""

    mint: str


class WalletTokenSwaps(SwapPage):
    """Swaps of a wallet in one token."""

    wallet: str
    mint: str


class CandleRow(TypedDict):
    """Prices and volume of an interval; a price is null where none was known in it.

    Of SOL volumes and counts are null: its candles are of a reference price, not of trades.
    """

    start_ms: Annotated[int, about("when the interval begins", 1_763_700_000_000)]
    is_closed: Annotated[bool, about("its time is over: the candle changes no more", True)]
    open_sol: Annotated[float | None, about("first price in it, SOL for a whole token", 1.1e-7)]
    high_sol: Annotated[float | None, about("highest price", 1.3e-7)]
    low_sol: Annotated[float | None, about("lowest price", 1.1e-7)]
    close_sol: Annotated[float | None, about("last price", 1.2e-7)]
    open_usd: Annotated[float | None, about("first price in dollars", 1.65e-5)]
    high_usd: Annotated[float | None, about("highest price in dollars", 1.95e-5)]
    low_usd: Annotated[float | None, about("lowest price in dollars", 1.65e-5)]
    close_usd: Annotated[float | None, about("last price in dollars", 1.8e-5)]
    amount_raw: Annotated[str | None, about("traded, in the smallest unit", "125000000000000")]
    amount: Annotated[float | None, about(IN_WHOLE, 125_000_000.0)]
    volume_lamports: Annotated[
        str | None, about(f"value of its trades; {OF_KNOWN_VALUE}", "15000000000")
    ]
    volume_sol: Annotated[float | None, about(IN_SOL, 15.0)]
    volume_usd_micros: Annotated[str | None, about(IN_MICROS, "2250000000")]
    volume_usd: Annotated[float | None, about(IN_USD, 2250.0)]
    buys: Annotated[int | None, about("trades that bought the token", 31)]
    sells: Annotated[int | None, about("trades that sold it", 17)]
    slot: Annotated[int, about("of the last trade in it", 341_204_118)]


class Candles(AsOf):
    """Candles of a token, oldest first."""

    mint: str
    interval: Annotated[str, about("as it was asked for", "1m")]
    interval_s: Annotated[int, about("its length in seconds", 60)]
    decimals: Decimals
    from_ms: Annotated[int, about("candles that begin then or later", 1_763_682_000_000)]
    to_ms: Annotated[int, about("and before this", 1_763_700_000_001)]
    known_from_ms: Annotated[
        int | None,
        about(
            "an interval without a candle that began before this may have had trades: before the "
            "tape, or, of a second, deleted; null: nothing is recorded yet",
            1_755_900_000_000,
        ),
    ]
    candles: Annotated[list[CandleRow], about("an interval without trades has none")]


class OpenLot(TypedDict):
    """What was bought or received at once, and is held still, in part or whole."""

    number: Annotated[int, about("in its position, from 0 in the order of opening", 12)]
    slot: Annotated[int, about("slot of the transaction that opened it", 341_007_100)]
    tx_index: Annotated[int, about("place of that transaction in its slot", 17)]
    time_ms: Annotated[int, about("time of the block", 1_763_100_000_000)]
    opened_raw: Annotated[str, about("quantity it was opened with", "30000000000000")]
    opened: Annotated[float | None, about(IN_WHOLE, 30_000_000.0)]
    quantity_raw: Annotated[str, about("of this held still", "25000000000000")]
    quantity: Annotated[float | None, about(IN_WHOLE, 25_000_000.0)]
    cost_lamports: Annotated[
        str | None,
        about(
            "cost of what is held still; null: it was received, or bought at an unknown value",
            "2500000000",
        ),
    ]
    cost_sol: Annotated[float | None, about(IN_SOL, 2.5)]
    cost_usd_micros: Annotated[str | None, about(IN_MICROS, "375000000")]
    cost_usd: Annotated[float | None, about(IN_USD, 375.0)]


class LotMatch(TypedDict):
    """What a sale, a transfer or a burn took of one lot."""

    kind: Annotated[
        Literal["sale", "transfer", "burn"],
        about(
            "sold; sent away, or burned by a program (a stake pool's token for a stake account), "
            "which is no gain; burned by the wallet itself, which is a sale for nothing",
            "sale",
        ),
    ]
    signature: Annotated[str, about("transaction that did it")]
    slot: Annotated[int, about("slot of that transaction", 341_200_100)]
    tx_index: Annotated[int, about("its place in the slot", 203)]
    event_index: Annotated[int, about("the first of its swaps of the token; 0: it has none", 2)]
    time_ms: Annotated[int, about("time of the block", 1_763_698_400_000)]
    lot_number: Annotated[int | None, about("null: more was disposed of than all lots held", 11)]
    lot_slot: Annotated[int | None, about("slot in which the lot was opened", 341_007_050)]
    lot_tx_index: Annotated[int | None, about("place of the transaction that opened it", 4)]
    lot_time_ms: Annotated[int | None, about("time of that block", 1_763_099_980_000)]
    quantity_raw: Annotated[str, about("taken of the lot", "5000000000000")]
    quantity: Annotated[float | None, about(IN_WHOLE, 5_000_000.0)]
    cost_lamports: Annotated[str | None, about("cost of that quantity; null: unknown", "500000000")]
    cost_sol: Annotated[float | None, about(IN_SOL, 0.5)]
    cost_usd_micros: Annotated[str | None, about(IN_MICROS, "75000000")]
    cost_usd: Annotated[float | None, about(IN_USD, 75.0)]
    proceeds_lamports: Annotated[
        str | None,
        about("its share of what was taken in; null: unknown, or a transfer", "600000000"),
    ]
    proceeds_sol: Annotated[float | None, about(IN_SOL, 0.6)]
    proceeds_usd_micros: Annotated[str | None, about(IN_MICROS, "90000000")]
    proceeds_usd: Annotated[float | None, about(IN_USD, 90.0)]
    realized_lamports: Annotated[
        str | None,
        about("proceeds less cost; null: a transfer, or one of the two is unknown", "100000000"),
    ]
    realized_sol: Annotated[float | None, about(IN_SOL, 0.1)]
    realized_usd_micros: Annotated[str | None, about(IN_MICROS, "15000000")]
    realized_usd: Annotated[float | None, about(IN_USD, 15.0)]


class Lots(AsOf):
    """Why a position's gain is what it is.

    Over all pages, `realized_*` of the matches add up to `realized_*` of the position, quantities
    and costs of the open lots to its `held_raw` and `held_cost_*`.
    """

    wallet: str
    mint: str
    position: PositionOf
    open_lots: Annotated[list[OpenLot], about("what is held, oldest first")]
    matches: Annotated[list[LotMatch], about("what became of lots, newest first")]
    page: Annotated[Page, about("of both lists: one may end pages before the other")]
