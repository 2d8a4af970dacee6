"""Looking a route up finds what matching finds, and the short way answers as the whole one."""

import asyncio
import re
from typing import Annotated, Any
from urllib.parse import unquote

import orjson
import pytest
from fastapi import APIRouter, FastAPI, Query, Request, Response
from hypothesis import given
from hypothesis import strategies as st

from api.app import create_app
from api.http.dispatch import Direct, use
from api.http.errors import NO_POSITION, Problem
from api.http.parameters import Mint, Wallet
from api.http.problems import HANDLERS
from infra.settings import Settings
from tests.support.exploring import SLOW, examples

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

        async def endpoint(request: Request, text: str = f"{method} {path}") -> Response:
            return Response(f"{text} {sorted(request.path_params.items())}")

        router.add_api_route(path, endpoint, methods=[method])
    return router


def include(app, routes):
    """Give an app routes that match whole paths: Starlette's `$` matches before a newline too."""
    app.router.routes.extend(area(routes).routes)
    for route in app.router.routes:
        route.path_regex = re.compile(re.sub(r"\$$", r"\\Z", route.path_regex.pattern))


def apps():
    usual, ours = (FastAPI(redirect_slashes=False, docs_url=None) for _ in range(2))
    include(usual, PATHS)
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


def response_to(app, method, path):
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
    assert response_to(OURS, method, path) == response_to(USUAL, method, path)


SEGMENT = st.sampled_from(["a", "b", "{x}", "{y}", "{z}.json"])
TEMPLATE = st.lists(SEGMENT, min_size=1, max_size=4, unique=True).map(lambda each: "/".join(each))
ROUTE = st.tuples(
    st.sampled_from(["GET", "POST"]),
    st.one_of(TEMPLATE, TEMPLATE.map(lambda each: f"{each}/{{rest:path}}")).map(
        lambda at: f"/{at}"
    ),
)
REQUEST = st.tuples(
    st.sampled_from(["GET", "POST", "PUT"]),
    st.lists(st.sampled_from(["a", "b", "c", "a.json", "", "%0A", "a%0A"]), max_size=5),
)


@examples(fuzz_factor=SLOW)
@given(
    st.lists(ROUTE, min_size=1, max_size=8),
    st.lists(REQUEST, min_size=1, max_size=8),
)
def test_any_table_of_routes_in_any_order_answers_as_starlette_does(routes, requests):
    usual, ours = (FastAPI(redirect_slashes=False, docs_url=None) for _ in range(2))
    include(usual, routes)
    use(ours.router, [area(routes)])
    for method, words in requests:
        path = "/" + "/".join(words)
        assert response_to(ours, method, path) == response_to(usual, method, path)


def test_sixty_six_positions_of_a_wallet_have_paths_of_their_own():
    protocols = [f"/api/wallets/{{wallet}}/p{number:02}/lending" for number in range(66)]
    routes = [("GET", path) for path in ("/api/wallets/{wallet}/{mint}", *protocols)]
    ours = FastAPI(redirect_slashes=False, docs_url=None)
    use(ours.router, [area(routes)])
    for _, path in routes[1:]:
        status, text, _ = response_to(ours, "GET", path.replace("{wallet}", "W"))
        assert (status, text) == (200, f"GET {path} [('wallet', 'W')]")


def test_every_route_is_found():
    for method, path in PATHS:
        filled = path.replace("{file:path}", "a/b")
        for name in ("mint", "wallet", "name", "area"):
            filled = filled.replace(f"{{{name}}}", f"some-{name}")
        status, text, _ = response_to(OURS, method, filled)
        assert status == 200
        assert text.startswith(f"{method} {path} ")
        assert (status, text, None) == response_to(USUAL, method, filled)


CALLS: list[str] = []


def wallets():
    """Routes as the API has them, which report whether FastAPI's own machinery was in between."""
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
            raise Problem(NO_POSITION, "none", headers={"x-reason": "1"})
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
    expected = response_to(WHOLE, method, path)
    assert response_to(SHORT, method, path) == expected
    assert (["whole", way] if way else []) == CALLS


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("limit=7", None),
        ("lim%69t=7", None),
        ("limit=7&limit=8&&", None),
        ("unknown=1", "unknown"),
        ("limit=7&unknown", "unknown"),
        ("Limit=7", "Limit"),
        ("limit%00=7", "limit\x00"),
        ("limit+=7", "limit "),
        ("wallet=7", "wallet"),
        ("request=7", "request"),
        ("=7", ""),
        ("%ff=7", "\ufffd"),
        (f"{'a' * 99}=7", "a" * 40),
    ],
)
def test_a_parameter_that_a_route_does_not_have_is_refused_by_name(query, unknown):
    CALLS.clear()
    status, body, _ = response_to(SHORT, "GET", f"/api/wallets/{A}?{query}")
    if unknown is None:
        assert (status, CALLS) == (200, ["whole"])
        return
    problem = orjson.loads(body)
    assert (status, problem["code"], CALLS) == (422, "invalid_parameter", [])
    reason = "is not a parameter of this path; it accepts `limit`"
    assert problem["errors"] == [{"parameter": unknown, "reason": reason}]
    assert problem["detail"] == f"`{unknown}` {reason}"


def test_what_the_document_names_is_known():
    app = create_app(Settings(_env_file=None))
    middleware: Any = app.router.middleware_stack
    # private `_routes`: the table is compared whole; requests would need an argument for each path.
    routes = middleware._routes
    described = 0
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            scope = {"method": method.upper(), "path": re.sub("{.*?}", A, path)}
            entry, _ = routes.find(scope)
            named = [each for each in operation["parameters"] if each.get("in") == "query"]
            assert (entry.query, entry.is_refusal) == (
                tuple(each["name"] for each in named),
                False,
            )
            described += 1
    assert described > 20


def test_unknown_parameters_are_named_once_each_up_to_a_bound():
    names = [f"n{number}" for number in range(20)]
    query = "&".join(f"{name}=1" for name in names * 2)
    _, body, _ = response_to(SHORT, "GET", f"/api/wallets/{A}/{B}?{query}")
    problem = orjson.loads(body)
    assert [each["parameter"] for each in problem["errors"]] == names[:10]
    reason = "is not a parameter of this path; it accepts none"
    assert problem["detail"] == f"`n0` {reason} (and 19 more)"


def test_an_unknown_path_is_a_404_whatever_the_query():
    assert response_to(SHORT, "GET", "/api/nothing?unknown=1")[0] == 404
    assert response_to(SHORT, "PUT", f"/api/wallets/{A}?unknown=1")[0] == 405


def test_a_fault_of_a_handler_is_not_swallowed():
    router = APIRouter()

    @router.get("/api/wallets/{wallet}")
    async def fault(request: Request, wallet: Wallet) -> Response:
        raise ZeroDivisionError

    app = FastAPI()
    app.add_middleware(Direct, routes=use(app.router, [router]))
    with pytest.raises(ZeroDivisionError):
        response_to(app, "GET", f"/api/wallets/{A}")
