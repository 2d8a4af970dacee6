"""Runs Faust apps until a signal, and ends the process in time whatever Faust is waiting for.

faust.Worker is not used: it draws on the terminal, takes a second to go, and after an outage of
the broker its stop may wait for longer than any supervisor does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NoReturn

import faust
import structlog
from redis.asyncio import Redis

from infra.kafka.client import confluent_producer
from infra.redis import client as redis_client
from infra.redis import partitions
from infra.settings import Settings
from pipeline.agents.app import create_app
from pipeline.agents.context import Attach, Context
from pipeline.agents.progress import Progress
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.kafka import KafkaSink, SinkError

log = structlog.get_logger(__name__)

DEADLINE_S: Final = 2.5  # from the signal to the end of the process
SETTLE_S: Final = 0.8
FLUSH_S: Final = 1.0
START_S: Final = 120.0  # to join the consumer group: where that fails for good, Faust waits on
LEAVE_S: Final = 0.7  # for each of: the last commit, leaving the consumer group
EX_SOFTWARE: Final = 70


class Readiness:
    """Whether the groups of this process have caught up with their lanes."""

    def __init__(self, groups: Iterable[str]) -> None:
        self.progress: dict[str, Progress | None] = dict.fromkeys(groups)

    def lacking(self) -> dict[str, str]:
        """Return the groups that have not, and how far they are."""
        return {
            group: why
            for group, progress in self.progress.items()
            if (why := "starting" if progress is None else progress.lacking)
        }


async def run(
    settings: Settings, groups: Mapping[str, Attach], readiness: Readiness | None = None
) -> NoReturn:
    """Run groups until SIGINT or SIGTERM, then end the process: status 0.

    Where a group cannot go on the reason is logged, nothing unfinished is committed, and the
    status is 70: the supervisor starts it again, at the last commit.
    """
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[str | None] = loop.create_future()  # why, None for a signal

    def stop(reason: str | None) -> None:
        if not ending.done():
            threading.Timer(DEADLINE_S, _exit, [EX_SOFTWARE if reason else 0]).start()
            ending.set_result(reason)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, None)

    def sink_failed(error: SinkError) -> None:
        stop(str(error))

    sink = KafkaSink(confluent_producer(settings), sink_failed)
    redis = redis_client.connect(settings)
    clickhouse = ClickHouseSink(settings)
    running = []
    for name, attach in groups.items():
        app = create_app(settings, name)
        context = Context(settings, sink, redis, clickhouse, Progress(app, name), stop)
        attach(app, context)
        if readiness is not None:
            readiness.progress[name] = context.progress
        running.append(Group(name, app, context))
    for group in running:
        group.start()
    watching = asyncio.create_task(_watch_partitions(redis, stop))
    reason = await ending
    watching.cancel()
    if reason is not None:
        log.error("stopping, to start again at the last commit", reason=reason)
    else:
        await asyncio.gather(*(group.settle() for group in running))
    left = await sink.close(FLUSH_S)
    if left:
        log.warning("not acknowledged in time, the next start sends them again", messages=left)
    await asyncio.gather(*(group.end() for group in running))
    if reason is not None:
        log.error("stopped", reason=reason)  # the last line is the one that a supervisor shows
    else:
        log.info("stopped")
    _exit(EX_SOFTWARE if reason else 0)


async def _watch_partitions(redis: Redis, stop: Callable[[str], None]) -> None:
    try:
        await partitions.watch(partial(redis_client.ask, redis), claim=True)
    except partitions.PartitionsWrong as error:
        stop(str(error))


class Group:
    """One group: its app, what runs it, and what commits for it."""

    def __init__(self, name: str, app: faust.App, context: Context) -> None:
        self._name = name
        self._app = app
        self._progress = context.progress
        self._stop = context.stop
        self._before_end = context.before_end
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start in the background; `stop` raises what it crashed with."""
        self._tasks.append(asyncio.create_task(self._run()))

    async def settle(self) -> None:
        """Let what is under way be finished, as far as there is time."""
        for step in self._before_end:
            try:
                async with asyncio.timeout(SETTLE_S):
                    await step()
            except TimeoutError:
                pass  # a system has gone: what is not done is not committed either

    async def end(self) -> None:
        """Commit what is done and leave the consumer group, as far as there is time."""
        for task in self._tasks:
            task.cancel()
        for step in (self._progress.commit, self._app.stop):
            try:
                async with asyncio.timeout(LEAVE_S):
                    await step()
            except TimeoutError:
                pass  # the broker has gone, or Faust waits for something
            except Exception as error:  # Faust in whatever state it was: we are leaving anyway
                log.warning("while stopping", group=self._name, reason=repr(error))

    async def _run(self) -> None:
        crash: BaseException | None
        try:
            async with asyncio.timeout(START_S):
                await self._app.start()
            log.info("started", group=self._name)
            committing = asyncio.create_task(self._progress.run())
            stopped = asyncio.create_task(self._app.wait_until_stopped())
            self._tasks += [committing, stopped]
            done, _ = await asyncio.wait({committing, stopped}, return_when=asyncio.FIRST_COMPLETED)
            crash = committing.exception() if committing in done else self._app.crash_reason
        except TimeoutError:
            crash = TimeoutError(f"not a member of the consumer group after {START_S:g} s")
        except Exception as error:
            crash = error
        reason = f"{type(crash).__name__}: {crash}" if crash else "Faust has stopped"
        self._stop(f"{self._name}: {reason}")


def _exit(status: int) -> NoReturn:
    """End the process at once: what Faust's threads wait for is of no use any more."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
