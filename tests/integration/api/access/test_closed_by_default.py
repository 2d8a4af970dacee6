"""Without a grant every path answers 401, but for the one list of open paths."""

from __future__ import annotations

import random
import re
import socket
import string
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from api.app import create_app
from api.dashboard.routes import FOLDER
from infra.settings import Settings

PREFIXES = (
    *(
        "",
        "/api",
        "/api/wallets",
        "/api/tokens",
        "/api/health",
        "/docs",
        "/lib",
        "/pages",
        "/vendor",
    ),
    *("/mcp", "/pay", "/pay/__402", "/signin", "/admin", "/metrics", "/static", "/.well-known"),
    *("/vendor", "/.git", "/schemas", "/dashboard", "/v1", "/graphql", "/ws"),
)
WORDS = ("batch", "health", "live", "docs", "openapi.json", "index.html", "usage", "x", "..", ".")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
ADDRESS = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


def open_list() -> frozenset[str]:
    """The list as the documents have it; the dashboard's files as they are in its folder."""
    files = (
        path.relative_to(FOLDER)
        for path in FOLDER.rglob("*")
        if path.is_file() and path.suffix not in (".md", ".map", ".py", ".pyc")
    )
    page = {f"/{path.as_posix()}" for path in files if path.parts[0][0] not in "._"}
    docs = {f"/docs/{name}" for name in
            ("swagger-ui.css", "swagger-ui-bundle.js", "favicon.png", "start.js")}  # fmt: skip
    named = {"/", "/dashboard.json", "/docs", "/openapi.json", "/api/health", "/api/health/live",
             "/mcp/health", "/schemas/tape.proto"}  # fmt: skip
    return frozenset(page | docs | named)


OPEN = open_list()


def ask(api, method: str, target: str, headers: str = "") -> tuple[int, str]:
    """Send a request line as it is, which no client would; return status and body."""
    with socket.create_connection((api.host, api.port), timeout=120) as connection:
        connection.sendall(
            f"{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"content-length: 0\r\n{headers}\r\n".encode("latin-1")
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.decode("latin-1").partition("\r\n\r\n")
    return int(head.split()[1]), body


def is_open(target: str) -> bool:
    return unquote(re.sub("^http://[^/]*", "", target.partition("?")[0])) in OPEN


def answers(method: str) -> tuple[int, ...]:
    """Statuses of an open path: content for reads, and nothing else."""
    return (200, 307, 503) if method in ("GET", "HEAD") else (405,)


def invented(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield methods and targets: most are near to what is there, in odd spellings."""
    rng = random.Random(seed)
    named = sorted(OPEN)

    def word() -> str:
        if rng.random() < 0.6:
            return rng.choice((*WORDS, ADDRESS))
        letters = string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@"
        return "".join(rng.choices(letters, k=rng.randint(0, 12)))

    def path() -> str:
        if rng.random() < 0.4:
            return rng.choice(named)
        return rng.choice(PREFIXES) + "".join(f"/{word()}" for _ in range(rng.randint(0, 4))) or "/"

    def odd(text: str) -> str:
        at = rng.randrange(len(text) + 1)
        match rng.randrange(13):
            case 0:
                return text + "/"
            case 1:
                return "/" + text
            case 2:
                return text[:at] + "/" + text[at:]
            case 3:
                return text.swapcase()
            case 4:
                return text[:at] + rng.choice(("%2f", "%2F", "%5c", "%00", "%20", "%0a", ";"))
            case 5:
                return "/." + text
            case 6:
                return "/docs/.." + text
            case 7:
                return text + rng.choice(("/..", "/.", "/../", "/%2e%2e", "..", "?x=1", ".json"))
            case 8:
                return "http://somewhere.example" + text
            case 9:
                return "".join(f"%{ord(each):02x}" if rng.random() < 0.3 else each for each in text)
            case 10:
                return quote(text, safe="")
            case 11:
                return text.replace("/", "\\")
            case _:
                return text

    while count:
        target = odd(path())
        if target.startswith(("/", "http://")):
            count -= 1
            yield rng.choice((*METHODS, "GET", "GET", "GET")), target


def test_every_route_there_is_answers_401_but_for_the_list(api) -> None:
    app = create_app(Settings(_env_file=None))
    routes: Any = app.router.routes
    paths = {route.path for route in routes}
    assert paths >= OPEN
    assert len(paths - OPEN) > 25
    for path in sorted(paths):
        filled = re.sub(r"\{\w+\}", ADDRESS, path)
        for method in METHODS:
            status, body = ask(api, method, quote(filled))
            if is_open(quote(filled)):
                assert status in answers(method), (method, filled)
                continue
            assert status == 401, (method, filled)
            assert method == "HEAD" or '"key_missing"' in body


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_invented_paths_answer_401_but_for_the_list(api, seed) -> None:
    let_in, refused = 0, 0
    for method, target in invented(1_000, seed):
        status, body = ask(api, method, target)
        if is_open(target):
            let_in += 1
            assert status in answers(method), (method, target, status)
            continue
        refused += 1
        assert status == 401, (method, target, status)
        assert method == "HEAD" or '"key_missing"' in body, (method, target)
    assert refused > 600
    assert let_in > 20


def test_options_answers_no_path_with_content(api) -> None:
    routes: Any = create_app(Settings(_env_file=None)).router.routes
    for route in routes:
        status, body = ask(api, "OPTIONS", quote(re.sub(r"\{\w+\}", ADDRESS, route.path)))
        assert (status, '"code"' in body) in ((405, True), (404, True)), route.path


@pytest.mark.parametrize(
    "target",
    ["*", "http://somewhere.example", "http://somewhere.example?x", "//somewhere.example/docs",
     "http://somewhere.example//docs", "http:///docs", "/docs#x", "/docs%23", "/docs\t"],
)  # fmt: skip
def test_targets_of_other_forms_let_nobody_in(api, target) -> None:
    status, body = ask(api, "GET", target)
    assert status in (400, 401) or is_open(target.partition("#")[0]), body


def test_a_newline_after_a_path_makes_it_another_path(api) -> None:
    for path in (*sorted(OPEN), "/api/usage", "/api/system?unknown=1"):
        path, _, query = path.partition("?")
        target = f"{quote(path)}%0a?{query}"
        status, body = ask(api, "GET", target, f"x-api-key: {api.key}\r\n")
        assert (status, '"not_found"' in body) == (404, True), target


@pytest.mark.parametrize(
    "header",
    [
        "x-original-url: /docs",
        "x-rewrite-url: /docs",
        "x-forwarded-prefix: /docs",
        "x-http-method-override: OPTIONS",
        "x-http-method: GET",
        "x_api_key: soltape_",
        "authorization: Bearer x",
    ],
)
def test_no_header_opens_a_path(api, header) -> None:
    for method in ("GET", "POST"):
        assert ask(api, method, "/api/usage", f"{header}\r\n")[0] == 401


def test_the_document_and_the_list_say_the_same(api) -> None:
    app = create_app(Settings(_env_file=None))
    for path, operations in app.openapi()["paths"].items():
        for operation in operations.values():
            security = operation.get("security", app.openapi()["security"])
            assert ([] in (security,) or {} in security) == (path in OPEN), path
