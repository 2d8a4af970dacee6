"""What the ledger says of demo wallets is what readings find in the bytes; and a market that rests.

A reading is asked as the API asks it; the figures it must have are the programs' own.
"""

from __future__ import annotations

import io
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import orjson
import pytest

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market import Knobs, Market, PositionTruth
from infra.chain.market.runtime.stake import EPOCH_SLOTS
from infra.chain.source import SlotCompleted, SlotDead, SlotEvent, SlotStarted, SlotTransactions
from pipeline.chaos import figures
from pipeline.chaos.differences import Differences
from pipeline.chaos.readings import BLOCKS, ROUTES, ChainAccounts, expected
from schemas.protocols.contract import Position
from schemas.protocols.registry import SLUGS
from schemas.solana.addresses import text

pytestmark = pytest.mark.slow  # a market of 210 slots, for all of them

KNOBS = Knobs(seed=9, rate=250, wallets=60, forks=0.3, rolled_back=0.3, start_slot=400_000_040)
TRADED = 150
RESTED = 60
LIVE = {
    *("marginfi", "kamino", "whirlpools", "raydium_clmm", "raydium_cpmm", "raydium_amm_v4"),
    *("meteora_dlmm", "meteora_damm_v2", "native_stake", "jupiter_perps", "drift"),
}


class Rested(NamedTuple):
    market: Market
    events: list[SlotEvent]  # of the slots in which it rested
    lines: list[dict[str, Any]]


@lru_cache(maxsize=1)
def rested() -> Rested:
    sink = io.BytesIO()
    market = Market(KNOBS, positions=PositionTruth(sink))
    first, last = KNOBS.start_slot + TRADED, KNOBS.start_slot + TRADED + RESTED
    events: list[SlotEvent] = []
    for _, event in market.stream():
        if isinstance(event, SlotStarted):
            if event.slot >= last:
                break
            if event.slot >= first:
                market.rest()
        events.append(event)
    own = [each for each in events if isinstance(each, SlotStarted) and each.slot >= first]
    at = events.index(own[1])
    return Rested(
        market, events[at:], [orjson.loads(each) for each in sink.getvalue().splitlines()]
    )


def test_a_market_that_rests_has_blocks_with_votes_alone() -> None:
    blocks = 0
    for event in rested().events:
        match event:
            case SlotTransactions(_, transactions):
                assert all(each.is_vote for each in transactions)
            case SlotCompleted():
                blocks += 1
    assert blocks > RESTED // 2


def test_it_leaves_no_block_once_a_branch_has_ended() -> None:
    parents = [each for each in rested().events if isinstance(each, SlotStarted)][3:]
    assert not any(isinstance(each, SlotDead) for each in rested().events[20:])
    for before, after in pairwise(parents):
        assert after.parent_slot == before.slot


def test_figures_are_noted_from_then_on_and_change_by_interest_alone() -> None:
    lines = rested().lines
    assert len(lines) > RESTED // 2
    of_live = [
        {
            each["id"]: sorted(line[:2] for line in each["assets"])
            for each in line["positions"]
            if each["protocol"] != "native_stake"
        }
        for line in lines
    ]
    assert all(each == of_live[0] for each in of_live)
    assert {each["protocol"] for each in lines[0]["positions"]} == LIVE


def chain(market: Market, slot: int) -> ChainAccounts:
    ledger = market.world.ledger
    found = ChainAccounts(EPOCH_SLOTS)
    for write in market.genesis_accounts():  # as they are now
        found.add(write.address, write.owner, write.lamports, write.data, slot)
    found.tokens = {wallet: Counter() for wallet in ADDRESSES.values()}
    for token in ledger.tokens.values():
        if token.owner in found.tokens:
            found.tokens[token.owner][token.mint.address] += token.amount_raw
    return found


def answer(position: Position) -> dict[str, Any]:
    """A position as the API answers it."""
    row = expected(position)
    names = ("role", "mint", "amount_raw")
    lines = [dict(zip(names, each, strict=True)) for each in row["assets"]]
    blocks = {
        name: {
            field.partition(".")[2]: value
            for field, value in row.items()
            if field.startswith(f"{name}.")
        }
        or None
        for name in BLOCKS
    }
    return {"assets": lines, **blocks}


def compared() -> Differences:
    market, _, lines = rested()
    last = figures.of_record(lines[-1])
    accounts = chain(market, last.slot)
    world = accounts.world(last.slot, last.time_s)
    answers: dict[figures.Position, dict[str, Any]] = {}
    for wallet in ADDRESSES.values():
        for slug, _ in ROUTES:
            for each in accounts.positions(SLUGS[slug], wallet, world)[0]:
                at = text(each.id or each.account.address)
                answers[text(wallet), SLUGS[slug].name, each.route, at] = answer(each)
    differences = Differences()
    figures.compare(last, answers, differences)
    assert differences.compared[figures.KIND] == len(last.positions)
    return differences


def test_readings_find_the_ledgers_figures() -> None:
    found = compared()
    assert found.examples == []
    assert found.compared[figures.KIND] > 12
