"""The connections of a process: taken in, looked after each second, ended in a second or two."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import structlog

from api.access import refusals
from infra import listening
from infra.hosts import Hosts
from infra.proxies import Proxies
from infra.settings import Settings
from stream_gateway import request, wire
from stream_gateway.admission import STORE, Admission, Admitted, refused
from stream_gateway.budgets import Budgets
from stream_gateway.connection import GOING_AWAY, REVOKED, Connection
from stream_gateway.handshake import Handshake
from stream_gateway.limits import Limits
from stream_gateway.messages import Endpoint
from stream_gateway.metrics import Traffic
from stream_gateway.waiting_room import WaitingRoom

log = structlog.get_logger(__name__)

BACKLOG: Final = 2_048
LOOK_EVERY_S: Final = 1.0
STOP_WITHIN_S: Final = 1.5
_ADMIT_WITHIN_S: Final = 5.0
_GONE_LOOK_S: Final = 0.02
# A client that reads slowly can make the system hold as much again for it, outside of our memory.
_SEND_BUFFER_BYTES: Final = 512 * 1024


class Server:
    """Holds the connections.

    `entered` gets each admitted connection, `hear` what clients send, `left` each that ended. Until
    `is_ready` nobody is admitted: what the source reads before goes to no client, and is no gap.
    """

    def __init__(
        self,
        limits: Limits,
        hosts: Hosts,
        proxies: Proxies,
        traffic: Traffic,
        *,
        is_ready: Callable[[], bool],
        entered: Callable[[Connection], None],
        hear: Callable[[Connection, bytes], None],
        left: Callable[[Connection], None],
    ) -> None:
        self.limits = limits
        self.hosts = hosts
        self.proxies = proxies
        self.waiting_room = WaitingRoom(
            limits.handshakes, limits.handshakes_of_address, shared=proxies.trusts
        )
        self.connections: dict[str, Connection] = {}  # by lease
        self.admission: Admission | None = None
        self._traffic = traffic
        self._is_ready = is_ready
        self._entered = entered
        self._hear = hear
        self._left = left
        self._of_payer: Counter[str] = Counter()  # connections by id of their key or user
        self._budgets = Budgets()
        self._lingering: deque[Connection] = deque()  # closed, the one that ended first in front
        self._is_stopping = False
        self._releases: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        traffic.queue_bytes = lambda: sum(each.queue_bytes for each in self._open())
        traffic.connections = lambda: Counter(each.endpoint for each in self._open())

    @property
    def is_serving(self) -> bool:
        """Whether connections are taken."""
        return self._server is not None and self._server.is_serving()

    async def serve(self, listener: socket.socket) -> None:
        """Take connections, and look after them, until cancelled."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Handshake(self, wire.upgrade), sock=listener, backlog=BACKLOG
        )
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._look(loop.time())

    def _look(self, now_s: float) -> None:
        """Look after everybody, and bound what waits for all of them together."""
        self._lingering = deque(each for each in self._lingering if not each.is_gone)
        self._budgets.fill(now_s, {each.admitted.holder.payer for each in self._open()})
        for connection in self._open():
            connection.look(now_s)
        waiting = {each: each.queue_bytes for each in self._open()}
        total = sum(waiting.values())
        if total <= self.limits.queues_bytes:
            return
        for connection in sorted(waiting, key=waiting.__getitem__, reverse=True):
            connection.close_slow("too slow: too much waits for slow clients altogether")
            total -= waiting[connection]
            if total <= self.limits.queues_bytes:
                break

    async def stop(self) -> None:
        """Take nobody any more, and close all with 1001; back once they are gone, or soon."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        for handshake in self.waiting_room.everybody():
            handshake.stop()
        ending = self._open()
        for connection in ending:
            connection.close(GOING_AWAY, "the gateway stops or starts anew: connect again")
        for _ in range(round(STOP_WITHIN_S / _GONE_LOOK_S)):
            if all(each.is_gone for each in ending):
                break
            await asyncio.sleep(_GONE_LOOK_S)
        if self._releases:
            await asyncio.wait(self._releases, timeout=STOP_WITHIN_S)

    def announce(self, frame: bytes) -> None:
        """Send a frame to all connections."""
        for connection in self._open():
            connection.send(frame)

    def revoked(self, admitted: Admitted) -> None:
        """End the connection of a key that was revoked, or of a session that has ended."""
        if connection := self.connections.get(admitted.lease_id):
            what = "API key was revoked" if admitted.holder.session is None else "session has ended"
            connection.close(REVOKED, f"the {what}")

    def suspended(self, admitted: Admitted) -> None:
        """End the connection of a user that was suspended."""
        if connection := self.connections.get(admitted.lease_id):
            connection.close(REVOKED, "the account is suspended: ask the operator of this service")

    def replanned(self, admitted: Admitted) -> None:
        """End a connection whose key has another plan now: the client connects again under that."""
        if connection := self.connections.get(admitted.lease_id):
            connection.close(GOING_AWAY, "the plan has changed: connect again")

    # What handshakes ask for.

    def check_room(self, admitted: Admitted | None = None) -> None:
        """Raise Refusal where nobody else can come in, or this key cannot."""
        if self._is_stopping:
            raise request.stopping()
        if not self._is_ready():
            raise request.starting()
        limits = self.limits
        if len(self.connections) >= limits.connections:
            raise request.full()
        if admitted is None:
            return
        mine = self._of_payer[admitted.payer_id]
        if mine < limits.reserved.get(admitted.payer_id, 0):
            return
        if mine >= limits.connections_of_key:
            raise request.full_for_key(limits.connections_of_key)
        kept = sum(max(0, number - self._of_payer[id_]) for id_, number in limits.reserved.items())
        if len(self.connections) + kept >= limits.connections:
            raise request.full()

    async def admit(self, api_key: str | None, address: str) -> Admitted:
        """Admit a client; raises Refusal."""
        assert self.admission is not None
        try:
            async with asyncio.timeout(_ADMIT_WITHIN_S):
                return await self.admission.admit(api_key, address)
        except TimeoutError:
            raise refused(refusals.store_unavailable(STORE)) from None

    def give_back(self, admitted: Admitted) -> None:
        """Give back the lease of a client that left."""
        assert self.admission is not None
        task = asyncio.get_running_loop().create_task(self.admission.release(admitted))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    def enter(
        self,
        transport: asyncio.Transport,
        admitted: Admitted,
        endpoint: Endpoint,
        address: str,
    ) -> Connection:
        """Make the connection of an admitted client."""
        connection = Connection(
            transport,
            admitted=admitted,
            endpoint=endpoint,
            address=address,
            limits=self.limits,
            budget=self._budgets.of(admitted.holder.payer, admitted.plan),
            traffic=self._traffic,
            hear=self._hear,
            ended=self._ended,
        )
        self.connections[admitted.lease_id] = connection
        self._of_payer[admitted.payer_id] += 1
        # The handshake is answered when this has returned.
        asyncio.get_running_loop().call_soon(self._entered, connection)
        log.info(
            "connected",
            connection=connection.number,
            key_id=admitted.key_id,
            plan=admitted.plan.name,
            endpoint=endpoint,
            client=address,
        )
        return connection

    def _ended(self, connection: Connection) -> None:
        del self.connections[connection.admitted.lease_id]
        self._of_payer -= Counter([connection.admitted.payer_id])  # which drops zeros
        # Its socket waits for the client to close: of those that do not there are but so many.
        self._lingering.append(connection)
        while len(self._lingering) > self.limits.lingering:
            self._lingering.popleft().abort()
        self._left(connection)
        self.give_back(connection.admitted)

    def _open(self) -> list[Connection]:
        return list(self.connections.values())


def listen(settings: Settings) -> socket.socket:
    """Return the socket, bound; raises PortInUse, SettingsError."""
    listener = listening.listen(
        "gateway",
        settings.gateway_host,
        settings.gateway_port,
        reuse_port=settings.gateway_reuse_port,
    )
    # Connections have it from the listener.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    return listener
