"""Credentials for users at their page: bounded, and none is left whose password nobody was shown.

What asks Kafka is a task of its own: one of an account at once, and `AT_ONCE` of a process, as each
takes a thread for a while. A caller who waits no longer, for time or a closed connection, leaves it
to its end; then the credentials are revoked, as their password was shown to nobody. Where Kafka or
Redis fails, the account's shares may be those of another number of users: they are restored later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog
from redis.exceptions import RedisError

from api.access import users
from api.access.script import Asks
from api.access.users import User
from api.subscribers import properties
from api.subscribers.issuing import Issuer, NoSuchUser, NotIssued
from infra.kafka.subscribers import BrokerFailed
from infra.settings import Settings, SettingsError

log = structlog.get_logger(__name__)

T = TypeVar("T")

AT_ONCE: Final = 2
"""Changes that a process makes at once: its threads are for others, too."""
_SHARE: Final = 0.8  # of the time that a request has
_END_WITHIN_S: Final = 5.0
RESTORE_AFTER_S: Final = (5.0, 30.0, 120.0, 600.0)
"""How long after a failure the shares of an account are restored, until it succeeds."""
_FAILURES: Final = (
    BrokerFailed, NoSuchUser, NotIssued, OSError, RedisError, SettingsError, users.Refused,
)  # fmt: skip


class Busy(Exception):
    """Another change is under way; the text is for the user."""


class TooSlow(Exception):
    """Kafka took longer than a user waits."""


@dataclass(frozen=True, slots=True)
class Issued:
    """New credentials: what is shown once."""

    user: str
    properties: str = field(repr=False)


class Desk:
    """Issues and revokes the credentials of users of one process; an account is a user's id."""

    def __init__(self, settings: Settings, redis: Asks) -> None:
        """`redis` is that of the keys. Raises SubscribersOff."""
        self._settings = settings
        self._redis = redis
        self._issuer = Issuer(settings, redis)
        self._within_s = settings.api_timeout_s * _SHARE
        self._running: dict[str, asyncio.Task[Any]] = {}  # by account
        self._restoring: dict[str, asyncio.Task[None]] = {}  # likewise

    async def issue(self, user: User, name: str) -> Issued:
        """Return new credentials of a user.

        Raises Busy, TooSlow, NotIssued, users.Suspended, BrokerFailed, SettingsError, RedisError.
        """

        async def undo(issued: Issued) -> None:
            await self._issuer.revoke(user.id, issued.user)

        return await self._run(user.id, lambda: self._issued(user, name), undo)

    async def revoke(self, user: User, kafka_user: str) -> None:
        """Revoke credentials of a user.

        Raises Busy, TooSlow, NoSuchUser, BrokerFailed, RedisError.
        """

        async def leave(_: None) -> None:
            """Leave it revoked."""

        await self._run(user.id, lambda: self._issuer.revoke(user.id, kafka_user), leave)

    async def aclose(self) -> None:
        """Wait a little for what is under way."""
        for each in self._restoring.values():
            each.cancel()
        if self._running:
            await asyncio.wait({*self._running.values()}, timeout=_END_WITHIN_S)

    async def _issued(self, user: User, name: str) -> Issued:
        credentials = await self._issuer.issue(user.id, user.plan, name)
        kafka_user = credentials.user.user
        try:
            text = properties.text(self._settings, credentials)
            # A suspension meanwhile did not find these; another plan is the issuer's matter.
            now = await users.read(self._redis, user.fingerprint)
            if now is None or now.suspended_ms is not None:
                raise users.Suspended("This account is suspended")
        except BaseException:
            await self._issuer.revoke(user.id, kafka_user)
            raise
        return Issued(kafka_user, text)

    async def _run(
        self,
        account: str,
        work: Callable[[], Coroutine[Any, Any, T]],
        undo: Callable[[T], Awaitable[None]],
    ) -> T:
        if account in self._running:
            raise Busy("A change of this account's Kafka credentials is under way")
        if len(self._running) >= AT_ONCE:
            raise Busy("Others change their Kafka credentials now")
        task = asyncio.create_task(self._restored(account, work))
        self._running[account] = task
        try:
            await asyncio.wait({task}, timeout=self._within_s)
        except asyncio.CancelledError:
            self._leave(account, task, undo)
            raise
        if not task.done():
            self._leave(account, task, undo)
            raise TooSlow(f"Kafka took more than {self._within_s:g} s")
        del self._running[account]
        return task.result()

    async def _restored(self, account: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work; have shares restored where it fails halfway."""
        try:
            return await work()
        except (BrokerFailed, OSError, RedisError):
            if account not in self._restoring:
                task = asyncio.create_task(self._restore(account))
                self._restoring[account] = task
                task.add_done_callback(lambda _: self._restoring.pop(account))
            raise

    async def _restore(self, account: str) -> None:
        for pause_s in RESTORE_AFTER_S:
            await asyncio.sleep(pause_s)
            try:
                await self._issuer.restore(account)
            except (BrokerFailed, OSError, RedisError) as error:
                log.warning("shares are not restored", account=account, reason=str(error))
            else:
                return

    def _leave(
        self, account: str, task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]
    ) -> None:
        async def end() -> None:
            try:
                with suppress(*_FAILURES):  # it stays in the list, to be revoked
                    await undo(await task)
            finally:
                del self._running[account]
            log.info("a change of Kafka credentials ended unseen", account=account)

        self._running[account] = asyncio.create_task(end())
