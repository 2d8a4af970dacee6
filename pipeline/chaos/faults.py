"""The faults of a run: which roles are killed when, and what else happens to them."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Collection
from itertools import filterfalse
from random import Random
from typing import Final

from infra.bench import progress
from infra.redis.client import connect
from infra.redis.cluster import Cluster
from pipeline.chaos import account_holes, losses
from pipeline.chaos.account_holes import AccountPath
from pipeline.chaos.fleet import ACCOUNTS, GROUPS, OUTAGE_S, SYSTEMS, Fleet, RoleFailed, is_system
from pipeline.chaos.losses import Hole
from pipeline.chaos.report import Report
from pipeline.chaos.spoil import spoil
from pipeline.chaos.takeovers import Takeovers, judge
from pipeline.chaos.watch import SETTLED_GROUPS, Watch

REDIS_LOST: Final = "redis-lost"
CLICKHOUSE_LOST: Final = "clickhouse-lost"
BAD_VALUE: Final = "bad-value"
ACCOUNTS_HOLE: Final = account_holes.OF_ALL
# How often each is chosen, from a deck that is dealt again when it is empty.
DECK: Final = {
    "ingest": 3,
    **dict.fromkeys((*GROUPS, *ACCOUNTS), 2),
    **dict.fromkeys(SYSTEMS, 1),
    REDIS_LOST: 1,
    CLICKHOUSE_LOST: 1,
    BAD_VALUE: 1,
    ACCOUNTS_HOLE: 1,
}
ALONE: Final = frozenset({REDIS_LOST, CLICKHOUSE_LOST, BAD_VALUE, ACCOUNTS_HOLE})
PAIRS: Final = 0.25  # of kills that hit two roles at once
PAUSE_S: Final = 5.0  # between a recovery and the next kill, on average
LONGEST_DOWN_S: Final = 3.0
# On a busy machine of two cores Apache Kafka was seen to need more than 180 s.
RECOVER_S: Final = 360.0
FULL_S: Final = 15.0
AT_REST_S: Final = 17.0  # `soltape rebuild` regards agents as stopped after that time
LONG_MIN: Final = 2.0  # a run of so many minutes has a hole of accounts, in its second half
PNL, MARKET = "pnl", "market"


class Faults:
    """Chooses faults by the seed of the run, and makes them happen."""

    def __init__(
        self,
        fleet: Fleet,
        watch: Watch,
        report: Report,
        only: Collection[str],
        *,
        standby: bool,
        path: AccountPath | None,
        takeover_limit_s: float | None = None,
    ) -> None:
        """Choose among `only`, or all faults where it is empty; `path`: of the lane of accounts."""
        self._fleet = fleet
        self._plan = fleet.plan
        self._watch = watch
        self._report = report
        self._standby = standby
        self._path = path
        self._takeover_limit_s = takeover_limit_s
        self._takeovers = Takeovers(watch, self._plan.ingests)
        self._cards = [
            role
            for role, times in DECK.items()
            if role in (only or DECK) and (path or role not in (*ACCOUNTS, ACCOUNTS_HOLE))
            for _ in range(times)
        ]
        self._deck: list[str] = []
        self._owed = {*only} & {*self._cards}  # what was asked for, and has not happened
        self._random = Random(report.seed)  # noqa: S311 - reproducible, not secret

    async def lose_slots(self) -> None:
        """Keep ingest down until the chain has forgotten slots."""
        progress(f"ingest is down for {OUTAGE_S:.0f} s, longer than the chain remembers")
        before = await self._watch.reached("ingest")
        for name in self._plan.ingests:
            await self._fleet.kill(name)
        await asyncio.sleep(OUTAGE_S)
        await self._fleet.start(*self._plan.ingests)
        await self._watch.recovered(before, RECOVER_S)

    async def strike(
        self, between: Callable[[], Awaitable[None]], until_covered: Callable[[], Awaitable[None]]
    ) -> None:
        """Kill roles for as long as the run lasts, and until all that was asked for has happened.

        Calls `between` before each kill. `until_covered` waits until the accounts are covered that
        were asked for. Raises RoleFailed, and TimeoutError where a role makes no progress after a
        kill.
        """
        report = self._report
        recoveries: list[float] = []
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < report.minutes * 60 or self._owed:
            await between()
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            roles = [ACCOUNTS_HOLE] if self._lacks_hole(elapsed) else self._choose()
            if ACCOUNTS_HOLE in roles:
                progress(f"{elapsed:5.0f} s: the lane of accounts loses slots")
                await self._lose_accounts(until_covered)
                continue
            if REDIS_LOST in roles:
                progress(f"{elapsed:5.0f} s: Redis loses all it has")
                await self._lose_redis()
                continue
            if CLICKHOUSE_LOST in roles:
                progress(f"{elapsed:5.0f} s: ClickHouse loses all it has")
                await self._lose_clickhouse()
                continue
            if BAD_VALUE in roles:
                await self._spoil_value()
                continue
            if self._standby and roles[0] in self._plan.ingests and self._random.random() < 0.5:
                await self._pause(roles[0])
                continue
            before = {role: await self._watch.reached(role) for role in roles}
            progress(f"{elapsed:5.0f} s: SIGKILL {', '.join(roles)}")
            async with self._takeovers.timing(*roles):
                killed_s = time.monotonic()
                for role in roles:
                    await self._fleet.kill(role)
                    report.count(role)
                await asyncio.sleep(self._random.uniform(0, LONGEST_DOWN_S))
                # An agent ends where no broker answers, which would count as a crash.
                await self._fleet.start(*filter(is_system, roles))
                await self._fleet.start(*filterfalse(is_system, roles))
                for role in roles:
                    await self._watch.recovered(before[role], RECOVER_S)
                recoveries.append(time.monotonic() - killed_s)
        if self._lacks_hole(time.monotonic() - began):
            await self._lose_accounts(until_covered)
        report.recovery_s = {
            "median": round(statistics.median(recoveries), 1) if recoveries else 0.0,
            "max": round(max(recoveries, default=0.0), 1),
        }
        if self._standby:
            found = report.takeover_s = judge(self._takeovers.took_s, self._takeover_limit_s)
            if not report.in_time:
                late = f"{found['late']} of {found['count']} took longer than {found['limit']} s"
                progress(f"takeovers: {late if found['count'] else 'none was timed'}")

    def _lacks_hole(self, elapsed_s: float) -> bool:
        """Return whether it is time for the hole of accounts that each long run has."""
        minutes = self._report.minutes
        had = self._report.kills.keys() & {account_holes.OF_ALL, account_holes.OF_ONE}
        is_time = minutes >= LONG_MIN and elapsed_s > minutes * 30
        return is_time and not had and ACCOUNTS_HOLE in self._cards

    async def _lose_accounts(self, until_covered: Callable[[], Awaitable[None]]) -> None:
        """Let the lane of accounts lose slots for good; then it goes on."""
        assert self._path is not None
        hole = await account_holes.lose_slots(
            self._fleet, self._watch, self._path, until_covered, self._random, RECOVER_S
        )
        before = await self._watch.reached(ACCOUNTS[0])
        await self._watch.recovered(before, RECOVER_S)
        self._count(hole, ACCOUNTS_HOLE)

    async def _lose_redis(self) -> None:
        """Empty Redis under the agents, and rebuild the books from ClickHouse and the log."""
        before = await self._watch.reached("redis")
        settled = self._keepers()
        for name in (*settled, *self._plan.redis):
            await self._fleet.kill(name)
        for name in self._plan.redis:
            data = self._plan.settings.soltape_data / name
            await asyncio.to_thread(shutil.rmtree, data)
            data.mkdir(mode=0o700)
        await self._fleet.start(*self._plan.redis)
        await self._fleet.rebuild()
        await self._fleet.start(*settled)
        await self._watch.recovered(before, RECOVER_S)
        self._count(REDIS_LOST)

    async def _lose_clickhouse(self) -> None:
        """Lose ClickHouse some time after a backup, and bring it back as documented.

        What came after the backup is written again from the log.
        """
        fleet, keepers = self._fleet, self._keepers()
        folder = self._plan.settings.soltape_data
        backup, data = folder / "backup", folder / "clickhouse"
        await asyncio.to_thread(shutil.rmtree, backup, ignore_errors=True)
        before = await self._watch.reached("clickhouse")
        await fleet.end(*keepers, "clickhouse")
        await fleet.command("clickhouse", "backup", str(backup))
        await fleet.start("clickhouse")
        await fleet.start(*keepers)  # which end where no ClickHouse serves when they start
        await self._watch.recovered(before, RECOVER_S)
        before = await self._watch.reached("clickhouse")
        for name in (*keepers, "clickhouse"):
            await fleet.kill(name)
        await asyncio.to_thread(shutil.rmtree, data)
        await fleet.command("clickhouse", "restore", str(backup))
        await fleet.start("clickhouse")
        await asyncio.sleep(AT_REST_S)
        await fleet.rebuild("--from-checkpoint")
        await fleet.start(*keepers)
        await self._watch.recovered(before, RECOVER_S)
        self._count(CLICKHOUSE_LOST)

    def _keepers(self) -> list[str]:
        """Return the agents that keep books."""
        settled = [name for name, group in self._plan.workers.items() if group in SETTLED_GROUPS]
        return settled + ["accounts"] * bool(self._plan.accounts)

    async def lose_log(self) -> Hole:
        """Keep a group down until the log of one of its partitions has lost what it needs next.

        Returns what is lost, once ClickHouse names it. Raises TimeoutError where it does not.
        """
        group = self._random.choice(SETTLED_GROUPS)
        # Partition 0 of `store` has the slots themselves.
        partition = self._random.randrange(1, losses.LANES[group].partitions)
        settings = self._plan.settings
        workers = [name for name, of in self._plan.workers.items() if of == group]
        before = await self._watch.reached(group)
        for name in workers:
            await self._fleet.kill(name)
        holes: list[Hole] = []

        async def forgotten() -> bool:
            if (lost := await losses.forget(settings, group, partition)) is not None:
                holes.append(lost)
            return bool(holes)

        await self._watch.until(forgotten, RECOVER_S, f"a log that {group} has not read")
        [hole] = holes
        slots = f"slots {hole.first_slot} to {hole.last_slot}"
        progress(f"the log has lost {slots} of {hole.lost_by}")
        await self._fleet.start(*workers)
        await self._watch.recovered(before, RECOVER_S)

        async def named() -> bool:
            return hole.lost_by in await asyncio.to_thread(losses.named, settings)

        await self._watch.until(named, RECOVER_S, f"a gap of {hole.lost_by}")
        self._report.log_lost = f"{slots} of {hole.lost_by}"
        return hole

    async def _spoil_value(self) -> None:
        """Spoil a stored value; agents must go on without its wallet or mint, and rebuild mend it.

        Agents read it again where they do not have it in memory: so they are started anew.
        """
        before = await self._watch.reached("redis")
        workers = [name for name, group in self._plan.workers.items() if group in SETTLED_GROUPS]
        group = self._random.choice([PNL, MARKET])
        redis = connect(self._plan.settings)
        try:
            for name in workers:
                await self._fleet.kill(name)
            spoiled = await spoil(redis, self._random, group)
            await self._fleet.start(*workers)
            await self._watch.recovered(before, RECOVER_S)
            if spoiled is None:
                return
            progress(f"        {spoiled.place} cannot be read")

            async def named() -> bool:
                return bool(await redis.hexists(spoiled.record, spoiled.name))

            await self._watch.until(named, RECOVER_S, f"{spoiled.name} in quarantine")
            before = await self._watch.reached("redis")
            await self._watch.recovered(before, RECOVER_S)
            await self._fleet.end(*workers)
            await asyncio.sleep(AT_REST_S)
            await self._fleet.rebuild()
            if await named():
                raise RoleFailed(f"{spoiled.name} is in quarantine although it was rebuilt")
            await self._fleet.start(*workers)
            await self._watch.recovered(before, RECOVER_S)
        finally:
            await redis.aclose()
        self._count(BAD_VALUE)

    async def _pause(self, role: str) -> None:
        """Pause an ingest until the other one publishes; then its writes must be refused."""
        before = await self._watch.reached(role)
        progress(f"        SIGSTOP {role}")
        async with self._takeovers.timing(role):
            with self._fleet.paused(role):
                await asyncio.sleep(self._plan.settings.ingest_takeover_s)
                await self._watch.recovered(before, RECOVER_S)
        self._report.count(f"{role} paused")

    def _count(self, fault: str, role: str = "") -> None:
        self._report.count(fault)
        self._owed.discard(role or fault)

    def _choose(self) -> list[str]:
        """Deal one role or two, of a group any of its processes; what is no kill comes alone."""
        count = 1 + (self._random.random() < PAIRS)
        chosen: dict[str, str] = {}  # role -> process
        while len(chosen) < min(count, len({*self._cards})) and not chosen.keys() & ALONE:
            if not self._deck:
                self._deck = list(self._cards)
                self._random.shuffle(self._deck)
            role = self._deck.pop()
            if role in ALONE and chosen:
                self._deck.append(role)
                break
            names = [name for name, group in self._plan.workers.items() if group == role] or [role]
            if role == "ingest":
                names = list(self._plan.ingests)
            if role == "redis":
                names = list(self._plan.redis)
            chosen.setdefault(role, self._random.choice(names))
        self._owed -= chosen.keys() - ALONE
        return list(chosen.values())

    async def fill_redis(self) -> None:
        """Let Redis refuse to store more for a while, then give it room."""
        redis = connect(self._plan.settings)
        try:
            nodes = await redis.nodes.primaries() if isinstance(redis, Cluster) else [redis]
            used = [int((await node.info("memory"))["used_memory"]) for node in nodes]
            progress(f"Redis is full at {sum(used):,} bytes for {FULL_S:.0f} s")
            for node, held in zip(nodes, used, strict=True):
                await node.config_set("maxmemory", held)
            await asyncio.sleep(FULL_S)
            refused = [(await node.info("errorstats")).get("errorstat_OOM", {}) for node in nodes]
            self._report.full = {
                "refused": sum(int(each.get("count", 0)) for each in refused),
                "wallets_evicted": await self._evicted(PNL),
                "markets_evicted": await self._evicted(MARKET),
            }
            before = {group: await self._watch.watermark(group) or 0 for group in SETTLED_GROUPS}
            for node, held in zip(nodes, used, strict=True):
                await node.config_set("maxmemory", held + held // 20)
            await self._watch.recovered(before, RECOVER_S)
        finally:
            await redis.aclose()

    async def _evicted(self, group: str) -> int:
        """Return how much the processes of a group evicted because Redis was full."""
        name = "soltape_agents_evicted_total"
        counts = [
            await self._watch.metric(process, name, group=group) or 0
            for process, of in self._plan.workers.items()
            if of == group
        ]
        return int(sum(counts))
