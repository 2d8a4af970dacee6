"""The wallets and mints of a run whose accounts were asked for, as a user of the API asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from redis.exceptions import RedisError

from pipeline.chaos import accounts, truth
from pipeline.chaos.differences import Differences
from pipeline.chaos.fleet import Plan
from pipeline.chaos.values import MONEY
from pipeline.chaos.watch import FINAL_SLOTS, SETTLE_S, Watch, last_settled
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS

AT_ONCE: Final = 5  # wallets that traded last


class AskedAccounts:
    """Asks for accounts while a run lasts; at its end compares what the stores have of them."""

    def __init__(self, planned: Plan) -> None:
        self._plan = planned
        self._wallets: set[str] = set()
        self._mints: set[str] = set()

    async def ask(self) -> None:
        """Ask for the accounts of some more of those who traded, and for their coins' mints.

        Earlier ones are asked for again: a Redis that lost its data no longer knows them.
        """
        if not self._plan.accounts:
            return
        trades = await asyncio.to_thread(truth.newest_swaps, self._plan.truth, AT_ONCE)
        self._wallets |= {swap["wallet"] for swap in trades}
        self._mints |= {swap["mint"] for swap in trades} - {*MONEY}
        with suppress(RedisError, OSError):  # it may have been killed just now
            await accounts.ask(self._plan.settings, self._wallets, self._mints)

    async def until_covered(self, watch: Watch) -> None:
        """Wait until all of them, and all programs, are covered; raises TimeoutError with names."""
        if not self._plan.accounts:
            return
        subjects = [*map(text, accounts.SIZES), *sorted(self._wallets), *sorted(self._mints)]
        lacking: list[str] = subjects

        async def covered() -> bool:
            nonlocal lacking
            lacking = await accounts.uncovered(self._plan.settings, lacking)
            return not lacking

        try:
            await watch.until(covered, SETTLE_S, "")
        except TimeoutError:
            few = ", ".join(lacking[:5])
            raise TimeoutError(f"{len(lacking)} not covered in {SETTLE_S:.0f} s: {few}") from None

    async def compare(self, watch: Watch, chain: Sequence[truth.Slot], found: Differences) -> None:
        """Compare all accounts in Redis with the chain's notes."""
        planned = self._plan
        if planned.accounts is None:
            return
        last = await last_settled(planned, SETTLED_ACCOUNTS)

        async def applied() -> bool:
            return await watch.watermark(accounts.GROUP) == last

        await watch.until(applied, SETTLE_S, f"slot {last} of the lane of accounts in Redis")
        # The chain ended before it could report the rollback of these.
        left = {each.slot for each in chain if each.rolled_back and each.slot > last - FINAL_SLOTS}
        canonical = {each.slot for each in chain if not each.rolled_back and each.slot <= last}
        state = await asyncio.to_thread(
            accounts.after, planned.accounts, canonical, left, self._wallets
        )
        of_accounts = Differences(unknowable=frozenset(state.unsettled))
        await accounts.compare(planned.settings, state, self._wallets, self._mints, of_accounts)
        found.take(of_accounts)
