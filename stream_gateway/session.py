"""What clients ask for is done: subscribed, unsubscribed, answered.

A subscription is acknowledged first. Then come, where it asks for them, a snapshot or the events
that it missed, and from there on the live ones, with nothing in between and nothing twice. A later
subscription on a channel takes the place of the earlier one from its acknowledgement on. Alerts of
positions come from then on, too: a client must not miss one while its wallets are asked for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from redis.exceptions import RedisError

from schemas.vocabulary import Slugs
from stream_gateway import messages
from stream_gateway.connection import INTERNAL, Connection
from stream_gateway.fanout import Fanout
from stream_gateway.messages import (
    POSITIONS,
    TRENDING,
    Ping,
    Refused,
    Subscribe,
    Unsubscribe,
)
from stream_gateway.metrics import MESSAGES_IN
from stream_gateway.snapshots import Snapshots
from stream_gateway.subscriptions import Filter
from stream_gateway.tracking import Watched

log = structlog.get_logger(__name__)

CatchUp = Callable[[Connection, Filter, str], Awaitable[None]]
Follow = Callable[[Iterable[str], str], Awaitable[Watched]]
"""Has wallets followed for a key; returns whether alerts of them come. Raises Refused."""
_SNAPSHOT_WITHIN_S: Final = 10.0
_FOLLOWED_WITHIN_S: Final = 10.0
_TEXTS: Final = {
    Watched.NO: "no process watches positions now: alerts come once one does (`soltape watch`)",
    Watched.LATE: "the chain's accounts have not been read for a minute: alerts come once they are "
    "(`soltape ingest accounts`, `soltape agents accounts`)",
    Watched.YES: "a process watches positions again",
}


class Sessions:
    """The subscriptions of all connections of a process."""

    def __init__(
        self,
        fanout: Fanout,
        snapshots: Snapshots,
        slugs: Callable[[], Slugs | None],
        catch_up: CatchUp,
        follow: Follow,
    ) -> None:
        self._fanout = fanout
        self._snapshots = snapshots
        self._slugs = slugs
        self._catch_up = catch_up
        self._follow = follow
        # Subscriptions that may still fail or are not live yet, by connection and channel.
        self._beginning: dict[Connection, dict[str, asyncio.Task[None]]] = defaultdict(dict)

    def hear(self, connection: Connection, payload: bytes) -> None:
        """Do what a client asks for, or say why not."""
        try:
            request = messages.parse(
                payload, connection.endpoint, connection.admitted.plan, self._slugs()
            )
            match request:
                case Subscribe():
                    self._subscribe(connection, request)
                case Unsubscribe():
                    self._unsubscribe(connection, request)
                case Ping():
                    connection.send(messages.pong(request))
        except Refused as refused:
            MESSAGES_IN.labels("refused").inc()
            connection.refuse(refused)
        else:
            MESSAGES_IN.labels(type(request).__name__.lower()).inc()

    def watched(self) -> set[str]:
        """Return the wallets whose positions are subscribed to.

        Without those of subscriptions that may still be refused: their wallets are counted first.
        """
        beginning = {
            connection.filters.get(POSITIONS)
            for connection, channels in self._beginning.items()
            if POSITIONS in channels
        }
        return {
            wallet
            for chosen in self._fanout.filters(POSITIONS)
            if chosen not in beginning
            for wallet in chosen.wallets
        }

    def announce(self, state: Watched) -> None:
        """Let those who are subscribed to positions know whether alerts come now."""
        self._fanout.send(POSITIONS, messages.notice(state, _TEXTS[state]))

    def left(self, connection: Connection) -> None:
        """Forget a client."""
        self._fanout.detach(connection)
        for task in self._beginning.pop(connection, {}).values():
            task.cancel()

    def _subscribe(self, connection: Connection, request: Subscribe) -> None:
        channel = request.filter.channel
        replaces = channel in connection.filters
        self._end(connection, channel)
        connection.filters[channel] = request.filter
        connection.send(messages.subscribed(request, replaces=replaces))
        if _is_live_at_once(request):
            self._fanout.attach(connection, request.filter)
            if channel != POSITIONS:
                return
        task = asyncio.get_running_loop().create_task(self._begin(connection, request))
        self._beginning[connection][channel] = task

    def _unsubscribe(self, connection: Connection, request: Unsubscribe) -> None:
        if request.channel not in connection.filters:
            refused = Refused("not_subscribed", f"there is no subscription on {request.channel}")
            refused.channel, refused.request_id = request.channel, request.request_id
            raise refused
        self._end(connection, request.channel)
        del connection.filters[request.channel]
        connection.send(messages.unsubscribed(request))

    def _end(self, connection: Connection, channel: str) -> None:
        if task := self._beginning[connection].pop(channel, None):
            task.cancel()
        if not self._beginning[connection]:
            del self._beginning[connection]
        self._fanout.detach(connection, channel)

    async def _begin(self, connection: Connection, request: Subscribe) -> None:
        """Do what a subscription needs beyond its acknowledgement; end it where that fails."""
        channel = request.filter.channel
        try:
            if channel == POSITIONS:
                await self._have_followed(connection, request.filter)
                if _is_live_at_once(request):
                    return
            since = request.since or await self._snapshot(connection, request)
            await self._catch_up(connection, request.filter, since)
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("a subscription could not begin", channel=channel, reason=_words(error))
            refused = Refused(
                "store_unavailable", "the store does not answer: subscribe again in some seconds"
            )
            self._failed(connection, request, refused)
        except Refused as refused:
            self._failed(connection, request, refused)
        except Exception:
            log.exception("a subscription failed", channel=channel, connection=connection.number)
            connection.close(INTERNAL, "the gateway failed; connect again")
        finally:
            beginning = self._beginning.get(connection)
            if beginning and beginning.get(channel) is asyncio.current_task():
                del beginning[channel]
                if not beginning:
                    del self._beginning[connection]

    def _failed(self, connection: Connection, request: Subscribe, refused: Refused) -> None:
        """End a subscription that was acknowledged."""
        channel = request.filter.channel
        self._fanout.detach(connection, channel)
        connection.filters.pop(channel, None)
        refused.channel, refused.request_id = channel, request.request_id
        connection.refuse(refused)

    async def _have_followed(self, connection: Connection, chosen: Filter) -> None:
        """Have the wallets of a filter followed; say so where no alerts of them come."""
        async with asyncio.timeout(_FOLLOWED_WITHIN_S):
            state = await self._follow(chosen.wallets, connection.admitted.holder.payer)
        if state is not Watched.YES:
            connection.send(messages.notice(state, _TEXTS[state]))

    async def _snapshot(self, connection: Connection, request: Subscribe) -> str:
        """Send a snapshot; return the id of the event to go on after."""
        await connection.may_replay()  # a full queue would drop it
        async with asyncio.timeout(_SNAPSHOT_WITHIN_S):
            if request.filter.channel == TRENDING:
                snapshot = await self._snapshots.trending(request.filter.dexes)
            else:
                snapshot = await self._snapshots.prices(request.filter.mints)
        connection.snapshot(snapshot.frame)
        return snapshot.as_of_id


def _is_live_at_once(request: Subscribe) -> bool:
    """Return whether nothing comes before the live events."""
    return request.since is None and not request.snapshot and request.filter.channel != TRENDING


def _words(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
