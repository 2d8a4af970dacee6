"""Asks a node for all accounts of the programs that are not covered.

Programs are asked for side by side, as each waits for two slots to settle: with the first its
accounts are in the lane, with the second its coverage is. The node is asked no more often for that,
and for no more bytes. An answer that is in the lane is noted in Redis, so a restart goes on behind
it. A program that fails is put aside for a while, and holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import structlog

from infra.redis.client import RedisError, connect
from infra.settings import Settings
from infra.solana_rpc.client import REQUEST_TIMEOUT_S, NotNow, RpcRefused
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.parts import (
    Part,
    ask_part,
    ask_whole,
    kinds_of,
    part_name,
    parts_of,
)
from pipeline.ingest.accounts.rpc import AccountsRpc, BadAnswer, Found
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.contract import Kind
from schemas.redis_keys import BOOTSTRAP
from schemas.solana.addresses import text

log = structlog.get_logger(__name__)

PROGRAMS: Final = 32  # side by side
OF_PROGRAM: Final = 3  # requests under way for one of them
REQUESTS: Final = 6  # for all: one program that the node does not answer for cannot have them all
TRIES: Final = 4  # of a request, before its program is put aside
MAX_WAITING_BYTES: Final = 64 << 20  # of answers on their way into the lane
NOTES: Final = 4  # written to Redis at a time
LOOK_S: Final = 0.25
AGAIN_S: Final = 5.0  # after a node did not answer
REFUSED_AGAIN_S: Final = 30.0  # after it refused
REDIS_AGAIN_S: Final = 1.0

T = TypeVar("T")


class Bootstrap:
    """Covers what `coverage` lacks, for as long as it runs."""

    def __init__(
        self,
        settings: Settings,
        rpc: AccountsRpc,
        answers: AnswerQueue,
        coverage: Coverage,
        settled: Callable[[], Awaitable[int]],
        acknowledged: Callable[[int], Awaitable[None]],
    ) -> None:
        self.redis = connect(settings)
        self.coverage = coverage
        self.settled = settled
        self._acknowledged = acknowledged
        self._answers = answers
        self._rpc = rpc.bounded(TRIES, REQUEST_TIMEOUT_S)
        self._pace = _BytePace(settings.account_boot_mib_s * (1 << 20))
        self._requests = asyncio.Semaphore(REQUESTS)
        self._noting = asyncio.Semaphore(NOTES)
        self._running: dict[asyncio.Task[None], bytes] = {}
        self._again_s: dict[bytes, float] = {}  # when a program that failed is asked for again
        self._why: dict[bytes, str] = {}  # it failed

    async def run(self) -> None:
        """Bootstrap what lacks, until cancelled."""
        try:
            while True:
                self._begin()
                if self._running:
                    await asyncio.wait(
                        self._running, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                    )
                else:
                    await asyncio.sleep(LOOK_S)
                await self._end()
        finally:
            await _ended(self._running)
            await self.redis.aclose()

    def _begin(self) -> None:
        now = asyncio.get_running_loop().time()
        under_way = set(self._running.values())
        for program in self.coverage.lacking():
            if len(self._running) >= PROGRAMS:
                return
            if program not in under_way and self._again_s.get(program, now) <= now:
                task = asyncio.create_task(_Scan(self, program).run())
                self._running[task] = program

    async def _end(self) -> None:
        for task in [each for each in self._running if each.done()]:
            program = self._running.pop(task)
            try:
                task.result()
            except (RpcRefused, BadAnswer) as error:
                self._put_aside(program, REFUSED_AGAIN_S, str(error))
            except NotNow as error:
                self._put_aside(program, AGAIN_S, str(error))
            except RedisError as error:
                log.warning("Redis does not answer: bootstrap waits", detail=str(error))
                await asyncio.sleep(REDIS_AGAIN_S)
            else:
                self._again_s.pop(program, None)
                self._why.pop(program, None)

    def _put_aside(self, program: bytes, for_s: float, why: str) -> None:
        self._again_s[program] = asyncio.get_running_loop().time() + for_s
        if self._why.get(program) == why:
            return  # the log has it
        self._why[program] = why
        log.error(
            "bootstrap fails: the program stays without coverage and is asked for again. Where the "
            "node refuses, one that has getProgramAccounts helps, or a file: `soltape accounts "
            "bootstrap --from FILE`",
            program=text(program),
            why=why,
        )

    async def ask(self, ask: Callable[[AccountsRpc], Awaitable[T]]) -> T:
        """Ask the node, when it is time; raises RpcRefused, BadAnswer, NotNow."""
        async with self._requests:
            while self._answers.bytes > MAX_WAITING_BYTES:
                self._answers.drained.clear()
                await self._answers.drained.wait()
            await self._pace.wait()
            return await ask(self._rpc)

    def put(self, answer: Answer) -> None:
        """Put an answer into the lane."""
        self._pace.spend(answer.size)
        self._answers.put(answer, bulk=True)

    async def in_lane(self, answer: Answer) -> int:
        """Return the slot that an answer went with, once Kafka has that."""
        assert answer.taken is not None
        slot = await answer.taken
        await self._acknowledged(slot)
        return slot

    async def note(self, name: str, part: Part, slot: int) -> None:
        """Note in Redis that an answer is in the lane; raises RedisError."""
        async with self._noting:  # many are acknowledged at once
            await self.redis.hset(name, part_name(part), slot)


class _Scan:
    """One program being asked for, kind by kind."""

    def __init__(self, bootstrap: Bootstrap, program: bytes) -> None:
        self._bootstrap = bootstrap
        self._coverage = bootstrap.coverage
        self._program = program
        self._name = BOOTSTRAP.make(program=text(program))
        self._began = self._coverage.withdrawals
        self._least_slot = -1
        self._slots: list[int] = []  # of the answers
        self._large: list[Kind] = []
        self._noting: set[asyncio.Task[None]] = set()
        self._left = 0  # answers that are expected and not in the lane

    @property
    def _is_lost(self) -> bool:
        """Whether coverage was withdrawn meanwhile: what was lost may be in no answer."""
        return self._coverage.withdrawals != self._began

    async def run(self) -> None:
        """Cover the program; raises RpcRefused, BadAnswer, NotNow, RedisError."""
        bootstrap, program = self._bootstrap, self._program
        self._least_slot = await bootstrap.settled()
        self._began = self._coverage.withdrawals
        done = await self._done()
        kinds = kinds_of(self._coverage.kinds, program)
        log.info("bootstrap", program=text(program), kinds=len(kinds), done=len(done))
        try:
            await self._ask(kinds, done)
        except (RpcRefused, BadAnswer, NotNow):
            await asyncio.gather(*self._noting)  # these are not asked for again
            raise
        finally:
            await _ended(self._noting)
            self._expect(-self._left)
        if self._is_lost:
            return
        covered = Covered(kind=Covered.PROGRAM, address=program, slot=min(self._slots))
        answer = Answer.of((), [covered], ready_slot=max(self._slots), taken=_future())
        bootstrap.put(answer)
        slot = await bootstrap.in_lane(answer)
        await bootstrap.redis.delete(self._name)
        log.info("bootstrap is done", program=text(program), from_slot=covered.slot, in_slot=slot)

    async def _done(self) -> set[str]:
        """Return the names of the parts that are in the lane and were not lost."""
        redis = self._bootstrap.redis
        if self._coverage.is_void(self._program):
            await redis.delete(self._name)
            self._coverage.asked_anew(self._program)
        noted: Any = await redis.hgetall(self._name)
        # One that may have gone with a slot that was lost since is asked for again.
        slots = {f.decode(): int(s) for f, s in noted.items() if int(s) >= self._coverage.floor}
        self._slots += slots.values()
        return {*slots}

    async def _ask(self, kinds: list[Kind], done: set[str]) -> None:
        self._large = [k for k in kinds if any(part_name(part) in done for part in parts_of(k))]
        others = [k for k in kinds if k.name not in done and k not in self._large]
        self._expect(len(others))
        await _each(others, self._whole)
        parts = [p for k in self._large for p in parts_of(k) if part_name(p) not in done]
        self._expect(len(parts))
        await _each(parts, self._part)
        await asyncio.gather(*self._noting)

    async def _whole(self, kind: Kind) -> None:
        if self._is_lost:
            return
        found = await self._bootstrap.ask(lambda rpc: ask_whole(rpc, kind, self._least_slot))
        if found is None:
            self._large.append(kind)
            self._expect(-1)
        else:
            self._put((kind, None), found)

    async def _part(self, part: Part) -> None:
        if self._is_lost:
            return
        found = await self._bootstrap.ask(lambda rpc: ask_part(rpc, part, self._least_slot))
        self._put(part, found)

    def _put(self, part: Part, found: Found) -> None:
        slot, updates = found
        self._slots.append(slot)
        answer = Answer.of(((slot, each) for each in updates), ready_slot=slot, taken=_future())
        self._bootstrap.put(answer)
        self._noting.add(asyncio.create_task(self._note(part, slot, answer)))

    async def _note(self, part: Part, slot: int, answer: Answer) -> None:
        await self._bootstrap.in_lane(answer)
        await self._bootstrap.note(self._name, part, slot)
        self._expect(-1)
        metrics.BOOT_PARTS.labels("done").inc()

    def _expect(self, count: int) -> None:
        self._left += count
        metrics.BOOT_PARTS.labels("left").inc(count)


class _BytePace:
    """Lets requests through while what was answered is no more than so many bytes a second."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._spent_until_s = 0.0

    def spend(self, size: int) -> None:
        """Take note of an answer."""
        now = asyncio.get_running_loop().time()
        self._spent_until_s = max(self._spent_until_s, now) + size / self._bytes_per_s

    async def wait(self) -> None:
        """Wait until all that was answered is paid for."""
        await asyncio.sleep(self._spent_until_s - asyncio.get_running_loop().time())


async def _each(items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """Do the work on each, OF_PROGRAM at a time; the first that fails ends it."""
    queue = iter(items)

    async def worker() -> None:
        for item in queue:
            await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(OF_PROGRAM)]
    try:
        await asyncio.gather(*workers)
    finally:
        await _ended(workers)


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = [*tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _future() -> asyncio.Future[int]:
    return asyncio.get_running_loop().create_future()
