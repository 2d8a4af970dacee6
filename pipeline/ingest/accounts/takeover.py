"""Taking over the lane of accounts: wait as a standby, fence the older process, read its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from infra.backoff import Backoff
from infra.redis.client import RedisError
from infra.settings import Settings
from pipeline.ingest import metrics as ingest_metrics
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.publisher import LANE, AccountPublisher
from pipeline.ingest.accounts.requests import read_tracked
from pipeline.ingest.accounts.stored import Stored, read_stored
from pipeline.ingest.accounts.streams import kinds_of, stream_of, streams_of, subscription_of
from pipeline.ingest.accounts.subscription import Subscription
from pipeline.ingest.accounts.tail import AccountTail, read_account_tail
from pipeline.ingest.accounts.tracked import Tracked
from pipeline.ingest.standby import Standby
from pipeline.ingest.stream import Stream
from schemas.accounts import followed_of, largest_of
from schemas.proto.tape_pb2 import Covered
from schemas.topics import SETTLED_ACCOUNTS

log = structlog.get_logger(__name__)

REDIS_BACKOFF_S: Final = (0.2, 5.0)


class Taken(NamedTuple):
    """What continues a lane: its producer, what was written last, and what is subscribed to."""

    publisher: AccountPublisher
    tail: AccountTail
    streams: list[Stream]
    subscription: Subscription
    tracked: Tracked
    coverage: Coverage


async def take_over(settings: Settings, lacking: dict[str, str], *, was_fenced: bool) -> Taken:
    """Wait while another process has the lane, then take it.

    Raises KafkaUnreachable, TopicsWrong, LogUnreadable or PublishFailed.
    """
    subscription = subscription_of(settings)
    streams = streams_of(settings, subscription)
    publisher: AccountPublisher | None = None
    try:
        standbys = [Standby(settings, SETTLED_ACCOUNTS, stream.intake) for stream in streams]
        if was_fenced or not await standbys[0].is_idle():
            for standby in standbys[1:]:
                await standby.is_idle()
            lacking[LANE] = "standby: another process has the lane of accounts"
            log.info(lacking[LANE], takeover_after_s=settings.ingest_takeover_s)
            await _first(
                standby.run(stream.start())
                for standby, stream in zip(standbys, streams, strict=True)
            )
            log.warning("the other process is silent: taking over", lane=LANE)
        publisher = AccountPublisher(settings)
        await publisher.take_over()
        tail = await read_account_tail(settings)  # final: the older producer is fenced
        publisher.continue_from(tail)
        tracked = await _from_redis(partial(read_tracked, settings))
        stored: Stored = await _from_redis(partial(read_stored, settings))
        for number, standby in enumerate(standbys):
            if not standby.hand_over(tail.settled):
                await streams[number].close()
                streams[number] = stream_of(settings, subscription, number)
        ingest_metrics.TAKEOVERS.inc()
        lacking.pop(LANE, None)
        log.info("active", lane=LANE, settled_slot=tail.settled, tracked=len(tracked.wallets))
        known = [*stored.covered, *_asked_for(tracked)]
        coverage = Coverage(kinds_of(settings), known, tail, stored.floor)
        return Taken(publisher, tail, streams, subscription, tracked, coverage)
    except BaseException:
        for stream in streams:
            await stream.close()
        if publisher is not None:
            await publisher.close(0.0)
        raise


def _asked_for(tracked: Tracked) -> list[Covered]:
    """Return what an earlier process may have covered."""
    return [
        *(Covered(kind=Covered.WALLET, address=each) for each in tracked.wallets),
        *(Covered(kind=Covered.MINT, address=each) for each in tracked.mints),
        *(Covered(kind=Covered.HOLDERS, address=largest_of(each)) for each in tracked.holders),
        *(Covered(kind=Covered.ACCOUNT, address=followed_of(each)) for each in tracked.accounts),
    ]


async def _first(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when the first is done, and end the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _from_redis(read: Any) -> Any:
    backoff = Backoff(*REDIS_BACKOFF_S)
    while True:
        try:
            return await read()
        except RedisError as error:
            log.warning("waiting for Redis, which says what is tracked", detail=str(error))
            await backoff.wait()
