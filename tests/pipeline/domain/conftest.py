"""What the tests of the domain share: swaps of which only the amounts matter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schemas.events import Side, Swap


@pytest.fixture(scope="session")
def swap() -> Callable[..., Swap]:
    """A swap: mint, quote, raw amounts of both, and any other field by name."""

    def make(mint: str, quote: str, raw: int, quote_raw: int, **fields: object) -> Swap:
        values = {
            "signature": "s", "slot": 1, "tx_index": 0, "event_index": 0, "block_time_ms": 0,
            "dex": "", "program_id": "", "pool": "pool", "wallet": "wallet", "fee_payer": "wallet",
            "mint": mint, "quote_mint": quote, "side": Side.BUY, "amount_raw": raw, "decimals": 6,
            "quote_amount_raw": quote_raw, "quote_decimals": 9, "wallet_amount_raw": raw,
            "wallet_quote_amount_raw": quote_raw, "pool_fee_raw": None, "pool_fee_mint": "",
            "fee_lamports": 0, "priority_fee_lamports": 0, "tip_lamports": 0, "router": "",
            "platform": "", "reserve_raw": None, "quote_reserve_raw": None, "liquidity": None,
            "sqrt_price_x64": None,
        }  # fmt: skip
        return Swap(**(values | fields))  # type: ignore[arg-type]

    return make
