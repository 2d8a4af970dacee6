"""What ClickHouse is asked by wallet it finds by wallet, whatever others have."""

from __future__ import annotations

import pytest

from api.sql import load
from infra.clickhouse.client import connect_async

NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
EVER = 2**62


@pytest.mark.parametrize(
    ("name", "projection", "parameters"),
    [
        (
            "positions_traded",
            "by_wallet_traded",
            {"wallet": NOBODY, "after_ms": EVER, "after_mint": "", "limit": 5},
        ),
        ("cold_positions", "by_wallet", {"wallets": [NOBODY], "slots": [EVER], "most": 5}),
    ],
)
async def test_through_the_projection(make_books, settings, name, projection, parameters):
    await make_books()
    client = await connect_async(settings)
    try:
        cold = [[f"m{n}", 1, f"w{n}", b"", n] for n in range(20_000)]
        await client.insert("cold_positions", cold)
        rows = [[f"w{n}", f"m{n % 77}", n] for n in range(20_000)]
        await client.insert("positions", rows, ["wallet", "mint", "slot"])
        plan = await client.query(
            "EXPLAIN indexes = 1 " + load("api.readers", name), parameters=parameters
        )
    finally:
        await client.close()
    told = "\n".join(row[0] for row in plan.result_rows)
    assert f"({projection})" in told, told
