"""Paths of positions, one for each route of each protocol that has a slug."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import APIRouter, Request, Response

from api.docs.openapi import answers_with
from api.http.errors import INVALID_ADDRESS
from api.http.parameters import Wallet
from api.http.replies import send
from api.http.state import holder, services
from api.positions.aggregates import Aggregate
from api.positions.answers import AggregatePositions, ProtocolPositions
from schemas.protocols.contract import Protocol, Route

_ABOUT = """
A failure is an entry of `errors`, and the rest is answered; sums are null then. With
`is_complete` true all there is at `as_of_slot` is here.
"""


_ABOUT_ALL = """
Each protocol is read by itself: what fails is an entry of `errors`, and the sum of all is null
then, beside those of the protocols that are whole in `protocols`. What belongs here and is not
read yet is in `pending`: it is in no sum, and `is_complete` is false while there is any. Costs one
credit.
"""


def router(slugs: Mapping[str, Protocol], aggregates: Mapping[str, Aggregate]) -> APIRouter:
    """Return the routes of protocols, by their slugs, and of aggregates, by their names."""
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
    for aggregate in aggregates.values():
        area.add_api_route(
            f"/{aggregate.name}",
            _of_all(aggregate.name),
            methods=["GET"],
            summary=aggregate.about,
            description=f"{aggregate.about}.\n{_ABOUT_ALL}",
            **answers_with(AggregatePositions, INVALID_ADDRESS),
        )
    return area


def _of_all(name: str) -> Callable[[Request, str], Awaitable[Response]]:
    async def all_positions(request: Request, wallet: Wallet) -> Response:
        found = services(request).positions.of_aggregate(wallet, name, holder(request))
        return send(request, await found)

    return all_positions


def _endpoint(
    slug: str, protocol: Protocol, route: Route
) -> Callable[[Request, str], Awaitable[Response]]:
    async def positions(request: Request, wallet: Wallet) -> Response:
        found = services(request).positions.of_route(
            wallet, slug, protocol, route.path, holder(request)
        )
        return send(request, await found)

    return positions
