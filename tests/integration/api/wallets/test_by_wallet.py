"""What ClickHouse is asked by wallet it finds by wallet, whatever others have."""

from __future__ import annotations

import pytest

from infra.clickhouse.client import connect_async
from infra.clickhouse.sql import load

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
        ("positions_counted", "by_wallet_traded", {"wallets": [NOBODY]}),
        ("cold_positions", "by_wallet", {"wallets": [NOBODY], "slots": [EVER], "most": 5}),
    ],
)
async def test_through_the_projection(make_books, settings, name, projection, parameters):
    await make_books()
    client = await connect_async(settings)
    try:
        for table, columns in (("positions", "wallet, mint, slot"), ("cold_positions", "*")):
            values = "hex(rand(1)), hex(rand(2)), number"
            if columns == "*":
                values = "hex(rand(1)), 1, hex(rand(2)), '', number, number"
            await client.command(
                f"INSERT INTO {table} ({columns}) SELECT {values} FROM numbers(200000)"
            )
        plan = await client.query(
            "EXPLAIN indexes = 1 " + load("api.wallets", name), parameters=parameters
        )
    finally:
        await client.close()
    explained = "\n".join(row[0] for row in plan.result_rows)
    assert f"({projection})" in explained, explained
