"""Paths of tokens."""

from __future__ import annotations

from typing import Annotated, NoReturn

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.docs.openapi import problems
from api.http.addresses import EXAMPLE_MINT, Mints
from api.http.errors import (
    INVALID_ADDRESS,
    INVALID_PARAMETER,
    METHOD_NOT_ALLOWED,
    NO_IMAGE,
    NOT_FOUND,
    TOO_MANY_HOLDERS,
    UNKNOWN_TOKEN,
    Problem,
)
from api.http.parameters import Mint
from api.http.replies import send, send_image
from api.http.state import holder, services
from api.tokens import answers

MAX_LISTED = 100
MAX_BATCH_TRADERS = 20

_OF_ONE = problems(UNKNOWN_TOKEN, INVALID_ADDRESS)
_LIST_OF_ONE = problems(UNKNOWN_TOKEN, INVALID_ADDRESS, INVALID_PARAMETER)
_OF_MANY = problems(INVALID_ADDRESS)
_LIST = problems(INVALID_PARAMETER)

Top = Annotated[
    int, Query(ge=1, le=MAX_LISTED, description="How many to list, 20 if it is left out")
]
Slug = Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]


class MintsBody(BaseModel):
    """Which tokens. One named twice is answered once."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"mints": [EXAMPLE_MINT]}]}
    )

    mints: Annotated[Mints, Field(description="Addresses of tokens, 1 to 100")]


class LeaderboardsBody(MintsBody):
    """Which tokens, and how many wallets of each."""

    limit: Annotated[
        int, Field(ge=1, le=MAX_BATCH_TRADERS, description="How many wallets to list of each token")
    ] = 5


router = APIRouter(tags=["tokens"])


@router.get(
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
    """Answer with the list, of some platforms or of all."""
    return send(request, await services(request).tokens.trending(platform, limit))


@router.get(
    "/api/tokens/{mint}/leaderboard",
    summary="Who realized most with a token",
    description="Wallets with a realized gain or loss in the token, first in, first out, "
    "largest gain in dollars first. Read at most twice a second. The same as "
    "`/api/wallets/leaderboard/{mint}`.",
    response_model=None,
    responses={200: {"model": answers.Leaderboard}, **_LIST_OF_ONE},
)
@router.get(
    "/api/wallets/leaderboard/{mint}",
    summary="Who realized most with a token",
    description="The same as `/api/tokens/{mint}/leaderboard`.",
    response_model=None,
    responses={200: {"model": answers.Leaderboard}, **_LIST_OF_ONE},
)
async def token_leaderboard(request: Request, mint: Mint, limit: Top = 20) -> Response:
    """Answer with a token's leaderboard."""
    return send(request, await services(request).tokens.leaderboard(mint, limit))


@router.get(
    "/api/tokens/{mint}/holders",
    summary="Who holds most of a token",
    description="Owners by balance over all their accounts. Balances are exact; `coverage` "
    "says what is not seen. Of a token older than the tape the chain's 20 largest accounts are "
    "asked for, and followed from then on: the first answer may be without them. "
    "Of equal balances the greater address, as bytes, comes first. "
    "Read at most twice a second.",
    response_model=None,
    responses={
        200: {"model": answers.Holders},
        **problems(UNKNOWN_TOKEN, INVALID_ADDRESS, INVALID_PARAMETER, TOO_MANY_HOLDERS),
    },
)
async def token_holders(request: Request, mint: Mint, limit: Top = 20) -> Response:
    """Answer with a token's holders."""
    found = services(request).tokens.holders(mint, limit, holder(request))
    return send(request, await found)


@router.post(
    "/api/tokens/batch",
    summary="Many tokens",
    description="What `/api/tokens/{mint}` answers for each, without `mint_account`, "
    "`metadata` and its last 24 hours; it has no mint followed. Costs one credit. Mints of which "
    "nothing is known are listed in `unknown`. A token is read at most twice a second.",
    response_model=None,
    responses={200: {"model": answers.Tokens}, **_OF_MANY},
)
async def tokens_batch(request: Request, body: MintsBody) -> Response:
    """Answer with many tokens."""
    return send(request, await services(request).tokens.batch(body.mints))


@router.post(
    "/api/tokens/leaderboard/batch",
    summary="Who realized most with many tokens",
    description="What `/api/tokens/{mint}/leaderboard` answers for each. Costs one credit. "
    "Mints of which nothing is known are listed in `unknown`.",
    response_model=None,
    responses={200: {"model": answers.Leaderboards}, **_OF_MANY},
)
async def leaderboards_batch(request: Request, body: LeaderboardsBody) -> Response:
    """Answer with many leaderboards."""
    return send(request, await services(request).tokens.leaderboards(body.mints, body.limit))


# Words, not addresses: GET of one is answered as a path that is not there to be read.
@router.get("/api/tokens/batch", response_model=None, include_in_schema=False)
async def batch_is_posted() -> NoReturn:
    """Refuse a GET of the batch."""
    raise Problem(METHOD_NOT_ALLOWED, "Send a POST", headers={"Allow": "POST"})


@router.get("/api/tokens/leaderboard", response_model=None, include_in_schema=False)
async def no_leaderboard_of_all() -> NoReturn:
    """Point to the leaderboard of a token."""
    raise Problem(NOT_FOUND, "The leaderboard of a token is at /api/tokens/{mint}/leaderboard")


@router.get(
    "/api/tokens/{mint}",
    summary="A token",
    description="What it is, what it costs, what its market is like, and its last 24 hours. "
    "Facts come from the chain's events; names and supply of tokens whose creation was not seen, "
    "or has no name, are asked of an RPC node once. A token that is asked for is followed: from "
    "the next answers on, supply, authorities and extensions are those of its mint's account, "
    "burns and later mints included (`mint_account`). What its `uri` says is fetched beside the "
    "request, and `metadata` has it from then on. Read at most twice a second; the price alone, "
    "`/api/tokens/{mint}/price`, is read for each request.",
    response_model=None,
    responses={200: {"model": answers.Token}, **_OF_ONE},
)
async def token(request: Request, mint: Mint) -> Response:
    """Answer with a token."""
    return send(request, await services(request).tokens.token(mint, holder(request)))


@router.get(
    "/api/tokens/{mint}/image",
    summary="A token's image",
    description="The raster image that the token's metadata names, fetched before: "
    "`metadata.image` of `/api/tokens/{mint}` says whether it is here, and asks for it. Its bytes "
    "are its maker's; PNG, JPEG, GIF and WebP alone, of 1 MiB and 16,777,216 pixels at most.",
    response_class=Response,
    responses={
        200: {
            "description": "The image",
            "content": {
                media_type: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "the bytes of the image",
                }
                for media_type in ("image/png", "image/jpeg", "image/gif", "image/webp")
            },
        },
        **problems(NO_IMAGE, INVALID_ADDRESS),
    },
)
async def token_image(request: Request, mint: Mint) -> Response:
    """Answer with a token's image."""
    found = await services(request).tokens.image(mint)
    return send_image(request, found.data, found.image.media_type, found.image.digest)


@router.get(
    "/api/tokens/{mint}/price",
    summary="What a token costs",
    description="The weighted median of its pools, its change within a day, and the market "
    "capitalisation; it has the mint's account followed, whose supply that rests on. "
    "`is_price_stale` marks a price whose last trade is an hour old.",
    response_model=None,
    responses={200: {"model": answers.TokenPrice}, **_OF_ONE},
)
async def token_price(request: Request, mint: Mint) -> Response:
    """Answer with a token's price."""
    return send(request, await services(request).tokens.price(mint, holder(request)))


@router.get(
    "/api/tokens/{mint}/pools",
    summary="Where a token trades",
    description="Its pools and curves, deepest first, each as its last swap left it. Of SOL those "
    "with dollar coins, seen from SOL; with other tokens it trades in the pools of these.",
    response_model=None,
    responses={200: {"model": answers.Pools}, **_OF_ONE},
)
async def token_pools(request: Request, mint: Mint) -> Response:
    """Answer with a token's pools."""
    return send(request, await services(request).tokens.pools(mint))
