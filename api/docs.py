"""The documentation page, whole from this process: it asks no other host for anything.

Swagger UI's files come with the package `fastapi-offline`; page and start are ours, for a page
whose policy allows no script within it cannot be made to run a stranger's.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from api import openapi
from api.assets import Asset
from api.errors import NOT_FOUND, Problem

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


def router(app: FastAPI) -> APIRouter:
    """Return the paths of the documentation."""
    area = APIRouter(include_in_schema=False)

    @cache
    def described() -> Asset:
        return Asset(orjson.dumps(openapi.document(app)), "application/json")

    @area.get("/")
    async def root() -> Response:
        return RedirectResponse("/docs")

    @area.get("/docs")
    async def docs() -> Response:
        headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
        return Response(_PAGE, 200, headers, "text/html")

    @area.get("/docs/{name}")
    async def asset(name: str, request: Request) -> Response:
        if name not in _BUNDLED and name not in _OURS:
            raise Problem(NOT_FOUND, "Nothing is here; /docs is the page")
        return _asset(name).respond(request)

    @area.get("/openapi.json")
    async def document(request: Request) -> Response:
        return described().respond(request)

    return area


@cache
def _asset(name: str) -> Asset:
    """Return one of the documentation's files."""
    if name in _OURS:
        return Asset(_START, _OURS[name])
    content = files("fastapi_offline").joinpath("static", name).read_bytes()
    return Asset(content, _BUNDLED[name])
