"""Accounts of real programs through the watcher: a range that is left, and a lock that ends."""

# ruff: noqa: F401 - the fixtures are of another file

from __future__ import annotations

from struct import pack_into
from typing import Any

import orjson

from infra.chain.demo_wallets import ADDRESSES
from infra.redis.client import ask as send
from infra.redis.client import connect
from infra.settings import Settings
from schemas.accounts import StoredAccount, compress, pack
from schemas.protocols.contract import Position
from schemas.protocols.math.ticks import orca_sqrt_price_x64
from schemas.redis_keys import ACCOUNT, WATCHED, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import CLOCK, SYSVAR_PROGRAM, text
from tests.infra.chain.market.test_still import chain as chain_accounts
from tests.infra.chain.market.test_still import positions
from tests.integration.api.positions.test_demo_wallets import NOW, accounts, coverage
from tests.integration.api.watch.test_watch import _quick, watching
from tests.integration.api.watch.watching import events
from tests.support.stake import clock_data
from tests.support.waiting import eventually_async

LENDER, HOLDER = (text(ADDRESSES[name]) for name in ("lender-1", "holder-0"))
SQRT_PRICE_AT, TICK_AT = 65, 81  # of a Whirlpool


def first(protocol: str, wallet: str) -> Position:
    """Return the first position that a demo wallet has there."""
    return positions(protocol, ADDRESSES[wallet], NOW)[0]


async def test_a_whirlpool_leaves_a_range_and_tokens_of_jupiter_lock_have_vested(
    settings: Settings,
) -> None:
    ranged, vesting = first("whirlpools", "lender-1"), first("jupiter_lock", "holder-0")
    assert ranged.range is not None
    assert ranged.range.is_in_range
    assert ranged.market is not None
    end_ms = vesting.locks[0].ends_ms
    assert end_ms is not None
    assert end_ms > NOW.time_s * 1000
    redis = connect(settings)
    await redis.flushdb()
    for some in (accounts(), coverage()):
        await send(redis, list(some))

    async def is_known() -> bool:
        by_wallet = ((LENDER, "p19/liquidity"), (HOLDER, "p33/vesting"))
        known = [await redis.hkeys(WATCHED.make(wallet=each)) for each, _ in by_wallet]
        routes = [{field.decode().rpartition("/")[0] for field in each} for each in known]
        return all(path in of for of, (_, path) in zip(routes, by_wallet, strict=True))

    async def alerted() -> list[Any] | None:
        found = [orjson.loads(event.frame)["data"] for event in await events(redis)]
        wanted = {(LENDER, "range_left"), (HOLDER, "lock_ended")}
        named = [each for each in found if each["protocol"] in {"p19", "p33"}]
        return named if {(each["wallet"], each["kind"]) for each in named} >= wanted else None

    async with watching(settings):
        await eventually_async(is_known)
        assert not await alerted()
        pool = chain_accounts()[ranged.market]
        data = bytearray(pool.data)
        assert ranged.range.upper_index is not None
        tick = ranged.range.upper_index + 10
        pack_into("<i", data, TICK_AT, tick)
        pack_into("<QQ", data, SQRT_PRICE_AT, *_words(orca_sqrt_price_x64(tick)))
        name = text(pool.address)
        clock = clock_data(NOW.slot + 1, NOW.epoch, end_ms // 1000 + 1)
        for at, program, changed in (
            (pool.address, pool.kind.program, bytes(data)),
            (CLOCK, SYSVAR_PROGRAM, clock),
        ):
            stored = StoredAccount(NOW.slot + 1, 1, program, len(changed), compress(changed))
            tag = account_tag(text(at))
            await redis.set(ACCOUNT.make(tag=tag, address=text(at)), pack(stored))
        for tag in account_tags():
            mark = {"slot": NOW.slot + 1, "time_ms": end_ms + 1}
            await redis.hset(WATERMARK.make(tag=tag, group="accounts"), mapping=mark)
        found = await eventually_async(alerted)
    assert found
    [left] = [each for each in found if each["kind"] == "range_left" and each["market"] == name]
    assert left["position_id"] == text(ranged.id or ranged.account.address)
    assert left["value"] > left["threshold"]
    [ended] = [each for each in found if each["kind"] == "lock_ended"]
    assert (ended["value"], ended["threshold"]) == (end_ms + 1, end_ms)
    assert ended["position_id"] == text(vesting.account.address)
    await redis.aclose()


def _words(value: int) -> tuple[int, int]:
    return value & (1 << 64) - 1, value >> 64
