"""What the decoders read equals what the simulated market did: its ledger is an oracle apart.

The market writes down what it did while it did it; nothing there is read from the bytes.
"""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.source import SlotTransactions
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.codec import event_to_json
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo

pytestmark = pytest.mark.slow  # runs a market

SLOTS = 60
Identity = tuple[int, str, int, str]
# The launchpad of a coin that trades on an AMM cannot be known from that trade alone.
CURVES = {"pump-fun", "raydium-launchlab", "meteora-dbc"}
# Of our own adding, not the market's to know.
LEFT_OUT = {"kind", "price", "commitment", "canonical", "vault_raw", "quote_vault_raw"}
LEFT_OUT |= {"token_owner", "block_time_ms", "price_sol", "price_usd", "sol_value", "usd_value"}


def identity(event: dict[str, Any]) -> Identity:
    return event["slot"], event["signature"], event["event_index"], event["kind"]


@pytest.fixture(scope="module", params=[11, 12])
def market(request: pytest.FixtureRequest) -> tuple[list[Any], dict[Identity, dict[str, Any]]]:
    """The decoded transactions of a market with forks and failures, and what really happened."""
    sink = io.BytesIO()
    market = Market(Knobs(seed=request.param, forks=0.1, failed=0.1), Truth(sink))
    found = []
    for event in market.generate(SLOTS):
        if isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
                found.append((info, event.slot, decode_update(info, event.slot, 0)))
    happened = [orjson.loads(line) for line in sink.getvalue().splitlines()]
    events = {
        identity(event): event
        for event in happened
        if event["kind"] in ("swap", "creation", "migration")
    }
    return found, events


def test_every_event_is_found_and_none_is_made_up(market: Any) -> None:
    found, happened = market
    read_events = [identity(event_to_json(e)) for _, _, decoded in found for e in decoded.events]
    assert len(read_events) == len(set(read_events))
    # A slot under way when the generator stopped has its transactions, and no truth yet.
    last = max(slot for slot, *_ in happened)
    assert {each for each in read_events if each[0] <= last} == set(happened)
    assert len(happened) > 3_000
    assert not [miss for _, _, decoded in found for miss in decoded.undecoded]


def test_every_field_is_right(market: Any) -> None:
    found, happened = market
    compared = set()
    for _, _, decoded in found:
        for event in map(event_to_json, decoded.events):
            truth = happened.get(identity(event))
            if truth is None:
                continue
            compared.add((event["kind"], event["dex"]))
            wrong = {
                name: (event[name], wanted)
                for name, wanted in truth.items()
                if name not in LEFT_OUT and not same(name, event, wanted)
            }
            assert not wrong, (event["kind"], event["dex"], event["signature"], wrong)
    assert any(row["keeper"] for row in happened.values() if row["kind"] == "swap")
    assert {dex for kind, dex in compared if kind == "swap"} >= {
        "pump-fun", "pump-swap", "raydium-amm-v4", "raydium-cpmm", "raydium-clmm",
        "raydium-launchlab", "orca-whirlpool", "meteora-dlmm", "meteora-damm-v2", "meteora-dbc",
    }  # fmt: skip


def same(name: str, event: dict[str, Any], wanted: Any) -> bool:
    """Return True if a field is as the market says, where it can be known from the bytes."""
    got = event[name]
    if name == "platform" and event["kind"] == "swap" and event["dex"] not in CURVES:
        return bool(got == "")
    if "reserve" in name and event["dex"] == "raydium-cpmm" and wanted is not None:
        # The event does not say which part of the fee waits for the protocol in the vault.
        return 0 <= int(got) - int(wanted) <= int(event["pool_fee_raw"])
    if wanted is None or got is None:
        return got in (None, "") and wanted in (None, "")
    return str(got) == str(wanted)


def test_balances_are_conserved(market: Any) -> None:
    found, _ = market
    for info, slot, decoded in found:
        if decoded.events:
            tx = Transaction(info, slot, 0, PROGRAMS)
            assert not differences(tx, list(read(tx, []))), decoded.signature
