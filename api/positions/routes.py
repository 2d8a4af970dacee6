"""Paths of positions, one for each route of each protocol that has a slug."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import APIRouter, Request, Response

from api.docs.openapi import answers_with
from api.http.errors import INVALID_ADDRESS
from api.http.parameters import Wallet
from api.http.replies import send
from api.http.state import holder, services
from api.positions.answers import ProtocolPositions
from schemas.protocols.contract import Protocol, Route

_ABOUT = """
A failure is an entry of `errors`, and the rest is answered; sums are null then. With
`is_complete` true all there is at `as_of_slot` is here.
"""


def router(slugs: Mapping[str, Protocol]) -> APIRouter:
    """Return the routes of protocols, by their slugs."""
    area = APIRouter(prefix="/api/wallets/{wallet}", tags=["positions"])
    for slug, protocol in slugs.items():
        for route in protocol.routes:
            area.add_api_route(
                f"/{slug}/{route.path}",
                _endpoint(slug, protocol, route),
                methods=["GET"],
                summary=route.about,
                description=f"{route.about}.\n{_ABOUT}",
                **answers_with(ProtocolPositions, INVALID_ADDRESS),
            )
    return area


def _endpoint(
    slug: str, protocol: Protocol, route: Route
) -> Callable[[Request, str], Awaitable[Response]]:
    async def positions(request: Request, wallet: Wallet) -> Response:
        found = services(request).positions.of_route(
            wallet, slug, protocol, route.path, holder(request)
        )
        return send(request, await found)

    return positions
