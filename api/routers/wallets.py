"""Paths of wallets: positions, holdings, the last seven days, portfolio; many wallets at once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.access.charge import charge_items
from api.addresses import EXAMPLE_WALLET, Address, Mint, Wallet
from api.answers.positions import AllPositions, PositionAnswer, PositionList, SummaryAnswer
from api.answers.wallets import Batch, HoldingsAnswer, PortfolioAnswer
from api.errors import (
    INVALID_ADDRESS,
    INVALID_CURSOR,
    INVALID_PARAMETER,
    METHOD_NOT_ALLOWED,
    NO_POSITION,
    NOT_FOUND,
    Problem,
)
from api.openapi import problems
from api.readers.holdings import Wanted
from api.readers.shared import Standing
from api.readers.wallets import Section, Wallets
from api.reply import reply, send
from api.stores import Stores

MOST_WALLETS = 50
KEPT_BYTES = 32 << 20
FRESH_FOR_S = 1.0  # who wants it sooner subscribes to what happens

PageLimit = Annotated[int, Query(ge=1, le=1_000, description="Positions of a page")]
NewestLimit = Annotated[
    int, Query(ge=1, le=500, description="Positions to list, the newest trades")
]
Cursor = Annotated[
    str | None,
    Query(max_length=200, description="`next_cursor` of the page before; leave out for the first"),
]
LeastUsd = Annotated[
    float | None,
    Query(
        ge=0,
        le=1e15,
        allow_inf_nan=False,
        description="Leave out tokens worth less than this many dollars; above 0 also those "
        "without a price. SOL is always told. Without it, all are listed",
    ),
]
Unverified = Annotated[
    bool, Query(description="List tokens that are not verified as well; they count in the value")
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
        description="Addresses; one that comes twice is answered, and paid for, once",
    )
    include: list[Section] = Field(
        default_factory=lambda: [*Section],
        min_length=1,
        max_length=len(Section),
        description="Sections to return; without it, all of them",
    )


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    routes = APIRouter(prefix="/api/wallets", tags=["wallets"])
    wallets, standing = Wallets(stores), Standing(KEPT_BYTES, FRESH_FOR_S)

    @routes.post(
        "/batch",
        summary="Many wallets at once",
        response_model=None,
        responses={200: {"model": Batch}, **problems(INVALID_ADDRESS)},
    )
    async def batch(request: Request, body: BatchBody) -> Response:
        """Sections of up to 50 wallets, in the order asked, unknown ones with empty figures.

        `positions`: the 50 with the newest trades, and the totals; `holdings`; `pnl`: the last
        seven days; `portfolio`. A wallet's figures are of one state, whose `as_of_slot` stands
        beside them. Of a wallet with more than 200 positions, `open` is null and the portfolio
        counts the 200 with the newest trades. Costs one credit per wallet.
        """
        asked = list(dict.fromkeys(body.wallets))
        await charge_items(request, len(asked))
        return reply(request, await wallets.batch(asked, set(body.include)))

    _literals(routes)  # after the POST, which other methods are pointed to

    @routes.get(
        "/{wallet}",
        summary="All positions of a wallet",
        response_model=None,
        responses={
            200: {"model": PositionList},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER, INVALID_CURSOR),
        },
    )
    async def positions(
        request: Request, wallet: Wallet, limit: PageLimit = 100, cursor: Cursor = None
    ) -> Response:
        """Every token that the wallet traded, received or sent, by the page: newest trade first.

        Those of one block come by address of the token, those without a trade last. Follow
        `next_cursor` while `has_more`: no position comes twice or is left out, unless it trades
        while you turn the pages: then it moves to the front. An unknown wallet has no positions.
        """
        return send(request, await standing.get(wallets.page, wallet, limit, cursor))

    @routes.get(
        "/{wallet}/all-dex",
        summary="Newest positions of a wallet",
        response_model=None,
        responses={
            200: {"model": AllPositions},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER),
        },
    )
    async def all_dex(request: Request, wallet: Wallet, limit: NewestLimit = 50) -> Response:
        """The positions with the newest trades over all DEXes, and the totals of all positions."""
        return send(request, await standing.get(wallets.newest, wallet, limit))

    @routes.get(
        "/{wallet}/portfolio",
        summary="A wallet at a glance",
        response_model=None,
        responses={200: {"model": PortfolioAnswer}, **problems(INVALID_ADDRESS)},
    )
    async def portfolio(request: Request, wallet: Wallet) -> Response:
        """What a wallet holds, its 20 most valuable positions, its last seven days and all time.

        `holdings` counts balances, `positions` what came through trades and transfers since the
        tape began: they tell of the same tokens from two sides, so do not add them.
        """
        return send(request, await standing.get(wallets.portfolio, wallet))

    @routes.get(
        "/{wallet}/holdings",
        summary="Balances of a wallet",
        response_model=None,
        responses={
            200: {"model": HoldingsAnswer},
            **problems(INVALID_ADDRESS, INVALID_PARAMETER),
        },
    )
    async def holdings(
        request: Request,
        wallet: Wallet,
        min_value_usd: LeastUsd = None,
        include_unverified: Unverified = False,
    ) -> Response:
        """SOL and verified tokens (Token and Token-2022) with their worth, most valuable first.

        `coverage` says how complete that is: an account is known from the first change of its
        balance that the tape saw.
        """
        wanted = Wanted(min_value_usd, include_unverified)
        return send(request, await standing.get(wallets.holdings, wallet, wanted))

    @routes.get(
        "/{wallet}/pnl/summary",
        summary="The last seven days of a wallet",
        response_model=None,
        responses={200: {"model": SummaryAnswer}, **problems(INVALID_ADDRESS)},
    )
    async def summary(request: Request, wallet: Wallet) -> Response:
        """Gains and trades of the last seven days (UTC), summed and by day.

        The last of the days is that of the newest block, not of the clock on the wall.
        """
        return send(request, await standing.get(wallets.summary, wallet))

    @routes.get(
        "/{wallet}/{mint}",
        summary="One position of a wallet",
        response_model=None,
        responses={200: {"model": PositionAnswer}, **problems(INVALID_ADDRESS, NO_POSITION)},
    )
    async def position(request: Request, wallet: Wallet, mint: Mint) -> Response:
        """One token of a wallet: what it did, gained and holds, and what that is worth now.

        SOL, USDC, USDT and USD1 are money: what is traded with them is a position, they are not.
        """
        return send(request, await standing.get(wallets.position, wallet, mint))

    return routes


def _literals(routes: APIRouter) -> None:
    """Answer for the words that stand where an address does."""

    @routes.get("/batch", include_in_schema=False)
    async def no_get() -> None:
        raise Problem(METHOD_NOT_ALLOWED, "send a POST", headers={"Allow": "POST"})

    @routes.get("/leaderboard", include_in_schema=False)
    async def no_mint() -> None:
        raise Problem(NOT_FOUND, "ask for /api/wallets/leaderboard/{mint}")
