"""What the books are measured with: the same tape each time, and a baseline that computes alike."""

from __future__ import annotations

from pipeline.bench.pnl_baseline import apply
from pipeline.bench.pnl_tape import SWAPS_PER_SLOT, Tape
from pipeline.domain.lots import Holding
from pipeline.domain.netting import BUY, SELL, flows
from schemas.positions import unpack_cold, unpack_position
from schemas.topics import SETTLED_BY_WALLET


def test_a_seed_is_a_tape_and_wallets_are_in_their_partition() -> None:
    slots = [*Tape(3, 500).slots(1_600)]
    again = [*Tape(3, 500).slots(1_600)]
    assert [batch.SerializeToString() for slot in slots for batch in slot] == [
        batch.SerializeToString() for slot in again for batch in slot
    ]
    assert len(slots) == 1_600 // SWAPS_PER_SLOT
    for slot in slots:
        assert sum(len(batch.events) for batch in slot) == SWAPS_PER_SLOT
        for partition, batch in enumerate(slot):
            owners = {event.swap.wallet for event in batch.events}
            owners |= {balance.owner for balance in batch.balances}
            assert {SETTLED_BY_WALLET.partition(owner) for owner in owners} <= {partition}


def test_the_baseline_comes_to_the_same_positions() -> None:
    positions: dict[bytes, bytes] = {}
    days: dict[bytes, bytes] = {}
    holdings: dict[tuple[str, str], Holding] = {}
    for slot in Tape(4, 60, mints=3).slots(8_000):
        for batch in slot:
            batch.ClearField("movements")  # the baseline does without
            for event in batch.events:
                apply(event.swap, positions, days)
            for flow in flows(batch):
                holding = holdings.setdefault((flow.wallet, flow.mint), Holding.empty())
                at = (batch.slot, batch.block_time_ms)
                worth = (flow.quantity_raw, flow.lamports, flow.usd_micros)
                if flow.side == BUY:
                    holding.buy(*worth, batch.slot, flow.tx_index, batch.block_time_ms)
                elif flow.side == SELL:
                    holding.sell(*worth, *at, [])
                holding.pay(flow.fee_lamports, flow.priority_fee_lamports, flow.tip_lamports)
    assert len(positions) == len(holdings) > 50
    assert max(holding.position.lots_opened for holding in holdings.values()) > 16
    for (wallet, mint), holding in holdings.items():
        packed, _ = unpack_cold(positions[f"{wallet}:{mint}".encode()])
        assert unpack_position(packed)[0] == holding.position
