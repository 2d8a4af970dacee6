"""What the last epochs paid to a stake account, as `ingest accounts` asked RPC for it: JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import orjson

EPOCHS: Final = 5
"""Complete epochs that are asked for."""


@dataclass(frozen=True, slots=True)
class EpochReward:
    """What one epoch paid."""

    epoch: int
    lamports: int | None = None  # None: nothing, or not known
    balance_lamports: int | None = None  # of the account, with the reward
    commission_pct: int | None = None  # of the validator
    slot: int | None = None  # of the block that paid it
    reason: str = ""  # why the node does not say; empty where it does


@dataclass(frozen=True, slots=True)
class StakeRewards:
    """What the last complete epochs paid, the newest first."""

    asked_ms: int
    rewards: tuple[EpochReward, ...]

    @property
    def last_epoch(self) -> int:
        """Return the newest epoch that was asked for, -1 for none."""
        return self.rewards[0].epoch if self.rewards else -1


def pack_rewards(rewards: StakeRewards) -> bytes:
    """Return the stored form."""
    return orjson.dumps(asdict(rewards))


def unpack_rewards(stored: bytes) -> StakeRewards:
    """Return what was stored; raises ValueError for what `pack_rewards` did not write."""
    try:
        found = orjson.loads(stored)
        return StakeRewards(found["asked_ms"], tuple(EpochReward(**e) for e in found["rewards"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no stake rewards: {error!r}") from None
