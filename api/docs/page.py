"""The documentation page, whole from this process: it asks no other host for anything.

Swagger UI's files come with the package `fastapi-offline`; page and start are ours, for a page
whose policy allows no script within it cannot be made to run a stranger's.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.resources import files
from typing import Final

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from api.docs import openapi
from api.http.assets import Asset

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BUNDLED: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon.png": "image/png",
}
_OURS: Final = {"start.js": "text/javascript"}

_PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Soltape API</title>
<link rel="icon" type="image/png" href="/docs/favicon.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = b"""SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
"""


router = APIRouter(include_in_schema=False)


@router.get("/")
async def root() -> Response:
    """Lead to the documentation where there is no dashboard."""
    return RedirectResponse("/docs")


@router.get("/docs")
async def docs() -> Response:
    """Answer with the page."""
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    return Response(_PAGE, 200, headers, "text/html")


async def asset(request: Request) -> Response:
    """Answer with a file of the page."""
    return _asset(request.scope["path"].rpartition("/")[2]).respond(request)


for _name in (*_BUNDLED, *_OURS):
    router.add_api_route(f"/docs/{_name}", asset)


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """Answer with the OpenAPI document."""
    document: Document = request.app.state.document
    return (await document.asset()).respond(request)


OPEN: Final = frozenset(route.path for route in router.routes if isinstance(route, APIRoute))
"""Paths that need no grant: all of these."""


class Document:
    """The OpenAPI document as it is sent.

    It is made when it is first asked for, in a thread: a second of computing, during which other
    requests are answered.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: asyncio.Task[Asset] | None = None

    async def asset(self) -> Asset:
        """Return it; all who ask meanwhile wait for the same."""
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(self._made)

    def _make(self) -> Asset:
        return Asset(orjson.dumps(openapi.document(self._app)), "application/json")


@cache
def _asset(name: str) -> Asset:
    """Return one of the documentation's files."""
    if name in _OURS:
        return Asset(_START, _OURS[name])
    content = files("fastapi_offline").joinpath("static", name).read_bytes()
    return Asset(content, _BUNDLED[name])
