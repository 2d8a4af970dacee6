"""What the fan-out is measured with: the same market each time, and an oracle that notices."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from infra.bench.roles import BenchFailed
from schemas import channels
from schemas.plans import ENTERPRISE
from stream_gateway import messages
from stream_gateway.bench import growth
from stream_gateway.bench.clients import quantiles
from stream_gateway.bench.crowd import Latency, Report
from stream_gateway.bench.e2e import stages
from stream_gateway.bench.feed import Fed
from stream_gateway.bench.market import FLUSH_MS, Flush, Market
from stream_gateway.bench.mix import SHARES, Connection, connections, unmatched
from stream_gateway.bench.oracle import Oracle

SECONDS = 2
SWAPS_PER_SECOND = 200


def made(count: int = 200) -> tuple[Market, list[Connection], list[Flush]]:
    market = Market(tokens=50, wallets=300)
    crowded = connections(market, count)
    return market, crowded, [*market.flushes(SECONDS, SWAPS_PER_SECOND)]


def fed(flushes: list[Flush]) -> Fed:
    return Fed([dict.fromkeys(flush.events, f"{7000 + flush.at_ms}-0") for flush in flushes])


def received(flushes: list[Flush], crowded: list[Connection]) -> Report:
    """What clients get of a server that asks each filter about each event."""
    counts, sizes = [], []
    ids = fed(flushes).ids
    for connection in crowded:
        frames = [
            channels.with_id(event.frame, f"{ids[number][channel]}-{place}")
            for number, flush in enumerate(flushes)
            for channel, events in flush.events.items()
            for place, event in enumerate(events)
            for each in connection.subscriptions
            if each.filter.channel == channel.channel and each.filter.matches(event.index)
        ]
        counts.append(len(frames))
        sizes.append(sum(map(len, frames)))
    none = [0] * len(crowded)
    return Report(counts, sizes, none, none, {}, Latency(1, 2, 3, 4))


def test_a_seed_is_a_market() -> None:
    assert made()[1:] == made()[1:]


def test_a_market_has_its_rate_and_flushes_are_in_time() -> None:
    _, _, flushes = made()
    swapped = [event for flush in flushes for event in flush.events.get(channels.SWAPS, ())]
    assert len(swapped) == SECONDS * SWAPS_PER_SECOND
    assert all(flush.at_ms % FLUSH_MS == 0 for flush in flushes)
    assert flushes[-1].at_ms < SECONDS * 1000
    assert set(flushes[0].events) >= {channels.SWAPS, channels.PRICES, channels.STATUS}
    data = orjson.loads(swapped[0].frame)["data"]
    values = [data[name] for name in channels.SWAPS.index]
    assert values == list(swapped[0].index)


def test_a_tokens_price_is_published_ten_times_a_second_at_most() -> None:
    _, _, flushes = made()
    prices = [
        (orjson.loads(event.frame)["data"]["mint"], flush.at_ms)
        for flush in flushes
        for event in flush.events.get(channels.PRICES, ())
    ]
    last: dict[str, int] = {}
    for mint, at_ms in prices:
        assert at_ms - last.get(mint, -100) >= 100
        last[mint] = at_ms
    assert len(prices) > len(last) > 10


def test_a_thousand_connections_are_in_their_shares() -> None:
    assert sum(SHARES.values()) == 1_000
    _, crowded, _ = made(1_000)
    assert Counter(connection.kind for connection in crowded) == SHARES


def test_what_a_client_says_means_its_filter() -> None:
    _, crowded, _ = made(1_000)
    for connection in crowded:
        for each in connection.subscriptions:
            said = messages.parse(orjson.dumps(each.message), "main", ENTERPRISE, None)
            assert isinstance(said, messages.Subscribe)
            assert said.filter == each.filter


def test_some_filters_match_nothing() -> None:
    market, _, flushes = made()
    for chosen in unmatched(market, 40):
        assert not any(
            chosen.matches(event.index)
            for flush in flushes
            for channel, events in flush.events.items()
            if channel.channel == chosen.channel
            for event in events
        )


def test_the_oracle_wants_what_the_filters_say() -> None:
    _, crowded, flushes = made()
    report = received(flushes, crowded)
    oracle = Oracle(flushes, crowded)
    assert oracle.counts == report.events
    assert min(report.events) >= 0
    assert max(report.events) > SECONDS * SWAPS_PER_SECOND  # a firehose, and slots
    oracle.check(fed(flushes), report)


@pytest.mark.parametrize("what", ["events", "bytes"])
def test_the_oracle_notices_one_event_or_byte(what: str) -> None:
    _, crowded, flushes = made()
    report = received(flushes, crowded)
    getattr(report, what)[17] += 1
    oracle = Oracle(flushes, crowded)
    with pytest.raises(BenchFailed, match="client 17 "):
        oracle.check(fed(flushes), report)
    oracle.check(fed(flushes), report, but={17})


def test_more_who_match_nothing_get_nothing() -> None:
    market, crowded, flushes = made()
    report = growth.measure(market, crowded, flushes, rounds=1)
    assert report["us_per_event"] > 0
    assert set(report) == {"us_per_event", "with_1000_more", "with_10000_more"}


def test_stages_come_from_the_swaps_own_times() -> None:
    def swap(sent_ms: int, entered_ms: int, commitment: str = "processed") -> bytes:
        data = {"block_time_ms": sent_ms, "commitment": commitment}
        return orjson.dumps(
            {"type": "swap", "channel": "swaps", "data": data, "id": f"{entered_ms}-0-3"}
        )

    measured = stages(
        [
            (1_030.5, swap(1_000, 1_020)),
            (1_099.0, swap(1_000, 1_001, "confirmed")),
            (1_100.0, swap(1_050, 1_090)),
        ]
    )
    assert measured.to_stream == [20, 40]
    assert measured.to_client == [10.5, 10]
    assert measured.whole == [30.5, 50]


def test_quantiles() -> None:
    assert quantiles([]) == {"p50": 0, "p99": 0, "max": 0, "samples": 0}
    assert quantiles(float(n) for n in range(200)) == {
        "p50": 100,
        "p99": 198,
        "max": 199,
        "samples": 200,
    }
