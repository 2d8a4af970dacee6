"""What other projects' tests state of recorded transactions: a second opinion, not truth.

A trade of a transaction is the net of its legs by mint, in what the wallet's accounts gave
and received: the tokens between the hops of a route cancel out. Where the other project
counts something else, `DIFFERENCES` says what, with the bytes that show it.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from pipeline.decoding.reading import decode_update
from pipeline.decoding.registry import BY_PROGRAM
from pipeline.solana.transaction import CPI_EVENT_TAG, Transaction
from schemas.events import Side, Swap
from schemas.money import USDC, WSOL
from schemas.solana.addresses import key, text
from schemas.solana.borsh import u64

CORPUS = Path(__file__).parents[4] / "shared/corpus"

JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
JUPITER_SWAP_EVENT = bytes.fromhex("40c6cde8260871e2")

RAY = "4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R"
BY_SYMBOL = {"USDC": USDC, "RAY": RAY, "SOL": WSOL}

# signature's beginning -> mint -> (they state, the legs' net), where the two differ
DIFFERENCES: dict[str, dict[str, tuple[int, int]]] = {
    # Jupiter keeps 0.6 %: the last leg's vault sends 47,747,735 (instruction 15), of which the
    # user is sent 47,461,249; Jupiter's FeeEvent names the other 286,486.
    "rNMFZpBm": {USDC: (47_461_249, 47_747_735)},
    # OKX takes 0.3 % (750,000) of the 250,000,000; Phoenix's order for the other 249,250,000
    # fills whole lots: its transfer takes 249,243,111 and 6,889 stay in the account.
    "3p36wGRa": {USDC: (-250_000_000, -249_243_111)},
    # Phoenix fills whole lots: 13,929 of 399,360,000 are not swapped.
    "4xqxLBqu": {USDC: (-399_360_000, -399_346_071)},
    "42zg3foo": {USDC: (-16_000_000, -15_999_020)},
    "QFgRtoQK": {USDC: (-1_084_519_219, -1_084_361_785)},
    # They count three decimals too few: the vault sends 307,800 units of 8 decimals, 0.003078.
    # The 19,955 of USDC they count apart is the platform's fee, not in the swap either way.
}

# Jupiter names what it offered; the pool took less, as its transfer in shows, and the rest stayed
# in the paying account: Phoenix fills whole lots, the curves round what they take.
# signature's beginning -> (program, offered, taken)
OFFERED = {
    "42zg3foo": ("PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY", 16_000_000, 15_999_020),
    "4xqxLBqu": ("PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY", 399_360_000, 399_346_071),
    "QFgRtoQK": ("PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY", 1_084_519_219, 1_084_361_785),
    "3EysEt5Z": ("DjVE6JNiYqPL2QXyCUUh8rNjHrbz9hXHNYt99MQ59qw1", 69_546_220, 69_546_217),
    "2pfnv4dr": ("6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P", 73_111, 73_103),
}

# Not swaps: lending, an order that is opened or closed.
NO_LEGS = {
    "2Cxrz8NW",
    "4Tnpv3Zg",
    "2D9xoA7o",
    "duP4A5qS",
    "5P8xF7oL",
    "4AS3tNA6",
    "2GfJEnDH",
    "FnFdc9Mt",
    "4ecKm513",
    "2VvCxb43",
    "5iPvQ1Th",
    "4aBP4353",
    "L6rJy9mo",
    "4iZxoW1D",
}


def net(swaps: list[Swap]) -> dict[str, int]:
    """What the wallet gained, by mint."""
    found: Counter[str] = Counter()
    for swap in swaps:
        sign = 1 if swap.side is Side.BUY else -1
        found[swap.mint] += sign * swap.wallet_amount_raw
        found[swap.quote_mint] -= sign * swap.wallet_quote_amount_raw
    return {mint: amount for mint, amount in found.items() if amount}


def stated(expected: dict[str, Any], decimals: dict[str, int]) -> dict[str, int]:
    """Read one of the three ways the other projects write a trade down."""
    found: Counter[str] = Counter()
    if isinstance(expected.get("FromTokenAmount"), str):  # 0xjeffro/tx-parser
        for sign, side in ((-1, "From"), (1, "To")):
            mint = expected[f"{side}Token"].replace("globals.WSOL", WSOL)
            found[mint] += sign * int(expected[f"{side}TokenAmount"].removeprefix("uint64("))
    for event in expected.get("events", ()):  # rotki
        if event["subtype"] in ("SPEND", "RECEIVE"):
            asset = event["asset"].removeprefix("solana/token:")
            mint = WSOL if asset in ("A_SOL", "A_WSOL") else asset
            raw = int(Decimal(event["amount"]) * 10 ** decimals[mint])
            found[mint] += -raw if event["subtype"] == "SPEND" else raw
    if expected.get("type") == "TRADE":  # staketaxcsv: received, then sent, then the network's fee
        received, got, sent, gave = expected["row"].split()[:4]
        for sign, amount, name in ((1, received, got), (-1, sent, gave)):
            mint = BY_SYMBOL.get(name, name)
            found[mint] += sign * int(Decimal(amount) * 10 ** decimals[mint])
    return {mint: amount for mint, amount in found.items() if amount}


def test_trades_others_state(corpus: Any) -> None:
    checked = set()
    unused = set(DIFFERENCES)
    for line in (CORPUS / "expected.jsonl").read_bytes().splitlines():
        statement = orjson.loads(line)
        signature = statement["signature"]
        if signature not in corpus or "pumpfun" in statement["venue"].lower():
            continue  # the curve's own test holds those
        answer, info = corpus[signature]
        decoded = decode_update(info, answer["slot"], 0)
        swaps = [event for event in decoded.events if isinstance(event, Swap)]
        if signature[:8] in NO_LEGS:
            assert not swaps, signature
            continue
        transaction = Transaction(info, answer["slot"], 0)
        trade = stated(statement["expected"], {WSOL: 9} | transaction.decimals)
        if not trade:
            continue  # a transfer, an account: no trade is stated
        ours = net(swaps)
        different = DIFFERENCES.get(signature[:8], {})
        unused.discard(signature[:8])
        for mint, amount in trade.items():
            they, legs = different.get(mint, (amount, amount))
            assert (amount, ours.get(mint)) == (they, legs), (signature, mint)
        assert ours.keys() <= trade.keys(), signature
        checked.add(signature)
    assert len(checked) >= 20
    assert not unused


def test_hops_that_jupiter_states(corpus: Any) -> None:
    """Jupiter's own event of each hop names program, mints and amounts: an independent witness."""
    hops = 0
    for signature, (answer, info) in corpus.items():
        tx = Transaction(info, answer["slot"], 0)
        if tx.failed:
            continue
        swaps = [
            event
            for event in decode_update(info, answer["slot"], 0).events
            if isinstance(event, Swap)
        ]
        legs: Counter[tuple[str, str, int, int]] = Counter()
        for swap in swaps:
            amount, quote_amount = swap.wallet_amount_raw, swap.wallet_quote_amount_raw
            if swap.keeper:  # what its owner received is less than what the hop gave
                amount = max(amount, swap.amount_raw)
                quote_amount = max(quote_amount, swap.quote_amount_raw)
            if swap.side is Side.SELL:
                legs[swap.program_id, swap.mint, amount, quote_amount] += 1
            else:
                legs[swap.program_id, swap.quote_mint, quote_amount, amount] += 1
        for position, data in enumerate(tx.data):
            if data[:8] != CPI_EVENT_TAG or data[8:16] != JUPITER_SWAP_EVENT:
                continue
            if text(tx.program(position)) != JUPITER:
                continue
            amm, mint = text(data[16:48]), text(data[48:80])
            paid = u64(data, 80)
            if (amm, paid) == OFFERED.get(signature[:8], ("", 0, 0))[:2]:
                paid = OFFERED[signature[:8]][2]
            leg = (amm, mint, paid, u64(data, 120))
            assert legs[leg] > 0, (signature, leg, dict(legs))
            legs[leg] -= 1
            hops += 1
    assert hops >= 70


def test_recorded_instructions_are_known(corpus: Any) -> None:
    """Single real instructions of covered programs: each is a swap or known to be none."""
    swaps = set()
    for path in sorted((CORPUS / "instructions").glob("*/tests/fixtures/*_ix.json")):
        content = path.read_bytes()
        if not content:
            continue  # recorded without its content
        recorded = orjson.loads(content)
        venue = BY_PROGRAM.get(key(recorded["program_id"]))
        if venue is None:
            continue
        tag = bytes.fromhex(recorded["data"])[: venue.tag_size]
        assert (tag in venue.handlers) != (tag in venue.ignored), path
        if tag in venue.handlers:
            swaps.add(venue.dex)
    assert swaps >= {"meteora-dlmm", "orca-whirlpool", "raydium-clmm"}
