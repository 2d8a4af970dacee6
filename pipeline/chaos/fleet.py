"""The whole stack in a folder of its own: each role a process to be killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from infra.bench import progress
from infra.clickhouse import embedded as clickhouse
from infra.kafka import apache, embedded, topics
from infra.kafka.client import KafkaUnreachable
from infra.local.child import Child, NeverServed
from infra.local.process import Process, free_port
from infra.local.stack import listens
from infra.redis import embedded as redis
from infra.redis import embedded_cluster as redis_cluster
from infra.redis.embedded_cluster import Node
from infra.settings import Settings
from schemas.times import DAY_MS

HOST: Final = "127.0.0.1"
GROUPS: Final = ("live", "store", "pnl", "market")
# The lane of accounts, from the chain to Redis.
ACCOUNTS: Final = ("ingest-accounts", "accounts")
API: Final = "api"
INGEST_ACCOUNTS: Final = ACCOUNTS[0]
NODES: Final = 2  # of the chain, that number their writes differently
FORGETFUL_SLOTS: Final = 20  # that a third node can replay: only the fault `accounts-hole` uses it
# Those that keep what they know on disk: killing them must lose nothing for good.
SYSTEMS: Final = ("kafka", "clickhouse", "redis")
READY_S: Final = 300.0  # on a busy machine Apache Kafka takes over a minute after a SIGKILL
CHECKPOINT_S: Final = 5
_SOLTAPE: Final = (sys.executable, "-m", "infra.cli")
_SLOT_S: Final = 0.4
LEAST_HISTORY_SLOTS: Final = 128
OUTAGE_S: Final = LEAST_HISTORY_SLOTS * _SLOT_S + 10.0

Broker = Literal["embedded", "apache"]
RedisKind = Literal["single", "cluster"]
_BROKERS: Final = {"embedded": embedded, "apache": apache}


def is_system(name: str) -> bool:
    """Return whether a process is one of `SYSTEMS`, or one of several that are one."""
    return name.partition("-")[0] in SYSTEMS


class RoleFailed(Exception):
    """A role does not come to serve; the text says why."""


@dataclass(slots=True)
class Plan:
    """What is run: the processes by name, in starting order, and the settings they share."""

    settings: Settings
    truth: Path
    accounts: Path | None  # notes of all accounts; None: the lane of accounts does not run
    nodes: tuple[int, ...]  # ports of the chain's nodes, behind the one of GEYSER_ENDPOINT
    account_streams: int = 1
    account_geyser: int = 0  # ports that only the lane of accounts goes through to the chain
    account_rpc: int = 0
    forgetful_node: int = 0  # port of a node that can replay a few slots only
    processes: dict[str, Process] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)  # addresses by name of the role
    workers: dict[str, str] = field(default_factory=dict)  # agent processes, with their group
    ingests: tuple[str, ...] = ("ingest",)  # of which one publishes
    redis: tuple[str, ...] = ("redis",)  # all nodes
    redis_nodes: tuple[Node, ...] = ()  # of a cluster
    access_url: str = ""  # of the Redis of the API's keys
    positions: Path | None = None  # notes of what demo wallets have, beside those of accounts
    api_key: Path | None = None  # file with the key that the API is asked with


@dataclass(slots=True)
class Chain:
    """What the simulated chain is like."""

    seed: int
    rate: float
    minutes: float
    forgets: bool = False  # keeps so few slots that an outage loses some
    rolled_back: float = 0.0  # share of forks that are confirmed before they are left

    def command(self, planned: Plan) -> list[str]:
        """Return the command, with forks and what providers do to a stream.

        Midnight (UTC) falls into the middle of the run, so that days end in it.
        """
        midnight_ms = int(time.time() * 1000) // DAY_MS * DAY_MS
        options: dict[str, object] = {
            "seed": self.seed,
            "rate": self.rate,
            "start-time-ms": midnight_ms - int(self.minutes * 30_000),
            "forks": 0.05,
            "rolled-back": self.rolled_back,
            "skipped": 0.04,
            "duplicates": 0.02,
            # Updates overtake each other by less than a slot, as the slot ledger takes for granted.
            "reorder": max(2, round(self.rate * _SLOT_S / 5)),
            "missing-statuses": 0.02,
            "malformed": 0.002,
            "disconnect-every": 25_000,
            "lag-every": 60_000,
            "replay-slots": 50 if self.forgets else 250,
            "history-slots": LEAST_HISTORY_SLOTS if self.forgets else 900,
            "memory-mb": 1_024,
            "wallets": 300,
        }
        command = [*_SOLTAPE, "chain", "simulated", "--truth", str(planned.truth), "--truth-flows"]
        if planned.accounts:
            options |= {"truth-accounts": planned.accounts, "nodes": NODES + 1}
            options |= {"last-node-replay-slots": FORGETFUL_SLOTS}
            options |= {"truth-positions": planned.positions}
            options |= {"account-duplicates": 0.02, "account-late": 0.001}
            command.append("--account-reorder")
        else:
            command.append("--no-accounts")
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return command


def plan(
    folder: Path,
    chain: Chain,
    broker: Broker,
    workers: int = 1,
    *,
    standby: bool = False,
    accounts: bool = False,
    account_streams: int = 1,
    redis_kind: RedisKind = "single",
) -> Plan:
    """Decide what is run where: everything on this machine, at ports that are free now.

    So many processes share the partitions of each group that keeps books. With `standby` there is
    a second ingest, with `accounts` the lane of accounts, in so many streams, and a chain of
    several nodes. A Redis Cluster has three nodes, and the API's keys are on a server of their
    own.

    Raises ApacheUnavailable.
    """
    systems = ("kafka", "clickhouse", "redis", "geyser", "rpc", "api")
    ports = {name: free_port() for name in systems}
    nodes = redis_cluster.free_nodes() if redis_kind == "cluster" else ()
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        soltape_data=folder,
        kafka_bootstrap=f"{HOST}:{ports['kafka']}",
        clickhouse_url=f"http://{HOST}:{ports['clickhouse']}",
        redis_url=redis_cluster.url(HOST, nodes)
        if nodes
        else redis.address(HOST, ports["redis"], redis.TAPE),
        geyser_endpoint=f"http://{HOST}:{ports['geyser']}",
        rpc_endpoint=f"http://{HOST}:{ports['rpc']}",
        geyser_backoff_max_s=2.0,
        api_port=ports["api"],
    )
    planned = Plan(
        settings,
        folder / "truth.jsonl",
        folder / "accounts.truth" if accounts else None,
        (ports["geyser"],),
    )
    if accounts:
        planned.positions, planned.api_key = folder / "positions.truth", folder / "api-key"
        ports_of_nodes = free_ports(NODES + 1)
        planned.nodes, planned.forgetful_node = ports_of_nodes[:NODES], ports_of_nodes[NODES]
        planned.account_streams = account_streams
        planned.account_geyser, planned.account_rpc = free_port(), free_port()
    processes = planned.processes
    processes["kafka"] = _BROKERS[broker].process(settings)
    processes["clickhouse"] = clickhouse.server(folder / "clickhouse", ports["clickhouse"])
    planned.access_url = redis.address(HOST, ports["redis"], redis.ACCESS)
    server = redis.valkey(folder / ("redis-access" if nodes else "redis"), HOST, ports["redis"])
    if nodes:
        of_nodes = redis_cluster.processes(folder, HOST, nodes)
        processes |= {each.name: each for each in of_nodes}
        processes["redis-access"] = replace(server, name="redis-access")
        planned.redis, planned.redis_nodes = tuple(each.name for each in of_nodes), nodes
    else:
        processes["redis"] = server
    for group in GROUPS:
        planned.workers[group] = group
        if group != "live":
            planned.workers |= {f"{group}-{n}": group for n in range(2, workers + 1)}
    planned.ingests = ("ingest", "ingest-2") if standby else ("ingest",)
    roles: dict[str, Sequence[str]] = {
        "chain": chain.command(planned),
        **dict.fromkeys(planned.ingests, (*_SOLTAPE, "ingest")),
        **{name: (*_SOLTAPE, "agents", group) for name, group in planned.workers.items()},
    }
    if accounts:
        roles[INGEST_ACCOUNTS] = (*_SOLTAPE, "ingest", "accounts")
        roles["accounts"] = (*_SOLTAPE, "agents", "accounts")
        roles[API] = (*_SOLTAPE, "api", "--demo-key", str(planned.api_key))
    for name, command in roles.items():
        port = free_port()
        known = {
            "chain": "CHAIN",
            "live": "AGENTS",
            INGEST_ACCOUNTS: "INGEST_ACCOUNTS",
            API: "API",
            **dict.fromkeys(planned.ingests, "INGEST"),
        }
        variable = known.get(name, "BOOKS")
        planned.metrics[name] = f"http://{HOST}:{port}/metrics"
        processes[name] = Process(
            name=name,
            command=list(command),
            address=planned.metrics[name],
            ready=lambda port=port: listens(port),  # type: ignore[misc]
            env={f"METRICS_PORT_{variable}": str(port)},
            ready_timeout_s=READY_S,
        )
    shared = {
        "SOLTAPE_DATA": str(folder),
        "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "CLICKHOUSE_URL": settings.clickhouse_url,
        "REDIS_URL": settings.redis_url,
        "GEYSER_ENDPOINT": settings.geyser_endpoint,
        "RPC_ENDPOINT": settings.rpc_endpoint or "",
        "GEYSER_BACKOFF_MAX_S": str(settings.geyser_backoff_max_s),
        "BOOKS_CHECKPOINT_S": str(CHECKPOINT_S),
        "LOG_FORMAT": "json",
    }
    for name, process in processes.items():
        processes[name] = replace(process, env={**shared, **process.env})
    if accounts:
        processes[API] = replace(
            processes[API],
            address=settings.api_url,
            ready=lambda: listens(ports["api"]),
            env={**processes[API].env, **_of_api(planned)},
        )
        processes[INGEST_ACCOUNTS] = replace(
            processes[INGEST_ACCOUNTS],
            env={**processes[INGEST_ACCOUNTS].env, **_of_ingest_accounts(planned)},
        )
    chain_at = {"GEYSER_ENDPOINT": f"http://{HOST}:{planned.nodes[0]}"}
    processes["chain"] = replace(processes["chain"], env={**processes["chain"].env, **chain_at})
    return planned


def _of_api(planned: Plan) -> dict[str, str]:
    """Return settings of the API: its keys are apart, as the stores are compared without them."""
    settings = planned.settings
    return {
        "API_PORT": str(settings.api_port),
        "API_DASHBOARD": "false",
        "API_NEW_ACCOUNTS_PER_KEY": str(settings.api_new_accounts),
        "ACCESS_REDIS_URL": planned.access_url,
        "METADATA_FETCH": "false",
    }


def _of_ingest_accounts(planned: Plan) -> dict[str, str]:
    return {
        "GEYSER_ENDPOINT": f"http://{HOST}:{planned.account_geyser}",
        "RPC_ENDPOINT": f"http://{HOST}:{planned.account_rpc}",
        "ACCOUNT_STREAMS": str(planned.account_streams),
    }


def free_ports(count: int) -> tuple[int, ...]:
    """Return so many ports in a row that are free now."""
    for _ in range(100):
        ports = tuple(free_port() for _ in range(count))
        if ports == tuple(range(ports[0], ports[0] + count)):
            return ports
    raise RoleFailed(f"no {count} ports in a row are free")


class Fleet:
    """The running processes."""

    def __init__(self, planned: Plan) -> None:
        self.plan = planned
        self.crashes: list[str] = []  # of processes that nobody killed
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lives: dict[str, int] = {}

    @property
    def running(self) -> list[str]:
        """Names of what runs."""
        return list(self._children)

    async def start(self, *names: str) -> None:
        """Start processes and wait until they serve; raises RoleFailed."""
        for name in names:
            self._launch(name)
        for name in names:
            await self._serves(name)
            if name == "kafka":
                await self._create_topics()
        if self.plan.redis_nodes and {*names} >= {*self.plan.redis}:  # new: they do not know it
            await redis_cluster.join(HOST, self.plan.redis_nodes, READY_S)

    async def _create_topics(self) -> None:
        """Create the topics as soon as Kafka answers; raises RoleFailed.

        On a busy machine it may be silent for seconds after it has begun to serve.
        """
        deadline = time.monotonic() + READY_S
        while True:
            try:
                await topics.create(self.plan.settings)
            except KafkaUnreachable as silent:
                if time.monotonic() > deadline:
                    raise RoleFailed(str(silent)) from None
                await asyncio.sleep(1.0)
            else:
                return

    def _launch(self, name: str) -> None:
        """Start a process anew, its log in a file of this life."""
        life = self._lives[name] = self._lives.get(name, 0) + 1
        log = self.plan.settings.soltape_data / "logs" / f"{name}-{life}.log"
        child = self._children[name] = Child(self.plan.processes[name], log, self._ended)
        self._tasks[name] = asyncio.create_task(child.keep_running())

    async def _serves(self, name: str) -> None:
        """Wait until a process serves; raises RoleFailed."""
        served = asyncio.create_task(self._children[name].served.wait())
        try:
            done, _ = await asyncio.wait(
                (served, self._tasks[name]),
                timeout=READY_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            served.cancel()
        if self._tasks[name] in done:
            try:
                self._tasks[name].result()
            except NeverServed as failure:
                raise RoleFailed(str(failure)) from None
        if not done:
            raise RoleFailed(f"{name} did not serve within {READY_S:.0f} s")

    async def kill(self, name: str) -> None:
        """End a process with SIGKILL, and leave it dead."""
        await self._forget(name)
        self._children.pop(name).kill()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Pause a process, which goes on as if nothing had been."""
        pid = self._children[name].pid
        if pid is None:
            raise RoleFailed(f"{name} does not run")
        os.killpg(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(pid, signal.SIGCONT)

    def rest(self) -> None:
        """Let the market of the chain rest: its blocks go on, without trades."""
        pid = self._children["chain"].pid
        if pid is None:
            raise RoleFailed("chain does not run")
        os.killpg(pid, signal.SIGUSR1)

    async def end(self, *names: str) -> None:
        """Ask processes to stop, and wait for that."""
        for name in names:
            if name in self._children:
                await self._forget(name)
                await self._children.pop(name).end(15.0)

    async def close(self) -> None:
        """End whatever runs: roles first, then systems."""
        for name in self._children:
            await self._forget(name)
        for systems in (False, True):
            wave = [child for name, child in self._children.items() if is_system(name) == systems]
            await asyncio.gather(*(child.end(3.0) for child in wave))
        self._children.clear()

    async def rebuild(self, *options: str) -> None:
        """Run `soltape rebuild` to its end; raises RoleFailed."""
        await self.command("rebuild", *options)

    async def command(self, *words: str) -> None:
        """Run a command of `soltape` to its end; raises RoleFailed."""
        child = await asyncio.create_subprocess_exec(
            *_SOLTAPE,
            *words,
            env=os.environ | dict(self.plan.processes["pnl"].env),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await child.communicate()
        if child.returncode:
            raise RoleFailed(f"soltape {words[0]}: {said.decode(errors='replace')[-2000:]}")

    async def _forget(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError, NeverServed):
            await task

    def _ended(self, text: str) -> None:
        self.crashes.append(text)
        progress(f"  {text}")
