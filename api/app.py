"""The application: routers over the stores, inside the gate, inside what every answer has.

From the outside in: `edge` (id, log, headers, compression), CORS where it is wanted, `guard` (time,
size, how many at once, problems), `access.gate` (key, rate, credits), the routes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from api import dashboard, dispatch, docs, openapi, problems
from api.access.charge import Charges
from api.access.gate import Gate
from api.access_log import AccessLog
from api.edge import Edge
from api.guard import Guard
from api.routers import health, history, system, tokens, usage, wallets
from api.stores import Stores
from infra.settings import Settings

# Paths with fixed words come before those with an address in the same place.
ROUTERS = (health, system, usage, tokens, history, wallets)

_CORS: Final[dict[str, Any]] = {
    "allow_methods": ("GET", "HEAD", "POST"),
    "allow_headers": ("content-type", "if-none-match", "x-api-key", "x-request-id"),
    "expose_headers": (
        "etag",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "x-credits-left",
        "x-request-id",
    ),
    "max_age": 3_600,
}


def create_app(settings: Settings, demo_key: str | None = None) -> FastAPI:
    """Return the application; it connects when it is first asked, and closes with the server.

    A demo key is told to the dashboard on this machine.
    """
    stores = Stores(settings)
    charges = Charges(stores.access)
    access_log = AccessLog(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        access_log.flush()
        await charges.aclose()
        await stores.close()

    app = FastAPI(
        title="Soltape",
        version=version("soltape"),
        lifespan=lifespan,
        exception_handlers=problems.HANDLERS,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # these are ours: `docs`
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours are `metrics`
        redirect_slashes=False,  # a redirect would name whatever host the caller named
    )
    app.state.stores = stores
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    areas = [
        *(area.router(stores) for area in ROUTERS),
        dashboard.router(settings, demo_key),  # before the documentation, which else is at /
        docs.router(app),
    ]
    routes = dispatch.use(app.router, areas)
    # The one added last is the outermost.
    app.add_middleware(dispatch.Direct, routes=routes)
    app.add_middleware(Gate, charges=charges)
    app.add_middleware(Guard, settings=settings)
    if settings.api_cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.api_cors_origins.split(","), **_CORS
        )
    app.add_middleware(Edge, log=access_log)
    return app
