"""Questions about more addresses than a server takes in one parameter of a query."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from api.stores.clients import Stores
from api.tokens.cold_markets import read_cold
from infra.clickhouse.migrations import migrate
from infra.settings import Settings
from pipeline.agents import launchpads
from pipeline.agents.market import cold_rows as market_rows
from pipeline.agents.pnl import cold_rows as pnl_rows
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.domain.launchpad import Launchpad
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.markets import ColdMarket, pack_cold
from schemas.positions import ColdWallet, Position, pack_cold_wallet, pack_position
from schemas.positions import pack_cold as pack_cold_position
from schemas.proto.tape_pb2 import Creation
from schemas.redis_keys import tag_of_wallets
from schemas.rows import COLD_MARKETS, COLD_POSITIONS, COLD_WALLETS, CREATIONS, TOKEN_METADATA
from schemas.tape_rows import creation_row

NAMES = [f"{number:044}" for number in range(3_000)]
ENDS = {NAMES[0], NAMES[-1]}
SLOT = 7


@pytest.fixture
def settings(embedded: Any) -> Settings:
    settings = Settings(_env_file=None, clickhouse_url=embedded.url, clickhouse_database="names")
    migrate(settings)
    return settings


@pytest.fixture
async def sink(settings: Settings) -> AsyncIterator[ClickHouseSink]:
    sink = ClickHouseSink(settings)
    yield sink
    await sink.close()


async def test_a_parameter_is_bounded_as_by_a_server(sink: ClickHouseSink) -> None:
    client = await sink.client()
    with pytest.raises(DatabaseError, match="Field value too long"):
        await client.query("SELECT {names:Array(String)}", parameters={"names": NAMES})


async def test_positions_and_wallets(sink: ClickHouseSink) -> None:
    position = pack_cold_position(pack_position(Position(), b""), [])
    rows = [(mint, 0, wallet, position, 1, 1) for mint in ENDS for wallet in ENDS]
    await sink.insert(COLD_POSITIONS.name, rows, "positions")
    packed = pack_cold_wallet(ColdWallet(b"", {}))
    await sink.insert(COLD_WALLETS.name, [(name, packed, 1) for name in ENDS], "wallets")
    tables = pnl_rows.ColdTables(sink, 0, Quarantine("pnl", tag_of_wallets(0)))
    wanted = sorted((wallet, mint) for wallet in ENDS for mint in ENDS)
    for wallets in ((), NAMES):
        found = await tables.positions(NAMES, SLOT, wallets)
        assert sorted((each.wallet, each.mint) for each in found) == wanted
    assert sorted(await tables.places(NAMES, SLOT)) == wanted
    assert (await tables.wallets(NAMES, SLOT)).keys() == ENDS


async def test_markets(sink: ClickHouseSink, settings: Settings) -> None:
    packed = pack_cold(ColdMarket({b"head": b"x"}, {}, {}))
    await sink.insert(COLD_MARKETS.name, [(mint, packed, 1, 1) for mint in ENDS], "markets")
    known = [(mint, "Coin", "CN", "", 6, None, "", 1) for mint in ENDS]
    await sink.insert(TOKEN_METADATA.name, known, "metadata")
    tables = market_rows.ColdTables(sink)
    assert await tables.markets(NAMES, SLOT) == dict.fromkeys(ENDS, packed)
    assert (await tables.metadata(NAMES)).keys() == ENDS
    stores = Stores(settings)
    try:
        found = await read_cold(stores, dict.fromkeys(NAMES, SLOT))
    finally:
        await stores.close()
    assert found.keys() == ENDS
    assert all(each.asked for each in found.values())


async def test_launch_platforms(sink: ClickHouseSink) -> None:
    rows = [
        creation_row(Creation(mint=mint, platform="bags", slot=1, tx_index=number))
        for number, mint in enumerate(ENDS)
    ]
    await sink.insert(CREATIONS.name, rows, "creations")
    found = await launchpads.reader(sink)(NAMES, SLOT)
    assert found == dict.fromkeys(ENDS, Launchpad("bags", ""))
