"""What the bank itself does at the start of a block: sysvars, and rewards with every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from infra.chain.market.runtime.execution import Changes
from infra.chain.market.runtime.ledger import Ledger
from infra.chain.market.runtime.stake import (
    EPOCH_SLOTS,
    Clock,
    Moved,
    Stake,
    StakeHistory,
    Vote,
    epoch_of,
)
from infra.chain.market.runtime.stake_pool import StakePool
from infra.chain.source import Reward, VoteAccount
from schemas.solana.addresses import CLOCK, STAKE_HISTORY

CLOCK_LAMPORTS: Final = 1_169_280
STAKE_HISTORY_LAMPORTS: Final = 114_979_200
_EPOCHS_BEFORE: Final = 8  # that the history knows at the start
_STAKE_TO_REWARD: Final = 50_000  # of an epoch
_CREDITS: Final = EPOCH_SLOTS * 16
_CREDITS_SHOWN: Final = 5  # epochs, as RPC answers
_ROOT_DISTANCE: Final = 31  # slots from a vote to what it roots


class Bank:
    """Begins blocks; `time_s` gives a slot's Unix time."""

    def __init__(self, ledger: Ledger, slot: int, time_s: Callable[[int], int]) -> None:
        self._ledger = ledger
        self._time_s = time_s
        epoch = epoch_of(slot)
        effective = sum(stake.lamports for _, stake in self._stakes())
        past = range(epoch - 1, max(epoch - 1 - _EPOCHS_BEFORE, -1), -1)
        ledger.natives.put(CLOCK, self._clock(slot))
        ledger.natives.put(STAKE_HISTORY, StakeHistory({e: Moved(effective) for e in past}))
        ledger.lamports[CLOCK] = CLOCK_LAMPORTS
        ledger.lamports[STAKE_HISTORY] = STAKE_HISTORY_LAMPORTS

    def begin(self, slot: int, parent_slot: int) -> tuple[Changes, list[Reward]]:
        """Return what changed, to be taken back with a fork, and the rewards that were paid."""
        changes = Changes()
        self._put(changes, CLOCK, self._clock(slot))
        rewards: list[Reward] = []
        for epoch in range(epoch_of(parent_slot), epoch_of(slot)):
            rewards += self._end_epoch(changes, epoch)
        return changes, rewards

    def vote_accounts(self, slot: int) -> list[VoteAccount]:
        """Return the validators, with the stake that is effective in the epoch of a slot.

        All of them have just voted for the slot.
        """
        natives = self._ledger.natives
        history = natives[STAKE_HISTORY]
        assert isinstance(history, StakeHistory)
        activated: Counter[bytes] = Counter()
        for _, stake in self._stakes():
            moved = stake.moved(epoch_of(slot), history.epochs)
            activated[stake.voter or b""] += moved.effective
        return [
            VoteAccount(
                at,
                each.node,
                activated[at],
                each.commission,
                slot,
                max(slot - _ROOT_DISTANCE, 0),
                each.credits[-_CREDITS_SHOWN:],
            )
            for at, each in natives.items()
            if isinstance(each, Vote)
        ]

    def _clock(self, slot: int) -> Clock:
        first = epoch_of(slot) * EPOCH_SLOTS
        return Clock(slot, self._time_s(first), self._time_s(slot))

    def _end_epoch(self, changes: Changes, epoch: int) -> Iterator[Reward]:
        natives = self._ledger.natives
        history = natives[STAKE_HISTORY]
        assert isinstance(history, StakeHistory)
        stakes = [(at, stake, stake.moved(epoch, history.epochs)) for at, stake in self._stakes()]
        every = (sum(each) for each in zip(*(moved for _, _, moved in stakes), strict=True))
        commissions: dict[bytes, int] = {}
        for at, vote in list(natives.items()):
            if isinstance(vote, Vote):
                commissions[at] = 0
                self._put(changes, at, vote.earned(epoch, _CREDITS))
        for at, stake, moved in stakes:
            vote = natives[stake.voter or b""]
            assert isinstance(vote, Vote)
            reward = moved.effective // _STAKE_TO_REWARD
            commission = reward * vote.commission // 100
            if reward == commission:
                continue
            commissions[stake.voter or b""] += commission
            grown = stake.lamports + reward - commission
            observed = vote.all_credits
            self._put(changes, at, replace(stake, lamports=grown, credits_observed=observed))
            yield self._pay(changes, at, reward - commission, "Staking", vote.commission)
        for at, lamports in commissions.items():
            vote = natives[at]
            if lamports and isinstance(vote, Vote):
                yield self._pay(changes, at, lamports, "Voting", vote.commission)
        for at, pool in list(natives.items()):
            if isinstance(pool, StakePool):
                self._put(changes, at, pool.after(epoch))
        self._put(changes, STAKE_HISTORY, history.after(epoch, Moved(*every)))

    def _pay(
        self, changes: Changes, at: bytes, lamports: int, kind: str, commission: int
    ) -> Reward:
        everyone = self._ledger.lamports
        changes.lamports.setdefault(at, everyone[at])
        everyone[at] += lamports
        return Reward(at, lamports, everyone[at], kind, commission)

    def _put(
        self, changes: Changes, at: bytes, native: Clock | Stake | StakeHistory | StakePool | Vote
    ) -> None:
        natives = self._ledger.natives
        changes.undo.append(natives.undo(at))
        changes.contents.add(at)
        natives.put(at, native)

    def _stakes(self) -> list[tuple[bytes, Stake]]:
        """Return all delegated stake accounts."""
        return [
            (at, each)
            for at, each in self._ledger.natives.items()
            if isinstance(each, Stake) and each.voter is not None
        ]
