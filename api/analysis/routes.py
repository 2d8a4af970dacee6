"""The path of a wallet's analysis."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.analysis.answers import Analysis
from api.docs.openapi import answers_with
from api.http.errors import INVALID_ADDRESS
from api.http.parameters import Wallet
from api.http.replies import send
from api.http.state import holder, services

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
