"""The data set of `soltape bench api`, as the API reads it; the load; the line at the end."""

import asyncio
import os
import shutil
import threading
import time
from contextlib import suppress

import orjson
import pytest
from click.testing import CliRunner

from infra.bench.api import load, measures
from infra.bench.api.command import api, headline
from infra.bench.api.data import stores
from infra.bench.api.endpoints import (
    CLICKHOUSE,
    HOT,
    read_pairs,
    token_batch,
    top_batch,
    wallet_batch,
)
from infra.bench.api.load import LoadFailed, Request
from infra.bench.api.positions import data, measure
from infra.bench.api.positions.measure import ASKED
from infra.bench.api.serving import fetch, serve_api
from infra.bench.api.world import LAST_MS, LAST_SLOT, World
from infra.clickhouse.client import connect

WORLD = World(10_000)

pytestmark = pytest.mark.skipif(
    shutil.which("wrk") is None and os.environ.get("CI") != "true", reason="wrk is not installed"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The API over a small data set; ClickHouse; pairs of wallet and token."""
    folder = tmp_path_factory.mktemp("bench")
    with stores(folder) as filled:
        filled_world = filled.fill(WORLD)
        assert filled_world["swaps"] == 10_000
        with connect(filled.settings) as clickhouse, serve_api(filled, folder) as running:
            yield running, clickhouse, read_pairs(clickhouse, WORLD.swaps)


def answer(served, path):
    (text,) = fetch(served, [Request(path)]).values()
    return orjson.loads(text)


@pytest.mark.slow
def test_tables_and_python_have_the_same_addresses(served):
    _, clickhouse, _ = served
    counts = clickhouse.query("SELECT count(), uniq(mint), uniq(wallet) FROM swaps").result_rows[0]
    assert counts[0] == WORLD.swaps
    mints = {WORLD.mint(number) for number in range(WORLD.mints)}
    wallets = {WORLD.wallet(number) for number in range(WORLD.wallets)}
    assert {row[0] for row in clickhouse.query("SELECT mint FROM tokens").result_rows} == mints
    assert {row[0] for row in clickhouse.query("SELECT mint FROM swaps").result_rows} <= mints
    assert {row[0] for row in clickhouse.query("SELECT wallet FROM swaps").result_rows} <= wallets
    assert counts[1] > 0.9 * len(mints)
    assert counts[2] > 0.9 * len(wallets)


@pytest.mark.slow
def test_every_endpoint_answers_every_pair(served):
    running, _, pairs = served
    for endpoint in (*HOT, *CLICKHOUSE):
        answers = fetch(running, endpoint.requests(pairs)[:12])
        for text in answers.values():
            body = orjson.loads(text)
            assert body.get("as_of_slot", LAST_SLOT) == LAST_SLOT, endpoint
    for made in (token_batch, top_batch, wallet_batch):
        (text,) = fetch(running, made(pairs, 10)[:1]).values()
        assert not orjson.loads(text).get("unknown")


@pytest.mark.slow
def test_answers_of_positions_are_what_the_swaps_come_to(served):
    running, clickhouse, pairs = served
    for wallet, mint in pairs[:20]:
        body = answer(running, f"/api/wallets/{wallet}/{mint}")
        buys, sells, paid, got, first, last = clickhouse.query(
            "SELECT countIf(side = 'buy'), countIf(side = 'sell'), "
            "sumIf(quote_amount_raw, side = 'buy'), sumIf(quote_amount_raw, side = 'sell'), "
            "toUnixTimestamp64Milli(min(block_time)), toUnixTimestamp64Milli(max(block_time)) "
            "FROM swaps WHERE wallet = {wallet:String} AND mint = {mint:String}",
            parameters={"wallet": wallet, "mint": mint},
        ).result_rows[0]
        assert (body["buys"], body["sells"]) == (buys, sells)
        assert body["bought_lamports"] == str(paid)
        assert body["sold_lamports"] == str(got)
        assert body["open_lots"] == max(0, buys - sells)
        assert (body["first_trade_ms"], body["last_trade_ms"]) == (first, last)
        lots = answer(running, f"/api/wallets/{wallet}/{mint}/lots")
        assert len(lots["open_lots"]) == body["open_lots"]
        held = sum(int(lot["quantity_raw"]) for lot in lots["open_lots"])
        assert held == int(body["held_raw"])
        cost = sum(int(lot["cost_lamports"]) for lot in lots["open_lots"])
        assert cost == int(body["held_cost_lamports"])
        gain = sum(int(match["realized_lamports"] or 0) for match in lots["matches"])
        assert gain == int(body["realized_lamports"] or 0)


@pytest.mark.slow
def test_markets_have_prices_days_and_pools(served):
    running, _, pairs = served
    mint = pairs[0][1]
    body = answer(running, f"/api/tokens/{mint}")
    assert body["as_of_ms"] == LAST_MS
    assert body["price_sol"] > 0
    assert body["price_source"] == "live"
    assert body["liquidity_sol"] == 200.0
    listed = answer(running, f"/api/tokens/{mint}/holders?limit=100")["holders"]
    assert len(listed) == min(body["holder_count"], 100) > 0
    assert answer(running, "/api/tokens/trending")["tokens"]


@pytest.mark.slow
def test_the_command_prints_one_line(monkeypatch):
    """Of all parts but positions, whose data set is written for the test that measures them."""
    monkeypatch.setattr(measures, "HOT", HOT[:1])
    monkeypatch.setattr(measures, "CLICKHOUSE", CLICKHOUSE[:1])
    # A machine with other tests may answer nothing in the second that --quick takes.
    monkeypatch.setattr("infra.bench.api.command.Effort", lambda _, runs: measures.Effort(2, runs))
    options = ["--quick", "--swaps", "10000", "--scale", "2"]
    for part in ("hot", "clickhouse", "batch", "growth"):
        options += ["--only", part]
    ended = CliRunner().invoke(api, options)
    assert ended.exit_code == 0, ended.output
    line = orjson.loads(ended.stdout)
    assert (line["bench"], line["unit"], line["runs"]) == ("api", "requests/s", 1)
    assert 0 < line["value"] < line["baseline"] * 1.5
    assert line["data"]["swaps"] * 2 == line["data_grown"]["swaps"] == 20_000
    hot = line["hot"]["price"]
    assert hot["ratio"] == line["ratio"]
    assert hot["cpu_us"] > hot["bare_cpu_us"] > 0
    assert 0 < hot["at_half"]["rate"] < hot["rate"] * 0.6, "a busy machine may send fewer, not more"
    assert line["clickhouse"].keys() == {"daily_pnl"}
    assert line["batch"].keys() == {"tokens", "top_traders", "wallets"}
    assert "positions" not in line
    assert line["growth"].keys() == {"price", "daily_pnl"}


@pytest.mark.slow
def test_a_part_is_measured_alone(monkeypatch):
    monkeypatch.setattr(measure, "ASKED", ASKED[:1])
    monkeypatch.setattr(data, "WALLETS", 40)
    monkeypatch.setattr(measure, "RATE", 20.0)
    ended = CliRunner().invoke(api, ["--quick", "--only", "positions"])
    assert ended.exit_code == 0, ended.output
    line = orjson.loads(ended.stdout)
    assert (line["bench"], line["unit"]) == ("api", "ms")
    assert line["value"] == line["p99_ms"] == line["positions"]["whirlpools"]["p99_ms"]
    assert line["ratio"] == line["positions"]["whirlpools"]["p99_ratio"]
    assert not line.keys() & {"hot", "clickhouse", "batch", "growth", "data", "baseline"}


SLOW = {"p50_ms": 4.0, "p99_ms": 9.0}
POSITIONS = {"a": {"p50_ms": 2.0, "p99_ms": 7.0, "p99_ratio": 3.0}, "b": SLOW | {"p99_ratio": 2.0}}
BATCH = {"tokens": {"p50_ms": 3.0, "ratio": 1.7}, "wallets": {"p50_ms": 30.0, "ratio": 9.1}}
GROWTH = {"price": {"p50_ms": 2.0, "p50_ms_grown": 2.5, "ratio": 1.2}}
HOT_ONE = {"rate": 9.0, "bare_rate": 10.0, "ratio": 0.9, "at_half": {"p99_ms": 5.0}}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"positions": POSITIONS}, (9.0, "ms", {"p99_ms": 9.0, "ratio": 3.0})),
        ({"clickhouse": {"daily_pnl": SLOW}}, (9.0, "ms", {"p99_ms": 9.0})),
        ({"batch": BATCH}, (30.0, "ms", {"ratio": 9.1})),
        ({"growth": GROWTH, "data": {}}, (2.5, "ms", {"ratio": 1.2})),
        ({"batch": BATCH, "clickhouse": {"daily_pnl": SLOW}}, (9.0, "ms", {"p99_ms": 9.0})),
        (
            {"hot": {"price": HOT_ONE}, "positions": POSITIONS},
            (9, "requests/s", {"baseline": 10, "ratio": 0.9, "p99_ms": 5.0}),
        ),
    ],
)
def test_the_headline_is_of_what_was_measured(figures, expected):
    assert headline(figures) == expected


def test_growth_alone_needs_a_larger_data_set():
    ended = CliRunner().invoke(api, ["--quick", "--only", "growth", "--scale", "1"])
    assert ended.exit_code == 2
    assert "--scale must be above 1" in ended.output


def test_a_part_that_is_none_is_refused():
    ended = CliRunner().invoke(api, ["--only", "hot", "--only", "cold"])
    assert ended.exit_code == 2
    assert "'cold' is not one of 'hot', 'clickhouse', 'batch', 'positions', 'growth'" in (
        ended.output
    )


class Stalling:
    """A server that answers at once, but for one second in which it answers nobody."""

    def __init__(self):
        self.url = ""
        self.paths = []
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(240)

    def _run(self, ready):
        async def serve():
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            ready.set()

        self._loop.run_until_complete(serve())
        self._loop.run_forever()

    async def _answer(self, reader, writer):
        with suppress(asyncio.IncompleteReadError):  # the client closed its connection
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.paths.append(head.split()[1].decode())
                if len(self.paths) == 100:
                    time.sleep(1)  # noqa: ASYNC251 - this is the stall
                status = b"404 Not Found" if b"/missing" in head else b"200 OK"
                writer.write(b"HTTP/1.1 %s\r\ncontent-length: 2\r\n\r\nok" % status)

    def stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


@pytest.fixture
def stalling():
    server = Stalling()
    yield server
    server.stop()


def test_a_stall_is_in_the_latencies_of_all_that_it_kept_waiting(stalling, tmp_path):
    requests = [Request("/a"), Request("/b")]
    outcome = load.run(stalling.url, requests, "key", tmp_path, seconds=4, rate=100, connections=8)
    assert 0 < outcome.requests < 440, "a busy machine may send fewer, not more"
    assert outcome.p50_ms < outcome.p99_ms / 2
    # One second of four: of the requests that were due in it a fiftieth waited for 0.9 s and more.
    assert outcome.p99_ms > 800
    assert {"/a", "/b"} == set(stalling.paths)


def test_a_load_that_is_refused_fails(stalling, tmp_path):
    with pytest.raises(LoadFailed, match="refused"):
        load.run(stalling.url, [Request("/missing")], "key", tmp_path, seconds=1, rate=20)


def test_without_wrk_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    ended = CliRunner().invoke(api, ["--quick"])
    assert ended.exit_code == 1
    assert "apt-get install wrk" in ended.output
