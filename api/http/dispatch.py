"""Which route answers: a tree of path segments, and the short way to most routes.

FastAPI tries its routes one after the other, those of an included router twice: a third of what a
price cost. Here each segment of a path leads to the node of that word and to the node of any
parameter, so the number of routes does not matter (`Routes`). Where several routes fit, the first
one registered answers, as in Starlette. A handler that never returns (`NoReturn`) names a word in
the place of an address, and refuses every method. A request that no route takes goes the usual
way: 404 or 405. A query parameter that a documented route does not have is refused: a misspelt one
would otherwise be answered as if it was not there.

Most requests are a GET of a path with addresses in it and nothing more, or a message of MCP. Their
handlers need nothing of what FastAPI does around them, a quarter of the rest: `Direct` calls them
at once. A request with a query, a body or an invalid address takes the whole way.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn, get_type_hints
from urllib.parse import unquote_plus

from fastapi import APIRouter, Request, Response
from fastapi.params import Param
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import problems
from api.http.errors import Problem
from api.http.parameters import Mint, Wallet
from schemas.solana.addresses import NoAddress, check

_DIRECT: Final = frozenset({"GET", "POST"})  # a handler that takes a body is never direct
_PARAMETER: Final = re.compile(r"\{(\w+)\}")  # text without a slash


@dataclass(frozen=True, slots=True)
class Entry:
    """A route taken apart."""

    number: int  # in the order of registration
    route: APIRoute
    parameters: tuple[tuple[int, str], ...]  # segment and name
    request_name: str | None  # of the handler's parameter, if it may be called directly
    query: tuple[str, ...]  # names of the query parameters
    query_bytes: frozenset[bytes]  # the same, as they are mostly written
    is_refusal: bool  # its handler never returns: it refuses every method


class _Node:
    """What may follow the first segments of a path."""

    __slots__ = ("by_method", "parameter", "refusal", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.by_method: dict[str, Entry] = {}  # of the routes that end here
        self.refusal: Entry | None = None  # of all other methods


class Routes:
    """The routes of a router by the segments of their paths; routes added later are not seen."""

    def __init__(self, router: APIRouter) -> None:
        self._root = _Node()
        self._others: list[tuple[int, BaseRoute]] = []  # that are matched as ever
        for number, route in enumerate(router.routes):
            if isinstance(route, APIRoute) and (entry := _entry(number, route)):
                self._add(entry)
            else:
                self._others.append((number, route))

    def _add(self, entry: Entry) -> None:
        node = self._root
        parameters = {at for at, _ in entry.parameters}
        for at, segment in enumerate(entry.route.path.split("/")):
            if at not in parameters:
                node = node.words.setdefault(segment, _Node())
            else:
                node.parameter = node.parameter or _Node()
                node = node.parameter
        if entry.is_refusal:
            node.refusal = node.refusal or entry
            return
        for method in entry.route.methods or ():
            node.by_method.setdefault(method, entry)

    def find(self, scope: Scope) -> tuple[Entry, dict[str, str]] | None:
        """Return the route that answers a request, and the parameters in its path."""
        if scope.get("root_path"):
            return None
        segments = scope["path"].split("/")
        nodes = [self._root]
        for segment in segments:
            fitting = []
            for node in nodes:
                if (word := node.words.get(segment)) is not None:
                    fitting.append(word)
                if node.parameter is not None and segment:
                    fitting.append(node.parameter)
            if not fitting:
                return None
            nodes = fitting
        found: Entry | None = None
        method = scope["method"]
        for node in nodes:
            entry = node.by_method.get(method) or node.refusal
            if entry is not None and (found is None or entry.number < found.number):
                found = entry
        if found is None or self._is_taken_before(found, scope):
            return None
        return found, {name: segments[at] for at, name in found.parameters}

    def _is_taken_before(self, entry: Entry, scope: Scope) -> bool:
        """Return True if a route outside the tree comes before an entry and takes the request."""
        return any(
            number < entry.number and route.matches(scope)[0] is Match.FULL
            for number, route in self._others
        )


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
        if scope["query_string"] and entry.route.include_in_schema:
            _check_names(scope["query_string"], entry)
        await entry.route.app(scope, receive, send)


class Direct:
    """ASGI middleware: calls the handler itself where the path says all there is to know."""

    def __init__(self, app: ASGIApp, routes: Routes) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and not scope["query_string"] and scope["method"] in _DIRECT:
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
    for route in router.routes:
        if isinstance(route, Route):
            route.path_regex = _strict(route.path_regex)
    routes = Routes(router)
    router.middleware_stack = Dispatch(router, routes)
    return routes


def _strict(path: re.Pattern[str]) -> re.Pattern[str]:
    """Return Starlette's pattern of a path without its `$`, which matches before a newline too."""
    return re.compile(path.pattern.removesuffix("$") + r"\Z", path.flags)


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


def _entry(number: int, route: APIRoute) -> Entry | None:
    """Take a route apart; None where it must be matched as ever."""
    parameters: list[tuple[int, str]] = []
    for at, segment in enumerate(route.path.split("/")):
        if found := _PARAMETER.fullmatch(segment):
            parameters.append((at, found.group(1)))
        elif "{" in segment:
            return None
    query = tuple(each.alias for each in route.dependant.query_params)
    return Entry(
        number,
        route,
        (*parameters,),
        _request_name(route, {name for _, name in parameters}),
        query,
        frozenset(each.encode() for each in query),
        get_type_hints(route.endpoint).get("return") is NoReturn,
    )


def _request_name(route: APIRoute, in_path: set[str]) -> str | None:
    """Return what a handler calls its request, if all else it takes is addresses and defaults."""
    if not inspect.iscoroutinefunction(route.endpoint) or route.dependencies:
        return None
    types = get_type_hints(route.endpoint, include_extras=True)
    name = None
    for each in inspect.signature(route.endpoint).parameters.values():
        kind = types.get(each.name)
        if kind is Request:
            name = each.name
        elif each.name in in_path:
            if kind not in (Wallet, Mint):
                return None
        elif each.default is inspect.Parameter.empty or isinstance(each.default, Param):
            return None
    answer = types.get("return")
    return name if isinstance(answer, type) and issubclass(answer, Response) else None
