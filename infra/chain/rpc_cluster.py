"""RPC methods about epochs and validators."""

from __future__ import annotations

from typing import Any, Final

from infra.chain.account_store import AccountStore
from infra.chain.history import History
from infra.chain.rpc_params import (
    SLOT_NOT_EPOCH_BOUNDARY,
    Params,
    RpcError,
    at_least_confirmed,
    block_cleaned_up,
    block_not_available,
    commitment_in,
    config_at,
    flag_in,
    list_at,
    number_in,
    pubkey,
    require_min_context_slot,
)
from infra.chain.source import Reward, Source, VoteAccount
from schemas.solana import base58

_DELINQUENT_SLOTS: Final = 128
_EPOCH_CREDITS: Final = 5  # epochs of credits that an answer has, the newest ones


class ClusterMethods:
    """Methods about the cluster, by the names they are called with."""

    def __init__(self, history: History, store: AccountStore, source: Source) -> None:
        self._history = history
        self._store = store
        self._source = source

    async def get_epoch_info(self, params: Params) -> dict[str, Any]:
        """Return where in its epoch the commitment's newest slot is."""
        config = config_at(params, 0)
        slot = self._store.view(commitment_in(config)).slot
        require_min_context_slot(config, slot)
        record = self._history.record(slot)
        epoch, index = divmod(slot, self._source.slots_per_epoch)
        return {
            "absoluteSlot": slot,
            "blockHeight": record.header.block_height if record and record.header else 0,
            "epoch": epoch,
            "slotIndex": index,
            "slotsInEpoch": self._source.slots_per_epoch,
            # No transactionCount: they are not counted here, and web3.js refuses a null.
        }

    async def get_epoch_schedule(self, _: Params) -> dict[str, Any]:
        """Return the epochs' length: all have the same."""
        slots = self._source.slots_per_epoch
        return {
            "slotsPerEpoch": slots,
            "leaderScheduleSlotOffset": slots,
            "warmup": False,
            "firstNormalEpoch": 0,
            "firstNormalSlot": 0,
        }

    async def get_vote_accounts(self, params: Params) -> dict[str, Any]:
        """Return the validators: those that voted of late, and the delinquent ones."""
        config = config_at(params, 0)
        wanted = config.get("votePubkey")
        address = None if wanted is None else pubkey(wanted)
        distance = number_in(config, "delinquentSlotDistance")
        distance = _DELINQUENT_SLOTS if distance is None else distance
        keeps_unstaked = flag_in(config, "keepUnstakedDelinquents", default=False)
        slot = self._store.view(commitment_in(config)).slot
        oldest_vote = max(slot - distance, 0)
        current, delinquent = [], []
        for account in self._source.vote_accounts(slot):
            if address is not None and account.address != address:
                continue
            if account.last_vote_slot > oldest_vote:
                current.append(_vote_json(account))
            elif account.activated_stake_lamports or keeps_unstaked:
                delinquent.append(_vote_json(account))
        return {"current": current, "delinquent": delinquent}

    async def get_inflation_reward(self, params: Params) -> list[dict[str, Any] | None]:
        """Return what an epoch paid to each address; null where it paid nothing.

        It is in the first block of the epoch after it.
        """
        addresses = [pubkey(each) for each in list_at(params, 0, "pubkeys")]
        config = config_at(params, 1)
        commitment = at_least_confirmed(config)
        tip = self._store.view(commitment).slot
        require_min_context_slot(config, tip)
        epoch = number_in(config, "epoch")
        if epoch is None:
            epoch = max(tip // self._source.slots_per_epoch - 1, 0)
        boundary = (epoch + 1) * self._source.slots_per_epoch
        if boundary < (first := self._history.first_block()):
            raise block_cleaned_up(boundary, first)
        record = next(self._history.blocks(boundary, tip, commitment), None)
        if record is None:
            raise block_not_available(boundary)
        if record.parent_slot >= boundary:
            raise RpcError(
                SLOT_NOT_EPOCH_BOUNDARY,
                f"Rewards cannot be found because slot {record.slot} is not the epoch boundary. "
                "This may be due to gap in the queried node's local ledger or long-term storage",
                {"slot": record.slot},
            )
        paid = {reward.address: reward for reward in record.rewards}
        return [
            _reward_json(paid[each], epoch, record.slot) if each in paid else None
            for each in addresses
        ]


def _vote_json(account: VoteAccount) -> dict[str, Any]:
    return {
        "votePubkey": base58.encode(account.address),
        "nodePubkey": base58.encode(account.node),
        "activatedStake": account.activated_stake_lamports,
        "commission": account.commission_pct,
        "rootSlot": account.root_slot,
        "lastVote": account.last_vote_slot,
        "epochVoteAccount": True,
        "epochCredits": [list(each) for each in account.epoch_credits[-_EPOCH_CREDITS:]],
    }


def _reward_json(reward: Reward, epoch: int, slot: int) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "effectiveSlot": slot,
        "amount": abs(reward.lamports),
        "postBalance": reward.post_lamports,
        "commission": reward.commission,
    }
