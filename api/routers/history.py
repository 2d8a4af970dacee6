"""Paths of history: days, swaps, candles, and the audit trail of a position."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from api.addresses import Mint, Wallet
from api.answers.history import (
    Candles,
    DailyPnl,
    DailyTokenPnl,
    DailyTrades,
    Lots,
    TokenSwaps,
    WalletSwaps,
    WalletTokenSwaps,
)
from api.errors import (
    INVALID_ADDRESS,
    INVALID_CURSOR,
    INVALID_PARAMETER,
    NO_POSITION,
    UNKNOWN_TOKEN,
)
from api.openapi import problems
from api.readers import candles as candles_reader
from api.readers import daily, lots, swaps
from api.reply import reply
from api.stores import Stores
from api.windows import MAX_MS, FromDay, ToDay, days

Interval = Literal["1s", "1m", "5m", "15m", "1h", "4h", "1d"]

SwapLimit = Annotated[int, Query(ge=1, le=swaps.MOST, description="Swaps of a page")]
LotLimit = Annotated[
    int, Query(ge=1, le=lots.MOST, description="Open lots of a page, and matches likewise")
]
FromMs = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_MS,
        description="Beginning of the range of time, included, in ms. Not looked at with a cursor",
        examples=[1_761_108_000_000],
    ),
]
ToMs = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_MS,
        description="End of the range, not included, in ms; without it the last settled block is "
        "the last. Not looked at with a cursor",
        examples=[1_763_700_000_000],
    ),
]
Cursor = Annotated[
    str | None,
    Query(description="`next_cursor` of the page before; leave out for the first", max_length=200),
]
CandlesFrom = Annotated[
    int | None,
    Query(
        alias="from",
        ge=0,
        le=MAX_MS,
        description="Candles that begin then or later, in ms; without it the last "
        f"{candles_reader.DEFAULT_CANDLES} intervals before `to`",
        examples=[1_763_682_000_000],
    ),
]
CandlesTo = Annotated[
    int | None,
    Query(
        alias="to",
        ge=0,
        le=MAX_MS,
        description="Candles that begin before this, in ms; without it all up to the running one",
        examples=[1_763_700_000_000],
    ),
]


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    routes = APIRouter(prefix="/api", tags=["history"])
    _days(routes, stores)
    _swaps(routes, stores)
    _prices(routes, stores)
    _audit(routes, stores)
    return routes


def _days(routes: APIRouter, stores: Stores) -> None:
    @routes.get(
        "/wallets/{wallet}/pnl/daily",
        summary="Daily PnL of a wallet",
        response_model=None,
        responses={200: {"model": DailyPnl}, **problems(INVALID_ADDRESS, INVALID_PARAMETER)},
    )
    async def pnl(
        request: Request, wallet: Wallet, first: FromDay = None, last: ToDay = None
    ) -> Response:
        """What was realised on each day, first in, first out, over all tokens.

        Days are UTC, by the time of the blocks, at most 366. Days on which the wallet did nothing
        are left out; an unknown wallet has none.
        """
        now = await daily.read_now(stores, wallet)
        return reply(
            request,
            await daily.read_daily_pnl(stores, wallet, days(first, last, now.time_ms), now),
        )

    @routes.get(
        "/wallets/{wallet}/pnl/{mint}/daily",
        summary="Daily PnL of a wallet in one token",
        response_model=None,
        responses={
            200: {"model": DailyTokenPnl},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, UNKNOWN_TOKEN),
        },
    )
    async def token_pnl(
        request: Request, wallet: Wallet, mint: Mint, first: FromDay = None, last: ToDay = None
    ) -> Response:
        """What was realised, bought, sold and moved of one token on each day.

        Days are UTC, by the time of the blocks, at most 366. Days without a change are left out: a
        wallet that never had the token has none. A token that nobody has heard of is 404.
        """
        now = await daily.read_now(stores, wallet)
        asked = days(first, last, now.time_ms)
        return reply(request, await daily.read_daily_token_pnl(stores, wallet, mint, asked, now))

    @routes.get(
        "/wallets/{wallet}/trades/daily",
        summary="Daily volumes of a wallet",
        response_model=None,
        responses={200: {"model": DailyTrades}, **problems(INVALID_ADDRESS, INVALID_PARAMETER)},
    )
    async def trades(
        request: Request, wallet: Wallet, first: FromDay = None, last: ToDay = None
    ) -> Response:
        """How much was bought and sold on each day, what it cost in fees and tips, wins and losses.

        Days are UTC, by the time of the blocks, at most 366. Days on which the wallet did nothing
        are left out; an unknown wallet has none.
        """
        now = await daily.read_now(stores, wallet)
        return reply(
            request,
            await daily.read_daily_trades(stores, wallet, days(first, last, now.time_ms), now),
        )


def _swaps(routes: APIRouter, stores: Stores) -> None:
    @routes.get(
        "/wallets/{wallet}/trades/{mint}",
        summary="Trade history of a wallet in one token",
        response_model=None,
        responses={
            200: {"model": WalletTokenSwaps},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, UNKNOWN_TOKEN),
        },
    )
    async def wallet_token_swaps(
        request: Request,
        wallet: Wallet,
        mint: Mint,
        limit: SwapLimit = swaps.DEFAULT_LIMIT,
        cursor: Cursor = None,
        from_ms: FromMs = None,
        to_ms: ToMs = None,
    ) -> Response:
        """Every swap of the wallet with the token as `mint`, newest first, by the page.

        The last 30 days without a range; 90 at most. Follow `next_cursor` while `has_more`: the
        range stays that of the first page, and no swap comes twice or is left out.
        """
        asked = swaps.Asked(limit, cursor, from_ms, to_ms)
        return reply(request, await swaps.read_wallet_token_swaps(stores, wallet, mint, asked))

    @routes.get(
        "/wallets/{wallet}/swaps",
        summary="Swaps of a wallet",
        response_model=None,
        responses={
            200: {"model": WalletSwaps},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
        },
    )
    async def wallet_swaps(
        request: Request,
        wallet: Wallet,
        limit: SwapLimit = swaps.DEFAULT_LIMIT,
        cursor: Cursor = None,
        from_ms: FromMs = None,
        to_ms: ToMs = None,
    ) -> Response:
        """Every swap of the wallet, newest first, by the page.

        The last 30 days without a range; 90 at most. Follow `next_cursor` while `has_more`: the
        range stays that of the first page, and no swap comes twice or is left out. An unknown
        wallet has none.
        """
        asked = swaps.Asked(limit, cursor, from_ms, to_ms)
        return reply(request, await swaps.read_wallet_swaps(stores, wallet, asked))

    @routes.get(
        "/tokens/{mint}/swaps",
        summary="Swaps of a token",
        response_model=None,
        responses={
            200: {"model": TokenSwaps},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, UNKNOWN_TOKEN),
        },
    )
    async def token_swaps(
        request: Request,
        mint: Mint,
        limit: SwapLimit = swaps.DEFAULT_LIMIT,
        cursor: Cursor = None,
        from_ms: FromMs = None,
        to_ms: ToMs = None,
    ) -> Response:
        """Every swap of the token as `mint`, newest first, by the page.

        The last 24 hours without a range; 90 days at most. Follow `next_cursor` while `has_more`:
        the range stays that of the first page, and no swap comes twice or is left out.
        """
        asked = swaps.Asked(limit, cursor, from_ms, to_ms)
        return reply(request, await swaps.read_token_swaps(stores, mint, asked))


def _prices(routes: APIRouter, stores: Stores) -> None:
    @routes.get(
        "/tokens/{mint}/candles",
        summary="Candles of a token",
        response_model=None,
        responses={
            200: {"model": Candles},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, UNKNOWN_TOKEN),
        },
    )
    async def candles(
        request: Request,
        mint: Mint,
        interval: Annotated[Interval, Query(description="Length of a candle")] = "1m",
        from_ms: CandlesFrom = None,
        to_ms: CandlesTo = None,
    ) -> Response:
        """Open, high, low and close in SOL and in dollars, and the volume, with the running candle.

        Prices are the token's as it is published, over all its pools. An interval without trades
        has no candle. At most 1,500 intervals; candles of a second are kept for a week.
        """
        return reply(
            request,
            await candles_reader.read_candles(stores, mint, interval, from_ms, to_ms),
        )


def _audit(routes: APIRouter, stores: Stores) -> None:
    @routes.get(
        "/wallets/{wallet}/{mint}/lots",
        summary="Why the PnL of a position is what it is",
        response_model=None,
        responses={
            200: {"model": Lots},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, NO_POSITION),
        },
    )
    async def audit(
        request: Request,
        wallet: Wallet,
        mint: Mint,
        limit: LotLimit = lots.DEFAULT_LIMIT,
        cursor: Cursor = None,
    ) -> Response:
        """The position, its open lots oldest first, and its matches newest first.

        A match is what a sale, transfer or burn took of one lot: quantity, cost, share of the
        proceeds, gain. Over all pages the gains of the matches add up to `realised_*` of the
        position, and what is left of the lots to its `held_raw` and `held_cost_*`. A page has
        `limit` of each; one list may end pages before the other. SOL, USDC, USDT and USD1 are
        money and have no lots.
        """
        return reply(request, await lots.read_lots(stores, wallet, mint, limit, cursor))
