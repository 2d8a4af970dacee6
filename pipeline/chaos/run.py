"""One run of `soltape chaos`, stage by stage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from infra.bench import progress
from pipeline.chaos.account_holes import AccountPath
from pipeline.chaos.asked import AskedAccounts
from pipeline.chaos.balancer import Balancer
from pipeline.chaos.faults import Faults
from pipeline.chaos.fleet import ACCOUNTS, API, Chain, Fleet, is_system, plan
from pipeline.chaos.positions import DemoPositions
from pipeline.chaos.report import Report
from pipeline.chaos.verdict import Verdict
from pipeline.chaos.watch import SETTLE_S, SETTLED_GROUPS, Watch, last_settled

ROLLED_BACK: Final = 0.3  # of forks
STREAMS: Final = (2, 1)  # of the lane of accounts, by the seed


class Run:
    """One run."""

    def __init__(
        self,
        folder: Path,
        report: Report,
        *,
        outage: bool,
        standby: bool,
        takeover_limit_s: float | None,
        full: bool,
        log_lost: bool,
        accounts: bool,
        replay: bool,
        rebuild: bool,
        only: Collection[str],
    ) -> None:
        self._folder = folder
        self._report = report
        self._outage = outage
        self._standby = standby
        self._takeover_limit_s = takeover_limit_s
        self._full = full
        self._log_lost = log_lost
        self._accounts = accounts
        self._replay = replay
        self._rebuild = rebuild
        self._only = only

    async def all(self) -> None:
        """Run to the end. Raises RoleFailed, TimeoutError, ApacheUnavailable and what stores do."""
        report = self._report
        chain = Chain(
            report.seed, report.rate, report.minutes, forgets=self._outage, rolled_back=ROLLED_BACK
        )
        broker: Any = report.broker
        redis_kind: Any = report.redis
        planned = await asyncio.to_thread(
            plan,
            self._folder,
            chain,
            broker,
            report.workers,
            standby=self._standby,
            accounts=self._accounts,
            account_streams=STREAMS[report.seed % len(STREAMS)],
            redis_kind=redis_kind,
        )
        report.account_streams = planned.account_streams if planned.accounts else 0
        async with AsyncExitStack() as balanced:
            path = None
            if planned.accounts:
                [port] = re.findall(r"\d+$", planned.settings.geyser_endpoint)
                await balanced.enter_async_context(Balancer(int(port), planned.nodes))
                path = await balanced.enter_async_context(AccountPath(planned))
            await self._stages(Fleet(planned), Watch(planned), path)

    async def _stages(self, fleet: Fleet, watch: Watch, path: AccountPath | None) -> None:
        report, planned = self._report, fleet.plan
        faults = Faults(
            fleet,
            watch,
            report,
            self._only,
            standby=self._standby,
            path=path,
            takeover_limit_s=self._takeover_limit_s,
        )
        asked, positions = AskedAccounts(planned), DemoPositions(planned)
        verdict = Verdict(fleet, watch, report)
        try:
            progress(f"{self._folder}: starting")
            systems = [name for name in planned.processes if is_system(name)]
            await fleet.start(*systems)
            lane = ACCOUNTS if planned.accounts else ()
            await fleet.start(*planned.workers, *lane, *planned.ingests, "chain")
            await self._first_slots(watch)
            if self._outage:
                await faults.lose_slots()
            await faults.strike(asked.ask, partial(asked.until_covered, watch))
            if self._full:
                await faults.fill_redis()
            hole = await faults.lose_log() if self._log_lost else None
            await asked.ask()
            await asked.until_covered(watch)
            if planned.accounts:
                progress("demo wallets are asked for, then the market comes to rest")
                await fleet.start(API)
                await positions.until_known(watch)
                await positions.until_rest(fleet.rest, watch)
                # A slot that was rolled back meanwhile may have withdrawn what was covered.
                await asked.until_covered(watch)
            last = await self._calm(fleet, watch)
            await verdict.compare(asked, positions, last, lost_slots=self._outage, hole=hole)
            if self._replay or self._rebuild:
                await verdict.read_again(last, replay=self._replay, rebuild=self._rebuild)
        finally:
            report.crashes = fleet.crashes
            await watch.close()
            await fleet.close()

    async def _first_slots(self, watch: Watch) -> None:
        async def all_moved() -> bool:
            return all([await watch.watermark(group) for group in SETTLED_GROUPS])

        await watch.until(all_moved, SETTLE_S, "the first slot in all stores")

    async def _calm(self, fleet: Fleet, watch: Watch) -> int:
        """Stop the chain and wait until all that was confirmed is in the stores."""
        confirmed = await watch.metric("chain", "soltape_chain_slot", commitment="confirmed") or 0

        async def published() -> bool:
            return (await watch.progress("ingest") or 0) >= confirmed

        await watch.until(published, SETTLE_S, f"slot {confirmed} on the settled lanes")
        await fleet.end("chain")
        last = 0

        async def quiet() -> bool:
            nonlocal last
            before, last = last, await last_settled(fleet.plan)
            await asyncio.sleep(2.0)
            return last == before

        await watch.until(quiet, SETTLE_S, "the end of the settled lanes")
        await watch.all_applied(last)
        return last
