"""A token's metadata and image through the API, as the page asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import orjson
import pytest

from infra.settings import Settings
from tests.support.api.asking import validator
from tests.support.images import png
from tests.support.waiting import eventually_async

IMAGE = png(64, 32)


class Site(BaseHTTPRequestHandler):
    """Answers with a document that names an image beside it."""

    def do_GET(self) -> None:
        origin = f"http://{self.headers['host']}"
        document = {
            "name": "<img src=x onerror=alert(1)>\u202e",
            "symbol": "X",
            "description": "words\u0000 of a stranger",
            "image": f"{origin}/image",
            "website": "javascript:alert(1)",
            "twitter": "https://x.com/some",
        }
        body = {"/a.json": orjson.dumps(document), "/image": IMAGE}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("content-type", "image/svg+xml")
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def served(token_settings: Settings, serve: Callable[..., Any], origin: str) -> Iterator[Any]:
    with serve(
        redis_url=token_settings.redis_url,
        access_redis_url=token_settings.access_redis_url,
        metadata_fetch=True,
        metadata_trusted_origin=origin,
    ) as running:
        yield running


async def created(chain: Any, uri: str) -> str:
    mint: str = chain.address()
    chain.create(mint, uri=uri)
    await chain.settle()
    return mint


async def body_of(client: httpx.AsyncClient, mint: str) -> Any:
    """Return the token once its metadata is no longer asked for."""

    async def look() -> Any:
        token = (await client.get(f"/api/tokens/{mint}")).raise_for_status().json()
        return None if token["metadata_reason"] == "pending" else token

    return await eventually_async(look)


async def test_metadata_is_pending_then_there_and_its_image_is_served(
    client: httpx.AsyncClient, chain: Any, origin: str
) -> None:
    mint = await created(chain, f"{origin}/a.json")
    path = f"/api/tokens/{mint}/image"
    first = (await client.get(f"/api/tokens/{mint}")).raise_for_status().json()
    assert (first["metadata"], first["metadata_reason"]) == (None, "pending")
    token = await body_of(client, mint)
    document = (await client.get("/openapi.json", timeout=240)).json()
    check = validator(document, "get", "/api/tokens/{mint}", 200)
    for answer in (first, token):
        assert check.is_valid(answer), [*check.iter_errors(answer)]
    found = token["metadata"]
    assert found["name"] == "<img src=x onerror=alert(1)>"  # data: who shows it, escapes it
    assert found["description"] == "words of a stranger"
    assert (found["website"], found["twitter"]) == (None, "https://x.com/some")
    assert found["image"] == {
        "path": path,
        "media_type": "image/png",
        "width": 64,
        "height": 32,
        "bytes": len(IMAGE),
    }
    image = await client.get(path)
    assert image.content == IMAGE
    assert image.headers["content-type"] == "image/png"
    assert image.headers["x-content-type-options"] == "nosniff"
    assert image.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert image.headers["cross-origin-resource-policy"] == "same-origin"
    assert image.headers["cache-control"] == "private, max-age=300"
    again = await client.get(path, headers={"if-none-match": image.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await client.get(path, headers={"x-api-key": ""})).status_code == 401


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://127.0.0.1:1/a.json", "refused"),
        ("http://localhost/a.json", "refused"),
        ("http://169.254.169.254/latest/meta-data/", "refused"),
        ("ipfs://bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq", "refused"),
        ("{origin}/nothing.json", "http_error"),
        ("", "no_uri"),
    ],
)
async def test_why_there_is_no_metadata(
    client: httpx.AsyncClient, chain: Any, origin: str, uri: str, reason: str
) -> None:
    mint = await created(chain, uri.format(origin=origin))
    token = await body_of(client, mint)
    assert (token["metadata"], token["metadata_reason"]) == (None, reason)
    assert token["metadata_detail"]
    image = await client.get(f"/api/tokens/{mint}/image")
    assert image.status_code == 404
    assert image.json()["code"] == "no_image"
    assert image.json()["reason"] == ("pending" if reason == "no_uri" else reason)
