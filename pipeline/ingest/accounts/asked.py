"""RPC answers on their way into the lane; pure.

An answer is the state at the end of its context slot. It goes with the batch of the first slot at
or above it, so the state stays a function of the log. What a wallet waits for goes before what
bootstrap brings, and of each the first before the next: coverage follows its accounts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.ingest.accounts.ledger import Update
from schemas.proto.tape_pb2 import Covered


@dataclass(slots=True, frozen=True)
class Answer:
    """Accounts as they were at the end of slots, and what is covered with them."""

    updates: tuple[tuple[int, Update], ...]  # context slot, version
    covered: tuple[Covered, ...] = ()
    subject: bytes | None = None  # the wallet or mint that is asked again if this comes too late
    ready_slot: int = 0  # its highest context slot
    size: int = 0  # of the data
    taken: asyncio.Future[int] | None = None  # becomes the slot that it went with
    mends: bool = False  # a hole: no slot before it is complete

    @classmethod
    def of(
        cls,
        updates: Iterable[tuple[int, Update]],
        covered: Iterable[Covered] = (),
        subject: bytes | None = None,
        ready_slot: int = 0,
        taken: asyncio.Future[int] | None = None,
        *,
        mends: bool = False,
    ) -> Answer:
        """Return an answer that is ready with the last slot it rests on."""
        updates = tuple(updates)
        highest = max((slot for slot, _ in updates), default=0)
        size = sum(len(update.data) for _, update in updates)
        return cls(updates, tuple(covered), subject, max(ready_slot, highest), size, taken, mends)


class AnswerQueue:
    """Answers that wait for their slot."""

    def __init__(self) -> None:
        self.bytes = 0
        self.drained = asyncio.Event()  # set whenever answers are taken
        self._urgent: deque[Answer] = deque()
        self._bulk: deque[Answer] = deque()
        self._withdrawn: list[Covered] = []
        self._has_withdrawn = asyncio.Event()  # set whenever withdrawals are taken

    def __len__(self) -> int:
        return len(self._urgent) + len(self._bulk)

    def put(self, answer: Answer, *, bulk: bool = False) -> None:
        """Add an answer."""
        (self._bulk if bulk else self._urgent).append(answer)
        self.bytes += answer.size

    def withdraw(self, covered: Covered) -> None:
        """Withdraw coverage with the next slot."""
        self._withdrawn.append(covered)

    def withdrawn(self) -> list[Covered]:
        """Remove and return the coverage that is withdrawn."""
        found, self._withdrawn = self._withdrawn, []
        self._has_withdrawn.set()
        return found

    async def all_withdrawn(self) -> None:
        """Wait until what is withdrawn now has been taken: a slot bounds how much it says."""
        self._has_withdrawn.clear()
        await self._has_withdrawn.wait()

    def take(self, slot: int, most_bytes: int) -> list[Answer]:
        """Remove and return the answers for a slot, some `most_bytes` of data at most.

        Of bootstrap's, none overtakes another; of the others, each waits for its own slot alone.
        """
        found: list[Answer] = []
        later: deque[Answer] = deque()
        while self._urgent and most_bytes > 0:
            answer = self._urgent.popleft()
            if answer.ready_slot > slot:
                later.append(answer)
            else:
                found.append(answer)
                most_bytes -= answer.size
        self._urgent.extendleft(reversed(later))
        while self._bulk and most_bytes > 0 and self._bulk[0].ready_slot <= slot:
            found.append(self._bulk.popleft())
            most_bytes -= found[-1].size
        self.bytes -= sum(answer.size for answer in found)
        self.drained.set()
        return found
