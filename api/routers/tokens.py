"""Paths of tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.access.charge import charge_items
from api.addresses import EXAMPLE_MINT, Mint, Mints
from api.answers import tokens as answers
from api.errors import (
    INVALID_ADDRESS,
    INVALID_PARAMETER,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNKNOWN_TOKEN,
    Problem,
)
from api.openapi import problems
from api.readers import token_answers
from api.readers.holders import holders
from api.readers.leaderboard_answers import LeaderboardAnswers
from api.readers.shared import Standing
from api.readers.token_batches import TokenBatches
from api.readers.trending import TrendingTokens
from api.reply import reply, send
from api.stores import Stores

MAX_LISTED = 100
MAX_BATCH_TRADERS = 20
HOLDERS_KEPT_BYTES = 16 << 20
TOKENS_KEPT_BYTES = 8 << 20

_OF_ONE = problems(UNKNOWN_TOKEN, INVALID_ADDRESS)
_LIST_OF_ONE = problems(UNKNOWN_TOKEN, INVALID_ADDRESS, INVALID_PARAMETER)
_OF_MANY = problems(INVALID_ADDRESS)
_LIST = problems(INVALID_PARAMETER)

Top = Annotated[
    int, Query(ge=1, le=MAX_LISTED, description="How many to list, 20 if it is left out")
]
Slug = Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]


class MintsBody(BaseModel):
    """Which tokens. One named twice is answered once, and costs once."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"mints": [EXAMPLE_MINT]}]}
    )

    mints: Annotated[Mints, Field(description="Addresses of tokens, 1 to 100")]


class LeaderboardsBody(MintsBody):
    """Which tokens, and how many wallets of each."""

    limit: Annotated[
        int, Field(ge=1, le=MAX_BATCH_TRADERS, description="How many wallets to list of each token")
    ] = 5


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    paths = APIRouter(tags=["tokens"])
    leaderboards = LeaderboardAnswers(stores)
    _lists(paths, stores, leaderboards)
    _batches(paths, stores, leaderboards)
    _token(paths, stores)
    return paths


def _lists(paths: APIRouter, stores: Stores, leaderboards: LeaderboardAnswers) -> None:
    trending, standing = TrendingTokens(stores), Standing(HOLDERS_KEPT_BYTES)

    @paths.get(
        "/api/tokens/trending",
        summary="Launch tokens that trend",
        description="Tokens of launch platforms by how many wallets trade them, each counted once "
        "by the logarithm of its dollars, the last minutes more than the last day. "
        "A token's figures are of the last whole second: what happened within that of `as_of_ms` "
        "comes with the next. Read at most twice a second.",
        response_model=None,
        responses={200: {"model": answers.Trending}, **_LIST},
    )
    async def trending_tokens(
        request: Request,
        platform: Annotated[
            list[Slug],
            Query(
                max_length=32,
                description="Launch platforms, slugs; several by repeating it. All if left out",
                examples=[["pump-fun"]],
            ),
        ] = [],  # noqa: B006 - it is read only
        limit: Annotated[
            int, Query(ge=1, le=MAX_LISTED, description="How many to list, 50 if it is left out")
        ] = 50,
    ) -> Response:
        return send(request, await trending.first(frozenset(platform), limit))

    @paths.get(
        "/api/tokens/{mint}/leaderboard",
        summary="Who realised most with a token",
        description="Wallets with a realised gain or loss in the token, first in, first out, "
        "largest gain in dollars first. Read at most twice a second. The same as "
        "`/api/wallets/leaderboard/{mint}`.",
        response_model=None,
        responses={200: {"model": answers.Leaderboard}, **_LIST_OF_ONE},
    )
    @paths.get(
        "/api/wallets/leaderboard/{mint}",
        summary="Who realised most with a token",
        description="The same as `/api/tokens/{mint}/leaderboard`.",
        response_model=None,
        responses={200: {"model": answers.Leaderboard}, **_LIST_OF_ONE},
    )
    async def token_leaderboard(request: Request, mint: Mint, limit: Top = 20) -> Response:
        return reply(request, await leaderboards.one(mint, limit))

    @paths.get(
        "/api/tokens/{mint}/holders",
        summary="Who holds most of a token",
        description="Owners by balance over all their accounts. Balances are exact; `coverage` "
        "says what is not seen. Of equal balances the greater address, as bytes, comes first. "
        "Read at most twice a second.",
        response_model=None,
        responses={200: {"model": answers.Holders}, **_LIST_OF_ONE},
    )
    async def token_holders(request: Request, mint: Mint, limit: Top = 20) -> Response:
        return send(request, await standing.get(holders, stores, mint, limit))


def _batches(paths: APIRouter, stores: Stores, leaderboards: LeaderboardAnswers) -> None:
    batches = TokenBatches(stores)

    @paths.post(
        "/api/tokens/batch",
        summary="Many tokens",
        description="What `/api/tokens/{mint}` tells of each, without its last 24 hours. Costs one "
        "credit a mint. Mints of which nothing is known are listed in `unknown`. "
        "A token is read at most twice a second.",
        response_model=None,
        responses={200: {"model": answers.Tokens}, **_OF_MANY},
    )
    async def tokens_batch(request: Request, body: MintsBody) -> Response:
        mints = list(dict.fromkeys(body.mints))
        await charge_items(request, len(mints))
        return reply(request, await batches.many(mints))

    @paths.post(
        "/api/tokens/leaderboard/batch",
        summary="Who realised most with many tokens",
        description="What `/api/tokens/{mint}/leaderboard` tells of each. Costs one credit a mint. "
        "Mints of which nothing is known are listed in `unknown`.",
        response_model=None,
        responses={200: {"model": answers.Leaderboards}, **_OF_MANY},
    )
    async def leaderboards_batch(request: Request, body: LeaderboardsBody) -> Response:
        mints = list(dict.fromkeys(body.mints))
        await charge_items(request, len(mints))
        return reply(request, await leaderboards.many(mints, body.limit))

    # Words, not addresses: GET of one is answered as a path that is not there to be read.
    @paths.get("/api/tokens/batch", include_in_schema=False)
    async def batch_is_posted() -> Any:
        raise Problem(METHOD_NOT_ALLOWED, "POST it", headers={"Allow": "POST"})

    @paths.get("/api/tokens/leaderboard", include_in_schema=False)
    async def no_leaderboard_of_all() -> Any:
        raise Problem(NOT_FOUND, "a token's leaderboard is /api/tokens/{mint}/leaderboard")


def _token(paths: APIRouter, stores: Stores) -> None:
    standing = Standing(TOKENS_KEPT_BYTES)

    @paths.get(
        "/api/tokens/{mint}",
        summary="A token",
        description="What it is, what it costs, what its market is like, and its last 24 hours. "
        "Facts are those that the chain's events told; names and supply of tokens whose creation "
        "was not seen are asked of an RPC node once. Read at most twice a second; the price alone, "
        "`/api/tokens/{mint}/price`, is read for each request.",
        response_model=None,
        responses={200: {"model": answers.Token}, **_OF_ONE},
    )
    async def token(request: Request, mint: Mint) -> Response:
        return send(request, await standing.get(token_answers.token, stores, mint))

    @paths.get(
        "/api/tokens/{mint}/price",
        summary="What a token costs",
        description="The weighted median of its pools, its change within a day, and the market "
        "capitalisation. `is_price_stale` tells a price whose last trade is an hour old.",
        response_model=None,
        responses={200: {"model": answers.TokenPrice}, **_OF_ONE},
    )
    async def token_price(request: Request, mint: Mint) -> Response:
        return reply(request, await token_answers.token_price(stores, mint))

    @paths.get(
        "/api/tokens/{mint}/pools",
        summary="Where a token trades",
        description="Its pools and curves, deepest first, each as its last swap left it.",
        response_model=None,
        responses={200: {"model": answers.Pools}, **_OF_ONE},
    )
    async def token_pools(request: Request, mint: Mint) -> Response:
        return reply(request, await token_answers.pools(stores, mint))
