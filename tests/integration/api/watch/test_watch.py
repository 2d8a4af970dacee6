"""Watching over real stores: net worth by the hour, alerts, one process at a time."""

# ruff: noqa: F401, F811 - the fixtures are of another file

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.stores.clients import Stores
from api.watch import metrics, service, snapshots
from api.watch.book import Book, Known
from api.watch.crossings import At, Change
from api.watch.crossings import advance as step
from api.watch.lease import Lease
from infra.clickhouse.client import connect as clickhouse
from infra.redis.asks import connect_pipelined
from infra.settings import Settings
from schemas.away import bit
from schemas.protocols import raydium_cpmm, registry
from schemas.protocols.registry import SHARE_PROGRAMS
from schemas.redis_keys import (
    ASKED_ACCOUNTS,
    AWAY,
    BALANCES,
    LIVE_POSITIONS,
    POOLS_OF,
    QUARANTINE,
    TRACKED_WALLETS,
    WATCH_LEASE,
    WATCHED,
    WATERMARK,
    account_tag,
    account_tags,
    wallet_tag,
)
from schemas.solana.addresses import SYSTEM_PROGRAM, text
from schemas.times import HOUR_MS
from tests.api.watch.test_crossings import loan
from tests.integration.api.positions.test_aggregates import (
    COIN,
    LENDER,
    Ask,
    Stocked,
    _protocols,
    ask,
    chain,
    client,
)
from tests.integration.api.positions.test_native_stake import SLOT, TIME_MS
from tests.integration.api.wallets.test_lp_prices import COIN_VAULT, SOL_VAULT, cpmm_pool
from tests.integration.api.watch.watching import PACE, SOL, Borrower, advance, alerts_of, events
from tests.support.metrics import value_of
from tests.support.waiting import eventually_async

HOUR = TIME_MS - TIME_MS % HOUR_MS


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(snapshots, "FLUSH_EVERY_S", 0.1)
    monkeypatch.setattr(service, "FLUSH_EVERY_S", 0.1)
    monkeypatch.setattr(service, "LIST_EVERY_S", 0.1)
    with clickhouse(settings) as server:
        server.command("TRUNCATE TABLE net_worth_snapshots")


@asynccontextmanager
async def watching(settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(settings.model_copy(update=PACE), stop, {}))
    try:
        yield
    finally:
        stop.set()
        await running


async def rows(settings: Settings) -> list[dict[str, Any]]:
    def read() -> list[dict[str, Any]]:
        with clickhouse(settings) as server:
            found = server.query(
                "SELECT *, toUnixTimestamp64Milli(hour) AS hour_ms FROM net_worth_snapshots FINAL "
                "ORDER BY wallet, hour"
            )
            return list(found.named_results())

    return await asyncio.to_thread(read)


async def until_rows(settings: Settings, holds: Any) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]] | None:
        read = await rows(settings)
        return read if holds(read) else None

    read = await eventually_async(found)
    assert read
    return read


async def test_an_hour_s_net_worth_is_written_once_it_is_known_and_answered(
    settings: Settings, chain: Stocked, ask: Ask
) -> None:
    borrower = await Borrower.begin(chain, 1_500)
    await borrower.lose_bank()
    async with watching(settings):
        [partial] = await until_rows(settings, len)
        assert (partial["is_complete"], partial["net_worth_usd_micros"]) == (False, None)
        assert (partial["assets_usd_micros"], partial["debts_usd_micros"]) == (None, None)
        assert "positions_incomplete" in partial["reasons"]
        whole = await Borrower.begin(chain, 1_500)
        await advance(chain, TIME_MS + 1_000)
        # 2 SOL at 150; what is supplied and borrowed at 2; a reward of 5.
        [row] = [
            each
            for each in await until_rows(settings, lambda found: len(found) == 2)
            if each["wallet"] == whole.name
        ]
        assert row["net_worth_usd_micros"] == (300 + 3_000 + 5 - 2_000) * 10**6
        assert (row["hour_ms"], row["is_complete"], row["reasons"]) == (HOUR, True, [])
        assert (row["slot"], row["pending_routes"] > 0) in {(SLOT, True), (SLOT + 1, True)}
        # Two hours later, the hour in between is a gap.
        await advance(chain, TIME_MS + 2 * HOUR_MS)
        await until_rows(settings, lambda found: len(found) == 4)
    answer = await ask(whole.wallet, "networth")
    assert [(each["start_ms"], each["net_worth_usd"]) for each in answer["points"]] == [
        (HOUR, 1305.0),
        (HOUR + 2 * HOUR_MS, 1305.0),
    ]
    assert (answer["since_ms"], answer["is_tracked"], answer["retention_days"]) == (
        answer["points"][0]["time_ms"],
        True,
        400,
    )
    assert answer["not_tracked_reason"] is None
    [first, _] = (await ask(borrower.wallet, "networth"))["points"]
    assert (first["net_worth_usd"], first["net_worth_usd_micros"]) == (None, None)
    assert not first["is_complete"]
    assert first["reasons"] == ["positions_incomplete", "positions_unknown"]
    nobody = await ask(chain.address(), "networth")
    assert (nobody["points"], nobody["since_ms"], nobody["is_tracked"]) == ([], None, False)
    assert nobody["not_tracked_reason"] == "not_ingested", "no process writes the lane here"


async def test_a_better_reading_takes_the_place_of_a_part(
    settings: Settings, chain: Stocked
) -> None:
    wallet = (await Borrower.begin(chain, 1_500)).wallet
    lost = chain.address()
    await chain.loan(wallet, 20, 10, lost)
    async with watching(settings):
        await until_rows(settings, lambda found: found and not found[0]["is_complete"])
        await chain.put(lost, LENDER, b"bank\x02")
        await advance(chain, TIME_MS + 1_000)
        [row] = await until_rows(settings, lambda found: found[0]["is_complete"])
        assert row["hour_ms"] == HOUR


async def test_a_part_takes_the_place_of_no_whole_reading(settings: Settings) -> None:
    """Redis knows nothing of the whole one: its note was lost."""
    writer = snapshots.SnapshotWriter(settings)
    try:
        for wallet, minute, value in (("w", 1, 5), ("v", 1, None), ("w", 59, None), ("v", 59, 7)):
            time = datetime.fromtimestamp(HOUR / 1000, UTC) + timedelta(minutes=minute)
            reasons = [] if value is not None else ["holdings_incomplete"]
            hour = time.replace(minute=0)
            row = (wallet, hour, time, minute, value, value, 0, not reasons, reasons, 0, 0)
            writer.put(snapshots.Snapshot(wallet, HOUR, not reasons, row))
            written = await writer.flush()
            assert written == {wallet: (HOUR, wallet == "w" or not reasons)}
    finally:
        await writer.close()
    found = await until_rows(settings, lambda found: len(found) == 2)
    assert {each["wallet"]: each["net_worth_usd_micros"] for each in found} == {"w": 5, "v": 7}


async def test_an_interval_has_its_last_complete_snapshot(
    settings: Settings, chain: Stocked, client: Any
) -> None:
    wallet = text(chain.address())
    day = TIME_MS // 86_400_000 * 86_400_000

    def row(hour: int, worth: int | None) -> tuple[Any, ...]:
        # private `_time`: rows in the form that the role writes.
        at = snapshots._time(day + hour * HOUR_MS)
        reasons = [] if worth is not None else ["holdings_incomplete"]
        return (wallet, at, at, 100 + hour, worth, worth, worth and 0, not reasons, reasons, 0, 1)

    with clickhouse(settings) as server:
        table = snapshots.NET_WORTH_SNAPSHOTS
        made = [row(0, 5), row(1, -7 * 10**30), row(2, None), row(9, None)]
        server.insert(table.name, made, column_names=list(table.columns))
    asking, _ = client

    async def points(**query: Any) -> list[tuple[int, Any]]:
        answer = await asking.get(f"/api/wallets/{wallet}/networth", params=query)
        assert answer.status_code == 200, answer.text
        return [
            ((each["start_ms"] - day) // HOUR_MS, each["net_worth_usd_micros"])
            for each in answer.json()["points"]
        ]

    huge = str(-7 * 10**30)
    within = {"from": day, "to": day + 24 * HOUR_MS}
    assert await points(**within) == [(0, "5"), (1, huge), (2, None), (9, None)]
    assert await points(interval="4h", **within) == [(0, huge), (8, None)]
    assert await points(interval="1d", **within) == [(0, huge)]
    assert await points(**{"from": day + HOUR_MS + 5, "to": day + 2 * HOUR_MS}) == [(1, huge)]
    last = "2149-06-06"
    for interval in ("1h", "4h", "1d"):
        assert await points(**{"from": last, "to": last, "interval": interval}) == []
        assert await points(**{"from": 0, "to": 1, "interval": interval}) == []
    for wrong in ({"interval": "2h"}, {"from": day, "to": day}, {"from": 0}, {"from": "x"}):
        answer = await asking.get(f"/api/wallets/{wallet}/networth", params=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter"), wrong


async def test_watching_keeps_no_wallet_tracked_and_asks_for_what_positions_lack(
    settings: Settings, chain: Stocked
) -> None:
    borrower = await Borrower.begin(chain, 1_500)
    async with watching(settings):
        await borrower.seen(1.5)
    entries: Any = await chain.redis.xrange(ASKED_ACCOUNTS.make())
    asked = [name for _, fields in entries for name in fields]
    assert asked.count(b"lamports") == 1, "of a wallet that nothing happens to once a minute"
    assert b"wallet" not in asked
    assert b"rewards" not in asked


async def test_vaults_that_prices_of_positions_need_are_asked_for(
    settings: Settings, chain: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lent is an LP token: without its pool's vaults no snapshot would count it."""
    everything = (*registry.ALL, raydium_cpmm.PROTOCOL)
    monkeypatch.setattr(registry, "KINDS", registry.by_program(everything))
    pool, program = chain.address(), raydium_cpmm.POOL.program
    await chain.covers(*SHARE_PROGRAMS)
    await chain.put(pool, program, cpmm_pool(chain.address(), lp=COIN))
    tag = account_tag(text(pool))
    await chain.redis.sadd(POOLS_OF.make(tag=tag, mint=text(COIN)), pool)
    await Borrower.begin(chain, 1_500)

    async def asked() -> set[bytes]:
        entries: Any = await chain.redis.xrange(ASKED_ACCOUNTS.make())
        return {fields[b"account"] for _, fields in entries if b"account" in fields}

    async def are_asked() -> bool:
        return await asked() == {COIN_VAULT, SOL_VAULT}

    async with watching(settings):
        await eventually_async(are_asked)


async def test_sol_that_is_older_than_a_position_is_asked_for_before_net_worth_is_whole(
    settings: Settings, chain: Stocked
) -> None:
    borrower = await Borrower.begin(chain, 1_500)
    await borrower.owes(1_500)  # in a later slot than that of its SOL

    async def asked() -> int:
        entries: Any = await chain.redis.xrange(ASKED_ACCOUNTS.make())
        return sum(fields.get(b"lamports") == borrower.wallet for _, fields in entries)

    async with watching(settings):
        await eventually_async(asked)
        [partial] = await until_rows(settings, len)
        assert (partial["is_complete"], partial["reasons"]) == (False, ["native_outdated"])
        assert partial["net_worth_usd_micros"] is None
        before = await asked()

        async def is_asked_again() -> bool:
            return await asked() > before

        await eventually_async(is_asked_again)
        await chain.put(borrower.wallet, SYSTEM_PROGRAM, b"", lamports=SOL, slot=4_600)
        [whole] = await until_rows(settings, lambda found: found[0]["is_complete"])
        assert whole["net_worth_usd_micros"] == (150 + 3_000 + 5 - 2_000) * 10**6
    tracked = await chain.redis.zscore(TRACKED_WALLETS.make(), borrower.wallet)
    assert tracked == 1.0, "watching keeps no wallet tracked"


async def test_a_crossing_alerts_once_by_the_thresholds_of_clients(
    settings: Settings, chain: Stocked
) -> None:
    borrower = await Borrower.begin(chain, 3_000)
    async with watching(settings):
        for supplied, level in ((3_000, 3.0), (1_100, 1.1), (1_060, 1.06)):
            await borrower.owes(supplied)
            await borrower.seen(level)
        await borrower.owes(1_075)  # within the hysteresis: another reading changes nothing
        await advance(chain, TIME_MS + HOUR_MS)
        await until_rows(settings, lambda found: len(found) == 2)
        assert await borrower.level() == 1.06
    one = await alerts_of(chain.redis, borrower.name, 1.08)
    assert [(each["kind"], each["value"]) for each in one] == [("health_below", 1.06)]
    assert one[0]["protocol"] == "p01"
    assert one[0]["position_id"] == borrower.field.rpartition("/")[2]
    assert (one[0]["slot"], one[0]["wallet"]) == (SLOT, borrower.name)
    assert len(await alerts_of(chain.redis, borrower.name, 1.2)) == 1
    assert await alerts_of(chain.redis, borrower.name, 1.0) == []
    assert await alerts_of(chain.redis, borrower.name, None) == []
    ttl = await chain.redis.ttl(WATCHED.make(wallet=borrower.name))
    assert 0 < ttl <= (WATCHED.ttl_s or 0)


async def test_a_wallet_that_is_not_tracked_any_more_is_not_read(
    settings: Settings, chain: Stocked
) -> None:
    gone, here = await Borrower.begin(chain, 1_500), await Borrower.begin(chain, 1_500)
    async with watching(settings):
        await gone.seen(1.5)
        await chain.redis.zrem(TRACKED_WALLETS.make(), gone.wallet)
        await asyncio.sleep(1.5)
        await gone.owes(1_200)
        for supplied in (1_200, 1_100):
            await here.owes(supplied)
            await here.seen(supplied / 1_000)
        assert await gone.level() == 1.5


async def test_what_is_wrong_with_one_wallet_keeps_no_other_from_being_watched(
    settings: Settings, chain: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, whole = await Borrower.begin(chain, 1_500), await Borrower.begin(chain, 1_500)

    def failing(wallet: str, *given: Any, **named: Any) -> Change:
        if wallet == broken.name:
            raise ZeroDivisionError
        return step(wallet, *given, **named)

    monkeypatch.setattr(service, "advance", failing)
    async with watching(settings):
        for supplied in (1_500, 1_200):
            await whole.owes(supplied)
            await whole.seen(supplied / 1_000)
    assert await broken.level() is None


async def test_positions_of_a_wallet_whose_trades_are_unreadable_alert(
    settings: Settings, chain: Stocked
) -> None:
    borrower = await Borrower.begin(chain, 1_500)
    record = QUARANTINE.make(tag=wallet_tag(borrower.name), group="pnl")
    await chain.redis.hset(record, borrower.name, b"{}")
    try:
        async with watching(settings):
            await borrower.seen(1.5)
            await borrower.owes(1_100)
            await borrower.seen(1.1)
        assert await rows(settings) == []  # what it holds beside them is not known
    finally:
        await chain.redis.delete(record)
    assert len(await alerts_of(chain.redis, borrower.name, 1.2)) == 1


async def test_positions_of_a_wallet_whose_balances_are_unreadable_alert(
    settings: Settings, chain: Stocked
) -> None:
    """It is in quarantine once it trades again."""
    borrower = await Borrower.begin(chain, 1_500)
    balances = BALANCES.make(tag=wallet_tag(borrower.name), wallet=borrower.name)
    await chain.redis.hset(balances, mapping={chain.address(): b"?"})
    async with watching(settings):
        await borrower.seen(1.5)
        await borrower.owes(1_100)
        await borrower.seen(1.1)
    assert await rows(settings) == []
    assert len(await alerts_of(chain.redis, borrower.name, 1.2)) == 1


async def _never(*_: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("hangs", [False, True])
async def test_alerts_do_not_wait_for_what_clickhouse_has_of_a_wallet(
    settings: Settings, chain: Stocked, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    if hangs:
        monkeypatch.setattr(Stores, "query", _never)
    away = settings.model_copy(update={"clickhouse_url": "http://127.0.0.1:9"})
    borrower = await Borrower.begin(chain, 1_500)
    # It has not traded for long: its books were put away.
    await chain.redis.setbit(AWAY.make(tag=wallet_tag(borrower.name)), bit(borrower.wallet), 1)
    async with watching(away):
        await borrower.seen(1.5)
        await borrower.owes(1_100)
        await borrower.seen(1.1)
    assert len(await alerts_of(chain.redis, borrower.name, 1.2)) == 1


async def test_nothing_is_written_while_nothing_is_settled(
    settings: Settings, chain: Stocked
) -> None:
    borrower = await Borrower.begin(chain, 1_500)
    tag = account_tags()[0]
    await chain.redis.delete(WATERMARK.make(tag=tag, group="accounts"))
    early = metrics.READINGS.labels("early")
    before = value_of(early)
    async with watching(settings):
        await eventually_async(lambda: value_of(early) > before)
        assert await borrower.level() is None
        await chain.begin()
        await borrower.seen(1.5)
    assert {row["hour_ms"] for row in await rows(settings)} == {HOUR}


async def test_only_the_process_with_the_lease_writes_and_only_from_what_is_so(
    settings: Settings, chain: Stocked
) -> None:
    redis = connect_pipelined(settings)
    mine, other = Lease(redis), Lease(redis)
    wallet = text(chain.address())
    change = step(wallet, {}, [loan(1.05)], At(1, 1), partial=())
    assert change.alerts
    try:
        await mine.acquire()
        assert not await Book(redis, other).write(wallet, Known(), change)
        assert await events(chain.redis) == []
        book = Book(redis, mine)
        assert await book.write(wallet, Known(), change)
        assert not await book.write(wallet, Known(), change), "an answer that was lost: once only"
        assert len(await events(chain.redis)) == 1
        known = await book.read(wallet)
        assert (known.version, known.positions) == (1, change.put)
        assert await book.write(wallet, known, Change()), "nothing to write"
        await other.release(in_order=True)
        assert await chain.redis.get(WATCH_LEASE.make()) == mine.token.encode()
        await chain.redis.set(WATCH_LEASE.make(), "somebody else")
        async with asyncio.timeout(60):
            await mine.keep()
        assert not await book.write(wallet, known, change)
        assert await chain.redis.xlen(LIVE_POSITIONS.make()) == 1
    finally:
        await redis.aclose()


async def test_snapshots_wait_while_clickhouse_is_away(settings: Settings, chain: Stocked) -> None:
    away = settings.model_copy(update={"clickhouse_url": "http://127.0.0.1:9"})
    writer = snapshots.SnapshotWriter(away)
    taken = snapshots.Snapshot("w", HOUR, False, ())
    writer.put(taken)
    assert await writer.flush() == {}
    assert writer.has("w", HOUR, is_complete=False)
    assert not writer.has("w", HOUR, is_complete=True)
    await writer.close()
    borrower = await Borrower.begin(chain, 1_500)
    async with watching(away):
        await borrower.seen(1.5)  # alerts do not wait
    assert await rows(settings) == []


def test_sums_that_no_column_holds_are_null_and_say_so() -> None:
    worth: Any = {
        "value_usd_micros": str(1 << 200),
        "assets_usd_micros": str(1 << 200),
        "debts_usd_micros": "0",
        "reasons": [],
        "unpriced": 0,
    }
    positions: Any = {"pending": []}
    found = snapshots.snapshot("w", snapshots.Measured(worth, positions, 5, HOUR + 5))
    assert found.row[4:9] == (None, None, None, False, ["too_large"])
    assert (found.hour_ms, found.is_complete) == (HOUR, False)
