"""The paths of a wallet's analysis: what it is worth now, and what it was worth."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from api.analysis.answers import Analysis, NetWorthOverTime
from api.docs.openapi import answers_with
from api.http.errors import INVALID_ADDRESS, INVALID_PARAMETER
from api.http.parameters import From, To, Wallet
from api.http.replies import send
from api.http.state import holder, services

WorthInterval = Literal["1h", "4h", "1d"]

router = APIRouter(prefix="/api/wallets", tags=["wallets"])


@router.get(
    "/{wallet}/analyze",
    summary="All that a wallet has, and what it is worth",
    **answers_with(Analysis, INVALID_ADDRESS),
)
async def analyze(request: Request, wallet: Wallet) -> Response:
    """Net worth, positions of all protocols by kind, verified holdings and DEX trading.

    Nothing counts twice: tokens that a position is the meaning of (shares, LP tokens, receipts)
    are taken out of holdings, and listed in `taken_out`. What could not be read is in `errors`,
    what is not read yet in `pending`; net worth is null where a part is not known, and `reasons`
    says why. What is pending is in no sum, and `is_complete` is false while there is any. Costs
    one credit.
    """
    return send(request, await services(request).analysis.analyze(wallet, holder(request)))


@router.get(
    "/{wallet}/networth",
    summary="What a wallet was worth, over time",
    **answers_with(NetWorthOverTime, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def networth(
    request: Request,
    wallet: Wallet,
    interval: Annotated[WorthInterval, Query(description="Length of an interval")] = "1h",
    from_ms: From = None,
    to_ms: To = None,
) -> Response:
    """Net worth as `/analyze` computes it, from snapshots that are taken of tracked wallets.

    One snapshot an hour by block time, kept for 400 days. A point is the last complete snapshot of
    its interval, else the last one, with null sums. Intervals are whole, those that the range
    touches: without `from` the last 300, at most 1,500. An interval without a snapshot is left
    out; nothing is filled in or interpolated. A wallet is tracked from the first request about it
    (this one, `/holdings`, `/analyze`): `since_ms` says from when there are snapshots.
    """
    answer = await services(request).networth.over_time(
        wallet, interval, from_ms, to_ms, holder(request)
    )
    return send(request, answer)
