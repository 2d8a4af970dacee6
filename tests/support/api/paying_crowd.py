"""Clients that pay at once, and API processes on one port of which one after another is killed.

What each client was given is kept with the address of its connection, which stays open; what each
killed process had is kept as of a moment at which all processes were stopped. So a second delivery
can be held against the state of its payment when the process of the first one ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from base64 import b64decode
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

import httpx
import orjson
import psutil
from redis.exceptions import RedisError
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from api.pay import buying
from api.pay.terms import PRICE_RAW
from infra.redis.asks import Pipelined
from schemas.redis_keys import PAYMENT
from tests.support.api.paying import USDC
from tests.support.api.served import Served
from tests.support.waiting import WITHIN_S, eventually, without_error_async

MOMENTS = ("claimed", "stored", "answer")
"""Of a payment as its process is killed: while it is verified and its answer made; while it is
settled; with the answer's first byte at its client."""
_LOOK_S = 0.003
_PATIENT_S = 120.0
_BUSY = (503, 504)  # the facilitator, or this machine

Peer = tuple[str, int]
"""A client's end of a connection."""


@dataclass
class Purchase:
    """A payment for one request, and what was had for it."""

    id: str  # SHA-256 of its message, in hex
    path: str  # behind /pay
    header: str
    peers: set[Peer] = field(default_factory=set)  # of its requests in flight
    delivered: list[tuple[Peer, bytes]] = field(default_factory=list)  # whole answers
    is_shown: bool = False  # a status 200 was seen
    is_refused: bool = False  # 402
    others: list[int] = field(default_factory=list)  # what it was answered for another request
    last: str = ""  # what its own request was answered last, or why it was not


@dataclass(frozen=True)
class Kill:
    """A process as it was when it was killed, and all payments by id."""

    moment: str
    peers: frozenset[Peer]
    states: dict[str, str]


class Fleet:
    """API processes on one port."""

    def __init__(self, start: Callable[[], AbstractContextManager[Served]], size: int) -> None:
        self._start = start
        self._stack = ExitStack()
        self.stopped_s = 0.0  # when they were stopped last, by the monotonic clock
        with ThreadPoolExecutor(size) as pool:
            self._running = [*pool.map(lambda _: self._started(), range(size))]
        self.url = self._running[0].url

    def close(self) -> None:
        """End all."""
        self._stack.close()

    def stop(self) -> None:
        """Stop all of them where they are (SIGSTOP)."""
        self.stopped_s = time.monotonic()
        for each in self._running:
            each.process.send_signal(signal.SIGSTOP)
        for each in self._running:
            process = psutil.Process(each.process.pid)
            eventually(lambda process=process: process.status() == psutil.STATUS_STOPPED)

    def kill(self, peer: Peer) -> frozenset[Peer] | None:
        """Kill the stopped process that has a connection.

        Return all connections that it had; None where no process has that one.
        """
        for each in self._running:
            peers = _peers(each.process.pid)
            if peer in peers:
                each.process.kill()
                each.process.wait(60)
                self._running.remove(each)
                return peers
        return None

    def resume(self) -> None:
        """Let those that were stopped go on."""
        for each in self._running:
            os.kill(each.process.pid, signal.SIGCONT)

    def replace(self) -> None:
        """Start another one in the place of the one that was killed."""
        self._running.append(self._started())

    def _started(self) -> Served:
        return self._stack.enter_context(self._start())


class Crowd:
    """Clients that buy one answer after another, each from an address of its own."""

    def __init__(
        self,
        url: str,
        blockhash: Callable[[], object],
        wallets: list[Keypair],
        subjects: list[str],
        seed: int,
    ) -> None:
        """`wallets` pay for answers about `subjects`."""
        self._url = url
        self._blockhash = blockhash
        self._wallets = wallets
        self._subjects = subjects
        self._random = Random(seed)
        self._kept = AsyncExitStack()
        self.purchases: list[Purchase] = []
        self.is_over = False
        self.answered: Callable[[Peer], None] | None = None
        """Called once, at the next answer's first byte."""

    async def run(self, clients: int) -> None:
        """Buy until it is over; every payment is pursued to its end."""
        await asyncio.gather(*(self._client(f"127.0.1.{number + 1}") for number in range(clients)))

    async def close(self) -> None:
        """Close all connections."""
        await self._kept.aclose()

    async def had(self, purchase: Purchase, address: str) -> bool:
        """Repeat a request until its answer is there; False if it is refused."""
        began_s = time.monotonic()
        while not purchase.delivered and not purchase.is_refused:
            assert time.monotonic() < began_s + WITHIN_S, f"{purchase.id}: {purchase.last}"
            replays = self._random.choice((1, 1, 2, 4))
            sent = [self._send(purchase, purchase.path, address) for _ in range(replays)]
            await asyncio.gather(*sent)
            await asyncio.sleep(self._random.uniform(0.1, 0.4))
        return bool(purchase.delivered)

    async def _client(self, address: str) -> None:
        while not self.is_over:
            if (purchase := await self._paid(address)) is None:
                await asyncio.sleep(self._random.uniform(0.1, 0.4))
            elif await self.had(purchase, address):
                await self._send(purchase, purchase.path, address)
                [subject] = self._random.sample(self._subjects, 1)
                if (other := _path(subject)) != purchase.path:
                    await self._send(purchase, other, address)

    async def _paid(self, address: str) -> Purchase | None:
        """Return a payment that was made for a challenge, None where a process was killed."""
        path = _path(self._random.choice(self._subjects))
        try:
            async with _client(address) as client:
                answer = await client.get(f"{self._url}/pay{path}")
        except httpx.TransportError:
            return None
        if answer.status_code != 402:
            assert answer.status_code in _BUSY, answer.text
            return None
        challenge = answer.json()
        accepted = buying.chosen(challenge, USDC, PRICE_RAW)
        wallet = self._random.choice(self._wallets)
        blockhash = str(self._blockhash())
        header = buying.signed(accepted, challenge["resource"], wallet, blockhash)
        wire = b64decode(orjson.loads(b64decode(header))["payload"]["transaction"])
        purchase = Purchase(id_of(wire), path, header)
        self.purchases.append(purchase)
        return purchase

    async def _send(self, purchase: Purchase, path: str, address: str) -> None:
        peer: Peer | None = None
        is_own = path == purchase.path

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal peer
            if event == "connection.connect_tcp.complete":
                found: Any = info["return_value"].get_extra_info("client_addr")
                peer = (found[0], found[1])
                purchase.peers.add(peer)
            elif (
                event == "http11.receive_response_headers.complete"
                and info["return_value"][1] == 200
            ):
                purchase.is_shown = True
                answered, self.answered = self.answered, None
                if answered is not None and peer is not None:
                    answered(peer)

        client = _client(address)
        kept = False
        try:
            headers = {"payment-signature": purchase.header}
            answer = await client.get(
                f"{self._url}/pay{path}", headers=headers, extensions={"trace": trace}
            )
            if not is_own:
                purchase.others.append(answer.status_code)
                return
            purchase.last = f"{answer.status_code} {answer.text[:300]}"
            if answer.status_code == 200:
                assert peer is not None
                purchase.delivered.append((peer, answer.content))
                kept = True
                self._kept.push_async_callback(client.aclose)
            elif answer.status_code == 402:
                purchase.is_refused = True
            else:
                assert answer.status_code in (409, 429, *_BUSY), answer.text
        except httpx.TransportError as error:
            if is_own:
                purchase.last = repr(error)
        finally:
            if peer is not None:
                purchase.peers.discard(peer)
            if not kept:
                await client.aclose()


class Killer:
    """Kills processes of a fleet at chosen moments of a crowd's payments."""

    def __init__(self, fleet: Fleet, crowd: Crowd, redis: Pipelined) -> None:
        self._fleet = fleet
        self._crowd = crowd
        self._redis = redis
        self.kills: list[Kill] = []

    async def kill(self, moment: str) -> None:
        """Wait for a moment of some payment, kill the process that has it, start another one."""
        while True:
            async with asyncio.timeout(WITHIN_S):
                peer = await (self._answer() if moment == "answer" else self._state(moment))
            await self._ask([("PING",)])  # what the stopped ones have sent was executed
            states = await self._states([each.id for each in self._crowd.purchases])
            peers = self._fleet.kill(peer)
            await self._prolong_leases(states)
            self._fleet.resume()
            if peers is not None:
                break
        self.kills.append(Kill(moment, peers, states))
        await asyncio.to_thread(self._fleet.replace)

    async def _answer(self) -> Peer:
        """Stop all processes at the first byte of an answer; return whose it is."""
        seen: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

        def answered(peer: Peer) -> None:
            self._fleet.stop()
            seen.set_result(peer)

        self._crowd.answered = answered
        return await seen

    async def _state(self, wanted: str) -> Peer:
        """Stop all processes while some payment is in a state; return the end of its request."""
        while True:
            # In flight, without a replay.
            alone = [each for each in self._crowd.purchases if len(each.peers) == 1]
            states = await self._states([each.id for each in alone])
            for each in alone:
                if states.get(each.id) == wanted and len(each.peers) == 1:
                    self._fleet.stop()
                    return next(iter(each.peers))
            await asyncio.sleep(_LOOK_S)

    async def _prolong_leases(self, ids: Iterable[str]) -> None:
        """Add to the leases of some payments the time that their owners were stopped.

        A stop is no part of the product: those that go on must not lose a payment by it.
        """
        stopped_ms = int((time.monotonic() - self._fleet.stopped_s) * 1000)
        names = [PAYMENT.make(id=each) for each in ids]
        await self._ask([("HINCRBY", name, "lease_until_ms", stopped_ms) for name in names])

    async def _ask(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Ask Redis, again where the machine was too busy for an answer: each may be sent twice."""
        return await without_error_async(lambda: self._redis.ask(commands), RedisError)

    async def _states(self, ids: list[str]) -> dict[str, str]:
        """Return the states of those of some payments that Redis knows."""
        if not ids:
            return {}
        found = await self._ask([("HGET", PAYMENT.make(id=each), "state") for each in ids])
        return {each: state.decode() for each, state in zip(ids, found, strict=True) if state}


def id_of(wire: bytes) -> str:
    """Return what names a payment by its transaction: the SHA-256 of the message."""
    message = VersionedTransaction.from_bytes(wire).message
    return sha256(bytes(to_bytes_versioned(message))).hexdigest()


def _path(subject: str) -> str:
    return f"/api/wallets/{subject}/pnl/summary"


def _client(address: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(verify=False, local_address=address)
    return httpx.AsyncClient(transport=transport, timeout=_PATIENT_S)


def _peers(pid: int) -> frozenset[Peer]:
    found = psutil.Process(pid).net_connections(kind="tcp")
    return frozenset((each.raddr.ip, each.raddr.port) for each in found if each.raddr)
