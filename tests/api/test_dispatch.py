"""Looking a route up finds what matching one after the other finds."""

import asyncio
from urllib.parse import unquote

from fastapi import APIRouter, FastAPI, Request, Response
from hypothesis import given
from hypothesis import strategies as st

from api.dispatch import use

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
        "query_string": b"",
        "headers": [],
        "root_path": "",
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
