"""What was asked for in a run, as a user of the API asks, and all accounts that are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from redis.exceptions import RedisError

from pipeline.chaos import account_states, account_stores, accounts, truth
from pipeline.chaos.account_kinds import COVERED
from pipeline.chaos.account_stores import Asked
from pipeline.chaos.differences import Differences
from pipeline.chaos.fleet import Plan
from pipeline.chaos.values import MONEY
from pipeline.chaos.watch import FINAL_SLOTS, SETTLE_S, Watch, last_settled
from schemas.solana.addresses import key, text
from schemas.topics import SETTLED_ACCOUNTS

AT_ONCE: Final = 5  # wallets that traded last
VERSION_LEFT: Final = "stored version of a slot that was left, and not alive"


class AskedAccounts:
    """Asks for accounts while a run lasts; at its end compares what the stores have of all."""

    def __init__(self, planned: Plan) -> None:
        self._plan = planned
        self._asked = Asked()

    async def ask(self) -> None:
        """Ask for the accounts of some more of those who traded, and for their coins' mints.

        Earlier ones are asked for again: a Redis that lost its data no longer knows them.
        """
        if not self._plan.accounts:
            return
        trades = await asyncio.to_thread(truth.newest_swaps, self._plan.truth, AT_ONCE)
        self._asked.wallets |= {key(swap["wallet"]) for swap in trades}
        self._asked.mints |= {key(swap["mint"]) for swap in trades if swap["mint"] not in MONEY}
        with suppress(RedisError, OSError):  # it may have been killed just now
            await accounts.ask(self._plan.settings, self._asked)

    async def until_covered(self, watch: Watch) -> None:
        """Wait until all of them are covered, all programs, and what others asked for.

        Raises TimeoutError with names.
        """
        if not self._plan.accounts:
            return
        settings = self._plan.settings
        self._asked.add(await account_stores.read_asked(settings))
        with suppress(RedisError, OSError):
            await accounts.ask(settings, self._asked)
        lacking = [*map(text, COVERED), *self._asked.subjects()]

        async def covered() -> bool:
            nonlocal lacking
            lacking = await account_stores.uncovered(settings, lacking)
            return not lacking

        try:
            await watch.until(covered, SETTLE_S, "")
        except TimeoutError:
            few = ", ".join(lacking[:5])
            raise TimeoutError(f"{len(lacking)} not covered in {SETTLE_S:.0f} s: {few}") from None

    async def compare(
        self, watch: Watch, chain: Sequence[truth.Slot], found: Differences
    ) -> dict[str, int]:
        """Compare all accounts in the stores with the chain's notes.

        Returns how many accounts of the chain are not stored, by the rule that says so.
        """
        planned = self._plan
        if planned.accounts is None:
            return {}
        last = await last_settled(planned, SETTLED_ACCOUNTS)

        async def applied() -> bool:
            return await watch.watermark(accounts.GROUP) == last

        await watch.until(applied, SETTLE_S, f"slot {last} of the lane of accounts in Redis")
        rolled_back = {each.slot for each in chain if each.rolled_back}
        # The chain ended before it could report the rollback of these.
        left = {slot for slot in rolled_back if slot > last - FINAL_SLOTS}
        canonical = {each.slot for each in chain if not each.rolled_back and each.slot <= last}
        file = planned.accounts
        state = await asyncio.to_thread(account_states.after, file, last, canonical, left)
        of_accounts = Differences(unknowable=frozenset(state.unsettled))
        self._asked.add(await account_stores.read_asked(planned.settings))
        stored = await account_stores.read(planned.settings, self._asked, of_accounts)
        left_out = accounts.compare(state, stored, of_accounts)
        left_out[VERSION_LEFT] += await asyncio.to_thread(
            accounts.compare_at_slots, file, canonical, rolled_back, stored, of_accounts
        )
        found.take(of_accounts)
        return {name: count for name, count in sorted(left_out.items()) if count}
