"""One client: what is written to it, how much may wait, what it may send, how it ends.

What waits for a client is bounded in bytes. Above the bound its events are dropped and counted;
once it has read three quarters of what waits it gets `lagging`, with the number, and events
continue. A client whose queue stays full for `slow_s`, or was full too many times within a minute,
gets `lagging` and is closed with 4008. It fetches what it missed by `since`, with the last id
before `lagging`. No other client waits for it: a write never blocks.

A key also has a byte budget (`stream_gateway.budgets`). Live events beyond it are dropped and
reported as `lagging` too, but the connection stays open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import structlog
from picows import WSFrame, WSListener, WSMsgType, WSTransport

from stream_gateway import messages, wire
from stream_gateway.admission import Admitted
from stream_gateway.budgets import Budget
from stream_gateway.frames import close_frame, ping_frame, pong_frame
from stream_gateway.limits import Limits
from stream_gateway.messages import Endpoint, Lag, Refused
from stream_gateway.metrics import CLOSES, LAGGED, REFUSED, Traffic
from stream_gateway.subscriptions import Filter

log = structlog.get_logger(__name__)

GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
NO_UTF8: Final = 1007
TOO_BIG: Final = 1009
INTERNAL: Final = 1011
REVOKED: Final = 4001
TOO_SLOW: Final = 4008
IDLE: Final = 4009
TOO_MANY_MESSAGES: Final = 4029
_NORMAL: Final = 1000
_ABNORMAL_CLOSURE: Final = 1006
_CLIENTS_OWN: Final = 3000  # codes from here on mean what a client likes

_DRAINED_BYTES: Final = 256 * 1024
_DRAINED_LOOK_S: Final = 0.01
_SNAPSHOT_BYTES: Final = 16 * 1024  # that a snapshot costs at least: what is read for it
_BUDGET_LOOK_S: Final = 0.1
_PING: Final = ping_frame()
_MINUTE_S: Final = 60.0
_numbers = count(1)


class Connection(WSListener):
    """An admitted client. `hear` gets its messages, `ended` is called once."""

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        admitted: Admitted,
        endpoint: Endpoint,
        address: str,
        limits: Limits,
        budget: Budget,
        traffic: Traffic,
        hear: Callable[[Connection, bytes], None],
        ended: Callable[[Connection], None],
    ) -> None:
        self.admitted = admitted
        self.endpoint = endpoint
        self.number = next(_numbers)
        self.address = address
        self.is_open = True
        self.filters: dict[str, Filter] = {}  # by channel, as subscribed
        self.dropped = 0  # events, as the client read too slowly
        self._transport = transport
        self._write = transport.write
        self._traffic = traffic
        self._limits = limits
        self._budget = budget
        self._hear = hear
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._began_s = self._heard_s = self._loop.time()
        self._is_pinged = False
        self._is_full = False  # or closed: nothing is written
        self._full_since_s = 0.0
        self._unreported = 0  # events dropped since the last `lagging` frame
        self._lags_s: deque[float] = deque()  # when `lagging` was sent within the last minute
        self._allowance = limits.frames_at_once
        self._allowed_s = self._heard_s
        self._fragments: list[bytes] | None = None  # of a message that has not ended
        self._fragments_bytes = 0
        self._is_binary = False
        transport.set_write_buffer_limits(limits.queue_bytes, limits.queue_bytes // 4)

    # What is written.

    def deliver(self, data: bytes, events: int) -> None:
        """Write whole frames that hold so many live events, or drop them."""
        budget = self._budget
        if self._is_full or budget.live <= 0:
            self._drop(events)
            return
        if self._unreported:  # dropped over budget; drops of a full queue are reported as it drains
            self._report_lagging("budget")
        budget.live -= len(data)
        self._put(data, events)

    def replay(self, data: bytes, events: int) -> None:
        """Write whole frames that hold so many events of before, or drop them."""
        if self._is_full:
            self._drop(events)
        else:
            self._put(data, events)

    @property
    def turn(self) -> asyncio.Lock:
        """Of the key: one of its connections at a time reads what was before."""
        return self._budget.turn

    def charge(self, size: int) -> None:
        """Take so many bytes from the budget for what was before."""
        self._budget.replay -= size

    def snapshot(self, frame: bytes) -> None:
        """Write a snapshot, of the same budget as events of before; it is never dropped."""
        self.charge(max(len(frame), _SNAPSHOT_BYTES))
        self.send(frame)

    def _put(self, data: bytes, events: int) -> None:
        traffic = self._traffic
        traffic.deliveries += events
        traffic.writes += 1
        traffic.bytes += len(data)
        self._write(data)

    def send(self, frame: bytes) -> None:
        """Write a frame that is no event; it is never dropped."""
        if self.is_open:
            self._write(frame)

    def refuse(self, refused: Refused) -> None:
        """Say that a message is not accepted."""
        REFUSED.labels(refused.code).inc()
        self.send(messages.error(refused))

    async def drained(self) -> bool:
        """Wait until little waits for the client; False where the connection is over."""
        while self.is_open:
            if self._transport.get_write_buffer_size() <= _DRAINED_BYTES:
                return True
            await asyncio.sleep(_DRAINED_LOOK_S)
        return False

    async def may_replay(self) -> bool:
        """Wait until little waits for the client and the budget has some left, or return False."""
        while await self.drained():
            if self._budget.replay > 0:
                return True
            await asyncio.sleep(_BUDGET_LOOK_S)
        return False

    @property
    def is_gone(self) -> bool:
        """Whether the client has seen the end, or was given up."""
        return not self.is_open and self._transport.is_closing()

    @property
    def queue_bytes(self) -> int:
        """What waits for the client in this process."""
        return self._transport.get_write_buffer_size() if self.is_open else 0

    def _drop(self, events: int) -> None:
        if self.is_open:
            self._unreported += events
            self._traffic.dropped += events

    def pause_writing(self) -> None:
        """Hear that the queue is full."""
        if self.is_open:
            self._is_full = True
            self._full_since_s = self._loop.time()

    def resume_writing(self) -> None:
        """Hear that a quarter of the queue is left."""
        if not self.is_open:
            return
        self._is_full = False
        if not self._unreported:
            return
        self._report_lagging("slow")
        now_s, lags_s = self._loop.time(), self._lags_s
        lags_s.append(now_s)
        while now_s - lags_s[0] > _MINUTE_S:
            lags_s.popleft()
        if len(lags_s) > self._limits.lags_a_minute:
            self.close(TOO_SLOW, f"too slow: events dropped {len(lags_s)} times within a minute")

    def _report_lagging(self, reason: Lag) -> None:
        LAGGED.inc()
        self.dropped += self._unreported
        self.send(messages.lagging(self._unreported, reason))
        self._unreported = 0

    # What is read.

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take a frame of the client."""
        if not self.is_open:
            return
        try:
            self._take(frame)
        except Exception:
            log.exception("a message could not be handled", connection=self.number)
            self.close(INTERNAL, "the gateway failed; connect again")

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Hear that the client left without a close frame, or that the network did it."""
        self._end(_ABNORMAL_CLOSURE, "client")

    def _take(self, frame: WSFrame) -> None:
        if not self._is_allowed():
            self.refuse(
                Refused(
                    "too_many_messages",
                    f"{self._limits.frames_a_second:g} messages a second are accepted, and "
                    f"{self._limits.frames_at_once:g} at once",
                )
            )
            self.close(TOO_MANY_MESSAGES, "too many messages")
            return
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(PROTOCOL_ERROR, "a reserved bit is set: no extension was agreed upon")
            return
        match frame.msg_type:
            case WSMsgType.PING:
                self.send(pong_frame(frame.get_payload_as_bytes()))
            case WSMsgType.PONG:
                pass
            case WSMsgType.CLOSE:
                self._take_close(frame.get_payload_as_bytes())
            case _:
                self._take_data(frame)

    def _is_allowed(self) -> bool:
        now_s, limits = self._loop.time(), self._limits
        self._heard_s = now_s
        self._is_pinged = False
        gained = (now_s - self._allowed_s) * limits.frames_a_second
        self._allowed_s = now_s
        self._allowance = min(limits.frames_at_once, self._allowance + gained) - 1
        return self._allowance >= 0

    def _take_data(self, frame: WSFrame) -> None:
        payload = frame.get_payload_as_bytes()
        if frame.msg_type == WSMsgType.CONTINUATION:
            if self._fragments is None:
                self.close(PROTOCOL_ERROR, "a continuation of nothing")
                return
            self._fragments.append(payload)
        else:
            if self._fragments is not None:
                self.close(PROTOCOL_ERROR, "a message within another")
                return
            self._is_binary = frame.msg_type == WSMsgType.BINARY
            self._fragments = [payload]
            self._fragments_bytes = 0
        self._fragments_bytes += len(payload)
        if self._fragments_bytes > self._limits.message_bytes:
            self.close(TOO_BIG, f"a message has at most {self._limits.message_bytes} bytes")
        elif frame.fin:
            payload = b"".join(self._fragments)
            self._fragments = None
            self._take_message(payload)

    def _take_message(self, payload: bytes) -> None:
        if self._is_binary:
            self.refuse(Refused("binary_frame", "messages are JSON in text frames"))
            return
        try:
            payload.decode()
        except UnicodeDecodeError:
            self.close(NO_UTF8, "a text frame that is no UTF-8")
            return
        self._hear(self, payload)

    def _take_close(self, payload: bytes) -> None:
        """End what the client ends, with the code it gave. picows has checked the form."""
        code = int.from_bytes(payload[:2], "big") if payload else _NORMAL
        if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
            self.close(PROTOCOL_ERROR, f"{code} is no close code")
            return
        if self._end(code, "client"):
            self._write(close_frame(code))
            wire.end(self._transport, self._limits.linger_s)

    # How it goes on, and ends.

    def look(self, now_s: float) -> None:
        """Look at the time, about once a second: send a ping, or end what is too slow or idle."""
        limits = self._limits
        if self._unreported and not self._is_full and self._budget.live > 0:
            self._report_lagging("budget")
        if self._is_full and now_s - self._full_since_s > limits.slow_s:
            self.close_slow(f"too slow: for {limits.slow_s:g} s too much waits to be read")
        elif now_s - self._heard_s > limits.idle_s:
            self.close(IDLE, f"nothing came for {limits.idle_s:g} s, no pong either")
        elif now_s - self._heard_s > limits.ping_s and not self._is_pinged:
            self._is_pinged = True
            self.send(_PING)

    def close_slow(self, reason: str) -> None:
        """Send the client what was dropped, and close."""
        if self._unreported:
            self._report_lagging("slow")
        self.close(TOO_SLOW, reason)

    def close(self, code: int, reason: str) -> None:
        """Close, with a code and a reason in words; nothing where it is over already."""
        if self._end(code, "server"):
            self._write(close_frame(code, reason))
            wire.end(self._transport, self._limits.linger_s)

    def abort(self) -> None:
        """Give up the socket, whatever the client has not read."""
        self._transport.abort()

    def at_fault(self, code: int) -> None:
        """Hear that picows found the client at fault, and has written a close frame."""
        if self._end(code, "server"):
            wire.end(self._transport, self._limits.linger_s)

    def _end(self, code: int, by: str) -> bool:
        """Note that it is over, once."""
        if not self.is_open:
            return False
        self.is_open = False
        self._is_full = True
        self._fragments = None
        self.dropped += self._unreported
        CLOSES.labels(code if by == "server" or code < _CLIENTS_OWN else "other", by).inc()
        counts: dict[str, Any] = {"dropped": self.dropped} if self.dropped else {}
        log.info(
            "closed",
            connection=self.number,
            key_id=self.admitted.key_id,
            client=self.address,
            code=code,
            by=by,
            seconds=round(self._loop.time() - self._began_s, 1),
            **counts,
        )
        self._ended(self)
        return True
