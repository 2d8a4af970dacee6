"""What /api/health says of stores that are away and of a pipeline that is behind."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import clickhouse_connect
import httpx
import pytest
import redis as sync_redis

from pipeline.agents.settled.lost import LOG_LACKS, because
from pipeline.ingest.finality import ROLLED_BACK
from schemas import channels
from schemas.redis_keys import (
    CHAIN,
    COVERAGE_FLOOR,
    QUARANTINE,
    WATERMARK,
    tag_of_mints,
    tag_of_partition,
    tag_of_wallets,
)
from schemas.solana import networks
from schemas.topics import SETTLED_ACCOUNTS

PARTITIONS = 8
GROUPS = {
    "pnl": tag_of_wallets,
    "market": tag_of_mints,
    "store": tag_of_mints,
    "accounts": lambda partition: tag_of_partition(SETTLED_ACCOUNTS, partition),
}


@pytest.fixture
def redis(stores):
    """The stores' Redis with nothing of a pipeline in it, before and after."""
    client = sync_redis.Redis.from_url(stores.redis_url)
    of_pipeline = [channels.STATUS.stream, CHAIN.make()]
    of_pipeline += [
        COVERAGE_FLOOR.make(tag=GROUPS["accounts"](number)) for number in range(PARTITIONS)
    ]
    of_pipeline += [
        WATERMARK.make(tag=tag(number), group=group)
        for group, tag in GROUPS.items()
        for number in range(PARTITIONS)
    ]
    client.delete(*of_pipeline)
    yield client
    client.delete(*of_pipeline)
    client.close()


@pytest.fixture
def clickhouse(stores):
    port = int(stores.clickhouse_url.rpartition(":")[2])
    with clickhouse_connect.get_client(
        host="127.0.0.1", port=port, database=stores.clickhouse_database
    ) as client:
        client.command("TRUNCATE TABLE gaps")
        yield client
        client.command("TRUNCATE TABLE gaps")


def ask(api, key=None):
    time.sleep(1.1)  # a look is kept for a second
    return httpx.get(
        f"{api.url}/api/health", headers={"x-api-key": key} if key else {}, timeout=240
    )


def publish_head(redis, slots, entry_id="*"):
    statuses = [
        channels.LiveEvent((slot, "processed"), channels.STATUS.frame({"slot": slot}))
        for slot in slots
    ]
    redis.xadd(channels.STATUS.stream, channels.pack("epoch", statuses), id=entry_id)


def settle(redis, group, slots):
    for number, slot in enumerate(slots):
        key = WATERMARK.make(tag=GROUPS[group](number), group=group)
        redis.hset(key, mapping={"slot": slot, "time_ms": 1, "at_ms": 1})


def test_all_is_well(api, redis):
    publish_head(redis, [998, 1000, 999])
    for group in GROUPS:
        settle(redis, group, range(990, 998))
    answer = ask(api, api.key)
    answered = answer.json()
    assert (answer.status_code, answered["status"], answered["reasons"]) == (200, "ok", [])
    assert abs(answered["timestamp"] - time.time() * 1000) < 5_000
    assert answered["pipeline"]["head_slot"] == 1000
    assert 0 <= answered["pipeline"]["head_age_ms"] < 5_000
    assert answered["pipeline"]["groups"] == {
        group: {"slot": 990, "lag_slots": 10, "quarantined": 0} for group in GROUPS
    }
    for store in answered["dependencies"].values():
        assert store["status"] == "ok"
        assert 0 < store["latency_ms"] < 2_000
    assert answered["dependencies"]["redis"]["version"].startswith("Valkey ")
    assert answered["dependencies"]["clickhouse"]["version"].startswith("ClickHouse ")
    assert answered["versions"]["soltape"]
    availability = answered["availability"]
    assert (availability["month"], availability["target_pct"]) == (
        time.strftime("%Y-%m", time.gmtime()),
        99.7,
    )
    assert 0 <= availability["minutes"] < 1_000
    assert answer.headers["cache-control"] == "no-store"


def test_the_head_is_the_newest_slot_whatever_was_published_last(api, redis):
    publish_head(redis, [5000])
    publish_head(redis, [4998])
    publish_head(redis, [4968])  # that it is final, say
    for group in GROUPS:
        settle(redis, group, [4990] * PARTITIONS)
    answered = ask(api, api.key).json()["pipeline"]
    assert (answered["head_slot"], answered["groups"]["pnl"]["lag_slots"]) == (5000, 10)


def test_changes_of_accounts_that_are_not_had_are_named(api, redis):
    publish_head(redis, [20_000])
    for group in GROUPS:
        settle(redis, group, [19_990] * PARTITIONS)
    floor = COVERAGE_FLOOR.make(tag=GROUPS["accounts"](3))
    redis.hset(floor, mapping={"hole": 19_900, "slot": 5_000})
    assert ask(api, api.key).json()["reasons"] == []  # a hole is mended by and by
    redis.hset(floor, "hole", 19_700)
    answered = ask(api, api.key).json()
    assert answered["status"] == "degraded"
    [reason] = answered["reasons"]
    assert reason.startswith("accounts that changed since slot 19700 are still being asked for")
    redis.hdel(floor, "hole")
    redis.hset(floor, "slot", 15_000)
    [reason] = ask(api, api.key).json()["reasons"]
    assert reason.startswith("accounts lost slots before 15000")


def test_without_a_key_only_the_status_is_answered(api, redis):
    assert ask(api).json().keys() == {"status", "timestamp", "chain"}
    assert ask(api).status_code == 200


@pytest.mark.parametrize(
    ("said", "network"),
    [
        ("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", "mainnet"),
        (networks.SIMULATED, "simulated"),
        (networks.RECORDED, "recorded"),
        ("1" * 32, None),  # a cluster of somebody's own
        (None, None),
    ],
)
def test_the_chain_is_named_to_everybody_and_never_guessed(api, redis, said, network):
    if said is not None:
        redis.set(CHAIN.make(), said)
    wanted = {"network": network, "genesis_hash": said}
    assert ask(api).json()["chain"] == wanted
    assert ask(api, api.key).json()["chain"] == wanted


def test_a_group_that_is_behind_is_named(api, redis):
    publish_head(redis, [2000])
    for group in GROUPS:
        settle(redis, group, [1990] * PARTITIONS)
    settle(redis, "market", [1990] * 7 + [1200])
    answered = ask(api, api.key).json()
    assert answered["status"] == "degraded"
    assert answered["reasons"] == ["market is 800 slots behind the chain"]
    assert answered["pipeline"]["groups"]["market"] == {
        "slot": 1200,
        "lag_slots": 800,
        "quarantined": 0,
    }


def test_what_is_in_quarantine_is_counted_with_the_command_that_mends_it(api, redis):
    publish_head(redis, [2000])
    for group in GROUPS:
        settle(redis, group, [1990] * PARTITIONS)
    keys = [QUARANTINE.make(tag=GROUPS["pnl"](number), group="pnl") for number in (2, 5)]
    for key in keys:
        redis.hset(key, "wallet", b"{}")
    answered = ask(api, api.key).json()
    redis.delete(*keys)
    assert answered["status"] == "degraded"
    [reason] = answered["reasons"]
    assert reason.startswith("pnl leaves 2 wallets out")
    assert "soltape rebuild pnl" in reason
    groups = answered["pipeline"]["groups"]
    assert [groups[group]["quarantined"] for group in ("pnl", "market")] == [2, 0]


def test_a_group_that_has_not_begun_somewhere_is_named(api, redis):
    publish_head(redis, [2000])
    settle(redis, "pnl", [1990] * 7)
    settle(redis, "market", [1990] * 8)
    answered = ask(api, api.key).json()
    assert answered["status"] == "degraded"
    assert answered["reasons"] == [
        "pnl has not begun on every partition",
        "store has not begun on every partition",
    ]


def test_a_silent_chain_is_reported(api, redis):
    publish_head(redis, [2000], f"{int(time.time() * 1000) - 90_000}-0")
    for group in GROUPS:
        settle(redis, group, [2000] * PARTITIONS)
    answer = ask(api, api.key)
    answered = answer.json()
    assert (answer.status_code, answered["status"]) == (200, "degraded")
    [reason] = answered["reasons"]
    assert reason.startswith(("no slot has arrived for 90 s", "no slot has arrived for 91 s"))


def test_gaps_of_the_last_day_are_reported_and_older_ones_are_not(api, redis, clickhouse):
    now = datetime.now(UTC)
    clickhouse.insert(
        "gaps",
        [
            (10, 19, "too old to report", now - timedelta(hours=25)),
            (100, 100, "no block", now - timedelta(hours=2)),
            (200, 249, "reconnect", now - timedelta(hours=1)),
            *((1000 + 10 * n, 1000 + 10 * n, "many", now - timedelta(hours=3)) for n in range(30)),
        ],
        column_names=["first_slot", "last_slot", "reason", "detected_at"],
    )
    gaps = ask(api, api.key).json()["gaps"]
    assert (gaps["count"], gaps["slots"]) == (32, 81)
    assert len(gaps["latest"]) == 20
    first, second = gaps["latest"][:2]
    assert (first["first_slot"], first["last_slot"], first["reason"]) == (200, 249, "reconnect")
    assert abs(first["detected_ms"] - (now.timestamp() - 3600) * 1000) < 2
    assert second["reason"] == "no block"
    assert gaps["rolled_back"] == 0


def test_slots_that_were_rolled_back_or_lost_degrade_health_for_a_day(api, redis, clickhouse):
    rows = [
        (100, 100, ROLLED_BACK, datetime.now(UTC) - timedelta(hours=2), ["a wallet"]),
        (200, 203, ROLLED_BACK, datetime.now(UTC) - timedelta(hours=25), ["a wallet"]),
        (300, 309, because([LOG_LACKS]), datetime.now(UTC) - timedelta(hours=1), []),
        (400, 409, because([LOG_LACKS]), datetime.now(UTC) - timedelta(hours=3), []),
    ]
    lost_by = {300: "pnl 3", 400: "live 5"}
    rows = [(*row, lost_by.get(row[0], "")) for row in rows]
    names = ["first_slot", "last_slot", "reason", "detected_at", "wallets", "lost_by"]
    clickhouse.insert("gaps", rows, column_names=names)
    time.sleep(1.1)  # a look is kept for a second
    answered = ask(api, api.key).json()
    gaps = answered["gaps"]
    assert (gaps["count"], gaps["slots"], gaps["rolled_back"]) == (3, 1, 1)
    assert gaps["lost_by"] == ["live 5", "pnl 3"]
    assert [gap["lost_by"] for gap in gaps["latest"]] == ["pnl 3", None, "live 5"]
    assert answered["status"] == "degraded"
    assert any(
        "rolled back after they were settled: 1;" in reason for reason in answered["reasons"]
    )
    assert any(reason.endswith("lack them on pnl 3") for reason in answered["reasons"])
    assert any(
        "the public topics and WebSocket lack events of them on partitions 5;" in reason
        for reason in answered["reasons"]
    )


def test_slots_of_overlapping_gaps_count_once(api, clickhouse):
    now = datetime.now(UTC)
    rows = [
        (100, 149, "pruned", now, []),
        (140, 159, ROLLED_BACK, now, []),
        (150, 150, ROLLED_BACK, now, ["a wallet"]),
    ]
    names = ["first_slot", "last_slot", "reason", "detected_at", "wallets"]
    clickhouse.insert("gaps", rows, column_names=names)
    gaps = ask(api, api.key).json()["gaps"]
    assert (gaps["count"], gaps["slots"], gaps["rolled_back"]) == (3, 60, 20)


def test_perp_events_that_could_not_be_read_are_counted_for_a_day(api, clickhouse):
    names = ["signature", "slot", "block_time", "dex", "reason", "wallet"]
    rows = [
        (f"{hours} h ago", 100, datetime.now(UTC) - timedelta(hours=hours), "drift", "cut", "")
        for hours in (2, 3, 25)
    ]
    clickhouse.insert("perp_gaps", rows, column_names=names)
    time.sleep(1.1)  # a look is kept for a second
    assert ask(api, api.key).json()["gaps"]["unread_perps"] == 2


@pytest.mark.parametrize("store", ["redis", "clickhouse"])
@pytest.mark.parametrize("how", ["away", "silent"])
def test_without_a_store_no_requests_are_to_come(serve, stores, store, how):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if how == "away":
            listener.close()
        scheme = {"redis": "redis", "clickhouse": "http"}[store]
        address = {f"{store}_url": f"{scheme}://127.0.0.1:{port}"}
        with serve(**{"access_redis_url": stores.redis_url, **address}) as api:
            assert httpx.get(f"{api.url}/api/health/live").status_code == 200
            plain = httpx.get(f"{api.url}/api/health", timeout=240)
            assert (plain.status_code, plain.json()["status"]) == (503, "unavailable")
            answer = ask(api, api.key)
            answered = answer.json()
            assert (answer.status_code, answered["status"]) == (503, "unavailable")
            assert answered["dependencies"][store]["status"] == "unavailable"
            assert answered["dependencies"][store]["latency_ms"] is None
            assert answered["reasons"][0].startswith(f"{store} does not answer")
            assert str(port) not in answer.text
            other = {"redis": "clickhouse", "clickhouse": "redis"}[store]
            assert answered["dependencies"][other]["status"] == "ok"
            ready = httpx.get(f"{api.metrics_url}/ready", timeout=240)
            assert (ready.status_code, list(ready.json()["lacking"])) == (503, [store])


def test_asking_often_costs_the_stores_a_look_a_second(api):
    with ThreadPoolExecutor(16) as pool, httpx.Client() as client:
        began_s = time.monotonic()
        answers = list(pool.map(lambda _: client.get(f"{api.url}/api/health"), range(300)))
        took_s = time.monotonic() - began_s
    assert {answer.status_code for answer in answers} == {200}
    looks = {answer.json()["timestamp"] for answer in answers}  # when each was made
    assert len(looks) <= took_s + 2
