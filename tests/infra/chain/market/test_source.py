"""The market as a chain source: pace, account data, and coins that come and go."""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import replace

import orjson
import pytest
from solders.pubkey import Pubkey
from solders.token.state import Mint as SplMint
from solders.token.state import TokenAccount as SplTokenAccount

from infra.chain.market import Knobs, Market, Truth
from infra.chain.market.runtime.ledger import metadata_address
from infra.chain.market.runtime.programs import METADATA, TOKEN, TOKEN_2022, USDC, WSOL
from infra.chain.source import (
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotTransactions,
    Source,
)
from schemas.solana.addresses import key

pytestmark = pytest.mark.slow  # runs a market

KNOBS = Knobs(seed=21, rate=300, wallets=100)


@pytest.fixture(scope="module")
def played() -> Market:
    market = Market(KNOBS)
    for _ in market.generate(20):
        pass
    return market


async def test_pace_changes_no_byte():
    paced: list[SlotEvent] = []
    source: Source = Market(replace(KNOBS, slot_ms=40))
    started = time.monotonic()
    async with asyncio.timeout(120):
        async for event in source.events():
            paced.append(event)
            if isinstance(event, SlotCompleted) and event.header.slot >= KNOBS.start_slot + 20:
                break
    took_ms = (time.monotonic() - started) * 1_000
    assert took_ms >= 20 * 40, "came before its time"
    unpaced = list(Market(replace(KNOBS, slot_ms=40)).generate(30))
    assert paced == unpaced[: len(paced)]


def test_votes_are_marked_and_counted():
    market = Market(replace(KNOBS, votes=3, skipped=0, forks=0))
    votes = [
        transaction
        for event in market.generate(5)
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
        if transaction.is_vote
    ]
    assert len(votes) == 15


def test_mint_accounts_have_the_spl_layout(played):
    account = played.account(USDC)
    assert account.owner == TOKEN.address
    mint = SplMint.from_bytes(account.data)
    assert mint.decimals == 6
    assert mint.supply == played.token_supply(USDC).amount_raw > 0


def test_a_taxed_mint_has_its_fee_after_165_bytes(played):
    coin = next(coin for coin in played.world.coins if coin.transfer_fee_bps)
    account = played.account(coin.address)
    assert account.owner == TOKEN_2022.address
    assert account.data[165] == 1
    offset, found = 166, {}
    while offset < len(account.data):
        kind = int.from_bytes(account.data[offset : offset + 2], "little")
        size = int.from_bytes(account.data[offset + 2 : offset + 4], "little")
        found[kind] = account.data[offset + 4 : offset + 4 + size]
        offset += 4 + size
    assert offset == len(account.data)
    assert len(found[1]) == 108
    assert int.from_bytes(found[1][106:108], "little") == coin.transfer_fee_bps
    assert found[18][32:] == coin.address
    assert coin.name.encode() in found[19]


def test_token_accounts_have_the_spl_layout(played):
    ledger = played.world.ledger
    for mint in (USDC, WSOL):
        token = next(t for t in ledger.tokens.values() if t.mint.address == mint)
        account = played.account(token.address)
        read = SplTokenAccount.from_bytes(account.data)
        assert read.amount == token.amount_raw
        assert read.owner == Pubkey(token.owner)
        assert (read.is_native is not None) == (mint == WSOL)


def test_metadata_is_found_at_its_own_address(played):
    coin = next(coin for coin in played.world.coins if coin.program is TOKEN and coin.name)
    account = played.account(metadata_address(coin))
    assert account.owner == METADATA.address
    assert account.data[0] == 4
    assert account.data[33:65] == coin.address
    length = int.from_bytes(account.data[65:69], "little")
    assert account.data[69 : 69 + length].rstrip(b"\0").decode() == coin.name


def test_an_unknown_address_has_no_account(played):
    nobody = key("Vote111111111111111111111111111111111111112")
    assert played.account(nobody) is None
    assert played.token_supply(nobody) is None


def test_supply_is_what_accounts_hold_and_withhold(played):
    ledger = played.world.ledger
    held: dict[bytes, int] = {}
    for token in ledger.tokens.values():
        mint = token.mint.address
        held[mint] = held.get(mint, 0) + token.amount_raw + token.withheld_raw
    for address, mint in ledger.mints.items():
        if address != WSOL:
            assert held.get(address, 0) == mint.supply_raw, mint.name


def test_final_balances_are_written_on_request():
    sink = io.BytesIO()
    truth = Truth(sink)
    market = Market(KNOBS, truth)
    for _ in market.generate(3):
        pass
    truth.balances(market.world.ledger, KNOBS.start_slot + 2)
    rows = [json.loads(line) for line in sink.getvalue().splitlines()]
    balances = [row for row in rows if row["kind"] == "balance"]
    assert len(balances) == len(market.world.ledger.tokens)
    assert all(int(row["amount_raw"]) >= 0 for row in balances)


@pytest.mark.parametrize(
    ("knob", "value"),
    [("forks", 1.5), ("skipped", 1), ("rate", -1), ("confirm_after", 0), ("wallets", 2)],
)
def test_impossible_knobs_are_refused_by_name(knob, value):
    with pytest.raises(ValueError, match=knob.split("_")[0]):
        Knobs(**{knob: value})


def test_a_confirmed_branch_is_rolled_back_and_never_final() -> None:
    sink = io.BytesIO()
    knobs = Knobs(seed=5, rate=20, forks=0.2, rolled_back=0.5, dead=0.3)
    events = list(Market(knobs, Truth(sink)).generate(400))
    rows = [orjson.loads(line) for line in sink.getvalue().splitlines()]
    slots = {row["slot"]: row for row in rows if row["kind"] == "slot"}
    confirmed = [event.slot for event in events if isinstance(event, SlotConfirmed)]
    final = {event.slot for event in events if isinstance(event, SlotFinalized)}
    rolled_back = {slot for slot, row in slots.items() if row["rolled_back"]}
    assert len(rolled_back) > 10
    assert confirmed == sorted(set(confirmed))
    assert rolled_back <= set(confirmed)
    assert not rolled_back & final
    assert not any(slots[slot]["canonical"] for slot in rolled_back)
    seen: set[int] = set()
    for slot in confirmed:  # ancestors first
        assert not seen or slots[slot]["parent"] in seen
        seen.add(slot)
