"""What the last epochs paid to stake accounts: asked for off the request path, read from Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.accounts.following import Following, FollowState
from api.positions.answers import RewardsReason, StakeRewardAnswer
from api.stores.clients import Stores
from schemas.amounts import sol, text
from schemas.redis_keys import STAKE_REWARDS, account_tag
from schemas.solana.addresses import text as address_text
from schemas.stake_rewards import StakeRewards, unpack_rewards

MOST_ACCOUNTS: Final = 100  # of a wallet; the rewards of the others are left out

Rewards = tuple[list[StakeRewardAnswer] | None, RewardsReason | None]

_REASONS: Final[dict[FollowState, RewardsReason]] = {
    FollowState.KEY_LIMIT: "limit",
    FollowState.LIMIT: "limit",
    FollowState.NOT_ASKED: "not_asked",
}


class RewardsReader:
    """Reads rewards, for all requests of a process."""

    def __init__(self, stores: Stores, following: Following) -> None:
        self._stores = stores
        self._following = following

    async def read(
        self, accounts: Sequence[bytes], epoch: int, holder: str
    ) -> dict[bytes, Rewards]:
        """Return what is known of stake accounts in an epoch, or why it is not; raises Problem.

        Those of which it is not known are asked for, on the account of a key's fingerprint.
        """
        read = accounts[:MOST_ACCOUNTS]
        found: dict[bytes, Rewards] = dict.fromkeys(accounts[MOST_ACCOUNTS:], (None, "too_many"))
        names = [
            STAKE_REWARDS.make(tag=account_tag(address_text(each)), address=address_text(each))
            for each in read
        ]
        answers = await self._stores.ask([("GET", name) for name in names]) if names else []
        missing = []
        for account, packed in zip(read, answers, strict=True):
            known = _known(packed)
            if known is not None and known.last_epoch >= epoch - 1:
                found[account] = _answer(known), None
                if not any(each.reason for each in known.rewards):
                    continue  # else the node may know by now
            missing.append(account)
        if missing:
            refused = await self._following.ask_rewards(missing, holder)
            reason = "pending" if refused is None else _REASONS[refused]
            found = dict.fromkeys(missing, (None, reason)) | found
        return found


def _known(packed: bytes | None) -> StakeRewards | None:
    try:
        return None if packed is None else unpack_rewards(packed)
    except ValueError:
        return None  # it is asked for again


def _answer(known: StakeRewards) -> list[StakeRewardAnswer]:
    return [
        {
            "epoch": each.epoch,
            "lamports": text(each.lamports),
            "sol": sol(each.lamports),
            "balance_lamports": text(each.balance_lamports),
            "balance_sol": sol(each.balance_lamports),
            "commission_pct": each.commission_pct,
            "slot": each.slot,
            "reason": each.reason or ("not_paid" if each.lamports is None else None),
        }
        for each in known.rewards
    ]
