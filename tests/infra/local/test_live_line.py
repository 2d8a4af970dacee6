"""The line of `soltape up`, from what ingest serves."""

from prometheus_client import start_http_server

from infra.local.live_line import Reading, describe, read, read_stores_lag
from infra.local.process import free_port
from pipeline.agents import metrics as agents
from pipeline.ingest import metrics
from tests.support.waiting import eventually_async


def test_rates_are_those_between_two_readings():
    before = Reading(at_s=10.0, slot=300, transactions=1000, swaps=500, lag_ms=8)
    now = Reading(at_s=12.0, slot=305, transactions=3000, swaps=700, lag_ms=12.4)
    assert describe(before, now) == "slot 305 | 1,000 tx/s | 100 swaps/s | lag 12 ms"


def test_counters_that_start_anew_give_no_negative_rate():
    before = Reading(at_s=10.0, slot=300, transactions=1000, swaps=500, lag_ms=8)
    now = Reading(at_s=11.0, slot=301, transactions=3, swaps=1, lag_ms=5)
    assert describe(before, now) == "slot 301 | 0 tx/s | 0 swaps/s | lag 5 ms"


def test_it_says_how_far_the_stores_are_behind_where_that_is_known():
    now = Reading(at_s=10.0, slot=305, transactions=3000, swaps=700, lag_ms=12.4)
    said = describe(now, now, stores_lag_slots=1_002)
    assert said.endswith("| lag 12 ms | stores 1,002 slots behind")
    assert describe(now, now, stores_lag_slots=1).endswith("| stores 1 slot behind")


def test_what_is_missing_is_said():
    assert describe(None, None) == "waiting for ingest"
    nothing = Reading(at_s=10.0, slot=0, transactions=0, swaps=0, lag_ms=0)
    assert describe(None, nothing) == "waiting for the first slot"


def test_a_stopped_chain_shows_no_lag_of_long_ago():
    now = Reading(at_s=10.0, slot=5_000, transactions=7, swaps=3, lag_ms=4)
    assert describe(now, now, still_s=2.0) == "slot 5,000 | 0 tx/s | 0 swaps/s | lag 4 ms"
    assert describe(now, now, still_s=12.3) == "slot 5,000 | no new slot for 12 s"


def test_a_recording_that_has_ended_is_not_waited_for():
    before = Reading(at_s=10.0, slot=5_000, transactions=7, swaps=3, lag_ms=4)
    reading = Reading(at_s=11.0, slot=5_002, transactions=9, swaps=3, lag_ms=4)  # the last ones
    assert "| 2 tx/s |" in describe(before, reading, has_ended=True)
    after = Reading(at_s=12.0, slot=5_004, transactions=9, swaps=3, lag_ms=4)
    assert describe(reading, after, has_ended=True) == "slot 5,004 | the recording has ended"
    assert describe(after, after, 12.3, has_ended=True) == "slot 5,004 | the recording has ended"


async def test_it_reads_the_names_that_ingest_uses():
    port = free_port()
    server, thread = start_http_server(port, addr="127.0.0.1")
    try:
        metrics.TIP_SLOT.set(7_000_000)
        metrics.LAG_MS.set(21)
        metrics.TRANSACTIONS.labels("new").inc(40)
        metrics.TRANSACTIONS.labels("duplicate").inc(2)
        metrics.EVENTS.labels("swap").inc(30)
        metrics.EVENTS.labels("creation").inc(3)
        agents.LAG_SLOTS.labels("pnl").set(2)
        agents.LAG_SLOTS.labels("store").set(3)
        url = f"http://127.0.0.1:{port}/metrics"
        # Each gives up within a moment, which a busy machine may need.
        found: Reading | None = await eventually_async(lambda: read(url))
        behind: int | None = await eventually_async(lambda: read_stores_lag(url))
    finally:
        server.shutdown()
        thread.join()
    assert found is not None
    assert (found.slot, found.lag_ms) == (7_000_000, 21)
    assert (found.transactions, found.swaps) == (40, 30)
    assert behind == 3
    assert await read_stores_lag(f"http://127.0.0.1:{port}/metrics") is None
    assert await read(f"http://127.0.0.1:{port}/metrics") is None
