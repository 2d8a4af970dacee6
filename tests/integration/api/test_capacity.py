"""What /api/health says of stores that fill up."""

from __future__ import annotations

import json
import time

import clickhouse_connect
import httpx
import pytest
import redis as sync_redis

from infra.bench.roles import scrape
from schemas.redis_keys import BROKER_DISK

GIB = 1 << 30


@pytest.fixture
def redis(stores):
    with sync_redis.Redis.from_url(stores.redis_url) as client:
        was = {name: client.config_get(name)[name] for name in ("maxmemory", "maxmemory-policy")}
        client.delete(BROKER_DISK.make())
        yield client
        client.delete(BROKER_DISK.make())
        for name, value in was.items():
            client.config_set(name, value)


@pytest.fixture
def clickhouse(stores):
    with clickhouse_connect.get_client(
        host="127.0.0.1",
        port=int(stores.clickhouse_url.rpartition(":")[2]),
        database=stores.clickhouse_database,
    ) as client:
        client.command("SYSTEM STOP MERGES gaps")
        yield client
        client.command("SYSTEM START MERGES gaps")
        client.command("TRUNCATE TABLE gaps")


def ask(api):
    time.sleep(1.1)  # a look is kept for a second
    headers = {"x-api-key": api.key}
    return httpx.get(f"{api.url}/api/health", headers=headers, timeout=240).json()


def metric(api, name, **labels):
    """Return a metric of the API, None where there is none."""
    found = scrape(f"{api.metrics_url}/metrics")
    return found.get((f"soltape_api_{name}", tuple(sorted(labels.items()))))


def test_the_stores_say_how_full_they_are(api, redis, clickhouse):
    redis.config_set("maxmemory", 10 * GIB)
    for slot in (1, 2, 3):  # an insert is a part
        clickhouse.command(
            "INSERT INTO gaps (first_slot, last_slot, reason, detected_at) "
            f"VALUES ({slot}, {slot}, 'old', '2025-01-02 00:00:00')"
        )
    broker = {"log_bytes": 3 * GIB, "disk_free_bytes": 40 * GIB, "disk_total_bytes": 100 * GIB}
    redis.set(BROKER_DISK.make(), json.dumps(broker))
    capacity = ask(api)["capacity"]

    memory = capacity["redis"]
    assert (memory["status"], memory["max_bytes"]) == ("ok", 10 * GIB)
    assert memory["policy"] == "noeviction"
    assert memory["used_pct"] == pytest.approx(100 * memory["used_bytes"] / (10 * GIB), abs=0.01)
    assert capacity["keys"]["max_bytes"] == 10 * GIB  # the same server

    room = capacity["clickhouse"]
    assert room["tables"]["gaps"]["parts"] >= 3
    assert room["parts"] >= 3
    assert room["bytes"] >= room["tables"]["gaps"]["bytes"] > 0
    assert 0 < room["disk_free_bytes"] < room["disk_total_bytes"]
    share = 100 * room["disk_free_bytes"] / room["disk_total_bytes"]
    assert room["disk_free_pct"] == pytest.approx(share, abs=0.01)

    assert capacity["broker"] == {"status": "ok", **broker, "disk_free_pct": 40.0}

    assert metric(api, "redis_memory_bytes", store="redis", of="max") == 10 * GIB
    assert metric(api, "redis_memory_bytes", store="redis", of="used") > 0
    assert metric(api, "redis_policy", store="redis", policy="noeviction") == 1
    assert metric(api, "clickhouse_parts", table="gaps") >= 3
    assert metric(api, "clickhouse_table_bytes", table="gaps") > 0
    assert metric(api, "clickhouse_disk_bytes", of="free") > 0


def test_a_redis_that_fills_up_degrades_health(api, redis):
    used = redis.info("memory")["used_memory"]
    redis.config_set("maxmemory", int(used / 0.9))
    answered = ask(api)
    assert answered["status"] == "degraded"
    assert answered["capacity"]["redis"]["status"] == "degraded"
    [reason] = [each for each in answered["reasons"] if "maxmemory" in each]  # one server, once
    assert reason.startswith("redis uses ")
    assert "above 80 %" in reason


def test_a_redis_that_may_evict_degrades_health(api, redis):
    redis.config_set("maxmemory-policy", "allkeys-lru")
    answered = ask(api)
    assert answered["capacity"]["redis"]["policy"] == "allkeys-lru"
    assert any("may evict what it keeps" in reason for reason in answered["reasons"])


def test_without_a_limit_no_share_is_known(api, redis):
    redis.config_set("maxmemory", 0)
    memory = ask(api)["capacity"]["redis"]
    assert (memory["status"], memory["max_bytes"], memory["used_pct"]) == ("ok", None, None)
    assert metric(api, "redis_memory_bytes", store="redis", of="max") is None


def test_parts_and_disks_have_thresholds(serve, redis, clickhouse):
    for slot in (1, 2):
        clickhouse.command(
            "INSERT INTO gaps (first_slot, last_slot, reason, detected_at) "
            f"VALUES ({slot}, {slot}, 'old', '2025-01-02 00:00:00')"
        )
    broker = {"log_bytes": 1, "disk_free_bytes": 20 * GIB, "disk_total_bytes": 100 * GIB}
    redis.set(BROKER_DISK.make(), json.dumps(broker))
    with serve(health_clickhouse_parts=1, health_disk_free_pct=100) as api:
        answered = ask(api)
    assert answered["status"] == "degraded"
    capacity = answered["capacity"]
    assert {capacity[name]["status"] for name in ("clickhouse", "broker")} == {"degraded"}
    said = " ".join(answered["reasons"])
    assert "active parts in one partition of" in said
    assert "clickhouse has " in said
    assert "the broker has 20.0 % of its disk free: less than 100 %" in said


def test_what_is_not_known_is_null(api, redis):
    broker = {"log_bytes": 7, "disk_free_bytes": None, "disk_total_bytes": None}
    assert ask(api)["capacity"]["broker"] is None
    redis.set(BROKER_DISK.make(), json.dumps(broker))
    found = ask(api)["capacity"]["broker"]
    assert found == {"status": "ok", **broker, "disk_free_pct": None}


@pytest.mark.parametrize("store", ["redis", "clickhouse"])
def test_a_store_that_does_not_answer_has_no_figures(serve, stores, store):
    scheme = {"redis": "redis", "clickhouse": "http"}[store]
    away = {f"{store}_url": f"{scheme}://127.0.0.1:1"}
    with serve(access_redis_url=stores.access_redis_url, **away) as api:
        capacity = ask(api)["capacity"]
        figures = {
            "redis": metric(api, "redis_memory_bytes", store="redis", of="used"),
            "clickhouse": metric(api, "clickhouse_disk_bytes", of="free"),
        }
    other = {"redis": "clickhouse", "clickhouse": "redis"}[store]
    assert capacity[store] is None
    assert capacity[other]["status"] == "ok"
    assert figures[store] is None
    assert figures[other] > 0
