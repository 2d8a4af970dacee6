"""Which route answers, found by the words of its path, and the short way to most of them.

FastAPI tries its routes one after the other, those of an included router twice: a third of what a
price cost us. Here a request is compared only with the routes that have as many segments and the
same word below /api, in their order (`Dispatch`). What none of them takes goes the usual way: 404,
405, and whatever FastAPI knows besides. A parameter that the route does not have is refused: who
misspells one would take the answer without it for the one he asked for.

Most requests are a GET of a path with addresses in it and nothing more. For these a handler needs
nothing of what FastAPI does around it, a quarter of what was left: they are called at once
(`Direct`). A request with a query, a body or an address that is none takes the whole way.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, get_type_hints
from urllib.parse import unquote_plus

from fastapi import APIRouter, Request, Response
from fastapi.params import Param
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from api import problems
from api.addresses import Mint, NoAddress, Wallet, check
from api.errors import Problem

_PARAMETER: Final = re.compile(r"\{(\w+)\}")  # text without a slash, as all of ours are
_NAMED: Final = 2  # the segment that routes are found by: /api/wallets/...


@dataclass(frozen=True, slots=True)
class Entry:
    """A route taken apart: its words, and which segments are parameters."""

    route: APIRoute
    words: tuple[str, ...]
    words_of: itemgetter[Any]  # the segments of a path that are to be these
    parameters: tuple[tuple[int, str], ...]
    request_name: str | None  # of the handler's parameter, if it may be called directly
    query: tuple[str, ...]  # names of the parameters that it takes in the query
    query_bytes: frozenset[bytes]  # the same, as they are mostly written
    is_described: bool  # else it is a word where no address is, which refuses every method


class Routes:
    """The routes of a router by the words of their paths; those added later are not seen."""

    def __init__(self, router: APIRouter) -> None:
        self._entries: dict[tuple[int, str], list[Entry]] = defaultdict(list)
        for route in router.routes:
            if isinstance(route, APIRoute) and (entry := _entry(route)):
                segments = route.path.split("/")
                self._entries[len(segments), segments[_NAMED]].append(entry)

    def find(self, scope: Scope) -> tuple[Entry, dict[str, str]] | None:
        """Return the route that answers a request, and the parameters in its path."""
        if scope.get("root_path"):
            return None
        segments = scope["path"].split("/")
        if len(segments) <= _NAMED:
            return None
        method = scope["method"]
        for entry in self._entries.get((len(segments), segments[_NAMED]), ()):
            if entry.words_of(segments) == entry.words and (
                method in (entry.route.methods or ()) or not entry.is_described
            ):
                found = {name: segments[at] for at, name in entry.parameters}
                if all(found.values()):
                    return entry, found
        return None


class Dispatch:
    """ASGI application in place of a router's own search."""

    def __init__(self, router: APIRouter, routes: Routes) -> None:
        self._otherwise: ASGIApp = router.app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        found = self._routes.find(scope) if scope["type"] == "http" else None
        if found is None:
            await self._otherwise(scope, receive, send)
            return
        entry, scope["path_params"] = found
        scope["route"] = entry.route
        scope["endpoint"] = entry.route.endpoint
        if scope["query_string"] and entry.is_described:
            _check_names(scope["query_string"], entry)
        await entry.route.app(scope, receive, send)


class Direct:
    """ASGI middleware: calls the handler itself where the path says all there is to know."""

    def __init__(self, app: ASGIApp, routes: Routes) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and not scope["query_string"] and scope["method"] == "GET":
            found = self._routes.find(scope)
            if found is not None and (name := found[0].request_name) and _are_addresses(found[1]):
                entry, scope["path_params"] = found
                scope["route"] = entry.route
                request = Request(scope, receive, send)
                try:
                    response = await entry.route.endpoint(**{name: request}, **found[1])
                except Problem as problem:
                    response = problems.response(problem, scope)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def use(router: APIRouter, areas: Iterable[APIRouter]) -> Routes:
    """Put the routes of areas into a router, in their order, to be looked up."""
    for area in areas:
        router.routes.extend(area.routes)
    routes = Routes(router)
    router.middleware_stack = Dispatch(router, routes)
    return routes


def _check_names(query: bytes, entry: Entry) -> None:
    """Raise Problem if a query has a parameter that a route does not."""
    names = (pair.partition(b"=")[0] for pair in query.split(b"&") if pair)
    odd = [name for name in names if name not in entry.query_bytes]
    if odd and (
        unknown := [
            name
            for name in dict.fromkeys(unquote_plus(name.decode("latin-1")) for name in odd)
            if name not in entry.query
        ]
    ):
        raise problems.unknown_parameters(unknown, entry.query)


def _are_addresses(parameters: dict[str, str]) -> bool:
    try:
        for text in parameters.values():
            check(text)
    except NoAddress:
        return False
    return True


def _entry(route: APIRoute) -> Entry | None:
    """Take a route apart; None where it is to be matched as ever."""
    segments = route.path.split("/")
    if len(segments) <= _NAMED or "{" in segments[_NAMED]:
        return None
    words: dict[int, str] = {}
    parameters: list[tuple[int, str]] = []
    for at, segment in enumerate(segments):
        if found := _PARAMETER.fullmatch(segment):
            parameters.append((at, found.group(1)))
        elif "{" in segment:
            return None
        else:
            words[at] = segment
    name = _request_name(route, {name for _, name in parameters})
    query = tuple(each.alias for each in route.dependant.query_params)
    return Entry(
        route,
        (*words.values(),),
        itemgetter(*words),
        (*parameters,),
        name,
        query,
        frozenset(each.encode() for each in query),
        route.include_in_schema,
    )


def _request_name(route: APIRoute, in_path: set[str]) -> str | None:
    """Return what a handler calls its request, if all else it takes is addresses and defaults."""
    if not inspect.iscoroutinefunction(route.endpoint) or route.dependencies:
        return None
    types = get_type_hints(route.endpoint, include_extras=True)
    name = None
    for each in inspect.signature(route.endpoint).parameters.values():
        told = types.get(each.name)
        if told is Request:
            name = each.name
        elif each.name in in_path:
            if told not in (Wallet, Mint):
                return None
        elif each.default is inspect.Parameter.empty or isinstance(each.default, Param):
            return None
    answer = types.get("return")
    return name if isinstance(answer, type) and issubclass(answer, Response) else None
