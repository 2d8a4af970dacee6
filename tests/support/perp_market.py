"""A market with hardly any actors but the perp traders, and what it left behind."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final
from unittest.mock import patch

from infra.chain.market import Knobs, Market, Truth
from infra.chain.market.runtime.execution import Intent
from infra.chain.market.traders import drift, jupiter_perps
from infra.chain.market.traders.crowd import Crowd
from infra.chain.market.traders.trading import Trading
from infra.chain.source import AccountWrite, SlotTransactions
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo

SLOTS: Final = 260  # two periods in which funding overflows the logs
KNOBS: Final = Knobs(seed=9, rate=20, wallets=60, forks=0.1, skipped=0.05, failed=0.2)
SHARE: Final = 0.1  # of the rate: more than usual
Info = SubscribeUpdateTransactionInfo


@dataclass(frozen=True, slots=True)
class Ran:
    """A market that has run."""

    market: Market
    rows: list[dict[str, Any]]  # of its truth
    infos: dict[tuple[int, int], Info]  # by slot and index
    writes: dict[bytes, list[AccountWrite]]  # by owner

    def kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the rows of a kind."""
        return [row for row in self.rows if row["kind"] == kind]

    def info(self, row: dict[str, Any]) -> Info:
        """Return the transaction of a row."""
        return self.infos[row["slot"], row["tx_index"]]


@lru_cache(maxsize=1)
def perp_market() -> Ran:
    """Return a market after some slots, it runs once.

    Beside perps, only SOL is traded against USDC: it moves the price.
    """
    sink = io.BytesIO()
    with patch.object(jupiter_perps, "SHARE", SHARE), patch.object(drift, "SHARE", SHARE):
        market = Market(KNOBS, Truth(sink))
    trading = Trading(market.world, Random(1), 0)
    trading.signer = market.habits.signer
    crowd = Crowd(trading, market.habits.desk, KNOBS.slot_ms)

    def keep_reference() -> Intent:
        return crowd.keep_reference() or market.habits.vote()

    market.habits.next = keep_reference  # type: ignore[method-assign]
    infos: dict[tuple[int, int], Info] = {}
    writes: dict[bytes, list[AccountWrite]] = {}
    for event in market.generate(SLOTS):
        if isinstance(event, SlotTransactions):
            for each in event.transactions:
                if not each.is_vote:
                    infos[event.slot, each.index] = Info.FromString(each.info)
                for write in each.writes:
                    writes.setdefault(write.owner, []).append(write)
    rows = [json.loads(line) for line in sink.getvalue().splitlines()]
    return Ran(market, rows, infos, writes)


def instructions(info: Info) -> list[tuple[bytes, list[bytes], bytes, int]]:
    """Return program, accounts, data and outer index of all instructions, flattened."""
    return list(_instructions(info))


def _instructions(info: Info) -> Iterator[tuple[bytes, list[bytes], bytes, int]]:
    message, meta = info.transaction.message, info.meta
    keys = [
        *message.account_keys,
        *meta.loaded_writable_addresses,
        *meta.loaded_readonly_addresses,
    ]
    inner = {group.index: group.instructions for group in meta.inner_instructions}
    for number, outer in enumerate(message.instructions):
        for each in (outer, *inner.get(number, ())):
            accounts = [keys[at] for at in each.accounts]
            yield keys[each.program_id_index], accounts, each.data, number
