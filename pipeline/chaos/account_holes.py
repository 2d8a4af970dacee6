"""The fault `accounts-hole`: the lane of accounts loses slots that nobody can give it again.

Its connections break, all of them or one of two. When they are taken again it is by a node that has
not enough to replay, and RPC has no block of the slots between. So what is covered must be
withdrawn, health must name that, and all must be covered again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Final

import aiohttp

from infra.bench import progress
from pipeline.chaos import account_stores
from pipeline.chaos.balancer import Balancer
from pipeline.chaos.door import Ask, Door
from pipeline.chaos.fleet import API, FORGETFUL_SLOTS, Fleet, Plan
from pipeline.chaos.forgetful_rpc import ForgetfulRpc
from pipeline.chaos.watch import Watch

OF_ALL: Final = "accounts-hole"
OF_ONE: Final = "accounts-hole of one stream"
CUT_SLOTS: Final = FORGETFUL_SLOTS + 12
_HEALTH: Final = "/api/health"
_LOST: Final = re.compile(r"accounts lost slots before (\d+)")  # as a reason begins


class AccountPath:
    """The way of the lane of accounts to the chain; use as an async context manager."""

    def __init__(self, planned: Plan) -> None:
        self.geyser = Balancer(planned.account_geyser, planned.nodes)
        self.rpc = ForgetfulRpc(planned.account_rpc, planned.settings.rpc_endpoint or "")
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> AccountPath:
        await self._stack.enter_async_context(self.geyser)
        await self._stack.enter_async_context(self.rpc)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


async def lose_slots(
    fleet: Fleet,
    watch: Watch,
    path: AccountPath,
    until_covered: Callable[[], Awaitable[None]],
    random: Random,
    within_s: float,
) -> str:
    """Let the lane of accounts lose slots; return of which streams, OF_ALL or OF_ONE.

    Raises TimeoutError, which says what did not follow.
    """
    planned = fleet.plan
    settings = planned.settings

    async def connected() -> bool:
        return path.geyser.connections == planned.account_streams

    await until_covered()  # else there is nothing to withdraw
    await watch.until(connected, within_s, f"{planned.account_streams} streams of accounts")
    spared: tuple[int, ...] = ()
    if planned.account_streams > 1 and random.random() < 0.5:
        spared = (random.randrange(planned.account_streams),)
    which = f"all but {len(spared)}" if spared else "all"
    progress(f"        {which} of {planned.account_streams} streams of accounts break")
    path.geyser.cut(*spared)
    cut_slot = await _tip(watch)

    async def passed() -> bool:
        return await _tip(watch) > cut_slot + CUT_SLOTS

    await asyncio.gather(fleet.start(API), watch.until(passed, within_s, "slots without accounts"))
    path.rpc.forget(await _tip(watch) + 1)
    path.geyser.mend([planned.forgetful_node])
    try:

        async def withdrawn() -> bool:
            return await account_stores.floor(settings) > cut_slot

        await watch.until(withdrawn, within_s, f"coverage withdrawn after {OF_ALL}")
        async with Door(planned) as ask:

            async def named() -> bool:
                return await _lost_before(ask) > cut_slot

            await watch.until(named, within_s, f"{_HEALTH} that names the slots")
        await until_covered()
    finally:
        path.geyser.mend(planned.nodes)
        path.rpc.forget(0)
        await fleet.end(API)
    return OF_ONE if spared else OF_ALL


async def _tip(watch: Watch) -> int:
    return await watch.metric("chain", "soltape_chain_slot", commitment="processed") or 0


async def _lost_before(ask: Ask) -> int:
    """Return before which slot accounts are lost, as the API says; 0: it says nothing of that."""
    try:
        _, said = await ask(_HEALTH)
    except (aiohttp.ClientError, TimeoutError):  # it is busy
        return 0
    reasons = said.get("reasons", []) if isinstance(said, dict) else []
    slots = [int(found[1]) for reason in reasons if (found := _LOST.match(reason))]
    return max(slots, default=0)
