"""Paths of history: days, swaps, candles, and the audit trail of a position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from api.docs.openapi import answers_with
from api.history import lots, swaps
from api.history.answers import (
    Candles,
    DailyPnl,
    DailyTokenPnl,
    DailyTrades,
    Lots,
    TokenSwaps,
    WalletSwaps,
    WalletTokenSwaps,
)
from api.history.perp_answers import FundingHistory, PerpHistory
from api.history.spans import Asked
from api.http.errors import (
    INVALID_ADDRESS,
    INVALID_CURSOR,
    INVALID_PARAMETER,
    NO_POSITION,
    UNKNOWN_TOKEN,
)
from api.http.parameters import Cursor, From, Mint, To, Wallet
from api.http.replies import send
from api.http.state import services
from schemas.protocols.contract import Protocol

Interval = Literal["1s", "1m", "5m", "15m", "1h", "4h", "1d"]

SwapLimit = Annotated[int, Query(ge=1, le=swaps.MOST, description="Swaps of a page")]
EventLimit = Annotated[int, Query(ge=1, le=swaps.MOST, description="Events of a page")]
LotLimit = Annotated[
    int, Query(ge=1, le=lots.MOST, description="Open lots of a page, and matches likewise")
]


router = APIRouter(prefix="/api", tags=["history"])


@router.get(
    "/wallets/{wallet}/pnl/daily",
    summary="Daily PnL of a wallet",
    **answers_with(DailyPnl, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def pnl(request: Request, wallet: Wallet, from_ms: From = None, to_ms: To = None) -> Response:
    """What was realized on each day, first in, first out, over all tokens.

    Days are UTC, by the time of the blocks: the 30 up to `to` without `from`, at most 366. A time
    in `from` or `to` counts as its day. Days on which the wallet did nothing
    are left out; an unknown wallet has none. What was before `known_from_ms` is not known.
    """
    return send(request, await services(request).history.daily_pnl(wallet, from_ms, to_ms))


@router.get(
    "/wallets/{wallet}/pnl/{mint}/daily",
    summary="Daily PnL of a wallet in one token",
    **answers_with(DailyTokenPnl, INVALID_ADDRESS, INVALID_PARAMETER, UNKNOWN_TOKEN),
)
async def token_pnl(
    request: Request, wallet: Wallet, mint: Mint, from_ms: From = None, to_ms: To = None
) -> Response:
    """What was realized, bought, sold and moved of one token on each day.

    Days are UTC, by the time of the blocks: the 30 up to `to` without `from`, at most 366. A time
    in `from` or `to` counts as its day. Days without a change are left out: a
    wallet that never had the token has none. What was before `known_from_ms` is not known. A token
    that nobody has heard of is 404.
    """
    answer = await services(request).history.daily_token_pnl(wallet, mint, from_ms, to_ms)
    return send(request, answer)


@router.get(
    "/wallets/{wallet}/trades/daily",
    summary="Daily volumes of a wallet",
    **answers_with(DailyTrades, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def trades(
    request: Request, wallet: Wallet, from_ms: From = None, to_ms: To = None
) -> Response:
    """How much was bought and sold on each day, what it cost in fees and tips, wins and losses.

    Days are UTC, by the time of the blocks: the 30 up to `to` without `from`, at most 366. A time
    in `from` or `to` counts as its day. Days on which the wallet did nothing
    are left out; an unknown wallet has none. What was before `known_from_ms` is not known.
    """
    return send(request, await services(request).history.daily_trades(wallet, from_ms, to_ms))


@router.get(
    "/wallets/{wallet}/trades/{mint}",
    summary="Trade history of a wallet in one token",
    **answers_with(
        WalletTokenSwaps, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, UNKNOWN_TOKEN
    ),
)
async def wallet_token_swaps(
    request: Request,
    wallet: Wallet,
    mint: Mint,
    limit: SwapLimit = swaps.DEFAULT_LIMIT,
    cursor: Cursor = None,
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Every swap of the wallet with the token on either side, newest first, by the page.

    The last 30 days without a range; 90 at most. Follow `next_cursor` while `has_more`: the
    range stays that of the first page, and no swap comes twice or is left out.
    """
    asked = Asked(limit, cursor, from_ms, to_ms)
    return send(request, await services(request).history.wallet_token_swaps(wallet, mint, asked))


@router.get(
    "/wallets/{wallet}/swaps",
    summary="Swaps of a wallet",
    **answers_with(WalletSwaps, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
)
async def wallet_swaps(
    request: Request,
    wallet: Wallet,
    limit: SwapLimit = swaps.DEFAULT_LIMIT,
    cursor: Cursor = None,
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Every swap of the wallet, newest first, by the page.

    The last 30 days without a range; 90 at most. Follow `next_cursor` while `has_more`: the
    range stays that of the first page, and no swap comes twice or is left out. An unknown
    wallet has none.
    """
    asked = Asked(limit, cursor, from_ms, to_ms)
    return send(request, await services(request).history.wallet_swaps(wallet, asked))


@router.get(
    "/tokens/{mint}/swaps",
    summary="Swaps of a token",
    **answers_with(TokenSwaps, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, UNKNOWN_TOKEN),
)
async def token_swaps(
    request: Request,
    mint: Mint,
    limit: SwapLimit = swaps.DEFAULT_LIMIT,
    cursor: Cursor = None,
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Every swap that has the token on either side, newest first, by the page.

    It is `mint` or `quote_mint`. The last 24 hours without a range; 90 days at most. Follow
    `next_cursor` while `has_more`: the range stays that of the first page, and no swap comes
    twice or is left out.
    """
    asked = Asked(limit, cursor, from_ms, to_ms)
    return send(request, await services(request).history.token_swaps(mint, asked))


@router.get(
    "/tokens/{mint}/candles",
    summary="Candles of a token",
    **answers_with(Candles, INVALID_ADDRESS, INVALID_PARAMETER, UNKNOWN_TOKEN),
)
async def candles(
    request: Request,
    mint: Mint,
    interval: Annotated[Interval, Query(description="Length of a candle")] = "1m",
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Open, high, low and close in SOL and in dollars, and the volume, with the running candle.

    Prices are the token's as it is published, over all its pools. An interval without trades
    has no candle. Volumes leave out trades of unknown value, counts do not. Candles of SOL are of
    the SOL/USD reference that swaps are valued with, and have no volume. Candles begin within the
    range, without `from` the last 300 intervals of it; at most 1,500 intervals. Candles of a second
    are kept for a week. `known_from_ms` says from when on none means that nothing was traded.
    """
    answer = await services(request).history.candles(mint, interval, from_ms, to_ms)
    return send(request, answer)


@router.get(
    "/wallets/{wallet}/{mint}/lots",
    summary="Why the PnL of a position is what it is",
    **answers_with(Lots, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR, NO_POSITION),
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
    proceeds, gain. Over all pages the gains of the matches add up to `realized_*` of the
    position, and what is left of the lots to its `held_raw` and `held_cost_*`. A page has
    `limit` of each; one list may end pages before the other. SOL, USDC, USDT and USD1 are
    money and have no lots.
    """
    return send(request, await services(request).history.lots(wallet, mint, limit, cursor))


async def funding(
    request: Request,
    wallet: Wallet,
    limit: EventLimit = swaps.DEFAULT_LIMIT,
    cursor: Cursor = None,
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Every funding payment of the wallet's perp positions, newest first, and sums by market.

    The last 30 days without a range; 90 at most. Sums are of the whole range, not of the page. The
    chain keeps no history of funding: it is known from `known_from_slot`, from the program's log.
    Where the runtime cut that off, `unread` counts what may be missing.
    """
    asked = Asked(limit, cursor, from_ms, to_ms)
    return send(request, await services(request).history.funding(wallet, asked))


async def perp_pnl(
    request: Request,
    wallet: Wallet,
    limit: EventLimit = swaps.DEFAULT_LIMIT,
    cursor: Cursor = None,
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """What closed and liquidated positions realized, by token, and every change, newest first.

    The last 365 days without a range; 366 at most. Sums are of the whole range, not of the page.
    Fees are beside the gain. It is known from `known_from_slot`, from the program's events.
    """
    asked = Asked(limit, cursor, from_ms, to_ms)
    return send(request, await services(request).history.perp_pnl(wallet, asked))


def perps(slugs: Mapping[str, Protocol]) -> APIRouter:
    """Return the paths of perps' history, below the slugs that their protocols are served by."""
    area = APIRouter(prefix="/api/wallets/{wallet}", tags=["positions"])
    for slug, protocol in slugs.items():
        if protocol.name == "drift":
            area.add_api_route(
                f"/{slug}/funding",
                funding,
                methods=["GET"],
                summary="Funding payments of a wallet on Drift",
                **answers_with(FundingHistory, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
            )
        elif protocol.name == "jupiter_perps":
            area.add_api_route(
                f"/{slug}/pnl",
                perp_pnl,
                methods=["GET"],
                summary="PnL of a wallet on Jupiter Perps",
                **answers_with(PerpHistory, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
            )
    return area
