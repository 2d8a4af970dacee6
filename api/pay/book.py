"""The state of payments in Redis, where all processes see it, each change in one step.

A payment is bound to one request and belongs to one owner at a time, by a lease that the owner
renews. An owner that was killed loses it within `LEASE_S`; the same request then goes on where the
owner ended. States, in order:

- claimed: nothing is stored; the payment was not given to the facilitator for settlement.
- stored: the answer is here, and the payment may be settled.
- settled: the payment is on the chain; the answer waits to be delivered, for `KEPT_S`.
- delivered: the last byte was sent. The payment buys nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, Literal, cast

import orjson
from redis.exceptions import ResponseError

from api.access.script import Asks, load
from api.http import compression
from api.pay.chain import Sight
from api.pay.room import Room
from schemas.redis_keys import PAYMENT
from schemas.times import HOUR_S

LEASE_S: Final = 6.0
RENEWED_S: Final = 1.5
KEPT_S: Final = 600
"""How long the answer of a settled payment can be had by the same request."""
_CLAIMED_S: Final = 120
_STORED_S: Final = HOUR_S

_CLAIM: Final = load("claim", __package__)
_STEP: Final = load("step", __package__)
_DROP: Final = load("drop", __package__)
_CLAIM_WHEN_FULL: Final = _CLAIM.when_full()
_STEP_WHEN_FULL: Final = _STEP.when_full()
_GZIP: Final = "gzip"

Refusal = Literal["busy", "other", "delivered"]


class NotOwner(Exception):
    """The lease ended, and another request owns the payment."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was made."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    async def pack(self) -> bytes:
        """Return the bytes that are stored: a line of JSON, then the body as gzip."""
        pairs = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers]
        head = orjson.dumps([self.status, pairs, _GZIP])
        return head + b"\n" + await compression.compress(self.body)

    @classmethod
    async def unpack(cls, data: bytes) -> Answer:
        """Return what was packed."""
        head, _, body = data.partition(b"\n")
        status, pairs, *coding = orjson.loads(head)
        if coding:  # earlier versions packed without; theirs are kept for an hour
            body = await compression.decompress(body)
        headers = ((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
        return cls(status, tuple(headers), body)


class Claim:
    """One payment, owned for one request. Every method raises RedisError, and NotOwner."""

    def __init__(
        self,
        book: Book,
        payment: str,
        owner: str,
        state: str,
        answer: Answer | None = None,
        settlement: bytes = b"",
        sight: bytes = b"",
    ) -> None:
        self._redis = book.redis
        self._room = book.room
        self._payment = payment
        self._keys = [PAYMENT.make(id=payment)]
        self._owner = owner
        self.state = state  # claimed, stored or settled
        self.answer = answer
        self.settling: asyncio.Task[Any] | None = None  # the attempt to settle it, once begun
        self.sight = Sight(**orjson.loads(sight)) if sight else None
        self.settlement: dict[str, Any] | None = orjson.loads(settlement) if settlement else None

    async def renew(self) -> None:
        """Keep the payment for another lease."""
        await self._step(LEASE_S, 0)

    async def see(self, sight: Sight | None) -> None:
        """Keep what a node knows of the payment's blockhash before it is settled."""
        if sight is not None:
            await self._step(LEASE_S, 0, sight=orjson.dumps(asdict(sight)))
            self.sight = sight

    async def store(self, answer: Answer, path: str, caller: str = "") -> None:
        """Keep the answer, and what it is of; from here on the payment may be settled.

        It takes room of the caller's share; raises NoRoom.
        """
        packed = await answer.pack()
        await self._room.take(self._payment, len(packed), _STORED_S, caller)
        await self._step(LEASE_S, _STORED_S, state="stored", answer=packed, path=path)
        self.state, self.answer = "stored", answer

    async def settle(self, settlement: dict[str, Any]) -> None:
        """Note that the payment is on the chain."""
        data = orjson.dumps(settlement)
        await self._step(LEASE_S, KEPT_S, state="settled", settlement=data)
        await self._room.keep(self._payment, KEPT_S)
        self.state, self.settlement = "settled", settlement

    async def deliver(self) -> None:
        """Note that the last byte was sent."""
        await self._step(0, KEPT_S, state="delivered", answer=b"")
        await self._room.leave(self._payment)

    async def leave(self) -> None:
        """Give the lease back: the same request may go on at once."""
        await self._step(0, 0)

    async def drop(self) -> None:
        """Forget the payment: it was not settled, and may be sent again."""
        if await _DROP.run(self._redis, self._keys, [self._owner]):
            await self._room.leave(self._payment)

    async def _step(self, lease_s: float, ttl_s: float, **fields: str | bytes) -> None:
        flat = [part for pair in fields.items() for part in pair]
        arguments = [self._owner, int(lease_s * 1000), int(ttl_s * 1000), *flat]
        # A full Redis takes no further answer, and all that is left to do for one it has.
        step = _STEP if fields.get("answer") else _STEP_WHEN_FULL
        if not await step.run(self._redis, self._keys, arguments):
            raise NotOwner


class Book:
    """The payments of all processes."""

    def __init__(self, redis: Asks, most_bytes: int) -> None:
        """`most_bytes` are those of all answers that are kept."""
        self.redis = redis
        self.room = Room(redis, most_bytes)

    async def claim(self, payment: str, request: str) -> Claim | Refusal:
        """Take a payment (its id) for a request (`bound`), or say why not; raises RedisError."""
        owner = token_hex(8)
        names = [PAYMENT.make(id=payment)]
        arguments = [request, owner, int(LEASE_S * 1000), _CLAIMED_S * 1000]
        try:
            found = await _CLAIM.run(self.redis, names, arguments)
        except ResponseError as error:
            if not str(error).startswith("OOM"):
                raise
            # One that is stored can be had from a full Redis; a new one is refused.
            [is_known] = await self.redis.ask([("EXISTS", *names)])
            if not is_known:
                raise
            found = await _CLAIM_WHEN_FULL.run(self.redis, names, arguments)
        state = found[0].decode()
        if state in ("busy", "other", "delivered"):
            return cast("Refusal", state)
        if state == "new":
            return Claim(self, payment, owner, "claimed")
        answer = await Answer.unpack(found[1]) if found[1] else None
        return Claim(self, payment, owner, state, answer, found[2], found[3])

    async def may_be_settled(self, payment: str) -> bool:
        """Return whether an answer was stored for a payment; raises RedisError."""
        [state] = await self.redis.ask([("HGET", PAYMENT.make(id=payment), "state")])
        return state not in (None, b"claimed")


def bound(parts: Iterable[bytes]) -> str:
    """Return the SHA-256, in hex, of what a payment is bound to."""
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()
