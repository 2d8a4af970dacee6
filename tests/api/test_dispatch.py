"""Looking a route up finds what matching finds, and the short way answers as the whole one."""

import asyncio
from typing import Annotated
from urllib.parse import unquote

import pytest
from fastapi import APIRouter, FastAPI, Query, Request, Response
from hypothesis import given
from hypothesis import strategies as st

from api.addresses import Mint, Wallet
from api.dispatch import Direct, use
from api.errors import NO_POSITION, Problem
from api.problems import HANDLERS

PATHS = [
    ("GET", "/api/tokens/trending"),
    ("POST", "/api/tokens/batch"),
    ("GET", "/api/tokens/batch"),
    ("GET", "/api/tokens/{mint}"),
    ("GET", "/api/tokens/{mint}/price"),
    ("GET", "/api/wallets/leaderboard/{mint}"),
    ("POST", "/api/wallets/batch"),
    ("GET", "/api/wallets/{wallet}"),
    ("GET", "/api/wallets/{wallet}/all-dex"),
    ("GET", "/api/wallets/{wallet}/pnl/summary"),
    ("GET", "/api/wallets/{wallet}/pnl/{mint}/daily"),
    ("GET", "/api/wallets/{wallet}/{mint}"),
    ("GET", "/api/usage"),
    ("GET", "/docs"),
    ("GET", "/docs/{file:path}"),
    ("GET", "/api/files/{name}.json"),
    ("GET", "/api/{area}/last"),
]


def area(routes):
    router = APIRouter()
    for method, path in routes:

        async def endpoint(request: Request, told: str = f"{method} {path}") -> Response:
            return Response(f"{told} {sorted(request.path_params.items())}")

        router.add_api_route(path, endpoint, methods=[method])
    return router


def apps():
    usual, ours = (FastAPI(redirect_slashes=False, docs_url=None) for _ in range(2))
    usual.include_router(area(PATHS))
    use(ours.router, [area(PATHS[:5]), area(PATHS[5:])])
    return usual, ours


USUAL, OURS = apps()
WORD = st.sampled_from(
    [
        "api",
        "tokens",
        "wallets",
        "batch",
        "leaderboard",
        "trending",
        "pnl",
        "summary",
        "daily",
        "price",
        "all-dex",
        "docs",
        "files",
        "x.json",
        "last",
        "%2F",
        "a%2Fb",
        "W",
        "é",
        "usage",
        "",
    ]
)


def told(app, method, path):
    """Return status, body and Allow of an answer."""
    path, _, query = path.partition("?")
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "root_path": "",
        "state": {"request_id": "one"},
    }
    asyncio.run(app(scope, receive, send))
    start, body = sent
    return start["status"], body["body"].decode(), dict(start["headers"]).get(b"allow")


@given(st.sampled_from(["GET", "POST", "HEAD", "PUT"]), st.lists(WORD, max_size=7), st.booleans())
def test_any_path_is_answered_as_without_the_lookup(method, words, below_api):
    path = "/" + "/".join(["api", *words] if below_api else words)
    assert told(OURS, method, path) == told(USUAL, method, path)


def test_every_route_is_found():
    for method, path in PATHS:
        filled = path.replace("{file:path}", "a/b")
        for name in ("mint", "wallet", "name", "area"):
            filled = filled.replace(f"{{{name}}}", f"some-{name}")
        status, text, _ = told(OURS, method, filled)
        assert status == 200
        assert text.startswith(f"{method} {path} ")
        assert (status, text, None) == told(USUAL, method, filled)


CALLS: list[str] = []


def wallets():
    """Routes as the API has them, which tell whether FastAPI's own machinery was in between."""
    router = APIRouter(prefix="/api/wallets")

    def called(request):
        CALLS.append("whole" if "fastapi_inner_astack" in request.scope else "direct")

    @router.get("/{wallet}")
    async def one(
        request: Request, wallet: Wallet, limit: Annotated[int, Query(ge=1)] = 5
    ) -> Response:
        called(request)
        return Response(f"{wallet} {limit}")

    @router.get("/{wallet}/{mint}")
    async def two(request: Request, wallet: Wallet, mint: Mint) -> Response:
        called(request)
        if wallet == mint:
            raise Problem(NO_POSITION, "none", headers={"x-told": "1"})
        return Response(f"{wallet} {mint}")

    @router.get("/{wallet}/other/{word}")
    async def other(request: Request, wallet: Wallet, word: str) -> Response:
        called(request)
        return Response(f"{wallet} {word}")

    @router.get("/{wallet}/needs/query")
    async def needs(request: Request, wallet: Wallet, limit: int) -> Response:
        called(request)
        return Response(f"{wallet} {limit}")

    @router.get("/{wallet}/no/response")
    async def shape(request: Request, wallet: Wallet) -> dict[str, str]:
        called(request)
        return {"wallet": wallet}

    return router


def both():
    usual, ours = (
        FastAPI(redirect_slashes=False, docs_url=None, exception_handlers=HANDLERS)
        for _ in range(2)
    )
    usual.include_router(wallets())
    ours.add_middleware(Direct, routes=use(ours.router, [wallets()]))
    return usual, ours


WHOLE, SHORT = both()
A, B = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1", "So11111111111111111111111111111111111111112"


@pytest.mark.parametrize(
    ("method", "path", "way"),
    [
        ("GET", f"/api/wallets/{A}", "direct"),
        ("GET", f"/api/wallets/{A}?limit=7", "whole"),
        ("GET", f"/api/wallets/{A}?limit=0", None),
        ("GET", f"/api/wallets/{A}?unknown=1", "whole"),
        ("GET", f"/api/wallets/{A}/{B}", "direct"),
        ("GET", f"/api/wallets/{A}/{A}", "direct"),  # raises a problem
        ("GET", "/api/wallets/nobody", None),
        ("GET", f"/api/wallets/{A}/{B[:-1]}", None),
        ("GET", f"/api/wallets/{A[:-1]}l/{B}", None),
        ("GET", f"/api/wallets/{A}/", None),
        ("POST", f"/api/wallets/{A}", None),
        ("GET", f"/api/wallets/{A}/other/{B}", "whole"),
        ("GET", f"/api/wallets/{A}/needs/query", None),
        ("GET", f"/api/wallets/{A}/needs/query?limit=3", "whole"),
        ("GET", f"/api/wallets/{A}/no/response", "whole"),
        ("GET", f"/api/wallets/{A}%2F{B}", "direct"),
    ],
)
def test_the_short_way_answers_as_the_whole_one(method, path, way):
    CALLS.clear()
    expected = told(WHOLE, method, path)
    assert told(SHORT, method, path) == expected
    assert (["whole", way] if way else []) == CALLS


def test_a_fault_of_a_handler_is_not_swallowed():
    router = APIRouter()

    @router.get("/api/wallets/{wallet}")
    async def fault(request: Request, wallet: Wallet) -> Response:
        raise ZeroDivisionError

    app = FastAPI()
    app.add_middleware(Direct, routes=use(app.router, [router]))
    with pytest.raises(ZeroDivisionError):
        told(app, "GET", f"/api/wallets/{A}")
