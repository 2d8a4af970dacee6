"""JLP is bought and sold for one token of its pool; positions are read from events."""

from __future__ import annotations

import base64
import struct
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pipeline.decoding.reading import Decoded, Reason, decode_update
from schemas.events import PerpChange, PerpGap, Side, Swap
from schemas.solana.addresses import key
from tests.support import anchor
from tests.support.decoding import builder
from tests.support.decoding.builder import address

PROGRAM = "PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ACCOUNTS = "trader dollars jlp authority perpetuals pool custody"


def tag(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_jlp_is_bought_and_sold(adds: bool, routed: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("dollars", USDC, "trader", 10_000)
    tx.token("jlp", "jlp mint", "trader", 10_000)
    tx.token("vault", USDC, "authority", 10_000)
    route = tx.call(JUPITER, "x trader dollars", ROUTE) if routed else None
    name = "add_liquidity2" if adds else "remove_liquidity2"
    call = tx.call(PROGRAM, ACCOUNTS, tag(name) + bytes(16), under=route)
    if adds:
        tx.transfer(call, "dollars", "vault", "trader", 500)
        tx.mint_to(call, "jlp mint", "jlp", 120)
    else:
        tx.burn(call, "jlp mint", "jlp", "trader", 120)
        tx.transfer(call, "vault", "dollars", "authority", 500)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.dex, swap.pool, swap.wallet) == ("jupiter-perps", address("pool"), tx.keys[0])
    assert (swap.side, swap.mint) == (Side.BUY if adds else Side.SELL, address("jlp mint"))
    assert (swap.amount_raw, swap.quote_amount_raw) == (120, 500)
    assert swap.router == ("jupiter" if routed else "")


def test_a_position_is_no_swap() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("dollars", USDC, "trader", 10_000)
    tx.token("vault", USDC, "authority", 10_000)
    call = tx.call(PROGRAM, ACCOUNTS, tag("instant_increase_position") + bytes(16))
    tx.transfer(call, "dollars", "vault", "trader", 500)
    decoded = decode_update(tx.info(), 1, 2)
    assert (decoded.events, decoded.undecoded) == ([], [])


# -- positions ----------------------------------------------------------------------------

SIDES = {"1": True, "2": False}
EVENTS = {
    "IncreasePositionEvent": ("increase", False),
    "InstantIncreasePositionEvent": ("increase", True),
    "DecreasePositionEvent": ("decrease", False),
    "InstantDecreasePositionEvent": ("decrease", True),
    "LiquidateFullPositionEvent": ("liquidate", False),
}
NAMES = {
    "wallet": "owner",
    "position": "position_key",
    "pool": "pool",
    "custody": "position_custody",
    "collateral_custody": "position_collateral_custody",
    "mint": "position_mint",
    "size_usd_micros": "position_size_usd",
    "size_delta_usd_micros": "size_usd_delta",
    "collateral_delta_usd_micros": "collateral_usd_delta",
    "price_usd_micros": "price",
    "fee_usd_micros": "fee_usd",
    "position_fee_usd_micros": "position_fee_usd",
    "funding_fee_usd_micros": "funding_fee_usd",
    "price_impact_fee_usd_micros": "price_impact_fee_usd",
    "liquidation_fee_usd_micros": "liquidation_fee_usd",
    "paid_out_usd_micros": "transfer_amount_usd",
    "collateral_usd_micros": "position_collateral_usd",
    "entry_price_usd_micros": "position_price",
}


def event_tag(name: str) -> bytes:
    return sha256(f"event:{name}".encode()).digest()[:8]


def liquidated(side: int = 2, pnl: int = 80, appended: bytes = b"") -> bytes:
    """A liquidation as it was before its event had the parts of the fee."""
    return (
        event_tag("LiquidateFullPositionEvent")
        + key(address("position"))
        + bytes([side])
        + b"".join(key(address(name)) for name in ("custody", "collateral", "usdc", "sol"))
        + struct.pack("<Q?Q", 5_000_000, False, pnl)
        + key(address("owner"))
        + key(address("pool"))
        + struct.pack("<QQQQQq", 0, 0, 150_000_000, 3, 4, 1_763_700_000)
        + appended
    )


def emitted(*bodies: bytes, by: str = "liquidate_full_position4") -> Decoded:
    tx = builder.TransactionBuilder("keeper", slot_index=4)
    call = tx.call(PROGRAM, ACCOUNTS, tag(by) + bytes(16))
    for body in bodies:
        tx.cpi_event(call, body)
    return decode_update(tx.info(), 1, 2)


@pytest.mark.parametrize("lacking", [0, 8])
def test_a_liquidation_before_events_had_the_parts_of_the_fee(lacking: int) -> None:
    """Still earlier ones ended before the time."""
    decoded = emitted(liquidated()[: len(liquidated()) - lacking])
    assert (decoded.events, decoded.undecoded) == ([], [])
    assert decoded.decoded_by_dex == {"jupiter-perps": 1}
    assert decoded.perps == [
        PerpChange(
            signature=decoded.signature,
            slot=1,
            tx_index=4,
            event_index=1,
            block_time_ms=2,
            dex="jupiter-perps",
            program_id=PROGRAM,
            wallet=address("owner"),
            position=address("position"),
            pool=address("pool"),
            custody=address("custody"),
            collateral_custody=address("collateral"),
            mint=address("sol"),
            is_long=False,
            change="liquidate",
            is_instant=False,
            size_usd_micros=5_000_000,
            size_delta_usd_micros=None,
            collateral_delta_usd_micros=None,
            price_usd_micros=150_000_000,
            pnl_usd_micros=-80,
            fee_usd_micros=3,
            position_fee_usd_micros=None,
            funding_fee_usd_micros=None,
            price_impact_fee_usd_micros=None,
            liquidation_fee_usd_micros=4,
            paid_out_usd_micros=0,
            collateral_usd_micros=None,
            entry_price_usd_micros=None,
        )
    ]


@pytest.mark.parametrize(("side", "is_long"), [(1, True), (2, False)])
def test_side_one_is_long_and_side_two_short(side: int, is_long: bool) -> None:
    (change,) = emitted(liquidated(side=side)).perps
    assert isinstance(change, PerpChange)
    assert change.is_long is is_long


def test_an_event_is_read_whichever_instruction_emits_it() -> None:
    (change,) = emitted(liquidated(), by="an_instruction_of_tomorrow").perps
    assert isinstance(change, PerpChange)


def test_other_events_are_nothing() -> None:
    decoded = emitted(event_tag("PoolSwapEvent") + bytes(200), b"")
    assert (decoded.perps, decoded.undecoded, decoded.decoded_by_dex) == ([], [], {})


@pytest.mark.parametrize(
    "body",
    [
        liquidated()[:-1],
        liquidated()[:8],
        liquidated(side=0),
        liquidated(side=3),
        liquidated(pnl=2**63),
        liquidated(appended=b"\0"),
        liquidated(appended=b"\0" * 12),
    ],
)
def test_an_event_that_does_not_fit_is_malformed_and_a_gap(body: bytes) -> None:
    decoded = emitted(body, liquidated())
    gap, change = decoded.perps
    assert isinstance(gap, PerpGap)
    assert (gap.event_index, gap.reason, gap.wallet) == (1, "malformed event", "")
    assert isinstance(change, PerpChange)
    (miss,) = decoded.undecoded
    assert (miss.reason, miss.dex, miss.event_index) == (Reason.MALFORMED, "jupiter-perps", 1)


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


@pytest.mark.node
def test_events_are_as_anchor_writes_them(coder: Path) -> None:
    path = anchor.idl("p09-jupiter_perpetuals.json")
    questions: list[dict[str, Any]] = [
        {
            "event": name,
            "idl": path,
            "seed": seed,
            "fields": {"position_side": 1 + seed % 2},
        }
        for name in EVENTS
        for seed in range(40)
    ]
    answers = anchor.asked(coder, questions)
    for question, answer in zip(questions, answers, strict=True):
        fields = answer["fields"]
        decoded = emitted(base64.b64decode(answer["data"]))
        if int(fields.get("pnl_delta", 0)) >= 2**63:
            assert isinstance(decoded.perps[0], PerpGap)
            continue
        (change,) = decoded.perps
        assert isinstance(change, PerpChange)
        assert (change.change, change.is_instant) == EVENTS[question["event"]]
        assert change.is_long == SIDES[fields["position_side"]]
        found = asdict(change)
        for ours, name in NAMES.items():
            assert (None if found[ours] is None else str(found[ours])) == fields.get(name), name
        sign = 1 if fields.get("has_profit") else -1
        pnl = fields.get("pnl_delta")
        assert change.pnl_usd_micros == (None if pnl is None else sign * int(pnl))
