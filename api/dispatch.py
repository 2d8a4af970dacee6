"""Which route answers: looked up by the words of its path, instead of matched one after the other.

FastAPI tries every route, those of an included router twice, for every request: a quarter of what a
price costs us. Here a request is compared only with the routes that have as many segments and the
same first word below /api, in their order. What none of them takes whole goes the usual way: 404,
405, and whatever FastAPI knows besides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

_PARAMETER: Final = re.compile(r"\{(\w+)\}")  # text without a slash, as all of ours are
_NAMED: Final = 2  # the segment that routes are found by: /api/wallets/...


@dataclass(frozen=True, slots=True)
class _Entry:
    """A route taken apart: segment by segment a word, or what a parameter is called."""

    route: APIRoute
    words: tuple[tuple[int, str], ...]
    parameters: tuple[tuple[int, str], ...]


class Dispatch:
    """ASGI application in place of a router's own search; routes added later are not seen."""

    def __init__(self, router: APIRouter) -> None:
        self._otherwise: ASGIApp = router.app
        self._entries: dict[tuple[int, str], list[_Entry]] = defaultdict(list)
        for route in router.routes:
            if isinstance(route, APIRoute) and (entry := _entry(route)):
                segments = route.path.split("/")
                self._entries[len(segments), segments[_NAMED]].append(entry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and not scope.get("root_path"):
            segments = scope["path"].split("/")
            if len(segments) > _NAMED:
                method = scope["method"]
                for entry in self._entries.get((len(segments), segments[_NAMED]), ()):
                    if method not in (entry.route.methods or ()):
                        continue
                    found = _matched(entry, segments)
                    if found is not None:
                        scope["endpoint"] = entry.route.endpoint
                        scope["path_params"] = found
                        scope["route"] = entry.route
                        await entry.route.app(scope, receive, send)
                        return
        await self._otherwise(scope, receive, send)


def use(router: APIRouter, areas: Iterable[APIRouter]) -> None:
    """Put the routes of areas into a router, in their order, and let them be looked up."""
    for area in areas:
        router.routes.extend(area.routes)
    router.middleware_stack = Dispatch(router)


def _matched(entry: _Entry, segments: list[str]) -> dict[str, Any] | None:
    for at, word in entry.words:
        if segments[at] != word:
            return None
    found = {name: segments[at] for at, name in entry.parameters}
    return found if all(found.values()) else None


def _entry(route: APIRoute) -> _Entry | None:
    """Take a route apart; None where it is to be matched as ever."""
    segments = route.path.split("/")
    if len(segments) <= _NAMED or "{" in segments[_NAMED]:
        return None
    words, parameters = [], []
    for at, segment in enumerate(segments):
        if found := _PARAMETER.fullmatch(segment):
            parameters.append((at, found.group(1)))
        elif "{" in segment:
            return None
        else:
            words.append((at, segment))
    return _Entry(route, tuple(words), tuple(parameters))
