"""The door: a request under `/pay` with a payment becomes one with a grant, and its answer is sold.

ASGI middleware around the gate. It translates only: the path without `/pay` goes through the gate,
with the grant of the payment, to the same routes as with a key. The order is what makes it safe:
verify, answer, store the answer, settle, send, mark. `api.pay.book` has the states.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from math import inf
from time import monotonic
from typing import Any, Final

import anyio
import orjson
import structlog
from cachetools import TTLCache
from redis.exceptions import RedisError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.charge import STORE
from api.access.failures import FAILURES, WINDOW_S, Failures
from api.access.grants import Grant
from api.access.in_flight import InFlight
from api.access.paces import network
from api.access.script import Asks
from api.http.dispatch import Routes
from api.http.errors import (
    BUSY,
    CONCURRENCY_EXCEEDED,
    METHOD_NOT_ALLOWED,
    NO_FACILITATOR,
    NOT_FOUND,
    PAYMENT_BUSY,
    PAYMENT_UNSETTLED,
    PAYMENTS_FULL,
    TOO_MANY_FAILURES,
    Problem,
)
from api.http.guard import CUT_SHORT
from api.http.replies import Answer as Reply
from api.pay import book, metrics, payment
from api.pay.awaited_bodies import AwaitedBodies, NoPlace
from api.pay.book import Answer, Book, Claim, NotOwner
from api.pay.chain import Chain
from api.pay.facilitator import Facilitator, FacilitatorAway, Garbled
from api.pay.payment import NoPayment, Payment
from api.pay.room import NoRoom
from api.pay.settlement import Failed, Outcome, Settled, Settlement, Unknown
from api.pay.terms import NETWORKS, PRICE_RAW, Terms, header
from api.stores.clients import unavailable
from infra.settings import Settings, SettingsError
from schemas.plans import ENTERPRISE
from schemas.solana.addresses import NoAddress, check
from schemas.times import HOUR_S

log = structlog.get_logger(__name__)

PREFIX: Final = "/pay"
HEALTH: Final = "/pay/__402/health"
_SOLD: Final = "/api/wallets/"
_END_WITHIN_S: Final = 2.0
_END_SEEN_WITHIN_S: Final = 0.02
"""Wait of each paid answer for the end of its connection: little beside a settlement."""
SHARE: Final = 2
"""Payments take at most one in so many of a process's requests: keys keep the rest."""
_RETRY_AFTER_S: Final = 2
_RETRY_AFTER: Final = {"Retry-After": str(_RETRY_AFTER_S)}
_UNSETTLED_KEPT: Final = 10_000
_NOT_KEPT: Final = (b"cache-control", b"no-store")
_JSON: Final = (b"content-type", b"application/json")
# Not for the routes: what pays, who asks, and conditions under which there would be no content.
_HELD_BACK: Final = frozenset(
    {*payment.HEADERS, b"x-api-key", b"cookie", b"if-none-match", b"if-modified-since", b"range"}
)


class Till:
    """What the door takes payments with: Redis, the facilitator and a node."""

    def __init__(self, settings: Settings, redis: Asks) -> None:
        """Build all; raises SettingsError where a setting is missing or wrong."""
        self.book = Book(redis, settings.pay_answers_mib << 20)
        self.terms = terms_of(settings)
        self.most_in_flight = max(1, settings.api_max_concurrent // SHARE)
        self.most_of_an_address = settings.api_max_concurrent_per_key
        assert settings.x402_facilitator_url is not None
        assert settings.rpc_endpoint is not None
        self.facilitator = Facilitator(settings.x402_facilitator_url, self.terms)
        self._chain = Chain(settings.rpc_endpoint)
        self.settlement = Settlement(self.facilitator, self._chain, self.terms)
        self.settling: set[asyncio.Task[Outcome]] = set()
        self.unwaited: set[asyncio.Task[None]] = set()  # settlements whose callers were answered

    async def aclose(self) -> None:
        """Wait for settlements that callers did not wait for; give the connections back."""
        if pending := {*self.settling, *self.unwaited}:
            await asyncio.wait(pending, timeout=_END_WITHIN_S)
        await self.facilitator.close()
        await self._chain.close()


class Door:
    """ASGI middleware: takes what is under `/pay`, passes all else on."""

    def __init__(self, app: ASGIApp, routes: Routes, till: Till) -> None:
        self._app = app
        self._routes = routes
        self._till = till
        self._book = till.book
        self._terms = till.terms
        self._facilitator = till.facilitator
        self._settlement = till.settlement
        self._failures = Failures()  # payments that bought nothing, after somebody was asked
        # When this process last said of a payment, by id, that its outcome is not known.
        self._unsettled_s: TTLCache[str, float] = TTLCache(_UNSETTLED_KEPT, HOUR_S)
        self._bodies = AwaitedBodies(till.most_in_flight)
        self._of_address = InFlight(till.most_of_an_address)
        self._most = till.most_in_flight
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path == PREFIX or path.startswith(f"{PREFIX}/")):
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await Reply(204, b"", (b"allow", b"GET, HEAD, POST"))(scope, receive, send)
        elif path == HEALTH:
            await (await self._health())(scope, receive, send)
        else:
            try:
                await self._sell(scope, receive, send)
            except (RedisError, OSError) as error:
                problem = unavailable(STORE, error)
                raise scope["state"].get(CUT_SHORT, problem) from None

    async def _health(self) -> Reply:
        status, state = 200, "ok"
        try:
            await self._facilitator.fee_payers()
        except FacilitatorAway as error:
            status, state = 503, str(error)
        answer = {
            "status": "ok" if status == 200 else "unavailable",
            "facilitator": state,
            "network": self._terms.network,
            "asset": self._terms.asset,
            "pay_to": self._terms.pay_to,
            "amount_raw": str(PRICE_RAW),
        }
        return Reply(status, orjson.dumps(answer), _JSON, _NOT_KEPT)

    async def _sell(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = _inner(scope)
        self._check_path(inner)
        url = _url(scope)
        try:
            value = payment.sent(scope["headers"])
            if value is None or "is_head" in scope["state"]:  # nobody pays for no body
                await (await self._challenge("payment required", url))(scope, receive, send)
                return
            paid = payment.parse(value, self._terms)
            await self._check_fee_payer(paid)
        except NoPayment as refusal:
            metrics.FAILURES.labels("refused").inc()
            await (await self._challenge(str(refusal), url))(scope, receive, send)
            return
        address = _address(scope)
        if paid.id not in self._unsettled_s:  # else Redis says if it is settled: it may be by now
            self._check_failures(address)
        body, is_awaited = b"", False
        if scope["method"] == "POST":
            body, is_awaited = await self._body(address, receive)
        with self._entered(address) as place:
            await self._take(paid, inner, body, (scope, receive, send), is_awaited, place)

    async def _check_fee_payer(self, paid: Payment) -> None:
        """Refuse a payment that the facilitator does not settle, or not now; raises NoPayment.

        Not one that may be settled: its payer gets what it bought also from a facilitator that is
        away, or has other wallets by now.
        """
        refusal: Exception = NoPayment(
            "the transaction's fee payer is not the challenge's `feePayer`"
        )
        try:
            if paid.fee_payer in await self._facilitator.fee_payers():
                return
        except FacilitatorAway as error:
            refusal = _no_facilitator(error)
        if not await self._book.may_be_settled(paid.id):
            raise refusal

    async def _body(self, address: str, receive: Receive) -> tuple[bytes, bool]:
        """Return the body of a request, and whether it was awaited.

        Raises Problem and ClientDisconnect; a body that does not come whole counts.
        """
        try:
            return await self._bodies.read(network(address), receive)
        except NoPlace:
            metrics.FAILURES.labels("bound").inc()
            raise
        except BaseException:  # the time of the request may be up as well
            metrics.FAILURES.labels("body").inc()
            self._failures.refused(address)
            raise

    def _check_failures(self, address: str) -> None:
        """Raise Problem where too many payments of an address bought nothing."""
        if self._failures.are_too_many(address):
            metrics.FAILURES.labels("bound").inc()
            raise Problem(
                TOO_MANY_FAILURES,
                f"{FAILURES} payments from this address bought nothing within a minute; see why in "
                "the answers before, and retry later",
                headers={"Retry-After": str(int(WINDOW_S))},
            )

    @contextmanager
    def _entered(self, address: str) -> Iterator[ExitStack]:
        """Count a payment in while the context lasts, or until what it took over is closed.

        Raises Problem where there is no room.
        """
        if self._running >= self._most:
            metrics.FAILURES.labels("bound").inc()
            raise Problem(
                BUSY,
                "As many payments as this server takes at once are being answered; retry in 2 s",
                headers=_RETRY_AFTER,
            )
        caller = network(address)
        if not self._of_address.enter(caller):
            metrics.FAILURES.labels("bound").inc()
            raise Problem(
                CONCURRENCY_EXCEEDED,
                f"At most {self._of_address.most} payments from one address are taken at once; "
                "send the next one when another has ended",
                headers=_RETRY_AFTER,
            )
        self._running += 1

        def leave() -> None:
            self._running -= 1
            self._of_address.leave(caller)

        with ExitStack() as place:
            place.callback(leave)
            yield place

    async def _take(
        self,
        paid: Payment,
        inner: Scope,
        body: bytes,
        caller: tuple[Scope, Receive, Send],
        is_awaited: bool,
        place: ExitStack,
    ) -> None:
        """Answer a request that sends a payment for these terms; `is_awaited`: its body was."""
        scope, receive, send = caller
        parts = [str(scope["method"]).encode(), _raw(inner), inner["query_string"], body]
        claim = await self._book.claim(paid.id, book.bound(parts))
        if claim == "other":
            self._failures.refused(_address(scope))
            metrics.FAILURES.labels("conflict").inc()
            reason = "the payment was sent with another request; it pays for that one only"
            await (await self._challenge(reason, _url(scope)))(scope, receive, send)
            return
        if not isinstance(claim, Claim):
            if is_awaited:  # it held a place, and a payment that buys nothing more is free
                self._failures.refused(_address(scope))
            metrics.FAILURES.labels("conflict").inc()
            raise _conflict(claim)
        try:
            async with _renewed(claim, self._till.unwaited, place):
                await self._deliver(claim, paid, inner, body, caller, place)
        except NotOwner:
            metrics.FAILURES.labels("conflict").inc()
            raise _conflict("busy") from None

    async def _deliver(
        self,
        claim: Claim,
        paid: Payment,
        inner: Scope,
        body: bytes,
        caller: tuple[Scope, Receive, Send],
        place: ExitStack,
    ) -> None:
        scope, receive, send = caller
        url = _url(scope)
        state = claim.state
        if state != "settled":
            self._check_failures(_address(scope))
        if state == "claimed":
            made = await self._make(claim, paid, inner, body, url)
            scope["route"] = inner.get("route")  # for the edge's metrics
            if made is not None:
                await made(scope, receive, send)
                return
        # From here on the payment may be settled although this request ends without an answer.
        scope["state"][CUT_SHORT] = _unsettled()
        outcome = (
            Settled(claim.settlement or {})
            if state == "settled"
            else await self._settle(claim, paid, url, _address(scope), is_first=state == "claimed")
        )
        if isinstance(outcome, Failed):
            self._unsettled_s.pop(paid.id, None)
            self._failures.refused(_address(scope))
            failed = await self._challenge(f"settlement failed: {outcome.reason}", url)
            failed.raw_headers += _settlement_headers(outcome.response, paid)
            await failed(scope, receive, send)
            return
        if not isinstance(outcome, Settled):
            metrics.FAILURES.labels("unknown").inc()
            raise _unsettled()
        answer = claim.answer
        assert answer is not None, "stored before it is settled"
        headers = [*answer.headers, _NOT_KEPT, *_settlement_headers(outcome.response, paid)]
        kept = [each for each in headers if each[0] != b"etag"]
        await send({"type": "http.response.start", "status": answer.status, "headers": _once(kept)})
        gone = await _is_gone(receive)
        await send({"type": "http.response.body", "body": answer.body})
        place.close()  # its payer may send the next one, whatever is still noted of this one
        if not gone:
            await claim.deliver()
            self._unsettled_s.pop(paid.id, None)

    async def _settle(
        self, claim: Claim, paid: Payment, url: str, address: str, *, is_first: bool
    ) -> Outcome:
        """Settle a payment whose answer is stored, or find out if it was.

        While that is not known, the first attempt counts for the address, as its answer is kept for
        an hour; and each repeat that does not wait for its time, as a look asks the node for much.
        """
        retry_at_s = self._unsettled_s.get(paid.id, -inf) + _RETRY_AFTER_S
        counts = is_first or monotonic() < retry_at_s

        def unknown() -> None:
            self._unsettled_s[paid.id] = monotonic()
            if counts:
                self._failures.refused(address)

        try:
            if not is_first and claim.sight is None:  # the node was away; it begins to count now
                await claim.see(await self._settlement.sight(paid))
            settle = self._settlement.first if is_first else self._settlement.again
            outcome = await self._settled(claim, settle(paid, url, claim.sight))
        except asyncio.CancelledError:  # too late, and the look goes on
            unknown()
            raise
        if isinstance(outcome, Unknown):
            unknown()
        return outcome

    async def _make(
        self, claim: Claim, paid: Payment, inner: Scope, body: bytes, url: str
    ) -> ASGIApp | None:
        """Verify a payment, make its answer and store it; return what to send where that fails."""
        is_verified = is_stored = False
        try:
            self._book.room.check()
            try:
                verified, sight = await asyncio.gather(
                    self._facilitator.verify(paid, url), self._settlement.sight(paid)
                )
            except FacilitatorAway as error:
                metrics.FAILURES.labels("facilitator").inc()
                if isinstance(error, Garbled):
                    self._failures.refused(_address(inner))
                raise _no_facilitator(error) from None
            if not verified.is_valid:
                self._failures.refused(_address(inner))
                metrics.FAILURES.labels("refused").inc()
                reason = verified.invalid_reason or "the payment is not valid"
                return await self._challenge(reason, url)
            is_verified = True
            inner["state"]["grant"] = _grant(verified.payer or paid.accounts[1])
            answer = await _answered(self._app, inner, body)
            if answer.status >= 400:  # what failed is not paid for
                metrics.FAILURES.labels("answer").inc()
                return _Whole(answer)
            await claim.see(sight)
            caller = network(_address(inner))
            await claim.store(answer, f"{inner['method']} {inner['path']}", caller)
            is_stored = True
            return None
        except NoRoom:
            is_verified = False  # no fault of the payer's
            metrics.FAILURES.labels("room").inc()
            raise Problem(
                PAYMENTS_FULL,
                "As many paid answers wait for their payers as this server keeps; nothing was "
                "paid. Retry in some seconds, or use an API key",
                headers=_RETRY_AFTER,
            ) from None
        finally:
            if not is_stored:
                if is_verified:  # it was worked for, and nobody pays
                    self._failures.refused(_address(inner))
                await asyncio.shield(claim.drop())

    async def _settled(self, claim: Claim, settling: Awaitable[Outcome]) -> Outcome:
        """Settle, and note it, whether the caller waits for it or not."""

        async def settle() -> Outcome:
            outcome = await settling
            if isinstance(outcome, Settled):
                await claim.settle(outcome.response)
                metrics.PAYMENTS.inc()
                metrics.REVENUE.inc(PRICE_RAW)
            elif isinstance(outcome, Failed):
                metrics.FAILURES.labels("settlement").inc()
                await claim.drop()
            return outcome

        task = claim.settling = asyncio.create_task(settle())
        self._till.settling.add(task)
        task.add_done_callback(self._till.settling.discard)
        return await asyncio.shield(task)

    def _check_path(self, inner: Scope) -> None:
        """Raise Problem where there is nothing to sell: such a request is not asked to pay."""
        path = inner["path"]
        if not path.startswith(_SOLD):
            raise Problem(NOT_FOUND, "Only the paths under /pay/api/wallets are sold by the call")
        if self._sells(inner):
            return
        others = [each for each in ("GET", "POST") if self._sells({**inner, "method": each})]
        if not others:
            raise Problem(NOT_FOUND, "No such path; /docs lists all paths")
        raise Problem(
            METHOD_NOT_ALLOWED,
            f"Use {' or '.join(others)}",
            headers={"Allow": ", ".join(others)},
        )

    def _sells(self, inner: Scope) -> bool:
        found = self._routes.find(inner)
        return found is not None and not found[0].is_refusal

    async def _challenge(self, error: str, url: str) -> Reply:
        """Return a challenge; raises Problem where no facilitator would settle what it asks for."""
        try:
            fee_payer, *_ = await self._facilitator.fee_payers()
        except FacilitatorAway as away:
            raise _no_facilitator(away) from None
        metrics.CHALLENGES.inc()
        challenge = self._terms.challenge(fee_payer, url, error)
        return Reply(402, challenge, _JSON, _NOT_KEPT, (b"payment-required", header(challenge)))


class _Whole:
    """An answer that is passed on as it is."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """Send it."""
        status, headers = self._answer.status, [*self._answer.headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self._answer.body})


def terms_of(settings: Settings) -> Terms:
    """Return what a call costs by the settings; raises SettingsError."""
    lacking = [
        name.upper()
        for name in ("x402_facilitator_url", "pay_to", "rpc_endpoint")
        if getattr(settings, name) is None
    ]
    if lacking:
        raise SettingsError(f"pay per call needs {' and '.join(lacking)}")
    assert settings.pay_to is not None
    assert settings.pay_network in NETWORKS
    for name in ("pay_to", "pay_asset"):
        try:
            check(getattr(settings, name))
        except NoAddress as error:
            raise SettingsError(f"{name.upper()}: {error}") from None
    return Terms(settings.pay_network, settings.pay_asset, settings.pay_to)


@asynccontextmanager
async def _renewed(
    claim: Claim, unwaited: set[asyncio.Task[None]], place: ExitStack
) -> AsyncIterator[None]:
    """Keep a claim while the context lasts; give it back at its end.

    A settlement that is under way then keeps it and its place for as long, in a task among
    `unwaited`.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(book.RENEWED_S)
            with suppress(RedisError, OSError):
                await claim.renew()

    async def leave() -> None:
        if claim.settling is not None:  # goes on although the caller's time is over
            await asyncio.wait([claim.settling])
            if not claim.settling.cancelled() and (error := claim.settling.exception()):
                log.warning("settlement not noted", reason=repr(error))
        renewing.cancel()
        with suppress(NotOwner, RedisError, OSError):  # dropped, or another's
            await claim.leave()

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        leaving = asyncio.create_task(leave())
        if claim.settling is None or claim.settling.done():
            await asyncio.shield(leaving)
        else:
            kept = place.pop_all()
            unwaited.add(leaving)
            leaving.add_done_callback(unwaited.discard)
            leaving.add_done_callback(lambda _: kept.close())


def _inner(scope: Scope) -> Scope:
    """Return the scope of the same request with a key."""
    raw = scope.get("raw_path") or b""
    return {
        **scope,
        "path": scope["path"].removeprefix(PREFIX),
        "raw_path": raw.removeprefix(PREFIX.encode()),
        "headers": [each for each in scope["headers"] if each[0] not in _HELD_BACK],
        "state": {**scope["state"]},
    }


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _raw(inner: Scope) -> bytes:
    return str(inner["path"]).encode("utf-8", "surrogateescape")


def _url(scope: Scope) -> str:
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    query = scope["query_string"].decode("latin-1")
    place = f"{scope.get('scheme', 'http')}://{host.decode('latin-1')}{scope['path']}"
    return f"{place}?{query}" if query else place


def _grant(payer: str) -> Grant:
    """Return leave for one request, which has the limits of no plan but those of all requests."""
    return Grant(sha256(f"pay:{payer}".encode()).hexdigest(), ENTERPRISE, "", 0, 1, 0, 0)


async def _answered(app: ASGIApp, inner: Scope, body: bytes) -> Answer:
    """Return the answer of an application as a value; raises what it raises."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    start: dict[str, Any] = {}
    parts: list[bytes] = []

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    await app(inner, receive, send)
    return Answer(start["status"], tuple(start.get("headers", ())), b"".join(parts))


async def _is_gone(receive: Receive) -> bool:
    """Return whether the caller has closed the connection.

    The server stops reading while another request waits on the connection, and then it cannot see
    the end of it. `receive` makes it read on: what is there is seen in the loop's next rounds.
    """
    with anyio.move_on_after(_END_SEEN_WITHIN_S):
        for _ in range(2):  # the first one may be the end of the body
            if (await receive())["type"] == "http.disconnect":
                return True
    return False


def _settlement_headers(response: dict[str, Any], paid: Payment) -> list[tuple[bytes, bytes]]:
    value = header(orjson.dumps(response))
    name = b"payment-response" if paid.version == 2 else b"x-payment-response"
    return [(name, value)]


def _once(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers with the last value of each name."""
    return [*dict(headers).items()]


def _unsettled() -> Problem:
    return Problem(
        PAYMENT_UNSETTLED,
        "It is not known yet if the payment was settled; repeat the same request with the same "
        "payment: it is not paid twice",
        headers=_RETRY_AFTER,
    )


def _conflict(why: str) -> Problem:
    if why == "delivered":
        return Problem(PAYMENT_BUSY, "The payment's answer was delivered; make a new payment")
    return Problem(
        PAYMENT_BUSY,
        "Another request with this payment is being answered; repeat the request if that one fails",
        headers=_RETRY_AFTER,
    )


def _no_facilitator(error: Exception) -> Problem:
    log.warning("facilitator does not answer", reason=str(error))
    return Problem(
        NO_FACILITATOR,
        "The facilitator does not answer, so payments cannot be taken; this request paid nothing. "
        "Retry in 2 s with the same payment, or use an API key",
        headers=_RETRY_AFTER,
    )
