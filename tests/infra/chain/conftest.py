from __future__ import annotations

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.source import ChainTransaction, SlotEvent, SlotTransactions


@pytest.fixture(scope="session")
def market_events() -> list[SlotEvent]:
    """Eighty slots of a busy market with forks, dead and skipped slots."""
    return list(Market(Knobs(seed=7, rate=50, forks=0.15, skipped=0.1)).generate(80))


@pytest.fixture(scope="session")
def transactions(market_events: list[SlotEvent]) -> list[ChainTransaction]:
    return [
        transaction
        for event in market_events
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
    ]
