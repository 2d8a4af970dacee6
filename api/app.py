"""The application: routes over the services, inside the gate, inside what every answer has.

From the outside in: `edge` (id, log, headers, compression), CORS where it is wanted, `guard` (time,
size, how many at once, problems), `pay` where it is on, `access.gate` (key, rate, credits), the
routes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from api.access.charge import Charges
from api.access.failures import Failures
from api.access.gate import Gate
from api.access.sessions import Sessions
from api.analysis import routes as analysis
from api.dashboard.routes import Dashboard
from api.docs import openapi, schemas
from api.docs import page as docs
from api.history import routes as history
from api.http import dispatch, problems
from api.http.access_log import AccessLog
from api.http.edge import Edge
from api.http.guard import Guard
from api.mcp import routes as mcp
from api.pay.door import Door, Till
from api.positions import routes as positions
from api.services import Services
from api.signin import routes as signin
from api.signin.routes import SignIn
from api.system import routes as system
from api.tokens import routes as tokens
from api.wallets import routes as wallets
from infra.hosts import Hosts
from infra.proxies import Proxies
from infra.redis import partitions
from infra.settings import Settings

log = structlog.get_logger(__name__)

# Paths with fixed words come before those with an address in the same place.
ROUTERS = (system.router, tokens.router, history.router, wallets.router)

_CORS: Final[dict[str, Any]] = {
    "allow_methods": ("GET", "HEAD", "POST"),
    "allow_headers": (
        "content-type",
        "if-none-match",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "payment-signature",
        "x-api-key",
        "x-payment",
        "x-request-id",
    ),
    "expose_headers": (
        "etag",
        "mcp-session-id",
        "payment-required",
        "payment-response",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "x-credits-left",
        "x-payment-response",
        "x-request-id",
    ),
    "max_age": 3_600,
}


async def _end_if_raised(services: Services) -> None:
    """End this process in order once the books have another count of partitions."""
    try:
        await partitions.watch(services.stores.redis.ask)
    except partitions.PartitionsWrong as error:
        log.error("stopping", cause=type(error).__name__, detail=str(error))
        signal.raise_signal(signal.SIGTERM)


def create_app(settings: Settings, demo_key: str | None = None) -> FastAPI:
    """Return the application; it connects when it is first asked, and closes with the server.

    With a demo key the dashboard's one-time links give browsers its grant; the key itself is not
    served.
    """
    services = Services(settings)
    access = services.stores.access
    failures = Failures()
    links = None if demo_key is None else Sessions(access, demo_key, failures)
    sign_in = SignIn(settings, access, failures) if settings.signin_issuer else None
    charges = Charges(access)
    till = Till(settings, access) if settings.x402_facilitator_url else None
    access_log = AccessLog(settings)
    agents = mcp.Door(settings, services, charges, sign_in.sessions if sign_in else None)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = [
            asyncio.create_task(services.system.watch_availability()),
            asyncio.create_task(_end_if_raised(services)),
        ]
        async with agents.running(), sign_in.running() if sign_in else nullcontext():
            yield
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        access_log.flush()
        await charges.aclose()
        if till is not None:
            await till.aclose()
        await services.close()

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
    page = app.state.dashboard = Dashboard(
        settings,
        links,
        sign_in.sessions if sign_in else None,
        sign_in.address if sign_in else None,
    )
    app.state.services = services
    app.state.document = docs.Document(app)  # of the routes, added below
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    areas = [
        *ROUTERS[:-1],
        analysis.router,
        positions.router(services.positions.slugs, services.positions.aggregates),
        history.perps(services.positions.slugs),
        ROUTERS[-1],  # its /{wallet}/{mint} takes any word
        agents.router(),
        schemas.router,
        *([sign_in.router()] if sign_in else ()),
        page.router(),  # before the documentation, which else is at /
        docs.router,
    ]
    routes = dispatch.use(app.router, areas)
    # The one added last is the outermost.
    app.add_middleware(dispatch.Direct, routes=routes)
    app.add_middleware(
        Gate,
        charges=charges,
        open_paths=system.OPEN
        | docs.OPEN
        | schemas.OPEN
        | mcp.OPEN
        | page.open
        | (signin.OPEN if sign_in else frozenset()),
        most_in_flight=min(settings.api_max_concurrent_per_key, settings.api_max_concurrent),
        failures=failures,
        sessions=page.sessions,
        prices=agents.prices,
        accounts=sign_in.accounts if sign_in else None,
    )
    if till is not None:
        app.add_middleware(Door, routes=routes, till=till)
    app.add_middleware(Guard, settings=settings)
    if settings.api_cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.api_cors_origins.split(","), **_CORS
        )
    hosts = Hosts(settings.api_host, settings.allowed_hosts)
    proxies = Proxies(settings.trusted_proxies)
    app.add_middleware(
        Edge,
        log=access_log,
        hosts=hosts,
        proxies=proxies,
        answered=services.system.availability.count,
    )
    return app
