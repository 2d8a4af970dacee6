"""Paths of sign-in and of accounts.

`/signin` sends a browser to the provider, `/signin/callback` is where it comes back: both are open,
and neither leads anywhere but to the provider and to the account's page, whatever a request says.
All others need the session of a user (`api.access.gate`), and what changes something its token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import structlog
from fastapi import APIRouter, Request, Response
from prometheus_client import Counter
from pydantic import BaseModel, ConfigDict, Field

from api.access import cookies, paces, users
from api.access.days import Days
from api.access.failures import Failures
from api.access.gate import Accounts
from api.access.in_flight import InFlight
from api.access.paces import Pace
from api.access.problem_kinds import KEY_LIMIT, NO_SUCH_KEY
from api.access.refusals import no_session, suspended
from api.access.register import IdTaken
from api.access.script import Asks
from api.access.store import store
from api.access.user_sessions import NotBegun, UserSessions
from api.http.errors import Problem
from api.signin import account, kafka, page, pending
from api.signin.asked import NO_STORE, Name, answer, session_of
from api.signin.failures import Failed
from api.signin.fetching import Fetcher
from api.signin.kafka import Kafka
from api.signin.pending import Begun, Seals
from api.signin.provider import Provider
from infra.settings import Settings, SettingsError

log = structlog.get_logger(__name__)

BEGIN: Final = "/signin"
CALLBACK: Final = "/signin/callback"
SIGN_OUT: Final = "/signout"
ACCOUNT: Final = "/account.json"
USAGE: Final = "/account/usage.json"
KEYS: Final = "/account/keys"
REVOKE: Final = "/account/keys/revoke"
HOME: Final = "/#/account"

OPEN: Final = frozenset({BEGIN, CALLBACK})
"""Paths that need no grant."""
PATHS: Final = frozenset({SIGN_OUT, ACCOUNT, USAGE, KEYS, REVOKE}) | kafka.PATHS
"""Paths that a user's session alone opens."""

ATTEMPTS_A_MINUTE: Final = 60
"""Of one address to a process."""
SHARE: Final = 4
"""Sign-ins take at most one in so many of a process's requests: they wait for the provider."""
_LONGEST_QUERY: Final = 8_192
_MOST_PARAMETERS: Final = 20
_NOT_BEGUN: Final[dict[NotBegun, str]] = {
    "suspended": "refused",
    "finished": "stale",
    "often": "often",
}

SIGN_INS: Final = Counter(
    "soltape_api_sign_ins_total",
    "Sign-ins by outcome: begun, done, or why they failed.",
    ["outcome"],
)


class NewKey(BaseModel):
    """A key that a user wants."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: Name


class OldKey(BaseModel):
    """A key that a user wants no more."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]


class SignIn:
    """Sign-in of one application."""

    def __init__(self, settings: Settings, redis: Asks, failures: Failures) -> None:
        """Build all; raises SettingsError where a setting is missing."""
        issuer, client_id, base_url = (
            settings.signin_issuer,
            settings.signin_client_id,
            settings.signin_base_url,
        )
        if issuer is None or client_id is None or base_url is None:
            raise SettingsError("SIGNIN_ISSUER needs SIGNIN_CLIENT_ID and SIGNIN_BASE_URL")
        if not settings.api_dashboard:
            raise SettingsError("SIGNIN_ISSUER needs API_DASHBOARD: accounts are a page of it")
        secret = settings.signin_client_secret
        self.address = f"{base_url}{BEGIN}"
        self._redis = redis
        self._most_users = settings.signin_max_users
        self._provider = Provider(
            issuer,
            client_id,
            None if secret is None else secret.get_secret_value(),
            f"{base_url}{CALLBACK}",
            Fetcher(issuer),
        )
        self.sessions = UserSessions(redis, base_url, failures)
        self._seals = Seals(redis)
        self._days = Days(redis)
        self.accounts = Accounts(self.sessions, self._days, PATHS)
        self._kafka = Kafka(settings, redis)
        self._is_secure = urlsplit(base_url).scheme == "https"
        self._cookie = f"{self.sessions.cookie}-begun"
        self._pace = Pace(ATTEMPTS_A_MINUTE, 60.0)
        self._steps = InFlight(max(1, settings.api_max_concurrent // SHARE))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the days of users while the context lasts, and at its end."""
        writing = asyncio.create_task(self._days.run())
        try:
            yield
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            await self._days.write()
            await self._kafka.aclose()

    def router(self) -> APIRouter:
        """Return the paths."""
        area = APIRouter(include_in_schema=False)
        area.add_api_route(BEGIN, self._begin)
        area.add_api_route(CALLBACK, self._callback)
        area.add_api_route(SIGN_OUT, self._sign_out, methods=["POST"])
        area.add_api_route(ACCOUNT, self._account)
        area.add_api_route(USAGE, self._usage)
        area.add_api_route(KEYS, self._create_key, methods=["POST"])
        area.add_api_route(REVOKE, self._revoke_key, methods=["POST"])
        self._kafka.add_to(area)
        return area

    async def _begin(self, request: Request) -> Response:
        try:
            with self._step(request):
                before = self.sessions.named(request.headers.raw)
                begun = pending.begin(before.user, before.digest) if before else pending.begin()
                with store():
                    sealed = await self._seals.seal(begun)
                address = await self._provider.address(begun.state, begun.nonce, begun.verifier)
        except Failed as failure:
            return self._failed(failure)
        SIGN_INS.labels("begun").inc()
        response = Response(None, 303, {**NO_STORE, "location": address})
        response.set_cookie(
            self._cookie,
            sealed,
            max_age=pending.WITHIN_S,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="lax",  # the provider's page leads back here
        )
        return response

    async def _callback(self, request: Request) -> Response:
        begun = None
        try:
            with self._step(request):
                parameters = _parameters(request.scope["query_string"])
                begun = await self._begun(request, parameters.get("state", ""))
                response = await self._finish(parameters, begun)
        except Failed as failure:
            response = self._failed(failure)
        if begun is not None:  # else any page may have led here: what is under way goes on
            self._forget(response)
        return response

    async def _finish(self, parameters: Mapping[str, str], begun: Begun) -> Response:
        await self._provider.check_issuer(parameters.get("iss"))
        if "error" in parameters:
            raise Failed("denied", repr(parameters["error"][:40]))
        if not (code := parameters.get("code")):
            raise Failed("malformed")
        identity = await self._provider.identity(code, begun.nonce, begun.verifier)
        response = Response(None, 303, {**NO_STORE, "location": HOME})
        with store():
            try:
                user = await users.enter(self._redis, identity, self._most_users)
            except (users.Refused, IdTaken) as refusal:
                raise Failed("refused", str(refusal)) from None
        not_begun = await self.sessions.begin(user, begun.name, response)
        if not_begun is not None:
            raise Failed(_NOT_BEGUN[not_begun])
        # What this browser was known by before is worth nothing now.
        if begun.old_user:
            await self.sessions.end(begun.old_user, begun.old_digest)
        SIGN_INS.labels("done").inc()
        return response

    async def _begun(self, request: Request, state: str) -> Begun:
        values = _values(request.headers.raw, f"{self._cookie}=".encode())
        if len(values) != 1:
            raise Failed("stale", "the browser has no cookie of a sign-in, or several")
        with store():
            begun = await self._seals.open(values[0], state)
        if begun is None:
            raise Failed("stale")
        return begun

    async def _sign_out(self, request: Request) -> Response:
        session = session_of(request)
        response = answer({})
        await self.sessions.end(session.user, session.digest)
        self.sessions.forget(response)
        return response

    async def _account(self, request: Request) -> Response:
        session = session_of(request)
        with store():
            user = await users.read(self._redis, session.user)
            if user is None:  # deleted in Redis within this request
                raise no_session()
            overview = await account.overview(self._redis, session, user)
            overview["kafka"] = await self._kafka.overview(user)
            return answer(overview)

    async def _usage(self, request: Request) -> Response:
        with store():
            return answer(await account.usage(self._redis, session_of(request).user))

    async def _create_key(self, request: Request, body: NewKey) -> Response:
        with store():
            try:
                text = await users.create_key(self._redis, session_of(request).user, body.name)
            except users.Suspended:
                raise suspended() from None
            except users.Refused as refusal:
                raise Problem(KEY_LIMIT, str(refusal)) from None
        return answer({"key": text}, 201)

    async def _revoke_key(self, request: Request, body: OldKey) -> Response:
        with store():
            if not await users.revoke_key(self._redis, session_of(request).user, body.id):
                raise Problem(NO_SUCH_KEY, f"The account has no key {body.id}")
        return answer({})

    @contextmanager
    def _step(self, request: Request) -> Iterator[None]:
        """Be within a step that anybody may take; raises Failed where it is one too many.

        A page of anybody can have its visitor's browser load images from here, so what a browser
        wants for anything but a page, or before somebody goes there, is refused, and not counted
        for the visitor's address.
        """
        headers = request.headers
        if headers.get("sec-fetch-dest", "document") != "document" or "sec-purpose" in headers:
            raise Failed("embedded")
        client = request.client
        if not self._pace.take(paces.network(client.host if client else "")):
            raise Failed("often")
        if not self._steps.enter(BEGIN):
            raise Failed("busy")
        try:
            yield
        finally:
            self._steps.leave(BEGIN)

    def _failed(self, failure: Failed) -> Response:
        SIGN_INS.labels(failure.reason).inc()
        log.warning("a sign-in failed", reason=failure.reason, detail=failure.detail)
        return page.failed(failure)

    def _forget(self, response: Response) -> None:
        response.delete_cookie(
            self._cookie, path="/", secure=self._is_secure, httponly=True, samesite="lax"
        )


def _parameters(query: bytes) -> dict[str, str]:
    """Return what a browser comes back with, each once; raises Failed."""
    if len(query) > _LONGEST_QUERY:
        raise Failed("malformed")
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS,
            errors="strict",
        )  # fmt: skip
    except ValueError:
        raise Failed("malformed") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Failed("malformed", "a parameter comes twice")
    return found


def _values(headers: Iterable[tuple[bytes, bytes]], prefix: bytes) -> list[str]:
    return [
        value
        for name, header in headers
        if name == b"cookie"
        for value in cookies.values_of(header, prefix)
    ]
