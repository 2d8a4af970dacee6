"""A short market through the whole pipeline into real stores, once for all test processes.

Broker, stores, chain, ingest and agents are processes, as `soltape chaos` runs them; Redis is a
cluster of three nodes, and while the market runs some slots move from one of them to another. When
all that was confirmed is in the stores, everything but the stores ends: answers no longer
change.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from redis.crc import key_slot

from infra.clickhouse.client import connect
from infra.settings import Settings
from pipeline.chaos.fleet import Chain, Fleet, plan
from pipeline.chaos.watch import SETTLED_GROUPS, Watch, last_settled
from schemas.redis_keys import LIVE_FENCE, tag_of_mints, tag_of_wallets
from tests.support.redis_cluster import ValkeyCluster, running_cluster

SEED = 2026
RATE = 100.0  # transactions a second
WALLETS = 300  # as `pipeline.chaos.fleet` has it
RUN_S = 40.0  # midnight (UTC) of the chain falls into its middle
SETTLE_S = 240.0
LET_GO_S = 580.0  # tests of a file in another process may take so long


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a finished run left: stores that answer, and the market's own notes."""

    settings: Settings  # lead to the stores
    truth: Path
    first_slot: int  # that the pipeline saw
    last_slot: int  # the last settled one


class Shared:
    """The run whose files are in a folder, for all test processes; the first to ask runs it.

    The locks are the kernel's, so a test process that dies holds none.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._note = folder / "run.json"
        self._runner: asyncio.Runner | None = None  # of the process that runs it
        self._fleet: Fleet | None = None
        self._stack = ExitStack()

    @contextmanager
    def used(self) -> Iterator[Simulation]:
        """Run it, unless it is there, and keep it from being ended meanwhile."""
        with (self._folder / "users.lock").open("w") as users:
            with locked(self._folder / "begin.lock"):
                if not self._note.exists():
                    self._runner = asyncio.Runner()
                    cluster = self._stack.enter_context(running_cluster(self._folder / "valkeys"))
                    self._fleet, note = self._runner.run(run(self._folder / "data", cluster))
                    self._note.write_text(json.dumps(note))
                found = read_note(json.loads(self._note.read_text()))
                fcntl.flock(users, fcntl.LOCK_SH)
            yield found

    def close(self) -> None:
        """End it, if it was run here, when nobody uses it."""
        if self._runner is None or self._fleet is None:
            return
        with no_users(self._folder):
            self._note.unlink()
            self._runner.run(self._fleet.close())
            self._runner.close()
            self._stack.close()
            shutil.rmtree(self._folder / "data", ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that only one test process can."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def no_users(folder: Path) -> Iterator[None]:
    """Wait until nobody uses the run, and keep others from beginning to; not for ever."""
    deadline = time.monotonic() + LET_GO_S
    with (folder / "users.lock").open("w") as users:
        while True:
            with locked(folder / "begin.lock"):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    assert time.monotonic() < deadline, "another test process does not let go"
                else:
                    yield
                    return
            time.sleep(0.5)


def read_note(note: dict[str, str | int]) -> Simulation:
    """Return the run that another process began."""
    data = Path(str(note["data"]))
    settings = Settings(
        _env_file=None,
        soltape_data=data,
        clickhouse_url=note["clickhouse_url"],
        redis_url=note["redis_url"],
    )
    return Simulation(
        settings, data / "truth.jsonl", int(note["first_slot"]), int(note["last_slot"])
    )


async def run(data: Path, cluster: ValkeyCluster) -> tuple[Fleet, dict[str, str | int]]:
    """Run the market to its end; ClickHouse goes on in the fleet that is returned."""
    planned = plan(data, Chain(SEED, RATE, RUN_S / 60), "embedded")
    planned.settings = planned.settings.model_copy(update={"redis_url": cluster.url})
    for name, process in planned.processes.items():
        env = {**process.env, "REDIS_URL": cluster.url}
        planned.processes[name] = replace(process, env=env)
    fleet, watch = Fleet(planned), Watch(planned)
    try:
        await fleet.start("kafka", "clickhouse")
        await fleet.start(*planned.workers, "ingest", "chain")
        await asyncio.sleep(RUN_S / 2)
        await asyncio.to_thread(move_slots, cluster)
        await asyncio.sleep(RUN_S / 2)
        last = await calm(fleet, watch)
        await fleet.end(*planned.workers, "kafka")
        assert not fleet.crashes, fleet.crashes
    except BaseException:
        await fleet.close()
        raise
    finally:
        await watch.close()
    return fleet, {
        "data": str(data),
        "clickhouse_url": planned.settings.clickhouse_url,
        "redis_url": planned.settings.redis_url,
        "first_slot": first_stored(planned.settings),
        "last_slot": last,
    }


def move_slots(cluster: ValkeyCluster) -> None:
    """Move the slots of the live streams, and of a partition of each kind, with all they hold."""
    for key in (LIVE_FENCE.make(), tag_of_mints(3), tag_of_wallets(5)):
        slot = key_slot(key.encode())
        source, target = cluster.begin_move(slot)
        while cluster.move_keys(slot, source, target, most=50):
            pass
        cluster.end_move(slot, target)


async def calm(fleet: Fleet, watch: Watch) -> int:
    """End the tape, wait until all that is in it is in the stores; return the last slot."""
    confirmed = await watch.metric("chain", "soltape_chain_slot", commitment="confirmed") or 0

    async def published() -> bool:
        return (await watch.progress("ingest") or 0) >= confirmed > 0

    await watch.until(published, SETTLE_S, f"slot {confirmed} on the settled lanes")
    await fleet.end("ingest")  # after which nothing more is settled
    last = await last_settled(fleet.plan)

    async def all_there() -> bool:
        return all([await watch.watermark(group) == last for group in SETTLED_GROUPS])

    await watch.until(all_there, SETTLE_S, f"slot {last} in all stores")

    async def all_asked() -> bool:
        return await watch.metric("market", "soltape_registry_waiting_mints") == 0

    await watch.until(all_asked, SETTLE_S, "what RPC says of the tokens")
    await fleet.end("chain")  # which is the RPC too
    return last


def first_stored(settings: Settings) -> int:
    """Return the first slot that the pipeline saw; from there on none may be missing."""
    client = connect(settings)
    try:
        [(first, gaps)] = client.query(
            "SELECT min(slot), (SELECT count() FROM gaps) FROM slots"
        ).result_rows
    finally:
        client.close()
    assert not gaps
    return int(first)
