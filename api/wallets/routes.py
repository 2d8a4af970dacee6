"""Paths of wallets: positions, holdings, the last seven days, portfolio; many wallets at once."""

from __future__ import annotations

from typing import Annotated, Literal, NoReturn

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.analysis.answers import PortfolioWithWorth
from api.docs.openapi import answers_with
from api.http.addresses import EXAMPLE_WALLET, Address
from api.http.errors import (
    INVALID_ADDRESS,
    INVALID_CURSOR,
    INVALID_PARAMETER,
    METHOD_NOT_ALLOWED,
    NO_POSITION,
    NOT_FOUND,
    Problem,
)
from api.http.parameters import Cursor, Mint, Wallet
from api.http.replies import send
from api.http.state import holder, services
from api.wallets.answers import Batch, HoldingsAnswer
from api.wallets.holdings import Wanted
from api.wallets.position_answers import AllPositions, PositionAnswer, PositionList, SummaryAnswer
from api.wallets.reader import OF_BOOKS, Section, View

MOST_WALLETS = 50

PageLimit = Annotated[int, Query(ge=1, le=1_000, description="Positions of a page")]
NewestLimit = Annotated[
    int, Query(ge=1, le=500, description="Positions to list, the newest trades")
]
HowMuch = Annotated[
    View,
    Query(description="`compact`: of each position the 16 fields that a list shows; `full`: all"),
]
LeastUsd = Annotated[
    float | None,
    Query(
        ge=0,
        le=1e15,
        allow_inf_nan=False,
        description="Leave out SOL and tokens worth less than this many dollars; above 0 also "
        "those without a price. `total_value_usd` still counts them. Without it, all are listed",
    ),
]
Unverified = Annotated[
    bool, Query(description="List tokens that are not verified as well; they count in the value")
]
More = Annotated[
    Literal["positions"] | None,
    Query(
        description="`positions`: also `worth`, what the wallet is worth with its positions in all "
        "protocols, which takes the server as long as `/analyze`"
    ),
]
WaitMs = Annotated[
    int,
    Query(
        ge=0,
        le=10_000,
        description="How long the answer may wait until all of the wallet's accounts are known, in "
        "milliseconds; 2 s less than the server's API_TIMEOUT_S at most. 0: it does not wait",
    ),
]


class BatchBody(BaseModel):
    """Which wallets, and what of them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"wallets": [EXAMPLE_WALLET], "include": ["positions", "pnl"]}]
        },
    )

    wallets: list[Address] = Field(
        min_length=1,
        max_length=MOST_WALLETS,
        description="Addresses; one that comes twice is answered once",
    )
    include: list[Section] = Field(
        default_factory=lambda: [*OF_BOOKS],
        min_length=1,
        max_length=len(Section),
        description="Sections to return; without it, `positions`, `holdings`, `pnl` and "
        "`portfolio`",
    )


router = APIRouter(prefix="/api/wallets", tags=["wallets"])


@router.post(
    "/batch",
    summary="Many wallets at once",
    **answers_with(Batch, INVALID_ADDRESS),
)
async def batch(request: Request, body: BatchBody) -> Response:
    """Sections of up to 50 wallets, in the order asked, unknown ones with empty figures.

    `positions`: the 50 with the newest trades, and the totals; `holdings`; `pnl`: the last
    seven days; `portfolio`; and, where they are named, `lending`, `perps`, `staking`,
    `governance`, `lp`, `yield` and `rewards`, as `/all-lending` and so on answer them, of wallets
    that are followed already as far as their tokens lead to positions. A wallet's figures are of
    one state, whose `as_of_slot` is beside them. Of a wallet with more than 200 positions, `open`
    is null and the portfolio counts the 200 with the newest trades. Costs one credit.
    """
    return send(request, await services(request).wallets.batch(body.wallets, body.include))


# Words where an address is expected; after the POST, which other methods are pointed to.


@router.get("/batch", response_model=None, include_in_schema=False)
async def no_get() -> NoReturn:
    """Refuse a GET of the batch."""
    raise Problem(METHOD_NOT_ALLOWED, "Send a POST", headers={"Allow": "POST"})


@router.get("/leaderboard", response_model=None, include_in_schema=False)
async def no_mint() -> NoReturn:
    """Point to the leaderboard of a token."""
    raise Problem(NOT_FOUND, "The leaderboard of a token is at /api/wallets/leaderboard/{mint}")


@router.get(
    "/{wallet}",
    summary="All positions of a wallet",
    **answers_with(PositionList, INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
)
async def positions(
    request: Request,
    wallet: Wallet,
    limit: PageLimit = 100,
    cursor: Cursor = None,
    view: HowMuch = View.FULL,
) -> Response:
    """Every token that the wallet traded, received or sent, by the page: newest trade first.

    Those of one block come by address of the token, those without a trade last. Follow
    `next_cursor` while `has_more`: no position comes twice or is left out, unless it trades
    while you turn the pages: then it moves to the front. An unknown wallet has no positions.
    """
    return send(request, await services(request).wallets.positions(wallet, limit, cursor, view))


@router.get(
    "/{wallet}/all-dex",
    summary="Newest positions of a wallet",
    **answers_with(AllPositions, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def all_dex(
    request: Request, wallet: Wallet, limit: NewestLimit = 50, view: HowMuch = View.FULL
) -> Response:
    """The positions with the newest trades over all DEXes, and the totals of all positions."""
    return send(request, await services(request).wallets.newest(wallet, limit, view))


@router.get(
    "/{wallet}/portfolio",
    summary="A wallet at a glance",
    **answers_with(PortfolioWithWorth, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def portfolio(request: Request, wallet: Wallet, include: More = None) -> Response:
    """What a wallet holds, its 20 most valuable positions, its last seven days and all time.

    `holdings` counts balances, `positions` what came through trades since the tape began, and not
    what plain transfers brought or took: they show the same tokens from two sides, so do not add
    them. With
    `include=positions` there is `worth`: net worth and kinds of positions in all protocols, as
    `/analyze` has them, with their slot and what they lack. The wallet is then followed, and the
    first answer waits for its accounts, at most 1.5 s. Costs one credit either way.
    """
    if include is None:
        return send(request, await services(request).wallets.portfolio(wallet))
    return send(request, await services(request).analysis.portfolio(wallet, holder(request)))


@router.get(
    "/{wallet}/holdings",
    summary="Balances of a wallet",
    **answers_with(HoldingsAnswer, INVALID_ADDRESS, INVALID_PARAMETER),
)
async def holdings(
    request: Request,
    wallet: Wallet,
    min_value_usd: LeastUsd = None,
    include_unverified: Unverified = False,
    wait_ms: WaitMs = 1_500,
) -> Response:
    """SOL and verified tokens (Token and Token-2022) with their worth, most valuable first.

    A wallet that is asked for is followed: its accounts are fetched from the chain, and kept up to
    date from then on. The first request waits for them, up to `wait_ms`; then
    `coverage.is_complete` is true, and the answer has all of the wallet at `as_of_slot`. Until
    then, and where accounts are not followed, it has what the tape saw, and `coverage.reason` says
    why: an account is known from the first change of its balance there.
    """
    wanted = Wanted(min_value_usd, include_unverified)
    found = services(request).wallets.holdings(wallet, wanted, holder(request), wait_ms)
    return send(request, await found)


@router.get(
    "/{wallet}/pnl/summary",
    summary="The last seven days of a wallet",
    **answers_with(SummaryAnswer, INVALID_ADDRESS),
)
async def summary(request: Request, wallet: Wallet) -> Response:
    """Gains and trades of the last seven days (UTC), summed and by day.

    The last of the days is that of the newest block, not of the clock on the wall.
    """
    return send(request, await services(request).wallets.summary(wallet))


@router.get(
    "/{wallet}/{mint}",
    summary="One position of a wallet",
    **answers_with(PositionAnswer, INVALID_ADDRESS, NO_POSITION),
)
async def position(request: Request, wallet: Wallet, mint: Mint) -> Response:
    """One token of a wallet: what it did, gained and holds, and what that is worth now.

    SOL, USDC, USDT and USD1 are money: what is traded with them is a position, they are not.
    """
    return send(request, await services(request).wallets.position(wallet, mint))
