"""What a Redis holds by kind of key: names find their pattern, and a survey counts all."""

import pytest
import redis

from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.redis.families import FAMILIES, OTHER, family_of, survey
from schemas.redis_keys import HOLDERS, MARKET, POSITIONS, TRENDING, mint_tag, wallet_tag
from tests.support.systems import running

pytestmark = pytest.mark.processes

MINT = "So11111111111111111111111111111111111111112"
PARTS = {
    "tag": "{m3}",
    "mint": MINT,
    "address": MINT,
    "wallet": "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin",
    "group": "pnl",
    "day": 20_500,
    "chunk": 0,
    "writer": "live-7",
    "hash": "0f" * 32,
    "fingerprint": "0f" * 32,
    "account": "0f" * 32,
    "program": MINT,
    "id": "0f" * 16,
}


@pytest.mark.parametrize("key", FAMILIES, ids=lambda key: key.pattern)
def test_a_name_finds_the_pattern_that_made_it(key):
    assert family_of(key.make(**PARTS).encode()) is key


@pytest.mark.parametrize("name", [b"", b"pos", b"pos:{w1}", b"somebody:else", b"{live}:swaps:x"])
def test_other_names_are_of_no_pattern(name):
    assert family_of(name) is None


def test_a_survey_counts_keys_and_entries_and_most_of_the_bytes(tmp_path):
    server = valkey(tmp_path / "data", "127.0.0.1", free_port())
    with running(server, tmp_path), redis.Redis.from_url(server.address) as store:
        empty = store.info("memory")["used_memory_dataset"]
        for number in range(3_000):
            wallet = f"wallet{number}"
            key = POSITIONS.make(tag=wallet_tag(wallet), wallet=wallet)
            store.hset(key, mapping={b"%032d" % each: b"x" * 300 for each in range(3)})
        market = MARKET.make(tag=mint_tag(MINT), mint=MINT)
        store.hset(market, mapping={"head": b"h", "candles": b"c" * 10_000})
        holders = HOLDERS.make(tag=mint_tag(MINT), mint=MINT)
        store.zadd(holders, {b"%032d" % each: each for each in range(500)})
        store.zadd(TRENDING.make(tag=mint_tag(MINT)), {MINT: 1})
        store.set("somebody:else", b"1")
        grown = store.info("memory")["used_memory_dataset"] - empty
        found = survey(store)
    assert {pattern: (each.keys, each.entries) for pattern, each in found.items()} == {
        POSITIONS.pattern: (3_000, 9_000),
        MARKET.pattern: (1, 2),
        HOLDERS.pattern: (1, 500),
        TRENDING.pattern: (1, 1),
        OTHER: (1, 1),
    }
    assert found[POSITIONS.pattern].bytes > 3_000 * 900
    assert found[MARKET.pattern].bytes > 10_000
    assert 0.8 < sum(each.bytes for each in found.values()) / grown < 1.2
