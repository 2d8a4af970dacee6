"""What the application keeps for its routes, by type."""

from __future__ import annotations

from fastapi import Request

from api.access.grants import Grant
from api.services import Services


def services(request: Request) -> Services:
    """Return the services of the application that a request came to."""
    found: Services = request.scope["app"].state.services
    return found


def grant(request: Request) -> Grant | None:
    """Return what let a request in; None on a path that is open."""
    found: Grant | None = request.scope.get("state", {}).get("grant")
    return found


def holder(request: Request) -> str:
    """Return the fingerprint of a request's payer, empty on a path that is open."""
    found = grant(request)
    return "" if found is None else found.payer
