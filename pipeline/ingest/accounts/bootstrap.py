"""Asks a node for all accounts of the programs that are not covered, part by part.

A kind that has wallets is asked in 256 parts, by the first byte of a wallet's key: keys are evenly
spread. A part that is in the lane is noted in Redis, so a restart goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import structlog

from infra.redis.client import RedisError, connect
from infra.settings import Settings
from infra.solana_rpc.client import RpcRefused
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.rpc import AccountsRpc, BadAnswer, Found
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.contract import Kind
from schemas.redis_keys import BOOTSTRAP
from schemas.solana.addresses import text

log = structlog.get_logger(__name__)

PARTS: Final = 256
CONCURRENCY: Final = 4
MAX_WAITING_BYTES: Final = 64 << 20  # of answers on their way into the lane
LOOK_S: Final = 0.25
AGAIN_S: Final = 30.0  # after a node refused

Part = tuple[Kind, int | None]  # the byte; None: all of the kind


def parts_of(kinds: tuple[Kind, ...], program: bytes) -> list[Part]:
    """Return how a program is asked for."""
    found: list[Part] = []
    for kind in kinds:
        if kind.program == program and kind.group != "tokens":
            is_large = bool(kind.wallets)
            found += [(kind, byte) for byte in range(PARTS)] if is_large else [(kind, None)]
    return found


def part_name(part: Part) -> str:
    """Return what Redis knows a part by."""
    kind, byte = part
    return kind.name if byte is None else f"{kind.name}:{byte:02x}"


async def ask_part(rpc: AccountsRpc, part: Part, least_slot: int) -> Found:
    """Return a part's accounts; raises RpcRefused, BadAnswer."""
    kind, byte = part
    if kind.addresses:
        return await rpc.multiple(kind.addresses, least_slot)
    return await rpc.of_kind(kind, least_slot, None if byte is None else (kind.wallets[0], byte))


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
        self._redis = connect(settings)
        self._bytes_per_s = settings.account_boot_mib_s * (1 << 20)
        self._rpc = rpc
        self._answers = answers
        self._coverage = coverage
        self._settled = settled
        self._acknowledged = acknowledged
        self._noting = asyncio.Semaphore(CONCURRENCY)

    async def run(self) -> None:
        """Bootstrap what lacks, until cancelled."""
        try:
            while True:
                for program in self._coverage.lacking():
                    try:
                        await self._program(program)
                    except (RpcRefused, BadAnswer) as error:
                        log.error(
                            "bootstrap is refused: the program stays without coverage. A node that "
                            "has getProgramAccounts helps, or a file: `soltape accounts bootstrap "
                            "--from FILE`",
                            program=text(program),
                            why=str(error),
                        )
                        await asyncio.sleep(AGAIN_S)
                    except RedisError as error:
                        log.warning("Redis does not answer: bootstrap waits", detail=str(error))
                        await asyncio.sleep(1.0)
                await asyncio.sleep(LOOK_S)
        finally:
            await self._redis.aclose()

    async def _program(self, program: bytes) -> None:
        least = await self._settled()
        name = BOOTSTRAP.make(program=text(program))
        if self._coverage.take_void(program):
            await self._redis.delete(name)
        noted: Any = await self._redis.hgetall(name)
        done = {field.decode(): int(slot) for field, slot in noted.items()}
        parts = parts_of(self._coverage.kinds, program)
        waiting = [part for part in parts if part_name(part) not in done]
        log.info("bootstrap", program=text(program), parts=len(parts), done=len(done))
        metrics.BOOT_PARTS.labels("all").set(len(parts))
        began = self._coverage.withdrawals
        queue = iter(waiting)
        slots = list(done.values())
        workers = [
            asyncio.create_task(self._work(name, queue, least, slots, began))
            for _ in range(CONCURRENCY)
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if self._coverage.withdrawals != began:
            return  # what was lost meanwhile may be in no answer
        covered = Covered(kind=Covered.PROGRAM, address=program, slot=min(slots))
        slot = await self._put(Answer.of((), [covered], ready_slot=max(slots), taken=_future()))
        await self._acknowledged(slot)
        await self._redis.delete(name)
        log.info("bootstrap is done", program=text(program), from_slot=min(slots), in_slot=slot)

    async def _work(
        self, name: str, parts: Iterator[Part], least: int, slots: list[int], began: int
    ) -> None:
        notes: set[asyncio.Task[None]] = set()
        try:
            for part in parts:
                if self._coverage.withdrawals != began:
                    break
                while self._answers.bytes > MAX_WAITING_BYTES:
                    self._answers.drained.clear()
                    await self._answers.drained.wait()
                slot, found = await ask_part(self._rpc, part, least)
                slots.append(slot)
                answer = Answer.of(
                    ((slot, update) for update in found), ready_slot=slot, taken=_future()
                )
                notes.add(asyncio.create_task(self._note(name, part, slot, self._put(answer))))
                await asyncio.sleep(CONCURRENCY * answer.size / self._bytes_per_s)
            await asyncio.gather(*notes)
        finally:
            for note in notes:
                note.cancel()
            await asyncio.gather(*notes, return_exceptions=True)

    async def _note(self, name: str, part: Part, slot: int, put: Awaitable[int]) -> None:
        await self._acknowledged(await put)
        async with self._noting:  # many are acknowledged at once
            await self._redis.hset(name, part_name(part), slot)
        metrics.BOOT_PARTS.labels("done").inc()

    async def _put(self, answer: Answer) -> int:
        """Put an answer into the lane; return the slot that it went with."""
        assert answer.taken is not None
        self._answers.put(answer, bulk=True)
        return await answer.taken


def _future() -> asyncio.Future[int]:
    return asyncio.get_running_loop().create_future()
