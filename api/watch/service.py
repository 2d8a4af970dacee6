"""The role `soltape watch`: reads tracked wallets in turn, at a pace, while it has the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from api.analysis.service import Measured
from api.http.errors import STORE_UNAVAILABLE, Problem
from api.pay.bookkeeping import Books
from api.pay.door import terms_of
from api.positions.answers import AggregatePositions
from api.services import Services
from api.watch import metrics, report
from api.watch.ahead import Ahead
from api.watch.book import Book, Known
from api.watch.crossings import At, advance
from api.watch.lease import Lease
from api.watch.report import Report
from api.watch.snapshots import FLUSH_EVERY_S, SnapshotWriter, snapshot
from api.watch.turns import Turns
from infra.backoff import Backoff
from infra.redis import partitions
from infra.settings import Settings
from schemas.redis_keys import TRACKED_WALLETS
from schemas.solana.addresses import text

log = structlog.get_logger(__name__)

HOLDER: Final = "watch"
"""On whose account the accounts are asked for that positions need."""
LIST_EVERY_S: Final = 5.0
IDLE_S: Final = 0.2
READ_WITHIN_S: Final = 4.0
POSITIONS_ALONE_S: Final = 30.0  # once net worth could not be read in time
STOP_WITHIN_S: Final = 2.0
RELEASE_WITHIN_S: Final = 1.0
_BACKOFF_S: Final = (0.2, 5.0)
_STANDBY: Final = "standby: another process watches, or Redis is away"


async def run(settings: Settings, stop: asyncio.Event, lacking: dict[str, str]) -> None:
    """Watch until `stop` is set; a standby while another process does.

    `lacking` says what keeps it from watching. Raises SettingsError, PartitionsWrong.
    """
    if settings.x402_facilitator_url is not None:
        terms_of(settings)  # whole, or nothing begins: as the API
    # The asks are of many wallets, and of nobody's key.
    own = settings.model_copy(update={"api_new_accounts_per_key": settings.api_new_accounts})
    services = Services(own)
    writer = SnapshotWriter(settings)
    stopped = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            await _with_lease(settings, services, writer, stopped, lacking)
    finally:
        stopped.cancel()
        await writer.close()
        await services.close()


async def _with_lease(
    settings: Settings,
    services: Services,
    writer: SnapshotWriter,
    stopped: asyncio.Task[bool],
    lacking: dict[str, str],
) -> None:
    """Wait for the lease, and watch until it is lost, or `stopped` ends."""
    redis = services.stores.redis
    lease = Lease(redis)
    watch = Watch(settings, services, lease, writer)
    lacking["lease"] = _STANDBY
    in_order = False
    try:
        await _first(stopped, lease.acquire())
        if stopped.done():
            return
        lacking.pop("lease")
        metrics.ACTIVE.set(1)
        metrics.TAKEOVERS.inc()
        log.info("watching", wallets_per_s=settings.watch_wallets_per_s)
        works = [
            lease.keep(),
            watch.run(),
            watch.write_snapshots(),
            watch.report(),
            partitions.watch(redis.ask),
        ]
        if settings.x402_facilitator_url is not None:
            works.append(Books(settings, services.stores.access).run())
        await _first(stopped, *works)
        log.info("stopping") if stopped.done() else log.warning("the lease is lost: standby")
        in_order = True
    finally:
        metrics.ACTIVE.set(0)
        if stopped.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_WITHIN_S):
                    await watch.flush()
        with suppress(TimeoutError):  # however long ClickHouse took: another process waits
            async with asyncio.timeout(RELEASE_WITHIN_S):
                await lease.release(in_order=in_order)


class _Away(Exception):
    """A store does not answer; the text says which."""


class Watch:
    """The watching of one lease."""

    def __init__(
        self, settings: Settings, services: Services, lease: Lease, writer: SnapshotWriter
    ) -> None:
        self._most = settings.watch_wallets_max
        self._services = services
        self._redis = services.stores.redis
        self._lease = lease
        self._book = Book(self._redis, lease)
        self._writer = writer
        self._turns = Turns(settings.watch_wallets_per_s, settings.watch_every_s)
        self._ahead = Ahead()
        self._listed_s = self._positions_alone_until_s = float("-inf")
        self._wallets = self._left_out = 0
        self._keeps_books = settings.x402_facilitator_url is not None

    async def run(self) -> None:
        """Read wallets in turn, until cancelled; a store that is away is waited for."""
        clock_s = asyncio.get_running_loop().time
        backoff = Backoff(*_BACKOFF_S)
        while True:
            try:
                if clock_s() - self._listed_s >= LIST_EVERY_S:
                    await self._list()
                wallet = self._ahead.next(clock_s()) or await self._turn()
                metrics.OVERDUE_S.set(self._turns.overdue_s(clock_s()))
                if wallet is None:
                    wait_s = min(IDLE_S, self._turns.wait_s(clock_s()))
                    await asyncio.sleep(self._ahead.wait_s(clock_s(), wait_s))
                    continue
                await self.look(wallet)
                backoff.reset()
            except (RedisError, OSError, _Away) as error:
                log.warning("a store does not answer: waiting", reason=str(error))
                await backoff.wait()

    async def _turn(self) -> str | None:
        """Return the wallet whose turn it is, None where nobody's is or its SOL is asked for.

        That is read a moment later. It keeps the wallet tracked no longer.
        """
        now_s = asyncio.get_running_loop().time()
        wallet = self._turns.next(now_s)
        if wallet is None or not self._ahead.begin(wallet, now_s):
            return wallet
        await self._services.analysis.ask_native(wallet, HOLDER)
        return None

    async def look(self, wallet: str) -> None:
        """Read a wallet: write what changed, and the hour's net worth.

        Raises RedisError, OSError or _Away where a store does not answer.
        What is wrong with one wallet keeps no other from being read.
        """
        try:
            metrics.READINGS.labels(await self._look(wallet)).inc()
        except Problem as problem:
            metrics.READINGS.labels("failed").inc()
            if problem.kind is STORE_UNAVAILABLE:
                raise _Away(problem.detail) from None
            log.info("a wallet is not read", wallet=wallet, code=problem.kind.code)
        except (RedisError, OSError, _Away):
            raise
        except Exception:
            metrics.READINGS.labels("failed").inc()
            log.exception("a wallet cannot be watched", wallet=wallet)

    async def _look(self, wallet: str) -> str:
        """Read a wallet, and return how that went, as the metric has it."""
        measured = await self._measure(wallet)
        if measured is None:  # alerts, and no net worth
            found = await self._positions(wallet)
            if found["as_of_ms"]:
                await self._alert(wallet, await self._book.read(wallet), found)
            return "partial"
        if not measured.as_of_ms:  # nothing is settled yet: as of no time
            return "early"
        known = await self._book.read(wallet)
        await self._alert(wallet, known, measured.positions)
        self._keep(wallet, known, measured)
        if "native_outdated" in measured.worth["reasons"]:
            self._ahead.outdated(wallet)
        return "partial" if measured.worth["reasons"] else "whole"

    async def _measure(self, wallet: str) -> Measured | None:
        """Return what a wallet is worth; None where that cannot be had, as its positions may be.

        What it traded may be unreadable, or in ClickHouse, which may be away. Where a reading takes
        too long, none is made for a while: each would keep the alerts of all wallets waiting.
        """
        clock_s = asyncio.get_running_loop().time
        if clock_s() < self._positions_alone_until_s:
            return None
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                return await self._services.analysis.measure(wallet, HOLDER)
        except TimeoutError:
            self._positions_alone_until_s = clock_s() + POSITIONS_ALONE_S
            log.warning(
                "net worth takes too long to read: alerts alone for a while",
                wallet=wallet,
                for_s=POSITIONS_ALONE_S,
            )
        except Problem:  # where Redis is away, there are no positions either
            pass
        except Exception:
            log.exception("what a wallet is worth cannot be read", wallet=wallet)
        return None

    async def _positions(self, wallet: str) -> AggregatePositions:
        """Return a wallet's positions alone; raises Problem, and _Away where it takes too long."""
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                found = await self._services.positions.everything(wallet, HOLDER, renews=False)
        except TimeoutError:
            raise _Away(f"positions took more than {READ_WITHIN_S:g} s to read") from None
        return found.answer

    async def write_snapshots(self) -> None:
        """Write what waits, now and then, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            await self.flush()

    async def report(self) -> None:
        """Say how the watching goes, until cancelled."""
        clock_s = asyncio.get_running_loop().time
        began_ms = time.time_ns() // 1_000_000
        while True:
            overdue_ms = int(self._turns.overdue_s(clock_s()) * 1000)
            said = Report(
                began_ms,
                self._wallets,
                self._left_out,
                overdue_ms,
                self._writer.waiting,
                int(self._keeps_books),
            )
            with suppress(RedisError, OSError):  # the lease's renewal says so
                await report.write(self._redis, self._lease, said)
            await asyncio.sleep(report.EVERY_S)

    async def flush(self) -> None:
        """Write the snapshots that wait, and note them."""
        while True:
            written = await self._writer.flush()
            if not written:
                return
            with suppress(RedisError, OSError):  # they are written again then
                await self._book.note_snapshots(written)

    async def _alert(self, wallet: str, known: Known, found: AggregatePositions) -> None:
        partial = {each["protocol"] for each in found["protocols"] if not each["is_complete"]}
        at = At(found["as_of_slot"], found["as_of_ms"])
        change = advance(wallet, known.positions, found["positions"], at, partial=partial)
        if not await self._book.write(wallet, known, change):
            metrics.REFUSED.inc()
            return
        for alert in change.alerts:
            metrics.ALERTS.labels(alert.kind).inc()

    def _keep(self, wallet: str, known: Known, measured: Measured) -> None:
        """Keep the hour's net worth, if it is not there, or was not whole and is now."""
        taken = snapshot(wallet, measured)
        if known.hour_ms is not None and taken.hour_ms <= known.hour_ms:
            is_better = taken.hour_ms == known.hour_ms and taken.is_complete > known.is_whole
            if not is_better:
                return
        if not self._writer.has(wallet, taken.hour_ms, is_complete=taken.is_complete):
            self._writer.put(taken)

    async def _list(self) -> None:
        """Take the wallets that were asked for last; raises RedisError."""
        self._listed_s = asyncio.get_running_loop().time()
        name = TRACKED_WALLETS.make()
        count, raw = await self._redis.ask(
            [("ZCARD", name), ("ZRANGE", name, 0, self._most - 1, "REV")]
        )
        wallets = [*map(text, raw)]
        self._turns.set(wallets, self._listed_s)
        self._ahead.keep(wallets)
        self._wallets, self._left_out = len(raw), max(0, count - len(raw))
        metrics.WALLETS.set(self._wallets)
        metrics.LEFT_OUT.set(self._left_out)


async def _first(stopped: asyncio.Task[bool], *works: Coroutine[Any, Any, None]) -> None:
    """Return when the first of works ends, or `stopped` does; end the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
