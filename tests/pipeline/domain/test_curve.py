"""How far curves are, by venue; recorded curves against their venue's own formula."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from pipeline.domain.curve import PUMP_FUN_FOR_SALE_RAW, state
from schemas.events import Side, Swap
from schemas.markets import sold_pct

SOL = 10**9


def swap(dex: str, **given: Any) -> Swap:
    """A purchase on a curve with the given reserves."""
    values: dict[str, Any] = {
        "signature": "s", "slot": 9, "tx_index": 0, "event_index": 0, "block_time_ms": 1_000,
        "dex": dex, "program_id": "p", "pool": "pool", "wallet": "w", "fee_payer": "w",
        "mint": "m", "quote_mint": "q", "side": Side.BUY, "amount_raw": 5, "decimals": 6,
        "quote_amount_raw": 7, "quote_decimals": 9, "wallet_amount_raw": 5,
        "wallet_quote_amount_raw": 7, "pool_fee_raw": None, "pool_fee_mint": "",
        "fee_lamports": 0, "priority_fee_lamports": 0, "tip_lamports": 0, "router": "",
        "platform": "", "reserve_raw": None, "quote_reserve_raw": None, "liquidity": None,
        "sqrt_price_x64": None, **given,
    }  # fmt: skip
    return Swap(**values)


def percent(made: Swap) -> float | None:
    curve = state(made)
    return None if curve is None else sold_pct(*curve, is_migrated=False)


@pytest.mark.parametrize(("quarters", "expected"), [(4, 0), (3, 25), (1, 75), (0, 100)])
def test_pump_fun_counts_what_is_left(quarters: int, expected: float) -> None:
    left = PUMP_FUN_FOR_SALE_RAW * quarters // 4
    assert percent(swap("pump-fun", reserve_raw=left)) == expected
    assert percent(swap("pump-fun")) is None  # events before 2025 had no real reserves


def test_launchlab_counts_what_is_left_of_what_the_pool_sells() -> None:
    assert percent(swap("raydium-launchlab", reserve_raw=150, for_sale_raw=600)) == 75
    assert percent(swap("raydium-launchlab", reserve_raw=150)) is None


@pytest.mark.parametrize(("gathered", "expected"), [(0, 0), (20, 25), (80, 100), (81, 100)])
def test_dbc_counts_what_is_gathered(gathered: int, expected: float) -> None:
    made = swap("meteora-dbc", quote_reserve_raw=gathered * SOL, migration_quote_raw=80 * SOL)
    assert percent(made) == expected


def test_a_migrated_token_is_done_whatever_its_curve_said() -> None:
    assert sold_pct(3, 4, is_migrated=True) == sold_pct(0, 0, is_migrated=True) == 100


@pytest.mark.parametrize("dex", ["moonit", "boop", "sugar", "virtuals", "orca-wavebreak", "heaven"])
def test_a_venue_without_curve_reserves_gives_no_percentage(dex: str) -> None:
    assert percent(swap(dex, reserve_raw=5, quote_reserve_raw=7)) is None
    assert sold_pct(0, 0, is_migrated=False) is None


def test_recorded_curves(corpus: Any) -> None:
    """Of pump.fun the SOL gathered says the same: 30 SOL and 1,073 million tokens in the product.

    A mayhem coin's virtual SOL is moved by its agent: it has no such formula.
    """
    seen: Counter[str] = Counter()
    for answer, info in corpus.values():
        for event in decode_update(info, answer["slot"], 0).events:
            if not isinstance(event, Swap):
                continue
            shown = percent(event)
            if event.dex not in {"pump-fun", "raydium-launchlab", "meteora-dbc"}:
                assert shown is None, event.dex
                continue
            seen[event.dex] += 1
            if event.platform == "pump-fun":
                quote = event.quote_reserve_raw
                assert quote is not None
                sold = 1_073_000_000 * (1 - 30 * SOL / (30 * SOL + quote))
                assert shown == pytest.approx(100 * sold / 793_100_000, abs=1e-3)
            elif event.dex == "raydium-launchlab":
                assert shown == pytest.approx(100 * 8_271_604_818_454 / 55_000_000_000_000)
            elif event.dex == "meteora-dbc":  # 11 lamports of 12.5 SOL
                assert shown == pytest.approx(100 * 11 / 12_500_000_000, rel=1e-6)
    assert seen.keys() == {"pump-fun", "raydium-launchlab", "meteora-dbc"}
