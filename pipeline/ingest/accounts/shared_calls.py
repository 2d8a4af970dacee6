"""Accounts that several subjects ask for at once, by one call of getMultipleAccounts.

A provider counts calls, and a call for a hundred accounts costs about what one for a single account
does: wallets, mints and accounts that are asked for within SHARED_EVERY_S go together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.solana_rpc.client import RpcRefused
from pipeline.ingest.accounts.rpc import MOST_A_CALL, AccountsRpc, BadAnswer, Found

SHARED_EVERY_S: Final = 0.04  # from the beginning of a shared call to that of the next
SHARED_MOST_S: Final = 3.0  # that the node has for one: what holds it up may be one account
SHARED_ANSWER_BYTES: Final = 8 << 20


@dataclass(slots=True, eq=False)
class _Call:
    """A call; until it begins, more may join."""

    addresses: list[bytes] = field(default_factory=list)
    least_slot: int = 0


class SharedCalls:
    """`AccountsRpc.multiple` for many subjects; where nobody else asks, the call begins at once.

    Where the node refuses a shared call, or its answer cannot be taken, each subject asks alone:
    it may be for the sake of one of them.
    """

    def __init__(self, rpc: AccountsRpc) -> None:
        self._alone = rpc.bounded(1)
        self._shared = rpc.bounded(1, SHARED_MOST_S)
        self._begins_s = float("-inf")  # of the last call
        self._next: tuple[_Call, asyncio.Task[Found]] | None = None  # has not begun

    async def multiple(self, addresses: Sequence[bytes], least_slot: int) -> Found:
        """Return accounts, at most MOST_A_CALL; raises what `AccountsRpc.multiple` does."""
        if self._next is None or len(self._next[0].addresses) + len(addresses) > MOST_A_CALL:
            made = _Call()
            self._next = made, asyncio.create_task(self._run(made))
            self._next[1].add_done_callback(_retrieve)
        call, answer = self._next
        first = len(call.addresses)
        call.addresses += addresses
        call.least_slot = max(call.least_slot, least_slot)
        try:
            # Others may wait for it, too: it goes on where this subject is let go.
            slot, found = await asyncio.shield(answer)
        except (RpcRefused, BadAnswer):
            return await self._alone.multiple(addresses, least_slot)
        return slot, found[first : first + len(addresses)]

    async def _run(self, call: _Call) -> Found:
        now = asyncio.get_running_loop().time()
        self._begins_s = max(now, self._begins_s + SHARED_EVERY_S)
        await asyncio.sleep(self._begins_s - now)
        if self._next is not None and self._next[0] is call:
            self._next = None
        return await self._shared.multiple(call.addresses, call.least_slot, SHARED_ANSWER_BYTES)


def _retrieve(answer: asyncio.Task[Found]) -> None:
    """Take an error that nobody waits for any more."""
    if not answer.cancelled():
        answer.exception()
