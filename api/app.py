"""The application: routers over the stores, inside the gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from api.routers import health, history, tokens, usage, wallets
from api.stores import Stores
from infra.settings import Settings

# Paths with fixed words come before those with an address in the same place.
ROUTERS = (health, usage, tokens, history, wallets)


def create_app(settings: Settings) -> FastAPI:
    """Return the application; it connects when it is first asked, and closes with the server."""
    stores = Stores(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await stores.close()

    app = FastAPI(title="Soltape", lifespan=lifespan)
    for area in ROUTERS:
        app.include_router(area.router(stores))
    return app
