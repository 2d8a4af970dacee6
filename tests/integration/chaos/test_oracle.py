"""The oracle and the pipeline agree on a short chain, event by event and balance by balance.

Neither knows the other: one reads the market's own notes, the other the transactions' bytes.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

from pipeline.chaos.differences import Differences
from pipeline.chaos.histories import perps
from pipeline.chaos.markets import Markets
from pipeline.chaos.movements import Movement, balances, movements, of_mints
from pipeline.chaos.stores import Stored
from pipeline.chaos.values import Valuer
from pipeline.domain.pool_trade import trade_of
from pipeline.domain.price import MintPrice
from schemas.codec import swap_from_proto
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import FUNDING_PAYMENTS, PERP_CHANGES, PERP_GAPS
from schemas.solana.base58 import encode
from schemas.tape_rows import funding_row, perp_change_row, perp_gap_row


def swaps(batches: list[SlotBatch]) -> dict[tuple[str, int], Any]:
    events = [event.swap for batch in batches for event in batch.events if event.HasField("swap")]
    return {(swap.signature, swap.event_index): swap for swap in events}


def test_every_swap_has_the_same_value(chain):
    valuer = Valuer()
    valued = by_token = 0
    for slot in chain.truth:
        valuer.slot(slot)
        found = swaps(chain.by_mint[slot.slot])
        wanted = {
            (tx.signature, swap["event_index"]): swap
            for tx in slot.transactions
            for swap in tx.swaps
        }
        assert found.keys() == wanted.keys()
        for key, swap in wanted.items():
            got = found[key]
            for name in ("sol_value_lamports", "usd_value_micros"):
                value = getattr(got, name) if got.HasField(name) else None
                assert value == swap[name], (slot.slot, key, name, swap)
            valued += swap["usd_value_micros"] is not None
            by_token += swap["quote_decimals"] != 6 and swap["quote_mint"][:4] != "So11"
        reference = chain.by_mint[slot.slot][0].sol_usd
        assert (Fraction(reference) if reference else None) == valuer.of_slot[slot.slot]
    assert valued > 5_000
    assert by_token > 100


def test_every_movement_is_the_same(chain):
    kinds = [0, 0, 0]
    for slot in chain.truth:
        found = {
            (move.signature, move.wallet, move.mint): Movement(
                move.received_raw, move.sent_raw, move.burned_raw
            )
            for batch in chain.by_wallet[slot.slot]
            for move in batch.movements
        }
        wanted = {
            (tx.signature, *key): move
            for tx in slot.transactions
            for key, move in movements(tx).items()
        }
        assert found == wanted, slot.slot
        for move in wanted.values():
            for at, raw in enumerate(move):
                kinds[at] += raw > 0
    assert min(kinds) > 10


def test_every_balance_is_the_same(chain):
    vaults = 0
    for slot in chain.truth:
        changed = balances(slot)
        for wanted, batches in (
            (of_mints(changed), chain.by_mint[slot.slot]),
            ([b for b in changed if not b.is_vault], chain.by_wallet[slot.slot]),
        ):
            found = {
                (
                    encode(balance.account),
                    balance.owner,
                    balance.mint,
                    balance.decimals,
                    balance.amount_raw,
                    balance.is_vault,
                    balance.is_token_2022,
                )
                for batch in batches
                for balance in batch.balances
            }
            assert found == set(map(tuple, wanted)), slot.slot
        vaults += sum(balance.is_vault for balance in changed)
    assert vaults > 500


def test_every_perp_event_is_the_same(chain):
    stored = Stored(
        rows={
            table.name: [
                dict(zip(table.columns, row(event), strict=True))
                for batches in chain.by_wallet.values()
                for batch in batches
                for event in getattr(batch, table.name)
            ]
            for table, row in (
                (FUNDING_PAYMENTS, funding_row),
                (PERP_CHANGES, perp_change_row),
                (PERP_GAPS, perp_gap_row),
            )
        }
    )
    found = Differences()
    perps(chain.truth, stored, found)
    assert not found.total, found.examples


def test_every_price_is_the_same(chain):
    valuer, markets = Valuer(), Markets()
    prices: defaultdict[str, MintPrice] = defaultdict(MintPrice)
    several = 0
    for slot in chain.truth:
        valuer.slot(slot)
        markets.slot(slot, valuer.sol_usd)
        for batch in chain.by_mint[slot.slot]:
            for event in batch.events:
                if event.HasField("migration"):
                    move = event.migration
                    prices[move.mint].migrated(move.from_pool, move.pool)
                elif event.HasField("swap"):
                    trade = trade_of(swap_from_proto(event.swap))
                    if trade is not None:
                        prices[event.swap.mint].apply(trade)
        for mint, token in markets.prices.tokens.items():
            price = prices[mint].price
            if markets.is_fuzzy(mint):
                assert (price is None) == (token.price is None)
                assert not price or abs(Fraction(*price) / token.price - 1) < Fraction(1, 100)
            else:
                assert (price and Fraction(*price)) == token.price, (slot.slot, mint)
            several += len(token.pools) > 1
    assert several > 1_000
