"""Perp events of the truth against those stored: each kind of difference is found."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipeline.chaos.differences import Differences
from pipeline.chaos.histories import perps
from pipeline.chaos.stores import Row, Stored
from pipeline.chaos.truth import named_in, read, unnamed

TIME_MS = 1_763_700_000_000
WALLETS = [letter * 44 for letter in "ABC"]
PLACE = {"signature": "sig", "slot": 7, "canonical": True, "tx_index": 3}
FUNDING = {
    "funding_payment": "-5",
    "base_asset_amount": "60",
    "user_last_cumulative_funding": "7",
    "amm_cumulative_funding_long": "8",
    "amm_cumulative_funding_short": "-9",
}
LIQUIDATED = {
    "position_size_usd": "10",
    "price": "20",
    "has_profit": False,
    "pnl_delta": "30",
    "fee_usd": "4",
    "liquidation_fee_usd": "5",
    "transfer_amount_usd": "0",
}
TRUTH: list[Row] = [
    {
        **PLACE,
        "kind": "perp",
        "event_index": 1,
        "cpi_index": 2,
        "event": "LiquidateFullPositionEvent",
        "wallet": WALLETS[0],
        "position": "position",
        "pool": "pool",
        "custody": "custody",
        "collateral_custody": "collateral",
        "mint": "mint",
        "side": "short",
        "fields": LIQUIDATED,
    },
    *(
        {
            **PLACE,
            "kind": "funding",
            "event_index": 4 + number,
            "number": number,
            "lost": number == 1,
            "wallet": WALLETS[1 + number],
            "user": "user",
            "market_index": 2,
            "fields": FUNDING,
        }
        for number in (0, 1)
    ),
    {**PLACE, "kind": "flow", "seen": True, "signers": [], "tokens": [], "sol": [], "burned": []},
    {
        "kind": "slot",
        "slot": 7,
        "parent": 6,
        "blockhash": "hash",
        "block_time_ms": TIME_MS,
        "canonical": False,
        "rolled_back": True,
    },
]
STORED_PLACE = {"signature": "sig", "slot": 7, "tx_index": 3, "block_time": TIME_MS}
STORED: dict[str, list[Row]] = {
    "perp_changes": [
        {
            **STORED_PLACE,
            "event_index": 2,
            "program_id": "not compared",
            "wallet": WALLETS[0],
            "position": "position",
            "pool": "pool",
            "custody": "custody",
            "collateral_custody": "collateral",
            "mint": "mint",
            "side": "short",
            "change": "liquidate",
            "is_instant": False,
            "size_usd_micros": 10,
            "size_delta_usd_micros": None,
            "collateral_delta_usd_micros": None,
            "price_usd_micros": 20,
            "pnl_usd_micros": -30,
            "fee_usd_micros": 4,
            "position_fee_usd_micros": None,
            "funding_fee_usd_micros": None,
            "price_impact_fee_usd_micros": None,
            "liquidation_fee_usd_micros": 5,
            "paid_out_usd_micros": 0,
            "collateral_usd_micros": None,
            "entry_price_usd_micros": None,
        }
    ],
    "funding_payments": [
        {
            **STORED_PLACE,
            "event_index": 4,
            "log_index": 1,
            "wallet": WALLETS[1],
            "account": "user",
            "market_index": 2,
            "payment_raw": -5,
            "base_raw": 60,
            "last_cumulative_funding": 7,
            "cumulative_funding_long": 8,
            "cumulative_funding_short": -9,
        }
    ],
    "perp_gaps": [{**STORED_PLACE, "event_index": 5, "wallet": WALLETS[2]}],
}


def differences(
    tmp_path: Path, stored: dict[str, list[Row]], unknowable: frozenset[object] = frozenset()
) -> Differences:
    path = tmp_path / "truth.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in TRUTH))
    found = Differences(unknowable=unknowable)
    perps(read(path), Stored(rows=stored), found)
    return found


def test_what_is_stored_as_it_was_is_no_difference(tmp_path: Path) -> None:
    found = differences(tmp_path, STORED)
    assert not found.total, found.examples
    assert dict(found.compared) == {"perp change": 1, "funding payment": 1, "cut log": 1}
    anybody = deepcopy(STORED)
    anybody["perp_gaps"][0]["wallet"] = ""
    assert not differences(tmp_path, anybody).total


@pytest.mark.parametrize(
    ("table", "change", "kind"),
    [
        ("perp_changes", {"pnl_usd_micros": 30}, "perp change"),
        ("perp_changes", {"block_time": 0}, "perp change"),
        ("perp_changes", {"entry_price_usd_micros": 0}, "perp change"),
        ("perp_changes", {"slot": 8}, "perp change"),
        ("funding_payments", {"cumulative_funding_short": 9}, "funding payment"),
        ("funding_payments", {"wallet": WALLETS[2]}, "funding payment"),
        ("perp_gaps", {"wallet": WALLETS[1]}, "cut log"),
        ("perp_gaps", {"signature": "another"}, "cut log"),
    ],
)
def test_what_differs_is_found(
    tmp_path: Path, table: str, change: dict[str, Any], kind: str
) -> None:
    stored = deepcopy(STORED)
    stored[table][0] |= change
    assert differences(tmp_path, stored).counts[kind]


@pytest.mark.parametrize("table", list(STORED))
def test_what_is_missing_or_twice_is_found(tmp_path: Path, table: str) -> None:
    assert differences(tmp_path, STORED | {table: []}).total == 1
    if table == "funding_payments":
        twice = [*STORED[table], {**STORED[table][0], "log_index": 2}]
        assert differences(tmp_path, STORED | {table: twice}).total == 1


@pytest.mark.parametrize(("table", "wallet"), list(zip(STORED, WALLETS, strict=True)))
def test_what_rests_on_a_hole_is_excused_for_its_own_wallet(
    tmp_path: Path, table: str, wallet: str
) -> None:
    without = STORED | {table: []}
    found = differences(tmp_path, without, frozenset({wallet}))
    assert (found.total, found.excused) == (0, 1)
    assert differences(tmp_path, without, frozenset({*WALLETS} - {wallet})).total == 1


def test_a_rolled_back_slot_names_the_wallets_of_its_perps(tmp_path: Path) -> None:
    differences(tmp_path, STORED)
    slots = read(tmp_path / "truth.jsonl")
    assert named_in(slots[0]) >= {*WALLETS}
    assert unnamed(slots, [(7, 7, WALLETS[:2])]) == []
    assert unnamed(slots, [(7, 7, WALLETS[:1])]) == ["slot 7"]
