"""`soltape chaos`: the whole pipeline under fire, and the proof that nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import click
import orjson
from redis.exceptions import RedisError

from infra.bench import machine, progress
from infra.interrupt import end_as_by_ctrl_c
from infra.redis.client import connect
from infra.settings import load
from infra.telemetry import configure_logging
from pipeline.chaos import accounts, again, stores, truth
from pipeline.chaos.balancer import Balancer
from pipeline.chaos.compare import Oracle, compare
from pipeline.chaos.differences import Differences
from pipeline.chaos.fleet import (
    ACCOUNTS,
    GROUPS,
    OUTAGE_S,
    SYSTEMS,
    Broker,
    Chain,
    Fleet,
    Plan,
    RoleFailed,
    plan,
)
from pipeline.chaos.live import missing_live
from pipeline.chaos.spoil import spoil
from pipeline.chaos.values import MONEY
from pipeline.chaos.watch import SETTLED_GROUPS, Watch, last_settled, torn_slots
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS

# How often each is chosen, in a deck that is dealt again when it is empty.
REDIS_LOST: Final = "redis-lost"
BAD_VALUE: Final = "bad-value"
DECK: Final = {
    "ingest": 3,
    **dict.fromkeys((*GROUPS, *ACCOUNTS), 2),
    **dict.fromkeys(SYSTEMS, 1),
    REDIS_LOST: 1,
    BAD_VALUE: 1,
}
PAIRS: Final = 0.25  # of kills that hit two roles at once
PAUSE_S: Final = 5.0  # between a recovery and the next kill, on average
LONGEST_DOWN_S: Final = 3.0
# On a busy machine of two cores Apache Kafka was seen to need more than 180 s.
RECOVER_S: Final = 360.0
SETTLE_S: Final = 360.0
CHANGES_KEPT: Final = 20
ASKED_AT_ONCE: Final = 5  # wallets that traded last
ROLLED_BACK: Final = 0.3  # of forks
NAMED_THOUGH_HAD: Final = ("rolled back", "not known to be final")  # reasons of gaps
FINAL_SLOTS: Final = 60  # after so many a slot is final, skipped ones and forks counted
FULL_S: Final = 15.0
AT_REST_S: Final = 17.0  # after so long `soltape rebuild` takes agents for stopped
PNL, MARKET = "pnl", "market"


@dataclass(slots=True)
class Report:
    """What the run showed: the JSON line."""

    seed: int
    minutes: float
    broker: str
    rate: float
    workers: int
    slots: int = 0
    swaps: int = 0
    gap_slots: int = 0
    torn_slots: int = 0  # named as gaps, and on some partitions of the lanes: not compared
    excused: int = 0  # differences at wallets, mints and pools of those
    rolled_back_slots: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    differences: int = 0
    differences_by_kind: dict[str, int] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    recovery_s: dict[str, float] = field(default_factory=dict)
    replay_changed: int | None = None  # None: not tried
    rebuild_changed: int | None = None
    full: dict[str, int] | None = None  # writes refused; wallets, markets put away for it
    failure: str = ""
    folder: str = ""

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        again = self.replay_changed or self.rebuild_changed
        return not (self.failure or self.differences or again) and self.swaps > 0


@click.command()
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of all chance.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.2, 24 * 60),
    default=2.0,
    show_default=True,
    help="How long roles are killed.",
)
@click.option(
    "--broker",
    type=click.Choice(["embedded", "apache"]),
    default="embedded",
    show_default=True,
    help="Which Kafka: our small one, or Apache Kafka (needs Java 17 and Maven).",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 5_000),
    default=150,
    show_default=True,
    help="Transactions a second of the chain.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Processes that share the partitions of each group that keeps books.",
)
@click.option(
    "--outage",
    is_flag=True,
    help="First keep ingest down for longer than the chain remembers: gaps must tell what is lost.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Run a second ingest; half of what hits one is a pause longer than a takeover.",
)
@click.option(
    "--full",
    is_flag=True,
    help="At the end let Redis be full for a while, then give it 5 % more; --no-rebuild.",
)
@click.option(
    "--accounts/--no-accounts",
    default=True,
    show_default=True,
    help="With the lane of accounts, against a chain of two nodes.",
)
@click.option("--replay/--no-replay", default=True, help="Read the log again onto the stores.")
@click.option("--rebuild/--no-rebuild", default=True, help="Compute all again from empty stores.")
@click.option(
    "--kill",
    "only",
    multiple=True,
    type=click.Choice(sorted(DECK)),
    help="Kill only this role; may be repeated. redis-lost empties Redis and rebuilds it; "
    "bad-value spoils a stored value, waits until its wallet or mint is in quarantine, and "
    "rebuilds.",
)
@click.option("--keep", is_flag=True, help="Keep the folder, whatever comes out.")
def chaos(
    seed: int,
    minutes: float,
    broker: Broker,
    rate: float,
    workers: int,
    outage: bool,
    standby: bool,
    full: bool,
    accounts: bool,
    replay: bool,
    rebuild: bool,
    only: tuple[str, ...],
    keep: bool,
) -> None:
    """Kill roles at random, then compare the stores with an independent computation.

    Runs everything in a folder of its own: a simulated chain with forks, duplicates and broken
    streams; broker, ClickHouse, Redis, ingest and each agent group as processes, which are killed
    with SIGKILL and started again. At the end all that the stores hold is compared with what
    follows from the market's own notes; then the log is read onto the finished stores again,
    which must change nothing, and onto empty ones, which must give the same.

    Prints one JSON line. Status 1 if anything differs; the folder is kept then.

    \b
      soltape chaos --seed 7 --minutes 15 --broker apache
    """
    end_as_by_ctrl_c()
    configure_logging(load(), "chaos")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # we kill the broker ourselves
    folder = Path(tempfile.mkdtemp(prefix="soltape-chaos-"))
    report = Report(seed, minutes, broker, rate, workers, folder=str(folder))
    # What was put away to make room is not what empty stores come to.
    rebuild = rebuild and not full
    run = Run(
        folder,
        report,
        outage=outage,
        standby=standby,
        full=full,
        accounts=accounts,
        replay=replay,
        rebuild=rebuild,
        only=only,
    )
    try:
        asyncio.run(run.all())
    except Exception as error:  # whatever it is: what has been found so far is told
        report.failure = f"{type(error).__name__}: {error}"
        (folder / "failure.txt").write_text(traceback.format_exc())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # Ctrl-C
        raise
    if report.passed and not keep:
        shutil.rmtree(folder, ignore_errors=True)
        report.folder = ""
    line = {"chaos": "passed" if report.passed else "failed", **asdict(report)}
    sys.stdout.write(orjson.dumps({**line, "machine": machine()}).decode() + "\n")
    sys.exit(0 if report.passed else 1)


class Run:
    """One run."""

    def __init__(
        self,
        folder: Path,
        report: Report,
        *,
        outage: bool,
        standby: bool,
        full: bool,
        accounts: bool,
        replay: bool,
        rebuild: bool,
        only: tuple[str, ...],
    ) -> None:
        self._folder = folder
        self._report = report
        self._outage = outage
        self._standby = standby
        self._full = full
        self._replay = replay
        self._rebuild = rebuild
        self._accounts = accounts
        self._cards = [
            role
            for role, times in DECK.items()
            if role in (only or DECK) and (accounts or role not in ACCOUNTS)
            for _ in range(times)
        ]
        self._random = Random(report.seed)  # noqa: S311 - reproducible, not secret
        self._deck: list[str] = []
        self._wallets: set[str] = set()  # whose accounts were asked for
        self._mints: set[str] = set()
        self._recoveries: list[float] = []

    async def all(self) -> None:
        """Run to the end. Raises RoleFailed, TimeoutError, ApacheUnavailable and what stores do."""
        report = self._report
        chain = Chain(
            report.seed, report.rate, report.minutes, forgets=self._outage, rolled_back=ROLLED_BACK
        )
        broker: Any = report.broker
        planned = await asyncio.to_thread(
            plan,
            self._folder,
            chain,
            broker,
            report.workers,
            standby=self._standby,
            accounts=self._accounts,
        )
        fleet, watch = Fleet(planned), Watch(planned)
        async with AsyncExitStack() as balanced:
            if planned.accounts:
                [port] = re.findall(r"\d+$", planned.settings.geyser_endpoint)
                await balanced.enter_async_context(Balancer(int(port), planned.nodes))
            await self._stages(fleet, watch)

    async def _stages(self, fleet: Fleet, watch: Watch) -> None:
        report, planned = self._report, fleet.plan
        try:
            progress(f"{self._folder}: starting")
            await fleet.start("kafka", "clickhouse", "redis")
            lane = ACCOUNTS if planned.accounts else ()
            await fleet.start(*planned.workers, *lane, *planned.ingests, "chain")
            await self._first_slots(watch)
            if self._outage:
                await self._lose_slots(fleet, watch)
            await self._fire(fleet, watch)
            if self._full:
                await self._fill(fleet, watch)
            await self._ask_accounts(fleet.plan)
            await self._all_covered(fleet.plan, watch)
            last = await self._calm(fleet, watch)
            await self._compare(fleet, watch, last)
            if self._replay or self._rebuild:
                await self._again(fleet, watch, last)
        finally:
            report.crashes = fleet.crashes
            await watch.close()
            await fleet.close()

    async def _first_slots(self, watch: Watch) -> None:
        async def all_moved() -> bool:
            return all([await watch.watermark(group) for group in SETTLED_GROUPS])

        await watch.until(all_moved, SETTLE_S, "the first slot in all stores")

    async def _lose_slots(self, fleet: Fleet, watch: Watch) -> None:
        progress(f"ingest is down for {OUTAGE_S:.0f} s, longer than the chain remembers")
        before = await watch.standing("ingest")
        for name in fleet.plan.ingests:
            await fleet.kill(name)
        await asyncio.sleep(OUTAGE_S)
        await fleet.start(*fleet.plan.ingests)
        await watch.recovered(before, RECOVER_S)

    # Under fire.

    async def _fire(self, fleet: Fleet, watch: Watch) -> None:
        report = self._report
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < report.minutes * 60:
            await self._ask_accounts(fleet.plan)
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            roles = self._choose(fleet.plan)
            if REDIS_LOST in roles:
                progress(f"{elapsed:5.0f} s: Redis loses all it has")
                await self._lose_redis(fleet, watch)
                continue
            if BAD_VALUE in roles:
                await self._spoil_value(fleet, watch)
                continue
            if self._standby and roles[0] in fleet.plan.ingests and self._random.random() < 0.5:
                await self._pause(fleet, watch, roles[0])
                continue
            before = {role: await watch.standing(role) for role in roles}
            progress(f"{elapsed:5.0f} s: SIGKILL {', '.join(roles)}")
            killed_s = time.monotonic()
            for role in roles:
                await fleet.kill(role)
                report.kills[role] = report.kills.get(role, 0) + 1
            await asyncio.sleep(self._random.uniform(0, LONGEST_DOWN_S))
            for role in sorted(roles, key=lambda role: role not in SYSTEMS):
                fleet.launch(role)
            for role in roles:
                await fleet.serves(role)
            for role in roles:
                await watch.recovered(before[role], RECOVER_S)
            self._recoveries.append(time.monotonic() - killed_s)
        report.recovery_s = {
            "median": round(statistics.median(self._recoveries), 1) if self._recoveries else 0.0,
            "max": round(max(self._recoveries, default=0.0), 1),
        }

    async def _lose_redis(self, fleet: Fleet, watch: Watch) -> None:
        """Empty Redis under the agents, and rebuild the books from ClickHouse and the log."""
        before = await watch.standing("redis")
        settled = [name for name, group in fleet.plan.workers.items() if group in SETTLED_GROUPS]
        if fleet.plan.accounts:
            settled.append("accounts")
        for name in (*settled, "redis"):
            await fleet.kill(name)
        data = self._folder / "redis"
        await asyncio.to_thread(shutil.rmtree, data)
        data.mkdir(mode=0o700)
        await fleet.start("redis")
        await fleet.rebuild()
        await fleet.start(*settled)
        await watch.recovered(before, RECOVER_S)
        self._report.kills[REDIS_LOST] = self._report.kills.get(REDIS_LOST, 0) + 1

    async def _spoil_value(self, fleet: Fleet, watch: Watch) -> None:
        """Spoil a stored value; agents must go on without its wallet or mint, and rebuild mend it.

        Agents read it again where they do not have it in memory: so they are started anew.
        """
        before = await watch.standing("redis")
        workers = [name for name, group in fleet.plan.workers.items() if group in SETTLED_GROUPS]
        group = self._random.choice([PNL, MARKET])
        redis = connect(fleet.plan.settings)
        try:
            for name in workers:
                await fleet.kill(name)
            spoiled = await spoil(redis, self._random, group)
            await fleet.start(*workers)
            await watch.recovered(before, RECOVER_S)
            if spoiled is None:
                return
            progress(f"        {spoiled.place} cannot be read")

            async def named() -> bool:
                return bool(await redis.hexists(spoiled.record, spoiled.name))

            await watch.until(named, RECOVER_S, f"{spoiled.name} in quarantine")
            before = await watch.standing("redis")
            await watch.recovered(before, RECOVER_S)
            await fleet.end(*workers)
            await asyncio.sleep(AT_REST_S)
            await fleet.rebuild()
            if await named():
                raise RoleFailed(f"{spoiled.name} is in quarantine although it was rebuilt")
            await fleet.start(*workers)
            await watch.recovered(before, RECOVER_S)
        finally:
            await redis.aclose()
        self._report.kills[BAD_VALUE] = self._report.kills.get(BAD_VALUE, 0) + 1

    async def _pause(self, fleet: Fleet, watch: Watch, role: str) -> None:
        """Pause an ingest until the other one publishes; then its writes must be refused."""
        before = await watch.standing(role)
        progress(f"        SIGSTOP {role}")
        with fleet.paused(role):
            await asyncio.sleep(fleet.plan.settings.ingest_takeover_s)
            await watch.recovered(before, RECOVER_S)
        name = f"{role} paused"
        self._report.kills[name] = self._report.kills.get(name, 0) + 1

    def _choose(self, planned: Plan) -> list[str]:
        """Deal one role or two; of a group any of its processes."""
        count = 1 + (self._random.random() < PAIRS)
        chosen: dict[str, str] = {}  # role -> process
        while len(chosen) < min(count, len({*self._cards})):
            if not self._deck:
                self._deck = list(self._cards)
                self._random.shuffle(self._deck)
            role = self._deck.pop()
            names = [name for name, group in planned.workers.items() if group == role] or [role]
            if role == "ingest":
                names = list(planned.ingests)
            chosen.setdefault(role, self._random.choice(names))
        return list(chosen.values())

    async def _fill(self, fleet: Fleet, watch: Watch) -> None:
        """Let Redis refuse to store more for a while, then give it room."""
        redis = connect(fleet.plan.settings)
        try:
            used = int((await redis.info("memory"))["used_memory"])
            progress(f"Redis is full at {used:,} bytes for {FULL_S:.0f} s")
            await redis.config_set("maxmemory", used)
            await asyncio.sleep(FULL_S)
            refused = (await redis.info("errorstats")).get("errorstat_OOM", {}).get("count", 0)
            self._report.full = {
                "refused": int(refused),
                "wallets_evicted": await _evicted(fleet, watch, PNL),
                "markets_evicted": await _evicted(fleet, watch, MARKET),
            }
            before = {group: await watch.watermark(group) or 0 for group in SETTLED_GROUPS}
            await redis.config_set("maxmemory", used + used // 20)
            await watch.recovered(before, RECOVER_S)
        finally:
            await redis.aclose()

    # The end.

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
        await self._reached(watch, last)
        return last

    # Accounts.

    async def _ask_accounts(self, planned: Plan) -> None:
        """Ask for the accounts of some more of those who traded, and for their coins' mints.

        Those of before are asked for again: a Redis that lost all has forgotten who was.
        """
        if not planned.accounts:
            return
        trades = await asyncio.to_thread(truth.newest_swaps, planned.truth, ASKED_AT_ONCE)
        self._wallets |= {swap["wallet"] for swap in trades}
        self._mints |= {swap["mint"] for swap in trades} - {*MONEY}
        with suppress(RedisError, OSError):  # it may have been killed just now
            await accounts.ask(planned.settings, self._wallets, self._mints)

    async def _all_covered(self, planned: Plan, watch: Watch) -> None:
        if not planned.accounts:
            return
        subjects = [*map(text, accounts.SIZES), *sorted(self._wallets), *sorted(self._mints)]
        lacking: list[str] = subjects

        async def covered() -> bool:
            nonlocal lacking
            lacking = await accounts.uncovered(planned.settings, lacking)
            return not lacking

        try:
            await watch.until(covered, SETTLE_S, "")
        except TimeoutError:
            few = ", ".join(lacking[:5])
            raise TimeoutError(f"{len(lacking)} not covered in {SETTLE_S:.0f} s: {few}") from None

    async def _compare_accounts(
        self, fleet: Fleet, watch: Watch, chain: Sequence[truth.Slot], found: Differences
    ) -> None:
        planned = fleet.plan
        if planned.accounts is None:
            return
        last = await last_settled(planned, SETTLED_ACCOUNTS)

        async def applied() -> bool:
            return await watch.watermark(accounts.GROUP) == last

        await watch.until(applied, SETTLE_S, f"slot {last} of the lane of accounts in Redis")
        # A rollback of these the chain did not live to say.
        left = {each.slot for each in chain if each.rolled_back and each.slot > last - FINAL_SLOTS}
        canonical = {each.slot for each in chain if not each.rolled_back and each.slot <= last}
        state = await asyncio.to_thread(
            accounts.after, planned.accounts, canonical, left, self._wallets
        )
        of_accounts = Differences(unknowable=frozenset(state.unsettled))
        await accounts.compare(planned.settings, state, self._wallets, self._mints, of_accounts)
        found.take(of_accounts)

    async def _reached(self, watch: Watch, last: int) -> None:
        async def all_there() -> bool:
            return all([await watch.watermark(group) == last for group in SETTLED_GROUPS])

        await watch.until(all_there, SETTLE_S, f"slot {last} in all stores")

    async def _compare(self, fleet: Fleet, watch: Watch, last: int) -> None:
        report = self._report
        progress(f"comparing up to slot {last}")
        settings = fleet.plan.settings
        stored = await stores.read(settings)
        numbers = {row["slot"] for row in stored.rows["slots"]}
        gaps = [(row["first_slot"], row["last_slot"]) for row in stored.rows["gaps"]]
        whole = await asyncio.to_thread(truth.read, fleet.plan.truth)
        chain = [slot for slot in whole if min(numbers) <= slot.slot <= last]
        lost = [
            (row["first_slot"], row["last_slot"])
            for row in stored.rows["gaps"]
            if not row["reason"].startswith(NAMED_THOUGH_HAD)
        ]
        torn = await torn_slots(
            settings, {n for n in numbers if any(first <= n <= end for first, end in lost)}
        )
        wanted = truth.without(chain, gaps, numbers - torn)
        rolled_back = [slot for slot in wanted if slot.rolled_back]
        # The chain ended before anything said so of the last ones.
        final = [slot for slot in rolled_back if slot.slot <= last - FINAL_SLOTS]
        named = [
            (row["first_slot"], row["last_slot"], row["wallets"])
            for row in stored.rows["gaps"]
            if row["reason"].startswith(NAMED_THOUGH_HAD)
        ]
        oracle = await asyncio.to_thread(Oracle, wanted)
        unknowable = {*torn}.union(*(truth.named_in(each) for each in chain if each.slot in torn))
        found = Differences(unknowable=frozenset(unknowable - {*MONEY}))
        await asyncio.to_thread(compare, oracle, stored, found)
        await missing_live(settings, wanted, found)
        await self._compare_accounts(fleet, watch, whole, found)
        found.compared["rolled-back slot"] += len(final)
        for slot in truth.unnamed(final, named):
            found.add("rolled-back slot", slot, "a gap with its wallets", "none")
        report.slots = len(wanted)
        report.torn_slots, report.excused = len(torn), found.excused
        report.gap_slots = sum(not slot.rolled_back for slot in chain) - sum(
            not slot.rolled_back for slot in wanted
        )
        report.rolled_back_slots = len(rolled_back)
        if self._outage and not report.gap_slots:
            found.add("gap", "outage", "slots lost", "none: the outage was too short")
        report.swaps = sum(len(tx.swaps) for slot in wanted for tx in slot.transactions)
        report.differences = found.total
        report.differences_by_kind = dict(found.counts)
        report.compared = dict(found.compared)
        self._write(found)

    def _write(self, found: Differences) -> None:
        for kind, count in found.counts.items():
            progress(f"  {kind}: {count} differences")
        for example in found.examples[:10]:
            progress(f"  {example}")
        examples = [asdict(example) for example in found.examples]
        (self._folder / "differences.json").write_bytes(
            orjson.dumps(examples, option=orjson.OPT_INDENT_2)
        )

    async def _again(self, fleet: Fleet, watch: Watch, last: int) -> None:
        report, settings = self._report, fleet.plan.settings
        before = await stores.fingerprint(settings)
        await fleet.end(*fleet.plan.ingests, *fleet.plan.workers, *ACCOUNTS)
        if self._replay:
            progress("reading the log onto the finished stores")
            await again.rewind(settings, watch)
            await fleet.start(*SETTLED_GROUPS)
            await again.skipped(settings, watch)
            await fleet.end(*SETTLED_GROUPS)
            report.replay_changed = self._changed(
                "replay", before, await stores.fingerprint(settings)
            )
        if self._rebuild:
            progress("computing everything again from empty stores")
            await again.empty(settings)
            await again.rewind(settings, watch)
            await fleet.start(*SETTLED_GROUPS)
            await self._reached(watch, last)
            await fleet.end(*SETTLED_GROUPS)
            after = await stores.fingerprint(settings)
            report.rebuild_changed = self._changed("rebuild", before, after)

    def _changed(self, what: str, before: dict[str, bytes], after: dict[str, bytes]) -> int:
        names = [n for n in before.keys() | after.keys() if before.get(n) != after.get(n)]
        shown = {
            name: [
                None if each is None else each.hex() for each in (before.get(name), after.get(name))
            ]
            for name in sorted(names)[:CHANGES_KEPT]
        }
        for name in shown:
            progress(f"  {what} changed {name}")
        (self._folder / f"{what}.json").write_bytes(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        return len(names)


async def _evicted(fleet: Fleet, watch: Watch, group: str) -> int:
    """Return how much the processes of a group put away because Redis was full."""
    name = "soltape_agents_evicted_total"
    counts = [
        await watch.metric(process, name, group=group) or 0
        for process, of in fleet.plan.workers.items()
        if of == group
    ]
    return int(sum(counts))
